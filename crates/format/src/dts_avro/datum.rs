//! Avro's binary encoding, low level: how numbers, texts and blocks stand in a datum.
//!
//! Shape: `int` and `long` are zig-zag coded, seven bits a byte, low first; `string` and `bytes` have
//! their length before them; `double` is eight bytes, little endian; arrays and maps are blocks of
//! `count` entries, the last block empty; a union is the index of its branch and the branch's value.
//! Source: Apache Avro specification, "Binary Encoding".

use crate::decode::Fault;
use change::wire::put_i64;

/// Appends an `int`, a `long`, a union's branch or an enum's symbol.
#[inline]
pub fn put_long(out: &mut Vec<u8>, value: i64) {
    put_i64(out, value);
}

/// Appends `bytes`.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

/// Appends a `string`.
#[inline]
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Appends a `double`.
#[inline]
pub fn put_double(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A few fields put together in place, so that the message's buffer grows once for all of them.
#[derive(Debug, Clone)]
pub struct Stack<const N: usize> {
    bytes: [u8; N],
    count: usize,
}

impl<const N: usize> Stack<N> {
    /// An empty one; `N` must be enough for all that is put into it.
    #[inline]
    pub fn new() -> Self {
        Self {
            bytes: [0; N],
            count: 0,
        }
    }

    /// Puts an `int`, a `long`, a branch or a symbol.
    #[inline]
    pub fn long(&mut self, value: i64) {
        let mut coded = ((value << 1) ^ (value >> 63)) as u64;
        while coded >= 0x80 {
            self.byte(coded as u8 | 0x80);
            coded >>= 7;
        }
        self.byte(coded as u8);
    }

    /// Puts `bytes` or a `string`.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.long(bytes.len() as i64);
        self.raw(bytes);
    }

    /// Puts bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes[self.count..self.count + bytes.len()].copy_from_slice(bytes);
        self.count += bytes.len();
    }

    /// What was put.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.count]
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.count] = byte;
        self.count += 1;
    }
}

impl<const N: usize> Default for Stack<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// A short text made in place, without an allocation.
#[derive(Debug, Clone)]
pub struct Short {
    bytes: [u8; 128],
    count: usize,
}

impl Short {
    /// Formats; nothing when the text has more than 128 bytes.
    pub fn of(text: std::fmt::Arguments<'_>) -> Option<Self> {
        let mut short = Self {
            bytes: [0; 128],
            count: 0,
        };
        std::fmt::write(&mut short, text).ok().map(|()| short)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.count]).expect("whole texts were appended")
    }
}

impl std::fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes[self.count..]
            .get_mut(..text.len())
            .ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.count += text.len();
        Ok(())
    }
}

/// Reads a datum. Every length is checked against what is left before anything is made of it.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// What was expected and not found, and where; the caller knows the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the datum.
    pub offset: usize,
    /// What was expected there.
    pub what: &'static str,
}

impl Damage {
    /// The fault of this damage at `path`.
    pub fn at(self, path: impl Into<String>) -> Fault {
        Fault {
            format: super::NAME,
            offset: self.offset,
            path: path.into(),
            what: format!("expected {}", self.what),
        }
    }
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Bytes already read.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes not read yet.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// A damage at the place that is read next.
    pub fn damage(&self, what: &'static str) -> Damage {
        let offset = self.offset;
        Damage { offset, what }
    }

    /// A `long`, at most ten bytes.
    #[inline]
    pub fn long(&mut self) -> Result<i64, Damage> {
        let start = self.damage("a number");
        let mut coded = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.offset).ok_or(start)?;
            self.offset += 1;
            if shift == 63 && byte > 1 {
                return Err(start);
            }
            coded |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((coded >> 1) as i64 ^ -((coded & 1) as i64));
            }
        }
        Err(start)
    }

    /// An `int`.
    #[inline]
    pub fn int(&mut self) -> Result<i32, Damage> {
        let start = self.damage("a number of at most 32 bits");
        i32::try_from(self.long()?).map_err(|_| start)
    }

    /// A union's branch or an enum's symbol, below `count`.
    #[inline]
    pub fn branch(&mut self, count: usize) -> Result<usize, Damage> {
        let start = self.damage("a known branch");
        usize::try_from(self.long()?)
            .ok()
            .filter(|branch| *branch < count)
            .ok_or(start)
    }

    /// `bytes`.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Damage> {
        let start = self.damage("a length within the message");
        let count = usize::try_from(self.long()?).map_err(|_| start)?;
        self.take(count).ok_or(start)
    }

    /// A `string`.
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, Damage> {
        let start = self.damage("UTF-8 text");
        std::str::from_utf8(self.bytes()?).map_err(|_| start)
    }

    /// A `double`.
    pub fn double(&mut self) -> Result<f64, Damage> {
        let start = self.damage("eight bytes of a number");
        let bytes = self.take(8).ok_or(start)?;
        Ok(f64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// The number of entries in the next block of an array or a map, 0 after the last.
    ///
    /// Shape: `entry_bytes_min` is the least that an entry takes, so that a count that the rest of
    /// the message cannot hold is found before anything is reserved for it.
    pub fn block(&mut self, entry_bytes_min: usize) -> Result<usize, Damage> {
        let start = self.damage("a count within the message");
        let mut count = self.long()?;
        if count < 0 {
            // A negative count has the block's size in bytes after it.
            count = count.checked_neg().ok_or(start)?;
            let size = self.long()?;
            usize::try_from(size)
                .ok()
                .filter(|size| *size <= self.left())
                .ok_or(start)?;
        }
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.left() / entry_bytes_min)
            .ok_or(start)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes[self.offset..].get(..count)?;
        self.offset += count;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_edges_come_back() {
        for value in [0, -1, 1, 63, -64, 64, i64::MIN, i64::MAX, 1_696_984_408] {
            let mut out = Vec::new();
            put_long(&mut out, value);
            assert_eq!(Reader::new(&out).long(), Ok(value));
        }
        assert!(Reader::new(&[0xff; 10]).long().is_err());
        assert!(Reader::new(&[0x80]).long().is_err());
    }

    #[test]
    fn lengths_and_counts_past_the_end_are_refused() {
        let mut out = Vec::new();
        put_long(&mut out, i64::MAX);
        assert!(Reader::new(&out).bytes().is_err());
        assert!(Reader::new(&out).block(1).is_err());
        out.clear();
        put_long(&mut out, -1);
        assert!(Reader::new(&out).bytes().is_err());
        out.clear();
        put_long(&mut out, i64::MIN);
        put_long(&mut out, 0);
        assert!(Reader::new(&out).block(1).is_err());
    }

    #[test]
    fn a_block_with_its_size_reads_as_one_without() {
        let mut out = Vec::new();
        for value in [-2, 2, 7, 8, 0] {
            put_long(&mut out, value);
        }
        let mut reader = Reader::new(&out);
        assert_eq!(reader.block(1), Ok(2));
        assert_eq!((reader.long(), reader.long()), (Ok(7), Ok(8)));
        assert_eq!(reader.block(1), Ok(0));
    }
}
