//! A real RocketMQ of one's own, read with its own client.

use crate::judge::{Judge, hex, parse, unhex};
use crate::{TempDir, ports, script};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A running name server and broker; killed and removed on drop.
#[derive(Debug)]
pub struct RocketMq {
    dir: TempDir,
    port: u16,
    options: Vec<String>,
}

/// One half of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The broker.
    Broker,
    /// The name server.
    Namesrv,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Broker => "broker",
            Part::Namesrv => "namesrv",
        }
    }
}

/// A message, as RocketMQ's client gives it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RocketMessage {
    /// Its queue.
    pub queue: u32,
    /// Its place in the queue.
    pub offset: u64,
    /// Its tag.
    pub tags: Option<String>,
    /// Its keys, with spaces between.
    pub keys: Option<String>,
    /// All its properties, the broker's own among them.
    pub properties: BTreeMap<String, String>,
    /// Its body.
    #[serde(deserialize_with = "body")]
    pub body: Vec<u8>,
}

fn body<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(deserializer).map(|text| unhex(&text))
}

impl RocketMessage {
    /// Its body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }
}

/// A message to send, to see that the judge reads what is there.
#[derive(Debug, Clone, Copy, Default)]
pub struct RocketSend<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its queue.
    pub queue: u32,
    /// Its tag; empty for none.
    pub tags: &'a str,
    /// Its keys; empty for none.
    pub keys: &'a str,
    /// Its body; not empty.
    pub body: &'a [u8],
}

impl RocketMq {
    /// Options with which only the user `hw` is let in, whose secret is `12345678`.
    pub const SIGN_IN: [&str; 10] = [
        "--set",
        "authenticationEnabled=true",
        "--set",
        "authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
        "--set",
        "authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
        "--set",
        r#"initAuthenticationUser={"username":"hw","password":"12345678"}"#,
        "--set",
        r#"innerClientAuthenticationCredentials={"accessKey":"hw","secretKey":"12345678"}"#,
    ];

    /// Starts a fresh one with options of `rocketmq.sh` (`--tls`, `--set`, `NAME=VALUE`).
    pub fn start(options: &[&str]) -> Self {
        let mut trouble = String::new();
        for _ in 0..3 {
            let mut rocketmq = Self::not_started(options);
            match rocketmq.try_start() {
                Ok(()) => return rocketmq,
                Err(text) => trouble = text,
            }
        }
        panic!("RocketMQ does not start: {trouble}");
    }

    /// One that has an address but does not run yet.
    pub fn not_started(options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self {
            dir: TempDir::new("rocketmq"),
            port: ports::free(4),
            options,
        }
    }

    /// Starts it.
    pub fn try_start(&mut self) -> Result<(), String> {
        let mut arguments = vec!["start".to_owned(), self.folder(), self.port.to_string()];
        arguments.extend(self.options.iter().cloned());
        script::run("rocketmq.sh", &arguments).map(|_| ())
    }

    fn folder(&self) -> String {
        self.dir.path().display().to_string()
    }

    /// The name server: what clients are told.
    pub fn namesrv(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The broker.
    pub fn broker(&self) -> String {
        format!("127.0.0.1:{}", self.port + 3)
    }

    /// The broker's log, for a failing test.
    pub fn log(&self) -> PathBuf {
        self.dir.path().join("broker.log")
    }

    fn control(&self, verb: &str, part: Option<Part>) {
        let mut arguments = vec![verb.to_owned(), self.folder()];
        arguments.extend(part.map(|part| part.name().to_owned()));
        script::run("rocketmq.sh", &arguments).expect("the script does what it says");
    }

    /// An orderly stop; the broker takes its time: 13 s.
    pub fn stop(&self) {
        self.control("stop", None);
    }

    /// A crash of both.
    pub fn kill(&self) {
        self.control("kill", None);
    }

    /// A crash of one.
    pub fn kill_part(&self, part: Part) {
        self.control("kill", Some(part));
    }

    /// Starts again what was stopped or killed, with the same data.
    pub fn restart(&self) {
        self.control("restart", None);
    }

    /// Starts one part again.
    pub fn restart_part(&self, part: Part) {
        self.control("restart", Some(part));
    }

    /// One client serves all brokers of this process.
    fn ask(&self, commands: impl IntoIterator<Item = String>) -> Vec<Vec<u8>> {
        static CLIENT: OnceLock<Judge> = OnceLock::new();
        let mut lines = vec![self.namesrv()];
        lines.extend(commands);
        CLIENT.get_or_init(|| Judge::start("rocketmq")).ask(&lines)
    }

    /// Makes a topic, or sets the number of its queues.
    pub fn create_topic(&self, topic: &str, queues: u32) {
        self.ask([format!("topic\t{topic}\t{queues}")]);
    }

    /// Removes a topic.
    pub fn drop_topic(&self, topic: &str) {
        self.ask([format!("drop\t{topic}")]);
    }

    /// Removes the oldest file of the log of a broker that does not run, as retention does.
    pub fn forget_oldest(&self) {
        let log = self.dir.path().join("store/commitlog");
        let files = std::fs::read_dir(&log).expect("there is a log");
        let mut files: Vec<PathBuf> = files.filter_map(|f| f.ok().map(|f| f.path())).collect();
        files.sort();
        assert!(files.len() > 1, "the log has one file only");
        std::fs::remove_file(&files[0]).expect("the file can be removed");
    }

    /// Topics that are not RocketMQ's own, in order.
    pub fn topics(&self) -> Vec<String> {
        let lines = self.ask(["topics".to_owned()]);
        lines.iter().map(|line| parse(line)).collect()
    }

    /// Sends messages with RocketMQ's own client, one after the other.
    pub fn send(&self, messages: &[RocketSend<'_>]) {
        self.ask(messages.iter().map(|message| {
            let RocketSend {
                topic,
                queue,
                tags,
                keys,
                body,
            } = message;
            format!("send\t{topic}\t{queue}\t{tags}\t{keys}\t{}", hex(body))
        }));
    }

    /// All messages of a topic that consumers see now: queue by queue, each in its order.
    pub fn messages(&self, topic: &str) -> Vec<RocketMessage> {
        let lines = self.ask([format!("dump\t{topic}")]);
        lines.iter().map(|line| parse(line)).collect()
    }
}

impl Drop for RocketMq {
    fn drop(&mut self) {
        if self.dir.path().join("broker.conf").exists() {
            let _ = script::run("rocketmq.sh", &["kill", &self.folder()]);
        }
    }
}
