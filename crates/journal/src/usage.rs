//! What the journal takes and does, in numbers.

use crate::cursor::LostRange;
use crate::id::Sequence;

/// Room left under `disk_max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// Less than 70 % is held, or there is no limit.
    Ok,
    /// Percent of `disk_max` held by cursors, holds and the segment being written, 70 and more. What could leave when
    /// room is needed does not count.
    Alarm(u8),
    /// Nothing more is taken until a cursor moves or the limit is raised.
    Full,
}

/// The journal's place on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Bytes of all segments and spool files; their indexes, a few per mille, do not count.
    pub bytes: u64,
    /// Number of segments.
    pub segments: usize,
    /// The limit, if one is set.
    pub disk_max: Option<u64>,
    /// Room left under it.
    pub state: Capacity,
    /// Oldest retained sequence.
    pub first: Sequence,
    /// First sequence that is not visible yet.
    pub end: Sequence,
}

/// Counters since the journal was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Frames written.
    pub frames: u64,
    /// Bytes written, sealed.
    pub bytes: u64,
    /// Bytes taken, before compression.
    pub bytes_raw: u64,
    /// Records, control records and commits written.
    pub records: u64,
    /// Calls of fdatasync.
    pub syncs: u64,
    /// Time spent in them, microseconds.
    pub sync_us: u64,
    /// Segments begun.
    pub segments: u64,
}

/// What one call of [`crate::Journal::retain`] did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Retained {
    /// Segments unlinked.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Cursors that lost their hold just now, with what they lost.
    pub detached: Vec<(String, LostRange)>,
}
