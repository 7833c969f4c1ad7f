//! The live source on real servers. They take a while: `cargo test -p source-mysql -- --ignored`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may panic and print"
)]

mod support;

use change::Source;
use source_mysql::config::SnapshotMode;
use source_mysql::config::{Endpoint, TlsConfig, TlsMode};
use source_mysql::wire::Connection;
use source_mysql::{MysqlConfig, MysqlSource, Resume};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Server, World, compare, run, run_to_head, sections};

const LIMIT: Duration = Duration::from_secs(180);

/// The same rows by log and by copy give the same stored cells.
fn log_equals_copy(flavour: &str, port: u16, options: &[&str]) {
    let server = Server::start(flavour, port, options);
    let mut config = server.config(&["types.*"]);
    let mut by_log = World::default();
    let mut source = MysqlSource::open(config.clone(), Resume::default()).unwrap();
    run(&mut source, &mut by_log, LIMIT, |source, _| {
        source.status().phase == "streaming"
    });
    server.sql(&sections("vectors/types.sql", flavour));
    run_to_head(&mut source, &mut by_log, &server, LIMIT);
    assert_eq!(by_log.opaque, Vec::<String>::new());
    assert_eq!(source.status().lag_seconds.map(|s| s < 5.0), Some(true));

    config.snapshot = SnapshotMode::Only;
    let mut by_copy = World::default();
    let mut source = MysqlSource::open(config, Resume::default()).unwrap();
    let ended = run(&mut source, &mut by_copy, LIMIT, |_, _| false);
    assert!(ended, "{:?}", source.status());
    // Tables that are renamed, have no key, or keep their own history cannot be told apart by keys.
    for world in [&mut by_log, &mut by_copy] {
        for table in [
            "evolved",
            "evolves",
            "keys_none",
            "counter",
            "versioned_explicit",
        ] {
            world.rows.remove(&format!("types.{table}"));
        }
    }
    let differences = compare(&by_log, &by_copy);
    println!(
        "{flavour}: {} rows by log, {} by copy, {} differ",
        by_log.row_count(),
        by_copy.row_count(),
        differences.len()
    );
    differences
        .iter()
        .take(40)
        .for_each(|line| println!("  {line}"));
    assert!(by_copy.row_count() > 200);
    assert!(differences.is_empty());
}

#[test]
#[ignore = "starts a server"]
fn mysql97_log_equals_copy() {
    log_equals_copy("mysql97", 21197, &[]);
}

#[test]
#[ignore = "starts a server"]
fn mysql80_log_equals_copy() {
    log_equals_copy("mysql80", 21180, &[]);
}

#[test]
#[ignore = "starts a server"]
fn mariadb10_log_equals_copy() {
    log_equals_copy("mariadb10", 21110, &[]);
}

#[test]
#[ignore = "starts a server"]
fn mariadb11_log_equals_copy() {
    log_equals_copy("mariadb11", 21111, &[]);
}

/// Writes to three tables with keys of three kinds until told to stop.
/// Ends the writers of a scope with the scope's own thread, also when that fails: it waits for them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn write(port: u16, seed: u64, stop: &AtomicBool) {
    let endpoint =
        Endpoint::parse(&format!("mysql://root@127.0.0.1:{port}").as_str().into()).unwrap();
    let mut connection = Connection::open(&endpoint, &TlsConfig::default()).unwrap();
    connection.execute("SET NAMES utf8mb4").unwrap();
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    while !stop.load(Ordering::Relaxed) {
        let mut statements = Vec::new();
        for _ in 0..=random(3) {
            let id = random(25_000);
            let other = random(25_000);
            let name = random(20_000);
            statements.push(match random(10) {
                0 | 1 => format!("INSERT IGNORE INTO race.ints VALUES ({id}, {other}, 'new')"),
                2 | 3 => format!("UPDATE race.ints SET v = v + 1, t = 'upd' WHERE id = {id}"),
                4 => format!("DELETE FROM race.ints WHERE id = {id}"),
                5 => format!("UPDATE IGNORE race.ints SET id = {other} WHERE id = {id}"),
                6 => format!("UPDATE race.texts SET v = v + 1 WHERE k = 'Kéy {name}'"),
                7 => format!("UPDATE IGNORE race.texts SET k = 'kéy {id}' WHERE k = 'Kéy {name}'"),
                8 => format!(
                    "REPLACE INTO race.pairs VALUES ({}, 'b{name}', {id})",
                    name % 7
                ),
                _ => format!(
                    "DELETE FROM race.pairs WHERE a = {} AND b = 'b{name}'",
                    name % 7
                ),
            });
        }
        let ends = if random(12) == 0 {
            "ROLLBACK"
        } else {
            "COMMIT"
        };
        let mut all = vec!["BEGIN".to_owned()];
        all.extend(statements);
        all.push(ends.to_owned());
        for statement in all {
            // Deadlocks between writers are part of it.
            if connection.execute(&statement).is_err() {
                let _ = connection.execute("ROLLBACK");
                break;
            }
        }
        // Or on a busy machine they write faster than anybody reads, and no copy is ever whole.
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn fill(server: &Server) {
    let mut sql = String::from(
        "SET NAMES utf8mb4; DROP DATABASE IF EXISTS race; CREATE DATABASE race CHARACTER SET utf8mb4; USE race;
         CREATE TABLE ints (id INT PRIMARY KEY, v BIGINT, t VARCHAR(40));
         CREATE TABLE texts (k VARCHAR(60) CHARACTER SET latin1 COLLATE latin1_german1_ci PRIMARY KEY, v INT);
         CREATE TABLE pairs (a TINYINT, b VARCHAR(20), v INT, PRIMARY KEY (a, b));
         SET autocommit = 0;",
    );
    for start in (0..20_000).step_by(500) {
        let rows = |one: &dyn Fn(i32) -> String| {
            let all: Vec<String> = (start..start + 500).map(one).collect();
            all.join(",")
        };
        sql.push_str(&format!(
            "INSERT INTO ints VALUES {};",
            rows(&|i| format!("({i},{i},'old')"))
        ));
        sql.push_str(&format!(
            "INSERT INTO texts VALUES {};",
            rows(&|i| format!("('Kéy {i}',{i})"))
        ));
        sql.push_str(&format!(
            "INSERT INTO pairs VALUES {};",
            rows(&|i| format!("({},'b{i}',{i})", i % 7))
        ));
        sql.push_str("COMMIT;");
    }
    server.sql(&sql);
}

/// A copy under writers, with restarts in between, adds up to what the server has.
fn copy_under_writers(flavour: &str, port: u16, options: &[&str]) {
    let server = Server::start(flavour, port, options);
    fill(&server);
    let stop = AtomicBool::new(false);
    let mut config = server.config(&["race.*"]);
    config.snapshot_options.chunk_rows = 400;
    config.snapshot_options.threads = 3;
    let mut world = World::default();
    let mut restarts = 0;
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        for seed in 0..4 {
            let stop = &stop;
            scope.spawn(move || write(port, seed * 77 + 5, stop));
        }
        let end = Instant::now() + LIMIT;
        loop {
            let mut source = MysqlSource::open(config.clone(), world.resume()).unwrap();
            // Longer each time: on a slow machine a short life copies nothing.
            let life = Duration::from_millis(1500 + 250 * restarts);
            let slice = Instant::now() + life;
            let mut complete = false;
            run(
                &mut source,
                &mut world,
                Duration::from_secs(20),
                |source, _| {
                    complete = source.status().phase == "streaming";
                    complete || Instant::now() > slice
                },
            );
            world.drop_pending();
            if complete || Instant::now() > end {
                println!(
                    "{flavour}: copied {} rows, {restarts} restarts, trouble {:?}",
                    world.reads,
                    source.status().trouble
                );
                assert!(complete, "{:?}", source.status());
                break;
            }
            restarts += 1;
        }
        std::thread::sleep(Duration::from_millis(300));
    });
    let mut source = MysqlSource::open(config.clone(), world.resume()).unwrap();
    run_to_head(&mut source, &mut world, &server, LIMIT);
    drop(source);
    config.snapshot = SnapshotMode::Only;
    let mut truth = World::default();
    let mut source = MysqlSource::open(config, Resume::default()).unwrap();
    assert!(
        run(&mut source, &mut truth, LIMIT, |_, _| false),
        "{:?}",
        source.status()
    );
    let differences = compare(&world, &truth);
    println!(
        "{flavour}: {} rows, {} changes, {restarts} restarts, {} rows differ, faults {:?}",
        world.row_count(),
        world.changes,
        differences.len(),
        world.faults
    );
    differences
        .iter()
        .take(20)
        .for_each(|line| println!("  {line}"));
    assert!(differences.is_empty());
    assert!(world.faults.is_empty());
    assert!(world.opaque.is_empty());
}

#[test]
#[ignore = "starts a server"]
fn mysql97_copy_under_writers() {
    copy_under_writers("mysql97", 21297, &[]);
}

#[test]
#[ignore = "starts a server"]
fn mysql97_copy_under_writers_without_gtids() {
    copy_under_writers(
        "mysql97",
        21298,
        &["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"],
    );
}

#[test]
#[ignore = "starts a server"]
fn mysql80_copy_under_writers() {
    copy_under_writers("mysql80", 21280, &[]);
}

#[test]
#[ignore = "starts a server"]
fn mariadb10_copy_under_writers() {
    copy_under_writers("mariadb10", 21210, &[]);
}

fn never(server: &Server, tables: &[&str]) -> MysqlConfig {
    MysqlConfig {
        snapshot: SnapshotMode::Never,
        ..server.config(tables)
    }
}

#[test]
#[ignore = "starts a server"]
fn a_killed_server_is_waited_for_and_nothing_is_lost() {
    for (flavour, port) in [("mysql97", 21397), ("mariadb10", 21310)] {
        let options = ["--innodb-flush-log-at-trx-commit=2"];
        let server = Server::start(flavour, port, &options);
        server.sql("CREATE DATABASE k; CREATE TABLE k.t (id INT PRIMARY KEY, v INT)");
        let mut source = MysqlSource::open(never(&server, &["k.*"]), Resume::default()).unwrap();
        let mut world = World::default();
        for round in 0..3 {
            let rows: Vec<String> = (0..300)
                .map(|i| format!("INSERT INTO k.t VALUES ({}, 1);", round * 300 + i))
                .collect();
            server.sql(&rows.concat());
            run(
                &mut source,
                &mut world,
                Duration::from_millis(300),
                |_, _| false,
            );
            server.script(&["kill"], &[]);
            run(
                &mut source,
                &mut world,
                Duration::from_millis(300),
                |_, _| false,
            );
            assert_eq!(source.status().phase, "retrying");
            server.script(&["restart"], &options);
        }
        let arrived = run(&mut source, &mut world, LIMIT, |_, world| {
            world.row_count() == 900
        });
        assert!(
            arrived,
            "{flavour}: {} rows, {:?}",
            world.row_count(),
            source.status()
        );
        assert_eq!(world.faults, Vec::<String>::new());
        let idle = run(&mut source, &mut world, LIMIT, |source, _| {
            source.status().lag_bytes == Some(0)
        });
        assert!(idle, "{:?}", source.status());
        assert_eq!(source.status().lag_seconds, Some(0.0));
    }
}

#[test]
#[ignore = "starts a server"]
fn prepared_transactions_outlive_a_restart() {
    for (flavour, port) in [("mysql97", 21497), ("mariadb10", 21410)] {
        let server = Server::start(flavour, port, &[]);
        server.sql("CREATE DATABASE x; CREATE TABLE x.t (id INT PRIMARY KEY, v LONGTEXT)");
        let config = never(&server, &["x.*"]);
        let mut world = World::default();
        let mut source = MysqlSource::open(config.clone(), Resume::default()).unwrap();
        server.sql("XA START 'a'; INSERT INTO x.t VALUES (1, 'one'), (2, REPEAT('x', 300000)); XA END 'a'; XA PREPARE 'a';");
        server.sql("INSERT INTO x.t VALUES (3, 'three')");
        // The head may have been asked before the last insert: wait for the row itself.
        run(&mut source, &mut world, LIMIT, |_, world| {
            world.row_count() == 1
        });
        assert_eq!(world.row_count(), 1, "{flavour}: {:?}", source.status());
        drop(source);
        let mut source = MysqlSource::open(config, world.resume()).unwrap();
        server.sql("XA COMMIT 'a'");
        run(&mut source, &mut world, LIMIT, |_, world| {
            world.row_count() == 3
        });
        assert_eq!(world.row_count(), 3, "{flavour}");
        assert!(
            !world
                .control
                .keys()
                .any(|key| key.starts_with(b"source/xa/"))
        );
    }
}

#[test]
#[ignore = "starts a server"]
fn events_of_many_packets_and_wrong_positions() {
    let server = Server::start("mysql97", 21597, &[]);
    server.sql("CREATE DATABASE b; CREATE TABLE b.t (id INT PRIMARY KEY, v LONGBLOB)");
    let config = never(&server, &["b.*"]);
    let mut world = World::default();
    let mut source = MysqlSource::open(config.clone(), Resume::default()).unwrap();
    server.sql("INSERT INTO b.t VALUES (1, REPEAT('x', 40000000)), (2, REPEAT('y', 16777190))");
    run_to_head(&mut source, &mut world, &server, LIMIT);
    let sizes: Vec<usize> = world.rows["b.t"].values().map(Vec::len).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 40_000_000 + 16_777_190 + 2 * 7);
    drop(source);
    // The log is purged: the answer says what is gone.
    let stale = world.resume();
    server.sql("FLUSH BINARY LOGS; INSERT INTO b.t VALUES (3, 'z'); FLUSH BINARY LOGS; PURGE BINARY LOGS TO 'binlog.000004';");
    let files = server.sql("SHOW BINARY LOGS");
    let newest = files
        .lines()
        .last()
        .unwrap()
        .split('\t')
        .next()
        .unwrap()
        .to_owned();
    server.sql(&format!("PURGE BINARY LOGS TO '{newest}'"));
    let mut source = MysqlSource::open(config.clone(), stale.clone()).unwrap();
    let mut batch = change::Batch::default();
    let error = source.poll(&mut batch, Duration::from_secs(5)).unwrap_err();
    assert_eq!(error.kind, change::contract::ErrorKind::Lost, "{error}");
    assert!(error.to_string().contains("purged transactions"), "{error}");
    // Another server with another history behind the name.
    let other = Server::start("mysql97", 21598, &[]);
    let error = MysqlSource::open(never(&other, &["b.*"]), stale).unwrap_err();
    assert!(error.to_string().contains("never executed"), "{error}");
    // Two clients under one number.
    let mut config = config;
    config.server_id = Some(77);
    let mut first = MysqlSource::open(config.clone(), Resume::default()).unwrap();
    let mut second = MysqlSource::open(config, Resume::default()).unwrap();
    first.poll(&mut batch, Duration::from_millis(300)).unwrap();
    second.poll(&mut batch, Duration::from_millis(300)).unwrap();
    let mut clash = None;
    for _ in 0..20 {
        batch.clear();
        if let Err(error) = first.poll(&mut batch, Duration::from_millis(200)) {
            clash = Some(error);
            break;
        }
    }
    assert_eq!(
        clash.map(|e| e.kind),
        Some(change::contract::ErrorKind::Fenced)
    );
}

#[test]
#[ignore = "starts a server"]
fn logins_and_encryption() {
    let connect = |server: &Server, user: &str, mode: TlsMode, ca: Option<&str>| {
        let endpoint = Endpoint::parse(
            &format!("mysql://{user}:s3cr%C3%A9t@127.0.0.1:{}", server.port)
                .as_str()
                .into(),
        )
        .unwrap();
        let tls = TlsConfig {
            mode,
            ca: ca.map(|ca| server.dir.join(ca)),
            ..TlsConfig::default()
        };
        let mut connection = Connection::open(&endpoint, &tls).map_err(|e| e.to_string())?;
        connection
            .text("SELECT CURRENT_USER()")
            .map_err(|e| e.to_string())
    };
    for (flavour, port, plugins) in [
        (
            "mysql97",
            21697,
            &["caching_sha2_password", "sha256_password"][..],
        ),
        (
            "mysql80",
            21680,
            &[
                "caching_sha2_password",
                "sha256_password",
                "mysql_native_password",
            ][..],
        ),
        (
            "mariadb10",
            21610,
            &["mysql_native_password", "ed25519"][..],
        ),
        (
            "mariadb11",
            21611,
            &["mysql_native_password", "ed25519", "parsec"][..],
        ),
    ] {
        let server = Server::start(flavour, port, &[]);
        server.sql("INSTALL SONAME 'auth_ed25519'; INSTALL SONAME 'auth_parsec';");
        for plugin in plugins {
            let create = if flavour.starts_with("mariadb") {
                format!(
                    "SET NAMES utf8mb4; CREATE USER u_{plugin}@'%' IDENTIFIED VIA {plugin} USING PASSWORD('s3crét')"
                )
            } else {
                format!(
                    "SET NAMES utf8mb4; CREATE USER u_{plugin}@'%' IDENTIFIED WITH {plugin} BY 's3crét'"
                )
            };
            server.sql(&create);
            let count = server.sql(&format!(
                "SELECT COUNT(*) FROM mysql.user WHERE user = 'u_{plugin}'"
            ));
            if count.trim() == "0" {
                println!("{flavour} has no {plugin}");
                continue;
            }
            let user = format!("u_{plugin}");
            for mode in [TlsMode::Disabled, TlsMode::Preferred, TlsMode::Disabled] {
                let answer = connect(&server, &user, mode, None);
                println!("{flavour} {plugin} {mode:?}: {answer:?}");
                assert!(answer.is_ok());
            }
        }
        if flavour == "mysql97" || flavour == "mariadb10" {
            let user = format!("u_{}", plugins[0]);
            for (mode, ca, good) in [
                (TlsMode::Required, None, true),
                (TlsMode::VerifyCa, Some("tls/ca.pem"), true),
                (TlsMode::VerifyFull, Some("tls/ca.pem"), true),
                (TlsMode::VerifyCa, Some("tls/client-cert.pem"), false),
                (TlsMode::VerifyFull, None, false),
            ] {
                let answer = connect(&server, &user, mode, ca);
                println!("{flavour} {mode:?} {ca:?}: {answer:?}");
                assert_eq!(answer.is_ok(), good);
            }
        }
        let items = source_mysql::check(&server.config(&["shpo.*", "mysql.user"])).items;
        items.iter().for_each(|item| println!("  {item:?}"));
    }
}

#[test]
#[ignore = "starts a server"]
fn columns_are_excluded_and_masked_in_log_and_copy_alike() {
    let server = Server::start("mysql97", 21797, &[]);
    server.sql(
        "CREATE DATABASE m; CREATE TABLE m.t (id INT, ssn CHAR(11), email VARCHAR(90), note TEXT, tail INT, PRIMARY KEY (email, id));
         INSERT INTO m.t VALUES (1, '123', 'a@b', 'n', 7), (2, NULL, 'c@d', NULL, NULL);
         CREATE TABLE m.other (id INT PRIMARY KEY)",
    );
    let mut config = server.config(&["m.t"]);
    let columns = source_mysql::config::ColumnsConfig {
        exclude: vec!["ssn".into()],
        mask: [
            ("email".to_owned(), source_mysql::config::MaskConfig::Sha256),
            ("note".to_owned(), source_mysql::config::MaskConfig::Null),
        ]
        .into(),
    };
    config.columns.insert("m.t".into(), columns);
    let mut world = World::default();
    let mut source = MysqlSource::open(config.clone(), Resume::default()).unwrap();
    run(&mut source, &mut world, LIMIT, |source, _| {
        source.status().phase == "streaming"
    });
    server.sql("UPDATE m.t SET tail = 8; INSERT INTO m.t VALUES (3, '9', 'e@f', 'x', 1); UPDATE m.t SET email = 'g@h' WHERE id = 1;");
    run_to_head(&mut source, &mut world, &server, LIMIT);
    let schema = world.schemas.values().find(|s| s.name == "t").unwrap();
    let names: Vec<&str> = schema.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["id", "email", "note", "tail"]);
    assert_eq!(schema.primary_key, [1, 0]);
    assert!(schema.columns[1].masked && schema.columns[2].masked && !schema.columns[0].masked);
    assert_eq!(world.rows["m.t"].len(), 3);
    assert_eq!(world.faults, Vec::<String>::new());
    config.snapshot = SnapshotMode::Only;
    let mut copy = World::default();
    let mut only = MysqlSource::open(config.clone(), Resume::default()).unwrap();
    assert!(run(&mut only, &mut copy, LIMIT, |_, _| false));
    assert_eq!(compare(&world, &copy), Vec::<String>::new());
    // Changed rules make a new version of the schema, and what passes uncaptured moves the position.
    drop(source);
    config.columns.clear();
    config.snapshot = SnapshotMode::Never;
    let mut source = MysqlSource::open(config, world.resume()).unwrap();
    let before = world.position.clone().unwrap().place();
    server.sql("INSERT INTO m.other VALUES (1)");
    let moved = run(&mut source, &mut world, LIMIT, |_, world| {
        world.position.as_ref().unwrap().place() > before
    });
    assert!(moved);
    server.sql("INSERT INTO m.t VALUES (4, '4', 'i@j', 'x', 1)");
    run_to_head(&mut source, &mut world, &server, LIMIT);
    let newest = world.schemas.values().max_by_key(|s| s.version).unwrap();
    assert_eq!(newest.columns.len(), 5);
}

#[test]
#[ignore = "starts a server"]
fn ddl_is_followed_and_a_table_whose_ddl_was_missed_is_set_aside_alone() {
    for (flavour, port) in [("mysql97", 21897), ("mariadb10", 21810)] {
        let metadata = if flavour == "mysql97" {
            "MINIMAL"
        } else {
            "NO_LOG"
        };
        let server = Server::start(
            flavour,
            port,
            &[&format!("--binlog-row-metadata={metadata}")],
        );
        server.sql("CREATE DATABASE d; CREATE TABLE d.a (id INT PRIMARY KEY); CREATE TABLE d.b (id INT PRIMARY KEY); INSERT INTO d.a VALUES (1)");
        let config = server.config(&["d.*"]);
        let mut world = World::default();
        let mut source = MysqlSource::open(config.clone(), Resume::default()).unwrap();
        run(&mut source, &mut world, LIMIT, |source, _| {
            source.status().phase == "streaming"
        });
        server.sql(
            "USE d; ALTER TABLE a ADD COLUMN v VARCHAR(10) CHARACTER SET latin1, ADD w MEDIUMINT UNSIGNED FIRST;
             INSERT INTO a VALUES (5, 2, 0xE9); CREATE TABLE c LIKE a; INSERT INTO c SELECT * FROM a;
             RENAME TABLE a TO a_old, c TO a; UPDATE a SET w = 16777215; TRUNCATE TABLE b; INSERT INTO b VALUES (1);
             CREATE TABLE e (PRIMARY KEY (id)) AS SELECT id, v FROM a;",
        );
        run_to_head(&mut source, &mut world, &server, LIMIT);
        assert_eq!(world.opaque, Vec::<String>::new(), "{flavour}");
        assert_eq!(world.faults, Vec::<String>::new(), "{flavour}");
        assert_eq!(world.rows["d.a"].len(), 2);
        assert_eq!(world.rows["d.e"].len(), 2);
        drop(source);
        // While we are away a column comes and goes without a trace in the log.
        server.sql("SET sql_log_bin = 0; ALTER TABLE d.b ADD COLUMN x INT; SET sql_log_bin = 1; INSERT INTO d.b VALUES (2, 2); SET sql_log_bin = 0; ALTER TABLE d.b ADD COLUMN y INT; SET sql_log_bin = 1; INSERT INTO d.a (id) VALUES (77);");
        let mut source = MysqlSource::open(config, world.resume()).unwrap();
        run_to_head(&mut source, &mut world, &server, LIMIT);
        assert_eq!(world.opaque.len(), 1, "{flavour}");
        assert_eq!(source.status().parked.len(), 1);
        assert_eq!(source.status().parked[0].table, "d.b");
        assert_eq!(world.rows["d.a"].len(), 3);
        assert!(world.control.keys().any(|key| key == b"source/parked/d.b"));
    }
}

#[test]
#[ignore = "starts a server"]
fn tables_without_a_key_are_copied_too() {
    for (flavour, port) in [("mysql97", 21997), ("mariadb10", 21910)] {
        let server = Server::start(flavour, port, &[]);
        server.sql("CREATE DATABASE n; CREATE TABLE n.t (v INT, w VARCHAR(20)); INSERT INTO n.t VALUES (1, 'a'), (2, 'b'), (3, NULL)");
        let mut config = server.config(&["n.*"]);
        config.snapshot_options.lock = source_mysql::config::LockMode::Table;
        let mut world = World::default();
        let mut source = MysqlSource::open(config, Resume::default()).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = Ends(&stop);
            scope.spawn(|| {
                let endpoint =
                    Endpoint::parse(&format!("mysql://root@127.0.0.1:{port}").as_str().into())
                        .unwrap();
                let mut connection = Connection::open(&endpoint, &TlsConfig::default()).unwrap();
                let mut number = 10;
                while !stop.load(Ordering::Relaxed) {
                    connection
                        .execute(&format!("INSERT INTO n.t VALUES ({number}, 'x')"))
                        .unwrap();
                    connection
                        .execute(&format!(
                            "UPDATE n.t SET w = 'y{number}' WHERE v = {number}"
                        ))
                        .unwrap();
                    number += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let done = run(
                &mut source,
                &mut world,
                Duration::from_secs(30),
                |source, _| source.status().phase == "streaming",
            );
            assert!(done, "{:?}", source.status());
        });
        run_to_head(&mut source, &mut world, &server, LIMIT);
        let count: usize = server
            .sql("SELECT COUNT(*) FROM n.t")
            .trim()
            .parse()
            .unwrap();
        assert_eq!(world.row_count(), count, "{flavour}");
        assert_eq!(world.faults, Vec::<String>::new());
    }
}

#[test]
#[ignore = "starts a server"]
fn a_statement_in_the_log_sets_its_table_aside_and_so_does_a_keyless_table_that_is_too_large() {
    let server = Server::start("mysql97", 22091, &[]);
    server.sql(
        "CREATE DATABASE s; CREATE TABLE s.a (id INT PRIMARY KEY, v INT);
         CREATE TABLE s.b (id INT PRIMARY KEY, v INT); INSERT INTO s.a VALUES (1, 1);
         CREATE TABLE s.wide (t VARCHAR(4000));
         INSERT INTO s.wide SELECT REPEAT('x', 4000) FROM information_schema.columns LIMIT 600;",
    );
    let mut config = server.config(&["s.*"]);
    config.snapshot = SnapshotMode::Initial;
    config.snapshot_options.chunk_bytes_max = 1 << 20;
    let mut world = World::default();
    let mut source = MysqlSource::open(config, Resume::default()).unwrap();
    run(&mut source, &mut world, LIMIT, |source, _| {
        source.status().phase == "streaming"
    });
    server.sql(
        "SET SESSION binlog_format = 'STATEMENT'; UPDATE s.a SET v = 2 WHERE id = 1;
         SET SESSION binlog_format = 'ROW'; INSERT INTO s.b VALUES (1, 1);",
    );
    run_to_head(&mut source, &mut world, &server, LIMIT);
    let parked = source.status().parked;
    let mut names: Vec<&str> = parked.iter().map(|one| one.table.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["s.a", "s.wide"], "{parked:?}");
    let reasons: String = parked.iter().map(|one| one.reason.as_str()).collect();
    assert!(reasons.contains("chunk_bytes_max") && reasons.contains("UPDATE is in the log"));
}
