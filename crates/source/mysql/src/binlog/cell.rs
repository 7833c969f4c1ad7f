//! One stored value: from the bytes of a row to the stored cell of an image.
//!
//! Hot path: no allocation; text and JSON that need converting pass through one scratch buffer.

use super::bytes::{Bytes, Decoded};
use super::charset::Charset;
use super::{inflate, json, number, temporal};
use change::Value;
use change::value::{put_decimal_bytes, put_text_bytes, put_value};

/// How a column's bytes are read. Compiled once per table from the table map and the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CellKind {
    /// No bytes at all.
    Nothing,
    Int {
        bytes: u8,
        unsigned: bool,
    },
    Decimal {
        precision: u8,
        scale: u8,
    },
    Float,
    Double,
    Bit {
        bytes: u8,
    },
    Year,
    Date,
    TimeOld,
    Time {
        digits: u8,
    },
    TimeHires {
        digits: u8,
    },
    DateTimeOld,
    DateTime {
        digits: u8,
    },
    DateTimeHires {
        digits: u8,
    },
    TimestampOld,
    Timestamp {
        digits: u8,
    },
    TimestampHires {
        digits: u8,
    },
    /// `prefix` bytes of length, then text.
    Text {
        prefix: u8,
        charset: Charset,
    },
    /// `prefix` bytes of length, then bytes.
    Bytes {
        prefix: u8,
    },
    /// BINARY(length): the log strips trailing zeros.
    Padded {
        prefix: u8,
        length: u32,
    },
    Enum {
        bytes: u8,
    },
    Set {
        bytes: u8,
    },
    Json {
        prefix: u8,
    },
    Geometry {
        prefix: u8,
    },
    Vector {
        prefix: u8,
    },
    /// MariaDB's 16 bytes in storage order, trailing zeros stripped.
    Uuid {
        prefix: u8,
    },
    Inet4 {
        prefix: u8,
    },
    Inet6 {
        prefix: u8,
    },
    CompressedText {
        prefix: u8,
        charset: Charset,
    },
    CompressedBytes {
        prefix: u8,
    },
}

/// Buffers that decoding reuses.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    text: String,
    /// Values whose bytes are not valid in their column's charset, since the start.
    pub invalid_texts: u64,
}

/// Largest inflated value of a compressed column: MariaDB's own limit of a value.
const COLUMN_BYTES_MAX: usize = 1 << 30;

impl CellKind {
    /// Reads one value and appends its stored cell.
    #[inline]
    pub fn put(self, b: &mut Bytes<'_>, out: &mut Vec<u8>, scratch: &mut Scratch) -> Decoded<()> {
        match self {
            CellKind::Int { bytes, unsigned } => put_value(out, int(b, bytes, unsigned)?),
            CellKind::Text { prefix, charset } => {
                let bytes = prefixed(b, prefix)?;
                put_text(bytes, charset, out, scratch);
            }
            CellKind::Decimal { precision, scale } => {
                let mut text = number::DecimalText::default();
                put_decimal_bytes(out, text.read(b, precision, scale)?);
            }
            CellKind::DateTime { digits } => put_value(out, temporal::datetime2(b, digits)?),
            CellKind::Timestamp { digits } => put_value(out, temporal::timestamp2(b, digits)?),
            CellKind::Double => {
                let bits = b.u64("a double")?;
                put_value(out, Value::Double(f64::from_bits(bits)));
            }
            CellKind::Float => {
                let bits = b.u32("a float")?;
                put_value(out, Value::Float(f32::from_bits(bits)));
            }
            other => other.put_rarer(b, out, scratch)?,
        }
        Ok(())
    }

    fn put_rarer(self, b: &mut Bytes<'_>, out: &mut Vec<u8>, scratch: &mut Scratch) -> Decoded<()> {
        let value = match self {
            CellKind::Bit { bytes } => Value::Bit(b.uint_be(usize::from(bytes), "bits")?),
            CellKind::Year => temporal::year(b)?,
            CellKind::Date => temporal::date(b)?,
            CellKind::TimeOld => temporal::time_old(b)?,
            CellKind::Time { digits } => temporal::time2(b, digits)?,
            CellKind::TimeHires { digits } => temporal::time_hires(b, digits)?,
            CellKind::DateTimeOld => temporal::datetime_old(b)?,
            CellKind::DateTimeHires { digits } => temporal::datetime_hires(b, digits)?,
            CellKind::TimestampOld => temporal::timestamp_old(b)?,
            CellKind::TimestampHires { digits } => temporal::timestamp_hires(b, digits)?,
            CellKind::Bytes { prefix } => Value::Bytes(prefixed(b, prefix)?),
            CellKind::Geometry { prefix } => Value::Geometry(prefixed(b, prefix)?),
            CellKind::Vector { prefix } => Value::Vector(prefixed(b, prefix)?),
            CellKind::Enum { bytes } => {
                Value::Enum(b.uint(usize::from(bytes), "an ENUM's ordinal")? as u16)
            }
            CellKind::Set { bytes } => Value::Set(b.uint(usize::from(bytes), "a SET's bits")?),
            CellKind::Uuid { prefix } => Value::Uuid(uuid_from_storage(fixed(b, prefix)?)),
            CellKind::Inet4 { prefix } => Value::Inet4(fixed(b, prefix)?),
            CellKind::Inet6 { prefix } => Value::Inet6(fixed(b, prefix)?),
            other => return other.put_converted(b, out, scratch),
        };
        put_value(out, value);
        Ok(())
    }

    fn put_converted(
        self,
        b: &mut Bytes<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Decoded<()> {
        match self {
            CellKind::Padded { prefix, length } => {
                put_padded(prefixed(b, prefix)?, length as usize, out, scratch);
            }
            CellKind::Json { prefix } => {
                let document = prefixed(b, prefix)?;
                put_json(document, out, scratch)?;
            }
            CellKind::CompressedText { prefix, charset } => {
                let bytes = inflated(prefixed(b, prefix)?, scratch)?;
                put_text(&bytes, charset, out, scratch);
                scratch.bytes = bytes;
            }
            CellKind::CompressedBytes { prefix } => {
                let bytes = inflated(prefixed(b, prefix)?, scratch)?;
                put_value(out, Value::Bytes(&bytes));
                scratch.bytes = bytes;
            }
            _ => return b.fail("a column with a value"),
        }
        Ok(())
    }

    /// Passes over one value without decoding it.
    pub fn skip(self, b: &mut Bytes<'_>) -> Decoded<()> {
        let what = "a value";
        let count = match self {
            CellKind::Nothing => 0,
            CellKind::Int { bytes, .. }
            | CellKind::Bit { bytes }
            | CellKind::Enum { bytes }
            | CellKind::Set { bytes } => usize::from(bytes),
            CellKind::Decimal { precision, scale } => number::decimal_bytes(precision, scale),
            CellKind::Float => 4,
            CellKind::Double => 8,
            CellKind::Text { prefix, .. }
            | CellKind::Bytes { prefix }
            | CellKind::Padded { prefix, .. }
            | CellKind::Json { prefix }
            | CellKind::Geometry { prefix }
            | CellKind::Vector { prefix }
            | CellKind::Uuid { prefix }
            | CellKind::Inet4 { prefix }
            | CellKind::Inet6 { prefix }
            | CellKind::CompressedText { prefix, .. }
            | CellKind::CompressedBytes { prefix } => {
                prefixed(b, prefix)?;
                0
            }
            // Dates and times: as long as they are when read.
            temporal => {
                let mut none = Vec::new();
                return temporal.read_away(b, &mut none);
            }
        };
        b.take(count, what).map(drop)
    }

    fn read_away(self, b: &mut Bytes<'_>, out: &mut Vec<u8>) -> Decoded<()> {
        self.put(b, out, &mut Scratch::default())
    }
}

#[inline]
fn prefixed<'a>(b: &mut Bytes<'a>, prefix: u8) -> Decoded<&'a [u8]> {
    let what = "a value's length";
    let count = match prefix {
        1 => usize::from(b.u8(what)?),
        2 => usize::from(b.u16(what)?),
        3 => b.u24(what)? as usize,
        _ => b.u32(what)? as usize,
    };
    b.take(count, "a value")
}

#[inline]
fn int<'v>(b: &mut Bytes<'_>, bytes: u8, unsigned: bool) -> Decoded<Value<'v>> {
    let what = "an integer";
    if unsigned {
        return Ok(Value::UInt(match bytes {
            1 => u64::from(b.u8(what)?),
            2 => u64::from(b.u16(what)?),
            3 => u64::from(b.u24(what)?),
            4 => u64::from(b.u32(what)?),
            _ => b.u64(what)?,
        }));
    }
    Ok(Value::Int(match bytes {
        1 => i64::from(b.u8(what)? as i8),
        2 => i64::from(b.u16(what)? as i16),
        3 => i64::from((b.u24(what)? << 8) as i32 >> 8),
        4 => i64::from(b.u32(what)? as i32),
        _ => b.u64(what)? as i64,
    }))
}

/// Appends a text cell decoded from its charset.
#[inline]
pub fn put_text(bytes: &[u8], charset: Charset, out: &mut Vec<u8>, scratch: &mut Scratch) {
    if charset == Charset::Utf8 {
        scratch.invalid_texts += u64::from(!put_text_bytes(out, bytes));
        return;
    }
    scratch.text.clear();
    if charset.decode(bytes, &mut scratch.text) {
        put_value(out, Value::Text(&scratch.text));
    } else {
        scratch.invalid_texts += 1;
        put_value(out, Value::InvalidText(bytes));
    }
}

/// Appends BINARY(length), padded.
pub fn put_padded(bytes: &[u8], length: usize, out: &mut Vec<u8>, scratch: &mut Scratch) {
    if bytes.len() >= length {
        return put_value(out, Value::Bytes(bytes));
    }
    scratch.bytes.clear();
    scratch.bytes.extend_from_slice(bytes);
    scratch.bytes.resize(length, 0);
    put_value(out, Value::Bytes(&scratch.bytes));
}

fn put_json(document: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) -> Decoded<()> {
    scratch.bytes.clear();
    json::render(document, &mut scratch.bytes)?;
    put_json_text(out, scratch)
}

fn put_json_text(out: &mut Vec<u8>, scratch: &Scratch) -> Decoded<()> {
    match std::str::from_utf8(&scratch.bytes) {
        Ok(text) => put_value(out, Value::Json(text)),
        Err(_) => return Bytes::new(&[]).fail("UTF-8 in a JSON document"),
    }
    Ok(())
}

/// Appends the JSON cell of a partial update: `before`, the binary document, with `diffs` applied.
pub fn put_json_diff(
    before: &[u8],
    diffs: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Decoded<()> {
    scratch.bytes.clear();
    super::json_diff::apply(before, diffs, &mut scratch.bytes)?;
    put_json_text(out, scratch)
}

fn inflated(value: &[u8], scratch: &mut Scratch) -> Decoded<Vec<u8>> {
    let mut bytes = std::mem::take(&mut scratch.bytes);
    bytes.clear();
    inflate::mariadb_column(value, &mut bytes, COLUMN_BYTES_MAX)?;
    Ok(bytes)
}

/// A fixed-length value whose trailing zeros the log has stripped.
fn fixed<const N: usize>(b: &mut Bytes<'_>, prefix: u8) -> Decoded<[u8; N]> {
    let bytes = prefixed(b, prefix)?;
    let mut whole = [0; N];
    match whole.get_mut(..bytes.len()) {
        Some(part) => part.copy_from_slice(bytes),
        None => return b.fail("an address or UUID"),
    }
    Ok(whole)
}

/// MariaDB stores UUIDs of versions 1 to 5 with their five groups in reverse, and all others as they
/// are.
///
/// Source: MariaDB source, plugin/type_uuid/sql_type_uuid.h (`rec_need_swap`).
pub fn uuid_from_storage(stored: [u8; 16]) -> [u8; 16] {
    let swapped = stored[6] & 0x80 != 0 && stored[8] > 0 && stored[8] < 0x60;
    if !swapped {
        return stored;
    }
    let mut uuid = [0; 16];
    uuid[..4].copy_from_slice(&stored[12..16]);
    uuid[4..6].copy_from_slice(&stored[10..12]);
    uuid[6..8].copy_from_slice(&stored[8..10]);
    uuid[8..10].copy_from_slice(&stored[6..8]);
    uuid[10..].copy_from_slice(&stored[..6]);
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::Cell;
    use change::value::read_cell;
    use change::wire::WireReader;

    fn check(kind: CellKind, bytes: &[u8], value: Value<'_>) {
        let mut out = Vec::new();
        let mut b = Bytes::new(bytes);
        kind.put(&mut b, &mut out, &mut Scratch::default()).unwrap();
        assert!(b.is_empty());
        let read = read_cell(&mut WireReader::new(&out)).unwrap();
        assert_eq!(read, Cell::Value(value));
        let mut b = Bytes::new(bytes);
        kind.skip(&mut b).unwrap();
        assert!(b.is_empty(), "{kind:?}");
        for cut in 0..bytes.len() {
            let mut b = Bytes::new(&bytes[..cut]);
            assert!(kind.put(&mut b, &mut out, &mut Scratch::default()).is_err());
        }
    }

    #[test]
    fn integers_follow_their_signedness() {
        let int = |bytes, unsigned| CellKind::Int { bytes, unsigned };
        check(int(3, false), &[0xff, 0xff, 0xff], Value::Int(-1));
        check(int(3, true), &[0xff, 0xff, 0xff], Value::UInt(16_777_215));
        check(int(8, true), &[0xff; 8], Value::UInt(u64::MAX));
        check(int(1, false), &[0x80], Value::Int(-128));
    }

    #[test]
    fn strings_of_every_kind() {
        let text = CellKind::Text {
            prefix: 1,
            charset: Charset::Latin1,
        };
        check(text, b"\x01\xe9", Value::Text("é"));
        let utf8 = CellKind::Text {
            prefix: 2,
            charset: Charset::Utf8,
        };
        check(utf8, b"\x01\0\xff", Value::InvalidText(&[0xff]));
        let padded = CellKind::Padded {
            prefix: 1,
            length: 4,
        };
        check(padded, b"\x02ab", Value::Bytes(b"ab\0\0"));
        check(CellKind::Bit { bytes: 2 }, &[1, 2], Value::Bit(258));
        check(CellKind::Enum { bytes: 1 }, &[0], Value::Enum(0));
        check(
            CellKind::Inet4 { prefix: 1 },
            &[1, 127],
            Value::Inet4([127, 0, 0, 0]),
        );
    }

    #[test]
    fn temporals_are_passed_over_in_full() {
        let digits = 6;
        for (kind, bytes) in [
            (CellKind::Time { digits }, 6),
            (CellKind::DateTime { digits }, 8),
            (CellKind::Timestamp { digits }, 7),
            (CellKind::TimeHires { digits }, 6),
            (CellKind::DateTimeHires { digits }, 8),
            (CellKind::TimestampHires { digits }, 7),
            (CellKind::Date, 3),
            (CellKind::Year, 1),
            (CellKind::TimeOld, 3),
            (CellKind::TimestampOld, 4),
            (CellKind::DateTimeOld, 8),
        ] {
            let zeros = vec![0; bytes];
            let mut b = Bytes::new(&zeros);
            kind.skip(&mut b).unwrap();
            assert!(b.is_empty(), "{kind:?}");
        }
    }
}
