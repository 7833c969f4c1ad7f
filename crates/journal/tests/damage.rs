//! Damage and torn tails, full disks, failed syncs, keys that are not there.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use journal::*;
use support::simulated::SimFs;
use support::*;

fn simulated(fs: &SimFs) -> Options {
    Options {
        segment_bytes: 64 << 10,
        frame_bytes: 4096,
        tail_bytes: 0,
        fs: Arc::new(fs.clone()),
        clock: TestClock::new(),
        ..options(Path::new("/j"))
    }
}

fn segments(fs: &SimFs) -> Vec<PathBuf> {
    let mut paths = fs.paths();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    paths
}

/// A journal of one segment with several frames, each synced on its own, as a machine that stops leaves it: there is no
/// orderly close.
fn small_journal() -> (SimFs, Vec<Owned>, u64) {
    let fs = SimFs::default();
    let (journal, mut writer) = open(simulated(&fs)).unwrap();
    let mut random = Random::new(3);
    for number in 0..6 {
        append(
            &mut writer,
            number,
            number as u32,
            &[&random.bytes(300), b"x"],
        );
        settle(&journal, &mut writer);
    }
    let items = read_from(&journal, journal.first());
    (fs.copy(), items, journal.end().0)
}

#[test]
fn flipped_bit_anywhere_is_damage_or_tail_and_never_wrong_data() {
    let (origin, items, end) = small_journal();
    let path = &segments(&origin)[0];
    let len = origin.content(path).len();
    // The last frame carries no later proof, so it counts as a torn tail.
    let last_frame = {
        let content = origin.content(path);
        content
            .windows(4)
            .rposition(|window| window == b"HWF\xa7")
            .unwrap()
    };
    let (mut refused, mut cut) = (0, 0);
    for at in 0..len {
        let fs = origin.copy();
        fs.bend(path, |bytes| bytes[at] ^= 1 << (at % 8));
        match open(simulated(&fs)) {
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
                    "byte {at}: {error:?}"
                );
                assert!(error.to_string().contains("000001.seg:"), "{error}");
                assert!(error.advice().is_some());
                assert!(at < last_frame, "byte {at}: {error}");
                refused += 1;
            }
            Ok((journal, _writer)) => {
                assert!(at >= last_frame, "byte {at} of {len} passed unseen");
                assert_eq!(journal.end().0, end - 3);
                assert!(items.starts_with(&read_from(&journal, journal.first())));
                cut += 1;
            }
        }
    }
    assert!(refused > 1000 && cut > 100, "{refused} refused, {cut} cut");
}

#[test]
fn orderly_close_makes_damage_of_the_last_frame_known_too() {
    let fs = SimFs::default();
    let (journal, mut writer) = open(simulated(&fs)).unwrap();
    append(&mut writer, 1, 1, &[b"row"]);
    settle(&journal, &mut writer);
    writer.close().unwrap();
    let path = &segments(&fs)[0];
    let close_at = fs
        .content(path)
        .windows(4)
        .rposition(|window| window == b"HWF\xa7")
        .unwrap();
    fs.bend(path, |bytes| bytes[close_at - 1] ^= 1);
    let error = open(simulated(&fs)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn lost_sectors_in_the_middle_are_damage_also_when_the_headers_are_gone() {
    let (origin, ..) = small_journal();
    let path = &segments(&origin)[0];
    let len = origin.content(path).len();
    for start in (512..len - 1500).step_by(256) {
        let fs = origin.copy();
        fs.bend(path, |bytes| bytes[start..start + 512].fill(0));
        let error = open(simulated(&fs)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{start}: {error}");
    }
}

#[test]
fn ended_segment_that_is_short_or_missing_is_damage_and_a_bent_one_is_found_by_readers() {
    let origin = SimFs::default();
    let (journal, mut writer) = open(simulated(&origin)).unwrap();
    let mut random = Random::new(9);
    for number in 0..60 {
        append(&mut writer, number, 1, &[&random.bytes(3000)]);
    }
    settle(&journal, &mut writer);
    let first = journal.first();
    drop(writer);
    let paths = segments(&origin);
    assert!(paths.len() > 2);
    let fs = origin.copy();
    fs.bend(&paths[0], |bytes| bytes.truncate(bytes.len() - 1));
    assert_eq!(
        open(simulated(&fs)).err().unwrap().kind(),
        ErrorKind::Corrupt
    );

    let fs = origin.copy();
    fs.unlink(&paths[1]).unwrap();
    let error = open(simulated(&fs)).err().unwrap();
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::Corrupt, "000002.seg:0")
    );

    let fs = origin.copy();
    fs.bend(&paths[0], |bytes| bytes[20_000] ^= 4);
    let (journal, _writer) = open(simulated(&fs)).unwrap();
    let mut reader = journal.reader(ReadOptions::from(first)).unwrap();
    let error = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the damage went unseen"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.place().starts_with("000001.seg:"), "{error}");
}

#[test]
fn index_that_is_missing_or_bent_is_built_again() {
    let origin = SimFs::default();
    let (journal, mut writer) = open(simulated(&origin)).unwrap();
    let mut random = Random::new(9);
    for number in 0..60 {
        append(
            &mut writer,
            number,
            number as u32 % 7,
            &[&random.bytes(3000)],
        );
    }
    settle(&journal, &mut writer);
    let expected = read_tables(&journal, journal.first(), &[3]);
    assert!(expected.len() > 20);
    drop(writer);
    let index = |path: &Path| path.with_extension("idx");
    let paths = segments(&origin);
    let whole = origin.content(&index(&paths[0]));
    for bent in [0, 30, whole.len() - 5] {
        let fs = origin.copy();
        fs.bend(&index(&paths[0]), |bytes| bytes[bent] ^= 1);
        fs.unlink(&index(&paths[1])).unwrap();
        let (journal, _writer) = open(simulated(&fs)).unwrap();
        assert_eq!(read_tables(&journal, journal.first(), &[3]), expected);
        assert!(fs.paths().contains(&index(&paths[1])));
        assert_eq!(fs.content(&index(&paths[0])), whole);
    }
}

#[test]
fn lost_end_is_noticed_by_the_cursors() {
    let fs = SimFs::default();
    let (journal, mut writer) = open(simulated(&fs)).unwrap();
    append(&mut writer, 1, 1, &[b"row"]);
    settle(&journal, &mut writer);
    let cursor = Cursor {
        sequence: journal.end(),
        on_full: OnFull::Pause,
    };
    journal.set_cursor("sink", cursor).unwrap();
    let path = &segments(&fs)[0];
    drop(writer);
    let frames: Vec<usize> = {
        let content = fs.content(path);
        let found = content
            .windows(4)
            .enumerate()
            .filter(|(_, window)| *window == b"HWF\xa7");
        found.map(|(at, _)| at).collect()
    };
    fs.bend(path, |bytes| bytes.truncate(frames[1]));
    let error = open(simulated(&fs)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("cursor sink"), "{error}");
}

#[test]
fn torn_tail_is_cut_and_kept_beside() {
    let (fs, items, _) = small_journal();
    let path = &segments(&fs)[0];
    fs.bend(path, |bytes| bytes.extend_from_slice(b"half a frame"));
    let (journal, _writer) = open(simulated(&fs)).unwrap();
    assert_eq!(read_from(&journal, journal.first()), items);
    assert_eq!(fs.content(&path.with_extension("torn")), b"half a frame");
}

#[test]
fn full_disk_ends_the_writer_with_a_clear_error_and_loses_nothing_acknowledged() {
    let fs = SimFs::default();
    let (journal, mut writer) = open(simulated(&fs)).unwrap();
    append(&mut writer, 0, 1, &[b"safe"]);
    settle(&journal, &mut writer);
    fs.set_room(Some(5000));
    let mut random = Random::new(1);
    let error = (1..100)
        .find_map(|number| {
            let start = TransactionStart {
                header: b"",
                snapshot: false,
            };
            let result = writer
                .begin(start)
                .and_then(|()| writer.record(&descriptor(1), &random.bytes(1000)))
                .and_then(|_| {
                    let position = 7u64.to_be_bytes();
                    writer.commit(Commit {
                        trailer: b"",
                        position: &position,
                        time_us: number,
                        rows: 1,
                    })
                })
                .and_then(|_| writer.flush());
            result.err()
        })
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert_eq!(journal.failed().unwrap().kind(), ErrorKind::Full);
    let visible = journal.end();
    let items = read_from(&journal, journal.first());
    drop(writer);
    fs.set_room(None);
    let (journal, mut writer) = open(simulated(&fs)).unwrap();
    assert!(journal.end() >= visible);
    assert!(read_from(&journal, journal.first()).starts_with(&items));
    append(&mut writer, 1, 1, &[b"goes on"]);
    settle(&journal, &mut writer);
}

#[test]
fn failed_sync_ends_the_writer_for_good() {
    let fs = SimFs::default();
    let (journal, mut writer) = open(simulated(&fs)).unwrap();
    append(&mut writer, 0, 1, &[b"safe"]);
    settle(&journal, &mut writer);
    let end = journal.end();
    fs.fail_next_sync();
    append(&mut writer, 1, 1, &[b"unsure"]);
    writer.flush().unwrap();
    journal.wait(end, Duration::from_secs(5));
    assert_eq!(journal.end(), end);
    let error = journal.failed().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().contains("the writer has ended"),
        "{error}"
    );
    assert!((0..20).any(|_| writer.flush().is_err() || {
        writer
            .begin(TransactionStart {
                header: b"",
                snapshot: false,
            })
            .unwrap();
        writer
            .commit(Commit {
                trailer: b"",
                position: b"",
                time_us: 0,
                rows: 0,
            })
            .is_err()
    }));
    assert!(writer.close().is_err());
}

#[test]
fn newer_version_is_refused_as_unsupported() {
    let (fs, ..) = small_journal();
    let path = &segments(&fs)[0];
    fs.bend(path, |bytes| {
        bytes[8] = 9;
        let crc = crc32c::crc32c(&bytes[..124]).to_le_bytes();
        bytes[124..128].copy_from_slice(&crc);
    });
    assert_eq!(
        open(simulated(&fs)).err().unwrap().kind(),
        ErrorKind::Unsupported
    );
}

fn in_group(table: u32, group: u16) -> RecordDescriptor {
    RecordDescriptor {
        key_group: KeyGroupId(group),
        ..descriptor(table)
    }
}

#[test]
fn locked_group_hides_its_bodies_and_nothing_else_and_comes_back() {
    let dir = TempDir::new();
    let keys = Arc::new(TestKeys::default());
    let options = Options {
        tail_bytes: 0,
        ..Options::new(&dir.0, keys.clone())
    };
    let (journal, mut writer) = open(options.clone()).unwrap();
    writer
        .begin(TransactionStart {
            header: b"",
            snapshot: false,
        })
        .unwrap();
    writer.record(&in_group(1, 0), b"plain").unwrap();
    writer.record(&in_group(2, 5), b"own key").unwrap();
    keys.locked.lock().unwrap().insert(6);
    let refused = writer.record(&in_group(3, 6), b"no key").err().unwrap();
    assert_eq!(
        (refused.kind(), refused.place()),
        (ErrorKind::Unavailable, "key group 6")
    );
    writer.record(&in_group(1, 0), b"goes on").unwrap();
    commit(&mut writer, 1, 3);
    settle(&journal, &mut writer);
    writer.close().unwrap();

    keys.locked.lock().unwrap().insert(5);
    let locked = open_read_only(options.clone()).unwrap();
    let bodies = |journal: &Journal| -> Vec<Option<Vec<u8>>> {
        let items = read_from(journal, journal.first());
        let bodies = items.into_iter().filter_map(|item| match item {
            Owned::Record(_, _, body) => Some(body),
            _ => None,
        });
        bodies.collect()
    };
    let plain = |text: &[u8]| Some(text.to_vec());
    assert_eq!(bodies(&locked), [plain(b"plain"), None, plain(b"goes on")]);
    assert_eq!(read_tables(&locked, locked.first(), &[1]).len(), 4);
    keys.locked.lock().unwrap().clear();
    assert_eq!(
        bodies(&locked),
        [plain(b"plain"), plain(b"own key"), plain(b"goes on")]
    );

    keys.locked.lock().unwrap().insert(0);
    let error = open_read_only(options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("default key"), "{error}");
}

#[test]
fn data_keys_are_renewed_and_readers_cross_the_renewal_anywhere() {
    let dir = TempDir::new();
    let clock = TestClock::new();
    let keys = Arc::new(TestKeys::default());
    let options = Options {
        clock: clock.clone(),
        tail_bytes: 0,
        ..Options::new(&dir.0, keys.clone())
    };
    let (journal, mut writer) = open(options.clone()).unwrap();
    let mut starts = Vec::new();
    for number in 0..20 {
        starts.push(writer.next_sequence());
        append(&mut writer, number, number as u32, &[b"row"]);
        settle(&journal, &mut writer);
        clock.advance(Duration::from_secs(1900));
    }
    writer.close().unwrap();
    let journal = open_read_only(options).unwrap();
    for (number, start) in starts.iter().enumerate() {
        assert_eq!(read_from(&journal, *start).len(), (20 - number) * 3);
        assert_eq!(
            read_tables(&journal, journal.first(), &[number as u32]).len(),
            3
        );
    }
    assert!(keys.unwraps.load(std::sync::atomic::Ordering::Relaxed) >= 9);
}

#[test]
fn no_row_byte_and_no_key_stands_on_disk_in_the_clear() {
    let dir = TempDir::new();
    let secret = b"SECRET-ROW-BYTES-0123456789";
    for compression in [Compression::None, Compression::Lz4] {
        let path = dir.join(&format!("{compression:?}"));
        let options = Options {
            compression,
            segment_bytes: 64 << 10,
            ..options(&path)
        };
        let (journal, mut writer) = open(options).unwrap();
        let mut random = Random::new(4);
        for number in 0..100 {
            writer
                .begin(TransactionStart {
                    header: secret,
                    snapshot: false,
                })
                .unwrap();
            writer
                .record(&descriptor(1), &[secret, &random.bytes(2000)[..]].concat())
                .unwrap();
            writer.control(secret, Some(secret)).unwrap();
            commit(&mut writer, number, 1);
        }
        settle(&journal, &mut writer);
        journal
            .set_cursor(
                "s",
                Cursor {
                    sequence: journal.end(),
                    on_full: OnFull::Pause,
                },
            )
            .unwrap();
        writer.close().unwrap();
        let mut bytes = 0;
        for entry in std::fs::read_dir(&path).unwrap() {
            let content = std::fs::read(entry.unwrap().path()).unwrap();
            bytes += content.len();
            assert!(!content.windows(12).any(|window| window == &secret[..12]));
        }
        assert!(bytes > 200_000);
    }
}
