//! How soon a SELECT in ClickHouse shows a commit of the source. Runs alone: it measures.

use std::time::{Duration, Instant};
use testkit::{ClickHouse, Flavour, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(120);

/// Commits a second, in the measurement.
const COMMITS_PER_SECOND: u32 = 100;

/// A reader's view of a steady stream of commits: for each of them, how long until a SELECT of `t` shows it.
#[test]
fn a_commit_is_visible_within_a_second() {
    let _turn = one_at_a_time();
    const COMMITS: usize = 3000;
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let target = ClickHouse::start();
    let mut sql = server.sql();
    sql.exec(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, last INT NOT NULL, note VARCHAR(100)); \
         INSERT INTO shop.t VALUES (0, 0, '')",
    );
    // Folds come and go meanwhile, as with the defaults on a busier table.
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "sinks:\n  - {{name: wh, clickhouse: {{url: \"{}\", fold: {{age_ms: 200, grace_ms: 50}}}}}}\n",
            target.url()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    let mut http = target.client();
    http.wait("SELECT count() FROM shop.t", "1", LIMIT);
    let (told, committed) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let begun = Instant::now();
        for number in 1..=COMMITS {
            let due = begun + Duration::from_secs(1) * number as u32 / COMMITS_PER_SECOND;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            sql.exec(&format!(
                "BEGIN; UPDATE shop.t SET last = {number} WHERE id = 0; INSERT INTO shop.t VALUES ({number}, 0, \
                 'some text that a row may have'); COMMIT"
            ));
            told.send((number, Instant::now()))
                .expect("the reader lives");
        }
        begun.elapsed()
    });
    let mut took: Vec<Duration> = Vec::with_capacity(COMMITS);
    let mut waiting = std::collections::VecDeque::new();
    let end = Instant::now() + LIMIT;
    while took.len() < COMMITS {
        assert!(Instant::now() < end, "{}", pipeline.standing());
        let found = http.query("SELECT sum(last), count() FROM shop.t");
        let seen = Instant::now();
        let (last, count) = found.split_once('\t').expect("two numbers");
        let last: usize = last.parse().expect("a number");
        assert_eq!(count, (last + 1).to_string(), "a transaction is seen whole");
        waiting.extend(committed.try_iter());
        while waiting.front().is_some_and(|(number, _)| *number <= last) {
            let (_, at) = waiting.pop_front().expect("it was just looked at");
            took.push(seen.saturating_duration_since(at));
        }
    }
    let lasted = writer.join().expect("the writer ends");
    took.sort();
    let (middle, p99) = (took[COMMITS / 2], took[COMMITS * 99 / 100]);
    eprintln!(
        "commit to visible at {:.0} commits/s: p50 {middle:?}, p99 {p99:?}, most {:?}",
        COMMITS as f64 / lasted.as_secs_f64(),
        took[COMMITS - 1]
    );
    assert!(p99 < Duration::from_secs(1), "{p99:?}");
    pipeline.stop();
}
