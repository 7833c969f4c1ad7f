//! Commands to a running pipeline, health, metrics, and the ways in that need a secret.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use testkit::topics::Topics;
use testkit::{Flavour, Kafka, MysqlServer, Pipeline, one_at_a_time, ports};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(60);

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .expect("it takes it");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

#[test]
fn status_pause_resume_rewind_tail_heal_health_and_metrics() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v TEXT)");
    sql.exec("INSERT INTO shop.t VALUES (1, 'first')");
    let port = ports::free(1);
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "sinks:\n  - {{name: archive, file: {{path: out.jsonl}}}}\nmetrics: {{listen: \
             \"127.0.0.1:{port}\"}}\n"
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_file("out.jsonl", "\"first\"", LIMIT);
    pipeline.wait_streaming(LIMIT);
    pipeline.wait_status("idle, lag 0", LIMIT, |status| {
        status["source"]["lag_seconds"] == 0.0 && status["source"]["lag_bytes"] == 0
    });
    assert!(get(port, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(
        get(port, "/readyz").starts_with("HTTP/1.1 200"),
        "{}",
        get(port, "/readyz")
    );
    let metrics = get(port, "/metrics");
    assert!(
        metrics.contains("headwater_source_lag_bytes 0.0"),
        "{metrics}"
    );
    assert!(
        metrics.contains("headwater_sink_rows_total{sink=\"archive\"} 1"),
        "{metrics}"
    );

    pipeline.done(&["pause"], &["archive"]);
    sql.exec("INSERT INTO shop.t VALUES (2, 'while paused')");
    pipeline.wait_status("it is behind", LIMIT, |status| {
        status["sinks"]["archive"]["state"] == "paused"
            && status["sinks"]["archive"]["lag_rows"].as_u64() > Some(0)
    });
    assert!(get(port, "/readyz").starts_with("HTTP/1.1 503"));
    pipeline.done(&["resume"], &["archive"]);
    pipeline.wait_file("out.jsonl", "while paused", LIMIT);
    let tail = pipeline.done(&["tail"], &["--from", "earliest", "--no-follow"]);
    assert_eq!(tail.lines().count(), 2, "{tail}");
    pipeline.done(&["rewind"], &["archive", "--to", "earliest"]);
    pipeline.wait("everything again", LIMIT, |pipeline| {
        let path = pipeline.folder().join("out.jsonl");
        std::fs::read_to_string(path).is_ok_and(|text| text.lines().count() == 4)
    });
    assert!(!pipeline.command(&["pause"], &["nobody"]).status.success());

    // A table is copied again while its stream goes on.
    pipeline.done(&["heal"], &["shop.t", "--resnapshot"]);
    pipeline.wait("the copy", LIMIT, |pipeline| {
        let path = pipeline.folder().join("out.jsonl");
        std::fs::read_to_string(path).is_ok_and(|text| text.lines().count() == 6)
    });
    sql.exec("INSERT INTO shop.t VALUES (3, 'after the copy')");
    pipeline.wait_file("out.jsonl", "after the copy", LIMIT);

    sql.exec("INSERT INTO shop.t VALUES (4, 'last before the stop')");
    pipeline.wait_file("out.jsonl", "last before the stop", LIMIT);
    pipeline.stop();
    let stopped = pipeline.done(&["status"], &[]);
    assert!(stopped.contains("stopped"), "{stopped}");
    let check = pipeline.done(&["check"], &[]);
    assert!(check.contains("✓ mysql 9"), "{check}");
}

#[test]
fn tls_with_verification_to_mysql_and_scram_over_tls_to_kafka() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let kafka = Kafka::start(&["--sasl-ssl"]);
    server.sql().exec(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY); INSERT INTO shop.t VALUES (77)",
    );
    let ca = server.folder().join("tls/ca.pem");
    let tls = format!("tls: {{mode: verify-full, ca: \"{}\"}}", ca.display());
    let config = server.source_yaml("\"shop.*\"", &[&tls])
        + &format!(
            "sinks:\n  - name: events\n    kafka:\n      brokers: [\"{}\"]\n      security: {{protocol: \
             sasl_ssl, mechanism: SCRAM-SHA-512, username: alice, password: alice-secret, ca: \
             \"{}\"}}\n",
            kafka.bootstrap_sasl(),
            kafka.ca().display()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    Topics::new(&kafka.bootstrap()).wait_for("shop.t", "\"77\"", LIMIT);
    pipeline.stop();

    let wrong = config.replace("alice-secret", "not-it");
    let ended = Pipeline::new(BINARY, &wrong).run_to_end(LIMIT);
    ended.assert(4, &["kafka", "username and password"]);
    assert!(!ended.stderr.contains("not-it"), "{}", ended.stderr);
}
