//! kill -9 at chosen kinds of moments: while tables are copied, while Kafka transactions are open, while
//! the journal is written, while it recovers. The kinds are counted, so that none is missed by chance.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::time::{Duration, Instant};
use testkit::rebuild::Rebuilt;
use testkit::rng::{Rng, seed};
use testkit::topics::Topics;
use testkit::workload::{self, Pace, Writers};
use testkit::{Flavour, Kafka, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(120);
const KILLS: u64 = 54;
/// So many of them are aimed at the copying of tables, if it takes so long.
const KILLS_COPYING: u64 = 24;

/// What the process must have come to before it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// No matter what: mostly it recovers its journal and connects.
    Start,
    /// It copies tables.
    Copy,
    /// The Kafka sink has committed in this life, and goes on.
    Transaction,
    /// The journal has been written in this life.
    Journal,
}

impl Moment {
    fn has_come(self, status: &Value) -> bool {
        match self {
            Moment::Start => true,
            Moment::Copy => status["source"]["phase"] == "snapshot",
            Moment::Transaction => status["sinks"]["events"]["flushes"].as_u64() > Some(0),
            Moment::Journal => status["source"]["rows"].as_u64() > Some(0),
        }
    }
}

fn kills(flavour: Flavour) {
    let _turn = one_at_a_time();
    let seed = seed(flavour.name());
    let mut rng = Rng::new(seed);
    let server = MysqlServer::start(flavour, &[]);
    let kafka = Kafka::start(&[]);
    let mut tables = workload::tables(7, 2000);
    workload::create(&mut server.sql(), &tables, &mut Rng::new(seed));
    // Large enough that it is still being copied after many kills.
    tables.push(workload::create_big(&mut server.sql(), "big", 260_000));
    let pace = Pace {
        writers: 2,
        pause: Duration::from_millis(4),
    };
    let writers = Writers::start(server.port(), &tables, seed, pace);
    let config = server.source_yaml("\"shop.*\"", &["snapshot_options: {chunk_rows: 200}"])
        + &format!(
            "sinks:\n  - {{name: events, batch_delay: 5ms, kafka: {{brokers: [\"{}\"]}}}}\n  - \
             {{name: archive, file: {{path: out.jsonl, rotate_size: 20MB}}}}\n",
            kafka.bootstrap()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    let mut counts: BTreeMap<Moment, u64> = BTreeMap::new();
    let mut is_copied = false;
    for number in 0..KILLS {
        if number == KILLS_COPYING {
            // The others meet the stream.
            pipeline.start();
            pipeline.wait_streaming(LIMIT);
            pipeline.kill();
            is_copied = true;
        }
        let wanted = *match is_copied {
            false => rng.pick(&[Moment::Start, Moment::Copy, Moment::Copy]),
            true => rng.pick(&[Moment::Start, Moment::Transaction, Moment::Journal]),
        };
        pipeline.start();
        let end = Instant::now() + Duration::from_secs(4);
        let mut came = wanted == Moment::Start;
        while !came && Instant::now() < end && !(is_copied && wanted == Moment::Copy) {
            let Some(status) = pipeline.status() else {
                continue;
            };
            came = wanted.has_come(&status);
            is_copied |= status["source"]["phase"] == "streaming";
        }
        std::thread::sleep(Duration::from_micros(rng.below(120_000)));
        assert!(
            pipeline.is_alive(),
            "it ended by itself: {}",
            pipeline.standing()
        );
        pipeline.kill();
        *counts
            .entry(if came { wanted } else { Moment::Start })
            .or_default() += 1;
    }
    eprintln!("kills: {counts:?}, {} transactions", writers.transactions());
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    writers.wait_more(200, LIMIT);
    writers.stop();
    server
        .sql()
        .exec("CREATE TABLE shop.fence (id INT PRIMARY KEY)");
    server.sql().exec("INSERT INTO shop.fence VALUES (424242)");
    let topics = Topics::new(&kafka.bootstrap());
    topics.wait_for("shop.fence", "\"424242\"", LIMIT);
    pipeline.wait_status("the file has everything", LIMIT, |status| {
        status["sinks"]["archive"]["lag_rows"] == 0
    });
    pipeline.stop();

    let names = workload::names(&tables);
    let mut from_kafka = topics.rebuild("shop.");
    eprintln!("Kafka: {}", from_kafka.summary());
    from_kafka.assert_equals("Kafka", &mut server.sql(), &names);
    let mut from_file = Rebuilt::from_one_order();
    for number in 1.. {
        let path = pipeline.folder().join(format!("out.jsonl.{number:06}"));
        let Ok(file) = std::fs::File::open(path) else {
            break;
        };
        from_file.read_lines(BufReader::new(file));
    }
    from_file.assert_equals("files", &mut server.sql(), &names);
    for moment in [
        Moment::Start,
        Moment::Copy,
        Moment::Transaction,
        Moment::Journal,
    ] {
        assert!(
            counts.get(&moment) >= Some(&3),
            "too few kills at {moment:?}: {counts:?}"
        );
    }
}

#[test]
fn kills_at_every_kind_of_moment_lose_and_double_nothing_from_mysql() {
    kills(Flavour::Mysql97);
}

#[test]
fn kills_at_every_kind_of_moment_lose_and_double_nothing_from_mariadb() {
    kills(Flavour::Mariadb11);
}
