//! One value's text, and its `java.sql.Types` code.

use super::options::{Flavour, Options, SqlTypeCodes};
use crate::key_text::put_uuid;
use crate::{java_number, json};
use change::temporal;
use change::{Cell, ColumnType, Value};
use std::io::Write;

/// `java.sql.Types`, the codes that are used here.
mod types {
    pub const BIT: i32 = -7;
    pub const TINYINT: i32 = -6;
    pub const SMALLINT: i32 = 5;
    pub const INTEGER: i32 = 4;
    pub const BIGINT: i32 = -5;
    pub const REAL: i32 = 7;
    pub const DOUBLE: i32 = 8;
    pub const DECIMAL: i32 = 3;
    pub const CHAR: i32 = 1;
    pub const VARCHAR: i32 = 12;
    pub const DATE: i32 = 91;
    pub const TIME: i32 = 92;
    pub const TIMESTAMP: i32 = 93;
    pub const OTHER: i32 = 1111;
    pub const BLOB: i32 = 2004;
    pub const CLOB: i32 = 2005;
}

/// How a column's code comes about: fixed, or promoted where an unsigned value needs more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqlKind {
    Fixed(i32),
    /// Values up to `max` have `code`, larger ones `promoted`.
    Unsigned {
        code: i32,
        max: u64,
        promoted: i32,
    },
    /// Canal's own habit for SET and JSON: NULL has another code.
    ByNull {
        code: i32,
        null: i32,
    },
}

impl SqlKind {
    /// How `options` want the codes of a column.
    pub fn of(kind: &ColumnType, options: &Options) -> Self {
        if options.sql_type == SqlTypeCodes::DataTypeNumber {
            return SqlKind::Fixed(data_type_number(kind));
        }
        match (Self::jdbc(kind), options.flavour, kind) {
            (SqlKind::Unsigned { promoted, .. }, Flavour::Dts, _) => SqlKind::Fixed(promoted),
            (SqlKind::Fixed(code), _, ColumnType::Set { .. }) if options.exact => SqlKind::ByNull {
                code,
                null: types::BLOB,
            },
            (SqlKind::Fixed(code), _, ColumnType::Json) if options.exact => SqlKind::ByNull {
                code,
                null: types::OTHER,
            },
            (codes, _, _) => codes,
        }
    }

    fn jdbc(kind: &ColumnType) -> Self {
        use ColumnType as T;
        let unsigned = |code, max, promoted| SqlKind::Unsigned {
            code,
            max,
            promoted,
        };
        SqlKind::Fixed(match kind {
            T::Int {
                bytes: 1,
                unsigned: true,
            } => {
                return unsigned(types::TINYINT, i8::MAX as u64, types::SMALLINT);
            }
            T::Int {
                bytes: 2,
                unsigned: true,
            } => {
                return unsigned(types::SMALLINT, i16::MAX as u64, types::INTEGER);
            }
            T::Int {
                bytes: 4,
                unsigned: true,
            } => {
                return unsigned(types::INTEGER, i32::MAX as u64, types::BIGINT);
            }
            T::Int {
                bytes: 8,
                unsigned: true,
            } => {
                return unsigned(types::BIGINT, i64::MAX as u64, types::DECIMAL);
            }
            T::Int { bytes: 1, .. } => types::TINYINT,
            T::Int { bytes: 2, .. } => types::SMALLINT,
            T::Int { bytes: 8, .. } => types::BIGINT,
            T::Int { .. } | T::Enum { .. } => types::INTEGER,
            T::Decimal { .. } => types::DECIMAL,
            T::Float => types::REAL,
            T::Double => types::DOUBLE,
            T::Bit { .. } | T::Set { .. } => types::BIT,
            T::Date => types::DATE,
            T::Time { .. } => types::TIME,
            T::DateTime { .. } | T::Timestamp { .. } => types::TIMESTAMP,
            T::Char { .. } | T::Uuid => types::CHAR,
            T::Year | T::Varchar { .. } | T::Json | T::Inet4 | T::Inet6 => types::VARCHAR,
            T::Text { .. } => types::CLOB,
            T::Binary { .. } | T::Varbinary { .. } | T::Blob { .. } | T::Geometry | T::Vector => {
                types::BLOB
            }
            // Refused before.
            T::Cql(_) => types::OTHER,
        })
    }
}

impl std::fmt::Display for SqlKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SqlKind::Fixed(code) => write!(f, "{code}"),
            SqlKind::Unsigned {
                code,
                max,
                promoted,
            } => write!(f, "{code}, above {max} {promoted}"),
            SqlKind::ByNull { code, null } => write!(f, "{code}, NULL {null}"),
        }
    }
}

/// The code of one cell.
#[inline]
pub(super) fn sql_type(kind: SqlKind, cell: Cell<'_>) -> i32 {
    match (kind, cell) {
        (SqlKind::Fixed(code), _) => code,
        (SqlKind::Unsigned { max, promoted, .. }, Cell::Value(Value::UInt(value)))
            if value > max =>
        {
            promoted
        }
        (SqlKind::ByNull { null, .. }, Cell::Null) => null,
        (SqlKind::Unsigned { code, .. } | SqlKind::ByNull { code, .. }, _) => code,
    }
}

/// The type numbers that DTS uses in its records: MySQL's own, with texts as 15 and BINARY as 252.
fn data_type_number(kind: &ColumnType) -> i32 {
    use ColumnType as T;
    match kind {
        T::Int { bytes: 1, .. } => 1,
        T::Int { bytes: 2, .. } => 2,
        T::Int { bytes: 3, .. } => 9,
        T::Int { bytes: 8, .. } => 8,
        T::Int { .. } => 3,
        T::Decimal { .. } => 246,
        T::Float => 4,
        T::Double => 5,
        T::Bit { .. } => 16,
        T::Year => 13,
        T::Date => 10,
        T::Time { .. } => 11,
        T::DateTime { .. } => 12,
        T::Timestamp { .. } => 7,
        T::Char { .. } | T::Uuid => 254,
        T::Varchar { .. } | T::Inet4 | T::Inet6 => 253,
        T::Text { .. } => 15,
        T::Blob { length_bytes: 1 } => 249,
        T::Blob { length_bytes: 3 } => 250,
        T::Blob { length_bytes: 4 } => 251,
        T::Binary { .. } | T::Varbinary { .. } | T::Blob { .. } | T::Vector => 252,
        T::Enum { .. } => 247,
        T::Set { .. } => 248,
        T::Json => 245,
        T::Geometry => 255,
        // Refused before.
        T::Cql(_) => 252,
    }
}

/// Appends a decimal as Canal prints it: without its last group of digits (those past a multiple of
/// nine) when they are all zero, and `.0` when no fraction is left.
pub(super) fn put_decimal_as_canal(out: &mut Vec<u8>, text: &str) {
    let Some((whole, fraction)) = text.split_once('.') else {
        out.extend_from_slice(text.as_bytes());
        return;
    };
    let (groups, last) = fraction.split_at(fraction.len() / 9 * 9);
    let kept = if last.bytes().all(|digit| digit == b'0') {
        groups
    } else {
        fraction
    };
    out.extend_from_slice(whole.as_bytes());
    out.push(b'.');
    out.extend_from_slice(if kept.is_empty() { "0" } else { kept }.as_bytes());
}

/// Appends one value's text, escaped, without quotes.
#[inline]
pub(crate) fn put_value(out: &mut Vec<u8>, value: Value<'_>, offset_seconds: i32) {
    match value {
        Value::Int(v) => out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes()),
        Value::UInt(v) | Value::Bit(v) | Value::Set(v) => {
            out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes());
        }
        Value::Text(v) | Value::Json(v) => json::put_escaped(out, v),
        Value::Decimal(v) => out.extend_from_slice(v.as_bytes()),
        Value::DateTime { at, digits } => temporal::put_datetime(out, at, digits),
        Value::Timestamp { micros, digits } => {
            temporal::put_timestamp(out, micros, digits, offset_seconds);
        }
        Value::InvalidText(v) | Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => {
            json::put_latin1_escaped(out, v);
        }
        other => put_rare(out, other),
    }
}

fn put_rare(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Float(v) => java_number::put_float(out, v),
        Value::Double(v) => java_number::put_double(out, v),
        Value::Date(v) => temporal::put_date(out, v),
        Value::Time { micros, digits } => temporal::put_time(out, micros, digits),
        Value::ZeroTimestamp { digits } => temporal::put_zero_timestamp(out, digits),
        Value::Year(v) => write!(out, "{v:04}").expect("writing to a Vec does not fail"),
        Value::Enum(v) => out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes()),
        Value::Uuid(v) => put_uuid(out, &v),
        Value::Inet4(v) => {
            write!(out, "{}", std::net::Ipv4Addr::from(v)).expect("writing to a Vec does not fail")
        }
        Value::Inet6(v) => {
            write!(out, "{}", std::net::Ipv6Addr::from(v)).expect("writing to a Vec does not fail")
        }
        // Refused before.
        Value::Cql(_) => {}
        _ => unreachable!("put_value wrote the common values"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canal_drops_the_last_group_of_a_decimal_when_it_is_zero() {
        let texts = [
            ("500.00", "500.0"),
            ("500.10", "500.10"),
            ("1.000000000000", "1.000000000"),
            ("0.0000000000000000", "0.000000000"),
            ("0.000000000", "0.000000000"),
            ("-0.50", "-0.50"),
            ("7", "7"),
        ];
        for (text, expected) in texts {
            let mut out = Vec::new();
            put_decimal_as_canal(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
