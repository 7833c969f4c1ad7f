//! A source of made-up rows over a real journal, and a consumer that walks shards by lineage.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test file uses a part of this, and a test may fail"
)]

pub mod cql;
pub mod walker;

use change::batch::{FLAG_PAIR_FIRST, FLAG_PAIR_SECOND, key_token};
use change::image::ImageWriter;
use change::wire::WireReader;
use change::{
    Batch, Column, ColumnType, Entry, Image, Operation, PositionStep, RowMeta, SchemaVersion,
    TableId, TableSchema, TransactionHeader, TransactionTrailer, Value,
};
use journal::{
    Commit, FileKeys, Item, Journal, KeyGroupId, Options, ReadOptions, RecordDescriptor, SchemaId,
    TransactionStart, Writer,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use stream::{SourceFacts, StreamWriter, Streams, StreamsOptions};

pub const HOUR: Duration = Duration::from_secs(3600);

/// SplitMix64.
#[derive(Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The seed of a test: `HEADWATER_SEED`, or a new one; printed so that a failure can be run again.
pub fn seed(test: &str) -> u64 {
    let given = std::env::var("HEADWATER_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let now = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap_or_default().as_nanos() as u64
    };
    let seed = given.unwrap_or_else(now);
    eprintln!("{test}: HEADWATER_SEED={seed}");
    seed
}

/// A directory that goes with the test.
pub struct TempDir(pub PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("stream-test-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The machine's time and an offset that the test moves.
pub struct TestClock {
    real: journal::SystemClock,
    pub offset_us: AtomicI64,
}

impl TestClock {
    pub fn new() -> Arc<TestClock> {
        Arc::new(TestClock {
            real: journal::SystemClock::default(),
            offset_us: AtomicI64::new(0),
        })
    }
    pub fn advance(&self, by: Duration) {
        self.offset_us
            .fetch_add(by.as_micros() as i64, Ordering::Relaxed);
    }
}

impl journal::Clock for TestClock {
    fn now_us(&self) -> i64 {
        self.real.now_us() + self.offset_us.load(Ordering::Relaxed)
    }
    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }
}

fn column(name: &str, kind: ColumnType, nullable: bool) -> Column {
    Column {
        name: name.into(),
        declared: String::new(),
        kind,
        charset: None,
        collation: None,
        nullable,
        default: None,
        comment: String::new(),
        generated: false,
        invisible: false,
        masked: false,
    }
}

/// `id BIGINT PRIMARY KEY, v INT, s VARCHAR(n)`.
pub fn schema(table: u32, name: &str) -> TableSchema {
    let int = |bytes| ColumnType::Int {
        bytes,
        unsigned: false,
    };
    TableSchema {
        table: TableId(table),
        version: SchemaVersion(1),
        database: "shop".into(),
        name: name.into(),
        columns: vec![
            column("id", int(8), false),
            column("v", int(4), true),
            column("s", ColumnType::Varchar { length: 100 }, true),
        ],
        primary_key: vec![0],
        unique_keys: Vec::new(),
        charset: None,
        comment: String::new(),
    }
}

/// A row of that table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub id: i64,
    pub v: Option<i64>,
    pub s: String,
}

impl Row {
    pub fn text(&self) -> String {
        let v = self.v.map(|v| format!(" v={v}")).unwrap_or_default();
        format!("id={}{v} s={}", self.id, self.s)
    }

    fn image(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut image = ImageWriter::new(&mut out, 3);
        image.value(Value::Int(self.id));
        match self.v {
            Some(v) => image.value(Value::Int(v)),
            None => image.cell(change::Cell::Null),
        }
        image.value(Value::Text(&self.s));
        out
    }
}

fn token(image: &[u8]) -> u64 {
    let mut reader = WireReader::new(image);
    key_token(&Image::read(&mut reader, image).unwrap(), &[0])
}

/// One row's change.
#[derive(Debug, Clone)]
pub enum Step {
    Insert(Row),
    Update(Row, Row),
    Delete(Row),
}

/// Adds rows to a batch as a source does.
pub fn put(batch: &mut Batch, table: u32, step: &Step) {
    let (id, version, meta) = (TableId(table), SchemaVersion(1), RowMeta::default());
    let mut one = |before: Option<&Row>, after: Option<&Row>, operation, flags| {
        let mut row = batch.row(id, version, meta);
        let mut key = 0;
        if let Some(before) = before {
            let image = before.image();
            key = token(&image);
            row.copy_before(&image);
        }
        if let Some(after) = after {
            let image = after.image();
            key = token(&image);
            row.copy_after(&image);
        }
        row.finish(operation, flags, key);
    };
    match step {
        Step::Insert(row) => one(None, Some(row), Operation::Insert, 0),
        Step::Delete(row) => one(Some(row), None, Operation::Delete, 0),
        Step::Update(old, new) if old.id == new.id => {
            one(Some(old), Some(new), Operation::Update, 0)
        }
        Step::Update(old, new) => {
            one(Some(old), None, Operation::Delete, FLAG_PAIR_FIRST);
            one(None, Some(new), Operation::Insert, FLAG_PAIR_SECOND);
        }
    }
}

/// A journal with its streams, as a pipeline holds them.
pub struct World {
    pub clock: Arc<TestClock>,
    pub journal: Journal,
    pub writer: Option<Writer>,
    pub streams: Streams,
    pub driver: StreamWriter,
    batch: Batch,
    pub transactions: u64,
}

pub fn options(dir: &Path, clock: &Arc<TestClock>) -> Options {
    let keys = FileKeys::open_or_create(&dir.with_extension("key")).unwrap();
    let mut options = Options::new(dir, Arc::new(keys));
    options.segment_bytes = 256 << 10;
    options.frame_bytes = 8 << 10;
    options.clock = Arc::clone(clock) as Arc<dyn journal::Clock>;
    options
}

impl World {
    pub fn open(dir: &Path, clock: Arc<TestClock>) -> World {
        Self::open_with(options(dir, &clock), clock)
    }

    pub fn open_with(options: Options, clock: Arc<TestClock>) -> World {
        let (journal, writer) = open_journal(options);
        journal.set_retention_hold("streams", Some(25 * HOUR));
        let options = StreamsOptions {
            clock: Arc::clone(&clock) as Arc<dyn journal::Clock>,
            ..StreamsOptions::default()
        };
        let (streams, driver) = Streams::open(journal.clone(), options).unwrap();
        let transactions = transactions(&journal);
        let mut world = World {
            clock,
            journal,
            writer: Some(writer),
            streams,
            driver,
            batch: Batch::default(),
            transactions,
        };
        if world.transactions == 0 {
            world.tables(&["t"]);
        }
        world
    }

    /// Makes these tables known, numbered from 1.
    pub fn tables(&mut self, names: &[&str]) {
        self.batch.clear();
        self.batch.begin(&TransactionHeader::default());
        for (index, name) in names.iter().enumerate() {
            let schema = schema(index as u32 + 1, name);
            let mut value = Vec::new();
            schema.encode(&mut value);
            let key = format!("schema/{}/1", schema.table.0);
            self.batch.control(key.as_bytes(), Some(&value));
        }
        self.batch.commit(&TransactionTrailer::default(), 1);
        self.append();
        self.settle();
    }

    /// Makes these versions of tables known.
    pub fn schemas(&mut self, schemas: &[&TableSchema]) {
        self.batch.clear();
        self.batch.begin(&TransactionHeader::default());
        for schema in schemas {
            let mut value = Vec::new();
            schema.encode(&mut value);
            let key = format!("schema/{}/{}", schema.table.0, schema.version.0);
            self.batch.control(key.as_bytes(), Some(&value));
        }
        self.batch.commit(&TransactionTrailer::default(), 1);
        self.append();
        self.settle();
    }

    /// One transaction of what `fill` puts in.
    pub fn write(&mut self, replicated: bool, fill: impl FnOnce(&mut Batch)) {
        self.write_of(0, replicated, fill);
    }

    /// The same, whose end says that it changed so many rows.
    fn write_of(&mut self, row_changes: u64, replicated: bool, fill: impl FnOnce(&mut Batch)) {
        self.transactions += 1;
        let header = TransactionHeader {
            commit_time_us: self.streams.now_us() as u64,
            replicated,
            ..TransactionHeader::default()
        };
        let trailer = TransactionTrailer {
            step: PositionStep {
                file: "bin.000001".into(),
                offset: self.transactions,
                id: None,
            },
            row_changes,
            ..TransactionTrailer::default()
        };
        self.batch.clear();
        self.batch.begin(&header);
        fill(&mut self.batch);
        self.batch.commit(&trailer, header.commit_time_us);
        self.append();
    }

    pub fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().unwrap()
    }

    /// One transaction of table `t`.
    pub fn transaction(&mut self, steps: &[Step]) {
        self.transaction_of(1, steps, false);
    }

    pub fn transaction_of(&mut self, table: u32, steps: &[Step], replicated: bool) {
        self.write_of(steps.len() as u64, replicated, |batch| {
            for step in steps {
                put(batch, table, step);
            }
        });
    }

    /// An update of table `t` as a log with `binlog_row_image = MINIMAL` carries it.
    pub fn minimal_update(&mut self, id: i64) {
        let image = |v: change::Cell<'_>| {
            let mut out = Vec::new();
            let mut image = ImageWriter::new(&mut out, 3);
            image.value(Value::Int(id));
            image.cell(v);
            image.cell(change::Cell::Unknown);
            out
        };
        let (before, after) = (
            image(change::Cell::Unknown),
            image(change::Cell::Value(Value::Int(7))),
        );
        self.batch.clear();
        self.batch.begin(&TransactionHeader::default());
        let mut row = self
            .batch
            .row(TableId(1), SchemaVersion(1), RowMeta::default());
        row.copy_before(&before);
        row.copy_after(&after);
        row.finish(Operation::Update, 0, token(&after));
        self.batch.commit(&TransactionTrailer::default(), 1);
        self.append();
    }

    /// One chunk of a snapshot of table `t`.
    pub fn chunk(&mut self, rows: &[Row]) {
        let header = TransactionHeader {
            snapshot: true,
            ..TransactionHeader::default()
        };
        self.batch.clear();
        self.batch.begin(&header);
        for row in rows {
            let image = row.image();
            let mut writer = self
                .batch
                .row(TableId(1), SchemaVersion(1), RowMeta::default());
            writer.copy_after(&image);
            writer.finish(Operation::Read, 0, token(&image));
        }
        self.batch.commit(&TransactionTrailer::default(), 1);
        self.append();
    }

    fn append(&mut self) {
        let writer = self.writer.as_mut().unwrap();
        for entry in self.batch.entries() {
            match entry {
                Entry::Begin { header, snapshot } => {
                    let header = self.batch.bytes(*header);
                    writer
                        .begin(TransactionStart {
                            header,
                            snapshot: *snapshot,
                        })
                        .unwrap();
                }
                Entry::Record(record) => {
                    let descriptor = RecordDescriptor {
                        table: journal::TableId(record.table.0),
                        schema: SchemaId(record.schema.0),
                        operation: record.operation as u8,
                        flags: record.flags,
                        key_token: record.key_token,
                        key_group: KeyGroupId(0),
                    };
                    let body = self.batch.bytes(record.body);
                    if self.driver.observe(&descriptor, body) {
                        let sequence = writer.next_sequence();
                        self.driver
                            .end_streams(record.table, sequence, "not whole", writer)
                            .unwrap();
                    }
                    writer.record(&descriptor, body).unwrap();
                }
                Entry::Control { key, value } => {
                    let value = value.map(|value| self.batch.bytes(value));
                    writer.control(self.batch.bytes(*key), value).unwrap();
                }
                Entry::Commit {
                    trailer,
                    position,
                    time_us,
                    rows,
                } => {
                    let commit = Commit {
                        trailer: self.batch.bytes(*trailer),
                        position: self.batch.bytes(*position),
                        time_us: *time_us,
                        rows: *rows,
                    };
                    writer.commit(commit).unwrap();
                }
                Entry::Rollback => writer.rollback().unwrap(),
            }
        }
    }

    /// Makes everything durable and visible.
    pub fn settle(&mut self) {
        let writer = self.writer.as_mut().unwrap();
        writer.flush().unwrap();
        let next = writer.next_sequence();
        while self.journal.end() < next {
            self.journal
                .wait(journal::Sequence(next.0 - 1), Duration::from_millis(100));
            assert!(self.journal.failed().is_none());
        }
    }

    pub fn serve(&mut self) {
        let writer = self.writer.as_mut().unwrap();
        self.driver.serve(writer, &SourceFacts::COMPLETE).unwrap();
    }

    /// Asks from another thread, as everybody does, and serves meanwhile.
    pub fn ask<T: Send + 'static>(&mut self, ask: impl FnOnce(Streams) -> T + Send + 'static) -> T {
        let streams = self.streams.clone();
        let asking = std::thread::spawn(move || ask(streams));
        while !asking.is_finished() {
            self.serve();
            std::thread::sleep(Duration::from_micros(200));
        }
        asking.join().unwrap()
    }

    /// An orderly end.
    pub fn close(mut self) {
        self.writer.take().unwrap().close().unwrap();
    }
}

/// A child that another test forks holds our locks until it runs its own program.
fn open_journal(options: Options) -> (Journal, Writer) {
    for _ in 0..200 {
        match journal::open(options.clone()) {
            Err(error) if error.kind() == journal::ErrorKind::Fenced => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened.unwrap(),
        }
    }
    journal::open(options).unwrap()
}

/// Source transactions that the journal holds.
pub fn transactions(journal: &Journal) -> u64 {
    let mut count = 0;
    let mut reader = journal.reader(ReadOptions::from(journal.first())).unwrap();
    while let Some(frame) = reader.next().unwrap() {
        for item in frame.items() {
            if let Item::Commit { position, .. } = item {
                count = count.max(PositionStep::decode(position).unwrap().offset);
            }
        }
    }
    count
}

/// The same transactions for the same seed.
pub struct Workload {
    random: Rng,
    pub rows: BTreeMap<i64, Row>,
    keys: u64,
    made: u64,
}

impl Workload {
    pub fn new(seed: u64, keys: u64) -> Self {
        Self {
            random: Rng(seed),
            rows: BTreeMap::new(),
            keys,
            made: 0,
        }
    }

    pub fn next(&mut self) -> Vec<Step> {
        let count = if self.random.chance(3) {
            200
        } else {
            1 + self.random.below(8)
        };
        (0..count).map(|_| self.step()).collect()
    }

    fn step(&mut self) -> Step {
        self.made += 1;
        let id = self.random.below(self.keys) as i64;
        let v = (!self.random.chance(20)).then_some(self.made as i64);
        let new = Row {
            id,
            v,
            s: format!(
                "{}-{}",
                self.made,
                "x".repeat(self.random.below(80) as usize)
            ),
        };
        let Some(old) = self.rows.get(&id).cloned() else {
            self.rows.insert(id, new.clone());
            return Step::Insert(new);
        };
        match self.random.below(4) {
            0 => {
                self.rows.remove(&id);
                Step::Delete(old)
            }
            1 => {
                let to = self.random.below(self.keys) as i64;
                if self.rows.contains_key(&to) {
                    self.rows.insert(id, new.clone());
                    return Step::Update(old, new);
                }
                self.rows.remove(&id);
                let moved = Row { id: to, ..new };
                self.rows.insert(to, moved.clone());
                Step::Update(old, moved)
            }
            _ => {
                self.rows.insert(id, new.clone());
                Step::Update(old, new)
            }
        }
    }
}

/// What each key went through: images before and after, as texts.
pub type History = BTreeMap<i64, Vec<(Option<String>, Option<String>)>>;

pub fn remember(history: &mut History, step: &Step) {
    let mut add = |id: i64, before: Option<&Row>, after: Option<&Row>| {
        let pair = (before.map(Row::text), after.map(Row::text));
        history.entry(id).or_default().push(pair);
    };
    match step {
        Step::Insert(row) => add(row.id, None, Some(row)),
        Step::Delete(row) => add(row.id, Some(row), None),
        Step::Update(old, new) if old.id == new.id => add(old.id, Some(old), Some(new)),
        Step::Update(old, new) => {
            add(old.id, Some(old), None);
            add(new.id, None, Some(new));
        }
    }
}
