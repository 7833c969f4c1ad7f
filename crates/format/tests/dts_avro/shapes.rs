//! What the encoder makes of each setting, and what the decoder makes of other writers' messages.

use super::events::{Row, column, table};
use super::{decode, encode, header, one, options};
use change::event::DdlChange;
use change::gtid::{Gtid, GtidSource};
use change::position::TransactionId;
use change::{
    Cell, ColumnType, Ddl, DdlKind, Event, Operation, RowMeta, TableSchema, TransactionHeader,
    UniqueKey, Value,
};
use format::decode::{Decoded, Kind};
use format::dts_avro::datum::{put_bytes, put_long, put_string};
use format::dts_avro::{DtsAvro, Options, SourceKind};
use format::settings::{FormatName, FormatOptions};
use format::{Encoder, Messages};

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};

fn insert(options: Options, table: &TableSchema, cells: &[Cell<'_>]) -> Vec<u8> {
    let row = Row::new(Operation::Insert, RowMeta::default(), None, Some(cells));
    let header = header();
    encode(options, &Event::Row(row.change(table, 7, &header)))
}

fn holds(message: &[u8], text: &str) -> bool {
    let text = text.as_bytes();
    message.windows(text.len()).any(|window| window == text)
}

#[test]
fn dts_the_setting_makes_the_encoder() {
    let encoder = FormatName::DtsAvro
        .encoder(&FormatOptions::default())
        .expect("the default options are right");
    assert_eq!(
        (encoder.name(), FormatName::DtsAvro.as_str()),
        ("dts-avro", "dts-avro")
    );
}

#[test]
fn dts_names_with_dots_are_escaped_and_come_back() {
    let table = table("my.db", "t.1.", vec![column("a", INT)], vec![]);
    let message = insert(options(""), &table, &[Cell::Null]);
    assert!(holds(&message, "my\\u002Edb.t\\u002E1\\u002E"));
    let decoded = one(&message);
    assert_eq!(
        (&*decoded.table.database, &*decoded.table.name),
        ("my.db", "t.1.")
    );
}

#[test]
fn dts_a_database_above_the_schema_is_the_first_of_three_parts() {
    let options = Options {
        source: SourceKind::PostgreSql,
        database: Some("app".into()),
        ..options("16.1")
    };
    let table = table("public", "t", vec![column("a", INT)], vec![]);
    let message = insert(options, &table, &[Cell::Value(Value::Int(1))]);
    assert!(holds(&message, "app.public.t"));
    let decoded = one(&message);
    assert_eq!(
        (&*decoded.table.database, &*decoded.table.name),
        ("public", "t")
    );
    assert_eq!(decoded.table.columns[0].declared, "integer");
    assert_eq!(decoded.time_us, 1_696_984_408_000_000);
}

#[test]
fn dts_keys_are_listed_with_the_primary_first_and_come_back() {
    let mut table = table(
        "d",
        "t",
        vec![column("a", INT), column("q\"b", INT), column("c", INT)],
        vec![2, 0],
    );
    table.unique_keys.push(UniqueKey {
        name: "u".into(),
        columns: vec![1, 0],
    });
    let message = insert(options(""), &table, &[Cell::Null; 3]);
    assert!(holds(&message, r#"{"PRIMARY":["c","a"],"u":["q\"b","a"]}"#));
    let decoded = one(&message);
    assert_eq!(decoded.table.primary_key, [2, 0]);
    assert_eq!(decoded.table.unique_keys, table.unique_keys);
    assert_eq!(decoded.warnings, []);
}

#[test]
fn dts_unknown_cells_are_none_and_an_update_without_an_old_row_has_none_known() {
    let table = table("d", "t", vec![column("a", INT), column("b", INT)], vec![0]);
    let after = [Cell::Value(Value::Int(1)), Cell::Unknown];
    let row = Row::new(Operation::Update, RowMeta::default(), None, Some(&after));
    let header = header();
    let message = encode(options(""), &Event::Row(row.change(&table, 7, &header)));
    // Before: two NONE. After: the number, and NONE.
    assert!(message.windows(7).any(|w| w == [4, 4, 0x18, 2, 0x18, 2, 0]));
    let decoded = one(&message);
    assert!(decoded.before.is_none());
    assert_eq!(decoded.after().expect("the row").cell(1), Cell::Unknown);
}

#[test]
fn dts_labels_that_the_schema_lacks_are_numbers() {
    let members = vec!["a".to_owned(), "b".to_owned()];
    let columns = vec![
        column(
            "e",
            ColumnType::Enum {
                members: members.clone(),
            },
        ),
        column("s", ColumnType::Set { members }),
    ];
    let table = table("d", "t", columns, vec![]);
    let cells = [Value::Enum(3), Value::Set(0b101)].map(Cell::Value);
    let decoded = one(&insert(options(""), &table, &cells));
    let image = decoded.after().expect("the row");
    assert_eq!(image.cell(0), Cell::Value(Value::Text("3")));
    assert_eq!(image.cell(1), Cell::Value(Value::Text("5")));
}

#[test]
fn dts_text_has_the_charset_that_its_bytes_have() {
    let with = |name: &str, charset: &str| {
        let mut column = column(name, ColumnType::Varchar { length: 9 });
        column.charset = Some(charset.into());
        column
    };
    let columns = vec![with("a", "gbk"), with("b", "utf8mb3"), with("c", "gbk")];
    let table = table("d", "t", columns, vec![]);
    let cells = [
        Value::Text("你"),
        Value::Text("é"),
        Value::InvalidText(&[0xff, 0xff]),
    ];
    let message = insert(options(""), &table, &cells.map(Cell::Value));
    assert!(holds(
        &message,
        "\u{4}\u{e}utf8mb4\u{6}你\u{4}\u{8}utf8\u{4}é\u{4}\u{6}gbk\u{4}"
    ));
    let decoded = one(&message);
    let image = decoded.after().expect("the row");
    assert_eq!(image.cells().collect::<Vec<_>>(), cells.map(Cell::Value));
    assert_eq!(decoded.table.columns[2].charset.as_deref(), Some("gbk"));
}

#[test]
fn dts_decimals_count_the_digits_of_their_value() {
    let kind = ColumnType::Decimal {
        precision: 10,
        scale: 2,
        unsigned: false,
    };
    let table = table("d", "t", vec![column("c", kind)], vec![]);
    for (text, precision, scale) in [
        ("348.00", 5, 2),
        ("1050.00", 6, 2),
        ("1.00", 3, 2),
        ("0.00", 1, 2),
        ("-0.05", 1, 2),
        ("0.50", 2, 2),
        ("7", 1, 0),
        ("0", 1, 0),
    ] {
        let mut expected = Vec::new();
        put_long(&mut expected, 3);
        put_string(&mut expected, text);
        put_long(&mut expected, precision);
        put_long(&mut expected, scale);
        let message = insert(options(""), &table, &[Cell::Value(Value::Decimal(text))]);
        assert!(
            message.windows(expected.len()).any(|w| w == expected),
            "{text}"
        );
    }
}

#[test]
fn dts_each_setting_changes_what_it_says() {
    let table = table(
        "d",
        "t",
        vec![column("a", ColumnType::Text { length_bytes: 2 })],
        vec![],
    );
    let header = TransactionHeader {
        thread_id: 5,
        server_id: 11,
        id: Some(TransactionId::Mysql(Gtid {
            source: GtidSource {
                uuid: [0x11; 16],
                tag: String::new(),
            },
            number: 23,
        })),
        ..header()
    };
    let gtid = "11111111-1111-1111-1111-111111111111:23";
    let cells = [Cell::Value(Value::Text("x"))];
    let row = Row::new(Operation::Read, RowMeta::default(), None, Some(&cells));
    let change = row.change(&table, 7, &header);
    let plain = encode(options(""), &Event::Row(change));
    assert!(holds(&plain, "thread_id\u{2}5") && !holds(&plain, "GTID"));
    assert_eq!(one(&plain).kind, Kind::Row(Operation::Read));
    let full = Options {
        gtid: true,
        source_tags: true,
        meta_version: true,
        text_as_blob: true,
        snapshot_as_insert: true,
        ..options("")
    };
    let message = encode(full, &Event::Row(change));
    for tag in [
        "server_id\u{4}11",
        "commitTimestamp\u{14}1696984408",
        "metaVersion\u{14}4294967297",
        gtid,
    ] {
        assert!(holds(&message, tag), "{tag}");
    }
    let decoded = one(&message);
    assert_eq!(decoded.kind, Kind::Row(Operation::Insert));
    assert_eq!(decoded.transaction.as_deref(), Some(gtid));
    assert_eq!(decoded.after().expect("the row").cell(0), cells[0]);
    assert_eq!(
        one(&encode(
            options(""),
            &Event::Begin {
                sequence: 7,
                header: &header,
            }
        ))
        .transaction
        .as_deref(),
        Some(gtid)
    );

    let ddl = Event::Ddl(DdlChange {
        sequence: 7,
        ddl: Ddl {
            kind: DdlKind::DropTable,
            database: "",
            table: "t",
            renamed_from: "",
            sql: "DROP TABLE t",
            charset: "",
            sql_mode: 0,
        },
        header: &header,
    });
    let decoded = one(&encode(options(""), &ddl));
    assert_eq!(decoded.kind, Kind::Ddl(DdlKind::DropTable));
    assert_eq!(
        (&*decoded.sql, &*decoded.table.database),
        ("DROP TABLE t", "")
    );
    let mut messages = Messages::default();
    let without = Options {
        without_ddl: true,
        ..Options::default()
    };
    let mut encoder = DtsAvro::new(without);
    encoder
        .encode(&ddl, &mut messages)
        .expect("nothing to carry");
    encoder
        .encode(
            &Event::Begin {
                sequence: 7,
                header: &header,
            },
            &mut messages,
        )
        .expect("nothing to carry");
    assert!(messages.is_empty());
}

#[test]
fn dts_a_row_without_its_image_is_refused_and_leaves_nothing() {
    let table = table("d", "t", vec![column("a", INT)], vec![]);
    let row = Row::new(
        Operation::Delete,
        RowMeta::default(),
        None,
        Some(&[Cell::Null]),
    );
    let header = header();
    let mut messages = Messages::default();
    let error = DtsAvro::new(options(""))
        .encode(&Event::Row(row.change(&table, 7, &header)), &mut messages)
        .expect_err("a delete needs its row");
    assert_eq!(error.table, "d.t");
    assert!(messages.is_empty() && messages.buffer().is_empty());
}

#[test]
fn dts_no_message_is_short_enough_to_be_a_filler() {
    let table = table("", "", vec![], vec![]);
    let row = Row::new(Operation::Insert, RowMeta::default(), None, Some(&[]));
    let header = TransactionHeader::default();
    let message = encode(options(""), &Event::Row(row.change(&table, 0, &header)));
    assert!(message.len() > 48, "{}", message.len());
}

/// A message as another writer could make it.
struct Message {
    source: i64,
    position: &'static str,
    operation: i64,
    name: &'static str,
    fields: Vec<(&'static str, i64)>,
    before: Option<Vec<Vec<u8>>>,
    after: Option<Vec<Vec<u8>>>,
}

impl Message {
    fn insert(source: i64, number: i64, value: Vec<u8>) -> Self {
        Self {
            source,
            position: "1@1",
            operation: 0,
            name: "d.t",
            fields: vec![("c", number)],
            before: None,
            after: Some(vec![value]),
        }
    }

    /// With blocks that say their size, two entries a block.
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_long(&mut out, 169_493_228);
        put_long(&mut out, 7);
        put_long(&mut out, 1_696_984_408_123);
        put_string(&mut out, self.position);
        put_string(&mut out, "");
        put_string(&mut out, "tx");
        put_long(&mut out, self.source);
        put_string(&mut out, "1");
        put_long(&mut out, self.operation);
        put_long(&mut out, 1);
        put_string(&mut out, self.name);
        // Two process timestamps.
        put_long(&mut out, 1);
        put_blocks(&mut out, &[vec![2], vec![4]]);
        let mut tag = Vec::new();
        put_string(&mut tag, "other");
        put_bytes(&mut tag, &[0xff]);
        put_blocks(&mut out, &[tag]);
        put_long(&mut out, 2);
        let fields: Vec<Vec<u8>> = self
            .fields
            .iter()
            .map(|(name, number)| {
                let mut field = Vec::new();
                put_string(&mut field, name);
                put_long(&mut field, *number);
                field
            })
            .collect();
        put_blocks(&mut out, &fields);
        for image in [&self.before, &self.after] {
            match image {
                None => put_long(&mut out, 0),
                Some(values) => {
                    put_long(&mut out, 2);
                    put_blocks(&mut out, values);
                }
            }
        }
        out
    }

    fn decoded(&self) -> Decoded {
        one(&self.bytes())
    }
}

fn put_blocks(out: &mut Vec<u8>, entries: &[Vec<u8>]) {
    for block in entries.chunks(2) {
        put_long(out, -(block.len() as i64));
        put_long(out, block.iter().map(Vec::len).sum::<usize>() as i64);
        block.iter().for_each(|entry| out.extend_from_slice(entry));
    }
    put_long(out, 0);
}

fn bytes(make: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    make(&mut out);
    out
}

fn integer(digits: &str) -> Vec<u8> {
    bytes(|out| {
        put_long(out, 1);
        put_long(out, 0);
        put_string(out, digits);
    })
}

fn object(branch: i64, word: &str, value: &[u8]) -> Vec<u8> {
    bytes(|out| {
        put_long(out, branch);
        put_string(out, word);
        put_bytes(out, value);
    })
}

fn date_time(branch: i64, parts: [Option<i64>; 7]) -> Vec<u8> {
    bytes(|out| {
        put_long(out, branch);
        for part in parts {
            put_long(out, i64::from(part.is_some()));
            part.into_iter().for_each(|part| put_long(out, part));
        }
    })
}

fn decimal(text: &str) -> Vec<u8> {
    bytes(|out| {
        put_long(out, 3);
        put_string(out, text);
        out.extend_from_slice(&[0, 0]);
    })
}

#[test]
fn dts_blocks_with_sizes_milliseconds_and_foreign_tags_are_read() {
    let mut message = Message::insert(0, 3, integer("+5"));
    for name in ["d", "e", "f"] {
        message.fields.push((name, 3));
    }
    message.after.as_mut().expect("the row").push(integer("6"));
    let decoded = message.decoded();
    assert_eq!(decoded.time_us, 1_696_984_408_123_000);
    assert_eq!(decoded.transaction.as_deref(), Some("tx"));
    let image = decoded.after().expect("the row");
    let int = |v| Cell::Value(Value::Int(v));
    let expected = [int(5), int(6), Cell::Unknown, Cell::Unknown];
    assert_eq!(image.cells().collect::<Vec<_>>(), expected);
    assert_eq!(decoded.warnings[0].what, "fewer values than fields");
}

#[test]
fn dts_integers_take_the_range_of_their_number_and_unsigned_beyond_it() {
    let kind = |number, precision, digits: &str| {
        let value = bytes(|out| {
            put_long(out, 1);
            put_long(out, precision);
            put_string(out, digits);
        });
        let column = Message::insert(0, number, value).decoded().table.columns[0].clone();
        match column.kind {
            ColumnType::Int { bytes, unsigned } => (bytes, unsigned, column.declared),
            other => panic!("{other:?}"),
        }
    };
    let signed = |bytes, name: &str| (bytes, false, name.to_owned());
    let unsigned = |bytes, name: &str| (bytes, true, format!("{name} unsigned"));
    assert_eq!(kind(1, 1, "127"), signed(1, "tinyint"));
    assert_eq!(kind(1, 1, "-128"), signed(1, "tinyint"));
    assert_eq!(kind(1, 1, "128"), unsigned(1, "tinyint"));
    assert_eq!(kind(2, 2, "65535"), unsigned(2, "smallint"));
    assert_eq!(kind(9, 3, "8388608"), unsigned(3, "mediumint"));
    assert_eq!(kind(3, 4, "4294967295"), unsigned(4, "int"));
    // The precision tells it of a small number too.
    assert_eq!(kind(3, 8, "1"), unsigned(4, "int"));
    assert_eq!(kind(3, 4, "1"), signed(4, "int"));
    assert_eq!(kind(8, 8, "1"), signed(8, "bigint"));
    assert_eq!(kind(8, 8, "18446744073709551615"), unsigned(8, "bigint"));
    // A number that cannot be of the type is of a wider one.
    assert_eq!(kind(2, 2, "65536"), signed(8, "bigint"));
    assert_eq!(kind(3, 8, "-1"), signed(8, "bigint"));
}

#[test]
fn dts_operations_that_are_no_rows_have_their_kind_or_are_left_out() {
    for (operation, kind) in [
        (4, Some(Kind::Begin)),
        (5, Some(Kind::Commit)),
        (6, Some(Kind::Rollback)),
        (7, Some(Kind::Rollback)),
        (8, Some(Kind::Heartbeat)),
        (9, Some(Kind::Heartbeat)),
        (10, Some(Kind::Ddl(DdlKind::Other))),
        (11, None),
        (12, None),
        (13, None),
        (14, None),
        (15, Some(Kind::Heartbeat)),
    ] {
        let mut message = Message::insert(0, 3, integer("5"));
        message.operation = operation;
        let all = decode(&message.bytes()).expect("a whole message");
        assert_eq!(all.first().map(|decoded| decoded.kind), kind);
    }
    assert!(decode(&[]).expect("a filler").is_empty());
    assert!(decode(&[0; 48]).is_ok());
    assert!(decode(&[0xff; 49]).is_err());
}

#[test]
fn dts_what_contradicts_itself_is_a_fault() {
    let mut longer = Message::insert(0, 3, integer("5"));
    longer.after.as_mut().expect("the row").push(integer("6"));
    let mut without = Message::insert(0, 3, integer("5"));
    without.after = None;
    let mut four = Message::insert(0, 3, integer("5"));
    four.name = "a.b.c.d";
    for (message, path) in [
        (longer, "afterImages"),
        (without, "afterImages"),
        (four, "objectName"),
    ] {
        let fault = decode(&message.bytes()).expect_err(path);
        assert_eq!(fault.path, path);
    }
}

#[test]
fn dts_values_of_other_writers_are_read() {
    use Value as V;
    let digits = 6;
    let at = |micros: u64| {
        let day = change::temporal::DatePacked::new(2022, 2, 15);
        V::DateTime {
            at: change::temporal::DateTimePacked::new(day, 57_600_000_000 + micros),
            digits,
        }
    };
    let time = |fraction| {
        [
            Some(2022),
            Some(2),
            Some(15),
            Some(16),
            Some(0),
            Some(0),
            fraction,
        ]
    };
    for (source, number, value, expected) in [
        // A newer writer's BIT, and the digits that older ones write.
        (0, 16, object(10, "BIT", &[1, 2]), V::Bit(258)),
        (0, 16, integer("258"), V::Bit(258)),
        // Text as an object, JSON in bytes, a word that is not known.
        (0, 252, object(10, "TEXT", "é".as_bytes()), V::Text("é")),
        (3, 3802, object(10, "jsonb", b"{}"), V::Json("{}")),
        (3, 600, object(11, "POINT", b"(1,2)"), V::Text("(1,2)")),
        (3, 16, object(11, "BOOL", b"t"), V::Text("t")),
        (
            3,
            2950,
            object(11, "XTYPE", &[b'1'; 32]),
            V::Uuid([0x11; 16]),
        ),
        // Charsets.
        (0, 253, object(2, "latin1", &[0x80]), V::Text("€")),
        (
            0,
            253,
            object(2, "gbk", &[0xff, 0xff]),
            V::InvalidText(&[0xff, 0xff]),
        ),
        (0, 253, object(2, "gbk", &[0xc4, 0xe3]), V::Text("你")),
        (1, 1, object(2, "GB18030", &[0xc4, 0xe3]), V::Text("你")),
        (0, 15, object(2, "big5", &[0xa7, 0x41]), V::Text("你")),
        (0, 254, object(2, "utf16", &[0x4f, 0x60]), V::Text("你")),
        (0, 254, object(2, "binary", &[0xff]), V::Bytes(&[0xff])),
        // Numbers that the table does not have: the branch decides.
        (2, 9999, integer("18446744073709551615"), V::UInt(u64::MAX)),
        (
            0,
            3,
            integer("99999999999999999999"),
            V::Decimal("99999999999999999999"),
        ),
        (1, 2, decimal("1.5E-3"), V::Decimal("0.0015")),
        (1, 2, decimal("NaN"), V::Text("NaN")),
        // Fractions: microseconds, nanoseconds of other sources, and more than six digits.
        (0, 12, date_time(6, time(Some(350_000))), at(350_000)),
        (1, 180, date_time(6, time(Some(350_000_000))), at(350_000)),
        (0, 12, date_time(6, time(Some(350_000_000))), at(350_000)),
        (0, 12, date_time(6, time(None)), at(0)),
        // A date before Christ is no date of ours.
        (
            1,
            12,
            date_time(6, [Some(-4712), Some(1), Some(1), None, None, None, None]),
            V::Text("-4712-01-01"),
        ),
    ] {
        let decoded = Message::insert(source, number, value).decoded();
        let image = decoded.after().expect("the row");
        assert_eq!(image.cell(0), Cell::Value(expected), "{number}");
    }
    let mut physical = Message::insert(0, 12, date_time(6, time(Some(350_000))));
    physical.position = "1<->2";
    let decoded = physical.decoded();
    assert_eq!(
        decoded.after().expect("the row").cell(0),
        Cell::Value(at(350))
    );
}

#[test]
fn dts_text_of_a_charset_that_nobody_knows_is_refused_with_its_place() {
    let fault = |charset: &str, text: &[u8]| {
        let message = Message::insert(0, 253, object(2, charset, text)).bytes();
        let fault = decode(&message).unwrap_err();
        // The value's branch stands there.
        assert_eq!(message[fault.offset], 4);
        assert_eq!(fault.path, "afterImages[0]");
        fault.what
    };
    assert_eq!(
        fault("EBCDIC-7", "é".as_bytes()),
        "expected text in a charset that is decoded here, which `EBCDIC-7` is not"
    );
    for charset in ["", "no name at all"] {
        let what = fault(charset, &[0xff]);
        assert_eq!(what, "expected text with the name of its charset");
    }
    let ascii = Message::insert(0, 253, object(2, "EBCDIC-7", b"plain")).decoded();
    let image = ascii.after().expect("the row");
    assert_eq!(image.cell(0), Cell::Value(Value::Text("plain")));
}

#[test]
fn dts_every_number_is_taken_with_every_branch() {
    let values = [
        vec![0],
        integer("1"),
        object(2, "utf8", b"a"),
        decimal("1.0"),
        bytes(|out| {
            put_long(out, 4);
            out.extend_from_slice(&[0; 10]);
        }),
        vec![10, 2, 2],
        date_time(6, [Some(1); 7]),
        date_time(6, [None; 7]),
        bytes(|out| {
            out.extend_from_slice(&date_time(7, [None; 7]));
            put_string(out, "+08:00");
        }),
        object(8, "WKB", &[1]),
        object(9, "WKT", b"POINT(1 2)"),
        object(10, "RAW", &[0xff]),
        object(11, "XML", &[0xff]),
        vec![24, 0],
        vec![24, 2],
    ];
    for source in 0..14 {
        for number in (-1..300).chain([1043, 1114, 1184, 3802, 4096, i64::from(i32::MAX)]) {
            for value in &values {
                let decoded = Message::insert(source, number, value.clone()).decoded();
                assert_eq!(decoded.after().expect("the row").column_count(), 1);
            }
        }
    }
}
