//! Damaged events: caught by the checksum, and never a panic without one.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use change::{Batch, Position};
use source_mysql::binlog::header::{Checksum, EventHeader, kind};
use source_mysql::capture::selection::Selection;
use source_mysql::capture::{Capture, CaptureOptions};
use std::path::Path;

const LOGS: [&str; 9] = [
    "mysql97/minimal.binlog",
    "mysql97/compressed.binlog",
    "mysql97/partial_json.binlog",
    "mysql97/tagged.binlog",
    "mysql97/xa.binlog",
    "mysql80/types.binlog",
    "mariadb10/compressed.binlog",
    "mariadb10/old_fractions.binlog",
    "mariadb11/types.binlog",
];

fn events(log: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testkit/vectors")
        .join(log);
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[4..];
    let mut events = Vec::new();
    while !rest.is_empty() {
        let size = EventHeader::read(rest).unwrap().event_bytes as usize;
        events.push(rest[..size].to_vec());
        rest = &rest[size..];
    }
    events
}

/// The event as a server without checksums would write it.
fn without_checksum(event: &[u8]) -> Vec<u8> {
    let mut event = event.to_vec();
    if event[4] == kind::FORMAT_DESCRIPTION {
        let at = event.len() - 5;
        event[at] = 0;
        return event;
    }
    event.truncate(event.len() - 4);
    let size = event.len() as u32;
    event[9..13].copy_from_slice(&size.to_le_bytes());
    event
}

fn capture() -> Capture {
    let options = CaptureOptions {
        selection: Selection::new(&[]).unwrap(),
        event_bytes_max: 16 << 20,
        ..CaptureOptions::default()
    };
    let mut capture = Capture::new(options, Position::default());
    capture.start_file("binlog.000001", 4);
    capture
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

fn damage(event: &mut Vec<u8>, random: &mut Random, from: usize) {
    let span = event.len().saturating_sub(from);
    match random.below(4) {
        0 => {
            let cut = from + random.below(span);
            event.truncate(cut);
        }
        1 => {
            let at = from + random.below(span);
            event[at] = random.below(256) as u8;
        }
        _ => {
            for _ in 0..=random.below(4) {
                let at = from + random.below(span);
                event[at] ^= 1 << random.below(8);
            }
        }
    }
}

#[test]
fn a_damaged_event_is_caught_by_its_checksum() {
    let seed = 20_261_130;
    println!("seed {seed}");
    let mut random = Random(seed);
    for log in LOGS {
        let events = events(log);
        let mut capture = capture();
        let mut batch = Batch::default();
        for event in &events {
            if event[4] != kind::FORMAT_DESCRIPTION && event.len() > 23 {
                let mut bad = event.clone();
                damage(&mut bad, &mut random, 0);
                if bad != *event {
                    let outcome = capture.event(&bad, &mut batch);
                    assert!(outcome.is_err(), "{log}: type {}", event[4]);
                }
            }
            batch.clear();
            capture.event(event, &mut batch).unwrap();
        }
    }
}

#[test]
fn without_checksums_damage_never_panics() {
    let seed = 4_711;
    println!("seed {seed}");
    let mut random = Random(seed);
    let (mut good, mut bad) = (0u32, 0u32);
    for log in LOGS {
        let events: Vec<Vec<u8>> = events(log).iter().map(|e| without_checksum(e)).collect();
        for _ in 0..6 {
            let mut capture = capture();
            let mut batch = Batch::default();
            capture.start_stream(Checksum::Off);
            for event in &events {
                batch.clear();
                let mut event = event.clone();
                let is_spared = event[4] == kind::FORMAT_DESCRIPTION;
                if !is_spared && random.below(3) == 0 {
                    damage(&mut event, &mut random, 19);
                    let size = event.len() as u32;
                    event[9..13].copy_from_slice(&size.to_le_bytes());
                }
                match capture.event(&event, &mut batch) {
                    Ok(()) => good += 1,
                    Err(_) => bad += 1,
                }
            }
        }
    }
    println!("{good} events taken, {bad} refused");
    assert!(bad > 1000);
}
