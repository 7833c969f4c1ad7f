//! The trail's files.

use crate::seal::Sealer;
use crate::settings::AuditConfig;
use crate::signature::hex;
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";
pub(super) const HEAD: &str = "head";
/// The hash before the first line.
pub(super) const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Between two tries to get the right to write.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const HASH_MEMBER: &str = ",\"auditHash\":\"";
/// In the first line of every file of a trail whose `head` is sealed.
pub(super) const SEALED_MEMBER: &str = "auditHead";

/// Files of a trail, oldest first.
pub(super) fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            all.push(entry.path());
        }
    }
    all.sort();
    Ok(all)
}

/// A line without its hash, and the hash.
pub(super) fn split(line: &str) -> Option<(&str, &str)> {
    let (body, rest) = line.rsplit_once(HASH_MEMBER)?;
    Some((body, rest.strip_suffix("\"}")?))
}

/// The hash of a line that follows the one with `previous`.
pub(super) fn hash(sealer: &Sealer, previous: &str, body: &str) -> String {
    let mut bytes = Vec::with_capacity(previous.len() + body.len());
    bytes.extend_from_slice(previous.as_bytes());
    bytes.extend_from_slice(body.as_bytes());
    hex(&sealer.mac(&bytes))
}

/// Where the trail stands, as `head` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// Of the line that comes next.
    pub next: u64,
    /// Of the last line.
    pub hash: String,
    /// Whether it is sealed: older versions wrote it without a MAC.
    pub is_sealed: bool,
}

/// Reads `head`; none when it is not there.
///
/// Errors: what is wrong with it, as a text.
pub(super) fn read_head(dir: &Path, sealer: &Sealer) -> Result<Option<Head>, String> {
    let text = match std::fs::read_to_string(dir.join(HEAD)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("`head` cannot be read: {error}")),
    };
    let wrong = || "`head` is not as it was written".to_owned();
    let fields: Vec<&str> = text.split_whitespace().collect();
    let (number, hash, mac) = match fields[..] {
        [number, hash] => (number, hash, None),
        [number, hash, mac] => (number, hash, Some(mac)),
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let head = Head {
        // The older form names the last line.
        next: number + u64::from(mac.is_none()),
        hash: hash.to_owned(),
        is_sealed: mac.is_some(),
    };
    match mac {
        Some(mac) if mac != head_mac(sealer, head.next, hash) => Err(wrong()),
        _ => Ok(Some(head)),
    }
}

/// No line's hash is over bytes that begin so: they begin with the hash before it.
fn head_mac(sealer: &Sealer, next: u64, hash: &str) -> String {
    hex(&sealer.mac(format!("audit head {next} {hash}").as_bytes()))
}

pub(super) struct Trail {
    dir: PathBuf,
    config: AuditConfig,
    sealer: Sealer,
    file: Option<File>,
    bytes: u64,
    /// Of the next line.
    index: u64,
    previous: String,
    synced: Instant,
    is_dirty: bool,
    is_failing: bool,
    /// One process writes at a time.
    _lock: File,
}

impl Trail {
    pub fn open(dir: &Path, config: &AuditConfig, sealer: Sealer) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let lock = lock(dir)?;
        let mut trail = Self {
            dir: dir.to_owned(),
            config: config.clone(),
            sealer,
            file: None,
            bytes: 0,
            index: 0,
            previous: NO_HASH.to_owned(),
            synced: Instant::now(),
            is_dirty: false,
            is_failing: false,
            _lock: lock,
        };
        let head = read_head(&trail.dir, &trail.sealer);
        trail.go_on()?;
        trail.judge(head)?;
        Ok(trail)
    }

    /// Looks whether what was written before is still there. What is not leaves a gap in the numbers for good, so that
    /// writing on does not hide it.
    fn judge(&mut self, head: Result<Option<Head>, String>) -> io::Result<()> {
        let is_sealed = self.is_sealed()?;
        let trouble = match &head {
            Err(text) => Some(text.clone()),
            Ok(None) if is_sealed => Some("`head` is missing".to_owned()),
            Ok(Some(head)) if !head.is_sealed && is_sealed => {
                Some("`head` is not as it was written".to_owned())
            }
            Ok(Some(head)) if head.next > self.index => {
                let is_empty = self.file.is_none();
                self.index = head.next;
                self.previous = match is_empty {
                    // Nothing comes before the next line, and yet it is not the first.
                    true => NO_HASH.to_owned(),
                    false => head.hash.clone(),
                };
                Some("its end was cut off".to_owned())
            }
            Ok(_) => None,
        };
        if let Some(text) = trouble {
            tracing::error!(
                "the audit trail in {} was tampered with: {text}; `headwater audit verify` will tell so from here on",
                self.dir.display()
            );
            self.index += 1;
        }
        // A trail of an older version goes on in a file that says that `head` is sealed now.
        if !is_sealed && self.bytes > 0 {
            self.file = None;
        }
        self.write_head()?;
        File::open(&self.dir)?.sync_all()
    }

    /// Whether a file says that `head` is sealed.
    fn is_sealed(&self) -> io::Result<bool> {
        for path in files(&self.dir)? {
            let mut line = String::new();
            io::BufReader::new(File::open(path)?).read_line(&mut line)?;
            if event_of(line.trim_end()).is_some_and(|(event, _)| event.contains_key(SEALED_MEMBER))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes on after the last whole line of the last file; what a crash left of another is cut.
    fn go_on(&mut self) -> io::Result<()> {
        let mut all = files(&self.dir)?;
        let Some(path) = all.pop() else {
            return Ok(());
        };
        let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            tracing::warn!(
                file = %path.display(),
                "the last audit record was cut off by a crash; what is left of it is removed"
            );
            file.set_len(whole as u64)?;
        }
        let mut last = text[..whole].lines().next_back().and_then(place);
        while let (None, Some(earlier)) = (&last, all.pop()) {
            // A crash came between the file and its first line.
            let text = std::fs::read_to_string(earlier)?;
            last = text.lines().next_back().and_then(place);
        }
        // What is to be written next is known when it goes on after an error.
        if let Some((index, hash)) = last.filter(|(index, _)| index + 1 >= self.index) {
            (self.index, self.previous) = (index + 1, hash);
        }
        file.seek(SeekFrom::Start(whole as u64))?;
        (self.file, self.bytes) = (Some(file), whole as u64);
        Ok(())
    }

    /// Appends one record; tries until it is written, because none may be dropped.
    pub fn append(&mut self, mut event: Map<String, Value>) {
        loop {
            match self.write(&mut event) {
                Ok(()) => {
                    if self.is_failing {
                        tracing::warn!("the audit trail is written again");
                    }
                    self.is_failing = false;
                    return;
                }
                Err(error) => {
                    if !self.is_failing {
                        tracing::error!(
                            "write the audit trail in {}: {error}; calls wait",
                            self.dir.display()
                        );
                    }
                    self.is_failing = true;
                    self.file = None;
                    std::thread::sleep(Duration::from_millis(500));
                    // What was half written is cut before it is written again.
                    if let Err(error) = self.go_on() {
                        tracing::debug!("{error}");
                    }
                }
            }
        }
    }

    fn write(&mut self, event: &mut Map<String, Value>) -> io::Result<()> {
        if self.file.is_none() || self.bytes >= self.config.file_bytes {
            self.begin_file()?;
        }
        event.insert("auditIndex".into(), self.index.into());
        event.remove("auditPrevious");
        event.remove(SEALED_MEMBER);
        if self.bytes == 0 {
            event.insert("auditPrevious".into(), self.previous.clone().into());
            event.insert(SEALED_MEMBER.into(), "sealed".into());
        }
        let mut line = serde_json::to_string(event)?;
        line.pop();
        let hash = hash(&self.sealer, &self.previous, &line);
        line.push_str(HASH_MEMBER);
        line.push_str(&hash);
        line.push_str("\"}\n");
        let file = self
            .file
            .as_mut()
            .ok_or_else(|| io::Error::other("no file"))?;
        file.write_all(line.as_bytes())?;
        self.bytes += line.len() as u64;
        self.index += 1;
        self.previous = hash;
        self.is_dirty = true;
        Ok(())
    }

    fn begin_file(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync_data()?;
        }
        let path = self.dir.join(format!("{PREFIX}{:016}{SUFFIX}", self.index));
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        (self.file, self.bytes) = (Some(file), 0);
        if self.config.files_max > 0 {
            let mut all = files(&self.dir)?;
            let extra = all.len().saturating_sub(self.config.files_max);
            for old in all.drain(..extra) {
                std::fs::remove_file(old)?;
            }
        }
        Ok(())
    }

    pub fn sync_if_due(&mut self, interval: Duration) {
        if !self.is_dirty || self.synced.elapsed() < interval {
            return;
        }
        self.synced = Instant::now();
        match self.sync() {
            Ok(()) => self.is_dirty = false,
            Err(error) => {
                tracing::error!("sync the audit trail in {}: {error}", self.dir.display())
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        self.write_head()
    }

    fn write_head(&self) -> io::Result<()> {
        let fresh = self.dir.join("head.new");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&fresh)?;
        let (next, hash) = (self.index, &self.previous);
        let mac = head_mac(&self.sealer, next, hash);
        writeln!(file, "{next} {hash} {mac}")?;
        file.sync_data()?;
        std::fs::rename(fresh, self.dir.join(HEAD))
    }
}

/// The right to write. A command that records one line gives it back at once, so it is waited for.
fn lock(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(dir.join("lock"))?;
    for _ in 0..100 {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other("another process writes it"))
}

/// A line's members and its hash.
fn event_of(line: &str) -> Option<(Map<String, Value>, &str)> {
    let (body, hash) = split(line)?;
    Some((serde_json::from_str(&format!("{body}}}")).ok()?, hash))
}

/// The number and the hash of a line.
pub(super) fn place(line: &str) -> Option<(u64, String)> {
    let (event, hash) = event_of(line)?;
    Some((event.get("auditIndex")?.as_u64()?, hash.to_owned()))
}
