//! Where a source puts bytes that must wait, because they cannot be a transaction yet.

use std::io::{self, Read, Write};

/// Named files that survive the process: sealed, and counted in the journal's limit.
///
/// Promises: what `finish` returned for is there, whole, until `remove`. Repeats: `create` replaces an
/// older file of that name; `remove` of one that is gone is no error.
pub trait Spool: Send + Sync + std::fmt::Debug {
    /// Begins a file. `name` has no slash.
    ///
    /// Errors: of kind `StorageFull` at the limit, also from the file's own calls.
    fn create(&self, name: &str) -> io::Result<Box<dyn SpoolFile>>;
    /// Reads a finished file from its start.
    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Removes all files but these; for the start.
    fn keep_only(&self, names: &[&str]) -> io::Result<()>;
}

/// A file that is being written.
pub trait SpoolFile: Write + Send {
    /// Ends the file and makes it durable.
    fn finish(self: Box<Self>) -> io::Result<()>;
}
