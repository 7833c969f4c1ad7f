//! How a value shows where its column is of CQL, and where its type is not known.

use crate::cell::{CellValue, Elements, ElementsOf, Entries, Fields, Integer, Kinds, Unfit};
use change::cql::{CqlValue, clock_digits};
use change::temporal::{DatePacked, DateTimePacked};
use change::{CqlType, Value};

const DAY_US: i64 = 86_400_000_000;

/// A value as its type of CQL; one that is not of the type shows as its own kind, whatever that is, so that it can be read.
pub(crate) fn cql_value<'a>(kind: Option<&'a CqlType>, value: Value<'a>) -> CellValue<'a> {
    use CqlType as T;
    let Some(kind) = kind.map(CqlType::bare) else {
        return natural(value);
    };
    match (kind, value) {
        (T::Ascii, Value::Text(v)) if v.is_ascii() => CellValue::Ascii(v),
        (T::Varchar, Value::Text(v)) => CellValue::Varchar(v),
        (T::Varint, Value::Decimal(v)) => CellValue::Varint(Integer::Digits(v)),
        (T::Timeuuid, Value::Uuid(v)) => CellValue::Timeuuid(v),
        (_, Value::Int(v)) => integer(kind, v),
        (T::List(of) | T::Vector(of, _), Value::Cql(CqlValue::Nested(cells))) => {
            CellValue::List(Elements(ElementsOf::Stored(Kinds::All(of), cells)))
        }
        (T::Set(of), Value::Cql(CqlValue::Nested(cells))) => {
            CellValue::Set(Elements(ElementsOf::Stored(Kinds::All(of), cells)))
        }
        (T::Tuple(of), Value::Cql(CqlValue::Nested(cells))) => {
            CellValue::Tuple(Elements(ElementsOf::Stored(Kinds::Each(of), cells)))
        }
        (T::Map(of), Value::Cql(CqlValue::Nested(cells))) => {
            CellValue::Map(Entries::stored(of, cells))
        }
        (T::Udt(of), Value::Cql(CqlValue::Nested(cells))) => {
            CellValue::Udt(Fields::stored(&of.fields, cells))
        }
        (_, value) => natural(value),
    }
}

/// An integer in the width of its type; wider when it does not fit.
fn integer(kind: &CqlType, value: i64) -> CellValue<'static> {
    let wide = CellValue::Bigint(value);
    match kind {
        CqlType::Tinyint => i8::try_from(value).map_or(wide, CellValue::Tinyint),
        CqlType::Smallint => i16::try_from(value).map_or(wide, CellValue::Smallint),
        CqlType::Int => i32::try_from(value).map_or(wide, CellValue::Int),
        CqlType::Counter => CellValue::Counter(value),
        CqlType::Varint => CellValue::Varint(Integer::Small(i128::from(value))),
        _ => wide,
    }
}

/// A value as its own kind shows, for want of a type that says otherwise.
pub(crate) fn natural(value: Value<'_>) -> CellValue<'_> {
    let number = |v: u64| {
        let wide = CellValue::Varint(Integer::Small(i128::from(v)));
        i64::try_from(v).map_or(wide, CellValue::Bigint)
    };
    match value {
        Value::Int(v) => CellValue::Bigint(v),
        Value::UInt(v) | Value::Bit(v) | Value::Set(v) => number(v),
        Value::Decimal(v) => CellValue::Decimal(v),
        Value::Float(v) => CellValue::Float(v),
        Value::Double(v) => CellValue::Double(v),
        Value::Text(v) | Value::Json(v) => CellValue::Text(v),
        Value::Bytes(v) | Value::InvalidText(v) | Value::Geometry(v) => CellValue::Blob(v),
        Value::Date(date) => match is_calendar(date) {
            true => CellValue::Date(date),
            false => CellValue::Unfit(Unfit::Date(date)),
        },
        Value::Time { micros, digits } => match (0..DAY_US).contains(&micros) {
            true => CellValue::Time {
                nanos: micros * 1000,
                digits,
            },
            false => CellValue::Unfit(Unfit::Time { micros, digits }),
        },
        Value::DateTime { at, digits } => {
            match at.date().to_days().filter(|_| is_calendar(at.date())) {
                Some(days) => CellValue::Timestamp {
                    micros: days * DAY_US + at.micros_of_day() as i64,
                    digits,
                },
                None => CellValue::Unfit(Unfit::DateTime { at, digits }),
            }
        }
        Value::Timestamp { micros, digits } => CellValue::Timestamp { micros, digits },
        Value::ZeroTimestamp { digits } => CellValue::Unfit(Unfit::DateTime {
            at: DateTimePacked::from_bits(0),
            digits,
        }),
        Value::Year(v) | Value::Enum(v) => CellValue::Smallint(v as i16),
        Value::Vector(v) => CellValue::List(Elements(ElementsOf::Floats(v))),
        Value::Uuid(v) => CellValue::Uuid(v),
        Value::Inet4(v) => CellValue::Inet4(v),
        Value::Inet6(v) => CellValue::Inet6(v),
        Value::Cql(v) => natural_of_cql(v),
    }
}

fn natural_of_cql(value: CqlValue<'_>) -> CellValue<'_> {
    match value {
        CqlValue::Boolean(v) => CellValue::Bool(v),
        CqlValue::Date(days) => CellValue::Days(days),
        CqlValue::Time(nanos) => CellValue::Time {
            nanos,
            digits: clock_digits(nanos),
        },
        CqlValue::Timestamp(millis) => CellValue::Millis(millis),
        CqlValue::Duration {
            months,
            days,
            nanos,
        } => CellValue::Duration {
            months,
            days,
            nanos,
        },
        CqlValue::Nested(cells) => {
            CellValue::List(Elements(ElementsOf::Stored(Kinds::Unknown, cells)))
        }
    }
}

/// Days past a month's end can be stored with `ALLOW_INVALID_DATES`; they are no dates of the calendar.
fn is_calendar(date: DatePacked) -> bool {
    date.to_days()
        .is_some_and(|days| DatePacked::from_days(days) == date)
        && date.year() > 0
}
