//! The newest frames, opened, in memory: readers that follow closely never touch the disk.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::format::{FrameHeader, flag};
use crate::frame::Frame;
use crate::id::TableId;

pub(crate) struct TailFrame {
    pub frame: Box<Frame>,
    pub header: FrameHeader,
    bytes: usize,
}

impl TailFrame {
    /// Whether a reader of `tables` finds nothing here; `inside` is whether it waits for a commit.
    pub fn lacks(&self, tables: &BTreeSet<TableId>, inside: bool) -> bool {
        let holds = |table: &TableId| self.frame.tables.binary_search(table).is_ok();
        !inside && !self.header.has(flag::CONTROL) && !tables.iter().any(holds)
    }
}

/// Consecutive frames, oldest first, all of them synced.
#[derive(Default)]
pub(crate) struct Tail {
    frames: VecDeque<Arc<TailFrame>>,
    bytes: usize,
    bytes_max: usize,
}

impl Tail {
    pub fn new(bytes_max: usize) -> Self {
        Tail {
            bytes_max,
            ..Tail::default()
        }
    }

    /// Keeps `frame`, and gives back a buffer for the next one: the oldest if it has to go and nobody reads it.
    pub fn push(&mut self, frame: Box<Frame>, header: FrameHeader) -> Box<Frame> {
        let bytes = frame.capacity() + size_of::<Frame>();
        if bytes > self.bytes_max {
            self.clear();
            return frame;
        }
        self.frames.push_back(Arc::new(TailFrame {
            frame,
            header,
            bytes,
        }));
        self.bytes += bytes;
        let mut spare = None;
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.frames.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes;
            spare = Arc::try_unwrap(oldest)
                .ok()
                .map(|oldest| oldest.frame)
                .or(spare);
        }
        spare.unwrap_or_default()
    }

    pub fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
    }

    /// The frame that holds `sequence`.
    pub fn find(&self, sequence: u64) -> Option<Arc<TailFrame>> {
        let at = self
            .frames
            .partition_point(|frame| frame.header.next <= sequence);
        self.frames
            .get(at)
            .filter(|frame| frame.header.base <= sequence)
            .cloned()
    }
}
