//! Drives the sink without a source: changes with sequences of one's choice.
#![allow(dead_code, reason = "each test uses a part of it")]

use change::batch::RowMeta;
use change::event::DdlChange;
use change::wire::WireReader;
use change::{
    Cell, Column, ColumnType, CopyMark, CopyStage, Cursor, Ddl, DdlKind, Event, Image, ImageWriter,
    Operation, RowChange, SchemaVersion, Sink, SinkError, TableId, TableSchema, TransactionHeader,
    TransactionTrailer, Value,
};
use serde_json::json;
use sink_clickhouse::{ClickHouseConfig, ClickHouseSink, Identity};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::ClickHouse;

pub const LIMIT: Duration = Duration::from_secs(120);

/// A config for an engine; `more` are further settings.
pub fn config(target: &ClickHouse, more: serde_json::Value) -> ClickHouseConfig {
    let mut all = json!({"url": target.url()});
    let object = all.as_object_mut().expect("an object");
    object.extend(more.as_object().expect("an object").clone());
    serde_json::from_value(all).expect("the settings are right")
}

/// A column that may be NULL.
pub fn column(name: &str, kind: ColumnType) -> Column {
    Column {
        name: name.into(),
        declared: "x".into(),
        kind,
        charset: None,
        collation: None,
        nullable: true,
        default: None,
        comment: String::new(),
        generated: false,
        invisible: false,
        masked: false,
    }
}

pub const INT: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};
pub const TEXT: ColumnType = ColumnType::Varchar { length: 100 };

/// A table whose first column is its key.
pub fn table(database: &str, name: &str, columns: Vec<Column>) -> Arc<TableSchema> {
    let mut columns = columns;
    columns[0].nullable = false;
    Arc::new(TableSchema {
        table: TableId(1),
        version: SchemaVersion(1),
        database: database.into(),
        name: name.into(),
        columns,
        primary_key: vec![0],
        unique_keys: Vec::new(),
        charset: None,
        comment: String::new(),
    })
}

pub fn int(value: i64) -> Cell<'static> {
    Cell::Value(Value::Int(value))
}

pub fn text(value: &str) -> Cell<'_> {
    Cell::Value(Value::Text(value))
}

/// The stored form of an image.
pub fn image(cells: &[Cell<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ImageWriter::new(&mut out, cells.len());
    cells.iter().for_each(|cell| writer.cell(*cell));
    out
}

pub fn read(bytes: &[u8]) -> Image<'_> {
    Image::read(&mut WireReader::new(bytes), bytes).expect("an image")
}

/// The sink and its place.
pub struct Driver {
    pub sink: ClickHouseSink,
    pub sequence: u64,
    /// For tests that look at rows before merges.
    pub stops_merges: bool,
    /// Of the sessions that execute statements.
    pub sql_mode: u64,
    header: TransactionHeader,
}

impl Driver {
    pub fn new(config: ClickHouseConfig) -> Self {
        let identity = Identity {
            pipeline: "test".into(),
            sink: "wh".into(),
        };
        let mut sink = ClickHouseSink::new(config, &identity).expect("the config is right");
        let cursor = sink.open().expect("it opens");
        Self {
            sink,
            sequence: cursor.map_or(1, |cursor| cursor.sequence),
            stops_merges: false,
            sql_mode: 0,
            header: TransactionHeader::default(),
        }
    }

    pub fn begin(&mut self) {
        let event = Event::Begin {
            sequence: self.sequence,
            header: &self.header,
        };
        self.sink.write(&event).expect("it takes a begin");
    }

    pub fn commit(&mut self) {
        let trailer = TransactionTrailer::default();
        let event = Event::Commit {
            sequence: self.sequence,
            header: &self.header,
            trailer: &trailer,
        };
        self.sink.write(&event).expect("it takes a commit");
        self.sequence += 1;
    }

    /// One change at the present sequence.
    pub fn row(
        &mut self,
        table: &TableSchema,
        operation: Operation,
        before: Option<Image<'_>>,
        after: Option<Image<'_>>,
    ) -> Result<(), SinkError> {
        let of = |image: Image<'_>| change::batch::key_token(&image, table.key());
        let (old, new) = (before.map(of), after.map(of));
        let moved = operation == Operation::Update && old.is_some() && old != new;
        if moved {
            self.sequence += 1;
        }
        let row = RowChange {
            sequence: self.sequence,
            table,
            operation,
            before,
            after,
            key_token: new.or(old).unwrap_or(0),
            old_key_token: old.filter(|_| moved),
            flags: 0,
            meta: RowMeta::default(),
            header: &self.header,
            statement: None,
        };
        let done = self.sink.write(&Event::Row(row));
        self.sequence += 1;
        done
    }

    pub fn insert(&mut self, table: &TableSchema, after: &[Cell<'_>]) {
        let after = image(after);
        self.row(table, Operation::Insert, None, Some(read(&after)))
            .expect("the row is written");
    }

    pub fn update(&mut self, table: &TableSchema, before: &[Cell<'_>], after: &[Cell<'_>]) {
        let (before, after) = (image(before), image(after));
        self.row(
            table,
            Operation::Update,
            Some(read(&before)),
            Some(read(&after)),
        )
        .expect("the row is written");
    }

    pub fn delete(&mut self, table: &TableSchema, before: &[Cell<'_>]) {
        let before = image(before);
        self.row(table, Operation::Delete, Some(read(&before)), None)
            .expect("the row is written");
    }

    /// A statement that leaves the table with this schema, after a flush as the caller makes it.
    pub fn statement(
        &mut self,
        kind: DdlKind,
        schema: &Arc<TableSchema>,
        sql: &str,
    ) -> Result<(), SinkError> {
        self.statement_from(kind, schema, (sql, ""))
    }

    /// As [`statement`](Self::statement), of a table that had another name before.
    pub fn statement_from(
        &mut self,
        kind: DdlKind,
        schema: &Arc<TableSchema>,
        (sql, renamed_from): (&str, &str),
    ) -> Result<(), SinkError> {
        self.flush();
        self.sink.schema(schema);
        let ddl = Ddl {
            kind,
            database: &schema.database,
            table: &schema.name,
            renamed_from,
            sql,
            charset: "",
            sql_mode: self.sql_mode,
        };
        let change = DdlChange {
            sequence: self.sequence,
            ddl,
            header: &self.header,
        };
        let done = self.sink.write(&Event::Ddl(change));
        self.sequence += 1;
        done
    }

    /// A transaction of its own, flushed.
    pub fn commit_all(&mut self, work: impl FnOnce(&mut Self)) {
        self.begin();
        work(self);
        self.commit();
        self.flush();
    }

    /// A row of a copy.
    pub fn read_row(&mut self, table: &TableSchema, row: &[Cell<'_>]) {
        let after = image(row);
        self.row(table, Operation::Read, None, Some(read(&after)))
            .expect("the row is written");
    }

    /// Opens the sink again, as the pipeline does after a rejection.
    pub fn reopen(&mut self) {
        let cursor = self.sink.open().expect("it opens");
        self.sequence = self
            .sequence
            .max(cursor.map_or(1, |cursor| cursor.sequence));
    }

    pub fn copy(&mut self, table: &TableSchema, stage: CopyStage) {
        let mark = CopyMark {
            table,
            stage,
            sequence: self.sequence,
        };
        self.sink.copy(&mark).expect("it takes a mark");
        self.sequence += 1;
    }

    pub fn cursor(&self) -> Cursor {
        Cursor {
            journal: [7; 16],
            sequence: self.sequence,
            position: Vec::new(),
            parked: Vec::new(),
        }
    }

    pub fn flush(&mut self) {
        let cursor = self.cursor();
        self.sink.flush(&cursor).expect("it flushes");
    }

    /// Waits until nothing is pending.
    pub fn wait_folded(&mut self) {
        let end = Instant::now() + LIMIT;
        loop {
            self.sink.idle().expect("it idles");
            let details = self.sink.details();
            if details
                .iter()
                .all(|(_, text)| text.starts_with("nothing pending") && !text.contains("folding"))
            {
                return;
            }
            assert!(Instant::now() < end, "it does not fold: {details:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
