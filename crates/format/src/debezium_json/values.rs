//! One value as JsonConverter writes it.

use super::options::{BigintUnsigned, DecimalMode, Options};
use super::table::ColumnText;
use crate::canal_json::values as canal;
use crate::unscaled::Unscaled;
use crate::{base64, java_number, json};
use change::temporal::{self, DatePacked, DateTimePacked};
use change::{Cell, Value};

/// What is wrong with a decimal that its column's schema cannot say.
const NO_DECIMAL: &str = "a decimal with more digits than its column has";

/// Appends a known cell.
///
/// Errors: why its value cannot be carried.
#[inline]
pub(crate) fn put_cell(
    out: &mut Vec<u8>,
    column: &ColumnText,
    cell: Cell<'_>,
    options: &Options,
) -> Result<(), &'static str> {
    let Cell::Value(value) = cell else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    match value {
        Value::Int(_) | Value::Float(_) | Value::Double(_) => canal::put_value(out, value, 0),
        Value::UInt(v) => put_unsigned(out, column, v, options),
        Value::Text(text) | Value::Json(text) => json::put_string(out, text),
        Value::Decimal(text) => return put_decimal(out, column, text, options),
        Value::Bytes(bytes) => put_base64(out, bytes),
        Value::DateTime { at, .. } => {
            put_datetime(out, column, at);
        }
        Value::Timestamp { micros, digits } => put_instant(out, micros, digits),
        other => put_rare(out, column, other),
    }
    Ok(())
}

fn put_rare(out: &mut Vec<u8>, column: &ColumnText, value: Value<'_>) {
    match value {
        Value::Date(date) => put_date(out, column, date),
        Value::Time { micros, .. } => put!(out, "{micros}"),
        Value::ZeroTimestamp { .. } if column.nullable => out.extend_from_slice(b"null"),
        Value::ZeroTimestamp { digits } => put_instant(out, 0, digits),
        Value::Year(year) => put!(out, "{year}"),
        Value::Bit(bits) if column.width <= 1 => put!(out, "{}", bits != 0),
        Value::Bit(bits) => {
            let bytes = bits.to_le_bytes();
            put_base64(out, &bytes[..usize::from(column.width.div_ceil(8)).min(8)]);
        }
        Value::Enum(ordinal) => {
            out.push(b'"');
            column.labels.put_label(out, ordinal);
            out.push(b'"');
        }
        Value::Set(mask) => {
            out.push(b'"');
            column.labels.put_labels(out, mask);
            out.push(b'"');
        }
        Value::Geometry(bytes) => put_geometry(out, column, bytes),
        Value::Vector(bytes) => put_vector(out, bytes),
        other => {
            out.push(b'"');
            canal::put_value(out, other, 0);
            out.push(b'"');
        }
    }
}

fn put_unsigned(out: &mut Vec<u8>, column: &ColumnText, value: u64, options: &Options) {
    if column.width < 64 {
        put!(out, "{value}");
        return;
    }
    match options.bigint_unsigned {
        BigintUnsigned::Long => put!(out, "{}", value.cast_signed()),
        BigintUnsigned::Precise => {
            let bytes = value.to_be_bytes();
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(7);
            let mut unscaled = [0u8; 9];
            unscaled[1..].copy_from_slice(&bytes);
            let start = zeros + usize::from(bytes[zeros] < 0x80);
            put_base64(out, &unscaled[start..]);
        }
    }
}

/// The point is where the column has it, whatever fraction digits the text has: a reader takes the scale
/// from the schema.
fn put_decimal(
    out: &mut Vec<u8>,
    column: &ColumnText,
    text: &str,
    options: &Options,
) -> Result<(), &'static str> {
    match options.decimal {
        DecimalMode::Precise => {
            let unscaled = Unscaled::of(text, column.width).ok_or(NO_DECIMAL)?;
            put_base64(out, unscaled.bytes());
        }
        DecimalMode::String => json::put_string(out, text),
        DecimalMode::Double => {
            java_number::put_double(out, text.parse().unwrap_or(0.0));
        }
    }
    Ok(())
}

fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    base64::put(out, bytes);
    out.push(b'"');
}

/// A date that no calendar has becomes null, or the epoch where the column has no NULL.
fn put_date(out: &mut Vec<u8>, column: &ColumnText, date: DatePacked) {
    match date.to_days() {
        Some(days) => put!(out, "{days}"),
        None => put_no_time(out, column),
    }
}

fn put_datetime(out: &mut Vec<u8>, column: &ColumnText, at: DateTimePacked) {
    let Some(days) = at.date().to_days() else {
        put_no_time(out, column);
        return;
    };
    let micros = days * 86_400_000_000 + at.micros_of_day() as i64;
    if column.width <= 3 {
        put!(out, "{}", micros.div_euclid(1000));
    } else {
        put!(out, "{micros}");
    }
}

fn put_no_time(out: &mut Vec<u8>, column: &ColumnText) {
    out.extend_from_slice(if column.nullable { b"null" } else { b"0" });
}

fn put_instant(out: &mut Vec<u8>, micros: i64, digits: u8) {
    out.push(b'"');
    let start = out.len();
    temporal::put_timestamp(out, micros, digits, 0);
    if let Some(space) = out[start..].iter().position(|byte| *byte == b' ') {
        out[start + space] = b'T';
    }
    out.extend_from_slice(b"Z\"");
}

fn put_geometry(out: &mut Vec<u8>, column: &ColumnText, bytes: &[u8]) {
    let (srid, wkb) = bytes.split_first_chunk::<4>().unwrap_or((&[0; 4], bytes));
    out.push(b'{');
    if column.is_point {
        let [x, y] = coordinates(wkb).unwrap_or_default();
        out.extend_from_slice(b"\"x\":");
        java_number::put_double(out, x);
        out.extend_from_slice(b",\"y\":");
        java_number::put_double(out, y);
        out.push(b',');
    }
    out.extend_from_slice(b"\"wkb\":");
    put_base64(out, wkb);
    match u32::from_le_bytes(*srid) {
        0 => out.extend_from_slice(b",\"srid\":null}"),
        srid => put!(out, ",\"srid\":{}}}", srid.cast_signed()),
    }
}

/// A point's coordinates from its WKB: byte order, kind, two doubles.
fn coordinates(wkb: &[u8]) -> Option<[f64; 2]> {
    let (order, rest) = wkb.split_first()?;
    let rest = rest.get(4..20)?;
    let double = |at: usize| {
        let bytes: [u8; 8] = rest[at..at + 8].try_into().ok()?;
        let value = match order {
            0 => f64::from_be_bytes(bytes),
            _ => f64::from_le_bytes(bytes),
        };
        value.is_finite().then_some(value)
    };
    Some([double(0)?, double(8)?])
}

fn put_vector(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'[');
    for (index, float) in bytes.chunks_exact(4).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let float = f32::from_le_bytes(float.try_into().expect("chunks of four"));
        if float.is_finite() {
            java_number::put_float(out, float);
        } else {
            out.extend_from_slice(b"null");
        }
    }
    out.push(b']');
}
