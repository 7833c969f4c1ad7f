//! Statements of the source: a table is dropped, emptied, renamed, or becomes another.

use super::create::is_for_good;
use super::{Hands, Structure, Tables, renew_delta, same_shape, source_name};
use crate::alter::{self, Plan};
use crate::client::Client;
use crate::config::OnDrop;
use crate::fold::{Folder, Job, crash_point, lock};
use crate::layout::{NoLayout, TableLayout};
use crate::names::{list, literal, quote};
use crate::sink::rejection;
use crate::table::Table;
use change::contract::ErrorKind;
use change::event::DdlChange;
use change::{Ddl, SinkError, TableSchema};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Mutations of a clone are waited for.
const WHOLE: [(&str, &str); 2] = [("alter_sync", "2"), ("mutations_sync", "2")];

impl Structure {
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

    pub(super) fn remove(
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
        if !starts_with_drop(ddl.sql) {
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

    /// Whether the target's table has another structure than the source's.
    pub(crate) fn is_behind(&self, tables: &Tables, schema: &TableSchema) -> bool {
        self.config.ddl.truncate == OnDrop::Follow
            && tables
                .get(&source_name(schema))
                .is_some_and(|table| !same_shape(&table.note.schema, schema))
    }

    /// RENAME TABLE in the source.
    pub(crate) fn rename(
        &mut self,
        (client, folder): Hands<'_>,
        tables: &mut Tables,
        (from, to): (&str, &str),
        sequence: u64,
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
        let new = self.names(&schema);
        client.ensure_database("create the database", &new.database)?;
        self.check_database(client, &schema, &new, sequence)?;
        self.check_view(client, &schema, &new, sequence)?;
        let Some(mut table) = tables.remove(from) else {
            return Ok(());
        };
        wait_for_fold(&table)?;
        let old = table.names.clone();
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
}

/// Whether a statement on a database is DROP DATABASE.
pub(crate) fn starts_with_drop(sql: &str) -> bool {
    let first = sql.split_whitespace().next();
    first.is_some_and(|word| word.eq_ignore_ascii_case("drop"))
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
