//! The map's edges: which room may know which, and who may speak HTTP, run async code or serialise.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Rooms, and the rooms that each may use. Development dependencies are not counted.
const ALLOWED: [(&str, &[&str]); 18] = [
    ("change", &[]),
    ("journal", &[]),
    ("format", &["change"]),
    ("source-mysql-ddl", &["change"]),
    ("source-mysql", &["change", "source-mysql-ddl"]),
    ("source-recorded", &["change", "source-mysql"]),
    ("kafka-client", &["change"]),
    ("rocketmq-client", &["change"]),
    (
        "source-topic",
        &["change", "format", "kafka-client", "rocketmq-client"],
    ),
    ("sink-file", &["change", "format"]),
    ("sink-kafka", &["change", "format", "kafka-client"]),
    ("sink-rocketmq", &["change", "format", "rocketmq-client"]),
    ("stream", &["change", "journal"]),
    ("sink-clickhouse", &["change"]),
    ("stream-api", &["format", "stream"]),
    (
        "pipeline",
        &[
            "change",
            "format",
            "journal",
            "stream",
            "source-mysql",
            "source-recorded",
            "source-topic",
            "sink-file",
            "sink-kafka",
            "sink-rocketmq",
            "sink-clickhouse",
            "stream-api",
        ],
    ),
    (
        "headwater",
        &[
            "change",
            "format",
            "journal",
            "stream",
            "pipeline",
            "source-mysql",
            "source-recorded",
            "source-topic",
            "sink-file",
            "sink-kafka",
            "sink-rocketmq",
            "sink-clickhouse",
        ],
    ),
    ("testkit", &[]),
];

/// Crates that only some rooms may use.
const KEPT: [(&[&str], &[&str]); 6] = [
    // Who speaks HTTP.
    (
        &["axum", "hyper", "reqwest", "ureq", "warp", "tiny_http"],
        &["pipeline", "stream-api"],
    ),
    // Who runs async code of its own.
    (
        &["tokio", "async-std", "smol"],
        &[
            "pipeline",
            "source-mysql",
            "rocketmq-client",
            "sink-rocketmq",
            "sink-clickhouse",
            "stream-api",
        ],
    ),
    (
        &["rdkafka"],
        &["kafka-client", "source-topic", "sink-kafka", "testkit"],
    ),
    (
        &["rocketmq-client-rust"],
        &["rocketmq-client", "sink-rocketmq"],
    ),
    (&["clickhouse"], &["sink-clickhouse"]),
    // The client that judges ours is nobody else's.
    (&["mysql"], &["testkit"]),
];

/// What `change` and the journal refuse.
const REFUSED: [(&str, &[&str]); 2] = [
    ("change", &["serde", "serde_json", "tokio", "rdkafka"]),
    ("journal", &["serde", "tokio"]),
];

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    serde_json::from_slice(&output.stdout).expect("metadata is JSON")
}

/// Dependencies of each room, without those of its tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("there are packages");
    let one = |package: &Value| {
        let all = package["dependencies"].as_array().expect("there is a list");
        let kept = all.iter().filter(|dependency| dependency["kind"] != "dev");
        let names = kept.map(|d| d["name"].as_str().unwrap_or_default().to_owned());
        (
            package["name"].as_str().unwrap_or_default().to_owned(),
            names.collect(),
        )
    };
    packages.iter().map(one).collect()
}

#[test]
fn rooms_know_only_the_rooms_to_their_left() {
    let all = dependencies();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.into_iter().collect();
    let mut wrong = Vec::new();
    for (room, uses) in &all {
        if room == "xtask" {
            continue;
        }
        let Some(may) = allowed.get(room.as_str()) else {
            wrong.push(format!(
                "{room} is not on the map: add it here and in ARCHITECTURE.md"
            ));
            continue;
        };
        for other in uses.iter().filter(|other| all.contains_key(*other)) {
            if !may.contains(&other.as_str()) {
                wrong.push(format!("{room} must not know {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn http_async_and_clients_stay_in_their_rooms() {
    let mut wrong = Vec::new();
    for (room, uses) in &dependencies() {
        for (crates, rooms) in KEPT {
            for name in crates.iter().filter(|name| uses.contains(**name)) {
                if !rooms.contains(&room.as_str()) {
                    wrong.push(format!("{room} must not use {name}"));
                }
            }
        }
        for (refusing, names) in REFUSED {
            for name in names
                .iter()
                .filter(|name| refusing == room && uses.contains(**name))
            {
                wrong.push(format!("{room} must not use {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_map_names_every_room() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
    let map = std::fs::read_to_string(path).expect("ARCHITECTURE.md is there");
    for (room, _) in ALLOWED {
        let folder = match room.split_once('-') {
            Some((family, rest)) => format!("{family}/{rest}"),
            None => room.to_owned(),
        };
        let named = map.contains(&folder) || map.contains(room);
        assert!(named, "ARCHITECTURE.md does not name crates/{folder}");
    }
}
