//! A made-up table, its rows as events, and records as a consumer sees them.

use change::batch::{RowBody, key_token};
use change::event::DdlChange;
use change::{
    Batch, Cell, Column, ColumnType, Cursor, Ddl, DdlKind, Entry, Event, Image, Operation,
    RowChange, RowMeta, SchemaVersion, Sink, SinkError, TableId, TableSchema, TransactionHeader,
    TransactionTrailer, Value,
};
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Headers;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::time::{Duration, Instant};

/// `shop.NAME (id varchar(20) primary key, customer bigint, name text)`.
pub fn table(id: u32, name: &str) -> TableSchema {
    let column = |name: &str, declared: &str, kind| Column {
        name: name.into(),
        declared: declared.into(),
        kind,
        charset: None,
        collation: None,
        nullable: name != "id",
        default: None,
        comment: String::new(),
        generated: false,
        invisible: false,
        masked: false,
    };
    let int = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    TableSchema {
        table: TableId(id),
        version: SchemaVersion(1),
        database: "shop".into(),
        name: name.into(),
        columns: vec![
            column("id", "varchar(20)", ColumnType::Varchar { length: 20 }),
            column("customer", "bigint", int),
            column("name", "longtext", ColumnType::Text { length_bytes: 4 }),
        ],
        primary_key: vec![0],
        unique_keys: Vec::new(),
        charset: None,
        comment: String::new(),
    }
}

/// Key, customer, name.
pub type Row<'a> = (&'a str, i64, &'a str);

/// Writes one change.
pub fn write(
    sink: &mut dyn Sink,
    table: &TableSchema,
    sequence: u64,
    operation: Operation,
    (before, after): (Option<Row<'_>>, Option<Row<'_>>),
) -> Result<(), SinkError> {
    let header = TransactionHeader::default();
    let mut batch = Batch::default();
    let mut row = batch.row(table.table, table.version, RowMeta::default());
    for (is_after, cells) in [(false, before), (true, after)] {
        if let Some((id, customer, name)) = cells {
            let mut image = match is_after {
                false => row.before(3),
                true => row.after(3),
            };
            image.cell(Cell::Value(Value::Text(id)));
            image.cell(Cell::Value(Value::Int(customer)));
            image.cell(Cell::Value(Value::Text(name)));
        }
    }
    row.finish(operation, 0, 0);
    let Entry::Record(record) = batch.entries()[0] else {
        unreachable!("a row was written")
    };
    let body = RowBody::read(batch.bytes(record.body)).expect("the row was just written");
    let token = |image: &Image<'_>| key_token(image, table.key());
    let (old, new) = (body.before.as_ref(), body.after.as_ref());
    let moves = operation == Operation::Update && before.map(|row| row.0) != after.map(|row| row.0);
    sink.write(&Event::Row(RowChange {
        sequence,
        table,
        operation,
        before: body.before,
        after: body.after,
        key_token: new.or(old).map_or(0, token),
        old_key_token: old.filter(|_| moves).map(token),
        flags: 0,
        meta: body.meta,
        header: &header,
        statement: None,
    }))
}

pub fn insert(sink: &mut dyn Sink, table: &TableSchema, sequence: u64, row: Row<'_>) {
    let images = (None, Some(row));
    write(sink, table, sequence, Operation::Insert, images).expect("it is taken");
}

/// The hash of a row's key.
pub fn token_of(id: &str) -> u64 {
    let mut bytes = Vec::new();
    change::value::put_cell(&mut bytes, Cell::Value(Value::Text(id)));
    change::batch::key_token_of_bytes(&bytes)
}

pub fn statement(
    sink: &mut dyn Sink,
    sequence: u64,
    (database, table): (&str, &str),
    sql: &str,
) -> Result<(), SinkError> {
    let header = TransactionHeader::default();
    sink.write(&Event::Ddl(DdlChange {
        sequence,
        ddl: Ddl {
            kind: DdlKind::AlterTable,
            database,
            table,
            renamed_from: "",
            sql,
            charset: "",
            sql_mode: 0,
        },
        header: &header,
    }))
}

pub fn begin(sink: &mut dyn Sink, sequence: u64) {
    let header = TransactionHeader::default();
    let event = Event::Begin {
        sequence,
        header: &header,
    };
    sink.write(&event).expect("it is taken");
}

pub fn commit(sink: &mut dyn Sink, sequence: u64) -> Result<(), SinkError> {
    let (header, trailer) = (TransactionHeader::default(), TransactionTrailer::default());
    sink.write(&Event::Commit {
        sequence,
        header: &header,
        trailer: &trailer,
    })
}

pub fn cursor(sequence: u64) -> Cursor {
    Cursor {
        journal: [7; 16],
        sequence,
        position: Vec::new(),
        parked: Vec::new(),
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub partition: i32,
    pub key: Option<String>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, String)>,
}

impl Record {
    pub fn text(&self) -> String {
        let value = self.value.clone().expect("no tombstone");
        String::from_utf8(value).expect("JSON is UTF-8")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text()).expect("the value is JSON")
    }
}

/// All committed records of a topic, by partition, in order.
pub fn records(bootstrap: &str, topic: &str) -> Vec<Record> {
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "reader")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed");
    let consumer: BaseConsumer = settings.create().expect("the settings are right");
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10));
    let metadata = metadata.expect("the broker answers");
    let count = metadata.topics()[0].partitions().len();
    let mut assignment = TopicPartitionList::new();
    for partition in 0..count as i32 {
        let at = assignment.add_partition_offset(topic, partition, Offset::Beginning);
        at.expect("the offset is right");
    }
    consumer.assign(&assignment).expect("they are there");
    let (mut records, mut ended) = (Vec::new(), 0);
    let end = Instant::now() + Duration::from_secs(30);
    while ended < count {
        assert!(Instant::now() < end, "{topic} does not end");
        match consumer.poll(Duration::from_millis(200)) {
            None => {}
            Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => panic!("{error}"),
            Some(Ok(message)) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let headers = message.headers().map(|headers| {
                    let pair = |header: rdkafka::message::Header<'_, &[u8]>| {
                        let value = header.value.unwrap_or_default();
                        (header.key.to_owned(), text(value))
                    };
                    headers.iter().map(pair).collect()
                });
                records.push(Record {
                    partition: message.partition(),
                    key: message.key().map(text),
                    value: message.payload().map(<[u8]>::to_vec),
                    headers: headers.unwrap_or_default(),
                });
            }
        }
    }
    // Sorting is stable: the order within each partition stays.
    records.sort_by_key(|record| record.partition);
    records
}
