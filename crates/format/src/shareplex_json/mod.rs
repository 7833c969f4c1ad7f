//! SharePlex JSON: `meta`, `data` and `key`, as DTS writes it and as Quest's SharePlex does.
//!
//! Shape: one object per operation. `data` is the row (of an update the changed columns, after it),
//! `key` what an update found before it. Every message knows its place in its transaction: `seq` of
//! `size`, counted over the operations that are sent, which is why the encoder looks ahead.
//!
//! Read next: [`Options`], then `row.rs`; `decode.rs` for the way back.

mod decode;
mod drop_column;
mod meta;
mod options;
mod row;
pub(crate) mod table;
pub(crate) mod values;

pub use decode::SharePlexJsonDecoder;
pub use options::{
    MetaField, Names, Nulls, OpWords, Options, RowId, TimeSuffix, UpdateShape, Variant,
};

use crate::{Ahead, Encoder, FormatError, Messages};
use change::event::DdlChange;
use change::{DdlKind, Event, Image, Operation, RowChange};
use drop_column::dropped_columns;
use meta::{Meta, Place};
use std::collections::HashMap;
use table::TableText;

const FORMAT: &str = "shareplex-json";

/// The encoder.
#[derive(Debug, Default)]
pub struct SharePlexJson {
    options: Options,
    tables: HashMap<(u32, u32), TableText>,
    ahead: Ahead,
    sent: u64,
    key: Vec<u8>,
    not_carried: u64,
}

impl SharePlexJson {
    /// An encoder with these settings.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    fn place(&mut self, sequence: u64, snapshot: bool) -> Place {
        if snapshot {
            return Place {
                scn: sequence,
                seq: 1,
                size: 1,
            };
        }
        self.sent += 1;
        Place {
            scn: match self.ahead.commit_sequence {
                0 => sequence,
                commit => commit,
            },
            seq: self.sent,
            size: self.ahead.operations.max(self.sent),
        }
    }

    fn row(&mut self, row: &RowChange<'_>, out: &mut Messages) -> Result<(), FormatError> {
        FormatError::refuse_cql(FORMAT, row)?;
        let missing = || FormatError {
            format: FORMAT,
            table: format!("{}.{}", row.table.database, row.table.name),
            what: "the change has no image of the row".into(),
        };
        let split = self.options.update == UpdateShape::BeforeAfter;
        match row.operation {
            Operation::Update if split => {
                let after = row.after.ok_or_else(missing)?;
                if let Some(before) = row.before {
                    self.whole(row, (&before, Word::UpdateBefore), out);
                }
                self.whole(row, (&after, Word::UpdateAfter), out);
            }
            Operation::Update => {
                let after = row.after.ok_or_else(missing)?;
                self.update(row, &after, out);
            }
            Operation::Delete => {
                let before = row.before.ok_or_else(missing)?;
                self.whole(row, (&before, Word::Delete), out);
            }
            _ => {
                let after = row.after.ok_or_else(missing)?;
                self.whole(row, (&after, Word::Insert), out);
            }
        }
        Ok(())
    }

    /// A message whose `data` is a whole row.
    fn whole(
        &mut self,
        row: &RowChange<'_>,
        (image, word): (&Image<'_>, Word),
        out: &mut Messages,
    ) {
        self.head(row, word, out.buffer());
        let table = &self.tables[&table_key(row)];
        let bytes = out.buffer();
        bytes.extend_from_slice(b",\"data\":");
        row::put_whole(bytes, table, image, &self.options);
        self.end(out);
    }

    fn update(&mut self, row: &RowChange<'_>, after: &Image<'_>, out: &mut Messages) {
        self.head(row, Word::Update, out.buffer());
        let table = &self.tables[&table_key(row)];
        let images = (row.before.as_ref(), after);
        let bytes = out.buffer();
        bytes.extend_from_slice(b",\"data\":");
        row::put_changed(bytes, table, images, &self.options);
        bytes.extend_from_slice(b",\"key\":");
        row::put_key(bytes, table, images, &self.options);
        self.end(out);
    }

    /// `meta` of a row's message.
    fn head(&mut self, row: &RowChange<'_>, word: Word, out: &mut Vec<u8>) {
        let place = self.place(row.sequence, row.header.snapshot);
        self.key.clear();
        if self.options.rowid == RowId::PrimaryKey
            && let Some(image) = row.before.as_ref().or(row.after.as_ref())
        {
            crate::key_text::put_key(&mut self.key, row.table, image);
        }
        let table = (self.tables)
            .entry(table_key(row))
            .or_insert_with(|| TableText::new(row.table, &self.options));
        meta::put(
            out,
            &self.options,
            &Meta {
                place,
                header: row.header,
                word: word.of(&self.options.op_words),
                table: &table.name,
                rowid: &self.key,
            },
        );
    }

    fn ddl(&mut self, change: &DdlChange<'_>, out: &mut Messages) {
        if change.ddl.kind == DdlKind::TruncateTable {
            self.statement(change, (Word::Truncate, None), out);
            return;
        }
        let dropped = dropped_columns(change.ddl.sql);
        if dropped.is_empty() {
            self.not_carried += 1;
        }
        for column in &dropped {
            self.statement(change, (Word::DropColumn, Some(column)), out);
        }
    }

    fn statement(
        &mut self,
        change: &DdlChange<'_>,
        (word, column): (Word, Option<&str>),
        out: &mut Messages,
    ) {
        let place = self.place(change.sequence, change.header.snapshot);
        let mut name = Vec::new();
        let full_name = format!("{}.{}", change.ddl.database, change.ddl.table);
        table::put_name(&mut name, self.options.names, &full_name);
        let bytes = out.buffer();
        meta::put(
            bytes,
            &self.options,
            &Meta {
                place,
                header: change.header,
                word: word.of(&self.options.op_words),
                table: &name,
                rowid: b"",
            },
        );
        if let Some(column) = column {
            bytes.extend_from_slice(b",\"data\":{");
            table::put_name(bytes, self.options.names, column);
            bytes.extend_from_slice(b":null}");
        }
        self.end(out);
    }

    fn end(&self, out: &mut Messages) {
        let end: &[u8] = match self.options.variant {
            Variant::Dts => b"}",
            Variant::Quest => b" }",
        };
        out.buffer().extend_from_slice(end);
        out.end();
    }
}

fn table_key(row: &RowChange<'_>) -> (u32, u32) {
    (row.table.table.0, row.table.version.0)
}

/// What a message says.
#[derive(Debug, Clone, Copy)]
enum Word {
    Insert,
    Update,
    Delete,
    Truncate,
    DropColumn,
    UpdateBefore,
    UpdateAfter,
}

impl Word {
    fn of(self, words: &OpWords) -> &str {
        match self {
            Word::Insert => &words.insert,
            Word::Update => &words.update,
            Word::Delete => &words.delete,
            Word::Truncate => &words.truncate,
            Word::DropColumn => &words.drop_column,
            Word::UpdateBefore => &words.update_before,
            Word::UpdateAfter => &words.update_after,
        }
    }
}

impl Encoder for SharePlexJson {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn encode(&mut self, event: &Event<'_>, out: &mut Messages) -> Result<(), FormatError> {
        match event {
            Event::Row(row) => self.row(row, out)?,
            Event::Ddl(change) => {
                self.tables.clear();
                if !self.options.without_ddl {
                    self.ddl(change, out);
                }
            }
            Event::Commit { .. } => {
                self.ahead = Ahead::default();
                self.sent = 0;
            }
            Event::Begin { .. } => {}
        }
        Ok(())
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn operations(&self, event: &Event<'_>) -> u64 {
        match event {
            Event::Row(row) => {
                let both = row.before.is_some() && row.after.is_some();
                let split = self.options.update == UpdateShape::BeforeAfter
                    && row.operation == Operation::Update;
                1 + u64::from(split && both)
            }
            Event::Ddl(_) if self.options.without_ddl => 0,
            Event::Ddl(change) if change.ddl.kind == DdlKind::TruncateTable => 1,
            Event::Ddl(change) => dropped_columns(change.ddl.sql).len() as u64,
            Event::Begin { .. } | Event::Commit { .. } => 0,
        }
    }

    fn transaction(&mut self, ahead: &Ahead) {
        self.ahead = *ahead;
        self.sent = ahead.sent_before;
    }

    fn not_carried(&self) -> u64 {
        self.not_carried
    }
}
