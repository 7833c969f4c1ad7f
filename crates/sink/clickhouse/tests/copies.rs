//! Copies of a table: again, while the first is not whole, and while the stream goes on.

mod support;

use change::{Cell, ColumnType, CopyStage, TableSchema};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;
use support::*;
use testkit::ClickHouse;

fn pairs() -> Arc<TableSchema> {
    table("shop", "t", vec![column("id", INT), column("v", INT)])
}

const MODES: [(&str, &str, &str); 3] = [
    ("mvcc", "replacing", "t"),
    ("sign_version", "replacing", "t__v"),
    ("sign_version", "versioned_collapsing", "t__v"),
];

#[test]
fn a_second_copy_before_the_first_is_whole_doubles_nothing() {
    for (mode, engine, shown) in MODES {
        let target = ClickHouse::start();
        let mut driver = Driver::new(config(&target, json!({"mode": mode, "engine": engine})));
        let table = pairs();
        driver.begin();
        driver.copy(&table, CopyStage::Begun);
        for id in 1..=3 {
            driver.read_row(&table, &[int(id), int(id)]);
        }
        driver.commit();
        driver.flush();
        driver.begin();
        driver.copy(&table, CopyStage::Begun);
        for id in 2..=4 {
            driver.read_row(&table, &[int(id), int(10 * id)]);
        }
        driver.copy(&table, CopyStage::Done);
        driver.commit();
        driver.flush();
        let rows = format!("SELECT id, v FROM shop.{shown} ORDER BY id");
        assert_eq!(
            target.query(&rows),
            "2\t20\n3\t30\n4\t40",
            "{mode} {engine}"
        );
    }
}

#[test]
fn a_new_copy_takes_away_what_is_gone_and_shows_each_key_once_at_all_times() {
    for (mode, engine, shown) in MODES {
        let target = ClickHouse::start();
        let mut driver = Driver::new(config(&target, json!({"mode": mode, "engine": engine})));
        let table = pairs();
        driver.commit_all(|driver| {
            for id in 1..=3 {
                driver.insert(&table, &[int(id), int(id)]);
            }
        });
        driver.begin();
        driver.copy(&table, CopyStage::Begun);
        driver.read_row(&table, &[int(1), int(11)]);
        driver.read_row(&table, &[int(2), int(2)]);
        driver.commit();
        driver.flush();
        let rows = format!("SELECT id, v FROM shop.{shown} ORDER BY id");
        assert_eq!(target.query(&rows), "1\t11\n2\t2\n3\t3", "{mode} {engine}");
        driver.begin();
        driver.update(&table, &[int(2), int(2)], &[int(2), int(22)]);
        driver.copy(&table, CopyStage::Done);
        driver.commit();
        driver.flush();
        assert_eq!(target.query(&rows), "1\t11\n2\t22", "{mode} {engine}");
        if mode == "sign_version" {
            target.query("OPTIMIZE TABLE shop.t FINAL");
            assert_eq!(target.query(&rows), "1\t11\n2\t22", "{engine}, merged");
        }
    }
}

#[test]
fn columns_may_have_any_name() {
    for (mode, engine, shown) in MODES {
        for names in [
            ["v", "d"],
            ["e", "s"],
            ["o", "k"],
            ["r", "gone"],
            ["_sign_v", "n"],
        ] {
            let target = ClickHouse::start();
            let mut driver = Driver::new(config(&target, json!({"mode": mode, "engine": engine})));
            let mut table = table(
                "shop",
                "t",
                names.iter().map(|name| column(name, INT)).collect(),
            );
            {
                let table = Arc::make_mut(&mut table);
                table
                    .columns
                    .iter_mut()
                    .for_each(|column| column.nullable = false);
                table.primary_key = vec![0, 1];
            }
            driver.commit_all(|driver| {
                driver.insert(&table, &[int(1), int(1)]);
                driver.insert(&table, &[int(2), int(2)]);
            });
            driver.commit_all(|driver| driver.delete(&table, &[int(1), int(1)]));
            driver.begin();
            driver.copy(&table, CopyStage::Begun);
            driver.read_row(&table, &[int(3), int(3)]);
            driver.copy(&table, CopyStage::Done);
            driver.commit();
            driver.flush();
            let rows = format!("SELECT `{}`, `{}` FROM shop.{shown}", names[0], names[1]);
            assert_eq!(target.query(&rows), "3\t3", "{mode} {engine} {names:?}");
            if mode == "mvcc" {
                let deleted = format!(
                    "SELECT _row_version > 0 FROM shop.t__delta WHERE `{}` = 1 AND _dversion > 0",
                    names[0]
                );
                assert_eq!(target.query(&deleted), "1", "{names:?}");
            }
        }
    }
}

#[test]
fn an_update_to_the_same_row_of_a_table_without_a_key_changes_nothing() {
    for (mode, _, shown) in &MODES[..2] {
        let target = ClickHouse::start();
        let mut driver = Driver::new(config(&target, json!({"mode": mode})));
        let mut table = TableSchema::clone(&pairs());
        table.primary_key.clear();
        driver.commit_all(|driver| {
            driver.insert(&table, &[int(1), Cell::Null]);
            driver.insert(&table, &[int(1), Cell::Null]);
        });
        driver.commit_all(|driver| {
            driver.update(&table, &[int(1), Cell::Null], &[int(1), Cell::Null]);
        });
        let count = format!("SELECT count() FROM shop.{shown}");
        assert_eq!(target.query(&count), "2", "{mode}");
    }
}

#[test]
fn a_deleted_row_without_its_sort_column_is_refused_in_mode_sign_version() {
    let target = ClickHouse::start();
    let mut ordered = table("shop", "t", vec![column("id", INT), column("name", TEXT)]);
    Arc::make_mut(&mut ordered).columns[1].nullable = false;
    let own = json!({"shop.t": {"order_by": ["name", "id"]}});
    let mut driver = Driver::new(config(
        &target,
        json!({"mode": "sign_version", "tables": own}),
    ));
    driver.commit_all(|driver| driver.insert(&ordered, &[int(1), text("a")]));
    driver.begin();
    let before = image(&[int(1), Cell::Unknown]);
    let refused = driver
        .row(
            &ordered,
            change::Operation::Delete,
            Some(read(&before)),
            None,
        )
        .expect_err("it would not be found");
    assert!(refused.rejection.is_some_and(|one| one.key_token.is_some()));
}

#[test]
fn tables_of_others_beside_ours_are_left_as_they_are() {
    let target = ClickHouse::start();
    let mut http = target.client();
    http.query("CREATE DATABASE shop");
    let row = image(&[int(1), int(1)]);
    for name in [
        "t__delta",
        "t__stg",
        "t__next",
        "t__next2",
        "t__delta2",
        "t__keys",
    ] {
        http.query(&format!(
            "CREATE TABLE shop.{name} (a Int64) ENGINE = MergeTree ORDER BY a"
        ));
        http.query(&format!("INSERT INTO shop.{name} VALUES (7)"));
        let mut driver = Driver::new(config(&target, json!({})));
        driver.begin();
        let refused = driver
            .row(&pairs(), change::Operation::Insert, None, Some(read(&row)))
            .expect_err("a table of another is there");
        let reason = refused.rejection.expect("it is set aside").reason;
        assert!(
            reason.contains(&format!("RENAME TABLE `shop`.`{name}` TO")),
            "{reason}"
        );
        drop(driver);
        assert_eq!(http.query(&format!("SELECT a FROM shop.{name}")), "7");
        http.query(&format!("DROP TABLE shop.{name} SYNC"));
    }
    // A view that reads the base is not the sink's for that.
    http.query("CREATE TABLE shop.t__base_of_others (a Int64) ENGINE = MergeTree ORDER BY a");
    http.query("CREATE VIEW shop.t AS SELECT a FROM shop.t__base_of_others");
    let mut driver = Driver::new(config(&target, json!({})));
    driver.begin();
    driver
        .row(&pairs(), change::Operation::Insert, None, Some(read(&row)))
        .expect_err("a view of another is there");
    drop(driver);
    assert_eq!(http.query("SELECT count() FROM shop.t"), "0");
    http.query("DROP VIEW shop.t SYNC");
    // With room for it, the sink's own are known as such after a restart.
    let mut driver = Driver::new(config(&target, json!({})));
    driver.commit_all(|driver| driver.insert(&pairs(), &[int(1), int(1)]));
    driver.reopen();
    driver.commit_all(|driver| driver.insert(&pairs(), &[int(2), int(2)]));
    assert_eq!(http.query("SELECT count() FROM shop.t"), "2");
    // A table that was there is not dropped for the partitions that the config asks for.
    let target = ClickHouse::start();
    let mut http = target.client();
    http.query("CREATE DATABASE shop");
    http.query(
        "CREATE TABLE shop.t (id Int64, v Int64, _sign Int8, _version UInt64, _is_deleted UInt8 MATERIALIZED \
         _sign < 0) ENGINE = ReplacingMergeTree(_version, _is_deleted) PARTITION BY v ORDER BY id",
    );
    let own = json!({"shop.t": {"partition_by": "v"}});
    let mut driver = Driver::new(config(
        &target,
        json!({"mode": "sign_version", "tables": own}),
    ));
    driver.begin();
    driver
        .row(&pairs(), change::Operation::Insert, None, Some(read(&row)))
        .expect_err("its partitions are refused");
    assert_eq!(
        http.query("SELECT count() FROM system.tables WHERE name = 't'"),
        "1"
    );
}

#[test]
fn a_fold_merges_the_parts_that_became_many() {
    let target = ClickHouse::start();
    let fold = json!({"rows": 1, "age_ms": 10, "duty_percent": 100, "grace_ms": 10});
    let mut driver = Driver::new(config(&target, json!({"fold": fold})));
    let table = table(
        "shop",
        "t",
        vec![
            column("id", INT),
            column(
                "v",
                ColumnType::Int {
                    bytes: 4,
                    unsigned: false,
                },
            ),
        ],
    );
    driver.commit_all(|driver| driver.insert(&table, &[int(0), int(0)]));
    driver.wait_folded();
    let mut http = target.client();
    http.query("SYSTEM STOP MERGES shop.t__base");
    for id in 1..60 {
        http.query(&format!(
            "INSERT INTO shop.t__base (id, v) VALUES ({id}, 1)"
        ));
    }
    let parts =
        "SELECT count() FROM system.parts WHERE database = 'shop' AND table = 't__base' AND active";
    let end = Instant::now() + LIMIT;
    for id in 100.. {
        driver.commit_all(|driver| driver.insert(&table, &[int(id), int(0)]));
        driver.wait_folded();
        let rows = format!("{}", 61 + id - 100);
        assert_eq!(http.query("SELECT count() FROM shop.t__base"), rows);
        // A merge that the engine has begun by itself holds one fold's up, not each one's.
        if http.number(parts) < 20 {
            break;
        }
        assert!(Instant::now() < end, "{} parts", http.number(parts));
    }
}
