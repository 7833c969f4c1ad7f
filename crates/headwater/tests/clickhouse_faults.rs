//! What a server or an account lacks: said by `check` with the statement that fixes it, and waited for while
//! the stream runs.
//!
//! The engine itself is read-only, full, or short of grants here. Only what it cannot be made to be (an
//! older version, Replicated) is answered by a server before it.

mod clickhouse_way;

use clickhouse_way::{BINARY, LIMIT, QUICK, Way};
use testkit::clickhouse::Admin;
use testkit::faulty_http::{Fault, FaultyHttp};
use testkit::{ClickHouse, Flavour, MysqlServer, Pipeline, one_at_a_time};

/// A source with one table, and `check` against some target.
struct Checks {
    server: MysqlServer,
}

impl Checks {
    fn start() -> Self {
        let server = MysqlServer::start(Flavour::Mysql97, &[]);
        server
            .sql()
            .exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)");
        Self { server }
    }

    /// What `check` says of the sink, and its exit code.
    fn run(&self, url: &str, settings: &str) -> (String, Option<i32>) {
        let config = self.server.source_yaml("\"shop.*\"", &[])
            + &format!("sinks:\n  - {{name: wh, clickhouse: {{url: \"{url}\"{settings}}}}}\n");
        let said = Pipeline::new(BINARY, &config).command(&["check"], &[]);
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        (text, said.status.code())
    }

    /// `check` finds this, says this fix, and ends with the sink's exit code.
    fn refuses(&self, (url, settings): (&str, &str), finding: &str, fix: &str) {
        let (text, code) = self.run(url, settings);
        let found = format!("✗ sink wh: {finding}");
        assert!(text.contains(&found), "wanted: {found}\n{text}");
        assert!(
            text.contains(&format!("fix: {fix}")),
            "wanted: fix: {fix}\n{text}"
        );
        assert_eq!(code, Some(4), "{text}");
    }

    fn accepts(&self, url: &str, settings: &str) {
        let (text, _) = self.run(url, settings);
        assert!(
            text.contains("✓ sink wh: clickhouse") && !text.contains("✗ sink wh"),
            "{text}"
        );
    }
}

#[test]
fn check_says_what_a_real_server_refuses_and_the_statement_that_fixes_it() {
    let _turn = one_at_a_time();
    let checks = Checks::start();
    let target = ClickHouse::start();
    let url = target.url();
    let plain = (url.as_str(), "");
    checks.accepts(&url, "");
    for level in [1, 2] {
        target.restart_as(&Admin::readonly(level));
        checks.refuses(
            plain,
            "the account default may only read (readonly)",
            "ALTER USER `default` SETTINGS readonly = 0",
        );
    }
    target.restart_as(&Admin::granting(&["GRANT SELECT, INSERT ON *.*"]));
    let missing =
        "ALTER TABLE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, TRUNCATE, CREATE DATABASE";
    checks.refuses(
        plain,
        &format!("the account default lacks {missing} on `shop`"),
        &format!("GRANT {missing} ON `shop`.* TO `default`"),
    );
    // With what the fix says, and with nothing more, it is enough.
    let enough = [
        &*format!("GRANT SELECT, INSERT, {missing} ON shop.*"),
        &format!("GRANT SELECT, INSERT, {missing} ON headwater.*"),
        "GRANT SELECT ON system.*",
    ];
    target.restart_as(&Admin::granting(&enough));
    checks.accepts(&url, "");
    target.restart_as(&Admin::full());
    checks.refuses(
        plain,
        "the disk `default` of the storage policy `default` is full",
        "make room, or add a disk to the storage policy",
    );
    target.restart_as(&Admin {
        has_cluster: true,
        ..Admin::default()
    });
    let mut http = target.client();
    http.query("CREATE DATABASE shop");
    // (mode, the name that is taken, as the base or as the view)
    for (settings, name) in [
        ("", "t__base"),
        ("", "t"),
        (", plain_name: base", "t"),
        (", mode: sign_version", "t"),
        (", mode: sign_version", "t__v"),
    ] {
        http.query(&format!(
            "CREATE TABLE shop.{name} (id Int64) ENGINE = Distributed('one', shop, other)"
        ));
        let is_view = name == "t__v" || (name == "t" && settings.is_empty());
        let finding = match is_view {
            true => format!("`shop`.`{name}` is there already with the engine Distributed"),
            false => {
                format!("the table `shop`.`{name}` is there already with the engine Distributed")
            }
        };
        let fix = format!("RENAME TABLE `shop`.`{name}` TO another name");
        checks.refuses((&url, settings), &finding, &fix);
        // The fix is one.
        http.query(&format!("RENAME TABLE shop.{name} TO shop.another"));
        checks.accepts(&url, settings);
        http.query("DROP TABLE shop.another SYNC");
    }
}

/// Answers to statements with these words, before the real server's.
fn answering(
    answers: &[(&'static str, Fault)],
) -> impl FnMut(&str) -> Option<Fault> + Send + use<> {
    let answers = answers.to_vec();
    move |sql| {
        let found = answers.iter().find(|(words, _)| sql.contains(words));
        found.map(|(_, fault)| fault.clone())
    }
}

fn rows(text: &str) -> Fault {
    Fault::Rows(text.to_owned())
}

fn denied(grant: &str) -> Fault {
    let text = format!(
        "headwater: Not enough privileges. To execute this query, it's necessary to have the grant {grant}. \
         (ACCESS_DENIED) (version 26.3.1.1 (official build))"
    );
    Fault::Refusal(403, 497, text)
}

#[test]
fn check_says_what_servers_refuse_that_are_not_to_be_had_here() {
    let _turn = one_at_a_time();
    let checks = Checks::start();
    let target = ClickHouse::start();
    target.query("CREATE DATABASE shop");
    let proxy = FaultyHttp::start(target.port(), |_| None);
    let url = proxy.url();
    checks.accepts(&url, "");
    let version = |text| ("SELECT version()", rows(text));
    // (what the server answers, settings, finding, fix)
    let engine_of = "SELECT engine FROM system.tables";
    let cases = [
        (
            vec![version("22.8.21.38\n")],
            "",
            "this mode needs ClickHouse 25.6 or later",
            "upgrade the server",
        ),
        (
            vec![version("22.8.21.38\n")],
            ", mode: sign_version",
            "this mode needs ClickHouse 23.2 or later",
            "upgrade the server",
        ),
        (
            vec![version("24.3.5.46\n")],
            "",
            "this mode needs ClickHouse 25.6 or later",
            "set mode: sign_version, or upgrade the server",
        ),
        (
            vec![
                version("25.8.1.1\n"),
                ("enable_shared_storage_snapshot", rows("0\n")),
            ],
            "",
            "readers do not share one snapshot of a table within a query",
            "ALTER SETTINGS PROFILE default SETTINGS enable_shared_storage_snapshot_in_query = 1",
        ),
        (
            vec![(engine_of, rows("ReplicatedMergeTree\n"))],
            "",
            "the table `shop`.`t__base` is there already with the engine ReplicatedMergeTree, not MergeTree",
            "RENAME TABLE `shop`.`t__base` TO another name",
        ),
        (
            vec![(engine_of, rows("SharedReplacingMergeTree\n"))],
            ", mode: sign_version",
            "the table `shop`.`t` is there already with the engine SharedReplacingMergeTree",
            "RENAME TABLE `shop`.`t` TO another name",
        ),
        (
            vec![("FROM system.databases", rows("Replicated\n"))],
            "",
            "the database `shop` has the engine Replicated",
            "CREATE DATABASE `another` ENGINE = Atomic",
        ),
        (
            vec![(
                "FROM system.disks",
                rows("default\t9000000000\t10000000000\t1\n"),
            )],
            "",
            "the disk `default` of the storage policy `default` is read-only",
            "give the storage policy a disk that can be written to",
        ),
        (
            vec![
                (
                    "FROM system.processes",
                    denied("SELECT for at least one column on system.processes"),
                ),
                (
                    "FROM system.parts",
                    denied("SELECT for at least one column on system.parts"),
                ),
            ],
            "",
            "the account default may not read system.processes and system.parts",
            "GRANT SELECT ON system.processes TO `default`; GRANT SELECT ON system.parts TO `default`",
        ),
    ];
    for (answers, settings, finding, fix) in cases {
        proxy.set(answering(&answers));
        checks.refuses((&url, settings), finding, fix);
    }
    // What is only worth a word: one of several disks is full, the disks cannot be seen, grants cannot be told.
    proxy.set(answering(&[(
        "FROM system.disks",
        rows("old\t0\t10000000000\t0\nnew\t9000000000\t10000000000\t0\n"),
    )]));
    checks.accepts(&url, "");
    proxy.set(answering(&[(
        "FROM system.disks",
        denied("SELECT ON system.disks"),
    )]));
    checks.accepts(&url, "");
    assert!(
        checks
            .run(&url, "")
            .0
            .contains("the disks were not looked at")
    );
    let syntax = "Syntax error: failed at position 1 ('CHECK'). (SYNTAX_ERROR)";
    proxy.set(answering(&[(
        "CHECK GRANT",
        Fault::Refusal(400, 62, syntax.into()),
    )]));
    checks.accepts(&url, "");
    assert!(
        checks
            .run(&url, "")
            .0
            .contains("this server cannot say what is granted")
    );
    // And what no statement fixes.
    let wrong = "headwater: Authentication failed: password is incorrect, or there is no user with such name. \
                 (AUTHENTICATION_FAILED)";
    proxy.set(answering(&[("", Fault::Refusal(403, 516, wrong.into()))]));
    let (text, code) = checks.run(&url, "");
    assert!(
        text.contains("✗ sink wh") && text.contains("check user and password"),
        "{text}"
    );
    assert_eq!(code, Some(4));
}

#[test]
fn a_server_that_takes_nothing_for_a_while_is_waited_for_and_nothing_is_lost() {
    let _turn = one_at_a_time();
    let mut way = Way::new(
        Flavour::Mysql97,
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO shop.t VALUES (1,0),(2,0)",
        QUICK,
    );
    way.assert_same("shop.t");
    let reads = ["GRANT SELECT ON *.*"];
    let faults = [
        (Admin::readonly(1), "READONLY", "SETTINGS readonly = 0"),
        (Admin::full(), "NOT_ENOUGH_SPACE", "disk is full: make room"),
        (Admin::granting(&reads), "ACCESS_DENIED", "headwater check"),
        (Admin::readonly(2), "READONLY", "SETTINGS readonly = 0"),
    ];
    for (number, (admin, code, hint)) in faults.iter().enumerate() {
        way.target.restart_as(admin);
        // Rows, and a statement: neither may be set aside for what is not their fault.
        way.server.sql().exec(&format!(
            "UPDATE shop.t SET v = v + 1; INSERT INTO shop.t (id, v) VALUES ({0},{0}); DELETE FROM shop.t WHERE id \
             = {0} - 1 AND id > 10; ALTER TABLE shop.t ADD COLUMN c{0} INT NOT NULL DEFAULT {0}; INSERT INTO \
             shop.fence VALUES ({0})",
            number + 100
        ));
        let what = format!("{code} is in the status");
        let status = way.pipeline.wait_status(&what, LIMIT, |status| {
            let sink = &status["sinks"]["wh"];
            sink["state"] == "retrying"
                && sink["error"]
                    .as_str()
                    .is_some_and(|error| error.contains(code))
        });
        let sink = &status["sinks"]["wh"];
        assert!(
            sink["error"]
                .as_str()
                .is_some_and(|error| error.contains(hint)),
            "{sink}"
        );
        assert_eq!(sink["parked"], serde_json::json!([]), "{sink}");
        assert_eq!(status["source"]["phase"], "streaming", "capture goes on");
        way.target.restart_as(&Admin::default());
        way.assert_same("shop.t");
        assert_eq!(way.parked(), serde_json::json!([]));
    }
    // What `check` asks for is all that the sink needs: copies, rows, folds and every statement.
    let rights =
        "SELECT, INSERT, ALTER TABLE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, TRUNCATE";
    way.target.restart_as(&Admin::granting(&[
        &format!("GRANT {rights} ON shop.*"),
        &format!("GRANT {rights} ON headwater.*"),
        "GRANT SELECT ON system.*",
    ]));
    for change in [
        "CREATE TABLE shop.n (id INT PRIMARY KEY, v INT); INSERT INTO shop.n VALUES (1,1),(2,2)",
        "DELETE FROM shop.n WHERE id = 1",
        "ALTER TABLE shop.n ADD COLUMN w INT NOT NULL DEFAULT 1, MODIFY v BIGINT",
        "RENAME TABLE shop.n TO shop.m; INSERT INTO shop.m VALUES (3,3,3)",
        "RENAME TABLE shop.m TO shop.n; TRUNCATE TABLE shop.n; INSERT INTO shop.n VALUES (4,4,4)",
    ] {
        way.server.sql().exec(change);
        way.fence();
        assert_eq!(way.parked(), serde_json::json!([]), "{change}");
    }
    way.assert_same("shop.n");
    way.resnapshot("shop.n");
    way.assert_same("shop.n");
    way.server.sql().exec("DROP TABLE shop.n");
    way.fence();
    assert_eq!(way.tables_like("n"), "");
    way.pipeline.stop();
}
