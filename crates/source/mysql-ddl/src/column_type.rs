//! Column types: every spelling that the servers accept, and the one they print.

use crate::DdlError;
use crate::lexer::{Cursor, Token};
use change::ColumnType;

/// How the server prints types.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeStyle {
    pub mariadb: bool,
    /// Whether integers keep a display width: MariaDB, and MySQL before 8.0.19.
    pub display_width: bool,
    pub real_as_float: bool,
}

/// A type as parsed; text types wait for their charset before they are final.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParsedType {
    pub kind: ColumnType,
    pub declared: String,
    /// Charset fixed by the type's name (`NCHAR`, MariaDB's JSON) or by `ASCII`, `UNICODE`, `BYTE`.
    pub charset: Option<String>,
    pub collation: Option<String>,
    /// SERIAL: NOT NULL AUTO_INCREMENT UNIQUE.
    pub serial: bool,
    /// `TEXT(n)`, `BLOB(n)`: the server picks the smallest type that holds n.
    pub sized_text: Option<u64>,
}

impl ParsedType {
    fn new(kind: ColumnType, declared: impl Into<String>) -> Self {
        Self {
            kind,
            declared: declared.into(),
            charset: None,
            collation: None,
            serial: false,
            sized_text: None,
        }
    }
}

fn arguments(cursor: &mut Cursor<'_>) -> Result<Vec<u64>, DdlError> {
    let mut out = Vec::new();
    if !cursor.mark('(') {
        return Ok(out);
    }
    loop {
        match cursor.advance() {
            Some(Token::Word(word)) => match word.parse() {
                Ok(number) => out.push(number),
                Err(_) => return cursor.fail("expected a number"),
            },
            _ => return cursor.fail("expected a number"),
        }
        if cursor.mark(')') {
            return Ok(out);
        }
        cursor.need_mark(',')?;
    }
}

fn members(cursor: &mut Cursor<'_>) -> Result<Vec<String>, DdlError> {
    cursor.need_mark('(')?;
    let mut out = Vec::new();
    loop {
        // A charset introducer (_utf8'…') may stand before a label.
        if matches!(cursor.peek(), Some(Token::Word(word)) if word.starts_with('_')) {
            cursor.advance();
        }
        // The server drops trailing spaces of labels.
        out.push(cursor.text()?.trim_end_matches(' ').to_owned());
        if cursor.mark(')') {
            return Ok(out);
        }
        cursor.need_mark(',')?;
    }
}

fn small(number: Option<&u64>, default: u8) -> u8 {
    number.map_or(default, |n| u8::try_from(*n).unwrap_or(u8::MAX))
}

fn length(number: Option<&u64>, default: u32) -> u32 {
    number.map_or(default, |n| u32::try_from(*n).unwrap_or(u32::MAX))
}

fn with_digits(name: &str, digits: u8) -> String {
    if digits == 0 {
        name.to_owned()
    } else {
        format!("{name}({digits})")
    }
}

fn labels(name: &str, members: &[String]) -> String {
    let quoted: Vec<String> = members
        .iter()
        .map(|m| format!("'{}'", m.replace('\\', "\\\\").replace('\'', "''")))
        .collect();
    format!("{name}({})", quoted.join(","))
}

/// Reads a type and the attributes that belong to it (UNSIGNED, ZEROFILL, precision).
pub(crate) fn parse(cursor: &mut Cursor<'_>, style: TypeStyle) -> Result<ParsedType, DdlError> {
    let word = cursor.name()?.to_ascii_lowercase();
    let int = |cursor: &mut Cursor<'_>, bytes| integer(cursor, bytes, style);
    match word.as_str() {
        "tinyint" | "int1" => int(cursor, 1),
        "bool" | "boolean" => {
            let kind = ColumnType::Int {
                bytes: 1,
                unsigned: false,
            };
            Ok(ParsedType::new(kind, "tinyint(1)"))
        }
        "smallint" | "int2" => int(cursor, 2),
        "mediumint" | "int3" | "middleint" => int(cursor, 3),
        "int" | "integer" | "int4" => int(cursor, 4),
        "bigint" | "int8" => int(cursor, 8),
        "serial" => {
            let declared = if style.display_width {
                "bigint(20) unsigned"
            } else {
                "bigint unsigned"
            };
            let kind = ColumnType::Int {
                bytes: 8,
                unsigned: true,
            };
            Ok(ParsedType {
                serial: true,
                ..ParsedType::new(kind, declared)
            })
        }
        "decimal" | "dec" | "numeric" | "fixed" | "number" => decimal(cursor),
        "float" | "float4" | "float8" | "double" | "real" => float(cursor, &word, style),
        "bit" => {
            let width = small(arguments(cursor)?.first(), 1);
            Ok(ParsedType::new(
                ColumnType::Bit { width },
                format!("bit({width})"),
            ))
        }
        "year" => {
            arguments(cursor)?;
            let declared = if style.display_width {
                "year(4)"
            } else {
                "year"
            };
            Ok(ParsedType::new(ColumnType::Year, declared))
        }
        "date" => Ok(ParsedType::new(ColumnType::Date, "date")),
        "time" => {
            let digits = small(arguments(cursor)?.first(), 0);
            Ok(ParsedType::new(
                ColumnType::Time { digits },
                with_digits("time", digits),
            ))
        }
        "datetime" => {
            let digits = small(arguments(cursor)?.first(), 0);
            Ok(ParsedType::new(
                ColumnType::DateTime { digits },
                with_digits("datetime", digits),
            ))
        }
        "timestamp" => {
            let digits = small(arguments(cursor)?.first(), 0);
            Ok(ParsedType::new(
                ColumnType::Timestamp { digits },
                with_digits("timestamp", digits),
            ))
        }
        _ => other(cursor, &word, style),
    }
}

fn integer(cursor: &mut Cursor<'_>, bytes: u8, style: TypeStyle) -> Result<ParsedType, DdlError> {
    let width = arguments(cursor)?.first().copied();
    let (unsigned, zerofill) = number_attributes(cursor);
    let name = match bytes {
        1 => "tinyint",
        2 => "smallint",
        3 => "mediumint",
        4 => "int",
        _ => "bigint",
    };
    // Source: MySQL 8.0.19 release notes: widths are no longer printed, but for TINYINT(1) and
    // ZEROFILL. Default widths: digits of the largest value, plus a sign.
    let default = match (bytes, unsigned) {
        (1, true) => 3,
        (1, false) => 4,
        (2, true) => 5,
        (2, false) => 6,
        (3, true) => 8,
        (3, false) => 9,
        (4, true) => 10,
        (4, false) => 11,
        _ => 20,
    };
    let keeps = style.display_width || zerofill || (bytes == 1 && width == Some(1) && !unsigned);
    let mut declared = name.to_owned();
    if keeps {
        declared.push_str(&format!("({})", width.unwrap_or(default)));
    }
    push_number_attributes(&mut declared, unsigned, zerofill);
    Ok(ParsedType::new(
        ColumnType::Int { bytes, unsigned },
        declared,
    ))
}

fn number_attributes(cursor: &mut Cursor<'_>) -> (bool, bool) {
    let (mut unsigned, mut zerofill) = (false, false);
    loop {
        if cursor.eat("unsigned") {
            unsigned = true;
        } else if cursor.eat("zerofill") {
            (unsigned, zerofill) = (true, true);
        } else if !cursor.eat("signed") {
            return (unsigned, zerofill);
        }
    }
}

fn push_number_attributes(declared: &mut String, unsigned: bool, zerofill: bool) {
    if unsigned {
        declared.push_str(" unsigned");
    }
    if zerofill {
        declared.push_str(" zerofill");
    }
}

fn decimal(cursor: &mut Cursor<'_>) -> Result<ParsedType, DdlError> {
    let args = arguments(cursor)?;
    let precision = match small(args.first(), 10) {
        0 => 10,
        some => some,
    };
    let scale = small(args.get(1), 0);
    let (unsigned, zerofill) = number_attributes(cursor);
    let mut declared = format!("decimal({precision},{scale})");
    push_number_attributes(&mut declared, unsigned, zerofill);
    Ok(ParsedType::new(
        ColumnType::Decimal {
            precision,
            scale,
            unsigned,
        },
        declared,
    ))
}

fn float(cursor: &mut Cursor<'_>, word: &str, style: TypeStyle) -> Result<ParsedType, DdlError> {
    cursor.eat("precision");
    let args = arguments(cursor)?;
    let single = match word {
        "float" => args.len() != 1 || args[0] <= 24,
        "float4" => true,
        "real" => style.real_as_float,
        _ => false,
    };
    let (unsigned, zerofill) = number_attributes(cursor);
    let mut declared = if single { "float" } else { "double" }.to_owned();
    if let [digits, scale] = args[..] {
        declared.push_str(&format!("({digits},{scale})"));
    }
    push_number_attributes(&mut declared, unsigned, zerofill);
    Ok(ParsedType::new(
        if single {
            ColumnType::Float
        } else {
            ColumnType::Double
        },
        declared,
    ))
}

fn text(bytes: u8) -> ParsedType {
    let name = ["tinytext", "text", "mediumtext", "longtext"][usize::from(bytes.clamp(1, 4)) - 1];
    ParsedType::new(
        ColumnType::Text {
            length_bytes: bytes,
        },
        name,
    )
}

fn blob(bytes: u8) -> ParsedType {
    let name = ["tinyblob", "blob", "mediumblob", "longblob"][usize::from(bytes.clamp(1, 4)) - 1];
    ParsedType::new(
        ColumnType::Blob {
            length_bytes: bytes,
        },
        name,
    )
}

fn character(cursor: &mut Cursor<'_>, national: bool) -> Result<ParsedType, DdlError> {
    let varying = cursor.eat("varying");
    let args = arguments(cursor)?;
    let mut parsed = if varying {
        varchar(&args)
    } else {
        char_of(&args)
    };
    if national {
        parsed.charset = Some("utf8mb3".into());
    }
    Ok(parsed)
}

fn char_of(args: &[u64]) -> ParsedType {
    let length = length(args.first(), 1);
    ParsedType::new(ColumnType::Char { length }, format!("char({length})"))
}

fn varchar(args: &[u64]) -> ParsedType {
    let length = length(args.first(), 0);
    ParsedType::new(ColumnType::Varchar { length }, format!("varchar({length})"))
}

fn varbinary(args: &[u64]) -> ParsedType {
    let length = length(args.first(), 0);
    ParsedType::new(
        ColumnType::Varbinary { length },
        format!("varbinary({length})"),
    )
}

fn other(cursor: &mut Cursor<'_>, word: &str, style: TypeStyle) -> Result<ParsedType, DdlError> {
    Ok(match word {
        "char" | "character" => return character(cursor, false),
        "national" => {
            if cursor.eat("varchar") {
                let args = arguments(cursor)?;
                return Ok(ParsedType {
                    charset: Some("utf8mb3".into()),
                    ..varchar(&args)
                });
            }
            cursor.eat_any(&["char", "character"]);
            return character(cursor, true);
        }
        "nchar" => {
            cursor.eat("varchar");
            return character(cursor, true);
        }
        "varchar" | "varcharacter" | "varchar2" => varchar(&arguments(cursor)?),
        "nvarchar" => {
            let args = arguments(cursor)?;
            ParsedType {
                charset: Some("utf8mb3".into()),
                ..varchar(&args)
            }
        }
        "binary" => {
            let length = length(arguments(cursor)?.first(), 1);
            ParsedType::new(ColumnType::Binary { length }, format!("binary({length})"))
        }
        "varbinary" | "raw" => varbinary(&arguments(cursor)?),
        "tinytext" => text(1),
        "text" | "clob" => {
            let sized_text = arguments(cursor)?.first().copied();
            ParsedType {
                sized_text,
                ..text(2)
            }
        }
        "mediumtext" => text(3),
        "longtext" => text(4),
        "tinyblob" => blob(1),
        "blob" => {
            let sized_text = arguments(cursor)?.first().copied();
            ParsedType {
                sized_text,
                ..blob(2)
            }
        }
        "mediumblob" => blob(3),
        "longblob" => blob(4),
        "long" if cursor.eat("varbinary") => blob(3),
        "long" => {
            cursor.eat_any(&["varchar", "varcharacter"]);
            text(3)
        }
        _ => return special(cursor, word, style),
    })
}

fn special(cursor: &mut Cursor<'_>, word: &str, style: TypeStyle) -> Result<ParsedType, DdlError> {
    Ok(match word {
        "enum" => {
            let members = members(cursor)?;
            let declared = labels("enum", &members);
            ParsedType::new(ColumnType::Enum { members }, declared)
        }
        "set" => {
            let members = members(cursor)?;
            let declared = labels("set", &members);
            ParsedType::new(ColumnType::Set { members }, declared)
        }
        "json" if style.mariadb => ParsedType {
            charset: Some("utf8mb4".into()),
            collation: Some("utf8mb4_bin".into()),
            ..text(4)
        },
        "json" => ParsedType::new(ColumnType::Json, "json"),
        "geometrycollection" | "geomcollection" => {
            let name = if style.mariadb {
                "geometrycollection"
            } else {
                "geomcollection"
            };
            ParsedType::new(ColumnType::Geometry, name)
        }
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" => ParsedType::new(ColumnType::Geometry, word),
        "vector" => {
            let dimension = length(arguments(cursor)?.first(), 2048);
            ParsedType::new(ColumnType::Vector, format!("vector({dimension})"))
        }
        "uuid" => ParsedType::new(ColumnType::Uuid, "uuid"),
        "inet4" => ParsedType::new(ColumnType::Inet4, "inet4"),
        "inet6" => ParsedType::new(ColumnType::Inet6, "inet6"),
        _ => return cursor.fail(format!("unknown column type `{word}`")),
    })
}

/// Bytes that one character of a charset may take: decides which type `TEXT(n)` becomes.
fn bytes_per_char(charset: &str) -> u64 {
    match charset {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => 4,
        "utf8" | "utf8mb3" | "ujis" | "eucjpms" => 3,
        "ucs2" | "big5" | "gbk" | "gb2312" | "sjis" | "cp932" | "euckr" => 2,
        _ => 1,
    }
}

/// Applies the charset that a column ends up with: `binary` turns text types into binary ones, and a
/// sized TEXT becomes the smallest that fits.
pub(crate) fn settle(parsed: &mut ParsedType, charset: &str) {
    use ColumnType as T;
    if let (Some(size), T::Text { .. } | T::Blob { .. }) = (parsed.sized_text.take(), &parsed.kind)
    {
        let is_text = matches!(parsed.kind, T::Text { .. });
        let per_char = if is_text { bytes_per_char(charset) } else { 1 };
        let bytes = match size.saturating_mul(per_char) {
            0 => 2,
            1..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xff_ffff => 3,
            _ => 4,
        };
        *parsed = if is_text { text(bytes) } else { blob(bytes) };
    }
    if charset == "binary" {
        let binary = match &parsed.kind {
            T::Char { length } => Some(ParsedType::new(
                T::Binary { length: *length },
                format!("binary({length})"),
            )),
            T::Varchar { length } => Some(varbinary(&[u64::from(*length)])),
            T::Text { length_bytes } => Some(blob(*length_bytes)),
            _ => None,
        };
        if let Some(binary) = binary {
            *parsed = binary;
        }
    }
}
