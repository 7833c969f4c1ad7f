//! The contract under the writer, and its implementation on local disk.

#[cfg(test)]
mod contract;
mod memory;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::format::{FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, set_synced_through};
use crate::fs::{Fs, FsFile};
use crate::id::Sequence;
use crate::segment;

pub use memory::MemoryLog;

/// Rises each time somebody takes the log over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

/// What is appended.
pub enum LogEntry<'a> {
    /// A new segment begins: its number, its first sequence, its header and checkpoint. A log without segments keeps
    /// the checkpoint as it sees fit.
    Segment {
        /// Number of the segment.
        number: u32,
        /// First sequence of the segment.
        base: Sequence,
        /// Header and checkpoint frames.
        bytes: &'a [u8],
    },
    /// One frame. The log may note in it what it knows to be durable.
    Frame {
        /// First sequence in it.
        base: Sequence,
        /// First sequence after it.
        next: Sequence,
        /// The sealed frame.
        bytes: &'a mut [u8],
    },
}

/// One frame as it is read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFrame {
    /// The log's private offset: rises, may have gaps.
    pub offset: u64,
    /// First sequence in it.
    pub base: Sequence,
    /// First sequence after it.
    pub next: Sequence,
    /// The sealed frame.
    pub bytes: Vec<u8>,
}

/// A durable, fenced, append-only log of frames.
///
/// Order: frames are read back in the order of their sequences, which is the order they were appended in. The log's own
/// offsets are private and may have gaps; the sequence lives in the frame.
/// Concurrency: one appender per epoch; readers at any time.
/// `Ok` from `append` promises that everything in the batch is durable; after any other outcome the batch may be there
/// in part, as a prefix, and the log takes nothing more from this appender.
/// Fencing: after `seal(e)` returned, an append under an epoch below `e` is refused as `Fenced` and leaves nothing behind.
pub trait Log: Send {
    /// Makes a batch durable, all of it or an error.
    fn append(&mut self, epoch: Epoch, batch: &mut [LogEntry<'_>]) -> Result<()>;
    /// Frames from the one that holds `from` on, about `bytes_max` of them, at least one if there is one.
    fn read(&self, from: Sequence, bytes_max: usize) -> Result<Vec<LogFrame>>;
    /// Takes the log over: lower epochs are fenced from now on. Returns the first sequence that is free.
    fn seal(&mut self, epoch: Epoch) -> Result<Sequence>;
    /// Forgets frames that lie wholly before `before`, as far as the log's own units allow.
    fn trim(&mut self, before: Sequence) -> Result<()>;
    /// How often the log waited for the disk, and for how many microseconds in all.
    fn syncs(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// Segments in a directory.
///
/// The lock that `open` took keeps other processes out; the epoch keeps out a stale appender of this process.
pub struct LocalLog {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    epoch: Epoch,
    next: Sequence,
    /// Number and base of the segments this log knows of.
    segments: BTreeMap<u32, Sequence>,
    current: Option<Open>,
    failed: Option<Error>,
    syncs: (u64, u64),
}

struct Open {
    file: Arc<dyn FsFile>,
    path: PathBuf,
    len: u64,
    synced: u64,
}

impl LocalLog {
    /// A log over `dir` whose next sequence is `next`; `segments` are those that are there.
    pub fn new(
        fs: Arc<dyn Fs>,
        dir: &Path,
        next: Sequence,
        segments: impl IntoIterator<Item = (u32, Sequence)>,
    ) -> Self {
        LocalLog {
            fs,
            dir: dir.to_path_buf(),
            epoch: Epoch(0),
            next,
            segments: segments.into_iter().collect(),
            current: None,
            failed: None,
            syncs: (0, 0),
        }
    }

    fn write(&mut self, entry: &mut LogEntry<'_>) -> Result<()> {
        match entry {
            LogEntry::Segment {
                number,
                base,
                bytes,
            } => self.start_segment(*number, *base, bytes),
            LogEntry::Frame { base, next, bytes } => {
                if *base != self.next {
                    let detail =
                        format!("the frame begins at {base}, the log ends at {}", self.next);
                    return Err(Error::new(ErrorKind::Internal, "append frame", detail));
                }
                let open = self.current.as_mut().ok_or_else(no_segment)?;
                set_synced_through(bytes, open.synced);
                open.file
                    .write_at(open.len, bytes)
                    .map_err(|source| Error::io("write frame", &open.path, source))?;
                open.len += bytes.len() as u64;
                self.next = *next;
                Ok(())
            }
        }
    }

    fn start_segment(&mut self, number: u32, base: Sequence, bytes: &[u8]) -> Result<()> {
        self.sync()?;
        let path = segment::path(&self.dir, number);
        let fail = |source| Error::io("create segment", &path, source);
        let file = self.fs.create(&path).map_err(fail)?;
        file.write_at(0, bytes).map_err(fail)?;
        self.current = Some(Open {
            file,
            path: path.clone(),
            len: bytes.len() as u64,
            synced: 0,
        });
        self.sync()?;
        self.fs.sync_dir(&self.dir).map_err(fail)?;
        self.segments.insert(number, base);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let Some(open) = &mut self.current else {
            return Ok(());
        };
        if open.synced == open.len {
            return Ok(());
        }
        let start = std::time::Instant::now();
        open.file.sync_data().map_err(|source| {
            Error::io("sync segment", &open.path, source)
                .hint("what the kernel did with the data is unknown: the writer has ended; check the disk, then open the journal again")
        })?;
        open.synced = open.len;
        self.syncs.0 += 1;
        self.syncs.1 += start.elapsed().as_micros() as u64;
        Ok(())
    }

    fn append_all(&mut self, batch: &mut [LogEntry<'_>]) -> Result<()> {
        for entry in batch {
            self.write(entry)?;
        }
        self.sync()
    }
}

fn no_segment() -> Error {
    Error::new(
        ErrorKind::Internal,
        "append frame",
        "no segment has been started",
    )
}

pub(crate) fn fenced(epoch: Epoch, newer: Epoch) -> Error {
    let detail = format!("epoch {} was taken over by epoch {}", epoch.0, newer.0);
    Error::new(ErrorKind::Fenced, "append frame", detail)
}

impl Log for LocalLog {
    fn append(&mut self, epoch: Epoch, batch: &mut [LogEntry<'_>]) -> Result<()> {
        if epoch < self.epoch {
            return Err(fenced(epoch, self.epoch));
        }
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.epoch = epoch;
        self.append_all(batch)
            .inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn read(&self, from: Sequence, bytes_max: usize) -> Result<Vec<LogFrame>> {
        let mut frames = Vec::new();
        let mut bytes = 0;
        let start = self.segments.iter().rev().find(|(_, base)| **base <= from);
        let start = start.map_or(0, |(number, _)| *number);
        for number in self.segments.range(start..).map(|(number, _)| *number) {
            let path = segment::path(&self.dir, number);
            let fail = |source| Error::io("read segment", &path, source);
            let file = self.fs.open(&path).map_err(fail)?;
            let mut offset = SEGMENT_HEADER_BYTES as u64;
            let mut header = [0; FRAME_HEADER_BYTES];
            while file.read_at(offset, &mut header).map_err(fail)? == FRAME_HEADER_BYTES {
                let Ok(head) = FrameHeader::decode(&header) else {
                    break;
                };
                if head.next > from.0 && head.next > head.base {
                    let mut frame = vec![0; head.len as usize];
                    file.read_at(offset, &mut frame).map_err(fail)?;
                    bytes += frame.len();
                    frames.push(LogFrame {
                        offset: u64::from(number) << 32 | offset,
                        base: Sequence(head.base),
                        next: Sequence(head.next),
                        bytes: frame,
                    });
                    if bytes >= bytes_max {
                        return Ok(frames);
                    }
                }
                offset += u64::from(head.len);
            }
        }
        Ok(frames)
    }

    fn seal(&mut self, epoch: Epoch) -> Result<Sequence> {
        if epoch < self.epoch {
            return Err(fenced(epoch, self.epoch));
        }
        self.epoch = epoch;
        Ok(self.next)
    }

    fn trim(&mut self, before: Sequence) -> Result<()> {
        let bases: Vec<_> = self
            .segments
            .iter()
            .map(|(number, base)| (*number, *base))
            .collect();
        for pair in bases.windows(2) {
            let ((number, _), (_, end)) = (pair[0], pair[1]);
            if end > before {
                break;
            }
            segment::unlink(&*self.fs, &self.dir, number)?;
            self.segments.remove(&number);
        }
        self.fs
            .sync_dir(&self.dir)
            .map_err(|source| Error::io("sync directory", &self.dir, source))
    }

    fn syncs(&self) -> (u64, u64) {
        self.syncs
    }
}
