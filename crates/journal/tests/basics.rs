//! Writing, reading, opening again.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use journal::*;
use support::*;

#[test]
fn transactions_come_back_in_order_from_memory_and_from_disk_and_after_reopening() {
    for tail_bytes in [6 << 20, 0] {
        let dir = TempDir::new();
        let options = Options {
            tail_bytes,
            ..options(&dir.0)
        };
        let (journal, mut writer) = open(options.clone()).unwrap();
        let first = journal.end();
        assert_eq!(writer.next_sequence(), first);
        for number in 0..100 {
            append(
                &mut writer,
                number,
                number as u32 % 3,
                &[b"one", b"", b"three"],
            );
        }
        settle(&journal, &mut writer);
        let items = read_from(&journal, first);
        assert_eq!(items.len(), 500);
        assert_eq!(items[0], Owned::Begin(b"header 0".to_vec(), false));
        assert_eq!(
            items[1],
            Owned::Record(first.0, descriptor(0), Some(b"one".to_vec()))
        );
        let Owned::Commit {
            sequence, rows: 3, ..
        } = items[4]
        else {
            panic!("{:?}", items[4])
        };
        assert_eq!(sequence, first.0 + 3);
        let id = journal.id();
        writer.close().unwrap();
        assert!(journal.failed().is_none());

        let (journal, writer) = open(options).unwrap();
        assert_eq!(journal.id(), id);
        assert_eq!(journal.first(), first);
        assert_eq!(journal.end().0, first.0 + 400);
        assert_eq!(read_from(&journal, first), items);
        assert_eq!(read_from(&journal, Sequence(first.0 + 4)), items[5..]);
        let last = journal.last_commit().unwrap();
        assert_eq!(
            (last.position, last.time_us),
            (99u64.to_be_bytes().to_vec(), 99_000)
        );
        drop(writer);
    }
}

#[test]
fn reader_that_starts_inside_a_transaction_gets_its_begin_and_the_rest() {
    let dir = TempDir::new();
    let (journal, mut writer) = open(Options {
        frame_bytes: 4096,
        ..options(&dir.0)
    })
    .unwrap();
    let first = journal.end();
    let bodies: Vec<Vec<u8>> = (0..200u8).map(|byte| vec![byte; 100]).collect();
    let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    append(&mut writer, 1, 5, &bodies);
    settle(&journal, &mut writer);
    for skip in [0u64, 1, 50, 199, 200] {
        let items = read_from(&journal, Sequence(first.0 + skip));
        assert_eq!(items.len() as u64, 202 - skip, "skip {skip}");
        assert_eq!(items[0], Owned::Begin(b"header 1".to_vec(), false));
        assert!(matches!(items.last(), Some(Owned::Commit { .. })));
    }
}

#[test]
fn large_transaction_is_invisible_until_its_commit_is_durable() {
    let dir = TempDir::new();
    let (journal, mut writer) = open(Options {
        frame_bytes: 4096,
        ..options(&dir.0)
    })
    .unwrap();
    let first = journal.end();
    append(&mut writer, 0, 1, &[b"before"]);
    writer
        .begin(TransactionStart {
            header: b"large",
            snapshot: false,
        })
        .unwrap();
    for _ in 0..1000 {
        writer.record(&descriptor(2), &[7; 100]).unwrap();
    }
    writer.flush().unwrap();
    while journal.metrics().records < 1002 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(journal.end().0, first.0 + 2);
    assert_eq!(read_from(&journal, first).len(), 3);
    commit(&mut writer, 1, 1000);
    settle(&journal, &mut writer);
    assert_eq!(read_from(&journal, first).len(), 3 + 1002);
}

#[test]
fn rolled_back_transactions_never_appear_small_or_written_through() {
    for tail_bytes in [6 << 20, 0] {
        let dir = TempDir::new();
        let options = Options {
            frame_bytes: 4096,
            tail_bytes,
            ..options(&dir.0)
        };
        let (journal, mut writer) = open(options.clone()).unwrap();
        let first = journal.end();
        append(&mut writer, 0, 1, &[b"before"]);
        for size in [1, 1000] {
            writer
                .begin(TransactionStart {
                    header: b"undone",
                    snapshot: false,
                })
                .unwrap();
            for _ in 0..size {
                writer.record(&descriptor(2), &[9; 100]).unwrap();
            }
            writer.control(b"undone", Some(b"x")).unwrap();
            writer.rollback().unwrap();
            append(&mut writer, size, 1, &[b"between"]);
        }
        settle(&journal, &mut writer);
        let items = read_from(&journal, first);
        assert_eq!(items.len(), 9);
        assert!(!items.contains(&Owned::Begin(b"undone".to_vec(), false)));
        assert!(journal.control().is_empty());
        writer.close().unwrap();
        let (journal, _writer) = open(options).unwrap();
        assert_eq!(read_from(&journal, first), items);
        assert_eq!(read_tables(&journal, first, &[1]), items);
        assert!(journal.control().is_empty());
    }
}

#[test]
fn control_state_takes_effect_at_commit_and_readers_know_it_as_of_their_start() {
    let dir = TempDir::new();
    let options = options(&dir.0);
    let (journal, mut writer) = open(options.clone()).unwrap();
    let mut starts = Vec::new();
    for number in 0..20u64 {
        starts.push(writer.next_sequence());
        writer
            .begin(TransactionStart {
                header: b"",
                snapshot: false,
            })
            .unwrap();
        let key = (number % 4).to_be_bytes();
        let value = number.to_be_bytes();
        writer
            .control(&key, (number != 9).then_some(&value))
            .unwrap();
        writer.record(&descriptor(1), b"row").unwrap();
        commit(&mut writer, number, 1);
        if number % 5 == 0 {
            settle(&journal, &mut writer);
        }
    }
    settle(&journal, &mut writer);
    let check = |journal: &Journal| {
        for (number, start) in starts.iter().enumerate() {
            let reader = journal.reader(ReadOptions::from(*start)).unwrap();
            let mut expected = std::collections::BTreeMap::new();
            for before in 0..number as u64 {
                match before {
                    9 => expected.remove(&(before % 4)),
                    _ => expected.insert(before % 4, before),
                };
            }
            let found: std::collections::BTreeMap<u64, u64> = reader
                .control()
                .iter()
                .map(|(key, entry)| {
                    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
                    (number(key), number(&entry.value))
                })
                .collect();
            assert_eq!(found, expected, "at {number}");
        }
    };
    check(&journal);
    let control = journal.control();
    writer.close().unwrap();
    let (journal, _writer) = open(options).unwrap();
    assert_eq!(journal.control(), control);
    check(&journal);
}

#[test]
fn control_map_of_thousands_of_tables_survives_segment_after_segment() {
    let dir = TempDir::new();
    let options = Options {
        segment_bytes: 1 << 20,
        ..options(&dir.0)
    };
    let (journal, mut writer) = open(options.clone()).unwrap();
    writer
        .begin(TransactionStart {
            header: b"",
            snapshot: false,
        })
        .unwrap();
    for table in 0..5000u32 {
        let value = [&table.to_be_bytes()[..], &[b'c'; 300]].concat();
        writer.control(&table.to_be_bytes(), Some(&value)).unwrap();
    }
    commit(&mut writer, 1, 0);
    let mut random = Random::new(1);
    for number in 2..40 {
        append(&mut writer, number, 1, &[&random.bytes(100_000)]);
    }
    settle(&journal, &mut writer);
    assert!(journal.usage().segments > 2, "{:?}", journal.usage());
    writer.close().unwrap();
    let (journal, _writer) = open(options).unwrap();
    assert_eq!(journal.control().len(), 5000);
    let at_end = journal
        .reader(ReadOptions::from(Sequence(journal.end().0 - 2)))
        .unwrap();
    assert_eq!(at_end.control(), &journal.control());
}

#[test]
fn second_opener_is_fenced_and_told_who_has_it() {
    let dir = TempDir::new();
    let (journal, mut writer) = open(options(&dir.0)).unwrap();
    append(&mut writer, 1, 1, &[b"x"]);
    settle(&journal, &mut writer);
    let error = open(options(&dir.0)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(
        error.to_string().contains(&std::process::id().to_string()),
        "{error}"
    );
    let other = open_read_only(options(&dir.0)).unwrap();
    assert_eq!(read_from(&other, other.first()).len(), 3);
    assert_eq!(other.retain().unwrap(), Retained::default());
    writer.close().unwrap();
    open(options(&dir.0)).unwrap();
}

#[test]
fn read_only_opening_changes_nothing_and_needs_a_journal() {
    let dir = TempDir::new();
    let missing = open_read_only(options(&dir.0)).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    let (journal, mut writer) = open(options(&dir.0)).unwrap();
    for number in 0..10 {
        append(&mut writer, number, 1, &[b"x"]);
    }
    settle(&journal, &mut writer);
    writer.close().unwrap();
    let listing = || {
        let mut names: Vec<_> = std::fs::read_dir(&dir.0)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().len()))
            .collect();
        names.sort();
        names
    };
    let before = listing();
    let journal = open_read_only(options(&dir.0)).unwrap();
    assert_eq!(read_from(&journal, journal.first()).len(), 30);
    assert_eq!(read_tables(&journal, journal.first(), &[1]).len(), 30);
    assert_eq!(listing(), before);
}

#[test]
fn seek_finds_the_start_of_the_transaction_also_across_segments_and_in_large_ones() {
    let dir = TempDir::new();
    let options = Options {
        segment_bytes: 64 << 10,
        frame_bytes: 4096,
        ..options(&dir.0)
    };
    let (journal, mut writer) = open(options.clone()).unwrap();
    let mut random = Random::new(1);
    let mut starts = Vec::new();
    for number in 0..200u64 {
        starts.push(writer.next_sequence());
        let count = if number == 77 { 50 } else { 1 };
        let noise = random.bytes(2000);
        append(&mut writer, number, 1, &vec![&noise[..]; count]);
    }
    settle(&journal, &mut writer);
    assert!(journal.usage().segments > 3);
    let check = |journal: &Journal| {
        for number in [0u64, 1, 50, 76, 77, 78, 150, 199] {
            assert_eq!(
                journal.seek_time(number as i64 * 1000).unwrap(),
                starts[number as usize]
            );
            let mut reached = |position: &[u8]| position >= &number.to_be_bytes()[..];
            assert_eq!(
                journal.seek_position(&mut reached).unwrap(),
                starts[number as usize]
            );
        }
        assert_eq!(journal.seek_time(i64::MAX).unwrap(), journal.end());
        assert_eq!(
            journal.seek_position(&mut |_| false).unwrap(),
            journal.end()
        );
        assert_eq!(journal.seek_time(i64::MIN).unwrap(), journal.first());
    };
    check(&journal);
    writer.close().unwrap();
    let (journal, _writer) = open(options).unwrap();
    check(&journal);
}

#[test]
fn every_compression_reads_back() {
    for compression in [Compression::Lz4, Compression::Zstd1, Compression::None] {
        let dir = TempDir::new();
        let options = Options {
            compression,
            ..options(&dir.0)
        };
        let (journal, mut writer) = open(options.clone()).unwrap();
        let long = vec![b'a'; 600_000];
        append(&mut writer, 1, 1, &[b"", &long, b"short"]);
        settle(&journal, &mut writer);
        writer.close().unwrap();
        let journal = open_read_only(options).unwrap();
        let items = read_from(&journal, journal.first());
        assert!(items.iter().any(|item| matches!(
            item,
            Owned::Record(_, _, Some(body)) if *body == long
        )));
        assert_eq!(items.len(), 5);
    }
}

#[test]
fn misuse_is_refused_and_leaves_the_writer_as_it_was() {
    let dir = TempDir::new();
    let (journal, mut writer) = open(options(&dir.0)).unwrap();
    let commit_now = Commit {
        trailer: b"",
        position: b"",
        time_us: 0,
        rows: 0,
    };
    assert_eq!(
        writer.commit(commit_now).err().unwrap().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(
        writer.record(&descriptor(1), b"").err().unwrap().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(writer.rollback().err().unwrap().kind(), ErrorKind::Invalid);
    let start = TransactionStart {
        header: b"h",
        snapshot: false,
    };
    writer.begin(start).unwrap();
    assert_eq!(
        writer.begin(start).err().unwrap().kind(),
        ErrorKind::Invalid
    );
    writer.flush().unwrap();
    writer.commit(commit_now).unwrap();
    settle(&journal, &mut writer);
    assert_eq!(read_from(&journal, journal.first()).len(), 2);
    let past = ReadOptions::from(Sequence(journal.end().0 + 1));
    assert_eq!(
        journal.reader(past).err().unwrap().kind(),
        ErrorKind::Invalid
    );
}

#[test]
fn reader_follows_the_writer_through_wait() {
    let dir = TempDir::new();
    let (journal, mut writer) = open(options(&dir.0)).unwrap();
    let first = journal.end();
    let follower = {
        let journal = journal.clone();
        std::thread::spawn(move || {
            let mut reader = journal.reader(ReadOptions::from(first)).unwrap();
            let mut commits = 0;
            while commits < 500 {
                journal.wait(reader.position(), Duration::from_secs(10));
                let items = read_all(&mut reader);
                commits += items
                    .iter()
                    .filter(|item| matches!(item, Owned::Commit { .. }))
                    .count();
            }
            reader.bytes_read()
        })
    };
    for number in 0..500 {
        append(&mut writer, number, 1, &[b"row"]);
        writer.poll().unwrap();
    }
    writer.flush().unwrap();
    assert_eq!(follower.join().unwrap(), 0, "it read from memory");
}

#[test]
fn key_file_is_made_private_and_opens_the_journal_again() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new();
    let path = dir.join("keys");
    let options = |path| {
        let keys = FileKeys::open_or_create(path).unwrap();
        Options::new(dir.join("journal"), Arc::new(keys))
    };
    let (journal, mut writer) = open(options(&path)).unwrap();
    append(&mut writer, 1, 1, &[b"x"]);
    settle(&journal, &mut writer);
    writer.close().unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let (journal, writer) = open(options(&path)).unwrap();
    assert_eq!(read_from(&journal, journal.first()).len(), 3);
    drop(writer);
    let error = open(options(&dir.join("other keys"))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn readers_of_the_disk_keep_up_with_a_writer_at_work() {
    let dir = TempDir::new();
    let options = Options {
        tail_bytes: 0,
        segment_bytes: 1 << 20,
        frame_bytes: 4096,
        ..options(&dir.0)
    };
    let (journal, mut writer) = open(options.clone()).unwrap();
    let first = journal.end();
    let follow = |tables: Option<std::collections::BTreeSet<TableId>>, wanted: usize| {
        let journal = journal.clone();
        std::thread::spawn(move || {
            let mut reader = journal
                .reader(ReadOptions {
                    from: first,
                    tables,
                })
                .unwrap();
            let mut records = 0;
            while records < wanted {
                journal.wait(reader.position(), Duration::from_secs(10));
                let items = read_all(&mut reader);
                records += items
                    .iter()
                    .filter(|item| matches!(item, Owned::Record(..)))
                    .count();
            }
            assert_eq!(records, wanted);
        })
    };
    let followers = [
        follow(None, 6000),
        follow(Some([TableId(3)].into()), 600),
        follow(None, 6000),
    ];
    let mut random = Random::new(8);
    for number in 0..2000 {
        let table = if number % 10 == 0 { 3 } else { 1 };
        let len = random.below(4000) as usize;
        append(
            &mut writer,
            number,
            table,
            &[b"a", &random.bytes(len), b"c"],
        );
        if number % 400 == 0 {
            // Another process may look at any time.
            let other = open_read_only(options.clone()).unwrap();
            read_from(&other, first);
        }
        if random.chance(30) {
            writer.flush().unwrap();
        }
    }
    settle(&journal, &mut writer);
    for follower in followers {
        follower.join().unwrap();
    }
}

#[test]
fn handles_go_to_other_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Journal>();
    shared::<Error>();
    sent::<Writer>();
    sent::<Reader>();
}
