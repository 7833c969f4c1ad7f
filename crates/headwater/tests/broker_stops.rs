//! The only broker is stopped in order, again and again, while transactions run. It then confirms
//! commits that it does not write to all of their partitions: what the sinks were told is not what is
//! there. Every sink still delivers each change once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use testkit::rng::{Rng, seed};
use testkit::topics::Topics;
use testkit::workload::{self, Key, Pace, Table, Writers};
use testkit::{Flavour, Kafka, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(120);
const ROUNDS: u64 = 4;
/// One stop seldom meets one sink in the moment of its commit.
const SINKS: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

fn sink(name: &str, kafka: &Kafka) -> String {
    format!(
        "  - name: {name}\n    batch_delay: 5ms\n    kafka:\n      brokers: [\"{}\"]\n      \
         topic: \"{name}.{{table}}\"\n      create_topics: {{partitions: 3, replication: 1}}\n      \
         timeout_s: 15\n",
        kafka.bootstrap()
    )
}

/// Ids of the rows that a sink delivered; panics when one came twice.
fn delivered(topics: &Topics, sink: &str) -> BTreeSet<u64> {
    let mut ids: BTreeMap<u64, String> = BTreeMap::new();
    topics.each(&format!("{sink}."), |topic, partition, _, value| {
        let message: serde_json::Value =
            serde_json::from_slice(value).expect("the message is JSON");
        if message["isDdl"] == true {
            return;
        }
        let id = message["id"].as_u64().expect("a message has an id");
        let place = format!("{topic}/{partition}");
        if let Some(first) = ids.insert(id, place.clone()) {
            panic!("{id} came twice: {first} and {place}");
        }
    });
    ids.into_keys().collect()
}

#[test]
fn commits_that_a_stopping_broker_confirms_but_does_not_write_are_delivered_again() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let kafka = Kafka::start(&[]);
    let tables = [
        Table::new("signed", Key::Signed, 300),
        Table::new("pair", Key::Pair, 300),
        Table::new("decimals", Key::Decimal, 300),
    ];
    workload::create(&mut server.sql(), &tables, &mut Rng::new(41));
    let config = server.source_yaml("\"shop.*\"", &[])
        + "sinks:\n"
        + &SINKS.map(|name| sink(name, &kafka)).concat();
    let mut pipeline = Pipeline::new(BINARY, &config);
    let mut rng = Rng::new(seed("broker stops"));
    let pace = Pace {
        writers: 2,
        pause: Duration::from_millis(2),
    };
    let writers = Writers::start(server.port(), &tables, 43, pace);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    for round in 0..ROUNDS {
        std::thread::sleep(Duration::from_millis(500 + rng.below(1000)));
        kafka.stop();
        if round % 2 == 0 {
            pipeline.kill();
        }
        kafka.restart();
        if round % 2 == 0 {
            pipeline.start();
        }
        assert!(pipeline.is_alive(), "{}", pipeline.standing());
    }
    pipeline.wait_streaming(LIMIT);
    writers.wait_more(100, LIMIT);
    writers.stop();
    let mut sql = server.sql();
    sql.exec("CREATE TABLE shop.fence (id INT PRIMARY KEY)");
    sql.exec("INSERT INTO shop.fence VALUES (424242)");
    let topics = Topics::new(&kafka.bootstrap());
    for name in SINKS {
        topics.wait_for(&format!("{name}.fence"), "424242", LIMIT);
    }
    pipeline.stop();
    // As many partitions as the config says, not as the broker makes by itself.
    let partitions = topics.partitions("one.signed");
    assert_eq!(partitions.len(), 3, "{partitions:?}");
    let first = delivered(&topics, SINKS[0]);
    for name in &SINKS[1..] {
        let others = delivered(&topics, name);
        let differ: Vec<_> = first.symmetric_difference(&others).take(5).collect();
        assert!(
            differ.is_empty(),
            "{} and {name} differ: {differ:?}",
            SINKS[0]
        );
    }
    let names = workload::names(&tables);
    let mut rebuilt = topics.rebuild(&format!("{}.", SINKS[0]));
    rebuilt.assert_equals("Kafka", &mut sql, &names);
}
