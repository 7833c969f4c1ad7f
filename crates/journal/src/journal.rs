//! The handle that everybody shares.

use std::time::Duration;

use crate::Result;
use crate::control::ControlState;
use crate::cursor::{Cursor, CursorReport};
use crate::error::{Error, ErrorKind};
use crate::id::{JournalId, Sequence};
use crate::options::Options;
use crate::reader::{ReadOptions, Reader};
use crate::usage::{Metrics, Retained, Usage};
use crate::writer::Writer;

/// One journal, shared by its readers and whoever watches it. Cloning is one reference count.
#[derive(Clone)]
pub struct Journal {}

/// The newest visible commit: where capture resumes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastCommit {
    /// Its place in the order.
    pub sequence: Sequence,
    /// As given to [`Writer::commit`].
    pub position: Vec<u8>,
    /// As given to [`Writer::commit`].
    pub time_us: i64,
}

fn building() -> Error {
    Error::new(ErrorKind::Internal, "open journal", "being built")
}

/// Opens the journal in `options.dir`, recovering or creating it, for the one process that writes.
pub fn open(_options: Options) -> Result<(Journal, Writer)> {
    Err(building())
}

/// Opens a journal that nobody needs to be writing, for `tail` and `status`. Takes no lock and changes nothing.
pub fn open_read_only(_options: Options) -> Result<Journal> {
    Err(building())
}

impl Journal {
    /// This journal's name.
    pub fn id(&self) -> JournalId {
        JournalId([0; 16])
    }

    /// The oldest retained sequence.
    pub fn first(&self) -> Sequence {
        Sequence(0)
    }

    /// The first sequence that is not visible yet. Visible means durable, and its transaction committed.
    pub fn end(&self) -> Sequence {
        Sequence(0)
    }

    /// Waits until `end()` is past `past`, the writer has failed, or `timeout` has gone by; returns `end()`.
    pub fn wait(&self, _past: Sequence, _timeout: Duration) -> Sequence {
        Sequence(0)
    }

    /// Why the writer ended, if it did.
    pub fn failed(&self) -> Option<Error> {
        None
    }

    /// The newest visible commit; `None` in a journal without any.
    pub fn last_commit(&self) -> Option<LastCommit> {
        None
    }

    /// The control state as of `end()`.
    pub fn control(&self) -> ControlState {
        ControlState::default()
    }

    /// A reader. Errors: `Invalid` when `from` has aged out or is past `end()`.
    pub fn reader(&self, _options: ReadOptions) -> Result<Reader> {
        Err(building())
    }

    /// The start of the first transaction whose commit time, as a running maximum, is `micros` or later; else `end()`.
    pub fn seek_time(&self, _micros: i64) -> Result<Sequence> {
        Err(building())
    }

    /// The start of the first transaction whose position satisfies `reached`, which must stay true once it is; else
    /// `end()`.
    pub fn seek_position(&self, _reached: &mut dyn FnMut(&[u8]) -> bool) -> Result<Sequence> {
        Err(building())
    }

    /// Sets how far `name` has come; segments from there on are kept for it.
    pub fn set_cursor(&self, _name: &str, _cursor: Cursor) -> Result<()> {
        Err(building())
    }

    /// Forgets a cursor and its hold.
    pub fn remove_cursor(&self, _name: &str) -> Result<()> {
        Err(building())
    }

    /// All cursors by name.
    pub fn cursors(&self) -> Vec<CursorReport> {
        Vec::new()
    }

    /// Keeps what is younger than `age` whatever `disk_max` says, for as long as the hold `name` is set; `None` ends it.
    /// Not persisted: whoever owes the data sets it again after opening.
    pub fn set_retention_hold(&self, _name: &str, _age: Option<Duration>) {}

    /// Unlinks what retention lets go and enforces `disk_max`. Call it every few seconds.
    pub fn retain(&self) -> Result<Retained> {
        Err(building())
    }

    /// The place on disk.
    pub fn usage(&self) -> Usage {
        unreachable!("no journal can be opened yet")
    }

    /// Counters since opening.
    pub fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}
