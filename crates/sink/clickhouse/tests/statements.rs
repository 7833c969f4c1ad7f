//! Statements on the engine: what is followed has the source's values in older rows too, and what only the
//! source knows sets the table aside until it is copied again.

mod support;

use change::contract::Aside;
use change::event::DdlChange;
use change::{
    Cell, Column, ColumnType, CopyStage, Ddl, DdlKind, Event, Operation, Sink, SinkError,
    TableSchema, TransactionHeader,
};
use serde_json::json;
use std::sync::Arc;
use support::*;
use testkit::ClickHouse;
use testkit::clickhouse::Admin;

/// STRICT_TRANS_TABLES.
const STRICT: u64 = 1 << 22;

fn quick(more: serde_json::Value) -> serde_json::Value {
    let mut all = json!({"fold": {"rows": 1, "age_ms": 10, "duty_percent": 90, "grace_ms": 10}});
    let object = all.as_object_mut().expect("an object");
    object.extend(more.as_object().expect("an object").clone());
    all
}

fn pairs(name: &str) -> Arc<TableSchema> {
    table("shop", name, vec![column("id", INT), column("v", INT)])
}

/// The next version of a table's schema.
fn next(schema: &TableSchema, change: impl FnOnce(&mut TableSchema)) -> Arc<TableSchema> {
    let mut schema = schema.clone();
    schema.version.0 += 1;
    change(&mut schema);
    Arc::new(schema)
}

fn with_default(name: &str, kind: ColumnType, default: &str) -> Column {
    Column {
        nullable: false,
        default: Some(default.into()),
        ..column(name, kind)
    }
}

fn reason(refused: Result<(), SinkError>) -> String {
    let error = refused.expect_err("it is refused");
    let rejection = error.rejection.expect("the table is set aside");
    assert_eq!(rejection.key_token, None);
    rejection.reason
}

fn alter(driver: &mut Driver, schema: &Arc<TableSchema>, sql: &str) -> Result<(), SinkError> {
    driver.statement(DdlKind::AlterTable, schema, sql)
}

/// A table with two rows.
fn filled(target: &ClickHouse, settings: serde_json::Value) -> (Driver, Arc<TableSchema>) {
    let mut driver = Driver::new(config(target, settings));
    let schema = pairs("t");
    driver.sink.schema(&schema);
    driver.commit_all(|driver| {
        driver.insert(&schema, &[int(1), int(10)]);
        driver.insert(&schema, &[int(2), Cell::Null]);
    });
    (driver, schema)
}

#[test]
fn a_new_column_has_the_sources_default_in_older_rows_or_the_table_waits() {
    let target = ClickHouse::start();
    let (mut driver, before) = filled(&target, quick(json!({})));
    let after = next(&before, |schema| {
        schema.columns.extend([
            with_default("a", INT, "TRUE"),
            with_default("b", TEXT, "'f(x)'"),
            with_default(
                "c",
                ColumnType::DateTime { digits: 3 },
                "'2024-02-29 01:02:03'",
            ),
            column("d", TEXT),
        ]);
    });
    alter(
        &mut driver,
        &after,
        "ALTER TABLE t ADD a INT, ADD b TEXT, ADD c DATETIME(3), ADD d TEXT",
    )
    .expect("constants are followed");
    let rows = "SELECT id, a, b, c, d FROM shop.t ORDER BY id";
    let wanted =
        "1\t1\tf(x)\t2024-02-29 01:02:03.000\t\\N\n2\t1\tf(x)\t2024-02-29 01:02:03.000\t\\N";
    assert_eq!(target.query(rows), wanted);
    for (default, kind) in [
        ("(uuid())", TEXT),
        ("CURRENT_TIMESTAMP", ColumnType::DateTime { digits: 0 }),
        ("'2024-02-29 01:02:03'", ColumnType::Timestamp { digits: 0 }),
        ("AUTO_INCREMENT", INT),
    ] {
        let target = ClickHouse::start();
        let (mut driver, before) = filled(&target, quick(json!({})));
        let after = next(&before, |schema| {
            schema.columns.push(with_default("n", kind, default));
        });
        let said = reason(alter(&mut driver, &after, "ALTER TABLE t ADD n …"));
        assert!(
            said.contains("ALTER TABLE t ADD n")
                && said.contains("heal CONFIG shop.t --resnapshot"),
            "{said}"
        );
        driver.reopen();
        assert_eq!(
            target.query("SELECT id, v FROM shop.t ORDER BY id"),
            "1\t10\n2\t\\N"
        );
        // Delivering again what was held back does not help: older rows would lack the values.
        let row = image(&[int(3), int(3), Cell::Null]);
        driver.begin();
        reason(driver.row(&after, Operation::Insert, None, Some(read(&row))));
    }
}

#[test]
fn a_table_without_rows_follows_whatever_only_the_source_knows() {
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(&target, quick(json!({}))));
    let before = pairs("t");
    driver
        .statement(DdlKind::CreateTable, &before, "CREATE TABLE t …")
        .expect("it is made");
    let after = next(&before, |schema| {
        schema.columns.push(with_default("n", TEXT, "(uuid())"));
    });
    alter(
        &mut driver,
        &after,
        "ALTER TABLE t ADD n VARCHAR(36) DEFAULT (uuid())",
    )
    .expect("no rows");
    driver.commit_all(|driver| driver.insert(&after, &[int(1), int(1), text("x")]));
    assert_eq!(target.query("SELECT id, v, n FROM shop.t"), "1\t1\tx");
}

#[test]
fn a_column_is_renamed_and_changed_at_once_and_two_change_names() {
    for mode in ["mvcc", "sign_version"] {
        let target = ClickHouse::start();
        let narrow = ColumnType::Int {
            bytes: 4,
            unsigned: false,
        };
        let mut driver = Driver::new(config(&target, quick(json!({"mode": mode}))));
        let before = table(
            "shop",
            "t",
            vec![
                column("id", INT),
                column("a", narrow.clone()),
                column("b", TEXT),
            ],
        );
        driver.commit_all(|driver| driver.insert(&before, &[int(1), int(7), text("x")]));
        let shown = if mode == "mvcc" { "t" } else { "t__v" };
        let changed = next(&before, |schema| {
            schema.columns[1] = column("c", INT);
        });
        alter(&mut driver, &changed, "ALTER TABLE t CHANGE a c BIGINT").expect("it is followed");
        let kinds = format!("SELECT toTypeName(c), c, b FROM shop.{shown}");
        assert_eq!(target.query(&kinds), "Nullable(Int64)\t7\tx", "{mode}");
        let swapped = next(&changed, |schema| {
            schema.columns[1].name = "b".into();
            schema.columns[2].name = "c".into();
        });
        alter(
            &mut driver,
            &swapped,
            "ALTER TABLE t RENAME COLUMN c TO b, RENAME COLUMN b TO c",
        )
        .expect("it is followed");
        driver.commit_all(|driver| driver.insert(&swapped, &[int(2), int(8), text("y")]));
        let rows = format!("SELECT id, b, c FROM shop.{shown} ORDER BY id");
        assert_eq!(target.query(&rows), "1\t7\tx\n2\t8\ty", "{mode}");
    }
}

#[test]
fn a_rename_behind_another_action_keeps_the_rows() {
    let target = ClickHouse::start();
    let (mut driver, before) = filled(&target, quick(json!({})));
    let after = next(&before, |schema| {
        schema.table.0 = 2;
        schema.name = "u".into();
        schema.columns.push(column("x", INT));
    });
    let sql = "ALTER TABLE t ADD COLUMN x BIGINT, RENAME TO u";
    let ddl = Ddl {
        kind: DdlKind::AlterTable,
        database: "shop",
        table: "u",
        renamed_from: "shop.t",
        sql,
        charset: "",
        sql_mode: 0,
    };
    let header = TransactionHeader::default();
    let event = Event::Ddl(DdlChange {
        sequence: driver.sequence,
        ddl,
        header: &header,
    });
    assert_eq!(driver.sink.aside(&event), Aside::Moves);
    driver
        .statement_from(DdlKind::AlterTable, &after, (sql, "shop.t"))
        .expect("it is followed");
    driver.commit_all(|driver| driver.insert(&after, &[int(3), int(3), int(3)]));
    assert_eq!(
        target.query("SELECT id, v, x FROM shop.u ORDER BY id"),
        "1\t10\t\\N\n2\t\\N\t\\N\n3\t3\t3"
    );
    assert_eq!(
        target.query("SELECT count() FROM system.tables WHERE database = 'shop' AND name = 't'"),
        "0"
    );
}

#[test]
fn rows_that_a_statement_takes_away_unseen_set_the_table_aside() {
    let target = ClickHouse::start();
    let (mut driver, schema) = filled(&target, quick(json!({})));
    let other = next(&pairs("u"), |schema| schema.table.0 = 2);
    driver.sink.schema(&other);
    driver.commit_all(|driver| driver.insert(&other, &[int(5), int(5)]));
    let said = reason(alter(
        &mut driver,
        &schema,
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
    ));
    assert!(said.contains("heal CONFIG shop.t --resnapshot"), "{said}");
    driver.reopen();
    // Both wait, also after a restart and when what was held back comes again.
    for table in [&schema, &other] {
        let row = image(&[int(3), int(3)]);
        driver.begin();
        let said = reason(driver.row(table, Operation::Insert, None, Some(read(&row))));
        assert!(said.contains("EXCHANGE PARTITION"), "{said}");
        driver.reopen();
    }
    // A new copy makes it right: rows that it does not bring are gone.
    driver.begin();
    driver.copy(&schema, CopyStage::Begun);
    driver.read_row(&schema, &[int(1), int(11)]);
    driver.copy(&schema, CopyStage::Done);
    driver.commit();
    driver.flush();
    driver.commit_all(|driver| driver.insert(&schema, &[int(4), int(4)]));
    assert_eq!(
        target.query("SELECT id, v FROM shop.t ORDER BY id"),
        "1\t11\n4\t4"
    );
    // Who keeps rows at TRUNCATE keeps those of a partition too.
    let target = ClickHouse::start();
    let (mut driver, schema) = filled(&target, quick(json!({"ddl": {"truncate": "keep"}})));
    alter(&mut driver, &schema, "ALTER TABLE t DROP PARTITION p").expect("they are kept");
    assert_eq!(target.query("SELECT count() FROM shop.t"), "2");
}

#[test]
fn a_table_that_is_replaced_by_one_of_the_same_columns_is_empty() {
    let target = ClickHouse::start();
    let (mut driver, schema) = filled(&target, quick(json!({})));
    driver
        .statement(
            DdlKind::CreateTable,
            &schema,
            "CREATE OR REPLACE TABLE t (id BIGINT …)",
        )
        .expect("it is made anew");
    assert_eq!(target.query("SELECT count() FROM shop.t"), "0");
    driver.commit_all(|driver| driver.insert(&schema, &[int(3), int(3)]));
    assert_eq!(target.query("SELECT id FROM shop.t"), "3");
}

#[test]
fn values_that_the_source_makes_anew_set_the_table_aside() {
    let varchar = || ColumnType::Varchar { length: 9 };
    let cases: [(&str, u64, Column, Column); 5] = [
        (
            "ALTER TABLE t MODIFY v BIGINT NOT NULL",
            0,
            column("v", INT),
            Column {
                nullable: false,
                ..column("v", INT)
            },
        ),
        (
            "ALTER TABLE t MODIFY v CHAR(9)",
            STRICT,
            column("v", varchar()),
            column("v", ColumnType::Char { length: 9 }),
        ),
        (
            "ALTER TABLE t MODIFY v BIGINT AS (id + 2) STORED",
            STRICT,
            Column {
                generated: true,
                ..column("v", INT)
            },
            Column {
                generated: true,
                ..column("v", INT)
            },
        ),
        (
            "ALTER TABLE t DROP v, ADD v BIGINT",
            STRICT,
            column("v", INT),
            column("v", INT),
        ),
        (
            "ALTER IGNORE TABLE t MODIFY v BIGINT NOT NULL",
            STRICT,
            column("v", INT),
            Column {
                nullable: false,
                ..column("v", INT)
            },
        ),
    ];
    let target = ClickHouse::start();
    for (number, (sql, sql_mode, old, new)) in cases.into_iter().enumerate() {
        let database = format!("shop{number}");
        let settings = quick(json!({"state_database": database}));
        let mut driver = Driver::new(config(&target, settings));
        driver.sql_mode = sql_mode;
        let before = table(&database, "t", vec![column("id", INT), old]);
        let value = match before.columns[1].kind {
            ColumnType::Varchar { .. } => text("a  "),
            _ => int(1),
        };
        driver.commit_all(|driver| driver.insert(&before, &[int(1), value]));
        let after = next(&before, |schema| schema.columns[1] = new);
        let said = reason(alter(&mut driver, &after, sql));
        assert!(said.contains("--resnapshot"), "{sql}: {said}");
    }
}

#[test]
fn what_the_server_refuses_for_its_values_sets_one_table_aside_and_the_others_go_on() {
    let target = ClickHouse::start();
    let (mut driver, schema) = filled(&target, quick(json!({})));
    let other = next(&pairs("u"), |schema| schema.table.0 = 2);
    driver.wait_folded();
    target.query("ALTER TABLE shop.t__delta DROP COLUMN v");
    driver.begin();
    driver.insert(&schema, &[int(3), int(1000)]);
    driver.insert(&other, &[int(1), int(1)]);
    driver.commit();
    let cursor = driver.cursor();
    let said = reason(driver.sink.flush(&cursor));
    assert!(said.contains("Code: 16"), "{said}");
    driver.reopen();
    driver.commit_all(|driver| driver.insert(&other, &[int(2), int(2)]));
    assert_eq!(target.query("SELECT count() FROM shop.u WHERE id = 2"), "1");
}

#[test]
fn a_table_that_cannot_be_taken_up_is_left_out_and_the_others_go_on() {
    let target = ClickHouse::start();
    let (mut driver, schema) = filled(&target, quick(json!({})));
    let other = next(&pairs("u"), |schema| schema.table.0 = 2);
    driver.commit_all(|driver| driver.insert(&other, &[int(1), int(1)]));
    drop(driver);
    let refused = |driver: &mut Driver| {
        let row = image(&[int(3), int(3)]);
        driver.begin();
        let said = reason(driver.row(&schema, Operation::Insert, None, Some(read(&row))));
        driver.reopen();
        said
    };
    let others_go_on = |driver: &mut Driver| {
        driver.commit_all(|driver| driver.insert(&other, &[int(2), int(2)]));
    };
    // Settings that cannot be.
    let settings = json!({"tables": {"shop.t": {"key": ["nothing"]}}});
    let mut driver = Driver::new(config(&target, quick(settings)));
    let said = refused(&mut driver);
    assert!(said.contains("key names `nothing`"), "{said}");
    others_go_on(&mut driver);
    drop(driver);
    // The name is another object's now.
    let mut driver = Driver::new(config(&target, quick(json!({"plain_name": "base"}))));
    let said = refused(&mut driver);
    assert!(said.contains("engine View"), "{said}");
    drop(driver);
    // As it was, it goes on.
    let mut driver = Driver::new(config(&target, quick(json!({}))));
    driver.commit_all(|driver| driver.insert(&schema, &[int(3), int(3)]));
    assert_eq!(target.query("SELECT count() FROM shop.t"), "3");
    driver.wait_folded();
    drop(driver);
    // The base is gone: no row is written without its cells.
    target.query("DROP TABLE shop.t__base SYNC");
    let mut driver = Driver::new(config(&target, quick(json!({}))));
    let said = refused(&mut driver);
    others_go_on(&mut driver);
    assert!(
        said.contains("`shop`.`t__base` is not there") && said.contains("--resnapshot"),
        "{said}"
    );
    driver.begin();
    driver.copy(&schema, CopyStage::Begun);
    driver.read_row(&schema, &[int(1), int(11)]);
    driver.copy(&schema, CopyStage::Done);
    driver.commit();
    driver.flush();
    assert_eq!(target.query("SELECT id, v FROM shop.t"), "1\t11");
}

#[test]
fn what_is_dropped_may_be_larger_than_the_server_lets_tables_be() {
    let least = |name: &str| (name.to_owned(), "1".to_owned());
    let target = ClickHouse::start_as(&Admin {
        profile: vec![
            least("max_table_size_to_drop"),
            least("max_partition_size_to_drop"),
        ],
        ..Admin::default()
    });
    let mut http = target.client();
    http.query("CREATE DATABASE other");
    http.query("CREATE TABLE other.t (a Int64) ENGINE = MergeTree ORDER BY a AS SELECT 1 AS a");
    http.try_query("DROP TABLE other.t SYNC")
        .expect_err("the server protects what is large");
    let (mut driver, before) = filled(&target, quick(json!({})));
    driver.wait_folded();
    let after = next(&before, |schema| schema.columns.push(column("x", INT)));
    alter(&mut driver, &after, "ALTER TABLE t ADD COLUMN x BIGINT").expect("it is followed");
    driver.commit_all(|driver| driver.insert(&after, &[int(3), int(3), int(3)]));
    driver.wait_folded();
    driver
        .statement(DdlKind::DropTable, &after, "DROP TABLE t")
        .expect("it is dropped");
    http.wait(
        "SELECT count() FROM system.tables WHERE database = 'shop'",
        "0",
        LIMIT,
    );
}
