//! The way into a real Kafka, transactional: how fast when behind, how late when keeping up, and how
//! much memory, also through one very large transaction.

use super::backlog;
use super::measure::{Measured, Running, Workload, source_from, wire};
use crate::cli::BenchArgs;
use crate::exit::{self, Failure};
use sink_kafka::{CommittedReader, KafkaConfig};
use source_mysql::config::{Endpoint, TlsMode};
use source_mysql::wire::Connection;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rows of a large transaction have this many bytes.
const LARGE_ROW_BYTES: u64 = 64 << 10;

fn sink(brokers: &str, topic: &str) -> String {
    format!(
        "sinks:\n  - name: bench\n    kafka:\n      brokers: [\"{brokers}\"]\n      \
         topic: \"{topic}\"\n      cursor_topic: \"{topic}.cursor\"\n      create_topics: {{partitions: 4, replication: 1}}\n"
    )
}

fn topic(name: &str) -> String {
    format!("headwater_bench.{name}.{}", std::process::id())
}

fn delivered(report: &pipeline::status::Report) -> u64 {
    report.sinks.get("bench").map_or(0, |sink| sink.rows)
}

/// Captures and delivers a backlog.
pub fn behind(args: &BenchArgs, brokers: &str, workload: &Workload) -> Result<Measured, Failure> {
    let topic = topic(&format!("{}.{}", workload.table, micros_now()));
    let source = source_from(args, workload.table, &workload.from, "disabled");
    Running::start(&format!("{source}{}", sink(brokers, &topic)))?.follow(workload.rows, delivered)
}

fn micros_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}

/// Writes rows that carry their own time at a steady rate, and reads them back from Kafka.
pub fn latency(
    args: &BenchArgs,
    brokers: &str,
    endpoint: &Endpoint,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut connection = backlog::connect(endpoint, TlsMode::Disabled)?;
    let table = "CREATE TABLE headwater_bench.paced (id BIGINT AUTO_INCREMENT PRIMARY KEY, \
                 sent BIGINT, c CHAR(120), pad CHAR(60))";
    for sql in ["DROP TABLE IF EXISTS headwater_bench.paced", table] {
        connection.execute(sql).map_err(wire("make the table"))?;
    }
    let from = backlog::head(&mut connection)?;
    let topic = topic("paced");
    let config: KafkaConfig = kafka_config(brokers, &topic)?;
    let source = source_from(args, "paced", &from, "disabled");
    let mut running = Running::start(&format!("{source}{}", sink(brokers, &topic)))?;
    insert(&mut connection, 1)?;
    let ready = Instant::now();
    while running
        .report()
        .as_ref()
        .is_none_or(|report| delivered(report) == 0)
    {
        running.alive()?;
        if ready.elapsed() > Duration::from_secs(60) {
            return Err(Failure::new(
                exit::SINK,
                "deliver the first row: not done in 60 s",
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let reader = CommittedReader::at_end(&config, &topic)
        .map_err(|error| Failure::new(exit::SINK, error.to_string()))?;
    let (cpu_before, since) = (running.cpu(), Instant::now());
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (done, rate, seconds) = (Arc::clone(&done), args.rate, args.seconds);
        std::thread::spawn(move || {
            let written = pace(&mut connection, rate, seconds);
            done.store(true, Ordering::Release);
            written
        })
    };
    let late = collect(&reader, &done)?;
    let written = writer
        .join()
        .map_err(|_| Failure::new(exit::OTHER, "write rows: the writer broke off"))??;
    let found = Measured {
        rows: written,
        seconds: since.elapsed().as_secs_f64(),
        cpu_seconds: running.cpu() - cpu_before,
        memory_peak: running.memory_peak(),
    };
    report_latency(late, &found, out)
}

fn kafka_config(brokers: &str, topic: &str) -> Result<KafkaConfig, Failure> {
    serde_json::from_value(serde_json::json!({"brokers": [brokers], "topic": topic}))
        .map_err(|error| Failure::new(exit::USAGE, format!("read --kafka: {error}")))
}

/// Some rows in one statement each, all with the time before the first was sent.
fn insert(connection: &mut Connection, rows: u64) -> Result<(), Failure> {
    for _ in 0..rows {
        let now = micros_now();
        let sql = format!(
            "INSERT INTO headwater_bench.paced (sent,c,pad) VALUES ({now},'{now:0120}','{now:060}')"
        );
        connection.execute(&sql).map_err(wire("write rows"))?;
    }
    Ok(())
}

/// One-row transactions at `rate` a second; returns how many.
fn pace(connection: &mut Connection, rate: u64, seconds: u64) -> Result<u64, Failure> {
    let since = Instant::now();
    let mut written = 0;
    while since.elapsed() < Duration::from_secs(seconds) {
        let due = since.elapsed().as_micros() as u64 * rate / 1_000_000;
        insert(connection, due.saturating_sub(written))?;
        written = written.max(due);
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(written)
}

/// How late each row was, microseconds, until nothing more comes.
fn collect(reader: &CommittedReader, done: &AtomicBool) -> Result<Vec<u64>, Failure> {
    let mut late = Vec::new();
    let mut quiet = Instant::now();
    loop {
        let came = reader
            .next(Duration::from_millis(50), sent)
            .map_err(|error| Failure::new(exit::SINK, error.to_string()))?;
        match came {
            Some(sent) => {
                late.push(micros_now().saturating_sub(sent));
                quiet = Instant::now();
            }
            None if done.load(Ordering::Acquire) && quiet.elapsed() > Duration::from_secs(2) => {
                return Ok(late);
            }
            None => {}
        }
    }
}

/// The time in a row's own column, from its message.
fn sent(message: &[u8]) -> u64 {
    let name = b"\"sent\":\"";
    let digits = message
        .windows(name.len())
        .position(|window| window == name)
        .map_or(&[][..], |at| &message[at + name.len()..]);
    digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}

fn report_latency(
    mut late: Vec<u64>,
    found: &Measured,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Measured {
        rows: written,
        seconds,
        cpu_seconds: cpu,
        memory_peak,
    } = *found;
    late.sort_unstable();
    let at = |share: f64| {
        let index = (late.len() as f64 * share) as usize;
        late.get(index.min(late.len().saturating_sub(1)))
            .map_or(0.0, |micros| *micros as f64 / 1000.0)
    };
    writeln!(
        out,
        "  keeping up, {:.0} rows/s written: {} written, {} read; ms from statement to consumer: \
         p50 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.1}; {:.2} CPU s in {seconds:.0} s; {:.1} MiB",
        written as f64 / (seconds - 2.0).max(1.0),
        written,
        late.len(),
        at(0.50),
        at(0.99),
        at(0.999),
        at(1.0),
        cpu,
        memory_peak as f64 / (1 << 20) as f64,
    )?;
    Ok(())
}

/// One transaction of `mib`, through the journal and into Kafka.
pub fn large(
    args: &BenchArgs,
    brokers: &str,
    endpoint: &Endpoint,
    mib: u64,
) -> Result<Measured, Failure> {
    let mut connection = backlog::connect(endpoint, TlsMode::Disabled)?;
    let mut run = |sql: &str| {
        connection
            .execute(sql)
            .map_err(wire("make the transaction"))
    };
    run("DROP TABLE IF EXISTS headwater_bench.large")?;
    run("CREATE TABLE headwater_bench.large (id BIGINT PRIMARY KEY, body LONGTEXT)")?;
    let from = backlog::head(&mut connection)?;
    let rows = ((mib << 20) / LARGE_ROW_BYTES).max(1);
    let mut sql = String::new();
    connection
        .execute("BEGIN")
        .map_err(wire("make the transaction"))?;
    for id in 0..rows {
        sql.clear();
        // Not one letter again and again: that would compress to nothing.
        let _ = write!(sql, "INSERT INTO headwater_bench.large VALUES ({id},'");
        let mut mixed = id;
        for _ in 0..LARGE_ROW_BYTES / 16 {
            mixed = mixed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(id | 1);
            let _ = write!(sql, "{mixed:016x}");
        }
        sql.push_str("')");
        connection
            .execute(&sql)
            .map_err(wire("make the transaction"))?;
    }
    connection
        .execute("COMMIT")
        .map_err(wire("make the transaction"))?;
    let topic = topic("large");
    let source = source_from(args, "large", &from, "disabled");
    Running::start(&format!("{source}{}", sink(brokers, &topic)))?.follow(rows, delivered)
}
