//! The parts of a message that depend on the table alone, rendered once per schema version.

use super::field::{Field, is_point, put_struct};
use super::options::{Options, SchemaMode};
use super::source::{self, Connector};
use crate::json;
use crate::labels::Labels;
use change::{ColumnType, TableSchema};

/// One column's rendered parts.
#[derive(Debug)]
pub(crate) struct ColumnText {
    /// `,"name":`
    name: Box<[u8]>,
    pub labels: Labels,
    pub nullable: bool,
    pub is_point: bool,
    /// Bits of an integer or BIT column, fraction digits of a DECIMAL or DATETIME.
    pub width: u8,
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
    /// Indexes of the columns that identify a row, in key order.
    pub key: Vec<u32>,
    /// From the message's start to the value of `before`.
    pub head: Vec<u8>,
    /// From the key's start to the first column.
    pub key_head: Vec<u8>,
    /// From `"source":` to the value of its `ts_ms`.
    pub source: Vec<u8>,
    /// `,"table":"…"`.
    pub table: Vec<u8>,
    /// `,"db":"…"`.
    pub database: Vec<u8>,
}

impl TableText {
    pub fn new(table: &TableSchema, options: &Options, connector: Connector) -> Self {
        let columns = table.columns.iter().map(|column| {
            let mut name = b",".to_vec();
            json::put_string(&mut name, &column.name);
            name.push(b':');
            ColumnText {
                name: name.into_boxed_slice(),
                labels: Labels::of(&column.kind),
                nullable: column.nullable,
                is_point: is_point(column),
                width: match &column.kind {
                    ColumnType::Int { bytes, .. } => bytes.saturating_mul(8),
                    ColumnType::Bit { width } => *width,
                    ColumnType::DateTime { digits } => *digits,
                    ColumnType::Decimal { scale, .. } => *scale,
                    _ => 0,
                },
            }
        });
        let mut this = Self {
            columns: columns.collect(),
            key: table.key().to_vec(),
            head: Vec::new(),
            key_head: Vec::new(),
            source: Vec::new(),
            table: member("table", &table.name),
            database: member("db", &table.database),
        };
        source::put_head(&mut this.source, options, connector);
        if options.schema == SchemaMode::Inline {
            put_schema(&mut this.head, table, options, connector);
            put_key_schema(&mut this.key_head, table, options);
        }
        this.head.extend_from_slice(b"{\"before\":");
        this.key_head.push(b'{');
        this
    }
}

fn member(name: &str, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put!(&mut out, ",\"{name}\":");
    json::put_string(&mut out, text);
    out
}

/// Appends the first parts of a schema's name: server, database and table, with every character that
/// Avro's names do not have replaced.
fn put_name(out: &mut Vec<u8>, table: &TableSchema, options: &Options) {
    for (index, part) in [&options.server_name, &table.database, &table.name]
        .into_iter()
        .enumerate()
    {
        if index > 0 {
            out.push(b'.');
        }
        if part.starts_with(|first: char| first.is_ascii_digit()) {
            out.push(b'_');
        }
        for character in part.chars() {
            let valid = character.is_ascii_alphanumeric() || matches!(character, '_' | '.');
            out.push(if valid { character as u8 } else { b'_' });
        }
    }
}

fn put_schema(out: &mut Vec<u8>, table: &TableSchema, options: &Options, connector: Connector) {
    out.extend_from_slice(b"{\"schema\":{\"type\":\"struct\",\"fields\":[");
    for side in ["before", "after"] {
        out.extend_from_slice(b"{\"type\":\"struct\",\"fields\":[");
        for (index, column) in table.columns.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            Field::of(column, options).put(out, column.nullable, &column.name);
        }
        out.extend_from_slice(b"],\"optional\":true,\"name\":\"");
        put_name(out, table, options);
        put!(out, ".Value\",\"field\":\"{side}\"}},");
    }
    source::put_schema(out, connector);
    out.extend_from_slice(b",{\"type\":\"struct\"");
    put_struct(
        out,
        &[
            ("string", "id", false),
            ("int64", "total_order", false),
            ("int64", "data_collection_order", false),
        ],
    );
    out.extend_from_slice(
        b",\"optional\":true,\"name\":\"event.block\",\"version\":1,\"field\":\"transaction\"},",
    );
    out.extend_from_slice(b"{\"type\":\"string\",\"optional\":false,\"field\":\"op\"}");
    for time in ["ts_ms", "ts_us", "ts_ns"] {
        put!(
            out,
            ",{{\"type\":\"int64\",\"optional\":true,\"field\":\"{time}\"}}"
        );
    }
    out.extend_from_slice(b"],\"optional\":false,\"name\":\"");
    put_name(out, table, options);
    out.extend_from_slice(b".Envelope\",\"version\":2},\"payload\":");
}

fn put_key_schema(out: &mut Vec<u8>, table: &TableSchema, options: &Options) {
    out.extend_from_slice(b"{\"schema\":{\"type\":\"struct\",\"fields\":[");
    for (index, column) in table.key().iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let column = &table.columns[*column as usize];
        Field::of(column, options).put(out, false, &column.name);
    }
    out.extend_from_slice(b"],\"optional\":false,\"name\":\"");
    put_name(out, table, options);
    out.extend_from_slice(b".Key\"},\"payload\":");
}
