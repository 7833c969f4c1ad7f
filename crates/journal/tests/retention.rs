//! What leaves, what stays, what pauses.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use journal::*;
use support::*;

const HOUR: Duration = Duration::from_secs(3600);

struct Bench {
    dir: TempDir,
    clock: Arc<TestClock>,
    random: Random,
    number: u64,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            dir: TempDir::new(),
            clock: TestClock::new(),
            random: Random::new(2),
            number: 0,
        }
    }

    fn options(&self) -> Options {
        Options {
            clock: self.clock.clone(),
            segment_bytes: 64 << 10,
            frame_bytes: 4096,
            tail_bytes: 0,
            ..options(&self.dir.0)
        }
    }

    /// About `segments` segments more.
    fn fill(&mut self, journal: &Journal, writer: &mut Writer, segments: u64, snapshot: bool) {
        for _ in 0..segments * 16 {
            self.number += 1;
            writer
                .begin(TransactionStart {
                    header: b"",
                    snapshot,
                })
                .unwrap();
            writer
                .record(&descriptor(1), &self.random.bytes(4000))
                .unwrap();
            commit(writer, self.number, 1);
        }
        settle(journal, writer);
    }
}

fn cursor(sequence: Sequence, on_full: OnFull) -> Cursor {
    Cursor { sequence, on_full }
}

#[test]
fn segments_leave_once_old_and_behind_every_cursor() {
    let mut bench = Bench::new();
    let (journal, mut writer) = open(bench.options()).unwrap();
    bench.fill(&journal, &mut writer, 5, false);
    let middle = journal.end();
    journal
        .set_cursor("slow", cursor(middle, OnFull::Pause))
        .unwrap();
    bench.fill(&journal, &mut writer, 5, false);
    assert_eq!(journal.retain().unwrap().segments, 0, "too young");
    bench.clock.advance(25 * HOUR);
    let retained = journal.retain().unwrap();
    assert!(retained.segments >= 4, "{retained:?}");
    assert!(journal.first() <= middle);
    assert!(!read_from(&journal, middle).is_empty());
    let aged_out = Sequence(journal.first().0 - 1);
    let error = journal.reader(ReadOptions::from(aged_out)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("aged out"), "{error}");
    journal
        .set_cursor("slow", cursor(journal.end(), OnFull::Pause))
        .unwrap();
    assert!(journal.retain().unwrap().segments >= 4);
    writer.close().unwrap();
    let (journal, _writer) = open(bench.options()).unwrap();
    assert_eq!(journal.cursors()[0].name, "slow");
    assert!(journal.cursors()[0].detached.is_none());
}

#[test]
fn cursor_survives_reopening_and_never_runs_ahead() {
    let mut bench = Bench::new();
    let (journal, mut writer) = open(bench.options()).unwrap();
    bench.fill(&journal, &mut writer, 1, false);
    let start = journal.first();
    for step in 0..10 {
        journal
            .set_cursor("sink", cursor(Sequence(start.0 + step), OnFull::Detach))
            .unwrap();
    }
    let stored = open_read_only(bench.options()).unwrap().cursors();
    assert_eq!(stored[0].cursor.sequence, start, "at most once a second");
    let past = Sequence(journal.end().0 + 1);
    let error = journal
        .set_cursor("sink", cursor(past, OnFull::Pause))
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    writer.close().unwrap();
    let journal = open_read_only(bench.options()).unwrap();
    assert_eq!(
        journal.cursors()[0].cursor,
        cursor(Sequence(start.0 + 9), OnFull::Detach)
    );
}

#[test]
fn disk_max_drops_what_is_passed_then_detaches_then_pauses() {
    let mut bench = Bench::new();
    let options = Options {
        disk_max: Some(1 << 20),
        ..bench.options()
    };
    let (journal, mut writer) = open(options).unwrap();
    let start = journal.first();
    journal
        .set_cursor("quick", cursor(start, OnFull::Pause))
        .unwrap();
    bench.fill(&journal, &mut writer, 10, false);
    journal
        .set_cursor("quick", cursor(journal.end(), OnFull::Pause))
        .unwrap();
    // (1) Passed segments go, however young.
    bench.fill(&journal, &mut writer, 10, false);
    assert!(journal.first() > start);
    assert!(journal.usage().bytes <= 1 << 20);
    assert!(journal.cursors()[0].detached.is_none());
    assert_ne!(writer.capacity(), Capacity::Full);

    // (2) A cursor that may be detached gives way, and knows what it lost.
    journal
        .set_cursor("quick", cursor(journal.end(), OnFull::Pause))
        .unwrap();
    let held = journal.end();
    journal
        .set_cursor("lazy", cursor(held, OnFull::Detach))
        .unwrap();
    for _ in 0..3 {
        bench.fill(&journal, &mut writer, 8, false);
        journal
            .set_cursor("quick", cursor(journal.end(), OnFull::Pause))
            .unwrap();
    }
    let lazy = journal
        .cursors()
        .into_iter()
        .find(|report| report.name == "lazy")
        .unwrap();
    let lost = lazy.detached.unwrap();
    assert_eq!((lost.from, lost.to), (held, journal.first()));
    journal
        .set_cursor("lazy", cursor(journal.end(), OnFull::Detach))
        .unwrap();
    assert!(
        journal
            .cursors()
            .iter()
            .all(|report| report.detached.is_none())
    );

    // (3) A cursor that may not: capture pauses, loses nothing, and goes on when there is room.
    let quick = journal.end();
    let mut seen = Vec::new();
    let refused = loop {
        let start = TransactionStart {
            header: b"",
            snapshot: false,
        };
        match writer.begin(start) {
            Err(error) => break error,
            Ok(()) => match writer.record(&descriptor(1), &bench.random.bytes(4000)) {
                Err(error) => break error,
                Ok(_) => {
                    commit(&mut writer, 1, 1);
                    seen.push(writer.capacity());
                }
            },
        }
        settle(&journal, &mut writer);
        assert!(seen.len() < 1000, "never full");
    };
    assert_eq!(refused.kind(), ErrorKind::Full);
    assert_eq!(writer.capacity(), Capacity::Full);
    assert!(
        seen.iter()
            .any(|state| matches!(state, Capacity::Alarm(70..))),
        "{seen:?}"
    );
    let commits = |items: Vec<Owned>| {
        items
            .iter()
            .filter(|item| matches!(item, Owned::Commit { .. }))
            .count()
    };
    assert_eq!(commits(read_from(&journal, quick)), seen.len());
    journal
        .set_cursor("quick", cursor(journal.end(), OnFull::Pause))
        .unwrap();
    journal
        .set_cursor("lazy", cursor(journal.end(), OnFull::Pause))
        .unwrap();
    journal.retain().unwrap();
    assert_eq!(writer.capacity(), Capacity::Ok);
    let _ = writer.rollback();
    bench.fill(&journal, &mut writer, 1, false);
}

#[test]
fn hold_keeps_what_a_stream_owes_also_when_the_disk_is_full() {
    let mut bench = Bench::new();
    let options = Options {
        disk_max: Some(1 << 20),
        ..bench.options()
    };
    let (journal, mut writer) = open(options).unwrap();
    let start = journal.first();
    journal.set_retention_hold("stream", Some(24 * HOUR));
    bench.fill(&journal, &mut writer, 10, false);
    while writer.capacity() != Capacity::Full {
        bench.number += 1;
        append(&mut writer, bench.number, 1, &[&bench.random.bytes(4000)]);
        settle(&journal, &mut writer);
    }
    journal.retain().unwrap();
    assert_eq!(journal.first(), start);
    bench.clock.advance(25 * HOUR);
    journal.retain().unwrap();
    assert!(journal.first() > start);
    journal.set_retention_hold("stream", None);
}

#[test]
fn snapshot_segments_leave_when_passed_and_readers_are_told() {
    let mut bench = Bench::new();
    let (journal, mut writer) = open(bench.options()).unwrap();
    let start = journal.first();
    journal
        .set_cursor("sink", cursor(start, OnFull::Pause))
        .unwrap();
    bench.fill(&journal, &mut writer, 2, false);
    let snapshot_start = journal.end();
    writer
        .begin(TransactionStart {
            header: b"",
            snapshot: true,
        })
        .unwrap();
    writer.control(b"progress", Some(b"half")).unwrap();
    commit(&mut writer, 1, 0);
    bench.fill(&journal, &mut writer, 4, true);
    let snapshot_end = journal.end();
    bench.fill(&journal, &mut writer, 2, false);
    let all = read_from(&journal, start);
    assert_eq!(journal.retain().unwrap().segments, 0, "not passed");
    journal
        .set_cursor("sink", cursor(journal.end(), OnFull::Pause))
        .unwrap();
    let mut following = journal.reader(ReadOptions::from(start)).unwrap();
    let retained = journal.retain().unwrap();
    assert!(retained.segments >= 3, "{retained:?}");
    assert_eq!(journal.first(), start, "the stream's own segments stay");
    let check = |items: Vec<Owned>| {
        let at = items
            .iter()
            .position(|item| matches!(item, Owned::Retired(_)))
            .unwrap();
        let Owned::Retired(sequence) = items[at] else {
            panic!()
        };
        assert!(sequence > snapshot_start.0 && sequence <= snapshot_end.0);
        assert_eq!(items[..at], all[..at]);
        let rest = &items[at + 1..];
        assert_eq!(rest, &all[all.len() - rest.len()..]);
        assert!(items.len() < all.len());
    };
    assert!(following.control().is_empty());
    check(read_all(&mut following));
    assert_eq!(
        &*following.control().get(b"progress").unwrap().value,
        b"half"
    );
    writer.close().unwrap();
    let (journal, _writer) = open(bench.options()).unwrap();
    check(read_from(&journal, start));
}

#[test]
fn segments_of_one_transaction_leave_together() {
    let mut bench = Bench::new();
    let (journal, mut writer) = open(bench.options()).unwrap();
    bench.fill(&journal, &mut writer, 1, false);
    let large = journal.end();
    let bodies: Vec<Vec<u8>> = (0..60).map(|_| bench.random.bytes(4000)).collect();
    let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    append(&mut writer, 1, 1, &bodies);
    settle(&journal, &mut writer);
    bench.fill(&journal, &mut writer, 2, false);
    bench.clock.advance(25 * HOUR);
    journal
        .set_cursor("sink", cursor(Sequence(large.0 + 40), OnFull::Pause))
        .unwrap();
    journal.retain().unwrap();
    assert!(journal.first() <= large);
    assert_eq!(read_from(&journal, large)[..62].len(), 62);
    journal
        .set_cursor("sink", cursor(journal.end(), OnFull::Pause))
        .unwrap();
    journal.retain().unwrap();
    assert!(journal.first().0 >= large.0 + 61);
    let items = read_from(&journal, journal.first());
    assert!(matches!(items.first(), None | Some(Owned::Begin(..))));
}

#[test]
fn repeated_opening_leaves_no_trail_of_empty_segments() {
    let bench = Bench::new();
    for _ in 0..20 {
        let (journal, writer) = open(bench.options()).unwrap();
        assert!(journal.usage().segments <= 2);
        drop(writer);
    }
}

/// One `cursors` file, several sinks: what two threads wrote at once was a file without a name.
#[test]
fn sinks_that_move_their_cursors_at_once_do_not_disturb_each_other() {
    let mut bench = Bench::new();
    let (journal, mut writer) = open(bench.options()).unwrap();
    bench.fill(&journal, &mut writer, 1, false);
    let (start, end) = (journal.first(), journal.end());
    std::thread::scope(|scope| {
        for sink in 0..8 {
            let journal = &journal;
            let clock = &bench.clock;
            scope.spawn(move || {
                let name = format!("sink {sink}");
                for step in 0..200 {
                    // Each move is stored.
                    clock.advance(Duration::from_secs(2));
                    let to = Sequence((start.0 + step).min(end.0));
                    journal
                        .set_cursor(&name, cursor(to, OnFull::Pause))
                        .unwrap();
                }
            });
        }
    });
    journal
        .set_cursor("last", cursor(end, OnFull::Pause))
        .unwrap();
    bench.clock.advance(Duration::from_secs(2));
    journal
        .set_cursor("last", cursor(end, OnFull::Pause))
        .unwrap();
    let stored = open_read_only(bench.options()).unwrap().cursors();
    assert_eq!(stored.len(), 9);
    for sink in stored.iter().filter(|sink| sink.name != "last") {
        assert_eq!(sink.cursor.sequence, Sequence((start.0 + 199).min(end.0)));
    }
}
