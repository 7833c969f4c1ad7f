//! The journal's sealed spool files, as sources know them.

use change::spool::{Spool, SpoolFile};
use journal::ErrorKind;
use std::io::{self, Read, Write};

/// The spool of one journal.
#[derive(Clone)]
pub struct JournalSpool(pub journal::Spool);

struct File(journal::SpoolWriter);

impl std::fmt::Debug for JournalSpool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JournalSpool")
    }
}

fn io_error(error: journal::Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Full => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

impl Spool for JournalSpool {
    fn create(&self, name: &str) -> io::Result<Box<dyn SpoolFile>> {
        Ok(Box::new(File(self.0.create(name).map_err(io_error)?)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.0.open(name).map_err(io_error)?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name).map_err(io_error)
    }

    fn keep_only(&self, names: &[&str]) -> io::Result<()> {
        self.0.keep_only(names).map_err(io_error)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl SpoolFile for File {
    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.finish().map_err(io_error)
    }
}
