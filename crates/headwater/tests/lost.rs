//! The server purges what was not captured yet: without a word nothing goes on, and with one every
//! table is copied again in its place, so that the target is the source again.

mod clickhouse_way;

use clickhouse_way::{FLAVOURS, LIMIT, QUICK, Way};
use std::time::{Duration, Instant};
use testkit::one_at_a_time;

/// Deletes every file of the log but the one that is written now. A server keeps a file for a while that a
/// reader has just left, or that its engine still needs.
fn purge(way: &Way) {
    let mut sql = way.server.sql();
    sql.exec("FLUSH BINARY LOGS");
    let end = Instant::now() + LIMIT;
    loop {
        let logs = sql.select("SHOW BINARY LOGS");
        let last = logs.last().and_then(|row| row[0].clone()).expect("a log");
        if logs.len() == 1 {
            return;
        }
        assert!(Instant::now() < end, "{} files are kept", logs.len());
        let last = String::from_utf8(last).expect("a name");
        sql.exec(&format!("PURGE BINARY LOGS TO '{last}'"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

const TABLES: &str = "\
    CREATE TABLE shop.kept (id INT PRIMARY KEY, v VARCHAR(20)); \
    CREATE TABLE shop.changed (id INT PRIMARY KEY, v INT, goes INT); \
    CREATE TABLE shop.gone (id INT PRIMARY KEY); \
    CREATE TABLE shop.parked (id INT PRIMARY KEY, d DECIMAL(10,2)); \
    INSERT INTO shop.kept VALUES (1,'a'),(2,'b'),(3,'c'); \
    INSERT INTO shop.changed VALUES (1,1,1),(2,2,2); \
    INSERT INTO shop.gone VALUES (1); \
    INSERT INTO shop.parked VALUES (1,1.25)";

#[test]
fn a_purged_log_is_told_and_one_command_copies_everything_again() {
    let _turn = one_at_a_time();
    for flavour in FLAVOURS {
        let mut way = Way::new(flavour, TABLES, QUICK);
        // What is set aside comes back too.
        way.server.sql().exec(
            "ALTER TABLE shop.parked MODIFY d DECIMAL(10,1); INSERT INTO shop.parked VALUES (2,2.5)",
        );
        way.wait_parked(&["shop.parked"]);
        way.pipeline.stop();

        // All that can happen to tables in the gap.
        way.server.sql().exec(
            "UPDATE shop.kept SET v = 'x' WHERE id = 1; DELETE FROM shop.kept WHERE id = 2; \
             INSERT INTO shop.kept VALUES (4,'d'); \
             ALTER TABLE shop.changed DROP COLUMN goes, ADD COLUMN comes VARCHAR(9) NOT NULL DEFAULT 'n'; \
             INSERT INTO shop.changed VALUES (3,3,'three'); DELETE FROM shop.changed WHERE id = 1; \
             DROP TABLE shop.gone; \
             CREATE TABLE shop.come (id INT PRIMARY KEY); INSERT INTO shop.come VALUES (7)",
        );
        purge(&way);
        way.server
            .sql()
            .exec("INSERT INTO shop.kept VALUES (5,'e')");
        let ended = way.pipeline.run_to_end(LIMIT);
        ended.assert(3, &["purged", "run CONFIG --resnapshot-lost"]);

        // Killed in the midst of it, it goes on with the copies, also without the word.
        way.pipeline.start_with(&["--resnapshot-lost"]);
        way.pipeline.wait_said("is copied again from now on", LIMIT);
        way.pipeline.wait_status("it copies", LIMIT, |status| {
            status["source"]["tables"]
                .as_array()
                .is_some_and(|tables| !tables.is_empty())
        });
        way.pipeline.kill();
        way.server
            .sql()
            .exec("INSERT INTO shop.come VALUES (8); DELETE FROM shop.kept WHERE id = 3");
        way.pipeline.start_with(&["--resnapshot-lost"]);
        way.pipeline.wait_streaming(LIMIT);
        way.wait_parked(&[]);
        for table in ["kept", "changed", "come", "parked"] {
            way.assert_same(&format!("shop.{table}"));
        }
        assert_eq!(way.tables_like("gone"), "");

        // The statements that make the difference stand in the journal.
        let statements = way
            .pipeline
            .done(&["tail"], &["--from", "earliest", "--no-follow"]);
        let wanted = [
            "DROP TABLE `shop`.`gone`",
            "ALTER TABLE `shop`.`changed` DROP COLUMN `goes`, ADD COLUMN `comes` varchar(9) ",
            " NOT NULL AFTER `v`",
        ];
        for wanted in wanted {
            assert!(statements.contains(wanted), "no {wanted} in: {statements}");
        }
        way.pipeline.stop();
    }
}
