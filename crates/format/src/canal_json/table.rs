//! The parts of a message that depend on the table alone, rendered once per schema version.

use super::options::{Flavour, Options};
use super::values::SqlKind;
use crate::declared::without_parameters;
use crate::json;
use change::{ColumnType, Image, TableSchema};

/// One column's rendered parts.
#[derive(Debug)]
pub(super) struct ColumnText {
    /// `,"name":`
    name: Box<[u8]>,
    /// How its `sqlType` comes about.
    pub kind: SqlKind,
    /// BINARY(n), whose trailing zero bytes Canal does not print.
    pub padded: bool,
}

impl ColumnText {
    /// `,"name":`, without the comma for the first of an object.
    #[inline]
    pub fn name(&self, first: bool) -> &[u8] {
        if first { &self.name[1..] } else { &self.name }
    }
}

/// Rendered parts of one table.
#[derive(Debug)]
pub(super) struct TableText {
    pub columns: Vec<ColumnText>,
    /// `,"database":"…"`.
    pub database: Vec<u8>,
    /// `,"mysqlType":{…}`.
    pub mysql_type: Vec<u8>,
    /// `,"pkNames":[…]`, in table column order; null (DTS: nothing) without a primary key.
    pub pk_names: Vec<u8>,
    /// The primary key's columns, in table column order.
    primary_key: Vec<u32>,
    /// `,"table":"…"`.
    pub name: Vec<u8>,
}

impl TableText {
    pub fn new(table: &TableSchema, options: &Options) -> Self {
        let mut columns = Vec::new();
        let mut mysql_type = b",\"mysqlType\":{".to_vec();
        for (index, column) in table.columns.iter().enumerate() {
            let mut name = b",".to_vec();
            json::put_string(&mut name, &column.name);
            name.push(b':');
            mysql_type.extend_from_slice(if index == 0 { &name[1..] } else { &name });
            match options.flavour {
                Flavour::OpenSource => json::put_string(&mut mysql_type, &column.declared),
                Flavour::Dts => {
                    json::put_string(&mut mysql_type, &without_parameters(&column.declared));
                }
            }
            columns.push(ColumnText {
                name: name.into_boxed_slice(),
                kind: SqlKind::of(&column.kind, options),
                padded: matches!(column.kind, ColumnType::Binary { .. }),
            });
        }
        mysql_type.push(b'}');
        let mut primary_key = table.primary_key.clone();
        primary_key.sort_unstable();
        let mut pk_names = Vec::new();
        if !primary_key.is_empty() || options.flavour == Flavour::OpenSource {
            put_pk_names(&mut pk_names, &columns, primary_key.iter());
        }
        Self {
            columns,
            database: member("database", &table.database),
            mysql_type,
            pk_names,
            primary_key,
            name: member("table", &table.name),
        }
    }

    /// `pkNames` of the key columns that `image` knows, as Canal names them.
    pub fn put_known_pk_names(&self, out: &mut Vec<u8>, image: &Image<'_>) {
        let known = |column: &&u32| image.cell(**column as usize) != change::Cell::Unknown;
        put_pk_names(out, &self.columns, self.primary_key.iter().filter(known));
    }
}

fn member(name: &str, text: &str) -> Vec<u8> {
    let mut out = format!(",\"{name}\":").into_bytes();
    json::put_string(&mut out, text);
    out
}

fn put_pk_names<'a>(out: &mut Vec<u8>, columns: &[ColumnText], key: impl Iterator<Item = &'a u32>) {
    out.extend_from_slice(b",\"pkNames\":");
    let mut first = true;
    for index in key {
        let name = columns[*index as usize].name(true);
        out.push(if first { b'[' } else { b',' });
        out.extend_from_slice(&name[..name.len() - 1]);
        first = false;
    }
    out.extend_from_slice(if first { b"null" } else { b"]" });
}
