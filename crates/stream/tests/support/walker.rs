//! A consumer: shards by lineage, iterators of random types, restarts at random.

use super::{History, Rng};
use std::collections::BTreeMap;
use stream::{
    CellValue, ErrorKind, ReadFrom, ReadLimits, RecordView, RowView, Sequence, ShardId, Start,
    Streams,
};

#[derive(Default, Clone)]
struct ShardState {
    finished: bool,
    /// Last record taken.
    last: Option<Sequence>,
    next: Option<ReadFrom>,
    starting: Sequence,
}

/// Reads a whole stream and remembers what it saw.
#[derive(Default)]
pub struct Walker {
    shards: BTreeMap<ShardId, ShardState>,
    pub seen: History,
    pub records: u64,
}

pub fn row_text(row: &RowView<'_>) -> String {
    let mut text = String::new();
    for cell in row.value_cells() {
        let mut value = Vec::new();
        cell.value.put_text(&mut value);
        let space = if text.is_empty() { "" } else { " " };
        text += &format!("{space}{}={}", cell.name, String::from_utf8(value).unwrap());
    }
    text
}

pub fn key_of(record: &RecordView<'_>) -> i64 {
    let keys: Vec<_> = record.partition_keys().collect();
    assert_eq!(keys.len(), 1);
    match keys[0] {
        ("id", CellValue::Bigint(id)) => id,
        other => panic!("the key is {other:?}"),
    }
}

impl Walker {
    /// One round over all shards whose parents are finished; whether everything is drained.
    pub fn step(&mut self, streams: &Streams, arn: &str, random: &mut Rng) -> bool {
        let mut listed = Vec::new();
        let (mut after, mut as_of) = (None, None);
        loop {
            let page = streams
                .shards_as_of(arn, None, (after, as_of), 1 + random.below(5) as usize)
                .unwrap();
            as_of = Some(page.as_of);
            listed.extend(page.shards.iter().cloned());
            after = listed.last().map(|shard| shard.id);
            if !page.more {
                break;
            }
        }
        let mut all_drained = true;
        for shard in &listed {
            for parent in &shard.parents {
                let open = listed
                    .iter()
                    .any(|other| other.id == *parent && other.ending.is_none());
                assert!(!open, "a listed parent is open");
                let earlier = listed.iter().filter(|other| other.id == *parent);
                assert!(
                    earlier
                        .filter_map(|other| other.ending)
                        .all(|ending| ending < shard.starting)
                );
            }
            let ready = shard
                .parents
                .iter()
                .all(|parent| self.shards.get(parent).is_none_or(|state| state.finished));
            let state = self.shards.entry(shard.id).or_default();
            state.starting = shard.starting;
            if state.finished {
                continue;
            }
            all_drained &= ready && self.read_some(streams, arn, shard.id, random);
        }
        all_drained
    }

    /// Where to go on, by an iterator type chosen at random among those that lead to the same place.
    fn start(&self, streams: &Streams, arn: &str, id: ShardId, random: &mut Rng) -> ReadFrom {
        let state = &self.shards[&id];
        if let Some(next) = state.next
            && random.chance(70)
        {
            return next;
        }
        let start = match (state.last, random.below(2)) {
            (Some(last), 0) => Start::AfterSequence(last),
            (Some(last), _) => Start::AtSequence(last.next()),
            (None, 0) => Start::TrimHorizon,
            (None, _) => Start::AtSequence(state.starting),
        };
        match streams.locate(arn, id, start) {
            Ok(from) => from,
            // A closed shard whose last record was taken: the number after it is past the end.
            Err(error) if error.kind() == ErrorKind::Invalid => streams
                .locate(arn, id, Start::AfterSequence(state.last.unwrap()))
                .unwrap(),
            Err(error) => panic!("{error}"),
        }
    }

    fn read_some(&mut self, streams: &Streams, arn: &str, id: ShardId, random: &mut Rng) -> bool {
        for _ in 0..1 + random.below(4) {
            let from = self.start(streams, arn, id, random);
            let limits = ReadLimits {
                records_max: 1 + random.below(300) as usize,
                bytes_max: 1 << (8 + random.below(12)),
            };
            let page = streams.read(arn, id, from, limits).unwrap();
            assert!(page.len() <= limits.records_max);
            if random.chance(10) {
                let again = streams.read(arn, id, from, limits).unwrap();
                let numbers =
                    |page: &stream::Page| page.records().map(|r| r.sequence()).collect::<Vec<_>>();
                let (first, second) = (numbers(&page), numbers(&again));
                let common = first.len().min(second.len());
                assert_eq!(
                    first[..common],
                    second[..common],
                    "the same iterator gives the same records"
                );
            }
            let state = self.shards.get_mut(&id).unwrap();
            for record in page.records() {
                assert!(
                    state.last.is_none_or(|last| record.sequence() > last),
                    "numbers rise"
                );
                assert!(record.sequence() >= state.starting);
                state.last = Some(record.sequence());
                let pair = (
                    record.old_image().map(|row| row_text(&row)),
                    record.new_image().map(|row| row_text(&row)),
                );
                self.seen.entry(key_of(&record)).or_default().push(pair);
                self.records += 1;
            }
            let state = self.shards.get_mut(&id).unwrap();
            let Some(next) = page.next else {
                state.finished = true;
                return true;
            };
            state.next = Some(ReadFrom::Sequence(next));
            if page.at_tip {
                return page.is_empty();
            }
        }
        false
    }

    /// Everything that there is.
    pub fn drain(&mut self, streams: &Streams, arn: &str, random: &mut Rng) {
        for _ in 0..100_000 {
            if self.step(streams, arn, random) {
                return;
            }
        }
        panic!("the stream does not come to its end");
    }
}

impl Walker {
    /// As a consumer that was killed: it goes on from the sequences of what it took.
    pub fn forget_iterators(&mut self) {
        self.shards.values_mut().for_each(|state| state.next = None);
    }

    /// Everything that there is now in shards that may still be open.
    pub fn drain_open(&mut self, streams: &Streams, arn: &str) {
        let mut random = Rng(1);
        for _ in 0..1000 {
            self.step(streams, arn, &mut random);
        }
    }
}
