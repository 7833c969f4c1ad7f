//! The database and the broker crash and come back while the pipeline runs: it goes on by itself, and
//! nothing is lost or doubled. And a disk that is really full.

use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testkit::rebuild::Rebuilt;
use testkit::rng::{Rng, seed};
use testkit::topics::Topics;
use testkit::workload::{self, Pace, Writers};
use testkit::{Flavour, Kafka, MysqlServer, Pipeline, TempDir, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(120);

/// What a killed server has told its clients is committed must be so: its log goes to the kernel.
const SAFE: &[&str] = &["--innodb-flush-log-at-trx-commit=2"];

fn fence(server: &MysqlServer, pipeline: &mut Pipeline, topics: &Topics) {
    server
        .sql()
        .exec("CREATE TABLE shop.fence (id INT PRIMARY KEY)");
    server.sql().exec("INSERT INTO shop.fence VALUES (424242)");
    pipeline.wait_file("out.jsonl", "\"424242\"", LIMIT);
    topics.wait_for("shop.fence", "\"424242\"", LIMIT);
}

fn outages(flavour: Flavour) {
    let _turn = one_at_a_time();
    let seed = seed(flavour.name());
    let server = MysqlServer::start(flavour, SAFE);
    let kafka = Kafka::start(&[]);
    let tables = workload::tables(7, 3000);
    workload::create(&mut server.sql(), &tables, &mut Rng::new(seed));
    let config = server.source_yaml("\"shop.*\"", &["snapshot_options: {chunk_rows: 100}"])
        + &format!(
            "sinks:\n  - {{name: events, kafka: {{brokers: [\"{}\"]}}}}\n  - {{name: archive, file: \
             {{path: out.jsonl}}}}\n",
            kafka.bootstrap()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_status("it copies", LIMIT, |status| {
        let phase = &status["source"]["phase"];
        phase == "snapshot" || phase == "streaming"
    });
    let pace = Pace {
        writers: 3,
        pause: Duration::from_millis(1),
    };
    for round in 0..4 {
        let writers = Writers::start(server.port(), &tables, seed + round, pace);
        writers.wait_more(150, LIMIT);
        if round % 2 == 1 {
            kafka.kill();
            writers.wait_more(150, LIMIT);
            kafka.restart();
        }
        writers.stop();
        server.kill();
        server.restart(&[]);
    }
    let writers = Writers::start(server.port(), &tables, seed + 9, pace);
    pipeline.wait_streaming(LIMIT);
    writers.wait_more(200, LIMIT);
    writers.stop();
    let topics = Topics::new(&kafka.bootstrap());
    fence(&server, &mut pipeline, &topics);
    pipeline.stop();
    let names = workload::names(&tables);
    let mut from_kafka = topics.rebuild("shop.");
    from_kafka.assert_equals("Kafka", &mut server.sql(), &names);
    let file = std::fs::File::open(pipeline.folder().join("out.jsonl")).expect("the sink wrote");
    let mut from_file = Rebuilt::from_one_order();
    from_file.read_lines(BufReader::new(file));
    from_file.assert_equals("file", &mut server.sql(), &names);
}

#[test]
fn crashes_of_mysql_and_kafka_lose_and_double_nothing() {
    outages(Flavour::Mysql97);
}

#[test]
fn crashes_of_mariadb_and_kafka_lose_and_double_nothing() {
    outages(Flavour::Mariadb10);
}

/// A small file system of its own; none where mounting is not allowed.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new(size: &str) -> Option<Self> {
        let dir = TempDir::new("disk");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir.path())
            .output();
        mount
            .is_ok_and(|output| output.status.success())
            .then_some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn a_full_disk_ends_with_5_and_the_place_and_goes_on_once_there_is_room() {
    let _turn = one_at_a_time();
    let Some(disk) = SmallDisk::new("24m") else {
        println!("left out: this user may not mount a file system");
        return;
    };
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v MEDIUMBLOB)");
    sql.exec("INSERT INTO shop.t VALUES (1, 'one')");
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "journal: {{dir: \"{0}/journal\", segment_size: 4MiB}}\nsinks:\n  - {{name: archive, \
             file: {{path: out.jsonl}}}}\n",
            disk.path().display()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_file("out.jsonl", "\"one\"", LIMIT);
    for id in 10..60 {
        sql.exec(&format!(
            "INSERT INTO shop.t VALUES ({id}, RANDOM_BYTES(1000))"
        ));
        sql.exec(&format!(
            "UPDATE shop.t SET v = CONCAT({}) WHERE id = {id}",
            vec!["RANDOM_BYTES(1000)"; 500].join(",")
        ));
    }
    let ended = pipeline.wait_end(LIMIT);
    ended.assert(5, &["No space left", "journal", "hint"]);

    // Still full: the same again, and nothing is harmed.
    pipeline
        .run_to_end(LIMIT)
        .assert(5, &["No space left", "hint"]);

    let bigger = Command::new("mount")
        .args(["-o", "remount,size=400m"])
        .arg(disk.path())
        .status();
    assert!(
        bigger.is_ok_and(|status| status.success()),
        "there is room now"
    );
    pipeline.start();
    sql.exec("INSERT INTO shop.t VALUES (999, 'room again')");
    pipeline.wait_file("out.jsonl", "room again", LIMIT);
    pipeline.stop();
    let file = std::fs::File::open(pipeline.folder().join("out.jsonl")).expect("the sink wrote");
    let mut rebuilt = Rebuilt::from_one_order();
    rebuilt.read_lines(BufReader::new(file));
    rebuilt.assert_equals("file", &mut sql, &["shop.t".to_owned()]);
}

#[test]
fn a_full_disk_of_a_file_sink_is_waited_for_and_loses_nothing() {
    let _turn = one_at_a_time();
    let Some(disk) = SmallDisk::new("1m") else {
        println!("left out: this user may not mount a file system");
        return;
    };
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v MEDIUMTEXT)");
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "sinks:\n  - {{name: archive, file: {{path: \"{}/out.jsonl\"}}}}\n  - {{name: other, \
             file: {{path: other.jsonl}}}}\n",
            disk.path().display()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    for id in 0..30 {
        sql.exec(&format!(
            "INSERT INTO shop.t VALUES ({id}, REPEAT('z', 100000))"
        ));
    }
    // Messages are larger than the end of the file that is looked at: a small one comes last.
    sql.exec("INSERT INTO shop.t VALUES (424242, 'last')");
    // The other sink goes on; this one says what is wrong.
    pipeline.wait_file("other.jsonl", "\"424242\"", LIMIT);
    pipeline.wait_status("the sink tells its trouble", LIMIT, |status| {
        let sink = &status["sinks"]["archive"];
        sink["error"]
            .as_str()
            .is_some_and(|error| error.contains("No space left"))
    });
    let bigger = Command::new("mount")
        .args(["-o", "remount,size=100m"])
        .arg(disk.path())
        .status();
    assert!(
        bigger.is_ok_and(|status| status.success()),
        "there is room now"
    );
    pipeline.wait_status("everything is delivered", LIMIT, |status| {
        status["sinks"]["archive"]["lag_rows"] == 0
    });
    pipeline.stop();
    let file = std::fs::File::open(disk.path().join("out.jsonl")).expect("the sink wrote");
    let mut rebuilt = Rebuilt::from_one_order();
    rebuilt.read_lines(BufReader::new(file));
    rebuilt.assert_equals("file", &mut sql, &["shop.t".to_owned()]);
}
