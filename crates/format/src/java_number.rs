//! Floating-point numbers as Java prints them, which is what the consumers of these formats were
//! written against.
//!
//! Shape: at least one fraction digit; scientific (`1.0E10`, `1.0E-4`) below 10⁻³ and from 10⁷ on;
//! digits are the shortest that give the same number back.
//! Source: Java API, `Double.toString` (JDK 19 and later) and `Float.toString`.

use std::io::Write;

/// Appends an eight-byte float.
pub fn put_double(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        let mut digits = Digits::default();
        write!(digits, "{value:e}").expect("a double's digits fit the buffer");
        put_java(out, &digits);
    } else {
        put_special(out, value);
    }
}

/// Appends a four-byte float.
pub fn put_float(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        let mut digits = Digits::default();
        write!(digits, "{value:e}").expect("a float's digits fit the buffer");
        put_java(out, &digits);
    } else {
        put_special(out, f64::from(value));
    }
}

fn put_special(out: &mut Vec<u8>, value: f64) {
    let text: &[u8] = match value {
        v if v.is_nan() => b"NaN",
        v if v > 0.0 => b"Infinity",
        _ => b"-Infinity",
    };
    out.extend_from_slice(text);
}

/// A small buffer for `-d.ddde-xxx`.
#[derive(Default)]
struct Digits {
    bytes: [u8; 32],
    count: usize,
}

impl Write for Digits {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = &mut self.bytes[self.count..];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.count += count;
        Ok(count)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn put_java(out: &mut Vec<u8>, digits: &Digits) {
    let text = &digits.bytes[..digits.count];
    let (sign, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if sign {
        out.push(b'-');
    }
    let e = text
        .iter()
        .position(|b| *b == b'e')
        .expect("Rust's e form has an e");
    let exponent: i32 = std::str::from_utf8(&text[e + 1..])
        .ok()
        .and_then(|t| t.parse().ok())
        .expect("Rust's e form has an exponent");
    // All digits without the point.
    let mut all = [0u8; 32];
    let mut count = 0;
    for byte in text[..e].iter().filter(|b| **b != b'.') {
        all[count] = *byte;
        count += 1;
    }
    let all = &all[..count];
    if all == b"0" {
        out.extend_from_slice(b"0.0");
    } else if (-3..7).contains(&exponent) {
        put_plain(out, all, exponent);
    } else {
        out.push(all[0]);
        out.push(b'.');
        out.extend_from_slice(if all.len() > 1 { &all[1..] } else { b"0" });
        write!(out, "E{exponent}").expect("writing to a Vec does not fail");
    }
}

fn put_plain(out: &mut Vec<u8>, all: &[u8], exponent: i32) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        (1..-exponent).for_each(|_| out.push(b'0'));
        out.extend_from_slice(all);
        return;
    }
    let whole = exponent as usize + 1;
    (0..whole).for_each(|i| out.push(*all.get(i).unwrap_or(&b'0')));
    out.push(b'.');
    out.extend_from_slice(
        all.get(whole..)
            .filter(|rest| !rest.is_empty())
            .unwrap_or(b"0"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_java_prints_them() {
        let doubles = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e-5, "1.0E-5"),
            (0.001, "0.001"),
            (123_456_789.123, "1.23456789123E8"),
            (1e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (100.0, "100.0"),
            (1.7976931348623157e308, "1.7976931348623157E308"),
            (-1.5e-10, "-1.5E-10"),
        ];
        for (value, text) in doubles {
            let mut out = Vec::new();
            put_double(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        let floats = [
            (1.1f32, "1.1"),
            (1e10, "1.0E10"),
            (16_777_216.0, "1.6777216E7"),
        ];
        for (value, text) in floats {
            let mut out = Vec::new();
            put_float(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
