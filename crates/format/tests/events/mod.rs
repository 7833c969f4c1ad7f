//! Tables, rows and events for the tests of formats.
#![allow(dead_code, reason = "each test uses its part")]

use change::batch::RowBody;
use change::temporal::{DatePacked, DateTimePacked};
use change::{
    Batch, Cell, Column, ColumnType, Entry, Operation, RowChange, RowMeta, SchemaVersion, TableId,
    TableSchema, TransactionHeader, Value,
};

pub fn column(name: &str, kind: ColumnType) -> Column {
    Column {
        name: name.into(),
        declared: String::new(),
        charset: match kind {
            ColumnType::Char { .. } | ColumnType::Varchar { .. } | ColumnType::Text { .. } => {
                Some("utf8mb4".into())
            }
            _ => None,
        },
        kind,
        collation: None,
        nullable: true,
        default: None,
        comment: String::new(),
        generated: false,
        invisible: false,
        masked: false,
    }
}

pub fn table(database: &str, name: &str, columns: Vec<Column>, primary: Vec<u32>) -> TableSchema {
    TableSchema {
        table: TableId(1),
        version: SchemaVersion(1),
        database: database.into(),
        name: name.into(),
        columns,
        primary_key: primary,
        unique_keys: vec![],
        charset: None,
        comment: String::new(),
    }
}

/// A row as a source would write it.
#[derive(Debug)]
pub struct Row {
    batch: Batch,
    operation: Operation,
}

impl Row {
    pub fn new(
        operation: Operation,
        meta: RowMeta,
        before: Option<&[Cell<'_>]>,
        after: Option<&[Cell<'_>]>,
    ) -> Self {
        let mut batch = Batch::default();
        let mut row = batch.row(TableId(1), SchemaVersion(1), meta);
        if let Some(cells) = before {
            let mut image = row.before(cells.len());
            cells.iter().for_each(|cell| image.cell(*cell));
        }
        if let Some(cells) = after {
            let mut image = row.after(cells.len());
            cells.iter().for_each(|cell| image.cell(*cell));
        }
        row.finish(operation, 0, 0);
        Self { batch, operation }
    }

    pub fn change<'a>(
        &'a self,
        table: &'a TableSchema,
        sequence: u64,
        header: &'a TransactionHeader,
    ) -> RowChange<'a> {
        let Entry::Record(record) = self.batch.entries()[0] else {
            unreachable!("a row was written")
        };
        let body = RowBody::read(self.batch.bytes(record.body)).expect("the row was just written");
        RowChange {
            sequence,
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
        }
    }
}

/// A table with a column of every type.
pub fn every_type() -> TableSchema {
    use ColumnType as T;
    let mut kinds: Vec<T> = Vec::new();
    for unsigned in [false, true] {
        kinds.extend([1, 2, 3, 4, 8].map(|bytes| T::Int { bytes, unsigned }));
    }
    kinds.extend([
        T::Decimal {
            precision: 65,
            scale: 30,
            unsigned: false,
        },
        T::Float,
        T::Double,
        T::Bit { width: 64 },
        T::Year,
        T::Date,
        T::Time { digits: 6 },
        T::DateTime { digits: 3 },
        T::Timestamp { digits: 0 },
        T::Char { length: 10 },
        T::Varchar { length: 100 },
        T::Binary { length: 4 },
        T::Varbinary { length: 40 },
    ]);
    kinds.extend((1..=4).map(|length_bytes| T::Text { length_bytes }));
    kinds.extend((1..=4).map(|length_bytes| T::Blob { length_bytes }));
    let members = || vec!["small".into(), "žluť".into(), "l".into()];
    kinds.extend([
        T::Enum { members: members() },
        T::Set { members: members() },
        T::Json,
        T::Geometry,
        T::Vector,
        T::Uuid,
        T::Inet4,
        T::Inet6,
    ]);
    let columns = kinds
        .into_iter()
        .enumerate()
        .map(|(index, kind)| column(&format!("c{index}"), kind))
        .collect();
    table("shop", "every", columns, vec![0])
}

/// Seeded random numbers (splitmix64): the same on every run.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    fn text(&mut self) -> String {
        let alphabet = ['a', 'é', '中', '😀', '\n', '"', '\\', ' '];
        (0..self.below(20))
            .map(|_| alphabet[self.below(8) as usize])
            .collect()
    }
}

/// A random value, which owns its bytes.
#[derive(Debug, Clone)]
pub enum Owned {
    Unknown,
    Null,
    Plain(Value<'static>),
    Text(String),
    Invalid(Vec<u8>),
    Decimal(String),
    Json(String),
    Bytes(Vec<u8>),
    Geometry(Vec<u8>),
    Vector(Vec<u8>),
}

impl Owned {
    pub fn cell(&self) -> Cell<'_> {
        Cell::Value(match self {
            Owned::Unknown => return Cell::Unknown,
            Owned::Null => return Cell::Null,
            Owned::Plain(value) => *value,
            Owned::Text(text) => Value::Text(text),
            Owned::Invalid(bytes) => Value::InvalidText(bytes),
            Owned::Decimal(text) => Value::Decimal(text),
            Owned::Json(text) => Value::Json(text),
            Owned::Bytes(bytes) => Value::Bytes(bytes),
            Owned::Geometry(bytes) => Value::Geometry(bytes),
            Owned::Vector(bytes) => Value::Vector(bytes),
        })
    }
}

/// A random value of a column; now and then an edge of its range, NULL, or none.
pub fn random_value(random: &mut Random, kind: &ColumnType) -> Owned {
    match random.below(12) {
        0 => return Owned::Null,
        1 => return Owned::Unknown,
        _ => {}
    }
    if random.below(20) == 0 && matches!(kind, ColumnType::Varchar { .. } | ColumnType::Text { .. })
    {
        return Owned::Invalid(vec![0xff, random.next() as u8]);
    }
    random_known(random, kind)
}

fn random_known(random: &mut Random, kind: &ColumnType) -> Owned {
    use ColumnType as T;
    let day = 86_400_000_000;
    let date = |r: &mut Random| {
        DatePacked::new(
            r.below(10_000) as u32,
            r.below(13) as u32,
            r.below(32) as u32,
        )
    };
    Owned::Plain(match kind {
        T::Int { bytes, unsigned } => {
            let bits = u32::from(*bytes) * 8;
            let edge = random.below(4) == 0;
            match unsigned {
                true if edge => Value::UInt(u64::MAX >> (64 - bits)),
                true => Value::UInt(random.next() >> (64 - bits)),
                false if edge => Value::Int(i64::MIN >> (64 - bits)),
                false => Value::Int(random.next() as i64 >> (64 - bits)),
            }
        }
        T::Decimal { .. } => {
            let sign = ["", "-"][random.below(2) as usize];
            let whole = random.next() >> random.below(64);
            return Owned::Decimal(format!("{sign}{whole}.{:030}", random.next()));
        }
        T::Float => Value::Float(finite32(random)),
        T::Double => Value::Double(finite64(random)),
        T::Bit { .. } => Value::Bit(random.next() >> random.below(64)),
        T::Year => Value::Year(random.below(2156) as u16),
        T::Date => Value::Date(date(random)),
        T::Time { digits } => Value::Time {
            micros: random.below(2 * 3_020_399_000_000) as i64 - 3_020_399_000_000,
            digits: *digits,
        },
        T::DateTime { digits } => Value::DateTime {
            at: DateTimePacked::new(date(random), random.below(day)),
            digits: *digits,
        },
        T::Timestamp { digits } if random.below(8) == 0 => Value::ZeroTimestamp { digits: *digits },
        T::Timestamp { digits } => Value::Timestamp {
            micros: random.below(2_147_483_647_999_999) as i64 + 1,
            digits: *digits,
        },
        T::Char { .. } | T::Varchar { .. } | T::Text { .. } => return Owned::Text(random.text()),
        T::Binary { length } => return Owned::Bytes(random.bytes(u64::from(*length))),
        T::Varbinary { .. } | T::Blob { .. } => {
            let count = random.below(40);
            return Owned::Bytes(random.bytes(count));
        }
        T::Enum { members } => Value::Enum(random.below(members.len() as u64 + 1) as u16),
        T::Set { members } => Value::Set(random.below(1 << members.len())),
        T::Json => return Owned::Json(format!("{{\"a\": {}}}", random.below(1000))),
        T::Geometry => return Owned::Geometry(random.bytes(25)),
        T::Vector => return Owned::Vector(random.bytes(16)),
        T::Uuid => Value::Uuid(random.bytes(16).try_into().expect("sixteen bytes")),
        T::Inet4 => Value::Inet4((random.next() as u32).to_be_bytes()),
        T::Inet6 => Value::Inet6(random.bytes(16).try_into().expect("sixteen bytes")),
        T::Cql(_) => unreachable!("no format carries it"),
    })
}

fn finite32(random: &mut Random) -> f32 {
    loop {
        let value = f32::from_bits(random.next() as u32);
        if value.is_finite() {
            return value;
        }
    }
}

fn finite64(random: &mut Random) -> f64 {
    loop {
        let value = f64::from_bits(random.next());
        if value.is_finite() {
            return value;
        }
    }
}
