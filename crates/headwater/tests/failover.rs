//! The database fails over to a replica: the pipeline goes on there by GTIDs, and nothing is lost or
//! doubled, whether it lived through it or was killed at the worst moment.

use std::io::BufReader;
use std::time::Duration;
use testkit::rebuild::Rebuilt;
use testkit::rng::{Rng, seed};
use testkit::workload::{self, Pace, Writers};
use testkit::{Flavour, MysqlServer, Pipeline, Switch, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(120);

/// What a killed server has told its clients is committed must be so: its log goes to the kernel.
const SAFE: &[&str] = &["--innodb-flush-log-at-trx-commit=2"];

/// Writes on `server` for a while.
fn write(server: &MysqlServer, tables: &[workload::Table], seed: u64, count: u64) {
    let pace = Pace {
        writers: 3,
        pause: Duration::from_millis(1),
    };
    let writers = Writers::start(server.port(), tables, seed, pace);
    writers.wait_more(count, LIMIT);
    writers.stop();
}

/// Takes `from` away; its replica takes over.
fn fail_over(from: &MysqlServer, to: &MysqlServer, switch: &Switch) {
    to.wait_for(from);
    from.kill();
    to.unfollow();
    switch.over_to(to.port());
}

fn failover(flavour: Flavour) {
    let _turn = one_at_a_time();
    let seed = seed(flavour.name());
    let first = MysqlServer::start(flavour, SAFE);
    let second = MysqlServer::start(flavour, SAFE);
    second.forget();
    second.follow(&first);
    let tables = workload::tables(4, 2000);
    workload::create(&mut first.sql(), &tables, &mut Rng::new(seed));
    let switch = Switch::before(first.port());
    let source = first
        .source_yaml("\"shop.*\"", &["snapshot_options: {chunk_rows: 100}"])
        .replace(&first.port().to_string(), &switch.port().to_string());
    let config = source + "sinks:\n  - {name: archive, file: {path: out.jsonl}}\n";
    let mut pipeline = Pipeline::new(BINARY, &config);

    // It lives through the failover, in the midst of its copy.
    pipeline.start();
    pipeline.wait_status("it copies", LIMIT, |status| {
        let phase = &status["source"]["phase"];
        phase == "snapshot" || phase == "streaming"
    });
    write(&first, &tables, seed, 200);
    fail_over(&first, &second, &switch);
    write(&second, &tables, seed + 1, 200);
    pipeline.wait_streaming(LIMIT);

    // Back again, while it is down; then it is killed before it has read anything of the new server.
    first.restart(&[]);
    first.follow(&second);
    pipeline.kill();
    write(&second, &tables, seed + 2, 200);
    fail_over(&second, &first, &switch);
    for round in 0..6 {
        pipeline.start();
        std::thread::sleep(Duration::from_millis(60 + 90 * round));
        pipeline.kill();
    }
    write(&first, &tables, seed + 3, 200);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    workload::fence(&mut first.sql());
    pipeline.wait_file("out.jsonl", workload::FENCE, LIMIT);
    pipeline.stop();

    let file = std::fs::File::open(pipeline.folder().join("out.jsonl")).expect("the sink wrote");
    let mut rebuilt = Rebuilt::from_one_order();
    rebuilt.read_lines(BufReader::new(file));
    rebuilt.assert_equals("file", &mut first.sql(), &workload::names(&tables));
}

#[test]
fn mysql_fails_over_and_back() {
    failover(Flavour::Mysql97);
}

#[test]
fn mariadb_fails_over_and_back() {
    failover(Flavour::Mariadb10);
}
