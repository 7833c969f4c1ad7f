//! The parts of a message that depend on the table alone, rendered once per schema version.

use super::values::SqlKind;
use crate::json;
use change::TableSchema;

/// Rendered parts of one table.
#[derive(Debug)]
pub(super) struct TableText {
    /// `,"name":` for each column; without the comma for the first of an object.
    pub names: Vec<Box<[u8]>>,
    /// How each column's `sqlType` comes about.
    pub kinds: Vec<SqlKind>,
    /// `,"database":"…"`.
    pub database: Vec<u8>,
    /// `,"mysqlType":{…}`.
    pub mysql_type: Vec<u8>,
    /// `,"pkNames":[…]`, in table column order; null for a table without a primary key.
    pub pk_names: Vec<u8>,
    /// `,"table":"…"`.
    pub name: Vec<u8>,
}

impl TableText {
    pub fn new(table: &TableSchema) -> Self {
        let mut names = Vec::new();
        let mut mysql_type = b",\"mysqlType\":{".to_vec();
        for (index, column) in table.columns.iter().enumerate() {
            let mut name = b",".to_vec();
            json::put_string(&mut name, &column.name);
            name.push(b':');
            mysql_type.extend_from_slice(if index == 0 { &name[1..] } else { &name });
            json::put_string(&mut mysql_type, &column.declared);
            names.push(name.into_boxed_slice());
        }
        mysql_type.push(b'}');
        Self {
            names,
            kinds: table
                .columns
                .iter()
                .map(|column| SqlKind::of(&column.kind))
                .collect(),
            database: member("database", &table.database),
            mysql_type,
            pk_names: pk_names(table),
            name: member("table", &table.name),
        }
    }
}

fn member(name: &str, text: &str) -> Vec<u8> {
    let mut out = format!(",\"{name}\":").into_bytes();
    json::put_string(&mut out, text);
    out
}

fn pk_names(table: &TableSchema) -> Vec<u8> {
    let mut out = b",\"pkNames\":".to_vec();
    if table.primary_key.is_empty() {
        out.extend_from_slice(b"null");
        return out;
    }
    let mut columns = table.primary_key.clone();
    columns.sort_unstable();
    out.push(b'[');
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::put_string(&mut out, &table.columns[*column as usize].name);
    }
    out.push(b']');
    out
}
