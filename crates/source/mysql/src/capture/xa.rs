//! Prepared XA transactions: their events wait here until XA COMMIT counts their rows.
//!
//! Shape of an entry: each event without its checksum, with 4 bytes of length before it. Small ones
//! are control records of the journal; large ones lie in a file of the spool directory, which the
//! control record names.

use change::SourceError;
use change::contract::ErrorKind;
use change::spool::{Spool, SpoolFile};
use std::collections::HashMap;
use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes up to which a prepared transaction stays in memory and in a control record.
const INLINE_BYTES_MAX: usize = 1 << 20;

/// The events of one prepared transaction.
pub struct Prepared {
    memory: Vec<u8>,
    spooled: Option<Spooled>,
}

/// The part of a prepared transaction that lies in a file.
struct Spooled {
    spool: Arc<dyn Spool>,
    name: String,
    /// Set until the file is finished.
    file: Option<Box<dyn SpoolFile>>,
}

/// All prepared transactions by XID, and where large ones lie.
#[derive(Default)]
pub struct XaStore {
    spool: Option<Arc<dyn Spool>>,
    prepared: HashMap<String, Prepared>,
    finished: Vec<(Instant, String)>,
    next_file: u64,
}

/// How long a finished transaction's file stays; a journal syncs within milliseconds.
const FINISHED_KEPT: Duration = Duration::from_secs(60);

fn failed(operation: &str, name: &str, error: &std::io::Error) -> SourceError {
    let failed = SourceError::new(ErrorKind::Unavailable, operation, error.to_string()).at(name);
    match error.kind() {
        IoErrorKind::StorageFull => {
            failed.hint("a prepared XA transaction waits in the journal's directory until it ends")
        }
        _ => failed,
    }
}

impl Prepared {
    fn new() -> Self {
        Self {
            memory: Vec::new(),
            spooled: None,
        }
    }

    fn push(
        &mut self,
        event: &[u8],
        spool: Option<&Arc<dyn Spool>>,
        name: impl FnOnce() -> String,
    ) -> Result<(), SourceError> {
        self.memory
            .extend_from_slice(&(event.len() as u32).to_le_bytes());
        self.memory.extend_from_slice(event);
        let Some(spool) = spool.filter(|_| self.memory.len() > INLINE_BYTES_MAX) else {
            return Ok(());
        };
        if self.spooled.is_none() {
            let name = name();
            let file = spool
                .create(&name)
                .map_err(|error| failed("spool a prepared transaction", &name, &error))?;
            self.spooled = Some(Spooled {
                spool: Arc::clone(spool),
                name,
                file: Some(file),
            });
        }
        self.spill()
    }

    fn spill(&mut self) -> Result<(), SourceError> {
        if let Some(Spooled {
            file: Some(file),
            name,
            ..
        }) = &mut self.spooled
        {
            file.write_all(&self.memory)
                .map_err(|error| failed("spool a prepared transaction", name, &error))?;
            self.memory.clear();
        }
        Ok(())
    }

    /// Calls `each` with every event in order.
    pub fn replay(
        &self,
        mut each: impl FnMut(&[u8]) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let Some(Spooled { spool, name, .. }) = &self.spooled else {
            return replay_from(&mut &self.memory[..], "memory", &mut each);
        };
        let file = spool
            .open(name)
            .map_err(|error| failed("read a prepared transaction", name, &error))?;
        replay_from(&mut std::io::BufReader::new(file), name, &mut each)
    }
}

fn replay_from(
    from: &mut impl Read,
    name: &str,
    each: &mut dyn FnMut(&[u8]) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let fail = |error: std::io::Error| failed("read a prepared transaction", name, &error);
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
    /// Keeps large transactions in `spool`; without one, in memory and in control records.
    pub fn new(spool: Option<Arc<dyn Spool>>) -> Self {
        Self {
            spool,
            ..Self::default()
        }
    }

    /// Starts (or starts again) the transaction `xid`.
    pub fn start(&mut self, xid: &str) {
        self.prepared.insert(xid.to_owned(), Prepared::new());
    }

    /// Adds an event, header and all, without checksum.
    pub fn push(&mut self, xid: &str, event: &[u8]) -> Result<(), SourceError> {
        let next_file = &mut self.next_file;
        let name = || {
            // Never the name of a file that a control record still needs.
            *next_file += 1;
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let now = now.map_or(0, |since| since.as_micros());
            format!("xa-{now:x}-{next_file}")
        };
        match self.prepared.get_mut(xid) {
            Some(prepared) => prepared.push(event, self.spool.as_ref(), name),
            None => Ok(()),
        }
    }

    /// The control value of a transaction that is now prepared; none if it changed nothing captured.
    pub fn seal(&mut self, xid: &str) -> Result<Option<Vec<u8>>, SourceError> {
        let Some(prepared) = self.prepared.get_mut(xid) else {
            return Ok(None);
        };
        if prepared.memory.is_empty() && prepared.spooled.is_none() {
            self.prepared.remove(xid);
            return Ok(None);
        }
        prepared.spill()?;
        Ok(Some(match &mut prepared.spooled {
            None => [&[0][..], &prepared.memory].concat(),
            Some(spooled) => {
                if let Some(file) = spooled.file.take() {
                    let name = &spooled.name;
                    file.finish()
                        .map_err(|error| failed("spool a prepared transaction", name, &error))?;
                }
                [&[1][..], spooled.name.as_bytes()].concat()
            }
        }))
    }

    /// Takes transactions back from their control records, `xid` and value, and lets go of files that
    /// belong to none.
    ///
    /// Errors: `Corrupt` for a damaged record, `Lost` where a file is needed and there is no spool.
    pub fn restore<'a>(
        &mut self,
        records: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<(), SourceError> {
        let mut names = Vec::new();
        for (xid, value) in records {
            let prepared = match value.split_first() {
                Some((0, events)) => Prepared {
                    memory: events.to_vec(),
                    spooled: None,
                },
                Some((1, name)) => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    let Some(spool) = &self.spool else {
                        return Err(SourceError::new(
                            ErrorKind::Lost,
                            "open a prepared transaction",
                            "there is no spool",
                        )
                        .at(name));
                    };
                    names.push(name.clone());
                    Prepared {
                        memory: Vec::new(),
                        spooled: Some(Spooled {
                            spool: Arc::clone(spool),
                            name,
                            file: None,
                        }),
                    }
                }
                _ => {
                    return Err(SourceError::new(
                        ErrorKind::Corrupt,
                        "read control record",
                        "it is damaged",
                    )
                    .at(format!("source/xa/{xid}")));
                }
            };
            self.prepared.insert(xid.to_owned(), prepared);
        }
        if let Some(spool) = &self.spool {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            spool
                .keep_only(&names)
                .map_err(|error| failed("list prepared transactions", "", &error))?;
        }
        Ok(())
    }

    /// Takes a transaction out, to be replayed or forgotten. Its file stays for a while: until the
    /// journal holds the transaction's end, a restart needs it.
    pub fn take(&mut self, xid: &str) -> Option<Prepared> {
        let spool = self.spool.as_ref();
        self.finished.retain(|(since, name)| {
            let keep = since.elapsed() < FINISHED_KEPT;
            if !keep && let Some(spool) = spool {
                let _ = spool.remove(name);
            }
            keep
        });
        let prepared = self.prepared.remove(xid)?;
        if let Some(spooled) = &prepared.spooled {
            self.finished.push((Instant::now(), spooled.name.clone()));
        }
        Some(prepared)
    }

    /// Takes a transaction back whose replay failed: it is replayed again.
    pub fn put_back(&mut self, xid: &str, prepared: Prepared) {
        if let Some(spooled) = &prepared.spooled {
            self.finished.retain(|(_, name)| *name != spooled.name);
        }
        self.prepared.insert(xid.to_owned(), prepared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files in memory.
    #[derive(Debug, Default, Clone)]
    struct MemorySpool(Arc<std::sync::Mutex<HashMap<String, Vec<u8>>>>);

    struct MemoryFile(MemorySpool, String, Vec<u8>);

    impl Spool for MemorySpool {
        fn create(&self, name: &str) -> std::io::Result<Box<dyn SpoolFile>> {
            Ok(Box::new(MemoryFile(self.clone(), name.into(), Vec::new())))
        }
        fn open(&self, name: &str) -> std::io::Result<Box<dyn Read + Send>> {
            let bytes = self.0.lock().unwrap().get(name).cloned();
            let bytes = bytes.ok_or(std::io::ErrorKind::NotFound)?;
            Ok(Box::new(std::io::Cursor::new(bytes)))
        }
        fn remove(&self, name: &str) -> std::io::Result<()> {
            self.0.lock().unwrap().remove(name);
            Ok(())
        }
        fn keep_only(&self, names: &[&str]) -> std::io::Result<()> {
            self.0
                .lock()
                .unwrap()
                .retain(|name, _| names.contains(&name.as_str()));
            Ok(())
        }
    }

    impl Write for MemoryFile {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.2.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl SpoolFile for MemoryFile {
        fn finish(self: Box<Self>) -> std::io::Result<()> {
            self.0.0.lock().unwrap().insert(self.1, self.2);
            Ok(())
        }
    }

    #[test]
    fn events_come_back_from_memory_and_from_the_spool() {
        for (size, files) in [(10, 0), (700_000, 1)] {
            let spool = MemorySpool::default();
            spool
                .0
                .lock()
                .unwrap()
                .insert("of nobody".into(), Vec::new());
            let mut store = XaStore::new(Some(Arc::new(spool.clone())));
            let xid = format!("x'{size:x}',x'',1");
            store.start(&xid);
            for byte in 0..4u8 {
                store.push(&xid, &vec![byte; size]).unwrap();
            }
            let value = store.seal(&xid).unwrap().unwrap();
            let mut restored = XaStore::new(Some(Arc::new(spool.clone())));
            restored
                .restore([(xid.as_str(), value.as_slice())].into_iter())
                .unwrap();
            assert_eq!(spool.0.lock().unwrap().len(), files);
            let prepared = restored.take(&xid).unwrap();
            let mut seen = Vec::new();
            prepared
                .replay(|event| {
                    seen.push((event.len(), event[0]));
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, [(size, 0), (size, 1), (size, 2), (size, 3)]);
        }
    }

    #[test]
    fn an_xid_is_the_same_in_every_spelling() {
        assert_eq!(normal_xid("X'6A', X'',1 ONE PHASE"), "x'6a',x'',1");
    }
}
