//! The live source on real servers. They take a while: `cargo test -p source-mysql -- --ignored`.

mod support;

use source_mysql::config::SnapshotMode;
use source_mysql::{MysqlSource, Resume};
use std::time::Duration;
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
    let differences = compare(&by_log, &by_copy);
    println!(
        "{flavour}: {} rows by log, {} by copy, {} differ",
        by_log.row_count(),
        by_copy.row_count(),
        differences.len()
    );
    differences.iter().take(40).for_each(|line| println!("  {line}"));
    by_log.faults.iter().for_each(|line| println!("  {line}"));
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
