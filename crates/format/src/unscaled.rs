//! Decimals as Kafka Connect keeps them: the digits without the point as a number in two's
//! complement, big endian, as few bytes as hold it.

/// MySQL's 65 digits need 28 bytes with their sign; 40 where 30 fraction digits are added to them.
const BYTES_MAX: usize = 48;

/// The unscaled number of a decimal text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unscaled {
    bytes: [u8; BYTES_MAX],
    start: usize,
}

impl Unscaled {
    /// From digits with an optional sign and point, as a number with `scale` fraction digits: those that
    /// the text lacks are zeros. None for other text, for too many digits, and for a text with more
    /// fraction digits than that, unless they are zeros.
    pub fn of(text: &str, scale: u8) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let scale = usize::from(scale);
        let (fraction, rest) = fraction.split_at_checked(scale).unwrap_or((fraction, ""));
        if rest.bytes().any(|digit| digit != b'0') {
            return None;
        }
        let zeros = std::iter::repeat_n(b'0', scale - fraction.len());
        let mut bytes = [0u8; BYTES_MAX];
        for digit in whole.bytes().chain(fraction.bytes()).chain(zeros) {
            let mut carry = u32::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
            for byte in bytes.iter_mut().rev() {
                let product = u32::from(*byte) * 10 + carry;
                *byte = product as u8;
                carry = product >> 8;
            }
            if carry > 0 || bytes[0] > 0x7f {
                return None;
            }
        }
        if text.len() > digits.len() {
            negate(&mut bytes);
        }
        let sign = if bytes[0] > 0x7f { 0xff } else { 0 };
        let redundant = bytes
            .windows(2)
            .take_while(|pair| pair[0] == sign && (pair[1] ^ sign) < 0x80)
            .count();
        Some(Self {
            bytes,
            start: redundant,
        })
    }

    /// Big endian, at least one byte.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes.iter_mut().rev() {
        let (sum, over) = (!*byte).overflowing_add(u8::from(carry));
        *byte = sum;
        carry = over;
    }
}

/// The decimal text of an unscaled number with `scale` fraction digits; none for more bytes than a
/// decimal has.
pub(crate) fn text_of(unscaled: &[u8], scale: usize) -> Option<String> {
    const SCALE_MAX: usize = 100;
    if unscaled.is_empty() || unscaled.len() > BYTES_MAX || scale > SCALE_MAX {
        return None;
    }
    let mut bytes = unscaled.to_vec();
    let negative = bytes[0] > 0x7f;
    if negative {
        negate(&mut bytes);
    }
    let mut digits = Vec::new();
    while bytes.iter().any(|byte| *byte != 0) {
        let mut rest = 0u32;
        for byte in &mut bytes {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 10) as u8;
            rest = value % 10;
        }
        digits.push(b'0' + rest as u8);
    }
    while digits.len() <= scale {
        digits.push(b'0');
    }
    let mut text = String::new();
    if negative {
        text.push('-');
    }
    for (left, digit) in digits.iter().enumerate().rev() {
        text.push(char::from(*digit));
        if left == scale && scale > 0 {
            text.push('.');
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_the_bytes_of_a_big_integer() {
        let cases: [(&str, &[u8]); 10] = [
            ("0", &[0]),
            ("0.00", &[0]),
            ("1.27", &[0x7f]),
            ("1.28", &[0, 0x80]),
            ("-1.28", &[0x80]),
            ("-1.29", &[0xff, 0x7f]),
            ("-0.01", &[0xff]),
            ("19.90", &[0x07, 0xc6]),
            ("655.36", &[1, 0, 0]),
            ("-655.36", &[0xff, 0, 0]),
        ];
        for (text, bytes) in cases {
            assert_eq!(Unscaled::of(text, 2).unwrap().bytes(), bytes, "{text}");
        }
        assert!(Unscaled::of("x", 0).is_none());
        assert!(Unscaled::of(&"9".repeat(120), 0).is_none());
    }

    #[test]
    fn a_text_with_other_fraction_digits_is_the_same_number() {
        let padded = |text| Unscaled::of(text, 2).map(|number| number.bytes().to_vec());
        for text in ["1.5", "1.50", "1.500"] {
            assert_eq!(padded(text), Some(vec![0, 150]), "{text}");
        }
        assert_eq!(padded("-5"), Some(vec![0xfe, 0x0c]));
        assert_eq!(padded("5."), Some(vec![0x01, 0xf4]));
        for more in ["1.505", "0.001", "1.2.3", "1.x0"] {
            assert_eq!(padded(more), None, "{more}");
        }
        let widest = format!("{}.{}", "9".repeat(65), "0".repeat(30));
        let unscaled = Unscaled::of(&"9".repeat(65), 30).unwrap();
        assert_eq!(text_of(unscaled.bytes(), 30).unwrap(), widest);
    }

    #[test]
    fn decimals_come_back() {
        let wide = format!("-{}.{}", "9".repeat(35), "9".repeat(30));
        for text in ["0.00", "-0.50", "500.00", "7", "-7", "0.000000001", &wide] {
            let scale = text
                .split_once('.')
                .map_or(0, |(_, fraction)| fraction.len());
            let unscaled = Unscaled::of(text, scale as u8).unwrap();
            assert_eq!(text_of(unscaled.bytes(), scale).unwrap(), text);
        }
        assert_eq!(text_of(&[], 0), None);
        assert_eq!(text_of(&[1; 60], 0), None);
    }
}
