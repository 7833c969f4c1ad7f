//! No allocation per row once buffers have grown: a sink encodes hundreds of thousands of rows a second.

mod support;

use change::Event;
use format::canal_json::{CanalJson, Clock, Flavour, Grouping, OldData};
use format::debezium_json::{BigintUnsigned, DebeziumJson, DecimalMode, SchemaMode};
use format::shareplex_json::{OpWords, RowId, SharePlexJson, UpdateShape, Variant};
use format::{Ahead, Encoder, Messages, canal_json, debezium_json, shareplex_json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::types::{Random, all_types, with_row};
use support::{Change, Stored, header};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that ends has no counter any more, and nobody asks it.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

#[expect(unsafe_code, reason = "an allocator that counts can only be made so")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Inserts, updates and deletes of a table with every type.
fn rows() -> Vec<Stored> {
    let table = all_types();
    let mut random = Random::new(99);
    let mut rows = Vec::new();
    for group in 0..8 {
        let mut other = Random::new(group);
        rows.push(with_row(&mut random, &table, true, |before| {
            with_row(&mut other, &table, true, |after| {
                let change = match group % 3 {
                    0 => Change::insert(after),
                    1 => Change::update(before, after),
                    _ => Change::delete(before),
                };
                Stored::new(&table, &change, (group, group as u32 / 2))
            })
        }));
    }
    rows
}

/// Encodes a transaction of all rows.
fn encode(encoder: &mut dyn Encoder, events: &[Event<'_>], out: &mut Messages) {
    out.clear();
    encoder.transaction(&Ahead {
        operations: events.iter().map(|event| encoder.operations(event)).sum(),
        sent_before: 0,
        commit_sequence: 5,
    });
    for event in events {
        encoder.encode(event, out).expect("rows can be carried");
    }
}

fn check(name: &str, mut encoder: impl Encoder) {
    let (table, rows, header) = (all_types(), rows(), header());
    let header = change::TransactionHeader {
        id: Some(support::gtid("3e11fa47-71ca-11e1-9e33-c80aa9429562:23")),
        ..header
    };
    let mut events: Vec<Event<'_>> = rows.iter().map(|row| row.event(&table, &header)).collect();
    events.insert(
        0,
        Event::Begin {
            sequence: 1,
            header: &header,
        },
    );
    let mut out = Messages::default();
    (0..3).for_each(|_| encode(&mut encoder, &events, &mut out));
    let before = ALLOCATIONS.with(Cell::get);
    (0..100).for_each(|_| encode(&mut encoder, &events, &mut out));
    let after = ALLOCATIONS.with(Cell::get);
    assert_eq!(after - before, 0, "{name} allocates");
    assert!(out.iter().count() >= 3);
}

#[test]
fn canal_json_does_not_allocate() {
    let options = canal_json::Options::default();
    check("open source", CanalJson::new(options));
    check(
        "rows of an event",
        CanalJson::new(canal_json::Options {
            grouping: Grouping::Event,
            exact: true,
            gtid: true,
            ..options
        }),
    );
    for old_data in [OldData::Current, OldData::Before2022] {
        check(
            "dts",
            CanalJson::new(canal_json::Options {
                flavour: Flavour::Dts,
                clock: Clock::Commit,
                gtid: true,
                old_data,
                ..options
            }),
        );
    }
}

#[test]
fn shareplex_json_does_not_allocate() {
    for variant in [Variant::Dts, Variant::Quest] {
        let options = shareplex_json::Options::of(variant);
        check("single", SharePlexJson::new(options.clone()));
        check(
            "two",
            SharePlexJson::new(shareplex_json::Options {
                update: UpdateShape::BeforeAfter,
                rowid: RowId::PrimaryKey,
                op_words: OpWords::long(),
                ..options
            }),
        );
    }
}

#[test]
fn debezium_json_does_not_allocate() {
    for schema in [SchemaMode::None, SchemaMode::Inline] {
        for decimal in [
            DecimalMode::Precise,
            DecimalMode::String,
            DecimalMode::Double,
        ] {
            check(
                "debezium",
                DebeziumJson::new(debezium_json::Options {
                    schema,
                    decimal,
                    bigint_unsigned: BigintUnsigned::Precise,
                    ..debezium_json::Options::default()
                }),
            );
        }
    }
}
