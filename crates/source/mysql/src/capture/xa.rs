//! Prepared XA transactions: their events wait here until XA COMMIT counts their rows.
//!
//! Shape of an entry: each event without its checksum, with 4 bytes of length before it. Small ones
//! are control records of the journal; large ones lie in a file of the spool directory, which the
//! control record names.

use change::SourceError;
use change::contract::ErrorKind;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes up to which a prepared transaction stays in memory and in a control record.
const INLINE_BYTES_MAX: usize = 1 << 20;

/// The events of one prepared transaction.
#[derive(Debug)]
pub struct Prepared {
    memory: Vec<u8>,
    file: Option<(PathBuf, File)>,
}

/// All prepared transactions by XID, and where large ones lie.
#[derive(Debug, Default)]
pub struct XaStore {
    dir: Option<PathBuf>,
    prepared: HashMap<String, Prepared>,
    finished: Vec<(Instant, PathBuf)>,
}

/// How long a finished transaction's file stays; a journal syncs within milliseconds.
const FINISHED_KEPT: Duration = Duration::from_secs(60);

fn failed(operation: &str, path: &Path, error: &std::io::Error) -> SourceError {
    SourceError::new(ErrorKind::Unavailable, operation, error.to_string())
        .at(path.display().to_string())
}

impl Prepared {
    fn new() -> Self {
        Self {
            memory: Vec::new(),
            file: None,
        }
    }

    fn push(&mut self, event: &[u8], path: impl FnOnce() -> PathBuf) -> Result<(), SourceError> {
        self.memory
            .extend_from_slice(&(event.len() as u32).to_le_bytes());
        self.memory.extend_from_slice(event);
        if self.memory.len() <= INLINE_BYTES_MAX {
            return Ok(());
        }
        if self.file.is_none() {
            let path = path();
            let file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .write(true)
                .mode(0o600)
                .open(&path)
                .map_err(|error| failed("spool a prepared transaction", &path, &error))?;
            self.file = Some((path, file));
        }
        self.spill()
    }

    fn spill(&mut self) -> Result<(), SourceError> {
        if let Some((path, file)) = &mut self.file {
            file.write_all(&self.memory)
                .map_err(|error| failed("spool a prepared transaction", path, &error))?;
            self.memory.clear();
        }
        Ok(())
    }

    /// Calls `each` with every event in order.
    pub fn replay(
        &self,
        mut each: impl FnMut(&[u8]) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let Some((path, _)) = &self.file else {
            return replay_from(&mut &self.memory[..], Path::new("memory"), &mut each);
        };
        let file = File::open(path)
            .map_err(|error| failed("read a prepared transaction", path, &error))?;
        replay_from(&mut std::io::BufReader::new(file), path, &mut each)
    }
}

fn replay_from(
    from: &mut impl Read,
    path: &Path,
    each: &mut dyn FnMut(&[u8]) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let fail = |error: std::io::Error| failed("read a prepared transaction", path, &error);
    let mut event = Vec::new();
    loop {
        let mut length = [0u8; 4];
        match from.read(&mut length[..1]).map_err(fail)? {
            0 => return Ok(()),
            _ => from.read_exact(&mut length[1..]).map_err(fail)?,
        }
        event.clear();
        let wanted = u64::from(u32::from_le_bytes(length));
        let got = from
            .by_ref()
            .take(wanted)
            .read_to_end(&mut event)
            .map_err(fail)?;
        if got as u64 != wanted {
            return Err(fail(std::io::ErrorKind::UnexpectedEof.into()));
        }
        each(&event)?;
    }
}

/// XIDs compare without case and blanks: `X'6A'` is `x'6a'`.
pub fn normal_xid(text: &str) -> String {
    let cut = text.to_ascii_lowercase();
    cut.trim_end_matches(" one phase")
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect()
}

impl XaStore {
    /// Keeps large transactions in `dir`, else in the system's temporary directory.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self {
            dir,
            prepared: HashMap::new(),
            finished: Vec::new(),
        }
    }

    /// Starts (or starts again) the transaction `xid`.
    pub fn start(&mut self, xid: &str) {
        self.prepared.insert(xid.to_owned(), Prepared::new());
    }

    /// Adds an event, header and all, without checksum.
    pub fn push(&mut self, xid: &str, event: &[u8]) -> Result<(), SourceError> {
        let dir = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        let name = format!(
            "xa-{:016x}-{}.spool",
            change::batch::key_token_of_bytes(xid.as_bytes()),
            std::process::id()
        );
        match self.prepared.get_mut(xid) {
            Some(prepared) => prepared.push(event, || dir.join(name)),
            None => Ok(()),
        }
    }

    /// The control value of a transaction that is now prepared; none if it changed nothing captured.
    pub fn seal(&mut self, xid: &str) -> Result<Option<Vec<u8>>, SourceError> {
        let Some(prepared) = self.prepared.get_mut(xid) else {
            return Ok(None);
        };
        if prepared.memory.is_empty() && prepared.file.is_none() {
            self.prepared.remove(xid);
            return Ok(None);
        }
        prepared.spill()?;
        Ok(Some(match &prepared.file {
            None => [&[0][..], &prepared.memory].concat(),
            Some((path, file)) => {
                file.sync_data()
                    .map_err(|error| failed("spool a prepared transaction", path, &error))?;
                [&[1][..], path.to_string_lossy().as_bytes()].concat()
            }
        }))
    }

    /// Takes a transaction back from its control record.
    pub fn restore(&mut self, xid: &str, value: &[u8]) -> Result<(), SourceError> {
        let prepared = match value.split_first() {
            Some((0, events)) => Prepared {
                memory: events.to_vec(),
                file: None,
            },
            Some((1, path)) => {
                let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
                let file = File::open(&path)
                    .map_err(|error| failed("open a prepared transaction", &path, &error))?;
                Prepared {
                    memory: Vec::new(),
                    file: Some((path, file)),
                }
            }
            _ => Prepared::new(),
        };
        self.prepared.insert(xid.to_owned(), prepared);
        Ok(())
    }

    /// Takes a transaction out, to be replayed or forgotten. Its file stays for a while: until the
    /// journal holds the transaction's end, a restart needs it.
    pub fn take(&mut self, xid: &str) -> Option<Prepared> {
        self.finished.retain(|(since, path)| {
            let keep = since.elapsed() < FINISHED_KEPT;
            if !keep {
                let _ = std::fs::remove_file(path);
            }
            keep
        });
        let prepared = self.prepared.remove(xid)?;
        if let Some(path) = prepared.path() {
            self.finished.push((Instant::now(), path.clone()));
        }
        Some(prepared)
    }
}

impl Prepared {
    /// Its spool file, if it has one.
    fn path(&self) -> Option<&PathBuf> {
        self.file.as_ref().map(|(path, _)| path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back_from_memory_and_from_the_spool() {
        for size in [10, 700_000] {
            let mut store = XaStore::new(None);
            let xid = format!("x'{size:x}',x'',1");
            store.start(&xid);
            for byte in 0..4u8 {
                store.push(&xid, &vec![byte; size]).unwrap();
            }
            let value = store.seal(&xid).unwrap().unwrap();
            let mut restored = XaStore::new(None);
            restored.restore(&xid, &value).unwrap();
            let prepared = restored.take(&xid).unwrap();
            let mut seen = Vec::new();
            prepared
                .replay(|event| {
                    seen.push((event.len(), event[0]));
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, [(size, 0), (size, 1), (size, 2), (size, 3)]);
            if let Some(path) = prepared.path() {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    #[test]
    fn an_xid_is_the_same_in_every_spelling() {
        assert_eq!(normal_xid("X'6A', X'',1 ONE PHASE"), "x'6a',x'',1");
    }
}
