//! What encoders and decoders take from the heap: nothing per row once an encoder is warm, and from a
//! decoder no more than the message allows.
//!
//! To add a format: a line in [`encoders`].

mod events;

use change::{Cell, Event, Operation, RowMeta, TransactionHeader};
use events::{Owned, Random, Row, every_type, random_value};
use format::canal_json::Clock;
use format::decode::Decoder;
use format::dts_avro::{self, DtsAvro, DtsAvroDecoder};
use format::{Encoder, Messages};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell as Counter;

thread_local! {
    static COUNT: Counter<u64> = const { Counter::new(0) };
    static LIVE: Counter<i64> = const { Counter::new(0) };
    static PEAK: Counter<i64> = const { Counter::new(0) };
}

/// Counts what the thread allocates.
struct Counting;

fn note(bytes: i64) {
    if bytes > 0 {
        COUNT.set(COUNT.get() + 1);
    }
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; each call is passed on as it came"
)]
// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as i64));
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(-(layout.size() as i64));
        note(size as i64);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `work` allocates.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// How many bytes `work` holds at most, beyond what was held before.
fn peak_bytes(work: impl FnOnce()) -> i64 {
    let before = LIVE.get();
    PEAK.set(before);
    work();
    PEAK.get() - before
}

/// The encoders that are measured, each with every setting that adds to a row.
fn encoders() -> Vec<Box<dyn Encoder>> {
    let dts = |clock| {
        DtsAvro::new(dts_avro::Options {
            source_version: "8.0.28".into(),
            clock,
            transactions: true,
            gtid: true,
            source_tags: true,
            meta_version: true,
            ..dts_avro::Options::default()
        })
    };
    vec![Box::new(dts(Clock::Commit)), Box::new(dts(Clock::Wall))]
}

fn header() -> TransactionHeader {
    TransactionHeader {
        file: "mysql-bin.000078".into(),
        begin_offset: 72_347,
        thread_id: 77,
        server_id: 1,
        time_s: 1_696_984_408,
        id: Some(change::position::TransactionId::Mysql(change::Gtid {
            source: change::gtid::GtidSource {
                uuid: [1; 16],
                tag: "tag".into(),
            },
            number: 5,
        })),
        ..TransactionHeader::default()
    }
}

/// Rows of every type and operation, and the largest first so that buffers have their size.
fn rows() -> Vec<Row> {
    let table = every_type();
    let mut random = Random(1);
    let mut rows: Vec<Row> = Vec::new();
    let long = "x".repeat(4000);
    for round in 0..400 {
        let mut cells = || -> Vec<Owned> {
            let kinds = table.columns.iter().map(|column| &column.kind);
            kinds.map(|kind| random_value(&mut random, kind)).collect()
        };
        let (before, mut after) = (cells(), cells());
        if round == 0 {
            let text = table
                .columns
                .iter()
                .position(|column| matches!(column.kind, change::ColumnType::Text { .. }));
            after[text.expect("every type is there")] = Owned::Text(long.clone());
        }
        let operation = [
            Operation::Update,
            Operation::Insert,
            Operation::Delete,
            Operation::Read,
        ][round % 4];
        let before: Vec<Cell<'_>> = before.iter().map(Owned::cell).collect();
        let after: Vec<Cell<'_>> = after.iter().map(Owned::cell).collect();
        let old = matches!(operation, Operation::Update | Operation::Delete).then_some(&before[..]);
        let new = (operation != Operation::Delete).then_some(&after[..]);
        rows.push(Row::new(operation, RowMeta::default(), old, new));
    }
    rows
}

#[test]
fn a_warm_encoder_takes_nothing_from_the_heap() {
    let (table, rows, header) = (every_type(), rows(), header());
    for mut encoder in encoders() {
        let mut messages = Messages::default();
        let mut all = |messages: &mut Messages| {
            for row in &rows {
                messages.clear();
                let begin = Event::Begin {
                    sequence: 7,
                    header: &header,
                };
                let change = Event::Row(row.change(&table, 1 << 60, &header));
                for event in [begin, change] {
                    encoder
                        .encode(&event, messages)
                        .expect("the format carries it");
                }
            }
        };
        all(&mut messages);
        let count = allocations(|| all(&mut messages));
        assert_eq!(count, 0, "{} rows of {}", rows.len(), encoder.name());
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(
        allocations(|| drop(std::hint::black_box(vec![1u8; 100]))),
        1
    );
    assert_eq!(
        peak_bytes(|| drop(std::hint::black_box(vec![1u8; 100]))),
        100
    );
}

/// A DTS Avro insert of `count` unnamed columns of SQL NULL, two bytes a column and one a value.
fn widest(count: i64) -> Vec<u8> {
    use dts_avro::datum::{put_long, put_string};
    let mut out = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    put_string(&mut out, "d.t");
    out.extend_from_slice(&[0, 0, 4]);
    put_long(&mut out, count);
    out.extend((0..count).flat_map(|_| [0, 2]));
    out.extend_from_slice(&[0, 0, 4]);
    put_long(&mut out, count);
    out.extend((0..count).map(|_| 0));
    out.extend_from_slice(&[0, 0]);
    out
}

#[test]
fn the_worst_message_takes_a_bounded_multiple_of_its_size() {
    let message = widest(32_768);
    let mut out = Vec::new();
    let bytes = peak_bytes(|| {
        DtsAvroDecoder
            .decode(&message, &mut out)
            .expect("a wide row is a row");
    });
    assert_eq!(out[0].table.columns.len(), 32_768);
    // A column's description, and its place in each of the lists that are made on the way.
    assert!(bytes < 32_768 * 1024, "{bytes} bytes");

    // One column more is refused, and before anything is reserved for it.
    let message = widest(32_769);
    let bytes = peak_bytes(|| {
        DtsAvroDecoder
            .decode(&message, &mut out)
            .expect_err("too wide");
    });
    assert!(bytes < 4096, "{bytes} bytes");
}
