//! What reading and writing cost, as ratios to a plain MergeTree in the same run.

mod support;

use change::{Cell, ColumnType, Operation, Sink, TableSchema, Value};
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;
use support::*;
use testkit::ClickHouse;

const ROWS: i64 = 10_000_000;
/// Queries over one table, as people write them.
const QUERIES: [(&str, &str); 5] = [
    ("sum", "SELECT sum(amount), sum(qty) FROM {t}"),
    (
        "group",
        "SELECT cat, count(), sum(qty) FROM {t} GROUP BY cat ORDER BY cat",
    ),
    (
        "filter",
        "SELECT count(), max(amount) FROM {t} WHERE qty > 900",
    ),
    (
        "text",
        "SELECT count(), uniq(name) FROM {t} WHERE name LIKE '%77%'",
    ),
    (
        "wide",
        "SELECT sum(cityHash64(id, cat, amount, qty, name)) FROM {t}",
    ),
];

fn schema() -> Arc<TableSchema> {
    let decimal = ColumnType::Decimal {
        precision: 18,
        scale: 2,
        unsigned: false,
    };
    let mut table = TableSchema::clone(&table(
        "cost",
        "t",
        vec![
            column("id", INT),
            column("cat", TEXT),
            column("amount", decimal),
            column(
                "qty",
                ColumnType::Int {
                    bytes: 4,
                    unsigned: false,
                },
            ),
            column("name", TEXT),
        ],
    ));
    table
        .columns
        .iter_mut()
        .for_each(|column| column.nullable = false);
    Arc::new(table)
}

/// One row's cells, by its key and a round.
fn cells<'a>(id: i64, round: i64, texts: &'a mut [String; 3]) -> [Cell<'a>; 5] {
    let [cat, amount, name] = texts;
    cat.clear();
    amount.clear();
    name.clear();
    let _ = write!(cat, "cat{}", id % 16);
    let _ = write!(amount, "{}.{:02}", (id * 7 + round) % 100_000, id % 100);
    let _ = write!(name, "name-{}-{round}", id * 31 % 1_000_003);
    [
        int(id),
        Cell::Value(Value::Text(cat)),
        Cell::Value(Value::Decimal(amount)),
        Cell::Value(Value::Int((id + round) % 1000)),
        Cell::Value(Value::Text(name)),
    ]
}

/// CPU seconds of the engine for each query, the least of three rounds of two runs.
fn cpu(target: &ClickHouse, table: &str) -> Vec<f64> {
    let mut http = target.client().with("max_threads", "2");
    let one = |sql: &str, http: &mut testkit::clickhouse::Http| {
        let mut least = f64::MAX;
        for _ in 0..3 {
            let before = target.cpu_seconds();
            for _ in 0..2 {
                http.query(sql);
            }
            least = least.min((target.cpu_seconds() - before) / 2.0);
        }
        least
    };
    QUERIES
        .iter()
        .map(|(_, sql)| one(&sql.replace("{t}", table), &mut http))
        .collect()
}

/// Prints the ratios of each query; returns that of all together.
fn ratio(what: &str, costs: &[f64], plain: &[f64]) -> f64 {
    let mut line = format!("{what:34}");
    for ((name, _), (cost, plain)) in QUERIES.iter().zip(costs.iter().zip(plain)) {
        let _ = write!(line, " {name} {:.2}", cost / plain.max(0.005));
    }
    let all = costs.iter().sum::<f64>() / plain.iter().sum::<f64>();
    eprintln!("{line}  all {all:.2}");
    all
}

fn updates(driver: &mut Driver, table: &TableSchema, (count, deletes): (i64, i64), round: i64) {
    let (mut old, mut new) = (Default::default(), Default::default());
    driver.begin();
    for n in 0..count + deletes {
        let id = (n * 7919 + round * 104_729) % ROWS;
        let before = image(&cells(id, 0, &mut old));
        let after = image(&cells(id, round, &mut new));
        let (operation, after) = match n < count {
            true => (Operation::Update, Some(read(&after))),
            false => (Operation::Delete, None),
        };
        driver
            .row(table, operation, Some(read(&before)), after)
            .expect("the row is written");
    }
    driver.commit();
    driver.flush();
}

#[test]
fn reading_costs_little_more_than_a_plain_table() {
    let _turn = testkit::one_at_a_time();
    let target = ClickHouse::start();
    let mut http = target.client();
    let table = schema();
    let settings = json!({"fold": {"rows": 1, "age_ms": 10, "duty_percent": 100, "grace_ms": 10}});
    let mut driver = Driver::new(config(&target, settings));
    let mut texts = Default::default();
    driver.begin();
    driver.insert(&table, &cells(0, 0, &mut texts));
    driver.commit();
    driver.flush();
    driver.wait_folded();
    // The engine makes the first copy's rows itself: what is measured here is reading.
    http.query(&format!(
        "INSERT INTO cost.t__base (id, cat, amount, qty, name, _version) SELECT number + 1, concat('cat', \
         toString((number + 1) % 16)), toDecimal64((number + 1) % 100000, 2), (number + 1) % 1000, \
         concat('name-', toString((number + 1) * 31 % 1000003), '-0'), 1 FROM numbers({})",
        ROWS - 1
    ));
    for round in 1..=10 {
        updates(&mut driver, &table, (10_000, 1000), round);
        driver.wait_folded();
    }
    let plain = |http: &mut testkit::clickhouse::Http| {
        http.query("DROP TABLE IF EXISTS cost.plain");
        http.query("CREATE TABLE cost.plain (id Int64 CODEC(Delta, LZ4), cat String, amount Decimal(18, 2), qty Int32, name String) ENGINE = MergeTree ORDER BY id");
        http.query("INSERT INTO cost.plain SELECT id, cat, amount, qty, name FROM cost.t");
        http.query("OPTIMIZE TABLE cost.plain FINAL");
    };
    plain(&mut http);
    let base_cost = cpu(&target, "cost.plain");
    let of_base = cpu(&target, "cost.t__base");
    let base = ratio("t__base after 10 folds", &of_base, &base_cost);
    let base_sum = of_base[0] / base_cost[0];
    drop(driver);
    // From here on the view's own cost: both hold the same rows, merged.
    http.query("OPTIMIZE TABLE cost.t__base FINAL");
    plain(&mut http);
    let base_cost = cpu(&target, "cost.plain");
    let empty = ratio("t, nothing pending", &cpu(&target, "cost.t"), &base_cost);
    let mut driver = Driver::new(config(
        &target,
        json!({"fold": {"rows": 100_000_000, "age_ms": 80_000_000}}),
    ));
    updates(&mut driver, &table, (10_000, 0), 20);
    let ten = ratio("t, 10,000 pending", &cpu(&target, "cost.t"), &base_cost);
    updates(&mut driver, &table, (90_000, 0), 21);
    let hundred = ratio("t, 100,000 pending", &cpu(&target, "cost.t"), &base_cost);
    // Beside them: what others do, with as many changed rows.
    http.query("CREATE TABLE cost.rmt (id Int64 CODEC(Delta, LZ4), cat String, amount Decimal(18, 2), qty Int32, name String, _version UInt64, _deleted UInt8) ENGINE = ReplacingMergeTree(_version, _deleted) ORDER BY id");
    http.query("INSERT INTO cost.rmt SELECT id, cat, amount, qty, name, 1, 0 FROM cost.plain");
    for round in 0..10 {
        http.query(&format!("INSERT INTO cost.rmt SELECT id, cat, amount, qty + 1, name, 2 + {round}, 0 FROM cost.plain WHERE id % 1000 = {round}"));
    }
    ratio(
        "ReplacingMergeTree with FINAL",
        &cpu(&target, "cost.rmt FINAL"),
        &base_cost,
    );
    http.query("CREATE VIEW cost.peer AS SELECT * FROM cost.rmt FINAL WHERE _deleted = 0");
    ratio(
        "a view with FINAL, as PeerDB advises",
        &cpu(&target, "cost.peer"),
        &base_cost,
    );
    // The targets are 1.25, 1.1, 1.5 and 2 (docs/internals/benchmarks.md); other work on the machine
    // moves them, so that here only what is plainly wrong fails.
    assert!(base_sum <= 1.5, "t__base, sums alone {base_sum:.2}");
    assert!(base <= 1.9, "t__base {base:.2}");
    assert!(empty <= 1.7, "t, nothing pending {empty:.2}");
    assert!(ten <= 2.3, "t, 10,000 pending {ten:.2}");
    assert!(hundred <= 3.0, "t, 100,000 pending {hundred:.2}");
}

#[test]
fn changes_are_written_near_the_raw_rate() {
    let _turn = testkit::one_at_a_time();
    const CHANGES: i64 = 1_000_000;
    let target = ClickHouse::start();
    let table = schema();
    let mut driver = Driver::new(config(
        &target,
        json!({"fold": {"rows": 200_000, "age_ms": 2000}}),
    ));
    let (mut old, mut new) = (Default::default(), Default::default());
    let mut took = std::time::Duration::ZERO;
    let mut n = 0;
    while n < CHANGES {
        // Images are made beforehand: the source's work is not the sink's.
        let batch: Vec<_> = (n..n + 50_000)
            .map(|n| {
                let id = n * 7919 % 400_000;
                (
                    image(&cells(id, 0, &mut old)),
                    image(&cells(id, n % 100, &mut new)),
                    n % 10,
                )
            })
            .collect();
        let started = Instant::now();
        driver.begin();
        for (before, after, kind) in &batch {
            let (before, after) = (read(before), read(after));
            let done = match kind {
                0 => driver.row(&table, Operation::Delete, Some(before), None),
                1..=3 => driver.row(&table, Operation::Insert, None, Some(after)),
                _ => driver.row(&table, Operation::Update, Some(before), Some(after)),
            };
            done.expect("the row is written");
            if driver.sink.pending_bytes() > 32 << 20 {
                driver.flush();
            }
        }
        driver.commit();
        driver.flush();
        took += started.elapsed();
        n += 50_000;
    }
    let rate = CHANGES as f64 / took.as_secs_f64();
    // The same bytes, raw.
    let mut http = target.client();
    driver.wait_folded();
    drop(driver);
    http.query("CREATE TABLE cost.raw AS cost.t__base ENGINE = MergeTree ORDER BY id");
    let bytes = http
        .try_query("SELECT id, cat, amount, qty, name, toUInt64(1), toUInt64(1), toUInt64(1), toUInt64(1), toUInt64(1) FROM (SELECT * FROM cost.t UNION ALL SELECT * FROM cost.t) LIMIT 100000 FORMAT RowBinary")
        .expect("an answer");
    http.query("CREATE TABLE cost.rows (id Int64, cat String, amount Decimal(18, 2), qty Int32, name String, a UInt64, b UInt64, c UInt64, d UInt64, e UInt64) ENGINE = MergeTree ORDER BY (id, a) SETTINGS fsync_after_insert = 1, fsync_part_directory = 1");
    let started = Instant::now();
    for _ in 0..5 {
        http.insert(
            "INSERT INTO cost.rows SETTINGS async_insert = 0 FORMAT RowBinary",
            &bytes,
        );
    }
    let raw = 500_000.0 / started.elapsed().as_secs_f64();
    eprintln!(
        "{rate:.0} changes/s, folds meanwhile; raw inserts {raw:.0} rows/s; {:.2} of it",
        rate / raw
    );
    // The target is 100,000 a second or 0.6 of the raw rate, on a machine without other work.
    assert!(
        rate >= 40_000.0 || rate >= 0.3 * raw,
        "{rate:.0} of {raw:.0}"
    );
}
