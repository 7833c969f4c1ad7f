//! The fixed messages: encoded to the byte, and decoded.

use super::events::{Row, column, table};
use super::{encode, header, one, options, vector, vectors};
use change::event::DdlChange;
use change::temporal::{DatePacked, DateTimePacked};
use change::{
    Cell, ColumnType, Ddl, DdlKind, Event, Operation, PositionStep, RowMeta, TableSchema,
    TransactionHeader, TransactionTrailer, Value,
};
use format::decode::Kind;
use format::dts_avro::datum::{put_bytes, put_double, put_long, put_string};
use format::dts_avro::{DtsAvro, Options};
use format::{Encoder, Heartbeat, Messages};

const BIGINT: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};

fn value(value: Value<'_>) -> Cell<'_> {
    Cell::Value(value)
}

fn two_columns() -> TableSchema {
    let columns = vec![
        column("a", BIGINT),
        column("b", ColumnType::Varchar { length: 100 }),
    ];
    table("mydb", "t1", columns, vec![0])
}

/// The encoder's message without its `readerThroughoutTime`, which the fixed messages lack.
fn without_reader_time(mut message: Vec<u8>) -> Vec<u8> {
    let key = b"\x28readerThroughoutTime\x1a";
    let at = message
        .windows(key.len())
        .position(|window| window == key)
        .expect("every message has the tag");
    message.drain(at..at + key.len() + 13);
    // The count is before the first tag: this one, or a pk_uk_info of 39 bytes.
    let first = match message[..at].last() {
        Some(b'}') => message
            .windows(11)
            .position(|window| window == b"\x14pk_uk_info")
            .expect("the tag before"),
        _ => at,
    };
    message[first - 1] -= 2;
    if message[first - 1] == 0 {
        message.remove(first);
    }
    message
}

fn row(
    version: &str,
    table: &TableSchema,
    operation: Operation,
    before: Option<&[Cell<'_>]>,
    after: Option<&[Cell<'_>]>,
) -> Vec<u8> {
    let meta = RowMeta {
        group: 0,
        end_offset: 72_469,
        time_s: 1_696_984_408,
    };
    row_at(
        version,
        table,
        (operation, meta, 1_700_382, header()),
        before,
        after,
    )
}

fn row_at(
    version: &str,
    table: &TableSchema,
    (operation, meta, sequence, header): (Operation, RowMeta, u64, TransactionHeader),
    before: Option<&[Cell<'_>]>,
    after: Option<&[Cell<'_>]>,
) -> Vec<u8> {
    let row = Row::new(operation, meta, before, after);
    let message = encode(
        options(version),
        &Event::Row(row.change(table, sequence, &header)),
    );
    assert!(message.len() > 48);
    without_reader_time(message)
}

#[test]
fn dts_rows_of_a_table_with_a_key_have_exactly_the_fixed_bytes() {
    let table = two_columns();
    let id = value(Value::Int(123_456_789));
    let text = |text| value(Value::Text(text));
    let inserted = [id, text("test insert statement.")];
    assert_eq!(
        row("8.0.28", &table, Operation::Insert, None, Some(&inserted)),
        vector("insert_min")
    );
    let meta = RowMeta {
        group: 0,
        end_offset: 75_259,
        time_s: 1_696_984_517,
    };
    let later = TransactionHeader {
        begin_offset: 75_103,
        time_s: 1_696_984_517,
        ..header()
    };
    let at = (Operation::Update, meta, 1_700_504, later);
    let (old, new) = ([id, text("old")], [id, Cell::Null]);
    assert_eq!(
        row_at("8.0.28", &table, at, Some(&old), Some(&new)),
        vector("update")
    );
    let mut narrow = table;
    narrow.columns.truncate(1);
    assert_eq!(
        row("8.0.28", &narrow, Operation::Delete, Some(&[id]), None),
        vector("delete")
    );
    narrow.primary_key.clear();
    let one = [value(Value::Int(1))];
    assert_eq!(
        row("8.0.28", &narrow, Operation::Read, None, Some(&one)),
        vector("init")
    );
}

#[test]
fn dts_values_of_each_type_have_exactly_the_fixed_bytes() {
    use ColumnType as T;
    let digits = 6;
    let at = DateTimePacked::new(
        DatePacked::new(2022, 2, 15),
        (16 * 3600 + 16 * 60 + 56) * 1_000_000 + 350_000,
    );
    let unsigned = T::Int {
        bytes: 8,
        unsigned: true,
    };
    let decimal = T::Decimal {
        precision: 10,
        scale: 2,
        unsigned: false,
    };
    let negative = -((100 * 3600 + 30 * 60 + 5) * 1_000_000 + 120_000);
    let point = [
        0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40,
    ];
    for (name, kind, value) in [
        ("dt", T::DateTime { digits }, Value::DateTime { at, digits }),
        ("date", T::Date, Value::Date(at.date())),
        ("year", T::Year, Value::Year(2022)),
        (
            "time_neg",
            T::Time { digits },
            Value::Time {
                micros: negative,
                digits,
            },
        ),
        (
            "ts6",
            T::Timestamp { digits },
            Value::Timestamp {
                micros: 1_627_553_369_000_008,
                digits,
            },
        ),
        ("dec", decimal, Value::Decimal("348.00")),
        ("int_u64", unsigned, Value::UInt(u64::MAX)),
        ("json_text", T::Json, Value::Json("{\"a\":1}")),
        (
            "blob",
            T::Blob { length_bytes: 2 },
            Value::Bytes(&[0, 0xff]),
        ),
        ("geom_bin", T::Geometry, Value::Geometry(&point)),
    ] {
        let table = table("mydb", "t1", vec![column("c", kind)], vec![]);
        let message = row(
            "1",
            &table,
            Operation::Insert,
            None,
            Some(&[Cell::Value(value)]),
        );
        assert_eq!(message, vector(name), "{name}");
        let decoded = one(&vector(name));
        let image = decoded.after().expect("an insert has its row");
        assert_eq!(image.cell(0), Cell::Value(value), "{name}");
        assert_eq!(decoded.warnings, []);
    }
}

/// A fixed message with its two positions the same, as messages have them that are no rows.
fn at_one_position(name: &str) -> Vec<u8> {
    let mut message = vector(name);
    let safe = message[19..28].to_vec();
    assert_eq!(&safe[..], b"\x1072347@78");
    message[10..19].copy_from_slice(&safe);
    message
}

#[test]
fn dts_statements_and_marks_have_exactly_the_fixed_bytes() {
    let header = TransactionHeader {
        thread_id: 1,
        ..header()
    };
    let quiet = TransactionHeader {
        thread_id: 0,
        ..header.clone()
    };
    let ddl = Ddl {
        kind: DdlKind::CreateTable,
        database: "mydb",
        table: "t1",
        renamed_from: "",
        sql: "create table t1(a bigint primary key, b varchar(100))",
        charset: "",
        sql_mode: 0,
    };
    let ddl = Event::Ddl(DdlChange {
        sequence: 1_700_382,
        ddl,
        header: &quiet,
    });
    let message = encode(options("8.0.28"), &ddl);
    assert!(message.len() > 48);
    assert_eq!(without_reader_time(message), at_one_position("ddl"));

    let message = encode(
        options("8.0.28"),
        &Event::Begin {
            sequence: 1_700_382,
            header: &header,
        },
    );
    let expected = at_one_position("begin");
    assert_eq!(without_reader_time(message), expected);

    let trailer = TransactionTrailer {
        step: PositionStep {
            file: header.file.clone(),
            offset: 72_347,
            id: None,
        },
        time_s: header.time_s,
        ..TransactionTrailer::default()
    };
    let commit = Event::Commit {
        sequence: 1_700_382,
        header: &header,
        trailer: &trailer,
    };
    let mut expected = at_one_position("commit_obj");
    // The fixed one names a database, which a transaction does not have.
    let name = expected
        .windows(6)
        .position(|window| window == b"\x02\x08mydb")
        .expect("its name");
    expected.splice(name..name + 6, [0]);
    assert_eq!(
        without_reader_time(encode(options("8.0.28"), &commit)),
        expected
    );

    let mut messages = Messages::default();
    let beat = Heartbeat {
        sequence: 1_700_382,
        time_us: 1_696_984_408_000_000,
        file: "mysql-bin.000078",
        offset: 72_347,
    };
    DtsAvro::new(options("8.0.28")).heartbeat(&beat, &mut messages);
    let message = messages.iter().next().expect("heartbeats are on").to_vec();
    assert!(message.len() > 48);
    assert_eq!(without_reader_time(message), at_one_position("heartbeat"));

    messages.clear();
    DtsAvro::new(Options::default()).heartbeat(&beat, &mut messages);
    assert!(messages.is_empty());
}

#[test]
fn dts_every_branch_of_a_value_is_written_as_another_library_writes_it() {
    let mut values = Vec::new();
    let out = &mut values;
    let date_time = |out: &mut Vec<u8>| {
        for part in [2022, 2, 15, 16, 16, 56, 350_000] {
            put_long(out, 1);
            put_long(out, part);
        }
    };
    put_long(out, 0);
    put_long(out, 1);
    put_long(out, 8);
    put_string(out, "-9223372036854775808");
    put_long(out, 2);
    put_string(out, "utf8mb4");
    put_bytes(out, "é".as_bytes());
    put_long(out, 3);
    put_string(out, "-1050.50");
    put_long(out, 6);
    put_long(out, 2);
    put_long(out, 4);
    put_double(out, 1.5);
    put_long(out, 8);
    put_long(out, 15);
    put_long(out, 5);
    put_long(out, 1_627_553_369);
    put_long(out, 8);
    put_long(out, 6);
    date_time(out);
    put_long(out, 7);
    date_time(out);
    put_string(out, "+08:00");
    put_long(out, 8);
    put_string(out, "WKB");
    put_bytes(out, &[1, 2]);
    put_long(out, 9);
    put_string(out, "WKT");
    put_string(out, "POINT(1 2)");
    put_long(out, 10);
    put_string(out, "BLOB");
    put_bytes(out, &[0, 0xff]);
    put_long(out, 11);
    put_string(out, "JSON");
    put_string(out, "{}");
    put_long(out, 12);
    put_long(out, 1);
    // The array's end, and bornTimestamp.
    put_long(out, 0);
    put_long(out, 1_696_984_408);
    assert!(vector("allunion").ends_with(&values));
}

#[test]
fn dts_every_fixed_message_is_read_with_fourteen_fields_too() {
    for (name, message) in vectors() {
        let whole = one(&message);
        let short = one(&message[..message.len() - 5]);
        assert_eq!(format!("{whole:?}"), format!("{short:?}"), "{name}");
        // One message has PostgreSQL's number of an instant in a row of MySQL.
        let odd = usize::from(name == "allunion");
        assert_eq!(whole.warnings.len(), odd, "{name}");
        let mut long = message.clone();
        long.extend_from_slice(b"tail");
        assert_eq!(one(&long).warnings.len(), odd + 1, "{name}");
        let is_update = name == "update";
        let (id, time) = match is_update {
            true => (1_700_504, 1_696_984_517),
            false => (1_700_382, 1_696_984_408),
        };
        assert_eq!((whole.id, whole.time_us), (Some(id), time * 1_000_000));
        assert_eq!(
            whole.position.as_deref(),
            Some(if is_update { "75259@78" } else { "72469@78" })
        );
        assert_eq!(whole.transaction, None);
    }
}

#[test]
fn dts_fixed_messages_say_what_they_were_made_of() {
    let insert = one(&vector("insert_min"));
    assert_eq!(insert.kind, Kind::Row(Operation::Insert));
    assert_eq!(
        (&*insert.table.database, &*insert.table.name),
        ("mydb", "t1")
    );
    assert_eq!(insert.table.primary_key, [0]);
    assert!(!insert.table.columns[0].nullable && insert.table.columns[1].nullable);
    assert_eq!(insert.table.columns[0].kind, BIGINT);
    assert_eq!(insert.table.columns[1].charset.as_deref(), Some("utf8mb4"));
    assert!(insert.before.is_none());
    let after = insert.after().expect("the row");
    assert_eq!(after.cell(0), value(Value::Int(123_456_789)));
    assert_eq!(after.cell(1), value(Value::Text("test insert statement.")));

    let update = one(&vector("update"));
    assert_eq!(update.kind, Kind::Row(Operation::Update));
    let (before, after) = (update.before().expect("old"), update.after().expect("new"));
    assert_eq!(before.cell(1), value(Value::Text("old")));
    assert_eq!(after.cell(1), Cell::Null);

    let delete = one(&vector("delete"));
    assert_eq!(delete.kind, Kind::Row(Operation::Delete));
    assert!(delete.before.is_some() && delete.after.is_none());

    let ddl = one(&vector("ddl"));
    assert_eq!(ddl.kind, Kind::Ddl(DdlKind::CreateTable));
    assert_eq!(ddl.table.database, "mydb");
    assert_eq!(
        ddl.sql,
        "create table t1(a bigint primary key, b varchar(100))"
    );

    assert_eq!(one(&vector("heartbeat")).kind, Kind::Heartbeat);
    assert_eq!(one(&vector("begin")).kind, Kind::Begin);
    assert_eq!(one(&vector("commit_obj")).kind, Kind::Commit);
    assert_eq!(one(&vector("init")).kind, Kind::Row(Operation::Read));

    let zoned = one(&vector("tz_pg"));
    let digits = 6;
    // 16:16:56.35 at +08:00.
    let micros = 1_644_913_016_350_000;
    let instant = value(Value::Timestamp { micros, digits });
    assert_eq!(zoned.after().expect("the row").cell(0), instant);
    assert_eq!(zoned.table.columns[0].declared, "timestamptz");
}

#[test]
fn dts_every_branch_is_read() {
    let all = one(&vector("allunion"));
    let image = all.after().expect("the row");
    let digits = 6;
    let day = DatePacked::new(2022, 2, 15);
    let at = DateTimePacked::new(day, (16 * 3600 + 16 * 60 + 56) * 1_000_000 + 350_000);
    let expected = [
        Cell::Null,
        value(Value::Int(i64::MIN)),
        value(Value::Text("é")),
        value(Value::Decimal("-1050.50")),
        value(Value::Double(1.5)),
        value(Value::Timestamp {
            micros: 1_627_553_369_000_008,
            digits,
        }),
        value(Value::DateTime { at, digits }),
        value(Value::Timestamp {
            micros: 1_644_913_016_350_000,
            digits,
        }),
        value(Value::Geometry(&[0, 0, 0, 0, 1, 2])),
        value(Value::Text("POINT(1 2)")),
        value(Value::Bytes(&[0, 0xff])),
        value(Value::Json("{}")),
        Cell::Unknown,
    ];
    assert_eq!(image.cells().collect::<Vec<_>>(), expected);
}
