//! Copies of a table: where they begin, and what goes when they are whole.

use super::{Structure, Tables, same_shape, source_name};
use crate::client::Client;
use crate::config::Mode;
use crate::fold::crash_point;
use crate::names::{list, quote};
use crate::table::Table;
use change::{SinkError, TableSchema};
use std::sync::Arc;

impl Structure {
    /// A copy of the table begins.
    pub(crate) fn begin_copy(
        &mut self,
        client: &Client,
        tables: &mut Tables,
        schema: &Arc<TableSchema>,
        sequence: u64,
    ) -> Result<(), SinkError> {
        let name = source_name(schema);
        self.left_out.remove(&name);
        let Some(table) = tables.get_mut(&name) else {
            return self.create(client, tables, schema, (sequence, true));
        };
        let is_whole = !table.layout.writers.is_empty() && same_shape(&table.note.schema, schema);
        if !is_whole || table.layout.is_keyless() {
            // Another structure, or rows that cannot be told from those that were there: begin with
            // nothing.
            self.remove((client, None), tables, &name)?;
            return self.create(client, tables, schema, (sequence, true));
        }
        if table.note.is_loading {
            // Of a copy that was not whole: what it brought would be there twice.
            let count = format!("SELECT count() FROM {}", table.names.base());
            let is_empty = table.load.count == 0 && client.number("count rows", &count)? == 0;
            table.note.is_loading = is_empty;
        }
        if !table.note.is_loading {
            table.note.copy_from = sequence;
        }
        table.note.stale.clear();
        self.dirty.insert(name);
        Ok(())
    }

    /// A copy is whole: rows older than its begin are gone in the source.
    pub(crate) fn end_copy(
        &mut self,
        client: &Client,
        table: &mut Table,
        sequence: u64,
    ) -> Result<(), SinkError> {
        let from = std::mem::take(&mut table.note.copy_from);
        let was_loading = std::mem::take(&mut table.note.is_loading);
        if from == 0 && !was_loading {
            return Ok(());
        }
        self.dirty.insert(table.source.clone());
        if from == 0 {
            return Ok(());
        }
        let added = table.layout.added();
        let version = quote(&added.version);
        let mut columns = table.layout.column_names();
        let source = list(&columns);
        let keys = list(table.layout.key_names());
        let sql = match self.config.mode {
            Mode::Mvcc => {
                columns.extend([
                    added.version.clone(),
                    added.dversion.clone(),
                    added.row_version.clone(),
                    added.dts.clone(),
                    added.epoch.clone(),
                ]);
                let (base, delta) = (table.names.base(), table.names.delta());
                let d = table.layout.alias("d");
                format!(
                    "INSERT INTO {delta} ({}) SELECT {source}, {sequence}, {sequence}, {version}, now64(3), \
                     {} FROM (SELECT {source}, {version}, {d} FROM (SELECT {source}, {version}, toUInt64(0) \
                     AS {d} FROM {base} UNION ALL SELECT {source}, {version}, {} AS {d} FROM {delta}) ORDER \
                     BY {keys}, {version} DESC LIMIT 1 BY {keys}) WHERE {d} = 0 AND {version} < {from}",
                    list(&columns),
                    table.epoch,
                    quote(&added.dversion)
                )
            }
            Mode::SignVersion => {
                columns.extend([added.sign.clone(), added.version.clone()]);
                let (mut values, base) = (format!("-1, {sequence}"), table.names.base());
                if table.layout.has_event() {
                    columns.push(added.event.clone());
                    values = format!("-1, {version}, {sequence}");
                }
                format!(
                    "INSERT INTO {base} ({}) SELECT {source}, {values} FROM {base} FINAL WHERE {} > 0 AND \
                     {version} < {from}",
                    list(&columns),
                    quote(&added.sign)
                )
            }
        };
        client.run_with(
            "remove what the copy did not have",
            &sql,
            &[
                ("insert_allow_materialized_columns", "1"),
                ("optimize_on_insert", "0"),
            ],
        )?;
        crash_point("copy-end");
        if self.is_mvcc() {
            table.add_pending(1);
        }
        Ok(())
    }
}
