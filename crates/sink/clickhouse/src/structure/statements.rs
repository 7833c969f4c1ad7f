//! Statements of the source: a table is dropped, emptied, renamed, or becomes another.

use super::create::{in_the_way_of_view, refuse_found, wrong_engine};
use super::{Hands, Structure, Tables, renew_delta, resnapshot, same_shape, source_name};
use crate::added_column::OldRows;
use crate::alter::{self, Plan};
use crate::client::Client;
use crate::config::OnDrop;
use crate::error::{is_for_good, is_missing};
use crate::fold::{Folder, Job, crash_point, lock};
use crate::layout::{NoLayout, TableLayout};
use crate::names::{Names, list, literal, quote};
use crate::sink::rejection;
use crate::statement::{self, Unseen};
use crate::table::Table;
use change::contract::ErrorKind;
use change::event::DdlChange;
use change::{Ddl, DdlKind, SinkError, TableSchema};
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
            return self.remove_left_out(client, name);
        };
        wait_for_fold(table)?;
        self.drop_parts(client, &table.names)?;
        self.forget(client, tables, name)
    }

    /// Drops the view, the base and all beside it.
    fn drop_parts(&self, client: &Client, names: &Names) -> Result<(), SinkError> {
        client.run(
            "drop the view",
            &format!("DROP VIEW IF EXISTS {}", names.view()),
        )?;
        client.drop_table("drop the table", &names.base())?;
        names
            .beside()
            .iter()
            .try_for_each(|(_, part)| client.drop_table("drop the table", &names.quoted(part)))
    }

    /// A table that could not be taken up goes: its parts too, unless they are somebody else's.
    fn remove_left_out(&mut self, client: &Client, name: &str) -> Result<(), SinkError> {
        let Some(out) = self.left_out.remove(name) else {
            return Ok(());
        };
        let names = self.names(&out.note.schema);
        let added = crate::layout::Added::new(&self.config.column_prefix);
        let is_ours = wrong_engine(client, &self.config, &names)?.is_none()
            && in_the_way_of_view(client, &names)?.is_none()
            && super::in_the_way_beside(client, &added, &names)?.is_none()
            && self
                .described(client, &names.base())
                .is_ok_and(|rows| rows.iter().any(|row| row[0] == added.version));
        if is_ours {
            self.drop_parts(client, &names)?;
        }
        self.forget_left_out(client, name, out.note)
    }

    fn forget_left_out(
        &self,
        client: &Client,
        name: &str,
        mut note: crate::state::TableNote,
    ) -> Result<(), SinkError> {
        note.is_gone = true;
        self.state.put(client, None, &[(name, &note)], &[])
    }

    fn forget(
        &mut self,
        client: &Client,
        tables: &mut Tables,
        name: &str,
    ) -> Result<(), SinkError> {
        if let Some(out) = self.left_out.remove(name) {
            return self.forget_left_out(client, name, out.note);
        }
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
            .chain(self.left_out.keys())
            .filter(|name| name.starts_with(&prefix))
            .cloned()
            .collect();
        names
            .iter()
            .try_for_each(|name| self.drop_table(hands, tables, name))
    }

    /// TRUNCATE TABLE in the source: empty tables of the same structure take the place of the full ones.
    ///
    /// Shape: `schema` is the source's, where it is known. A table that was set aside for another structure
    /// is with no rows left simply made anew.
    pub(crate) fn truncate(
        &mut self,
        hands: Hands<'_>,
        tables: &mut Tables,
        (name, schema): (&str, Option<&Arc<TableSchema>>),
        sequence: u64,
    ) -> Result<(), SinkError> {
        if self.config.ddl.truncate == OnDrop::Keep {
            return Ok(());
        }
        let client = hands.0;
        if let Some(out) = self.left_out.get_mut(name) {
            out.note.stale = format!("it was emptied while it was left out; {}", resnapshot(name));
            return self.state.put(client, None, &[(name, &out.note)], &[]);
        }
        let Some(table) = tables.get_mut(name) else {
            return Ok(());
        };
        wait_for_fold(table)?;
        let is_behind = table.layout.writers.is_empty()
            || schema.is_some_and(|schema| !same_shape(&table.note.schema, schema));
        if let Some(schema) = schema
            && is_behind
        {
            self.remove(hands, tables, name)?;
            return match self.create(client, tables, schema, (sequence, false)) {
                // What was set aside before has ended; the first row is refused for this.
                Err(error) if error.rejection.is_some() => Ok(()),
                made => made,
            };
        }
        let layout = Arc::clone(&table.layout);
        let staging = table.names.next();
        client.drop_table("truncate", &staging)?;
        client.run("truncate", &layout.create_base(&staging))?;
        self.change_places(client, table, &layout)?;
        table.note.stale.clear();
        self.put_note(client, table)
    }

    /// An ALTER that changes rows of which no row event tells: the table waits for a new copy, and so does
    /// the one that it exchanges them with.
    pub(crate) fn refuse_unseen(
        &mut self,
        client: &Client,
        tables: &mut Tables,
        change: &DdlChange<'_>,
    ) -> Result<(), SinkError> {
        let ddl = &change.ddl;
        let emptied_is_kept = self.config.ddl.truncate == OnDrop::Keep;
        match statement::unseen(ddl.sql) {
            None => return Ok(()),
            // Whoever keeps rows at TRUNCATE keeps them here.
            Some(Unseen::Emptied) if emptied_is_kept => return Ok(()),
            Some(_) => {}
        }
        let statement = shown(ddl.sql);
        let reason = |name: &str| {
            format!(
                "the statement `{statement}` takes rows away, or brings some, of which the log has no \
                 changes; {}",
                resnapshot(name)
            )
        };
        if let Some((database, table)) = statement::exchanged(ddl.sql) {
            let other = format!("{}.{table}", database.as_deref().unwrap_or(ddl.database));
            self.set_stale(client, tables, &other, &reason(&other))?;
        }
        let name = format!("{}.{}", ddl.database, ddl.table);
        let Some(table) = tables.get(&name) else {
            return self.set_stale(client, tables, &name, &reason(&name));
        };
        let (schema, target) = (Arc::clone(&table.note.schema), table.names.shown());
        self.set_stale(client, tables, &name, &reason(&name))?;
        Err(rejection(
            &schema,
            (None, change.sequence),
            target,
            reason(&name),
        ))
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
        if let Some(mut out) = self.left_out.remove(from) {
            self.forget_left_out(client, from, out.note.clone())?;
            self.remove((client, folder), tables, to)?;
            let mut schema = TableSchema::clone(&out.note.schema);
            database.clone_into(&mut schema.database);
            table_name.clone_into(&mut schema.name);
            out.note.schema = Arc::new(schema);
            out.note.stale = format!("it was renamed while it was left out; {}", resnapshot(to));
            self.state.put(client, None, &[(to, &out.note)], &[])?;
            self.left_out.insert(to.to_owned(), out);
            return Ok(());
        }
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
        refuse_found((&schema, sequence), &new, in_the_way_of_view(client, &new)?)?;
        let old = tables[from].names.clone();
        self.check_free(
            client,
            (&schema, sequence),
            (&old, &new),
            &tables[from].layout,
        )?;
        let Some(mut table) = tables.remove(from) else {
            return Ok(());
        };
        wait_for_fold(&table)?;
        client.run(
            "drop the view",
            &format!("DROP VIEW IF EXISTS {}", old.view()),
        )?;
        let mut parts = vec![(old.base(), new.base(), old.base_name())];
        if self.is_mvcc() {
            parts.push((old.delta(), new.delta(), old.delta_name()));
        }
        for (part, renamed, name) in parts {
            if self.exists(client, &old.database, &name)? {
                if renamed == new.delta() {
                    // One that is there is left of a former table of the sink's.
                    client.drop_table("rename the table", &renamed)?;
                }
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

    /// Where a renamed table's base and what goes beside it go, nothing of somebody else's may be.
    fn check_free(
        &self,
        client: &Client,
        (schema, sequence): (&TableSchema, u64),
        (old, new): (&Names, &Names),
        layout: &TableLayout,
    ) -> Result<(), SinkError> {
        let found = super::in_the_way_beside(client, layout.added(), new)?;
        refuse_found((schema, sequence), new, found)?;
        let is_taken = self.exists(client, &new.database, &new.base_name())?
            && self.exists(client, &old.database, &old.base_name())?;
        if !is_taken {
            return Ok(());
        }
        let reason = format!(
            "{} is there already, and the renamed table goes there: it is left as it is; fix: RENAME TABLE it \
             TO another name, then {}",
            new.base(),
            resnapshot(&source_name(schema))
        );
        Err(rejection(schema, (None, sequence), new.shown(), reason))
    }

    /// A statement that changes a table's structure.
    ///
    /// Errors: a rejection for what cannot be followed; the table's note says so from then on, since
    /// rows that fit the new structure would be taken else.
    pub(crate) fn follow(
        &mut self,
        hands: Hands<'_>,
        tables: &mut Tables,
        schema: &Arc<TableSchema>,
        change: &DdlChange<'_>,
    ) -> Result<(), SinkError> {
        let name = source_name(schema);
        if self.left_out.contains_key(&name) && change.ddl.kind == DdlKind::AlterTable {
            let reason = format!(
                "it was altered while it was left out; {}",
                resnapshot(&name)
            );
            return self.set_stale(hands.0, tables, &name, &reason);
        }
        let followed = self.follow_or_refuse(hands, tables, schema, change);
        if let Err(error) = &followed
            && let Some(rejection) = &error.rejection
        {
            self.set_stale(hands.0, tables, &name, &rejection.reason)?;
        }
        followed
    }

    fn follow_or_refuse(
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
        let sequence = change.sequence;
        let shown_name = table.names.shown();
        if !table.note.stale.is_empty() {
            let reason = table.note.stale.clone();
            return Err(rejection(schema, (None, sequence), shown_name, reason));
        }
        let has_writers = !table.layout.writers.is_empty();
        let statement = shown(change.ddl.sql);
        let park = |no: NoLayout| {
            let reason = format!(
                "the statement `{statement}` cannot be followed: {}; fix: headwater heal CONFIG {name} \
                 --resnapshot copies the table in its new structure",
                no.0
            );
            rejection(schema, (None, sequence), shown_name.clone(), reason)
        };
        let mut next = self.layout(schema).map_err(park)?;
        let described = match self.described(client, &table.names.base()) {
            Err(error) if is_missing(&error) => {
                let reason = format!("the target has no table {}", table.names.base());
                return Err(park(NoLayout(reason)));
            }
            described => described?,
        };
        if !has_writers {
            // A former life came as far as the new base.
            next.describe(&described, self.range).map_err(park)?;
            let next = Arc::new(next);
            return self.adopt(client, table, next, schema);
        }
        let statement = (change.ddl.sql, change.ddl.sql_mode);
        let plan = match alter::plan(&table.layout, &mut next, Some(statement)) {
            Ok(plan) => plan,
            // Without rows there is nothing that only the source knows.
            Err(_) if self.is_empty(client, table)? => {
                let (is_loading, copy_from) = (table.note.is_loading, table.note.copy_from);
                self.remove((client, folder), tables, &name)?;
                self.create(client, tables, schema, (sequence, is_loading))?;
                if let Some(table) = tables.get_mut(&name) {
                    table.note.copy_from = copy_from;
                    self.dirty.insert(name);
                }
                return Ok(());
            }
            Err(no) => return Err(park(no)),
        };
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
            Err(error) if is_for_good(&error) => {
                client.drop_table("follow a statement", &staging)?;
                return Err(park(NoLayout(error.detail)));
            }
            made => made?,
        }
        crash_point("ddl-staging");
        let described = self.described(client, &staging)?;
        next.describe(&described, self.range).map_err(park)?;
        let next = Arc::new(next);
        self.change_places(client, table, &next)?;
        self.adopt(client, table, next, schema)
    }

    /// Whether the target's table has no rows, and nothing waits to become one.
    fn is_empty(&self, client: &Client, table: &Table) -> Result<bool, SinkError> {
        let count =
            |name: String| client.number("count rows", &format!("SELECT count() FROM {name}"));
        let folded = lock(&table.fold).folded;
        let waits = table.pending.iter().any(|pending| pending.epoch > folded);
        Ok(!waits && count(table.names.base())? == 0)
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
            Plan::Alter(steps) => {
                client.run(
                    "follow a statement",
                    &format!("CREATE TABLE {staging} CLONE AS {base}"),
                )?;
                steps.iter().try_for_each(|step| {
                    client.run_with(
                        "follow a statement",
                        &format!("ALTER TABLE {staging} {step}"),
                        &WHOLE,
                    )
                })
            }
            Plan::Rebuild(sources) => {
                client.run("follow a statement", &next.create_base(&staging))?;
                let of = |(index, (_, from)): (usize, &(String, Option<String>))| {
                    let column = &next.columns[index];
                    match (from, &column.old_rows) {
                        (Some(from), _) => from.clone(),
                        (None, OldRows::Constant(value)) => value.clone(),
                        (None, OldRows::Same | OldRows::Unknown(_)) => {
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

/// A statement's beginning, for people.
fn shown(sql: &str) -> String {
    sql.chars().take(300).collect()
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
