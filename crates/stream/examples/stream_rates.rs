//! How fast one shard is read, and what a thousand streams cost capture.
//!
//! `cargo run --release -p stream --example stream_rates`. Reading: unsealed, decoded, filtered by shard, cells visited; one
//! thread. Capture: the same transactions over a thousand tables, without a stream and with one on each.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement on a terminal"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;
use stream::{EnableStream, ReadFrom, ReadLimits, ShardId, ShardLimits};
use support::{Row, Step, TempDir, TestClock, World, options};

fn world(dir: &std::path::Path) -> World {
    let clock = TestClock::new();
    let mut options = options(dir, &clock);
    (options.segment_bytes, options.frame_bytes) = (128 << 20, 256 << 10);
    World::open_with(options, clock)
}

fn enable(world: &mut World, table: &str, initial: u32) -> String {
    let request = EnableStream {
        keyspace: "shop".into(),
        table: table.into(),
        shards: Some(ShardLimits {
            initial,
            max: 1,
            ..ShardLimits::default()
        }),
        ..EnableStream::default()
    };
    world
        .ask(|streams| streams.enable(request))
        .unwrap()
        .arn
        .clone()
}

/// Text that compresses about as rows do.
fn text(n: u64, len: usize) -> String {
    let mut out = String::new();
    let mut word = n;
    while out.len() < len {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        out.push_str(["alpha ", "beta ", "gamma ", "delta "][(word >> 60) as usize % 4]);
        out.push_str(&format!("{:x}", word >> 44));
    }
    out.truncate(len);
    out
}

fn read(label: &str, len: usize, rows: u64, shards: u32, limits: ReadLimits) {
    let dir = TempDir::new();
    let mut world = world(&dir.0.join("j"));
    let arn = enable(&mut world, "t", shards);
    for first in (0..rows).step_by(50) {
        let row = |n: u64| {
            Step::Insert(Row {
                id: n as i64,
                v: Some(n as i64),
                s: text(n, len),
            })
        };
        let steps: Vec<Step> = (first..first + 50).map(row).collect();
        world.transaction(&steps);
    }
    world.settle();
    let listed = world.streams.shards(&arn, None, None, 100).unwrap().shards;
    let shard: ShardId = listed[0].id;
    let mut best = (f64::MAX, 0, 0);
    for _ in 0..3 {
        let since = Instant::now();
        let (mut records, mut bytes, mut cells) = (0u64, 0u64, 0u64);
        let mut from = ReadFrom::Horizon;
        loop {
            let page = world.streams.read(&arn, shard, from, limits).unwrap();
            for record in page.records() {
                records += 1;
                cells += record
                    .new_image()
                    .map_or(0, |row| row.value_cells().count() as u64);
            }
            bytes += page.byte_count;
            from = ReadFrom::Sequence(page.next.unwrap());
            if page.at_tip {
                break;
            }
        }
        assert_eq!(cells, records * 3);
        let seconds = since.elapsed().as_secs_f64();
        if seconds < best.0 {
            best = (seconds, records, bytes);
        }
    }
    let (seconds, records, bytes) = best;
    println!(
        "{label}: {:.0} MB/s, {:.0} records/s ({records} records of {} bytes, pages of {}, 1 of {shards} shards)",
        bytes as f64 / seconds / 1e6,
        records as f64 / seconds,
        bytes / records.max(1),
        limits.records_max,
    );
}

/// Seconds of this process's CPU, all threads.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit(')').next().unwrap();
    let fields: Vec<f64> = after
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|f| f.parse().unwrap())
        .collect();
    (fields[0] + fields[1]) / 100.0
}

fn capture(streams: usize) -> (f64, f64) {
    const TABLES: u32 = 1000;
    let dir = TempDir::new();
    let mut world = world(&dir.0.join("j"));
    let names: Vec<String> = (1..=TABLES).map(|n| format!("t{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.tables(&names);
    names.iter().take(streams).for_each(|name| {
        enable(&mut world, name, 1);
    });
    let (since, cpu) = (Instant::now(), cpu_seconds());
    for n in 0..600_000u64 {
        let row = Row {
            id: n as i64,
            v: Some(n as i64),
            s: text(n, 60),
        };
        world.transaction_of(
            1 + (n % u64::from(TABLES)) as u32,
            &[Step::Insert(row)],
            false,
        );
        // As the capture thread does between batches of about a hundred.
        if n % 100 == 0 {
            world.serve();
        }
    }
    world.settle();
    (since.elapsed().as_secs_f64(), cpu_seconds() - cpu)
}

fn main() {
    let api = ReadLimits::default();
    let large = ReadLimits {
        records_max: 10_000,
        bytes_max: 8 << 20,
    };
    read("rows of 1 KB", 1000, 300_000, 1, api);
    read("rows of 1 KB, large pages", 1000, 300_000, 1, large);
    read("small rows", 24, 2_000_000, 1, api);
    read("small rows, one shard of four", 24, 2_000_000, 4, api);
    let mut plain = (f64::MAX, f64::MAX);
    let mut with = plain;
    for _ in 0..3 {
        let (a, b) = (capture(0), capture(1000));
        plain = (plain.0.min(a.0), plain.1.min(a.1));
        with = (with.0.min(b.0), with.1.min(b.1));
    }
    println!(
        "capture of 600,000 transactions over 1,000 tables: {:.2} s, {:.2} CPU s without streams; {:.2} s, {:.2} CPU s \
         with 1,000 ({:+.1} % time, {:+.1} % CPU)",
        plain.0,
        plain.1,
        with.0,
        with.1,
        (with.0 / plain.0 - 1.0) * 100.0,
        (with.1 / plain.1 - 1.0) * 100.0
    );
}
