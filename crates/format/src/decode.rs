//! Messages back to changes: what every decoder gives.
//!
//! A message is foreign input: a fault has a place, and nothing panics.

use change::{DdlKind, Image, Operation, TableSchema, wire::WireReader};
use std::sync::Arc;

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A row changed; a snapshot's row is [`Operation::Read`].
    Row(Operation),
    /// A statement.
    Ddl(DdlKind),
    /// A transaction begins.
    Begin,
    /// A transaction is whole.
    Commit,
    /// A transaction was taken back.
    Rollback,
    /// A sign of life.
    Heartbeat,
}

/// One operation, read from a message.
///
/// The images are in `change`'s stored form, one cell for each column of `table`; a column that the
/// message does not carry is an unknown cell, never NULL.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// What it is.
    pub kind: Kind,
    /// Database, table and columns as far as the message tells; table number and version are 0. The rows
    /// of one message share it.
    pub table: Arc<TableSchema>,
    /// The row before, stored form.
    pub before: Option<Vec<u8>>,
    /// The row after, stored form.
    pub after: Option<Vec<u8>>,
    /// The statement of a DDL; else empty.
    pub sql: String,
    /// When it happened at the source, microseconds since the epoch; 0 when the message does not say.
    pub time_us: u64,
    /// The message's own number, where it has one (`id`, `scn`).
    pub id: Option<u64>,
    /// The source's transaction id, where the message has one.
    pub transaction: Option<String>,
    /// The source's position, where the message has one.
    pub position: Option<String>,
    /// What is odd but readable.
    pub warnings: Vec<Fault>,
}

impl Decoded {
    /// The row before.
    pub fn before(&self) -> Option<Image<'_>> {
        self.before.as_deref().and_then(image)
    }

    /// The row after.
    pub fn after(&self) -> Option<Image<'_>> {
        self.after.as_deref().and_then(image)
    }
}

fn image(bytes: &[u8]) -> Option<Image<'_>> {
    Image::read(&mut WireReader::new(bytes), bytes).ok()
}

/// What is wrong with a message, and where. It holds no value of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("decode {format} at byte {offset}{}: {what}", place(.path))]
pub struct Fault {
    /// The format's name.
    pub format: &'static str,
    /// Offset in the message, bytes.
    pub offset: usize,
    /// The member: `data[0].price`; empty for the message as a whole.
    pub path: String,
    /// What is wrong.
    pub what: String,
}

fn place(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!(" ({path})"),
    }
}

/// Reads messages of one format.
pub trait Decoder: Send {
    /// The format's name as in the config.
    fn name(&self) -> &'static str;

    /// Appends what the message says to `out`: usually one operation, several where the message has
    /// several rows.
    ///
    /// Errors: the first fault that makes the message unreadable; `out` is then as before.
    fn decode(&mut self, message: &[u8], out: &mut Vec<Decoded>) -> Result<(), Fault>;
}
