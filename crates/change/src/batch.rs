//! What a source fills: one arena of bytes plus plain descriptors, reused for every batch.
//!
//! Shape: entries in log order. `Begin`, then rows, DDL and control records, then `Commit` (or
//! `Rollback`, which takes everything since `Begin` back). A transaction may span many batches.
//!
//! A row's body is `flags, group ordinal, end offset, time` (varints) and one or two images, each with its
//! row's times where a flag says so; see [`RowMeta`]. It goes into the journal as it is.

use crate::cql::Times;
use crate::image::ImageWriter;
use crate::schema::{SchemaVersion, TableId};
use crate::transaction::{TransactionHeader, TransactionTrailer};
use crate::wire::{WireError, WireReader, put_u64};
use crate::{Ddl, value};

/// What a record does; part of the journal's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// A new row.
    Insert = 1,
    /// A changed row with an unchanged key.
    Update = 2,
    /// A row that went.
    Delete = 3,
    /// A row as a snapshot read it.
    Read = 4,
    /// A statement: [`Ddl`].
    Ddl = 5,
    /// The statement text that made the rows that follow (the body is the text).
    Statement = 6,
    /// An event that could not be decoded, in its place: see [`OpaqueEvent`].
    Opaque = 7,
}

impl Operation {
    /// From the journal's byte.
    pub fn from_u8(byte: u8) -> Option<Self> {
        use Operation as O;
        [
            O::Insert,
            O::Update,
            O::Delete,
            O::Read,
            O::Ddl,
            O::Statement,
            O::Opaque,
        ]
        .into_iter()
        .find(|operation| *operation as u8 == byte)
    }
}

/// Descriptor flag: this record and the next are one UPDATE that changed the key; this one is the
/// delete of the old key.
pub const FLAG_PAIR_FIRST: u8 = 1;
/// Descriptor flag: the second record of a key change, the insert of the new key.
pub const FLAG_PAIR_SECOND: u8 = 2;
/// Descriptor flag: the record is that of a partition's static columns; see [`crate::cql`].
pub const FLAG_STATIC: u8 = 4;
/// Descriptor flag: a time to live ended, nobody wrote. A row that went so is a delete, one that lost cells an update.
pub const FLAG_EXPIRED: u8 = 8;

const BODY_BEFORE: u8 = 1;
const BODY_AFTER: u8 = 2;
const BODY_TIMES_BEFORE: u8 = 4;
const BODY_TIMES_AFTER: u8 = 8;

/// Where a row stood in its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowMeta {
    /// Ordinal of its group (rows event) in the transaction, from 0.
    pub group: u32,
    /// Offset after its group's event in the source's log.
    pub end_offset: u64,
    /// Header time of its group's event, seconds since the epoch.
    pub time_s: u32,
}

/// A range of the batch's arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

/// A record's fixed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordEntry {
    /// Its table; 0 for none.
    pub table: TableId,
    /// The schema that describes its images.
    pub schema: SchemaVersion,
    /// What it does.
    pub operation: Operation,
    /// [`FLAG_PAIR_FIRST`], [`FLAG_PAIR_SECOND`], [`FLAG_STATIC`], [`FLAG_EXPIRED`].
    pub flags: u8,
    /// Hash of the row's key; see [`key_token`].
    pub key_token: u64,
    /// Its body.
    pub body: Span,
}

/// One step of a source's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A transaction begins; the span holds its encoded header.
    Begin {
        /// Encoded [`TransactionHeader`].
        header: Span,
        /// Whether it is a snapshot chunk.
        snapshot: bool,
    },
    /// A row, a statement or an opaque event.
    Record(RecordEntry),
    /// A control record: schema, snapshot progress, parked range.
    Control {
        /// Its key.
        key: Span,
        /// Its new value; none deletes it.
        value: Option<Span>,
    },
    /// The transaction is whole.
    Commit {
        /// Encoded [`TransactionTrailer`].
        trailer: Span,
        /// Encoded [`crate::PositionStep`].
        position: Span,
        /// Commit time, microseconds since the epoch.
        time_us: i64,
        /// Row changes in it.
        rows: u64,
    },
    /// The transaction never happened (the connection broke in it, or the source rolled it back).
    Rollback,
}

/// A place in a batch to which a source can go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    arena: usize,
    entries: usize,
}

/// One batch; see the module's page.
#[derive(Debug, Default)]
pub struct Batch {
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

impl Batch {
    /// Empties it, keeping its buffers.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.entries.clear();
    }

    /// Gives memory back after an unusually large batch.
    pub fn shrink(&mut self, bytes_max: usize) {
        if self.arena.capacity() > bytes_max {
            self.arena.shrink_to(bytes_max);
        }
    }

    /// Bytes in the arena.
    pub fn byte_count(&self) -> usize {
        self.arena.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries in log order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The bytes of a span of this batch.
    #[inline]
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.arena[span.start as usize..span.end as usize]
    }

    fn span(&self, start: usize) -> Span {
        let end = u32::try_from(self.arena.len()).expect("sources end a batch far below 4 GiB");
        Span {
            start: start as u32,
            end,
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Span {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        self.span(start)
    }

    /// The end of what was written so far; see [`Batch::rewind`].
    pub fn mark(&self) -> Mark {
        Mark {
            arena: self.arena.len(),
            entries: self.entries.len(),
        }
    }

    /// Takes back everything written since `mark`, which must be of this batch since its last
    /// [`Batch::clear`].
    pub fn rewind(&mut self, mark: Mark) {
        self.arena.truncate(mark.arena);
        self.entries.truncate(mark.entries);
    }

    /// A transaction begins.
    pub fn begin(&mut self, header: &TransactionHeader) {
        let start = self.arena.len();
        header.encode(&mut self.arena);
        let header_span = self.span(start);
        self.entries.push(Entry::Begin {
            header: header_span,
            snapshot: header.snapshot,
        });
    }

    /// The transaction is whole. `time_us`: see [`TransactionHeader::best_time_us`].
    pub fn commit(&mut self, trailer: &TransactionTrailer, time_us: u64) {
        let start = self.arena.len();
        trailer.encode(&mut self.arena);
        let trailer_span = self.span(start);
        let start = self.arena.len();
        trailer.step.encode(&mut self.arena);
        let position = self.span(start);
        self.entries.push(Entry::Commit {
            trailer: trailer_span,
            position,
            time_us: i64::try_from(time_us).unwrap_or(i64::MAX),
            rows: trailer.row_changes,
        });
    }

    /// The transaction never happened.
    pub fn rollback(&mut self) {
        self.entries.push(Entry::Rollback);
    }

    /// A control record of the open transaction.
    pub fn control(&mut self, key: &[u8], value: Option<&[u8]>) {
        let key = self.put(key);
        let value = value.map(|value| self.put(value));
        self.entries.push(Entry::Control { key, value });
    }

    /// A statement that changes a schema.
    pub fn ddl(&mut self, table: TableId, schema: SchemaVersion, ddl: &Ddl<'_>) {
        let start = self.arena.len();
        ddl.encode(&mut self.arena);
        let body = self.span(start);
        self.push(table, schema, Operation::Ddl, body);
    }

    /// The statement text that made the rows that follow.
    pub fn statement(&mut self, text: &[u8]) {
        let body = self.put(text);
        self.push(TableId(0), SchemaVersion(0), Operation::Statement, body);
    }

    /// An event that could not be decoded, in its place.
    pub fn opaque(&mut self, table: TableId, schema: SchemaVersion, event: &OpaqueEvent<'_>) {
        let start = self.arena.len();
        event.encode(&mut self.arena);
        let body = self.span(start);
        self.push(table, schema, Operation::Opaque, body);
    }

    fn push(&mut self, table: TableId, schema: SchemaVersion, operation: Operation, body: Span) {
        self.entries.push(Entry::Record(RecordEntry {
            table,
            schema,
            operation,
            flags: 0,
            key_token: 0,
            body,
        }));
    }

    /// Starts a row; write its images with the returned writer, in the order before, after, then call
    /// [`RowWriter::finish`]. Dropping it unfinished takes its bytes back.
    #[inline]
    pub fn row(&mut self, table: TableId, schema: SchemaVersion, meta: RowMeta) -> RowWriter<'_> {
        let start = self.arena.len();
        self.arena.push(0);
        put_u64(&mut self.arena, u64::from(meta.group));
        put_u64(&mut self.arena, meta.end_offset);
        put_u64(&mut self.arena, u64::from(meta.time_s));
        RowWriter {
            batch: self,
            table,
            schema,
            start,
            finished: false,
        }
    }
}

/// Writes one row's images into the arena.
#[derive(Debug)]
pub struct RowWriter<'a> {
    batch: &'a mut Batch,
    table: TableId,
    schema: SchemaVersion,
    start: usize,
    finished: bool,
}

impl RowWriter<'_> {
    /// The image before the change.
    #[inline]
    pub fn before(&mut self, column_count: usize) -> ImageWriter<'_> {
        self.batch.arena[self.start] |= BODY_BEFORE;
        ImageWriter::new(&mut self.batch.arena, column_count)
    }

    /// The image after the change.
    #[inline]
    pub fn after(&mut self, column_count: usize) -> ImageWriter<'_> {
        self.batch.arena[self.start] |= BODY_AFTER;
        ImageWriter::new(&mut self.batch.arena, column_count)
    }

    /// The image before the change, of a row with times of its own.
    pub fn before_with_times(&mut self, column_count: usize, times: &Times) -> ImageWriter<'_> {
        self.batch.arena[self.start] |= BODY_BEFORE | BODY_TIMES_BEFORE;
        ImageWriter::with_times(&mut self.batch.arena, column_count, times)
    }

    /// The image after the change, of a row with times of its own.
    pub fn after_with_times(&mut self, column_count: usize, times: &Times) -> ImageWriter<'_> {
        self.batch.arena[self.start] |= BODY_AFTER | BODY_TIMES_AFTER;
        ImageWriter::with_times(&mut self.batch.arena, column_count, times)
    }

    /// Length of the arena now: with [`RowWriter::written`] a decoder can look at the cells it has
    /// just written (to compare or hash them).
    #[inline]
    pub fn offset(&self) -> usize {
        self.batch.arena.len()
    }

    /// The bytes written since `offset`.
    #[inline]
    pub fn written(&self, offset: usize) -> &[u8] {
        &self.batch.arena[offset..]
    }

    /// Copies an image written elsewhere (stored form with its column count, of a row without times) as the before image.
    pub fn copy_before(&mut self, image: &[u8]) {
        self.batch.arena[self.start] |= BODY_BEFORE;
        self.batch.arena.extend_from_slice(image);
    }

    /// Copies such an image as the after image.
    pub fn copy_after(&mut self, image: &[u8]) {
        self.batch.arena[self.start] |= BODY_AFTER;
        self.batch.arena.extend_from_slice(image);
    }

    /// The row is whole.
    #[inline]
    pub fn finish(mut self, operation: Operation, flags: u8, key_token: u64) {
        self.finished = true;
        let body = self.batch.span(self.start);
        self.batch.entries.push(Entry::Record(RecordEntry {
            table: self.table,
            schema: self.schema,
            operation,
            flags,
            key_token,
            body,
        }));
    }
}

impl Drop for RowWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.batch.arena.truncate(self.start);
        }
    }
}

/// A row record's body, read in place.
#[derive(Debug, Clone, Copy)]
pub struct RowBody<'a> {
    /// Where the row stood.
    pub meta: RowMeta,
    /// The image before the change, if stored.
    pub before: Option<crate::Image<'a>>,
    /// The image after the change, if stored.
    pub after: Option<crate::Image<'a>>,
}

impl<'a> RowBody<'a> {
    /// Reads a body that [`Batch::row`] wrote.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut r = WireReader::new(bytes);
        let flags = r.u8()?;
        let meta = RowMeta {
            group: r.u32()?,
            end_offset: r.u64()?,
            time_s: r.u32()?,
        };
        let mut image = |bit, times_bit| match (flags & bit, flags & times_bit) {
            (0, _) => Ok(None),
            (_, 0) => crate::Image::read(&mut r, bytes).map(Some),
            _ => crate::Image::read_with_times(&mut r, bytes).map(Some),
        };
        Ok(Self {
            meta,
            before: image(BODY_BEFORE, BODY_TIMES_BEFORE)?,
            after: image(BODY_AFTER, BODY_TIMES_AFTER)?,
        })
    }
}

/// An event that could not be decoded, with all that a later decoder needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueEvent<'a> {
    /// Why it could not be decoded.
    pub reason: &'a str,
    /// Where it stood in the source's log.
    pub meta: RowMeta,
    /// The event that describes it (the table map with its header), may be empty.
    pub description: &'a [u8],
    /// The event itself with its header.
    pub event: &'a [u8],
}

impl<'a> OpaqueEvent<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        crate::wire::put_bytes(out, self.reason.as_bytes());
        put_u64(out, u64::from(self.meta.group));
        put_u64(out, self.meta.end_offset);
        put_u64(out, u64::from(self.meta.time_s));
        crate::wire::put_bytes(out, self.description);
        crate::wire::put_bytes(out, self.event);
    }

    /// Reads the stored form.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut r = WireReader::new(bytes);
        Ok(Self {
            reason: r.text()?,
            meta: RowMeta {
                group: r.u32()?,
                end_offset: r.u64()?,
                time_s: r.u32()?,
            },
            description: r.bytes()?,
            event: r.bytes()?,
        })
    }
}

/// The hash of a row's key: XXH3-64 over the stored cells of its key columns in key order (of all
/// columns for a table without a key). It is part of the journal's format.
pub fn key_token(image: &crate::Image<'_>, key: &[u32]) -> u64 {
    if key.is_empty() {
        return xxhash_rust::xxh3::xxh3_64(image.cell_bytes());
    }
    let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
    let mut buffer = Vec::new();
    for index in key {
        buffer.clear();
        value::put_cell(&mut buffer, image.cell(*index as usize));
        hasher.update(&buffer);
    }
    hasher.digest()
}

/// The same hash over cells that already lie one after another in key order.
#[inline]
pub fn key_token_of_bytes(cells: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Cell, Value};

    #[test]
    fn times_and_what_is_outside_of_a_record_come_back() {
        let mut batch = Batch::default();
        let mut row = batch.row(TableId(1), SchemaVersion(1), RowMeta::default());
        let written = |write_us| Times {
            write_us: Some(write_us),
            expires_s: None,
        };
        let expiring = Times {
            write_us: Some(3),
            expires_s: Some(4),
        };
        let mut before = row.before_with_times(2, &written(1));
        before.value(Value::Int(7));
        before.outside();
        let mut after = row.after_with_times(2, &Times::default());
        after.value(Value::Int(7));
        after.times(&expiring);
        after.cell(Cell::Null);
        row.finish(Operation::Update, FLAG_STATIC | FLAG_EXPIRED, 1);
        let [Entry::Record(record)] = batch.entries() else {
            panic!("a row")
        };
        assert_eq!(record.flags, FLAG_STATIC | FLAG_EXPIRED);
        let bytes = batch.bytes(record.body);
        let body = RowBody::read(bytes).unwrap();
        let (before, after) = (body.before.unwrap(), body.after.unwrap());
        assert_eq!(
            (before.times(), after.times()),
            (written(1), Times::default())
        );
        assert_eq!(before.cell(0), Cell::Value(Value::Int(7)));
        assert_eq!(before.cell(1), Cell::Unknown);
        assert!(before.is_whole() && after.is_whole());
        let mut cells = after.cells();
        let first = cells.next_with_times();
        assert_eq!(first, Some((Cell::Value(Value::Int(7)), Times::default())));
        assert_eq!(cells.next_with_times(), Some((Cell::Null, expiring)));
        assert_eq!(cells.next_with_times(), None);
        assert_eq!(after.cell(1), Cell::Null, "who asks for no times sees none");
        for cut in 0..bytes.len() {
            assert!(RowBody::read(&bytes[..cut]).is_err());
        }
        let expected = [15, 0, 0, 0, 2, 1, 2, 2, 14, 25, 2, 0, 2, 14, 26, 3, 6, 8, 1];
        assert_eq!(bytes, expected, "the stored form");
    }

    #[test]
    fn an_image_with_an_unknown_cell_is_not_whole() {
        let mut bytes = Vec::new();
        let mut image = ImageWriter::new(&mut bytes, 2);
        image.outside();
        image.cell(Cell::Unknown);
        let image = crate::Image::read(&mut WireReader::new(&bytes), &bytes).unwrap();
        assert!(!image.is_whole());
    }

    #[test]
    fn rows_come_back_and_an_unfinished_row_leaves_nothing() {
        let mut batch = Batch::default();
        batch.begin(&TransactionHeader::default());
        let meta = RowMeta {
            group: 3,
            end_offset: 99,
            time_s: 7,
        };
        let mut row = batch.row(TableId(1), SchemaVersion(2), meta);
        let mut before = row.before(2);
        before.value(Value::Int(1));
        before.cell(Cell::Null);
        let mut after = row.after(2);
        after.value(Value::Int(1));
        after.value(Value::Text("x"));
        row.finish(Operation::Update, 0, 42);
        let size = batch.byte_count();
        drop(batch.row(TableId(1), SchemaVersion(2), meta));
        assert_eq!(batch.byte_count(), size);

        let Entry::Record(record) = batch.entries()[1] else {
            panic!("a row")
        };
        let body = RowBody::read(batch.bytes(record.body)).unwrap();
        assert_eq!(body.meta, meta);
        assert_eq!(body.before.unwrap().cell(1), Cell::Null);
        let after = body.after.unwrap();
        assert_eq!(after.cell(1), Cell::Value(Value::Text("x")));
        assert_eq!(after.cell(2), Cell::Unknown);
        let mut key = Vec::new();
        value::put_cell(&mut key, after.cell(0));
        assert_eq!(key_token(&after, &[0]), key_token_of_bytes(&key));
    }
}
