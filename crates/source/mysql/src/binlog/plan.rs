//! How to decode one table's rows: compiled once from its table map and its schema.

use super::cell::CellKind;
use super::charset::Charset;
use super::table_map::{MapColumn, TableMap, wire};
use change::{Column, ColumnType, SchemaVersion, TableId, TableSchema};
use std::sync::Arc;

/// What becomes of a column's value before it goes anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Treatment {
    /// As it is.
    #[default]
    Keep,
    /// Not in images nor in the schema.
    Exclude,
    /// NULL instead of the value.
    Redact,
    /// SHA-256 in hex, keyed where a key is configured.
    Hash(Arc<super::mask::MaskKey>),
}

/// One column of a plan.
#[derive(Debug, Clone)]
pub struct ColumnPlan {
    /// How its bytes are read.
    pub kind: CellKind,
    /// What becomes of it.
    pub treatment: Treatment,
    /// Place in the key plus one; 0 for a column outside the key.
    pub key_slot: u8,
}

/// How to decode one table's rows.
#[derive(Debug, Clone)]
pub struct TablePlan {
    /// The table.
    pub table: TableId,
    /// The version that describes the images.
    pub version: SchemaVersion,
    /// Columns in the order of the log.
    pub columns: Vec<ColumnPlan>,
    /// Columns that images hold.
    pub emitted_count: usize,
    /// Columns in the key; 0 for a table without one.
    pub key_count: usize,
    /// Columns of the wire type JSON.
    pub json_count: usize,
    /// The column `row_end` of MariaDB's system versioning: rows with an end are history, which a
    /// SELECT does not show either.
    pub row_end: Option<usize>,
    /// Nothing is excluded, masked, or else off the straight path.
    pub plain: bool,
    /// Names, for error texts and control records.
    pub schema: Arc<TableSchema>,
}

/// Columns of the longest key: MariaDB's limit.
pub const KEY_COLUMNS_MAX: usize = 32;

/// The kind of each column, or what does not fit between the table map and the schema.
pub fn column_kinds(
    map: &TableMap,
    schema: &TableSchema,
    mariadb: bool,
) -> Result<Vec<CellKind>, String> {
    let shown = shown_count(map);
    if shown != schema.columns.len() {
        return Err(format!(
            "the log has {} columns, the schema {}",
            shown,
            schema.columns.len()
        ));
    }
    // MariaDB's UUID and INET columns travel as CHAR but have no place among the charsets, so the
    // charsets that the map tells are off by them.
    let trust_collations = !schema.columns.iter().any(|column| {
        mariadb
            && matches!(
                column.kind,
                ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6
            )
    });
    let hidden = map.columns[shown..].iter().map(|wire| {
        describe_column(wire)
            .and_then(|column| column_kind(wire, &column, wire.collation))
            .ok_or_else(|| format!("a hidden column is of wire type {}", wire.wire))
    });
    map.columns
        .iter()
        .zip(&schema.columns)
        .map(|(wire, column)| {
            if wire.name.as_ref().is_some_and(|name| *name != column.name) {
                return Err(format!(
                    "the log calls a column {:?}, the schema {:?}",
                    wire.name.as_deref().unwrap_or_default(),
                    column.name
                ));
            }
            let collation = wire.collation.filter(|_| trust_collations);
            column_kind(wire, column, collation).ok_or_else(|| {
                format!(
                    "column {:?} is {} in the schema and of wire type {} ({}) in the log",
                    column.name, column.declared, wire.wire, wire.meta
                )
            })
        })
        .chain(hidden)
        .collect()
}

/// Columns that the table shows: MySQL 8.0.13 to 8.0.17 also logs the hidden columns of indexes on
/// expressions, behind all others.
fn shown_count(map: &TableMap) -> usize {
    let is_hidden = |column: &&MapColumn| {
        column.name.as_deref().is_some_and(|name| {
            let is_hash =
                name.len() == 32 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            name.is_empty() || name.starts_with("!hidden!") || is_hash
        })
    };
    map.columns.len() - map.columns.iter().rev().take_while(is_hidden).count()
}

fn charset_of(column: &Column, collation: Option<u32>) -> Charset {
    match collation.map(Charset::of_collation) {
        Some(charset) if charset != Charset::Unknown => charset,
        _ => column
            .charset
            .as_deref()
            .map_or(Charset::Unknown, Charset::of_name),
    }
}

/// Bytes of the length before a string of at most `meta` bytes.
fn short_prefix(meta: u16) -> u8 {
    if meta > 255 { 2 } else { 1 }
}

fn int_wire(bytes: u8) -> u8 {
    match bytes {
        1 => wire::TINY,
        2 => wire::SHORT,
        3 => wire::INT24,
        4 => wire::LONG,
        _ => wire::LONGLONG,
    }
}

fn column_kind(map: &MapColumn, column: &Column, collation: Option<u32>) -> Option<CellKind> {
    use ColumnType as T;
    let is = |kinds: &[u8]| kinds.contains(&map.wire);
    let same_sign = |unsigned: bool| map.unsigned.is_none_or(|wire| wire == unsigned);
    let meta = map.meta;
    Some(match &column.kind {
        T::Int { bytes, unsigned } if map.wire == int_wire(*bytes) && same_sign(*unsigned) => {
            CellKind::Int {
                bytes: *bytes,
                unsigned: *unsigned,
            }
        }
        T::Decimal {
            precision, scale, ..
        } if is(&[wire::NEWDECIMAL]) && meta.to_be_bytes() == [*precision, *scale] => {
            CellKind::Decimal {
                precision: *precision,
                scale: *scale,
            }
        }
        T::Float if is(&[wire::FLOAT]) => CellKind::Float,
        T::Double if is(&[wire::DOUBLE]) => CellKind::Double,
        T::Bit { width } if is(&[wire::BIT]) => {
            bit_kind(meta).filter(|_| u16::from(*width) == (meta >> 8) * 8 + (meta & 0xff))?
        }
        T::Year if is(&[wire::YEAR]) => CellKind::Year,
        T::Date | T::Time { .. } | T::DateTime { .. } | T::Timestamp { .. } => {
            temporal_kind(map, &column.kind)?
        }
        T::Char { .. } | T::Varchar { .. } | T::Text { .. } => {
            string_kind(map, charset_of(column, collation))?
        }
        T::Binary { length } if is(&[wire::STRING]) => CellKind::Padded {
            prefix: short_prefix(meta),
            length: *length,
        },
        T::Varbinary { .. } | T::Blob { .. } => string_kind(map, Charset::Binary)?,
        T::Enum { .. } if is(&[wire::ENUM]) => CellKind::Enum { bytes: meta as u8 },
        T::Set { .. } if is(&[wire::SET]) => CellKind::Set { bytes: meta as u8 },
        T::Json if is(&[wire::JSON]) => CellKind::Json { prefix: meta as u8 },
        // MariaDB's JSON is a LONGTEXT.
        T::Json => string_kind(map, Charset::Utf8)?,
        T::Geometry if is(&[wire::GEOMETRY]) => CellKind::Geometry { prefix: meta as u8 },
        T::Vector if is(&[wire::VECTOR]) => CellKind::Vector { prefix: meta as u8 },
        T::Vector if is(&[wire::VARCHAR]) => CellKind::Vector {
            prefix: short_prefix(meta),
        },
        T::Uuid if is(&[wire::STRING]) => CellKind::Uuid { prefix: 1 },
        T::Inet4 if is(&[wire::STRING]) => CellKind::Inet4 { prefix: 1 },
        T::Inet6 if is(&[wire::STRING]) => CellKind::Inet6 { prefix: 1 },
        _ => return None,
    })
}

fn bit_kind(meta: u16) -> Option<CellKind> {
    let bits = (meta >> 8) * 8 + (meta & 0xff);
    (1..=64).contains(&bits).then_some(CellKind::Bit {
        bytes: bits.div_ceil(8) as u8,
    })
}

fn temporal_kind(map: &MapColumn, kind: &ColumnType) -> Option<CellKind> {
    use ColumnType as T;
    let same = |digits: u8| map.meta == u16::from(digits);
    Some(match (kind, map.wire) {
        (T::Date, wire::DATE | wire::NEWDATE) => CellKind::Date,
        (T::Time { digits }, wire::TIME2) if same(*digits) => CellKind::Time { digits: *digits },
        (T::Time { digits: 0 }, wire::TIME) => CellKind::TimeOld,
        (T::Time { digits }, wire::TIME) => CellKind::TimeHires { digits: *digits },
        (T::DateTime { digits }, wire::DATETIME2) if same(*digits) => {
            CellKind::DateTime { digits: *digits }
        }
        (T::DateTime { digits: 0 }, wire::DATETIME) => CellKind::DateTimeOld,
        (T::DateTime { digits }, wire::DATETIME) => CellKind::DateTimeHires { digits: *digits },
        (T::Timestamp { digits }, wire::TIMESTAMP2) if same(*digits) => {
            CellKind::Timestamp { digits: *digits }
        }
        (T::Timestamp { digits: 0 }, wire::TIMESTAMP) => CellKind::TimestampOld,
        (T::Timestamp { digits }, wire::TIMESTAMP) => CellKind::TimestampHires { digits: *digits },
        _ => return None,
    })
}

fn string_kind(map: &MapColumn, charset: Charset) -> Option<CellKind> {
    let text = |prefix| match charset {
        Charset::Binary => CellKind::Bytes { prefix },
        charset => CellKind::Text { prefix, charset },
    };
    Some(match map.wire {
        wire::STRING | wire::VARCHAR | wire::VAR_STRING => text(short_prefix(map.meta)),
        wire::TINY_BLOB => text(1),
        wire::MEDIUM_BLOB => text(3),
        wire::LONG_BLOB => text(4),
        wire::BLOB if (1..=4).contains(&map.meta) => text(map.meta as u8),
        wire::MARIADB_VARCHAR_COMPRESSED => compressed(short_prefix(map.meta), charset),
        wire::MARIADB_BLOB_COMPRESSED => compressed(map.meta as u8, charset),
        _ => return None,
    })
}

fn compressed(prefix: u8, charset: Charset) -> CellKind {
    match charset {
        Charset::Binary => CellKind::CompressedBytes { prefix },
        charset => CellKind::CompressedText { prefix, charset },
    }
}

/// The schema that a table map with FULL metadata describes; defaults and comments stay empty.
pub fn schema_of_map(map: &TableMap) -> Option<TableSchema> {
    if !map.is_full() {
        return None;
    }
    let columns = map.columns[..shown_count(map)]
        .iter()
        .map(describe_column)
        .collect::<Option<Vec<_>>>()?;
    Some(TableSchema {
        table: TableId(0),
        version: SchemaVersion(0),
        database: map.database.clone(),
        name: map.name.clone(),
        columns,
        primary_key: map.primary_key.clone().unwrap_or_default(),
        unique_keys: Vec::new(),
        charset: None,
        comment: String::new(),
    })
}

fn describe_column(map: &MapColumn) -> Option<Column> {
    let (kind, declared) = describe_type(map)?;
    let has_charset = matches!(
        kind,
        ColumnType::Char { .. }
            | ColumnType::Varchar { .. }
            | ColumnType::Text { .. }
            | ColumnType::Enum { .. }
            | ColumnType::Set { .. }
    );
    let charset = map
        .collation
        .filter(|_| has_charset)
        .and_then(super::charset::name_of_collation);
    Some(Column {
        name: map.name.clone()?,
        declared,
        kind,
        charset: charset.map(str::to_owned),
        collation: None,
        nullable: map.nullable,
        default: None,
        comment: String::new(),
        generated: false,
        invisible: map.visible == Some(false),
        masked: false,
    })
}

fn with_digits(name: &str, digits: u16) -> String {
    match digits {
        0 => name.to_owned(),
        digits => format!("{name}({digits})"),
    }
}

fn describe_type(map: &MapColumn) -> Option<(ColumnType, String)> {
    use ColumnType as T;
    let meta = map.meta;
    let digits = meta.min(6) as u8;
    let int = |bytes, name: &str| {
        let unsigned = map.unsigned.unwrap_or(false);
        let declared = if unsigned {
            format!("{name} unsigned")
        } else {
            name.to_owned()
        };
        (T::Int { bytes, unsigned }, declared)
    };
    Some(match map.wire {
        wire::TINY => int(1, "tinyint"),
        wire::SHORT => int(2, "smallint"),
        wire::INT24 => int(3, "mediumint"),
        wire::LONG => int(4, "int"),
        wire::LONGLONG => int(8, "bigint"),
        wire::NEWDECIMAL => {
            let [precision, scale] = meta.to_be_bytes();
            let unsigned = map.unsigned.unwrap_or(false);
            let tail = if unsigned { " unsigned" } else { "" };
            (
                T::Decimal {
                    precision,
                    scale,
                    unsigned,
                },
                format!("decimal({precision},{scale}){tail}"),
            )
        }
        wire::FLOAT => (T::Float, "float".into()),
        wire::DOUBLE => (T::Double, "double".into()),
        wire::BIT => {
            let width = ((meta >> 8) * 8 + (meta & 0xff)) as u8;
            (T::Bit { width }, format!("bit({width})"))
        }
        wire::YEAR => (T::Year, "year".into()),
        wire::DATE | wire::NEWDATE => (T::Date, "date".into()),
        wire::TIME | wire::TIME2 => (T::Time { digits }, with_digits("time", meta)),
        wire::DATETIME | wire::DATETIME2 => (T::DateTime { digits }, with_digits("datetime", meta)),
        wire::TIMESTAMP | wire::TIMESTAMP2 => {
            (T::Timestamp { digits }, with_digits("timestamp", meta))
        }
        wire::ENUM | wire::SET => describe_labels(map),
        wire::JSON => (T::Json, "json".into()),
        wire::GEOMETRY => (T::Geometry, "geometry".into()),
        wire::VECTOR => (T::Vector, "vector".into()),
        _ => return describe_string(map),
    })
}

fn describe_labels(map: &MapColumn) -> (ColumnType, String) {
    let charset = map.collation.map_or(Charset::Utf8, Charset::of_collation);
    let members: Vec<String> = map
        .labels
        .iter()
        .flatten()
        .map(|label| charset.decode_lossy(label))
        .collect();
    let quoted: Vec<String> = members
        .iter()
        .map(|label| format!("'{}'", label.replace('\'', "''")))
        .collect();
    if map.wire == wire::ENUM {
        let declared = format!("enum({})", quoted.join(","));
        (ColumnType::Enum { members }, declared)
    } else {
        let declared = format!("set({})", quoted.join(","));
        (ColumnType::Set { members }, declared)
    }
}

fn describe_string(map: &MapColumn) -> Option<(ColumnType, String)> {
    use ColumnType as T;
    let binary = map.collation == Some(63);
    let charset = map
        .collation
        .and_then(super::charset::name_of_collation)
        .unwrap_or("binary");
    let bytes = u32::from(map.meta);
    let length = bytes / bytes_per_character(charset);
    Some(match map.wire {
        wire::STRING if binary => (T::Binary { length: bytes }, format!("binary({bytes})")),
        wire::STRING => (T::Char { length }, format!("char({length})")),
        wire::VARCHAR | wire::VAR_STRING if binary => (
            T::Varbinary { length: bytes },
            format!("varbinary({bytes})"),
        ),
        wire::VARCHAR | wire::VAR_STRING => (T::Varchar { length }, format!("varchar({length})")),
        // Compressed columns keep one byte more than their length.
        wire::MARIADB_VARCHAR_COMPRESSED => {
            let length = bytes.saturating_sub(1) / bytes_per_character(charset);
            if binary {
                let length = bytes.saturating_sub(1);
                (T::Varbinary { length }, format!("varbinary({length})"))
            } else {
                (T::Varchar { length }, format!("varchar({length})"))
            }
        }
        wire::BLOB
        | wire::TINY_BLOB
        | wire::MEDIUM_BLOB
        | wire::LONG_BLOB
        | wire::MARIADB_BLOB_COMPRESSED => {
            let length_bytes = map.meta.clamp(1, 4) as u8;
            let size = ["tiny", "", "medium", "long"][usize::from(length_bytes - 1)];
            if binary {
                (T::Blob { length_bytes }, format!("{size}blob"))
            } else {
                (T::Text { length_bytes }, format!("{size}text"))
            }
        }
        _ => return None,
    })
}

/// Most bytes of one character.
fn bytes_per_character(charset: &str) -> u32 {
    match charset {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => 4,
        "utf8mb3" | "ujis" | "eucjpms" => 3,
        "ucs2" | "gbk" | "gb2312" | "big5" | "sjis" | "cp932" | "euckr" => 2,
        _ => 1,
    }
}
