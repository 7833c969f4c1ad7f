//! Random rows over every type: read by another Avro library, and back as they were.

use super::events::{Owned, Random, Row, every_type, random_value};
use super::{encode, header, one, options};
use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value as AvroValue;
use change::{Cell, ColumnType, Event, Operation, RowChange, RowMeta, TableSchema, Value};
use format::decode::{Decoded, Kind};
use format::dts_avro::{Options, SourceKind, avro_schema, schema::RECORD_INDEX};

/// The schema as another library reads it: its named types, the last of which is the message's.
fn schemata() -> Vec<Schema> {
    let types: Vec<serde_json::Value> =
        serde_json::from_str(avro_schema()).expect("the schema is JSON");
    let texts: Vec<String> = types.iter().map(ToString::to_string).collect();
    let schemata = Schema::parse_list(&texts).expect("the schema is an Avro schema");
    assert_eq!(schemata.len(), RECORD_INDEX + 1);
    schemata
}

fn reader(schemata: &[Schema]) -> GenericDatumReader<'_> {
    GenericDatumReader::builder(&schemata[RECORD_INDEX])
        .writer_schemata(schemata.iter().collect())
        .expect("the types are known to each other")
        .build()
        .expect("the schema is whole")
}

fn read(reader: &GenericDatumReader<'_>, message: &[u8]) -> Vec<(String, AvroValue)> {
    let mut rest = message;
    let value = reader
        .read_value(&mut rest)
        .expect("another library reads the message");
    assert!(rest.is_empty(), "the message is one datum");
    match value {
        AvroValue::Record(fields) => fields,
        other => panic!("{other:?} is no record"),
    }
}

fn random_row(random: &mut Random, table: &TableSchema) -> Vec<Owned> {
    let kinds = table.columns.iter().map(|column| &column.kind);
    kinds.map(|kind| random_value(random, kind)).collect()
}

/// The value as the format can carry it.
fn carried(kind: &ColumnType, owned: &Owned) -> Owned {
    let digits = 6;
    match (kind, owned) {
        (ColumnType::Enum { .. }, Owned::Plain(Value::Enum(0))) => Owned::Text(String::new()),
        (ColumnType::Enum { members }, Owned::Plain(Value::Enum(ordinal))) => {
            Owned::Text(members[usize::from(*ordinal) - 1].clone())
        }
        (ColumnType::Set { members }, Owned::Plain(Value::Set(mask))) => {
            let set = members.iter().enumerate();
            let labels: Vec<&str> = set
                .filter(|(bit, _)| mask >> bit & 1 == 1)
                .map(|(_, label)| label.as_str())
                .collect();
            Owned::Text(labels.join(","))
        }
        (_, Owned::Plain(value)) => match *value {
            Value::Time { micros, .. } => Owned::Plain(Value::Time { micros, digits }),
            Value::DateTime { at, .. } => Owned::Plain(Value::DateTime { at, digits }),
            Value::Timestamp { micros, .. } => Owned::Plain(Value::Timestamp { micros, digits }),
            Value::ZeroTimestamp { .. } => Owned::Plain(Value::ZeroTimestamp { digits }),
            Value::Inet4(v) => Owned::Text(std::net::Ipv4Addr::from(v).to_string()),
            Value::Inet6(v) => Owned::Text(std::net::Ipv6Addr::from(v).to_string()),
            Value::Uuid(v) => {
                let mut text = Vec::new();
                format::key_text::put_uuid(&mut text, &v);
                Owned::Text(String::from_utf8(text).expect("a UUID is ASCII"))
            }
            value => Owned::Plain(value),
        },
        (_, Owned::Vector(bytes)) => Owned::Bytes(bytes.clone()),
        (_, Owned::Geometry(stored)) => {
            let mut stored = stored.clone();
            stored[..4].fill(0);
            Owned::Geometry(stored)
        }
        (_, other) => other.clone(),
    }
}

/// Integers by their number: the format does not carry UNSIGNED.
fn number(cell: Cell<'_>) -> Option<i128> {
    match cell {
        Cell::Value(Value::Int(v)) => Some(v.into()),
        Cell::Value(Value::UInt(v)) => Some(v.into()),
        _ => None,
    }
}

fn check(table: &TableSchema, decoded: Option<change::Image<'_>>, rows: &[Owned]) {
    let image = decoded.expect("the image was written");
    assert_eq!(image.column_count(), rows.len());
    for ((column, owned), cell) in table.columns.iter().zip(rows).zip(image.cells()) {
        let expected = carried(&column.kind, owned);
        match number(expected.cell()) {
            Some(_) => assert_eq!(number(cell), number(expected.cell()), "{column:?}"),
            None => assert_eq!(cell, expected.cell(), "{column:?}"),
        }
    }
}

/// The decoded row encoded again, as a change of the decoded table.
fn again(decoded: &Decoded) -> Decoded {
    let Kind::Row(operation) = decoded.kind else {
        panic!("a row was written")
    };
    let header = header();
    one(&encode(
        options("8.0.28"),
        &Event::Row(RowChange {
            sequence: 7,
            table: &decoded.table,
            operation,
            before: decoded.before(),
            after: decoded.after(),
            key_token: 0,
            old_key_token: None,
            flags: 0,
            meta: RowMeta::default(),
            header: &header,
            statement: None,
        }),
    ))
}

#[test]
fn dts_random_rows_are_read_by_another_library_and_come_back() {
    let schemata = schemata();
    let reader = reader(&schemata);
    let table = every_type();
    let mut random = Random(20_231_011);
    let header = header();
    for round in 0..1500 {
        let (before, after) = (
            random_row(&mut random, &table),
            random_row(&mut random, &table),
        );
        let operation = [
            Operation::Insert,
            Operation::Update,
            Operation::Delete,
            Operation::Read,
        ][round % 4];
        let (old, new) = (cells(&before), cells(&after));
        let old = matches!(operation, Operation::Update | Operation::Delete).then_some(&old[..]);
        let new = (operation != Operation::Delete).then_some(&new[..]);
        let row = Row::new(operation, RowMeta::default(), old, new);
        let message = encode(
            options("8.0.28"),
            &Event::Row(row.change(&table, 7, &header)),
        );
        assert!(message.len() > 48);
        let fields = read(&reader, &message);
        assert_eq!(fields.len(), 15);

        let decoded = one(&message);
        assert_eq!(decoded.kind, Kind::Row(operation));
        assert_eq!(decoded.table.primary_key, [0]);
        assert_eq!(decoded.before.is_some(), old.is_some());
        assert_eq!(decoded.after.is_some(), new.is_some());
        if old.is_some() {
            check(&table, decoded.before(), &before);
        }
        if new.is_some() {
            check(&table, decoded.after(), &after);
        }
        let second = again(&decoded);
        assert_eq!(second.table, decoded.table);
        assert_eq!(second.before, decoded.before);
        assert_eq!(second.after, decoded.after);
    }
}

fn cells(rows: &[Owned]) -> Vec<Cell<'_>> {
    rows.iter().map(Owned::cell).collect()
}

#[test]
fn dts_rows_in_the_numbers_of_postgresql_are_read_by_another_library_and_here() {
    let schemata = schemata();
    let reader = reader(&schemata);
    let table = every_type();
    let mut random = Random(3);
    let header = header();
    for _ in 0..200 {
        let after = random_row(&mut random, &table);
        let cells: Vec<Cell<'_>> = after.iter().map(Owned::cell).collect();
        let row = Row::new(Operation::Insert, RowMeta::default(), None, Some(&cells));
        let options = Options {
            source: SourceKind::PostgreSql,
            ..options("16.1")
        };
        let message = encode(options, &Event::Row(row.change(&table, 7, &header)));
        assert_eq!(read(&reader, &message).len(), 15);
        let decoded = one(&message);
        let image = decoded.after().expect("the row");
        for ((column, was), now) in table.columns.iter().zip(&cells).zip(image.cells()) {
            let same = match (&column.kind, was) {
                (_, Cell::Value(Value::ZeroTimestamp { .. })) => continue,
                (_, Cell::Null | Cell::Unknown) => *was,
                (ColumnType::Timestamp { .. }, Cell::Value(Value::Timestamp { micros, .. })) => {
                    let (micros, digits) = (*micros, 6);
                    Cell::Value(Value::Timestamp { micros, digits })
                }
                (ColumnType::Year, Cell::Value(Value::Year(year))) => {
                    Cell::Value(Value::Int(i64::from(*year)))
                }
                (ColumnType::Uuid | ColumnType::Json | ColumnType::Double, _) => *was,
                (ColumnType::Geometry, Cell::Value(Value::Geometry(bytes))) => {
                    Cell::Value(Value::Bytes(bytes))
                }
                _ => continue,
            };
            assert_eq!(now, same, "{column:?}");
        }
    }
}

#[test]
fn dts_every_float_of_a_sample_comes_back() {
    use super::events::{column, table};
    let table = table("d", "t", vec![column("f", ColumnType::Float)], vec![]);
    let header = header();
    let mut random = Random(7);
    for step in 0..200_000u32 {
        let bits = match step % 2 {
            0 => step.wrapping_mul(42_949),
            _ => random.next() as u32,
        };
        let value = f32::from_bits(bits);
        if !value.is_finite() {
            continue;
        }
        let cell = [Cell::Value(Value::Float(value))];
        let row = Row::new(Operation::Insert, RowMeta::default(), None, Some(&cell));
        let message = encode(options(""), &Event::Row(row.change(&table, 1, &header)));
        let decoded = one(&message);
        assert_eq!(decoded.after().expect("the row").cell(0), cell[0]);
    }
}

#[test]
fn dts_a_float_is_the_double_of_its_shortest_text() {
    use super::events::{column, table};
    let table = table("d", "t", vec![column("f", ColumnType::Float)], vec![]);
    let header = header();
    let cell = [Cell::Value(Value::Float(0.1))];
    let row = Row::new(Operation::Insert, RowMeta::default(), None, Some(&cell));
    let message = encode(options(""), &Event::Row(row.change(&table, 1, &header)));
    let bytes = 0.1f64.to_le_bytes();
    assert!(message.windows(8).any(|window| window == bytes));
}
