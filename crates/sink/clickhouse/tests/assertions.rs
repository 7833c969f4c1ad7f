//! What a reader may rely on, beyond the rows of the worked example: hidden columns, row policies, large
//! batches, lost answers, tables of others, partitions.

mod support;

use change::{Cell, ColumnType, CopyStage, Operation, Sink, TableSchema, Value};
use serde_json::json;
use sink_clickhouse::ClickHouseConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::*;
use testkit::ClickHouse;
use testkit::clickhouse::{Admin, Http};
use testkit::faulty_http::{Fault, FaultyHttp};

fn accounts() -> Arc<TableSchema> {
    table(
        "shop",
        "t",
        vec![
            column("id", INT),
            column("name", TEXT),
            column("ratio", ColumnType::Double),
        ],
    )
}

fn row(id: i64, name: &str, ratio: f64) -> [Cell<'_>; 3] {
    [int(id), text(name), Cell::Value(Value::Double(ratio))]
}

fn commit(driver: &mut Driver, work: impl FnOnce(&mut Driver)) {
    driver.begin();
    work(driver);
    driver.commit();
    driver.flush();
}

/// Folds soon.
fn quick() -> serde_json::Value {
    json!({"rows": 1, "age_ms": 10, "duty_percent": 100, "grace_ms": 10})
}

#[test]
fn layout_clean_shows_no_added_column_under_either_plain_name_and_needs_no_final() {
    for (plain_name, view, base) in [("live", "t", "t__base"), ("base", "t__live", "t")] {
        let target = ClickHouse::start();
        let settings = json!({"layout": "clean", "plain_name": plain_name, "fold": quick()});
        let mut driver = Driver::new(config(&target, settings));
        let table = accounts();
        commit(&mut driver, |driver| {
            driver.insert(&table, &row(1, "one", 1.5));
            driver.insert(&table, &row(2, "two", 2.5));
        });
        commit(&mut driver, |driver| {
            driver.delete(&table, &row(2, "two", 2.5))
        });
        driver.wait_folded();
        let mut http = target.client();
        for name in [view, base] {
            assert_eq!(
                http.query(&format!("SELECT * FROM shop.{name}")),
                "1\tone\t1.5",
                "{plain_name} {name}"
            );
        }
        let described = http.rows(&format!("DESCRIBE TABLE shop.{view}"));
        let names: Vec<&str> = described.iter().map(|column| &*column[0]).collect();
        assert_eq!(names, ["id", "name", "ratio"]);
        // A table lists what it hides, as columns that no `*` shows.
        for column in http.rows(&format!("DESCRIBE TABLE shop.{base}")) {
            let is_hidden = column[2] == "MATERIALIZED";
            assert_eq!(column[0].starts_with('_'), is_hidden, "{column:?}");
        }
        let hidden = format!("SELECT _sign, _version > 0, _dversion FROM shop.{base}");
        assert_eq!(http.query(&hidden), "1\t1\t0");
        let definitions = http.query(
            "SELECT arrayStringConcat(groupArray(create_table_query), ';') FROM system.tables WHERE database = \
             'shop'",
        );
        assert!(!definitions.contains("FINAL"), "{definitions}");
    }
}

#[test]
fn values_that_are_not_equal_to_themselves_and_updates_of_nothing_are_right() {
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(&target, json!({"fold": quick()})));
    let table = accounts();
    commit(&mut driver, |driver| {
        driver.insert(&table, &row(1, "nan", f64::NAN));
        driver.insert(&table, &row(2, "zero", -0.0));
        driver.insert(&table, &row(3, "", f64::INFINITY));
    });
    commit(&mut driver, |driver| {
        driver.update(&table, &row(1, "nan", f64::NAN), &row(1, "nan", f64::NAN));
        driver.update(&table, &row(2, "zero", -0.0), &row(2, "zero", -0.0));
        driver.update(&table, &row(2, "zero", -0.0), &row(2, "zero", -0.0));
    });
    let wanted = "1\tnan\tnan\n2\tzero\t-0\n3\t\tinf";
    let select = |name: &str| format!("SELECT id, name, ratio FROM shop.{name} ORDER BY id");
    assert_eq!(target.query(&select("t")), wanted);
    driver.wait_folded();
    assert_eq!(target.query(&select("t__base")), wanted);
    assert_eq!(target.query(&select("t")), wanted);
}

/// A reader's rows of mode `sign_version`, under a row policy and a way to apply it.
fn under_policy(http: &mut Http, after_final: u8, from: &str) -> String {
    http.query(&format!(
        "SELECT id, name FROM {from} ORDER BY id SETTINGS apply_row_policy_after_final = {after_final}"
    ))
}

#[test]
fn a_row_policy_on_the_sign_is_right_only_after_final() {
    let target = ClickHouse::start();
    let mut driver = Driver::new(config(&target, json!({"mode": "sign_version"})));
    let table = accounts();
    commit(&mut driver, |driver| {
        driver.insert(&table, &row(1, "stays", 0.0));
        driver.insert(&table, &row(2, "goes", 0.0));
    });
    commit(&mut driver, |driver| {
        driver.delete(&table, &row(2, "goes", 0.0))
    });
    drop(driver);
    // The accounts of this engine come from a file: the policy is there after a start.
    let policy = ("shop".to_owned(), "t".to_owned(), "_sign = 1".to_owned());
    target.restart_as(&Admin {
        policies: vec![policy],
        ..Admin::default()
    });
    let mut http = target.client();
    http.query("SYSTEM STOP MERGES shop.t");
    for from in ["shop.t FINAL", "shop.t__v"] {
        assert_eq!(under_policy(&mut http, 1, from), "1\tstays", "{from}");
        // What the guide warns of: the deleted row's older version passes the policy, and FINAL never
        // sees the newer one.
        assert_eq!(
            under_policy(&mut http, 0, from),
            "1\tstays\n2\tgoes",
            "{from}"
        );
    }
    // Without a policy both are right.
    target.restart_as(&Admin::default());
    let mut http = target.client();
    for after_final in [0, 1] {
        assert_eq!(
            under_policy(&mut http, after_final, "shop.t__v"),
            "1\tstays"
        );
    }
}

#[test]
fn a_batch_above_a_million_rows_is_split_by_the_sink_and_appears_at_once() {
    const ROWS: i64 = 1_200_000;
    let target = ClickHouse::start();
    let fold = json!({"age_ms": 1_000_000, "rows": 100_000_000});
    let settings = json!({"insert_rows_max": 1_000_000, "fsync": false, "fold": fold});
    let mut driver = Driver::new(config(&target, settings));
    let table = table("shop", "t", vec![column("id", INT)]);
    commit(&mut driver, |driver| driver.insert(&table, &[int(-1)]));
    let mut http = target.client();
    http.query("SYSTEM STOP MERGES shop.t__delta");
    driver.begin();
    let mut flushes = 0;
    for id in 0..ROWS {
        driver.insert(&table, &[int(id)]);
        if driver.sink.is_full() {
            driver.flush();
            flushes += 1;
            assert_eq!(http.query("SELECT count() FROM shop.t"), "1");
        }
    }
    assert_eq!(flushes, 1, "the sink says when an insert is large enough");
    driver.commit();
    driver.flush();
    assert_eq!(http.number("SELECT count() FROM shop.t"), ROWS as u64 + 1);
    // One part for each insert: the server split nothing.
    let parts = http.query(
        "SELECT arrayStringConcat(arraySort(groupArray(rows)), ' ') FROM system.parts WHERE active AND table = \
         't__delta'",
    );
    assert_eq!(parts, "1 200000 1000000");
}

fn through(proxy: &FaultyHttp, more: serde_json::Value) -> ClickHouseConfig {
    let mut all = json!({"url": proxy.url()});
    let object = all.as_object_mut().expect("an object");
    object.extend(more.as_object().expect("an object").clone());
    serde_json::from_value(all).expect("the settings are right")
}

#[test]
fn an_insert_whose_answer_was_lost_is_there_once() {
    for mode in ["mvcc", "sign_version"] {
        let target = ClickHouse::start();
        let lost = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&lost);
        let proxy = FaultyHttp::start(target.port(), move |sql| {
            let is_rows =
                sql.starts_with("INSERT INTO `shop`.`t") && sql.contains("RowBinaryWithNames");
            // Each insert is made twice: the first answer of the two is lost.
            (is_rows && count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2))
                .then_some(Fault::LostAnswer)
        });
        let mut driver = Driver::new(through(&proxy, json!({"mode": mode})));
        let table = accounts();
        commit(&mut driver, |driver| {
            driver.insert(&table, &row(1, "one", 1.0));
            driver.insert(&table, &row(2, "two", 2.0));
        });
        // The same bytes again under their own token are another insert.
        commit(&mut driver, |driver| {
            driver.update(&table, &row(1, "one", 1.0), &row(1, "one", 1.0));
        });
        assert_eq!(
            lost.load(Ordering::SeqCst),
            4,
            "two inserts, each sent twice"
        );
        let stored = if mode == "mvcc" { "t__delta" } else { "t" };
        let mut http = target.client();
        http.query(&format!("SYSTEM STOP MERGES shop.{stored}"));
        assert_eq!(
            http.query(&format!("SELECT count() FROM shop.{stored}")),
            "3",
            "{mode}"
        );
        let shown = if mode == "mvcc" { "t" } else { "t__v" };
        assert_eq!(
            http.query(&format!("SELECT count() FROM shop.{shown}")),
            "2",
            "{mode}"
        );
    }
}

#[test]
fn an_insert_that_comes_late_after_its_flush_was_given_up_is_cleaned_away() {
    let target = ClickHouse::start();
    let proxy = FaultyHttp::start(target.port(), |_| None);
    let mut driver = Driver::new(through(&proxy, json!({"fold": quick()})));
    let table = accounts();
    commit(&mut driver, |driver| {
        driver.insert(&table, &row(1, "one", 1.0))
    });
    let place = driver.sequence;
    // Every answer is lost: the sink gives the flush up, though its rows are there.
    proxy.set(|sql| {
        sql.contains("RowBinaryWithNames")
            .then_some(Fault::LostAnswer)
    });
    driver.begin();
    driver.insert(&table, &row(2, "two", 2.0));
    driver.commit();
    let error = driver.sink.flush(&driver.cursor()).expect_err("no answer");
    assert_eq!(
        error.kind,
        change::contract::ErrorKind::Unavailable,
        "{error}"
    );
    assert_eq!(
        target.query("SELECT count() FROM shop.t__delta WHERE id = 2"),
        "1"
    );
    assert_eq!(
        target.query("SELECT count() FROM shop.t"),
        "1",
        "nobody sees it"
    );
    proxy.set(|_| None);
    driver.sink.abort().expect("it takes back");
    let cursor = driver.sink.open().expect("it opens").expect("a cursor");
    assert_eq!(cursor.sequence, place);
    assert_eq!(
        target.query("SELECT count() FROM shop.t__delta WHERE id = 2"),
        "0"
    );
    driver.sequence = place;
    commit(&mut driver, |driver| {
        driver.insert(&table, &row(2, "two", 2.0))
    });
    assert_eq!(target.query("SELECT count() FROM shop.t"), "2");
    // After a fold, and with the folded changes dropped, what comes again is taken once more by its key.
    driver.wait_folded();
    target
        .client()
        .wait("SELECT count() FROM shop.t__delta", "0", LIMIT);
    let end = driver.sequence;
    driver.sequence = place;
    commit(&mut driver, |driver| {
        driver.insert(&table, &row(2, "two", 2.0))
    });
    driver.sequence = end;
    assert_eq!(target.query("SELECT count() FROM shop.t"), "2");
    driver.wait_folded();
    assert_eq!(
        target.query("SELECT count(), countDistinct(id) FROM shop.t__base"),
        "2\t2"
    );
}

#[test]
fn a_copy_over_more_partitions_than_an_insert_may_have_arrives() {
    let target = ClickHouse::start();
    let settings = json!({"fold": quick(), "tables": {"shop.t": {"partition_by": "id"}}});
    let mut driver = Driver::new(config(&target, settings));
    let table = accounts();
    driver.begin();
    driver.copy(&table, CopyStage::Begun);
    for id in 0..150 {
        let copied = image(&row(id, "copied", 0.0));
        driver
            .row(&table, Operation::Read, None, Some(read(&copied)))
            .expect("the row is written");
    }
    driver.copy(&table, CopyStage::Done);
    driver.commit();
    driver.flush();
    // And a fold that touches all of them.
    commit(&mut driver, |driver| {
        for id in 0..150 {
            driver.update(&table, &row(id, "copied", 0.0), &row(id, "changed", 1.0));
        }
        driver.delete(&table, &row(149, "changed", 1.0));
    });
    driver.wait_folded();
    assert_eq!(
        target.query("SELECT count(), countIf(name = 'changed') FROM shop.t__base"),
        "149\t149"
    );
}

#[test]
fn a_table_of_somebody_else_is_never_replaced_by_the_sinks() {
    let target = ClickHouse::start_as(&Admin {
        has_cluster: true,
        ..Admin::default()
    });
    let mut http = target.client();
    http.query("CREATE DATABASE shop");
    for (name, engine) in [
        ("t", "MergeTree ORDER BY id"),
        ("t__base", "Log"),
        ("t", "Distributed('one', shop, other)"),
        ("t__base", "Distributed('one', shop, other)"),
    ] {
        http.query(&format!(
            "CREATE TABLE shop.{name} (id Int64, name String) ENGINE = {engine}"
        ));
        let mut driver = Driver::new(config(&target, json!({})));
        driver.begin();
        let after = image(&row(1, "one", 1.0));
        let refused = driver
            .row(&accounts(), Operation::Insert, None, Some(read(&after)))
            .expect_err("a table of another is there");
        let rejection = refused.rejection.expect("the table is set aside");
        assert_eq!(rejection.key_token, None);
        let kind = engine.split([' ', '(']).next().expect("an engine");
        let says = format!("is there already with the engine {kind}");
        assert!(rejection.reason.contains(&says), "{}", rejection.reason);
        assert!(
            rejection
                .reason
                .contains(&format!("RENAME TABLE `shop`.`{name}` TO")),
            "{}",
            rejection.reason
        );
        let found = http.query(&format!(
            "SELECT engine FROM system.tables WHERE database = 'shop' AND name = '{name}'"
        ));
        assert_eq!(found, kind, "it is left as it was");
        drop(driver);
        http.query(&format!("DROP TABLE shop.{name} SYNC"));
    }
}

#[test]
fn a_refused_row_leaves_nothing_of_itself_and_everything_before_it() {
    for mode in ["mvcc", "sign_version"] {
        let target = ClickHouse::start();
        let types = json!({"mode": mode, "tables": {"shop.t": {"types": {"name": "Enum8('a' = 1, 'b' = 2)"}}}});
        let mut driver = Driver::new(config(&target, types));
        let table = accounts();
        driver.begin();
        driver.insert(&table, &row(1, "a", 1.0));
        let refused = |driver: &mut Driver, before: Option<&[Cell<'_>]>, after: &[Cell<'_>]| {
            let (before, after) = (before.map(image), image(after));
            let operation = match before {
                Some(_) => Operation::Update,
                None => Operation::Insert,
            };
            let before = before.as_deref().map(read);
            driver
                .row(&table, operation, before, Some(read(&after)))
                .expect_err("the value does not fit")
        };
        let error = refused(&mut driver, None, &row(2, "c", 2.0));
        assert!(error.rejection.is_some_and(|one| one.key_token.is_some()));
        // A key change: its first half would fit.
        refused(&mut driver, Some(&row(1, "a", 1.0)), &row(3, "c", 3.0));
        driver.delete(&table, &row(4, "a", 1.0));
        driver.insert(&table, &row(5, "b", 5.0));
        driver.commit();
        driver.flush();
        let shown = if mode == "mvcc" { "t" } else { "t__v" };
        assert_eq!(
            target.query(&format!("SELECT id, name FROM shop.{shown} ORDER BY id")),
            "1\ta\n5\tb",
            "{mode}"
        );
    }
}
