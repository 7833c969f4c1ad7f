//! Cursors: how far each reader that must not lose anything has durably come.

use crate::id::Sequence;

/// What happens to a cursor when `disk_max` is reached and only it still needs the oldest segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFull {
    /// Capture pauses until the cursor moves.
    Pause,
    /// The cursor loses its hold and is marked with the range it lost.
    Detach,
}

/// How far one sink has come; segments from `sequence` on are kept for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The first sequence that is still needed.
    pub sequence: Sequence,
    /// What gives way when the disk is full.
    pub on_full: OnFull,
}

/// Sequences that left before a cursor had passed them: `from` up to, not including, `to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostRange {
    /// First lost sequence.
    pub from: Sequence,
    /// First sequence that is there again.
    pub to: Sequence,
}

/// One cursor as the journal sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CursorReport {
    /// Whose it is.
    pub name: String,
    /// As last set.
    pub cursor: Cursor,
    /// Set when the cursor lost its hold; ends when the cursor is set at or past `to`.
    pub detached: Option<LostRange>,
}
