//! Statements on tables that are set aside, and many refused keys at once.

mod clickhouse_way;

use clickhouse_way::{BINARY, FLAVOURS, LIMIT, QUICK, Way};
use std::time::{Duration, Instant};
use testkit::{ClickHouse, Flavour, MysqlServer, Pipeline, one_at_a_time};

/// A table that is set aside as a whole, with rows that the target did not get.
fn park(way: &mut Way) {
    way.server.sql().exec(
        "CREATE TABLE shop.t (id INT PRIMARY KEY, d DECIMAL(10,2)); INSERT INTO shop.t VALUES (1,1.25),(2,2.25)",
    );
    way.assert_same("shop.t");
    // Rounding is the source's own.
    way.server
        .sql()
        .exec("ALTER TABLE shop.t MODIFY d DECIMAL(10,1); INSERT INTO shop.t VALUES (3,3.5)");
    way.wait_parked(&["shop.t"]);
}

#[test]
fn a_parked_table_that_is_dropped_renamed_or_emptied_ends_rightly() {
    let _turn = one_at_a_time();
    for flavour in FLAVOURS {
        let mut way = Way::new(flavour, "SET @x = 1", QUICK);
        // Dropped: the target's goes too, and the name is free for another table.
        park(&mut way);
        way.server.sql().exec("DROP TABLE shop.t");
        way.wait_parked(&[]);
        way.fence();
        assert_eq!(way.tables_like("t"), "");
        way.server.sql().exec(
            "CREATE TABLE shop.t (name VARCHAR(9) PRIMARY KEY); INSERT INTO shop.t VALUES ('new'),('er')",
        );
        way.assert_same("shop.t");
        way.server.sql().exec("DROP TABLE shop.t");

        // Emptied: no row is missing any more, and the structure follows.
        park(&mut way);
        way.server
            .sql()
            .exec("TRUNCATE TABLE shop.t; INSERT INTO shop.t VALUES (4,4.5)");
        way.wait_parked(&[]);
        way.assert_same("shop.t");
        way.server.sql().exec("DROP TABLE shop.t");

        // Renamed: the target's is renamed too and stays as it was, which is said; a new copy makes it right,
        // a restart between them changes nothing.
        park(&mut way);
        way.server
            .sql()
            .exec("RENAME TABLE shop.t TO shop.u; INSERT INTO shop.u VALUES (5,5.5)");
        way.wait_parked(&["shop.u"]);
        way.fence();
        assert_eq!(way.tables_like("t"), "");
        assert_eq!(way.target.query("SELECT count() FROM shop.u"), "2");
        let said = way.pipeline.command(&["heal"], &["shop.u"]);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(
            said.contains("renamed while it was parked")
                && said.contains("heal shop.u --resnapshot"),
            "{said}"
        );
        way.pipeline.stop();
        way.pipeline.start();
        way.pipeline.wait_streaming(LIMIT);
        way.wait_parked(&["shop.u"]);
        let reason = way.parked()[0]["reason"].to_string();
        assert!(
            reason.contains("it was shop.t") && reason.contains("heal CONFIG shop.u --resnapshot"),
            "{reason}"
        );
        way.resnapshot("shop.u");
        way.assert_same("shop.u");
        way.server.sql().exec("DROP TABLE shop.u");

        // The whole database.
        park(&mut way);
        way.server
            .sql()
            .exec("DROP DATABASE shop; CREATE DATABASE shop; CREATE TABLE shop.fence (id INT PRIMARY KEY)");
        way.wait_parked(&[]);
        way.fence();
        assert_eq!(way.tables_like("t"), "");
        way.pipeline.stop();
    }
}

#[test]
fn a_key_that_is_parked_goes_with_its_table_too() {
    let _turn = one_at_a_time();
    let settings = format!(
        "{QUICK}, tables: {{shop.t: {{types: {{v: \"Nullable(Int8)\"}}}}, shop.u: {{types: {{v: \
         \"Nullable(Int8)\"}}}}}}"
    );
    let mut way = Way::new(
        Flavour::Mysql97,
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
        &settings,
    );
    let refuse = |way: &mut Way| {
        way.server
            .sql()
            .exec("INSERT INTO shop.t VALUES (1,1),(2,1000),(3,3)");
        way.wait_parked(&["shop.t"]);
    };
    // What was held back before a TRUNCATE must not come back with it.
    refuse(&mut way);
    way.server
        .sql()
        .exec("TRUNCATE TABLE shop.t; INSERT INTO shop.t VALUES (2,2)");
    way.wait_parked(&[]);
    way.assert_same("shop.t");
    way.server.sql().exec("TRUNCATE TABLE shop.t");
    // Another table with the same name and key.
    refuse(&mut way);
    way.server.sql().exec(
        "DROP TABLE shop.t; CREATE TABLE shop.t (id INT PRIMARY KEY, v INT); INSERT INTO shop.t VALUES (2,2)",
    );
    way.wait_parked(&[]);
    way.assert_same("shop.t");
    way.server.sql().exec("TRUNCATE TABLE shop.t");
    // Renamed: the key waits on, other keys do not.
    refuse(&mut way);
    way.server
        .sql()
        .exec("RENAME TABLE shop.t TO shop.u; UPDATE shop.u SET v = 4 WHERE id = 3; UPDATE shop.u SET v = 2 WHERE id = 2");
    way.wait_parked(&["shop.u"]);
    way.fence();
    assert_eq!(way.parked()[0]["keys"], 1);
    let shown = way.target.query("SELECT id, v FROM shop.u ORDER BY id");
    assert_eq!(shown, "1\t1\n3\t4");
    way.resnapshot("shop.u");
    way.assert_same("shop.u");
    way.pipeline.stop();
}

#[test]
fn rows_that_no_row_event_tells_of_wait_for_a_new_copy() {
    let _turn = one_at_a_time();
    for flavour in FLAVOURS {
        let mut way = Way::new(
            flavour,
            "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN \
             (10), PARTITION q VALUES LESS THAN (20)); INSERT INTO shop.t VALUES (1,1),(11,11)",
            QUICK,
        );
        way.assert_same("shop.t");
        // A new partition takes nothing away.
        way.server.sql().exec(
            "ALTER TABLE shop.t ADD PARTITION (PARTITION r VALUES LESS THAN (30)); INSERT INTO shop.t VALUES (21,21)",
        );
        way.assert_same("shop.t");
        way.server
            .sql()
            .exec("ALTER TABLE shop.t DROP PARTITION q; INSERT INTO shop.t VALUES (22,22)");
        way.wait_parked(&["shop.t"]);
        // What was held back alone does not make it right.
        way.pipeline.command(&["heal"], &["shop.t"]);
        way.wait_parked(&["shop.t"]);
        way.resnapshot("shop.t");
        way.assert_same("shop.t");
        // A column that numbers the rows: only the source has the numbers.
        way.server.sql().exec(
            "CREATE TABLE shop.n (a INT); INSERT INTO shop.n VALUES (7),(8); CREATE TABLE shop.m (id INT PRIMARY \
             KEY, v INT); INSERT INTO shop.m VALUES (1,1)",
        );
        way.assert_same("shop.n");
        way.server.sql().exec(
            "ALTER TABLE shop.n ADD COLUMN id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY",
        );
        way.wait_parked(&["shop.n"]);
        way.resnapshot("shop.n");
        way.assert_same("shop.n");
        // Two things in one statement.
        way.server.sql().exec(
            "ALTER TABLE shop.m CHANGE v w BIGINT; ALTER TABLE shop.m ADD COLUMN x VARCHAR(9) DEFAULT 'f(x)', RENAME \
             TO shop.o; INSERT INTO shop.o VALUES (2,1 << 40,'x')",
        );
        way.assert_same("shop.o");
        if flavour == Flavour::Mariadb10 {
            way.server.sql().exec(
                "CREATE OR REPLACE TABLE shop.o (id INT PRIMARY KEY, w BIGINT, x VARCHAR(9) DEFAULT 'f(x)'); INSERT \
                 INTO shop.o VALUES (3,3,'y')",
            );
            way.assert_same("shop.o");
        }
        way.pipeline.stop();
    }
}

#[test]
fn ten_thousand_refused_keys_of_one_batch_cost_seconds() {
    let _turn = one_at_a_time();
    const BAD: usize = 10_000;
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let target = ClickHouse::start();
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)");
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "sinks:\n  - {{name: wh, batch_delay: 20ms, parked_keys_max: 20000, clickhouse: {{url: \"{}\", \
             {QUICK}, tables: {{shop.t: {{types: {{v: \"Nullable(Int8)\"}}}}}}}}}}\n",
            target.url()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    // Every other row of one transaction does not fit.
    let rows: Vec<String> = (0..2 * BAD)
        .map(|id| format!("({id},{})", if id % 2 == 0 { 1 } else { 1000 }))
        .collect();
    sql.exec(&format!("INSERT INTO shop.t VALUES {}", rows.join(",")));
    let since = Instant::now();
    target
        .client()
        .wait("SELECT count() FROM shop.t", &BAD.to_string(), LIMIT);
    pipeline.wait_status("all are set aside", LIMIT, |status| {
        status["sinks"]["wh"]["parked"][0]["keys"] == BAD
    });
    let took = since.elapsed();
    eprintln!(
        "{BAD} refused rows among {} of one transaction: {took:?}",
        2 * BAD
    );
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_eq!(
        target.query("SELECT count(), countIf(v = 1), countIf(id % 2 = 0) FROM shop.t"),
        format!("{BAD}\t{BAD}\t{BAD}")
    );
    pipeline.stop();
}
