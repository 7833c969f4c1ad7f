//! The parts of a message that depend on the table alone, rendered once per schema version.

use super::options::{Names, Options};
use crate::json;
use change::{ColumnType, TableSchema};

/// One column's rendered parts.
#[derive(Debug)]
pub(crate) struct ColumnText {
    /// `,"name":`
    name: Box<[u8]>,
    /// Labels of an ENUM or SET, escaped.
    labels: Vec<Box<[u8]>>,
    /// Part of what identifies a row; every column of a table without a key is.
    pub is_key: bool,
}

impl ColumnText {
    /// `,"name":`, without the comma for the first of an object.
    #[inline]
    pub fn name(&self, first: bool) -> &[u8] {
        if first { &self.name[1..] } else { &self.name }
    }

    /// An ENUM's label; nothing for the error value.
    pub fn put_label(&self, out: &mut Vec<u8>, ordinal: u16) {
        let label = usize::from(ordinal)
            .checked_sub(1)
            .and_then(|index| self.labels.get(index));
        match (label, ordinal) {
            (Some(label), _) => out.extend_from_slice(label),
            (None, 0) => {}
            // The schema lacks the label: the number says more than nothing.
            (None, ordinal) => {
                out.extend_from_slice(itoa::Buffer::new().format(ordinal).as_bytes());
            }
        }
    }

    /// A SET's labels, separated by commas.
    pub fn put_labels(&self, out: &mut Vec<u8>, mask: u64) {
        let mut first = true;
        for (bit, label) in self.labels.iter().enumerate().take(64) {
            if mask & 1 << bit == 0 {
                continue;
            }
            if !first {
                out.push(b',');
            }
            first = false;
            out.extend_from_slice(label);
        }
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
            let labels = match &column.kind {
                ColumnType::Enum { members } | ColumnType::Set { members } => members.as_slice(),
                _ => &[],
            };
            ColumnText {
                name: name.into_boxed_slice(),
                labels: labels.iter().map(|label| escaped(label)).collect(),
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

fn escaped(text: &str) -> Box<[u8]> {
    let mut out = Vec::new();
    json::put_escaped(&mut out, text);
    out.into_boxed_slice()
}
