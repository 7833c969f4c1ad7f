//! JSON text: strings and their escapes.

/// How a byte stands in a string: 0 as it is, 1 as `\u00xx`, else the letter after the backslash.
const ESCAPES: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = 1;
        control += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

const HEX: &[u8; 16] = b"0123456789abcdef";

#[inline]
fn put_escape(out: &mut Vec<u8>, byte: u8, escape: u8) {
    if escape == 1 {
        out.extend_from_slice(b"\\u00");
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    } else {
        out.extend_from_slice(&[b'\\', escape]);
    }
}

/// Eight bytes at once: whether any is a control character, a quote or a backslash.
#[inline]
fn any_escape(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zero_in = |v: u64| v.wrapping_sub(ONES) & !v & HIGHS;
    let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    let quote = zero_in(word ^ (ONES * u64::from(b'"')));
    let backslash = zero_in(word ^ (ONES * u64::from(b'\\')));
    (control | quote | backslash) != 0
}

/// Appends `text` escaped, without quotes: `\b \t \n \f \r \" \\`, other control characters as
/// `\u00xx` in lower case, everything else as it is.
#[inline]
pub fn put_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut at = 0;
    while at < bytes.len() {
        if let Some(word) = bytes.get(at..at + 8)
            && !any_escape(u64::from_le_bytes(word.try_into().expect("eight bytes")))
        {
            at += 8;
            continue;
        }
        let end = (at + 8).min(bytes.len());
        while at < end {
            let escape = ESCAPES[usize::from(bytes[at])];
            if escape != 0 {
                out.extend_from_slice(&bytes[from..at]);
                put_escape(out, bytes[at], escape);
                from = at + 1;
            }
            at += 1;
        }
    }
    out.extend_from_slice(&bytes[from..]);
}

/// Appends a quoted string.
#[inline]
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    put_escaped(out, text);
    out.push(b'"');
}

/// Appends bytes as text with one code point a byte (ISO-8859-1), escaped, without quotes.
pub fn put_latin1_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + bytes.len() / 2);
    for byte in bytes {
        match ESCAPES[usize::from(*byte)] {
            0 if *byte < 0x80 => out.push(*byte),
            0 => out.extend_from_slice(&[0xc0 | byte >> 6, 0x80 | (byte & 0x3f)]),
            escape => put_escape(out, *byte, escape),
        }
    }
}

/// Appends bytes as upper-case hexadecimal digits.
pub fn put_hex_upper(out: &mut Vec<u8>, bytes: &[u8]) {
    const UPPER: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(UPPER[usize::from(byte >> 4)]);
        out.push(UPPER[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = Vec::new();
        put_escaped(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_position_and_every_control_character_is_escaped() {
        for code in 0..0x80u8 {
            for lead in 0..18 {
                let text = format!("{}{}tail of some length", "é".repeat(lead), code as char);
                let expected = match code {
                    8 => "\\b".into(),
                    9 => "\\t".into(),
                    10 => "\\n".into(),
                    12 => "\\f".into(),
                    13 => "\\r".into(),
                    b'"' => "\\\"".into(),
                    b'\\' => "\\\\".into(),
                    0..0x20 => format!("\\u{code:04x}"),
                    _ => (code as char).to_string(),
                };
                let whole = format!("{}{expected}tail of some length", "é".repeat(lead));
                assert_eq!(escaped(&text), whole);
            }
        }
        assert_eq!(escaped("a/<>&'\u{7f}\u{2028}😀"), "a/<>&'\u{7f}\u{2028}😀");
    }

    #[test]
    fn all_256_bytes_map_to_their_code_points() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut out = Vec::new();
        put_latin1_escaped(&mut out, &bytes);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("\\u0000\\u0001"));
        assert!(text.ends_with('ÿ'));
        assert_eq!(
            escaped(&bytes.iter().map(|b| char::from(*b)).collect::<String>()),
            text
        );
    }
}
