//! Tables after a restart: what a former life left behind goes.

use super::{Structure, table_rejection};
use crate::client::Client;
use crate::config::Mode;
use crate::fold::drop_folded;
use crate::names::quote;
use crate::state::TableNote;
use crate::table::{Pending, Table};
use change::SinkError;
use change::contract::ErrorKind;
use std::sync::Arc;
use std::time::Instant;

impl Structure {
    /// A table that the notes know, after a restart: what a former life left behind goes.
    ///
    /// Shape: rows with a sequence of `cursor` or later come again.
    pub(crate) fn restore(
        &mut self,
        client: &Client,
        source: &str,
        note: TableNote,
        cursor: u64,
    ) -> Result<Table, SinkError> {
        let schema = Arc::clone(&note.schema);
        let names = self.names(&schema);
        let folded = self.folded.get(source).copied().unwrap_or(0);
        let mut layout = self
            .layout(&schema)
            .map_err(|no| table_rejection(&schema, cursor, &names, no.0))?;
        let described = self.described(client, &names.base());
        let fits = match &described {
            Ok(rows) => layout.describe(rows, self.range).is_ok(),
            // Unknown table: it was dropped behind the sink's back, or in the middle of a statement.
            Err(error)
                if error.kind == ErrorKind::Unavailable && error.detail.contains("UNKNOWN") =>
            {
                false
            }
            Err(error) => return Err(error.clone()),
        };
        let mut table = Table::new(
            source.to_owned(),
            names.clone(),
            layout,
            note,
            (folded, folded + 1),
        );
        if !fits {
            // The statement that was under way is delivered again.
            return Ok(table);
        }
        let layout = Arc::clone(&table.layout);
        if self.is_mvcc() {
            client.run("make the delta", &layout.create_delta(&names.delta()))?;
        }
        self.clean(client, &table, cursor)?;
        let parts = (&*names.base(), &*names.delta());
        self.put_view(client, (&layout, &names), parts, folded)?;
        for left in [
            names.staging(),
            names.next(),
            names.next_second(),
            names.delta_next(),
        ] {
            client.drop_table("clean up", &left)?;
        }
        if self.is_mvcc() {
            drop_folded(client, &names, folded)?;
            self.restore_pending(client, &mut table, folded)?;
        }
        Ok(table)
    }

    /// Rows that the cursor does not cover come again.
    fn clean(&self, client: &Client, table: &Table, cursor: u64) -> Result<(), SinkError> {
        let added = table.layout.added();
        let remove = |name: String, column: &str| {
            let which = format!("WHERE {} >= {cursor}", quote(column));
            let count = format!("SELECT count() FROM {name} {which}");
            if client.number("look for rows of an unfinished flush", &count)? == 0 {
                return Ok(());
            }
            client.run_with(
                "remove rows of an unfinished flush",
                &format!("DELETE FROM {name} {which}"),
                &[("lightweight_deletes_sync", "2")],
            )
        };
        match self.config.mode {
            Mode::Mvcc => {
                remove(table.names.delta(), &added.version)?;
                if table.note.is_loading {
                    remove(table.names.base(), &added.version)?;
                }
                Ok(())
            }
            Mode::SignVersion if table.layout.has_event() => {
                remove(table.names.base(), &added.event)
            }
            // The same rows with the same versions come again and take the place of these; of tables
            // without a key the occurrence is counted, so they go.
            Mode::SignVersion if table.layout.is_keyless() => {
                remove(table.names.base(), &added.version)
            }
            Mode::SignVersion => Ok(()),
        }
    }

    fn restore_pending(
        &self,
        client: &Client,
        table: &mut Table,
        folded: u64,
    ) -> Result<(), SinkError> {
        let added = table.layout.added();
        let epoch = quote(&added.epoch);
        let sql = format!(
            "SELECT count(), max({epoch}), toUnixTimestamp64Micro(min({})) FROM {} WHERE {epoch} > {folded}",
            quote(&added.dts),
            table.names.delta()
        );
        let rows = client.rows("count pending changes", &sql)?;
        let number = |at: usize| -> u64 {
            let cell = rows.first().and_then(|row| row.get(at));
            cell.and_then(|cell| cell.parse().ok()).unwrap_or(0)
        };
        let (count, epoch, oldest) = (number(0), number(1), number(2));
        if count > 0 {
            table.pending.push(Pending {
                epoch,
                rows: count,
                since: Instant::now(),
                commit_us: oldest,
            });
            table.epoch = epoch + 1;
        }
        Ok(())
    }
}
