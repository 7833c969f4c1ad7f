//! One value: its branch of the union, and its fields.

use super::datum::{Short, Stack, put_bytes, put_long, put_string};
use super::types::{Form, SourceKind, branch, wire};
use crate::key_text::put_uuid;
use change::temporal::{DatePacked, DateTimePacked};
use change::{Cell, Column, ColumnType, Value};

/// What DTS's own writer says of every double.
const FLOAT_PRECISION: i64 = 8;
const FLOAT_SCALE: i64 = 15;

/// All that one column's values need, made once per schema version.
#[derive(Debug)]
pub(super) struct ColumnForm {
    /// Its `dataTypeNumber`.
    pub number: i32,
    form: Form,
    /// `precision` of its integers.
    precision: i64,
    /// What stands before a text's length: the branch, and its word or charset.
    text_head: Box<[u8]>,
    /// The column's own charset, for bytes that are not valid in it.
    raw_charset: Box<str>,
    /// Labels of an ENUM or a SET.
    labels: Box<[String]>,
    /// Bits of a BIT(n).
    width: usize,
}

impl ColumnForm {
    pub fn new(source: SourceKind, column: &Column, text_as_blob: bool) -> Self {
        let (mut number, mut form) = wire(source, &column.kind);
        if text_as_blob && matches!(column.kind, ColumnType::Text { .. }) {
            (number, form) = (252, Form::Binary("TEXT"));
        }
        let precision = match form {
            Form::Integer(bytes) => i64::from(bytes),
            _ => 8,
        };
        let own = column.charset.as_deref().unwrap_or("binary");
        let narrow = matches!(own, "utf8" | "utf8mb3");
        Self {
            number,
            form,
            precision,
            text_head: text_head(form, if narrow { "utf8" } else { "utf8mb4" }),
            raw_charset: if narrow { "utf8" } else { own }.into(),
            labels: match &column.kind {
                ColumnType::Enum { members } | ColumnType::Set { members } => {
                    members.clone().into_boxed_slice()
                }
                _ => Box::default(),
            },
            width: match column.kind {
                ColumnType::Bit { width } => usize::from(width),
                _ => 0,
            },
        }
    }
}

/// Appends one cell: an unknown one is `EmptyObject.NONE`, NULL the union's null.
#[inline]
pub(super) fn put_cell(out: &mut Vec<u8>, column: &ColumnForm, cell: Cell<'_>) {
    match cell {
        Cell::Value(value) => put_value(out, column, value),
        Cell::Null => put_long(out, branch::NULL),
        Cell::Unknown => {
            put_long(out, branch::EMPTY_OBJECT);
            put_long(out, 1);
        }
    }
}

#[inline]
fn put_value(out: &mut Vec<u8>, column: &ColumnForm, value: Value<'_>) {
    match value {
        Value::Int(v) => put_integer(out, column, itoa::Buffer::new().format(v)),
        Value::UInt(v) => put_integer(out, column, itoa::Buffer::new().format(v)),
        Value::Text(v) | Value::Json(v) => put_text(out, column, v),
        Value::Decimal(v) => put_decimal(out, v),
        Value::DateTime { at, .. } => put_datetime(out, at),
        Value::Timestamp { micros, .. } => put_timestamp(out, column, micros),
        Value::Double(v) => put_float(out, v),
        other => put_rare(out, column, other),
    }
}

fn put_rare(out: &mut Vec<u8>, column: &ColumnForm, value: Value<'_>) {
    match value {
        Value::Float(v) => put_float(out, nearest_double(v)),
        Value::Bytes(v) | Value::Vector(v) => put_binary(out, column, v),
        Value::InvalidText(v) => put_character(out, &column.raw_charset, v),
        Value::Date(v) => put_date(out, v),
        Value::Time { micros, .. } => put_time(out, micros),
        Value::ZeroTimestamp { .. } => put_zero_timestamp(out, column),
        Value::Year(v) => put_year(out, column, v),
        Value::Bit(v) => put_bit(out, column, v),
        Value::Enum(v) => put_enum(out, column, v),
        Value::Set(v) => put_set(out, column, v),
        Value::Geometry(v) => put_geometry(out, column, v),
        Value::Uuid(v) => {
            put_text_head(out, column, 36);
            put_uuid(out, &v);
        }
        Value::Inet4(v) => {
            put_formatted(out, column, format_args!("{}", std::net::Ipv4Addr::from(v)))
        }
        Value::Inet6(v) => {
            put_formatted(out, column, format_args!("{}", std::net::Ipv6Addr::from(v)))
        }
        // Refused before.
        Value::Cql(_) => put_cell(out, column, Cell::Unknown),
        _ => unreachable!("put_value wrote the common values"),
    }
}

#[inline]
fn put_integer(out: &mut Vec<u8>, column: &ColumnForm, digits: &str) {
    let mut all = Stack::<32>::new();
    all.long(branch::INTEGER);
    all.long(column.precision);
    all.bytes(digits.as_bytes());
    out.extend_from_slice(all.as_slice());
}

/// The branch of a column's texts, and its word or charset.
fn text_head(form: Form, charset: &str) -> Box<[u8]> {
    let (branch, word) = match form {
        Form::Object(word) => (branch::TEXT_OBJECT, word),
        Form::Binary(word) => (branch::BINARY_OBJECT, word),
        Form::Geometry => (branch::TEXT_GEOMETRY, "WKT"),
        _ => (branch::CHARACTER, charset),
    };
    let mut head = Vec::new();
    put_long(&mut head, branch);
    put_string(&mut head, word);
    head.into_boxed_slice()
}

#[inline]
fn put_text(out: &mut Vec<u8>, column: &ColumnForm, text: &str) {
    put_text_head(out, column, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// All of a text but its bytes.
#[inline]
fn put_text_head(out: &mut Vec<u8>, column: &ColumnForm, byte_count: usize) {
    out.extend_from_slice(&column.text_head);
    put_long(out, byte_count as i64);
}

fn put_formatted(out: &mut Vec<u8>, column: &ColumnForm, text: std::fmt::Arguments<'_>) {
    let short = Short::of(text).expect("an address has at most 45 characters");
    put_text(out, column, short.as_str());
}

fn put_character(out: &mut Vec<u8>, charset: &str, bytes: &[u8]) {
    put_long(out, branch::CHARACTER);
    put_string(out, charset);
    put_bytes(out, bytes);
}

fn put_binary(out: &mut Vec<u8>, column: &ColumnForm, bytes: &[u8]) {
    put_long(out, branch::BINARY_OBJECT);
    put_string(
        out,
        match column.form {
            Form::Binary(word) => word,
            _ => "BLOB",
        },
    );
    put_bytes(out, bytes);
}

/// Precision and scale are those of the value, as Java's BigDecimal counts them.
fn put_decimal(out: &mut Vec<u8>, text: &str) {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let leading = |text: &str| text.bytes().take_while(|b| *b == b'0').count();
    let zeros = match leading(whole) {
        count if count == whole.len() => count + leading(fraction),
        count => count,
    };
    let precision = (whole.len() + fraction.len() - zeros).max(1);
    let mut sizes = Stack::<20>::new();
    sizes.long(precision as i64);
    sizes.long(fraction.len() as i64);
    put_long(out, branch::DECIMAL);
    put_string(out, text);
    out.extend_from_slice(sizes.as_slice());
}

fn put_float(out: &mut Vec<u8>, value: f64) {
    let mut all = Stack::<12>::new();
    all.long(branch::FLOAT);
    all.raw(&value.to_le_bytes());
    all.long(FLOAT_PRECISION);
    all.long(FLOAT_SCALE);
    out.extend_from_slice(all.as_slice());
}

/// The double nearest to the shortest text of a four-byte float: 0.1 stays 0.1.
fn nearest_double(value: f32) -> f64 {
    if !value.is_finite() {
        return f64::from(value);
    }
    Short::of(format_args!("{value:e}"))
        .and_then(|text| text.as_str().parse().ok())
        .unwrap_or_else(|| f64::from(value))
}

/// Room for the branch, seven fields of which each takes at most six bytes, and a zone.
type Fields = Stack<64>;

#[inline]
fn put_part(all: &mut Fields, part: i64) {
    all.long(1);
    all.long(part);
}

#[inline]
fn put_date_parts(all: &mut Fields, date: DatePacked) {
    for part in [date.year(), date.month(), date.day()] {
        put_part(all, i64::from(part));
    }
}

/// Hour, minute, second and microseconds, all with the sign of the whole.
#[inline]
fn put_clock_parts(all: &mut Fields, micros: i64) {
    let seconds = micros / 1_000_000;
    for part in [
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        micros % 1_000_000,
    ] {
        put_part(all, part);
    }
}

fn put_date(out: &mut Vec<u8>, date: DatePacked) {
    let mut all = Fields::new();
    all.long(branch::DATE_TIME);
    put_date_parts(&mut all, date);
    all.raw(&[0; 4]);
    out.extend_from_slice(all.as_slice());
}

fn put_time(out: &mut Vec<u8>, micros: i64) {
    let mut all = Stack::new();
    all.long(branch::DATE_TIME);
    all.raw(&[0; 3]);
    put_clock_parts(&mut all, micros);
    out.extend_from_slice(all.as_slice());
}

fn put_datetime(out: &mut Vec<u8>, at: DateTimePacked) {
    let mut all = Stack::new();
    all.long(branch::DATE_TIME);
    put_date_parts(&mut all, at.date());
    put_clock_parts(&mut all, at.micros_of_day() as i64);
    out.extend_from_slice(all.as_slice());
}

fn put_timestamp(out: &mut Vec<u8>, column: &ColumnForm, micros: i64) {
    if column.form == Form::Zoned {
        return put_zoned(out, DateTimePacked::from_epoch_micros(micros));
    }
    let mut all = Stack::<24>::new();
    all.long(branch::TIMESTAMP);
    all.long(micros.div_euclid(1_000_000));
    all.long(micros.rem_euclid(1_000_000));
    out.extend_from_slice(all.as_slice());
}

fn put_zoned(out: &mut Vec<u8>, at: DateTimePacked) {
    let mut all = Stack::new();
    all.long(branch::ZONED);
    put_date_parts(&mut all, at.date());
    put_clock_parts(&mut all, at.micros_of_day() as i64);
    all.bytes(b"+00:00");
    out.extend_from_slice(all.as_slice());
}

fn put_zero_timestamp(out: &mut Vec<u8>, column: &ColumnForm) {
    if column.form == Form::Zoned {
        put_zoned(out, DateTimePacked::from_bits(0));
    } else {
        put_timestamp(out, column, 0);
    }
}

fn put_year(out: &mut Vec<u8>, column: &ColumnForm, year: u16) {
    if matches!(column.form, Form::Integer(_)) {
        return put_integer(out, column, itoa::Buffer::new().format(year));
    }
    let mut all = Fields::new();
    all.long(branch::DATE_TIME);
    put_part(&mut all, i64::from(year));
    all.raw(&[0; 6]);
    out.extend_from_slice(all.as_slice());
}

fn put_bit(out: &mut Vec<u8>, column: &ColumnForm, bits: u64) {
    if matches!(column.form, Form::Object(_)) {
        let width = column.width.clamp(1, 64);
        put_text_head(out, column, width);
        out.extend((0..width).rev().map(|bit| b'0' + (bits >> bit & 1) as u8));
        return;
    }
    put_integer(out, column, itoa::Buffer::new().format(bits));
}

/// The label; the ordinal in digits where the schema does not have it.
fn put_enum(out: &mut Vec<u8>, column: &ColumnForm, ordinal: u16) {
    if ordinal == 0 {
        return put_text(out, column, "");
    }
    match column.labels.get(usize::from(ordinal) - 1) {
        Some(label) => put_text(out, column, label),
        None => put_text(out, column, itoa::Buffer::new().format(ordinal)),
    }
}

/// The labels, separated by commas; the mask in digits where the schema does not have them all.
fn put_set(out: &mut Vec<u8>, column: &ColumnForm, mask: u64) {
    let known = 1u64
        .checked_shl(column.labels.len() as u32)
        .map_or(u64::MAX, |bit| bit - 1);
    if mask & !known != 0 {
        return put_text(out, column, itoa::Buffer::new().format(mask));
    }
    let set = || {
        let bits = column.labels.iter().take(64).enumerate();
        bits.filter(move |(bit, _)| mask >> bit & 1 == 1)
    };
    let byte_count: usize = set().map(|(_, label)| label.len() + 1).sum();
    put_text_head(out, column, byte_count.saturating_sub(1));
    for (index, (_, label)) in set().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(label.as_bytes());
    }
}

/// WKB without the four bytes of the SRID that MySQL keeps before it: readers hand it to a WKB
/// parser as it is.
fn put_geometry(out: &mut Vec<u8>, column: &ColumnForm, stored: &[u8]) {
    if column.form != Form::Geometry {
        return put_binary(out, column, stored);
    }
    put_long(out, branch::BINARY_GEOMETRY);
    put_string(out, "WKB");
    put_bytes(out, stored.get(4..).unwrap_or(stored));
}
