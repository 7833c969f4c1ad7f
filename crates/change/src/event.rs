//! What a sink reads: the journal's records, joined and described.

use crate::batch::{FLAG_EXPIRED, FLAG_STATIC, Operation, RowMeta};
use crate::{Ddl, Image, TableSchema, TransactionHeader, TransactionTrailer};

/// One row's change, with all that any format prints about it.
#[derive(Debug, Clone, Copy)]
pub struct RowChange<'a> {
    /// Its journal sequence (of a key change: of the second record, the insert).
    pub sequence: u64,
    /// The table as of then.
    pub table: &'a TableSchema,
    /// Insert, Update, Delete or Read; a key change is one Update.
    pub operation: Operation,
    /// The row before.
    pub before: Option<Image<'a>>,
    /// The row after.
    pub after: Option<Image<'a>>,
    /// Hash of the key (after the change).
    pub key_token: u64,
    /// Hash of the old key where the change moved the row to another key.
    pub old_key_token: Option<u64>,
    /// Its descriptor's flags; see [`RowChange::is_static`] and [`RowChange::is_expired`].
    pub flags: u8,
    /// Where it stood in its transaction.
    pub meta: RowMeta,
    /// Its transaction.
    pub header: &'a TransactionHeader,
    /// The statement that made it, when the log has it.
    pub statement: Option<&'a str>,
}

impl<'a> RowChange<'a> {
    /// Whether it is a change of a partition's static columns; see [`crate::cql`].
    pub fn is_static(&self) -> bool {
        self.flags & FLAG_STATIC != 0
    }

    /// Whether a time to live ended, and nobody wrote.
    pub fn is_expired(&self) -> bool {
        self.flags & FLAG_EXPIRED != 0
    }

    /// A change of the key as each key's own part: the old one goes, the new one comes; none for other
    /// changes, and where the log has no row before.
    pub fn split_key_change(&self) -> Option<(RowChange<'a>, RowChange<'a>)> {
        let (Some(old_token), Some(_)) = (self.old_key_token, self.before) else {
            return None;
        };
        let gone = RowChange {
            operation: Operation::Delete,
            after: None,
            key_token: old_token,
            old_key_token: None,
            sequence: self.sequence - 1,
            ..*self
        };
        let come = RowChange {
            operation: Operation::Insert,
            before: None,
            old_key_token: None,
            ..*self
        };
        Some((gone, come))
    }
}

/// A statement in its place.
#[derive(Debug, Clone, Copy)]
pub struct DdlChange<'a> {
    /// Its journal sequence.
    pub sequence: u64,
    /// The statement.
    pub ddl: Ddl<'a>,
    /// Its transaction.
    pub header: &'a TransactionHeader,
}

/// One step of what a sink is given, in journal order.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A transaction begins.
    Begin {
        /// Journal sequence of its first record.
        sequence: u64,
        /// Its header.
        header: &'a TransactionHeader,
    },
    /// A row changed.
    Row(RowChange<'a>),
    /// A statement changed a schema.
    Ddl(DdlChange<'a>),
    /// The transaction is whole.
    Commit {
        /// Journal sequence of the commit.
        sequence: u64,
        /// Its header.
        header: &'a TransactionHeader,
        /// Its end.
        trailer: &'a TransactionTrailer,
    },
}

/// What is known of a transaction before its first event is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ahead {
    /// Operations that it will send to this sink, as the sink counts them.
    pub operations: u64,
    /// Of these, how many were sent before a restart in the middle of it.
    pub sent_before: u64,
    /// Journal sequence of its commit.
    pub commit_sequence: u64,
}

/// A sign of life of an idle source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// The journal's end.
    pub sequence: u64,
    /// Time of the source, microseconds since the epoch.
    pub time_us: u64,
    /// The source's log file; may be empty.
    pub file: &'a str,
    /// Offset in that file.
    pub offset: u64,
}
