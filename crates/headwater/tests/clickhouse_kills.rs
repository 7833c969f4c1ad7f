//! kill -9 at every step of a flush, a fold and a statement, and at random moments under money transfers
//! while the engine restarts too: no reader ever sees a state that the source never had, and at the end
//! every table is the source's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testkit::clickhouse::Http;
use testkit::mirror::difference;
use testkit::rng::{Rng, seed};
use testkit::sql::{Sql, Went};
use testkit::workload::{self, Pace, Writers};
use testkit::{ClickHouse, Flavour, MysqlServer, Pipeline, one_at_a_time};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(180);
/// Accounts of each table.
const ACCOUNTS: u64 = 400;
/// What each begins with.
const START: u64 = 1000;
const READS: u64 = 20_000;
/// Kills, restarts and statements meanwhile.
const ROUNDS: u64 = 32;

/// Waits until the target's tables are the source's; the writers must have stopped.
fn wait_same(
    pipeline: &mut Pipeline,
    server: &MysqlServer,
    target: &ClickHouse,
    tables: &[String],
) {
    let end = Instant::now() + LIMIT;
    loop {
        let mut sql = server.sql();
        let mut http = target.client();
        let ready = http.try_query("SELECT 1").is_ok();
        let differences: Vec<String> = match ready {
            true => tables
                .iter()
                .filter_map(|table| {
                    let name = table.split_once('.').expect("a name").1;
                    let there = http.number(&format!(
                        "SELECT count() FROM system.tables WHERE database = 'shop' AND name = '{name}'"
                    ));
                    match there {
                        0 => Some(format!("{table} is not there")),
                        _ => difference(&mut sql, &mut http, table, table),
                    }
                })
                .collect(),
            false => vec!["the engine does not answer".into()],
        };
        if differences.is_empty() {
            return;
        }
        assert!(
            Instant::now() < end,
            "{}\n{}",
            differences.join("\n"),
            pipeline.standing()
        );
        assert!(pipeline.is_alive(), "{}", pipeline.standing());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Where the process kills itself, in the order of the work.
const POINTS: [&str; 16] = [
    "flush-load",
    "flush-rows",
    "flush-cursor",
    "flush-done",
    "fold-clone",
    "fold-mask",
    "fold-insert",
    "fold-exchange",
    "fold-view",
    "fold-note",
    "fold-drop",
    "ddl-staging",
    "ddl-view",
    "ddl-exchange",
    "ddl-view-back",
    "copy-end",
];

#[test]
fn a_kill_at_every_step_loses_and_doubles_nothing() {
    let _turn = one_at_a_time();
    let seed = seed("clickhouse-steps");
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let target = ClickHouse::start();
    let tables = workload::tables(7, 500);
    workload::create(&mut server.sql(), &tables, &mut Rng::new(seed));
    // Statements change this one: the writers' inserts name no columns.
    server.sql().exec(
        "CREATE TABLE shop.changed (id INT PRIMARY KEY, v INT); INSERT INTO shop.changed VALUES (1,1),(2,2)",
    );
    let config = server.source_yaml("\"shop.*\"", &["snapshot_options: {chunk_rows: 100}"])
        + &format!(
            "sinks:\n  - {{name: wh, batch_delay: 20ms, clickhouse: {{url: \"{}\", fold: {{rows: 500, age_ms: \
             200, duty_percent: 50, grace_ms: 50}}}}}}\n",
            target.url()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    let pace = Pace {
        writers: 2,
        pause: Duration::from_millis(5),
    };
    let writers = Writers::start(server.port(), &tables, seed, pace);
    let mut names = workload::names(&tables);
    names.push("shop.changed".into());
    for (number, point) in POINTS.iter().enumerate() {
        if point.starts_with("ddl") {
            // Before the start: what the last kill broke off is done again, and may come to the point first.
            let column = format!("c{number}");
            server.sql().exec(&format!(
                "ALTER TABLE shop.changed ADD COLUMN {column} INT NOT NULL DEFAULT {number}; UPDATE shop.changed \
                 SET v = v + 1 WHERE id = 1"
            ));
        }
        pipeline.start_in(&[], &[("HEADWATER_CRASH_AT", point)]);
        if *point == "copy-end" {
            pipeline.wait_streaming(LIMIT);
            pipeline.command(&["heal"], &[&names[1], "--resnapshot"]);
        }
        let end = Instant::now() + LIMIT;
        while pipeline.is_alive() {
            assert!(
                Instant::now() < end,
                "it never comes to {point}: {}",
                pipeline.standing()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(
            pipeline
                .said()
                .contains(&format!("HEADWATER_CRASH_AT={point}")),
            "it ended elsewhere: {}",
            pipeline.said()
        );
    }
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    writers.wait_more(200, LIMIT);
    writers.stop();
    wait_same(&mut pipeline, &server, &target, &names);
    // Nothing of former lives is left.
    let mut http = target.client();
    http.wait(
        "SELECT count() FROM system.tables WHERE database = 'shop' AND (name LIKE '%next%' OR name LIKE '%delta2' \
         OR endsWith(name, '__stg') OR endsWith(name, '__keys'))",
        "0",
        LIMIT,
    );
    let state = http.query(
        "SELECT concat('headwater.`', name, '`') FROM system.tables WHERE database = 'headwater' AND \
         startsWith(name, '_headwater')",
    );
    for table in &names {
        let name = table.split_once('.').expect("a name").1;
        http.wait(
            &format!(
                "SELECT count() FROM system.parts WHERE database = 'shop' AND table = '{name}__delta' AND active \
                 AND rows > 0 AND toUInt64OrZero(partition) <= (SELECT argMax(watermark, seq) FROM {state} WHERE key = \
                 'fold:{table}')"
            ),
            "0",
            LIMIT,
        );
    }
    pipeline.stop();
}

/// Threads that move money, in transactions over both tables.
struct Transfers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Transfers {
    fn start(port: u16, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let one = |number: u64| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut sql = Sql::root(port);
                let mut rng = Rng::new(seed + number);
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += u64::from(transfer(&mut sql, &mut rng));
                    // The engine is to answer readers too.
                    std::thread::sleep(Duration::from_millis(10));
                }
                count
            })
        };
        let threads = (0..3).map(one).collect();
        Self { stop, threads }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let counts = self
            .threads
            .into_iter()
            .map(|t| t.join().expect("a writer ends"));
        counts.sum()
    }
}

/// One transaction; true when it was committed. `balance` moves within and between the tables, `local` only
/// within one.
fn transfer(sql: &mut Sql, rng: &mut Rng) -> bool {
    let tables = ["shop.a", "shop.b"];
    let (from, to) = (*rng.pick(&tables), *rng.pick(&tables));
    let mut statements = Vec::new();
    for _ in 0..=rng.below(6) {
        let (x, y) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
        let amount = rng.below(50);
        statements.push(format!(
            "UPDATE {from} SET balance = balance - {amount} WHERE id = {x}"
        ));
        statements.push(format!(
            "UPDATE {to} SET balance = balance + {amount} WHERE id = {y}"
        ));
        statements.push(format!(
            "UPDATE {to} SET local = local - {amount} WHERE id = {x}"
        ));
        statements.push(format!(
            "UPDATE {to} SET local = local + {amount} WHERE id = {y}"
        ));
    }
    if rng.chance(20) {
        // An account goes and comes again.
        let x = rng.below(ACCOUNTS);
        statements.push(format!("DELETE-AND-INSERT {from} {x}"));
    }
    if sql.attempt("BEGIN") != Went::Done {
        return false;
    }
    for statement in &statements {
        let went = match statement.strip_prefix("DELETE-AND-INSERT ") {
            None => sql.attempt(statement),
            Some(rest) => {
                let (table, id) = rest.split_once(' ').expect("a table and an id");
                let locked = sql.attempt(&format!(
                    "SELECT id FROM {table} WHERE id = {id} FOR UPDATE"
                ));
                if locked != Went::Done {
                    sql.attempt("ROLLBACK");
                    return false;
                }
                // A locking read: a plain one in REPEATABLE READ may be older.
                let row = sql.select(&format!(
                    "SELECT balance, local FROM {table} WHERE id = {id} FOR SHARE"
                ));
                let text = |at: usize| {
                    let cell = row
                        .first()
                        .and_then(|row| row[at].clone())
                        .unwrap_or_default();
                    String::from_utf8_lossy(&cell).into_owned()
                };
                let (balance, local) = (text(0), text(1));
                match sql.attempt(&format!("DELETE FROM {table} WHERE id = {id}")) {
                    Went::Done => sql.attempt(&format!(
                        "INSERT INTO {table} (id, balance, local) VALUES ({id}, {balance}, {local})"
                    )),
                    other => other,
                }
            }
        };
        if went != Went::Done {
            sql.attempt("ROLLBACK");
            return false;
        }
    }
    sql.attempt("COMMIT") == Went::Done
}

/// What readers found.
#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    reads: AtomicU64,
    wrong: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
}

/// Readers of one query whose answer is always the same.
fn readers(
    target: &ClickHouse,
    sql: &'static str,
    right: &str,
    seen: &Arc<Seen>,
) -> JoinHandle<()> {
    let mut http: Http = target.client();
    let (seen, right) = (Arc::clone(seen), format!("{right}\n"));
    std::thread::spawn(move || {
        while !seen.stop.load(Ordering::Relaxed) {
            match http.try_query(sql) {
                Ok(body) => {
                    seen.reads.fetch_add(1, Ordering::Relaxed);
                    if body != right.as_bytes() {
                        seen.wrong.fetch_add(1, Ordering::Relaxed);
                        eprintln!(
                            "wrong: {sql}\n  {:?} not {right:?}",
                            String::from_utf8_lossy(&body)
                        );
                    }
                }
                Err(complaint) if complaint.starts_with("no answer") => {
                    seen.unanswered.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(complaint) => {
                    seen.refused.fetch_add(1, Ordering::Relaxed);
                    eprintln!("refused: {:.300}", complaint);
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    })
}

const ACROSS: &str = "SELECT (SELECT sum(balance) FROM shop.a) + (SELECT sum(balance) FROM shop.b), (SELECT \
                      count() FROM shop.a) + (SELECT count() FROM shop.b)";
const JOINED: &str = "SELECT sum(x.balance) + sum(y.balance), count() FROM shop.a AS x INNER JOIN shop.b AS y \
                      USING (id)";
const ONE: &str = "SELECT sum(local), count(), countDistinct(id) FROM shop.a";
const BASE_A: &str = "SELECT sum(local), count(), countDistinct(id) FROM shop.a__base";
const BASE_B: &str = "SELECT sum(local), count(), countDistinct(id) FROM shop.b__base";

#[test]
fn readers_see_no_wrong_state_under_transfers_statements_folds_and_kills() {
    let _turn = one_at_a_time();
    let seed = seed("clickhouse-money");
    let mut rng = Rng::new(seed);
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop");
    for table in ["a", "b"] {
        sql.exec(&format!(
            "CREATE TABLE shop.{table} (id INT PRIMARY KEY, balance BIGINT NOT NULL, local BIGINT NOT NULL)"
        ));
        for id in 0..ACCOUNTS {
            sql.exec(&format!(
                "INSERT INTO shop.{table} VALUES ({id}, {START}, {START})"
            ));
        }
    }
    let target = ClickHouse::start();
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!(
            "sinks:\n  - {{name: wh, batch_delay: 100ms, clickhouse: {{url: \"{}\", fold: {{rows: 2000, age_ms: \
             500, duty_percent: 30, grace_ms: 3000}}}}}}\n",
            target.url()
        );
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    let per_table = ACCOUNTS * START;
    let (all, one) = (
        2 * per_table,
        format!("{per_table}\t{ACCOUNTS}\t{ACCOUNTS}"),
    );
    let mut http = target.client();
    http.wait(ACROSS, &format!("{all}\t{}", 2 * ACCOUNTS), LIMIT);

    let transfers = Transfers::start(server.port(), seed);
    let seen = Arc::new(Seen::default());
    let threads = [
        readers(&target, ACROSS, &format!("{all}\t{}", 2 * ACCOUNTS), &seen),
        readers(&target, JOINED, &format!("{all}\t{ACCOUNTS}"), &seen),
        readers(&target, ONE, &one, &seen),
        readers(&target, BASE_A, &one, &seen),
        readers(&target, BASE_B, &one, &seen),
    ];
    let end = Instant::now() + Duration::from_secs(900);
    let mut round = 0;
    let mut columns = 0;
    let mut last = Instant::now();
    while seen.reads.load(Ordering::Relaxed) < READS || round < ROUNDS {
        assert!(Instant::now() < end, "too few reads: {:?}", seen.reads);
        std::thread::sleep(Duration::from_millis(100 + rng.below(900)));
        // Spread over the reads: while the engine or the process is away nobody reads.
        let is_due = seen.reads.load(Ordering::Relaxed) >= round * READS / ROUNDS;
        if !is_due && last.elapsed() < Duration::from_secs(10) {
            continue;
        }
        last = Instant::now();
        round += 1;
        match round % 4 {
            0 => {
                target.restart();
            }
            1 => {
                pipeline.kill();
                pipeline.start();
            }
            2 => {
                let table = *rng.pick(&["shop.a", "shop.b"]);
                server.sql().exec(&format!(
                    "ALTER TABLE {table} ADD COLUMN extra{columns} INT NOT NULL DEFAULT 7 AFTER id"
                ));
                columns += 1;
                let column = columns - 1;
                server.sql().exec(&format!(
                    "ALTER TABLE {table} RENAME COLUMN extra{column} TO further{column}; ALTER TABLE {table} MODIFY \
                     further{column} BIGINT NOT NULL DEFAULT 7"
                ));
                if columns % 2 == 0 {
                    server
                        .sql()
                        .exec(&format!("ALTER TABLE {table} DROP COLUMN further{column}"));
                }
            }
            _ => {
                pipeline.signal("TERM");
                pipeline.wait_end(LIMIT);
                pipeline.start();
            }
        }
    }
    seen.stop.store(true, Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|t| t.join().expect("a reader ends"));
    let count = transfers.stop();
    wait_same(
        &mut pipeline,
        &server,
        &target,
        &["shop.a".to_owned(), "shop.b".to_owned()],
    );
    let number = |n: &AtomicU64| n.load(Ordering::Relaxed);
    eprintln!(
        "{count} transactions, {} reads, {} wrong, {} refused, {} unanswered (engine restarts), {round} rounds, \
         {columns} columns",
        number(&seen.reads),
        number(&seen.wrong),
        number(&seen.refused),
        number(&seen.unanswered)
    );
    assert_eq!(number(&seen.wrong), 0);
    assert_eq!(number(&seen.refused), 0);
    pipeline.stop();
}
