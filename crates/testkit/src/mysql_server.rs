//! A real MySQL or MariaDB of one's own.

use crate::sql::Sql;
use crate::{TempDir, ports, script};
use std::path::{Path, PathBuf};

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// MariaDB 10.11.
    Mariadb10,
    /// MariaDB 11.4.
    Mariadb11,
    /// MySQL 8.0.
    Mysql80,
    /// MySQL 9.7.
    Mysql97,
}

impl Flavour {
    /// All of them.
    pub const ALL: [Flavour; 4] = [
        Flavour::Mysql97,
        Flavour::Mysql80,
        Flavour::Mariadb10,
        Flavour::Mariadb11,
    ];

    /// As the scripts call it.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Mariadb10 => "mariadb10",
            Flavour::Mariadb11 => "mariadb11",
            Flavour::Mysql80 => "mysql80",
            Flavour::Mysql97 => "mysql97",
        }
    }

    /// Whether it is a MariaDB.
    pub fn is_mariadb(self) -> bool {
        matches!(self, Flavour::Mariadb10 | Flavour::Mariadb11)
    }

    /// As a pipeline's config calls the source.
    pub fn source_key(self) -> &'static str {
        if self.is_mariadb() {
            "mariadb"
        } else {
            "mysql"
        }
    }

    /// The statement that names the binlog's end.
    pub fn show_log_end(self) -> &'static str {
        match self {
            Flavour::Mysql97 => "SHOW BINARY LOG STATUS",
            _ => "SHOW MASTER STATUS",
        }
    }

    /// The statement that begins a new binary log with number 1 and forgets all GTIDs.
    pub fn reset_log(self) -> &'static str {
        match self {
            Flavour::Mysql97 => "RESET BINARY LOGS AND GTIDS",
            _ => "RESET MASTER",
        }
    }
}

/// The account that Headwater uses in the tests: the least that it needs.
pub const USER: &str = "headwater";
/// Its password: characters that have to be quoted somewhere.
pub const PASSWORD: &str = "pa#s:w%d@1";
/// The password in a URL.
pub const PASSWORD_IN_URL: &str = "pa%23s%3Aw%25d%401";

/// A running server; killed and removed on drop.
#[derive(Debug)]
pub struct MysqlServer {
    flavour: Flavour,
    dir: TempDir,
    port: u16,
}

impl MysqlServer {
    /// Starts a fresh server with further server options, and makes the least-privilege account.
    pub fn start(flavour: Flavour, options: &[&str]) -> Self {
        let mut trouble = String::new();
        for _ in 0..3 {
            match Self::try_start(flavour, options, ports::free(1)) {
                Ok(server) => return server,
                Err(text) => trouble = text,
            }
        }
        panic!("{} does not start: {trouble}", flavour.name());
    }

    /// As [`start`](Self::start), on a port of one's choice: another server behind the same name.
    pub fn start_at(flavour: Flavour, options: &[&str], port: u16) -> Self {
        Self::try_start(flavour, options, port).expect("the server starts")
    }

    fn try_start(flavour: Flavour, options: &[&str], port: u16) -> Result<Self, String> {
        let dir = TempDir::new(flavour.name());
        let folder = dir.path().display().to_string();
        let number = port.to_string();
        let mut arguments = vec!["start", flavour.name(), &folder, &number];
        arguments.extend(options);
        script::run("mysql.sh", &arguments)?;
        let server = Self { flavour, dir, port };
        server.create_user();
        Ok(server)
    }

    fn create_user(&self) {
        // On MariaDB, SHOW MASTER STATUS needs BINLOG MONITOR.
        let privileges = match self.flavour {
            Flavour::Mariadb10 | Flavour::Mariadb11 => "SELECT, REPLICATION SLAVE, BINLOG MONITOR",
            _ => "SELECT, REPLICATION SLAVE, REPLICATION CLIENT",
        };
        let mut sql = self.sql();
        sql.exec(&format!(
            "CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'"
        ));
        sql.exec(&format!("GRANT {privileges} ON *.* TO {USER}@'127.0.0.1'"));
    }

    /// Its flavour.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Its TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder: `data/binlog.NNNNNN`, `tls/ca.pem`, `err.log`.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Its binary logs, oldest first.
    pub fn binlogs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder().join("data")).expect("a server has data");
        let mut paths: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
        paths.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // MariaDB 11 keeps an index `binlog.NNNNNN.idx` beside each.
            let number = name.strip_prefix("binlog.").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        paths.sort();
        paths
    }

    /// A connection as root.
    pub fn sql(&self) -> Sql {
        Sql::root(self.port)
    }

    /// The URL of the least-privilege account.
    pub fn url(&self) -> String {
        format!("mysql://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{}", self.port)
    }

    /// The `source:` part of a config: one table pattern, further lines under the source's own key.
    pub fn source_yaml(&self, tables: &str, more: &[&str]) -> String {
        let mut text = format!(
            "source:\n  {}:\n    url: \"{}\"\n    tables: [{tables}]\n",
            self.flavour.source_key(),
            self.url()
        );
        for line in more {
            text.push_str("    ");
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    fn control(&self, verb: &str, more: &[&str]) {
        let folder = self.folder().display().to_string();
        let mut arguments = vec![verb, &folder];
        arguments.extend(more);
        script::run("mysql.sh", &arguments).expect("the script does what it says");
    }

    /// Forgets its accounts for tests and its binlog, before it becomes a replica for the first time.
    pub fn forget(&self) {
        let reset = self.flavour.reset_log();
        self.sql()
            .exec(&format!("DROP USER {USER}@'127.0.0.1'; {reset}"));
    }

    /// Becomes a replica of `source`, by GTIDs.
    pub fn follow(&self, source: &MysqlServer) {
        let port = source.port();
        let sql = match self.flavour.is_mariadb() {
            true => format!(
                "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_current_pos; CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'root', \
                 MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos; START SLAVE"
            ),
            false => format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = \
                 'root', SOURCE_CONNECT_RETRY = 1, SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1; \
                 START REPLICA"
            ),
        };
        self.sql().exec(&sql);
    }

    /// Waits until everything that `source` has committed is applied here.
    pub fn wait_for(&self, source: &MysqlServer) {
        let (position, wait) = match self.flavour.is_mariadb() {
            true => ("@@gtid_binlog_pos", "MASTER_GTID_WAIT"),
            false => ("@@gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET"),
        };
        let gtids = source.sql().value(&format!("SELECT {position}"));
        let went = self.sql().value(&format!("SELECT {wait}('{gtids}', 60)"));
        assert_eq!(went, "0", "the replica did not get as far as {gtids}");
    }

    /// Is no replica any more.
    pub fn unfollow(&self) {
        let sql = match self.flavour.is_mariadb() {
            true => "STOP SLAVE; RESET SLAVE ALL",
            false => "STOP REPLICA; RESET REPLICA ALL",
        };
        self.sql().exec(sql);
    }

    /// An orderly stop.
    pub fn stop(&self) {
        self.control("stop", &[]);
    }

    /// A crash.
    pub fn kill(&self) {
        self.control("kill", &[]);
    }

    /// Starts again, with other options where some are given.
    pub fn restart(&self, options: &[&str]) {
        self.control("restart", options);
    }
}

impl Drop for MysqlServer {
    fn drop(&mut self) {
        let _ = script::run("mysql.sh", &["kill".as_ref(), self.folder().as_os_str()]);
    }
}
