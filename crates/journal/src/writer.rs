//! The one writer.

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::id::Sequence;
use crate::item::{Commit, RecordDescriptor, TransactionStart};
use crate::usage::Capacity;

/// Appends transactions, in order.
pub struct Writer {}

fn building() -> Error {
    Error::new(ErrorKind::Internal, "append", "being built")
}

impl Writer {
    /// Opens a transaction. Errors: `Full`; `Invalid` when one is open.
    pub fn begin(&mut self, _start: TransactionStart<'_>) -> Result<()> {
        Err(building())
    }

    /// Adds one record to the open transaction.
    pub fn record(&mut self, _descriptor: &RecordDescriptor, _body: &[u8]) -> Result<Sequence> {
        Err(building())
    }

    /// Adds a control record to the open transaction; it takes effect when the transaction commits.
    pub fn control(&mut self, _key: &[u8], _value: Option<&[u8]>) -> Result<Sequence> {
        Err(building())
    }

    /// Ends the open transaction.
    pub fn commit(&mut self, _commit: Commit<'_>) -> Result<Sequence> {
        Err(building())
    }

    /// Discards the open transaction, also one that was partly written through.
    pub fn rollback(&mut self) -> Result<()> {
        Err(building())
    }

    /// Hands the current frame on when it is older than `frame_delay`; call it when idle.
    pub fn poll(&mut self) -> Result<()> {
        Err(building())
    }

    /// Hands the current frame on now. It is durable when [`crate::Journal::end`] has passed it.
    pub fn flush(&mut self) -> Result<()> {
        Err(building())
    }

    /// Room left under `disk_max`.
    pub fn capacity(&self) -> Capacity {
        Capacity::Ok
    }

    /// Discards an open transaction, makes the rest durable and lets go of the directory.
    pub fn close(self) -> Result<()> {
        Err(building())
    }
}
