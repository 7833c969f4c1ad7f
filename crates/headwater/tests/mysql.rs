//! Real servers: a snapshot while writers write, then the stream; what comes out rebuilds the source.

use std::io::BufReader;
use std::time::Duration;
use testkit::rebuild::Rebuilt;
use testkit::rng::{Rng, seed};
use testkit::topics::Topics;
use testkit::workload::{self, Pace, Writers};
use testkit::{Flavour, Kafka, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const MINUTES: Duration = Duration::from_secs(240);

/// Puts a last row into a table of its own, and waits until it has come out.
fn fence(server: &MysqlServer, pipeline: &mut Pipeline, file: &str) {
    let mut sql = server.sql();
    sql.exec("CREATE TABLE shop.fence (id INT PRIMARY KEY)");
    sql.exec("INSERT INTO shop.fence VALUES (424242)");
    pipeline.wait_file(file, "\"424242\"", MINUTES);
}

fn to_file(flavour: Flavour) {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(flavour, &[]);
    let tables = workload::tables(7, 2000);
    workload::create(&mut server.sql(), &tables, &mut Rng::new(7));
    let pace = Pace {
        writers: 3,
        pause: Duration::from_millis(1),
    };
    let writers = Writers::start(server.port(), &tables, 11, pace);
    writers.wait_more(50, MINUTES);
    let config = server.source_yaml("\"shop.*\"", &["snapshot_options: {chunk_rows: 200}"])
        + "sinks:\n  - {name: archive, file: {path: out.jsonl}}\n";
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_streaming(MINUTES);
    writers.wait_more(2000, MINUTES);
    writers.stop();
    fence(&server, &mut pipeline, "out.jsonl");
    pipeline.stop();
    let file = std::fs::File::open(pipeline.folder().join("out.jsonl")).expect("the sink wrote");
    let mut rebuilt = Rebuilt::from_one_order();
    rebuilt.read_lines(BufReader::new(file));
    rebuilt.assert_equals(flavour.name(), &mut server.sql(), &workload::names(&tables));
}

#[test]
fn mysql_9_7_comes_out_whole() {
    to_file(Flavour::Mysql97);
}

#[test]
fn mysql_8_0_comes_out_whole() {
    to_file(Flavour::Mysql80);
}

#[test]
fn mariadb_10_11_comes_out_whole() {
    to_file(Flavour::Mariadb10);
}

#[test]
fn mariadb_11_4_comes_out_whole() {
    to_file(Flavour::Mariadb11);
}

/// A million rows and twenty small tables, copied while writers work, to Kafka and into the journal.
fn million_to_kafka(flavour: Flavour) {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(flavour, &[]);
    let kafka = Kafka::start(&[]);
    let mut tables = workload::tables(20, 500);
    workload::create(&mut server.sql(), &tables, &mut Rng::new(3));
    tables.push(workload::create_big(&mut server.sql(), "big", 1_000_000));
    let pace = Pace {
        writers: 3,
        pause: Duration::from_millis(2),
    };
    let writers = Writers::start(server.port(), &tables, 5, pace);
    writers.wait_more(20, MINUTES);
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "sinks:\n  - {{name: events, kafka: {{brokers: [\"{}\"]}}}}\n  - {{name: archive, file: \
             {{path: out.jsonl}}}}\n",
            kafka.bootstrap()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_streaming(MINUTES);
    writers.wait_more(1000, MINUTES);
    writers.stop();
    fence(&server, &mut pipeline, "out.jsonl");
    pipeline.wait_status("the sink has everything", MINUTES, |status| {
        status["sinks"]["events"]["lag_rows"] == 0
    });
    pipeline.stop();
    let names = workload::names(&tables);
    let mut from_kafka = Topics::new(&kafka.bootstrap()).rebuild("shop.");
    from_kafka.assert_equals("Kafka", &mut server.sql(), &names);
    drop(from_kafka);
    let mut tail = pipeline.piped(&["tail"], &["--from", "earliest", "--no-follow"]);
    let mut from_journal = Rebuilt::from_one_order();
    from_journal.read_lines(BufReader::new(tail.stdout.take().expect("stdout is piped")));
    assert!(tail.wait().expect("tail ends").success());
    from_journal.assert_equals("journal", &mut server.sql(), &names);
}

#[test]
fn a_million_rows_of_mysql_arrive_in_kafka_while_writers_write() {
    million_to_kafka(Flavour::Mysql97);
}

#[test]
fn a_million_rows_of_mariadb_arrive_in_kafka_while_writers_write() {
    million_to_kafka(Flavour::Mariadb10);
}

#[test]
fn fifty_kills_lose_and_double_nothing_in_kafka_and_file() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let kafka = Kafka::start(&[]);
    let tables = workload::tables(9, 6000);
    workload::create(&mut server.sql(), &tables, &mut Rng::new(17));
    let pace = Pace {
        writers: 2,
        pause: Duration::from_millis(3),
    };
    let writers = Writers::start(server.port(), &tables, 23, pace);
    let config = server.source_yaml("\"shop.*\"", &["snapshot_options: {chunk_rows: 100}"])
        + &format!(
            "sinks:\n  - {{name: events, kafka: {{brokers: [\"{}\"]}}}}\n  - {{name: archive, file: \
             {{path: out.jsonl}}}}\n",
            kafka.bootstrap()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    let mut rng = Rng::new(seed("fifty kills"));
    for kill in 0..55 {
        pipeline.start();
        // Early kills meet the snapshot and recovery, late ones the stream and Kafka's transactions.
        let reach = if kill % 3 == 0 { 150 } else { 900 };
        std::thread::sleep(Duration::from_millis(40 + rng.draw() % reach));
        assert!(
            pipeline.is_alive(),
            "it ended by itself: {}",
            pipeline.standing()
        );
        pipeline.kill();
    }
    pipeline.start();
    pipeline.wait_streaming(MINUTES);
    writers.wait_more(200, MINUTES);
    writers.stop();
    fence(&server, &mut pipeline, "out.jsonl");
    pipeline.wait_status("the sink has everything", MINUTES, |status| {
        status["sinks"]["events"]["lag_rows"] == 0
    });
    pipeline.stop();
    let names = workload::names(&tables);
    let mut from_kafka = Topics::new(&kafka.bootstrap()).rebuild("shop.");
    println!("{}", from_kafka.summary());
    from_kafka.assert_equals("Kafka", &mut server.sql(), &names);
    let file = std::fs::File::open(pipeline.folder().join("out.jsonl")).expect("the sink wrote");
    let mut from_file = Rebuilt::from_one_order();
    from_file.read_lines(BufReader::new(file));
    from_file.assert_equals("file", &mut server.sql(), &names);
}
