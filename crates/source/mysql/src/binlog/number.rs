//! Numbers as text, exactly as the server prints them: DECIMAL and doubles inside JSON.

use super::bytes::{Bytes, Decoded};
use std::io::Write;

/// Bytes of a group of fewer than nine decimal digits.
const DIGIT_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// Bytes of a stored DECIMAL(precision, scale).
pub fn decimal_bytes(precision: u8, scale: u8) -> usize {
    let whole = usize::from(precision.saturating_sub(scale));
    let scale = usize::from(scale);
    whole / 9 * 4 + DIGIT_BYTES[whole % 9] + scale / 9 * 4 + DIGIT_BYTES[scale % 9]
}

/// Characters of the longest decimal: a sign, 81 digits, a point, a zero before it.
const DECIMAL_CHARACTERS_MAX: usize = 84;

/// A decimal's characters, without an allocation.
#[derive(Debug)]
pub struct DecimalText {
    bytes: [u8; DECIMAL_CHARACTERS_MAX],
    len: usize,
}

impl Default for DecimalText {
    fn default() -> Self {
        Self {
            bytes: [0; DECIMAL_CHARACTERS_MAX],
            len: 0,
        }
    }
}

/// Appends a stored DECIMAL as plain text with its full scale.
pub fn put_decimal(out: &mut Vec<u8>, b: &mut Bytes<'_>, precision: u8, scale: u8) -> Decoded<()> {
    out.extend_from_slice(DecimalText::default().read(b, precision, scale)?);
    Ok(())
}

impl DecimalText {
    /// Reads a stored DECIMAL as plain text with its full scale.
    ///
    /// Shape: big-endian groups of nine digits in four bytes, shorter groups outside; the first bit
    /// is inverted, all bits are where the number is negative.
    pub fn read(&mut self, b: &mut Bytes<'_>, precision: u8, scale: u8) -> Decoded<&[u8]> {
        // Columns have at most 65 digits, values inside JSON at most 81.
        if precision > 81 || scale > precision {
            return b.fail("a decimal of at most 81 digits");
        }
        let bytes = b.take(decimal_bytes(precision, scale), "a decimal")?;
        let Some(first) = bytes.first() else {
            self.put(b'0');
            return Ok(&self.bytes[..self.len]);
        };
        let negative = first & 0x80 == 0;
        let flip = if negative { 0xff } else { 0 };
        let mut groups = Groups { bytes, at: 0, flip };
        if negative {
            self.put(b'-');
        }
        let start = self.len;
        let whole = usize::from(precision - scale);
        self.group(&mut groups, whole % 9)?;
        for _ in 0..whole / 9 {
            self.group(&mut groups, 9)?;
        }
        let digits = &self.bytes[start..self.len];
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        self.bytes.copy_within(start + zeros..self.len, start);
        self.len -= zeros;
        if self.len == start {
            self.put(b'0');
        }
        if scale > 0 {
            self.put(b'.');
            let scale = usize::from(scale);
            for _ in 0..scale / 9 {
                self.group(&mut groups, 9)?;
            }
            self.group(&mut groups, scale % 9)?;
        }
        Ok(&self.bytes[..self.len])
    }

    fn put(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline]
    fn group(&mut self, groups: &mut Groups<'_>, digits: usize) -> Decoded<()> {
        let mut value = groups.next(DIGIT_BYTES[digits]);
        for digit in self.bytes[self.len..self.len + digits].iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
        }
        self.len += digits;
        if value > 0 {
            return Bytes::new(groups.bytes).fail("a decimal's digits");
        }
        Ok(())
    }
}

/// A decimal's groups of digits as numbers.
struct Groups<'a> {
    bytes: &'a [u8],
    at: usize,
    flip: u8,
}

impl Groups<'_> {
    #[inline]
    fn next(&mut self, count: usize) -> u32 {
        let mut value = 0;
        for (index, byte) in self.bytes[self.at..self.at + count].iter().enumerate() {
            // The first bit of all is inverted.
            let sign = if self.at + index == 0 { 0x80 } else { 0 };
            value = value << 8 | u32::from(byte ^ sign ^ self.flip);
        }
        self.at += count;
        value
    }
}

/// Decimal exponents outside this range are printed with an exponent.
const PLAIN_DIGITS_MAX: i32 = 15;

/// Appends a double as MySQL prints it inside JSON: shortest digits that read back the same, plain
/// between 1e-15 and 1e15, else with `e`; whole numbers end in `.0`.
pub fn put_json_double(out: &mut Vec<u8>, value: f64) {
    let mut text = [0u8; 40];
    let mut rest = &mut text[..];
    // 40 bytes hold any double in this form, so the write cannot fail.
    let _ = write!(rest, "{value:e}");
    let left = rest.len();
    let text = &text[..40 - left];
    let Some(split) = text.iter().position(|byte| *byte == b'e') else {
        out.extend_from_slice(b"null");
        return;
    };
    let (mantissa, exponent) = (&text[..split], &text[split + 1..]);
    let exponent: i32 = std::str::from_utf8(exponent)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let mantissa = match mantissa.strip_prefix(b"-") {
        Some(rest) => {
            out.push(b'-');
            rest
        }
        None => mantissa,
    };
    let mut digits = [0u8; 20];
    let mut count = 0;
    for byte in mantissa.iter().filter(|byte| **byte != b'.') {
        digits[count] = *byte;
        count += 1;
    }
    put_digits(out, &digits[..count], exponent + 1);
}

/// `0.digits` times ten to the `point`.
fn put_digits(out: &mut Vec<u8>, digits: &[u8], point: i32) {
    if digits == b"0" {
        out.extend_from_slice(b"0.0");
    } else if point > PLAIN_DIGITS_MAX || point <= -PLAIN_DIGITS_MAX {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        // A slice of memory takes any write.
        let _ = write!(out, "e{}", point - 1);
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', -point as usize));
        out.extend_from_slice(digits);
    } else {
        let point = point as usize;
        let whole = point.min(digits.len());
        out.extend_from_slice(&digits[..whole]);
        out.extend(std::iter::repeat_n(b'0', point - whole));
        out.push(b'.');
        if whole < digits.len() {
            out.extend_from_slice(&digits[whole..]);
        } else {
            out.push(b'0');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(bytes: &[u8], precision: u8, scale: u8) -> String {
        let mut out = Vec::new();
        put_decimal(&mut out, &mut Bytes::new(bytes), precision, scale).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn double(value: f64) -> String {
        let mut out = Vec::new();
        put_json_double(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_keep_every_digit() {
        // The manual's example: 1234567890.1234 as DECIMAL(14,4).
        let bytes = [0x81, 0x0D, 0xFB, 0x38, 0xD2, 0x04, 0xD2];
        assert_eq!(decimal(&bytes, 14, 4), "1234567890.1234");
        let negative: Vec<u8> = bytes.iter().map(|b| !b).collect();
        assert_eq!(decimal(&negative, 14, 4), "-1234567890.1234");
        assert_eq!(decimal(&[0x80, 0x00], 3, 2), "0.00");
        assert_eq!(decimal(&[0x80], 2, 0), "0");
    }

    #[test]
    fn a_decimal_with_impossible_digits_is_an_error() {
        let mut out = Vec::new();
        assert!(put_decimal(&mut out, &mut Bytes::new(&[0xff; 4]), 9, 0).is_err());
        assert!(put_decimal(&mut out, &mut Bytes::new(&[0xff; 2]), 9, 0).is_err());
    }

    #[test]
    fn doubles_look_like_the_servers() {
        for (value, text) in [
            (1.0, "1.0"),
            (-0.1, "-0.1"),
            (0.0, "0.0"),
            (1e15, "1e15"),
            (123456789012345.0, "123456789012345.0"),
            (1.5e300, "1.5e300"),
            (1e-5, "0.00001"),
            (3.25, "3.25"),
        ] {
            assert_eq!(double(value), text);
        }
    }
}
