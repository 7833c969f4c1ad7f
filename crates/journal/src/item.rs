//! What goes in and what comes out: transactions made of records.

use crate::id::{KeyGroupId, SchemaId, Sequence, TableId};

/// Opens a transaction.
#[derive(Clone, Copy, Debug)]
pub struct TransactionStart<'a> {
    /// The caller's bytes about the transaction; repeated in every piece of a large one, so keep it below a few KiB.
    pub header: &'a [u8],
    /// Rows of a snapshot: large runs of them go to segments of their own.
    pub snapshot: bool,
}

/// Describes one record; the journal knows nothing else about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordDescriptor {
    /// The table, for indexes and filters.
    pub table: TableId,
    /// The schema version that the body was encoded under.
    pub schema: SchemaId,
    /// The caller's operation code.
    pub operation: u8,
    /// The caller's flags.
    pub flags: u8,
    /// The hash of the row's key; shards are ranges of it.
    pub key_token: u64,
    /// The key that seals the body.
    pub key_group: KeyGroupId,
}

/// Closes a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// The caller's bytes about the whole transaction.
    pub trailer: &'a [u8],
    /// Where the source stands after this transaction; a restart resumes here.
    pub position: &'a [u8],
    /// Commit time at the source, microseconds since 1970.
    pub time_us: i64,
    /// The number of row changes in the transaction.
    pub rows: u64,
}

/// The bytes of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body<'a> {
    /// As they were written.
    Bytes(&'a [u8]),
    /// The key of this group is not to be had now. Park the table and read again later.
    Locked(KeyGroupId),
}

/// One thing that a reader meets, in journal order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// A transaction opens. Its commit follows, perhaps in a later frame; aborted transactions never appear.
    Begin {
        /// As given to [`crate::Writer::begin`].
        header: &'a [u8],
        /// As given to [`crate::Writer::begin`].
        snapshot: bool,
    },
    /// One record.
    Record {
        /// Its place in the order.
        sequence: Sequence,
        /// As given to [`crate::Writer::record`].
        descriptor: RecordDescriptor,
        /// As given to [`crate::Writer::record`], or locked.
        body: Body<'a>,
    },
    /// A change of the control state.
    Control {
        /// Its place in the order.
        sequence: Sequence,
        /// Which entry.
        key: &'a [u8],
        /// Its new value; `None` removes it.
        value: Option<&'a [u8]>,
    },
    /// The transaction is complete.
    Commit {
        /// Its place in the order.
        sequence: Sequence,
        /// As given to [`crate::Writer::commit`].
        trailer: &'a [u8],
        /// As given to [`crate::Writer::commit`].
        position: &'a [u8],
        /// As given to [`crate::Writer::commit`].
        time_us: i64,
        /// As given to [`crate::Writer::commit`].
        rows: u64,
    },
    /// Snapshot segments between the last item and `sequence` have left. Nothing of the stream is missing, but control
    /// records may have been among them: [`crate::Reader::control`] now holds the state as of `sequence`.
    Retired {
        /// Where reading goes on.
        sequence: Sequence,
    },
}
