//! Tables that are new in the target, and what may not be there before them.

use super::{Hands, Structure, Tables, renew_delta, same_shape, source_name, table_rejection};
use crate::client::Client;
use crate::config::{ClickHouseConfig, Engine, Mode};
use crate::layout::{NoLayout, TableLayout};
use crate::names::{Names, literal, quote};
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
        self.check_view(client, schema, &names, sequence)?;
        self.check_engine(client, schema, &names, sequence)?;
        let was_there = self.exists(client, &names.database, &names.base_name())?;
        refused_for_good(
            client.run("create the table", &layout.create_base(&base)),
            schema,
            sequence,
            &names,
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
        self.check_partition(client, (schema, sequence), &layout, &names)?;
        let is_empty =
            !was_there || client.number("count rows", &format!("SELECT count() FROM {base}"))? == 0;
        let folded = self.folded.get(&name).copied().unwrap_or(0);
        if self.is_mvcc() {
            let delta = names.delta();
            renew_delta(client, "create the delta", &layout, &delta)?;
        }
        let parts = (&*base, &*names.delta());
        self.put_view(client, (&layout, &names), parts, folded)?;
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

    /// Where the view goes, no table of somebody else's may be: it would be replaced.
    pub(super) fn check_view(
        &self,
        client: &Client,
        schema: &TableSchema,
        names: &Names,
        sequence: u64,
    ) -> Result<(), SinkError> {
        match in_the_way_of_view(client, names)? {
            None => Ok(()),
            Some((found, fix)) => Err(table_rejection(
                schema,
                sequence,
                names,
                format!("{found}; fix: {fix}"),
            )),
        }
    }

    /// A table that was there before the sink came must be one that it can exchange.
    fn check_engine(
        &self,
        client: &Client,
        schema: &TableSchema,
        names: &Names,
        sequence: u64,
    ) -> Result<(), SinkError> {
        match wrong_engine(client, &self.config, names)? {
            None => Ok(()),
            Some((found, fix)) => Err(table_rejection(
                schema,
                sequence,
                names,
                format!("{found}; fix: {fix}, and the sink makes its own"),
            )),
        }
    }

    /// In mode `sign_version`, two versions of a row must meet in one partition.
    fn check_partition(
        &self,
        client: &Client,
        (schema, sequence): (&TableSchema, u64),
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
        client.drop_table("take the table back", &names.base())?;
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
    pub(crate) fn create_anew(
        &mut self,
        (client, folder): Hands<'_>,
        tables: &mut Tables,
        schema: &Arc<TableSchema>,
        sequence: u64,
    ) -> Result<(), SinkError> {
        let name = source_name(schema);
        if let Some(table) = tables.get(&name) {
            if table.note.schema.table == schema.table
                && same_shape(&table.note.schema, schema)
                && !table.layout.writers.is_empty()
            {
                return Ok(());
            }
            self.remove((client, folder), tables, &name)?;
        }
        self.create(client, tables, schema, (sequence, false))
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
pub(crate) fn in_the_way_of_view(
    client: &Client,
    names: &Names,
) -> Result<Option<(String, String)>, SinkError> {
    let sql = format!(
        "SELECT engine FROM system.tables WHERE database = {} AND name = {} AND NOT (engine = 'View' AND \
         position(create_table_query, {}) > 0)",
        literal(&names.database),
        literal(&names.view_name()),
        literal(&names.base_name())
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

/// What a server refuses for what the statement says, not for how it stands: the table is set aside.
fn refused_for_good(
    done: Result<(), SinkError>,
    schema: &TableSchema,
    sequence: u64,
    names: &Names,
) -> Result<(), SinkError> {
    let error = match done {
        Err(error) if is_for_good(&error) => error,
        other => return other,
    };
    Err(table_rejection(
        schema,
        sequence,
        names,
        format!("{}: {}", error.operation, error.detail),
    ))
}

pub(super) fn is_for_good(error: &SinkError) -> bool {
    const WORDS: [&str; 13] = [
        "ILLEGAL_COLUMN",
        "BAD_ARGUMENTS",
        "ILLEGAL_TYPE_OF_ARGUMENT",
        "TYPE_MISMATCH",
        "UNKNOWN_IDENTIFIER",
        "SYNTAX_ERROR",
        "UNKNOWN_TYPE",
        "CANNOT_CONVERT_TYPE",
        "ALTER_OF_COLUMN_IS_FORBIDDEN",
        "DATA_TYPE_CANNOT_BE_USED_IN_KEY",
        "UNKNOWN_SETTING",
        "ARGUMENT_OUT_OF_BOUND",
        "INVALID_PARTITION_VALUE",
    ];
    WORDS.iter().any(|word| error.detail.contains(word))
}
