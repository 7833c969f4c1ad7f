//! Tables, rows and steps that the tests of the formats share.
#![allow(dead_code, reason = "every test file uses a part of it")]

use change::batch::RowBody;
use change::event::DdlChange;
use change::temporal::{DatePacked, DateTimePacked};
use change::{
    Batch, Cell, Column, ColumnType, Ddl, DdlKind, Entry, Event, Operation, RowChange, RowMeta,
    SchemaVersion, TableId, TableSchema, TransactionHeader, Value,
};
use format::{Encoder, Messages};

pub fn column(name: &str, declared: &str, kind: ColumnType) -> Column {
    Column {
        name: name.into(),
        declared: declared.into(),
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

pub fn table(name: &str, columns: Vec<Column>, primary_key: Vec<u32>) -> TableSchema {
    TableSchema {
        table: TableId(1),
        version: SchemaVersion(1),
        database: "shop".into(),
        name: name.into(),
        columns,
        primary_key,
        unique_keys: vec![],
        charset: None,
        comment: String::new(),
    }
}

pub fn item() -> TableSchema {
    use ColumnType as T;
    table(
        "item",
        vec![
            column(
                "id",
                "int",
                T::Int {
                    bytes: 4,
                    unsigned: false,
                },
            ),
            column("name", "varchar(20)", T::Varchar { length: 20 }),
            column(
                "qty",
                "int unsigned",
                T::Int {
                    bytes: 4,
                    unsigned: true,
                },
            ),
            column(
                "price",
                "decimal(10,2)",
                T::Decimal {
                    precision: 10,
                    scale: 2,
                    unsigned: false,
                },
            ),
            column("raw", "varbinary(4)", T::Varbinary { length: 4 }),
            column("at", "datetime(3)", T::DateTime { digits: 3 }),
        ],
        vec![0],
    )
}

pub const AT: DateTimePacked = DateTimePacked::new(
    DatePacked::new(2023, 11, 14),
    (22 * 3600 + 13 * 60 + 20) * 1_000_000,
);

pub fn at(millis: u64) -> Cell<'static> {
    let at = DateTimePacked::new(AT.date(), AT.micros_of_day() + millis * 1000);
    Cell::Value(Value::DateTime { at, digits: 3 })
}

pub fn int(v: i64) -> Cell<'static> {
    Cell::Value(Value::Int(v))
}

pub fn row_of<'a>(
    id: i64,
    name: Cell<'a>,
    qty: u64,
    price: &'a str,
    raw: Cell<'a>,
) -> Vec<Cell<'a>> {
    let qty = Cell::Value(Value::UInt(qty));
    vec![
        int(id),
        name,
        qty,
        Cell::Value(Value::Decimal(price)),
        raw,
        at(500),
    ]
}

pub fn text(v: &str) -> Cell<'_> {
    Cell::Value(Value::Text(v))
}

pub fn header() -> TransactionHeader {
    TransactionHeader {
        time_s: 1_700_000_000,
        commit_time_us: 1_700_000_000_123_000,
        ..TransactionHeader::default()
    }
}

/// A row's change, not yet in the batch's form.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    pub operation: Operation,
    pub before: Option<Vec<Cell<'a>>>,
    pub after: Option<Vec<Cell<'a>>>,
}

impl<'a> Change<'a> {
    pub fn insert(after: Vec<Cell<'a>>) -> Self {
        Self {
            operation: Operation::Insert,
            before: None,
            after: Some(after),
        }
    }

    pub fn read(after: Vec<Cell<'a>>) -> Self {
        Self {
            operation: Operation::Read,
            ..Self::insert(after)
        }
    }

    pub fn update(before: Vec<Cell<'a>>, after: Vec<Cell<'a>>) -> Self {
        Self {
            operation: Operation::Update,
            before: Some(before),
            after: Some(after),
        }
    }

    pub fn delete(before: Vec<Cell<'a>>) -> Self {
        Self {
            operation: Operation::Delete,
            before: Some(before),
            after: None,
        }
    }
}

/// A change in stored form, with all that an event needs.
pub struct Stored {
    batch: Batch,
    operation: Operation,
    pub sequence: u64,
}

impl Stored {
    pub fn new(table: &TableSchema, change: &Change<'_>, (sequence, group): (u64, u32)) -> Self {
        let mut batch = Batch::default();
        let meta = RowMeta {
            group,
            end_offset: 500,
            time_s: 1_700_000_000,
        };
        let mut row = batch.row(table.table, table.version, meta);
        if let Some(cells) = &change.before {
            let mut image = row.before(cells.len());
            cells.iter().for_each(|cell| image.cell(*cell));
        }
        if let Some(cells) = &change.after {
            let mut image = row.after(cells.len());
            cells.iter().for_each(|cell| image.cell(*cell));
        }
        row.finish(change.operation, 0, 0);
        Self {
            batch,
            operation: change.operation,
            sequence,
        }
    }

    pub fn event<'e>(&'e self, table: &'e TableSchema, header: &'e TransactionHeader) -> Event<'e> {
        let Entry::Record(record) = self.batch.entries()[0] else {
            unreachable!("a row was written")
        };
        let body = RowBody::read(self.batch.bytes(record.body)).expect("the row was just written");
        Event::Row(RowChange {
            sequence: self.sequence,
            table,
            operation: self.operation,
            before: body.before,
            after: body.after,
            key_token: 0,
            old_key_token: None,
            flags: 0,
            meta: body.meta,
            header,
            statement: None,
        })
    }
}

pub fn ddl<'a>(kind: DdlKind, table: &'a str, sql: &'a str) -> Ddl<'a> {
    Ddl {
        kind,
        database: "shop",
        table,
        renamed_from: "",
        sql,
        charset: "",
        sql_mode: 0,
    }
}

/// Encodes one event.
pub fn messages_of(encoder: &mut dyn Encoder, event: &Event<'_>) -> Vec<String> {
    let mut messages = Messages::default();
    encoder
        .encode(event, &mut messages)
        .expect("the event can be carried");
    (messages.iter())
        .map(|message| String::from_utf8(message.to_vec()).expect("JSON is UTF-8"))
        .collect()
}

pub mod steps;
pub mod types;

/// A MySQL transaction id.
pub fn gtid(text: &str) -> change::position::TransactionId {
    change::position::TransactionId::Mysql(text.parse().expect("a GTID"))
}
