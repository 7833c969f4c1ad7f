//! The parts of a message that come from one row.

use super::options::Options;
use super::table::{ColumnText, TableText};
use super::values;
use change::{Cell, Image, Value};

/// How values are printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Print {
    offset_seconds: i32,
    exact: bool,
}

impl Print {
    pub fn new(options: &Options) -> Self {
        Self {
            offset_seconds: options.timestamp_offset_seconds,
            exact: options.exact,
        }
    }

    #[inline]
    fn cell(self, out: &mut Vec<u8>, column: &ColumnText, cell: Cell<'_>) {
        let Cell::Value(value) = cell else {
            out.extend_from_slice(b"null");
            return;
        };
        out.push(b'"');
        match value {
            Value::Decimal(text) if self.exact => values::put_decimal_as_canal(out, text),
            Value::Bytes(bytes) if self.exact && column.padded => {
                values::put_value(out, Value::Bytes(without_trailing_zeros(bytes)), 0);
            }
            value => values::put_value(out, value, self.offset_seconds),
        }
        out.push(b'"');
    }
}

fn without_trailing_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    &bytes[..end]
}

/// Appends the known cells as an object; returns how many were unknown and left out.
pub(super) fn put_image(
    out: &mut Vec<u8>,
    table: &TableText,
    image: &Image<'_>,
    print: Print,
) -> u64 {
    let mut unknown = 0;
    let mut first = true;
    out.push(b'{');
    for (column, cell) in table.columns.iter().zip(image.cells()) {
        if cell == Cell::Unknown {
            unknown += 1;
            continue;
        }
        out.extend_from_slice(column.name(first));
        first = false;
        print.cell(out, column, cell);
    }
    out.push(b'}');
    unknown
}

/// Appends the before values of the columns that changed as an object. A column that the before
/// image lacks counts as unchanged: its value is not known, and `null` would claim that it is.
pub(super) fn put_changed(
    out: &mut Vec<u8>,
    table: &TableText,
    (before, after): (&Image<'_>, &Image<'_>),
    print: Print,
) {
    let mut first = true;
    let (mut old, mut new) = (before.cells(), after.cells());
    out.push(b'{');
    for column in &table.columns {
        let (Some((was, was_bytes)), Some((now, now_bytes))) =
            (old.next_with_bytes(), new.next_with_bytes())
        else {
            break;
        };
        if was == Cell::Unknown || now == Cell::Unknown || was_bytes == now_bytes {
            continue;
        }
        out.extend_from_slice(column.name(first));
        first = false;
        print.cell(out, column, was);
    }
    out.push(b'}');
}

/// As [`put_changed`], with the columns that earlier rows of the message changed too: Canal collects
/// them over the rows of a message.
pub(super) fn put_changed_so_far(
    out: &mut Vec<u8>,
    table: &TableText,
    (before, after): (&Image<'_>, &Image<'_>),
    changed: &mut Vec<bool>,
    print: Print,
) {
    changed.resize(table.columns.len(), false);
    let mut first = true;
    let (mut old, mut new) = (before.cells(), after.cells());
    out.push(b'{');
    for (column, changed) in table.columns.iter().zip(changed) {
        let (Some((was, was_bytes)), Some((now, now_bytes))) =
            (old.next_with_bytes(), new.next_with_bytes())
        else {
            break;
        };
        *changed |= now != Cell::Unknown && was_bytes != now_bytes;
        if was == Cell::Unknown || !*changed {
            continue;
        }
        out.extend_from_slice(column.name(first));
        first = false;
        print.cell(out, column, was);
    }
    out.push(b'}');
}

/// Appends `,"sql":"","sqlType":{…}`.
pub(super) fn put_sql_types(out: &mut Vec<u8>, table: &TableText, image: &Image<'_>) {
    out.extend_from_slice(b",\"sql\":\"\",\"sqlType\":{");
    let mut first = true;
    for (column, cell) in table.columns.iter().zip(image.cells()) {
        if cell == Cell::Unknown {
            continue;
        }
        out.extend_from_slice(column.name(first));
        first = false;
        let code = values::sql_type(column.kind, cell);
        out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    }
    out.push(b'}');
}
