//! Reads fixed-size and length-encoded fields off an event, in place.
//!
//! Refuses: panics and allocations. Whatever the bytes are, the answer is a value or an error that
//! names the byte.

/// Why an event could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes make no sense.
    #[error("{what} is missing or impossible (byte {offset} of the event)")]
    Damaged {
        /// What was expected.
        what: &'static str,
        /// Offset within the event's body.
        offset: usize,
    },
    /// The event's CRC32 does not match its bytes.
    #[error(
        "the checksum does not match: the log says {stored:08x}, the bytes give {computed:08x}"
    )]
    Checksum {
        /// As in the event.
        stored: u32,
        /// As computed.
        computed: u32,
    },
    /// Compressed bytes do not inflate, or not to the stated size.
    #[error("inflate {what}: {detail}")]
    Compression {
        /// What was compressed.
        what: &'static str,
        /// The codec's words.
        detail: String,
    },
    /// Whole, but of a kind that is not understood.
    #[error("{0}")]
    Unsupported(String),
    /// The server recorded that something is missing from its log.
    #[error("the server recorded an incident ({0}): its log lacks changes here")]
    Incident(String),
}

/// The result of decoding.
pub type Decoded<T> = Result<T, DecodeError>;

/// A place in a slice of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

macro_rules! little_endian {
    ($($(#[$doc:meta])* $name:ident: $n:literal => $t:ty),*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self, what: &'static str) -> Decoded<$t> {
            let Some(bytes) = self.all[self.at..].first_chunk::<$n>() else {
                return self.fail(what);
            };
            let mut whole = [0u8; std::mem::size_of::<$t>()];
            whole[..$n].copy_from_slice(bytes);
            self.at += $n;
            Ok(<$t>::from_le_bytes(whole))
        }
    )*};
}

impl<'a> Bytes<'a> {
    /// Starts at the first byte.
    #[inline]
    pub fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    /// Bytes already read.
    #[inline]
    pub fn offset(&self) -> usize {
        self.at
    }

    /// What is left.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.all[self.at..]
    }

    /// Whether everything was read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at >= self.all.len()
    }

    /// An error at this place.
    #[cold]
    pub fn fail<T>(&self, what: &'static str) -> Decoded<T> {
        Err(DecodeError::Damaged {
            what,
            offset: self.at,
        })
    }

    /// Exactly `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize, what: &'static str) -> Decoded<&'a [u8]> {
        let rest = &self.all[self.at..];
        if count > rest.len() {
            return self.fail(what);
        }
        self.at += count;
        Ok(&rest[..count])
    }

    /// Exactly `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Decoded<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    little_endian! {
        /// One byte.
        u8: 1 => u8,
        /// Two bytes, little endian.
        u16: 2 => u16,
        /// Three bytes, little endian.
        u24: 3 => u32,
        /// Four bytes, little endian.
        u32: 4 => u32,
        /// Five bytes, little endian.
        u40: 5 => u64,
        /// Six bytes, little endian.
        u48: 6 => u64,
        /// Seven bytes, little endian.
        u56: 7 => u64,
        /// Eight bytes, little endian.
        u64: 8 => u64
    }

    /// `count` (at most 8) bytes as a little-endian number.
    #[inline]
    pub fn uint(&mut self, count: usize, what: &'static str) -> Decoded<u64> {
        let bytes = self.take(count, what)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// `count` (at most 8) bytes as a big-endian number.
    #[inline]
    pub fn uint_be(&mut self, count: usize, what: &'static str) -> Decoded<u64> {
        // Eight bytes at once where there are that many, which is nearly always.
        if let Some(eight) = self.all[self.at..].first_chunk::<8>()
            && (1..=8).contains(&count)
        {
            self.at += count;
            return Ok(u64::from_be_bytes(*eight) >> (64 - 8 * count));
        }
        let bytes = self.take(count, what)?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A length-encoded integer.
    #[inline]
    pub fn lenenc(&mut self, what: &'static str) -> Decoded<u64> {
        match self.u8(what)? {
            byte @ 0..=250 => Ok(u64::from(byte)),
            252 => self.u16(what).map(u64::from),
            253 => self.u24(what).map(u64::from),
            254 => self.u64(what),
            _ => self.fail(what),
        }
    }

    /// A length-encoded integer that counts or indexes something held in this slice.
    #[inline]
    pub fn count(&mut self, what: &'static str) -> Decoded<usize> {
        let value = self.lenenc(what)?;
        usize::try_from(value).or_else(|_| self.fail(what))
    }

    /// A length-encoded string.
    #[inline]
    pub fn lenenc_bytes(&mut self, what: &'static str) -> Decoded<&'a [u8]> {
        let count = self.count(what)?;
        self.take(count, what)
    }

    /// Bytes up to a NUL, which is consumed.
    pub fn until_nul(&mut self, what: &'static str) -> Decoded<&'a [u8]> {
        match self.rest().iter().position(|byte| *byte == 0) {
            Some(count) => {
                let bytes = self.take(count, what)?;
                self.at += 1;
                Ok(bytes)
            }
            None => self.fail(what),
        }
    }
}

/// Whether bit `index` of a bitmap (low bit first) is set.
#[inline]
pub fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap
        .get(index / 8)
        .is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

/// Bits set among the first `count`.
#[inline]
pub fn count_bits(bitmap: &[u8], count: usize) -> usize {
    let whole: u32 = bitmap[..count / 8].iter().map(|b| b.count_ones()).sum();
    let rest = match count % 8 {
        0 => 0,
        left => (bitmap[count / 8] & ((1u8 << left) - 1)).count_ones(),
    };
    (whole + rest) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_integers_have_four_widths() {
        let mut b = Bytes::new(&[
            250, 252, 0xfb, 0, 253, 1, 2, 3, 254, 1, 0, 0, 0, 0, 0, 0, 0, 251,
        ]);
        let read: Vec<u64> = (0..4).map(|_| b.lenenc("n").unwrap()).collect();
        assert_eq!(read, [250, 251, 0x030201, 1]);
        assert!(b.lenenc("n").is_err());
    }

    #[test]
    fn reading_past_the_end_names_the_byte() {
        let mut b = Bytes::new(&[1, 2, 3]);
        b.u16("a").unwrap();
        assert_eq!(
            b.u32("b"),
            Err(DecodeError::Damaged {
                what: "b",
                offset: 2
            })
        );
        assert_eq!(count_bits(&[0xff, 0xff], 11), 11);
    }
}
