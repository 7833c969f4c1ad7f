//! One value of one column, in the source's exact form.
//!
//! A cell has three states: a value, NULL, or *unknown* (the log did not carry it). Unknown is never
//! NULL. The same value read by a snapshot and from the log gives the identical bytes.

use crate::cql::{self, CqlValue, Times};
use crate::temporal::{DatePacked, DateTimePacked};
use crate::wire::{WireError, WireReader, put_bytes, put_i64, put_u64};

/// The state of one column in one image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// The log did not carry this column (minimal row image, unchanged TOAST).
    Unknown,
    /// SQL NULL.
    Null,
    /// A value.
    Value(Value<'a>),
}

/// A value that borrows from the arena of its batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A signed integer column.
    Int(i64),
    /// An unsigned integer column.
    UInt(u64),
    /// A four-byte float.
    Float(f32),
    /// An eight-byte float.
    Double(f64),
    /// A decimal as plain text with its full scale: `-1234.500`.
    Decimal(&'a str),
    /// Text, decoded from the column's charset to UTF-8.
    Text(&'a str),
    /// Text whose bytes are not valid in the column's charset: the bytes as stored.
    InvalidText(&'a [u8]),
    /// Binary data; BINARY(n) is padded to n.
    Bytes(&'a [u8]),
    /// A calendar date; zero and partly-zero dates are kept.
    Date(DatePacked),
    /// A signed duration in microseconds, and the column's fraction digits (0 to 6).
    Time {
        /// Microseconds; MySQL's range is ±838:59:59.
        micros: i64,
        /// Fraction digits of the column.
        digits: u8,
    },
    /// A date and time without a zone, and the column's fraction digits.
    DateTime {
        /// The calendar fields.
        at: DateTimePacked,
        /// Fraction digits of the column.
        digits: u8,
    },
    /// An instant in microseconds since 1970-01-01 UTC, and the column's fraction digits.
    Timestamp {
        /// Microseconds since the epoch, UTC.
        micros: i64,
        /// Fraction digits of the column.
        digits: u8,
    },
    /// MySQL's TIMESTAMP `0000-00-00 00:00:00`, which is not the epoch.
    ZeroTimestamp {
        /// Fraction digits of the column.
        digits: u8,
    },
    /// A four-digit year; 0 is `0000`.
    Year(u16),
    /// The bits of a BIT(n) column as a number.
    Bit(u64),
    /// The 1-based ordinal of an ENUM; 0 is the error value, `''`.
    Enum(u16),
    /// The bitmask of a SET.
    Set(u64),
    /// A JSON document as text.
    Json(&'a str),
    /// SRID (4 bytes, little endian) and WKB.
    Geometry(&'a [u8]),
    /// Four-byte little-endian floats.
    Vector(&'a [u8]),
    /// The 16 bytes of a UUID in text order.
    Uuid([u8; 16]),
    /// An IPv4 address.
    Inet4([u8; 4]),
    /// An IPv6 address.
    Inet6([u8; 16]),
    /// What only CQL has.
    Cql(CqlValue<'a>),
}

/// Tags of the stored cell; they are part of the journal's format and never change meaning.
pub(crate) mod tag {
    pub const UNKNOWN: u8 = 0;
    pub const NULL: u8 = 1;
    pub const INT: u8 = 2;
    pub const UINT: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const DECIMAL: u8 = 6;
    pub const TEXT: u8 = 7;
    pub const INVALID_TEXT: u8 = 8;
    pub const BYTES: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const TIMESTAMP: u8 = 13;
    pub const ZERO_TIMESTAMP: u8 = 14;
    pub const YEAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const ENUM: u8 = 17;
    pub const SET: u8 = 18;
    pub const JSON: u8 = 19;
    pub const GEOMETRY: u8 = 20;
    pub const VECTOR: u8 = 21;
    pub const UUID: u8 = 22;
    pub const INET4: u8 = 23;
    pub const INET6: u8 = 24;
    /// Reads as unknown; see [`crate::ImageWriter::outside`].
    pub const OUTSIDE: u8 = 25;
    /// Times, then the cell's own tag.
    pub const TIMED: u8 = 26;
    pub const BOOLEAN: u8 = 27;
    pub const CQL_DATE: u8 = 28;
    pub const CQL_TIME: u8 = 29;
    pub const CQL_TIMESTAMP: u8 = 30;
    pub const DURATION: u8 = 31;
    pub const NESTED: u8 = 32;
}

/// Appends one cell in stored form.
#[inline]
pub fn put_cell(out: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Unknown => out.push(tag::UNKNOWN),
        Cell::Null => out.push(tag::NULL),
        Cell::Value(value) => put_value(out, value),
    }
}

#[inline]
fn put_tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    if bytes.len() < 0x80 {
        out.extend_from_slice(&[tag, bytes.len() as u8]);
        out.extend_from_slice(bytes);
    } else {
        out.push(tag);
        put_bytes(out, bytes);
    }
}

/// Appends a text as [`put_value`] does, from bytes that may not be UTF-8: those become
/// [`Value::InvalidText`]; `false` says so.
///
/// ASCII, by far the most, is seen without decoding it.
#[inline]
pub fn put_text_bytes(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let is_text = bytes.is_ascii() || std::str::from_utf8(bytes).is_ok();
    put_tagged(
        out,
        if is_text {
            tag::TEXT
        } else {
            tag::INVALID_TEXT
        },
        bytes,
    );
    is_text
}

/// Appends a decimal from its characters: a sign, digits, a point.
///
/// Shape: `characters` must be ASCII.
#[inline]
pub fn put_decimal_bytes(out: &mut Vec<u8>, characters: &[u8]) {
    debug_assert!(characters.is_ascii());
    put_tagged(out, tag::DECIMAL, characters);
}

/// Appends one value in stored form: a tag byte and its payload.
#[inline]
pub fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Int(v) => {
            out.push(tag::INT);
            put_i64(out, v);
        }
        Value::UInt(v) => {
            out.push(tag::UINT);
            put_u64(out, v);
        }
        Value::Float(v) => {
            let [a, b, c, d] = v.to_le_bytes();
            out.extend_from_slice(&[tag::FLOAT, a, b, c, d]);
        }
        Value::Double(v) => {
            let [a, b, c, d, e, f, g, h] = v.to_le_bytes();
            out.extend_from_slice(&[tag::DOUBLE, a, b, c, d, e, f, g, h]);
        }
        Value::DateTime { at, digits } => {
            let [a, b, c, d, e, f, g, h] = at.bits().to_le_bytes();
            out.extend_from_slice(&[tag::DATETIME, digits, a, b, c, d, e, f, g, h]);
        }
        Value::Decimal(v) => put_tagged(out, tag::DECIMAL, v.as_bytes()),
        Value::Text(v) => put_tagged(out, tag::TEXT, v.as_bytes()),
        Value::InvalidText(v) => put_tagged(out, tag::INVALID_TEXT, v),
        Value::Bytes(v) => put_tagged(out, tag::BYTES, v),
        Value::Json(v) => put_tagged(out, tag::JSON, v.as_bytes()),
        Value::Geometry(v) => put_tagged(out, tag::GEOMETRY, v),
        Value::Vector(v) => put_tagged(out, tag::VECTOR, v),
        other => put_fixed(out, other),
    }
}

fn put_fixed(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Date(v) => {
            out.push(tag::DATE);
            put_u64(out, u64::from(v.bits()));
        }
        Value::Time { micros, digits } => {
            out.extend_from_slice(&[tag::TIME, digits]);
            put_i64(out, micros);
        }
        Value::Timestamp { micros, digits } => {
            out.extend_from_slice(&[tag::TIMESTAMP, digits]);
            put_i64(out, micros);
        }
        Value::ZeroTimestamp { digits } => out.extend_from_slice(&[tag::ZERO_TIMESTAMP, digits]),
        Value::Year(v) => {
            out.push(tag::YEAR);
            put_u64(out, u64::from(v));
        }
        Value::Bit(v) => {
            out.push(tag::BIT);
            put_u64(out, v);
        }
        Value::Enum(v) => {
            out.push(tag::ENUM);
            put_u64(out, u64::from(v));
        }
        Value::Set(v) => {
            out.push(tag::SET);
            put_u64(out, v);
        }
        Value::Uuid(v) => {
            out.push(tag::UUID);
            out.extend_from_slice(&v);
        }
        Value::Inet4(v) => {
            out.push(tag::INET4);
            out.extend_from_slice(&v);
        }
        Value::Inet6(v) => {
            out.push(tag::INET6);
            out.extend_from_slice(&v);
        }
        Value::Cql(v) => cql::put(out, v),
        _ => unreachable!("values with a length were written by put_value"),
    }
}

fn small(reader: &mut WireReader<'_>) -> Result<u16, WireError> {
    let offset = reader.offset();
    let value = reader.u64()?;
    u16::try_from(value).map_err(|_| WireError {
        offset,
        what: "a number below 65536",
    })
}

/// Reads one cell in stored form; its own times, if it has any, are passed over.
///
/// Errors: [`WireError`] where the bytes are damaged.
#[inline]
pub fn read_cell<'a>(reader: &mut WireReader<'a>) -> Result<Cell<'a>, WireError> {
    let tag = reader.u8()?;
    read_tagged(reader, tag, cql::DEPTH_MAX)
}

/// Reads one cell and its own times.
///
/// Errors: [`WireError`] where the bytes are damaged.
#[inline]
pub fn read_timed_cell<'a>(reader: &mut WireReader<'a>) -> Result<(Cell<'a>, Times), WireError> {
    let (mut tag, mut times) = (reader.u8()?, Times::default());
    if tag == tag::TIMED {
        times = Times::decode(reader)?;
        tag = reader.u8()?;
    }
    Ok((read_tagged(reader, tag, cql::DEPTH_MAX)?, times))
}

/// Reads what stands after a tag.
#[inline]
pub(crate) fn read_tagged<'a>(
    reader: &mut WireReader<'a>,
    tag: u8,
    depth_left: u32,
) -> Result<Cell<'a>, WireError> {
    let value = match tag {
        tag::UNKNOWN => return Ok(Cell::Unknown),
        tag::NULL => return Ok(Cell::Null),
        tag::INT => Value::Int(reader.i64()?),
        tag::UINT => Value::UInt(reader.u64()?),
        tag::FLOAT => Value::Float(f32::from_le_bytes(reader.array()?)),
        tag::DOUBLE => Value::Double(f64::from_le_bytes(reader.array()?)),
        tag::DECIMAL => Value::Decimal(reader.text()?),
        tag::TEXT => Value::Text(reader.text()?),
        tag::INVALID_TEXT => Value::InvalidText(reader.bytes()?),
        tag::BYTES => Value::Bytes(reader.bytes()?),
        tag::DATE => Value::Date(DatePacked::from_bits(reader.u32()?)),
        tag::TIME => {
            let digits = reader.u8()?;
            Value::Time {
                micros: reader.i64()?,
                digits,
            }
        }
        tag::DATETIME => {
            let digits = reader.u8()?;
            let at = DateTimePacked::from_bits(u64::from_le_bytes(reader.array()?));
            Value::DateTime { at, digits }
        }
        tag::TIMESTAMP => {
            let digits = reader.u8()?;
            Value::Timestamp {
                micros: reader.i64()?,
                digits,
            }
        }
        tag::ZERO_TIMESTAMP => Value::ZeroTimestamp {
            digits: reader.u8()?,
        },
        tag::YEAR => Value::Year(small(reader)?),
        tag::BIT => Value::Bit(reader.u64()?),
        tag::ENUM => Value::Enum(small(reader)?),
        tag::SET => Value::Set(reader.u64()?),
        tag::JSON => Value::Json(reader.text()?),
        tag::GEOMETRY => Value::Geometry(reader.bytes()?),
        tag::VECTOR => Value::Vector(reader.bytes()?),
        tag::UUID => Value::Uuid(reader.array()?),
        tag::INET4 => Value::Inet4(reader.array()?),
        tag::INET6 => Value::Inet6(reader.array()?),
        tag => return cql::read(reader, tag, depth_left),
    };
    Ok(Cell::Value(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_comes_back_identical() {
        let cells = [
            Cell::Unknown,
            Cell::Null,
            Cell::Value(Value::Int(i64::MIN)),
            Cell::Value(Value::UInt(u64::MAX)),
            Cell::Value(Value::Float(1.5)),
            Cell::Value(Value::Double(-0.0)),
            Cell::Value(Value::Decimal("-0.10")),
            Cell::Value(Value::Text("žluťoučký 🐎")),
            Cell::Value(Value::InvalidText(&[0xff])),
            Cell::Value(Value::Bytes(&[0, 1, 0])),
            Cell::Value(Value::Date(DatePacked::new(2025, 0, 15))),
            Cell::Value(Value::Time {
                micros: -1,
                digits: 6,
            }),
            Cell::Value(Value::DateTime {
                at: DateTimePacked::new(DatePacked::new(9999, 12, 31), 86_399_999_999),
                digits: 6,
            }),
            Cell::Value(Value::Timestamp {
                micros: 1,
                digits: 6,
            }),
            Cell::Value(Value::ZeroTimestamp { digits: 3 }),
            Cell::Value(Value::Year(0)),
            Cell::Value(Value::Bit(u64::MAX)),
            Cell::Value(Value::Enum(0)),
            Cell::Value(Value::Set(1 << 63)),
            Cell::Value(Value::Json("{}")),
            Cell::Value(Value::Geometry(&[0; 25])),
            Cell::Value(Value::Vector(&[0; 8])),
            Cell::Value(Value::Uuid([7; 16])),
            Cell::Value(Value::Inet4([127, 0, 0, 1])),
            Cell::Value(Value::Inet6([1; 16])),
        ];
        let mut out = Vec::new();
        cells.iter().for_each(|cell| put_cell(&mut out, *cell));
        let mut reader = WireReader::new(&out);
        cells
            .iter()
            .for_each(|cell| assert_eq!(read_cell(&mut reader), Ok(*cell)));
        assert!(reader.is_empty());
    }
}
