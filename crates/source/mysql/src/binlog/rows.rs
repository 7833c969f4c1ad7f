//! The rows of one event: from its body to row records in a batch.
//!
//! Shape: table number, flags, (version 2: extra data), column count, one or two bitmaps of present
//! columns, then rows; each image is a NULL bitmap over the present columns and their values.
//! Hot path: cells go straight into the batch's arena.

use super::bytes::{Bytes, Decoded, bit, count_bits};
use super::cell::{CellKind, Scratch, put_json_diff};
use super::header::kind;
use super::mask::hash_last_cell;
use super::plan::{KEY_COLUMNS_MAX, TablePlan, Treatment};
use change::batch::{FLAG_PAIR_FIRST, FLAG_PAIR_SECOND, RowWriter, key_token_of_bytes};
use change::value::{put_cell, read_cell};
use change::wire::WireReader;
use change::{Batch, Cell, ImageWriter, Operation, RowMeta, Value};

/// What kind of rows an event holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsKind {
    /// INSERT.
    Write,
    /// UPDATE.
    Update,
    /// UPDATE whose after images may hold JSON diffs.
    PartialUpdate,
    /// DELETE.
    Delete,
}

/// An event type that carries rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsType {
    /// Its rows.
    pub kind: RowsKind,
    /// Version 2: extra data before the columns.
    pub v2: bool,
    /// MariaDB's compression.
    pub compressed: bool,
}

impl RowsType {
    /// The type of an event, if it carries rows.
    #[inline]
    pub fn of(event_kind: u8) -> Option<Self> {
        use RowsKind as K;
        let (rows, v2, compressed) = match event_kind {
            kind::WRITE_ROWS => (K::Write, true, false),
            kind::UPDATE_ROWS => (K::Update, true, false),
            kind::DELETE_ROWS => (K::Delete, true, false),
            kind::PARTIAL_UPDATE_ROWS => (K::PartialUpdate, true, false),
            kind::WRITE_ROWS_V1 => (K::Write, false, false),
            kind::UPDATE_ROWS_V1 => (K::Update, false, false),
            kind::DELETE_ROWS_V1 => (K::Delete, false, false),
            kind::MARIADB_WRITE_ROWS_COMPRESSED_V1 => (K::Write, false, true),
            kind::MARIADB_UPDATE_ROWS_COMPRESSED_V1 => (K::Update, false, true),
            kind::MARIADB_DELETE_ROWS_COMPRESSED_V1 => (K::Delete, false, true),
            kind::MARIADB_WRITE_ROWS_COMPRESSED => (K::Write, true, true),
            kind::MARIADB_UPDATE_ROWS_COMPRESSED => (K::Update, true, true),
            kind::MARIADB_DELETE_ROWS_COMPRESSED => (K::Delete, true, true),
            _ => return None,
        };
        Some(Self {
            kind: rows,
            v2,
            compressed,
        })
    }
}

/// An event's fixed part and its rows, in place.
#[derive(Debug, Clone, Copy)]
pub struct RowsEvent<'a> {
    /// What kind of rows.
    pub kind: RowsKind,
    /// Columns present in the first image.
    present: Present<'a>,
    /// Columns present in the second image.
    present_after: Present<'a>,
    /// The rows.
    rows: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
struct Present<'a> {
    bitmap: &'a [u8],
    count: usize,
    all: bool,
}

impl<'a> Present<'a> {
    fn read(b: &mut Bytes<'a>, columns: usize) -> Decoded<Self> {
        let bitmap = b.take(columns.div_ceil(8), "the bitmap of present columns")?;
        let count = count_bits(bitmap, columns);
        Ok(Self {
            bitmap,
            count,
            all: count == columns,
        })
    }
}

/// Reads an event's fixed part. `inflated`: where a compressed event's rows are inflated to.
pub fn read<'a>(
    body: &'a [u8],
    of: RowsType,
    inflated: &'a mut Vec<u8>,
    bytes_max: usize,
) -> Decoded<(RowsEvent<'a>, usize)> {
    let mut b = Bytes::new(body);
    b.take(8, "the table's number")?;
    if of.v2 {
        let extra = usize::from(b.u16("the extra data's length")?);
        match extra.checked_sub(2) {
            Some(count) => b.take(count, "the extra data")?,
            None => return b.fail("the extra data's length"),
        };
    }
    let columns = b.count("the count of columns")?;
    if columns > 4096 {
        return b.fail("a count of at most 4096 columns");
    }
    let present = Present::read(&mut b, columns)?;
    let two = matches!(of.kind, RowsKind::Update | RowsKind::PartialUpdate);
    let present_after = if two {
        Present::read(&mut b, columns)?
    } else {
        present
    };
    let rows = if of.compressed {
        inflated.clear();
        super::inflate::mariadb_event(b.rest(), inflated, bytes_max)?;
        &inflated[..]
    } else {
        b.rest()
    };
    let event = RowsEvent {
        kind: of.kind,
        present,
        present_after,
        rows,
    };
    Ok((event, columns))
}

/// Places in the arena of what was just written.
#[derive(Debug, Clone, Copy)]
struct Written {
    /// All cells.
    cells: (usize, usize),
    /// The key's cells, in key order; an arena stays below 4 GiB.
    keys: [(u32, u32); KEY_COLUMNS_MAX],
    /// The cell of `row_end`, in a table with system versioning.
    row_end: (usize, usize),
}

impl Written {
    fn new() -> Self {
        Self {
            cells: (0, 0),
            keys: [(0, 0); KEY_COLUMNS_MAX],
            row_end: (0, 0),
        }
    }
}

/// Decodes rows; keeps the buffers that decoding reuses.
#[derive(Debug, Default)]
pub struct RowDecoder {
    /// Conversion buffers.
    pub scratch: Scratch,
    key: Vec<u8>,
    key_after: Vec<u8>,
    /// Both images of a key change, while they become two records.
    pair: Vec<u8>,
    /// Per column: where its cell of the before image lies in the arena.
    before_cells: Vec<(usize, usize)>,
    /// Per column: its bytes of the before image, for JSON diffs.
    before_bytes: Vec<Option<(usize, usize)>>,
}

impl RowDecoder {
    /// Decodes all rows of an event into `batch`; returns how many row changes.
    ///
    /// Promises: one record per row, two for an update that changes the key; on an error the batch
    /// may hold the rows before it, which the caller takes back.
    pub fn rows(
        &mut self,
        event: &RowsEvent<'_>,
        plan: &TablePlan,
        meta: RowMeta,
        batch: &mut Batch,
    ) -> Decoded<u64> {
        let mut b = Bytes::new(event.rows);
        let mut count = 0;
        while !b.is_empty() {
            let start = b.offset();
            match event.kind {
                RowsKind::Write => self.one_image(&mut b, event, plan, meta, batch)?,
                RowsKind::Delete => self.one_image(&mut b, event, plan, meta, batch)?,
                RowsKind::Update | RowsKind::PartialUpdate => {
                    self.update(&mut b, event, plan, meta, batch)?
                }
            }
            // A row of no bytes would go on for ever.
            if b.offset() == start {
                return b.fail("a row");
            }
            count += 1;
        }
        Ok(count)
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "the row's context, spelled out on the hot path"
)]
impl RowDecoder {
    #[inline]
    fn one_image(
        &mut self,
        b: &mut Bytes<'_>,
        event: &RowsEvent<'_>,
        plan: &TablePlan,
        meta: RowMeta,
        batch: &mut Batch,
    ) -> Decoded<()> {
        let mut row = batch.row(plan.table, plan.version, meta);
        let write = event.kind == RowsKind::Write;
        let image = if write {
            row.after(plan.emitted_count)
        } else {
            row.before(plan.emitted_count)
        };
        let written = self.image(b, &event.present, plan, image)?;
        if is_history(&row, &written) {
            return Ok(());
        }
        let token = key_token_of_bytes(key_of(&row, plan, &written, &mut self.key));
        let operation = if write {
            Operation::Insert
        } else {
            Operation::Delete
        };
        row.finish(operation, 0, token);
        Ok(())
    }

    fn update(
        &mut self,
        b: &mut Bytes<'_>,
        event: &RowsEvent<'_>,
        plan: &TablePlan,
        meta: RowMeta,
        batch: &mut Batch,
    ) -> Decoded<()> {
        let mut row = batch.row(plan.table, plan.version, meta);
        let partial = event.kind == RowsKind::PartialUpdate;
        let fill = !event.present_after.all;
        let before_start = row.offset();
        let image = row.before(plan.emitted_count);
        let before = if fill || partial {
            self.recorded_image(b, &event.present, plan, image)?
        } else {
            self.image(b, &event.present, plan, image)?
        };
        let before_end = row.offset();
        let image = row.after(plan.emitted_count);
        let after = if partial {
            self.partial_image(b, event, plan, image)?
        } else if fill {
            self.filled_image(b, &event.present_after, plan, image)?
        } else {
            self.image(b, &event.present_after, plan, image)?
        };
        if is_history(&row, &before) {
            return Ok(());
        }
        if is_history(&row, &after) {
            // The end of a current row is its deletion.
            let token = key_token_of_bytes(key_of(&row, plan, &before, &mut self.key));
            let image = row.written(before_start)[..before_end - before_start].to_vec();
            drop(row);
            let mut row = batch.row(plan.table, plan.version, meta);
            row.copy_before(&image);
            row.finish(Operation::Delete, 0, token);
            return Ok(());
        }
        let old_token = {
            let key = key_of(&row, plan, &before, &mut self.key);
            let key_after = key_of(&row, plan, &after, &mut self.key_after);
            let same = key == key_after;
            let old = key_token_of_bytes(key);
            if same {
                Ok(old)
            } else {
                Err((old, key_token_of_bytes(key_after)))
            }
        };
        match old_token {
            Ok(token) => row.finish(Operation::Update, 0, token),
            Err((old, new)) => {
                let images = &mut self.pair;
                images.clear();
                images.extend_from_slice(row.written(before_start));
                let split = before_end - before_start;
                drop(row);
                let mut first = batch.row(plan.table, plan.version, meta);
                first.copy_before(&images[..split]);
                first.finish(Operation::Delete, FLAG_PAIR_FIRST, old);
                let mut second = batch.row(plan.table, plan.version, meta);
                second.copy_after(&images[split..]);
                second.finish(Operation::Insert, FLAG_PAIR_SECOND, new);
            }
        }
        Ok(())
    }

    /// Decodes one image whose absent columns are unknown.
    #[inline]
    fn image(
        &mut self,
        b: &mut Bytes<'_>,
        present: &Present<'_>,
        plan: &TablePlan,
        mut image: ImageWriter<'_>,
    ) -> Decoded<Written> {
        let nulls = b.take(present.count.div_ceil(8), "the NULL bitmap")?;
        let out = image.arena();
        let mut written = Written::new();
        written.cells.0 = out.len();
        if plan.columns.len() < present.count {
            return b.fail("as many columns as the table has");
        }
        let mut index = 0;
        for (column_index, column) in plan.columns.iter().enumerate() {
            let start = out.len();
            if !present.all && !bit(present.bitmap, column_index) {
                if column.treatment != Treatment::Exclude {
                    put_cell(out, Cell::Unknown);
                }
            } else {
                let null = bit(nulls, index);
                index += 1;
                if null {
                    if column.treatment != Treatment::Exclude {
                        put_cell(out, Cell::Null);
                    }
                } else if plan.plain {
                    column.kind.put(b, out, &mut self.scratch)?;
                } else {
                    put_treated(column.kind, &column.treatment, b, out, &mut self.scratch)?;
                }
            }
            if plan.row_end == Some(column_index) {
                written.row_end = (start, out.len());
            }
            if column.key_slot > 0 {
                written.keys[usize::from(column.key_slot) - 1] = (start as u32, out.len() as u32);
            }
        }
        written.cells.1 = out.len();
        Ok(written)
    }

    /// As [`Self::image`], remembering where each cell and each value's bytes lie.
    fn recorded_image(
        &mut self,
        b: &mut Bytes<'_>,
        present: &Present<'_>,
        plan: &TablePlan,
        mut image: ImageWriter<'_>,
    ) -> Decoded<Written> {
        let nulls = b.take(present.count.div_ceil(8), "the NULL bitmap")?;
        let out = image.arena();
        let mut written = Written::new();
        written.cells.0 = out.len();
        self.before_cells.clear();
        self.before_bytes.clear();
        let mut index = 0;
        for (column_index, column) in plan.columns.iter().enumerate() {
            let start = out.len();
            let mut bytes = None;
            if !bit(present.bitmap, column_index) {
                if column.treatment != Treatment::Exclude {
                    put_cell(out, Cell::Unknown);
                }
            } else {
                let null = bit(nulls, index);
                index += 1;
                let from = b.offset();
                if !null {
                    put_treated(column.kind, &column.treatment, b, out, &mut self.scratch)?;
                    bytes = Some((from, b.offset()));
                } else if column.treatment != Treatment::Exclude {
                    put_cell(out, Cell::Null);
                }
            }
            self.before_cells.push((start, out.len()));
            self.before_bytes.push(bytes);
            if plan.row_end == Some(column_index) {
                written.row_end = (start, out.len());
            }
            if column.key_slot > 0 {
                written.keys[usize::from(column.key_slot) - 1] = (start as u32, out.len() as u32);
            }
        }
        written.cells.1 = out.len();
        Ok(written)
    }

    /// An after image whose absent columns did not change, so they are as before.
    fn filled_image(
        &mut self,
        b: &mut Bytes<'_>,
        present: &Present<'_>,
        plan: &TablePlan,
        mut image: ImageWriter<'_>,
    ) -> Decoded<Written> {
        let nulls = b.take(present.count.div_ceil(8), "the NULL bitmap")?;
        let out = image.arena();
        let mut written = Written::new();
        written.cells.0 = out.len();
        let mut index = 0;
        for (column_index, column) in plan.columns.iter().enumerate() {
            let start = out.len();
            if !bit(present.bitmap, column_index) {
                let (from, to) = self.before_cells[column_index];
                out.extend_from_within(from..to);
            } else {
                let null = bit(nulls, index);
                index += 1;
                if !null {
                    put_treated(column.kind, &column.treatment, b, out, &mut self.scratch)?;
                } else if column.treatment != Treatment::Exclude {
                    put_cell(out, Cell::Null);
                }
            }
            if plan.row_end == Some(column_index) {
                written.row_end = (start, out.len());
            }
            if column.key_slot > 0 {
                written.keys[usize::from(column.key_slot) - 1] = (start as u32, out.len() as u32);
            }
        }
        written.cells.1 = out.len();
        Ok(written)
    }

    /// An after image with JSON diffs.
    ///
    /// Shape: options (bit 0: diffs), then a bitmap over the table's JSON columns that tells which
    /// hold diffs, then an image as always; a diff column's value is 4 bytes of length and the diffs.
    fn partial_image(
        &mut self,
        b: &mut Bytes<'_>,
        event: &RowsEvent<'_>,
        plan: &TablePlan,
        mut image: ImageWriter<'_>,
    ) -> Decoded<Written> {
        let options = b.lenenc("the value options")?;
        let diffs = if options & 1 != 0 {
            b.take(plan.json_count.div_ceil(8), "the bitmap of JSON diffs")?
        } else {
            &[]
        };
        let present = &event.present_after;
        let nulls = b.take(present.count.div_ceil(8), "the NULL bitmap")?;
        let out = image.arena();
        let mut written = Written::new();
        written.cells.0 = out.len();
        let (mut index, mut json_index) = (0, 0);
        for (column_index, column) in plan.columns.iter().enumerate() {
            let start = out.len();
            let is_json = matches!(column.kind, CellKind::Json { .. });
            let is_diff = is_json && bit(diffs, json_index);
            json_index += usize::from(is_json);
            if !bit(present.bitmap, column_index) {
                let (from, to) = self.before_cells[column_index];
                out.extend_from_within(from..to);
            } else {
                let null = bit(nulls, index);
                index += 1;
                if null {
                    if column.treatment != Treatment::Exclude {
                        put_cell(out, Cell::Null);
                    }
                } else if is_diff {
                    let before = self.before_bytes[column_index];
                    self.put_diff(b, event, &column.treatment, before, out)?;
                } else {
                    put_treated(column.kind, &column.treatment, b, out, &mut self.scratch)?;
                }
            }
            if plan.row_end == Some(column_index) {
                written.row_end = (start, out.len());
            }
            if column.key_slot > 0 {
                written.keys[usize::from(column.key_slot) - 1] = (start as u32, out.len() as u32);
            }
        }
        written.cells.1 = out.len();
        Ok(written)
    }

    fn put_diff(
        &mut self,
        b: &mut Bytes<'_>,
        event: &RowsEvent<'_>,
        treatment: &Treatment,
        before: Option<(usize, usize)>,
        out: &mut Vec<u8>,
    ) -> Decoded<()> {
        let count = b.u32("a JSON diff's length")? as usize;
        let diffs = b.take(count, "a JSON diff")?;
        // The before value is its 4 bytes of length and the document.
        let Some(before) = before.and_then(|(from, to)| event.rows.get(from + 4..to)) else {
            return Err(super::bytes::DecodeError::Unsupported(
                "a partial JSON update without the document before it (binlog_row_image is not FULL)"
                    .into(),
            ));
        };
        let start = out.len();
        match treatment {
            Treatment::Exclude => {}
            Treatment::Redact => put_cell(out, Cell::Null),
            Treatment::Keep => put_json_diff(before, diffs, out, &mut self.scratch)?,
            Treatment::Hash(key) => {
                put_json_diff(before, diffs, out, &mut self.scratch)?;
                hash_last_cell(out, start, key);
            }
        }
        Ok(())
    }
}

/// Reads one value and does with it what the column's treatment says.
pub fn put_treated(
    kind: CellKind,
    treatment: &Treatment,
    b: &mut Bytes<'_>,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Decoded<()> {
    match treatment {
        Treatment::Keep => kind.put(b, out, scratch),
        Treatment::Exclude => kind.skip(b),
        Treatment::Redact => {
            kind.skip(b)?;
            put_cell(out, Cell::Null);
            Ok(())
        }
        Treatment::Hash(key) => {
            let start = out.len();
            kind.put(b, out, scratch)?;
            hash_last_cell(out, start, key);
            Ok(())
        }
    }
}

/// Whether the row is a past version: its end is not the last instant that the server knows (of 31
/// bits, since MariaDB 11.5 of 32).
#[inline]
fn is_history(row: &RowWriter<'_>, written: &Written) -> bool {
    const LAST: [i64; 2] = [2_147_483_647_999_999, 4_294_967_295_999_999];
    if written.row_end.1 == 0 {
        return false;
    }
    let cell = read_cell(&mut WireReader::new(slice(row, written.row_end)));
    matches!(cell, Ok(Cell::Value(Value::Timestamp { micros, .. })) if !LAST.contains(&micros))
}

/// The stored cells of the key one after another: in place where they lie so, else in `buffer`.
#[inline]
fn key_of<'a>(
    row: &'a RowWriter<'_>,
    plan: &TablePlan,
    written: &Written,
    buffer: &'a mut Vec<u8>,
) -> &'a [u8] {
    match plan.key_count {
        0 => slice(row, written.cells),
        1 => key_slice(row, written.keys[0]),
        count => {
            buffer.clear();
            for place in &written.keys[..count] {
                buffer.extend_from_slice(key_slice(row, *place));
            }
            buffer
        }
    }
}

#[inline]
fn key_slice<'a>(row: &'a RowWriter<'_>, (from, to): (u32, u32)) -> &'a [u8] {
    slice(row, (from as usize, to as usize))
}

#[inline]
fn slice<'a>(row: &'a RowWriter<'_>, (from, to): (usize, usize)) -> &'a [u8] {
    &row.written(from)[..to - from]
}
