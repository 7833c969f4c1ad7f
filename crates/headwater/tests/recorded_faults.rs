//! A recording with one bit flipped, in every part of every kind of event, or cut anywhere: refused with
//! its place, and what came out before is right.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use testkit::Pipeline;
use testkit::rng::{Rng, seed};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(60);
const CONFIG: &str = "source: {recorded: {files: [log.000001]}}\nsinks:\n  - {name: out, file: \
                      {path: out.jsonl, format_options: {ts: commit}}}\n";
/// The beginning of the recording is enough: every kind of event but one stands in it.
const BYTES: usize = 200_000;

fn recording() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/recording/shop.binlog");
    std::fs::read(path).expect("the recording is there")
}

/// Start, length and kind of each event.
fn events(log: &[u8]) -> Vec<(usize, usize, u8)> {
    let mut events = Vec::new();
    let mut at = 4;
    while at + 19 <= log.len() {
        let field: [u8; 4] = log[at + 9..at + 13].try_into().expect("four bytes");
        let length = u32::from_le_bytes(field) as usize;
        if at + length > log.len() {
            break;
        }
        events.push((at, length, log[at + 4]));
        at += length;
    }
    events
}

/// Runs a log; returns exit code, what was said and the messages without their ids (which count from
/// the time of the run).
fn run(log: &[u8]) -> (Option<i32>, String, Vec<String>) {
    let mut pipeline = Pipeline::new(BINARY, CONFIG);
    std::fs::write(pipeline.folder().join("log.000001"), log).expect("it can be written");
    let ended = pipeline.run_to_end(LIMIT);
    let text = std::fs::read_to_string(pipeline.folder().join("out.jsonl")).unwrap_or_default();
    (
        ended.code,
        ended.stderr,
        text.lines().map(without_id).collect(),
    )
}

fn without_id(line: &str) -> String {
    match line.split_once(",\"id\":") {
        Some((before, after)) => {
            let rest = after.split_once(',').map_or("", |(_, rest)| rest);
            format!("{before},{rest}")
        }
        None => line.to_owned(),
    }
}

#[test]
fn a_flipped_bit_in_any_part_of_any_event_is_found_and_its_place_is_told() {
    let whole = recording();
    let mut log = whole[..BYTES].to_vec();
    let last = events(&log).pop().expect("there are events");
    log.truncate(last.0 + last.1);
    // Up to the end of the last whole transaction that remains.
    let commit = events(&log)
        .into_iter()
        .rfind(|event| event.2 == 16)
        .expect("there is a commit");
    log.truncate(commit.0 + commit.1);
    let (code, said, good) = run(&log);
    assert_eq!(code, Some(0), "{said}");
    assert!(good.len() > 500, "{} messages", good.len());

    let mut by_kind: BTreeMap<u8, Vec<(usize, usize)>> = BTreeMap::new();
    for (at, length, kind) in events(&log) {
        by_kind.entry(kind).or_default().push((at, length));
    }
    let mut rng = Rng::new(seed("flipped bits"));
    let mut flips = vec![(0usize, "magic")];
    for (kind, events) in &by_kind {
        let (at, length) = events[rng.below(events.len() as u64) as usize];
        // 15 is the format description: its body names the checksum that all others have.
        let parts = [
            (at, 4, "time"),
            (at + 4, 1, "kind"),
            (at + 5, 4, "server"),
            (at + 9, 4, "length"),
            (at + 13, 4, "next position"),
            (at + 17, 2, "flags"),
            (at + 19, length - 23, "body"),
            (at + length - 4, 4, "checksum"),
        ];
        for (from, count, part) in parts {
            if count > 0 && !(*kind == 15 && part == "flags") {
                flips.push((from + rng.below(count as u64) as usize, part));
            }
        }
    }
    for (offset, part) in flips {
        let bit = rng.below(8);
        let mut bent = log.clone();
        bent[offset] ^= 1 << bit;
        let (code, said, messages) = run(&bent);
        let what = format!("bit {bit} of byte {offset} ({part})");
        assert_eq!(code, Some(3), "{what}: {said}");
        assert!(said.contains("log.000001"), "{what}: no place in: {said}");
        assert!(!said.contains("panicked"), "{what}: {said}");
        assert!(
            messages.len() <= good.len(),
            "{what}: more came out than was recorded"
        );
        for (ours, theirs) in messages.iter().zip(&good) {
            assert_eq!(ours, theirs, "{what}");
        }
    }
}

/// The format description says how all others are read: that they have checksums, above all.
#[test]
fn a_format_description_with_a_flipped_bit_is_never_believed() {
    let whole = recording();
    let events = events(&whole);
    let (at, length, _) = events[0];
    let end = events
        .iter()
        .filter(|event| event.2 == 16)
        .nth(20)
        .expect("there is a commit");
    let log = &whole[..end.0 + end.1];
    let mut rng = Rng::new(seed("format description"));
    let kind = at + 4;
    let checksum_kind = at + length - 5;
    let mut flips: Vec<(usize, u64)> = (0..8)
        .flat_map(|bit| [(kind, bit), (checksum_kind, bit)])
        .collect();
    // Its flags say whether the server still writes the file, and are no part of the checksum.
    let others = (at..at + length).filter(|offset| !(at + 17..at + 19).contains(offset));
    flips.extend(others.step_by(3).map(|offset| (offset, rng.below(8))));
    let mut wrong = Vec::new();
    for (offset, bit) in flips {
        let mut bent = log.to_vec();
        bent[offset] ^= 1 << bit;
        let (code, said, messages) = run(&bent);
        if code != Some(3) || !said.contains("log.000001") || !messages.is_empty() {
            let into = offset - at;
            let count = messages.len();
            wrong.push(format!(
                "bit {bit} of byte {into}: {code:?}, {count} messages; {said}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_recording_cut_anywhere_is_refused_and_whole_transactions_before_the_cut_come_out() {
    let whole = recording();
    let mut rng = Rng::new(seed("cuts"));
    let log = &whole[..BYTES];
    let events = events(log);
    let good = {
        let commit = events
            .iter()
            .rfind(|event| event.2 == 16)
            .expect("there is a commit");
        run(&log[..commit.0 + commit.1]).2
    };
    for round in 0..12 {
        let (at, length, kind) = events[1 + rng.below(events.len() as u64 - 1) as usize];
        let inside = match round % 3 {
            0 => rng.below(19) as usize,
            1 => 19 + rng.below(length as u64 - 19) as usize,
            _ => length - 1,
        };
        let cut = at + inside.max(1);
        let (code, said, messages) = run(&log[..cut]);
        let what = format!("cut at {cut}, inside an event of kind {kind}");
        assert_eq!(code, Some(3), "{what}: {said}");
        assert!(
            said.contains("log.000001") && said.contains("hint"),
            "{what}: {said}"
        );
        for (ours, theirs) in messages.iter().zip(&good) {
            assert_eq!(ours, theirs, "{what}");
        }
    }
}
