//! One table's key ranges: unread, in flight, done.

use super::key::{self, Key, Order};
use change::wire::{WireError, WireReader, put_bytes, put_u64};
use change::{CopyStage, TableId, TableSchema};
use std::cmp::Ordering;
use std::sync::Arc;

/// A chunk's number.
pub type ChunkId = u64;

/// The state of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeState {
    /// Its events are dropped; the later read holds them.
    Unread,
    /// Its border is being looked for; as unread.
    Planned(ChunkId),
    /// Its events are held.
    InFlight(ChunkId),
    /// Its events pass.
    Done,
}

/// Keys from the previous range's end (exclusive) to `high` (inclusive; none for open).
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// Its end.
    pub high: Option<Key>,
    /// Its state.
    pub state: RangeState,
}

/// A table under snapshot.
#[derive(Debug)]
pub struct TableCopy {
    /// Its number.
    pub table: TableId,
    /// Its schema as the server has it, with what was learnt of collations.
    pub schema: Arc<TableSchema>,
    /// Who can compare its keys.
    pub order: Order,
    /// All keys, in order.
    pub ranges: Vec<Range>,
    /// Rows copied.
    pub rows: u64,
    /// Rows it is thought to have.
    pub rows_estimated: u64,
    /// Rows per chunk, halved when a chunk is too large.
    pub chunk_rows: u64,
    /// Chunks thrown away in a row.
    pub failures: u32,
    /// Why it cannot be copied at all.
    pub refused: Option<String>,
    /// Not before this time is another chunk tried.
    pub not_before: Option<std::time::Instant>,
    /// Whether the journal knows that it is being copied.
    pub is_announced: bool,
}

impl TableCopy {
    /// Nothing read yet.
    pub fn new(schema: Arc<TableSchema>, order: Order, chunk_rows: u64) -> Self {
        Self {
            table: schema.table,
            schema,
            order,
            ranges: vec![Range {
                high: None,
                state: RangeState::Unread,
            }],
            rows: 0,
            rows_estimated: 0,
            chunk_rows,
            failures: 0,
            refused: None,
            not_before: None,
            is_announced: true,
        }
    }

    /// Its key was changed: what was read so far cannot be told from what was not.
    pub fn refuse_other_key(&mut self) {
        let name = format!("{}.{}", self.schema.database, self.schema.name);
        self.finish();
        self.refused = Some(format!(
            "its key was changed while {name} was copied: headwater heal CONFIG {name} --resnapshot \
             copies it again"
        ));
    }

    /// Whether every range is done.
    pub fn is_done(&self) -> bool {
        self.ranges
            .iter()
            .all(|range| range.state == RangeState::Done)
    }

    /// Ends the copy: the table is gone.
    pub fn finish(&mut self) {
        self.ranges = vec![Range {
            high: None,
            state: RangeState::Done,
        }];
    }

    /// The range of a key, where the order is ours or there is one range.
    pub fn find(&self, key: &[u8]) -> usize {
        if self.ranges.len() == 1 {
            return 0;
        }
        self.ranges.partition_point(|range| {
            range
                .high
                .as_deref()
                .is_some_and(|high| key::compare(high, key) == Ordering::Less)
        })
    }

    /// The ends of all ranges but the open one.
    pub fn highs(&self) -> Vec<&[u8]> {
        self.ranges
            .iter()
            .filter_map(|range| range.high.as_deref())
            .collect()
    }

    /// The start of a range, none for open.
    pub fn low(&self, index: usize) -> Option<&Key> {
        index
            .checked_sub(1)
            .and_then(|before| self.ranges[before].high.as_ref())
    }

    /// The range of a chunk.
    pub fn of_chunk(&self, chunk: ChunkId) -> Option<usize> {
        self.ranges.iter().position(|range| {
            matches!(range.state, RangeState::Planned(c) | RangeState::InFlight(c) if c == chunk)
        })
    }

    /// Splits a range at `high`: its first part keeps the state, the rest is unread.
    pub fn split(&mut self, index: usize, high: Key) {
        let rest = Range {
            high: self.ranges[index].high.take(),
            state: RangeState::Unread,
        };
        self.ranges[index].high = Some(high);
        self.ranges.insert(index + 1, rest);
    }

    /// Sets a range done and joins it with done neighbours.
    pub fn done(&mut self, index: usize) {
        self.ranges[index].state = RangeState::Done;
        self.join(RangeState::Done);
    }

    /// Joins neighbouring ranges that are both in `state`.
    pub fn join(&mut self, state: RangeState) {
        let mut joined: Vec<Range> = Vec::with_capacity(self.ranges.len());
        for range in self.ranges.drain(..) {
            match joined.last_mut() {
                Some(last) if last.state == state && range.state == state => last.high = range.high,
                _ => joined.push(range),
            }
        }
        self.ranges = joined;
    }

    /// The control record: version, rows, then per range its end and whether it is done.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![1];
        put_u64(&mut out, self.rows);
        put_u64(&mut out, self.ranges.len() as u64);
        for range in &self.ranges {
            out.push(
                u8::from(range.state == RangeState::Done) | u8::from(range.high.is_some()) << 1,
            );
            put_bytes(&mut out, range.high.as_deref().unwrap_or_default());
        }
        out
    }

    /// Takes back what [`TableCopy::encode`] wrote.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        let mut r = WireReader::new(bytes);
        r.u8()?;
        self.rows = r.u64()?;
        let mut ranges = Vec::new();
        for _ in 0..r.u64()? {
            let flags = r.u8()?;
            let high = r.bytes()?;
            ranges.push(Range {
                high: (flags & 2 != 0).then(|| high.to_vec()),
                state: match flags & 1 {
                    0 => RangeState::Unread,
                    _ => RangeState::Done,
                },
            });
        }
        if !ranges.is_empty() {
            self.ranges = ranges;
        }
        self.join(RangeState::Unread);
        Ok(())
    }
}

/// What a record of `TableCopy::encode` says: nothing done, everything done, or none of the two.
pub fn stage(record: &[u8]) -> Option<CopyStage> {
    let done = done_ranges(record)?;
    if done.iter().all(|done| !done) {
        return Some(CopyStage::Begun);
    }
    done.iter().all(|done| *done).then_some(CopyStage::Done)
}

/// Of each range of a record, whether it is done; none for bytes that are no record.
fn done_ranges(record: &[u8]) -> Option<Vec<bool>> {
    let mut r = WireReader::new(record);
    if r.u8().ok()? != 1 {
        return None;
    }
    r.u64().ok()?;
    let count = r.u64().ok()?;
    let mut done = Vec::new();
    for _ in 0..count {
        done.push(r.u8().ok()? & 1 != 0);
        r.bytes().ok()?;
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::value::put_value;
    use change::{SchemaVersion, Value};

    fn key(value: i64) -> Key {
        let mut out = Vec::new();
        put_value(&mut out, Value::Int(value));
        out
    }

    #[test]
    fn a_record_tells_nothing_done_and_everything_done() {
        let mut copy = table();
        assert_eq!(stage(&copy.encode()), Some(CopyStage::Begun));
        assert_eq!(stage(&[1, 0, 0]), Some(CopyStage::Begun));
        copy.split(0, key(5));
        copy.done(0);
        assert_eq!(stage(&copy.encode()), None);
        copy.done(1);
        assert_eq!(stage(&copy.encode()), Some(CopyStage::Done));
        assert_eq!(stage(&[9]), None);
    }

    fn table() -> TableCopy {
        let schema = TableSchema {
            table: TableId(1),
            version: SchemaVersion(1),
            database: "d".into(),
            name: "t".into(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            unique_keys: Vec::new(),
            charset: None,
            comment: String::new(),
        };
        TableCopy::new(Arc::new(schema), Order::Ours, 10)
    }

    #[test]
    fn keys_fall_into_the_range_up_to_and_with_its_end() {
        let mut table = table();
        table.split(0, key(10));
        table.split(1, key(20));
        for (value, range) in [(-5, 0), (10, 0), (11, 1), (20, 1), (21, 2)] {
            assert_eq!(table.find(&key(value)), range, "{value}");
        }
        assert_eq!(table.low(1), Some(&key(10)));
    }

    #[test]
    fn done_ranges_join_and_outlive_a_restart() {
        let mut copy = table();
        copy.split(0, key(10));
        copy.split(1, key(20));
        copy.ranges[1].state = RangeState::InFlight(7);
        copy.done(0);
        let mut restored = table();
        restored.restore(&copy.encode()).unwrap();
        assert_eq!(restored.ranges.len(), 2, "unread neighbours are one");
        assert_eq!(restored.ranges[0].state, RangeState::Done);
        restored.done(1);
        assert!(restored.is_done());
        assert_eq!(restored.ranges.len(), 1);
    }
}
