//! Sealed files beside the journal, for bytes that have to wait before they can be a transaction of it.
//!
//! Shape of a file: the magic, the length of the wrapped data key and that key, then pieces: a length, and up to 64 KiB
//! sealed with AES-256-GCM under the file's own data key; the nonce is the piece's number, and the last piece says that
//! it is the last. A file without a last piece was not finished.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce};

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::fs::FsFile;
use crate::id::KeyGroupId;
use crate::seal::CipherKey;
use crate::state::Shared;

const MAGIC: &[u8; 8] = b"HWSPOOL1";
const PIECE_BYTES: usize = 64 << 10;
const SUFFIX: &str = ".spool";

/// The sealed files of one journal. They count in its `disk_max`.
#[derive(Clone)]
pub struct Spool {
    shared: Arc<Shared>,
}

/// A file that is being written.
pub struct SpoolWriter {
    shared: Arc<Shared>,
    file: Arc<dyn FsFile>,
    path: PathBuf,
    cipher: Arc<CipherKey>,
    piece: Vec<u8>,
    number: u64,
    len: u64,
}

/// A finished file, read from its start.
pub struct SpoolReader {
    file: Arc<dyn FsFile>,
    path: PathBuf,
    cipher: Arc<CipherKey>,
    piece: Vec<u8>,
    taken: usize,
    number: u64,
    offset: u64,
    ended: bool,
}

fn context(number: u64, last: bool) -> ([u8; 12], [u8; 17]) {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    let mut bound = [0; 17];
    bound[..8].copy_from_slice(MAGIC);
    bound[8..16].copy_from_slice(&number.to_le_bytes());
    bound[16] = u8::from(last);
    (nonce, bound)
}

fn corrupt(path: &std::path::Path, offset: u64, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, "read spool file", what)
        .at(format!("{}:{offset}", path.display()))
        .hint("the transaction that waits in it is read again only if its table is copied again")
}

impl Spool {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Spool { shared }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.shared.options.dir.join(format!("{name}{SUFFIX}"))
    }

    /// Begins the file `name`, replacing an older one. `name` is a file name without a slash.
    ///
    /// Errors: `Unavailable` when the key service does not answer or the disk fails.
    pub fn create(&self, name: &str) -> Result<SpoolWriter> {
        let path = self.path(name);
        let key = self.shared.keys.create(KeyGroupId::DEFAULT, 0)?;
        let fail = |source| Error::io("create spool file", &path, source);
        self.remove(name)?;
        let file = self.shared.options.fs.create(&path).map_err(fail)?;
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&(key.wrapped.len() as u32).to_le_bytes());
        head.extend_from_slice(&key.wrapped);
        file.write_at(0, &head).map_err(fail)?;
        let len = head.len() as u64;
        self.shared.spooled.fetch_add(len, Ordering::Relaxed);
        Ok(SpoolWriter {
            shared: self.shared.clone(),
            file,
            path,
            cipher: key.cipher,
            piece: Vec::with_capacity(PIECE_BYTES),
            number: 0,
            len,
        })
    }

    /// Opens the finished file `name`.
    ///
    /// Errors: `Unavailable` when it is not there or its key is locked, `Corrupt` when it is none.
    pub fn open(&self, name: &str) -> Result<SpoolReader> {
        let path = self.path(name);
        let fail = |source| Error::io("open spool file", &path, source);
        let file = self.shared.options.fs.open(&path).map_err(fail)?;
        let mut head = [0; 12];
        let got = file.read_at(0, &mut head).map_err(fail)?;
        let wrapped_len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        if got < head.len() || &head[..8] != MAGIC || wrapped_len > 64 << 10 {
            return Err(corrupt(&path, 0, "it does not begin as one"));
        }
        let mut wrapped = vec![0; wrapped_len];
        if file.read_at(12, &mut wrapped).map_err(fail)? < wrapped_len {
            return Err(corrupt(&path, 12, "it ends within its key"));
        }
        let cipher = self
            .shared
            .keys
            .open(KeyGroupId::DEFAULT, &wrapped)
            .map_err(|source| {
                Error::new(
                    ErrorKind::Unavailable,
                    "open spool file",
                    source.to_string(),
                )
                .at(path.display())
            })?;
        Ok(SpoolReader {
            file,
            path,
            cipher,
            piece: Vec::new(),
            taken: 0,
            number: 0,
            offset: 12 + wrapped_len as u64,
            ended: false,
        })
    }

    /// Removes the file `name`; it may be gone already.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let fs = &self.shared.options.fs;
        let len = match fs.open(&path).and_then(|file| file.len()) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(Error::io("remove spool file", &path, source)),
        };
        fs.unlink(&path)
            .map_err(|source| Error::io("remove spool file", &path, source))?;
        let all = &self.shared.spooled;
        let _ = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| {
            Some(sum.saturating_sub(len))
        });
        Ok(())
    }

    /// Removes all files but `names`, and counts what stays: for the start, when only their owner knows which are needed.
    pub fn keep_only(&self, names: &[&str]) -> Result<()> {
        let options = &self.shared.options;
        let files = options
            .fs
            .list(&options.dir)
            .map_err(|source| Error::io("list spool files", &options.dir, source))?;
        let mut bytes = 0;
        for path in files {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.and_then(|name| name.strip_suffix(SUFFIX)) else {
                continue;
            };
            if names.contains(&name) {
                let len = options.fs.open(&path).and_then(|file| file.len());
                bytes += len.map_err(|source| Error::io("open spool file", &path, source))?;
            } else {
                options
                    .fs
                    .unlink(&path)
                    .map_err(|source| Error::io("remove spool file", &path, source))?;
            }
        }
        self.shared.spooled.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl SpoolWriter {
    fn seal(&mut self, last: bool) -> io::Result<()> {
        let full = |disk_max| self.shared.state().bytes() + self.shared.spooled() >= disk_max;
        if self.shared.options.disk_max.is_some_and(full) {
            let what = "journal.disk_max is reached; let a sink catch up or raise it";
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        let (nonce, bound) = context(self.number, last);
        let mut sealed = std::mem::take(&mut self.piece);
        self.cipher
            .seal(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(bound),
                &mut sealed,
            )
            .map_err(|()| io::Error::other("sealing was refused"))?;
        let length = (sealed.len() as u32).to_le_bytes();
        self.file.write_at(self.len, &length)?;
        self.file.write_at(self.len + 4, &sealed)?;
        self.len += 4 + sealed.len() as u64;
        let added = 4 + sealed.len() as u64;
        self.shared.spooled.fetch_add(added, Ordering::Relaxed);
        self.number += 1;
        sealed.clear();
        self.piece = sealed;
        Ok(())
    }

    /// Ends the file and makes it durable.
    pub fn finish(mut self) -> Result<()> {
        let options = &self.shared.options;
        let (fs, dir) = (options.fs.clone(), options.dir.clone());
        self.seal(true)
            .and_then(|()| self.file.sync_data())
            .and_then(|()| fs.sync_dir(&dir))
            .map_err(|source| Error::io("finish spool file", &self.path, source))
    }
}

impl Write for SpoolWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE_BYTES {
            self.seal(false)?;
        }
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpoolReader {
    fn next_piece(&mut self) -> Result<()> {
        let fail = |source| Error::io("read spool file", &self.path, source);
        let mut length = [0; 4];
        let got = self.file.read_at(self.offset, &mut length).map_err(fail)?;
        let wanted = u32::from_le_bytes(length) as usize;
        if got < 4 || wanted > PIECE_BYTES + AES_256_GCM.tag_len() {
            return Err(corrupt(&self.path, self.offset, "it was not finished"));
        }
        let mut sealed = std::mem::take(&mut self.piece);
        for last in [false, true] {
            sealed.resize(wanted, 0);
            if self
                .file
                .read_at(self.offset + 4, &mut sealed)
                .map_err(fail)?
                < wanted
            {
                return Err(corrupt(&self.path, self.offset, "it was not finished"));
            }
            let (nonce, bound) = context(self.number, last);
            let nonce = Nonce::assume_unique_for_key(nonce);
            let opened = self.cipher.open(nonce, Aad::from(bound), &mut sealed);
            if let Some(len) = opened {
                sealed.truncate(len);
                self.offset += 4 + wanted as u64;
                self.number += 1;
                self.ended = last;
                self.taken = 0;
                self.piece = sealed;
                return Ok(());
            }
        }
        Err(corrupt(&self.path, self.offset, "a piece does not open"))
    }
}

impl Read for SpoolReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.piece.len() && !self.ended {
            self.next_piece().map_err(io::Error::other)?;
        }
        let left = &self.piece[self.taken..];
        let taken = left.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&left[..taken]);
        self.taken += taken;
        Ok(taken)
    }
}
