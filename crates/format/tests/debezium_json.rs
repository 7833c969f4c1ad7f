//! Golden vectors of Debezium JSON, byte by byte.

mod support;

use change::{Event, TransactionHeader};
use format::canal_json::Clock;
use format::debezium_json::{BigintUnsigned, DebeziumJson, DecimalMode, Options, SchemaMode};
use format::{Encoder, Key, Messages};
use support::steps::{check, lines};
use support::types::{Random, all_types, with_row};
use support::{Change, Stored, header, item, messages_of};

fn options() -> Options {
    Options {
        clock: Clock::Commit,
        server_name: "shop-db".into(),
        ddl: true,
        ..Options::default()
    }
}

fn placed() -> TransactionHeader {
    TransactionHeader {
        server_id: 223_344,
        thread_id: 7,
        id: Some(support::gtid("3e11fa47-71ca-11e1-9e33-c80aa9429562:23")),
        file: "mysql-bin.000003".into(),
        ..header()
    }
}

/// Compares with a file that does not depend on our version.
fn check_lines(file: &str, lines: &[String]) {
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let lines: Vec<String> = (lines.iter())
        .map(|line| line.replace(&version, "\"version\":\"ours\""))
        .collect();
    check(file, &lines);
}

#[test]
fn payloads_alone() {
    let mut encoder = DebeziumJson::new(options());
    check_lines("debezium.txt", &lines(&mut encoder, &placed(), |n| n));
}

#[test]
fn payloads_with_their_schema() {
    let mut encoder = DebeziumJson::new(Options {
        schema: SchemaMode::Inline,
        ..options()
    });
    check_lines(
        "debezium_schema.txt",
        &lines(&mut encoder, &placed(), |n| n),
    );
}

#[test]
fn a_row_of_every_type_with_its_schema() {
    let table = all_types();
    let header = placed();
    let mut random = Random::new(41);
    let mut all = Vec::new();
    for (decimal, bigint_unsigned) in [
        (DecimalMode::Precise, BigintUnsigned::Long),
        (DecimalMode::String, BigintUnsigned::Precise),
        (DecimalMode::Double, BigintUnsigned::Precise),
    ] {
        let mut encoder = DebeziumJson::new(Options {
            schema: SchemaMode::Inline,
            decimal,
            bigint_unsigned,
            ..options()
        });
        let stored = with_row(&mut random, &table, false, |row| {
            Stored::new(&table, &Change::insert(row), (1, 0))
        });
        all.extend(messages_of(&mut encoder, &stored.event(&table, &header)));
    }
    check_lines("debezium_types.txt", &all);
}

#[test]
fn keys_are_objects_of_the_key_columns() {
    let (item, header) = (item(), placed());
    let row = support::row_of(1, support::text("a"), 1, "1.00", change::Cell::Null);
    let stored = Stored::new(&item, &Change::insert(row), (1, 0));
    let Event::Row(row) = stored.event(&item, &header) else {
        unreachable!("a row was stored");
    };
    let key = |schema| {
        let mut out = Vec::new();
        let mut encoder = DebeziumJson::new(Options {
            schema,
            ..options()
        });
        let made = encoder.key(&row, &row.after.unwrap(), &mut out);
        assert_eq!(made, Ok(Key::Own));
        String::from_utf8(out).unwrap()
    };
    assert_eq!(key(SchemaMode::None), r#"{"id":1}"#);
    assert_eq!(
        key(SchemaMode::Inline),
        r#"{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false,"name":"shop_db.shop.item.Key"},"payload":{"id":1}}"#
    );
}

#[test]
fn a_table_without_a_key_has_no_record_key() {
    let (mut table, header) = (item(), placed());
    table.primary_key.clear();
    let row = support::row_of(1, support::text("a"), 1, "1.00", change::Cell::Null);
    let stored = Stored::new(&table, &Change::insert(row), (1, 0));
    let Event::Row(row) = stored.event(&table, &header) else {
        unreachable!("a row was stored");
    };
    let mut out = Vec::new();
    let made = DebeziumJson::new(options()).key(&row, &row.after.unwrap(), &mut out);
    assert_eq!((made, out.len()), (Ok(Key::None), 0));
}

/// The topic source delivers what its messages say: `5` of a DECIMAL(10,2).
#[test]
fn a_decimal_s_point_is_where_its_column_has_it() {
    let (item, header) = (item(), placed());
    let encode = |price| {
        let row = support::row_of(1, support::text("a"), 1, price, change::Cell::Null);
        let stored = Stored::new(&item, &Change::insert(row), (1, 0));
        let mut messages = Messages::default();
        let mut encoder = DebeziumJson::new(options());
        let done = encoder.encode(&stored.event(&item, &header), &mut messages);
        done.map(|()| {
            let message = messages.iter().next().expect("a message");
            String::from_utf8(message.to_vec()).expect("JSON is UTF-8")
        })
    };
    for same in ["5", "5.0", "5.00", "5.000"] {
        let message = encode(same).expect("it can be carried");
        assert!(message.contains(r#""price":"AfQ=""#), "{same}: {message}");
    }
    let refused = encode("5.005").expect_err("its schema has two fraction digits");
    assert_eq!(
        refused.to_string(),
        "encode shop.item as debezium-json: column price: a decimal with more digits than its column has"
    );
}
