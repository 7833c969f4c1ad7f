//! A random history through a real Kafka in every format, over kills and a broker that restarts: what a
//! reader with `read_committed` applies, key by key, is the source's tables. And what a second pipeline
//! makes of those messages is the same.

mod in_formats;

use in_formats::{
    CANAL_DTS, Change, Columns, DEBEZIUM, DTS_AVRO, SHAREPLEX, assert_rebuilds, canal, debezium,
    dts, shareplex, tables,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::rng::{Rng, seed};
use testkit::topics::Topics;
use testkit::workload::{self, FENCE, Pace, Writers};
use testkit::{Flavour, Kafka, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(180);
const KILLS: u64 = 8;

/// A sink of each format: name, format, options.
const FORMATS: [(&str, &str, &str); 4] = [
    ("dts", "dts-avro", "{}"),
    ("shareplex", "shareplex-json", "{}"),
    (
        "debezium",
        "debezium-json",
        "{decimal: string, schema: inline}",
    ),
    ("canal", "canal-json", "{flavour: dts}"),
];

fn sink(name: &str, kafka: &Kafka, format: &str, options: &str) -> String {
    format!(
        "  - name: {name}\n    batch_delay: 5ms\n    kafka:\n      brokers: [\"{}\"]\n      \
         topic: \"{name}.{{table}}\"\n      create_topics: {{partitions: 3, replication: 1}}\n      timeout_s: 15\n      \
         format: {format}\n      format_options: {options}\n",
        kafka.bootstrap()
    )
}

/// Another pipeline, which reads what a sink wrote, and hands it on in the same format: DTS's in one that
/// is compared in a second, not in half a minute.
fn reader(name: &str, kafka: &Kafka, format: &str, options: &str) -> Pipeline {
    let topics = ["signed", "unsigned", "pair", "decimals", "fence"].map(|t| format!("{name}.{t}"));
    let keys = match format {
        // Its messages do not tell them.
        "shareplex-json" => {
            "{shop.signed: [id], shop.unsigned: [id], shop.pair: [a, b], shop.decimals: [id]}"
        }
        _ => "{}",
    };
    let (out, out_options) = match format {
        "dts-avro" => ("canal-json", "{flavour: dts}"),
        _ => (format, options),
    };
    let config = format!(
        "source:\n  topic:\n    kafka: {{brokers: [\"{}\"]}}\n    topics: [{}]\n    keys: {keys}\n    \
         format: {format}\n    format_options: {options}\n\
         sinks:\n  - name: out\n    batch_delay: 5ms\n    \
         file: {{path: out, format: {out}, format_options: {out_options}}}\n",
        kafka.bootstrap(),
        topics.join(", ")
    );
    let mut reader = Pipeline::new(BINARY, &config);
    reader.start();
    reader
}

/// What a reader has handed on, once nothing is behind.
fn handed_on(reader: &mut Pipeline) -> Vec<u8> {
    let caught_up = reader.wait_status("nothing is behind", LIMIT, |status| {
        let (source, out) = (&status["source"], &status["sinks"]["out"]);
        source["phase"] == "streaming" && source["lag_bytes"] == 0 && out["lag_rows"] == 0
    });
    let parked = &caught_up["source"]["parked"];
    assert!(parked.as_array().is_none_or(Vec::is_empty), "{parked}");
    reader.stop();
    std::fs::read(reader.folder().join("out")).expect("the sink wrote")
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
        + &FORMATS
            .map(|(name, format, options)| sink(name, &kafka, format, options))
            .concat()
        + &sink("part", &kafka, "shareplex-json", "{}")
        + "    tables: [signed, pair, fence]\n";
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
    for name in FORMATS.map(|(name, ..)| name).iter().chain(&["part"]) {
        topics.wait_for(&format!("{name}.fence"), FENCE, LIMIT);
    }
    eprintln!("delivered after {:?}", since.elapsed());
    pipeline.stop();
    let mut readers = FORMATS.map(|(name, format, options)| reader(name, &kafka, format, options));
    let mut sql = server.sql();
    sql.exec("SET time_zone = '+00:00'");
    let messages = |name: &str| {
        let mut messages = Vec::new();
        let prefix = format!("{name}.");
        topics.each(&prefix, |_, _, _, value| messages.push(value.to_vec()));
        messages
    };
    for (name, ..) in FORMATS {
        let (changes, columns) = changes(name, &messages(name));
        assert_rebuilds(name, changes, &mut sql, &tables, columns);
    }
    eprintln!("rebuilt after {:?}", since.elapsed());
    let (all, part) = (counted(&topics, "shareplex."), counted(&topics, "part."));
    assert!(all > part, "{all} operations of all tables, {part} of some");
    // A second pipeline takes the same out of the messages, and says the same of it.
    for ((name, ..), reader) in FORMATS.iter().zip(&mut readers) {
        let bytes = handed_on(reader);
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
        let lines: Vec<Vec<u8>> = lines.filter(|line| !line.is_empty()).collect();
        let (changes, columns) = match *name {
            // The labels of an ENUM are all that DTS's messages tell of it.
            "dts" => (changes("canal", &lines).0, &DTS_AVRO),
            _ => changes(name, &lines),
        };
        let what = format!("{name}, read by another pipeline");
        assert_rebuilds(&what, changes, &mut sql, &tables, columns);
    }
    eprintln!("read by others after {:?}", since.elapsed());
}

/// What SharePlex's messages say of their place in their transaction: `seq` runs from 1 to `size` over all
/// that was sent of it, to whichever topics. Returns how many operations share their transaction.
fn counted(topics: &Topics, prefix: &str) -> usize {
    let mut transactions: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    // Where each transaction's messages are, for one that is not whole.
    let mut places_of: BTreeMap<String, BTreeMap<(String, i32), usize>> = BTreeMap::new();
    topics.each(prefix, |topic, partition, _, value| {
        let message: Value = serde_json::from_slice(value).expect("it is JSON");
        let meta = &message["meta"];
        let number = |name: &str| meta[name].as_u64().expect("a number");
        let (seq, size) = (number("seq"), number("size"));
        assert_eq!(meta["idx"], format!("{seq}/{size}"));
        let scn = meta["scn"].as_str().expect("a text").to_owned();
        let counts = places_of.entry(scn.clone()).or_default();
        *counts.entry((topic.to_owned(), partition)).or_default() += 1;
        transactions.entry(scn).or_default().push((seq, size));
    });
    for (scn, places) in &mut transactions {
        places.sort_unstable();
        let size = places.len() as u64;
        let expected: Vec<(u64, u64)> = (1..=size).map(|seq| (seq, size)).collect();
        let stand = &places_of[scn];
        assert_eq!(
            *places, expected,
            "{prefix}: transaction {scn} in {stand:?}"
        );
    }
    let shared = transactions.values().filter(|places| places.len() > 1);
    shared.map(Vec::len).sum()
}

/// A sink's messages as changes, and how its values are asked of the server.
fn changes(name: &str, messages: &[Vec<u8>]) -> (Vec<Change>, &'static Columns) {
    let each = |decode: fn(&[u8]) -> Vec<Change>| messages.iter().flat_map(|m| decode(m)).collect();
    match name {
        "dts" => (dts(messages), &DTS_AVRO),
        "shareplex" => (each(shareplex), &SHAREPLEX),
        "debezium" => (each(debezium), &DEBEZIUM),
        _ => (each(canal), &CANAL_DTS),
    }
}
