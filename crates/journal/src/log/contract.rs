//! One suite for every log.

use std::sync::Arc;

use super::{Epoch, LocalLog, Log, LogEntry, LogFrame, MemoryLog};
use crate::error::ErrorKind;
use crate::format::{FRAME_HEADER_BYTES, FrameHeader, SegmentHeader};
use crate::fs::RealFs;
use crate::id::{JournalId, Sequence};

const BASE: u64 = 1000;

fn with_each(test: impl Fn(&mut dyn Log)) {
    let name = format!(
        "journal-log-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).unwrap();
    test(&mut LocalLog::new(
        Arc::new(RealFs),
        &dir,
        Sequence(BASE),
        [],
    ));
    std::fs::remove_dir_all(&dir).unwrap();
    test(&mut MemoryLog::new());
}

fn segment(number: u32, base: u64) -> Vec<u8> {
    let header = SegmentHeader {
        number,
        journal: JournalId([1; 16]),
        epoch: 1,
        base,
        created_us: 0,
        previous: 0,
        previous_len: 0,
        previous_written_us: 0,
        previous_snapshot: false,
        time_max: 0,
        first_in: None,
    };
    header.encode().to_vec()
}

fn frame(base: u64, next: u64) -> Vec<u8> {
    let body = [base as u8; 50];
    let len = (FRAME_HEADER_BYTES + body.len()) as u32;
    let header = FrameHeader {
        len,
        base,
        next,
        ..FrameHeader::default()
    };
    [&header.encode()[..], &body].concat()
}

/// Appends frames of `width` sequences each, in one batch.
fn append(log: &mut dyn Log, epoch: u64, bases: &[u64], width: u64) -> crate::Result<()> {
    let mut frames: Vec<_> = bases
        .iter()
        .map(|base| frame(*base, base + width))
        .collect();
    let mut batch: Vec<_> = bases
        .iter()
        .zip(&mut frames)
        .map(|(base, bytes)| {
            let (base, next) = (Sequence(*base), Sequence(base + width));
            LogEntry::Frame { base, next, bytes }
        })
        .collect();
    log.append(Epoch(epoch), &mut batch)
}

fn start(log: &mut dyn Log, epoch: u64, number: u32, base: u64) -> crate::Result<()> {
    let bytes = segment(number, base);
    let base = Sequence(base);
    log.append(
        Epoch(epoch),
        &mut [LogEntry::Segment {
            number,
            base,
            bytes: &bytes,
        }],
    )
}

fn bases(frames: &[LogFrame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.base.0).collect()
}

#[test]
fn frames_come_back_in_order_from_any_sequence() {
    with_each(|log| {
        start(log, 1, 1, BASE).unwrap();
        append(log, 1, &[1000, 1010], 10).unwrap();
        append(log, 1, &[1020], 10).unwrap();
        start(log, 1, 2, 1030).unwrap();
        append(log, 1, &[1030], 10).unwrap();
        let all = log.read(Sequence(1000), usize::MAX).unwrap();
        assert_eq!(bases(&all), [1000, 1010, 1020, 1030]);
        assert!(all.is_sorted_by(|a, b| a.offset < b.offset && a.next == b.base));
        assert!(
            all.iter()
                .all(|frame| frame.bytes.ends_with(&[frame.base.0 as u8; 50]))
        );
        assert_eq!(
            bases(&log.read(Sequence(1015), usize::MAX).unwrap()),
            [1010, 1020, 1030]
        );
        assert_eq!(bases(&log.read(Sequence(1020), 1).unwrap()), [1020]);
        assert!(log.read(Sequence(1040), usize::MAX).unwrap().is_empty());
    });
}

#[test]
fn stale_epoch_is_fenced_and_leaves_nothing_behind() {
    with_each(|log| {
        start(log, 3, 1, BASE).unwrap();
        append(log, 3, &[1000], 10).unwrap();
        assert_eq!(log.seal(Epoch(4)).unwrap(), Sequence(1010));
        let error = append(log, 3, &[1010], 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced);
        assert_eq!(log.seal(Epoch(2)).unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(bases(&log.read(Sequence(0), usize::MAX).unwrap()), [1000]);
        start(log, 4, 2, 1010).unwrap();
        append(log, 4, &[1010], 10).unwrap();
        assert_eq!(
            bases(&log.read(Sequence(0), usize::MAX).unwrap()),
            [1000, 1010]
        );
    });
}

#[test]
fn gap_in_the_sequences_is_refused() {
    with_each(|log| {
        start(log, 1, 1, BASE).unwrap();
        append(log, 1, &[1000], 10).unwrap();
        assert!(append(log, 1, &[1011], 10).is_err());
        assert_eq!(bases(&log.read(Sequence(0), usize::MAX).unwrap()), [1000]);
    });
}

#[test]
fn trim_forgets_what_lies_before_and_never_more() {
    with_each(|log| {
        for number in 0..4u32 {
            let base = BASE + u64::from(number) * 20;
            start(log, 1, number + 1, base).unwrap();
            append(log, 1, &[base, base + 10], 10).unwrap();
        }
        log.trim(Sequence(1045)).unwrap();
        let left = bases(&log.read(Sequence(0), usize::MAX).unwrap());
        assert!(!left.contains(&1010), "{left:?}");
        assert!(left.ends_with(&[1040, 1050, 1060, 1070]), "{left:?}");
        append(log, 1, &[1080], 10).unwrap();
    });
}
