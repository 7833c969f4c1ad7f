//! A row as it was before or after a change.
//!
//! Shape: the number of columns (varint), the row's times where the record says that it has them, then
//! one stored cell per column in table order. It is written once, by the source, and copied as it is
//! into the journal and read in place by formats.

use crate::cql::{self, Times};
use crate::value::{Cell, Value, put_cell, put_value, read_cell, read_timed_cell, tag};
use crate::wire::{WireError, WireReader, put_u64};

/// Writes one image into an arena.
#[derive(Debug)]
pub struct ImageWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> ImageWriter<'a> {
    /// Starts an image of `column_count` columns at the end of `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, column_count: usize) -> Self {
        put_u64(out, column_count as u64);
        Self { out }
    }
    /// Starts an image of a row with times; the record has to say so (see [`crate::batch::RowWriter`]).
    pub(crate) fn with_times(out: &'a mut Vec<u8>, column_count: usize, times: &Times) -> Self {
        let writer = Self::new(out, column_count);
        times.encode(writer.out);
        writer
    }
    /// Appends the next column's cell.
    #[inline]
    pub fn cell(&mut self, cell: Cell<'_>) {
        put_cell(self.out, cell);
    }
    /// Appends the next column's value.
    #[inline]
    pub fn value(&mut self, value: Value<'_>) {
        put_value(self.out, value);
    }
    /// Appends the times of the cell that is appended next, where it has its own.
    pub fn times(&mut self, times: &Times) {
        cql::put_times(self.out, times);
    }
    /// Appends the head of a nested value: the next `cell_count` cells are its own, of a map key and value in turn. Each
    /// may have times, and may itself be nested.
    pub fn nested(&mut self, cell_count: usize) {
        cql::put_head(self.out, cell_count);
    }
    /// The next column is no part of the record: a static column in a row's, any but the partition key and the static
    /// columns in a static row's. It reads as [`Cell::Unknown`] and leaves the image whole.
    pub fn outside(&mut self) {
        self.out.push(tag::OUTSIDE);
    }
    /// The arena, for a decoder that writes the stored form itself (see [`crate::value::put_value`]).
    #[inline]
    pub fn arena(&mut self) -> &mut Vec<u8> {
        self.out
    }
}

/// A stored image, read in place.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    column_count: u32,
    /// How many of the bytes are the row's times, before the cells.
    times_len: u8,
    bytes: &'a [u8],
}

impl<'a> Image<'a> {
    /// Takes one image off `reader`, checking that every cell is whole.
    ///
    /// Errors: [`WireError`] where the bytes are damaged.
    pub fn read(reader: &mut WireReader<'a>, whole: &'a [u8]) -> Result<Self, WireError> {
        Self::take(reader, whole, false)
    }

    /// The same of an image that begins with the row's times.
    ///
    /// Errors: [`WireError`] where the bytes are damaged.
    pub(crate) fn read_with_times(
        reader: &mut WireReader<'a>,
        whole: &'a [u8],
    ) -> Result<Self, WireError> {
        Self::take(reader, whole, true)
    }

    #[inline]
    fn take(
        reader: &mut WireReader<'a>,
        whole: &'a [u8],
        has_times: bool,
    ) -> Result<Self, WireError> {
        let column_count = reader.u32()?;
        let start = reader.offset();
        if has_times {
            Times::decode(reader)?;
        }
        // A byte and two numbers of at most ten.
        let times_len = (reader.offset() - start) as u8;
        for _ in 0..column_count {
            read_cell(reader)?;
        }
        let bytes = whole.get(start..reader.offset()).ok_or(WireError {
            offset: start,
            what: "an image within its record",
        })?;
        Ok(Self {
            column_count,
            times_len,
            bytes,
        })
    }

    /// How many columns the image has.
    pub fn column_count(&self) -> usize {
        self.column_count as usize
    }

    /// The stored cells, for comparing two images byte by byte.
    #[inline]
    pub fn cell_bytes(&self) -> &'a [u8] {
        &self.bytes[usize::from(self.times_len)..]
    }

    /// When the row itself was written and expires, where the source tells.
    pub fn times(&self) -> Times {
        match self.times_len {
            0 => Times::default(),
            _ => Times::decode(&mut WireReader::new(self.bytes)).unwrap_or_default(),
        }
    }

    /// Whether every cell is known that is of the record: see [`ImageWriter::outside`].
    pub fn is_whole(&self) -> bool {
        let mut cells = self.cells();
        std::iter::from_fn(|| cells.next_with_bytes())
            .all(|(cell, bytes)| cell != Cell::Unknown || bytes == [tag::OUTSIDE])
    }

    /// The cells in table order.
    pub fn cells(&self) -> Cells<'a> {
        Cells {
            reader: WireReader::new(self.cell_bytes()),
            bytes: self.cell_bytes(),
            left: self.column_count(),
        }
    }

    /// The cell of one column; unknown past the image's end.
    pub fn cell(&self, column_index: usize) -> Cell<'a> {
        self.cells().nth(column_index).unwrap_or(Cell::Unknown)
    }
}

/// Iterates an image's cells.
#[derive(Debug, Clone)]
pub struct Cells<'a> {
    reader: WireReader<'a>,
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Cells<'a> {
    /// The next cell and its stored bytes.
    pub fn next_with_bytes(&mut self) -> Option<(Cell<'a>, &'a [u8])> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let start = self.reader.offset();
        let cell = read_cell(&mut self.reader).expect("image was checked when it was read");
        Some((cell, &self.bytes[start..self.reader.offset()]))
    }

    /// The next cell and its own times.
    pub fn next_with_times(&mut self) -> Option<(Cell<'a>, Times)> {
        self.left = self.left.checked_sub(1)?;
        Some(read_timed_cell(&mut self.reader).expect("image was checked when it was read"))
    }
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;
    fn next(&mut self) -> Option<Cell<'a>> {
        self.next_with_bytes().map(|(cell, _)| cell)
    }
}
