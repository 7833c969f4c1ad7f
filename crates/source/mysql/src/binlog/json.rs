//! MySQL's binary JSON, rendered as the server's SELECT renders it: `{"a": 1, "b": [1, 2]}`.
//!
//! Source: MySQL source, sql-common/json_binary.h (the format) and json_dom.cc (the text).

use super::bytes::{Bytes, Decoded};
use super::number::{put_decimal, put_json_double};
use super::table_map::wire;
use change::temporal::{DatePacked, DateTimePacked, put_date, put_datetime, put_time};

/// The server allows 100 levels.
const DEPTH_MAX: usize = 128;

mod tag {
    pub const SMALL_OBJECT: u8 = 0;
    pub const LARGE_OBJECT: u8 = 1;
    pub const SMALL_ARRAY: u8 = 2;
    pub const LARGE_ARRAY: u8 = 3;
    pub const LITERAL: u8 = 4;
    pub const INT16: u8 = 5;
    pub const UINT16: u8 = 6;
    pub const INT32: u8 = 7;
    pub const UINT32: u8 = 8;
    pub const INT64: u8 = 9;
    pub const UINT64: u8 = 10;
    pub const DOUBLE: u8 = 11;
    pub const STRING: u8 = 12;
    pub const OPAQUE: u8 = 15;
}

/// What a walk over a document meets; the renderer and the tree builder are two of these.
pub trait Visitor {
    /// An object or array begins; `count` members follow.
    fn open(&mut self, object: bool, count: usize);
    /// The key of the next member.
    fn key(&mut self, key: &[u8]);
    /// A value that is neither object nor array, by its text (a JSON literal, number or string).
    fn scalar(&mut self, scalar: Scalar<'_>) -> Decoded<()>;
    /// The object or array ends.
    fn close(&mut self, object: bool);
}

/// A value without members.
#[derive(Debug, Clone, Copy)]
pub enum Scalar<'a> {
    /// null, true or false.
    Literal(&'static str),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    UInt(u64),
    /// A double.
    Double(f64),
    /// A string's bytes, UTF-8.
    String(&'a [u8]),
    /// A value of an SQL type.
    Opaque(u8, &'a [u8]),
}

/// Walks a document.
///
/// Errors: an offset outside, a count that cannot be, more than 128 levels.
pub fn walk(document: &[u8], visitor: &mut impl Visitor) -> Decoded<()> {
    match document.split_first() {
        // The server shows an empty document as null (a NULL forced into a NOT NULL column).
        None => visitor.scalar(Scalar::Literal("null")),
        Some((tag, body)) => {
            // Every value takes a byte or more of its own, so a walk that meets more values than
            // bytes goes round in a damaged document.
            let mut walk = Walk {
                visitor,
                values_left: document.len(),
            };
            walk.value(*tag, body, 0)
        }
    }
}

struct Walk<'v, V> {
    visitor: &'v mut V,
    values_left: usize,
}

impl<V: Visitor> Walk<'_, V> {
    fn value(&mut self, tag: u8, body: &[u8], depth: usize) -> Decoded<()> {
        let mut b = Bytes::new(body);
        let what = "a JSON value";
        match self.values_left.checked_sub(1) {
            Some(left) => self.values_left = left,
            None => return b.fail("a JSON document that ends"),
        }
        if matches!(
            tag,
            tag::SMALL_OBJECT | tag::LARGE_OBJECT | tag::SMALL_ARRAY | tag::LARGE_ARRAY
        ) {
            return self.container(tag, body, depth);
        }
        self.visitor.scalar(match tag {
            tag::LITERAL => literal(&b, b.rest().first().copied())?,
            tag::INT16 => Scalar::Int(i64::from(b.u16(what)? as i16)),
            tag::UINT16 => Scalar::UInt(u64::from(b.u16(what)?)),
            tag::INT32 => Scalar::Int(i64::from(b.u32(what)? as i32)),
            tag::UINT32 => Scalar::UInt(u64::from(b.u32(what)?)),
            tag::INT64 => Scalar::Int(b.u64(what)? as i64),
            tag::UINT64 => Scalar::UInt(b.u64(what)?),
            tag::DOUBLE => Scalar::Double(f64::from_bits(b.u64(what)?)),
            tag::STRING => {
                let count = variable_length(&mut b)?;
                Scalar::String(b.take(count, what)?)
            }
            tag::OPAQUE => {
                let kind = b.u8(what)?;
                let count = variable_length(&mut b)?;
                Scalar::Opaque(kind, b.take(count, what)?)
            }
            _ => return b.fail("a known JSON type"),
        })
    }

    fn container(&mut self, tag: u8, body: &[u8], depth: usize) -> Decoded<()> {
        let what = "a JSON object or array";
        let mut b = Bytes::new(body);
        if depth >= DEPTH_MAX {
            return b.fail("a JSON document of at most 128 levels");
        }
        let large = matches!(tag, tag::LARGE_OBJECT | tag::LARGE_ARRAY);
        let object = matches!(tag, tag::SMALL_OBJECT | tag::LARGE_OBJECT);
        let width = if large { 4 } else { 2 };
        let count = b.uint(width, what)? as usize;
        let size = b.uint(width, what)? as usize;
        let Some(whole) = body.get(..size) else {
            return b.fail(what);
        };
        let key_bytes = if object {
            count.saturating_mul(width + 2)
        } else {
            0
        };
        let mut keys = Bytes::new(b.take(key_bytes, what)?);
        let mut values = Bytes::new(b.take(count.saturating_mul(width + 1), what)?);
        self.visitor.open(object, count);
        for _ in 0..count {
            if object {
                let at = keys.uint(width, what)? as usize;
                let length = usize::from(keys.u16(what)?);
                match whole.get(at..).and_then(|rest| rest.get(..length)) {
                    Some(key) => self.visitor.key(key),
                    None => return keys.fail("a JSON key"),
                }
            }
            let tag = values.u8(what)?;
            let inline = values.take(width, what)?;
            let is_inline = matches!(tag, tag::LITERAL | tag::INT16 | tag::UINT16)
                || (large && matches!(tag, tag::INT32 | tag::UINT32));
            if is_inline {
                self.value(tag, inline, depth + 1)?;
            } else {
                let at = Bytes::new(inline).uint(width, what)? as usize;
                // A member lies behind its container's head, so a walk always ends.
                match whole.get(at..).filter(|_| at >= 2 * width) {
                    Some(body) => self.value(tag, body, depth + 1)?,
                    None => return values.fail("a JSON value's place"),
                }
            }
        }
        self.visitor.close(object);
        Ok(())
    }
}

fn literal(b: &Bytes<'_>, byte: Option<u8>) -> Decoded<Scalar<'static>> {
    Ok(Scalar::Literal(match byte {
        Some(0) => "null",
        Some(1) => "true",
        Some(2) => "false",
        _ => return b.fail("a JSON literal"),
    }))
}

/// Seven bits a byte, low first, at most five bytes.
fn variable_length(b: &mut Bytes<'_>) -> Decoded<usize> {
    let mut length = 0u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = b.u8("a JSON length")?;
        length |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(length as usize);
        }
    }
    b.fail("a JSON length")
}

/// Renders a document into `out` (as UTF-8, which the caller checks).
pub fn render(document: &[u8], out: &mut Vec<u8>) -> Decoded<()> {
    let mut renderer = Renderer {
        out,
        first: true,
        after_key: false,
    };
    walk(document, &mut renderer)
}

struct Renderer<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
    after_key: bool,
}

impl Renderer<'_> {
    fn separate(&mut self) {
        if !self.first && !self.after_key {
            self.out.extend_from_slice(b", ");
        }
        self.first = false;
        self.after_key = false;
    }
}

impl Visitor for Renderer<'_> {
    fn open(&mut self, object: bool, _count: usize) {
        self.separate();
        self.out.push(if object { b'{' } else { b'[' });
        self.first = true;
    }

    fn key(&mut self, key: &[u8]) {
        self.separate();
        put_string(self.out, key);
        self.out.extend_from_slice(b": ");
        self.after_key = true;
    }

    fn scalar(&mut self, scalar: Scalar<'_>) -> Decoded<()> {
        self.separate();
        put_scalar(self.out, scalar)
    }

    fn close(&mut self, object: bool) {
        self.out.push(if object { b'}' } else { b']' });
        self.first = false;
        self.after_key = false;
    }
}

/// Appends a scalar as the server prints it.
pub fn put_scalar(out: &mut Vec<u8>, scalar: Scalar<'_>) -> Decoded<()> {
    match scalar {
        Scalar::Literal(text) => out.extend_from_slice(text.as_bytes()),
        Scalar::Int(v) => out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes()),
        Scalar::UInt(v) => out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes()),
        Scalar::Double(v) => put_json_double(out, v),
        Scalar::String(bytes) => put_string(out, bytes),
        Scalar::Opaque(kind, bytes) => put_opaque(out, kind, bytes)?,
    }
    Ok(())
}

/// Appends a JSON string with the server's escapes.
pub fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut plain = 0;
    for (index, byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            8 => b'b',
            9 => b't',
            10 => b'n',
            12 => b'f',
            13 => b'r',
            0..=31 => 0,
            _ => continue,
        };
        out.extend_from_slice(&bytes[plain..index]);
        plain = index + 1;
        if short == 0 {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        } else {
            out.extend_from_slice(&[b'\\', short]);
        }
    }
    out.extend_from_slice(&bytes[plain..]);
    out.push(b'"');
}

fn put_opaque(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) -> Decoded<()> {
    let mut b = Bytes::new(bytes);
    match kind {
        wire::NEWDECIMAL => {
            let precision = b.u8("a JSON decimal")?;
            let scale = b.u8("a JSON decimal")?;
            put_decimal(out, &mut b, precision, scale)
        }
        wire::DATE | wire::TIME | wire::DATETIME | wire::TIMESTAMP => {
            let packed = b.u64("a JSON date or time")? as i64;
            out.push(b'"');
            match kind {
                wire::DATE => put_date(out, unpack_datetime(packed).date()),
                wire::TIME => put_time(out, unpack_time(packed), 6),
                _ => put_datetime(out, unpack_datetime(packed), 6),
            }
            out.push(b'"');
            Ok(())
        }
        _ => {
            out.extend_from_slice(b"\"base64:type");
            out.extend_from_slice(itoa::Buffer::new().format(kind).as_bytes());
            out.push(b':');
            put_base64(out, bytes);
            out.push(b'"');
            Ok(())
        }
    }
}

/// A packed TIME (`hms << 24 | micros`, signed) in microseconds.
pub fn unpack_time(packed: i64) -> i64 {
    let size = packed.unsigned_abs();
    let (hms, micros) = (size >> 24, size & 0xff_ffff);
    let seconds = (hms >> 12 & 0x3ff) * 3600 + (hms >> 6 & 63) * 60 + (hms & 63);
    let total = (seconds * 1_000_000 + micros) as i64;
    if packed < 0 { -total } else { total }
}

/// A packed DATETIME (`ym, day, hms << 24 | micros`).
pub fn unpack_datetime(packed: i64) -> DateTimePacked {
    let packed = packed.unsigned_abs();
    let (whole, micros) = (packed >> 24, packed & 0xff_ffff);
    let (ymd, hms) = (whole >> 17, whole & 0x1_ffff);
    let ym = ymd >> 5;
    let date = DatePacked::new(
        ((ym / 13) & 0x3fff) as u32,
        (ym % 13) as u32,
        (ymd & 31) as u32,
    );
    let seconds = (hms >> 12) * 3600 + (hms >> 6 & 63) * 60 + (hms & 63);
    DateTimePacked::new(date, seconds * 1_000_000 + micros)
}

fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const TABLE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // The server breaks its lines after 76 characters, which shows as an escape.
    for (index, chunk) in bytes.chunks(3).enumerate() {
        if index > 0 && index % 19 == 0 {
            out.extend_from_slice(b"\\n");
        }
        let mut group = [0u8; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
        for place in 0..4 {
            out.push(if place <= chunk.len() {
                TABLE[(bits >> (18 - 6 * place) & 63) as usize]
            } else {
                b'='
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(document: &[u8]) -> String {
        let mut out = Vec::new();
        render(document, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_object_with_an_array_looks_like_the_servers() {
        // {"a": 1, "b": [1, 2]}
        let document = [
            0, 2, 0, 32, 0, 18, 0, 1, 0, 19, 0, 1, 0, 5, 1, 0, 2, 20, 0, b'a', b'b', 2, 0, 10, 0,
            5, 1, 0, 5, 2, 0, 0, 0,
        ];
        assert_eq!(text(&document), r#"{"a": 1, "b": [1, 2]}"#);
        for cut in 1..document.len() - 2 {
            let mut out = Vec::new();
            assert!(render(&document[..cut], &mut out).is_err(), "{cut}");
        }
    }

    #[test]
    fn scalars_and_escapes() {
        assert_eq!(text(&[]), "null");
        assert_eq!(text(&[4, 1]), "true");
        assert_eq!(text(&[9, 255, 255, 255, 255, 255, 255, 255, 255]), "-1");
        assert_eq!(text(b"\x0c\x04a\"\x01\n"), r#""a\"\u0001\n""#);
        assert_eq!(text(&[15, 246, 4, 3, 2, 0x81, 50]), "1.50");
        assert_eq!(text(b"\x0f\xfc\x01a"), r#""base64:type252:YQ==""#);
    }

    #[test]
    fn a_document_that_holds_itself_is_an_error() {
        // An array whose only member is itself.
        let document = [2, 1, 0, 7, 0, 2, 0, 0];
        assert!(render(&document, &mut Vec::new()).is_err());
    }
}
