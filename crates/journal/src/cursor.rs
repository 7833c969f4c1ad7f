//! Cursors: how far each reader that must not lose anything has durably come.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::{JournalId, Sequence};
use crate::wire::{Input, put_bytes, put_varint};

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

/// All cursors, and whether the file knows them.
#[derive(Default)]
pub(crate) struct Cursors {
    pub entries: BTreeMap<String, Held>,
    pub dirty: bool,
    pub stored_at: Option<Duration>,
}

/// One cursor and whether it still holds anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub cursor: Cursor,
    pub detached: bool,
}

const MAGIC: &[u8; 8] = b"HWCUR\r\n\x01";

impl Cursors {
    /// Sets a cursor; one that is set before `first` has lost what is between.
    pub fn set(&mut self, name: &str, cursor: Cursor, first: u64) {
        let held = Held {
            cursor,
            detached: cursor.sequence.0 < first,
        };
        let known = self.entries.get_mut(name);
        match known {
            Some(entry) if *entry == held => return,
            Some(entry) => *entry = held,
            None => {
                self.entries.insert(name.to_owned(), held);
            }
        }
        self.dirty = true;
    }

    /// The lowest sequence that a cursor holds.
    pub fn hold(&self) -> Option<u64> {
        let held = self.entries.values().filter(|held| !held.detached);
        held.map(|held| held.cursor.sequence.0).min()
    }

    /// The cursor that has come furthest.
    pub fn furthest(&self) -> Option<(&str, Sequence)> {
        let all = self
            .entries
            .iter()
            .map(|(name, held)| (&**name, held.cursor.sequence));
        all.max_by_key(|(_, sequence)| *sequence)
    }

    pub fn report(&self, first: u64) -> Vec<CursorReport> {
        let report = |(name, held): (&String, &Held)| {
            let lost = LostRange {
                from: held.cursor.sequence,
                to: Sequence(first),
            };
            CursorReport {
                name: name.clone(),
                cursor: held.cursor,
                detached: held.detached.then_some(lost),
            }
        };
        self.entries.iter().map(report).collect()
    }

    /// Shape: magic, journal id, varint count, then bytes name, sequence u64, flags u8 (1 detach on full, 2 detached),
    /// then CRC32C.
    pub fn encode(&self, journal: JournalId) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&journal.0);
        put_varint(&mut out, self.entries.len() as u64);
        for (name, held) in &self.entries {
            put_bytes(&mut out, name.as_bytes());
            out.extend_from_slice(&held.cursor.sequence.0.to_le_bytes());
            let detach = held.cursor.on_full == OnFull::Detach;
            out.push(u8::from(detach) | u8::from(held.detached) << 1);
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` when the bytes are not the cursors of that journal.
    pub fn decode(bytes: &[u8], journal: JournalId) -> Option<Cursors> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        let mut input = Input::new(body);
        let ours = input.take(8)? == MAGIC && input.take(16)? == journal.0;
        if !ours || u32::from_le_bytes(*crc) != crc32c::crc32c(body) {
            return None;
        }
        let mut cursors = Cursors::default();
        for _ in 0..input.varint()? {
            let name = std::str::from_utf8(input.bytes()?).ok()?.to_owned();
            let sequence = Sequence(input.u64()?);
            let flags = input.u8()?;
            let on_full = if flags & 1 != 0 {
                OnFull::Detach
            } else {
                OnFull::Pause
            };
            let held = Held {
                cursor: Cursor { sequence, on_full },
                detached: flags & 2 != 0,
            };
            cursors.entries.insert(name, held);
        }
        Some(cursors)
    }
}
