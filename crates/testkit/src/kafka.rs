//! A real Kafka of one's own.

use crate::{TempDir, ports, script};
use std::path::{Path, PathBuf};

/// A running broker; killed and removed on drop.
#[derive(Debug)]
pub struct Kafka {
    dir: TempDir,
    port: u16,
    options: Vec<String>,
}

impl Kafka {
    /// Starts a fresh broker with options of `kafka.sh` (`--sasl-ssl`, `--message-max`, …).
    pub fn start(options: &[&str]) -> Self {
        let mut trouble = String::new();
        for _ in 0..3 {
            let mut kafka = Self::not_started(options);
            match kafka.try_start() {
                Ok(()) => return kafka,
                Err(text) => trouble = text,
            }
        }
        panic!("Kafka does not start: {trouble}");
    }

    /// A broker that has an address but does not run yet.
    pub fn not_started(options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self {
            dir: TempDir::new("kafka"),
            port: ports::free(3),
            options,
        }
    }

    /// Starts it.
    pub fn try_start(&mut self) -> Result<(), String> {
        let mut arguments = vec!["start".to_owned(), self.folder(), self.port.to_string()];
        arguments.extend(self.options.iter().cloned());
        script::run("kafka.sh", &arguments).map(|_| ())
    }

    fn folder(&self) -> String {
        self.dir.path().display().to_string()
    }

    /// The plain listener.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The listener with authentication; needs `--sasl` or `--sasl-ssl`.
    pub fn bootstrap_sasl(&self) -> String {
        format!("127.0.0.1:{}", self.port + 1)
    }

    /// The authority that signed the broker's certificate.
    pub fn ca(&self) -> PathBuf {
        self.dir.path().join("tls/ca.pem")
    }

    /// Its log, for a failing test.
    pub fn log(&self) -> PathBuf {
        self.path().join("kafka.log")
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// An orderly stop.
    pub fn stop(&self) {
        script::run("kafka.sh", &["stop", &self.folder()]).expect("the broker stops");
    }

    /// A crash.
    pub fn kill(&self) {
        script::run("kafka.sh", &["kill", &self.folder()]).expect("the broker is killed");
    }

    /// Starts again with the same data.
    pub fn restart(&self) {
        script::run("kafka.sh", &["restart", &self.folder()]).expect("the broker starts again");
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if self.path().join("server.properties").exists() {
            let _ = script::run("kafka.sh", &["kill", &self.folder()]);
        }
    }
}
