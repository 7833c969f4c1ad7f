//! Bad input of every kind: a clear error that says what, where and what to do, the documented exit
//! code, and nothing lost.

use std::io::BufReader;
use std::path::Path;
use std::time::Duration;
use testkit::rebuild::Rebuilt;
use testkit::topics::Topics;
use testkit::{Flavour, Kafka, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(60);

fn server() -> MysqlServer {
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    server.sql().exec(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v MEDIUMTEXT); \
         INSERT INTO shop.t VALUES (1, 'one'), (2, 'two')",
    );
    server
}

fn to_file(server: &MysqlServer) -> Pipeline {
    let sink = "sinks:\n  - {name: archive, file: {path: out.jsonl}}\n";
    Pipeline::new(BINARY, &(server.source_yaml("\"shop.*\"", &[]) + sink))
}

fn assert_file_equals(pipeline: &Pipeline, server: &MysqlServer) {
    let file = std::fs::File::open(pipeline.folder().join("out.jsonl")).expect("the sink wrote");
    let mut rebuilt = Rebuilt::from_one_order();
    rebuilt.read_lines(BufReader::new(file));
    rebuilt.assert_equals("file", &mut server.sql(), &["shop.t".to_owned()]);
}

#[test]
fn a_config_with_faults_ends_with_2_and_says_where() {
    let config = "source:\n  mysql:\n    url: mysql://a@127.0.0.1:1\n    tabels: [\"x.*\"]\n";
    let ended = Pipeline::new(BINARY, config).run_to_end(LIMIT);
    ended.assert(2, &["shop.yaml:4", "tabels", "did you mean `tables`?"]);
    let config = "source: {mysql: {url: \"mysql://a@127.0.0.1:1\", tables: [\"nodot\"]}}\n";
    Pipeline::new(BINARY, config)
        .run_to_end(LIMIT)
        .assert(2, &["nodot", "database.table"]);
}

#[test]
fn wrong_password_missing_grant_and_statement_format_end_with_3() {
    let _turn = one_at_a_time();
    let server = server();
    let config = to_file(&server);
    let text = std::fs::read_to_string(config.folder().join("shop.yaml")).expect("it is there");
    let user = server.url();
    let wrong = format!("mysql://root:wrong@127.0.0.1:{}", server.port());
    let ended = Pipeline::new(BINARY, &text.replace(&user, &wrong)).run_to_end(LIMIT);
    ended.assert(3, &["Access denied", "127.0.0.1"]);

    server.sql().exec(
        "CREATE USER bare@'127.0.0.1' IDENTIFIED BY 'x'; GRANT SELECT ON shop.* TO bare@'127.0.0.1'",
    );
    let bare = format!("mysql://bare:x@127.0.0.1:{}", server.port());
    let ended = Pipeline::new(BINARY, &text.replace(&user, &bare)).run_to_end(LIMIT);
    ended.assert(3, &["GRANT", "REPLICATION"]);

    server.sql().exec("SET GLOBAL binlog_format = 'STATEMENT'");
    to_file(&server)
        .run_to_end(LIMIT)
        .assert(3, &["binlog_format is STATEMENT", "SET PERSIST"]);
}

#[test]
fn a_purged_position_and_another_server_behind_the_name_end_with_3() {
    let _turn = one_at_a_time();
    let first = server();
    let mut pipeline = to_file(&first);
    pipeline.start();
    pipeline.wait_file("out.jsonl", "\"two\"", LIMIT);
    pipeline.stop();
    let mut sql = first.sql();
    sql.exec("INSERT INTO shop.t VALUES (3, 'three'); FLUSH BINARY LOGS");
    let last = first.binlogs().pop().expect("there is a log");
    let name = last
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    sql.exec(&format!("PURGE BINARY LOGS TO '{name}'"));
    pipeline.run_to_end(LIMIT).assert(3, &["purged", "hint"]);

    let port = first.port();
    drop(first);
    let second = MysqlServer::start_at(Flavour::Mysql97, &[], port);
    second
        .sql()
        .exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v MEDIUMTEXT)");
    pipeline
        .run_to_end(LIMIT)
        .assert(3, &["never executed", "hint"]);
}

#[test]
fn a_recording_that_is_bent_or_cut_ends_with_3_and_says_where() {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/recording/shop.binlog");
    let whole = std::fs::read(recording).expect("the recording is there");
    let config = "source: {recorded: {files: [log.000001]}}\n";
    for (offset, bit) in [(2000, 1), (100_000, 0x80), (900_000, 4), (1_640_000, 2)] {
        let mut pipeline = Pipeline::new(BINARY, config);
        let mut bent = whole.clone();
        bent[offset] ^= bit;
        std::fs::write(pipeline.folder().join("log.000001"), bent).expect("it can be written");
        pipeline.run_to_end(LIMIT).assert(3, &["log.000001"]);
    }
    let mut pipeline = Pipeline::new(BINARY, config);
    let cut = &whole[..whole.len() - 10];
    std::fs::write(pipeline.folder().join("log.000001"), cut).expect("it can be written");
    pipeline.run_to_end(LIMIT).assert(3, &["log.000001"]);
}

#[test]
fn two_processes_and_a_damaged_journal_end_with_5_and_a_torn_tail_goes_on() {
    let _turn = one_at_a_time();
    let server = server();
    let mut pipeline = to_file(&server);
    pipeline.start();
    pipeline.wait_file("out.jsonl", "\"two\"", LIMIT);
    let second = pipeline.command(&["run"], &[]);
    assert_eq!(second.status.code(), Some(5));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&pipeline.pid().to_string()), "{said}");
    for id in 10..200 {
        server.sql().exec(&format!(
            "INSERT INTO shop.t VALUES ({id}, REPEAT('x', 500))"
        ));
    }
    pipeline.wait_file("out.jsonl", "\"199\"", LIMIT);
    pipeline.kill();

    // The torn tail of a power cut: half a frame of garbage.
    let segment = pipeline.segments().pop().expect("there is a segment");
    let mut bytes = std::fs::read(&segment).expect("it can be read");
    let whole = bytes.clone();
    bytes.extend_from_slice(&[0x5a; 700]);
    std::fs::write(&segment, &bytes).expect("it can be written");
    server
        .sql()
        .exec("INSERT INTO shop.t VALUES (1000, 'after the torn tail')");
    pipeline.start();
    pipeline.wait_file("out.jsonl", "after the torn tail", LIMIT);
    pipeline.stop();
    assert_file_equals(&pipeline, &server);

    let mut bent = whole;
    let middle = bent.len() / 2;
    bent[middle] ^= 1;
    std::fs::write(&segment, bent).expect("it can be written");
    let name = segment
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    pipeline.run_to_end(LIMIT).assert(5, &[&name, "hint"]);
}

#[test]
fn a_lost_journal_is_refused_and_recovers_from_the_sinks_cursor() {
    let _turn = one_at_a_time();
    let server = server();
    let mut pipeline = to_file(&server);
    pipeline.start();
    pipeline.wait_file("out.jsonl", "\"two\"", LIMIT);
    server.sql().exec("INSERT INTO shop.t VALUES (3, 'three')");
    pipeline.wait_file("out.jsonl", "\"three\"", LIMIT);
    pipeline.stop();
    server
        .sql()
        .exec("INSERT INTO shop.t VALUES (4, 'four'); DELETE FROM shop.t WHERE id = 1");
    std::fs::remove_dir_all(pipeline.journal()).expect("the journal can be lost");
    pipeline
        .run_to_end(LIMIT)
        .assert(4, &["another journal", "--recover"]);
    std::fs::remove_dir_all(pipeline.journal()).expect("the journal can be lost again");
    pipeline.start_with(&["--recover"]);
    server.sql().exec("INSERT INTO shop.t VALUES (5, 'five')");
    pipeline.wait_file("out.jsonl", "\"five\"", LIMIT);
    pipeline.stop();
    assert_file_equals(&pipeline, &server);
}

#[test]
fn kafka_that_is_away_is_waited_for_and_a_refused_record_parks_only_its_key() {
    let _turn = one_at_a_time();
    let server = server();
    let mut kafka = Kafka::not_started(&[]);
    let config = |bytes: u32| {
        server.source_yaml("\"shop.*\"", &[])
            + &format!(
                "sinks:\n  - {{name: events, kafka: {{brokers: [\"{}\"], message_bytes_max: \
                 {bytes}}}}}\n",
                kafka.bootstrap()
            )
    };
    let (small, large) = (config(20_000), config(1_000_000));
    let mut pipeline = Pipeline::new(BINARY, &small);
    pipeline.start();
    pipeline.wait_said("trying again", LIMIT);
    kafka.try_start().expect("Kafka starts");
    let topics = Topics::new(&kafka.bootstrap());
    topics.wait_for("shop.t", "\"two\"", LIMIT);

    let mut sql = server.sql();
    sql.exec("INSERT INTO shop.t VALUES (3, REPEAT('x', 100000))");
    sql.exec("UPDATE shop.t SET v = 'smaller' WHERE id = 3");
    sql.exec("INSERT INTO shop.t VALUES (4, 'four')");
    topics.wait_for("shop.t", "\"four\"", LIMIT);
    let status = pipeline.wait_status("the key is parked", LIMIT, |status| {
        status["sinks"]["events"]["parked"][0]["keys"] == 1
    });
    let parked = &status["sinks"]["events"]["parked"][0];
    assert_eq!(parked["table"], "shop.t");
    assert_eq!(parked["target"], "topic shop.t");
    assert!(
        parked["reason"]
            .as_str()
            .is_some_and(|why| why.contains("key columns: id"))
    );
    pipeline.stop();

    pipeline.reconfigure(&large);
    pipeline.start();
    pipeline.wait_status("it streams", LIMIT, |status| {
        status["sinks"]["events"]["state"] == "running"
    });
    pipeline.done(&["heal"], &["shop.t"]);
    pipeline.stop();
    let mut rebuilt = topics.rebuild("shop.");
    rebuilt.assert_equals("Kafka", &mut sql, &["shop.t".to_owned()]);
}

#[test]
fn a_full_journal_pauses_capture_and_loses_nothing() {
    let _turn = one_at_a_time();
    let server = server();
    let config = server.source_yaml("\"shop.*\"", &[])
        + "journal: {segment_size: 1MiB, disk_max: 4MiB, compression: none, retention: 1s}\n\
           sinks:\n  - {name: archive, file: {path: out.jsonl}}\n";
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_file("out.jsonl", "\"two\"", LIMIT);
    pipeline.done(&["pause"], &["archive"]);
    let mut sql = server.sql();
    for id in 100..160 {
        sql.exec(&format!(
            "INSERT INTO shop.t VALUES ({id}, REPEAT('y', 150000))"
        ));
    }
    pipeline.wait_status("capture is paused", LIMIT, |status| {
        status["journal"]["state"]
            .as_str()
            .is_some_and(|state| state.starts_with("full"))
    });
    pipeline.done(&["resume"], &["archive"]);
    sql.exec("INSERT INTO shop.t VALUES (999, 'after the pause')");
    pipeline.wait_file("out.jsonl", "after the pause", LIMIT);
    pipeline.stop();
    assert_file_equals(&pipeline, &server);
}
