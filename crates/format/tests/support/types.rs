//! A table with a column of every type, and random rows of it.

use super::*;

/// A repeatable source of numbers; SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn members(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

/// One column of every type that the journal knows.
pub fn all_types() -> TableSchema {
    use ColumnType as T;
    let int = |bytes, unsigned| T::Int { bytes, unsigned };
    let decimal = T::Decimal {
        precision: 30,
        scale: 10,
        unsigned: false,
    };
    let size = members(&["small", "it's (big)", "žluťoučký"]);
    let columns = vec![
        column("id", "bigint", int(8, false)),
        column("tiny", "tinyint", int(1, false)),
        column("utiny", "tinyint unsigned", int(1, true)),
        column("small", "smallint", int(2, false)),
        column("usmall", "smallint unsigned", int(2, true)),
        column("medium", "mediumint", int(3, false)),
        column("umedium", "mediumint unsigned", int(3, true)),
        column("int", "int(11)", int(4, false)),
        column("uint", "int unsigned", int(4, true)),
        column("ubig", "bigint unsigned", int(8, true)),
        column("price", "decimal(30,10)", decimal),
        column("f", "float", T::Float),
        column("d", "double", T::Double),
        column("flag", "bit(1)", T::Bit { width: 1 }),
        column("bits", "bit(13)", T::Bit { width: 13 }),
        column("y", "year", T::Year),
        column("day", "date", T::Date),
        column("t0", "time", T::Time { digits: 0 }),
        column("t6", "time(6)", T::Time { digits: 6 }),
        column("dt0", "datetime", T::DateTime { digits: 0 }),
        column("dt3", "datetime(3)", T::DateTime { digits: 3 }),
        column("dt6", "datetime(6)", T::DateTime { digits: 6 }),
        column("ts0", "timestamp", T::Timestamp { digits: 0 }),
        column("ts6", "timestamp(6)", T::Timestamp { digits: 6 }),
        column("c", "char(10)", T::Char { length: 10 }),
        column("v", "varchar(20)", T::Varchar { length: 20 }),
        column("txt", "text", T::Text { length_bytes: 2 }),
        column("bin", "binary(4)", T::Binary { length: 4 }),
        column("vbin", "varbinary(300)", T::Varbinary { length: 300 }),
        column("blob", "longblob", T::Blob { length_bytes: 4 }),
        column(
            "size",
            "enum('small','it''s (big)','žluťoučký')",
            T::Enum {
                members: size.clone(),
            },
        ),
        column(
            "tags",
            "set('small','it''s (big)','žluťoučký')",
            T::Set { members: size },
        ),
        column("doc", "json", T::Json),
        column("place", "geometry", T::Geometry),
        column("at", "point", T::Geometry),
        column("vec", "vector(3)", T::Vector),
        column("uuid", "uuid", T::Uuid),
        column("ip4", "inet4", T::Inet4),
        column("ip6", "inet6", T::Inet6),
    ];
    let mut table = table("all \"types\"", columns, vec![0]);
    table.table = TableId(3);
    table.columns[0].nullable = false;
    table
}

/// What a random row borrows from.
#[derive(Default)]
pub struct Arena {
    texts: Vec<String>,
    bytes: Vec<Vec<u8>>,
}

enum Part {
    Done(Cell<'static>),
    Text(usize),
    Decimal(usize),
    Json(usize),
    Bytes(usize),
    Geometry(usize),
    Vector(usize),
}

/// Calls `with` with a random row: values, NULLs, and unknown cells when asked for.
pub fn with_row<R>(
    random: &mut Random,
    table: &TableSchema,
    unknown: bool,
    with: impl FnOnce(Vec<Cell<'_>>) -> R,
) -> R {
    let mut arena = Arena::default();
    let parts: Vec<Part> = (table.columns.iter())
        .map(|column| match random.below(12) {
            0 if column.nullable => Part::Done(Cell::Null),
            1 if unknown && column.nullable => Part::Done(Cell::Unknown),
            _ => part(random, &column.kind, &column.declared, &mut arena),
        })
        .collect();
    let cells = parts.iter().map(|part| match part {
        Part::Done(cell) => *cell,
        Part::Text(at) => Cell::Value(Value::Text(&arena.texts[*at])),
        Part::Decimal(at) => Cell::Value(Value::Decimal(&arena.texts[*at])),
        Part::Json(at) => Cell::Value(Value::Json(&arena.texts[*at])),
        Part::Bytes(at) => Cell::Value(Value::Bytes(&arena.bytes[*at])),
        Part::Geometry(at) => Cell::Value(Value::Geometry(&arena.bytes[*at])),
        Part::Vector(at) => Cell::Value(Value::Vector(&arena.bytes[*at])),
    });
    with(cells.collect())
}

fn text_of(random: &mut Random) -> String {
    const LETTERS: [char; 14] = [
        'a', 'Z', '0', '"', '\\', '\n', '\u{0}', '\u{1f}', 'é', '中', '😀', '/', '\u{7f}', ' ',
    ];
    let length = random.below(12);
    (0..length)
        .map(|_| LETTERS[random.below(14) as usize])
        .collect()
}

fn bytes_of(random: &mut Random, length: u64) -> Vec<u8> {
    (0..length).map(|_| random.next() as u8).collect()
}

/// Microseconds since the epoch between 1970 and 2037, cut to a column's digits.
fn instant(random: &mut Random, digits: u8) -> i64 {
    let unit = 10i64.pow(6 - u32::from(digits));
    let micros = random.below(2_100_000_000_000_000) as i64 + 1_000_000;
    micros / unit * unit
}

fn part(random: &mut Random, kind: &ColumnType, declared: &str, arena: &mut Arena) -> Part {
    use ColumnType as T;
    let value = |value| Part::Done(Cell::Value(value));
    match kind {
        T::Int { bytes, unsigned } => {
            let bits = u32::from(*bytes) * 8;
            let raw = match random.below(4) {
                0 => 0,
                1 => u64::MAX,
                _ => random.next(),
            };
            if *unsigned {
                value(Value::UInt(raw >> (64 - bits)))
            } else {
                value(Value::Int(raw.cast_signed() >> (64 - bits)))
            }
        }
        T::Decimal { scale, .. } => {
            let sign = ["", "-"][random.below(2) as usize];
            let whole = random.next() % 10u64.pow(random.below(18) as u32);
            let fraction = random.next() % 10u64.pow(u32::from(*scale));
            let sign = if whole == 0 && fraction == 0 {
                ""
            } else {
                sign
            };
            let width = usize::from(*scale);
            arena
                .texts
                .push(format!("{sign}{whole}.{fraction:0width$}"));
            Part::Decimal(arena.texts.len() - 1)
        }
        T::Float => value(Value::Float(
            f32::from_bits(random.next() as u32 & 0x7f7f_ffff) * 0.5,
        )),
        T::Double => {
            let float = f64::from_bits(random.next() & 0xffef_ffff_ffff_ffff);
            value(Value::Double(if float.is_finite() { float } else { -0.0 }))
        }
        T::Bit { width } => value(Value::Bit(random.next() >> (64 - width))),
        T::Year => value(Value::Year([0, 1901, 2155][random.below(3) as usize])),
        T::Date => value(Value::Date(match random.below(8) {
            0 => DatePacked::new(0, 0, 0),
            1 => DatePacked::new(2024, 0, 15),
            _ => DatePacked::from_days(random.below(2_900_000) as i64 - 200_000),
        })),
        T::Time { digits } => {
            let unit = 10i64.pow(6 - u32::from(*digits));
            let micros = random.below(6_040_798_000_000) as i64 - 3_020_399_000_000;
            value(Value::Time {
                micros: micros / unit * unit,
                digits: *digits,
            })
        }
        T::DateTime { digits } => value(Value::DateTime {
            at: match random.below(8) {
                0 => DateTimePacked::from_bits(0),
                _ => DateTimePacked::from_epoch_micros(instant(random, *digits) * 3),
            },
            digits: *digits,
        }),
        T::Timestamp { digits } => value(match random.below(8) {
            0 => Value::ZeroTimestamp { digits: *digits },
            _ => Value::Timestamp {
                micros: instant(random, *digits),
                digits: *digits,
            },
        }),
        T::Char { .. } | T::Varchar { .. } | T::Text { .. } => {
            arena.texts.push(text_of(random));
            Part::Text(arena.texts.len() - 1)
        }
        T::Json => {
            arena
                .texts
                .push(r#"{"a": [1, 2.5, null, "x\"y"], "é": {}}"#.into());
            Part::Json(arena.texts.len() - 1)
        }
        T::Binary { length } => {
            arena.bytes.push(bytes_of(random, u64::from(*length)));
            Part::Bytes(arena.bytes.len() - 1)
        }
        T::Varbinary { .. } | T::Blob { .. } => {
            let length = random.below(300);
            arena.bytes.push(bytes_of(random, length));
            Part::Bytes(arena.bytes.len() - 1)
        }
        T::Geometry => {
            let mut bytes = vec![0, 0, 0, 0, 1, 1, 0, 0, 0];
            if declared != "point" {
                bytes[0] = random.next() as u8;
            }
            for _ in 0..2 {
                bytes.extend_from_slice(&(random.below(1000) as f64 / 8.0).to_le_bytes());
            }
            arena.bytes.push(bytes);
            Part::Geometry(arena.bytes.len() - 1)
        }
        T::Vector => {
            let floats = (0..3).map(|_| random.below(1000) as f32 / 8.0);
            arena
                .bytes
                .push(floats.flat_map(f32::to_le_bytes).collect());
            Part::Vector(arena.bytes.len() - 1)
        }
        T::Enum { members } => value(Value::Enum(random.below(members.len() as u64 + 1) as u16)),
        T::Set { members } => value(Value::Set(random.next() & ((1 << members.len()) - 1))),
        T::Uuid => value(Value::Uuid([random.next() as u8; 16])),
        T::Inet4 => value(Value::Inet4([10, 0, random.next() as u8, 1])),
        T::Inet6 => value(Value::Inet6([random.next() as u8; 16])),
        T::Cql(_) => unreachable!("no format carries it"),
    }
}
