//! A random history through a real Kafka in every format, over kills and a broker that restarts: what a
//! reader with `read_committed` applies, key by key, is the source's tables.

mod in_formats;

use in_formats::{
    CANAL_DTS, Change, DEBEZIUM, DTS_AVRO, SHAREPLEX, assert_rebuilds, canal, debezium, dts,
    shareplex, tables,
};
use std::time::Duration;
use testkit::rng::{Rng, seed};
use testkit::topics::Topics;
use testkit::workload::{self, FENCE, Pace, Writers};
use testkit::{Flavour, Kafka, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(180);
const KILLS: u64 = 8;

fn sink(name: &str, kafka: &Kafka, format: &str, options: &str) -> String {
    format!(
        "  - name: {name}\n    batch_delay: 5ms\n    kafka:\n      brokers: [\"{}\"]\n      \
         topic: \"{name}.{{table}}\"\n      create_topics: {{partitions: 3, replication: 1}}\n      timeout_s: 15\n      \
         format: {format}\n      format_options: {options}\n",
        kafka.bootstrap()
    )
}

#[test]
fn every_format_rebuilds_the_source_over_kills_and_a_broker_s_restart() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let kafka = Kafka::start(&[]);
    let tables = tables();
    workload::create(&mut server.sql(), &tables, &mut Rng::new(41));
    let pace = Pace {
        writers: 2,
        pause: Duration::from_millis(3),
    };
    let writers = Writers::start(server.port(), &tables, 43, pace);
    let config = server.source_yaml("\"shop.*\"", &["snapshot_options: {chunk_rows: 50}"])
        + "sinks:\n"
        + &sink("dts", &kafka, "dts-avro", "{}")
        + &sink("shareplex", &kafka, "shareplex-json", "{}")
        + &sink("debezium", &kafka, "debezium-json", "{decimal: string}")
        + &sink("canal", &kafka, "canal-json", "{flavour: dts}");
    let mut pipeline = Pipeline::new(BINARY, &config);
    let mut rng = Rng::new(seed("formats over kills"));
    let since = std::time::Instant::now();
    for kill in 0..KILLS {
        pipeline.start();
        std::thread::sleep(Duration::from_millis(300 + rng.below(1200)));
        assert!(pipeline.is_alive(), "{}", pipeline.standing());
        if kill == KILLS / 2 {
            // An orderly restart: a broker that is killed may leave a transaction undecided for good, and
            // then the sink waits for a person. See docs/guides/kafka.md.
            kafka.stop();
            kafka.restart();
        }
        pipeline.kill();
    }
    eprintln!("killed after {:?}", since.elapsed());
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    writers.wait_more(200, LIMIT);
    writers.stop();
    workload::fence(&mut server.sql());
    let topics = Topics::new(&kafka.bootstrap());
    for name in ["dts", "shareplex", "debezium", "canal"] {
        topics.wait_for(&format!("{name}.fence"), FENCE, LIMIT);
    }
    eprintln!("delivered after {:?}", since.elapsed());
    pipeline.stop();
    let mut sql = server.sql();
    sql.exec("SET time_zone = '+00:00'");
    let read = |prefix: &str, decode: &dyn Fn(&[u8]) -> Vec<Change>| {
        let mut changes = Vec::new();
        topics.each(prefix, |_, _, _, value| changes.extend(decode(value)));
        changes
    };
    let mut avro = Vec::new();
    topics.each("dts.", |_, _, _, value| avro.push(value.to_vec()));
    assert_rebuilds("dts-avro", dts(&avro), &mut sql, &tables, &DTS_AVRO);
    assert_rebuilds(
        "shareplex",
        read("shareplex.", &shareplex),
        &mut sql,
        &tables,
        &SHAREPLEX,
    );
    assert_rebuilds(
        "debezium",
        read("debezium.", &debezium),
        &mut sql,
        &tables,
        &DEBEZIUM,
    );
    assert_rebuilds(
        "canal, DTS",
        read("canal.", &canal),
        &mut sql,
        &tables,
        &CANAL_DTS,
    );
}
