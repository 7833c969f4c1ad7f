//! One value of a message as a cell of its column.

use super::charset::{self, NoText};
use change::temporal::{DatePacked, DateTimePacked};
use change::value::{put_cell, put_decimal_bytes, put_text_bytes, put_value};
use change::{Cell, ColumnType, Value};
use std::borrow::Cow;

/// The seven fields of a DateTime: year, month, day, hour, minute, second, fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts(pub [Option<i32>; 7]);

/// A value as it stands in the message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Raw<'a> {
    Null,
    /// `EmptyObject.NONE`.
    Unknown,
    /// `EmptyObject.NULL`, which nobody writes.
    EmptyNull,
    /// Precision, and digits with an optional minus.
    Integer(i32, &'a str),
    /// Charset and bytes.
    Character(&'a str, &'a [u8]),
    Decimal(&'a str),
    Float(f64),
    /// Seconds and microseconds.
    Timestamp(i64, i32),
    DateTime(Parts),
    Zoned(Parts, &'a str),
    BinaryGeometry(&'a [u8]),
    TextGeometry(&'a [u8]),
    /// Word and bytes.
    BinaryObject(&'a str, &'a [u8]),
    TextObject(&'a str, &'a [u8]),
}

impl Raw<'_> {
    /// Whether it tells anything of its column's type.
    pub fn is_value(&self) -> bool {
        !matches!(self, Raw::Null | Raw::Unknown | Raw::EmptyNull)
    }
}

impl Parts {
    pub fn has_date(&self) -> bool {
        self.0[..3].iter().all(Option::is_some)
    }
    pub fn has_clock(&self) -> bool {
        self.0[3].is_some()
    }
    pub fn has_year_only(&self) -> bool {
        self.0[0].is_some() && self.0[1..].iter().all(Option::is_none)
    }
    pub fn has_clock_only(&self) -> bool {
        self.has_clock() && self.0[..3].iter().all(Option::is_none)
    }

    fn part(&self, index: usize) -> i32 {
        self.0[index].unwrap_or(0)
    }

    /// The date, where `change` can hold it.
    fn date(&self) -> Option<DatePacked> {
        let within = |index, max: i32| {
            u32::try_from(self.part(index))
                .ok()
                .filter(|v| *v <= max as u32)
        };
        Some(DatePacked::new(
            within(0, 9999)?,
            within(1, 12)?,
            within(2, 31)?,
        ))
    }

    /// Signed microseconds of the clock fields.
    fn clock_micros(&self, counts_nanos: bool) -> i64 {
        let fraction = i64::from(self.part(6));
        // More than six digits can only be nanoseconds, whatever the source.
        let micros = if counts_nanos || fraction.abs() > 999_999 {
            fraction / 1000
        } else {
            fraction
        };
        let minutes = i64::from(self.part(3)) * 60 + i64::from(self.part(4));
        (minutes * 60 + i64::from(self.part(5))) * 1_000_000 + micros
    }

    fn date_time(&self, counts_nanos: bool) -> Option<DateTimePacked> {
        let micros = u64::try_from(self.clock_micros(counts_nanos)).ok()?;
        let date = self.date()?;
        (micros < 86_400_000_000).then(|| DateTimePacked::new(date, micros))
    }

    /// The fields that are there, as a text that loses nothing.
    fn text(&self) -> String {
        const BEFORE: [&str; 7] = ["", "-", "-", " ", ":", ":", "."];
        let mut text = String::new();
        for (index, part) in self.0.iter().enumerate() {
            if let Some(part) = part {
                if !text.is_empty() {
                    text.push_str(BEFORE[index]);
                }
                let width = if index == 6 { 6 } else { 2 };
                text.push_str(&format!("{part:0width$}"));
            }
        }
        text
    }
}

/// Appends one value in stored form; says what is odd.
///
/// Errors: what is expected in place of a value that cannot be a cell.
pub(super) fn put(
    out: &mut Vec<u8>,
    kind: &ColumnType,
    raw: &Raw<'_>,
    counts_nanos: bool,
) -> Result<Option<&'static str>, Cow<'static, str>> {
    match raw {
        Raw::Null => put_cell(out, Cell::Null),
        Raw::Unknown => put_cell(out, Cell::Unknown),
        Raw::EmptyNull => {
            put_cell(out, Cell::Null);
            return Ok(Some("an empty object that says NULL"));
        }
        Raw::Integer(_, digits) => put_integer(out, kind, digits),
        Raw::Character(charset, bytes) => return put_character(out, kind, charset, bytes),
        Raw::Decimal(text) => return Ok(put_decimal(out, text)),
        Raw::Float(value) if *kind == ColumnType::Float => {
            put_value(out, Value::Float(*value as f32));
        }
        Raw::Float(value) => put_value(out, Value::Double(*value)),
        Raw::Timestamp(seconds, fraction) => {
            return put_timestamp(out, *seconds, *fraction).map_err(Cow::Borrowed);
        }
        Raw::DateTime(parts) => return Ok(put_parts(out, kind, parts, counts_nanos)),
        Raw::Zoned(parts, zone) => return Ok(put_zoned(out, kind, parts, zone, counts_nanos)),
        Raw::BinaryGeometry(wkb) => put_geometry(out, wkb),
        Raw::TextGeometry(text) => return Ok(put_text(out, text)),
        Raw::BinaryObject(_, bytes) => put_binary(out, kind, bytes),
        Raw::TextObject(_, bytes) => return Ok(put_object(out, kind, bytes)),
    }
    Ok(None)
}

fn put_integer(out: &mut Vec<u8>, kind: &ColumnType, digits: &str) {
    let unsigned = matches!(
        kind,
        ColumnType::Int { unsigned: true, .. } | ColumnType::Bit { .. }
    );
    match (digits.parse::<i64>(), digits.parse::<u64>()) {
        _ if matches!(kind, ColumnType::Decimal { .. }) => {
            put_decimal_bytes(out, digits.as_bytes())
        }
        (_, Ok(bits)) if matches!(kind, ColumnType::Bit { .. }) => put_value(out, Value::Bit(bits)),
        (_, Ok(number)) if unsigned => put_value(out, Value::UInt(number)),
        (Ok(number), _) => put_value(out, Value::Int(number)),
        (_, Ok(number)) => put_value(out, Value::UInt(number)),
        _ => put_decimal_bytes(out, digits.as_bytes()),
    }
}

fn put_text(out: &mut Vec<u8>, bytes: &[u8]) -> Option<&'static str> {
    (!put_text_bytes(out, bytes)).then_some("text that is not UTF-8")
}

fn put_character(
    out: &mut Vec<u8>,
    kind: &ColumnType,
    charset: &str,
    bytes: &[u8],
) -> Result<Option<&'static str>, Cow<'static, str>> {
    if matches!(
        kind,
        ColumnType::Binary { .. } | ColumnType::Varbinary { .. } | ColumnType::Blob { .. }
    ) {
        put_value(out, Value::Bytes(bytes));
        return Ok(None);
    }
    match charset::decode(charset, bytes) {
        Ok(text) => {
            put_value(out, Value::Text(&text));
            Ok(None)
        }
        Err(NoText::Invalid) => {
            put_value(out, Value::InvalidText(bytes));
            Ok(Some("text that is not valid in its charset"))
        }
        Err(NoText::Unknown) => Err(unknown_charset(charset)),
    }
}

/// Names the charset where what stands in its place looks like a name: it may be anything.
fn unknown_charset(charset: &str) -> Cow<'static, str> {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    match charset.len() {
        1..=40 if charset.bytes().all(is_of_names) => {
            format!("text in a charset that is decoded here, which `{charset}` is not").into()
        }
        _ => "text with the name of its charset".into(),
    }
}

fn put_decimal(out: &mut Vec<u8>, text: &str) -> Option<&'static str> {
    if is_plain(text) {
        put_decimal_bytes(out, text.as_bytes());
        return None;
    }
    if let Some(plain) = plain(text) {
        put_decimal_bytes(out, plain.as_bytes());
        return None;
    }
    put_value(out, Value::Text(text));
    Some("a decimal that is no number")
}

/// `-12`, `12.50`, `.5` is none.
pub(super) fn is_plain(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    all(whole) && all(fraction)
}

/// The plain form of Java's `1.5E-10`, as far as it stays short.
fn plain(text: &str) -> Option<String> {
    const DIGITS_MAX: i64 = 1000;
    let (mantissa, exponent) = text.split_once(['E', 'e'])?;
    let exponent: i64 = exponent.parse().ok()?;
    if !is_plain(mantissa) || mantissa.len() > 200 || exponent.abs() > DIGITS_MAX {
        return None;
    }
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let point = whole.len() as i64 + exponent;
    Some(if point <= 0 {
        format!("{sign}0.{}{all}", "0".repeat(point.unsigned_abs() as usize))
    } else if point as usize >= all.len() {
        format!("{sign}{all}{}", "0".repeat(point as usize - all.len()))
    } else {
        let (before, after) = all.split_at(point as usize);
        format!("{sign}{before}.{after}")
    })
}

fn put_timestamp(
    out: &mut Vec<u8>,
    seconds: i64,
    fraction: i32,
) -> Result<Option<&'static str>, &'static str> {
    if (seconds, fraction) == (0, 0) {
        // No TIMESTAMP column can hold the epoch's first second; it stands for the zero timestamp.
        put_value(out, Value::ZeroTimestamp { digits: 6 });
        return Ok(None);
    }
    let odd = !(0..1_000_000).contains(&fraction);
    let micros = match fraction {
        1_000_000.. => i64::from(fraction / 1000),
        _ => i64::from(fraction),
    };
    let micros = seconds
        .checked_mul(1_000_000)
        .and_then(|whole| whole.checked_add(micros))
        .ok_or("a time within the range of microseconds")?;
    put_value(out, Value::Timestamp { micros, digits: 6 });
    Ok(odd.then_some("a fraction that is no number of microseconds"))
}

fn put_parts(
    out: &mut Vec<u8>,
    kind: &ColumnType,
    parts: &Parts,
    counts_nanos: bool,
) -> Option<&'static str> {
    let value = match kind {
        ColumnType::Year => u16::try_from(parts.part(0)).ok().map(Value::Year),
        ColumnType::Date => parts.date().map(Value::Date),
        ColumnType::Time { .. } => Some(Value::Time {
            micros: parts.clock_micros(counts_nanos),
            digits: 6,
        }),
        ColumnType::DateTime { .. } => parts
            .date_time(counts_nanos)
            .map(|at| Value::DateTime { at, digits: 6 }),
        _ => None,
    };
    match value {
        Some(value) => {
            put_value(out, value);
            None
        }
        None => {
            put_value(out, Value::Text(&parts.text()));
            Some("fields that no date or time has")
        }
    }
}

fn put_zoned(
    out: &mut Vec<u8>,
    kind: &ColumnType,
    parts: &Parts,
    zone: &str,
    counts_nanos: bool,
) -> Option<&'static str> {
    let micros = || {
        let at = parts.date_time(counts_nanos)?;
        let seconds = at.date().to_days()? * 86_400 - offset_seconds(zone)?;
        Some(seconds * 1_000_000 + at.micros_of_day() as i64)
    };
    if matches!(kind, ColumnType::Timestamp { .. })
        && let Some(micros) = micros()
    {
        put_value(out, Value::Timestamp { micros, digits: 6 });
        return None;
    }
    let text = format!("{}{zone}", parts.text());
    put_value(out, Value::Text(&text));
    matches!(kind, ColumnType::Timestamp { .. }).then_some("an instant that no number can hold")
}

/// `+08:00`, `+08`, `GMT+08:00`, `UTC`, `Z`; nothing for names of zones.
fn offset_seconds(zone: &str) -> Option<i64> {
    let zone = zone.trim();
    if matches!(zone, "UTC" | "GMT" | "Z") {
        return Some(0);
    }
    let zone = zone
        .strip_prefix("GMT")
        .or(zone.strip_prefix("UTC"))
        .unwrap_or(zone);
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let mut seconds = 0;
    let mut count = 0;
    for (part, unit) in rest.split(':').zip([3600, 60, 1, 0]) {
        if part.is_empty() || part.len() > 2 || unit == 0 {
            return None;
        }
        seconds += part.parse::<u8>().ok().map(i64::from)? * unit;
        count += 1;
    }
    (count > 0 && seconds < 86_400).then_some(sign * seconds)
}

fn put_geometry(out: &mut Vec<u8>, wkb: &[u8]) {
    let mut stored = Vec::with_capacity(4 + wkb.len());
    stored.extend_from_slice(&[0; 4]);
    stored.extend_from_slice(wkb);
    put_value(out, Value::Geometry(&stored));
}

fn put_binary(out: &mut Vec<u8>, kind: &ColumnType, bytes: &[u8]) {
    match (kind, std::str::from_utf8(bytes)) {
        (ColumnType::Bit { .. }, _) if bytes.len() <= 8 => {
            let bits = bytes
                .iter()
                .fold(0, |bits, byte| bits << 8 | u64::from(*byte));
            put_value(out, Value::Bit(bits));
        }
        (ColumnType::Json, Ok(text)) => put_value(out, Value::Json(text)),
        (ColumnType::Text { .. }, _) => drop(put_text_bytes(out, bytes)),
        _ => put_value(out, Value::Bytes(bytes)),
    }
}

fn put_object(out: &mut Vec<u8>, kind: &ColumnType, bytes: &[u8]) -> Option<&'static str> {
    match (kind, std::str::from_utf8(bytes)) {
        (ColumnType::Json, Ok(text)) => put_value(out, Value::Json(text)),
        (ColumnType::Uuid, Ok(text)) => match change::gtid::parse_uuid(text) {
            Ok(uuid) => put_value(out, Value::Uuid(uuid)),
            Err(_) => put_value(out, Value::Text(text)),
        },
        _ => return put_text(out, bytes),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_in_scientific_form_become_plain() {
        for (text, expected) in [
            ("1.5E-10", Some("0.00000000015")),
            ("-12.5E1", Some("-125")),
            ("1E+3", Some("1000")),
            ("12.345E1", Some("123.45")),
            ("0E-7", Some("0.00000000")),
            ("1E999999999", None),
            ("NaN", None),
            ("E5", None),
        ] {
            let found = plain(text);
            if text == "0E-7" {
                assert_eq!(found.as_deref(), Some("0.0000000"), "{text}");
            } else {
                assert_eq!(found.as_deref(), expected, "{text}");
            }
        }
    }

    #[test]
    fn zones_are_offsets_or_unknown() {
        for (zone, seconds) in [
            ("+08:00", Some(28_800)),
            ("+08", Some(28_800)),
            ("GMT-03:30", Some(-12_600)),
            ("UTC", Some(0)),
            ("Asia/Shanghai", None),
            ("+", None),
            ("+99", None),
            ("+1:2:3:4", None),
        ] {
            assert_eq!(offset_seconds(zone), seconds, "{zone}");
        }
    }
}
