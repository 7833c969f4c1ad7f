//! Canal JSON: what Canal's `FlatMessage` looks like on a queue, and what DTS makes of it.
//!
//! Shape, open source: one object without white space, members in alphabetical order, all fourteen
//! always there, values as strings or null. One row per message, or all rows of one rows event. An
//! UPDATE's `old` holds the columns that changed. Shape, DTS: the same without null members, with
//! types without precision, the whole row in `old`, `INIT` for snapshot rows and `DDL` for statements.
//!
//! On purpose other than Canal, unless `exact` (see docs/reference/canal-json.md): DECIMAL keeps its
//! full scale, text is transcoded from its column's charset, BINARY keeps its trailing zero bytes, the
//! type code of NULL is the column's own, `id` is the journal's sequence.
//!
//! Read next: [`Options`], then `row.rs`; `decode.rs` for the way back.

mod decode;
mod group;
mod options;
pub(crate) mod read_value;
mod row;
mod table;
mod transactions;
pub(crate) mod values;

pub use decode::CanalJsonDecoder;
pub(crate) use decode::statement_kind;
pub use options::{Clock, Flavour, Grouping, OldData, Options, SqlTypeCodes};

use crate::{Encoder, FormatError, Messages, json};
use change::event::DdlChange;
use change::{DdlKind, Event, Image, Operation, RowChange, TransactionHeader};
use group::{Group, GroupId};
use row::Print;
use std::collections::HashMap;
use std::io::Write;
use table::TableText;
use transactions::Transactions;

/// The encoder.
#[derive(Debug, Default)]
pub struct CanalJson {
    options: Options,
    tables: HashMap<(u32, u32), TableText>,
    group: Group,
    transactions: Transactions,
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
        FormatError::refuse_cql("canal-json", row)?;
        let shown = self.shown(row)?;
        let id = self.id(row.header, row.sequence);
        let print = Print::new(&self.options);
        let word = self.row_word(row.operation);
        let inverted = self.options.old_data == OldData::Before2022;
        let table = (self.tables)
            .entry((row.table.table.0, row.table.version.0))
            .or_insert_with(|| TableText::new(row.table, &self.options));
        out.push(b'{');
        if inverted && row.operation == Operation::Delete {
            out.extend_from_slice(b"\"old\":[");
        } else {
            out.extend_from_slice(b"\"data\":[");
        }
        self.unknown_cells += row::put_image(out, table, &shown, print);
        out.push(b']');
        out.extend_from_slice(&table.database);
        put_head(out, &self.options, (row.meta.time_s, id), row.header);
        out.extend_from_slice(b"false");
        out.extend_from_slice(&table.mysql_type);
        put_old(out, &self.options, table, row);
        if self.options.exact {
            table.put_known_pk_names(out, &shown);
        } else {
            out.extend_from_slice(&table.pk_names);
        }
        row::put_sql_types(out, table, &shown);
        out.extend_from_slice(&table.name);
        let commit_ms = row.header.best_time_us() / 1000;
        put_tail(out, &self.options, commit_ms, word);
        Ok(())
    }

    /// The image that stands in `data` (or alone in `old`).
    fn shown<'a>(&self, row: &RowChange<'a>) -> Result<Image<'a>, FormatError> {
        let inverted = self.options.old_data == OldData::Before2022;
        let shown = match row.operation {
            Operation::Delete => row.before,
            Operation::Update if inverted => row.before,
            _ => row.after,
        };
        shown.ok_or_else(|| FormatError {
            format: "canal-json",
            table: format!("{}.{}", row.table.database, row.table.name),
            what: "the change has no image of the row".into(),
        })
    }

    fn row_word(&self, operation: Operation) -> &'static str {
        match operation {
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Read if self.options.snapshot_as_init => "INIT",
            _ => "INSERT",
        }
    }

    fn id(&mut self, header: &TransactionHeader, sequence: u64) -> u64 {
        if self.options.exact {
            self.transactions.number(header)
        } else {
            sequence
        }
    }

    /// Adds a row to its event's message; the message before it, if it is another, is now whole.
    fn grouped(&mut self, row: &RowChange<'_>, out: &mut Messages) -> Result<(), FormatError> {
        FormatError::refuse_cql("canal-json", row)?;
        let shown = self.shown(row)?;
        let key = (row.table.table.0, row.table.version.0);
        let group = GroupId {
            transaction: self.transactions.number(row.header),
            group: row.meta.group,
            table: key,
            operation: row.operation,
        };
        let goes_on = self.group.id() == Some(group) && !self.group.is_full();
        if !goes_on {
            self.flush(out);
        }
        let id = self.id(row.header, row.sequence);
        let table = (self.tables)
            .entry(key)
            .or_insert_with(|| TableText::new(row.table, &self.options));
        if !goes_on {
            self.group.open(group, row);
            let (time_s, head) = (row.meta.time_s, &mut self.group.head);
            put_head(head, &self.options, (time_s, id), row.header);
            if self.options.exact {
                table.put_known_pk_names(&mut self.group.pk_names, &shown);
            } else {
                self.group.pk_names.extend_from_slice(&table.pk_names);
            }
        }
        let print = Print::new(&self.options);
        self.unknown_cells += self.group.push(table, row.before.as_ref(), &shown, print);
        Ok(())
    }

    /// Writes the message whose rows wait, if there is one.
    fn flush(&mut self, messages: &mut Messages) {
        let Some(id) = self.group.id() else {
            return;
        };
        let table = (self.tables)
            .get(&id.table)
            .expect("a table's text outlives the rows that wait");
        let out = messages.buffer();
        out.extend_from_slice(b"{\"data\":[");
        out.extend_from_slice(&self.group.data);
        out.push(b']');
        out.extend_from_slice(&table.database);
        out.extend_from_slice(&self.group.head);
        out.extend_from_slice(b"false");
        out.extend_from_slice(&table.mysql_type);
        if id.operation == Operation::Update {
            out.extend_from_slice(b",\"old\":[");
            out.extend_from_slice(&self.group.old);
            out.push(b']');
        } else {
            out.extend_from_slice(b",\"old\":null");
        }
        out.extend_from_slice(&self.group.pk_names);
        out.extend_from_slice(&self.group.types);
        out.extend_from_slice(&table.name);
        let word = self.row_word(id.operation);
        put_tail(out, &self.options, self.group.commit_ms, word);
        messages.end_earlier();
        self.group.close();
    }

    fn ddl(&mut self, change: &DdlChange<'_>, out: &mut Vec<u8>) {
        let ddl = &change.ddl;
        let id = self.id(change.header, change.sequence);
        let dts = self.options.flavour == Flavour::Dts;
        out.extend_from_slice(if dts { b"{" } else { b"{\"data\":null," });
        out.extend_from_slice(b"\"database\":");
        json::put_string(out, ddl.database);
        let time_s = change.header.time_s;
        put_head(out, &self.options, (time_s, id), change.header);
        out.extend_from_slice(b"true");
        if !dts {
            out.extend_from_slice(b",\"mysqlType\":null,\"old\":null,\"pkNames\":null");
        }
        out.extend_from_slice(b",\"sql\":");
        json::put_string(out, ddl.sql);
        if !dts {
            out.extend_from_slice(b",\"sqlType\":null");
        }
        out.extend_from_slice(b",\"table\":");
        json::put_string(out, ddl.table);
        let word = if dts { "DDL" } else { ddl_word(ddl.kind) };
        let commit_ms = change.header.best_time_us() / 1000;
        put_tail(out, &self.options, commit_ms, word);
    }

    fn leaves_out(&mut self, change: &DdlChange<'_>) -> bool {
        if self.options.without_ddl {
            return true;
        }
        if !self.options.exact {
            return false;
        }
        self.transactions.number(change.header);
        self.transactions.repeats(change.ddl.sql)
    }
}

impl Encoder for CanalJson {
    fn name(&self) -> &'static str {
        "canal-json"
    }

    fn encode(&mut self, event: &Event<'_>, out: &mut Messages) -> Result<(), FormatError> {
        match event {
            Event::Row(row) if self.options.grouping == Grouping::Event => {
                if row.operation != Operation::Read {
                    return self.grouped(row, out);
                }
                self.flush(out);
                self.row(row, out.buffer())?;
                out.end();
            }
            Event::Row(row) => {
                self.row(row, out.buffer())?;
                out.end();
            }
            Event::Ddl(change) => {
                self.flush(out);
                // A schema is about to change: templates of old versions are made again if needed.
                self.tables.clear();
                if !self.leaves_out(change) {
                    self.ddl(change, out.buffer());
                    out.end();
                }
            }
            Event::Begin { .. } | Event::Commit { .. } => self.flush(out),
        }
        Ok(())
    }

    fn wants_marks(&self) -> bool {
        self.options.grouping == Grouping::Event
    }

    fn held_from(&self) -> Option<u64> {
        self.group.id().map(|_| self.group.sequence_first)
    }

    fn may_hold(&self) -> bool {
        self.options.grouping == Grouping::Event
    }

    fn reset(&mut self) {
        self.group.close();
    }
}

fn ddl_word(kind: DdlKind) -> &'static str {
    match kind {
        DdlKind::CreateTable => "CREATE",
        DdlKind::AlterTable => "ALTER",
        DdlKind::DropTable => "ERASE",
        DdlKind::TruncateTable => "TRUNCATE",
        DdlKind::RenameTable => "RENAME",
        DdlKind::CreateIndex => "CINDEX",
        DdlKind::DropIndex => "DINDEX",
        DdlKind::Database | DdlKind::Other => "QUERY",
    }
}

pub(crate) fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// `es`, `gtid`, `id` and `isDdl` up to its value.
fn put_head(
    out: &mut Vec<u8>,
    options: &Options,
    (time_s, id): (u32, u64),
    header: &TransactionHeader,
) {
    out.extend_from_slice(b",\"es\":");
    put_number(out, u64::from(time_s) * 1000);
    let gtid = header.id.as_ref().filter(|_| options.gtid);
    if gtid.is_some() || options.flavour == Flavour::OpenSource {
        out.extend_from_slice(b",\"gtid\":\"");
        if let Some(gtid) = gtid {
            write!(out, "{gtid}").expect("writing to a Vec does not fail");
        }
        out.push(b'"');
    }
    out.extend_from_slice(b",\"id\":");
    put_number(out, id);
    out.extend_from_slice(b",\"isDdl\":");
}

/// `old`: of an UPDATE what the flavour shows of the other image; else null, or nothing (DTS).
fn put_old(out: &mut Vec<u8>, options: &Options, table: &TableText, row: &RowChange<'_>) {
    if row.operation != Operation::Update {
        if options.flavour == Flavour::OpenSource {
            out.extend_from_slice(b",\"old\":null");
        }
        return;
    }
    let print = Print::new(options);
    out.extend_from_slice(b",\"old\":[");
    match (options.flavour, &row.before, &row.after) {
        (Flavour::OpenSource, Some(before), Some(after)) => {
            row::put_changed(out, table, (before, after), print);
        }
        (Flavour::Dts, Some(before), _) if options.old_data == OldData::Current => {
            row::put_image(out, table, before, print);
        }
        (Flavour::Dts, _, Some(after)) if options.old_data == OldData::Before2022 => {
            row::put_image(out, table, after, print);
        }
        _ => out.extend_from_slice(b"{}"),
    }
    out.push(b']');
}

/// `ts`, `type` and the end.
fn put_tail(out: &mut Vec<u8>, options: &Options, commit_ms: u64, word: &str) {
    let millis = match options.clock {
        Clock::Commit => commit_ms,
        Clock::Wall => crate::wall_clock_us() / 1000,
    };
    out.extend_from_slice(b",\"ts\":");
    put_number(out, millis);
    out.extend_from_slice(b",\"type\":\"");
    out.extend_from_slice(word.as_bytes());
    out.extend_from_slice(b"\"}");
}
