//! Variable-length integers and length-prefixed bytes: how stored values are laid out.
//!
//! Integers are LEB128 (7 bits a byte, low first); signed ones are zig-zag coded first. The reader
//! never panics: bytes from outside may be damaged.

/// The stored bytes ended early, or hold a number that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("decode stored bytes at offset {offset}: {what}")]
pub struct WireError {
    /// Offset within the buffer handed to the reader.
    pub offset: usize,
    /// What was expected there.
    pub what: &'static str,
}

/// Appends an unsigned integer, 1 to 10 bytes.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else if value < 0x4000 {
        out.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]);
    } else {
        put_long(out, value);
    }
}

/// Three bytes and more: laid out beside, so that the buffer grows once.
#[inline]
fn put_long(out: &mut Vec<u8>, mut value: u64) {
    let mut bytes = [0u8; 10];
    let mut count = 0;
    while value >= 0x80 {
        bytes[count] = value as u8 | 0x80;
        value >>= 7;
        count += 1;
    }
    bytes[count] = value as u8;
    out.extend_from_slice(&bytes[..=count]);
}

/// Appends a signed integer, zig-zag coded.
#[inline]
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a length and the bytes.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends an optional text: 0 for none, else length + 1 and the bytes.
pub fn put_option(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        None => out.push(0),
        Some(text) => {
            put_u64(out, text.len() as u64 + 1);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Reads what the `put_*` functions wrote.
#[derive(Debug, Clone)]
pub struct WireReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> WireReader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Bytes already read.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.offset >= self.bytes.len()
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, WireError> {
        Err(WireError {
            offset: self.offset,
            what,
        })
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, WireError> {
        match self.bytes.get(self.offset) {
            Some(byte) => {
                self.offset += 1;
                Ok(*byte)
            }
            None => self.fail("one more byte"),
        }
    }

    /// An unsigned integer.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                return self.fail("an integer of at most 64 bits");
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
            if shift > 63 {
                return self.fail("an integer of at most 10 bytes");
            }
        }
    }

    /// An unsigned integer that fits 32 bits.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        let value = self.u64()?;
        u32::try_from(value).or_else(|_| self.fail("an integer of at most 32 bits"))
    }

    /// A signed integer.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, WireError> {
        let coded = self.u64()?;
        Ok((coded >> 1) as i64 ^ -((coded & 1) as i64))
    }

    /// Exactly `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        match self
            .bytes
            .get(self.offset..)
            .and_then(|rest| rest.get(..count))
        {
            Some(bytes) => {
                self.offset += count;
                Ok(bytes)
            }
            None => self.fail("more bytes than are left"),
        }
    }

    /// Exactly `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A length and its bytes.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let count = self.u64()?;
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// A length and its bytes, which must be UTF-8.
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, WireError> {
        let start = self.offset;
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| WireError {
            offset: start,
            what: "UTF-8 text",
        })
    }

    /// What [`put_option`] wrote.
    pub fn option(&mut self) -> Result<Option<&'a str>, WireError> {
        let start = self.offset;
        match self.u64()? {
            0 => Ok(None),
            count => {
                let bytes = self.take(usize::try_from(count - 1).unwrap_or(usize::MAX))?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => Ok(Some(text)),
                    Err(_) => Err(WireError {
                        offset: start,
                        what: "UTF-8 text",
                    }),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width_come_back() {
        let mut out = Vec::new();
        let unsigned = [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), u64::MAX];
        let signed = [0, -1, 1, i64::MIN, i64::MAX, -64, 64];
        unsigned.iter().for_each(|v| put_u64(&mut out, *v));
        signed.iter().for_each(|v| put_i64(&mut out, *v));
        let mut reader = WireReader::new(&out);
        unsigned
            .iter()
            .for_each(|v| assert_eq!(reader.u64(), Ok(*v)));
        signed.iter().for_each(|v| assert_eq!(reader.i64(), Ok(*v)));
        assert!(reader.is_empty());
    }

    #[test]
    fn damaged_bytes_are_an_error_not_a_panic() {
        assert!(WireReader::new(&[0xff; 11]).u64().is_err());
        assert!(WireReader::new(&[5, 1, 2]).bytes().is_err());
        assert!(
            WireReader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])
                .bytes()
                .is_err()
        );
        assert!(WireReader::new(&[2, 0xc3, 0x28]).text().is_err());
    }
}
