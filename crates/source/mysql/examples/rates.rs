//! How fast a server's log is received, and how fast it is received and decoded.
//!
//! `cargo run --release -p source-mysql --example rates -- mysql://root@127.0.0.1:3306 FILE OFFSET FILE OFFSET`
//! reads the log from the first place to the second, first raw, then decoded; prints events, rows, bytes, and CPU
//! time per row from /proc/self/stat.

use change::{Batch, Entry, Position, Source};
use source_mysql::binlog::header::{EventHeader, kind};
use source_mysql::config::{Endpoint, MysqlConfig, SnapshotMode, StartConfig, TlsConfig};
use source_mysql::wire::{Connection, Dump, DumpStart};
use source_mysql::{MysqlSource, Resume};
use std::io::Write;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, from, from_offset, to, to_offset] = &words[..] else {
        return Err("usage: rates URL FILE OFFSET FILE OFFSET".into());
    };
    let from = (from.clone(), from_offset.parse::<u64>()?);
    let to = (change::position::file_number(to), to_offset.parse::<u64>()?);
    for _ in 0..3 {
        raw(url, &from, to)?;
    }
    for _ in 0..3 {
        decoded(url, &from, to)?;
    }
    Ok(())
}

/// User and system time of this process so far, seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = after.split(' ').filter_map(|f| f.parse().ok()).collect();
    // User and system ticks are fields 14 and 15 of the line, the state is no number.
    fields.get(10).unwrap_or(&0.0) / 100.0 + fields.get(11).unwrap_or(&0.0) / 100.0
}

fn report(
    what: &str,
    since: (Instant, f64),
    bytes: u64,
    (count, unit): (u64, &str),
) -> Result<(), Failure> {
    let (wall, cpu) = (since.0.elapsed().as_secs_f64(), cpu() - since.1);
    writeln!(
        std::io::stdout(),
        "{what}: {:.2} s, {:.0} MB/s, {count} {unit}, {:.0} {unit}/s, {:.3} us CPU each",
        wall,
        bytes as f64 / wall / 1e6,
        count as f64 / wall,
        cpu * 1e6 / count.max(1) as f64
    )?;
    Ok(())
}

fn raw(url: &str, from: &(String, u64), to: (u64, u64)) -> Result<(), Failure> {
    let endpoint = Endpoint::parse(&url.into())?;
    let tls = TlsConfig {
        mode: source_mysql::config::TlsMode::Disabled,
        ..TlsConfig::default()
    };
    let connection = Connection::open(&endpoint, &tls)?;
    let start = DumpStart::Place {
        file: from.0.clone(),
        offset: from.1,
    };
    let mut dump = Dump::start(connection, 4_000_000_000, Duration::from_secs(5), &start)?;
    let since = (Instant::now(), cpu());
    let (mut count, mut bytes, mut file) = (0u64, 0u64, change::position::file_number(&from.0));
    loop {
        while let Some(event) = dump.buffered()? {
            let header = EventHeader::read(event)?;
            count += 1;
            bytes += event.len() as u64;
            if header.kind == kind::ROTATE {
                // With or without a checksum behind it.
                let end = event.len() - 4;
                let name = event.get(27..end).unwrap_or_default();
                file = change::position::file_number(&String::from_utf8_lossy(name));
            }
            if file >= to.0 && u64::from(header.end_offset) >= to.1 {
                return report("raw", since, bytes, (count, "events"));
            }
        }
        dump.fill(Duration::from_secs(5))?;
    }
}

fn decoded(url: &str, from: &(String, u64), to: (u64, u64)) -> Result<(), Failure> {
    let config = MysqlConfig {
        url: url.into(),
        tls: TlsConfig {
            mode: source_mysql::config::TlsMode::Disabled,
            ..TlsConfig::default()
        },
        tables: Vec::new(),
        columns: Default::default(),
        mask_key: Default::default(),
        snapshot: SnapshotMode::Never,
        start: Some(StartConfig {
            gtid: None,
            file: Some(from.0.clone()),
            position: Some(from.1),
        }),
        server_id: None,
        heartbeat_seconds: 10,
        snapshot_options: Default::default(),
    };
    let mut source = MysqlSource::open(config, Resume::default())?;
    let mut batch = Batch::default();
    let since = (Instant::now(), cpu());
    let mut rows = 0;
    loop {
        batch.clear();
        source.poll(&mut batch, Duration::from_secs(1))?;
        for entry in batch.entries() {
            if let Entry::Commit { rows: count, .. } = entry {
                rows += count;
            }
        }
        if source.position().as_ref().map(Position::place) >= Some(to) {
            let bytes = source.status().bytes_received;
            return report("decoded", since, bytes, (rows, "rows"));
        }
    }
}
