//! Values that only CQL has, and how values nest.
//!
//! Shape: a nested value is its number of cells and then the cells, each as [`crate::value::put_cell`] writes it, with its
//! times before it where it has its own: elements in order; of a map key, value, key, value; of a tuple or a user's type one
//! cell a place, null where it is not set. Which of these it is, and of what type each cell, the column's
//! [`super::CqlType`] says.

use super::Times;
use crate::temporal;
use crate::value::{Cell, Value, read_tagged, tag};
use crate::wire::{WireError, WireReader, put_i64, put_u64};

/// A value that only CQL has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CqlValue<'a> {
    /// A boolean.
    Boolean(bool),
    /// Days since 1970-01-01.
    Date(i32),
    /// Nanoseconds of the day.
    Time(i64),
    /// Milliseconds since 1970 UTC.
    Timestamp(i64),
    /// A duration; all three parts have one sign.
    Duration {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanos: i64,
    },
    /// A collection, tuple, vector or value of a user's type.
    Nested(Nested<'a>),
}

/// The cells of a nested value, read in place.
///
/// Shape: no more than a slice, so that a [`Value`] stays as small as it was without CQL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nested<'a> {
    /// The count and the cells; whole: they were checked when they were read.
    bytes: &'a [u8],
}

impl<'a> Nested<'a> {
    /// How many cells it has; a map has two for each entry.
    pub fn cell_count(&self) -> usize {
        self.cells().left as usize
    }

    /// Its cells in order.
    pub fn cells(&self) -> NestedCells<'a> {
        let mut reader = WireReader::new(self.bytes);
        let left = reader.u32().unwrap_or(0);
        NestedCells { left, reader }
    }
}

/// Iterates the cells of a [`Nested`] value, each with its own times.
#[derive(Debug, Clone)]
pub struct NestedCells<'a> {
    left: u32,
    reader: WireReader<'a>,
}

impl<'a> Iterator for NestedCells<'a> {
    type Item = (Cell<'a>, Times);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        crate::value::read_timed_cell(&mut self.reader).ok()
    }
}

/// Appends the head of a nested value of `cell_count` cells, which the caller appends next.
pub(crate) fn put_head(out: &mut Vec<u8>, cell_count: usize) {
    out.push(tag::NESTED);
    put_u64(out, cell_count as u64);
}

/// Appends the times that the cell appended next has of its own.
pub(crate) fn put_times(out: &mut Vec<u8>, times: &Times) {
    if !times.is_empty() {
        out.push(tag::TIMED);
        times.encode(out);
    }
}

/// Appends one value in stored form.
#[cold]
pub(crate) fn put(out: &mut Vec<u8>, value: CqlValue<'_>) {
    match value {
        CqlValue::Boolean(flag) => out.extend_from_slice(&[tag::BOOLEAN, u8::from(flag)]),
        CqlValue::Date(days) => {
            out.push(tag::CQL_DATE);
            put_i64(out, i64::from(days));
        }
        CqlValue::Time(nanos) => {
            out.push(tag::CQL_TIME);
            put_i64(out, nanos);
        }
        CqlValue::Timestamp(millis) => {
            out.push(tag::CQL_TIMESTAMP);
            put_i64(out, millis);
        }
        CqlValue::Duration {
            months,
            days,
            nanos,
        } => {
            out.push(tag::DURATION);
            [i64::from(months), i64::from(days), nanos]
                .into_iter()
                .for_each(|part| put_i64(out, part));
        }
        CqlValue::Nested(nested) => {
            out.push(tag::NESTED);
            out.extend_from_slice(nested.bytes);
        }
    }
}

/// Reads what stands after one of the tags that are here, checking that nested cells are whole.
///
/// Errors: [`WireError`] where the bytes are damaged, or nest deeper than [`super::DEPTH_MAX`].
#[cold]
pub(crate) fn read<'a>(
    reader: &mut WireReader<'a>,
    tag: u8,
    depth_left: u32,
) -> Result<Cell<'a>, WireError> {
    let offset = reader.offset();
    let fail = |what| Err(WireError { offset, what });
    let value = match tag {
        tag::OUTSIDE => return Ok(Cell::Unknown),
        tag::TIMED => {
            Times::decode(reader)?;
            return match reader.u8()? {
                tag::TIMED => fail("a cell after its times"),
                tag => read_tagged(reader, tag, depth_left),
            };
        }
        tag::BOOLEAN => match reader.u8()? {
            flag @ 0..=1 => CqlValue::Boolean(flag == 1),
            _ => return fail("a boolean"),
        },
        tag::CQL_DATE => CqlValue::Date(int(reader)?),
        tag::CQL_TIME => CqlValue::Time(reader.i64()?),
        tag::CQL_TIMESTAMP => CqlValue::Timestamp(reader.i64()?),
        tag::DURATION => CqlValue::Duration {
            months: int(reader)?,
            days: int(reader)?,
            nanos: reader.i64()?,
        },
        tag::NESTED => {
            let Some(left) = depth_left.checked_sub(1) else {
                return fail("a value that nests less deep");
            };
            CqlValue::Nested(read_nested(reader, left)?)
        }
        _ => return fail("a known cell tag"),
    };
    Ok(Cell::Value(Value::Cql(value)))
}

fn read_nested<'a>(reader: &mut WireReader<'a>, depth_left: u32) -> Result<Nested<'a>, WireError> {
    let start = reader.clone();
    for _ in 0..reader.u32()? {
        let tag = reader.u8()?;
        read_tagged(reader, tag, depth_left)?;
    }
    let length = reader.offset() - start.offset();
    let bytes = start.clone().take(length)?;
    Ok(Nested { bytes })
}

fn int(reader: &mut WireReader<'_>) -> Result<i32, WireError> {
    let offset = reader.offset();
    let value = reader.i64()?;
    i32::try_from(value).map_err(|_| WireError {
        offset,
        what: "a number of 32 bits",
    })
}

/// Appends a value as plain text, for a person or a key: `[1, a]` for a nested one, its cells as `put` writes them.
pub fn put_text(
    out: &mut Vec<u8>,
    value: &CqlValue<'_>,
    put: &mut dyn FnMut(&mut Vec<u8>, Value<'_>),
) {
    match value {
        CqlValue::Boolean(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
        CqlValue::Date(days) => temporal::put_iso_date(out, i64::from(*days)),
        CqlValue::Time(nanos) => temporal::put_time_nanos(out, *nanos, clock_digits(*nanos)),
        CqlValue::Timestamp(millis) => temporal::put_iso_millis(out, *millis),
        CqlValue::Duration {
            months,
            days,
            nanos,
        } => temporal::put_duration(out, *months, *days, *nanos),
        CqlValue::Nested(nested) => {
            out.push(b'[');
            for (index, (cell, _)) in nested.cells().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                match cell {
                    Cell::Value(value) => put(out, value),
                    Cell::Null | Cell::Unknown => out.extend_from_slice(b"null"),
                }
            }
            out.push(b']');
        }
    }
}

/// Fraction digits that a time of day needs, in threes as Java's `LocalTime` prints them.
pub fn clock_digits(nanos: i64) -> u8 {
    [(0, 1_000_000_000), (3, 1_000_000), (6, 1000)]
        .into_iter()
        .find(|(_, unit)| nanos % unit == 0)
        .map_or(9, |(digits, _)| digits)
}

#[cfg(test)]
mod tests {
    use super::super::DEPTH_MAX;
    use super::*;
    use crate::value::{put_cell, put_value, read_cell};

    fn cell(bytes: &[u8]) -> Result<Cell<'_>, WireError> {
        read_cell(&mut WireReader::new(bytes))
    }

    #[test]
    fn values_of_cql_come_back() {
        let values = [
            CqlValue::Boolean(true),
            CqlValue::Boolean(false),
            CqlValue::Date(i32::MIN),
            CqlValue::Date(i32::MAX),
            CqlValue::Time(86_399_999_999_999),
            CqlValue::Timestamp(i64::MIN),
            CqlValue::Duration {
                months: i32::MIN,
                days: -1,
                nanos: i64::MIN,
            },
        ];
        for value in values {
            let mut bytes = Vec::new();
            put_value(&mut bytes, Value::Cql(value));
            assert_eq!(cell(&bytes), Ok(Cell::Value(Value::Cql(value))));
            for cut in 0..bytes.len() {
                assert!(cell(&bytes[..cut]).is_err());
            }
        }
    }

    #[test]
    fn nested_cells_come_back_each_with_its_own_times() {
        let written = Times {
            write_us: Some(5),
            expires_s: Some(6),
        };
        let mut bytes = Vec::new();
        put_head(&mut bytes, 3);
        put_times(&mut bytes, &written);
        put_value(&mut bytes, Value::Text("a"));
        put_cell(&mut bytes, Cell::Null);
        put_head(&mut bytes, 0);
        let Ok(Cell::Value(Value::Cql(CqlValue::Nested(nested)))) = cell(&bytes) else {
            panic!("a nested value")
        };
        assert_eq!(nested.cell_count(), 3);
        let cells: Vec<(Cell<'_>, Times)> = nested.cells().collect();
        assert_eq!(cells[0], (Cell::Value(Value::Text("a")), written));
        assert_eq!(cells[1], (Cell::Null, Times::default()));
        let (Cell::Value(Value::Cql(CqlValue::Nested(empty))), _) = cells[2] else {
            panic!("an empty collection")
        };
        assert_eq!(empty.cells().count(), 0);
        let mut again = Vec::new();
        put_value(&mut again, Value::Cql(CqlValue::Nested(nested)));
        assert_eq!(again, bytes, "and is written again as it was");
        for cut in 0..bytes.len() {
            assert!(cell(&bytes[..cut]).is_err());
        }
        let mut text = Vec::new();
        put_text(&mut text, &CqlValue::Nested(nested), &mut |out, value| {
            if let Value::Text(text) = value {
                out.extend_from_slice(text.as_bytes());
            }
        });
        assert_eq!(String::from_utf8(text).unwrap(), "[a, null, ]");
    }

    #[test]
    fn the_stored_form_is_what_journals_hold() {
        let mut bytes = Vec::new();
        put_head(&mut bytes, 4);
        let times = Times {
            write_us: Some(5),
            expires_s: Some(-1),
        };
        put_times(&mut bytes, &times);
        put_value(&mut bytes, Value::Text("a"));
        put_value(&mut bytes, Value::Cql(CqlValue::Boolean(true)));
        put_value(&mut bytes, Value::Cql(CqlValue::Date(-2)));
        let duration = CqlValue::Duration {
            months: 1,
            days: -1,
            nanos: 64,
        };
        put_value(&mut bytes, Value::Cql(duration));
        let expected = [
            32, 4, 26, 3, 10, 1, 7, 1, b'a', 27, 1, 28, 3, 31, 2, 1, 0x80, 1,
        ];
        assert_eq!(bytes, expected);
        let mut bytes = Vec::new();
        put_value(&mut bytes, Value::Cql(CqlValue::Time(1)));
        put_value(&mut bytes, Value::Cql(CqlValue::Timestamp(-1)));
        assert_eq!(bytes, [29, 2, 30, 1]);
    }

    #[test]
    fn damaged_and_bottomless_values_are_refused() {
        let deep = |levels: usize| {
            let mut bytes = [tag::NESTED, 1].repeat(levels);
            bytes.push(1);
            cell(&bytes).is_ok()
        };
        assert!(deep(DEPTH_MAX as usize));
        assert!(!deep(DEPTH_MAX as usize + 1));
        assert!(!deep(1_000_000));
        assert!(cell(&[tag::BOOLEAN, 2]).is_err());
        assert!(cell(&[tag::TIMED, 0, tag::TIMED, 0, 1]).is_err());
        assert!(cell(&[tag::NESTED, 0xff, 0xff, 0xff, 0xff, 0xf]).is_err());
        assert!(cell(&[33]).is_err(), "the next tag is not known");
    }

    #[test]
    fn a_cell_is_no_larger_than_without_cql() {
        assert_eq!(size_of::<Cell<'_>>(), 24);
    }
}
