//! Rows of one rows event that wait to become one message.
//!
//! The message is whole when something else comes: a row of another event or table, a statement, the
//! transaction's end, or [`GROUP_BYTES_MAX`].

use super::row::{self, Print};
use super::table::TableText;
use change::{Image, Operation, RowChange};

/// A message is closed at this size although its event goes on. The server closes an event at
/// `binlog_row_event_max_size` (8 KB by default), so only a server set up for huge events gets here.
pub(super) const GROUP_BYTES_MAX: usize = 16 << 20;

/// What the rows of one message share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupId {
    /// Number of the transaction since the start.
    pub transaction: u64,
    /// Number of the rows event in it.
    pub group: u32,
    /// Table and schema version.
    pub table: (u32, u32),
    /// What happened to the rows.
    pub operation: Operation,
}

/// The rows so far.
#[derive(Debug, Default)]
pub(super) struct Group {
    id: Option<GroupId>,
    /// Journal sequence of the first row.
    pub sequence_first: u64,
    /// Commit time of the transaction, milliseconds.
    pub commit_ms: u64,
    /// From `,"es":` to the value of `isDdl`, from the first row.
    pub head: Vec<u8>,
    /// `pkNames` where it is not the table's; from the first row.
    pub pk_names: Vec<u8>,
    /// The rows, separated by commas.
    pub data: Vec<u8>,
    /// What was before them, the same.
    pub old: Vec<u8>,
    /// `sql` and `sqlType`; the last row's.
    pub types: Vec<u8>,
    changed: Vec<bool>,
}

impl Group {
    /// The rows that wait.
    pub fn id(&self) -> Option<GroupId> {
        self.id
    }

    /// Whether the next row of the same event has to wait for the next message.
    pub fn is_full(&self) -> bool {
        self.data.len() + self.old.len() >= GROUP_BYTES_MAX
    }

    /// Starts a message.
    pub fn open(&mut self, id: GroupId, row: &RowChange<'_>) {
        self.close();
        self.id = Some(id);
        self.sequence_first = row.sequence;
        self.commit_ms = row.header.best_time_us() / 1000;
    }

    /// Appends a row; returns how many of its cells were unknown.
    pub fn push(
        &mut self,
        table: &TableText,
        before: Option<&Image<'_>>,
        shown: &Image<'_>,
        print: Print,
    ) -> u64 {
        if !self.data.is_empty() {
            self.data.push(b',');
            self.old.push(b',');
        }
        let unknown = row::put_image(&mut self.data, table, shown, print);
        match before {
            Some(before) => {
                let images = (before, shown);
                row::put_changed_so_far(&mut self.old, table, images, &mut self.changed, print);
            }
            None => self.old.extend_from_slice(b"{}"),
        }
        self.types.clear();
        row::put_sql_types(&mut self.types, table, shown);
        unknown
    }

    /// Forgets the rows, keeping the buffers.
    pub fn close(&mut self) {
        self.id = None;
        self.head.clear();
        self.pk_names.clear();
        self.data.clear();
        self.old.clear();
        self.types.clear();
        self.changed.clear();
    }
}
