//! Servers for trying things by hand, and for the benchmark.

use crate::steps::{Step, root, script, script_output};
use std::path::PathBuf;

const FOLDER: &str = "target/servers";
const MYSQL: &str = "crates/testkit/servers/mysql.sh";
const KAFKA: &str = "crates/testkit/servers/kafka.sh";
/// Flavours and ports of `servers up`.
const DATABASES: [(&str, &str); 4] = [
    ("mysql97", "23306"),
    ("mysql80", "23307"),
    ("mariadb10", "23308"),
    ("mariadb11", "23309"),
];
const KAFKA_PORT: &str = "29092";
const CLICKHOUSE: &str = "crates/testkit/servers/clickhouse.sh";
const CLICKHOUSE_PORT: &str = "28123";

fn folder(name: &str) -> String {
    root().join(FOLDER).join(name).display().to_string()
}

fn start(flavour: &str, dir: &str, port: &str) -> bool {
    match script_output(MYSQL, &["start", flavour, dir, port]) {
        Some(line) => {
            println!("{flavour}: {line} (root without a password)");
            true
        }
        None => false,
    }
}

/// Starts one of each.
pub fn up() -> bool {
    let mut all = script("crates/testkit/servers/fetch.sh", &["all"]);
    for (flavour, port) in DATABASES {
        all &= start(flavour, &folder(flavour), port);
    }
    match script_output(KAFKA, &["start", &folder("kafka"), KAFKA_PORT]) {
        Some(line) => println!("kafka: {line}"),
        None => all = false,
    }
    match script_output(
        CLICKHOUSE,
        &["start", &folder("clickhouse"), CLICKHOUSE_PORT],
    ) {
        Some(line) => println!("clickhouse: {line}"),
        None => all = false,
    }
    all
}

/// Ends them and removes their folders.
pub fn down() -> bool {
    let mut all = true;
    for (flavour, _) in DATABASES {
        let dir = folder(flavour);
        if PathBuf::from(&dir).join("flavour").exists() {
            all &= script(MYSQL, &["kill", &dir]);
        }
    }
    let kafka = folder("kafka");
    if PathBuf::from(&kafka).join("server.properties").exists() {
        all &= script(KAFKA, &["kill", &kafka]);
    }
    let clickhouse = folder("clickhouse");
    if PathBuf::from(&clickhouse).join("port").exists() {
        all &= script(CLICKHOUSE, &["kill", &clickhouse]);
    }
    let _ = std::fs::remove_dir_all(root().join(FOLDER));
    all
}

/// Runs the binary's benchmark against a fresh MySQL 9.7.
pub fn bench(more: &[&str]) -> bool {
    let dir = folder("bench");
    let port = "23310";
    let _ = std::fs::remove_dir_all(&dir);
    if !start("mysql97", &dir, port) {
        return false;
    }
    let url = format!("mysql://root@127.0.0.1:{port}");
    let mut arguments = vec![
        "run",
        "--release",
        "--package",
        "headwater",
        "--",
        "bench",
        "--url",
        &url,
    ];
    arguments.extend(more);
    let done = Step::cargo("bench", &arguments).run();
    script(MYSQL, &["kill", &dir]);
    let _ = std::fs::remove_dir_all(&dir);
    done
}
