//! A real process, real files, SIGKILL at any moment.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use journal::*;
use support::*;

const CHILD: &str = "JOURNAL_KILL_CHILD";
const ROUNDS: u64 = 8;

fn options_in(dir: &std::path::Path) -> Options {
    Options {
        segment_bytes: 256 << 10,
        frame_bytes: 16 << 10,
        ..options(dir)
    }
}

/// Writes as fast as it can, and says on standard output what was durable.
fn child(dir: &str) {
    let (journal, mut writer) = open(options_in(dir.as_ref())).unwrap();
    let last = journal.last_commit();
    let start = last.map_or(0, |last| {
        u64::from_be_bytes(last.position.try_into().unwrap()) + 1
    });
    let mut random = Random::new(start);
    let mut out = std::io::stdout();
    for number in start.. {
        let count = if random.chance(2) { 60 } else { 1 };
        let body = random.bytes(1000);
        append(&mut writer, number, 1, &vec![&body[..]; count]);
        if random.chance(5) {
            settle(&journal, &mut writer);
            writeln!(out, "\ndurable {number}").unwrap();
            out.flush().unwrap();
        }
    }
}

#[test]
fn nothing_durable_is_lost_when_the_process_is_killed() {
    if let Ok(dir) = std::env::var(CHILD) {
        return child(&dir);
    }
    let dir = TempDir::new();
    let mut durable = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--nocapture", "nothing_durable_is_lost"])
            .env(CHILD, &dir.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let durable_of = |line: String| line.strip_prefix("durable ")?.parse::<u64>().ok();
        for _ in 0..20 + 7 * round {
            let line = lines.next().unwrap().unwrap();
            durable = durable_of(line).unwrap_or(durable).max(durable);
        }
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(|line| line.ok()) {
            durable = durable_of(line).unwrap_or(durable).max(durable);
        }
        let (journal, writer) = open(options_in(&dir.0)).unwrap();
        let mut next = 0u64;
        for item in read_from(&journal, journal.first()) {
            if let Owned::Commit { position, .. } = item {
                assert_eq!(position, next.to_be_bytes(), "once and in order");
                next += 1;
            }
        }
        assert!(
            next > durable,
            "round {round}: {next} transactions, {durable} was durable"
        );
        drop(writer);
    }
    assert!(durable > 100);
}
