//! When something was written, and when it expires.

use crate::wire::{WireError, WireReader, put_i64};

/// When a row, a cell or an element of a collection was written, and when it expires; either may be unknown.
///
/// Shape: a byte that says which are there, then each as a signed integer.
/// Source: a cell's timestamp and local deletion time in Cassandra's commit log; `WRITETIME` and now + `TTL` in CQL. A
/// client that sets `USING TIMESTAMP` may have written any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Microseconds since 1970.
    pub write_us: Option<i64>,
    /// Seconds since 1970; none for what does not expire.
    pub expires_s: Option<i64>,
}

const WRITTEN: u8 = 1;
const EXPIRES: u8 = 2;

impl Times {
    /// Whether neither is known.
    pub fn is_empty(&self) -> bool {
        self.write_us.is_none() && self.expires_s.is_none()
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let bit = |time: Option<i64>, bit: u8| if time.is_some() { bit } else { 0 };
        out.push(bit(self.write_us, WRITTEN) | bit(self.expires_s, EXPIRES));
        for time in [self.write_us, self.expires_s].into_iter().flatten() {
            put_i64(out, time);
        }
    }

    /// Reads the stored form.
    ///
    /// Errors: [`WireError`] where the bytes are damaged.
    pub fn decode(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let offset = reader.offset();
        let flags = reader.u8()?;
        if flags & !(WRITTEN | EXPIRES) != 0 {
            return Err(WireError {
                offset,
                what: "known times of a cell",
            });
        }
        let mut time = |bit: u8| match flags & bit {
            0 => Ok(None),
            _ => reader.i64().map(Some),
        };
        Ok(Self {
            write_us: time(WRITTEN)?,
            expires_s: time(EXPIRES)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_and_unknown_ones_are_refused() {
        for write_us in [None, Some(i64::MIN), Some(1_795_910_400_120_000)] {
            for expires_s in [None, Some(2_426_723_797)] {
                let times = Times {
                    write_us,
                    expires_s,
                };
                let mut bytes = Vec::new();
                times.encode(&mut bytes);
                let mut reader = WireReader::new(&bytes);
                assert_eq!(Times::decode(&mut reader), Ok(times));
                assert!(reader.is_empty());
                assert_eq!(times.is_empty(), bytes == [0]);
            }
        }
        assert!(Times::decode(&mut WireReader::new(&[4, 0])).is_err());
        assert!(Times::decode(&mut WireReader::new(&[1])).is_err());
    }
}
