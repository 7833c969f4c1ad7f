//! Rows of the binary protocol: exact floats, and dates as they are.

use super::error::WireFailure;
use crate::binlog::bytes::{Bytes, bit};

/// One column of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryColumn {
    /// Its type, numbered as in the log.
    pub kind: u8,
    /// Collation number.
    pub collation: u16,
    /// UNSIGNED.
    pub unsigned: bool,
}

impl BinaryColumn {
    /// Reads a column definition.
    pub fn read(message: &[u8]) -> Result<Self, WireFailure> {
        let mut b = Bytes::new(message);
        for _ in 0..6 {
            b.lenenc_bytes("a column's names")?;
        }
        // MariaDB may put type extensions here, if it was told that they are understood; it is not.
        b.lenenc("the fixed part")?;
        let collation = b.u16("collation")?;
        b.u32("length")?;
        let kind = b.u8("type")?;
        let flags = b.u16("flags")?;
        Ok(Self {
            kind,
            collation,
            unsigned: flags & 32 != 0,
        })
    }
}

/// One row, in place.
#[derive(Debug, Clone, Copy)]
pub struct BinaryRow<'a> {
    nulls: &'a [u8],
    index: usize,
    rest: Bytes<'a>,
    /// Bytes of the whole row.
    pub bytes: usize,
}

impl<'a> BinaryRow<'a> {
    /// Splits a row message.
    pub fn new(message: &'a [u8], columns: usize) -> Result<Self, WireFailure> {
        let mut b = Bytes::new(message);
        b.u8("a row's mark")?;
        let nulls = b.take((columns + 9) / 8, "the NULL bitmap")?;
        Ok(Self {
            nulls,
            index: 0,
            rest: b,
            bytes: message.len(),
        })
    }

    /// Whether the next column is NULL; moves to it.
    pub fn next_is_null(&mut self) -> bool {
        self.index += 1;
        bit(self.nulls, self.index + 1)
    }

    /// The bytes from the current column on.
    pub fn cell(&mut self) -> &mut Bytes<'a> {
        &mut self.rest
    }
}
