//! Cells to RowBinary, each checked against the target's type: the server checks nothing.

use crate::config::OutOfRange;
use crate::target_type::{Target, TargetType};
use change::temporal::{
    DatePacked, DateTimePacked, put_date, put_datetime, put_time, put_timestamp, put_zero_timestamp,
};
use change::{Cell, ColumnType, Value};

const DAY_MICROS: i64 = 86_400_000_000;

/// Why a value cannot be in its column; no value in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Misfit(pub &'static str);

/// Days since 1970-01-01 that the server's date types hold, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DateRange {
    pub first_day: i64,
    pub last_day: i64,
    pub policy: OutOfRange,
}

impl DateRange {
    pub(crate) fn new(all_dates: bool, policy: OutOfRange) -> Self {
        let day = |year, month, day| {
            DatePacked::new(year, month, day)
                .to_days()
                .expect("a day of the calendar")
        };
        let (first_day, last_day) = match all_dates {
            true => (day(1, 1, 1), day(9999, 12, 31)),
            false => (day(1900, 1, 1), day(2299, 12, 31)),
        };
        Self {
            first_day,
            last_day,
            policy,
        }
    }

    fn day(&self, day: i64) -> Result<i64, Misfit> {
        self.within(day, self.first_day, self.last_day)
    }

    fn within(&self, value: i64, first: i64, last: i64) -> Result<i64, Misfit> {
        match self.policy {
            _ if (first..=last).contains(&value) => Ok(value),
            OutOfRange::Clamp => Ok(value.clamp(first, last)),
            OutOfRange::Park => Err(Misfit(
                "a date that the target's type cannot hold (types.out_of_range: clamp takes the \
                 nearest, types.dates: text keeps it)",
            )),
        }
    }
}

/// How one column of the source is written.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    target: Target,
    source: ColumnType,
    /// Of an enum into an enum: the target's number by ordinal.
    numbers: Vec<Option<i16>>,
    range: DateRange,
}

impl Writer {
    pub(crate) fn new(target: Target, source: &ColumnType, range: DateRange) -> Self {
        let number = |label: &String| match &target.kind {
            TargetType::Enum(_, labels) => labels.iter().find(|(l, _)| l == label).map(|(_, n)| *n),
            _ => None,
        };
        let numbers = match source {
            ColumnType::Enum { members } => {
                let empty = number(&String::new());
                std::iter::once(empty)
                    .chain(members.iter().map(number))
                    .collect()
            }
            _ => Vec::new(),
        };
        Self {
            target,
            source: source.clone(),
            numbers,
            range,
        }
    }

    /// Appends one cell.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>, cell: Cell<'_>) -> Result<(), Misfit> {
        let value = match cell {
            Cell::Value(value) => value,
            Cell::Null => return self.put_null(out),
            Cell::Unknown => {
                return Err(Misfit(
                    "the log did not carry the whole row (set binlog_row_image = FULL)",
                ));
            }
        };
        let start = out.len();
        if self.target.nullable {
            out.push(0);
        }
        match self.put_value(out, value) {
            Ok(true) => Ok(()),
            // A date that no calendar has.
            Ok(false) => {
                out.truncate(start);
                match self.target.nullable {
                    true => {
                        out.push(1);
                        Ok(())
                    }
                    false => Err(Misfit(
                        "a zero date in a column that takes no NULL (types.dates: text keeps it)",
                    )),
                }
            }
            Err(misfit) => {
                out.truncate(start);
                Err(misfit)
            }
        }
    }

    fn put_null(&self, out: &mut Vec<u8>) -> Result<(), Misfit> {
        match (&self.target.kind, self.target.nullable) {
            (_, true) => out.push(1),
            (TargetType::Floats, false) => out.push(0),
            _ => return Err(Misfit("NULL in a column that takes none in the target")),
        }
        Ok(())
    }

    /// What stands for a cell that nobody may rely on: NULL or the type's zero.
    pub(crate) fn put_nothing(&self, out: &mut Vec<u8>) {
        use TargetType as T;
        if self.target.nullable {
            out.push(1);
            return;
        }
        let zeros = match &self.target.kind {
            T::Int(bytes) | T::UInt(bytes) => usize::from(*bytes),
            T::Float32 | T::DateTime | T::Date32 | T::Time | T::Ipv4 => 4,
            T::Float64 | T::DateTime64(_) | T::Time64(_) => 8,
            T::Bool => 1,
            T::Decimal { bytes, .. } => usize::from(*bytes),
            T::Date => 2,
            T::String | T::Floats => 1,
            T::FixedString(length) => *length,
            T::Uuid | T::Ipv6 | T::UInt128 => 16,
            T::Json => return put_text(out, b"{}"),
            T::Enum(bytes, labels) => {
                let number = labels.first().map_or(0, |(_, number)| *number);
                return put_int(out, i64::from(number), *bytes);
            }
        };
        out.resize(out.len() + zeros, 0);
    }

    /// False: a date that no calendar has.
    #[inline]
    fn put_value(&self, out: &mut Vec<u8>, value: Value<'_>) -> Result<bool, Misfit> {
        use TargetType as T;
        match (&self.target.kind, value) {
            (T::Int(bytes), _) => int_of(value).and_then(|v| put_signed(out, v, *bytes))?,
            (T::UInt(bytes), _) => int_of(value).and_then(|v| put_unsigned(out, v, *bytes))?,
            (T::String, _) => self.put_as_text(out, value)?,
            (T::Float32, Value::Float(v)) => out.extend_from_slice(&v.to_le_bytes()),
            (T::Float64, Value::Float(v)) => out.extend_from_slice(&f64::from(v).to_le_bytes()),
            (T::Float64, Value::Double(v)) => out.extend_from_slice(&v.to_le_bytes()),
            (
                T::Decimal {
                    bytes,
                    precision,
                    scale,
                },
                _,
            ) => {
                put_decimal(out, value, (*bytes, *precision, *scale))?;
            }
            (T::Bool, _) => match int_of(value)? {
                0 => out.push(0),
                1 => out.push(1),
                _ => return Err(Misfit("a number other than 0 and 1 for a Bool")),
            },
            (T::Date32 | T::Date, Value::Date(date)) => return self.put_date(out, date),
            (T::DateTime64(digits), _) => return self.put_instant(out, value, *digits),
            (T::DateTime, _) => return self.put_seconds(out, value),
            (T::Time64(digits), Value::Time { micros, .. }) => {
                put_scaled(out, micros, *digits)?;
            }
            (T::Time, Value::Time { micros, .. }) => {
                if micros % 1_000_000 != 0 {
                    return Err(Misfit("a time with a fraction for a Time without"));
                }
                put_int(out, micros / 1_000_000, 4);
            }
            (T::FixedString(length), Value::Bytes(bytes) | Value::InvalidText(bytes)) => {
                put_fixed(out, bytes, *length)?;
            }
            (T::FixedString(length), Value::Text(text)) => {
                put_fixed(out, text.as_bytes(), *length)?;
            }
            (T::Uuid, Value::Uuid(bytes)) => {
                out.extend(bytes[..8].iter().rev());
                out.extend(bytes[8..].iter().rev());
            }
            (T::Ipv4, Value::Inet4(bytes)) => out.extend(bytes.iter().rev()),
            (T::Ipv6, Value::Inet6(bytes)) => out.extend_from_slice(&bytes),
            (T::Enum(bytes, _), Value::Enum(ordinal)) => {
                let number = self.numbers.get(usize::from(ordinal)).copied().flatten();
                let number = number.ok_or(UNKNOWN_LABEL)?;
                put_int(out, i64::from(number), *bytes);
            }
            (T::Enum(bytes, labels), Value::Text(text)) => {
                let found = labels.iter().find(|(label, _)| label == text);
                let (_, number) = found.ok_or(UNKNOWN_LABEL)?;
                put_int(out, i64::from(*number), *bytes);
            }
            (T::Json, Value::Json(text) | Value::Text(text)) => {
                if !text.trim_start().starts_with('{') {
                    return Err(Misfit(
                        "a JSON document that is no object for the type JSON (types.json: string \
                         takes all)",
                    ));
                }
                put_text(out, text.as_bytes());
            }
            (T::Floats, Value::Vector(bytes)) => {
                put_varint(out, bytes.len() / 4);
                out.extend_from_slice(&bytes[..bytes.len() / 4 * 4]);
            }
            _ => return Err(Misfit("a value of another kind than the target's column")),
        }
        Ok(true)
    }

    fn put_date(&self, out: &mut Vec<u8>, date: DatePacked) -> Result<bool, Misfit> {
        let Some(day) = calendar_day(date) else {
            return Ok(false);
        };
        match self.target.kind {
            TargetType::Date => {
                let day = self.range.within(day, 0, i64::from(u16::MAX))?;
                out.extend_from_slice(&(day as u16).to_le_bytes());
            }
            _ => {
                let day = self.range.day(day)?;
                out.extend_from_slice(&(day as i32).to_le_bytes());
            }
        }
        Ok(true)
    }

    fn put_instant(&self, out: &mut Vec<u8>, value: Value<'_>, digits: u8) -> Result<bool, Misfit> {
        let Some(micros) = instant(value)? else {
            return Ok(false);
        };
        let first = self.range.first_day * DAY_MICROS;
        let last = (self.range.last_day + 1) * DAY_MICROS - 1;
        let mut micros = self.range.within(micros, first, last)?;
        if digits < 6 && (micros == last || micros == first) {
            // A clamped instant has no finer fraction than its column.
            micros -= micros.rem_euclid(10i64.pow(6 - u32::from(digits)));
        }
        put_scaled(out, micros, digits)?;
        Ok(true)
    }

    fn put_seconds(&self, out: &mut Vec<u8>, value: Value<'_>) -> Result<bool, Misfit> {
        let Some(micros) = instant(value)? else {
            return Ok(false);
        };
        if micros % 1_000_000 != 0 {
            return Err(Misfit("a time with a fraction for a DateTime without"));
        }
        let seconds = micros / 1_000_000;
        let seconds = self.range.within(seconds, 0, i64::from(u32::MAX))?;
        out.extend_from_slice(&(seconds as u32).to_le_bytes());
        Ok(true)
    }

    fn put_as_text(&self, out: &mut Vec<u8>, value: Value<'_>) -> Result<(), Misfit> {
        let mut digits = itoa::Buffer::new();
        match value {
            Value::Text(text) | Value::Json(text) | Value::Decimal(text) => {
                put_text(out, text.as_bytes());
            }
            Value::InvalidText(bytes)
            | Value::Bytes(bytes)
            | Value::Geometry(bytes)
            | Value::Vector(bytes) => put_text(out, bytes),
            Value::Int(v) => put_text(out, digits.format(v).as_bytes()),
            Value::UInt(v) | Value::Bit(v) => put_text(out, digits.format(v).as_bytes()),
            Value::Enum(ordinal) => {
                let label = self.label(ordinal)?;
                put_text(out, label.as_bytes());
            }
            Value::Set(mask) => put_counted(out, |out| self.put_set(out, mask)),
            Value::Date(date) => put_counted(out, |out| put_date(out, date)),
            Value::Time { micros, digits } => {
                put_counted(out, |out| put_time(out, micros, digits));
            }
            Value::DateTime { at, digits } => {
                put_counted(out, |out| put_datetime(out, at, digits));
            }
            Value::Timestamp { micros, digits } => {
                put_counted(out, |out| put_timestamp(out, micros, digits, 0));
            }
            Value::ZeroTimestamp { digits } => {
                put_counted(out, |out| put_zero_timestamp(out, digits));
            }
            Value::Year(year) => put_counted(out, |out| {
                out.extend_from_slice(format!("{year:04}").as_bytes());
            }),
            Value::Float(v) => put_text(out, v.to_string().as_bytes()),
            Value::Double(v) => put_text(out, v.to_string().as_bytes()),
            Value::Uuid(bytes) => put_counted(out, |out| {
                for (index, byte) in bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        out.push(b'-');
                    }
                    out.extend_from_slice(format!("{byte:02x}").as_bytes());
                }
            }),
            Value::Inet4(bytes) => {
                let text = std::net::Ipv4Addr::from(bytes).to_string();
                put_text(out, text.as_bytes());
            }
            Value::Inet6(bytes) => {
                let text = std::net::Ipv6Addr::from(bytes).to_string();
                put_text(out, text.as_bytes());
            }
            Value::Cql(_) => return Err(Misfit("a value of CQL")),
        }
        Ok(())
    }

    fn label(&self, ordinal: u16) -> Result<&str, Misfit> {
        match (&self.source, ordinal) {
            (_, 0) => Ok(""),
            (ColumnType::Enum { members }, n) => {
                let label = members.get(usize::from(n) - 1);
                label.map(String::as_str).ok_or(UNKNOWN_LABEL)
            }
            _ => Err(UNKNOWN_LABEL),
        }
    }

    fn put_set(&self, out: &mut Vec<u8>, mask: u64) {
        let ColumnType::Set { members } = &self.source else {
            return;
        };
        let start = out.len();
        for (bit, label) in members.iter().enumerate() {
            if mask >> bit & 1 != 0 {
                if out.len() > start {
                    out.push(b',');
                }
                out.extend_from_slice(label.as_bytes());
            }
        }
    }
}

const UNKNOWN_LABEL: Misfit = Misfit(
    "an enum value that the target's column does not have (ALTER TABLE … MODIFY COLUMN with it, or \
     make it LowCardinality(String))",
);

/// The day, where the calendar has it.
fn calendar_day(date: DatePacked) -> Option<i64> {
    let day = date.to_days()?;
    (DatePacked::from_days(day) == date).then_some(day)
}

/// Microseconds since the epoch; none for what no calendar has.
fn instant(value: Value<'_>) -> Result<Option<i64>, Misfit> {
    let of = |at: DateTimePacked| {
        calendar_day(at.date()).map(|day| day * DAY_MICROS + at.micros_of_day() as i64)
    };
    match value {
        Value::DateTime { at, .. } => Ok(of(at)),
        Value::Timestamp { micros, .. } => Ok(Some(micros)),
        Value::ZeroTimestamp { .. } => Ok(None),
        Value::Date(date) => Ok(calendar_day(date).map(|day| day * DAY_MICROS)),
        _ => Err(Misfit("a value of another kind than the target's column")),
    }
}

fn int_of(value: Value<'_>) -> Result<i128, Misfit> {
    Ok(match value {
        Value::Int(v) => i128::from(v),
        Value::UInt(v) | Value::Bit(v) | Value::Set(v) => i128::from(v),
        Value::Year(v) => i128::from(v),
        Value::Time { micros, .. } => i128::from(micros),
        _ => return Err(Misfit("a value of another kind than the target's column")),
    })
}

fn put_int(out: &mut Vec<u8>, value: i64, bytes: u8) {
    out.extend_from_slice(&value.to_le_bytes()[..usize::from(bytes)]);
}

fn put_signed(out: &mut Vec<u8>, value: i128, bytes: u8) -> Result<(), Misfit> {
    let bits = u32::from(bytes) * 8 - 1;
    let limit = 1i128 << bits;
    if value < -limit || value >= limit {
        return Err(TOO_LARGE);
    }
    put_int(out, value as i64, bytes);
    Ok(())
}

fn put_unsigned(out: &mut Vec<u8>, value: i128, bytes: u8) -> Result<(), Misfit> {
    if value < 0 || value >= 1i128 << (u32::from(bytes) * 8) {
        return Err(TOO_LARGE);
    }
    put_int(out, value as u64 as i64, bytes);
    Ok(())
}

const TOO_LARGE: Misfit = Misfit("a number that the target's type cannot hold");

/// Microseconds in a column with `digits` fraction digits.
fn put_scaled(out: &mut Vec<u8>, micros: i64, digits: u8) -> Result<(), Misfit> {
    let value = match digits {
        0..=6 => {
            let unit = 10i64.pow(6 - u32::from(digits));
            if micros % unit != 0 {
                return Err(Misfit("a time with more fraction digits than the target's"));
            }
            micros / unit
        }
        _ => micros
            .checked_mul(10i64.pow(u32::from(digits.min(9)) - 6))
            .ok_or(TOO_LARGE)?,
    };
    out.extend_from_slice(&value.to_le_bytes());
    Ok(())
}

fn put_fixed(out: &mut Vec<u8>, bytes: &[u8], length: usize) -> Result<(), Misfit> {
    if bytes.len() != length {
        return Err(Misfit("a text of another length than the FixedString's"));
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// A length as RowBinary has it: seven bits a byte, low ones first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A text with its length.
#[inline]
pub(crate) fn put_text(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// A short text (below 128 bytes unless it is moved) whose length is known afterwards.
fn put_counted(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(0);
    put(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return;
    }
    let text = out.split_off(start + 1);
    out.truncate(start);
    put_text(out, &text);
}

/// A decimal's digits as a number with `scale` fraction digits.
fn put_decimal(
    out: &mut Vec<u8>,
    value: Value<'_>,
    (bytes, precision, scale): (u8, u8, u8),
) -> Result<(), Misfit> {
    let mut digits = itoa::Buffer::new();
    let text = match value {
        Value::Decimal(text) => text,
        Value::Int(v) => digits.format(v),
        Value::UInt(v) => digits.format(v),
        _ => return Err(Misfit("a value of another kind than the target's column")),
    };
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = usize::from(scale);
    let (kept, cut) = fraction.split_at(fraction.len().min(scale));
    if cut.bytes().any(|digit| digit != b'0') {
        return Err(Misfit(
            "a decimal with more fraction digits than the target's",
        ));
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() + scale > usize::from(precision) {
        return Err(Misfit("a decimal with more digits than the target's"));
    }
    let all = whole
        .bytes()
        .chain(kept.bytes())
        .chain(std::iter::repeat_n(b'0', scale - kept.len()));
    // 76 digits fit into 253 bits.
    let mut words = [0u64; 4];
    let used = usize::from(bytes).div_ceil(8);
    for digit in all {
        if !digit.is_ascii_digit() {
            return Err(Misfit("a decimal that is no number"));
        }
        let mut carry = u128::from(digit - b'0');
        for word in &mut words[..used] {
            let next = u128::from(*word) * 10 + carry;
            *word = next as u64;
            carry = next >> 64;
        }
    }
    if negative {
        let mut carry = true;
        for word in &mut words {
            let (next, over) = (!*word).overflowing_add(u64::from(carry));
            *word = next;
            carry = over;
        }
    }
    let mut raw = [0; 32];
    for (at, word) in words.iter().enumerate() {
        raw[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&raw[..usize::from(bytes)]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(target: &str, source: ColumnType, policy: OutOfRange) -> Writer {
        let target = Target::parse(target).expect("a known type");
        Writer::new(target, &source, DateRange::new(true, policy))
    }

    fn put(target: &str, source: ColumnType, value: Value<'_>) -> Result<Vec<u8>, Misfit> {
        let mut out = Vec::new();
        writer(target, source, OutOfRange::Park)
            .put(&mut out, Cell::Value(value))
            .map(|()| out)
    }

    const INT: ColumnType = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };

    #[test]
    fn numbers_fit_or_are_refused() {
        assert_eq!(put("Int8", INT, Value::Int(-128)).unwrap(), [0x80]);
        assert!(put("Int8", INT, Value::Int(128)).is_err());
        assert!(put("UInt8", INT, Value::Int(-1)).is_err());
        assert_eq!(
            put("UInt64", INT, Value::UInt(u64::MAX)).unwrap(),
            [0xff; 8]
        );
        assert!(put("Bool", INT, Value::Int(2)).is_err());
    }

    #[test]
    fn decimals_keep_every_digit_or_are_refused() {
        let source = ColumnType::Decimal {
            precision: 5,
            scale: 2,
            unsigned: false,
        };
        let at = |target, text| put(target, source.clone(), Value::Decimal(text));
        assert_eq!(
            at("Decimal(5, 2)", "-1.50").unwrap(),
            (-150i32).to_le_bytes()
        );
        assert_eq!(
            at("Decimal(20, 4)", "-0.0001").unwrap(),
            (-1i128).to_le_bytes()
        );
        assert_eq!(
            at("Decimal(38, 0)", "99999999999999999999999999999999999999").unwrap(),
            99_999_999_999_999_999_999_999_999_999_999_999_999i128.to_le_bytes()
        );
        let minus_one = at("Decimal(65, 30)", "-0.000000000000000000000000000001").unwrap();
        assert_eq!(minus_one, [0xff; 32]);
        assert!(at("Decimal(5, 2)", "1234.56").is_err());
        assert!(at("Decimal(5, 2)", "1.239").is_err());
        assert_eq!(at("Decimal(5, 2)", "1.2300").unwrap(), 123i32.to_le_bytes());
    }

    #[test]
    fn dates_that_no_calendar_has_are_null_and_those_out_of_range_are_refused_or_clamped() {
        let date = |year, month, day| Value::Date(DatePacked::new(year, month, day));
        assert_eq!(
            put("Nullable(Date32)", ColumnType::Date, date(0, 0, 0)).unwrap(),
            [1]
        );
        assert_eq!(
            put("Nullable(Date32)", ColumnType::Date, date(2024, 2, 31)).unwrap(),
            [1]
        );
        assert!(put("Date32", ColumnType::Date, date(2024, 0, 1)).is_err());
        assert_eq!(
            put("Date32", ColumnType::Date, date(1970, 1, 2)).unwrap(),
            1i32.to_le_bytes()
        );
        assert!(put("Date", ColumnType::Date, date(1969, 12, 31)).is_err());
        let old = Writer::new(
            Target::parse("DateTime64(3, 'UTC')").unwrap(),
            &ColumnType::DateTime { digits: 3 },
            DateRange::new(false, OutOfRange::Clamp),
        );
        let mut out = Vec::new();
        let at = DateTimePacked::new(DatePacked::new(9999, 12, 31), 86_399_999_000);
        old.put(&mut out, Cell::Value(Value::DateTime { at, digits: 3 }))
            .unwrap();
        let last = DatePacked::new(2299, 12, 31).to_days().unwrap() * 86_400_000 + 86_399_999;
        assert_eq!(out, last.to_le_bytes());
    }

    #[test]
    fn enums_know_their_target_and_texts_hold_everything() {
        let source = ColumnType::Enum {
            members: vec!["a".into(), "b".into()],
        };
        let target = "Enum8('a' = 5)";
        assert_eq!(put(target, source.clone(), Value::Enum(1)).unwrap(), [5]);
        assert!(put(target, source.clone(), Value::Enum(2)).is_err());
        assert_eq!(put("String", source, Value::Enum(2)).unwrap(), b"\x01b");
        let text = ColumnType::Varchar { length: 9 };
        assert_eq!(
            put("String", text.clone(), Value::Text("a\0b")).unwrap(),
            b"\x03a\0b"
        );
        let set = ColumnType::Set {
            members: vec!["x".repeat(100), "y".repeat(100)],
        };
        let joined = put("String", set, Value::Set(3)).unwrap();
        assert_eq!(&joined[..2], [201 | 0x80, 1]);
        assert_eq!(joined.len(), 203);
        assert!(put("FixedString(2)", text, Value::Text("abc")).is_err());
    }

    #[test]
    fn unknown_is_refused_and_null_only_where_it_may_be() {
        let mut out = Vec::new();
        let column = writer("Nullable(Int8)", INT, OutOfRange::Park);
        assert!(column.put(&mut out, Cell::Unknown).is_err());
        column.put(&mut out, Cell::Null).unwrap();
        assert_eq!(out, [1]);
        assert!(
            writer("Int8", INT, OutOfRange::Park)
                .put(&mut out, Cell::Null)
                .is_err()
        );
        let bytes: [u8; 16] = std::array::from_fn(|i| i as u8);
        assert_eq!(
            put("UUID", ColumnType::Uuid, Value::Uuid(bytes)).unwrap(),
            [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8]
        );
    }
}
