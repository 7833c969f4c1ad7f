//! A table that capture set aside: what the journal kept of it is decoded again, in order and once.

use std::time::Duration;
use testkit::rng::{Rng, seed};
use testkit::topics::Topics;
use testkit::{Flavour, Kafka, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(90);

fn config(server: &MysqlServer, kafka: &Kafka, columns: &[&str]) -> String {
    server.source_yaml("\"shop.*\"", columns)
        + &format!(
            "sinks:\n  - {{name: events, kafka: {{brokers: [\"{}\"]}}}}\n  - {{name: lines, file: {{path: lines.jsonl}}}}\n",
            kafka.bootstrap()
        )
}

/// The texts of column `v` in a message's rows, with the kind of change.
fn rows_of(message: &serde_json::Value, table: &str) -> Vec<String> {
    if message["table"] != table || message["isDdl"] == true {
        return Vec::new();
    }
    let kind = message["type"].as_str().unwrap_or_default();
    let rows = message["data"].as_array().into_iter().flatten();
    rows.map(|row| format!("{kind} {}", row["v"].as_str().unwrap_or("NULL")))
        .collect()
}

/// Those of a table's lines, in order.
fn told(pipeline: &Pipeline, table: &str) -> Vec<String> {
    let text = std::fs::read_to_string(pipeline.folder().join("lines.jsonl")).expect("the file");
    let lines = text.lines();
    lines
        .flat_map(|line| rows_of(&serde_json::from_str(line).expect("JSON"), table))
        .collect()
}

fn replayed(flavour: Flavour) {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(flavour, &[]);
    let kafka = Kafka::start(&[]);
    let topics = Topics::new(&kafka.bootstrap());
    let mut sql = server.sql();
    sql.exec(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, b INT NOT NULL, v TEXT)",
    );
    sql.exec("CREATE TABLE shop.other (id INT PRIMARY KEY, v TEXT); INSERT INTO shop.t VALUES (1, 10, 'copied')");
    let excluding = ["columns: {\"shop.t\": {exclude: [b]}}"];
    let mut pipeline = Pipeline::new(BINARY, &config(&server, &kafka, &excluding));
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    pipeline.wait_file("lines.jsonl", "copied", LIMIT);
    // The excluded column becomes a part of the key: rows could not be told apart.
    sql.exec("ALTER TABLE shop.t DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)");
    for n in 0..40 {
        sql.exec(&format!("INSERT INTO shop.t VALUES (2, {n}, 'kept {n}'); INSERT INTO shop.other VALUES ({n}, 'beside {n}')"));
    }
    sql.exec("BEGIN; UPDATE shop.t SET v = 'changed' WHERE b = 7; DELETE FROM shop.t WHERE b = 8; COMMIT");
    pipeline.wait_file("lines.jsonl", "beside 39", LIMIT);
    let status = pipeline.wait_status("it is parked", LIMIT, |status| {
        status["source"]["parked"][0][0] == "shop.t"
            && status["sinks"]["lines"]["parked"][0]["target"] == "capture"
    });
    assert_eq!(status["sinks"]["lines"]["parked"][0]["table"], "shop.t");
    // The cause is still there: nothing changes, and it is said.
    let refused = pipeline.command(&["heal"], &["shop.t"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("is part of the key of shop.t"),
        "{said}"
    );
    assert!(
        told(&pipeline, "t")
            .iter()
            .all(|row| row == "INSERT copied"),
        "{:?}",
        told(&pipeline, "t")
    );

    pipeline.stop();
    pipeline.reconfigure(&config(&server, &kafka, &[]));
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    sql.exec("INSERT INTO shop.t VALUES (3, 1, 'still parked')");
    pipeline.wait_status("the last is kept", LIMIT, |status| {
        status["source"]["lag_bytes"] == 0
    });
    let healed = pipeline.done(&["heal"], &["shop.t"]);
    // Once more: there is nothing left to do.
    assert!(
        !pipeline.command(&["heal"], &["shop.t"]).status.success(),
        "{healed}"
    );
    sql.exec("INSERT INTO shop.t VALUES (4, 1, 'live again')");
    pipeline.wait_file("lines.jsonl", "live again", LIMIT);
    topics.wait_for("shop.t", "live again", LIMIT);
    let mut expected = vec!["INSERT copied".to_owned()];
    expected.extend((0..40).map(|n| format!("INSERT kept {n}")));
    expected.extend(
        [
            "UPDATE changed",
            "DELETE kept 8",
            "INSERT still parked",
            "INSERT live again",
        ]
        .map(str::to_owned),
    );
    assert_eq!(told(&pipeline, "t"), expected);
    // In Kafka as often, each.
    let mut sent = Vec::new();
    topics.each("shop.t", |_, _, _, value| {
        let message = serde_json::from_slice(value).expect("JSON");
        sent.extend(rows_of(&message, "t"));
    });
    let mut wanted = expected.clone();
    wanted.sort_unstable();
    sent.sort_unstable();
    assert_eq!(sent, wanted);
    let status = pipeline.status().expect("a standing");
    assert_eq!(
        status["source"]["parked"].as_array().map(Vec::len),
        Some(0),
        "{status}"
    );
    assert_eq!(
        status["sinks"]["events"]["parked"].as_array().map(Vec::len),
        Some(0),
        "{status}"
    );

    // It outlives a crash, and the journal read from its beginning tells the same once more.
    pipeline.kill();
    pipeline.start();
    sql.exec("INSERT INTO shop.t VALUES (5, 1, 'after the crash')");
    pipeline.wait_file("lines.jsonl", "after the crash", LIMIT);
    expected.push("INSERT after the crash".to_owned());
    assert_eq!(told(&pipeline, "t"), expected);
    let all = pipeline.done(&["tail"], &["--from", "earliest", "--no-follow"]);
    assert_eq!(all.matches("kept 39").count(), 1, "{all}");
    pipeline.stop();
}

#[test]
fn what_capture_kept_is_decoded_again_mysql_9_7() {
    replayed(Flavour::Mysql97);
}

#[test]
fn what_capture_kept_is_decoded_again_mariadb_11_4() {
    replayed(Flavour::Mariadb11);
}

/// kill -9 while it is decoded again, at ten random moments and more: each change comes once.
#[test]
fn kills_while_it_is_decoded_again_lose_and_double_nothing() {
    const ROWS: u64 = 12_000;
    let _turn = one_at_a_time();
    let mut random = Rng::new(seed("kills while decoding again"));
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, b INT NOT NULL, v TEXT, w TEXT)");
    let lines = "sinks:\n  - {name: lines, file: {path: lines.jsonl}}\n";
    let excluding = ["columns: {\"shop.t\": {exclude: [b]}}"];
    let config = server.source_yaml("\"shop.*\"", &excluding) + lines;
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    sql.exec("ALTER TABLE shop.t DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)");
    for n in 0..ROWS {
        sql.exec(&format!(
            "INSERT INTO shop.t VALUES ({n}, 1, '{n}', REPEAT('x', 4000))"
        ));
    }
    pipeline.wait_status("all is kept", LIMIT, |status| {
        status["source"]["parked"][0][0] == "shop.t" && status["source"]["lag_bytes"] == 0
    });
    pipeline.stop();
    pipeline.reconfigure(&(server.source_yaml("\"shop.*\"", &[]) + lines));
    let (mut kills, mut live) = (0, 0);
    loop {
        pipeline.start();
        let status = pipeline.wait_streaming(LIMIT);
        if status["source"]["parked"]
            .as_array()
            .is_some_and(Vec::is_empty)
        {
            break;
        }
        if kills > 0 {
            // It is still set aside: what comes now is kept behind the rest.
            live += 1;
            let id = ROWS + live;
            sql.exec(&format!("INSERT INTO shop.t VALUES ({id}, 1, '{id}', '')"));
        }
        if kills == 25 {
            pipeline.done(&["heal"], &["shop.t"]);
            break;
        }
        let mut healing = pipeline.piped(&["heal"], &["shop.t"]);
        std::thread::sleep(Duration::from_millis(5 + random.below(400)));
        pipeline.kill();
        healing.wait().expect("it ends");
        kills += 1;
    }
    sql.exec("INSERT INTO shop.t VALUES (100000, 1, 'the last', '')");
    pipeline.wait_file("lines.jsonl", "the last", LIMIT);
    let mut expected: Vec<String> = (0..ROWS).map(|n| format!("INSERT {n}")).collect();
    expected.extend((1..=live).map(|n| format!("INSERT {}", ROWS + n)));
    expected.push("INSERT the last".to_owned());
    println!("{kills} kills, {live} rows between them");
    assert!(kills > 0);
    assert_eq!(told(&pipeline, "t"), expected);
    pipeline.stop();
}

/// A statement changed the table meanwhile: what was kept is of another structure.
#[test]
fn a_table_that_changed_meanwhile_is_to_be_copied_again() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, b INT NOT NULL, v TEXT)",
    );
    let lines = "sinks:\n  - {name: lines, file: {path: lines.jsonl}}\n";
    let excluding = ["columns: {\"shop.t\": {exclude: [b]}}"];
    let mut pipeline = Pipeline::new(
        BINARY,
        &(server.source_yaml("\"shop.*\"", &excluding) + lines),
    );
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    sql.exec("ALTER TABLE shop.t DROP PRIMARY KEY, ADD PRIMARY KEY (id, b); INSERT INTO shop.t VALUES (1, 1, 'one')");
    sql.exec("ALTER TABLE shop.t ADD COLUMN c INT; INSERT INTO shop.t VALUES (2, 2, 'two', 2)");
    pipeline.wait_status("it is parked", LIMIT, |status| {
        status["source"]["lag_bytes"] == 0 && status["source"]["parked"][0][0] == "shop.t"
    });
    pipeline.stop();
    pipeline.reconfigure(&(server.source_yaml("\"shop.*\"", &[]) + lines));
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    let refused = pipeline.command(&["heal"], &["shop.t"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("--resnapshot"),
        "{said}"
    );
    pipeline.done(&["heal"], &["shop.t", "--resnapshot"]);
    sql.exec("INSERT INTO shop.t VALUES (3, 3, 'three', 3)");
    pipeline.wait_file("lines.jsonl", "three", LIMIT);
    pipeline.stop();
}
