//! A real ClickHouse engine of one's own, and a client for it that is not ours.

use crate::{TempDir, ports, script};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What an administrator sets on a server; the default is a server that allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admin {
    /// Settings of the account's profile: `readonly`, `1`.
    pub profile: Vec<(String, String)>,
    /// All that the account may do, as GRANT statements without TO; empty for everything.
    pub grants: Vec<String>,
    /// Row policies: database, table, condition.
    pub policies: Vec<(String, String, String)>,
    /// The disk counts as full.
    pub is_full: bool,
    /// There is a cluster `one`, of which no server answers.
    pub has_cluster: bool,
}

impl Admin {
    /// The account may only read; `level` is 1, or 2 when it may change settings.
    pub fn readonly(level: u32) -> Self {
        Self {
            profile: vec![("readonly".into(), level.to_string())],
            ..Self::default()
        }
    }

    /// The account may do this and nothing else.
    pub fn granting(grants: &[&str]) -> Self {
        Self {
            grants: grants.iter().map(|&grant| grant.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// The disk takes nothing more.
    pub fn full() -> Self {
        Self {
            is_full: true,
            ..Self::default()
        }
    }

    /// Server and account settings in one file, which names itself as the accounts' one.
    fn write(&self, dir: &Path) {
        let file = dir.join("config.xml");
        if *self == Self::default() {
            let _ = std::fs::remove_file(&file);
            return;
        }
        let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
        let mut profile = String::new();
        for (name, value) in &self.profile {
            let _ = write!(profile, "<{name}>{}</{name}>", escaped(value));
        }
        let mut account = String::new();
        if !self.grants.is_empty() {
            let grants = self.grants.iter();
            let queries: String = grants
                .map(|grant| format!("<query>{}</query>", escaped(grant)))
                .collect();
            let _ = write!(account, "<grants>{queries}</grants>");
        }
        let policies: String = self
            .policies
            .iter()
            .map(|(database, table, filter)| {
                let filter = escaped(filter);
                format!("<{database}><{table}><filter>{filter}</filter></{table}></{database}>")
            })
            .collect();
        if !policies.is_empty() {
            let _ = write!(account, "<databases>{policies}</databases>");
        }
        let storage = match self.is_full {
            true => {
                "<storage_configuration><disks><default><keep_free_space_bytes>1000000000000000\
                 </keep_free_space_bytes></default></disks></storage_configuration>"
            }
            false => "",
        };
        let cluster = match self.has_cluster {
            true => {
                "<remote_servers><one><shard><replica><host>127.0.0.1</host><port>9</port></replica></shard>\
                 </one></remote_servers>"
            }
            false => "",
        };
        let text = format!(
            "<clickhouse><users_config>{}</users_config>{storage}{cluster}<profiles><default>\
             {profile}</default></profiles><quotas><default/></quotas><users><default><password></password>\
             <networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>{account}\
             </default></users></clickhouse>",
            file.display()
        );
        std::fs::write(&file, text).expect("the settings can be written");
    }
}

/// A running engine; killed and removed on drop.
#[derive(Debug)]
pub struct ClickHouse {
    dir: TempDir,
    port: u16,
}

impl ClickHouse {
    /// Starts a fresh engine.
    pub fn start() -> Self {
        Self::start_as(&Admin::default())
    }

    /// As [`start`](Self::start), with what an administrator set.
    pub fn start_as(admin: &Admin) -> Self {
        let mut trouble = String::new();
        for _ in 0..3 {
            let dir = TempDir::new("clickhouse");
            admin.write(dir.path());
            let port = ports::free(1);
            let folder = dir.path().display().to_string();
            let arguments = ["start".to_owned(), folder, port.to_string()];
            match script::run("clickhouse.sh", &arguments) {
                Ok(_) => return Self { dir, port },
                Err(text) => trouble = text,
            }
        }
        panic!("ClickHouse does not start: {trouble}");
    }

    /// Starts a fresh engine that speaks HTTPS too, with a certificate of its own authority.
    pub fn start_tls() -> Self {
        let (dir, ports) = (TempDir::new("clickhouse"), ports::free(2));
        let folder = dir.path().display().to_string();
        let tls = dir.path().join("tls");
        script::run("tls.sh", &[&tls]).expect("certificates can be made");
        std::fs::write(tls.join("port"), format!("{}\n", ports + 1)).expect("it can be written");
        let arguments = ["start".to_owned(), folder, ports.to_string()];
        script::run("clickhouse.sh", &arguments).expect("it starts");
        Self { dir, port: ports }
    }

    /// Its HTTPS interface, after [`start_tls`](Self::start_tls).
    pub fn tls_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port + 1)
    }

    /// The authority that it is known by, after [`start_tls`](Self::start_tls).
    pub fn authority(&self) -> PathBuf {
        self.dir.path().join("tls/ca.pem")
    }

    /// Its HTTP interface.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// CPU time that the engine has used, seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let pid = std::fs::read_to_string(self.dir.path().join("pid")).unwrap_or_default();
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        let ticks = |at: usize| {
            let word = after_name.split(' ').nth(at);
            word.and_then(|word| word.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        (ticks(11) + ticks(12)) / 100.0
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    fn control(&self, verb: &str) {
        let folder = self.dir.path().display().to_string();
        script::run("clickhouse.sh", &[verb, &folder]).expect("the script does what it says");
    }

    /// A crash.
    pub fn kill(&self) {
        self.control("kill");
    }

    /// A crash, and a start with the same data.
    pub fn restart(&self) {
        self.control("restart");
    }

    /// A crash, and a start with the same data after an administrator changed something.
    pub fn restart_as(&self, admin: &Admin) {
        admin.write(self.dir.path());
        self.restart();
    }

    /// A connection.
    pub fn client(&self) -> Http {
        Http {
            port: self.port,
            stream: None,
            settings: String::new(),
        }
    }

    /// The answer to a query that must succeed, as text.
    pub fn query(&self, sql: &str) -> String {
        self.client().query(sql)
    }

    /// Rows of a query that must succeed; NULL is `\N`.
    pub fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        self.client().rows(sql)
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        let _ = script::run(
            "clickhouse.sh",
            &["kill".as_ref(), self.dir.path().as_os_str()],
        );
    }
}

/// A kept connection over plain HTTP/1.1.
#[derive(Debug)]
pub struct Http {
    port: u16,
    stream: Option<BufReader<TcpStream>>,
    settings: String,
}

impl Http {
    /// Sends a setting with every query.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.settings, "&{name}={value}");
        self
    }

    /// The answer, or the server's complaint; a connection that broke is an error too.
    pub fn try_query(&mut self, sql: &str) -> Result<Vec<u8>, String> {
        self.ask("", sql.as_bytes())
    }

    /// Rows of a format after an INSERT that must succeed.
    pub fn insert(&mut self, sql: &str, data: &[u8]) {
        let mut query = String::from("&query=");
        for byte in sql.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => query.push(char::from(byte)),
                _ => {
                    let _ = write!(query, "%{byte:02X}");
                }
            }
        }
        if let Err(complaint) = self.ask(&query, data) {
            panic!("{complaint}\n  in: {sql}");
        }
    }

    fn ask(&mut self, query: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        let answer = self.exchange(query, body);
        if answer.is_err() {
            self.stream = None;
        }
        let (status, body) = answer.map_err(|error| format!("no answer: {error}"))?;
        match status {
            200 => Ok(body),
            _ => Err(String::from_utf8_lossy(&body).into_owned()),
        }
    }

    fn exchange(&mut self, query: &str, data: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(300)))?;
            self.stream = Some(BufReader::new(stream));
        }
        let stream = self.stream.as_mut().expect("it was just connected");
        let mut request = format!(
            "POST /?enable_http_compression=0{}{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            self.settings,
            data.len()
        )
        .into_bytes();
        request.extend_from_slice(data);
        stream.get_mut().write_all(&request)?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let mut length = 0;
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok((status, body))
    }

    /// The answer to a query that must succeed, as text.
    pub fn query(&mut self, sql: &str) -> String {
        match self.try_query(sql) {
            Ok(body) => String::from_utf8_lossy(&body).trim_end().to_owned(),
            Err(complaint) => panic!("{complaint}\n  in: {sql}"),
        }
    }

    /// Rows of a query that must succeed; NULL is `\N`.
    pub fn rows(&mut self, sql: &str) -> Vec<Vec<String>> {
        let text = self.query(sql);
        text.lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect()
    }

    /// One number; 0 where there is none.
    pub fn number(&mut self, sql: &str) -> u64 {
        self.query(sql).parse().unwrap_or(0)
    }

    /// Waits until a query answers with this.
    pub fn wait(&mut self, sql: &str, wanted: &str, limit: Duration) {
        let end = Instant::now() + limit;
        loop {
            let found = self.try_query(sql);
            let text = match &found {
                Ok(body) => String::from_utf8_lossy(body).trim_end().to_owned(),
                Err(complaint) => complaint.clone(),
            };
            if text == wanted {
                return;
            }
            assert!(
                Instant::now() < end,
                "not within {limit:?}: {sql}\n  wanted: {wanted}\n  found: {text}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
