//! Shapes that other producers write: read where their meaning is plain, a fault with its place where
//! it is not.

mod support;

use change::{Cell, ColumnType, DdlKind, Operation, Value};
use format::canal_json::CanalJsonDecoder;
use format::debezium_json::DebeziumJsonDecoder;
use format::decode::{Decoded, Decoder, Fault, Kind};
use format::shareplex_json::{OpWords, SharePlexJsonDecoder};
use support::{int, text};

fn read(decoder: &mut dyn Decoder, message: &str) -> Result<Vec<Decoded>, Fault> {
    let mut out = Vec::new();
    decoder.decode(message.as_bytes(), &mut out)?;
    Ok(out)
}

fn canal(message: &str) -> Result<Vec<Decoded>, Fault> {
    read(&mut CanalJsonDecoder::default(), message)
}

fn shareplex(message: &str) -> Result<Vec<Decoded>, Fault> {
    read(&mut SharePlexJsonDecoder::default(), message)
}

fn debezium(message: &str) -> Result<Vec<Decoded>, Fault> {
    read(&mut DebeziumJsonDecoder::default(), message)
}

fn after(decoded: &Decoded) -> Vec<Cell<'_>> {
    decoded.after().expect("a row after").cells().collect()
}

fn before(decoded: &Decoded) -> Vec<Cell<'_>> {
    decoded.before().expect("a row before").cells().collect()
}

#[test]
fn the_smallest_canal_message_has_text_columns() {
    let decoded = &canal(r#"{"data":[{"id":1,"b":null}],"type":"INSERT"}"#).unwrap()[0];
    assert_eq!(decoded.kind, Kind::Row(Operation::Insert));
    assert_eq!(after(decoded), [text("1"), Cell::Null]);
    assert_eq!((decoded.id, decoded.time_us), (None, 0));
}

#[test]
fn other_member_orders_all_columns_in_old_and_extensions_are_read() {
    let message = r#"{"id":0,"database":"d","table":"t","pkNames":["a"],"isDdl":false,"type":"UPDATE","es":1500,"ts":2,"sql":"","sqlType":{"a":4,"b":12},"mysqlType":{"a":"INT(11)","b":"VARCHAR"},"old":[{"a":"1","b":"x"}],"data":[{"a":"1","b":null}],"_tidb":{"commitTs":1}}"#;
    let decoded = &canal(message).unwrap()[0];
    assert_eq!(before(decoded), [int(1), text("x")]);
    assert_eq!(after(decoded), [int(1), Cell::Null]);
    assert_eq!(decoded.table.primary_key, [0]);
    assert_eq!(decoded.time_us, 1_500_000);
    assert_eq!(decoded.warnings, []);
}

#[test]
fn labels_of_a_column_whose_members_are_not_told_stay_texts() {
    let message = r#"{"data":[{"c":"book","s":"sale,eco","n":"2"}],"mysqlType":{"c":"enum","s":"set","n":"enum"},"type":"INSERT"}"#;
    let decoded = &canal(message).unwrap()[0];
    let expected = [text("book"), text("sale,eco"), Cell::Value(Value::Enum(2))];
    assert_eq!(after(decoded), expected);
}

#[test]
fn oddities_of_canal_messages_are_warned_of() {
    let cases = [
        (
            r#"{"data":{"a":"1"},"type":"INSERT"}"#,
            "an object stands where an array should",
        ),
        (
            r#"{"data":[{"a":"1"}],"type":"insert"}"#,
            "the type is not in upper case",
        ),
        (
            r#"{"data":[{"a":"1"},{"a":"2"}],"old":[{}],"type":"UPDATE"}"#,
            "`old` has another number of rows than `data`",
        ),
        (
            r#"{"data":[{"a":"0","a":"1"}],"type":"INSERT"}"#,
            "the member comes twice; the last one counts",
        ),
    ];
    for (message, what) in cases {
        let decoded = &canal(message).unwrap()[0];
        assert_eq!(decoded.warnings[0].what, what, "{message}");
        if let Some(row) = decoded.after() {
            assert_eq!(row.cell(0), text("1"), "{message}");
        }
    }
}

#[test]
fn a_statement_of_rows_is_a_fault_and_one_that_changes_no_schema_is_nothing() {
    for word in ["INSERT", "UPDATE", "DELETE"] {
        let message = format!(
            r#"{{"data":null,"sql":"INSERT INTO t VALUES (1)","isDdl":false,"type":"{word}"}}"#
        );
        let fault = canal(&message).unwrap_err();
        assert_eq!(fault.what, "a statement without its rows", "{word}");
    }
    let query = |rest: &str| canal(&format!(r#"{{"data":null,{rest},"type":"QUERY"}}"#)).unwrap();
    for nothing in [
        r#""sql":"INSERT INTO t VALUES (1)","isDdl":false"#,
        r#""sql":"CREATE DATABASE d","isDdl":false"#,
        r#""sql":"INSERT INTO t VALUES (1)""#,
    ] {
        assert!(query(nothing).is_empty(), "{nothing}");
    }
    let schema = query(r#""sql":"CREATE DATABASE d""#);
    assert_eq!(schema[0].kind, Kind::Ddl(DdlKind::Database));
}

#[test]
fn canal_types_without_their_parameters_are_the_widest() {
    let decode = |is_bare, types: &str| {
        let message =
            format!(r#"{{"data":[{{"a":"1","at":null}}],"mysqlType":{types},"type":"INSERT"}}"#);
        let mut decoder = CanalJsonDecoder::default().bare_types(is_bare);
        let decoded = read(&mut decoder, &message).unwrap().remove(0);
        (decoded.table.columns.iter())
            .map(|column| column.kind.clone())
            .collect::<Vec<_>>()
    };
    let decimal = |precision, scale| ColumnType::Decimal {
        precision,
        scale,
        unsigned: false,
    };
    let at = |digits| ColumnType::DateTime { digits };
    let bare = r#"{"a":"decimal","at":"datetime"}"#;
    for told in [false, true] {
        assert_eq!(decode(told, bare), [decimal(65, 30), at(6)]);
    }
    let whole = r#"{"a":"decimal(10,2)","at":"datetime"}"#;
    assert_eq!(decode(false, whole), [decimal(10, 2), at(0)]);
    // Only who is told knows that this producer tells no fraction digits.
    let unclear = r#"{"a":"int","at":"datetime"}"#;
    assert_eq!(decode(false, unclear)[1], at(0));
    assert_eq!(decode(true, unclear)[1], at(6));
}

#[test]
fn deleted_rows_are_found_in_old_where_data_is_not_there() {
    for message in [
        r#"{"old":[{"a":"1"}],"type":"DELETE"}"#,
        r#"{"data":null,"old":[{"a":"1"}],"type":"DELETE"}"#,
        r#"{"data":[{"a":"1"}],"old":[null],"type":"DELETE"}"#,
    ] {
        let decoded = &canal(message).unwrap()[0];
        assert_eq!(before(decoded), [text("1")], "{message}");
        assert!(decoded.after.is_none());
    }
}

#[test]
fn canal_types_that_are_no_rows_are_told_apart() {
    let cases = [
        (
            "INIT_DDL",
            "CREATE TABLE t (a INT)",
            Kind::Ddl(DdlKind::CreateTable),
        ),
        (
            "DDL",
            "/* x */ RENAME TABLE a TO b",
            Kind::Ddl(DdlKind::RenameTable),
        ),
        (
            "DDL",
            "RENAME TABLE a TO b",
            Kind::Ddl(DdlKind::RenameTable),
        ),
        ("QUERY", "CREATE DATABASE d", Kind::Ddl(DdlKind::Database)),
        (
            "CINDEX",
            "CREATE INDEX i ON t (a)",
            Kind::Ddl(DdlKind::CreateIndex),
        ),
        ("XACOMMIT", "", Kind::Commit),
        ("XAROLLBACK", "", Kind::Rollback),
        ("TIDB_WATERMARK", "", Kind::Heartbeat),
    ];
    for (word, sql, kind) in cases {
        let message = format!(r#"{{"data":null,"isDdl":true,"sql":"{sql}","type":"{word}"}}"#);
        assert_eq!(canal(&message).unwrap()[0].kind, kind, "{word}");
    }
}

#[test]
fn labels_numbers_and_documents_stand_for_their_canal_texts() {
    let message = r#"{"data":[{"e":"b","s":"a,b","f":true,"j":{"x":1},"n":7}],"mysqlType":{"e":"enum('a','b')","s":"set('a','b')","f":"tinyint(1)","j":"json","n":"bigint unsigned"},"type":"INIT"}"#;
    let decoded = &canal(message).unwrap()[0];
    assert_eq!(decoded.kind, Kind::Row(Operation::Read));
    let expected = [
        Cell::Value(Value::Enum(2)),
        Cell::Value(Value::Set(3)),
        int(1),
        Cell::Value(Value::Json(r#"{"x":1}"#)),
        Cell::Value(Value::UInt(7)),
    ];
    assert_eq!(after(decoded), expected);
}

#[test]
fn faults_have_a_place_and_no_value() {
    let cases = [
        (
            canal(r#"{"data":[{"p":"1"},{"p":"secret"}],"mysqlType":{"p":"int"},"type":"INSERT"}"#),
            (25, "data[1].p"),
        ),
        (
            canal(r#"{"data":["secret"],"type":"INSERT"}"#),
            (10, "data[0]"),
        ),
        (canal(r#"{"data":[{}],"type":"SECRET"}"#), (21, "type")),
        (
            canal(r#"{"data":[{}],"pkNames":["secret"],"type":"INSERT"}"#),
            (25, "pkNames[0]"),
        ),
        (canal(r#"{"type":"INSERT"}"#), (0, "")),
        (canal("[]"), (0, "")),
        (
            shareplex(r#"{"meta":{"op":"secret"},"data":{}}"#),
            (15, "meta.op"),
        ),
        (shareplex(r#"{"meta":{"op":"ins"}}"#), (0, "")),
        (
            shareplex(r#"{"meta":{"op":"ins"},"data":"secret"}"#),
            (29, "data"),
        ),
        (
            debezium(r#"{"before":null,"after":null,"op":"c"}"#),
            (0, ""),
        ),
        (
            debezium(r#"{"payload":{"after":{},"op":"secret"}}"#),
            (29, "payload.op"),
        ),
        (
            debezium(
                r#"{"schema":{"fields":[{"field":"after","fields":[{"type":"int32","field":"a"}]}]},"payload":{"op":"c","after":{"a":"secret"}}}"#,
            ),
            (115, "payload.after.a"),
        ),
    ];
    for (result, (offset, path)) in cases {
        let fault = result.unwrap_err();
        assert!(
            !fault.to_string().to_lowercase().contains("secret"),
            "{fault}"
        );
        assert_eq!(
            (fault.offset, fault.path.as_str()),
            (offset, path),
            "{fault}"
        );
    }
}

#[test]
fn a_shareplex_update_knows_what_its_key_knows() {
    let full = r#"{"meta":{"op":"upd","table":"A.B"},"data":{"n":null},"key":{"id":"1","n":"x","m":null}}"#;
    let decoded = &shareplex(full).unwrap()[0];
    assert_eq!(before(decoded), [text("1"), text("x"), Cell::Null]);
    assert_eq!(after(decoded), [text("1"), Cell::Null, Cell::Null]);
    let partial = r#"{"meta":{"op":"UPDATE","table":"A.B"},"data":{"n":"y"},"key":{"id":1}}"#;
    let decoded = &shareplex(partial).unwrap()[0];
    let one = Cell::Value(Value::Decimal("1"));
    assert_eq!(before(decoded), [one, Cell::Unknown]);
    assert_eq!(after(decoded), [one, text("y")]);
    assert_eq!(
        (decoded.table.database.as_str(), decoded.table.name.as_str()),
        ("A", "B")
    );
}

#[test]
fn shareplex_messages_with_members_left_out_are_read() {
    let decoded = &shareplex(r#"{"data":{"n":"y"},"key":{"id":"1"}}"#).unwrap()[0];
    assert_eq!(decoded.kind, Kind::Row(Operation::Update));
    assert_eq!(decoded.warnings[0].what, "there is no member `meta`");
    let decoded = &shareplex(r#"{"meta":{"op":"Del"},"key":{"id":"1"}}"#).unwrap()[0];
    assert_eq!(before(decoded), [text("1")]);
    assert_eq!(decoded.warnings[0].path, "meta");
    let decoded = &shareplex(r#"{"meta":{"op":"UPDATE BEFORE"},"data":{"id":1.5e3}}"#).unwrap()[0];
    assert_eq!(before(decoded), [Cell::Value(Value::Double(1500.0))]);
    assert!(decoded.after.is_none());
    let decoded = &shareplex(r#"{"meta":{"op":"trunc","table":"B","scn":7}}"#).unwrap()[0];
    assert_eq!(decoded.sql, "TRUNCATE TABLE `B`");
    assert_eq!(decoded.id, Some(7));
    let words = OpWords {
        insert: "I".into(),
        ..OpWords::default()
    };
    let mut decoder = SharePlexJsonDecoder::new(words);
    for op in ["I", "ins", "INSERT"] {
        let message = format!(r#"{{"meta":{{"op":"{op}"}},"data":{{}}}}"#);
        let decoded = &read(&mut decoder, &message).unwrap()[0];
        assert_eq!(decoded.kind, Kind::Row(Operation::Insert), "{op}");
    }
}

#[test]
fn debezium_messages_that_are_no_rows_are_told_apart() {
    for nothing in [
        "",
        "null",
        r#"{"schema":{},"payload":null}"#,
        r#"{"op":"m","message":{}}"#,
    ] {
        assert!(debezium(nothing).unwrap().is_empty(), "{nothing}");
    }
    let cases = [
        (r#"{"status":"BEGIN","id":"g:1"}"#, Kind::Begin),
        (r#"{"status":"END","id":"g:1"}"#, Kind::Commit),
        (r#"{"ts_ms":1}"#, Kind::Heartbeat),
        (
            r#"{"source":{},"ddl":"DROP TABLE t"}"#,
            Kind::Ddl(DdlKind::DropTable),
        ),
        (
            r#"{"source":{"db":"d","table":"t"},"op":"t"}"#,
            Kind::Ddl(DdlKind::TruncateTable),
        ),
    ];
    for (message, kind) in cases {
        assert_eq!(debezium(message).unwrap()[0].kind, kind, "{message}");
    }
}

#[test]
fn debezium_rows_without_source_and_with_older_types_are_read() {
    let decoded =
        &debezium(r#"{"before":{"a":1},"after":{"a":2.5,"b":true,"c":[1]},"op":"u"}"#).unwrap()[0];
    assert_eq!(before(decoded), [int(1), Cell::Unknown, Cell::Unknown]);
    let expected = [
        Cell::Value(Value::Double(2.5)),
        Cell::Value(Value::Bit(1)),
        Cell::Value(Value::Json("[1]")),
    ];
    assert_eq!(after(decoded), expected);
    let message = r#"{"schema":{"fields":[{"field":"after","fields":[{"type":"int32","name":"org.apache.kafka.connect.data.Date","field":"d"},{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp","field":"t"},{"type":"string","name":"io.debezium.data.Enum","parameters":{"allowed":"7,8"},"field":"e"}]}]},"payload":{"op":"r","after":{"d":0,"t":1500,"e":"8"}}}"#;
    let decoded = &debezium(message).unwrap()[0];
    let shown = format!("{:?}", decoded.table.columns[2].kind);
    assert_eq!(
        decoded.table.columns[2].kind,
        ColumnType::Enum {
            members: vec!["7".into(), "8".into()]
        },
        "{shown}"
    );
    assert_eq!(
        after(decoded)[2],
        Cell::Value(Value::Enum(2)),
        "a label that looks like a number"
    );
    assert_eq!(decoded.table.columns[1].declared, "datetime(3)");
}

#[test]
fn wide_messages_take_time_and_room_in_proportion() {
    let wide: Vec<String> = (0..200_000)
        .map(|index| format!("\"c{index}\":null"))
        .collect();
    let wide = wide.join(",");
    let decoded = debezium(&format!(
        r#"{{"op":"u","before":{{{wide}}},"after":{{{wide}}}}}"#
    ));
    assert_eq!(decoded.unwrap()[0].table.columns.len(), 200_000);
    let meta = r#""meta":{"op":"upd","table":"t"}"#;
    let decoded = shareplex(&format!(r#"{{{meta},"data":{{{wide}}},"key":{{{wide}}}}}"#));
    assert_eq!(decoded.unwrap()[0].table.columns.len(), 200_000);
    let rows = vec!["{}"; 1000].join(",");
    let types = wide.replace("null", "\"int\"");
    let fault = canal(&format!(
        r#"{{"type":"INSERT","data":[{rows}],"mysqlType":{{{types}}}}}"#
    ));
    assert_eq!(
        fault.unwrap_err().what,
        "the message has too many rows and columns"
    );
    // Rows without a column take room too, and so does what every one of them has.
    let rows = vec!["{}"; 300_000].join(",");
    let long = "g".repeat(1 << 20);
    let few = vec![r#"{"a":"1"}"#; 100].join(",");
    for message in [
        format!(r#"{{"type":"INSERT","data":[{rows}]}}"#),
        format!(r#"{{"type":"INSERT","gtid":"{long}","data":[{few}]}}"#),
    ] {
        assert_eq!(
            canal(&message).unwrap_err().what,
            "the message has too many rows and columns"
        );
    }
    // The rows of one message share their table, and a statement is no part of them.
    let message = format!(r#"{{"type":"INSERT","sql":"{long}","data":[{few}]}}"#);
    let decoded = canal(&message).unwrap();
    assert!(std::sync::Arc::ptr_eq(
        &decoded[0].table,
        &decoded[99].table
    ));
    assert!(decoded.iter().all(|row| row.sql.is_empty()));
}

#[test]
fn a_null_on_one_side_takes_its_type_from_the_other() {
    let decoded = &debezium(r#"{"op":"u","before":{"a":7},"after":{"a":null}}"#).unwrap()[0];
    assert_eq!(decoded.table.columns[0].declared, "bigint");
    let message = r#"{"meta":{"op":"upd"},"key":{"a":null},"data":{"a":7}}"#;
    assert_eq!(
        shareplex(message).unwrap()[0].table.columns[0].declared,
        "decimal"
    );
}
