use super::*;
use change::batch::RowBody;
use change::{Entry, Operation};
use std::collections::HashMap;

fn vectors(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testkit")
        .join(name)
}

fn shop() -> RecordedConfig {
    RecordedConfig {
        files: vec![vectors("recording/shop.binlog")],
        ..RecordedConfig::default()
    }
}

#[derive(Default)]
struct Seen {
    counts: HashMap<(String, &'static str), u64>,
    names: HashMap<u32, String>,
    statements: u64,
    ddl: u64,
    commits: u64,
    rows: u64,
    control: Vec<(Vec<u8>, Vec<u8>)>,
    last: Option<Position>,
    digest: u64,
}

fn add(seen: &mut Seen, batch: &Batch) {
    for entry in batch.entries() {
        match entry {
            Entry::Record(record) => {
                let bytes = batch.bytes(record.body);
                seen.digest = seen
                    .digest
                    .wrapping_mul(31)
                    .wrapping_add(change::batch::key_token_of_bytes(bytes));
                let what = match (record.operation, record.flags) {
                    (Operation::Insert, 0) => "insert",
                    (Operation::Update, 0) => "update",
                    (Operation::Delete, 0) => "delete",
                    (Operation::Delete, _) => "update",
                    (Operation::Ddl, _) => {
                        seen.ddl += 1;
                        continue;
                    }
                    (Operation::Statement, _) => {
                        seen.statements += 1;
                        continue;
                    }
                    (Operation::Insert, _) => continue,
                    other => panic!("{other:?}"),
                };
                RowBody::read(bytes).unwrap();
                let name = seen.names[&record.table.0].clone();
                *seen.counts.entry((name, what)).or_default() += 1;
            }
            Entry::Control { key, value } => {
                let key = batch.bytes(*key).to_vec();
                let value = batch.bytes(value.unwrap()).to_vec();
                if key.starts_with(b"schema/") {
                    let schema = change::TableSchema::decode(&value).unwrap();
                    seen.names.insert(schema.table.0, schema.name);
                }
                seen.control.retain(|(name, _)| *name != key);
                seen.control.push((key, value));
            }
            Entry::Commit { rows, position, .. } => {
                seen.commits += 1;
                seen.rows += rows;
                let step = change::PositionStep::decode(batch.bytes(*position)).unwrap();
                let mut position = seen.last.take().unwrap_or_default();
                position.advance(&step);
                seen.last = Some(position);
            }
            Entry::Begin { .. } => {}
            Entry::Rollback => panic!("nothing is rolled back"),
        }
    }
}

fn run(source: &mut RecordedSource, polls_max: usize) -> Seen {
    run_on(source, polls_max, Seen::default())
}

fn run_on(source: &mut RecordedSource, polls_max: usize, mut seen: Seen) -> Seen {
    let mut batch = Batch::default();
    for _ in 0..polls_max {
        batch.clear();
        let progress = source.poll(&mut batch, Duration::ZERO).unwrap();
        add(&mut seen, &batch);
        if progress == Progress::End {
            break;
        }
    }
    seen
}

#[test]
fn the_shop_is_read_as_the_server_counts_it() {
    let mut source = RecordedSource::open(shop(), Resume::default()).unwrap();
    let seen = run(&mut source, usize::MAX);
    for (table, insert, update, delete) in [
        ("customers", 1504, 639, 18),
        ("products", 49, 206, 1),
        ("orders", 5923, 313, 32),
        ("order_items", 17270, 6, 236),
    ] {
        let count = |what| seen.counts.get(&(table.to_owned(), what)).copied();
        assert_eq!(count("insert"), Some(insert), "{table}");
        assert_eq!(count("update"), Some(update), "{table}");
        assert_eq!(count("delete"), Some(delete), "{table}");
    }
    assert_eq!(seen.statements, 11);
    assert_eq!(seen.commits, 1389);
    assert!(source.status().parked.is_empty());
    assert_eq!(source.status().lag_bytes, Some(0));
    assert_eq!(source.status().trouble, "");
}

#[test]
fn the_same_files_give_the_same_bytes_also_after_a_restart() {
    let whole = run(
        &mut RecordedSource::open(shop(), Resume::default()).unwrap(),
        usize::MAX,
    );
    let again = run(
        &mut RecordedSource::open(shop(), Resume::default()).unwrap(),
        usize::MAX,
    );
    assert_eq!(whole.digest, again.digest);

    let mut first = RecordedSource::open(shop(), Resume::default()).unwrap();
    let head = run(&mut first, 3);
    // The batch may end inside a transaction, which then comes again whole.
    let resume = Resume {
        spool: None,
        position: head.last.clone(),
        control: head.control.clone(),
        anew: false,
    };
    let mut second = RecordedSource::open(shop(), resume).unwrap();
    let known = Seen {
        names: head.names.clone(),
        ..Seen::default()
    };
    let tail = run_on(&mut second, usize::MAX, known);
    assert_eq!(head.rows + tail.rows, whole.rows);
    assert_eq!(head.commits + tail.commits, whole.commits);
}

#[test]
fn a_cut_file_is_corrupt_at_its_offset_unless_allowed() {
    let bytes = std::fs::read(vectors("recording/shop.binlog")).unwrap();
    let dir = std::env::temp_dir().join(format!("headwater-recorded-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("cut.binlog");
    for cut in [400_003usize, 900_001, 1_200_007] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let config = |allow_torn_tail| RecordedConfig {
            files: vec![path.clone()],
            allow_torn_tail,
            ..RecordedConfig::default()
        };
        let read = |allow| {
            let mut source = RecordedSource::open(config(allow), Resume::default()).unwrap();
            let mut batch = Batch::default();
            loop {
                batch.clear();
                match source.poll(&mut batch, Duration::ZERO) {
                    Ok(Progress::End) => return Ok(()),
                    Ok(_) => {}
                    Err(error) => return Err(error),
                }
            }
        };
        let error = read(false).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt);
        assert!(error.place.starts_with("cut.binlog:"), "{error}");
        read(true).unwrap();
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_no_binlog_is_refused() {
    let config = RecordedConfig {
        files: vec![vectors("recording/README.md")],
        ..RecordedConfig::default()
    };
    let error = RecordedSource::open(config, Resume::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
}

/// What a journal would hold: the entries of transactions that were committed.
fn committed(batch: &Batch, open: &mut Vec<String>, done: &mut Vec<String>) {
    for entry in batch.entries() {
        match entry {
            Entry::Record(record) => {
                let token = change::batch::key_token_of_bytes(batch.bytes(record.body));
                let (table, version) = (record.table.0, record.schema.0);
                open.push(format!(
                    "{:?} {table}/{version} {token:x}",
                    record.operation
                ));
            }
            Entry::Control { key, value } => {
                let value =
                    value.map(|value| change::batch::key_token_of_bytes(batch.bytes(value)));
                open.push(format!(
                    "{} {value:x?}",
                    String::from_utf8_lossy(batch.bytes(*key))
                ));
            }
            Entry::Begin { .. } => open.clear(),
            Entry::Rollback => open.clear(),
            Entry::Commit { position, .. } => {
                let step = change::PositionStep::decode(batch.bytes(*position)).unwrap();
                done.append(open);
                done.push(format!("commit {}:{}", step.file, step.offset));
            }
        }
    }
}

/// Reads a recording as a live source reads its log, with a broken connection after the events that
/// `breaks_after` names.
fn read_with_breaks(file: &str, breaks_after: impl Fn(usize) -> bool) -> Vec<String> {
    let mut events = Vec::new();
    let mut log = LogFile::open(&vectors(file)).unwrap();
    let mut event = Vec::new();
    let mut offset = 4;
    while log.next(&mut event).unwrap() == Next::Event {
        let start = offset;
        offset += event.len() as u64;
        if !file::is_rotate(&event) {
            events.push((start, event.clone()));
        }
    }
    let position = Position {
        file: "log".into(),
        offset: 4,
        ..Position::default()
    };
    let options = CaptureOptions {
        selection: selection(&[]).unwrap(),
        ..CaptureOptions::default()
    };
    let mut capture = Capture::new(options, position);
    capture.start_file("log", 4);
    let (mut open, mut done) = (Vec::new(), Vec::new());
    let mut batch = Batch::default();
    let (mut at, mut broke) = (0, vec![false; events.len()]);
    while at < events.len() {
        capture.event(&events[at].1, &mut batch).unwrap();
        if breaks_after(at) && !broke[at] {
            broke[at] = true;
            capture.break_stream(&mut batch);
            let from = capture.position().offset;
            capture.start_stream(source_mysql::binlog::header::Checksum::Crc32);
            let next = events.partition_point(|(start, _)| *start < from);
            // A server sends its format description first whatever the place.
            capture.event(&events[0].1, &mut batch).unwrap();
            capture.start_file("log", from.max(4));
            at = next.max(1);
        } else {
            at += 1;
        }
        committed(&batch, &mut open, &mut done);
        batch.clear();
    }
    done
}

#[test]
fn a_connection_that_breaks_after_any_event_loses_and_doubles_nothing() {
    for file in [
        "recording/shop.binlog",
        "vectors/mariadb10/statements.binlog",
        "vectors/mariadb10/xa.binlog",
        "vectors/mysql97/types.binlog",
    ] {
        let whole = read_with_breaks(file, |_| false);
        assert!(whole.len() > 10, "{file}");
        // After every event, and after some: a second break may meet what the first one left.
        for breaks in [|_: usize| true, |at: usize| at % 7 == 3] {
            let broken = read_with_breaks(file, breaks);
            for (number, (one, other)) in whole.iter().zip(&broken).enumerate() {
                assert_eq!(one, other, "{file}: entry {number}");
            }
            assert_eq!(whole.len(), broken.len(), "{file}");
        }
    }
}
