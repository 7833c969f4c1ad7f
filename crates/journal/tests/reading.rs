//! Large transactions, small tables in large journals.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::BTreeSet;

use journal::*;
use support::*;

#[test]
fn reading_a_small_table_costs_that_table() {
    let dir = TempDir::new();
    let options = Options {
        segment_bytes: 4 << 20,
        tail_bytes: 0,
        ..options(&dir.0)
    };
    let (journal, mut writer) = open(options.clone()).unwrap();
    let mut random = Random::new(1);
    for number in 0..3000u64 {
        let table = if number % 700 == 99 { 2 } else { 1 };
        append(&mut writer, number, table, &[&random.bytes(5000)]);
    }
    settle(&journal, &mut writer);
    assert!(journal.usage().segments >= 4 && journal.usage().bytes > 15_000_000);
    let measure = |journal: &Journal| {
        let tables = Some(BTreeSet::from([TableId(2)]));
        let mut reader = journal
            .reader(ReadOptions {
                from: journal.first(),
                tables,
            })
            .unwrap();
        let items = read_all(&mut reader);
        assert_eq!(items.len(), 5 * 3);
        assert_eq!(reader.position(), journal.end());
        reader.bytes_read()
    };
    let bytes = measure(&journal);
    assert!(bytes < 5 * 700_000, "{bytes} bytes for 5 rows");
    writer.close().unwrap();
    let (journal, _writer) = open(options).unwrap();
    assert_eq!(measure(&journal), bytes);
}

#[test]
fn table_with_its_own_key_is_read_without_the_blocks_of_the_others() {
    let dir = TempDir::new();
    let options = Options {
        tail_bytes: 0,
        ..options(&dir.0)
    };
    let (journal, mut writer) = open(options).unwrap();
    let mut random = Random::new(1);
    for number in 0..20u64 {
        writer
            .begin(TransactionStart {
                header: b"",
                snapshot: false,
            })
            .unwrap();
        for _ in 0..40 {
            writer.record(&descriptor(1), &random.bytes(5000)).unwrap();
        }
        let own = RecordDescriptor {
            key_group: KeyGroupId(4),
            ..descriptor(2)
        };
        writer.record(&own, b"small").unwrap();
        commit(&mut writer, number, 41);
    }
    settle(&journal, &mut writer);
    let tables = Some(BTreeSet::from([TableId(2)]));
    let mut reader = journal
        .reader(ReadOptions {
            from: journal.first(),
            tables,
        })
        .unwrap();
    assert_eq!(read_all(&mut reader).len(), 60);
    let (read, all) = (reader.bytes_read(), journal.usage().bytes);
    assert!(read * 8 < all, "{read} of {all} bytes");
}

#[test]
fn transaction_of_200_mb_streams_through_small_buffers() {
    let dir = TempDir::new();
    let options = Options {
        segment_bytes: 32 << 20,
        ..options(&dir.0)
    };
    let (journal, mut writer) = open(options).unwrap();
    let first = journal.end();
    writer
        .begin(TransactionStart {
            header: b"large",
            snapshot: false,
        })
        .unwrap();
    // Longer than lz4 looks back, so that repeating it makes nothing smaller.
    let body = Random::new(5).bytes(70_000);
    for number in 0..3000u32 {
        let table = if number == 7 { 2 } else { 1 };
        writer.record(&descriptor(table), &body).unwrap();
    }
    assert_eq!(journal.end(), first);
    commit(&mut writer, 1, 3000);
    settle(&journal, &mut writer);
    assert!(journal.usage().segments > 5, "{:?}", journal.usage());

    let mut reader = journal.reader(ReadOptions::from(first)).unwrap();
    let (mut begins, mut records, mut commits, mut frame_max) = (0, 0, 0, 0);
    while let Some(frame) = reader.next().unwrap() {
        let mut bytes = 0;
        for item in frame.items() {
            match item {
                Item::Begin { .. } => begins += 1,
                Item::Record {
                    body: Body::Bytes(bytes_read),
                    ..
                } => {
                    records += 1;
                    bytes += bytes_read.len();
                }
                Item::Commit { .. } => commits += 1,
                _ => panic!("{item:?}"),
            }
        }
        frame_max = frame_max.max(bytes);
    }
    assert_eq!((begins, records, commits), (1, 3000, 1));
    assert!(frame_max <= 256 << 10, "{frame_max}");

    let tables = Some(BTreeSet::from([TableId(2)]));
    let mut reader = journal
        .reader(ReadOptions {
            from: first,
            tables,
        })
        .unwrap();
    let items = read_all(&mut reader);
    assert_eq!(items.len(), 3, "begin, one record, commit");
    assert!(reader.bytes_read() < 4 << 20, "{}", reader.bytes_read());
}
