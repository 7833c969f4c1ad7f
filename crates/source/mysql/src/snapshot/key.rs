//! Keys: their stored cells, their order where it is ours to know, and their SQL.

use crate::live::server::{literal, quote};
use change::value::read_cell;
use change::wire::WireReader;
use change::{Cell, Column, ColumnType, TableSchema, Value};
use std::cmp::Ordering;

/// The stored cells of a key, in key order.
pub type Key = Vec<u8>;

/// Who can say how two keys compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// We: integers, decimals, dates and times, bytes.
    Ours,
    /// The server, by its collation.
    Servers,
    /// No one (no key, or a masked one): the table is one range.
    None,
}

/// How a table's keys compare.
pub fn order_of(schema: &TableSchema, is_masked: bool) -> Order {
    use ColumnType as T;
    let key = schema.key();
    if key.is_empty() || is_masked {
        return Order::None;
    }
    let is_ours = |index: &u32| {
        matches!(
            schema.columns[*index as usize].kind,
            T::Int { .. }
                | T::Decimal { .. }
                | T::Date
                | T::Time { .. }
                | T::DateTime { .. }
                | T::Timestamp { .. }
                | T::Year
                | T::Bit { .. }
                | T::Enum { .. }
                | T::Set { .. }
                | T::Binary { .. }
                | T::Varbinary { .. }
                | T::Blob { .. }
                | T::Inet4
                | T::Inet6
        )
    };
    if key.iter().all(is_ours) {
        Order::Ours
    } else {
        Order::Servers
    }
}

/// Whether keys of `now` cannot be compared with those of `before`: other columns, or other types.
pub fn is_other(before: &TableSchema, now: &TableSchema) -> bool {
    let columns = |schema: &TableSchema| {
        let column = |index: &u32| schema.columns.get(*index as usize).cloned();
        schema.key().iter().filter_map(column).collect::<Vec<_>>()
    };
    let (before, now) = (columns(before), columns(now));
    let is_same = |(before, now): (&change::Column, &change::Column)| {
        let both_whole = matches!(
            (&before.kind, &now.kind),
            (ColumnType::Int { .. }, ColumnType::Int { .. })
        );
        before.name.eq_ignore_ascii_case(&now.name) && (both_whole || before.kind == now.kind)
    };
    before.len() != now.len() || !before.iter().zip(&now).all(is_same)
}

/// `schema` with what was learnt of collations in `old`, by the columns' names.
pub fn with_collations_of(schema: &TableSchema, old: &TableSchema) -> TableSchema {
    let mut schema = schema.clone();
    for column in &mut schema.columns {
        let known = old.columns.iter().find(|old| old.name == column.name);
        if let (None, Some(known)) = (&column.collation, known) {
            column.collation.clone_from(&known.collation);
        }
    }
    schema
}

/// Compares two keys of a table whose order is ours.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (WireReader::new(a), WireReader::new(b));
    loop {
        match (a.is_empty(), b.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let (Ok(x), Ok(y)) = (read_cell(&mut a), read_cell(&mut b)) else {
            return Ordering::Equal;
        };
        match compare_cells(x, y) {
            Ordering::Equal => {}
            other => return other,
        }
    }
}

fn compare_cells(a: Cell<'_>, b: Cell<'_>) -> Ordering {
    let (Cell::Value(a), Cell::Value(b)) = (a, b) else {
        // NULL sorts first.
        return matches!(a, Cell::Value(_)).cmp(&matches!(b, Cell::Value(_)));
    };
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        return a.cmp(&b);
    }
    match (a, b) {
        (Value::Decimal(a), Value::Decimal(b)) => compare_decimals(a, b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Inet4(a), Value::Inet4(b)) => a.cmp(&b),
        (Value::Inet6(a), Value::Inet6(b)) => a.cmp(&b),
        (Value::DateTime { at: a, .. }, Value::DateTime { at: b, .. }) => a.cmp(&b),
        _ => Ordering::Equal,
    }
}

fn number(value: Value<'_>) -> Option<i128> {
    Some(match value {
        Value::Int(v) => v.into(),
        Value::UInt(v) | Value::Bit(v) | Value::Set(v) => v.into(),
        Value::Year(v) | Value::Enum(v) => v.into(),
        Value::Date(v) => v.bits().into(),
        Value::Time { micros, .. } | Value::Timestamp { micros, .. } => micros.into(),
        Value::ZeroTimestamp { .. } => i128::MIN,
        _ => return None,
    })
}

/// Compares plain decimals of one scale.
fn compare_decimals(a: &str, b: &str) -> Ordering {
    let split = |text: &'_ str| {
        (
            text.starts_with('-'),
            text.trim_start_matches('-').to_owned(),
        )
    };
    let ((a_negative, a), (b_negative, b)) = (split(a), split(b));
    if a_negative != b_negative {
        return b_negative.cmp(&a_negative);
    }
    let whole = |text: &str| text.split('.').next().unwrap_or_default().len();
    let size = whole(&a).cmp(&whole(&b)).then_with(|| a.cmp(&b));
    if a_negative { size.reverse() } else { size }
}

/// One key cell as an SQL expression that compares as its column does.
fn expression(cell: Cell<'_>, column: &Column) -> Option<String> {
    let Cell::Value(value) = cell else {
        return None;
    };
    let text = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put(&mut out);
        format!("'{}'", String::from_utf8_lossy(&out))
    };
    Some(match value {
        Value::Int(v) => v.to_string(),
        Value::UInt(v) | Value::Bit(v) | Value::Set(v) => v.to_string(),
        Value::Year(v) => v.to_string(),
        Value::Enum(v) => v.to_string(),
        Value::Decimal(v) => v.to_owned(),
        Value::Double(v) => format!("{v:e}"),
        Value::Float(v) => format!("{:e}", f64::from(v)),
        Value::Bytes(v) | Value::InvalidText(v) => {
            let hex: String = v.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("_binary x'{hex}'")
        }
        Value::Text(v) => text_expression(v, column),
        Value::Date(v) => text(&|out| change::temporal::put_date(out, v)),
        Value::Time { micros, digits } => {
            text(&|out| change::temporal::put_time(out, micros, digits))
        }
        Value::DateTime { at, digits } => {
            text(&|out| change::temporal::put_datetime(out, at, digits))
        }
        Value::Timestamp { micros, digits } => {
            text(&|out| change::temporal::put_timestamp(out, micros, digits, 0))
        }
        Value::ZeroTimestamp { digits } => {
            text(&|out| change::temporal::put_zero_timestamp(out, digits))
        }
        Value::Uuid(v) => format!("CAST('{}' AS UUID)", uuid_text(&v)),
        Value::Inet4(v) => format!("CAST('{}' AS INET4)", std::net::Ipv4Addr::from(v)),
        Value::Inet6(v) => format!("CAST('{}' AS INET6)", std::net::Ipv6Addr::from(v)),
        Value::Json(_) | Value::Geometry(_) | Value::Vector(_) | Value::Cql(_) => return None,
    })
}

fn text_expression(text: &str, column: &Column) -> String {
    let plain = literal(text);
    match (&column.charset, &column.collation) {
        (Some(charset), Some(collation)) => {
            format!("CONVERT({plain} USING {charset}) COLLATE {collation}")
        }
        (Some(charset), None) => format!("CONVERT({plain} USING {charset})"),
        _ => plain,
    }
}

fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// The cells of a key as SQL expressions.
pub fn expressions(schema: &TableSchema, key: &[u8]) -> Option<Vec<String>> {
    let mut reader = WireReader::new(key);
    schema
        .key()
        .iter()
        .map(|index| {
            let cell = read_cell(&mut reader).ok()?;
            expression(cell, &schema.columns[*index as usize])
        })
        .collect()
}

/// `left > right` (or `<=`) for tuples, spelled out so that an index serves it.
fn tuple_after(left: &[String], right: &[String]) -> String {
    let mut cases = Vec::new();
    for index in 0..left.len() {
        let mut parts: Vec<String> = (0..index)
            .map(|before| format!("{} = {}", left[before], right[before]))
            .collect();
        parts.push(format!("{} > {}", left[index], right[index]));
        cases.push(format!("({})", parts.join(" AND ")));
    }
    format!("({})", cases.join(" OR "))
}

/// The condition that a row's key lies in (`low`, `high`].
pub fn condition(schema: &TableSchema, low: Option<&[u8]>, high: Option<&[u8]>) -> String {
    let columns: Vec<String> = schema
        .key()
        .iter()
        .map(|index| quote(&schema.columns[*index as usize].name))
        .collect();
    let mut parts = Vec::new();
    if let Some(low) = low.and_then(|key| expressions(schema, key)) {
        parts.push(tuple_after(&columns, &low));
    }
    if let Some(high) = high.and_then(|key| expressions(schema, key)) {
        parts.push(tuple_up_to(&columns, &high));
    }
    match parts.is_empty() {
        true => "TRUE".to_owned(),
        false => parts.join(" AND "),
    }
}

/// `left <= right` for tuples.
fn tuple_up_to(left: &[String], right: &[String]) -> String {
    let mut cases = Vec::new();
    for index in 0..left.len() {
        let mut parts: Vec<String> = (0..index)
            .map(|before| format!("{} = {}", left[before], right[before]))
            .collect();
        let sign = if index + 1 == left.len() { "<=" } else { "<" };
        parts.push(format!("{} {sign} {}", left[index], right[index]));
        cases.push(format!("({})", parts.join(" AND ")));
    }
    format!("({})", cases.join(" OR "))
}

/// A question: per key, the first of `highs` that it does not pass; the count of `highs` for none.
pub fn place_question(schema: &TableSchema, keys: &[Key], highs: &[&[u8]]) -> Option<String> {
    let highs = highs
        .iter()
        .map(|high| expressions(schema, high))
        .collect::<Option<Vec<_>>>()?;
    let mut columns = Vec::new();
    for key in keys {
        let key = expressions(schema, key)?;
        let cases: Vec<String> = highs
            .iter()
            .enumerate()
            .map(|(index, high)| format!("WHEN {} THEN {index}", tuple_up_to(&key, high)))
            .collect();
        columns.push(match cases.is_empty() {
            true => "0".to_owned(),
            false => format!("CASE {} ELSE {} END", cases.join(" "), highs.len()),
        });
    }
    Some(format!("SELECT {}", columns.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::value::put_value;

    fn key(values: &[Value<'_>]) -> Key {
        let mut out = Vec::new();
        values.iter().for_each(|value| put_value(&mut out, *value));
        out
    }

    #[test]
    fn keys_compare_by_value_and_column_after_column() {
        let a = key(&[Value::Int(-1), Value::Bytes(b"b")]);
        let b = key(&[Value::Int(-1), Value::Bytes(b"c")]);
        let c = key(&[Value::Int(300), Value::Bytes(b"a")]);
        assert_eq!(compare(&a, &b), Ordering::Less);
        assert_eq!(compare(&c, &b), Ordering::Greater);
        assert_eq!(compare(&a, &a), Ordering::Equal);
    }

    #[test]
    fn decimals_compare_as_numbers() {
        for (a, b) in [("-10.5", "-9.5"), ("9.00", "10.00"), ("-0.01", "0.00")] {
            assert_eq!(compare_decimals(a, b), Ordering::Less, "{a} {b}");
            assert_eq!(compare_decimals(b, a), Ordering::Greater, "{a} {b}");
        }
    }
}
