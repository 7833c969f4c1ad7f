//! Tables of CQL, written into the journal as a source of CQL would write them.

use super::World;
use change::batch::{FLAG_EXPIRED, FLAG_STATIC, key_token};
use change::cql::UserType;
use change::image::ImageWriter;
use change::wire::WireReader;
use change::{
    Cell, Column, ColumnType, CqlColumn, CqlRole, CqlType, CqlValue, Image, Operation, RowMeta,
    SchemaVersion, TableId, TableSchema, Times, Value,
};
use stream::{EnableStream, ShardLimits, ViewType};

/// When the writes of the tests were made, microseconds since 1970: one second apart.
pub const WRITTEN_US: i64 = 1_795_910_400_000_000;
/// When what has a time to live goes, seconds since 1970.
pub const EXPIRES_S: i64 = 1_795_914_000;

/// One cell, with its own times.
#[derive(Debug, Clone)]
pub struct Timed(pub What, pub Times);

/// What a cell holds.
#[derive(Debug, Clone)]
pub enum What {
    Null,
    Unknown,
    /// No part of the record.
    Outside,
    Plain(Value<'static>),
    /// Cells of a collection, a tuple or a user's type; of a map key, value, key, value.
    Nested(Vec<Timed>),
}

pub fn written(second: i64) -> Times {
    Times {
        write_us: Some(WRITTEN_US + second * 1_000_000),
        expires_s: None,
    }
}

pub fn expiring(second: i64) -> Times {
    Times {
        expires_s: Some(EXPIRES_S),
        ..written(second)
    }
}

pub fn plain(value: Value<'static>) -> Timed {
    Timed(What::Plain(value), Times::default())
}

pub fn cql(value: CqlValue<'static>) -> Timed {
    plain(Value::Cql(value))
}

pub fn nested(cells: Vec<Timed>) -> Timed {
    Timed(What::Nested(cells), Times::default())
}

pub fn null() -> Timed {
    Timed(What::Null, Times::default())
}

pub fn outside() -> Timed {
    Timed(What::Outside, Times::default())
}

impl Timed {
    pub fn at(self, times: Times) -> Timed {
        Timed(self.0, times)
    }

    fn put(&self, image: &mut ImageWriter<'_>) {
        image.times(&self.1);
        match &self.0 {
            What::Null => image.cell(Cell::Null),
            What::Unknown => image.cell(Cell::Unknown),
            What::Outside => image.outside(),
            What::Plain(value) => image.value(*value),
            What::Nested(cells) => {
                image.nested(cells.len());
                cells.iter().for_each(|cell| cell.put(image));
            }
        }
    }
}

/// One row as it was: its own times and its cells in table order.
pub type RowOf = (Times, Vec<Timed>);

/// One record.
#[derive(Debug, Clone, Default)]
pub struct Record {
    pub before: Option<RowOf>,
    pub after: Option<RowOf>,
    pub is_static: bool,
    pub is_expired: bool,
}

impl Record {
    fn operation(&self) -> Operation {
        match (&self.before, &self.after) {
            (None, _) => Operation::Insert,
            (_, Some(_)) => Operation::Update,
            (_, None) => Operation::Delete,
        }
    }

    fn flags(&self) -> u8 {
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        flag(self.is_static, FLAG_STATIC) | flag(self.is_expired, FLAG_EXPIRED)
    }
}

/// The hash that places a record.
pub fn token(schema: &TableSchema, row: &RowOf, is_static: bool) -> u64 {
    let mut bytes = Vec::new();
    let mut image = ImageWriter::new(&mut bytes, row.1.len());
    row.1.iter().for_each(|cell| cell.put(&mut image));
    let image = Image::read(&mut WireReader::new(&bytes), &bytes).unwrap();
    key_token(&image, &schema.record_key(is_static))
}

/// One mutation: its records in order, the static one first.
pub fn write(world: &mut World, schema: &TableSchema, records: &[Record], replicated: bool) {
    world.write(replicated, |batch| {
        for record in records {
            let of_key = record.after.as_ref().or(record.before.as_ref()).unwrap();
            let token = token(schema, of_key, record.is_static);
            let mut row = batch.row(schema.table, schema.version, RowMeta::default());
            if let Some((times, cells)) = &record.before {
                let mut image = row.before_with_times(cells.len(), times);
                cells.iter().for_each(|cell| cell.put(&mut image));
            }
            if let Some((times, cells)) = &record.after {
                let mut image = row.after_with_times(cells.len(), times);
                cells.iter().for_each(|cell| cell.put(&mut image));
            }
            row.finish(record.operation(), record.flags(), token);
        }
    });
}

fn column(name: &str, role: CqlRole, kind: CqlType) -> Column {
    Column {
        name: name.into(),
        declared: kind.to_string(),
        nullable: !matches!(role, CqlRole::Partition | CqlRole::Clustering { .. }),
        kind: ColumnType::Cql(CqlColumn { role, kind }),
        charset: None,
        collation: None,
        default: None,
        comment: String::new(),
        generated: false,
        invisible: false,
        masked: false,
    }
}

fn table(number: u32, name: &str, columns: Vec<Column>, primary_key: Vec<u32>) -> TableSchema {
    TableSchema {
        table: TableId(number),
        version: SchemaVersion(1),
        database: "chat".into(),
        name: name.into(),
        columns,
        primary_key,
        unique_keys: Vec::new(),
        charset: None,
        comment: String::new(),
    }
}

pub fn list(of: CqlType) -> CqlType {
    CqlType::List(Box::new(of))
}

pub fn frozen(of: CqlType) -> CqlType {
    CqlType::Frozen(Box::new(of))
}

pub fn map(key: CqlType, value: CqlType) -> CqlType {
    CqlType::Map(Box::new((key, value)))
}

pub fn set(of: CqlType) -> CqlType {
    CqlType::Set(Box::new(of))
}

pub fn udt(name: &str, fields: &[(&str, CqlType)]) -> CqlType {
    CqlType::Udt(Box::new(UserType {
        name: name.into(),
        fields: fields
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), kind.clone()))
            .collect(),
    }))
}

/// A frozen list `depth` deep.
pub fn deep_type(depth: usize) -> CqlType {
    (0..depth).fold(CqlType::Int, |of, _| frozen(list(of)))
}

pub fn deep_value(depth: usize) -> Timed {
    (0..depth).fold(plain(Value::Int(8)), |of, _| nested(vec![of]))
}

/// `CREATE TABLE chat.<name> (room text, n int, at timestamp, topic text STATIC, seats int STATIC, v int, w text,
/// PRIMARY KEY ((room, n), at)) WITH CLUSTERING ORDER BY (at DESC)`, its columns in the order of the schema.
pub fn lines(number: u32, name: &str) -> TableSchema {
    use CqlRole::{Clustering, Partition, Regular, Static};
    let columns = vec![
        column("room", Partition, CqlType::Text),
        column("n", Partition, CqlType::Int),
        column("at", Clustering { descending: true }, CqlType::Timestamp),
        column("seats", Static, CqlType::Int),
        column("topic", Static, CqlType::Text),
        column("v", Regular, CqlType::Int),
        column("w", Regular, CqlType::Text),
    ];
    table(number, name, columns, vec![0, 1, 2])
}

/// A row of `lines`.
pub fn line(room: &'static str, at_s: i64, times: Times, (v, w): (Timed, Timed)) -> RowOf {
    let cells = vec![
        plain(Value::Text(room)),
        plain(Value::Int(1)),
        cql(CqlValue::Timestamp(WRITTEN_US / 1000 + at_s * 1000)),
        outside(),
        outside(),
        v,
        w,
    ];
    (times, cells)
}

/// The static row of a partition of `lines`.
pub fn head(room: &'static str, seats: Timed, topic: Timed) -> RowOf {
    let cells = vec![
        plain(Value::Text(room)),
        plain(Value::Int(1)),
        outside(),
        seats,
        topic,
        outside(),
        outside(),
    ];
    (Times::default(), cells)
}

fn int(v: i64) -> Timed {
    plain(Value::Int(v))
}

fn text(v: &'static str) -> Timed {
    plain(Value::Text(v))
}

/// Each mutation of a table of `lines` that CQL knows, in order; see the comments for the CQL.
pub fn lines_history(world: &mut World, schema: &TableSchema) {
    let mut mutation = |records: Vec<Record>| write(world, schema, &records, false);
    let insert = |after: RowOf| Record {
        after: Some(after),
        ..Record::default()
    };
    let update = |before: RowOf, after: RowOf| Record {
        before: Some(before),
        after: Some(after),
        ..Record::default()
    };
    let delete = |before: RowOf| Record {
        before: Some(before),
        ..Record::default()
    };
    let of_head = |record: Record| Record {
        is_static: true,
        ..record
    };
    let expired = |record: Record| Record {
        is_expired: true,
        ..record
    };
    // INSERT INTO lines (room, n, at, v, w) VALUES ('a', 1, 0s, 10, 'x') USING TTL 3600
    let first = line(
        "a",
        0,
        expiring(0),
        (int(10).at(expiring(0)), text("x").at(expiring(0))),
    );
    mutation(vec![insert(first.clone())]);
    // UPDATE lines SET topic = 'cats' WHERE room = 'a' AND n = 1
    let cats = head("a", null(), text("cats").at(written(1)));
    mutation(vec![of_head(insert(cats.clone()))]);
    // UPDATE lines SET topic = 'dogs', v = 11 WHERE room = 'a' AND n = 1 AND at = 0s
    let dogs = head("a", null(), text("dogs").at(written(2)));
    let second = line(
        "a",
        0,
        expiring(0),
        (int(11).at(written(2)), text("x").at(expiring(0))),
    );
    mutation(vec![
        of_head(update(cats, dogs.clone())),
        update(first, second.clone()),
    ]);
    // The time to live of `w` and of the row's own mark ends; the row goes on through `v`.
    let third = line("a", 0, Times::default(), (int(11).at(written(2)), null()));
    mutation(vec![expired(update(second, third.clone()))]);
    // BEGIN BATCH INSERT …: three rows of one partition and one of another
    let at = |room, at_s: i64, v: i64, second: i64| {
        let v = int(v).at(written(second));
        line(room, at_s, written(4), (v, null()))
    };
    mutation(vec![
        insert(at("a", 3, 30, 4)),
        insert(at("a", 2, 20, 4)),
        insert(at("a", 1, 1, 4)),
        insert(at("b", 1, 1, 4)),
    ]);
    // BEGIN UNLOGGED BATCH UPDATE …: two of one row, which the source keeps apart, and one of another
    mutation(vec![
        update(at("a", 2, 20, 4), at("a", 2, 21, 5)),
        update(at("a", 3, 30, 4), at("a", 3, 31, 5)),
        update(at("a", 2, 21, 5), at("a", 2, 22, 5)),
    ]);
    // DELETE FROM lines WHERE room = 'a' AND n = 1 AND at >= 2s: in clustering order, which descends
    mutation(vec![delete(at("a", 3, 31, 5)), delete(at("a", 2, 22, 5))]);
    // DELETE FROM lines WHERE room = 'a' AND n = 1
    mutation(vec![
        of_head(delete(dogs)),
        delete(at("a", 1, 1, 4)),
        delete(third),
    ]);
    // The time to live of a row ends.
    let gone = line(
        "c",
        0,
        expiring(8),
        (int(1).at(expiring(8)), text("gone").at(expiring(8))),
    );
    mutation(vec![insert(gone.clone())]);
    mutation(vec![expired(delete(gone))]);
    // UPDATE … IF EXISTS on a row that is not there makes no mutation; INSERT … IF NOT EXISTS makes one.
    mutation(vec![insert(line(
        "d",
        0,
        written(10),
        (int(1).at(written(10)), null()),
    ))]);
    // Written in another Region.
    let far = line("e", 0, written(11), (int(1).at(written(11)), null()));
    write(world, schema, &[insert(far)], true);
}

/// `CREATE TABLE chat.kinds (p int PRIMARY KEY, …)` with a column of each type but the counter's, which shares a table
/// with no other; the row with a value of each, one of ends and odd values, and one of empty containers.
pub fn kinds(number: u32) -> (TableSchema, Vec<RowOf>) {
    use CqlType as T;
    let address = udt(
        "address",
        &[("street", T::Text), ("zip", T::Int), ("late", T::Text)],
    );
    let one = |value: Value<'static>| plain(value);
    let uuid = [
        0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x55, 0x44, 0, 0,
    ];
    let v6: [u8; 16] = "2001:db8::1"
        .parse::<std::net::Ipv6Addr>()
        .unwrap()
        .octets();
    let column_of: Vec<(&str, CqlType, [Timed; 3])> = vec![
        ("ascii", T::Ascii, [text("plain"), text(""), null()]),
        ("bigint", T::Bigint, [int(i64::MAX), int(i64::MIN), null()]),
        (
            "blob",
            T::Blob,
            [
                one(Value::Bytes(&[0, 0, 0, 1])),
                one(Value::Bytes(b"")),
                null(),
            ],
        ),
        (
            "boolean",
            T::Boolean,
            [
                cql(CqlValue::Boolean(true)),
                cql(CqlValue::Boolean(false)),
                null(),
            ],
        ),
        (
            "date",
            T::Date,
            [
                cql(CqlValue::Date(20_786)),
                cql(CqlValue::Date(i32::MIN)),
                null(),
            ],
        ),
        (
            "decimal",
            T::Decimal,
            [
                one(Value::Decimal("123.4560")),
                one(Value::Decimal("-0.00000000000000000000000000001")),
                null(),
            ],
        ),
        (
            "double",
            T::Double,
            [
                one(Value::Double(1.7976)),
                one(Value::Double(f64::NEG_INFINITY)),
                null(),
            ],
        ),
        (
            "duration",
            T::Duration,
            [
                cql(CqlValue::Duration {
                    months: 14,
                    days: 3,
                    nanos: 14_706_007_008_009,
                }),
                cql(CqlValue::Duration {
                    months: 0,
                    days: -1,
                    nanos: 0,
                }),
                null(),
            ],
        ),
        (
            "float",
            T::Float,
            [
                one(Value::Float(f32::MAX)),
                one(Value::Float(f32::NAN)),
                null(),
            ],
        ),
        (
            "inet",
            T::Inet,
            [
                one(Value::Inet4([127, 0, 0, 1])),
                one(Value::Inet6(v6)),
                null(),
            ],
        ),
        ("int", T::Int, [int(-5), int(i32::MIN.into()), null()]),
        (
            "smallint",
            T::Smallint,
            [int(-6), int(i16::MIN.into()), null()],
        ),
        ("text", T::Text, [text("ž\"\\\u{1}🐎"), text(""), null()]),
        (
            "time",
            T::Time,
            [
                cql(CqlValue::Time(45_296_789_000_000)),
                cql(CqlValue::Time(86_399_999_999_999)),
                null(),
            ],
        ),
        (
            "timestamp",
            T::Timestamp,
            [
                cql(CqlValue::Timestamp(1_741_383_893_783)),
                cql(CqlValue::Timestamp(-1)),
                null(),
            ],
        ),
        (
            "timeuuid",
            T::Timeuuid,
            [one(Value::Uuid(uuid)), null(), null()],
        ),
        (
            "tinyint",
            T::Tinyint,
            [int(-7), int(i8::MIN.into()), null()],
        ),
        ("uuid", T::Uuid, [one(Value::Uuid(uuid)), null(), null()]),
        ("varchar", T::Varchar, [text("v"), text(""), null()]),
        (
            "varint",
            T::Varint,
            [
                one(Value::Decimal("123456789012345678901234567890")),
                one(Value::Decimal("-1")),
                null(),
            ],
        ),
        (
            // Not frozen: each element has its own times.
            "list",
            list(T::Text),
            [
                nested(vec![text("a").at(written(1)), text("b").at(expiring(2))]),
                null(),
                null(),
            ],
        ),
        (
            "set",
            set(T::Uuid),
            [
                nested(vec![one(Value::Uuid(uuid)).at(written(1))]),
                null(),
                null(),
            ],
        ),
        (
            // Keys that are no text; times stand with the values.
            "map",
            map(T::Int, T::Text),
            [
                nested(vec![
                    int(1),
                    text("one").at(written(1)),
                    int(2),
                    text("two").at(expiring(2)),
                ]),
                null(),
                null(),
            ],
        ),
        (
            "deep_map",
            frozen(map(
                frozen(T::Tuple(vec![T::Int, T::Date])),
                frozen(set(T::Int)),
            )),
            [
                nested(vec![
                    nested(vec![int(1), cql(CqlValue::Date(0))]),
                    nested(vec![int(7), int(9)]),
                ]),
                null(),
                nested(vec![]),
            ],
        ),
        (
            "tuple",
            frozen(T::Tuple(vec![T::Int, T::Text, T::Boolean])),
            [
                nested(vec![int(1), null(), cql(CqlValue::Boolean(true))]),
                // Its last places are not set.
                nested(vec![int(2)]),
                nested(vec![]),
            ],
        ),
        (
            "udt",
            frozen(address),
            [
                // `late` was added to the type after the value was written.
                nested(vec![text("High Street"), int(12)]),
                nested(vec![null(), int(13), text("now")]),
                nested(vec![]),
            ],
        ),
        (
            "e_list",
            frozen(list(T::Int)),
            [null(), null(), nested(vec![])],
        ),
        (
            "e_set",
            frozen(set(T::Int)),
            [null(), null(), nested(vec![])],
        ),
        ("deep", deep_type(8), [deep_value(8), null(), null()]),
        (
            "vector",
            T::Vector(Box::new(T::Float), 2),
            [
                nested(vec![one(Value::Float(1.5)), one(Value::Float(-2.0))]),
                null(),
                null(),
            ],
        ),
    ];
    let mut columns = vec![column("p", CqlRole::Partition, T::Int)];
    let mut rows: Vec<RowOf> = (0..3).map(|p| (Times::default(), vec![int(p)])).collect();
    for (name, kind, cells) in column_of {
        columns.push(column(&format!("c_{name}"), CqlRole::Regular, kind));
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.1.push(cell);
        }
    }
    (table(number, "kinds", columns, vec![0]), rows)
}

/// `CREATE TABLE chat.hits (page text PRIMARY KEY, hits counter)`
pub fn hits(number: u32) -> TableSchema {
    let columns = vec![
        column("page", CqlRole::Partition, CqlType::Text),
        column("hits", CqlRole::Regular, CqlType::Counter),
    ];
    table(number, "hits", columns, vec![0])
}

/// A stream of a table of `chat`; its ARN.
pub fn enable(world: &mut World, table: &str, view: ViewType, shards: u32) -> String {
    let request = EnableStream {
        keyspace: "chat".into(),
        table: table.into(),
        view: Some(view),
        shards: Some(ShardLimits {
            initial: shards,
            ..ShardLimits::default()
        }),
        ..EnableStream::default()
    };
    world
        .ask(move |streams| streams.enable(request))
        .unwrap()
        .arn
        .clone()
}

/// All that there is: `lines` twice, with both images and with keys alone, `kinds` and `hits`, each with its stream.
pub fn fill(world: &mut World) {
    let (all, keys) = (lines(11, "lines"), lines(12, "lines_keys"));
    let (kinds, rows) = kinds(13);
    let hits = hits(14);
    world.schemas(&[&all, &keys, &kinds, &hits]);
    enable(world, "lines", ViewType::NewAndOldImages, 4);
    enable(world, "lines_keys", ViewType::KeysOnly, 1);
    enable(world, "kinds", ViewType::NewAndOldImages, 1);
    enable(world, "hits", ViewType::NewAndOldImages, 1);
    lines_history(world, &all);
    lines_history(world, &keys);
    for row in rows {
        let record = Record {
            after: Some(row),
            ..Record::default()
        };
        write(world, &kinds, &[record], false);
    }
    // UPDATE hits SET hits = hits + 2 WHERE page = '/'
    let total = |hits| (Times::default(), vec![text("/"), int(hits)]);
    let record = Record {
        before: Some(total(5)),
        after: Some(total(7)),
        ..Record::default()
    };
    write(world, &hits, &[record], false);
    world.settle();
}
