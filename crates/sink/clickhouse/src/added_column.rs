//! What rows that were there before a column have of it: what the source gives them.
//!
//! The log does not say it. For a constant it follows from the definition; for all else only the source
//! knows, and the table has to be copied again.

use crate::names::literal;
use change::{Column, ColumnType};

/// What older rows have of a column that is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OldRows {
    /// What ClickHouse gives them anyway: NULL, or for a vector the empty array.
    Same,
    /// An expression of constants.
    Constant(String),
    /// Only the source knows: why.
    Unknown(String),
}

/// The value in text form, before it is brought to the target's type.
enum Plain {
    Null,
    /// A number, as it can stand in an expression.
    Number(String),
    /// A text.
    Text(String),
    /// An expression over constants.
    Expression(String),
}

/// What older rows have of `column`, whose type in the target is `target`.
///
/// Shape: `has_all_dates`: the target holds the years 1 to 9999, else 1900 to 2299.
pub(crate) fn old_rows(column: &Column, target: &str, has_all_dates: bool) -> OldRows {
    let unknown = |why: String| OldRows::Unknown(why);
    if column.generated {
        return unknown("it is generated".into());
    }
    if column.masked {
        return unknown("it is masked".into());
    }
    let plain = match &column.default {
        None if column.nullable => Some(Plain::Null),
        None => implicit(&column.kind, target),
        Some(default) if default.eq_ignore_ascii_case("null") => Some(Plain::Null),
        Some(default) if default.eq_ignore_ascii_case("auto_increment") => {
            return unknown("the source numbers its rows".into());
        }
        Some(default) => constant(column, default, target),
    };
    let Some(plain) = plain else {
        return unknown(match &column.default {
            Some(default) => format!(
                "its default is {}",
                default.chars().take(60).collect::<String>()
            ),
            None => format!(
                "what {} has without a default is the server's setting",
                column.declared
            ),
        });
    };
    let value = match plain {
        Plain::Null if target.contains("Nullable(") || target.starts_with("Array(") => {
            return OldRows::Same;
        }
        Plain::Null => return unknown(format!("the target's type {target} has no NULL")),
        Plain::Number(number) | Plain::Expression(number) => number,
        Plain::Text(text) => literal(&text),
    };
    let year = value
        .trim_start_matches('\'')
        .get(..4)
        .and_then(|year| year.parse::<u32>().ok());
    let is_date = target.contains("Date");
    if is_date && !has_all_dates && !year.is_some_and(|year| (1900..=2299).contains(&year)) {
        return unknown("the target's dates begin with 1900 and end with 2299".into());
    }
    OldRows::Constant(format!("CAST({value} AS {target})"))
}

/// What a NOT NULL column has that names no default.
fn implicit(kind: &ColumnType, target: &str) -> Option<Plain> {
    use ColumnType as T;
    let is_text = target.contains("String");
    let zero = || Some(Plain::Number("0".into()));
    match kind {
        T::Int { .. } | T::Decimal { .. } | T::Float | T::Double | T::Bit { .. } | T::Year => {
            zero()
        }
        // Zero dates are NULL in the target; as text they are what the source prints.
        T::Date => date_time("0000-00-00", None, is_text),
        T::DateTime { digits } => date_time("0000-00-00", Some(*digits), is_text),
        T::Time { digits } => time("00:00:00", *digits, target),
        T::Char { .. }
        | T::Varchar { .. }
        | T::Text { .. }
        | T::Varbinary { .. }
        | T::Blob { .. }
        | T::Set { .. } => Some(Plain::Text(String::new())),
        T::Enum { members } => members.first().map(|label| Plain::Text(label.clone())),
        T::Uuid => Some(Plain::Text("00000000-0000-0000-0000-000000000000".into())),
        T::Inet4 => Some(Plain::Text("0.0.0.0".into())),
        T::Inet6 => Some(Plain::Text("::".into())),
        _ => None,
    }
}

/// The value of a default that is written as a constant.
fn constant(column: &Column, default: &str, target: &str) -> Option<Plain> {
    use ColumnType as T;
    let is_text = target.contains("String");
    let text = unquoted(default);
    let number = match (&text, default.to_ascii_uppercase().as_str()) {
        (Some(text), _) => text.trim().to_owned(),
        (None, "TRUE") => "1".into(),
        (None, "FALSE") => "0".into(),
        (None, _) => default.to_owned(),
    };
    // A bare number is a text too; what else is not in quotes is an expression.
    let text = text.or_else(|| whole(&number).then(|| number.clone()));
    match &column.kind {
        T::Int { .. } => whole(&number)
            .then_some(number)
            .or_else(|| bits(default))
            .map(Plain::Number),
        T::Year => {
            let year: u32 = number.parse().ok()?;
            (1901..=2155)
                .contains(&year)
                .then_some(Plain::Number(number))
        }
        T::Bit { .. } => bits(default)
            .or_else(|| (whole(&number) && !number.starts_with('-')).then_some(number))
            .map(Plain::Number),
        T::Float | T::Double => {
            let is_exact = !column.declared.contains(',') || whole(&number);
            (is_exact && fraction(&number).is_some()).then_some(Plain::Number(number))
        }
        T::Decimal { scale, .. } => (fraction(&number)? <= usize::from(*scale))
            .then(|| Plain::Expression(format!("toDecimal256({}, {scale})", literal(&number)))),
        T::Char { .. } => text.map(|text| Plain::Text(text.trim_end_matches(' ').to_owned())),
        T::Varchar { .. } | T::Text { .. } => text.map(Plain::Text),
        T::Varbinary { .. } | T::Blob { .. } => {
            text.filter(|text| text.is_ascii()).map(Plain::Text)
        }
        T::Enum { members } => label(members, &text?).map(|label| Plain::Text(label.to_owned())),
        T::Set { members } => set(members, &text?).map(Plain::Text),
        T::Date => date_time(&text?, None, is_text),
        T::DateTime { digits } => date_time(&text?, Some(*digits), is_text),
        // It is read in the session's zone, but for the date that none has.
        T::Timestamp { digits } => {
            date_time(&text?, Some(*digits), is_text).filter(|plain| matches!(plain, Plain::Null))
        }
        T::Time { digits } => time(&text?, *digits, target),
        T::Uuid => text
            .filter(|text| is_uuid(text))
            .map(|text| Plain::Text(text.to_lowercase())),
        T::Inet4 => text
            .filter(|text| text.parse::<std::net::Ipv4Addr>().is_ok())
            .map(Plain::Text),
        T::Inet6 => text
            .filter(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
            .map(Plain::Text),
        // A BINARY is padded, documents and shapes have no constants.
        _ => None,
    }
}

/// The text of a literal in quotes.
fn unquoted(default: &str) -> Option<String> {
    let inner = default.strip_prefix('\'')?.strip_suffix('\'')?;
    Some(inner.replace("''", "'"))
}

/// Whether it is a whole number in decimal digits.
fn whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.len() <= 20 && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Digits behind the point of a plain decimal number; none for any other text.
fn fraction(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (before, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    (!before.is_empty() && is_plain(before) && is_plain(behind)).then_some(behind.len())
}

/// `b'101'` as a number.
fn bits(text: &str) -> Option<String> {
    let bits = text.strip_prefix("b'").or(text.strip_prefix("B'"))?;
    let number = u64::from_str_radix(bits.strip_suffix('\'')?, 2).ok()?;
    Some(number.to_string())
}

/// The label that a default names; the server compares without case where the collation says so.
fn label<'a>(members: &'a [String], text: &str) -> Option<&'a str> {
    let exact = members.iter().find(|member| *member == text);
    let mut alike = members.iter().filter(|m| m.eq_ignore_ascii_case(text));
    let found = match (exact, alike.next(), alike.next()) {
        (Some(exact), ..) => exact,
        (None, Some(one), None) => one,
        _ => return None,
    };
    Some(found)
}

/// Labels in the order of the definition, as the source prints them.
fn set(members: &[String], text: &str) -> Option<String> {
    if text.is_empty() {
        return Some(String::new());
    }
    let named: Option<Vec<&str>> = text.split(',').map(|one| label(members, one)).collect();
    let named = named?;
    let ordered: Vec<&str> = members
        .iter()
        .map(String::as_str)
        .filter(|member| named.contains(member))
        .collect();
    Some(ordered.join(","))
}

fn is_uuid(text: &str) -> bool {
    let places = [8, 13, 18, 23];
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, b)| match places.contains(&at) {
                true => b == b'-',
                false => b.is_ascii_hexdigit(),
            })
}

/// `2024-01-31`, or with `digits` `2024-01-31 10:11:12.5`; no other spelling.
fn date_time(text: &str, digits: Option<u8>, is_text: bool) -> Option<Plain> {
    let (date, time) = text.split_once(' ').unwrap_or((text, ""));
    let time = match (digits, time) {
        (None, "") => String::new(),
        (None, _) => return None,
        (Some(digits), "") => clock("00:00:00", digits)?,
        (Some(digits), time) => clock(time, digits)?,
    };
    let numbers = numbers(date, '-', &[4, 2, 2])?;
    let (year, month, day) = (numbers[0], numbers[1], numbers[2]);
    let is_zero =
        (year, month, day) == (0, 0, 0) && time.bytes().all(|b| !(b'1'..=b'9').contains(&b));
    let whole = match time.is_empty() {
        true => date.to_owned(),
        false => format!("{date} {time}"),
    };
    if is_text {
        return Some(Plain::Text(whole));
    }
    if is_zero {
        return Some(Plain::Null);
    }
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (year > 0 && (1..=last).contains(&day)).then_some(Plain::Text(whole))
}

/// `10:11:12`, where the target holds times as such.
fn time(text: &str, digits: u8, target: &str) -> Option<Plain> {
    let has_times = target.contains("Time64") || target.contains("String");
    clock(text, digits).filter(|_| has_times).map(Plain::Text)
}

/// A time of the day with just so many digits of its second's fraction.
fn clock(text: &str, digits: u8) -> Option<String> {
    let (time, part) = text.split_once('.').unwrap_or((text, ""));
    let numbers = numbers(time, ':', &[2, 2, 2])?;
    let fits = numbers[0] < 24 && numbers[1] < 60 && numbers[2] < 60;
    let is_exact = part.len() <= usize::from(digits) && part.bytes().all(|b| b.is_ascii_digit());
    if !fits || !is_exact {
        return None;
    }
    Some(match digits {
        0 => time.to_owned(),
        _ => format!("{time}.{part:0<width$}", width = usize::from(digits)),
    })
}

/// Numbers of just these lengths between separators.
fn numbers(text: &str, separator: char, lengths: &[usize]) -> Option<Vec<u32>> {
    let parts: Vec<&str> = text.split(separator).collect();
    let fits = parts.len() == lengths.len()
        && parts.iter().zip(lengths).all(|(part, length)| {
            part.len() == *length && part.bytes().all(|b| b.is_ascii_digit())
        });
    match fits {
        true => parts.iter().map(|part| part.parse().ok()).collect(),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: ColumnType, default: Option<&str>) -> Column {
        Column {
            name: "c".into(),
            declared: "x".into(),
            kind,
            charset: None,
            collation: None,
            nullable: false,
            default: default.map(str::to_owned),
            comment: String::new(),
            generated: false,
            invisible: false,
            masked: false,
        }
    }

    fn said(kind: ColumnType, default: Option<&str>, target: &str) -> String {
        match old_rows(&column(kind, default), target, true) {
            OldRows::Same => "same".into(),
            OldRows::Constant(text) => text,
            OldRows::Unknown(_) => "unknown".into(),
        }
    }

    #[test]
    fn constants_are_told_from_what_only_the_source_knows() {
        use ColumnType as T;
        let int = || T::Int {
            bytes: 4,
            unsigned: false,
        };
        let text = || T::Varchar { length: 20 };
        let labels = || vec!["new".to_owned(), "paid".to_owned()];
        let decimal = || T::Decimal {
            precision: 10,
            scale: 2,
            unsigned: false,
        };
        let cases = [
            (int(), Some("7"), "Int32", "CAST(7 AS Int32)"),
            (int(), Some("'7'"), "Int32", "CAST(7 AS Int32)"),
            (int(), Some("-7"), "Int32", "CAST(-7 AS Int32)"),
            (int(), Some("TRUE"), "Int8", "CAST(1 AS Int8)"),
            (int(), Some("false"), "Int8", "CAST(0 AS Int8)"),
            (int(), Some("1.5"), "Int32", "unknown"),
            (int(), Some("AUTO_INCREMENT"), "Int32", "unknown"),
            (int(), Some("(1 + 1)"), "Int32", "unknown"),
            (int(), None, "Int32", "CAST(0 AS Int32)"),
            (text(), Some("'f(x)'"), "String", "CAST('f(x)' AS String)"),
            (
                text(),
                Some("'it''s'"),
                "String",
                "CAST('it\\'s' AS String)",
            ),
            (text(), Some("'NULL'"), "String", "CAST('NULL' AS String)"),
            (text(), Some("5"), "String", "CAST('5' AS String)"),
            (text(), Some("(uuid())"), "String", "unknown"),
            (text(), Some("uuid()"), "String", "unknown"),
            (text(), Some("CURRENT_USER"), "String", "unknown"),
            (text(), Some("x'41'"), "String", "unknown"),
            (
                T::Char { length: 9 },
                Some("'a '"),
                "String",
                "CAST('a' AS String)",
            ),
            (T::Binary { length: 9 }, Some("'a'"), "String", "unknown"),
            (
                T::Bit { width: 3 },
                Some("b'101'"),
                "UInt8",
                "CAST(5 AS UInt8)",
            ),
            (
                decimal(),
                Some("'1.5'"),
                "Decimal(10, 2)",
                "CAST(toDecimal256('1.5', 2) AS Decimal(10, 2))",
            ),
            (decimal(), Some("1.239"), "Decimal(10, 2)", "unknown"),
            (
                T::Enum { members: labels() },
                None,
                "String",
                "CAST('new' AS String)",
            ),
            (
                T::Enum { members: labels() },
                Some("'PAID'"),
                "String",
                "CAST('paid' AS String)",
            ),
            (
                T::Set { members: labels() },
                Some("'paid,new'"),
                "String",
                "CAST('new,paid' AS String)",
            ),
            (T::Date, Some("'0000-00-00'"), "Nullable(Date32)", "same"),
            (
                T::Date,
                Some("'0000-00-00'"),
                "String",
                "CAST('0000-00-00' AS String)",
            ),
            (T::Date, Some("'2024-02-30'"), "Nullable(Date32)", "unknown"),
            (T::Date, Some("CURRENT_DATE"), "Nullable(Date32)", "unknown"),
            (
                T::DateTime { digits: 3 },
                Some("'2024-02-29 01:02:03'"),
                "D",
                "CAST('2024-02-29 01:02:03.000' AS D)",
            ),
            (
                T::DateTime { digits: 0 },
                Some("'2024-02-29 01:02:03.5'"),
                "D",
                "unknown",
            ),
            (
                T::DateTime { digits: 0 },
                Some("CURRENT_TIMESTAMP"),
                "D",
                "unknown",
            ),
            (
                T::Timestamp { digits: 0 },
                Some("'2024-02-29 01:02:03'"),
                "D",
                "unknown",
            ),
            (T::Timestamp { digits: 0 }, None, "D", "unknown"),
            (
                T::Timestamp { digits: 0 },
                Some("'0000-00-00 00:00:00'"),
                "Nullable(D)",
                "same",
            ),
            (T::DateTime { digits: 0 }, None, "Nullable(D)", "same"),
            (
                T::Time { digits: 1 },
                Some("'10:11:12'"),
                "Time64(1)",
                "CAST('10:11:12.0' AS Time64(1))",
            ),
            (
                T::Time { digits: 1 },
                Some("'10:11:12'"),
                "Int64",
                "unknown",
            ),
            (T::Json, None, "String", "unknown"),
        ];
        for (kind, default, target, wanted) in cases {
            let shown = format!("{kind:?} {default:?}");
            assert_eq!(said(kind, default, target), wanted, "{shown}");
        }
    }

    #[test]
    fn null_generated_masked_and_early_dates_are_judged_by_the_column() {
        let mut plain = column(ColumnType::Date, None);
        plain.nullable = true;
        assert_eq!(old_rows(&plain, "Nullable(Date32)", true), OldRows::Same);
        assert!(matches!(
            old_rows(&plain, "Date32", true),
            OldRows::Unknown(_)
        ));
        let mut generated = plain.clone();
        generated.generated = true;
        assert!(matches!(
            old_rows(&generated, "Nullable(Date32)", true),
            OldRows::Unknown(_)
        ));
        let mut masked = plain.clone();
        masked.masked = true;
        assert!(matches!(
            old_rows(&masked, "Nullable(Date32)", true),
            OldRows::Unknown(_)
        ));
        let early = column(ColumnType::Date, Some("'1800-01-01'"));
        assert!(matches!(
            old_rows(&early, "Nullable(Date32)", false),
            OldRows::Unknown(_)
        ));
        assert!(matches!(
            old_rows(&early, "Nullable(Date32)", true),
            OldRows::Constant(_)
        ));
    }
}
