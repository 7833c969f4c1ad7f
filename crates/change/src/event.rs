//! What a sink reads: the journal's records, joined and described.

use crate::batch::{Operation, RowMeta};
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
    /// Where it stood in its transaction.
    pub meta: RowMeta,
    /// Its transaction.
    pub header: &'a TransactionHeader,
    /// The statement that made it, when the log has it.
    pub statement: Option<&'a str>,
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
    Begin(&'a TransactionHeader),
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
