//! What a table looked like: one version of its schema.

use crate::cql::{CqlColumn, CqlRole, CqlType};
use crate::wire::{WireError, WireReader, put_bytes, put_option, put_u64};

/// A table's number in one journal; 0 stands for "no table". Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TableId(pub u32);

/// A schema's number within its table, from 1, rising with every DDL that changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SchemaVersion(pub u32);

/// The type of a column, with what is needed to render its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnType {
    /// TINYINT to BIGINT; `bytes` is 1, 2, 3, 4 or 8.
    Int {
        /// Width in bytes.
        bytes: u8,
        /// UNSIGNED.
        unsigned: bool,
    },
    /// DECIMAL(precision, scale).
    Decimal {
        /// Total digits.
        precision: u8,
        /// Fraction digits.
        scale: u8,
        /// UNSIGNED.
        unsigned: bool,
    },
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// BIT(width).
    Bit {
        /// Bits, 1 to 64.
        width: u8,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME(digits).
    Time {
        /// Fraction digits.
        digits: u8,
    },
    /// DATETIME(digits).
    DateTime {
        /// Fraction digits.
        digits: u8,
    },
    /// TIMESTAMP(digits).
    Timestamp {
        /// Fraction digits.
        digits: u8,
    },
    /// CHAR(length).
    Char {
        /// Characters.
        length: u32,
    },
    /// VARCHAR(length).
    Varchar {
        /// Characters.
        length: u32,
    },
    /// TINYTEXT (1) to LONGTEXT (4): bytes of the length.
    Text {
        /// Bytes of the length prefix.
        length_bytes: u8,
    },
    /// BINARY(length).
    Binary {
        /// Bytes.
        length: u32,
    },
    /// VARBINARY(length).
    Varbinary {
        /// Bytes.
        length: u32,
    },
    /// TINYBLOB (1) to LONGBLOB (4): bytes of the length.
    Blob {
        /// Bytes of the length prefix.
        length_bytes: u8,
    },
    /// ENUM.
    Enum {
        /// Labels in order; the first has ordinal 1.
        members: Vec<String>,
    },
    /// SET.
    Set {
        /// Labels in order; the first is bit 0.
        members: Vec<String>,
    },
    /// JSON (MySQL's own; MariaDB's is a LONGTEXT).
    Json,
    /// GEOMETRY and its subtypes.
    Geometry,
    /// VECTOR.
    Vector,
    /// MariaDB UUID.
    Uuid,
    /// MariaDB INET4.
    Inet4,
    /// MariaDB INET6.
    Inet6,
    /// A column of CQL: its type, and what it is in its table; see [`crate::cql`].
    Cql(CqlColumn),
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type in full, lower case, as the server prints it: `varchar(32)`, `int unsigned`,
    /// `enum('a','b')`.
    pub declared: String,
    /// Its type, parsed.
    pub kind: ColumnType,
    /// Charset of a text, enum or set column, as the server names it.
    pub charset: Option<String>,
    /// Collation, where known.
    pub collation: Option<String>,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The default as the server prints it.
    pub default: Option<String>,
    /// The comment.
    pub comment: String,
    /// GENERATED ALWAYS AS.
    pub generated: bool,
    /// INVISIBLE, also a generated invisible primary key.
    pub invisible: bool,
    /// Masked before the journal: its values are not the source's.
    pub masked: bool,
}

/// A unique key over columns (not over expressions).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueKey {
    /// Its name.
    pub name: String,
    /// Indexes of its columns in key order.
    pub columns: Vec<u32>,
}

/// One version of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// The table's number in this journal.
    pub table: TableId,
    /// This version.
    pub version: SchemaVersion,
    /// Database (MySQL) or schema.
    pub database: String,
    /// Table name.
    pub name: String,
    /// Columns that images hold, in order.
    pub columns: Vec<Column>,
    /// Indexes of the primary key's columns, in key order; empty for a table without one.
    pub primary_key: Vec<u32>,
    /// Unique keys, in the order of their definition.
    pub unique_keys: Vec<UniqueKey>,
    /// Default charset of the table.
    pub charset: Option<String>,
    /// The table's comment.
    pub comment: String,
}

impl TableSchema {
    /// The columns that identify a row: the primary key, else the first unique key whose columns are
    /// all NOT NULL; empty when the whole row has to.
    pub fn key(&self) -> &[u32] {
        if !self.primary_key.is_empty() {
            return &self.primary_key;
        }
        let not_null = |i: &u32| {
            self.columns
                .get(*i as usize)
                .is_some_and(|column| !column.nullable)
        };
        self.unique_keys
            .iter()
            .map(|key| key.columns.as_slice())
            .find(|columns| !columns.is_empty() && columns.iter().all(not_null))
            .unwrap_or_default()
    }

    /// Whether it is a table of CQL; all its columns are then [`ColumnType::Cql`].
    #[inline]
    pub fn is_cql(&self) -> bool {
        matches!(
            self.columns.first(),
            Some(Column {
                kind: ColumnType::Cql(_),
                ..
            })
        )
    }

    /// What a column of CQL is in its table; none for a column of another kind.
    pub fn cql_role(&self, column_index: usize) -> Option<CqlRole> {
        match &self.columns.get(column_index)?.kind {
            ColumnType::Cql(column) => Some(column.role),
            _ => None,
        }
    }

    /// The columns that identify a record: of a partition's static columns those of the partition key, else
    /// [`TableSchema::key`]. Their hash is the record's token (see [`crate::batch::key_token`]).
    pub fn record_key(&self, is_static: bool) -> Vec<u32> {
        let of_record =
            |index: &u32| !is_static || self.cql_role(*index as usize) == Some(CqlRole::Partition);
        self.key().iter().copied().filter(of_record).collect()
    }

    /// Why whoever knows only the columns of MySQL and its kin cannot take the table's rows; none when he can.
    ///
    /// Formats and sinks ask before they lay a table out: an integer or a text of CQL would pass as one of MySQL, and a
    /// static row as a row.
    pub fn cql_refusal(&self) -> Option<String> {
        let mut kinds = self.columns.iter().filter_map(|column| match &column.kind {
            ColumnType::Cql(of) => Some((&column.name, &of.kind)),
            _ => None,
        });
        let (first_name, first) = kinds.next()?;
        let is_nested = |(_, kind): &(&String, &CqlType)| kind.to_string().contains('<');
        let (name, kind) = kinds.find(is_nested).unwrap_or((first_name, first));
        Some(format!(
            "it is a table of CQL (column `{name}` is {kind}): its rows are carried by change streams alone"
        ))
    }

    /// Indexes of columns by name, in the order of the names; case does not matter.
    ///
    /// Errors: the first name that the table lacks.
    pub fn columns_named<'n>(&self, names: &'n [String]) -> Result<Vec<usize>, &'n str> {
        let index = |name: &'n String| {
            self.columns
                .iter()
                .position(|column| column.name.eq_ignore_ascii_case(name))
                .ok_or(name.as_str())
        };
        names.iter().map(index).collect()
    }

    /// The stored form of a control record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(1);
        put_u64(out, u64::from(self.table.0));
        put_u64(out, u64::from(self.version.0));
        put_bytes(out, self.database.as_bytes());
        put_bytes(out, self.name.as_bytes());
        put_option(out, self.charset.as_deref());
        put_bytes(out, self.comment.as_bytes());
        put_u64(out, self.columns.len() as u64);
        self.columns.iter().for_each(|column| column.encode(out));
        put_indexes(out, &self.primary_key);
        put_u64(out, self.unique_keys.len() as u64);
        for key in &self.unique_keys {
            put_bytes(out, key.name.as_bytes());
            put_indexes(out, &key.columns);
        }
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut r = WireReader::new(bytes);
        if r.u8()? != 1 {
            return Err(WireError {
                offset: 0,
                what: "a known version of a schema",
            });
        }
        let table = TableId(r.u32()?);
        let version = SchemaVersion(r.u32()?);
        let database = r.text()?.to_owned();
        let name = r.text()?.to_owned();
        let charset = r.option()?.map(str::to_owned);
        let comment = r.text()?.to_owned();
        let columns = read_list(&mut r, Column::decode)?;
        let primary_key = read_list(&mut r, |r| r.u32())?;
        let unique_keys = read_list(&mut r, |r| {
            Ok(UniqueKey {
                name: r.text()?.to_owned(),
                columns: read_list(r, |r| r.u32())?,
            })
        })?;
        let is_cql = |column: &Column| matches!(column.kind, ColumnType::Cql(_));
        if columns
            .iter()
            .any(|column| is_cql(column) != is_cql(&columns[0]))
        {
            return Err(WireError {
                offset: r.offset(),
                what: "columns all of CQL or none",
            });
        }
        Ok(Self {
            table,
            version,
            database,
            name,
            columns,
            primary_key,
            unique_keys,
            charset,
            comment,
        })
    }
}

fn put_indexes(out: &mut Vec<u8>, indexes: &[u32]) {
    put_u64(out, indexes.len() as u64);
    indexes
        .iter()
        .for_each(|index| put_u64(out, u64::from(*index)));
}

fn read_list<'a, T>(
    r: &mut WireReader<'a>,
    mut read: impl FnMut(&mut WireReader<'a>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = r.u64()?;
    (0..count).map(|_| read(r)).collect()
}

impl Column {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, self.declared.as_bytes());
        self.kind.encode(out);
        put_option(out, self.charset.as_deref());
        put_option(out, self.collation.as_deref());
        put_option(out, self.default.as_deref());
        put_bytes(out, self.comment.as_bytes());
        let flags = [self.nullable, self.generated, self.invisible, self.masked];
        out.push(
            flags
                .iter()
                .enumerate()
                .map(|(bit, on)| u8::from(*on) << bit)
                .sum(),
        );
    }

    fn decode(r: &mut WireReader<'_>) -> Result<Self, WireError> {
        let name = r.text()?.to_owned();
        let declared = r.text()?.to_owned();
        let kind = ColumnType::decode(r)?;
        let charset = r.option()?.map(str::to_owned);
        let collation = r.option()?.map(str::to_owned);
        let default = r.option()?.map(str::to_owned);
        let comment = r.text()?.to_owned();
        let flags = r.u8()?;
        Ok(Self {
            name,
            declared,
            kind,
            charset,
            collation,
            default,
            comment,
            nullable: flags & 1 != 0,
            generated: flags & 2 != 0,
            invisible: flags & 4 != 0,
            masked: flags & 8 != 0,
        })
    }
}

impl ColumnType {
    fn encode(&self, out: &mut Vec<u8>) {
        use ColumnType as T;
        let (tag, a, b, c): (u8, u32, u32, u32) = match self {
            T::Int { bytes, unsigned } => (1, u32::from(*bytes), u32::from(*unsigned), 0),
            T::Decimal {
                precision,
                scale,
                unsigned,
            } => (
                2,
                u32::from(*precision),
                u32::from(*scale),
                u32::from(*unsigned),
            ),
            T::Float => (3, 0, 0, 0),
            T::Double => (4, 0, 0, 0),
            T::Bit { width } => (5, u32::from(*width), 0, 0),
            T::Year => (6, 0, 0, 0),
            T::Date => (7, 0, 0, 0),
            T::Time { digits } => (8, u32::from(*digits), 0, 0),
            T::DateTime { digits } => (9, u32::from(*digits), 0, 0),
            T::Timestamp { digits } => (10, u32::from(*digits), 0, 0),
            T::Char { length } => (11, *length, 0, 0),
            T::Varchar { length } => (12, *length, 0, 0),
            T::Text { length_bytes } => (13, u32::from(*length_bytes), 0, 0),
            T::Binary { length } => (14, *length, 0, 0),
            T::Varbinary { length } => (15, *length, 0, 0),
            T::Blob { length_bytes } => (16, u32::from(*length_bytes), 0, 0),
            T::Enum { members } => (17, members.len() as u32, 0, 0),
            T::Set { members } => (18, members.len() as u32, 0, 0),
            T::Json => (19, 0, 0, 0),
            T::Geometry => (20, 0, 0, 0),
            T::Vector => (21, 0, 0, 0),
            T::Uuid => (22, 0, 0, 0),
            T::Inet4 => (23, 0, 0, 0),
            T::Inet6 => (24, 0, 0, 0),
            T::Cql(column) => (25, column.role.number(), 0, 0),
        };
        out.push(tag);
        [a, b, c].iter().for_each(|n| put_u64(out, u64::from(*n)));
        if let T::Enum { members } | T::Set { members } = self {
            members
                .iter()
                .for_each(|member| put_bytes(out, member.as_bytes()));
        }
        if let T::Cql(column) = self {
            column.kind.encode(out);
        }
    }

    fn decode(r: &mut WireReader<'_>) -> Result<Self, WireError> {
        use ColumnType as T;
        let offset = r.offset();
        let tag = r.u8()?;
        let (a, b, c) = (r.u32()?, r.u32()?, r.u32()?);
        let small = a as u8;
        Ok(match tag {
            1 => T::Int {
                bytes: small,
                unsigned: b != 0,
            },
            2 => T::Decimal {
                precision: small,
                scale: b as u8,
                unsigned: c != 0,
            },
            3 => T::Float,
            4 => T::Double,
            5 => T::Bit { width: small },
            6 => T::Year,
            7 => T::Date,
            8 => T::Time { digits: small },
            9 => T::DateTime { digits: small },
            10 => T::Timestamp { digits: small },
            11 => T::Char { length: a },
            12 => T::Varchar { length: a },
            13 => T::Text {
                length_bytes: small,
            },
            14 => T::Binary { length: a },
            15 => T::Varbinary { length: a },
            16 => T::Blob {
                length_bytes: small,
            },
            17 | 18 => {
                let members = (0..a)
                    .map(|_| r.text().map(str::to_owned))
                    .collect::<Result<Vec<_>, WireError>>()?;
                if tag == 17 {
                    T::Enum { members }
                } else {
                    T::Set { members }
                }
            }
            19 => T::Json,
            20 => T::Geometry,
            21 => T::Vector,
            22 => T::Uuid,
            23 => T::Inet4,
            24 => T::Inet6,
            25 => T::Cql(CqlColumn {
                role: CqlRole::of_number(a).ok_or(WireError {
                    offset,
                    what: "a known role of a column",
                })?,
                kind: CqlType::decode(r)?,
            }),
            _ => {
                return Err(WireError {
                    offset,
                    what: "a known column type",
                });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, kind: ColumnType, nullable: bool) -> Column {
        Column {
            name: name.into(),
            declared: "x".into(),
            kind,
            charset: Some("utf8mb4".into()),
            collation: None,
            nullable,
            default: Some(String::new()),
            comment: "c".into(),
            generated: true,
            invisible: false,
            masked: true,
        }
    }

    #[test]
    fn a_schema_comes_back_from_its_stored_form_and_finds_its_key() {
        let mut schema = TableSchema {
            table: TableId(7),
            version: SchemaVersion(2),
            database: "shop".into(),
            name: "orders".into(),
            columns: vec![
                column(
                    "id",
                    ColumnType::Int {
                        bytes: 8,
                        unsigned: true,
                    },
                    true,
                ),
                column(
                    "e",
                    ColumnType::Enum {
                        members: vec!["a".into(), "ž".into()],
                    },
                    false,
                ),
            ],
            primary_key: vec![],
            unique_keys: vec![
                UniqueKey {
                    name: "a".into(),
                    columns: vec![0],
                },
                UniqueKey {
                    name: "b".into(),
                    columns: vec![1],
                },
            ],
            charset: None,
            comment: String::new(),
        };
        assert_eq!(schema.key(), [1]);
        schema.primary_key = vec![0];
        assert_eq!(schema.key(), [0]);
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        assert_eq!(TableSchema::decode(&bytes), Ok(schema));
        for cut in 0..bytes.len() {
            assert!(TableSchema::decode(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn a_table_of_cql_says_what_its_columns_are_and_whose_hash_places_a_record() {
        let of = |role, kind| ColumnType::Cql(CqlColumn { role, kind });
        let list = CqlType::List(Box::new(CqlType::Int));
        let columns = vec![
            column("b", of(CqlRole::Regular, list), true),
            column(
                "at",
                of(CqlRole::Clustering { descending: true }, CqlType::Date),
                true,
            ),
            column("p2", of(CqlRole::Partition, CqlType::Int), false),
            column("s", of(CqlRole::Static, CqlType::Counter), true),
            column("p1", of(CqlRole::Partition, CqlType::Text), false),
        ];
        let schema = TableSchema {
            table: TableId(1),
            version: SchemaVersion(1),
            database: "ks".into(),
            name: "t".into(),
            columns,
            primary_key: vec![4, 2, 1],
            unique_keys: vec![],
            charset: None,
            comment: String::new(),
        };
        assert!(schema.is_cql());
        assert_eq!(schema.record_key(false), [4, 2, 1]);
        assert_eq!(schema.record_key(true), [4, 2]);
        assert_eq!(schema.cql_role(3), Some(CqlRole::Static));
        assert_eq!(schema.cql_role(9), None);
        let why = schema.cql_refusal().unwrap();
        assert!(why.contains("`b` is list<int>"), "{why}");
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        for cut in 0..bytes.len() {
            assert!(TableSchema::decode(&bytes[..cut]).is_err());
        }
        assert_eq!(TableSchema::decode(&bytes), Ok(schema));
        let plain = column("id", ColumnType::Year, false);
        let table = TableSchema {
            columns: vec![plain],
            ..TableSchema::decode(&bytes).unwrap()
        };
        assert!(!table.is_cql() && table.cql_refusal().is_none());
        let mut mixed = TableSchema::decode(&bytes).unwrap();
        mixed.columns.push(column("v", ColumnType::Year, true));
        let mut bytes = Vec::new();
        mixed.encode(&mut bytes);
        assert!(
            TableSchema::decode(&bytes).is_err(),
            "a table is of CQL as a whole"
        );
    }
}
