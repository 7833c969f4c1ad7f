//! One source commit: what is known when it begins, and what only its end tells.

use crate::position::{PositionStep, TransactionId, put_transaction_id, read_transaction_id};
use crate::wire::{WireError, WireReader, put_bytes, put_u64};

/// What a transaction's first event tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionHeader {
    /// The server that first executed it.
    pub server_id: u32,
    /// The session that executed it; 0 when the log does not tell.
    pub thread_id: u32,
    /// Its id, where the source numbers transactions.
    pub id: Option<TransactionId>,
    /// Binlog file (or log segment) in which it begins.
    pub file: String,
    /// Offset of its first event.
    pub begin_offset: u64,
    /// Header time of its first event, seconds since the epoch.
    pub time_s: u32,
    /// Commit time where the log has it (MySQL 8.0.1+), microseconds since the epoch; 0 for none.
    pub commit_time_us: u64,
    /// Rows of a snapshot chunk, not of a source commit.
    pub snapshot: bool,
    /// Applied by replication: written by another server than the one that is read.
    pub replicated: bool,
}

/// What a transaction's end tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionTrailer {
    /// How it moves the position.
    pub step: PositionStep,
    /// The storage engine's transaction number, 0 for none.
    pub xid: u64,
    /// Row changes in it that are sent (a key change counts as two records, one change).
    pub row_changes: u64,
    /// Header time of its last event, seconds since the epoch.
    pub time_s: u32,
}

impl TransactionHeader {
    /// Stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.snapshot) | u8::from(self.replicated) << 1);
        put_u64(out, u64::from(self.server_id));
        put_u64(out, u64::from(self.thread_id));
        put_transaction_id(out, self.id.as_ref());
        put_bytes(out, self.file.as_bytes());
        put_u64(out, self.begin_offset);
        put_u64(out, u64::from(self.time_s));
        put_u64(out, self.commit_time_us);
    }

    /// Reads the stored form into `self`, reusing its buffers.
    pub fn decode_into(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        let mut r = WireReader::new(bytes);
        let flags = r.u8()?;
        self.snapshot = flags & 1 != 0;
        self.replicated = flags & 2 != 0;
        self.server_id = r.u32()?;
        self.thread_id = r.u32()?;
        self.id = read_transaction_id(&mut r)?;
        self.file.clear();
        self.file.push_str(r.text()?);
        self.begin_offset = r.u64()?;
        self.time_s = r.u32()?;
        self.commit_time_us = r.u64()?;
        Ok(())
    }

    /// The commit time in microseconds: exact where the log has it, else the header's second.
    pub fn best_time_us(&self) -> u64 {
        match self.commit_time_us {
            0 => u64::from(self.time_s) * 1_000_000,
            exact => exact,
        }
    }
}

impl TransactionTrailer {
    /// Stored form, without the step, which the journal keeps as the position.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.xid);
        put_u64(out, self.row_changes);
        put_u64(out, u64::from(self.time_s));
    }

    /// Reads the stored form; `position` is the encoded [`PositionStep`].
    pub fn decode(bytes: &[u8], position: &[u8]) -> Result<Self, WireError> {
        let mut r = WireReader::new(bytes);
        Ok(Self {
            xid: r.u64()?,
            row_changes: r.u64()?,
            time_s: r.u32()?,
            step: PositionStep::decode(position)?,
        })
    }
}
