//! Tables after a restart: what a former life left behind goes.

use super::{
    Structure, aside_if_for_good, in_the_way_beside, in_the_way_of_view, table_rejection,
    wrong_engine,
};
use crate::client::Client;
use crate::config::Mode;
use crate::error::is_missing;
use crate::fold::drop_folded;
use crate::layout::TableLayout;
use crate::names::{Names, quote};
use crate::state::TableNote;
use crate::table::{Pending, Table};
use change::SinkError;
use std::sync::Arc;
use std::time::Instant;

impl Structure {
    /// A table that the notes know, after a restart: what a former life left behind goes.
    ///
    /// Shape: rows with a sequence of `cursor` or later come again.
    /// Errors: a rejection for a table that cannot be taken up; the others can.
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
        let refuse = |reason: String| table_rejection(&schema, cursor, &names, reason);
        let mut layout = self.layout(&schema).map_err(|no| refuse(no.0))?;
        self.refuse_others(client, &layout, &names)?
            .map_or(Ok(()), |reason| Err(refuse(reason)))?;
        let fits = match self.described(client, &names.base()) {
            Ok(rows) => {
                let version = &layout.added().version;
                if !rows.iter().any(|row| row[0] == *version) {
                    return Err(refuse(format!(
                        "the table {} is not the sink's: it has no column `{version}`; fix: set mode, \
                         plain_name, database, table and column_prefix as they were, or RENAME TABLE it",
                        names.base()
                    )));
                }
                layout.describe(&rows, self.range).is_ok()
            }
            // It was dropped behind the sink's back, or is gone in the middle of a statement.
            Err(error) if is_missing(&error) => false,
            Err(error) => return Err(error),
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
        let taken_up = self.take_up(client, &mut table, (cursor, folded));
        aside_if_for_good(taken_up, &schema, cursor, names.shown())?;
        Ok(table)
    }

    /// Nothing of somebody else's may stand where the sink's tables and its view go: why it does.
    fn refuse_others(
        &self,
        client: &Client,
        layout: &TableLayout,
        names: &Names,
    ) -> Result<Option<String>, SinkError> {
        let mut found = wrong_engine(client, &self.config, names)?;
        if found.is_none() {
            found = in_the_way_of_view(client, names)?;
        }
        if found.is_none() {
            found = in_the_way_beside(client, layout.added(), names)?;
        }
        let as_it_was = "or set mode, plain_name, database and table as they were";
        Ok(found.map(|(found, fix)| format!("{found}; fix: {fix}, {as_it_was}")))
    }

    /// The table goes on from what the cursor covers.
    fn take_up(
        &self,
        client: &Client,
        table: &mut Table,
        (cursor, folded): (u64, u64),
    ) -> Result<(), SinkError> {
        let names = table.names.clone();
        let layout = Arc::clone(&table.layout);
        if self.is_mvcc() {
            client.run("make the delta", &layout.create_delta(&names.delta()))?;
        }
        self.clean(client, table, cursor)?;
        let parts = (&*names.base(), &*names.delta());
        self.put_view(client, (&layout, &names), parts, folded)?;
        for (_, left) in names.beside() {
            if left != names.delta_name() {
                client.drop_table("clean up", &names.quoted(&left))?;
            }
        }
        if self.is_mvcc() {
            drop_folded(client, &names, folded)?;
            self.restore_pending(client, table, folded)?;
        }
        Ok(())
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
