//! Text of any charset of MySQL and MariaDB, decoded to UTF-8.
//!
//! Owns: which charset a collation number or a charset name stands for, and the decoding, of a binlog's
//! cells and of messages that have text as the server stored it. Where a charset has bytes that stand for
//! nothing, the text is invalid, never guessed.
//! Source: MySQL source, strings/ctype-*.cc; MariaDB's collations from 576 on are listed by their
//! ranges.

mod tables;

use encoding_rs::Encoding;

/// How the bytes of a text column are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    /// utf8mb3, utf8mb4: stored as it is.
    Utf8,
    /// ascii: bytes below 128 only.
    Ascii,
    /// latin1 as MySQL has it: windows-1252, and its five undefined bytes are C1 controls.
    Latin1,
    /// ucs2: two bytes, big endian, no surrogates.
    Ucs2,
    /// utf16, big endian.
    Utf16,
    /// utf16le.
    Utf16Le,
    /// utf32, big endian.
    Utf32,
    /// A single-byte charset: the upper half's characters (0 for none).
    Table(&'static [u16; 128]),
    /// swe7: seven bits, the lower half's characters.
    Swe7,
    /// A charset that encoding_rs decodes as the servers do.
    Known(&'static Encoding),
    /// A multi-byte charset that encoding_rs decodes but for these codes.
    Multi(&'static Encoding, &'static [(u32, u16)]),
    /// No text at all: collation `binary`.
    Binary,
    /// A charset that is not decoded here.
    Unknown,
}

impl Charset {
    /// The charset of a collation number.
    pub fn of_collation(collation: u32) -> Self {
        name_of_collation(collation).map_or(Charset::Unknown, Charset::of_name)
    }

    /// The charset of a name as the server prints it.
    pub fn of_name(name: &str) -> Self {
        match name {
            "utf8" | "utf8mb3" | "utf8mb4" => Charset::Utf8,
            "ascii" => Charset::Ascii,
            "latin1" => Charset::Latin1,
            "binary" => Charset::Binary,
            "ucs2" => Charset::Ucs2,
            "utf16" => Charset::Utf16,
            "utf16le" => Charset::Utf16Le,
            "utf32" => Charset::Utf32,
            "swe7" => Charset::Swe7,
            "gbk" => Charset::Multi(encoding_rs::GBK, &[]),
            "gb2312" => Charset::Multi(encoding_rs::GBK, tables::GB2312),
            "gb18030" => Charset::Known(encoding_rs::GB18030),
            "big5" => Charset::Multi(encoding_rs::BIG5, tables::BIG5),
            "sjis" => Charset::Multi(encoding_rs::SHIFT_JIS, tables::SJIS),
            "cp932" => Charset::Multi(encoding_rs::SHIFT_JIS, &[]),
            "ujis" => Charset::Multi(encoding_rs::EUC_JP, tables::UJIS),
            "eucjpms" => Charset::Multi(encoding_rs::EUC_JP, tables::EUCJPMS),
            "euckr" => Charset::Multi(encoding_rs::EUC_KR, &[]),
            "armscii8" => Charset::Table(&tables::ARMSCII8),
            "cp1250" => Charset::Table(&tables::CP1250),
            "cp1251" => Charset::Table(&tables::CP1251),
            "cp1256" => Charset::Table(&tables::CP1256),
            "cp1257" => Charset::Table(&tables::CP1257),
            "cp850" => Charset::Table(&tables::CP850),
            "cp852" => Charset::Table(&tables::CP852),
            "cp866" => Charset::Table(&tables::CP866),
            "dec8" => Charset::Table(&tables::DEC8),
            "geostd8" => Charset::Table(&tables::GEOSTD8),
            "greek" => Charset::Table(&tables::GREEK),
            "hebrew" => Charset::Table(&tables::HEBREW),
            "hp8" => Charset::Table(&tables::HP8),
            "keybcs2" => Charset::Table(&tables::KEYBCS2),
            "koi8r" => Charset::Table(&tables::KOI8R),
            "koi8u" => Charset::Table(&tables::KOI8U),
            "latin2" => Charset::Table(&tables::LATIN2),
            "latin5" => Charset::Table(&tables::LATIN5),
            "latin7" => Charset::Table(&tables::LATIN7),
            "macce" => Charset::Table(&tables::MACCE),
            "macroman" => Charset::Table(&tables::MACROMAN),
            "tis620" => Charset::Table(&tables::TIS620),
            _ => Charset::Unknown,
        }
    }

    /// Decodes `bytes` into `out`; `false` when they are not valid, and `out` is then as before.
    pub fn decode(self, bytes: &[u8], out: &mut String) -> bool {
        let start = out.len();
        let valid = match self {
            Charset::Utf8 | Charset::Ascii => match std::str::from_utf8(bytes) {
                Ok(text) if self == Charset::Utf8 || text.is_ascii() => {
                    out.push_str(text);
                    true
                }
                _ => false,
            },
            Charset::Latin1 => {
                out.extend(bytes.iter().map(|byte| latin1(*byte)));
                true
            }
            Charset::Table(table) => decode_table(table, bytes, out),
            Charset::Ucs2 => decode_utf16(bytes, u16::from_be_bytes, out),
            Charset::Utf16 => decode_utf16(bytes, u16::from_be_bytes, out),
            Charset::Utf16Le => decode_utf16(bytes, u16::from_le_bytes, out),
            Charset::Utf32 => decode_utf32(bytes, out),
            Charset::Known(encoding) => {
                match encoding.decode_without_bom_handling_and_without_replacement(bytes) {
                    Some(text) => {
                        out.push_str(&text);
                        true
                    }
                    None => false,
                }
            }
            Charset::Multi(encoding, differences) => {
                decode_multi(encoding, differences, bytes, out)
            }
            Charset::Swe7 => bytes.iter().all(|byte| {
                let code = tables::SWE7
                    .get(usize::from(*byte))
                    .map(|code| u32::from(*code));
                let c = code
                    .filter(|code| *code != 0 || *byte == 0)
                    .and_then(char::from_u32);
                c.inspect(|c| out.push(*c)).is_some()
            }),
            Charset::Binary | Charset::Unknown => false,
        };
        if !valid {
            out.truncate(start);
        }
        valid
    }

    /// Decodes to a new string; invalid bytes become U+FFFD. For names and statements, never for
    /// values.
    pub fn decode_lossy(self, bytes: &[u8]) -> String {
        let mut out = String::new();
        if !self.decode(bytes, &mut out) {
            out = String::from_utf8_lossy(bytes).into_owned();
        }
        out
    }
}

/// windows-1252 between 0x80 and 0x9f, with the undefined ones as C1 controls.
const LATIN1_HIGH: [u16; 32] = [
    0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039,
    0x0152, 0x8D, 0x017D, 0x8F, 0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
    0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178,
];

fn latin1(byte: u8) -> char {
    match byte {
        0x80..=0x9f => char::from_u32(u32::from(LATIN1_HIGH[usize::from(byte - 0x80)]))
            .expect("the table holds no surrogates"),
        _ => char::from(byte),
    }
}

fn decode_table(table: &[u16; 128], bytes: &[u8], out: &mut String) -> bool {
    for byte in bytes {
        let code = match byte {
            0..=127 => u32::from(*byte),
            _ => u32::from(table[usize::from(byte - 128)]),
        };
        match char::from_u32(code) {
            Some(c) if code != 0 || *byte == 0 => out.push(c),
            _ => return false,
        }
    }
    true
}

/// Character after character; plain ASCII in runs.
fn decode_multi(
    encoding: &'static Encoding,
    differences: &[(u32, u16)],
    mut bytes: &[u8],
    out: &mut String,
) -> bool {
    let is_japanese = encoding == encoding_rs::EUC_JP;
    while let Some(first) = bytes.first() {
        let ascii = bytes.iter().take_while(|byte| byte.is_ascii()).count();
        if ascii > 0 {
            out.push_str(std::str::from_utf8(&bytes[..ascii]).expect("ASCII is UTF-8"));
            bytes = &bytes[ascii..];
            continue;
        }
        let is_half_width = encoding == encoding_rs::SHIFT_JIS && (0xa1..=0xdf).contains(first);
        let count = match first {
            0x8f if is_japanese => 3,
            _ if is_half_width => 1,
            _ => 2,
        };
        let Some((one, rest)) = bytes.split_at_checked(count) else {
            return false;
        };
        let code = one
            .iter()
            .fold(0u32, |code, byte| code << 8 | u32::from(*byte));
        let found = differences.binary_search_by_key(&code, |pair| pair.0);
        let own = match found {
            Ok(index) => Some(u32::from(differences[index].1)),
            Err(_) if is_japanese => private_use(code),
            Err(_) => None,
        };
        match own.and_then(char::from_u32) {
            Some(c) => out.push(c),
            None => match encoding.decode_without_bom_handling_and_without_replacement(one) {
                Some(text) => out.push_str(&text),
                None => return false,
            },
        }
        bytes = rest;
    }
    true
}

/// The user-defined rows of the EUC charsets: 940 characters in two bytes, 940 behind 0x8f.
fn private_use(code: u32) -> Option<u32> {
    let base = match code >> 16 {
        0 => 0xe000,
        0x8f => 0xe3ac,
        _ => return None,
    };
    let (row, cell) = (code >> 8 & 0xff, code & 0xff);
    let is_inside = (0xf5..=0xfe).contains(&row) && (0xa1..=0xfe).contains(&cell);
    is_inside.then(|| base + (row - 0xf5) * 94 + cell - 0xa1)
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16, out: &mut String) -> bool {
    let (pairs, rest) = bytes.as_chunks::<2>();
    for c in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        match c {
            Ok(c) => out.push(c),
            Err(_) => return false,
        }
    }
    rest.is_empty()
}

fn decode_utf32(bytes: &[u8], out: &mut String) -> bool {
    let (units, rest) = bytes.as_chunks::<4>();
    for unit in units {
        match char::from_u32(u32::from_be_bytes(*unit)) {
            Some(c) => out.push(c),
            None => return false,
        }
    }
    rest.is_empty()
}

/// The charset's name of a collation number.
pub fn name_of_collation(collation: u32) -> Option<&'static str> {
    Some(match collation {
        1 | 84 => "big5",
        2 | 9 | 21 | 27 | 77 => "latin2",
        3 | 69 => "dec8",
        4 | 80 => "cp850",
        5 | 8 | 15 | 31 | 47 | 48 | 49 | 94 => "latin1",
        6 | 72 => "hp8",
        7 | 74 => "koi8r",
        10 | 82 => "swe7",
        11 | 65 => "ascii",
        12 | 91 => "ujis",
        13 | 88 => "sjis",
        14 | 23 | 50 | 51 | 52 => "cp1251",
        16 | 71 => "hebrew",
        18 | 89 => "tis620",
        19 | 85 => "euckr",
        20 | 41 | 42 | 79 => "latin7",
        22 | 75 => "koi8u",
        24 | 86 => "gb2312",
        25 | 70 => "greek",
        26 | 34 | 44 | 66 | 99 => "cp1250",
        28 | 87 => "gbk",
        29 | 58 | 59 => "cp1257",
        30 | 78 => "latin5",
        32 | 64 => "armscii8",
        33 | 76 | 83 | 192..=215 | 223 => "utf8mb3",
        35 | 90 | 128..=151 | 159 => "ucs2",
        36 | 68 => "cp866",
        37 | 73 => "keybcs2",
        38 | 43 => "macce",
        39 | 53 => "macroman",
        40 | 81 => "cp852",
        45 | 46 | 224..=247 | 255..=323 => "utf8mb4",
        54 | 55 | 101..=124 => "utf16",
        56 | 62 => "utf16le",
        57 | 67 => "cp1256",
        60 | 61 | 160..=183 => "utf32",
        63 => "binary",
        92 | 93 => "geostd8",
        95 | 96 => "cp932",
        97 | 98 => "eucjpms",
        248..=250 => "gb18030",
        other => return mariadb_name_of_collation(other),
    })
}

/// MariaDB's own: 576-607 utf8mb3, 608-639 utf8mb4, 640-671 ucs2, 672-703 utf16, 736-767 utf32 (the
/// Croatian, Myanmar and Thai ones), no-pad variants at +1024, UCA 14.0.0 from 2048 in blocks of 256.
fn mariadb_name_of_collation(collation: u32) -> Option<&'static str> {
    Some(match collation {
        576..=607 => "utf8mb3",
        608..=639 => "utf8mb4",
        640..=671 => "ucs2",
        672..=703 => "utf16",
        736..=767 => "utf32",
        1024..=2047 => return name_of_collation(collation - 1024),
        2048..=2303 => "utf8mb3",
        2304..=2559 => "utf8mb4",
        2560..=2815 => "ucs2",
        2816..=3071 => "utf16",
        3072..=3327 => "utf32",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(name: &str, bytes: &[u8]) -> Option<String> {
        let mut out = String::new();
        Charset::of_name(name)
            .decode(bytes, &mut out)
            .then_some(out)
    }

    #[test]
    fn texts_of_many_charsets_become_utf8() {
        assert_eq!(
            decode("latin1", b"caf\xe9 \x80\x81").unwrap(),
            "café €\u{81}"
        );
        assert_eq!(decode("gbk", b"\xc4\xe3\xba\xc3").unwrap(), "你好");
        assert_eq!(decode("sjis", b"\x82\xa0").unwrap(), "あ");
        assert_eq!(decode("koi8r", b"\xcd\xc9\xd2").unwrap(), "мир");
        assert_eq!(decode("ucs2", b"\x01\x7e").unwrap(), "ž");
        assert_eq!(decode("utf16", b"\xd8\x3d\xde\x00").unwrap(), "😀");
        assert_eq!(decode("utf32", b"\0\x01\xf6\0").unwrap(), "😀");
        assert_eq!(decode("utf16le", b"\x7e\x01").unwrap(), "ž");
        assert_eq!(decode("cp850", b"\x82").unwrap(), "é");
        assert_eq!(decode("latin5", b"\xdd").unwrap(), "İ");
    }

    #[test]
    fn invalid_bytes_are_no_text() {
        assert_eq!(decode("utf8mb4", b"\xff"), None);
        assert_eq!(decode("ascii", "é".as_bytes()), None);
        assert_eq!(decode("ucs2", b"\0"), None);
        assert_eq!(decode("utf32", b"\0\x11\0\0"), None);
        assert_eq!(decode("gbk", b"\xff\xff"), None);
        assert_eq!(decode("cp1257", b"\x81"), None);
    }
}
