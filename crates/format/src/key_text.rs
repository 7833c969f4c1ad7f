//! The text of a row's key: what a record key and a partition are made of.

use change::temporal;
use change::{Cell, Image, Operation, RowChange, TableSchema, Value};
use std::io::Write;

/// Appends the key columns' texts, in key order, separated by `^` (all columns of a table without a
/// key). NULL and unknown are empty. Where there are several, a `^` or `\` in one has a `\` before it, so
/// that no two keys have one text.
pub fn put_key(out: &mut Vec<u8>, table: &TableSchema, image: &Image<'_>) {
    let key = table.key();
    if key.is_empty() {
        let count = image.column_count();
        for (index, cell) in image.cells().enumerate() {
            put_part(out, (index, count), cell);
        }
        return;
    }
    for (index, column) in key.iter().enumerate() {
        put_part(out, (index, key.len()), image.cell(*column as usize));
    }
}

/// Appends the texts of chosen columns in the given order, as [`put_key`] does.
pub fn put_columns(out: &mut Vec<u8>, columns: &[usize], image: &Image<'_>) {
    for (index, column) in columns.iter().enumerate() {
        put_part(out, (index, columns.len()), image.cell(*column));
    }
}

/// The image that a row's key is read from: the row after, unless it lacks a key column and the row
/// before does not.
pub fn image_of_key<'a>(row: &RowChange<'a>) -> Option<Image<'a>> {
    let is_known = |image: &Image<'_>| {
        let mut key = row.table.key().iter();
        key.all(|column| image.cell(*column as usize) != Cell::Unknown)
    };
    match (row.operation, &row.before, &row.after) {
        (Operation::Delete, before, _) => *before,
        (Operation::Update, Some(before), Some(after)) if !is_known(after) => Some(*before),
        (_, _, after) => *after,
    }
}

fn put_part(out: &mut Vec<u8>, (index, count): (usize, usize), cell: Cell<'_>) {
    if index > 0 {
        out.push(b'^');
    }
    if let Cell::Value(value) = cell {
        let start = out.len();
        put_value(out, value);
        let is_special = |byte: &u8| matches!(byte, b'^' | b'\\');
        if count > 1 && out[start..].iter().any(is_special) {
            let part = out.split_off(start);
            for byte in part {
                if is_special(&byte) {
                    out.push(b'\\');
                }
                out.push(byte);
            }
        }
    }
}

/// Java's `String.hashCode` over a text's UTF-16 units: what producers in Java spread keys by.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// Appends one value as plain text, neither quoted nor escaped; binary as lower-case hex.
pub fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    let mut number = itoa::Buffer::new();
    match value {
        Value::Int(v) => out.extend_from_slice(number.format(v).as_bytes()),
        Value::UInt(v) | Value::Bit(v) | Value::Set(v) => {
            out.extend_from_slice(number.format(v).as_bytes());
        }
        Value::Year(v) => write!(out, "{v:04}").expect("writing to a Vec does not fail"),
        Value::Enum(v) => out.extend_from_slice(number.format(v).as_bytes()),
        Value::Float(v) => crate::java_number::put_float(out, v),
        Value::Double(v) => crate::java_number::put_double(out, v),
        Value::Decimal(v) | Value::Text(v) | Value::Json(v) => out.extend_from_slice(v.as_bytes()),
        Value::InvalidText(v) | Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => {
            v.iter()
                .for_each(|b| write!(out, "{b:02x}").expect("writing to a Vec does not fail"));
        }
        Value::Date(v) => temporal::put_date(out, v),
        Value::Time { micros, digits } => temporal::put_time(out, micros, digits),
        Value::DateTime { at, digits } => temporal::put_datetime(out, at, digits),
        Value::Timestamp { micros, digits } => temporal::put_timestamp(out, micros, digits, 0),
        Value::ZeroTimestamp { digits } => temporal::put_zero_timestamp(out, digits),
        Value::Uuid(v) => put_uuid(out, &v),
        Value::Inet4(v) => put_display(out, &std::net::Ipv4Addr::from(v)),
        Value::Inet6(v) => put_display(out, &std::net::Ipv6Addr::from(v)),
        Value::Cql(v) => change::cql::put_text(out, &v, &mut put_value),
    }
}

fn put_display(out: &mut Vec<u8>, value: &dyn std::fmt::Display) {
    write!(out, "{value}").expect("writing to a Vec does not fail");
}

/// Appends a UUID's 36 characters.
pub fn put_uuid(out: &mut Vec<u8>, uuid: &[u8; 16]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::{java_hash, put_part};
    use change::{Cell, Value};

    #[test]
    fn no_two_keys_of_several_columns_have_one_text() {
        let key = |parts: &[&str]| {
            let mut out = Vec::new();
            for (index, part) in parts.iter().enumerate() {
                let cell = Cell::Value(Value::Text(part));
                put_part(&mut out, (index, parts.len()), cell);
            }
            String::from_utf8(out).unwrap()
        };
        assert_eq!(key(&["a^b", "c"]), r"a\^b^c");
        assert_eq!(key(&["a", "b^c"]), r"a^b\^c");
        assert_eq!(key(&[r"a\", "^c"]), r"a\\^\^c");
        assert_eq!(key(&[r"a^\"]), r"a^\", "one column is its text");
    }

    #[test]
    fn hashes_are_those_of_java_strings() {
        // Source: Java SE API, String.hashCode: s[0]*31^(n-1) + … + s[n-1].
        let known = [
            ("", 0),
            ("a", 97),
            ("hello", 99_162_322),
            ("42^7", 1_600_151),
            // Two UTF-16 units.
            ("😀", 1_772_899),
            // The smallest 32-bit number, whose absolute value is not one.
            ("polygenelubricants", i32::MIN),
        ];
        for (text, hash) in known {
            assert_eq!(java_hash(text), hash, "{text}");
        }
    }
}
