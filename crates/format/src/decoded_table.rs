//! The table that a message tells of, put together while the message is read.

use crate::json_reader::Json;
use change::{Column, ColumnType, SchemaVersion, TableId, TableSchema};
use std::collections::HashMap;
use std::sync::Arc;

/// A table whose columns come one after another.
#[derive(Debug)]
pub(crate) struct DecodedTable {
    schema: TableSchema,
    indexes: HashMap<String, usize>,
}

impl DecodedTable {
    /// A table without columns.
    pub fn new(database: &str, name: &str) -> Self {
        Self {
            schema: TableSchema {
                table: TableId(0),
                version: SchemaVersion(0),
                database: database.into(),
                name: name.into(),
                columns: vec![],
                primary_key: vec![],
                unique_keys: vec![],
                charset: None,
                comment: String::new(),
            },
            indexes: HashMap::new(),
        }
    }

    /// Adds a column unless there is one of this name.
    pub fn column(&mut self, name: &str, declared: &str, kind: ColumnType) {
        if self.indexes.contains_key(name) {
            return;
        }
        self.indexes.insert(name.into(), self.schema.columns.len());
        self.schema.columns.push(Column {
            name: name.into(),
            declared: declared.into(),
            kind,
            charset: None,
            collation: None,
            nullable: true,
            default: None,
            comment: String::new(),
            generated: false,
            invisible: false,
            masked: false,
        });
    }

    /// Adds text columns for the members of a row that have none yet.
    pub fn text_columns(&mut self, row: &Json<'_>) {
        for (name, _) in row.members() {
            self.column(&name, "longtext", ColumnType::Text { length_bytes: 4 });
        }
    }

    /// The columns so far.
    pub fn columns(&self) -> &[Column] {
        &self.schema.columns
    }

    /// A column by its name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.indexes.get(name).copied()
    }

    /// Makes a column part of the primary key.
    pub fn key_column(&mut self, index: usize) {
        self.schema.primary_key.push(index as u32);
    }

    /// Gives a column its type, once a value tells it.
    pub fn retype(&mut self, index: usize, declared: &str, kind: ColumnType) {
        self.schema.columns[index].declared = declared.into();
        self.schema.columns[index].kind = kind;
    }

    /// Says that a column is never NULL.
    pub fn not_null(&mut self, index: usize) {
        self.schema.columns[index].nullable = false;
    }

    /// The row's values in the order of the columns.
    pub fn cells<'d>(&self, row: &Json<'d>) -> Vec<Option<Json<'d>>> {
        let mut cells = vec![None; self.schema.columns.len()];
        for (name, value) in row.members() {
            if let Some(index) = self.index(&name) {
                cells[index] = Some(value);
            }
        }
        cells
    }

    /// The table.
    pub fn schema(&self) -> Arc<TableSchema> {
        Arc::new(self.schema.clone())
    }
}
