//! Where the server's log ends, asked each second by a thread of its own.

use super::server::{Server, log_files};
use crate::config::{Endpoint, TlsConfig};
use crate::wire::{Connection, WireFailure};
use change::position::file_number;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The last answer.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// File and offset of the end; empty when not known: not asked yet, or the server does not answer.
    pub file: String,
    /// Offset in it.
    pub offset: u64,
    /// Files and their sizes, oldest first; empty when they may not be listed.
    pub files: Vec<(String, u64)>,
}

impl Head {
    /// Log bytes between a place and the end; none when it cannot be told.
    pub fn bytes_after(&self, file: &str, offset: u64) -> Option<u64> {
        if self.file.is_empty() || file.is_empty() {
            return None;
        }
        let (from, to) = (file_number(file), file_number(&self.file));
        if from == to {
            return Some(self.offset.saturating_sub(offset));
        }
        if from > to {
            return Some(0);
        }
        let size_of = |number: u64| {
            let found = self
                .files
                .iter()
                .find(|(name, _)| file_number(name) == number);
            found.map(|(_, size)| *size)
        };
        let mut bytes = size_of(from)?.saturating_sub(offset) + self.offset;
        for number in from + 1..to {
            bytes += size_of(number)?;
        }
        Some(bytes)
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct HeadWatch {
    head: Arc<Mutex<Head>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

const PERIOD: Duration = Duration::from_secs(1);

impl HeadWatch {
    /// Starts asking.
    pub fn start(endpoint: Endpoint, tls: TlsConfig, server: Server) -> Self {
        let head = Arc::new(Mutex::new(Head::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::clone(&head), Arc::clone(&stop));
        let watch = move || {
            let mut connection = None;
            while !stopped.load(Ordering::Relaxed) {
                match ask(&mut connection, &endpoint, &tls, &server) {
                    Ok(answer) => *shared.lock().unwrap_or_else(PoisonError::into_inner) = answer,
                    Err(error) => {
                        tracing::debug!(%error, "could not ask for the log's end");
                        connection = None;
                        *shared.lock().unwrap_or_else(PoisonError::into_inner) = Head::default();
                    }
                }
                std::thread::park_timeout(PERIOD);
            }
        };
        let thread = std::thread::Builder::new()
            .name("mysql-head".into())
            .spawn(watch)
            .ok();
        Self { head, stop, thread }
    }

    /// The last answer.
    pub fn head(&self) -> Head {
        self.head
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for HeadWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It may sit in a statement; it ends by itself after that.
            thread.thread().unpark();
        }
    }
}

fn ask(
    connection: &mut Option<Connection>,
    endpoint: &Endpoint,
    tls: &TlsConfig,
    server: &Server,
) -> Result<Head, WireFailure> {
    let connection = match connection {
        Some(connection) => connection,
        none => none.insert(Connection::open(endpoint, tls)?),
    };
    let (file, offset) = server.head_place(connection)?.unwrap_or_default();
    // Listing files may need one more privilege; without it only bytes within one file are known.
    let files = match log_files(connection) {
        Ok(files) => files,
        Err(WireFailure::Server { .. }) => Vec::new(),
        Err(other) => return Err(other),
    };
    Ok(Head {
        file,
        offset,
        files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_across_files_also_past_the_millionth() {
        let head = Head {
            file: "bin.1000001".into(),
            offset: 50,
            files: vec![
                ("bin.999999".into(), 1000),
                ("bin.1000000".into(), 500),
                ("bin.1000001".into(), 40),
            ],
        };
        assert_eq!(head.bytes_after("bin.999999", 900), Some(650));
        assert_eq!(head.bytes_after("bin.1000001", 60), Some(0));
        assert_eq!(head.bytes_after("bin.999998", 4), None);
    }
}
