//! Finding the sequence for a time or a source position.

use std::sync::Arc;

use crate::Result;
use crate::checkpoint;
use crate::format::flag;
use crate::frame::Frame;
use crate::id::Sequence;
use crate::item::{Commit, Item};
use crate::reader::{ReadOptions, Reader};
use crate::segment::SegmentReader;
use crate::spine::{Entries, Entry};
use crate::state::{SegmentInfo, Shared};

const READ_AHEAD_BYTES: usize = 64 << 10;

/// Asked of positions; stays true once it is.
type Reached<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// The start of the first transaction whose commit time, as a running maximum, is `micros` or later.
pub(crate) fn time(shared: &Arc<Shared>, micros: i64) -> Result<Sequence> {
    let segments = segments(shared);
    let later = segments.partition_point(|segment| segment.time_before < micros);
    let Some(info) = segments.get(later.saturating_sub(1)) else {
        return Ok(end(shared));
    };
    let start = shared.with_index(info, |index| {
        let granules = index.granules();
        let at = granules.partition_point(|granule| granule.time_max < micros);
        granules.get(at).map(|granule| granule.base)
    })?;
    first_commit(shared, start.unwrap_or(info.end), &mut |commit| {
        commit.time_us >= micros
    })
}

/// The first sequence at or after `from` that was written after `micros`, and when.
pub(crate) fn written(
    shared: &Arc<Shared>,
    micros: i64,
    from: Sequence,
) -> Result<(Sequence, Option<i64>)> {
    for info in segments(shared) {
        let is_live = shared.state().live == Some(info.number);
        if info.written_us <= micros || (info.end <= from.0 && !is_live) {
            continue;
        }
        let start = shared.with_index(&info, |index| {
            let at = index.granule_of(from.0).unwrap_or(0);
            index.granules().get(at).map(|granule| granule.offset)
        })?;
        let Some(mut offset) = start else { continue };
        let mut segment = shared.open_segment(&info, READ_AHEAD_BYTES)?;
        while offset < info.len {
            let header = segment.frame_header(offset)?;
            let holds = header.next > header.base && header.next > from.0;
            if holds && header.written_us > micros {
                let found = header.base.max(from.0).min(shared.end());
                return Ok((Sequence(found), Some(header.written_us)));
            }
            offset += u64::from(header.len);
        }
    }
    Ok((end(shared), None))
}

/// The start of the first transaction whose position satisfies `reached`.
pub(crate) fn position(shared: &Arc<Shared>, reached: &mut Reached<'_>) -> Result<Sequence> {
    let segments = segments(shared);
    let (mut low, mut high) = (1, segments.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let mut segment = shared.open_segment(&segments[middle], READ_AHEAD_BYTES)?;
        let before = checkpoint::read(&mut segment)?.0.last_commit;
        match before.is_some_and(|commit| reached(&commit.position)) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    let Some(info) = segments.get(low - 1) else {
        return Ok(end(shared));
    };
    let start = granule(shared, info, reached)?;
    first_commit(shared, start, &mut |commit| reached(commit.position))
}

/// The base of the first stretch of a segment whose last commit is reached, else the segment's end.
fn granule(shared: &Shared, info: &SegmentInfo, reached: &mut Reached<'_>) -> Result<u64> {
    let (granules, keys) = shared.with_index(info, |index| {
        (index.granules().to_vec(), index.keys().to_vec())
    })?;
    let mut segment = shared.open_segment(info, READ_AHEAD_BYTES)?;
    let end = |at: usize| granules.get(at + 1).map_or(info.len, |next| next.offset);
    let (mut low, mut high) = (0, granules.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let mut probe = middle + 1;
        let mut found = None;
        while found.is_none() && probe > low {
            probe -= 1;
            segment.learn_keys(&keys, granules[probe].offset)?;
            found = last_position(&mut segment, (granules[probe].offset, end(probe)))?;
        }
        match found.is_some_and(|position| reached(&position)) {
            true => high = probe,
            false => low = middle + 1,
        }
    }
    Ok(granules.get(high).map_or(info.end, |granule| granule.base))
}

/// The position of the last commit in a stretch of a segment.
fn last_position(segment: &mut SegmentReader, (from, to): (u64, u64)) -> Result<Option<Vec<u8>>> {
    let (mut offset, mut last) = (from, None);
    while offset < to {
        let header = segment.frame_header(offset)?;
        segment.pass(offset, &header)?;
        if header.commits > 0 {
            last = Some((offset, header));
        }
        offset += u64::from(header.len);
    }
    let Some((offset, header)) = last else {
        return Ok(None);
    };
    let mut frame = Frame::default();
    segment.spine(offset, &header, &mut frame)?;
    let positions = Entries::new(&frame.spine).filter_map(|entry| match entry {
        Entry::Commit(commit) => Some(commit.position),
        _ => None,
    });
    Ok(positions.last().map(<[u8]>::to_vec))
}

/// The start of the first transaction, read from `from` on, whose commit is `wanted`.
fn first_commit(
    shared: &Arc<Shared>,
    from: u64,
    wanted: &mut dyn FnMut(&Commit<'_>) -> bool,
) -> Result<Sequence> {
    if from >= shared.end() {
        return Ok(end(shared));
    }
    let mut reader = Reader::open(shared.clone(), ReadOptions::from(Sequence(from)))?;
    let mut first = None;
    let mut continued = true;
    while reader.advance()? {
        let header = reader.frame_header();
        // A transaction that began before the first frame read is shown with its begin, but began earlier.
        continued &= header.has(flag::OPEN_IN) && !header.has(flag::ABORT_IN);
        if continued {
            first = Some(Sequence(header.first_in));
        }
        for item in reader.view().items() {
            match item {
                Item::Begin { .. } if continued => continued = false,
                Item::Begin { .. } => first = None,
                Item::Record { sequence, .. } | Item::Control { sequence, .. } => {
                    first.get_or_insert(sequence);
                }
                Item::Commit {
                    sequence,
                    trailer,
                    position,
                    time_us,
                    rows,
                } => {
                    let start = *first.get_or_insert(sequence);
                    if wanted(&Commit {
                        trailer,
                        position,
                        time_us,
                        rows,
                    }) {
                        return Ok(start);
                    }
                }
                Item::Retired { .. } => first = None,
            }
        }
    }
    Ok(end(shared))
}

fn segments(shared: &Shared) -> Vec<SegmentInfo> {
    shared.state().segments.values().copied().collect()
}

fn end(shared: &Shared) -> Sequence {
    Sequence(shared.end())
}
