//! Which type a column of the source gets in the target.

use crate::config::{Dates, JsonType, TypesConfig};
use crate::server::Version;
use change::{Column, ColumnType};

/// The type of a column that the sink makes.
///
/// Shape: `in_key` columns of the key or of ORDER BY take no NULL.
pub(crate) fn target_type(
    column: &Column,
    in_key: bool,
    types: &TypesConfig,
    version: Version,
) -> String {
    let plain = plain_type(&column.kind, types, version);
    // A date that the calendar does not have is NULL in the target.
    let may_be_null = column.nullable || is_date(&column.kind) && types.dates == Dates::Native;
    if in_key || !may_be_null || plain.starts_with("Array(") {
        return plain;
    }
    match plain.strip_prefix("LowCardinality(") {
        Some(inner) => format!("LowCardinality(Nullable({inner})"),
        None => format!("Nullable({plain})"),
    }
}

fn is_date(kind: &ColumnType) -> bool {
    matches!(
        kind,
        ColumnType::Date | ColumnType::DateTime { .. } | ColumnType::Timestamp { .. }
    )
}

fn plain_type(kind: &ColumnType, types: &TypesConfig, version: Version) -> String {
    use ColumnType as T;
    let is_text = types.dates == Dates::Text;
    match kind {
        T::Int { bytes, unsigned } => {
            let bits = match bytes {
                1 => 8,
                2 => 16,
                3 | 4 => 32,
                _ => 64,
            };
            format!("{}Int{bits}", if *unsigned { "U" } else { "" })
        }
        T::Decimal {
            precision, scale, ..
        } => format!("Decimal({precision}, {scale})"),
        T::Float => "Float32".into(),
        T::Double => "Float64".into(),
        T::Bit { width } => match width {
            0..=8 => "UInt8",
            9..=16 => "UInt16",
            17..=32 => "UInt32",
            _ => "UInt64",
        }
        .into(),
        T::Year => "UInt16".into(),
        T::Date | T::DateTime { .. } | T::Timestamp { .. } | T::Time { .. } if is_text => {
            "String".into()
        }
        T::Date => "Date32".into(),
        T::DateTime { digits } | T::Timestamp { digits } => {
            format!("DateTime64({digits}, 'UTC')")
        }
        T::Time { digits } if version.has_time64() => format!("Time64({digits})"),
        T::Time { .. } => "Int64".into(),
        T::Enum { .. } => "LowCardinality(String)".into(),
        T::Json if types.json == JsonType::Json => "JSON".into(),
        T::Char { .. }
        | T::Varchar { .. }
        | T::Text { .. }
        | T::Binary { .. }
        | T::Varbinary { .. }
        | T::Blob { .. }
        | T::Set { .. }
        | T::Json
        | T::Geometry => "String".into(),
        T::Vector => "Array(Float32)".into(),
        T::Uuid => "UUID".into(),
        T::Inet4 => "IPv4".into(),
        T::Inet6 => "IPv6".into(),
        // Such a table has no layout.
        T::Cql(_) => "String".into(),
    }
}

/// Rows of the page of types: what the source has, what the target gets, how values are written.
pub fn page() -> String {
    let mut out = String::from(HEAD);
    let types = TypesConfig::default();
    let now = Version::new(26, 9);
    for (name, kind, note) in examples() {
        let mut column = Column {
            name: String::new(),
            declared: String::new(),
            kind,
            charset: None,
            collation: None,
            nullable: false,
            default: None,
            comment: String::new(),
            generated: false,
            invisible: false,
            masked: false,
        };
        let key = target_type(&column, true, &types, now);
        let not_null = target_type(&column, false, &types, now);
        column.nullable = true;
        let nullable = target_type(&column, false, &types, now);
        out.push_str(&format!(
            "| {name} | `{key}` | `{not_null}` | `{nullable}` | {note} |\n"
        ));
    }
    out.push_str(TAIL);
    out
}

const HEAD: &str = "\
# Types in ClickHouse

Generated from the code (`cargo xtask gen`). Every column can have another type: `tables.<table>.types` in the sink's config, or a table that
is there already: the sink writes what DESCRIBE says, and sets a row's key aside where its value does not fit.

| source | in a key | NOT NULL | NULL allowed | values |
|---|---|---|---|---|
";

const TAIL: &str = "
- Zero and partly-zero dates (`0000-00-00`, `2024-00-10`) and days that no month has become NULL: so every date column outside a key is Nullable. In a key they
  set the row's key aside. `types.dates: text` keeps them all, as text.
- Dates beyond what the server's types hold set the row's key aside, or become the nearest date with `types.out_of_range: clamp`. ClickHouse 26.7 and later hold
  0001-01-01 to 9999-12-31; earlier ones 1900-01-01 to 2299-12-31. The copy of a table and its stream go through the same code.
- Before ClickHouse 25.12, TIME becomes Int64: microseconds.
- An unknown cell (a partial row image) is never written: an update without the whole row sets its key aside.
- Text whose bytes are not valid in the column's charset is written as the bytes are. ClickHouse's String holds any bytes, also NUL.
- ENUM's error value is `''`. A column that was made as Enum8 or Enum16 takes only its labels.
";

fn examples() -> Vec<(&'static str, ColumnType, &'static str)> {
    use ColumnType as T;
    let int = |bytes, unsigned| T::Int { bytes, unsigned };
    vec![
        ("TINYINT", int(1, false), ""),
        ("TINYINT UNSIGNED", int(1, true), ""),
        ("SMALLINT", int(2, false), ""),
        ("MEDIUMINT", int(3, false), ""),
        ("INT", int(4, false), ""),
        ("INT UNSIGNED", int(4, true), ""),
        ("BIGINT", int(8, false), ""),
        ("BIGINT UNSIGNED", int(8, true), ""),
        (
            "DECIMAL(18,2)",
            T::Decimal {
                precision: 18,
                scale: 2,
                unsigned: false,
            },
            "exact, to 65 digits",
        ),
        ("FLOAT", T::Float, ""),
        ("DOUBLE", T::Double, ""),
        ("BIT(1)", T::Bit { width: 1 }, "the bits as a number"),
        ("BIT(64)", T::Bit { width: 64 }, "the bits as a number"),
        ("YEAR", T::Year, ""),
        ("DATE", T::Date, "zero dates are NULL"),
        ("TIME(3)", T::Time { digits: 3 }, "±838:59:59"),
        (
            "DATETIME(6)",
            T::DateTime { digits: 6 },
            "the clock's reading, shown as UTC",
        ),
        ("TIMESTAMP", T::Timestamp { digits: 0 }, "the instant"),
        ("CHAR, VARCHAR", T::Varchar { length: 10 }, "UTF-8"),
        ("TEXT", T::Text { length_bytes: 2 }, "UTF-8"),
        (
            "BINARY, VARBINARY, BLOB",
            T::Blob { length_bytes: 2 },
            "the bytes",
        ),
        (
            "ENUM",
            T::Enum {
                members: vec!["a".into()],
            },
            "the label",
        ),
        (
            "SET",
            T::Set {
                members: vec!["a".into()],
            },
            "labels joined by commas, as the source prints them",
        ),
        ("JSON", T::Json, "the document's text"),
        (
            "GEOMETRY",
            T::Geometry,
            "SRID (4 bytes, little endian) and WKB, as the source stores it",
        ),
        (
            "VECTOR",
            T::Vector,
            "NULL is the empty array: a vector has at least one number",
        ),
        ("UUID (MariaDB)", T::Uuid, ""),
        ("INET4 (MariaDB)", T::Inet4, ""),
        ("INET6 (MariaDB)", T::Inet6, ""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_types_is_what_the_code_does() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../docs/reference/clickhouse-types.md"
        );
        let page = page();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), page);
    }
}
