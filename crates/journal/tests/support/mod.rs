//! What the tests share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of this"
)]

pub mod simulated;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::*;

/// A directory that goes with the test.
pub struct TempDir(pub PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("journal-test-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Wraps by XOR; groups can be locked.
#[derive(Default)]
pub struct TestKeys {
    pub locked: Mutex<BTreeSet<u16>>,
    pub unwraps: AtomicU64,
}

impl KeyProvider for TestKeys {
    fn wrap(&self, group: KeyGroupId, key: &DataKey) -> Result<Vec<u8>, KeyError> {
        if self.locked.lock().unwrap().contains(&group.0) {
            return Err(KeyError::Locked("by the test".into()));
        }
        Ok(key.bytes().iter().map(|byte| byte ^ 0x5a).collect())
    }

    fn unwrap(&self, group: KeyGroupId, wrapped: &[u8]) -> Result<DataKey, KeyError> {
        self.unwraps.fetch_add(1, Ordering::Relaxed);
        if self.locked.lock().unwrap().contains(&group.0) {
            return Err(KeyError::Locked("by the test".into()));
        }
        let bytes: Vec<u8> = wrapped.iter().map(|byte| byte ^ 0x5a).collect();
        Ok(DataKey::from_bytes(bytes.try_into().unwrap()))
    }
}

/// A clock that the test moves.
pub struct TestClock(pub AtomicI64);

impl TestClock {
    pub fn new() -> Arc<TestClock> {
        Arc::new(TestClock(AtomicI64::new(1_800_000_000_000_000)))
    }

    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_micros() as i64, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.now_us() as u64)
    }
}

pub fn options(dir: &Path) -> Options {
    Options::new(dir, Arc::new(TestKeys::default()))
}

/// One item, owned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Owned {
    Begin(Vec<u8>, bool),
    Record(u64, RecordDescriptor, Option<Vec<u8>>),
    Control(u64, Vec<u8>, Option<Vec<u8>>),
    Commit {
        sequence: u64,
        trailer: Vec<u8>,
        position: Vec<u8>,
        time_us: i64,
        rows: u64,
    },
    Retired(u64),
}

pub fn owned(item: Item<'_>) -> Owned {
    match item {
        Item::Begin { header, snapshot } => Owned::Begin(header.to_vec(), snapshot),
        Item::Record {
            sequence,
            descriptor,
            body,
        } => {
            let body = match body {
                Body::Bytes(bytes) => Some(bytes.to_vec()),
                Body::Locked(_) => None,
            };
            Owned::Record(sequence.0, descriptor, body)
        }
        Item::Control {
            sequence,
            key,
            value,
        } => Owned::Control(sequence.0, key.to_vec(), value.map(<[u8]>::to_vec)),
        Item::Commit {
            sequence,
            trailer,
            position,
            time_us,
            rows,
        } => Owned::Commit {
            sequence: sequence.0,
            trailer: trailer.to_vec(),
            position: position.to_vec(),
            time_us,
            rows,
        },
        Item::Retired { sequence } => Owned::Retired(sequence.0),
    }
}

/// Everything a reader shows.
pub fn read_all(reader: &mut Reader) -> Vec<Owned> {
    let mut items = Vec::new();
    while let Some(frame) = reader.next().unwrap() {
        items.extend(frame.items().map(owned));
    }
    items
}

pub fn read_from(journal: &Journal, from: Sequence) -> Vec<Owned> {
    read_all(&mut journal.reader(ReadOptions::from(from)).unwrap())
}

pub fn read_tables(journal: &Journal, from: Sequence, tables: &[u32]) -> Vec<Owned> {
    let tables = Some(tables.iter().copied().map(TableId).collect());
    read_all(&mut journal.reader(ReadOptions { from, tables }).unwrap())
}

pub fn descriptor(table: u32) -> RecordDescriptor {
    RecordDescriptor {
        table: TableId(table),
        schema: SchemaId(table + 1000),
        operation: 1,
        flags: 0,
        key_token: u64::from(table) << 32,
        key_group: KeyGroupId::DEFAULT,
    }
}

/// Makes everything written so far durable.
pub fn settle(journal: &Journal, writer: &mut Writer) {
    writer.flush().unwrap();
    let last = Sequence(writer.next_sequence().0 - 1);
    if journal.wait(last, Duration::from_secs(20)) <= last {
        panic!("not durable: {:?}", journal.failed());
    }
}

/// One transaction with a record per body.
pub fn append(writer: &mut Writer, number: u64, table: u32, bodies: &[&[u8]]) -> Sequence {
    let header = format!("header {number}");
    writer
        .begin(TransactionStart {
            header: header.as_bytes(),
            snapshot: false,
        })
        .unwrap();
    for body in bodies {
        writer.record(&descriptor(table), body).unwrap();
    }
    commit(writer, number, bodies.len() as u64)
}

pub fn commit(writer: &mut Writer, number: u64, rows: u64) -> Sequence {
    let position = number.to_be_bytes();
    let trailer = format!("trailer {number}");
    let trailer = trailer.as_bytes();
    let time_us = number as i64 * 1000;
    writer
        .commit(Commit {
            trailer,
            position: &position,
            time_us,
            rows,
        })
        .unwrap()
}

/// Pseudo-random numbers: xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.number() >> 16) % limit.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Bytes that nothing can compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8))
            .flat_map(|_| self.number().to_le_bytes())
            .take(len)
            .collect()
    }
}
