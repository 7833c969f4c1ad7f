//! The few things the journal asks of a file system, behind traits so that tests can crash it.

mod real;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use real::RealFs;

/// A directory of files whose loss at a crash is known.
///
/// Promises that the journal relies on: what `FsFile::sync_data` covered survives; a name survives once
/// `sync_dir` of its directory returned; `rename` replaces its target whole or not at all.
pub trait Fs: Send + Sync {
    /// Makes `path` and its parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes an empty file, replacing what is there, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn FsFile>>;
    /// Opens an existing file for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn FsFile>>;
    /// Shortens an existing file and makes that durable.
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()>;
    /// Replaces `to` by `from`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// The files of a directory, unordered.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the exclusive lock on `path`, leaving `content` in it.
    /// `Err` of kind `WouldBlock` carries the holder's content as its message.
    fn lock(&self, path: &Path, content: &str) -> io::Result<Box<dyn FsLock>>;
}

/// One open file.
pub trait FsFile: Send + Sync {
    /// Fills `buffer` from `offset`; fewer bytes only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes content and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// The length now.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file holds nothing.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
}

/// A held lock; dropping it lets go.
pub trait FsLock: Send + Sync {}
