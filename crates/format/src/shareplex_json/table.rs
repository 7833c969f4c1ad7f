//! The parts of a message that depend on the table alone, rendered once per schema version.

use super::options::{Names, Options};
use crate::json;
use crate::labels::Labels;
use change::TableSchema;

/// One column's rendered parts.
#[derive(Debug)]
pub(crate) struct ColumnText {
    /// `,"name":`
    name: Box<[u8]>,
    pub labels: Labels,
    /// Part of what identifies a row; every column of a table without a key is.
    pub is_key: bool,
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
pub(crate) struct TableText {
    pub columns: Vec<ColumnText>,
    /// `"database.table"`.
    pub name: Vec<u8>,
}

/// A name in the letters that the options want.
pub(super) fn put_name(out: &mut Vec<u8>, names: Names, name: &str) {
    match names {
        Names::Source => json::put_string(out, name),
        Names::Upper => json::put_string(out, &name.to_uppercase()),
    }
}

impl TableText {
    pub fn new(table: &TableSchema, options: &Options) -> Self {
        let key = table.key();
        let columns = table.columns.iter().enumerate().map(|(index, column)| {
            let mut name = b",".to_vec();
            put_name(&mut name, options.names, &column.name);
            name.push(b':');
            ColumnText {
                name: name.into_boxed_slice(),
                labels: Labels::of(&column.kind),
                is_key: key.is_empty() || key.contains(&(index as u32)),
            }
        });
        let mut name = Vec::new();
        let full_name = format!("{}.{}", table.database, table.name);
        put_name(&mut name, options.names, &full_name);
        Self {
            columns: columns.collect(),
            name,
        }
    }
}
