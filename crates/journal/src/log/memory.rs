//! A log in memory whose offsets have gaps, as those of a log on other machines have.

use std::sync::{Arc, Mutex};

use super::{Epoch, Log, LogEntry, LogFrame, fenced};
use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::id::Sequence;
use crate::state::locked;

/// Offsets advance by this much at every batch that is refused or committed, beside one per frame: markers take them.
const MARKER_OFFSETS: u64 = 2;

/// Frames in memory, shared by its clones: each clone is another machine's view of the same log.
#[derive(Clone, Default)]
pub struct MemoryLog(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    epoch: Epoch,
    next_offset: u64,
    next: Option<Sequence>,
    frames: Vec<LogFrame>,
}

impl MemoryLog {
    /// An empty log whose first frame may begin anywhere.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Content {
    fn check(&mut self, epoch: Epoch, batch: &[LogEntry<'_>]) -> Result<()> {
        self.next_offset += MARKER_OFFSETS;
        if epoch < self.epoch {
            return Err(fenced(epoch, self.epoch));
        }
        let mut expected = self.next;
        for entry in batch {
            if let LogEntry::Frame { base, next, .. } = entry {
                if expected.is_some_and(|expected| expected != *base) {
                    let detail = format!("the frame begins at {base}, not at the log's end");
                    return Err(Error::new(ErrorKind::Internal, "append frame", detail));
                }
                expected = Some(*next);
            }
        }
        Ok(())
    }
}

impl Log for MemoryLog {
    fn append(&mut self, epoch: Epoch, batch: &mut [LogEntry<'_>]) -> Result<()> {
        let mut content = locked(&self.0);
        content.check(epoch, batch)?;
        content.epoch = epoch;
        for entry in batch {
            match entry {
                LogEntry::Segment { base, .. } => {
                    content.next_offset += 1;
                    content.next.get_or_insert(*base);
                }
                LogEntry::Frame { base, next, bytes } => {
                    let offset = content.next_offset;
                    let frame = LogFrame {
                        offset,
                        base: *base,
                        next: *next,
                        bytes: bytes.to_vec(),
                    };
                    content.frames.push(frame);
                    content.next_offset += 1;
                    content.next = Some(*next);
                }
            }
        }
        Ok(())
    }

    fn read(&self, from: Sequence, bytes_max: usize) -> Result<Vec<LogFrame>> {
        let content = locked(&self.0);
        let start = content.frames.partition_point(|frame| frame.next <= from);
        let mut bytes = 0;
        let frames = content.frames[start..].iter().take_while(|frame| {
            let room = bytes == 0 || bytes < bytes_max;
            bytes += frame.bytes.len();
            room
        });
        Ok(frames.cloned().collect())
    }

    fn seal(&mut self, epoch: Epoch) -> Result<Sequence> {
        let mut content = locked(&self.0);
        if epoch < content.epoch {
            return Err(fenced(epoch, content.epoch));
        }
        content.epoch = epoch;
        Ok(content.next.unwrap_or_default())
    }

    fn trim(&mut self, before: Sequence) -> Result<()> {
        locked(&self.0).frames.retain(|frame| frame.next > before);
        Ok(())
    }
}
