//! A random history through a real RocketMQ in every format, over kills and a broker that restarts: what
//! a reader that drops repeats applies, key by key, is the source's tables. And what one pipeline wrote
//! to RocketMQ, another reads and journals, over kills of its own.
#![cfg(feature = "rocketmq")]

mod in_formats;

use in_formats::{
    CANAL_DTS, Change, DEBEZIUM, DTS_AVRO, SHAREPLEX, assert_rebuilds, canal, debezium, dts,
    shareplex, tables,
};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use testkit::rebuild::Rebuilt;
use testkit::rng::{Rng, seed};
use testkit::workload::{self, FENCE, Pace, Writers};
use testkit::{Flavour, MysqlServer, Pipeline, RocketMq, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(180);
const KILLS: u64 = 8;

fn sink(name: &str, rocketmq: &RocketMq, format: &str, options: &str) -> String {
    format!(
        "  - name: {name}\n    batch_delay: 5ms\n    rocketmq:\n      name_servers: [\"{}\"]\n      \
         topic: \"{name}-{{table}}\"\n      create_topics: {{queues: 3}}\n      timeout_s: 15\n      \
         format: {format}\n      format_options: {options}\n",
        rocketmq.namesrv()
    )
}

/// Waits until a topic has a message with the fence in it.
fn wait_fence(rocketmq: &RocketMq, topic: &str) {
    let end = Instant::now() + LIMIT;
    loop {
        if rocketmq.topics().iter().any(|name| name == topic) {
            let messages = rocketmq.messages(topic);
            let has_fence = |body: &[u8]| String::from_utf8_lossy(body).contains(FENCE);
            if messages.iter().any(|message| has_fence(&message.body)) {
                return;
            }
        }
        assert!(Instant::now() < end, "no {FENCE} in {topic}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A sink's messages, queue by queue, each once: what came again has the same id, queue and content.
/// Returns how many came again too.
fn delivered(rocketmq: &RocketMq, sink: &str) -> (Vec<Vec<u8>>, usize) {
    let mut bodies = Vec::new();
    let mut repeats = 0;
    for topic in rocketmq.topics() {
        if !topic.starts_with(&format!("{sink}-")) {
            continue;
        }
        let mut seen: HashMap<String, (u32, Vec<u8>)> = HashMap::new();
        for message in rocketmq.messages(&topic) {
            let id = message.properties["headwater_id"].clone();
            let this = (message.queue, message.body);
            match seen.get(&id) {
                Some(before) => {
                    assert!(*before == this, "{topic}: {id} came again and differs");
                    repeats += 1;
                }
                None => {
                    bodies.push(this.1.clone());
                    seen.insert(id, this);
                }
            }
        }
    }
    (bodies, repeats)
}

#[test]
fn every_format_rebuilds_the_source_over_kills_and_a_broker_s_restarts() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let rocketmq = RocketMq::start(&[]);
    let tables = tables();
    workload::create(&mut server.sql(), &tables, &mut Rng::new(41));
    let pace = Pace {
        writers: 2,
        pause: Duration::from_millis(8),
    };
    let writers = Writers::start(server.port(), &tables, 43, pace);
    // What comes again has the same bytes, if it does not tell when it was written.
    let debezium_options = "{ts: commit, decimal: string}";
    let canal_options = "{ts: commit, flavour: dts}";
    let config = server.source_yaml("\"shop.*\"", &["snapshot_options: {chunk_rows: 50}"])
        + "sinks:\n"
        + &sink("dts", &rocketmq, "dts-avro", "{ts: commit}")
        + &sink("shareplex", &rocketmq, "shareplex-json", "{ts: commit}")
        + &sink("debezium", &rocketmq, "debezium-json", debezium_options)
        + &sink("canal", &rocketmq, "canal-json", canal_options);
    let mut pipeline = Pipeline::new(BINARY, &config);
    let mut rng = Rng::new(seed("formats over kills, RocketMQ"));
    let since = Instant::now();
    for kill in 0..KILLS {
        pipeline.start();
        std::thread::sleep(Duration::from_millis(500 + rng.below(2000)));
        assert!(pipeline.is_alive(), "{}", pipeline.standing());
        if kill == KILLS / 4 {
            rocketmq.stop();
            rocketmq.restart();
        }
        if kill == KILLS / 2 {
            rocketmq.kill();
            rocketmq.restart();
            // It finds the broker again before it is killed too.
            std::thread::sleep(Duration::from_secs(3));
        }
        pipeline.kill();
    }
    eprintln!("killed after {:?}", since.elapsed());
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    writers.wait_more(200, LIMIT);
    writers.stop();
    workload::fence(&mut server.sql());
    for name in ["dts", "shareplex", "debezium", "canal"] {
        wait_fence(&rocketmq, &format!("{name}-fence"));
    }
    eprintln!("delivered after {:?}", since.elapsed());
    pipeline.stop();
    let mut sql = server.sql();
    sql.exec("SET time_zone = '+00:00'");
    let read = |sink: &str| {
        let (bodies, repeats) = delivered(&rocketmq, sink);
        eprintln!("{sink}: {} messages, {repeats} came again", bodies.len());
        bodies
    };
    let decode = |bodies: Vec<Vec<u8>>, decode: &dyn Fn(&[u8]) -> Vec<Change>| {
        bodies.iter().flat_map(|body| decode(body)).collect()
    };
    let changes = dts(&read("dts"));
    assert_rebuilds("dts-avro", changes, &mut sql, &tables, &DTS_AVRO);
    let changes = decode(read("shareplex"), &shareplex);
    assert_rebuilds("shareplex", changes, &mut sql, &tables, &SHAREPLEX);
    let changes = decode(read("debezium"), &debezium);
    assert_rebuilds("debezium", changes, &mut sql, &tables, &DEBEZIUM);
    let changes = decode(read("canal"), &canal);
    assert_rebuilds("canal, DTS", changes, &mut sql, &tables, &CANAL_DTS);
}

#[test]
fn what_one_pipeline_writes_another_reads_once_over_kills() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let rocketmq = RocketMq::start(&[]);
    let tables = tables();
    workload::create(&mut server.sql(), &tables, &mut Rng::new(51));
    let pace = Pace {
        writers: 2,
        pause: Duration::from_millis(8),
    };
    let topics = ["signed", "unsigned", "pair", "decimals", "fence"].map(|t| format!("chain-{t}"));
    for topic in &topics {
        rocketmq.create_topic(topic, 3);
    }
    let writing = server.source_yaml("\"shop.*\"", &["snapshot_options: {chunk_rows: 50}"])
        + "sinks:\n"
        + &sink("chain", &rocketmq, "canal-json", "{}");
    let reading = format!(
        "source:\n  topic:\n    rocketmq: {{name_servers: [\"{}\"]}}\n    topics: [{}]\n\
         sinks: [{{name: out, batch_delay: 5ms, file: {{path: out.json}}}}]\n",
        rocketmq.namesrv(),
        topics.join(", ")
    );
    let mut writer = Pipeline::new(BINARY, &writing);
    let mut reader = Pipeline::new(BINARY, &reading);
    let writers = Writers::start(server.port(), &tables, 53, pace);
    writer.start();
    let mut rng = Rng::new(seed("chain over kills"));
    for _ in 0..KILLS {
        reader.start();
        std::thread::sleep(Duration::from_millis(500 + rng.below(1500)));
        assert!(reader.is_alive(), "{}", reader.standing());
        reader.kill();
    }
    writer.wait_streaming(LIMIT);
    writers.wait_more(200, LIMIT);
    writers.stop();
    workload::fence(&mut server.sql());
    wait_fence(&rocketmq, "chain-fence");
    writer.stop();
    // The broker crashes while the reader is at the rest.
    reader.start();
    reader.wait_streaming(LIMIT);
    rocketmq.kill();
    rocketmq.restart();
    let caught_up = reader.wait_status("nothing is behind", LIMIT, |status| {
        let (source, out) = (&status["source"], &status["sinks"]["out"]);
        source["phase"] == "streaming" && source["lag_bytes"] == 0 && out["lag_rows"] == 0
    });
    let parked = &caught_up["source"]["parked"];
    assert!(parked.as_array().is_none_or(Vec::is_empty), "{parked}");
    reader.stop();
    let count: usize = topics.iter().map(|t| rocketmq.messages(t).len()).sum();
    let file = std::fs::File::open(reader.folder().join("out.json")).expect("there is a file");
    let mut rebuilt = Rebuilt::from_one_order();
    rebuilt.read_lines(std::io::BufReader::new(file));
    // Each message once.
    assert_eq!(rebuilt.messages, count as u64);
    let names = workload::names(&tables);
    rebuilt.assert_equals("read from RocketMQ", &mut server.sql(), &names);
}
