//! A row as it was before or after a change.
//!
//! Shape: the number of columns (varint), then one stored cell per column in table order. It is
//! written once, by the source, and copied as it is into the journal and read in place by formats.

use crate::value::{Cell, Value, put_cell, put_value, read_cell};
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
    /// The arena, for a decoder that writes the stored form itself (see [`crate::value::put_value`]).
    #[inline]
    pub fn arena(&mut self) -> &mut Vec<u8> {
        self.out
    }
}

/// A stored image, read in place.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    column_count: usize,
    cells: &'a [u8],
}

impl<'a> Image<'a> {
    /// Takes one image off `reader`, checking that every cell is whole.
    ///
    /// Errors: [`WireError`] where the bytes are damaged.
    pub fn read(reader: &mut WireReader<'a>, whole: &'a [u8]) -> Result<Self, WireError> {
        let count = reader.u64()?;
        let start = reader.offset();
        for _ in 0..count {
            read_cell(reader)?;
        }
        let cells = whole.get(start..reader.offset()).ok_or(WireError {
            offset: start,
            what: "an image within its record",
        })?;
        Ok(Self {
            column_count: count as usize,
            cells,
        })
    }

    /// How many columns the image has.
    pub fn column_count(&self) -> usize {
        self.column_count
    }

    /// The stored cells, for comparing two images byte by byte.
    pub fn cell_bytes(&self) -> &'a [u8] {
        self.cells
    }

    /// The cells in table order.
    pub fn cells(&self) -> Cells<'a> {
        Cells {
            reader: WireReader::new(self.cells),
            bytes: self.cells,
            left: self.column_count,
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
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;
    fn next(&mut self) -> Option<Cell<'a>> {
        self.next_with_bytes().map(|(cell, _)| cell)
    }
}
