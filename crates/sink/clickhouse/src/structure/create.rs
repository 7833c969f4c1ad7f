//! Tables that are new in the target, and what may not be there before them.

use super::{
    Hands, Structure, Tables, aside_if_for_good, renew_delta, same_shape, source_name,
    table_rejection,
};
use crate::client::Client;
use crate::config::{ClickHouseConfig, Engine, Mode};
use crate::layout::{Added, NoLayout, TableLayout};
use crate::names::{Beside, Names, literal, quote};
use crate::state::TableNote;
use crate::table::Table;
use change::{SinkError, TableSchema};
use std::sync::Arc;

impl Structure {
    pub(super) fn create(
        &mut self,
        client: &Client,
        tables: &mut Tables,
        schema: &Arc<TableSchema>,
        (sequence, is_copied): (u64, bool),
    ) -> Result<(), SinkError> {
        let name = source_name(schema);
        let names = self.names(schema);
        let reject = |no: NoLayout| table_rejection(schema, sequence, &names, no.0);
        if let Some(other) = tables.values().find(|table| table.names == names) {
            return Err(reject(NoLayout(format!(
                "its name in the target is that of {}: set `database` or `table` with {{database}}",
                other.source
            ))));
        }
        let mut layout = self.layout(schema).map_err(reject)?;
        client.ensure_database("create the database", &names.database)?;
        self.check_database(client, schema, &names, sequence)?;
        let base = names.base();
        let refuse = |found| refuse_found((schema, sequence), &names, found);
        refuse(in_the_way_of_view(client, &names)?)?;
        // A table that was there before the sink came must be one that it can exchange.
        let engine = wrong_engine(client, &self.config, &names)?;
        refuse(engine.map(|(found, fix)| (found, format!("{fix}, and the sink makes its own"))))?;
        refuse(in_the_way_beside(client, layout.added(), &names)?)?;
        let was_there = self.exists(client, &names.database, &names.base_name())?;
        aside_if_for_good(
            client.run("create the table", &layout.create_base(&base)),
            schema,
            sequence,
            names.shown(),
        )?;
        let described = self.described(client, &base)?;
        layout.describe(&described, self.range).map_err(|no| {
            reject(NoLayout(format!(
                "{}; drop or rename the target's table, or alter it",
                no.0
            )))
        })?;
        let has = |column: &str| described.iter().any(|row| row[0] == column);
        let wanted = layout.base_insert();
        if let Some((missing, _)) = wanted.iter().find(|(column, _)| !has(column)) {
            return Err(reject(NoLayout(format!(
                "the table {} is there already, without a column `{missing}`: drop or rename it",
                names.shown()
            ))));
        }
        self.check_partition(client, (schema, sequence, was_there), &layout, &names)?;
        let is_empty =
            !was_there || client.number("count rows", &format!("SELECT count() FROM {base}"))? == 0;
        let folded = self.folded.get(&name).copied().unwrap_or(0);
        if self.is_mvcc() {
            let delta = names.delta();
            let made = renew_delta(client, "create the delta", &layout, &delta);
            aside_if_for_good(made, schema, sequence, names.shown())?;
        }
        let parts = (&*base, &*names.delta());
        let shown = self.put_view(client, (&layout, &names), parts, folded);
        aside_if_for_good(shown, schema, sequence, names.shown())?;
        let mut note = TableNote::new(Arc::clone(schema));
        note.is_loading = is_copied && is_empty && self.is_mvcc() && !layout.is_keyless();
        if is_copied && !is_empty {
            note.copy_from = sequence;
        }
        let table = Table::new(
            name.clone(),
            names.clone(),
            layout,
            note,
            (folded, folded + 1),
        );
        self.put_note(client, &table)?;
        tables.insert(name, table);
        Ok(())
    }

    /// Only the engine Atomic can exchange tables.
    pub(super) fn check_database(
        &self,
        client: &Client,
        schema: &TableSchema,
        names: &Names,
        sequence: u64,
    ) -> Result<(), SinkError> {
        let sql = format!(
            "SELECT engine FROM system.databases WHERE name = {}",
            literal(&names.database)
        );
        let engine = client
            .cell("look at the database", &sql)?
            .unwrap_or_default();
        match engine.as_str() {
            "Atomic" => Ok(()),
            other => Err(table_rejection(
                schema,
                sequence,
                names,
                format!(
                    "the database {} has the engine {other}, and the sink is tested with Atomic alone; \
                     fix: CREATE DATABASE … ENGINE = Atomic, and name it in `database`",
                    quote(&names.database)
                ),
            )),
        }
    }

    /// In mode `sign_version`, two versions of a row must meet in one partition.
    fn check_partition(
        &self,
        client: &Client,
        (schema, sequence, was_there): (&TableSchema, u64, bool),
        layout: &TableLayout,
        names: &Names,
    ) -> Result<(), SinkError> {
        if self.is_mvcc() || layout.partition_by.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "SELECT name FROM system.columns WHERE database = {} AND table = {} AND is_in_partition_key \
             AND NOT is_in_sorting_key LIMIT 1",
            literal(&names.database),
            literal(&names.base_name())
        );
        let Some(column) = client.cell("look at the partitions", &sql)? else {
            return Ok(());
        };
        if !was_there {
            client.drop_table("take the table back", &names.base())?;
        }
        Err(table_rejection(
            schema,
            sequence,
            names,
            format!(
                "partition_by uses `{column}`, which is not in ORDER BY: an update that changes it would \
                 leave two rows; add it to order_by, or partition by the key"
            ),
        ))
    }

    /// CREATE TABLE in the source: a table of this name that the target has is an older one.
    ///
    /// Shape: `replaces`: CREATE OR REPLACE, which drops the former one first.
    pub(crate) fn create_anew(
        &mut self,
        hands: Hands<'_>,
        tables: &mut Tables,
        schema: &Arc<TableSchema>,
        (sequence, replaces): (u64, bool),
    ) -> Result<(), SinkError> {
        let name = source_name(schema);
        if replaces {
            self.drop_table(hands, tables, &name)?;
        }
        self.left_out.remove(&name);
        if let Some(table) = tables.get(&name) {
            if table.note.schema.table == schema.table
                && same_shape(&table.note.schema, schema)
                && !table.layout.writers.is_empty()
                && table.note.stale.is_empty()
            {
                return Ok(());
            }
            self.remove(hands, tables, &name)?;
        }
        let made = self.create(hands.0, tables, schema, (sequence, false));
        match made {
            // What was set aside before has ended with the former table; the first row is refused for this.
            Err(error) if replaces && error.rejection.is_some() => {
                tracing::warn!(table = name, "{error}");
                Ok(())
            }
            made => made,
        }
    }
}

/// Sets the whole table aside for what stands in its way, with the statement that makes room: it would be
/// replaced or dropped.
pub(super) fn refuse_found(
    (schema, sequence): (&TableSchema, u64),
    names: &Names,
    found: Option<(String, String)>,
) -> Result<(), SinkError> {
    match found {
        None => Ok(()),
        Some((found, fix)) => {
            let reason = format!("{found}; fix: {fix}");
            Err(table_rejection(schema, sequence, names, reason))
        }
    }
}

/// A table that is there under the base's name with an engine that the sink cannot write, and the
/// statement that makes room.
pub(crate) fn wrong_engine(
    client: &Client,
    config: &ClickHouseConfig,
    names: &Names,
) -> Result<Option<(String, String)>, SinkError> {
    let sql = format!(
        "SELECT engine FROM system.tables WHERE database = {} AND name = {}",
        literal(&names.database),
        literal(&names.base_name())
    );
    let wanted = match (config.mode, config.engine) {
        (Mode::Mvcc, _) => "MergeTree",
        (_, Engine::Replacing) => "ReplacingMergeTree",
        (_, Engine::VersionedCollapsing) => "VersionedCollapsingMergeTree",
    };
    let engine = client.cell("look at the table", &sql)?;
    Ok(engine.filter(|engine| engine != wanted).map(|engine| {
        let base = names.base();
        (
            format!(
                "the table {base} is there already with the engine {engine}, not {wanted} (Replicated and \
                 Distributed tables are refused until they are tested)"
            ),
            format!("RENAME TABLE {base} TO another name"),
        )
    }))
}

/// What stands under the view's name and is no view of the sink's, and the statement that makes room.
///
/// A view of the sink's is known by its text: in mode `mvcc` it reads the watermark from the sink's state,
/// else it ends as only the sink's does.
pub(crate) fn in_the_way_of_view(
    client: &Client,
    names: &Names,
) -> Result<Option<(String, String)>, SinkError> {
    let shape = match names.has_live_view() {
        true => {
            "position(as_select, '_headwater_') > 0 AND position(as_select, 'max(watermark)') > 0"
        }
        false => {
            "match(as_select, ' FINAL WHERE .*sign.* > 0$') AND NOT startsWith(as_select, 'SELECT *')"
        }
    };
    let sql = format!(
        "SELECT engine FROM system.tables WHERE database = {} AND name = {} AND NOT (engine = 'View' AND \
         {shape})",
        literal(&names.database),
        literal(&names.view_name()),
    );
    let engine = client.cell("look at the view", &sql)?;
    Ok(engine.map(|engine| {
        let view = names.view();
        (
            format!(
                "{view} is there already with the engine {engine}, and the sink's view has that name: it \
                 is left as it is"
            ),
            format!("RENAME TABLE {view} TO another name, or set plain_name or table"),
        )
    }))
}

/// A table that stands where the sink makes and drops its own beside the base, and the statement that makes
/// room. Those of the sink are known by the columns that it adds.
pub(crate) fn in_the_way_beside(
    client: &Client,
    added: &Added,
    names: &Names,
) -> Result<Option<(String, String)>, SinkError> {
    let beside = names.beside();
    let list: Vec<String> = beside.iter().map(|(_, name)| literal(name)).collect();
    let sql = format!(
        "SELECT table, arrayStringConcat(groupArray(name), '\n') FROM system.columns WHERE database = {} AND \
         table IN ({}) GROUP BY table ORDER BY table",
        literal(&names.database),
        list.join(", ")
    );
    for row in client.rows("look at the tables beside", &sql)? {
        let [table, columns] = row.as_slice() else {
            continue;
        };
        let has = |wanted: &String| columns.split('\n').any(|column| column == wanted);
        let what = beside
            .iter()
            .find(|(_, name)| name == table)
            .map(|(what, _)| *what);
        let is_ours = match what {
            Some(Beside::Changes) => [&added.version, &added.dversion, &added.dts, &added.epoch]
                .into_iter()
                .all(has),
            Some(Beside::Rows) => has(&added.sign) && has(&added.version),
            Some(Beside::Keys) => columns.starts_with(&added.sign),
            None => true,
        };
        if !is_ours {
            let shown = names.quoted(table);
            return Ok(Some((
                format!(
                    "{shown} is there already and is not the sink's, which makes and drops a table of that \
                     name: it is left as it is"
                ),
                format!("RENAME TABLE {shown} TO another name, or set table"),
            )));
        }
    }
    Ok(None)
}
