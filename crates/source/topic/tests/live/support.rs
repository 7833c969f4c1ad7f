//! A journal in memory, and a writer of messages.

use change::batch::{OpaqueEvent, RecordEntry, RowBody};
use change::{
    Batch, Cell, Entry, Image, Operation, Position, PositionStep, Progress, Source, SourceError,
    TableSchema, Value,
};
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use source_topic::{Resume, TopicConfig, TopicSource};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

pub const LIMIT: Duration = Duration::from_secs(60);

/// What a journal would hold: whole transactions only.
#[derive(Default)]
pub struct Journal {
    pub schemas: HashMap<(u32, u32), TableSchema>,
    /// Rows and set aside messages in their order, as text.
    pub lines: Vec<String>,
    pub control: BTreeMap<Vec<u8>, Vec<u8>>,
    pub position: Option<Position>,
    pub commits: usize,
    open: Vec<String>,
    open_control: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Journal {
    /// Takes a batch; with a limit only that many commits of it, as a crash would leave it.
    pub fn apply(&mut self, batch: &Batch, commits_max: usize) {
        let until = self.commits.saturating_add(commits_max);
        for entry in batch.entries() {
            if self.commits >= until {
                return;
            }
            match entry {
                Entry::Begin { .. } => assert!(self.open.is_empty(), "begin in a transaction"),
                Entry::Control { key, value } => {
                    let key = batch.bytes(*key).to_vec();
                    let value = value.map(|value| batch.bytes(value).to_vec());
                    if let (true, Some(value)) = (key.starts_with(b"schema/"), &value) {
                        let schema = TableSchema::decode(value).unwrap();
                        self.schemas
                            .insert((schema.table.0, schema.version.0), schema);
                    }
                    self.open_control.push((key, value));
                }
                Entry::Record(record) => {
                    let line = self.line(batch, record);
                    self.open.push(line);
                }
                Entry::Commit { position, .. } => {
                    let step = PositionStep::decode(batch.bytes(*position)).unwrap();
                    let mut position = self.position.take().unwrap_or_default();
                    position.advance(&step);
                    self.position = Some(position);
                    self.commits += 1;
                    self.lines.append(&mut self.open);
                    for (key, value) in self.open_control.drain(..) {
                        match value {
                            Some(value) => self.control.insert(key, value),
                            None => self.control.remove(&key),
                        };
                    }
                }
                Entry::Rollback => self.crash(),
            }
        }
    }

    /// What has no commit yet is not in the journal.
    pub fn crash(&mut self) {
        self.open.clear();
        self.open_control.clear();
    }

    fn line(&self, batch: &Batch, record: &RecordEntry) -> String {
        let bytes = batch.bytes(record.body);
        if record.operation == Operation::Opaque {
            let event = OpaqueEvent::decode(bytes).unwrap();
            return format!("aside {}", String::from_utf8_lossy(event.description));
        }
        let schema = &self.schemas[&(record.table.0, record.schema.0)];
        let body = RowBody::read(bytes).unwrap();
        let image = |image: Option<Image<'_>>| {
            image.map_or_else(String::new, |image| {
                image.cells().map(text).collect::<Vec<_>>().join("|")
            })
        };
        format!(
            "{:?}{} {} {} > {}",
            record.operation,
            record.flags,
            schema.name,
            image(body.before),
            image(body.after)
        )
    }

    pub fn resume(&self) -> Resume {
        Resume {
            position: self.position.clone(),
            control: self.control.clone().into_iter().collect(),
        }
    }
}

fn text(cell: Cell<'_>) -> String {
    match cell {
        Cell::Unknown => "?".into(),
        Cell::Null => "NULL".into(),
        Cell::Value(Value::Int(number)) => number.to_string(),
        Cell::Value(Value::Text(text)) => text.to_owned(),
        Cell::Value(other) => format!("{other:?}"),
    }
}

/// Polls until `done` says so; panics at the limit.
pub fn run(
    source: &mut TopicSource,
    journal: &mut Journal,
    mut done: impl FnMut(&mut TopicSource, &Journal) -> bool,
) {
    let end = Instant::now() + LIMIT;
    let mut batch = Batch::default();
    while !done(source, journal) {
        assert!(
            Instant::now() < end,
            "{:?} {:?}",
            source.status(),
            journal.lines
        );
        batch.clear();
        let progress = source.poll(&mut batch, Duration::from_millis(50));
        journal.apply(&batch, usize::MAX);
        assert_ne!(progress.unwrap(), Progress::End);
    }
}

/// Polls until it ends; panics at the limit.
pub fn poll_to_error(source: &mut TopicSource, journal: &mut Journal) -> SourceError {
    let end = Instant::now() + LIMIT;
    let mut batch = Batch::default();
    loop {
        assert!(Instant::now() < end, "{:?}", source.status());
        batch.clear();
        let polled = source.poll(&mut batch, Duration::from_millis(50));
        journal.apply(&batch, usize::MAX);
        if let Err(error) = polled {
            return error;
        }
    }
}

/// The offsets that a journal holds, below 128 each.
pub fn offsets(journal: &Journal) -> Vec<(String, u8)> {
    let ours = journal.control.iter();
    ours.filter(|(key, _)| key.starts_with(b"source/topic/"))
        .map(|(key, value)| (String::from_utf8_lossy(key).into_owned(), value[0]))
        .collect()
}

pub fn config(bootstrap: &str, topic: &str, format: &str) -> TopicConfig {
    let text = format!(
        r#"{{"kafka":{{"brokers":["{bootstrap}"]}},"topics":["{topic}"],"format":"{format}"}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// Writes messages.
pub struct Writer {
    producer: BaseProducer,
}

impl Writer {
    /// With a transactional id, or without.
    pub fn new(bootstrap: &str, id: Option<&str>) -> Self {
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", bootstrap);
        if let Some(id) = id {
            settings.set("transactional.id", id);
        }
        let producer: BaseProducer = settings.create().unwrap();
        if id.is_some() {
            producer.init_transactions(LIMIT).unwrap();
        }
        Self { producer }
    }

    pub fn send(&self, topic: &str, partition: i32, value: Option<&[u8]>) {
        let mut record = BaseRecord::<(), [u8]>::to(topic).partition(partition);
        if let Some(value) = value {
            record = record.payload(value);
        }
        self.producer
            .send(record)
            .map_err(|(error, _)| error)
            .unwrap();
    }

    pub fn flush(&self) {
        self.producer.flush(LIMIT).unwrap();
    }

    pub fn begin(&self) {
        self.producer.begin_transaction().unwrap();
    }

    pub fn commit(&self) {
        self.producer.commit_transaction(LIMIT).unwrap();
    }

    pub fn abort(&self) {
        self.producer.flush(LIMIT).unwrap();
        self.producer.abort_transaction(LIMIT).unwrap();
    }
}

/// A message of Canal JSON for a table with an id and a name.
pub fn canal(kind: &str, es: u64, id: u64, name: &str, old: &str) -> String {
    format!(
        r#"{{"data":[{{"id":"{id}","name":"{name}"}}],"database":"shop","es":{es},"id":1,"isDdl":false,"mysqlType":{{"id":"int","name":"varchar(20)"}},"old":{old},"pkNames":["id"],"sql":"","table":"t","ts":1,"type":"{kind}"}}"#
    )
}

/// Reads until there are so many lines, ending after every transaction as a crash would.
pub fn one_commit_a_life(config: &TopicConfig, lines: usize) -> Journal {
    let mut journal = Journal::default();
    let mut batch = Batch::default();
    let end = Instant::now() + Duration::from_secs(120);
    let mut lives = 0;
    while journal.lines.len() < lines {
        assert!(Instant::now() < end, "{:?}", journal.lines);
        let before = journal.commits;
        let mut source = TopicSource::open(config.clone(), journal.resume()).unwrap();
        while journal.commits == before && Instant::now() < end {
            batch.clear();
            source.poll(&mut batch, Duration::from_millis(50)).unwrap();
            journal.apply(&batch, 1);
        }
        journal.crash();
        lives += 1;
    }
    assert!(lives > 8, "{lives}");
    journal
}

/// Its lines, whatever order parts of a topic came in.
pub fn sorted(journal: &Journal) -> Vec<String> {
    let mut lines = journal.lines.clone();
    lines.sort();
    lines
}
