//! Tables of CQL: what is static goes its own way, what is outside of a record lacks nothing, times and origins survive.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail")]

mod support;

use change::{Times, Value};
use std::collections::BTreeMap;
use stream::{
    CellValue, ErrorKind, Metadata, Origin, ReadLimits, RecordView, ShardInfo, Start, StreamStatus,
    ViewType,
};
use support::cql::*;
use support::*;

/// Every record of a stream in the order of sequences, each with its shard.
fn read_all<T>(
    world: &World,
    arn: &str,
    mut each: impl FnMut(&ShardInfo, &RecordView<'_>) -> T,
) -> Vec<T> {
    let mut found = BTreeMap::new();
    for shard in &world.streams.shards(arn, None, None, 100).unwrap().shards {
        let from = world.streams.locate(arn, shard.id, Start::TrimHorizon);
        let page = world
            .streams
            .read(arn, shard.id, from.unwrap(), ReadLimits::default())
            .unwrap();
        for record in page.records() {
            found.insert(record.sequence(), each(shard, &record));
        }
    }
    found.into_values().collect()
}

fn arn(world: &World, table: &str) -> String {
    let found = world.streams.table("chat", table).unwrap().stream.unwrap();
    found.arn.clone()
}

/// Key and images as a line: `a@0 new: v=11 …`.
fn shown(record: &RecordView<'_>) -> String {
    let text = |value: &CellValue<'_>| {
        let mut out = Vec::new();
        value.put_text(&mut out);
        String::from_utf8(out).unwrap()
    };
    let keys = |keys: Vec<(&str, CellValue<'_>)>| {
        let keys = keys.iter().map(|(_, value)| text(value));
        keys.collect::<Vec<_>>().join(",")
    };
    let mut line = format!(
        "{} {}@{}",
        record.origin().as_str(),
        keys(record.partition_keys().collect()),
        keys(record.clustering_keys().collect()),
    );
    for (name, row) in [("old", record.old_image()), ("new", record.new_image())] {
        let Some(row) = row else { continue };
        line += &format!(" {name}:");
        for cell in row.value_cells() {
            if matches!(cell.name, "v" | "w" | "topic" | "seats") {
                line += &format!(" {}={}", cell.name, text(&cell.value));
            }
        }
        for cell in row.static_cells() {
            line += &format!(" static {}={}", cell.name, text(&cell.value));
        }
    }
    line
}

const HISTORY: &str = "\
USER a,1@2026-11-29T00:00:00.000Z new: v=10 w=x
USER a,1@ new: static topic=cats
USER a,1@ old: static topic=cats new: static topic=dogs
USER a,1@2026-11-29T00:00:00.000Z old: v=10 w=x new: v=11 w=x
TTL a,1@2026-11-29T00:00:00.000Z old: v=11 w=x new: v=11
USER a,1@2026-11-29T00:00:03.000Z new: v=30
USER a,1@2026-11-29T00:00:02.000Z new: v=20
USER a,1@2026-11-29T00:00:01.000Z new: v=1
USER b,1@2026-11-29T00:00:01.000Z new: v=1
USER a,1@2026-11-29T00:00:02.000Z old: v=20 new: v=21
USER a,1@2026-11-29T00:00:03.000Z old: v=30 new: v=31
USER a,1@2026-11-29T00:00:02.000Z old: v=21 new: v=22
USER a,1@2026-11-29T00:00:03.000Z old: v=31
USER a,1@2026-11-29T00:00:02.000Z old: v=22
USER a,1@ old: static topic=dogs
USER a,1@2026-11-29T00:00:01.000Z old: v=1
USER a,1@2026-11-29T00:00:00.000Z old: v=11
USER c,1@2026-11-29T00:00:00.000Z new: v=1 w=gone
TTL c,1@2026-11-29T00:00:00.000Z old: v=1 w=gone
USER d,1@2026-11-29T00:00:00.000Z new: v=1
REPLICATION e,1@2026-11-29T00:00:00.000Z new: v=1";

#[test]
fn every_mutation_of_cql_is_its_records_also_after_a_restart() {
    let dir = TempDir::new();
    let dir = dir.0.join("j");
    let clock = TestClock::new();
    let mut world = World::open(&dir, clock.clone());
    fill(&mut world);
    for _ in 0..2 {
        let arn = arn(&world, "lines");
        let lines = read_all(&world, &arn, |_, record| shown(record));
        assert_eq!(lines.join("\n"), HISTORY);
        world.close();
        world = World::open(&dir, clock.clone());
    }
}

#[test]
fn a_static_record_stands_where_its_partition_key_says_and_a_row_where_all_its_key_does() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    let schema = lines(1, "lines");
    world.schemas(&[&schema]);
    let arn = enable(&mut world, "lines", ViewType::NewAndOldImages, 16);
    let rooms = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let int = |v| plain(Value::Int(v));
    let mut expected = Vec::new();
    for room in rooms {
        let head = head(room, int(1), null());
        let row = line(room, 0, written(0), (int(1), null()));
        expected.push((true, token(&schema, &head, true)));
        expected.push((false, token(&schema, &row, false)));
        let records = [(head, true), (row, false)].map(|(after, is_static)| Record {
            after: Some(after),
            is_static,
            ..Record::default()
        });
        write(&mut world, &schema, &records, false);
    }
    world.settle();
    let found = read_all(&world, &arn, |shard, record| {
        (record.is_static(), shard.from_hash..=shard.to_hash)
    });
    assert_eq!(found.len(), expected.len());
    for ((is_static, range), (expected, token)) in found.into_iter().zip(&expected) {
        assert_eq!(is_static, *expected);
        assert!(range.contains(token));
    }
    let apart = expected
        .chunks(2)
        .filter(|pair| pair[0].1 >> 60 != pair[1].1 >> 60)
        .count();
    assert!(
        apart > 0,
        "a row and its partition's static row go to shards of their own"
    );
}

#[test]
fn what_is_outside_of_a_record_is_not_missed_and_what_is_unknown_ends_the_stream() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    let schema = lines(1, "lines");
    world.schemas(&[&schema]);
    let arn = enable(&mut world, "lines", ViewType::NewImage, 1);
    let int = |v| plain(Value::Int(v));
    let insert = |v: Timed| Record {
        after: Some(line("a", 0, written(0), (int(1), v))),
        ..Record::default()
    };
    write(&mut world, &schema, &[insert(null())], false);
    world.settle();
    world.serve();
    let status = |world: &World| world.streams.describe(&arn).unwrap().status;
    assert_eq!(status(&world), StreamStatus::Enabled);
    let unknown = Timed(What::Unknown, Times::default());
    write(&mut world, &schema, &[insert(unknown)], false);
    world.settle();
    world.serve();
    assert_eq!(status(&world), StreamStatus::Disabled);
    assert_eq!(read_all(&world, &arn, |_, _| ()).len(), 1);
}

#[test]
fn times_stand_where_they_were_written() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    fill(&mut world);
    let of = |times: Times| Metadata::from(times);
    let arn = arn(&world, "lines");
    let seen = read_all(&world, &arn, |_, record| {
        let row = record.new_image()?;
        let cells = row.value_cells().chain(row.static_cells());
        let times: BTreeMap<String, Metadata> = cells
            .map(|cell| (cell.name.to_owned(), cell.metadata))
            .collect();
        Some((row.metadata(), times))
    });
    let (row, cells) = seen[0].as_ref().unwrap();
    assert_eq!((*row, cells["w"]), (of(expiring(0)), of(expiring(0))));
    assert!(cells["room"].is_empty(), "a key has no times of its own");
    let (row, cells) = seen[2].as_ref().unwrap();
    assert!(row.is_empty(), "the commit's time is not the row's");
    assert_eq!(cells["topic"], of(written(2)));
    let (row, cells) = seen[3].as_ref().unwrap();
    assert_eq!(*row, of(expiring(0)));
    assert_eq!((cells["v"], cells["w"]), (of(written(2)), of(expiring(0))));
    let old = read_all(&world, &arn, |_, record| {
        Some((record.origin(), record.old_image()?.metadata()))
    });
    assert_eq!(old[3], Some((Origin::User, of(expiring(0)))));
    assert_eq!(old[18], Some((Origin::Ttl, of(expiring(8)))));
}

#[test]
fn a_table_of_cql_has_its_own_clustering_columns() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    world.schemas(&[&lines(1, "lines")]);
    let mut ask = |clustering: &[&str]| {
        let request = stream::EnableStream {
            keyspace: "chat".into(),
            table: "lines".into(),
            clustering: clustering.iter().map(|name| (*name).to_owned()).collect(),
            ..stream::EnableStream::default()
        };
        world.ask(move |streams| streams.enable(request))
    };
    for wrong in [&["n"][..], &["n", "at"]] {
        let refused = ask(wrong).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(
            refused.to_string().contains("its own clustering columns"),
            "{refused}"
        );
    }
    assert!(ask(&["at"]).is_ok());
}

#[test]
fn a_value_that_is_not_of_its_type_can_still_be_read() {
    let dir = TempDir::new();
    let mut world = World::open(&dir.0.join("j"), TestClock::new());
    let (schema, _) = kinds(1);
    world.schemas(&[&schema]);
    let arn = enable(&mut world, "kinds", ViewType::NewImage, 1);
    // Each column gets the values of others.
    let strange = [
        plain(Value::Int(i64::MAX)),
        plain(Value::Text("x")),
        nested(vec![plain(Value::Int(1)), null(), plain(Value::Text("y"))]),
        plain(Value::Year(2026)),
        plain(Value::Enum(3)),
        plain(Value::Set(5)),
    ];
    for value in strange {
        let mut cells = vec![plain(Value::Int(1))];
        cells.resize(schema.columns.len(), value);
        let record = Record {
            after: Some((Times::default(), cells)),
            ..Record::default()
        };
        write(&mut world, &schema, &[record], false);
    }
    world.settle();
    let seen = read_all(&world, &arn, |_, record| {
        let row = record.new_image().unwrap();
        let cells = row.value_cells().map(|cell| {
            let mut out = Vec::new();
            cell.value.put_text(&mut out);
            if let CellValue::List(cells) | CellValue::Tuple(cells) = cell.value {
                assert!(cells.iter().count() >= 3);
            }
            cell.value.member()
        });
        cells.collect::<Vec<_>>()
    });
    assert_eq!(seen.len(), 6);
    assert!(
        seen.iter()
            .all(|members| members.len() == schema.columns.len())
    );
    let place = schema
        .columns
        .iter()
        .position(|column| column.name == "c_tinyint");
    assert_eq!(seen[0][place.unwrap()], "bigintT", "wider, not cut");
}
