//! The two contracts: a source fills batches, a sink takes events up to a cursor.

use crate::batch::OpaqueEvent;
use crate::event::{Ahead, Heartbeat};
use crate::wire::{WireError, WireReader, put_bytes, put_u64};
use crate::{Batch, Event, TableSchema};
use std::sync::Arc;
use std::time::Duration;

/// What the reader of an error can do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Try again: the other side is away for now.
    Unavailable,
    /// Someone else took over.
    Fenced,
    /// Fix the call, the config or a grant.
    Invalid,
    /// This version or feature of the other side is not supported.
    Unsupported,
    /// Bytes that should be whole are not.
    Corrupt,
    /// A position, file or range that is needed is gone.
    Lost,
    /// A broken invariant of our own.
    Internal,
}

/// The `operation` of a source's error when its server was not reached or refused to talk: with any
/// other operation the server had answered.
pub const CONNECT: &str = "connect";

macro_rules! room_error {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name {
            /// What the reader can do next.
            pub kind: ErrorKind,
            /// A fragment that fits after "failed to": `read binlog`.
            pub operation: String,
            /// Where: `mysql-bin.000042:1931`, a table, a topic; may be empty.
            pub place: String,
            /// What happened.
            pub detail: String,
            /// What to do next; may be empty.
            pub hint: String,
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            /// An error without a place or hint.
            pub fn new(kind: ErrorKind, operation: impl Into<String>, detail: impl Into<String>) -> Self {
                Self {
                    kind,
                    operation: operation.into(),
                    place: String::new(),
                    detail: detail.into(),
                    hint: String::new(),
                    $($field: Default::default(),)*
                }
            }
            /// Adds where it happened.
            #[must_use]
            pub fn at(mut self, place: impl Into<String>) -> Self {
                self.place = place.into();
                self
            }
            /// Adds what to do next.
            #[must_use]
            pub fn hint(mut self, hint: impl Into<String>) -> Self {
                self.hint = hint.into();
                self
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.operation)?;
                if !self.place.is_empty() {
                    write!(f, " at {}", self.place)?;
                }
                write!(f, ": {}", self.detail)?;
                if !self.hint.is_empty() {
                    write!(f, "; hint: {}", self.hint)?;
                }
                Ok(())
            }
        }

        impl std::error::Error for $name {}
    };
}

room_error! {
    /// What a source reports. Row values and secrets never appear in it.
    SourceError {}
}

room_error! {
    /// What a sink reports. Row values and secrets never appear in it.
    SinkError {
        /// Set when the target refused one record for good: it is to be parked, the rest goes on.
        rejection: Option<Box<Rejection>>
    }
}

/// Settings that cannot be, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refused {
    /// What is wrong.
    pub detail: String,
    /// What to do; may be empty.
    pub hint: &'static str,
}

impl Refused {
    /// What is wrong, and what to do.
    pub fn new(detail: impl Into<String>, hint: &'static str) -> Self {
        Self {
            detail: detail.into(),
            hint,
        }
    }
}

/// One record that a target refused for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// `database.table`.
    pub table: String,
    /// Hash of its key; none when the target refuses the whole table.
    pub key_token: Option<u64>,
    /// Its journal sequence.
    pub sequence: u64,
    /// Topic (or file, or target table) that refused it.
    pub target: String,
    /// Names of its key columns.
    pub key_columns: Vec<String>,
    /// Why.
    pub reason: String,
}

impl SinkError {
    /// A record that the target refused for good: what it names is set aside, the rest goes on.
    pub fn rejected(rejection: Rejection) -> Self {
        let keys = match rejection.key_columns.is_empty() {
            true => String::new(),
            false => format!(", key ({})", rejection.key_columns.join(", ")),
        };
        let place = format!("{} of table {}{keys}", rejection.target, rejection.table);
        Self {
            rejection: Some(Box::new(rejection.clone())),
            ..Self::new(ErrorKind::Invalid, "write", rejection.reason).at(place)
        }
    }
}

/// How a poll of a source ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The batch holds something.
    Data,
    /// Nothing came within the wait.
    Idle,
    /// The source has an end (a recording, `snapshot: only`) and it is reached.
    End,
}

/// How far one table's snapshot has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableProgress {
    /// `database.table`.
    pub table: String,
    /// Rows copied so far.
    pub rows: u64,
    /// Rows it is thought to have.
    pub rows_estimated: u64,
    /// Whether its copy is whole.
    pub done: bool,
}

/// A table that is set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParkedTable {
    /// `database.table`.
    pub table: String,
    /// Since which place in the source's log.
    pub since: String,
    /// Why.
    pub reason: String,
}

/// What a source knows about itself and its server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceStatus {
    /// The server, as `mysql 9.7.4`.
    pub server: String,
    /// `connecting`, `snapshot`, `streaming`, `retrying`.
    pub phase: &'static str,
    /// Where it has read to.
    pub position: String,
    /// Where the server's log ends.
    pub head: String,
    /// Log bytes between the two; none when unknown.
    pub lag_bytes: Option<u64>,
    /// Age of what is being read, in seconds; 0 when everything was read.
    pub lag_seconds: Option<f64>,
    /// Snapshot progress by table.
    pub tables: Vec<TableProgress>,
    /// Tables set aside by the source.
    pub parked: Vec<ParkedTable>,
    /// The last passing trouble, empty when none.
    pub trouble: String,
    /// Log bytes received since the start.
    pub bytes_received: u64,
    /// Why images may lack columns, and how to change that; none when they are whole.
    pub partial_images: Option<String>,
}

/// An event that was set aside and is to be decoded again.
#[derive(Debug, Clone, Copy)]
pub struct Again<'a> {
    /// `database.table`.
    pub table: &'a str,
    /// As it stands in the journal.
    pub event: &'a OpaqueEvent<'a>,
    /// It is only tried: the batch is thrown away.
    pub is_trial: bool,
}

/// A source of changes.
///
/// Order: entries come in the source's commit order; snapshot chunks come as transactions of their
/// own between them. Concurrency: one caller. Repeats: after a restart from position P nothing at or
/// before P comes again, everything after P does. A source reconnects by itself after a passing
/// fault; if that happens inside a transaction it emits `Rollback` and the transaction comes again
/// whole. What `Ok` promises: every entry in the batch is decoded exactly or is an opaque record.
pub trait Source: Send {
    /// Decodes more into `batch` until it is full enough, or nothing came for `wait`.
    ///
    /// Errors: only what a retry did not cure; the batch then still holds what was decoded before.
    fn poll(&mut self, batch: &mut Batch, wait: Duration) -> Result<Progress, SourceError>;

    /// How it stands; cheap, called about once a second between polls.
    fn status(&mut self) -> SourceStatus;

    /// The full position of everything handed out so far, for a control record.
    fn position(&self) -> Option<crate::Position>;

    /// Decodes again an event that was set aside, now that the cause is thought to be gone: its rows
    /// come into `batch`, in the transaction that the caller began. False when the event is not of
    /// that table.
    ///
    /// Errors: why it still cannot be decoded; the batch is then as it was.
    fn decode_again(&mut self, again: &Again<'_>, _batch: &mut Batch) -> Result<bool, SourceError> {
        Err(SourceError::new(
            ErrorKind::Unsupported,
            "decode again",
            format!(
                "this source cannot decode again what was set aside of {}",
                again.table
            ),
        ))
    }

    /// A table that was set aside goes on: all that was set aside of it was decoded again.
    fn take_up(&mut self, _table: &str) {}
}

/// A key or table that a sink set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// `database.table`.
    pub table: String,
    /// Hash of the key; none parks the whole table.
    pub key_token: Option<u64>,
    /// First sequence that was not delivered.
    pub from_sequence: u64,
    /// Where it was refused (topic, file).
    pub target: String,
    /// Why.
    pub reason: String,
}

/// How far one sink has durably come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The journal it counts in.
    pub journal: [u8; 16],
    /// First sequence that is not yet delivered.
    pub sequence: u64,
    /// Encoded [`crate::Position`] of everything delivered; may be empty.
    pub position: Vec<u8>,
    /// What is set aside.
    pub parked: Vec<Parked>,
}

impl Cursor {
    /// Stored form, for a target that keeps it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(1);
        out.extend_from_slice(&self.journal);
        put_u64(out, self.sequence);
        put_bytes(out, &self.position);
        put_u64(out, self.parked.len() as u64);
        for parked in &self.parked {
            put_bytes(out, parked.table.as_bytes());
            match parked.key_token {
                None => out.push(0),
                Some(token) => {
                    out.push(1);
                    out.extend_from_slice(&token.to_le_bytes());
                }
            }
            put_u64(out, parked.from_sequence);
            put_bytes(out, parked.target.as_bytes());
            put_bytes(out, parked.reason.as_bytes());
        }
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut r = WireReader::new(bytes);
        if r.u8()? != 1 {
            return Err(WireError {
                offset: 0,
                what: "a known version of a cursor",
            });
        }
        let journal = r.array()?;
        let sequence = r.u64()?;
        let position = r.bytes()?.to_vec();
        let count = r.u64()?;
        let mut parked = Vec::new();
        for _ in 0..count {
            parked.push(Parked {
                table: r.text()?.to_owned(),
                key_token: match r.u8()? {
                    0 => None,
                    _ => Some(u64::from_le_bytes(r.array()?)),
                },
                from_sequence: r.u64()?,
                target: r.text()?.to_owned(),
                reason: r.text()?.to_owned(),
            });
        }
        Ok(Self {
            journal,
            sequence,
            position,
            parked,
        })
    }
}

/// A target of changes.
///
/// Order: events arrive in journal order; the sink keeps at least each key's order. Concurrency: one
/// caller. Repeats: after a crash everything since the cursor that `open` returned comes again;
/// after `abort` likewise since the last flushed cursor. What `Ok` from `flush` promises: every event
/// written before it is durable in the target, and so is the cursor, together where the target can.
pub trait Sink: Send {
    /// Connects, fences older writers, and returns the durable cursor; none for a fresh target.
    fn open(&mut self) -> Result<Option<Cursor>, SinkError>;

    /// Takes one event; it may be buffered.
    fn write(&mut self, event: &Event<'_>) -> Result<(), SinkError>;

    /// Makes all that was written durable, together with the cursor.
    fn flush(&mut self, cursor: &Cursor) -> Result<(), SinkError>;

    /// Takes back what was written since the last flush, as far as the target can.
    fn abort(&mut self) -> Result<(), SinkError>;

    /// Bytes written since the last flush: the caller flushes by size and time.
    fn pending_bytes(&self) -> usize;

    /// Whether `write` would have to wait; the caller then flushes first.
    fn is_full(&self) -> bool {
        false
    }

    /// Whether [`Sink::transaction`] has to be called before a transaction's first event.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// How many operations the event will be, for [`Ahead::operations`].
    fn operations(&self, _event: &Event<'_>) -> u64 {
        0
    }

    /// Tells of the transaction whose events come next.
    fn transaction(&mut self, _ahead: &Ahead) {}

    /// Whether `write` wants the begin and the commit of transactions that have rows for it.
    fn wants_marks(&self) -> bool {
        false
    }

    /// How often a source that has nothing to say should show that it lives; none for never.
    fn heartbeat_period(&self) -> Option<Duration> {
        None
    }

    /// Writes a sign of life; it is made durable by the next flush.
    fn heartbeat(&mut self, _beat: &Heartbeat<'_>) -> Result<(), SinkError> {
        Ok(())
    }

    /// Sequence of the first event that waits to become a message with later ones: no cursor may pass
    /// it. What waits comes with the transaction's commit at the latest.
    fn held_from(&self) -> Option<u64> {
        None
    }

    /// Events that the format could not carry and left out, since the start.
    fn not_carried(&self) -> u64 {
        0
    }

    /// Tells of a schema version: all that are in force when delivery begins, then each new one before
    /// the statement or row that it describes.
    fn schema(&mut self, _schema: &Arc<TableSchema>) {}

    /// Tells how far the copy of a table has come, in its place among the events. True: the copy makes
    /// the table right whatever was set aside of it before, and that may be forgotten.
    ///
    /// Repeats: a stage may be told again after a restart.
    fn copy(&mut self, _mark: &CopyMark<'_>) -> Result<bool, SinkError> {
        Ok(false)
    }

    /// Whether everything before the event has to be durable before [`Sink::write`] gets it: the
    /// caller then flushes first.
    fn is_barrier(&self, _event: &Event<'_>) -> bool {
        false
    }

    /// Whether a rejection of this event by [`Sink::write`] leaves the sink as it was before: what was
    /// written earlier stays in hand, and the caller goes on with the next event. Else it opens the
    /// sink again and gives everything since the cursor once more.
    fn refuses_alone(&self, _event: &Event<'_>) -> bool {
        false
    }

    /// What a statement means for what was set aside of its table.
    fn aside(&self, _event: &Event<'_>) -> Aside {
        Aside::Stays
    }

    /// Why the sink cannot be sent to another place in the journal; none when it can.
    fn refuses_rewind(&self) -> Option<&'static str> {
        None
    }

    /// What only this kind of sink has to say in `status`: a name and a text each. Cheap.
    fn details(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Called about every 50 ms while there is nothing to write, for work that is due by time.
    ///
    /// Errors: what makes it necessary to open the sink again; what is not flushed comes again.
    fn idle(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// What becomes of what was set aside of a table, when a statement of the table comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
    /// It stays; a table that is set aside as a whole does not get the statement.
    Stays,
    /// It is of no use any more: the sink gets the statement, and nothing is set aside after it.
    Ends,
    /// It goes with the table under its new name: the sink gets the statement. The new name lacks what
    /// the former one was refused for, so that only a new copy makes it right.
    Moves,
}

/// How far the copy of a table has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Nothing is copied: the rows of the whole table come, as [`crate::Operation::Read`].
    Begun,
    /// Every row that existed has come: what the target had before and was not told of is gone.
    Done,
}

/// A table's copy begins or is whole.
#[derive(Debug, Clone, Copy)]
pub struct CopyMark<'a> {
    /// The table as of then.
    pub table: &'a TableSchema,
    /// How far it has come.
    pub stage: CopyStage,
    /// Journal sequence of the mark.
    pub sequence: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_and_a_damaged_one_is_refused() {
        let cursor = Cursor {
            journal: [3; 16],
            sequence: 1 << 60,
            position: vec![1, 2],
            parked: vec![Parked {
                table: "shop.t".into(),
                key_token: Some(u64::MAX),
                from_sequence: 9,
                target: "topic".into(),
                reason: "too large".into(),
            }],
        };
        let mut bytes = Vec::new();
        cursor.encode(&mut bytes);
        assert_eq!(Cursor::decode(&bytes), Ok(cursor));
        for cut in 0..bytes.len() {
            assert!(Cursor::decode(&bytes[..cut]).is_err());
        }
    }
}
