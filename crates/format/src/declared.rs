//! A column's declared type as text: `int unsigned`, `enum('a','b')`.

use change::ColumnType;

/// The text without what stands in parentheses: `varchar(20)` is `varchar`, `int(6) unsigned` is
/// `int unsigned`, `enum('a)','b')` is `enum`.
pub(crate) fn without_parameters(declared: &str) -> String {
    let mut out = String::with_capacity(declared.len());
    let mut depth = 0u32;
    let mut quoted = false;
    for character in declared.chars() {
        match character {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => {
                depth = depth.saturating_sub(1);
                continue;
            }
            _ => {}
        }
        if depth == 0 && !quoted && character != '\'' {
            out.push(character);
        }
    }
    out
}

/// What stands in the first parentheses, from after the opening one; may be cut off.
fn parameters(declared: &str) -> Option<&str> {
    let open = declared.find('(')?;
    Some(&declared[open + 1..])
}

/// Numbers separated by commas, up to the closing parenthesis.
fn numbers(declared: &str) -> [Option<u32>; 2] {
    let text = parameters(declared)
        .and_then(|rest| rest.split(')').next())
        .unwrap_or_default();
    let mut numbers = text.split(',').map(|part| part.trim().parse().ok());
    [numbers.next().flatten(), numbers.next().flatten()]
}

/// Quoted labels separated by commas; two quotes stand for one.
fn labels(declared: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let mut label: Option<String> = None;
    let mut characters = parameters(declared).unwrap_or_default().chars().peekable();
    while let Some(character) = characters.next() {
        match (&mut label, character) {
            (None, '\'') => label = Some(String::new()),
            (None, ')') => break,
            (None, _) => {}
            (Some(text), '\'') if characters.peek() == Some(&'\'') => {
                characters.next();
                text.push('\'');
            }
            (Some(_), '\'') => labels.extend(label.take()),
            (Some(text), character) => text.push(character),
        }
    }
    labels
}

/// Whether the text lacks parameters that every server prints with this type: who wrote it leaves all of
/// them out.
pub(crate) fn lacks_parameters(declared: &str) -> bool {
    if declared.contains('(') {
        return false;
    }
    let name = declared.split_ascii_whitespace().next();
    let name = name.unwrap_or_default().to_ascii_lowercase();
    matches!(
        name.as_str(),
        "decimal" | "numeric" | "bit" | "varchar" | "nvarchar" | "varbinary" | "enum" | "set"
    )
}

/// The type that a declared text names, in any case; none for a text that names no type.
///
/// What the text does not tell is the widest: 65 digits, 30 of them behind the point, 64 bits. A length that
/// it does not tell is 0. Fraction digits of a time are 0 as the server's default is, or with `is_bare`, for
/// texts that never tell them, 6.
pub(crate) fn parse(declared: &str, is_bare: bool) -> Option<ColumnType> {
    use ColumnType as T;
    let bare = without_parameters(declared).to_ascii_lowercase();
    let mut words = bare.split_ascii_whitespace();
    let name = words.next()?;
    let unsigned = words.any(|word| matches!(word, "unsigned" | "zerofill"));
    let [first, second] = numbers(declared);
    let length = first.unwrap_or(0);
    let digits = first.unwrap_or(if is_bare { 6 } else { 0 }).min(6) as u8;
    let int = |bytes| T::Int { bytes, unsigned };
    Some(match name {
        "tinyint" | "bool" | "boolean" | "int1" => int(1),
        "smallint" | "int2" => int(2),
        "mediumint" | "middleint" | "int3" => int(3),
        "int" | "integer" | "int4" => int(4),
        "bigint" | "int8" => int(8),
        "serial" => T::Int {
            bytes: 8,
            unsigned: true,
        },
        "decimal" | "numeric" | "dec" | "fixed" => {
            let (precision, scale) = match first {
                Some(precision) => (precision, second.unwrap_or(0)),
                None => (65, 30),
            };
            T::Decimal {
                precision: precision.min(65) as u8,
                scale: scale.min(65) as u8,
                unsigned,
            }
        }
        "float" | "float4" if second.is_none() && length > 24 => T::Double,
        "float" | "float4" => T::Float,
        "double" | "real" | "float8" => T::Double,
        "bit" => T::Bit {
            width: first.unwrap_or(64).clamp(1, 64) as u8,
        },
        "year" => T::Year,
        "date" => T::Date,
        "time" => T::Time { digits },
        "datetime" => T::DateTime { digits },
        "timestamp" => T::Timestamp { digits },
        "char" | "nchar" => T::Char { length },
        "varchar" | "nvarchar" | "varchar2" => T::Varchar { length },
        "tinytext" => T::Text { length_bytes: 1 },
        "text" => T::Text { length_bytes: 2 },
        "mediumtext" => T::Text { length_bytes: 3 },
        "longtext" => T::Text { length_bytes: 4 },
        "binary" => T::Binary { length },
        "varbinary" => T::Varbinary { length },
        "tinyblob" => T::Blob { length_bytes: 1 },
        "blob" => T::Blob { length_bytes: 2 },
        "mediumblob" => T::Blob { length_bytes: 3 },
        "longblob" => T::Blob { length_bytes: 4 },
        "enum" => T::Enum {
            members: labels(declared),
        },
        "set" => T::Set {
            members: labels(declared),
        },
        "json" => T::Json,
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" | "geometrycollection" | "geomcollection" => T::Geometry,
        "vector" => T::Vector,
        "uuid" => T::Uuid,
        "inet4" => T::Inet4,
        "inet6" => T::Inet6,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_go_and_labels_with_parentheses_too() {
        let cases = [
            ("varchar(20)", "varchar"),
            ("int(6) unsigned zerofill", "int unsigned zerofill"),
            ("enum('a)','b''(')", "enum"),
            ("decimal(10,2) unsigned", "decimal unsigned"),
            ("bigint", "bigint"),
        ];
        for (declared, bare) in cases {
            assert_eq!(without_parameters(declared), bare);
        }
    }

    #[test]
    fn types_are_read_in_any_spelling() {
        use ColumnType as T;
        let parse = |declared| parse(declared, false);
        assert_eq!(parse("VARCHAR(255)"), Some(T::Varchar { length: 255 }));
        assert_eq!(
            parse("DOUBLE PRECISION"),
            Some(T::Double),
            "two words are one type"
        );
        assert_eq!(
            parse("decimal(10,2) unsigned"),
            Some(T::Decimal {
                precision: 10,
                scale: 2,
                unsigned: true
            })
        );
        assert_eq!(
            parse("enum('a)','b''s',',')"),
            Some(T::Enum {
                members: vec!["a)".into(), "b's".into(), ",".into()]
            })
        );
        assert_eq!(parse("float(30)"), Some(T::Double));
        assert_eq!(parse("float(30,3)"), Some(T::Float));
        assert_eq!(parse("hologram"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn what_a_text_leaves_out_is_the_widest() {
        use ColumnType as T;
        for is_bare in [false, true] {
            let decimal = T::Decimal {
                precision: 65,
                scale: 30,
                unsigned: true,
            };
            assert_eq!(parse("decimal unsigned", is_bare), Some(decimal));
            assert_eq!(parse("bit", is_bare), Some(T::Bit { width: 64 }));
            let digits = if is_bare { 6 } else { 0 };
            assert_eq!(parse("datetime", is_bare), Some(T::DateTime { digits }));
            assert_eq!(
                parse("timestamp(3)", is_bare),
                Some(T::Timestamp { digits: 3 })
            );
        }
        for bare in ["VARCHAR", "decimal unsigned", "enum", "bit", "varbinary"] {
            assert!(lacks_parameters(bare), "{bare}");
        }
        for whole in ["datetime", "int", "text", "varchar(3)", "char", ""] {
            assert!(!lacks_parameters(whole), "{whole}");
        }
    }
}
