//! The live source on real servers. They take a while: `cargo test -p source-mysql -- --ignored`.

mod support;

use change::Source;
use source_mysql::config::SnapshotMode;
use source_mysql::config::{Endpoint, TlsConfig};
use source_mysql::wire::Connection;
use source_mysql::{MysqlSource, Resume};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Server, World, compare, run, run_to_head, sections};

const LIMIT: Duration = Duration::from_secs(60);

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
            "versioned",
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
        for seed in 0..4 {
            let stop = &stop;
            scope.spawn(move || write(port, seed * 77 + 5, stop));
        }
        let end = Instant::now() + Duration::from_secs(40);
        loop {
            let mut source = MysqlSource::open(config.clone(), world.resume()).unwrap();
            let slice = Instant::now() + Duration::from_millis(1500);
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
        stop.store(true, Ordering::Relaxed);
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
