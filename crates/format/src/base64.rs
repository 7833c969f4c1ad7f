//! Base64 with padding, as JSON messages carry bytes.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends bytes as base64.
pub(crate) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index| u32::from(*chunk.get(index).unwrap_or(&0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for letter in 0..4 {
            out.push(if letter <= chunk.len() {
                LETTERS[(bits >> (18 - 6 * letter) & 63) as usize]
            } else {
                b'='
            });
        }
    }
}

/// The bytes of a base64 text; its padding may be missing.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if digits.len() % 4 == 1 || text.len() - digits.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for chunk in digits.chunks(4) {
        let mut bits = 0;
        for index in 0..4 {
            bits = bits << 6 | chunk.get(index).map_or(Some(0), |digit| value(*digit))?;
        }
        let bytes = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        out.extend_from_slice(&bytes[..chunk.len() - 1]);
    }
    Some(out)
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_come_back() {
        let bytes: Vec<u8> = (0..=255).rev().collect();
        for length in 0..=255 {
            let mut out = Vec::new();
            put(&mut out, &bytes[..length]);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.len() % 4, 0);
            assert_eq!(decode(&text).as_deref(), Some(&bytes[..length]));
        }
        let mut out = Vec::new();
        put(&mut out, b"foob");
        assert_eq!(out, b"Zm9vYg==");
        for bad in ["A", "A===", "AA*A", "é"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
