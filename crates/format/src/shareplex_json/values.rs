//! One value's text.

use super::options::Variant;
use super::table::ColumnText;
use crate::canal_json::values as canal;
use crate::json;
use change::temporal::{self, DatePacked, DateTimePacked};
use change::{Cell, Value};

/// How values are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Print {
    pub variant: Variant,
    pub offset_seconds: i32,
}

impl Print {
    /// Appends a known cell.
    #[inline]
    pub fn cell(self, out: &mut Vec<u8>, column: &ColumnText, cell: Cell<'_>) {
        let Cell::Value(value) = cell else {
            out.extend_from_slice(b"null");
            return;
        };
        if self.variant == Variant::Quest && put_bare(out, value) {
            return;
        }
        out.push(b'"');
        match value {
            Value::Bytes(bytes) | Value::Geometry(bytes) | Value::Vector(bytes) => {
                json::put_hex_upper(out, bytes);
            }
            Value::Enum(ordinal) => column.labels.put_label(out, ordinal),
            Value::Set(mask) => column.labels.put_labels(out, mask),
            value if self.variant == Variant::Quest => self.put_quest(out, value),
            value => canal::put_value(out, value, self.offset_seconds),
        }
        out.push(b'"');
    }

    /// Dates and times with `T` and nine fraction digits.
    fn put_quest(self, out: &mut Vec<u8>, value: Value<'_>) {
        let at = match value {
            Value::Date(date) => DateTimePacked::new(date, 0),
            Value::DateTime { at, .. } => at,
            Value::ZeroTimestamp { .. } => DateTimePacked::new(DatePacked::from_bits(0), 0),
            Value::Timestamp { micros, .. } => {
                let local = micros.saturating_add(i64::from(self.offset_seconds) * 1_000_000);
                DateTimePacked::from_epoch_micros(local)
            }
            value => return canal::put_value(out, value, self.offset_seconds),
        };
        put_iso(out, at, 6);
        out.extend_from_slice(b"000");
    }
}

/// Writes a number as a JSON number; false for what is none.
fn put_bare(out: &mut Vec<u8>, value: Value<'_>) -> bool {
    match value {
        Value::Float(v) if !v.is_finite() => return false,
        Value::Double(v) if !v.is_finite() => return false,
        Value::Year(v) => canal::put_value(out, Value::UInt(v.into()), 0),
        Value::Int(_)
        | Value::UInt(_)
        | Value::Bit(_)
        | Value::Decimal(_)
        | Value::Float(_)
        | Value::Double(_) => canal::put_value(out, value, 0),
        _ => return false,
    }
    true
}

/// Appends `YYYY-MM-DDTHH:MM:SS` and the fraction digits.
pub(super) fn put_iso(out: &mut Vec<u8>, at: DateTimePacked, digits: u8) {
    let start = out.len();
    temporal::put_datetime(out, at, digits);
    if let Some(space) = out[start..].iter().position(|byte| *byte == b' ') {
        out[start + space] = b'T';
    }
}
