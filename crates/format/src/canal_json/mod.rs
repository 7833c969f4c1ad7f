//! Canal JSON, the open-source flavour: what Canal's `FlatMessage` looks like on a queue.
//!
//! Shape: one object without white space, members in alphabetical order, all fourteen always there,
//! values as strings or null. One row per message. An UPDATE's `old` holds the columns that changed.
//!
//! On purpose other than Canal (see docs/reference/canal-json.md): DECIMAL keeps its full scale, text
//! is transcoded from its column's charset, BINARY keeps its trailing zero bytes, the type code of
//! NULL is the column's own, `id` is the journal's sequence.

mod table;
mod values;

use crate::{Encoder, FormatError, Messages, json};
use change::event::DdlChange;
use change::position::TransactionId;
use change::{Cell, DdlKind, Event, Image, Operation, RowChange, TransactionHeader};
use std::collections::HashMap;
use table::TableText;

/// What `ts` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The time at which the message is built, as Canal does.
    #[default]
    Wall,
    /// The commit time of the transaction: the same bytes on every run.
    Commit,
}

/// Settings of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// What `ts` says. Default wall.
    pub clock: Clock,
    /// Offset from UTC in which TIMESTAMP columns are printed, seconds. Default 0.
    pub timestamp_offset_seconds: i32,
    /// `type` of snapshot rows is `INIT` rather than `INSERT`. Default false: Flink refuses `INIT`.
    pub snapshot_as_init: bool,
    /// `gtid` holds the transaction's own id. Default false: empty, as Canal without `gtidon`.
    pub gtid: bool,
    /// Leave DDL messages out. Default false.
    pub without_ddl: bool,
}

/// The encoder.
#[derive(Debug, Default)]
pub struct CanalJson {
    options: Options,
    tables: HashMap<(u32, u32), TableText>,
    unknown_cells: u64,
}

impl CanalJson {
    /// An encoder with these settings.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Cells that the log did not carry and that messages therefore left out, since the start.
    pub fn unknown_cells(&self) -> u64 {
        self.unknown_cells
    }

    fn row(&mut self, row: &RowChange<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let shown = match row.operation {
            Operation::Delete => row.before,
            _ => row.after,
        };
        let Some(shown) = shown else {
            return Err(FormatError {
                format: "canal-json",
                table: format!("{}.{}", row.table.database, row.table.name),
                what: "the change has no image of the row".into(),
            });
        };
        let table = self
            .tables
            .entry((row.table.table.0, row.table.version.0))
            .or_insert_with(|| TableText::new(row.table));
        let offset = self.options.timestamp_offset_seconds;

        out.extend_from_slice(b"{\"data\":[{");
        self.unknown_cells += put_cells(out, table, &shown, offset);
        out.extend_from_slice(b"}]");
        out.extend_from_slice(&table.database);
        put_head(
            out,
            row.meta.time_s,
            self.options.gtid,
            row.header,
            row.sequence,
        );
        out.extend_from_slice(b"false");
        out.extend_from_slice(&table.mysql_type);
        match (row.operation, &row.before) {
            (Operation::Update, Some(before)) => {
                out.extend_from_slice(b",\"old\":[{");
                put_changed(out, table, before, &shown, offset);
                out.extend_from_slice(b"}]");
            }
            (Operation::Update, None) => out.extend_from_slice(b",\"old\":[{}]"),
            _ => out.extend_from_slice(b",\"old\":null"),
        }
        out.extend_from_slice(&table.pk_names);
        put_sql_types(out, table, &shown);
        out.extend_from_slice(&table.name);
        let kind = match row.operation {
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Read if self.options.snapshot_as_init => "INIT",
            _ => "INSERT",
        };
        self.put_tail(out, kind, row.header);
        Ok(())
    }

    fn ddl(&self, change: &DdlChange<'_>, out: &mut Vec<u8>) {
        let ddl = &change.ddl;
        out.extend_from_slice(b"{\"data\":null,\"database\":");
        json::put_string(out, ddl.database);
        put_head(
            out,
            change.header.time_s,
            self.options.gtid,
            change.header,
            change.sequence,
        );
        out.extend_from_slice(b"true,\"mysqlType\":null,\"old\":null,\"pkNames\":null,\"sql\":");
        json::put_string(out, ddl.sql);
        out.extend_from_slice(b",\"sqlType\":null,\"table\":");
        json::put_string(out, ddl.table);
        let kind = match ddl.kind {
            DdlKind::CreateTable => "CREATE",
            DdlKind::AlterTable => "ALTER",
            DdlKind::DropTable => "ERASE",
            DdlKind::TruncateTable => "TRUNCATE",
            DdlKind::RenameTable => "RENAME",
            DdlKind::CreateIndex => "CINDEX",
            DdlKind::DropIndex => "DINDEX",
            DdlKind::Database | DdlKind::Other => "QUERY",
        };
        self.put_tail(out, kind, change.header);
    }

    fn put_tail(&self, out: &mut Vec<u8>, kind: &str, header: &TransactionHeader) {
        let millis = match self.options.clock {
            Clock::Commit => header.best_time_us() / 1000,
            Clock::Wall => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
        };
        out.extend_from_slice(b",\"ts\":");
        put_number(out, millis);
        out.extend_from_slice(b",\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\"}");
    }
}

impl Encoder for CanalJson {
    fn name(&self) -> &'static str {
        "canal-json"
    }

    fn encode(&mut self, event: &Event<'_>, out: &mut Messages) -> Result<(), FormatError> {
        match event {
            Event::Row(row) => {
                self.row(row, out.buffer())?;
                out.end();
            }
            Event::Ddl(change) if !self.options.without_ddl => {
                // A schema is about to change: templates of old versions are made again if needed.
                self.tables.clear();
                self.ddl(change, out.buffer());
                out.end();
            }
            _ => {}
        }
        Ok(())
    }
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// `es`, `gtid`, `id` and `isDdl` up to its value.
fn put_head(
    out: &mut Vec<u8>,
    time_s: u32,
    with_gtid: bool,
    header: &TransactionHeader,
    sequence: u64,
) {
    out.extend_from_slice(b",\"es\":");
    put_number(out, u64::from(time_s) * 1000);
    out.extend_from_slice(b",\"gtid\":\"");
    if with_gtid && let Some(id) = &header.id {
        put_gtid(out, id);
    }
    out.extend_from_slice(b"\",\"id\":");
    put_number(out, sequence);
    out.extend_from_slice(b",\"isDdl\":");
}

fn put_gtid(out: &mut Vec<u8>, id: &TransactionId) {
    use std::io::Write;
    write!(out, "{id}").expect("writing to a Vec does not fail");
}

fn put_cell(out: &mut Vec<u8>, cell: Cell<'_>, offset_seconds: i32) {
    match cell {
        Cell::Value(value) => {
            out.push(b'"');
            values::put_value(out, value, offset_seconds);
            out.push(b'"');
        }
        _ => out.extend_from_slice(b"null"),
    }
}

/// Writes the known cells; returns how many were unknown and left out.
fn put_cells(out: &mut Vec<u8>, table: &TableText, image: &Image<'_>, offset: i32) -> u64 {
    let mut unknown = 0;
    let mut first = true;
    for (name, cell) in table.names.iter().zip(image.cells()) {
        if cell == Cell::Unknown {
            unknown += 1;
            continue;
        }
        out.extend_from_slice(if first { &name[1..] } else { name });
        first = false;
        put_cell(out, cell, offset);
    }
    unknown
}

/// The before values of the columns that changed. A column that the before image lacks counts as
/// unchanged here: its value is not known, and `null` would claim that it is.
fn put_changed(
    out: &mut Vec<u8>,
    table: &TableText,
    before: &Image<'_>,
    after: &Image<'_>,
    offset: i32,
) {
    let mut first = true;
    let (mut old, mut new) = (before.cells(), after.cells());
    for name in &table.names {
        let (Some((was, was_bytes)), Some((now, now_bytes))) =
            (old.next_with_bytes(), new.next_with_bytes())
        else {
            return;
        };
        if was == Cell::Unknown || now == Cell::Unknown || was_bytes == now_bytes {
            continue;
        }
        out.extend_from_slice(if first { &name[1..] } else { name });
        first = false;
        put_cell(out, was, offset);
    }
}

fn put_sql_types(out: &mut Vec<u8>, table: &TableText, image: &Image<'_>) {
    out.extend_from_slice(b",\"sql\":\"\",\"sqlType\":{");
    let mut first = true;
    for ((name, kind), cell) in table.names.iter().zip(&table.kinds).zip(image.cells()) {
        if cell == Cell::Unknown {
            continue;
        }
        out.extend_from_slice(if first { &name[1..] } else { name });
        first = false;
        let code = values::sql_type(*kind, cell);
        out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    }
    out.push(b'}');
}
