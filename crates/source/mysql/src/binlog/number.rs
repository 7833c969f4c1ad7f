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

/// Appends a stored DECIMAL as plain text with its full scale.
///
/// Shape: big-endian groups of nine digits in four bytes, shorter groups outside; the first bit is
/// inverted, all bits are where the number is negative.
pub fn put_decimal(out: &mut Vec<u8>, b: &mut Bytes<'_>, precision: u8, scale: u8) -> Decoded<()> {
    let what = "a decimal";
    // Columns have at most 65 digits, values inside JSON at most 81.
    if precision > 81 || scale > precision {
        return b.fail("a decimal of at most 81 digits");
    }
    let bytes = b.take(decimal_bytes(precision, scale), what)?;
    let mut plain = [0u8; 40];
    let plain = &mut plain[..bytes.len()];
    plain.copy_from_slice(bytes);
    let Some(first) = plain.first_mut() else {
        out.push(b'0');
        return Ok(());
    };
    let negative = *first & 0x80 == 0;
    *first ^= 0x80;
    if negative {
        plain.iter_mut().for_each(|byte| *byte = !*byte);
        out.push(b'-');
    }
    let mut groups = Bytes::new(plain);
    let start = out.len();
    let whole = usize::from(precision - scale);
    put_group(out, &mut groups, whole % 9)?;
    for _ in 0..whole / 9 {
        put_group(out, &mut groups, 9)?;
    }
    let zeros = out[start..].iter().take_while(|d| **d == b'0').count();
    let keep = (out.len() - start).saturating_sub(zeros);
    if keep == 0 {
        out.truncate(start);
        out.push(b'0');
    } else if zeros > 0 {
        out.copy_within(start + zeros.., start);
        out.truncate(start + keep);
    }
    if scale > 0 {
        out.push(b'.');
        let scale = usize::from(scale);
        for _ in 0..scale / 9 {
            put_group(out, &mut groups, 9)?;
        }
        put_group(out, &mut groups, scale % 9)?;
    }
    Ok(())
}

fn put_group(out: &mut Vec<u8>, groups: &mut Bytes<'_>, digits: usize) -> Decoded<()> {
    let mut value = groups.uint_be(DIGIT_BYTES[digits], "a decimal")?;
    let start = out.len();
    out.resize(start + digits, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    if value > 0 {
        return groups.fail("a decimal's digits");
    }
    Ok(())
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
