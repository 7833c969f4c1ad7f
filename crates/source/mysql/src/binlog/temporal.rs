//! Dates and times in their stored forms: the packed ones of MySQL 5.6+, the old ones, and MariaDB's
//! own old ones with fractions.

use super::bytes::{Bytes, Decoded};
use super::json::{unpack_datetime, unpack_time};
use change::Value;
use change::temporal::{DatePacked, DateTimePacked};

/// Bytes of a fraction of `digits` digits in the packed forms.
fn fraction_bytes(digits: u8) -> usize {
    usize::from(digits.div_ceil(2))
}

/// A fraction in microseconds.
#[inline]
fn fraction(b: &mut Bytes<'_>, digits: u8) -> Decoded<u64> {
    let value = b.uint_be(fraction_bytes(digits), "a fraction")?;
    Ok(match digits {
        0 => 0,
        1 | 2 => value * 10_000,
        3 | 4 => value * 100,
        _ => value,
    })
}

/// DATETIME2.
pub fn datetime2<'v>(b: &mut Bytes<'_>, digits: u8) -> Decoded<Value<'v>> {
    let whole = b.uint_be(5, "a date and time")? as i64 - 0x80_0000_0000;
    let micros = fraction(b, digits)?;
    Ok(Value::DateTime {
        at: unpack_datetime(whole << 24 | (micros & 0xff_ffff) as i64),
        digits,
    })
}

/// TIMESTAMP2.
pub fn timestamp2<'v>(b: &mut Bytes<'_>, digits: u8) -> Decoded<Value<'v>> {
    let seconds = b.uint_be(4, "a timestamp")?;
    let micros = fraction(b, digits)?;
    Ok(timestamp_of(seconds, micros, digits))
}

/// A timestamp; second 0 without a fraction is the zero timestamp.
pub fn timestamp_of<'v>(seconds: u64, micros: u64, digits: u8) -> Value<'v> {
    if seconds == 0 && micros == 0 {
        return Value::ZeroTimestamp { digits };
    }
    Value::Timestamp {
        micros: (seconds * 1_000_000 + micros) as i64,
        digits,
    }
}

/// TIME2.
///
/// Shape: an offset binary of 3 bytes and the fraction's bytes; a negative time borrows from its
/// whole part.
pub fn time2<'v>(b: &mut Bytes<'_>, digits: u8) -> Decoded<Value<'v>> {
    let extra = fraction_bytes(digits);
    let raw = b.uint_be(3 + extra, "a time")? as i64;
    let shifted = raw - (0x80_0000 << (8 * extra));
    // Bring the fraction to microseconds in 24 bits, sign kept.
    let size = shifted.unsigned_abs();
    let (whole, part) = (size >> (8 * extra), size & ((1 << (8 * extra)) - 1));
    let micros = match digits {
        0 => 0,
        1 | 2 => part * 10_000,
        3 | 4 => part * 100,
        _ => part,
    };
    let packed = (whole << 24 | (micros & 0xff_ffff)) as i64;
    Ok(Value::Time {
        micros: unpack_time(if shifted < 0 { -packed } else { packed }),
        digits,
    })
}

/// DATE: day in 5 bits, month in 4, year above.
pub fn date<'v>(b: &mut Bytes<'_>) -> Decoded<Value<'v>> {
    let bits = b.u24("a date")?;
    Ok(Value::Date(DatePacked::new(
        bits >> 9,
        bits >> 5 & 15,
        bits & 31,
    )))
}

/// YEAR: years since 1900, 0 is `0000`.
pub fn year<'v>(b: &mut Bytes<'_>) -> Decoded<Value<'v>> {
    Ok(Value::Year(match b.u8("a year")? {
        0 => 0,
        byte => 1900 + u16::from(byte),
    }))
}

/// DATETIME before 5.6: the number YYYYMMDDhhmmss.
pub fn datetime_old<'v>(b: &mut Bytes<'_>) -> Decoded<Value<'v>> {
    let number = b.u64("a date and time")?;
    let (date, time) = (number / 1_000_000, number % 1_000_000);
    if date > 99_991_231 {
        return b.fail("a date and time");
    }
    let seconds = time / 10_000 * 3600 + time / 100 % 100 * 60 + time % 100;
    let date = DatePacked::new(
        (date / 10_000) as u32,
        (date / 100 % 100) as u32,
        (date % 100) as u32,
    );
    Ok(Value::DateTime {
        at: DateTimePacked::new(date, seconds * 1_000_000),
        digits: 0,
    })
}

/// TIME before 5.6: the signed number hhmmss.
pub fn time_old<'v>(b: &mut Bytes<'_>) -> Decoded<Value<'v>> {
    let number = (b.u24("a time")? << 8) as i32 >> 8;
    let size = i64::from(number.unsigned_abs());
    let micros = (size / 10_000 * 3600 + size / 100 % 100 * 60 + size % 100) * 1_000_000;
    Ok(Value::Time {
        micros: if number < 0 { -micros } else { micros },
        digits: 0,
    })
}

/// TIMESTAMP before 5.6: seconds.
pub fn timestamp_old<'v>(b: &mut Bytes<'_>) -> Decoded<Value<'v>> {
    Ok(timestamp_of(u64::from(b.u32("a timestamp")?), 0, 0))
}

/// Bytes of MariaDB's old DATETIME with a fraction, by digits.
const HIRES_DATETIME_BYTES: [usize; 7] = [5, 6, 6, 7, 7, 7, 8];
/// Bytes of MariaDB's old TIME with a fraction, by digits.
const HIRES_TIME_BYTES: [usize; 7] = [3, 4, 4, 5, 5, 5, 6];
/// Bytes of MariaDB's old fraction of a TIMESTAMP, by digits.
const HIRES_FRACTION_BYTES: [usize; 7] = [0, 1, 1, 2, 2, 3, 3];

fn to_micros(value: u64, digits: u8) -> u64 {
    value.saturating_mul(10u64.pow(6 - u32::from(digits.min(6))))
}

/// MariaDB's DATETIME with a fraction, `mysql56_temporal_format=OFF`.
pub fn datetime_hires<'v>(b: &mut Bytes<'_>, digits: u8) -> Decoded<Value<'v>> {
    let bytes = HIRES_DATETIME_BYTES[usize::from(digits.min(6))];
    let packed = to_micros(b.uint_be(bytes, "a date and time")?, digits);
    let (seconds, micros) = (packed / 1_000_000, packed % 1_000_000);
    let days = seconds / 86_400;
    let date = DatePacked::new(
        (days / 32 / 13) as u32 & 0x3fff,
        (days / 32 % 13) as u32,
        (days % 32) as u32,
    );
    Ok(Value::DateTime {
        at: DateTimePacked::new(date, seconds % 86_400 * 1_000_000 + micros),
        digits,
    })
}

/// MariaDB's TIME with a fraction, `mysql56_temporal_format=OFF`: offset by its own maximum.
pub fn time_hires<'v>(b: &mut Bytes<'_>, digits: u8) -> Decoded<Value<'v>> {
    const ZERO: i64 = 3_020_400 * 1_000_000;
    let bytes = HIRES_TIME_BYTES[usize::from(digits.min(6))];
    let packed = to_micros(b.uint_be(bytes, "a time")?, digits) as i64;
    Ok(Value::Time {
        micros: packed.wrapping_sub(ZERO),
        digits,
    })
}

/// MariaDB's TIMESTAMP with a fraction, `mysql56_temporal_format=OFF`.
pub fn timestamp_hires<'v>(b: &mut Bytes<'_>, digits: u8) -> Decoded<Value<'v>> {
    let seconds = b.uint_be(4, "a timestamp")?;
    let bytes = HIRES_FRACTION_BYTES[usize::from(digits.min(6))];
    let micros = to_micros(b.uint_be(bytes, "a fraction")?, digits);
    Ok(timestamp_of(seconds, micros, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_times_borrow_from_the_whole_part() {
        // -00:00:00.01 as TIME(2): 0x7fffff and 0xff.
        let value = time2(&mut Bytes::new(&[0x7f, 0xff, 0xff, 0xff]), 2).unwrap();
        assert_eq!(
            value,
            Value::Time {
                micros: -10_000,
                digits: 2
            }
        );
        // 838:59:59
        let value = time2(&mut Bytes::new(&[0xb4, 0x6e, 0xfb]), 0).unwrap();
        assert_eq!(
            value,
            Value::Time {
                micros: 3_020_399_000_000,
                digits: 0
            }
        );
    }

    #[test]
    fn zero_is_not_the_epoch() {
        let value = timestamp2(&mut Bytes::new(&[0; 4]), 0).unwrap();
        assert_eq!(value, Value::ZeroTimestamp { digits: 0 });
        let value = timestamp2(&mut Bytes::new(&[0, 0, 0, 0, 0, 0, 1]), 6).unwrap();
        assert_eq!(
            value,
            Value::Timestamp {
                micros: 1,
                digits: 6
            }
        );
    }

    #[test]
    fn a_partly_zero_date_is_kept() {
        let bits = 2025u32 << 9 | 15;
        let value = date(&mut Bytes::new(&bits.to_le_bytes()[..3])).unwrap();
        assert_eq!(value, Value::Date(DatePacked::new(2025, 0, 15)));
    }

    #[test]
    fn old_forms_are_decimal_numbers() {
        let value = datetime_old(&mut Bytes::new(&20251231235959u64.to_le_bytes())).unwrap();
        let at = DateTimePacked::new(DatePacked::new(2025, 12, 31), 86_399_000_000);
        assert_eq!(value, Value::DateTime { at, digits: 0 });
        let bytes = (-8_385_959i32).to_le_bytes();
        let value = time_old(&mut Bytes::new(&bytes[..3])).unwrap();
        assert_eq!(
            value,
            Value::Time {
                micros: -3_020_399_000_000,
                digits: 0
            }
        );
    }
}
