//! `data` and `key` of a row's change.

use super::options::{Nulls, Options, Variant};
use super::table::{ColumnText, TableText};
use super::values::Print;
use change::{Cell, Image};

/// Appends `{`, the cells that `pick` takes, `}`.
fn put_object(
    out: &mut Vec<u8>,
    table: &TableText,
    image: &Image<'_>,
    print: Print,
    mut pick: impl FnMut(&ColumnText, Cell<'_>) -> bool,
) {
    let mut first = true;
    out.push(b'{');
    for (column, cell) in table.columns.iter().zip(image.cells()) {
        if cell == Cell::Unknown || !pick(column, cell) {
            continue;
        }
        out.extend_from_slice(column.name(first));
        first = false;
        print.cell(out, column, cell);
    }
    out.push(b'}');
}

/// A whole row: every known cell, NULL as the options want it.
pub(super) fn put_whole(
    out: &mut Vec<u8>,
    table: &TableText,
    image: &Image<'_>,
    options: &Options,
) {
    let explicit = options.nulls == Nulls::Explicit;
    put_object(out, table, image, print(options), |_, cell| {
        explicit || cell != Cell::Null
    });
}

/// The columns that an update changed, their values after it. What the log has only after the update
/// counts as changed.
pub(super) fn put_changed(
    out: &mut Vec<u8>,
    table: &TableText,
    (before, after): (Option<&Image<'_>>, &Image<'_>),
    options: &Options,
) {
    let Some(before) = before else {
        return put_object(out, table, after, print(options), |_, _| true);
    };
    let (mut old, mut new) = (before.cells(), after.cells());
    put_object_beside(out, table, after, options, || {
        let was = old.next_with_bytes().map(|(_, bytes)| bytes);
        let now = new.next_with_bytes().map(|(_, bytes)| bytes);
        was != now
    });
}

/// As [`put_object`], where `pick` is asked for every column, also for unknown ones.
fn put_object_beside(
    out: &mut Vec<u8>,
    table: &TableText,
    image: &Image<'_>,
    options: &Options,
    mut pick: impl FnMut() -> bool,
) {
    let mut first = true;
    out.push(b'{');
    for (column, cell) in table.columns.iter().zip(image.cells()) {
        if !pick() || cell == Cell::Unknown {
            continue;
        }
        out.extend_from_slice(column.name(first));
        first = false;
        print(options).cell(out, column, cell);
    }
    out.push(b'}');
}

/// What identifies the row of an update: the row before (DTS) or its key columns (Quest). Without a
/// row before, the key columns after it.
pub(super) fn put_key(
    out: &mut Vec<u8>,
    table: &TableText,
    (before, after): (Option<&Image<'_>>, &Image<'_>),
    options: &Options,
) {
    let image = before.unwrap_or(after);
    let whole = options.variant == Variant::Dts && before.is_some();
    put_object(out, table, image, print(options), |column, _| {
        whole || column.is_key
    });
}

fn print(options: &Options) -> Print {
    Print {
        variant: options.variant,
        offset_seconds: options.timestamp_offset_seconds,
    }
}
