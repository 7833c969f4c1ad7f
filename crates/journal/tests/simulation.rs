//! Random histories, crashed anywhere: what was visible is there, once and in order, and nothing half is.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use journal::*;
use support::simulated::SimFs;
use support::*;

const SEEDS: u64 = 2400;
/// More of the same on another day: `JOURNAL_SEED=first..end`.
const SEED_VARIABLE: &str = "JOURNAL_SEED";

/// One committed transaction as a reader must see it.
#[derive(Clone)]
struct Committed {
    items: Vec<Owned>,
    end: u64,
}

impl Committed {
    fn start(&self) -> u64 {
        self.items[1..].iter().map(sequence).next().unwrap()
    }
}

struct World {
    fs: SimFs,
    clock: Arc<TestClock>,
    random: Random,
    model: Vec<Committed>,
    number: u64,
    tail_bytes: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let tail_bytes = [0, 64 << 10, 6 << 20][random.below(3) as usize];
        let (fs, clock) = (SimFs::default(), TestClock::new());
        World {
            fs,
            clock,
            random,
            model: Vec::new(),
            number: 0,
            tail_bytes,
        }
    }

    fn options(&self) -> Options {
        Options {
            segment_bytes: 64 << 10,
            frame_bytes: 4096,
            tail_bytes: self.tail_bytes,
            fs: Arc::new(self.fs.clone()),
            clock: self.clock.clone(),
            ..options(Path::new("/j"))
        }
    }

    /// Writes until the machine goes down or enough was written; returns what was visible then.
    fn run(&mut self) -> Option<u64> {
        let (journal, mut writer) = open(self.options()).ok()?;
        for _ in 0..self.random.below(30) + 3 {
            self.clock
                .advance(Duration::from_micros(self.random.below(900)));
            if self.transaction(&mut writer).is_err() {
                break;
            }
            let moved = match self.random.below(4) {
                0 => writer.flush(),
                1 => writer.poll(),
                _ => Ok(()),
            };
            if moved.is_err() {
                break;
            }
            if self.random.chance(4) {
                self.clock.advance(Duration::from_secs(25 * 3600));
                if journal.retain().is_err() {
                    break;
                }
            }
            if self.random.chance(5) {
                journal.wait(
                    Sequence(writer.next_sequence().0 - 1),
                    Duration::from_micros(300),
                );
            }
        }
        if self.random.chance(50) {
            let _ = writer.flush();
            let last = Sequence(writer.next_sequence().0 - 1);
            journal.wait(
                last,
                Duration::from_millis(if self.random.chance(70) { 5 } else { 0 }),
            );
        }
        let visible = match self.random.chance(50) {
            true => {
                let _ = writer.close();
                journal.end().0
            }
            false => {
                let visible = journal.end().0;
                drop(writer);
                visible.max(journal.end().0)
            }
        };
        Some(visible)
    }

    fn transaction(&mut self, writer: &mut Writer) -> Result<(), Error> {
        self.number += 1;
        let number = self.number;
        let snapshot = self.random.chance(20);
        let header = number.to_be_bytes();
        writer.begin(TransactionStart {
            header: &header,
            snapshot,
        })?;
        let mut items = vec![Owned::Begin(header.to_vec(), snapshot)];
        let count = match self.random.below(10) {
            0 => 0,
            1 => 10 + self.random.below(60),
            _ => 1 + self.random.below(4),
        };
        for _ in 0..count {
            items.push(self.item(writer)?);
        }
        if self.random.chance(10) {
            return writer.rollback();
        }
        let position = number.to_be_bytes();
        let time_us = number as i64;
        let trailer = b"trailer";
        let next = writer.next_sequence().0;
        items.push(Owned::Commit {
            sequence: next,
            trailer: trailer.to_vec(),
            position: position.to_vec(),
            time_us,
            rows: count,
        });
        self.model.push(Committed {
            items,
            end: next + 1,
        });
        writer.commit(Commit {
            trailer,
            position: &position,
            time_us,
            rows: count,
        })?;
        Ok(())
    }

    fn item(&mut self, writer: &mut Writer) -> Result<Owned, Error> {
        if self.random.chance(15) {
            let key = vec![b'k', self.random.below(6) as u8];
            let len = self.random.below(300) as usize;
            let value = self.random.chance(80).then(|| self.random.bytes(len));
            let sequence = writer.control(&key, value.as_deref())?;
            return Ok(Owned::Control(sequence.0, key, value));
        }
        let mut descriptor = descriptor(self.random.below(5) as u32);
        descriptor.key_token = self.random.number();
        if self.random.chance(10) {
            descriptor.key_group = KeyGroupId(3);
        }
        let limit = if self.random.chance(10) { 9000 } else { 600 };
        let len = self.random.below(limit) as usize;
        let body = match self.random.chance(70) {
            true => self.random.bytes(len),
            false => vec![b'z'; len],
        };
        let sequence = writer.record(&descriptor, &body)?;
        Ok(Owned::Record(sequence.0, descriptor, Some(body)))
    }

    /// Compares the journal with the model, and cuts the model to what survived.
    fn check(&mut self, visible: u64) {
        let (journal, writer) = open(self.options()).unwrap();
        let end = journal.end().0;
        assert!(end >= visible, "visible up to {visible}, found up to {end}");
        self.model.retain(|committed| committed.end <= end);
        let first = journal.first().0;
        let kept = self
            .model
            .iter()
            .filter(|committed| committed.start() >= first);
        let kept: Vec<Committed> = kept.cloned().collect();
        let start = Sequence(kept.first().map_or(end, Committed::start));
        let expected: Vec<Owned> = kept
            .iter()
            .flat_map(|committed| committed.items.clone())
            .collect();
        let found = read_from(&journal, start);
        assert!(
            found == expected,
            "found {} items, expected {}",
            found.len(),
            expected.len()
        );
        self.check_filtered(&journal, &kept);
        self.check_control(&journal);
        let last = self.model.last();
        let last_commit = journal.last_commit();
        assert_eq!(
            last.map(|last| last.end - 1),
            last_commit.as_ref().map(|c| c.sequence.0)
        );
        if let (Some(last), Some(commit)) = (last, last_commit) {
            let Some(Owned::Commit { position, .. }) = last.items.last() else {
                panic!()
            };
            assert_eq!(position, &commit.position);
            let wanted = commit.position.clone();
            let found = journal
                .seek_position(&mut |position| position >= &wanted[..])
                .unwrap();
            if !kept.is_empty() {
                assert_eq!(found.0, last.start());
            }
        }
        drop(writer);
    }

    fn check_filtered(&self, journal: &Journal, kept: &[Committed]) {
        let wanted = |item: &Owned| match item {
            Owned::Record(_, descriptor, _) => descriptor.table == TableId(2),
            _ => true,
        };
        let touched =
            |item: &Owned| wanted(item) && matches!(item, Owned::Record(..) | Owned::Control(..));
        let start = kept.first().map_or(journal.end().0, Committed::start);
        let expected: Vec<Owned> = kept
            .iter()
            .filter(|committed| committed.items.iter().any(touched))
            .flat_map(|committed| committed.items.iter().filter(|item| wanted(item)).cloned())
            .collect();
        let found = read_tables(journal, Sequence(start), &[2]);
        assert!(
            found == expected,
            "filtered: {} items, expected {}",
            found.len(),
            expected.len()
        );
    }

    fn check_control(&mut self, journal: &Journal) {
        let (first, end) = (journal.first().0, journal.end().0);
        let from = first + self.random.below(end - first + 1);
        let reader = journal.reader(ReadOptions::from(Sequence(from))).unwrap();
        let fold = |upto: u64| {
            let mut state = BTreeMap::new();
            for item in self.model.iter().flat_map(|committed| &committed.items) {
                if let Owned::Control(sequence, key, value) = item
                    && *sequence < upto
                {
                    match value {
                        Some(value) => state.insert(key.clone(), (*sequence, value.clone())),
                        None => state.remove(key),
                    };
                }
            }
            state
        };
        let found = |control: &ControlState| -> BTreeMap<_, _> {
            control
                .iter()
                .map(|(key, entry)| (key.to_vec(), (entry.sequence.0, entry.value.to_vec())))
                .collect()
        };
        assert_eq!(found(&journal.control()), fold(u64::MAX));
        assert_eq!(found(reader.control()), fold(from), "from {from}");
    }
}

fn sequence(item: &Owned) -> u64 {
    match item {
        Owned::Record(sequence, ..) | Owned::Control(sequence, ..) => *sequence,
        Owned::Commit { sequence, .. } | Owned::Retired(sequence) => *sequence,
        Owned::Begin(..) => panic!("a begin has no sequence"),
    }
}

fn history(seed: u64) {
    let mut world = World::new(seed);
    let mut visible = 0;
    for _ in 0..world.random.below(3) + 1 {
        let limit = if world.random.chance(50) { 12 } else { 80 };
        let operations = world.random.below(limit);
        world.fs.crash_after(operations);
        visible = world.run().unwrap_or(visible).max(visible);
        world.fs.crash(&mut world.random);
        if world.random.chance(30) {
            // Down again while recovering.
            let operations = world.random.below(8);
            world.fs.crash_after(operations);
            drop(open(world.options()));
            world.fs.crash(&mut world.random);
        }
        world.check(visible);
        visible = visible.max(world.model.last().map_or(0, |last| last.end));
        world.fs.crash(&mut world.random);
    }
    world.check(visible);
}

#[test]
fn what_was_visible_before_a_crash_is_there_after_it() {
    let range = std::env::var(SEED_VARIABLE).ok().and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse::<u64>().ok()?..to.parse::<u64>().ok()?)
    });
    let range = range.unwrap_or(0..SEEDS);
    std::thread::scope(|scope| {
        for half in 0..2 {
            let range = range.clone();
            scope.spawn(move || {
                for seed in range.filter(|seed| seed % 2 == half) {
                    let result = std::panic::catch_unwind(|| history(seed));
                    assert!(
                        result.is_ok(),
                        "seed {seed}: run with {SEED_VARIABLE}={seed}..{}",
                        seed + 1
                    );
                }
            });
        }
    });
}
