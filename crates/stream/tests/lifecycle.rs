//! A stream's life, the 24 hours, and where iterators begin.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail")]

mod support;

use std::sync::Arc;
use std::time::Duration;
use stream::{
    EnableStream, ErrorKind, Origin, ReadFrom, ReadLimits, Resource, Sequence, ShardId,
    ShardLimits, SourceFacts, Start, StreamInfo, StreamStatus, Tags, ViewType,
};
use support::walker::{Walker, key_of, row_text};
use support::*;

fn row(id: i64, s: &str) -> Row {
    Row {
        id,
        v: Some(1),
        s: s.into(),
    }
}

fn request(view: ViewType) -> EnableStream {
    EnableStream {
        keyspace: "shop".into(),
        table: "t".into(),
        view: Some(view),
        ..EnableStream::default()
    }
}

fn world(dir: &TempDir) -> (World, Arc<TestClock>) {
    let clock = TestClock::new();
    (World::open(&dir.0.join("j"), clock.clone()), clock)
}

fn enable(world: &mut World, view: ViewType) -> Arc<StreamInfo> {
    world
        .ask(move |streams| streams.enable(request(view)))
        .unwrap()
}

fn only_shard(world: &World, arn: &str) -> ShardId {
    let shards = world.streams.shards(arn, None, None, 100).unwrap().shards;
    assert_eq!(shards.len(), 1);
    shards[0].id
}

fn insert(world: &mut World, id: i64) {
    world.transaction(&[Step::Insert(row(id, "x"))]);
    world.settle();
}

/// Keys of what a read gives.
fn keys(world: &World, arn: &str, shard: ShardId, from: ReadFrom) -> Vec<i64> {
    let page = world
        .streams
        .read(arn, shard, from, ReadLimits::default())
        .unwrap();
    page.records().map(|record| key_of(&record)).collect()
}

#[test]
fn every_view_type_shows_what_it_promises() {
    for view in [
        ViewType::KeysOnly,
        ViewType::NewImage,
        ViewType::OldImage,
        ViewType::NewAndOldImages,
    ] {
        let dir = TempDir::new();
        let (mut world, _) = world(&dir);
        let info = enable(&mut world, view);
        let null = Row {
            id: 1,
            v: None,
            s: "b".into(),
        };
        world.transaction(&[
            Step::Insert(row(1, "a")),
            Step::Update(row(1, "a"), null.clone()),
            Step::Delete(null),
        ]);
        world.settle();
        let shard = only_shard(&world, &info.arn);
        let page = world
            .streams
            .read(&info.arn, shard, ReadFrom::Horizon, ReadLimits::default())
            .unwrap();
        let text = |row: Option<stream::RowView<'_>>| row.map(|row| row_text(&row));
        let shown: Vec<_> = page
            .records()
            .map(|r| (text(r.old_image()), text(r.new_image())))
            .collect();
        let (a, b) = (Some("id=1 v=1 s=a".to_owned()), Some("id=1 s=b".to_owned()));
        let whole = [(None, a.clone()), (a, b.clone()), (b, None)];
        let expected = whole.map(|(old, new)| {
            (
                old.filter(|_| view.has_old()),
                new.filter(|_| view.has_new()),
            )
        });
        assert_eq!(shown, expected, "{view:?}");
        assert!(
            page.records()
                .all(|record| key_of(&record) == 1 && record.clustering_keys().count() == 0)
        );
        let wrote = world.streams.now_us();
        let recent = |us: i64| (wrote - 60_000_000..=wrote).contains(&us);
        assert!(page.records().all(|record| recent(record.created_us())));
    }
}

#[test]
fn rows_of_another_server_have_their_origin_and_write_times_are_shown() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    let info = enable(&mut world, ViewType::NewAndOldImages);
    world.transaction_of(1, &[Step::Insert(row(1, "a"))], true);
    world.transaction_of(1, &[Step::Update(row(1, "a"), row(1, "b"))], false);
    world.settle();
    let shard = only_shard(&world, &info.arn);
    let page = world
        .streams
        .read(&info.arn, shard, ReadFrom::Horizon, ReadLimits::default())
        .unwrap();
    let origins: Vec<_> = page.records().map(|record| record.origin()).collect();
    assert_eq!(origins, [Origin::Replication, Origin::User]);
    assert!(
        page.records()
            .all(|r| r.new_image().unwrap().metadata().write_time_us.is_some())
    );
    let old: Vec<_> = page.records().filter_map(|r| r.old_image()).collect();
    assert_eq!(old.len(), 1);
    assert_eq!(
        old[0].metadata().write_time_us,
        None,
        "the change's time is not when the old row was written"
    );
}

#[test]
fn a_stream_begins_where_it_was_enabled_and_a_new_one_follows_a_disabled_one() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    insert(&mut world, 1);
    let first = enable(&mut world, ViewType::KeysOnly);
    assert_eq!(
        (first.status, first.is_latest),
        (StreamStatus::Enabled, true)
    );
    insert(&mut world, 2);
    let again = world
        .ask(|streams| streams.enable(request(ViewType::KeysOnly)))
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    let arn = first.arn.clone();
    let ended = world.ask(move |streams| streams.disable(&arn)).unwrap();
    assert_eq!(ended.status, StreamStatus::Disabled);
    insert(&mut world, 3);
    let second = enable(&mut world, ViewType::NewImage);
    assert!(second.arn != first.arn && second.label > first.label);
    insert(&mut world, 4);
    let (one, two) = (
        only_shard(&world, &first.arn),
        only_shard(&world, &second.arn),
    );
    assert_eq!(keys(&world, &first.arn, one, ReadFrom::Horizon), [2]);
    assert_eq!(keys(&world, &second.arn, two, ReadFrom::Horizon), [4]);
    let old = world.streams.describe(&first.arn).unwrap();
    assert!(!old.is_latest && world.streams.describe(&second.arn).unwrap().is_latest);
    let page = world
        .streams
        .read(&first.arn, one, ReadFrom::Horizon, ReadLimits::default())
        .unwrap();
    assert_eq!(page.next, None, "every shard of a disabled stream ends");
    let table = world.streams.table("shop", "t").unwrap();
    assert_eq!(table.stream.unwrap().arn, second.arn);
    let listed = world
        .streams
        .list(Some("shop"), Some("t"), None, 1)
        .unwrap();
    assert!(listed.more && listed.streams[0].arn == first.arn);
    let rest = world
        .streams
        .list(None, None, Some(&first.arn), 10)
        .unwrap();
    assert!(!rest.more && rest.streams.len() == 1 && rest.streams[0].arn == second.arn);
}

#[test]
fn each_record_is_kept_for_24_hours_exactly() {
    let dir = TempDir::new();
    let (mut world, clock) = world(&dir);
    let info = enable(&mut world, ViewType::KeysOnly);
    let shard = only_shard(&world, &info.arn);
    let mut written = Vec::new();
    for id in 0..20 {
        insert(&mut world, id);
        clock.advance(HOUR);
    }
    let page = world
        .streams
        .read(&info.arn, shard, ReadFrom::Horizon, ReadLimits::default())
        .unwrap();
    written.extend(
        page.records()
            .map(|record| (key_of(&record), record.created_us(), record.sequence())),
    );
    assert_eq!(written.len(), 20);
    // To just before each one's end, then to it.
    for (index, (id, created_us, sequence)) in written.iter().enumerate() {
        let end_us = created_us + 24 * 3_600_000_000;
        let ahead = end_us - 300_000 - world.streams.now_us();
        clock.advance(Duration::from_micros(ahead as u64));
        assert_eq!(
            keys(&world, &info.arn, shard, ReadFrom::Horizon)[0],
            *id,
            "a moment before"
        );
        assert!(
            world
                .streams
                .locate(&info.arn, shard, Start::AtSequence(*sequence))
                .is_ok()
        );
        let left = end_us - world.streams.now_us();
        clock.advance(Duration::from_micros(left.max(0) as u64));
        let expected: Vec<i64> = (index as i64 + 1..20).collect();
        assert_eq!(
            keys(&world, &info.arn, shard, ReadFrom::Horizon),
            expected,
            "at its end"
        );
        let located = world
            .streams
            .locate(&info.arn, shard, Start::AtSequence(*sequence));
        assert_eq!(located.unwrap_err().kind(), ErrorKind::Trimmed);
        let read = world.streams.read(
            &info.arn,
            shard,
            ReadFrom::Sequence(*sequence),
            ReadLimits::default(),
        );
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Trimmed);
    }
    // An open shard without a record left: nothing of it is an error.
    let horizon = world
        .streams
        .locate(&info.arn, shard, Start::TrimHorizon)
        .unwrap();
    assert!(keys(&world, &info.arn, shard, horizon).is_empty());
    let latest = world
        .streams
        .locate(&info.arn, shard, Start::Latest)
        .unwrap();
    insert(&mut world, 99);
    assert_eq!(keys(&world, &info.arn, shard, latest), [99]);
}

#[test]
fn an_old_empty_shard_is_never_called_trimmed() {
    let dir = TempDir::new();
    let (mut world, clock) = world(&dir);
    let info = enable(&mut world, ViewType::KeysOnly);
    let shard = only_shard(&world, &info.arn);
    let starting = world
        .streams
        .shards(&info.arn, None, None, 1)
        .unwrap()
        .shards[0]
        .starting;
    let (horizon, latest) = (
        world
            .streams
            .locate(&info.arn, shard, Start::TrimHorizon)
            .unwrap(),
        world
            .streams
            .locate(&info.arn, shard, Start::Latest)
            .unwrap(),
    );
    clock.advance(30 * HOUR);
    for from in [horizon, latest] {
        let page = world
            .streams
            .read(&info.arn, shard, from, ReadLimits::default())
            .unwrap();
        assert!(page.is_empty() && page.at_tip && page.next.is_some());
    }
    assert!(
        world
            .streams
            .locate(&info.arn, shard, Start::AtSequence(starting))
            .is_ok()
    );
    insert(&mut world, 1);
    assert_eq!(keys(&world, &info.arn, shard, horizon), [1]);
}

#[test]
fn a_disabled_stream_stays_for_24_hours_and_then_goes() {
    let dir = TempDir::new();
    let (mut world, clock) = world(&dir);
    let info = enable(&mut world, ViewType::KeysOnly);
    insert(&mut world, 1);
    let arn = info.arn.clone();
    world.ask(move |streams| streams.disable(&arn)).unwrap();
    let shard = only_shard(&world, &info.arn);
    clock.advance(24 * HOUR - Duration::from_secs(5));
    assert_eq!(keys(&world, &info.arn, shard, ReadFrom::Horizon), [1]);
    assert_eq!(
        world
            .streams
            .list(None, None, None, 10)
            .unwrap()
            .streams
            .len(),
        1
    );
    clock.advance(Duration::from_secs(10));
    assert!(
        world
            .streams
            .list(None, None, None, 10)
            .unwrap()
            .streams
            .is_empty()
    );
    assert_eq!(
        world.streams.describe(&info.arn).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let read = world
        .streams
        .read(&info.arn, shard, ReadFrom::Horizon, ReadLimits::default());
    assert_eq!(read.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        world
            .streams
            .table("shop", "t")
            .unwrap()
            .stream
            .map(|s| s.status),
        Some(StreamStatus::Disabled)
    );
}

#[test]
fn a_closed_parent_leaves_the_list_when_its_records_have_gone() {
    let dir = TempDir::new();
    let (mut world, clock) = world(&dir);
    let info = enable(&mut world, ViewType::KeysOnly);
    let parent = only_shard(&world, &info.arn);
    insert(&mut world, 1);
    let arn = info.arn.clone();
    world
        .ask(move |streams| streams.split(&arn, parent, 2))
        .unwrap();
    assert_eq!(
        world
            .streams
            .shards(&info.arn, None, None, 10)
            .unwrap()
            .shards
            .len(),
        3
    );
    clock.advance(25 * HOUR);
    let listed = world
        .streams
        .shards(&info.arn, None, None, 10)
        .unwrap()
        .shards;
    assert!(listed.len() == 2 && listed.iter().all(|shard| shard.ending.is_none()));
    let gone = world.streams.locate(&info.arn, parent, Start::TrimHorizon);
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
    let mut walker = Walker::default();
    insert(&mut world, 2);
    walker.drain_open(&world.streams, &info.arn);
    assert_eq!(walker.seen.keys().copied().collect::<Vec<_>>(), [2]);
}

#[test]
fn iterators_begin_where_their_type_says() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    let info = enable(&mut world, ViewType::KeysOnly);
    let shard = only_shard(&world, &info.arn);
    let starting = world
        .streams
        .shards(&info.arn, None, None, 1)
        .unwrap()
        .shards[0]
        .starting;
    let on_empty = world
        .streams
        .locate(&info.arn, shard, Start::AtSequence(starting))
        .unwrap();
    (1..=5).for_each(|id| insert(&mut world, id));
    assert_eq!(keys(&world, &info.arn, shard, on_empty), [1, 2, 3, 4, 5]);
    let page = world
        .streams
        .read(&info.arn, shard, ReadFrom::Horizon, ReadLimits::default())
        .unwrap();
    let third = page.records().nth(2).unwrap().sequence();
    let at = |start| world.streams.locate(&info.arn, shard, start);
    assert_eq!(
        keys(
            &world,
            &info.arn,
            shard,
            at(Start::AtSequence(third)).unwrap()
        ),
        [3, 4, 5]
    );
    assert_eq!(
        keys(
            &world,
            &info.arn,
            shard,
            at(Start::AfterSequence(third)).unwrap()
        ),
        [4, 5]
    );
    let far = at(Start::AfterSequence(Sequence(u64::MAX))).unwrap();
    assert!(keys(&world, &info.arn, shard, far).is_empty());
    let below = at(Start::AtSequence(Sequence(7)));
    assert_eq!(below.unwrap_err().kind(), ErrorKind::Trimmed);
    let mut seen = Vec::new();
    let mut from = ReadFrom::Horizon;
    loop {
        let limits = ReadLimits {
            records_max: 2,
            bytes_max: 1 << 20,
        };
        let page = world.streams.read(&info.arn, shard, from, limits).unwrap();
        seen.extend(page.records().map(|record| key_of(&record)));
        from = ReadFrom::Sequence(page.next.unwrap());
        assert_eq!(page.at_tip, seen.len() == 5, "{seen:?}");
        if page.at_tip {
            break;
        }
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    let small = ReadLimits {
        records_max: 1000,
        bytes_max: 1,
    };
    let page = world
        .streams
        .read(&info.arn, shard, ReadFrom::Horizon, small)
        .unwrap();
    assert_eq!(page.len(), 1, "one record at least");
    let arn = info.arn.clone();
    world.ask(move |streams| streams.disable(&arn)).unwrap();
    let past = world
        .streams
        .locate(&info.arn, shard, Start::AfterSequence(Sequence(u64::MAX)));
    assert_eq!(past.unwrap_err().kind(), ErrorKind::Invalid);
    let latest = world
        .streams
        .locate(&info.arn, shard, Start::Latest)
        .unwrap();
    let page = world
        .streams
        .read(&info.arn, shard, latest, ReadLimits::default())
        .unwrap();
    assert!(page.is_empty() && page.next.is_none());
    let other = ShardId::parse("shardId-00000000000000000001-00000000").unwrap();
    assert_eq!(
        world
            .streams
            .locate(&info.arn, other, Start::Latest)
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    let unknown = info.arn.replace("/t/", "/u/");
    assert_eq!(
        world.streams.describe(&unknown).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        world.streams.describe("arn:x").unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[test]
fn tags_belong_to_the_latest_stream_and_come_from_the_table_when_asked() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    let tags = |pairs: &[(&str, &str)]| -> Tags {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let table = Resource::Table("shop".into(), "t".into());
    let (resource, set) = (table.clone(), tags(&[("team", "shop")]));
    world
        .ask(move |streams| streams.tag(&resource, &set))
        .unwrap();
    let mut wanted = request(ViewType::KeysOnly);
    (wanted.propagate_tags, wanted.tags) = (true, tags(&[("own", "1")]));
    let first = world.ask(move |streams| streams.enable(wanted)).unwrap();
    assert_eq!(first.tags, tags(&[("own", "1"), ("team", "shop")]));
    let resource = Resource::Stream(first.arn.clone());
    let (set, of) = (tags(&[("own", "2"), ("x", "y")]), resource.clone());
    world.ask(move |streams| streams.tag(&of, &set)).unwrap();
    let of = resource.clone();
    world
        .ask(move |streams| streams.untag(&of, &["x".into(), "absent".into()]))
        .unwrap();
    assert_eq!(
        world.streams.tags(&resource).unwrap(),
        tags(&[("own", "2"), ("team", "shop")])
    );
    let arn = first.arn.clone();
    world.ask(move |streams| streams.disable(&arn)).unwrap();
    enable(&mut world, ViewType::KeysOnly);
    let (of, set) = (resource.clone(), tags(&[("a", "b")]));
    let refused = world
        .ask(move |streams| streams.tag(&of, &set))
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    world.close();
    let (world, _) = {
        let clock = TestClock::new();
        (World::open(&dir.0.join("j"), clock.clone()), clock)
    };
    assert_eq!(
        world.streams.tags(&table).unwrap(),
        tags(&[("team", "shop")]),
        "they survive a restart"
    );
    let nowhere = Resource::Table("shop".into(), "nope".into());
    assert_eq!(
        world.streams.tags(&nowhere).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_stream_waits_for_its_tables_copy_and_partial_rows_are_refused_with_the_fix() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    let partial = SourceFacts {
        partial_images: Some(
            "binlog_row_image is MINIMAL; hint: SET PERSIST binlog_row_image = 'FULL'",
        ),
        is_copying: &|_| false,
    };
    let mut writer = world.writer.take().unwrap();
    let refused = world
        .driver
        .enable_now(&request(ViewType::NewImage), &mut writer, &partial)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("SET PERSIST"), "{refused}");
    let copying = SourceFacts {
        partial_images: None,
        is_copying: &|table| table == "shop.t",
    };
    let info = world
        .driver
        .enable_now(&request(ViewType::NewImage), &mut writer, &copying)
        .unwrap();
    assert_eq!(info.status, StreamStatus::Enabling);
    assert!(
        world
            .streams
            .shards(&info.arn, None, None, 10)
            .unwrap()
            .shards
            .is_empty()
    );
    std::thread::sleep(Duration::from_millis(1100));
    world.driver.serve(&mut writer, &copying).unwrap();
    assert_eq!(
        world.streams.describe(&info.arn).unwrap().status,
        StreamStatus::Enabling
    );
    std::thread::sleep(Duration::from_millis(1100));
    world
        .driver
        .serve(&mut writer, &SourceFacts::COMPLETE)
        .unwrap();
    assert_eq!(
        world.streams.describe(&info.arn).unwrap().status,
        StreamStatus::Enabled
    );
    world.writer = Some(writer);
}

#[test]
fn load_splits_a_shard() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    let mut wanted = request(ViewType::KeysOnly);
    wanted.shards = Some(ShardLimits {
        split_records: 50,
        window_s: 1,
        max: 4,
        ..ShardLimits::default()
    });
    let info = world.ask(move |streams| streams.enable(wanted)).unwrap();
    let mut id = 0;
    for _ in 0..60 {
        for _ in 0..100 {
            id += 1;
            world.transaction(&[Step::Insert(row(id, "x"))]);
        }
        world.serve();
        std::thread::sleep(Duration::from_millis(100));
        let open = world
            .streams
            .shards(&info.arn, None, None, 100)
            .unwrap()
            .shards;
        if open.iter().filter(|shard| shard.ending.is_none()).count() == 4 {
            break;
        }
    }
    world.settle();
    let report = world.streams.reports().unwrap().remove(0);
    assert_eq!(report.shards_open, 4);
    let mut walker = Walker::default();
    walker.drain_open(&world.streams, &info.arn);
    assert_eq!(walker.records, id as u64);
    assert_eq!(walker.seen.len(), id as usize);
}

#[test]
fn a_stream_ends_inside_the_transaction_where_its_tables_history_ends() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    let info = enable(&mut world, ViewType::KeysOnly);
    insert(&mut world, 1);
    let (mut header, mut trailer, mut step) = (Vec::new(), Vec::new(), Vec::new());
    change::TransactionHeader::default().encode(&mut header);
    change::TransactionTrailer::default().encode(&mut trailer);
    change::PositionStep::default().encode(&mut step);
    let end_in_transaction = |world: &mut World, commits: bool| {
        let writer = world.writer.as_mut().unwrap();
        let start = journal::TransactionStart {
            header: &header,
            snapshot: false,
        };
        writer.begin(start).unwrap();
        let sequence = writer.next_sequence();
        world
            .driver
            .end_streams(change::TableId(1), sequence, "gone", writer)
            .unwrap();
        if commits {
            let commit = journal::Commit {
                trailer: &trailer,
                position: &step,
                time_us: 1,
                rows: 0,
            };
            writer.commit(commit).unwrap();
        } else {
            writer.rollback().unwrap();
        }
        world.serve();
        sequence
    };
    end_in_transaction(&mut world, false);
    assert_eq!(
        world.streams.describe(&info.arn).unwrap().status,
        StreamStatus::Enabled,
        "it was rolled back"
    );
    insert(&mut world, 2);
    let sequence = end_in_transaction(&mut world, true);
    let ended = world.streams.describe(&info.arn).unwrap();
    assert_eq!(
        (ended.status, ended.reason.as_str()),
        (StreamStatus::Disabled, "gone")
    );
    assert_eq!(ended.disabled_at, Some(Sequence(sequence.0 - 1)));
    insert(&mut world, 3);
    let shard = only_shard(&world, &info.arn);
    assert_eq!(keys(&world, &info.arn, shard, ReadFrom::Horizon), [1, 2]);
}

/// What a pipeline does in a transaction of the source's: with the writer in it, and the rest of the world.
fn inside(world: &mut World, act: impl FnOnce(&mut stream::StreamWriter, &mut journal::Writer)) {
    let (mut header, mut trailer, mut step) = (Vec::new(), Vec::new(), Vec::new());
    change::TransactionHeader::default().encode(&mut header);
    change::TransactionTrailer::default().encode(&mut trailer);
    change::PositionStep::default().encode(&mut step);
    let writer = world.writer.as_mut().unwrap();
    let start = journal::TransactionStart {
        header: &header,
        snapshot: false,
    };
    writer.begin(start).unwrap();
    act(&mut world.driver, writer);
    let commit = journal::Commit {
        trailer: &trailer,
        position: &step,
        time_us: 1,
        rows: 0,
    };
    writer.commit(commit).unwrap();
}

#[test]
fn a_partial_row_ends_a_stream_with_images_there_and_keys_only_goes_on() {
    for view in [ViewType::NewAndOldImages, ViewType::KeysOnly] {
        let dir = TempDir::new();
        let (mut world, _) = world(&dir);
        let info = enable(&mut world, view);
        insert(&mut world, 1);
        world.minimal_update(1);
        insert(&mut world, 2);
        world.serve();
        let shard = only_shard(&world, &info.arn);
        let seen = keys(&world, &info.arn, shard, ReadFrom::Horizon);
        let after = world.streams.describe(&info.arn).unwrap();
        match view {
            ViewType::KeysOnly => {
                assert_eq!((after.status, seen), (StreamStatus::Enabled, vec![1, 1, 2]));
            }
            _ => {
                assert_eq!(
                    (after.status, after.reason.as_str(), seen),
                    (StreamStatus::Disabled, "not whole", vec![1])
                );
                let page = world
                    .streams
                    .read(&info.arn, shard, ReadFrom::Horizon, ReadLimits::default())
                    .unwrap();
                assert_eq!(page.next, None, "the shard is closed, not stuck");
            }
        }
    }
}

#[test]
fn a_stream_that_waits_ends_with_its_table_and_one_with_snapshot_rows_does_not_wait() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    let copying = SourceFacts {
        partial_images: None,
        is_copying: &|_| true,
    };
    let mut writer = world.writer.take().unwrap();
    let waiting = world
        .driver
        .enable_now(&request(ViewType::KeysOnly), &mut writer, &copying)
        .unwrap();
    world.writer = Some(writer);
    assert_eq!(waiting.status, StreamStatus::Enabling);
    assert!(world.driver.has_live_stream(change::TableId(1)));
    inside(&mut world, |driver, writer| {
        let sequence = writer.next_sequence();
        let table = change::TableId(1);
        assert!(
            driver
                .end_streams(table, sequence, "dropped", writer)
                .unwrap()
        );
    });
    world.serve();
    let ended = world.streams.describe(&waiting.arn).unwrap();
    assert_eq!(
        (ended.status, ended.reason.as_str()),
        (StreamStatus::Disabled, "dropped")
    );

    let mut writer = world.writer.take().unwrap();
    let wanted = EnableStream {
        include_snapshot: true,
        ..request(ViewType::NewImage)
    };
    let all = world
        .driver
        .enable_now(&wanted, &mut writer, &copying)
        .unwrap();
    world.writer = Some(writer);
    assert_eq!(all.status, StreamStatus::Enabled);
    world.chunk(&[row(2, "copied")]);
    insert(&mut world, 3);
    let shard = only_shard(&world, &all.arn);
    assert_eq!(keys(&world, &all.arn, shard, ReadFrom::Horizon), [2, 3]);
}

#[test]
fn a_table_that_goes_and_comes_again_before_anything_is_shown_has_a_stream_of_each() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    let first = enable(&mut world, ViewType::KeysOnly);
    insert(&mut world, 1);
    let table = Arc::new(schema(1, "t"));
    let wanted = EnableStream {
        name: Some("own".into()),
        ..request(ViewType::KeysOnly)
    };
    for id in [2, 3] {
        inside(&mut world, |driver, writer| {
            let sequence = writer.next_sequence();
            let ended = driver.end_streams(table.table, sequence, "dropped", writer);
            assert!(ended.unwrap() && !driver.is_live(&table));
        });
        inside(&mut world, |driver, writer| {
            driver
                .enable_inside(&wanted, &table, (writer, &SourceFacts::COMPLETE))
                .unwrap();
            assert!(driver.is_live(&table) && driver.has_live_stream(table.table));
        });
        world.transaction(&[Step::Insert(row(id, "x"))]);
    }
    world.serve();
    world.settle();
    let all = world.streams.list(None, None, None, 10).unwrap().streams;
    let seen: Vec<_> = all
        .iter()
        .map(|info| {
            let shard = only_shard(&world, &info.arn);
            let keys = keys(&world, &info.arn, shard, ReadFrom::Horizon);
            (info.status, info.name.is_some(), keys)
        })
        .collect();
    assert_eq!(all[0].arn, first.arn);
    assert_eq!(
        seen,
        [
            (StreamStatus::Disabled, false, vec![1]),
            (StreamStatus::Disabled, true, vec![2]),
            (StreamStatus::Enabled, true, vec![3]),
        ]
    );
    assert!(!world.driver.is_disabled_by_command("shop", "t"));
    let arn = all[2].arn.clone();
    world.ask(move |streams| streams.disable(&arn)).unwrap();
    assert!(world.driver.is_disabled_by_command("shop", "t"));
}

#[test]
fn names_that_look_alike_stay_apart() {
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    // The third name is what the second is shown as, so it is escaped itself.
    world.tables(&["t", "order-items", "x0_order_2ditems"]);
    let page = world.streams.tables(Some("shop"), None, 10);
    let shown: Vec<_> = page
        .tables
        .iter()
        .map(|table| table.table.as_str())
        .collect();
    assert_eq!(shown, ["t", "x0_order_2ditems", "x0_x0__order__2ditems"]);
    let table = world.streams.table("shop", "x0_order_2ditems").unwrap();
    assert_eq!(table.schema.name, "order-items");
    assert_eq!(
        world
            .streams
            .resolve("shop.order-items")
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    let first = world.streams.tables(None, None, 1);
    assert!(first.more);
    let rest = world.streams.tables(None, Some(("shop", "t")), 10);
    assert_eq!(rest.tables.len(), 2);
    assert_eq!(world.streams.keyspaces().len(), 1);
}

#[test]
fn readers_on_other_threads_see_each_record_once_while_shards_change() {
    let seed = seed("threads");
    let mut random = Rng(seed);
    let dir = TempDir::new();
    let (mut world, _) = world(&dir);
    let info = enable(&mut world, ViewType::NewAndOldImages);
    let ends = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let readers: Vec<_> = (0..3u64)
        .map(|number| {
            let (streams, arn, ends) = (world.streams.clone(), info.arn.clone(), Arc::clone(&ends));
            std::thread::spawn(move || {
                let (mut walker, mut random) = (Walker::default(), Rng(seed ^ number));
                while !ends.load(std::sync::atomic::Ordering::SeqCst) {
                    walker.step(&streams, &arn, &mut random);
                }
                walker.drain(&streams, &arn, &mut random);
                walker.seen
            })
        })
        .collect();
    let (mut workload, mut history) = (Workload::new(seed, 40), History::new());
    for _ in 0..1500 {
        let steps = workload.next();
        steps.iter().for_each(|step| remember(&mut history, step));
        world.transaction(&steps);
        if random.chance(5) {
            let open: Vec<_> = world
                .streams
                .shards(&info.arn, None, None, 10_000)
                .unwrap()
                .shards;
            let mut open: Vec<_> = open
                .iter()
                .filter(|s| s.ending.is_none())
                .map(|s| (s.from_hash, s.id))
                .collect();
            open.sort_unstable();
            let arn = info.arn.clone();
            let at = random.below(open.len() as u64) as usize;
            if open.len() < 8 {
                let shard = open[at].1;
                world
                    .ask(move |streams| streams.split(&arn, shard, 2))
                    .unwrap();
            } else {
                let all: Vec<_> = open.iter().map(|(_, id)| *id).collect();
                world.ask(move |streams| streams.merge(&arn, &all)).unwrap();
            }
        }
    }
    let arn = info.arn.clone();
    world.ask(move |streams| streams.disable(&arn)).unwrap();
    ends.store(true, std::sync::atomic::Ordering::SeqCst);
    for reader in readers {
        assert_eq!(reader.join().unwrap(), history);
    }
}

#[test]
fn snapshot_rows_are_records_only_when_asked_for() {
    for include_snapshot in [false, true] {
        let dir = TempDir::new();
        let (mut world, _) = world(&dir);
        let wanted = EnableStream {
            include_snapshot,
            ..request(ViewType::NewImage)
        };
        let info = world.ask(move |streams| streams.enable(wanted)).unwrap();
        insert(&mut world, 1);
        world.chunk(&[row(2, "copied"), row(3, "copied")]);
        insert(&mut world, 4);
        let shard = only_shard(&world, &info.arn);
        let expected: &[i64] = if include_snapshot {
            &[1, 2, 3, 4]
        } else {
            &[1, 4]
        };
        assert_eq!(keys(&world, &info.arn, shard, ReadFrom::Horizon), expected);
    }
}
