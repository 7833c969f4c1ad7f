//! Each setting on the engine: what it changes, and what it refuses.

mod support;

use change::temporal::{DatePacked, DateTimePacked};
use change::{
    Cell, ColumnType, CqlColumn, CqlRole, CqlType, DdlKind, Operation, Sink, SinkError,
    TableSchema, Value,
};
use serde_json::json;
use sink_clickhouse::{ClickHouseConfig, ClickHouseSink, Identity};
use std::sync::Arc;
use support::*;
use testkit::ClickHouse;

fn pairs() -> Arc<TableSchema> {
    table("shop", "t", vec![column("id", INT), column("name", TEXT)])
}

fn commit(driver: &mut Driver, work: impl FnOnce(&mut Driver)) {
    driver.begin();
    work(driver);
    driver.commit();
    driver.flush();
}

/// Why the first row of a table is refused.
fn refusal(driver: &mut Driver, table: &TableSchema, after: &[Cell<'_>]) -> String {
    let after = image(after);
    driver.begin();
    let error = driver
        .row(table, Operation::Insert, None, Some(read(&after)))
        .expect_err("it is refused");
    error.rejection.expect("it is set aside").reason
}

#[test]
fn every_compression_brings_the_same_rows() {
    let target = ClickHouse::start();
    let long = "x".repeat(100_000);
    for (number, compression) in ["lz4", "zstd", "none"].into_iter().enumerate() {
        let database = format!("shop{number}");
        let settings =
            json!({"compression": compression, "database": database, "state_database": database});
        let mut driver = Driver::new(config(&target, settings));
        commit(&mut driver, |driver| {
            driver.insert(&pairs(), &[int(1), text(&long)]);
            driver.insert(&pairs(), &[int(2), text("")]);
        });
        let sql = format!("SELECT sum(length(name)), count() FROM {database}.t");
        assert_eq!(target.query(&sql), "100000\t2", "{compression}");
        // The state is where the setting says.
        let state = format!(
            "SELECT count() FROM system.tables WHERE database = '{database}' AND startsWith(name, '_headwater')"
        );
        assert_eq!(target.query(&state), "1", "{compression}");
    }
}

#[test]
fn https_is_spoken_with_servers_of_the_authority_that_the_config_names_alone() {
    let target = ClickHouse::start_tls();
    let settings = json!({"url": target.tls_url(), "ca": target.authority()});
    let mut driver = Driver::new(config(&target, settings));
    let long = "x".repeat(3_000_000);
    commit(&mut driver, |driver| {
        driver.insert(&pairs(), &[int(1), text(&long)]);
        driver.insert(&pairs(), &[int(2), text("b")]);
    });
    let sql = "SELECT sum(length(name)), count() FROM shop.t";
    assert_eq!(target.query(sql), "3000001\t2");
    drop(driver);

    // Not of the operating system's authorities; and another authority than its own.
    let other = ClickHouse::start_tls();
    for settings in [
        json!({"url": target.tls_url()}),
        json!({"url": target.tls_url(), "ca": other.authority()}),
    ] {
        let error = opened(config(&target, settings)).expect_err("it is not trusted");
        assert!(
            error.to_string().contains("certificate") && error.to_string().contains("ca"),
            "{error}"
        );
    }
    // Nor is a name that the certificate does not have.
    let elsewhere = target.tls_url().replace("127.0.0.1", "127.0.0.2");
    let settings = json!({"url": elsewhere, "ca": target.authority()});
    assert!(opened(config(&target, settings)).is_err());
}

/// What a sink says of its target when it opens it.
fn opened(config: ClickHouseConfig) -> Result<(), SinkError> {
    let identity = Identity {
        pipeline: "test".into(),
        sink: "wh".into(),
    };
    ClickHouseSink::new(config, &identity)?.open().map(|_| ())
}

#[test]
fn a_table_without_a_key_is_refused_where_the_config_says_so() {
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(&target, json!({"keyless": "refuse"})));
    let mut table = TableSchema::clone(&pairs());
    table.primary_key.clear();
    let reason = refusal(&mut driver, &table, &[int(1), text("a")]);
    assert!(
        reason.contains("it has no key") && reason.contains("keyless: identity"),
        "{reason}"
    );
}

#[test]
fn a_table_of_cql_is_refused_as_a_whole() {
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(&target, json!({})));
    let of = |role, kind| ColumnType::Cql(CqlColumn { role, kind });
    let tags = CqlType::Map(Box::new((CqlType::Int, CqlType::Text)));
    let columns = vec![
        column("id", of(CqlRole::Partition, CqlType::Bigint)),
        column("tags", of(CqlRole::Regular, tags)),
    ];
    let table = table("shop", "t", columns);
    let reason = refusal(&mut driver, &table, &[int(1), Cell::Null]);
    assert!(reason.contains("`tags` is map<int, text>"), "{reason}");
}

#[test]
fn a_column_with_an_added_columns_name_needs_another_prefix() {
    let target = ClickHouse::start();
    let table = table(
        "shop",
        "t",
        vec![column("id", INT), column("_version", INT)],
    );
    let mut driver = Driver::new(config(&target, json!({})));
    let reason = refusal(&mut driver, &table, &[int(1), int(7)]);
    assert!(
        reason.contains("`_version`") && reason.contains("column_prefix"),
        "{reason}"
    );
    drop(driver);
    let mut driver = Driver::new(config(&target, json!({"column_prefix": "hw_"})));
    commit(&mut driver, |driver| {
        driver.insert(&table, &[int(1), int(7)])
    });
    let found = target.query("SELECT id, _version, hw_sign, hw_version > 0 FROM shop.t");
    assert_eq!(found, "1\t7\t1\t1");
}

#[test]
fn rows_are_ordered_as_asked_and_an_update_of_the_order_is_one_row() {
    for mode in ["mvcc", "sign_version"] {
        let target = ClickHouse::start();
        let mut ordered = pairs();
        Arc::make_mut(&mut ordered).columns[1].nullable = false;
        let own = json!({"shop.t": {"order_by": ["name", "id"]}});
        let settings =
            json!({"mode": mode, "tables": own, "fold": {"rows": 1, "age_ms": 10, "grace_ms": 10}});
        let mut driver = Driver::new(config(&target, settings));
        commit(&mut driver, |driver| {
            driver.insert(&ordered, &[int(1), text("b")])
        });
        commit(&mut driver, |driver| {
            driver.update(&ordered, &[int(1), text("b")], &[int(1), text("a")]);
        });
        let (shown, base) = match mode {
            "mvcc" => ("t", "t__base"),
            _ => ("t__v", "t"),
        };
        assert_eq!(
            target.query(&format!("SELECT id, name FROM shop.{shown}")),
            "1\ta",
            "{mode}"
        );
        let key = format!(
            "SELECT sorting_key FROM system.tables WHERE database = 'shop' AND name = '{base}'"
        );
        assert_eq!(target.query(&key), "name, id", "{mode}");
    }
    // An order without the key would let rows replace each other.
    let target = ClickHouse::start();
    let own = json!({"shop.t": {"order_by": ["name"]}});
    let mut driver = Driver::new(config(
        &target,
        json!({"mode": "sign_version", "tables": own}),
    ));
    let mut ordered = pairs();
    Arc::make_mut(&mut ordered).columns[1].nullable = false;
    let reason = refusal(&mut driver, &ordered, &[int(1), text("a")]);
    assert!(reason.contains("order_by must contain the key"), "{reason}");
}

#[test]
fn a_partition_that_an_update_could_leave_is_refused_in_mode_sign_version() {
    let target = ClickHouse::start();
    let own = json!({"shop.t": {"partition_by": "ifNull(name, '')"}});
    let mut driver = Driver::new(config(
        &target,
        json!({"mode": "sign_version", "tables": own}),
    ));
    let reason = refusal(&mut driver, &pairs(), &[int(1), text("a")]);
    assert!(reason.contains("partition_by uses `name`"), "{reason}");
    assert_eq!(
        target.query("SELECT count() FROM system.tables WHERE database = 'shop' AND name = 't'"),
        "0"
    );
}

#[test]
fn statements_that_the_target_shall_not_follow_leave_it_as_it_is() {
    let target = ClickHouse::start();
    let settings = json!({"ddl": {"drop": "keep", "truncate": "keep"}});
    let mut driver = Driver::new(config(&target, settings));
    let table = pairs();
    commit(&mut driver, |driver| {
        driver.insert(&table, &[int(1), text("a")])
    });
    driver
        .statement(DdlKind::TruncateTable, &table, "TRUNCATE TABLE t")
        .expect("it is passed over");
    assert_eq!(target.query("SELECT count() FROM shop.t"), "1");
    driver
        .statement(DdlKind::DropTable, &table, "DROP TABLE t")
        .expect("it is passed over");
    driver.flush();
    assert_eq!(target.query("SELECT count() FROM shop.t"), "1");
    assert!(
        driver.sink.details().is_empty(),
        "the sink has forgotten it"
    );
}

fn at(year: u32, month: u32) -> Cell<'static> {
    let at = DateTimePacked::new(DatePacked::new(year, month, 1), 0);
    Cell::Value(Value::DateTime { at, digits: 0 })
}

#[test]
fn dates_are_clamped_or_texts_where_the_config_says_so() {
    let target = ClickHouse::start();
    let kinds = vec![
        column("id", INT),
        column("at", ColumnType::DateTime { digits: 0 }),
    ];
    let table = table("shop", "t", kinds);
    let own = json!({"shop.t": {"types": {"at": "Nullable(DateTime('UTC'))"}}});
    let settings = json!({"types": {"out_of_range": "clamp"}, "tables": own});
    let mut driver = Driver::new(config(&target, settings));
    commit(&mut driver, |driver| {
        driver.insert(&table, &[int(1), at(1900, 1)]);
        driver.insert(&table, &[int(2), at(9999, 1)]);
        driver.insert(&table, &[int(3), at(0, 0)]);
    });
    assert_eq!(
        target.query("SELECT id, at FROM shop.t ORDER BY id"),
        "1\t1970-01-01 00:00:00\n2\t2106-02-07 06:28:15\n3\t\\N"
    );
    drop(driver);
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(&target, json!({"types": {"dates": "text"}})));
    commit(&mut driver, |driver| {
        driver.insert(&table, &[int(3), at(0, 0)])
    });
    assert_eq!(target.query("SELECT at FROM shop.t"), "0000-00-01 00:00:00");
}

#[test]
fn documents_of_the_type_json_are_objects_and_null_stays_null() {
    let target = ClickHouse::start();
    let table = table(
        "shop",
        "t",
        vec![column("id", INT), column("doc", ColumnType::Json)],
    );
    let doc = |text| Cell::Value(Value::Json(text));
    let fold = json!({"rows": 1, "age_ms": 10, "grace_ms": 10});
    let mut driver = Driver::new(config(
        &target,
        json!({"types": {"json": "json"}, "fold": fold}),
    ));
    commit(&mut driver, |driver| {
        driver.insert(&table, &[int(1), doc("{\"a\": {\"b\": 42}}")]);
        driver.insert(&table, &[int(2), Cell::Null]);
    });
    let wanted = "1\t42\n2\t\\N";
    let read_of = |name: &str| format!("SELECT id, doc.a.b FROM shop.{name} ORDER BY id");
    assert_eq!(target.query(&read_of("t")), wanted);
    assert_eq!(
        target.query("SELECT doc IS NULL FROM shop.t ORDER BY id"),
        "0\n1"
    );
    driver.wait_folded();
    assert_eq!(target.query(&read_of("t__base")), wanted);
    let reason = refusal(&mut driver, &table, &[int(3), doc("[1]")]);
    assert!(
        reason.contains("no object") && reason.contains("types.json: string"),
        "{reason}"
    );
}
