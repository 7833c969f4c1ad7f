//! The tables and views of the target: made, found again after a restart, changed as the source's are.
//!
//! A change of structure is made on clones beside the table. The view then changes to the clones in one
//! step, the base changes places with a clone in one step, and the view comes back to the base: a reader
//! sees the old structure or the new one, each whole. What is left after a crash is made again, because
//! the statement is delivered again and the note of the table still has the old structure.

use crate::alter::{self, Plan};
use crate::client::Client;
use crate::config::{ClickHouseConfig, Engine, Mode, OnDrop};
use crate::encode::DateRange;
use crate::fold::{Folder, Job, crash_point, drop_folded, lock};
use crate::layout::{NoLayout, TableLayout};
use crate::names::{Names, list, literal, quote};
use crate::server::Version;
use crate::sink::rejection;
use crate::state::{State, TableNote};
use crate::table::{Pending, Table};
use change::contract::ErrorKind;
use change::event::DdlChange;
use change::{Ddl, SinkError, TableSchema};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tables by the source's name.
pub(crate) type Tables = BTreeMap<String, Table>;
/// The connection, and the folding thread where there is one.
pub(crate) type Hands<'a> = (&'a Client, Option<&'a Folder>);

/// Mutations of a clone are waited for.
const WHOLE: [(&str, &str); 2] = [("alter_sync", "2"), ("mutations_sync", "2")];

/// Makes and changes the target's tables.
pub(crate) struct Structure {
    config: Arc<ClickHouseConfig>,
    state: Arc<State>,
    version: Version,
    range: DateRange,
    /// Folded epochs by the source's name, also of tables that are gone: epochs only rise.
    folded: BTreeMap<String, u64>,
    /// Tables whose note has to be written with the next cursor.
    dirty: BTreeSet<String>,
}

fn source_name(schema: &TableSchema) -> String {
    format!("{}.{}", schema.database, schema.name)
}

/// An empty delta under `name`, whatever was there.
fn renew_delta(
    client: &Client,
    operation: &str,
    layout: &TableLayout,
    name: &str,
) -> Result<(), SinkError> {
    client.drop_table(operation, name)?;
    client.run(operation, &layout.create_delta(name))
}

/// Whether two versions of a table are the same for the target.
fn same_shape(a: &TableSchema, b: &TableSchema) -> bool {
    let column = |x: &change::Column, y: &change::Column| {
        x.name == y.name && x.kind == y.kind && x.nullable == y.nullable && x.comment == y.comment
    };
    a.columns.len() == b.columns.len()
        && a.columns.iter().zip(&b.columns).all(|(x, y)| column(x, y))
        && a.key() == b.key()
}

impl Structure {
    pub(crate) fn new(
        config: Arc<ClickHouseConfig>,
        state: Arc<State>,
        version: Version,
        range: DateRange,
        folded: BTreeMap<String, u64>,
    ) -> Self {
        Self {
            config,
            state,
            version,
            range,
            folded,
            dirty: BTreeSet::new(),
        }
    }

    fn is_mvcc(&self) -> bool {
        self.config.mode == Mode::Mvcc
    }

    fn names(&self, schema: &TableSchema) -> Names {
        Names::of(&self.config, &schema.database, &schema.name)
    }

    fn layout(&self, schema: &Arc<TableSchema>) -> Result<TableLayout, NoLayout> {
        TableLayout::new(schema, &self.config, self.version)
    }

    fn described(&self, client: &Client, name: &str) -> Result<Vec<Vec<String>>, SinkError> {
        client.rows("describe the table", &format!("DESCRIBE TABLE {name}"))
    }

    fn exists(&self, client: &Client, database: &str, table: &str) -> Result<bool, SinkError> {
        let sql = format!(
            "SELECT count() FROM system.tables WHERE database = {} AND name = {}",
            literal(database),
            literal(table)
        );
        Ok(client.number("look for the table", &sql)? > 0)
    }

    /// Notes that changed since the last call, for the next write of the cursor.
    pub(crate) fn take_notes(&mut self, tables: &Tables) -> Vec<(String, TableNote)> {
        let dirty = std::mem::take(&mut self.dirty);
        let note = |name: String| Some((name.clone(), tables.get(&name)?.note.clone()));
        dirty.into_iter().filter_map(note).collect()
    }

    fn put_note(&self, client: &Client, table: &Table) -> Result<(), SinkError> {
        let folded = [(table.source.as_str(), lock(&table.fold).folded)];
        let notes = [(table.source.as_str(), &table.note)];
        self.state.put(client, None, &notes, &folded)
    }

    fn put_view(
        &self,
        client: &Client,
        (layout, names): (&TableLayout, &Names),
        (base, delta): (&str, &str),
        folded: u64,
    ) -> Result<(), SinkError> {
        let view = match self.is_mvcc() {
            true => layout.create_live_view(
                &names.view(),
                (base, delta),
                folded,
                &self.state.watermark_sql(),
            ),
            false => layout.create_final_view(&names.view(), base),
        };
        client.run("renew the view", &view)
    }

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
            .map_err(|no| rejection(&schema, (None, cursor), names.shown(), no.0))?;
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

    /// The table of a row: made where it is missing, followed where its structure is another.
    pub(crate) fn ensure(
        &mut self,
        client: &Client,
        tables: &mut Tables,
        schema: &Arc<TableSchema>,
        sequence: u64,
    ) -> Result<(), SinkError> {
        let name = source_name(schema);
        let Some(table) = tables.get_mut(&name) else {
            return self.create(client, tables, schema, (sequence, false));
        };
        if !table.layout.writers.is_empty() && same_shape(&table.note.schema, schema) {
            return Ok(());
        }
        let mut next = self
            .layout(schema)
            .map_err(|no| rejection(schema, (None, sequence), table.names.shown(), no.0))?;
        let reason = match alter::plan(&table.layout, &mut next, None) {
            Ok(Plan::Same) => {
                table.note.schema = Arc::clone(schema);
                self.dirty.insert(name);
                return Ok(());
            }
            Ok(_) => "its structure changed, and the statement was not delivered".to_owned(),
            Err(no) => no.0,
        };
        let reason = format!(
            "{reason}; fix: headwater heal CONFIG {name} --resnapshot copies it in its new structure"
        );
        Err(rejection(
            schema,
            (None, sequence),
            table.names.shown(),
            reason,
        ))
    }

    fn create(
        &mut self,
        client: &Client,
        tables: &mut Tables,
        schema: &Arc<TableSchema>,
        (sequence, is_copied): (u64, bool),
    ) -> Result<(), SinkError> {
        let name = source_name(schema);
        let names = self.names(schema);
        let reject = |no: NoLayout| rejection(schema, (None, sequence), names.shown(), no.0);
        if let Some(other) = tables.values().find(|table| table.names == names) {
            return Err(reject(NoLayout(format!(
                "its name in the target is that of {}: set `database` or `table` with {{database}}",
                other.source
            ))));
        }
        let mut layout = self.layout(schema).map_err(reject)?;
        let database = format!("CREATE DATABASE IF NOT EXISTS {}", quote(&names.database));
        client.run("create the database", &database)?;
        self.check_database(client, schema, &names, sequence)?;
        let base = names.base();
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
        self.check_engine(client, schema, &names, sequence)?;
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
    fn check_database(
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
            other => Err(rejection(
                schema,
                (None, sequence),
                names.shown(),
                format!(
                    "the database {} has the engine {other}, and the sink is tested with Atomic alone; \
                     fix: CREATE DATABASE … ENGINE = Atomic, and name it in `database`",
                    quote(&names.database)
                ),
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
        let sql = format!(
            "SELECT engine FROM system.tables WHERE database = {} AND name = {}",
            literal(&names.database),
            literal(&names.base_name())
        );
        let engine = client.cell("look at the table", &sql)?.unwrap_or_default();
        let wanted = match (self.config.mode, self.config.engine) {
            (Mode::Mvcc, _) => "MergeTree",
            (_, Engine::Replacing) => "ReplacingMergeTree",
            (_, Engine::VersionedCollapsing) => "VersionedCollapsingMergeTree",
        };
        if engine == wanted {
            return Ok(());
        }
        Err(rejection(
            schema,
            (None, sequence),
            names.shown(),
            format!(
                "the table {} is there already with the engine {engine}, not {wanted} (Replicated and \
                 Distributed tables are refused until they are tested); fix: RENAME TABLE {} TO another \
                 name, and the sink makes its own",
                names.shown(),
                names.base()
            ),
        ))
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
        Err(rejection(
            schema,
            (None, sequence),
            names.shown(),
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

    /// DROP TABLE in the source.
    pub(crate) fn drop_table(
        &mut self,
        hands: Hands<'_>,
        tables: &mut Tables,
        name: &str,
    ) -> Result<(), SinkError> {
        match self.config.ddl.drop {
            OnDrop::Follow => self.remove(hands, tables, name),
            OnDrop::Keep => self.forget(hands.0, tables, name),
        }
    }

    fn remove(
        &mut self,
        (client, _): Hands<'_>,
        tables: &mut Tables,
        name: &str,
    ) -> Result<(), SinkError> {
        let Some(table) = tables.get(name) else {
            return Ok(());
        };
        wait_for_fold(table)?;
        let names = &table.names;
        client.run(
            "drop the view",
            &format!("DROP VIEW IF EXISTS {}", names.view()),
        )?;
        for part in [
            names.base(),
            names.delta(),
            names.staging(),
            names.next(),
            names.next_second(),
            names.delta_next(),
        ] {
            client.drop_table("drop the table", &part)?;
        }
        self.forget(client, tables, name)
    }

    fn forget(
        &mut self,
        client: &Client,
        tables: &mut Tables,
        name: &str,
    ) -> Result<(), SinkError> {
        let Some(mut table) = tables.remove(name) else {
            return Ok(());
        };
        table.note.is_gone = true;
        self.dirty.remove(name);
        self.folded.insert(name.to_owned(), table.epoch);
        lock(&table.fold).folded = table.epoch;
        self.put_note(client, &table)
    }

    /// DROP DATABASE in the source.
    pub(crate) fn database(
        &mut self,
        hands: Hands<'_>,
        tables: &mut Tables,
        ddl: &Ddl<'_>,
    ) -> Result<(), SinkError> {
        let mut words = ddl.sql.split_whitespace();
        if !words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("drop"))
        {
            return Ok(());
        }
        let prefix = format!("{}.", ddl.database);
        let names: Vec<String> = tables
            .keys()
            .filter(|name| name.starts_with(&prefix))
            .cloned()
            .collect();
        names
            .iter()
            .try_for_each(|name| self.drop_table(hands, tables, name))
    }

    /// TRUNCATE TABLE in the source: empty tables of the same structure take the place of the full ones.
    pub(crate) fn truncate(
        &mut self,
        hands: Hands<'_>,
        tables: &mut Tables,
        name: &str,
    ) -> Result<(), SinkError> {
        let Some(table) = tables.get_mut(name) else {
            return Ok(());
        };
        if self.config.ddl.truncate == OnDrop::Keep {
            return Ok(());
        }
        wait_for_fold(table)?;
        let client = hands.0;
        let layout = Arc::clone(&table.layout);
        let staging = table.names.next();
        client.drop_table("truncate", &staging)?;
        client.run("truncate", &layout.create_base(&staging))?;
        self.change_places(client, table, &layout)?;
        self.put_note(client, table)
    }

    /// RENAME TABLE in the source.
    pub(crate) fn rename(
        &mut self,
        (client, folder): Hands<'_>,
        tables: &mut Tables,
        (from, to): (&str, &str),
    ) -> Result<(), SinkError> {
        let Some((database, table_name)) = to.split_once('.') else {
            return Ok(());
        };
        if !tables.contains_key(from) {
            return Ok(());
        }
        let mut schema = TableSchema::clone(&tables[from].note.schema);
        database.clone_into(&mut schema.database);
        table_name.clone_into(&mut schema.name);
        self.remove((client, folder), tables, to)?;
        let Some(mut table) = tables.remove(from) else {
            return Ok(());
        };
        wait_for_fold(&table)?;
        let (old, new) = (table.names.clone(), self.names(&schema));
        let create = format!("CREATE DATABASE IF NOT EXISTS {}", quote(&new.database));
        client.run("create the database", &create)?;
        client.run(
            "drop the view",
            &format!("DROP VIEW IF EXISTS {}", old.view()),
        )?;
        for (part, renamed, name) in [
            (old.base(), new.base(), old.base_name()),
            (old.delta(), new.delta(), old.delta_name()),
        ] {
            if self.exists(client, &old.database, &name)? {
                client.run(
                    "rename the table",
                    &format!("RENAME TABLE {part} TO {renamed}"),
                )?;
            }
        }
        let (folded, epoch) = (lock(&table.fold).folded, table.epoch);
        let layout = Arc::clone(&table.layout);
        let parts = (&*new.base(), &*new.delta());
        self.put_view(client, (&layout, &new), parts, folded)?;
        let mut gone = table.note.clone();
        gone.is_gone = true;
        table.note.schema = Arc::new(schema);
        to.clone_into(&mut table.source);
        table.names = new;
        self.folded.insert(from.to_owned(), epoch);
        self.folded.insert(to.to_owned(), folded);
        self.state.put(
            client,
            None,
            &[(from, &gone), (to, &table.note)],
            &[(from, epoch), (to, folded)],
        )?;
        self.dirty.remove(from);
        tables.insert(to.to_owned(), table);
        Ok(())
    }

    /// A statement that changes a table's structure.
    pub(crate) fn follow(
        &mut self,
        (client, folder): Hands<'_>,
        tables: &mut Tables,
        schema: &Arc<TableSchema>,
        change: &DdlChange<'_>,
    ) -> Result<(), SinkError> {
        let name = source_name(schema);
        let Some(table) = tables.get_mut(&name) else {
            return Ok(());
        };
        let has_writers = !table.layout.writers.is_empty();
        if has_writers && same_shape(&table.note.schema, schema) {
            table.note.schema = Arc::clone(schema);
            self.dirty.insert(name);
            return Ok(());
        }
        let sequence = change.sequence;
        let shown = table.names.shown();
        let statement: String = change.ddl.sql.chars().take(300).collect();
        let park = |no: NoLayout| {
            let reason = format!(
                "the statement `{statement}` cannot be followed: {}; fix: headwater heal CONFIG {name} \
                 --resnapshot copies the table in its new structure",
                no.0
            );
            rejection(schema, (None, sequence), shown.clone(), reason)
        };
        let mut next = self.layout(schema).map_err(park)?;
        let described = self.described(client, &table.names.base())?;
        if !has_writers {
            // A former life came as far as the new base.
            next.describe(&described, self.range).map_err(park)?;
            let next = Arc::new(next);
            return self.adopt(client, table, next, schema);
        }
        let plan = alter::plan(
            &table.layout,
            &mut next,
            Some((change.ddl.sql, change.ddl.sql_mode)),
        )
        .map_err(park)?;
        match &plan {
            Plan::Same => {
                next.describe(&described, self.range).map_err(park)?;
                table.layout = Arc::new(next);
                table.note.schema = Arc::clone(schema);
                self.dirty.insert(name);
                return Ok(());
            }
            Plan::Alter(_) | Plan::Rebuild(_) => settle(folder, table)?,
        }
        let staging = table.names.next();
        client.drop_table("follow a statement", &staging)?;
        match self.make_next(client, table, &next, &plan) {
            Err(error) if is_for_good(&error) => return Err(park(NoLayout(error.detail))),
            made => made?,
        }
        crash_point("ddl-staging");
        let described = self.described(client, &staging)?;
        next.describe(&described, self.range).map_err(park)?;
        let next = Arc::new(next);
        self.change_places(client, table, &next)?;
        self.adopt(client, table, next, schema)
    }

    /// The next base, beside the present one.
    fn make_next(
        &self,
        client: &Client,
        table: &Table,
        next: &TableLayout,
        plan: &Plan,
    ) -> Result<(), SinkError> {
        let (base, staging) = (table.names.base(), table.names.next());
        match plan {
            Plan::Same => Ok(()),
            Plan::Alter(commands) => {
                client.run(
                    "follow a statement",
                    &format!("CREATE TABLE {staging} CLONE AS {base}"),
                )?;
                client.run_with(
                    "follow a statement",
                    &format!("ALTER TABLE {staging} {}", commands.join(", ")),
                    &WHOLE,
                )
            }
            Plan::Rebuild(sources) => {
                client.run("follow a statement", &next.create_base(&staging))?;
                let of = |(index, (_, from)): (usize, &(String, Option<String>))| {
                    let column = &next.columns[index];
                    match (from, &column.default) {
                        (Some(from), _) => from.clone(),
                        (None, Some(default)) => default.clone(),
                        (None, None) => {
                            format!("defaultValueOfTypeName({})", literal(&column.type_text))
                        }
                    }
                };
                let mut from: Vec<String> = sources.iter().enumerate().map(of).collect();
                let insert = next.base_insert();
                from.extend(
                    insert[next.columns.len()..]
                        .iter()
                        .map(|(name, _)| quote(name)),
                );
                let last = if self.is_mvcc() { "" } else { " FINAL" };
                client.run_with(
                    "follow a statement",
                    &format!(
                        "INSERT INTO {staging} ({}) SELECT {} FROM {base}{last}",
                        list(insert.iter().map(|(name, _)| name)),
                        from.join(", ")
                    ),
                    &[("insert_allow_materialized_columns", "1")],
                )
            }
        }
    }

    /// The table beside the base becomes the base, with an empty delta; `t` shows it in one step.
    fn change_places(
        &self,
        client: &Client,
        table: &mut Table,
        next: &Arc<TableLayout>,
    ) -> Result<(), SinkError> {
        let names = table.names.clone();
        let (base, staging, second) = (names.base(), names.next(), names.next_second());
        let (delta, delta_next) = (names.delta(), names.delta_next());
        let folded = lock(&table.fold).folded;
        let grace = Duration::from_millis(self.config.fold.grace_ms);
        if self.is_mvcc() {
            renew_delta(client, "follow a statement", next, &delta_next)?;
        }
        self.put_view(client, (next, &names), (&staging, &delta_next), folded)?;
        crash_point("ddl-view");
        // Who has read the former view's text comes to the former base.
        std::thread::sleep(grace);
        client.drop_table("follow a statement", &second)?;
        client.run(
            "follow a statement",
            &format!("CREATE TABLE {second} CLONE AS {staging}"),
        )?;
        client.run(
            "follow a statement",
            &format!("EXCHANGE TABLES {base} AND {second}"),
        )?;
        crash_point("ddl-exchange");
        if self.is_mvcc() {
            // The former one is folded, and nobody reads it any more.
            renew_delta(client, "follow a statement", next, &delta)?;
        }
        self.put_view(client, (next, &names), (&base, &delta), folded)?;
        crash_point("ddl-view-back");
        std::thread::sleep(grace);
        for left in [staging, second, delta_next] {
            client.drop_table("clean up", &left)?;
        }
        table.pending.clear();
        Ok(())
    }

    /// The base has the new structure: so do the delta, the view and the note.
    fn adopt(
        &mut self,
        client: &Client,
        table: &mut Table,
        next: Arc<TableLayout>,
        schema: &Arc<TableSchema>,
    ) -> Result<(), SinkError> {
        let names = table.names.clone();
        let folded = lock(&table.fold).folded;
        if self.is_mvcc() {
            let delta = names.delta();
            let fits = match self.described(client, &delta) {
                Ok(rows) => next
                    .delta_insert()
                    .iter()
                    .all(|(name, kind)| rows.iter().any(|row| row[0] == *name && row[1] == *kind)),
                Err(_) => false,
            };
            if !fits {
                // Everything in it is folded: a statement waits for that.
                renew_delta(client, "follow a statement", &next, &delta)?;
            }
        }
        let parts = (&*names.base(), &*names.delta());
        self.put_view(client, (&next, &names), parts, folded)?;
        table.layout = next;
        table.note.schema = Arc::clone(schema);
        self.put_note(client, table)
    }

    /// A copy of the table begins.
    pub(crate) fn begin_copy(
        &mut self,
        client: &Client,
        tables: &mut Tables,
        schema: &Arc<TableSchema>,
        sequence: u64,
    ) -> Result<(), SinkError> {
        let name = source_name(schema);
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
        if !table.note.is_loading {
            table.note.copy_from = sequence;
            self.dirty.insert(name);
        }
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
                format!(
                    "INSERT INTO {delta} ({}) SELECT {source}, {sequence}, {sequence}, {version}, now64(3), \
                     {} FROM (SELECT {source}, {version}, d FROM (SELECT {source}, {version}, toUInt64(0) AS \
                     d FROM {base} UNION ALL SELECT {source}, {version}, {} AS d FROM {delta}) ORDER BY \
                     {keys}, {version} DESC LIMIT 1 BY {keys}) WHERE d = 0 AND {version} < {from}",
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

/// Waits until the folding thread has nothing of the table in hand.
fn wait_for_fold(table: &Table) -> Result<(), SinkError> {
    let since = Instant::now();
    while lock(&table.fold).is_running {
        if since.elapsed() > Duration::from_secs(600) {
            let detail = "a fold does not end";
            return Err(
                SinkError::new(ErrorKind::Unavailable, "follow a statement", detail)
                    .at(table.names.shown()),
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Folds all that is pending.
fn settle(folder: Option<&Folder>, table: &mut Table) -> Result<(), SinkError> {
    let Some(folder) = folder else { return Ok(()) };
    if table.rows.count > 0 {
        let detail = "a statement came before what was written before it was flushed";
        return Err(SinkError::new(
            ErrorKind::Internal,
            "follow a statement",
            detail,
        ));
    }
    wait_for_fold(table)?;
    let folded = lock(&table.fold).folded;
    table.pending.retain(|pending| pending.epoch > folded);
    if table.pending.is_empty() {
        return Ok(());
    }
    let epoch = table.epoch;
    folder.give(Job {
        source: table.source.clone(),
        names: table.names.clone(),
        layout: Arc::clone(&table.layout),
        epoch,
        covered_at: Instant::now(),
        standing: Arc::clone(&table.fold),
        base_lock: Arc::clone(&table.base_lock),
    });
    table.epoch += 1;
    wait_for_fold(table)?;
    let standing = lock(&table.fold);
    if standing.folded < epoch {
        return Err(SinkError::new(
            ErrorKind::Unavailable,
            "fold before a statement",
            standing.trouble.clone(),
        )
        .at(table.names.shown()));
    }
    drop(standing);
    table.pending.clear();
    Ok(())
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
    Err(rejection(
        schema,
        (None, sequence),
        names.shown(),
        format!("{}: {}", error.operation, error.detail),
    ))
}

fn is_for_good(error: &SinkError) -> bool {
    const WORDS: [&str; 12] = [
        "ILLEGAL_COLUMN",
        "BAD_ARGUMENTS",
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
