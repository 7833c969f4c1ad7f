//! The charsets of `Character` values: MySQL's and MariaDB's by their names, and Java's names for the same.
//!
//! Text of a charset that is not one of these is text only as far as it is ASCII, which all but a few
//! charsets contain.

use change::charset::Charset;
use std::borrow::Cow;

/// What Java (and so DTS, for sources other than MySQL) calls a charset, and MySQL's name for it.
const OTHER_NAMES: [(&str, &str); 29] = [
    ("utf-8", "utf8mb4"),
    ("utf-16", "utf16"),
    ("utf-16be", "utf16"),
    ("utf-16le", "utf16le"),
    ("utf-32", "utf32"),
    ("utf-32be", "utf32"),
    ("us-ascii", "ascii"),
    ("cp1252", "latin1"),
    ("windows-1252", "latin1"),
    ("iso-8859-2", "latin2"),
    ("iso8859_2", "latin2"),
    ("iso-8859-9", "latin5"),
    ("iso8859_9", "latin5"),
    ("windows-1250", "cp1250"),
    ("windows-1251", "cp1251"),
    ("windows-1256", "cp1256"),
    ("windows-1257", "cp1257"),
    ("ibm850", "cp850"),
    ("ibm852", "cp852"),
    ("ibm866", "cp866"),
    ("koi8-r", "koi8r"),
    ("koi8-u", "koi8u"),
    ("tis-620", "tis620"),
    ("cp936", "gbk"),
    ("shift_jis", "sjis"),
    ("windows-31j", "cp932"),
    ("ms932", "cp932"),
    ("euc-jp", "ujis"),
    ("euc-kr", "euckr"),
];

/// Why bytes are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoText {
    /// They are not valid in their charset.
    Invalid,
    /// Nobody here knows the charset.
    Unknown,
}

/// The text of these bytes.
pub(super) fn decode<'a>(charset: &str, bytes: &'a [u8]) -> Result<Cow<'a, str>, NoText> {
    if matches!(charset, "utf8mb4" | "utf8") {
        let text = std::str::from_utf8(bytes).map(Cow::Borrowed);
        return text.map_err(|_| NoText::Invalid);
    }
    let name = charset.to_ascii_lowercase();
    if matches!(name.as_str(), "iso-8859-1" | "iso8859_1") {
        return Ok(Cow::Owned(bytes.iter().map(|b| char::from(*b)).collect()));
    }
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == name);
    match Charset::of_name(other.map_or(name.as_str(), |(_, known)| known)) {
        Charset::Unknown => std::str::from_utf8(bytes)
            .ok()
            // A zero byte would be half a character of a wide charset.
            .filter(|text| text.is_ascii() && !text.contains('\0'))
            .map(Cow::Borrowed)
            .ok_or(NoText::Unknown),
        charset => {
            let mut text = String::with_capacity(bytes.len());
            match charset.decode(bytes, &mut text) {
                true => Ok(Cow::Owned(text)),
                false => Err(NoText::Invalid),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_is_decoded_and_what_is_not_is_refused() {
        let text = |charset, bytes| decode(charset, bytes).map(Cow::into_owned);
        let is = |text: &str| Ok(text.to_owned());
        assert_eq!(text("utf8mb4", "é😀".as_bytes()), is("é😀"));
        assert_eq!(text("utf8", &[0xff]), Err(NoText::Invalid));
        assert_eq!(text("latin1", &[0x80, 0xe9]), is("€é"));
        assert_eq!(text("ISO-8859-1", &[0x80, 0xe9]), is("\u{80}é"));
        assert_eq!(
            text("utf16", &[0x00, 0x41, 0xd8, 0x3d, 0xde, 0x00]),
            is("A😀")
        );
        assert_eq!(text("utf16", &[0xd8, 0x3d]), Err(NoText::Invalid));
        assert_eq!(text("ucs2", &[0x00]), Err(NoText::Invalid));
        assert_eq!(text("UTF-16LE", &[0x41, 0x00]), is("A"));
        assert_eq!(text("utf32", &[0, 1, 0xf6, 0]), is("😀"));
        assert_eq!(text("gbk", b"abc"), is("abc"));
        assert_eq!(text("gbk", &[0xc4, 0xe3, 0xba, 0xc3]), is("你好"));
        assert_eq!(text("gbk", &[0xff, 0xff]), Err(NoText::Invalid));
        assert_eq!(text("GB18030", &[0x95, 0x32, 0x82, 0x36]), is("𠀀"));
        assert_eq!(text("big5", &[0xa7, 0x41]), is("你"));
        assert_eq!(text("sjis", &[0x82, 0xa0]), is("あ"));
        assert_eq!(text("EUC-KR", &[0xb0, 0xa1]), is("가"));
        assert_eq!(text("koi8r", &[0xcd, 0xc9, 0xd2]), is("мир"));
        assert_eq!(text("swe7", b"["), is("Ä"));
    }

    #[test]
    fn every_other_name_is_of_a_charset_that_is_known() {
        for (other, name) in OTHER_NAMES {
            assert_ne!(Charset::of_name(name), Charset::Unknown, "{other}");
            assert_eq!(Charset::of_name(other), Charset::Unknown, "{other}");
        }
    }

    #[test]
    fn of_an_unknown_charset_only_ascii_is_text() {
        assert_eq!(decode("", b"a"), Ok(Cow::Borrowed("a")));
        assert_eq!(decode("klingon", b"a b"), Ok(Cow::Borrowed("a b")));
        assert_eq!(decode("klingon", b"\0a"), Err(NoText::Unknown));
        assert_eq!(decode("klingon", "é".as_bytes()), Err(NoText::Unknown));
    }
}
