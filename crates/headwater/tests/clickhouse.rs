//! From a real MySQL and MariaDB into a real ClickHouse engine: after every kind of change a plain SELECT
//! is the source's SELECT, of the view at once and of the base after a fold.

mod clickhouse_way;

use clickhouse_way::{FLAVOURS, LIMIT, QUICK, Way};
use testkit::mirror::assert_same;
use testkit::{Flavour, one_at_a_time};

#[test]
fn a_plain_select_is_the_sources_after_every_kind_of_change() {
    let _turn = one_at_a_time();
    for flavour in FLAVOURS {
        let mut way = Way::new(
            flavour,
            "CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(40), ratio DOUBLE, amount DECIMAL(20,4)); \
             INSERT INTO shop.t VALUES (1,'one',1.5,1), (2,NULL,NULL,NULL), (3,'',-0.0,-0.0001); \
             CREATE TABLE shop.pair (a INT, b VARCHAR(20), v INT, PRIMARY KEY (a, b)); \
             INSERT INTO shop.pair VALUES (1,'x',1), (1,'y',2)",
            QUICK,
        );
        way.assert_same("shop.t");
        for change in [
            "INSERT INTO shop.t VALUES (4,'vier',2.25,99)",
            "UPDATE shop.t SET name = 'uno' WHERE id = 1",
            "DELETE FROM shop.t WHERE id = 2",
            "UPDATE shop.t SET id = 5 WHERE id = 4",
            "BEGIN; DELETE FROM shop.t WHERE id = 5; INSERT INTO shop.t VALUES (5,'again',0,0); COMMIT",
            "DELETE FROM shop.t WHERE id = 5",
            "INSERT INTO shop.t VALUES (5,'later',0,0)",
            "BEGIN; UPDATE shop.t SET name = 'a' WHERE id = 1; UPDATE shop.t SET name = 'b' WHERE id = 1; COMMIT",
            "BEGIN; INSERT INTO shop.t VALUES (6,'gone',0,0); DELETE FROM shop.t WHERE id = 6; COMMIT",
            "UPDATE shop.t SET name = name WHERE id = 1",
            "BEGIN; UPDATE shop.t SET id = 99 WHERE id = 1; UPDATE shop.t SET id = 1 WHERE id = 3; \
             UPDATE shop.t SET id = 3 WHERE id = 99; COMMIT",
            "UPDATE shop.t SET name = '' , ratio = NULL WHERE id = 3",
            "UPDATE shop.pair SET v = v + 1 WHERE a = 1",
            "UPDATE shop.pair SET b = 'z' WHERE b = 'y'",
            "UPDATE shop.pair SET b = 'X' WHERE b = 'x'",
            "INSERT INTO shop.pair SELECT a + 1, b, v FROM shop.pair",
            "DELETE FROM shop.t",
        ] {
            way.server.sql().exec(change);
            way.assert_same("shop.t");
            way.assert_same("shop.pair");
        }
        let mut http = way.target.client();
        // Nothing is left to be done, and nothing hides behind FINAL.
        http.wait(
            "SELECT count() FROM system.mutations WHERE NOT is_done AND database = 'shop'",
            "0",
            LIMIT,
        );
        let view = http.query("SHOW CREATE TABLE shop.t");
        assert!(!view.contains("FINAL"), "{view}");
        let columns = http.query("DESCRIBE TABLE shop.t");
        assert!(
            columns.contains("_sign") && columns.contains("_version"),
            "{columns}"
        );
        assert!(!columns.contains("_dversion"), "{columns}");
        let hidden =
            http.query("SELECT count() FROM shop.t__base WHERE _dversion != 0 OR _sign != 1");
        assert_eq!(hidden, "0");
        way.pipeline.stop();
    }
}

#[test]
fn tables_without_a_key_hold_equal_rows_as_often_as_the_source() {
    let _turn = one_at_a_time();
    for (flavour, settings) in [
        (Flavour::Mysql97, QUICK.to_owned()),
        (Flavour::Mariadb10, "mode: sign_version".to_owned()),
    ] {
        let is_mvcc = settings == QUICK;
        let mut way = Way::new(
            flavour,
            "CREATE TABLE shop.log (at DATETIME(3), what VARCHAR(20)); \
             INSERT INTO shop.log VALUES (NULL,'a'), (NULL,'a'), ('2024-01-01','b')",
            &settings,
        );
        let shown = if is_mvcc { "shop.log" } else { "shop.log__v" };
        for change in [
            "INSERT INTO shop.log VALUES (NULL,'a'), ('2024-01-01','b'), (NULL,NULL)",
            "DELETE FROM shop.log WHERE what = 'a' LIMIT 2",
            "UPDATE shop.log SET what = 'c' WHERE what = 'b' LIMIT 1",
            "BEGIN; INSERT INTO shop.log VALUES (NULL,'x'), (NULL,'x'); DELETE FROM shop.log WHERE what = 'x' LIMIT 1; COMMIT",
            "DELETE FROM shop.log WHERE what IS NULL",
            "UPDATE shop.log SET what = 'same'",
            "DELETE FROM shop.log LIMIT 2",
        ] {
            way.server.sql().exec(change);
            way.fence_in(is_mvcc);
            let (mut sql, mut http) = way.sides();
            assert_same(&mut sql, &mut http, "shop.log", shown);
            if is_mvcc {
                way.assert_same("shop.log");
            }
        }
        // Another structure makes every row another: `status` says what to do, and doing it helps.
        way.server.sql().exec(
            "ALTER TABLE shop.log ADD COLUMN n INT DEFAULT 7; INSERT INTO shop.log VALUES (NULL,'n',1), (NULL,'n',1)",
        );
        way.wait_parked(&["shop.log"]);
        let reason = way.parked()[0]["reason"].to_string();
        for part in [
            "ALTER TABLE shop.log ADD COLUMN n INT DEFAULT 7",
            "it has no key: its rows are told apart by all columns, and those change",
            "headwater heal CONFIG shop.log --resnapshot",
        ] {
            assert!(reason.contains(part), "{reason}");
        }
        let said = way.pipeline.done(&["status"], &[]);
        assert!(
            said.lines()
                .any(|line| line.starts_with("    fix") && line.ends_with("shop.log --resnapshot")),
            "{said}"
        );
        way.resnapshot("shop.log");
        way.fence_in(is_mvcc);
        let (mut sql, mut http) = way.sides();
        assert_same(&mut sql, &mut http, "shop.log", shown);
        way.pipeline.stop();
    }
}

#[test]
fn sign_and_version_rows_read_with_final_are_the_source() {
    let _turn = one_at_a_time();
    for (flavour, settings) in [
        (Flavour::Mysql97, "mode: sign_version"),
        (Flavour::Mariadb10, "mode: sign_version, cancel_rows: true"),
        (
            Flavour::Mysql97,
            "mode: sign_version, engine: versioned_collapsing",
        ),
    ] {
        let mut way = Way::new(
            flavour,
            "CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(40), v INT); \
             INSERT INTO shop.t VALUES (1,'one',1), (2,NULL,NULL), (3,'',0)",
            settings,
        );
        for change in [
            "INSERT INTO shop.t VALUES (4,'vier',4)",
            "UPDATE shop.t SET name = 'uno' WHERE id = 1",
            "DELETE FROM shop.t WHERE id = 2",
            "UPDATE shop.t SET id = 5 WHERE id = 4",
            "BEGIN; DELETE FROM shop.t WHERE id = 5; INSERT INTO shop.t VALUES (5,'again',0); COMMIT",
            "BEGIN; UPDATE shop.t SET v = 7 WHERE id = 1; UPDATE shop.t SET v = 8 WHERE id = 1; COMMIT",
            "BEGIN; INSERT INTO shop.t VALUES (6,'gone',0); DELETE FROM shop.t WHERE id = 6; COMMIT",
            "BEGIN; UPDATE shop.t SET id = 99 WHERE id = 1; UPDATE shop.t SET id = 1 WHERE id = 3; \
             UPDATE shop.t SET id = 3 WHERE id = 99; COMMIT",
            "DELETE FROM shop.t WHERE id = 3",
            "ALTER TABLE shop.t ADD COLUMN more INT NOT NULL DEFAULT 3, RENAME COLUMN v TO value",
            "UPDATE shop.t SET more = 4 WHERE id = 1",
        ] {
            way.server.sql().exec(change);
            way.fence_in(false);
            let (mut sql, mut http) = way.sides();
            assert_same(&mut sql, &mut http, "shop.t", "shop.t__v");
            http.query("OPTIMIZE TABLE shop.t FINAL");
            assert_same(&mut sql, &mut http, "shop.t", "shop.t__v");
        }
        // The old reading: FINAL and the sign.
        let mut http = way.target.client();
        let by_sign = http.query("SELECT count() FROM shop.t FINAL WHERE _sign = 1");
        assert_eq!(
            by_sign,
            way.server.sql().value("SELECT COUNT(*) FROM shop.t")
        );
        way.pipeline.stop();
    }
}

#[test]
fn statements_are_followed_and_what_cannot_be_is_set_aside_with_the_fix() {
    let _turn = one_at_a_time();
    for flavour in FLAVOURS {
        let mut way = Way::new(
            flavour,
            "CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, v INT NOT NULL, d DECIMAL(10,2)); \
             INSERT INTO shop.t VALUES (1,'one',1,1.5), (2,'two',2,NULL)",
            QUICK,
        );
        for change in [
            "ALTER TABLE shop.t ADD COLUMN n INT NOT NULL DEFAULT 5 AFTER id, ADD COLUMN e ENUM('x','y') NOT NULL",
            "INSERT INTO shop.t (id, name, v) VALUES (3,'three',3)",
            "ALTER TABLE shop.t ALTER COLUMN n SET DEFAULT 7",
            "INSERT INTO shop.t (id, name, v) VALUES (4,'four',4)",
            "ALTER TABLE shop.t RENAME COLUMN name TO title, DROP COLUMN e, MODIFY v BIGINT NOT NULL",
            "UPDATE shop.t SET v = 1 << 40 WHERE id = 1",
            "ALTER TABLE shop.t CHANGE title title VARCHAR(80) CHARACTER SET latin1 NOT NULL COMMENT 'what it is' FIRST",
            "ALTER TABLE shop.t MODIFY d DECIMAL(30,5) NULL, ADD COLUMN j JSON",
            "UPDATE shop.t SET d = 123456789012345.12345, j = '{\"a\": [1, null]}' WHERE id = 2",
            "ALTER TABLE shop.t MODIFY id BIGINT NOT NULL",
            "INSERT INTO shop.t (id, title, v) VALUES (1 << 40,'big',4)",
            "ALTER TABLE shop.t DROP PRIMARY KEY, ADD PRIMARY KEY (title, id)",
            "UPDATE shop.t SET title = 'ONE' WHERE id = 1",
            "CREATE INDEX by_v ON shop.t (v)",
            "RENAME TABLE shop.t TO shop.u",
            "INSERT INTO shop.u (id, title, v) VALUES (7,'seven',7)",
            "RENAME TABLE shop.u TO shop.t",
            "TRUNCATE TABLE shop.t",
            "INSERT INTO shop.t (id, title, v) VALUES (8,'eight',8)",
        ] {
            way.server.sql().exec(change);
            let table = match change {
                c if c.starts_with("RENAME TABLE shop.t") || c.contains("INTO shop.u") => "shop.u",
                _ => "shop.t",
            };
            way.assert_same(table);
        }
        let comment = "SELECT comment FROM system.columns WHERE database = 'shop' AND table = 't__base' AND \
                       name = 'title'";
        assert_eq!(way.target.query(comment), "what it is");
        way.server
            .sql()
            .exec("CREATE TABLE shop.empty (id INT PRIMARY KEY, a INT)");
        way.fence();
        assert_eq!(way.target.query("SELECT count() FROM shop.empty"), "0");
        way.server.sql().exec("DROP TABLE shop.empty");
        way.fence();
        let there = way
            .target
            .query("SELECT count() FROM system.tables WHERE name LIKE 'empty%'");
        assert_eq!(there, "0");

        // Rounding is the source's own: the table waits for a new copy, the others go on.
        way.server.sql().exec(
            "ALTER TABLE shop.t MODIFY d DECIMAL(30,1) NULL; INSERT INTO shop.t (id, title, v, d) VALUES (9,'n',9,0.25)",
        );
        way.fence();
        let status = way
            .pipeline
            .wait_status("the table is parked", LIMIT, |status| {
                status["sinks"]["wh"]["parked"][0]["table"] == "shop.t"
            });
        let reason = status["sinks"]["wh"]["parked"][0]["reason"].to_string();
        assert!(
            reason.contains("MODIFY d DECIMAL(30,1)") && reason.contains("--resnapshot"),
            "{reason}"
        );
        way.pipeline.done(&["heal"], &["shop.t", "--resnapshot"]);
        way.pipeline.wait_status("it is healed", LIMIT, |status| {
            status["sinks"]["wh"]["parked"] == serde_json::json!([])
                && status["source"]["phase"] == "streaming"
        });
        way.assert_same("shop.t");

        // A copy again removes what is gone in the source, also what went unseen.
        way.pipeline.stop();
        way.server
            .sql()
            .exec("SET sql_log_bin = 0; DELETE FROM shop.t WHERE id = 8");
        way.pipeline.start();
        way.pipeline.wait_streaming(LIMIT);
        let said = way
            .pipeline
            .command(&["rewind"], &["wh", "--to", "earliest"]);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("--resnapshot"), "{said}");
        way.pipeline.done(&["heal"], &["shop.t", "--resnapshot"]);
        way.pipeline.wait_streaming(LIMIT);
        let (_, mut http) = way.sides();
        http.wait("SELECT count() FROM shop.t WHERE id = 8", "0", LIMIT);
        way.assert_same("shop.t");
        way.pipeline.stop();
    }
}
