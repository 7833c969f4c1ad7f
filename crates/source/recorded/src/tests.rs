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
