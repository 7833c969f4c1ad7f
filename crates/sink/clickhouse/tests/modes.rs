//! The rows that each mode writes, with sequences of one's choice.

mod support;

use change::temporal::{DatePacked, DateTimePacked};
use change::{Cell, ColumnType, CopyStage, Operation, Sink, TableSchema, Value};
use serde_json::json;
use std::sync::Arc;
use support::*;
use testkit::ClickHouse;

/// The worked example of LibraDB's documentation: a row of `migrate.t1` is updated.
fn t1() -> Arc<TableSchema> {
    table(
        "migrate",
        "t1",
        vec![
            column("id", INT),
            column("name", TEXT),
            column("birth", ColumnType::DateTime { digits: 0 }),
        ],
    )
}

fn birth(minute: u64, second: u64) -> Cell<'static> {
    let micros = ((12 * 60 + minute) * 60 + second) * 1_000_000;
    let at = DateTimePacked::new(DatePacked::new(2022, 5, 29), micros);
    Cell::Value(Value::DateTime { at, digits: 0 })
}

fn play_example(driver: &mut Driver, target: &ClickHouse) {
    let table = t1();
    let (before, after) = (
        [int(8), text("tt"), birth(28, 20)],
        [int(8), text("tt"), birth(32, 26)],
    );
    driver.sequence = 66;
    driver.begin();
    driver.insert(&table, &before);
    driver.commit();
    driver.flush();
    if driver.stops_merges {
        target.query("SYSTEM STOP MERGES migrate.t1");
    }
    driver.sequence = 194;
    driver.begin();
    driver.update(&table, &before, &after);
    driver.commit();
    driver.flush();
}

#[test]
fn the_worked_example_gives_its_results_in_mode_sign_version() {
    let target = ClickHouse::start();
    let settings = json!({"mode": "sign_version", "cancel_rows": true});
    let mut driver = Driver::new(config(&target, settings));
    driver.stops_merges = true;
    play_example(&mut driver, &target);
    let all = target.query("SELECT * FROM migrate.t1 ORDER BY _version, _sign");
    assert_eq!(
        all,
        "8\ttt\t2022-05-29 12:28:20\t1\t66\n8\ttt\t2022-05-29 12:28:20\t-1\t194\n8\ttt\t2022-05-29 \
         12:32:26\t1\t194"
    );
    let last = "8\ttt\t2022-05-29 12:32:26\t1\t194";
    assert_eq!(target.query("SELECT * FROM migrate.t1 FINAL"), last);
    assert_eq!(
        target.query("SELECT * FROM migrate.t1 FINAL WHERE _sign = 1"),
        last
    );
    assert_eq!(
        target.query("SELECT * FROM migrate.t1__v"),
        "8\ttt\t2022-05-29 12:32:26"
    );
    // The whole again, as after a crash before the cursor: nothing changes.
    play_example(&mut driver, &target);
    assert_eq!(target.query("SELECT * FROM migrate.t1 FINAL"), last);
    target.query("SYSTEM START MERGES migrate.t1");
    target.query("OPTIMIZE TABLE migrate.t1 FINAL");
    assert_eq!(target.query("SELECT * FROM migrate.t1"), last);
}

#[test]
fn the_worked_example_gives_its_results_in_mode_mvcc() {
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(
        &target,
        json!({"fold": {"age_ms": 50, "grace_ms": 10}}),
    ));
    play_example(&mut driver, &target);
    let row = "8\ttt\t2022-05-29 12:32:26\t1\t194";
    assert_eq!(target.query("SELECT * FROM migrate.t1"), row);
    assert_eq!(
        target.query("SELECT * FROM migrate.t1 WHERE _sign = 1"),
        row
    );
    driver.wait_folded();
    assert_eq!(target.query("SELECT * FROM migrate.t1__base"), row);
    assert_eq!(target.query("SELECT _dversion FROM migrate.t1__base"), "0");
    // A delete is in the cache with its key, its time, its place in the order, and the row's own version.
    driver.sequence = 370;
    driver.begin();
    driver.delete(&t1(), &[int(8), text("tt"), birth(32, 26)]);
    driver.commit();
    driver.flush();
    assert_eq!(target.query("SELECT count() FROM migrate.t1"), "0");
    let cache = "SELECT id, _version, _dversion, _row_version, _dts > now() - 60 FROM migrate.t1__delta WHERE \
                 _dversion > 0";
    assert_eq!(target.query(cache), "8\t370\t370\t194\t1");
    driver.wait_folded();
    assert_eq!(target.query("SELECT count() FROM migrate.t1__base"), "0");
}

#[test]
fn a_collapsing_table_with_the_examples_rows_loses_the_update_and_ours_does_not() {
    let target = ClickHouse::start();
    let mut http = target.client();
    http.query("CREATE DATABASE plain");
    http.query(
        "CREATE TABLE plain.t1 (id Int64, v Int64, _sign Int8, _version UInt64) ENGINE = \
         VersionedCollapsingMergeTree(_sign, _version) ORDER BY id",
    );
    for rows in ["(8, 1, 1, 66)", "(8, 1, -1, 194), (8, 2, 1, 194)"] {
        http.query(&format!(
            "INSERT INTO plain.t1 SETTINGS async_insert = 0 VALUES {rows}"
        ));
    }
    assert_eq!(
        http.query("SELECT v FROM plain.t1 FINAL"),
        "1",
        "the update is lost"
    );
    let settings = json!({"mode": "sign_version", "engine": "versioned_collapsing"});
    let mut driver = Driver::new(config(&target, settings));
    play_example(&mut driver, &target);
    assert_eq!(
        http.query("SELECT * FROM migrate.t1 FINAL"),
        "8\ttt\t2022-05-29 12:32:26\t1\t194"
    );
    assert_eq!(
        http.query("SELECT count() FROM migrate.t1 WHERE _sign < 0 AND _version = 66"),
        "1",
        "a cancel row has the version of what it cancels"
    );
}

#[test]
fn layout_clean_and_plain_name_base_show_only_the_sources_columns() {
    let target = ClickHouse::start();
    let settings =
        json!({"layout": "clean", "plain_name": "base", "fold": {"age_ms": 50, "grace_ms": 10}});
    let mut driver = Driver::new(config(&target, settings));
    play_example(&mut driver, &target);
    let row = "8\ttt\t2022-05-29 12:32:26";
    assert_eq!(target.query("SELECT * FROM migrate.t1__live"), row);
    driver.wait_folded();
    assert_eq!(target.query("SELECT * FROM migrate.t1"), row);
    assert_eq!(
        target.query("SELECT _sign, _version, _dversion FROM migrate.t1"),
        "1\t194\t0"
    );
    let shown = target
        .query("SELECT name FROM system.columns WHERE database = 'migrate' AND table = 't1__live'");
    assert_eq!(shown, "id\nname\nbirth");
}

#[test]
fn a_large_transaction_is_many_inserts_and_one_appearance() {
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(
        &target,
        json!({"fold": {"rows": 1, "age_ms": 10, "grace_ms": 10}}),
    ));
    let table = t1();
    driver.begin();
    for piece in 0..5 {
        for id in 0..100 {
            driver.insert(&table, &[int(piece * 100 + id), text("x"), Cell::Null]);
        }
        driver.flush();
        driver.sink.idle().unwrap();
        assert_eq!(
            target.query("SELECT count() FROM migrate.t1"),
            "0",
            "nothing before its commit"
        );
        assert_eq!(target.query("SELECT count() FROM migrate.t1__base"), "0");
    }
    driver.commit();
    driver.flush();
    assert_eq!(target.query("SELECT count() FROM migrate.t1"), "500");
    driver.wait_folded();
    assert_eq!(target.query("SELECT count() FROM migrate.t1__base"), "500");
}

#[test]
fn what_a_broken_life_left_behind_comes_again_once() {
    let target = ClickHouse::start();
    let settings = || config(&target, json!({"fold": {"age_ms": 100_000}}));
    let table = t1();
    let mut driver = Driver::new(settings());
    driver.begin();
    driver.copy(&table, CopyStage::Begun);
    let row = image(&[int(1), text("copied"), Cell::Null]);
    driver
        .row(&table, Operation::Read, None, Some(read(&row)))
        .unwrap();
    driver.commit();
    driver.flush();
    let place = driver.sequence;
    // A flush whose cursor is not written: the rows are there, and nobody may see them.
    driver.begin();
    let second = image(&[int(2), text("copied"), Cell::Null]);
    driver
        .row(&table, Operation::Read, None, Some(read(&second)))
        .unwrap();
    driver.update(
        &table,
        &[int(1), text("copied"), Cell::Null],
        &[int(1), text("new"), Cell::Null],
    );
    let other = Driver::new(settings());
    assert_eq!(other.sequence, place);
    let refused = driver
        .sink
        .flush(&driver.cursor())
        .expect_err("another took over");
    assert_eq!(refused.kind, change::contract::ErrorKind::Fenced);
    let mut third = Driver::new(settings());
    assert_eq!(third.sequence, place);
    assert_eq!(target.query("SELECT count() FROM migrate.t1"), "1");
    assert_eq!(target.query("SELECT count() FROM migrate.t1__delta"), "0");
    third.begin();
    third
        .row(&table, Operation::Read, None, Some(read(&second)))
        .unwrap();
    third.update(
        &table,
        &[int(1), text("copied"), Cell::Null],
        &[int(1), text("new"), Cell::Null],
    );
    third.copy(&table, CopyStage::Done);
    third.commit();
    third.flush();
    assert_eq!(
        target.query("SELECT id, name FROM migrate.t1 ORDER BY id"),
        "1\tnew\n2\tcopied"
    );
    drop(other);
}

/// `HEADWATER_FOLDS=1000` makes more of them: the parts must not become more.
#[test]
fn many_folds_leave_few_parts_and_no_mutation() {
    let folds: i64 = std::env::var("HEADWATER_FOLDS").map_or(300, |text| text.parse().unwrap());
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(
        &target,
        json!({"fsync": false, "fold": {"rows": 1, "age_ms": 10, "duty_percent": 100, "grace_ms": 10}}),
    ));
    let table = t1();
    for round in 0..folds {
        driver.begin();
        driver.update(
            &table,
            &[int(round % 50), text("x"), Cell::Null],
            &[int(round % 50), text(&round.to_string()), Cell::Null],
        );
        driver.commit();
        driver.flush();
        driver.wait_folded();
    }
    let mut http = target.client();
    assert_eq!(
        http.query("SELECT count(), max(toInt64(name)) FROM migrate.t1__base"),
        format!("50\t{}", folds - 1)
    );
    assert_eq!(
        http.query("SELECT count(), max(toInt64(name)) FROM migrate.t1"),
        format!("50\t{}", folds - 1)
    );
    http.wait(
        "SELECT count() FROM system.mutations WHERE NOT is_done AND database = 'migrate'",
        "0",
        LIMIT,
    );
    let parts =
        http.number("SELECT count() FROM system.parts WHERE active AND database = 'migrate'");
    assert!(parts < 300, "{parts} parts");
    let said = driver.sink.details()[0].1.clone();
    assert!(
        said.contains(&format!("({folds} since the start)")),
        "{said}"
    );
}

#[test]
fn a_point_read_touches_one_granule_of_each_arm_and_an_empty_delta_costs_no_set() {
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(
        &target,
        json!({"fold": {"age_ms": 100_000, "rows": 1_000_000}}),
    ));
    let table = t1();
    driver.begin();
    driver.copy(&table, CopyStage::Begun);
    for id in 0..100_000 {
        let row = image(&[int(id), text("x"), Cell::Null]);
        driver
            .row(&table, Operation::Read, None, Some(read(&row)))
            .unwrap();
    }
    driver.copy(&table, CopyStage::Done);
    driver.commit();
    driver.flush();
    let explain = "EXPLAIN indexes = 1 SELECT * FROM migrate.t1 WHERE id = 77000";
    let plan = target.query(explain);
    assert!(!plan.contains("CreatingSet"), "{plan}");
    driver.begin();
    for id in 0..20_000 {
        driver.update(
            &table,
            &[int(id), text("x"), Cell::Null],
            &[int(id), text("y"), Cell::Null],
        );
    }
    driver.commit();
    driver.flush();
    let plan = target.query(explain);
    assert!(plan.contains("Granules: 1/12"), "{plan}");
    // No pending key is the one that is asked for.
    let of_delta = plan.split("t1__delta").nth(1).unwrap_or_default();
    assert!(of_delta.contains("Granules: 0"), "{plan}");
    assert_eq!(
        target.query("SELECT count() FROM migrate.t1 WHERE id = 77000"),
        "1"
    );
}

#[test]
fn rows_that_wait_for_a_flush_are_not_left_behind_by_a_fold() {
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(
        &target,
        json!({"fold": {"rows": 1, "age_ms": 10, "duty_percent": 100, "grace_ms": 10}}),
    ));
    let table = t1();
    for round in 0..30 {
        driver.begin();
        driver.insert(&table, &[int(round * 2), text("x"), Cell::Null]);
        driver.commit();
        driver.flush();
        // A row in the buffer, while the fold of what was flushed is due.
        driver.begin();
        driver.insert(&table, &[int(round * 2 + 1), text("x"), Cell::Null]);
        driver.commit();
        std::thread::sleep(std::time::Duration::from_millis(15));
        driver.sink.idle().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        driver.flush();
        let wanted = (round * 2 + 2).to_string();
        assert_eq!(target.query("SELECT count() FROM migrate.t1"), wanted);
    }
    driver.wait_folded();
    assert_eq!(target.query("SELECT count() FROM migrate.t1__base"), "60");
    assert_eq!(target.query("SELECT count() FROM migrate.t1"), "60");
}
