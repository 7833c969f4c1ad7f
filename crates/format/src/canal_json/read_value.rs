//! One value back from its text.

use crate::json_reader::Json;
use crate::temporal_reader;
use change::value::{put_decimal_bytes, put_value};
use change::{ColumnType, Value};

/// Appends the stored form of a value of a column of this type.
///
/// Errors: what the value should have been.
pub(super) fn put_cell(
    out: &mut Vec<u8>,
    kind: &ColumnType,
    json: &Json<'_>,
    offset_seconds: i32,
) -> Result<(), &'static str> {
    if let Some(text) = json.text() {
        return put_text(out, kind, &text, offset_seconds);
    }
    match json.boolean() {
        Some(true) if is_number(kind) => return put_text(out, kind, "1", offset_seconds),
        Some(false) if is_number(kind) => return put_text(out, kind, "0", offset_seconds),
        _ => {}
    }
    if json.is_object() || json.is_array() {
        if *kind != ColumnType::Json {
            return Err("a string or null is expected");
        }
        put_value(out, Value::Json(json.raw()));
        return Ok(());
    }
    put_text(out, kind, json.raw(), offset_seconds)
}

fn is_number(kind: &ColumnType) -> bool {
    matches!(kind, ColumnType::Int { .. } | ColumnType::Bit { .. })
}

fn put_text(
    out: &mut Vec<u8>,
    kind: &ColumnType,
    text: &str,
    offset_seconds: i32,
) -> Result<(), &'static str> {
    use ColumnType as T;
    let value = match kind {
        T::Char { .. } | T::Varchar { .. } | T::Text { .. } => Some(Value::Text(text)),
        T::Json => Some(Value::Json(text)),
        T::Int { unsigned: true, .. } => text.parse().ok().map(Value::UInt),
        T::Int { .. } => text.parse().ok().map(Value::Int),
        T::Float => text.parse().ok().map(Value::Float),
        T::Double => text.parse().ok().map(Value::Double),
        T::Bit { .. } => text.parse().ok().map(Value::Bit),
        T::Year => text.parse().ok().map(Value::Year),
        // DTS drops the members from the type's name, and then only the text tells the label.
        T::Enum { members } => ordinal(members, text)
            .map(Value::Enum)
            .or(members.is_empty().then_some(Value::Text(text))),
        T::Set { members } => bitmask(members, text)
            .map(Value::Set)
            .or(members.is_empty().then_some(Value::Text(text))),
        T::Decimal { .. } => {
            if !is_decimal(text) {
                return Err("a decimal number is expected");
            }
            put_decimal_bytes(out, text.as_bytes());
            return Ok(());
        }
        T::Binary { .. } | T::Varbinary { .. } | T::Blob { .. } | T::Geometry | T::Vector => {
            return put_bytes(out, kind, text);
        }
        T::Uuid => uuid(text).map(Value::Uuid),
        T::Inet4 => (text.parse().ok()).map(|at: std::net::Ipv4Addr| Value::Inet4(at.octets())),
        T::Inet6 => (text.parse().ok()).map(|at: std::net::Ipv6Addr| Value::Inet6(at.octets())),
        T::Date | T::Time { .. } | T::DateTime { .. } | T::Timestamp { .. } => {
            temporal(kind, text, offset_seconds)
        }
        // No message describes such a column.
        T::Cql(_) => None,
    };
    put_value(out, value.ok_or_else(|| expected(kind))?);
    Ok(())
}

fn expected(kind: &ColumnType) -> &'static str {
    use ColumnType as T;
    match kind {
        T::Int { unsigned: true, .. } | T::Bit { .. } => "a whole number from 0 is expected",
        T::Int { .. } => "a whole number is expected",
        T::Float | T::Double => "a number is expected",
        T::Year => "a year is expected",
        T::Enum { .. } => "an ordinal or a label of the column is expected",
        T::Set { .. } => "a bitmask or labels of the column are expected",
        T::Uuid => "a UUID is expected",
        T::Inet4 | T::Inet6 => "an address is expected",
        T::Cql(_) => "a column that is not of CQL is expected",
        _ => "a date or time is expected",
    }
}

fn temporal<'v>(kind: &ColumnType, text: &str, offset_seconds: i32) -> Option<Value<'v>> {
    Some(match kind {
        ColumnType::Date => Value::Date(temporal_reader::date(text)?),
        ColumnType::Time { .. } => {
            let (micros, digits) = temporal_reader::time(text)?;
            Value::Time { micros, digits }
        }
        ColumnType::DateTime { .. } => {
            let (at, digits) = temporal_reader::datetime(text)?;
            Value::DateTime { at, digits }
        }
        _ => {
            let (at, digits) = temporal_reader::datetime(text)?;
            if at.bits() == 0 {
                return Some(Value::ZeroTimestamp { digits });
            }
            let micros = temporal_reader::epoch_micros(at)? - i64::from(offset_seconds) * 1_000_000;
            Value::Timestamp { micros, digits }
        }
    })
}

/// A sign, digits, a point and digits.
pub(crate) fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole) && is_digits(fraction)
}

pub(crate) fn ordinal(members: &[String], text: &str) -> Option<u16> {
    if let Ok(ordinal) = text.parse() {
        return Some(ordinal);
    }
    if text.is_empty() {
        return Some(0);
    }
    let index = members.iter().position(|member| member == text)?;
    u16::try_from(index + 1).ok()
}

pub(crate) fn bitmask(members: &[String], text: &str) -> Option<u64> {
    if let Ok(mask) = text.parse() {
        return Some(mask);
    }
    labels_mask(members, text)
}

/// The bits of labels separated by commas.
pub(crate) fn labels_mask(members: &[String], text: &str) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    text.split(',').try_fold(0u64, |mask, label| {
        let bit = members.iter().position(|member| member == label)?;
        Some(mask | 1u64.checked_shl(bit as u32)?)
    })
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    if text.len() != 36 || !text.is_ascii() {
        return None;
    }
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 32).then(|| number.to_be_bytes())
}

/// Bytes from their code points, one each.
fn put_bytes(out: &mut Vec<u8>, kind: &ColumnType, text: &str) -> Result<(), &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        let byte = u8::try_from(u32::from(character))
            .map_err(|_| "a byte per character is expected, up to U+00FF")?;
        bytes.push(byte);
    }
    let value = match kind {
        ColumnType::Geometry => Value::Geometry(&bytes),
        ColumnType::Vector => Value::Vector(&bytes),
        _ => Value::Bytes(&bytes),
    };
    put_value(out, value);
    Ok(())
}
