//! Messages back to changes: identity where the format carries it, the documented loss elsewhere, and
//! no panic for any bytes.

mod support;

use change::event::DdlChange;
use change::{Cell, ColumnType, DdlKind, Event, Image, Operation, RowChange, TableSchema, Value};
use format::canal_json::{CanalJson, CanalJsonDecoder, Flavour, Grouping, OldData, Options};
use format::debezium_json::{self, BigintUnsigned, DebeziumJson, DebeziumJsonDecoder, SchemaMode};
use format::decode::{Decoded, Decoder, Kind};
use format::shareplex_json::{self, SharePlexJson, SharePlexJsonDecoder, UpdateShape, Variant};
use format::{Encoder, Messages};
use support::types::{Random, all_types, with_row};
use support::{Change, Stored, header, item, messages_of, row_of, text};

const SEED: u64 = 0x5eed_0001;

fn decode(decoder: &mut dyn Decoder, message: &str) -> Vec<Decoded> {
    let mut out = Vec::new();
    if let Err(fault) = decoder.decode(message.as_bytes(), &mut out) {
        panic!("{fault}\n{message}");
    }
    out
}

/// A random change of the table of all types.
fn change(random: &mut Random, table: &TableSchema, unknown: bool) -> Stored {
    let place = (random.below(1 << 40), 0);
    match random.below(4) {
        0 => with_row(random, table, unknown, |row| {
            Stored::new(table, &Change::insert(row), place)
        }),
        1 => with_row(random, table, unknown, |row| {
            Stored::new(table, &Change::read(row), place)
        }),
        2 => with_row(random, table, unknown, |row| {
            Stored::new(table, &Change::delete(row), place)
        }),
        _ => {
            let mut other = Random::new(random.next());
            with_row(random, table, unknown, |before| {
                with_row(&mut other, table, unknown, |after| {
                    Stored::new(table, &Change::update(before, after), place)
                })
            })
        }
    }
}

fn row_of_event<'e>(event: &Event<'e>) -> RowChange<'e> {
    match event {
        Event::Row(row) => *row,
        _ => unreachable!("a row was stored"),
    }
}

/// Compares images column by column after `expect` has said what each cell becomes.
fn compare(
    (table, decoded): (&TableSchema, &TableSchema),
    (was, is): (Option<Image<'_>>, Option<Image<'_>>),
    expect: &dyn Fn(usize, Cell<'_>) -> String,
) {
    let (Some(was), Some(is)) = (was, is) else {
        assert_eq!(was.is_some(), is.is_some(), "an image came or went");
        return;
    };
    for (index, cell) in was.cells().enumerate() {
        let name = &table.columns[index].name;
        let found = decoded
            .columns
            .iter()
            .position(|column| column.name == *name)
            .map_or(Cell::Unknown, |at| is.cell(at));
        assert_eq!(format!("{found:?}"), expect(index, cell), "{name}");
    }
}

fn same(_: usize, cell: Cell<'_>) -> String {
    format!("{cell:?}")
}

fn operation_of(decoded: &Decoded) -> Operation {
    match decoded.kind {
        Kind::Row(operation) => operation,
        other => panic!("{other:?} is no row"),
    }
}

#[test]
fn canal_json_gives_every_type_back_identical() {
    let table = all_types();
    let header = header();
    let options = [
        Options::default(),
        Options {
            timestamp_offset_seconds: 8 * 3600,
            snapshot_as_init: true,
            ..Options::default()
        },
        Options {
            flavour: Flavour::Dts,
            snapshot_as_init: true,
            ..Options::default()
        },
        Options {
            flavour: Flavour::Dts,
            old_data: OldData::Before2022,
            snapshot_as_init: true,
            ..Options::default()
        },
    ];
    let mut random = Random::new(SEED);
    for options in options {
        let mut encoder = CanalJson::new(options);
        let mut decoder = CanalJsonDecoder::new(options.old_data, options.timestamp_offset_seconds);
        for _ in 0..500 {
            let stored = change(&mut random, &table, false);
            let event = stored.event(&table, &header);
            let row = row_of_event(&event);
            let messages = messages_of(&mut encoder, &event);
            let decoded = &decode(&mut decoder, &messages[0])[0];
            let read_as_insert = row.operation == Operation::Read && !options.snapshot_as_init;
            let expected = if read_as_insert {
                Operation::Insert
            } else {
                row.operation
            };
            assert_eq!(operation_of(decoded), expected);
            let tables = (&table, &*decoded.table);
            // Labels of a DTS message are gone, the ordinals stay.
            compare(tables, (row.before, decoded.before()), &same);
            compare(tables, (row.after, decoded.after()), &same);
            assert_eq!(decoded.table.name, table.name);
            assert_eq!(decoded.table.primary_key, table.primary_key);
            assert_eq!(decoded.id, Some(row.sequence));
            assert_eq!(decoded.time_us, 1_700_000_000_000_000);
            assert_eq!(decoded.warnings, []);
            if options.flavour == Flavour::OpenSource {
                for (is, was) in decoded.table.columns.iter().zip(&table.columns) {
                    assert_eq!(is.declared, was.declared);
                    if !matches!(was.kind, ColumnType::Vector) {
                        assert_eq!(is.kind, was.kind, "{}", was.declared);
                    }
                }
            }
        }
    }
}

#[test]
fn canal_json_keeps_unknown_cells_unknown() {
    let table = all_types();
    let header = header();
    let mut random = Random::new(SEED + 1);
    let mut encoder = CanalJson::new(Options::default());
    let mut decoder = CanalJsonDecoder::default();
    for _ in 0..500 {
        let stored = change(&mut random, &table, true);
        let event = stored.event(&table, &header);
        let row = row_of_event(&event);
        let decoded = &decode(&mut decoder, &messages_of(&mut encoder, &event)[0])[0];
        let tables = (&table, &*decoded.table);
        compare(tables, (row.after, decoded.after()), &same);
        // What the before image lacked counts as unchanged, and what the after image lacks is gone.
        let lossy = |index, cell: Cell<'_>| match row.after.map(|after| after.cell(index)) {
            Some(now) if now == Cell::Unknown || cell == Cell::Unknown => format!("{now:?}"),
            _ => format!("{cell:?}"),
        };
        compare(tables, (row.before, decoded.before()), &lossy);
    }
}

#[test]
fn canal_json_messages_of_many_rows_give_them_all() {
    let table = item();
    let header = header();
    let options = Options {
        grouping: Grouping::Event,
        ..Options::default()
    };
    let mut encoder = CanalJson::new(options);
    let mut messages = Messages::default();
    let prices = ["1.00", "2.00", "3.00"];
    for (id, price) in prices.iter().enumerate() {
        let before = row_of(id as i64, text("a"), 1, price, Cell::Null);
        let after = row_of(id as i64, text("b"), id as u64, price, Cell::Null);
        let stored = Stored::new(&table, &Change::update(before, after), (id as u64, 4));
        (encoder.encode(&stored.event(&table, &header), &mut messages)).unwrap();
    }
    (encoder.encode(
        &Event::Begin {
            sequence: 1,
            header: &header,
        },
        &mut messages,
    ))
    .unwrap();
    let message = String::from_utf8(messages.iter().next().unwrap().to_vec()).unwrap();
    let decoded = decode(&mut CanalJsonDecoder::default(), &message);
    assert_eq!(decoded.len(), 3);
    for (id, row) in decoded.iter().enumerate() {
        let (before, after) = (row.before().unwrap(), row.after().unwrap());
        assert_eq!(before.cell(0), Cell::Value(Value::Int(id as i64)));
        assert_eq!(before.cell(1), text("a"));
        assert_eq!(before.cell(2), Cell::Value(Value::UInt(1)));
        assert_eq!(after.cell(2), Cell::Value(Value::UInt(id as u64)));
        assert_eq!(before.cell(3), Cell::Value(Value::Decimal(prices[id])));
    }
}

/// What SharePlex JSON leaves of a cell: its text.
fn as_text(table: &TableSchema, quest: bool, index: usize, cell: Cell<'_>) -> String {
    let Cell::Value(value) = cell else {
        return format!("{cell:?}");
    };
    let mut plain = Vec::new();
    let column = &table.columns[index];
    let label = |members: &[String], at: usize| members[at].clone();
    let text = match (value, &column.kind) {
        (Value::Enum(0), _) => String::new(),
        (Value::Enum(ordinal), ColumnType::Enum { members }) => {
            label(members, usize::from(ordinal) - 1)
        }
        (Value::Set(mask), ColumnType::Set { members }) => {
            let bits = (0..members.len()).filter(|bit| mask & 1 << bit != 0);
            bits.map(|bit| label(members, bit))
                .collect::<Vec<_>>()
                .join(",")
        }
        (Value::Bytes(bytes) | Value::Geometry(bytes) | Value::Vector(bytes), _) => {
            bytes.iter().map(|byte| format!("{byte:02X}")).collect()
        }
        (Value::Year(year), _) if quest => year.to_string(),
        (value, _) => {
            format::key_text::put_value(&mut plain, value);
            String::from_utf8(plain).expect("a key text of a valid value is UTF-8")
        }
    };
    let is_bare = matches!(
        value,
        Value::Int(_) | Value::UInt(_) | Value::Decimal(_) | Value::Bit(_) | Value::Year(_)
    );
    let is_float = matches!(value, Value::Float(_) | Value::Double(_));
    match () {
        () if quest && is_bare => format!("{:?}", Cell::Value(Value::Decimal(&text))),
        () if quest && is_float => {
            format!("float {}", text.parse::<f64>().expect("a float's text"))
        }
        () if quest && matches!(value, Value::Date(_)) => {
            format!(
                "{:?}",
                Cell::Value(Value::Text(&format!("{text}T00:00:00.000000000")))
            )
        }
        () if quest && is_time(value) => {
            let mut text = text.replace(' ', "T");
            if !text.contains('.') {
                text.push('.');
            }
            while text.len() < 29 {
                text.push('0');
            }
            format!("{:?}", Cell::Value(Value::Text(&text)))
        }
        () => format!("{:?}", Cell::Value(Value::Text(&text))),
    }
}

fn is_time(value: Value<'_>) -> bool {
    matches!(
        value,
        Value::DateTime { .. } | Value::Timestamp { .. } | Value::ZeroTimestamp { .. }
    )
}

#[test]
fn shareplex_json_gives_texts_back_and_the_row_before_and_after() {
    let table = all_types();
    let header = header();
    let mut random = Random::new(SEED + 2);
    let mut encoder = SharePlexJson::new(shareplex_json::Options::default());
    let mut decoder = SharePlexJsonDecoder::default();
    for _ in 0..500 {
        let stored = change(&mut random, &table, false);
        let event = stored.event(&table, &header);
        let row = row_of_event(&event);
        let decoded = &decode(&mut decoder, &messages_of(&mut encoder, &event)[0])[0];
        let expected = match row.operation {
            Operation::Read => Operation::Insert,
            operation => operation,
        };
        assert_eq!(operation_of(decoded), expected);
        let text = |index, cell: Cell<'_>| as_text(&table, false, index, cell);
        let tables = (&table, &*decoded.table);
        compare(tables, (row.before, decoded.before()), &text);
        compare(tables, (row.after, decoded.after()), &text);
        assert_eq!(decoded.time_us, 1_700_000_000_000_000);
        assert_eq!(decoded.id, Some(row.sequence));
        assert_eq!(decoded.warnings, []);
    }
}

#[test]
fn shareplex_json_of_quest_gives_numbers_back_and_knows_what_it_does_not_know() {
    let table = all_types();
    let header = header();
    let mut random = Random::new(SEED + 3);
    let options = shareplex_json::Options {
        names: shareplex_json::Names::Source,
        update: UpdateShape::Single,
        ..shareplex_json::Options::of(Variant::Quest)
    };
    let mut encoder = SharePlexJson::new(options);
    let mut decoder = SharePlexJsonDecoder::default();
    for _ in 0..500 {
        let stored = change(&mut random, &table, false);
        let event = stored.event(&table, &header);
        let row = row_of_event(&event);
        let decoded = &decode(&mut decoder, &messages_of(&mut encoder, &event)[0])[0];
        let key = |index: usize| table.primary_key.contains(&(index as u32));
        let shown = |image: Option<Image<'_>>, found: Option<Image<'_>>, update: bool| {
            let (Some(image), Some(found)) = (image, found) else {
                return;
            };
            for (index, cell) in image.cells().enumerate() {
                let other = row
                    .before
                    .filter(|_| update)
                    .map(|before| before.cell(index));
                // Of an update only its changes and the key are there, of other rows all but NULL.
                let gone = match other {
                    Some(was) => format!("{was:?}") == format!("{cell:?}") && !key(index),
                    None => cell == Cell::Null,
                };
                let at = (decoded.table.columns.iter())
                    .position(|column| column.name == table.columns[index].name);
                let is = at.map_or(Cell::Unknown, |at| found.cell(at));
                let expected = match gone {
                    true => format!("{:?}", Cell::Unknown),
                    false => as_text(&table, true, index, cell),
                };
                let is = match (is, expected.starts_with("float")) {
                    (Cell::Value(Value::Double(v)), true) => format!("float {v}"),
                    (Cell::Value(Value::Decimal(v)), true) => {
                        format!("float {}", v.parse::<f64>().unwrap())
                    }
                    (is, _) => format!("{is:?}"),
                };
                assert_eq!(is, expected, "{}", table.columns[index].name);
            }
        };
        let update = row.operation == Operation::Update;
        shown(row.after, decoded.after(), update);
        if !update {
            shown(row.before, decoded.before(), false);
        }
    }
}

/// What Debezium JSON leaves of a cell.
fn as_debezium(table: &TableSchema, index: usize, cell: Cell<'_>) -> String {
    let Cell::Value(value) = cell else {
        return format!("{cell:?}");
    };
    let column = &table.columns[index];
    let big = matches!(column.kind, ColumnType::Int { bytes: 8, .. });
    let text = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put(&mut out);
        format!(
            "{:?}",
            Cell::Value(Value::Text(
                &String::from_utf8(out).expect("addresses are ASCII")
            ))
        )
    };
    match value {
        Value::UInt(v) if big => format!("{:?}", Cell::Value(Value::Decimal(&v.to_string()))),
        Value::UInt(v) => format!("{:?}", Cell::Value(Value::Int(v as i64))),
        Value::Time { micros, .. } => {
            format!("{:?}", Cell::Value(Value::Time { micros, digits: 6 }))
        }
        Value::Date(date) if date.to_days().is_none() => "Null".into(),
        Value::DateTime { at, .. } if at.date().to_days().is_none() => "Null".into(),
        Value::DateTime { at, digits } => {
            let digits = if digits <= 3 { 3 } else { 6 };
            format!("{:?}", Cell::Value(Value::DateTime { at, digits }))
        }
        Value::ZeroTimestamp { .. } => "Null".into(),
        Value::Uuid(_) | Value::Inet4(_) | Value::Inet6(_) => {
            text(&|out| format::key_text::put_value(out, value))
        }
        _ => format!("{cell:?}"),
    }
}

#[test]
fn debezium_json_with_its_schema_gives_every_type_back() {
    let table = all_types();
    let header = header();
    let mut random = Random::new(SEED + 4);
    let mut encoder = DebeziumJson::new(debezium_json::Options {
        schema: SchemaMode::Inline,
        bigint_unsigned: BigintUnsigned::Precise,
        ..debezium_json::Options::default()
    });
    let mut decoder = DebeziumJsonDecoder::default();
    for round in 0..600 {
        let stored = change(&mut random, &table, round % 2 == 0);
        let event = stored.event(&table, &header);
        let row = row_of_event(&event);
        let decoded = &decode(&mut decoder, &messages_of(&mut encoder, &event)[0])[0];
        assert_eq!(operation_of(decoded), row.operation);
        let lossy = |index, cell: Cell<'_>| as_debezium(&table, index, cell);
        let tables = (&table, &*decoded.table);
        compare(tables, (row.before, decoded.before()), &lossy);
        compare(tables, (row.after, decoded.after()), &lossy);
        assert_eq!(decoded.time_us, 1_700_000_000_123_000);
        assert!(!decoded.table.columns[0].nullable);
    }
}

#[test]
fn debezium_json_without_its_schema_gives_what_json_tells() {
    let (table, header) = (item(), header());
    let mut encoder = DebeziumJson::new(debezium_json::Options::default());
    let row = row_of(
        1,
        text("é"),
        4,
        "19.90",
        Cell::Value(Value::Bytes(&[0, 255])),
    );
    let stored = Stored::new(&table, &Change::insert(row), (1, 0));
    let messages = messages_of(&mut encoder, &stored.event(&table, &header));
    let decoded = &decode(&mut DebeziumJsonDecoder::default(), &messages[0])[0];
    let cells: Vec<Cell<'_>> = decoded.after().unwrap().cells().collect();
    let int = |v| Cell::Value(Value::Int(v));
    let expected = [
        int(1),
        text("é"),
        int(4),
        text("B8Y="),
        text("AP8="),
        int(1_700_000_000_500),
    ];
    assert_eq!(cells, expected);
    assert_eq!(decoded.table.database, "shop");
}

#[test]
fn statements_come_back() {
    let header = header();
    let event = |kind, sql| {
        Event::Ddl(DdlChange {
            sequence: 9,
            ddl: support::ddl(kind, "item", sql),
            header: &header,
        })
    };
    let alter = event(DdlKind::AlterTable, "ALTER TABLE item DROP COLUMN memo");
    let truncate = event(DdlKind::TruncateTable, "TRUNCATE TABLE item");
    let dts = Options {
        flavour: Flavour::Dts,
        ..Options::default()
    };
    let debezium = debezium_json::Options {
        ddl: true,
        ..debezium_json::Options::default()
    };
    let shareplex = shareplex_json::Options::default();
    let mut pairs: [(Box<dyn Encoder>, Box<dyn Decoder>); 4] = [
        (
            Box::new(CanalJson::new(Options::default())),
            Box::new(CanalJsonDecoder::default()),
        ),
        (
            Box::new(CanalJson::new(dts)),
            Box::new(CanalJsonDecoder::default()),
        ),
        (
            Box::new(SharePlexJson::new(shareplex)),
            Box::new(SharePlexJsonDecoder::default()),
        ),
        (
            Box::new(DebeziumJson::new(debezium)),
            Box::new(DebeziumJsonDecoder::default()),
        ),
    ];
    for (encoder, decoder) in &mut pairs {
        for (event, kind) in [
            (&alter, DdlKind::AlterTable),
            (&truncate, DdlKind::TruncateTable),
        ] {
            let message = &messages_of(encoder.as_mut(), event)[0];
            let decoded = &decode(decoder.as_mut(), message)[0];
            assert_eq!(decoded.kind, Kind::Ddl(kind), "{message}");
            let sql = decoded.sql.replace('`', "").replace("shop.", "");
            assert!(matches!(
                sql.as_str(),
                "ALTER TABLE item DROP COLUMN memo" | "TRUNCATE TABLE item"
            ));
            assert_eq!(decoded.table.name, "item");
        }
    }
}

fn decoders() -> [Box<dyn Decoder>; 3] {
    [
        Box::new(CanalJsonDecoder::default()),
        Box::new(SharePlexJsonDecoder::default()),
        Box::new(DebeziumJsonDecoder::default()),
    ]
}

/// Messages of every format, as text.
fn samples(random: &mut Random) -> Vec<String> {
    let table = all_types();
    let header = header();
    let inline = debezium_json::Options {
        schema: SchemaMode::Inline,
        ..debezium_json::Options::default()
    };
    let quest = shareplex_json::Options::of(Variant::Quest);
    let mut encoders: [Box<dyn Encoder>; 5] = [
        Box::new(SharePlexJson::new(quest)),
        Box::new(CanalJson::new(Options::default())),
        Box::new(SharePlexJson::new(shareplex_json::Options::default())),
        Box::new(DebeziumJson::new(debezium_json::Options::default())),
        Box::new(DebeziumJson::new(inline)),
    ];
    let mut samples = Vec::new();
    for encoder in &mut encoders {
        for _ in 0..4 {
            let stored = change(random, &table, true);
            samples.extend(messages_of(
                encoder.as_mut(),
                &stored.event(&table, &header),
            ));
        }
    }
    samples
}

/// A broken message gives a fault whose place is in it, and leaves what was there.
fn decode_broken(decoder: &mut dyn Decoder, message: &[u8], seed: &str) {
    let mut out = Vec::new();
    match decoder.decode(message, &mut out) {
        Ok(()) => {}
        Err(fault) => {
            assert!(fault.offset <= message.len(), "{seed}: {fault}");
            assert!(out.is_empty(), "{seed}");
            assert!(fault.path.len() < 2000, "{seed}");
        }
    }
}

#[test]
fn every_message_is_json_to_another_reader() {
    let mut random = Random::new(SEED + 7);
    for _ in 0..100 {
        for message in samples(&mut random) {
            if let Err(error) = serde_json::from_str::<serde_json::Value>(&message) {
                panic!("{error}: {message}");
            }
        }
    }
}

#[test]
fn damaged_messages_are_faults_and_never_panics() {
    let mut random = Random::new(SEED + 5);
    let samples = samples(&mut random);
    let mut decoders = decoders();
    for round in 0..12_000 {
        let seed = format!("round {round} of seed {SEED:#x}");
        let sample = samples[random.below(samples.len() as u64) as usize].as_bytes();
        let mut message = sample.to_vec();
        match random.below(3) {
            0 => message.truncate(random.below(sample.len() as u64) as usize),
            1 => {
                for _ in 0..=random.below(4) {
                    let at = random.below(sample.len() as u64) as usize;
                    message[at] ^= 1 << random.below(8);
                }
            }
            _ => {
                let at = random.below(sample.len() as u64) as usize;
                let noise = b"{}[]\",:\\u0null1-e.tf";
                let end = (at + random.below(6) as usize).min(message.len());
                let with: Vec<u8> = (0..random.below(6))
                    .map(|_| noise[random.below(noise.len() as u64) as usize])
                    .collect();
                message.splice(at..end, with);
            }
        }
        for decoder in &mut decoders {
            decode_broken(decoder.as_mut(), &message, &seed);
        }
    }
}

#[test]
fn random_bytes_are_faults_and_never_panics() {
    let mut random = Random::new(SEED + 6);
    let mut decoders = decoders();
    const PIECES: [&str; 20] = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"data\"",
        "\"old\"",
        "\"type\":\"UPDATE\"",
        "\"mysqlType\"",
        "\"op\":\"u\"",
        "\"before\"",
        "\"after\"",
        "\"meta\"",
        "\"key\"",
        "null",
        "1.5e9",
        "\"\\ud800\"",
        "\"schema\"",
        "\"payload\"",
    ];
    for round in 0..6_000 {
        let seed = format!("round {round} of seed {SEED:#x}");
        let message: Vec<u8> = if random.below(2) == 0 {
            (0..random.below(60)).map(|_| random.next() as u8).collect()
        } else {
            (0..random.below(30))
                .flat_map(|_| PIECES[random.below(20) as usize].bytes())
                .collect()
        };
        for decoder in &mut decoders {
            decode_broken(decoder.as_mut(), &message, &seed);
        }
    }
}
