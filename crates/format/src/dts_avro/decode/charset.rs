//! The charsets of `Character` values that are decoded here.
//!
//! UTF-8 in its names, the UTF-16 and UTF-32 families, latin1 as MySQL has it, ISO-8859-1, and of all
//! charsets that contain ASCII the texts that are no more than ASCII.

use std::borrow::Cow;

/// Bytes 80 to 9F of MySQL's latin1, which is cp1252 with its five gaps filled.
const CP1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// The text, or nothing where the bytes are not valid or the charset is not one of these.
pub(super) fn decode<'a>(charset: &str, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(charset));
    if is(&["utf16", "utf-16", "utf-16be", "ucs2"]) {
        return utf16(bytes, u16::from_be_bytes);
    }
    if is(&["utf16le", "utf-16le"]) {
        return utf16(bytes, u16::from_le_bytes);
    }
    if is(&["utf32", "utf-32"]) {
        return utf32(bytes);
    }
    if is(&["latin1", "cp1252", "windows-1252"]) {
        return Some(single(bytes, |byte| match byte {
            0x80..=0x9f => CP1252[usize::from(byte - 0x80)],
            _ => char::from(byte),
        }));
    }
    if is(&["iso-8859-1", "iso8859_1"]) {
        return Some(single(bytes, char::from));
    }
    let is_utf8 = is(&["utf8mb4", "utf8", "utf8mb3", "utf-8"]);
    // swe7 has letters of its own where ASCII has brackets.
    if is_utf8 || (bytes.is_ascii() && !is(&["swe7"])) {
        return std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
    }
    None
}

fn single(bytes: &[u8], char_of: impl Fn(u8) -> char) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.is_ascii() => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.iter().map(|byte| char_of(*byte)).collect()),
    }
}

fn utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Option<Cow<'_, str>> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<_, _>>();
    text.ok().filter(|_| rest.is_empty()).map(Cow::Owned)
}

fn utf32(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let (units, rest) = bytes.as_chunks::<4>();
    let chars = units
        .iter()
        .map(|unit| char::from_u32(u32::from_be_bytes(*unit)));
    chars
        .collect::<Option<_>>()
        .filter(|_| rest.is_empty())
        .map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_is_decoded_and_what_is_not_is_refused() {
        let text = |charset, bytes| decode(charset, bytes).map(Cow::into_owned);
        assert_eq!(text("utf8mb4", "é😀".as_bytes()), Some("é😀".into()));
        assert_eq!(text("utf8", &[0xff]), None);
        assert_eq!(text("latin1", &[0x80, 0xe9]), Some("€é".into()));
        assert_eq!(
            text("utf16", &[0x00, 0x41, 0xd8, 0x3d, 0xde, 0x00]),
            Some("A😀".into())
        );
        assert_eq!(text("utf16", &[0xd8, 0x3d]), None);
        assert_eq!(text("ucs2", &[0x00]), None);
        assert_eq!(text("utf16le", &[0x41, 0x00]), Some("A".into()));
        assert_eq!(text("utf32", &[0, 1, 0xf6, 0]), Some("😀".into()));
        assert_eq!(text("gbk", b"abc"), Some("abc".into()));
        assert_eq!(text("gbk", &[0xc4, 0xe3]), None);
        assert_eq!(text("swe7", b"[]"), None);
        assert_eq!(text("", b"a"), Some("a".into()));
    }
}
