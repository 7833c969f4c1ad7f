//! Debezium JSON: the envelope that Debezium's connectors for MySQL and MariaDB write through Kafka
//! Connect's JsonConverter.
//!
//! Shape: `before`, `after`, `source`, `transaction` (always null), `op` (`c`, `u`, `d`, `r`) and the
//! time; with [`SchemaMode::Inline`] inside `{"schema":…,"payload":…}`. Values have Connect's types by
//! Debezium's default mapping. A tombstone is a record without a message: the sink's business.
//!
//! Read next: [`Options`], then `field.rs` for the types and `values.rs` for their values; `decode.rs`
//! for the way back.

mod decode;
pub(crate) mod field;
mod options;
mod read_value;
mod source;
pub(crate) mod table;
pub(crate) mod values;

pub use decode::DebeziumJsonDecoder;
pub use options::{BigintUnsigned, DecimalMode, Options, SchemaMode};
pub(crate) use source::Connector;

use crate::canal_json::Clock;
use crate::{Encoder, FormatError, Key, Messages, json};
use change::event::DdlChange;
use change::{Cell, Event, Image, Operation, RowChange, TransactionHeader};
use source::Source;
use std::collections::HashMap;
use table::TableText;

const FORMAT: &str = "debezium-json";

/// The encoder.
#[derive(Debug, Default)]
pub struct DebeziumJson {
    options: Options,
    tables: HashMap<(u32, u32), TableText>,
    event: (u64, u32),
    not_carried: u64,
}

impl DebeziumJson {
    /// An encoder with these settings.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    fn prepare(&mut self, row: &RowChange<'_>) {
        let options = &self.options;
        (self.tables)
            .entry(table_key(row))
            .or_insert_with(|| TableText::new(row.table, options, Connector::of(row.header)));
    }

    fn row(&mut self, row: &RowChange<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        FormatError::refuse_cql(FORMAT, row)?;
        let needs = match row.operation {
            Operation::Delete => row.before,
            _ => row.after,
        };
        if needs.is_none() {
            return Err(FormatError {
                format: FORMAT,
                table: format!("{}.{}", row.table.database, row.table.name),
                what: "the change has no image of the row".into(),
            });
        }
        self.prepare(row);
        let number = self.number(row);
        let table = &self.tables[&table_key(row)];
        out.extend_from_slice(&table.head);
        self.put_side(out, row, row.before.as_ref())?;
        out.extend_from_slice(b",\"after\":");
        self.put_side(out, row, row.after.as_ref())?;
        out.push(b',');
        let source = Source {
            head: &table.source,
            database: &table.database,
            table: &table.table,
            header: row.header,
            snapshot: row.operation == Operation::Read,
            time_us: time_us(row.header, row.meta.time_s),
            offset: row.meta.end_offset,
            row: number,
        };
        source.put(out);
        let op = match row.operation {
            Operation::Update => "u",
            Operation::Delete => "d",
            Operation::Read => "r",
            _ => "c",
        };
        put!(out, ",\"transaction\":null,\"op\":\"{op}\"");
        let now_us = self.now_us(row.header);
        put!(
            out,
            ",\"ts_ms\":{},\"ts_us\":{now_us},\"ts_ns\":{}",
            now_us / 1000,
            now_us.saturating_mul(1000)
        );
        self.close(out);
        Ok(())
    }

    /// The row's number in its event, from 0.
    fn number(&mut self, row: &RowChange<'_>) -> u32 {
        let event =
            row.header.begin_offset << 20 ^ row.meta.end_offset << 1 ^ u64::from(row.meta.group);
        self.event = match self.event {
            (last, number) if last == event => (event, number + 1),
            _ => (event, 0),
        };
        self.event.1
    }

    fn put_side(
        &self,
        out: &mut Vec<u8>,
        row: &RowChange<'_>,
        image: Option<&Image<'_>>,
    ) -> Result<(), FormatError> {
        let Some(image) = image else {
            out.extend_from_slice(b"null");
            return Ok(());
        };
        let table = &self.tables[&table_key(row)];
        let mut first = true;
        out.push(b'{');
        for (index, (column, cell)) in table.columns.iter().zip(image.cells()).enumerate() {
            if cell == Cell::Unknown {
                continue;
            }
            out.extend_from_slice(column.name(first));
            first = false;
            values::put_cell(out, column, cell, &self.options)
                .map_err(|what| not_carried(row, index, what))?;
        }
        out.push(b'}');
        Ok(())
    }

    fn now_us(&self, header: &TransactionHeader) -> u64 {
        match self.options.clock {
            Clock::Wall => crate::wall_clock_us(),
            Clock::Commit => header.best_time_us(),
        }
    }

    fn close(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.options.schema {
            SchemaMode::None => b"}",
            SchemaMode::Inline => b"}}",
        });
    }

    /// A schema change event, without the table's structure.
    fn ddl(&self, change: &DdlChange<'_>, out: &mut Vec<u8>) {
        let connector = Connector::of(change.header);
        if self.options.schema == SchemaMode::Inline {
            out.extend_from_slice(b"{\"schema\":{\"type\":\"struct\",\"fields\":[");
            source::put_schema(out, connector);
            out.extend_from_slice(
                b",{\"type\":\"int64\",\"optional\":false,\"field\":\"ts_ms\"}\
                ,{\"type\":\"string\",\"optional\":true,\"field\":\"databaseName\"}\
                ,{\"type\":\"string\",\"optional\":true,\"field\":\"schemaName\"}\
                ,{\"type\":\"string\",\"optional\":true,\"field\":\"ddl\"}\
                ],\"optional\":false,\"name\":\"io.debezium.connector.",
            );
            let name = match connector {
                Connector::Mysql => "mysql",
                Connector::Mariadb => "mariadb",
            };
            put!(
                out,
                "{name}.SchemaChangeValue\",\"version\":1}},\"payload\":"
            );
        }
        let (mut head, mut database, mut table) = (Vec::new(), Vec::new(), Vec::new());
        source::put_head(&mut head, &self.options, connector);
        database.extend_from_slice(b",\"db\":");
        json::put_string(&mut database, change.ddl.database);
        if !change.ddl.table.is_empty() {
            table.extend_from_slice(b",\"table\":");
            json::put_string(&mut table, change.ddl.table);
        }
        out.push(b'{');
        let source = Source {
            head: &head,
            database: &database,
            table: &table,
            header: change.header,
            snapshot: false,
            time_us: change.header.best_time_us(),
            offset: change.header.begin_offset,
            row: 0,
        };
        source.put(out);
        put!(out, ",\"ts_ms\":{}", self.now_us(change.header) / 1000);
        out.extend_from_slice(b",\"databaseName\":");
        json::put_string(out, change.ddl.database);
        out.extend_from_slice(b",\"schemaName\":null,\"ddl\":");
        json::put_string(out, change.ddl.sql);
        if self.options.schema == SchemaMode::None {
            out.extend_from_slice(b",\"tableChanges\":[]");
        }
        self.close(out);
    }
}

/// A column's value that cannot be said.
fn not_carried(row: &RowChange<'_>, column: usize, what: &str) -> FormatError {
    let name = row.table.columns.get(column).map_or("", |c| &c.name);
    FormatError {
        format: FORMAT,
        table: format!("{}.{}", row.table.database, row.table.name),
        what: format!("column {name}: {what}"),
    }
}

fn table_key(row: &RowChange<'_>) -> (u32, u32) {
    (row.table.table.0, row.table.version.0)
}

/// The commit time where the log has it, else the second of the row's event.
fn time_us(header: &TransactionHeader, row_time_s: u32) -> u64 {
    match header.commit_time_us {
        0 => u64::from(row_time_s) * 1_000_000,
        exact => exact,
    }
}

impl Encoder for DebeziumJson {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn encode(&mut self, event: &Event<'_>, out: &mut Messages) -> Result<(), FormatError> {
        match event {
            Event::Row(row) => {
                self.row(row, out.buffer())?;
                out.end();
            }
            Event::Ddl(change) => {
                self.tables.clear();
                if self.options.ddl {
                    self.ddl(change, out.buffer());
                    out.end();
                } else {
                    self.not_carried += 1;
                }
            }
            Event::Begin { .. } | Event::Commit { .. } => {}
        }
        Ok(())
    }

    /// The key columns as an object, with its schema where messages have theirs; as Debezium, none for a
    /// table without a key.
    fn key(
        &mut self,
        row: &RowChange<'_>,
        image: &Image<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Key, FormatError> {
        self.prepare(row);
        let table = &self.tables[&table_key(row)];
        if table.key.is_empty() {
            return Ok(Key::None);
        }
        out.extend_from_slice(&table.key_head);
        for (index, column) in table.key.iter().enumerate() {
            let column = *column as usize;
            let text = &table.columns[column];
            out.extend_from_slice(text.name(index == 0));
            values::put_cell(out, text, image.cell(column), &self.options)
                .map_err(|what| not_carried(row, column, what))?;
        }
        self.close(out);
        Ok(Key::Own)
    }

    fn not_carried(&self) -> u64 {
        self.not_carried
    }
}
