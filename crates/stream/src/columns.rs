//! How a source's columns become CQL columns: the documented mapping, in one place.
//!
//! A value that the CQL type of its column cannot hold (a date with a zero part, a TIME of more than a day) goes out as
//! `textT` in the source's own text rather than as something it is not.

use crate::cell::{CellValue, Elements, ElementsOf, Integer};
use crate::cql::{cql_value, natural};
use change::{Column, ColumnType, CqlRole, TableSchema, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// What a column is in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Part of the partition key.
    Partition,
    /// A clustering column.
    Clustering,
    /// Static: one value per partition.
    Static,
    /// Any other.
    Regular,
}

/// One schema version as a stream sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The schema.
    pub schema: Arc<TableSchema>,
    /// Columns of the partition key, in key order.
    pub partition: Vec<u32>,
    /// Clustering columns, in key order.
    pub clustering: Vec<u32>,
    roles: Vec<Role>,
}

impl Layout {
    /// Lays a schema out; `clustering` names columns of its key. A table of CQL has its own: none need be named, and no
    /// others may be.
    ///
    /// Errors: what is wrong, as a text: no key, a clustering column that is not of the key, nothing left to partition by.
    pub fn new(schema: Arc<TableSchema>, clustering: &[String]) -> Result<Self, String> {
        let key = schema.key();
        if key.is_empty() {
            return Err(
                "the table has neither a primary key nor a unique key over NOT NULL columns; hint: \
                 ALTER TABLE … ADD PRIMARY KEY"
                    .into(),
            );
        }
        let named = schema
            .columns_named(clustering)
            .map_err(|name| format!("there is no column `{name}`"))?;
        if let Some(stranger) = named.iter().find(|index| !key.contains(&(**index as u32))) {
            let name = &schema.columns[*stranger].name;
            return Err(format!(
                "column `{name}` is not part of the key, so it cannot be a clustering column"
            ));
        }
        let is_own = |index: &u32| {
            let role = schema.cql_role(*index as usize);
            matches!(role, Some(CqlRole::Clustering { .. }))
        };
        let is_named = |index: &u32| named.contains(&(*index as usize));
        if schema.is_cql()
            && !named.is_empty()
            && key.iter().any(|index| is_own(index) != is_named(index))
        {
            return Err(
                "a table of CQL has its own clustering columns; leave `clustering` out".into(),
            );
        }
        let is_clustering = |index: &u32| match schema.is_cql() {
            true => is_own(index),
            false => is_named(index),
        };
        let (clustering, partition): (Vec<u32>, Vec<u32>) =
            key.iter().partition(|index| is_clustering(index));
        if partition.is_empty() {
            return Err(
                "every key column is a clustering column; leave one out, to partition by".into(),
            );
        }
        let role = |index: u32| match (partition.contains(&index), clustering.contains(&index)) {
            (true, _) => Role::Partition,
            (_, true) => Role::Clustering,
            _ if schema.cql_role(index as usize) == Some(CqlRole::Static) => Role::Static,
            _ => Role::Regular,
        };
        let roles = (0..schema.columns.len() as u32).map(role).collect();
        Ok(Self {
            schema,
            partition,
            clustering,
            roles,
        })
    }

    /// What the column at `index` is.
    pub fn role(&self, index: usize) -> Role {
        self.roles.get(index).copied().unwrap_or(Role::Regular)
    }
}

/// The CQL type that a column shows as, for the control plane: `bigint`, `frozen<set<text>>`.
pub fn cql_type(column: &Column) -> Cow<'static, str> {
    use ColumnType as T;
    Cow::Borrowed(match &column.kind {
        T::Cql(of) => return Cow::Owned(of.kind.to_string()),
        T::Int { bytes, unsigned } => match (bytes, unsigned) {
            (1, false) => "tinyint",
            (1, true) | (2, false) => "smallint",
            (2, true) | (3, _) | (4, false) => "int",
            (4, true) | (8, false) => "bigint",
            _ => "varint",
        },
        T::Decimal { .. } => "decimal",
        T::Float => "float",
        T::Double => "double",
        T::Bit { width: 1 } => "boolean",
        T::Bit { width: 64 } => "varint",
        T::Bit { .. } => "bigint",
        T::Year => "smallint",
        T::Date => "date",
        T::Time { .. } => "time",
        T::DateTime { .. } | T::Timestamp { .. } => "timestamp",
        T::Char { .. } | T::Varchar { .. } | T::Text { .. } if is_ascii(column) => "ascii",
        T::Char { .. } | T::Varchar { .. } | T::Text { .. } | T::Enum { .. } | T::Json => "text",
        T::Binary { .. } | T::Varbinary { .. } | T::Blob { .. } | T::Geometry => "blob",
        T::Set { .. } => "frozen<set<text>>",
        T::Vector => "frozen<list<float>>",
        T::Uuid => "uuid",
        T::Inet4 | T::Inet6 => "inet",
    })
}

fn is_ascii(column: &Column) -> bool {
    column.charset.as_deref() == Some("ascii")
}

/// A value as its column's CQL type.
#[inline]
pub fn cell_value<'a>(column: &'a Column, value: Value<'a>) -> CellValue<'a> {
    if let ColumnType::Cql(of) = &column.kind {
        return cql_value(Some(&of.kind), value);
    }
    match value {
        Value::Int(v) => integer(column, i128::from(v)),
        Value::UInt(v) => integer(column, i128::from(v)),
        Value::Text(v) => match is_ascii(column) && v.is_ascii() {
            true => CellValue::Ascii(v),
            false => CellValue::Text(v),
        },
        Value::Bit(v) => match &column.kind {
            ColumnType::Bit { width: 1 } => CellValue::Bool(v != 0),
            ColumnType::Bit { width: 64 } => CellValue::Varint(Integer::Small(i128::from(v))),
            _ => natural(value),
        },
        Value::Enum(ordinal) => CellValue::Text(label(column, ordinal)),
        Value::Set(bits) => {
            let members: &[String] = match &column.kind {
                ColumnType::Set { members } => members,
                _ => &[],
            };
            CellValue::Set(Elements(ElementsOf::Labels { members, bits }))
        }
        other => natural(other),
    }
}

fn label(column: &Column, ordinal: u16) -> &str {
    match &column.kind {
        ColumnType::Enum { members } => usize::from(ordinal)
            .checked_sub(1)
            .and_then(|index| members.get(index))
            .map_or("", String::as_str),
        _ => "",
    }
}

/// An integer in the width of its column; wider when it does not fit, which a source of messages can bring about.
fn integer(column: &Column, value: i128) -> CellValue<'_> {
    let wide = CellValue::Varint(Integer::Small(value));
    let ColumnType::Int { bytes, unsigned } = column.kind else {
        return i64::try_from(value).map_or(wide, CellValue::Bigint);
    };
    match (bytes, unsigned) {
        (1, false) => i8::try_from(value).map_or(wide, CellValue::Tinyint),
        (1, true) | (2, false) => i16::try_from(value).map_or(wide, CellValue::Smallint),
        (2, true) | (3, _) | (4, false) => i32::try_from(value).map_or(wide, CellValue::Int),
        (4, true) | (8, false) => i64::try_from(value).map_or(wide, CellValue::Bigint),
        _ => wide,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::temporal::DatePacked;
    use change::{SchemaVersion, TableId, UniqueKey};

    fn column(name: &str, kind: ColumnType, nullable: bool) -> Column {
        Column {
            name: name.into(),
            declared: String::new(),
            kind,
            charset: None,
            collation: None,
            nullable,
            default: None,
            comment: String::new(),
            generated: false,
            invisible: false,
            masked: false,
        }
    }

    fn schema(primary_key: &[u32]) -> TableSchema {
        let int = || ColumnType::Int {
            bytes: 8,
            unsigned: false,
        };
        TableSchema {
            table: TableId(1),
            version: SchemaVersion(1),
            database: "shop".into(),
            name: "lines".into(),
            columns: vec![
                column("region", int(), false),
                column("order", int(), false),
                column("line", int(), false),
                column("v", int(), true),
            ],
            primary_key: primary_key.to_vec(),
            unique_keys: Vec::new(),
            charset: None,
            comment: String::new(),
        }
    }

    fn lay_out(schema: TableSchema, clustering: &[&str]) -> Result<Layout, String> {
        let names: Vec<String> = clustering.iter().map(|name| (*name).to_owned()).collect();
        Layout::new(Arc::new(schema), &names)
    }

    #[test]
    fn the_whole_key_is_the_partition_key_unless_clustering_says_otherwise() {
        let layout = lay_out(schema(&[1, 0, 2]), &[]).unwrap();
        assert_eq!(
            (layout.partition, layout.clustering),
            (vec![1, 0, 2], vec![])
        );
        let layout = lay_out(schema(&[1, 0, 2]), &["LINE", "region"]).unwrap();
        assert_eq!(
            (&layout.partition, &layout.clustering),
            (&vec![1], &vec![0, 2])
        );
        let roles: Vec<Role> = (0..5).map(|index| layout.role(index)).collect();
        use Role::{Clustering, Partition, Regular};
        assert_eq!(roles, [Clustering, Partition, Clustering, Regular, Regular]);
    }

    #[test]
    fn a_key_that_cannot_be_is_refused() {
        assert!(
            lay_out(schema(&[]), &[])
                .unwrap_err()
                .contains("ADD PRIMARY KEY")
        );
        assert!(
            lay_out(schema(&[0]), &["v"])
                .unwrap_err()
                .contains("not part of the key")
        );
        assert!(
            lay_out(schema(&[0]), &["nope"])
                .unwrap_err()
                .contains("no column `nope`")
        );
        assert!(
            lay_out(schema(&[0]), &["region"])
                .unwrap_err()
                .contains("leave one out")
        );
        let mut unique = schema(&[]);
        for (name, columns) in [("nullable", vec![3]), ("good", vec![2, 1])] {
            unique.unique_keys.push(UniqueKey {
                name: name.into(),
                columns,
            });
        }
        assert_eq!(lay_out(unique, &[]).unwrap().partition, [2, 1]);
    }

    #[test]
    fn what_a_type_cannot_hold_is_text_and_integers_widen() {
        let int = column(
            "a",
            ColumnType::Int {
                bytes: 1,
                unsigned: false,
            },
            true,
        );
        assert_eq!(cell_value(&int, Value::Int(-128)), CellValue::Tinyint(-128));
        let wide = CellValue::Varint(Integer::Small(300));
        assert_eq!(cell_value(&int, Value::Int(300)), wide);
        let date = column("a", ColumnType::Date, true);
        for (year, month, day) in [(0, 0, 0), (2026, 0, 1), (2026, 2, 30), (0, 1, 1)] {
            let value = cell_value(&date, Value::Date(DatePacked::new(year, month, day)));
            assert_eq!(value.member(), "textT");
        }
        let zero = cell_value(&date, Value::ZeroTimestamp { digits: 0 });
        assert_eq!(zero.member(), "textT");
    }
}
