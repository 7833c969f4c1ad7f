//! Golden vectors of the open-source flavour: each is a change and the exact bytes of its message.

mod support;

use change::event::DdlChange;
use change::{Cell, ColumnType, DdlKind, Event, Operation, TableSchema, Value};
use format::canal_json::{CanalJson, Clock, Options};
use support::{Change, Stored, column, ddl, header, int, item, messages_of, row_of, table, text};

fn encode(
    table: &TableSchema,
    operation: Operation,
    before: Option<&[Cell<'_>]>,
    after: Option<&[Cell<'_>]>,
) -> String {
    let change = Change {
        operation,
        before: before.map(<[_]>::to_vec),
        after: after.map(<[_]>::to_vec),
    };
    let header = header();
    let stored = Stored::new(table, &change, (7, 0));
    one(&stored.event(table, &header))
}

fn one(event: &Event<'_>) -> String {
    let options = Options {
        clock: Clock::Commit,
        ..Options::default()
    };
    let all = messages_of(&mut CanalJson::new(options), event);
    assert_eq!(all.len(), 1);
    all[0].clone()
}

const HEAD: &str = r#""database":"shop","es":1700000000000,"gtid":"","id":7,"isDdl":false,"mysqlType":{"id":"int","name":"varchar(20)","qty":"int unsigned","price":"decimal(10,2)","raw":"varbinary(4)","at":"datetime(3)"}"#;
const TYPES: &str =
    r#""sql":"","sqlType":{"id":4,"name":12,"qty":4,"price":3,"raw":2004,"at":93},"table":"item""#;

#[test]
fn insert_writes_all_fourteen_members_in_order() {
    let raw = Cell::Value(Value::Bytes(&[0, 0xff, 0x0a, 0x22]));
    let row = row_of(1, text("é中😀"), 3, "19.90", raw);
    assert_eq!(
        encode(&item(), Operation::Insert, None, Some(&row)),
        r#"{"data":[{"id":"1","name":"é中😀","qty":"3","price":"19.90","raw":"\u0000ÿ\n\"","at":"2023-11-14 22:13:20.500"}],"#
            .to_owned()
            + HEAD
            + r#","old":null,"pkNames":["id"],"#
            + TYPES
            + r#","ts":1700000000123,"type":"INSERT"}"#
    );
}

#[test]
fn update_puts_only_changed_columns_into_old_and_null_stays_null() {
    let before = row_of(3, Cell::Null, 0, "-0.50", Cell::Value(Value::Bytes(&[])));
    let after = row_of(3, text("cup"), 0, "-0.50", Cell::Value(Value::Bytes(&[])));
    assert_eq!(
        encode(&item(), Operation::Update, Some(&before), Some(&after)),
        r#"{"data":[{"id":"3","name":"cup","qty":"0","price":"-0.50","raw":"","at":"2023-11-14 22:13:20.500"}],"#
            .to_owned()
            + HEAD
            + r#","old":[{"name":null}],"pkNames":["id"],"#
            + TYPES
            + r#","ts":1700000000123,"type":"UPDATE"}"#
    );
}

#[test]
fn a_key_change_is_one_update_with_the_old_key_in_old() {
    let before = row_of(1, text("pen"), 3, "19.90", Cell::Null);
    let after = row_of(10, text("pen"), 3, "19.90", Cell::Null);
    let message = encode(&item(), Operation::Update, Some(&before), Some(&after));
    assert!(
        message.contains(r#""data":[{"id":"10","#) && message.contains(r#""old":[{"id":"1"}]"#)
    );
}

#[test]
fn an_update_that_changes_nothing_has_an_empty_old() {
    let row = row_of(1, text("pen"), 3, "19.90", Cell::Null);
    let message = encode(&item(), Operation::Update, Some(&row), Some(&row));
    assert!(message.contains(r#""old":[{}]"#));
}

#[test]
fn delete_shows_the_row_in_data_and_wide_unsigned_values_promote_their_type() {
    let row = row_of(2, text("a"), 4_294_967_295, "500.00", Cell::Null);
    let message = encode(&item(), Operation::Delete, Some(&row), None);
    assert!(message.starts_with(
        r#"{"data":[{"id":"2","name":"a","qty":"4294967295","price":"500.00","raw":null,"#
    ));
    assert!(message.contains(r#""old":null"#) && message.contains(r#""qty":-5"#));
    assert!(message.ends_with(r#""type":"DELETE"}"#));
}

#[test]
fn a_table_without_a_key_has_null_pk_names() {
    use ColumnType as T;
    let log = table(
        "log",
        vec![
            column("msg", "text", T::Text { length_bytes: 2 }),
            column("at", "timestamp", T::Timestamp { digits: 0 }),
        ],
        vec![],
    );
    let at = Cell::Value(Value::Timestamp {
        micros: 1_700_000_000_000_000,
        digits: 0,
    });
    assert_eq!(
        encode(&log, Operation::Insert, None, Some(&[text("tab\tq\""), at])),
        r#"{"data":[{"msg":"tab\tq\"","at":"2023-11-14 22:13:20"}],"database":"shop","es":1700000000000,"gtid":"","id":7,"isDdl":false,"mysqlType":{"msg":"text","at":"timestamp"},"old":null,"pkNames":null,"sql":"","sqlType":{"msg":2005,"at":93},"table":"log","ts":1700000000123,"type":"INSERT"}"#
    );
}

#[test]
fn unknown_cells_are_left_out_never_null() {
    let row = [
        int(1),
        Cell::Unknown,
        Cell::Unknown,
        Cell::Unknown,
        Cell::Unknown,
        Cell::Unknown,
    ];
    let message = encode(&item(), Operation::Delete, Some(&row), None);
    assert!(message.starts_with(r#"{"data":[{"id":"1"}],"#));
    assert!(message.contains(r#""sqlType":{"id":4}"#));
}

#[test]
fn ddl_messages_have_their_kind_and_nulls() {
    let header = header();
    let kinds = [
        (DdlKind::CreateTable, "CREATE"),
        (DdlKind::AlterTable, "ALTER"),
        (DdlKind::DropTable, "ERASE"),
        (DdlKind::TruncateTable, "TRUNCATE"),
        (DdlKind::RenameTable, "RENAME"),
        (DdlKind::CreateIndex, "CINDEX"),
        (DdlKind::DropIndex, "DINDEX"),
        (DdlKind::Database, "QUERY"),
        (DdlKind::Other, "QUERY"),
    ];
    for (kind, word) in kinds {
        let message = one(&Event::Ddl(DdlChange {
            sequence: 7,
            ddl: ddl(kind, "log", "TRUNCATE TABLE log"),
            header: &header,
        }));
        assert_eq!(
            message,
            format!(
                r#"{{"data":null,"database":"shop","es":1700000000000,"gtid":"","id":7,"isDdl":true,"mysqlType":null,"old":null,"pkNames":null,"sql":"TRUNCATE TABLE log","sqlType":null,"table":"log","ts":1700000000123,"type":"{word}"}}"#
            )
        );
    }
}
