//! The checkpoint at the head of every segment: everything a reader of the segment needs from before it.

use crate::Result;
use crate::control::{ControlChange, ControlState};
use crate::format::{SEGMENT_HEADER_BYTES, flag};
use crate::frame::Frame;
use crate::id::Sequence;
use crate::journal::LastCommit;
use crate::segment::{SegmentReader, corrupt};
use crate::spine::{self, Entries, Entry};

/// Parts of a checkpoint are about this long, so that no reader needs a buffer of its whole size.
const CHECKPOINT_PART_BYTES: usize = 256 << 10;

/// Everything a checkpoint needs, as of the last sealed frame.
#[derive(Clone, Default)]
pub(crate) struct Checkpoint {
    pub control: ControlState,
    pub pending: Vec<ControlChange>,
    pub aborted: Vec<(u64, u64)>,
    pub last_commit: Option<LastCommit>,
    pub time_max: i64,
}

/// The checkpoint as spines; at least one, perhaps empty.
pub(crate) fn encode(state: &Checkpoint) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut add = |put: &mut dyn FnMut(&mut Vec<u8>)| {
        let last = parts.len() - 1;
        put(&mut parts[last]);
        if parts[last].len() >= CHECKPOINT_PART_BYTES {
            parts.push(Vec::new());
        }
    };
    if let Some(commit) = &state.last_commit {
        add(&mut |out| {
            spine::put_last_commit(out, commit.sequence.0, commit.time_us, &commit.position)
        });
    }
    for (first, end) in &state.aborted {
        add(&mut |out| spine::put_aborted(out, *first, *end));
    }
    for (key, entry) in state.control.iter() {
        add(&mut |out| spine::put_state(out, entry.sequence.0, key, &entry.value));
    }
    for change in &state.pending {
        let value = change.value.as_deref();
        add(&mut |out| spine::put_pending(out, change.sequence.0, &change.key, value));
    }
    parts
}

/// Reads the checkpoint of a segment; returns it and the offset of the first frame after it.
pub(crate) fn read(reader: &mut SegmentReader) -> Result<(Checkpoint, u64)> {
    let mut checkpoint = Checkpoint {
        time_max: reader.header.time_max,
        ..Checkpoint::default()
    };
    let mut frame = Frame::default();
    let mut offset = SEGMENT_HEADER_BYTES as u64;
    loop {
        let header = reader.frame_header(offset)?;
        if !header.has(flag::CHECKPOINT) {
            return Err(corrupt(
                reader.number,
                offset,
                "the checkpoint is incomplete",
            ));
        }
        reader.spine(offset, &header, &mut frame)?;
        let mut entries = Entries::new(&frame.spine);
        entries.by_ref().for_each(|entry| checkpoint.add(&entry));
        if !entries.is_done() {
            return Err(corrupt(
                reader.number,
                offset,
                "the checkpoint holds an unknown entry",
            ));
        }
        offset += u64::from(header.len);
        if header.has(flag::CHECKPOINT_END) {
            return Ok((checkpoint, offset));
        }
    }
}

impl Checkpoint {
    fn add(&mut self, entry: &Entry<'_>) {
        match *entry {
            Entry::State {
                sequence,
                key,
                value,
            } => {
                self.control.apply(&change(sequence, key, Some(value)));
            }
            Entry::Pending {
                sequence,
                key,
                value,
            } => {
                self.pending.push(change(sequence, key, value));
            }
            Entry::LastCommit {
                sequence,
                time_us,
                position,
            } => {
                let (sequence, position) = (Sequence(sequence), position.to_vec());
                self.last_commit = Some(LastCommit {
                    sequence,
                    position,
                    time_us,
                });
            }
            Entry::Aborted { first, end } => self.aborted.push((first, end)),
            _ => {}
        }
    }
}

fn change(sequence: u64, key: &[u8], value: Option<&[u8]>) -> ControlChange {
    ControlChange {
        sequence: Sequence(sequence),
        key: key.into(),
        value: value.map(Into::into),
    }
}

/// Which control records count: those before `upto` that `is_aborted` does not take back.
pub(crate) struct Fold<'a> {
    pub upto: u64,
    pub is_aborted: &'a dyn Fn(u64) -> bool,
}

impl Fold<'_> {
    fn counts(&self, sequence: u64) -> bool {
        sequence < self.upto && !(self.is_aborted)(sequence)
    }

    /// The pending control records of a checkpoint, as far as they count.
    pub fn pending(&self, checkpoint: &mut Checkpoint) {
        for change in std::mem::take(&mut checkpoint.pending) {
            if self.counts(change.sequence.0) {
                checkpoint.control.apply(&change);
            }
        }
    }

    /// The control records of the frames in `from..to` of a segment.
    pub fn frames(
        &self,
        reader: &mut SegmentReader,
        (from, to): (u64, u64),
        control: &mut ControlState,
    ) -> Result<()> {
        let mut frame = Frame::default();
        let mut offset = from;
        while offset < to {
            let header = reader.frame_header(offset)?;
            if header.base >= self.upto {
                break;
            }
            if header.has(flag::CONTROL) {
                reader.spine(offset, &header, &mut frame)?;
                self.entries(&frame, control);
            } else {
                reader.pass(offset, &header)?;
            }
            offset += u64::from(header.len);
        }
        Ok(())
    }

    fn entries(&self, frame: &Frame, control: &mut ControlState) {
        let mut sequence = frame.base;
        for entry in Entries::new(&frame.spine) {
            if let Entry::Control { key, value } = entry
                && self.counts(sequence)
            {
                control.apply(&change(sequence, key, value));
            }
            sequence += entry.sequences();
        }
    }
}
