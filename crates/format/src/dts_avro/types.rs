//! The table of types: which number a column has, in which form its values stand, and back.
//!
//! MySQL's numbers are its own (`MYSQL_TYPE_…`), but for VARCHAR (253), TEXT (15), ENUM, SET and the
//! sizes of BLOB, which a binlog numbers otherwise. PostgreSQL's are its type OIDs.

use change::ColumnType;

/// The symbol of `source.sourceType`, of the databases that are written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourceKind {
    /// MySQL, MariaDB and what speaks like them.
    #[default]
    MySql,
    /// PostgreSQL.
    PostgreSql,
}

impl SourceKind {
    /// Its place in the schema's `SourceType`.
    pub fn symbol(self) -> i64 {
        match self {
            SourceKind::MySql => 0,
            SourceKind::PostgreSql => 3,
        }
    }
}

/// The branches of the union that a value is.
pub mod branch {
    #![allow(missing_docs)]
    pub const NULL: i64 = 0;
    pub const INTEGER: i64 = 1;
    pub const CHARACTER: i64 = 2;
    pub const DECIMAL: i64 = 3;
    pub const FLOAT: i64 = 4;
    pub const TIMESTAMP: i64 = 5;
    pub const DATE_TIME: i64 = 6;
    pub const ZONED: i64 = 7;
    pub const BINARY_GEOMETRY: i64 = 8;
    pub const TEXT_GEOMETRY: i64 = 9;
    pub const BINARY_OBJECT: i64 = 10;
    pub const TEXT_OBJECT: i64 = 11;
    pub const EMPTY_OBJECT: i64 = 12;
    /// How many there are.
    pub const COUNT: usize = 13;
}

/// In which form a column's values stand. A value that does not fit its column's form has the form
/// of its own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `Integer` with this precision.
    Integer(u8),
    /// `Decimal`.
    Decimal,
    /// `Float`.
    Float,
    /// `Timestamp`.
    Timestamp,
    /// `TimestampWithTimeZone`, in UTC.
    Zoned,
    /// `DateTime`.
    DateTime,
    /// `Character`.
    Character,
    /// `BinaryObject` with this word.
    Binary(&'static str),
    /// `TextObject` with this word.
    Object(&'static str),
    /// `BinaryGeometry`.
    Geometry,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Form::Integer(precision) => write!(f, "Integer, precision {precision}"),
            Form::Decimal => f.write_str("Decimal"),
            Form::Float => f.write_str("Float"),
            Form::Timestamp => f.write_str("Timestamp"),
            Form::Zoned => f.write_str("TimestampWithTimeZone"),
            Form::DateTime => f.write_str("DateTime"),
            Form::Character => f.write_str("Character"),
            Form::Binary(word) => write!(f, "BinaryObject {word}"),
            Form::Object(word) => write!(f, "TextObject {word}"),
            Form::Geometry => f.write_str("BinaryGeometry"),
        }
    }
}

/// A column's number and form.
pub type Wire = (i32, Form);

/// The number and form of a column.
///
/// Shape: each line is a type, its MySQL side, its PostgreSQL side.
pub fn wire(source: SourceKind, kind: &ColumnType) -> Wire {
    use ColumnType as T;
    use Form as F;
    let (mysql, postgres) = match kind {
        T::Int { bytes: 1, .. } => ((1, F::Integer(1)), (21, F::Integer(2))),
        T::Int { bytes: 2, .. } => ((2, F::Integer(2)), (21, F::Integer(2))),
        T::Int { bytes: 3, .. } => ((9, F::Integer(3)), (23, F::Integer(4))),
        // Unsigned, eight: readers take four bytes for a signed 32-bit number.
        T::Int {
            bytes: 4,
            unsigned: true,
        } => ((3, F::Integer(8)), (20, F::Integer(8))),
        T::Int { bytes: 4, .. } => ((3, F::Integer(4)), (23, F::Integer(4))),
        T::Int { .. } => ((8, F::Integer(8)), (20, F::Integer(8))),
        T::Decimal { .. } => ((246, F::Decimal), (1700, F::Decimal)),
        T::Float => ((4, F::Float), (700, F::Float)),
        T::Double => ((5, F::Float), (701, F::Float)),
        T::Bit { .. } => ((16, F::Integer(8)), (1560, F::Object("XTYPE"))),
        T::Year => ((13, F::DateTime), (21, F::Integer(2))),
        T::Date => ((10, F::DateTime), (1082, F::DateTime)),
        T::Time { .. } => ((11, F::DateTime), (1083, F::DateTime)),
        T::DateTime { .. } => ((12, F::DateTime), (1114, F::DateTime)),
        T::Timestamp { .. } => ((7, F::Timestamp), (1184, F::Zoned)),
        T::Char { .. } => ((254, F::Character), (1042, F::Character)),
        T::Varchar { .. } => ((253, F::Character), (1043, F::Character)),
        T::Text { .. } => ((15, F::Character), (25, F::Character)),
        T::Binary { .. } | T::Varbinary { .. } => {
            ((252, F::Binary("BINARY")), (17, F::Binary("BYTEA")))
        }
        T::Blob { length_bytes: 1 } => ((249, F::Binary("BLOB")), (17, F::Binary("BYTEA"))),
        T::Blob { length_bytes: 3 } => ((250, F::Binary("BLOB")), (17, F::Binary("BYTEA"))),
        T::Blob { length_bytes: 4 } => ((251, F::Binary("BLOB")), (17, F::Binary("BYTEA"))),
        T::Blob { .. } => ((252, F::Binary("BLOB")), (17, F::Binary("BYTEA"))),
        T::Enum { .. } => ((247, F::Object("ENUM")), (25, F::Character)),
        T::Set { .. } => ((248, F::Object("SET")), (25, F::Character)),
        T::Json => ((245, F::Object("JSON")), (114, F::Object("JSON"))),
        T::Geometry => ((255, F::Geometry), (17, F::Binary("BYTEA"))),
        // No reader knows MySQL's own number of VECTOR (242).
        T::Vector => ((252, F::Binary("BLOB")), (17, F::Binary("BYTEA"))),
        T::Uuid => ((254, F::Character), (2950, F::Object("XTYPE"))),
        T::Inet4 | T::Inet6 => ((253, F::Character), (869, F::Object("XTYPE"))),
        // Refused before.
        T::Cql(_) => ((253, F::Character), (25, F::Character)),
    };
    match source {
        SourceKind::MySql => mysql,
        SourceKind::PostgreSql => postgres,
    }
}

/// A type as a message names it: the name without lengths, and the kind with the room of the widest.
pub type Named = (&'static str, ColumnType);

/// What a number means at a source; `source` is the symbol of `SourceType`.
pub fn named(source: usize, number: i32) -> Option<Named> {
    match source {
        // MySQL, DRDS, and TiDB as newer writers number it.
        0 | 8 | 12 => mysql(number),
        // PostgreSQL and PPAS.
        3 | 7 => postgres(number),
        1 => oracle(number),
        _ => None,
    }
}

const fn int(bytes: u8) -> ColumnType {
    ColumnType::Int {
        bytes,
        unsigned: false,
    }
}

/// A decimal whose declared size the message does not tell.
pub const DECIMAL: ColumnType = ColumnType::Decimal {
    precision: 65,
    scale: 0,
    unsigned: false,
};
/// Text of any length.
pub const TEXT: ColumnType = ColumnType::Text { length_bytes: 4 };
/// Bytes of any length.
pub const BLOB: ColumnType = ColumnType::Blob { length_bytes: 4 };
const TIMESTAMP: ColumnType = ColumnType::Timestamp { digits: 6 };
const DATE_TIME: ColumnType = ColumnType::DateTime { digits: 6 };
const TIME: ColumnType = ColumnType::Time { digits: 6 };
const CHAR: ColumnType = ColumnType::Char { length: 0 };
const VARCHAR: ColumnType = ColumnType::Varchar { length: 0 };

fn mysql(number: i32) -> Option<Named> {
    use ColumnType as T;
    Some(match number {
        0 | 246 => ("decimal", DECIMAL),
        1 => ("tinyint", int(1)),
        2 => ("smallint", int(2)),
        3 => ("int", int(4)),
        4 => ("float", T::Float),
        5 => ("double", T::Double),
        7 | 17 => ("timestamp", TIMESTAMP),
        8 => ("bigint", int(8)),
        9 => ("mediumint", int(3)),
        10 => ("date", T::Date),
        11 | 19 => ("time", TIME),
        // 14 is named "new date", and read with its time.
        12 | 14 | 18 => ("datetime", DATE_TIME),
        13 => ("year", T::Year),
        15 => ("longtext", TEXT),
        16 => ("bit", T::Bit { width: 64 }),
        245 => ("json", T::Json),
        247 => ("enum", T::Enum { members: vec![] }),
        248 => ("set", T::Set { members: vec![] }),
        249 => ("tinyblob", T::Blob { length_bytes: 1 }),
        250 => ("mediumblob", T::Blob { length_bytes: 3 }),
        251 => ("longblob", BLOB),
        252 => ("blob", T::Blob { length_bytes: 2 }),
        253 => ("varchar", VARCHAR),
        254 => ("char", CHAR),
        255 => ("geometry", T::Geometry),
        _ => return None,
    })
}

fn postgres(oid: i32) -> Option<Named> {
    use ColumnType as T;
    Some(match oid {
        21 => ("smallint", int(2)),
        23 => ("integer", int(4)),
        20 => ("bigint", int(8)),
        1700 => ("numeric", DECIMAL),
        700 => ("real", T::Float),
        701 => ("double precision", T::Double),
        18 | 1042 => ("char", CHAR),
        1043 => ("varchar", VARCHAR),
        25 => ("text", TEXT),
        16 => ("boolean", VARCHAR),
        1082 => ("date", T::Date),
        1083 => ("time", TIME),
        1266 => ("timetz", VARCHAR),
        1114 => ("timestamp", DATE_TIME),
        1184 => ("timestamptz", TIMESTAMP),
        17 => ("bytea", BLOB),
        114 => ("json", T::Json),
        3802 => ("jsonb", T::Json),
        142 => ("xml", TEXT),
        2950 => ("uuid", T::Uuid),
        790 => ("money", VARCHAR),
        1186 => ("interval", VARCHAR),
        1560 => ("bit", VARCHAR),
        1561 => ("bit[]", TEXT),
        1562 => ("varbit", VARCHAR),
        600 => ("point", TEXT),
        601 => ("lseg", TEXT),
        602 => ("path", TEXT),
        603 => ("box", TEXT),
        604 => ("polygon", TEXT),
        628 => ("line", TEXT),
        718 => ("circle", TEXT),
        650 => ("cidr", VARCHAR),
        829 => ("macaddr", VARCHAR),
        869 => ("inet", VARCHAR),
        2970 => ("txid_snapshot", TEXT),
        3220 => ("pg_lsn", VARCHAR),
        3614 => ("tsvector", TEXT),
        3615 => ("tsquery", TEXT),
        _ => return None,
    })
}

fn oracle(number: i32) -> Option<Named> {
    use ColumnType as T;
    Some(match number {
        1 => ("varchar2", VARCHAR),
        2 => ("number", DECIMAL),
        8 => ("long", TEXT),
        12 => ("date", DATE_TIME),
        23 => ("raw", T::Varbinary { length: 0 }),
        24 => ("long raw", BLOB),
        58 => ("xmltype", TEXT),
        69 => ("rowid", VARCHAR),
        96 => ("char", CHAR),
        100 => ("binary_float", T::Float),
        101 => ("binary_double", T::Double),
        112 => ("clob", TEXT),
        113 => ("blob", BLOB),
        114 => ("bfile", VARCHAR),
        180 => ("timestamp", DATE_TIME),
        181 => ("timestamp with time zone", TIMESTAMP),
        182 => ("interval year to month", VARCHAR),
        183 => ("interval day to second", VARCHAR),
        208 => ("urowid", VARCHAR),
        231 => ("timestamp with local time zone", TIMESTAMP),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<ColumnType> {
        use ColumnType as T;
        let mut all = vec![
            DECIMAL,
            T::Float,
            T::Double,
            T::Bit { width: 1 },
            T::Year,
            T::Date,
            TIME,
            DATE_TIME,
            TIMESTAMP,
            CHAR,
            VARCHAR,
            TEXT,
            T::Binary { length: 1 },
            T::Varbinary { length: 1 },
            T::Enum { members: vec![] },
            T::Set { members: vec![] },
            T::Json,
            T::Geometry,
            T::Vector,
            T::Uuid,
            T::Inet4,
            T::Inet6,
        ];
        all.extend((1..=4).map(|length_bytes| T::Blob { length_bytes }));
        for unsigned in [false, true] {
            all.extend([1, 2, 3, 4, 8].map(|bytes| T::Int { bytes, unsigned }));
        }
        all
    }

    #[test]
    fn every_number_that_is_written_can_be_read() {
        for kind in all() {
            let (number, _) = wire(SourceKind::MySql, &kind);
            assert!((0..256).contains(&number) && !(17..=19).contains(&number));
            assert!(named(0, number).is_some(), "{kind:?}");
            let (oid, _) = wire(SourceKind::PostgreSql, &kind);
            assert!((0..4096).contains(&oid));
            assert!(named(3, oid).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn numbers_of_postgresql_that_only_dts_writes_are_known_by_their_name() {
        let names = [(1561, "bit[]"), (2970, "txid_snapshot"), (3220, "pg_lsn")];
        for (oid, name) in names {
            assert_eq!(named(3, oid).map(|(declared, _)| declared), Some(name));
        }
    }

    #[test]
    fn every_word_is_one_that_readers_know() {
        const KNOWN: [&str; 17] = [
            "BINARY", "BOOL", "BLOB", "XML", "JSON", "TEXT", "BFILE", "RAW", "LONG_RAW", "ROWID",
            "UROWID", "ENUM", "SET", "BYTEA", "GEOMETRY", "XTYPE", "UUID",
        ];
        for kind in all() {
            for source in [SourceKind::MySql, SourceKind::PostgreSql] {
                if let (_, Form::Binary(word) | Form::Object(word)) = wire(source, &kind) {
                    assert!(KNOWN.contains(&word), "{word}");
                }
            }
        }
    }
}
