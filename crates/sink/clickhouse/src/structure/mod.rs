//! The tables and views of the target: made, found again after a restart, changed as the source's are.
//!
//! A change of structure is made on clones beside the table. The view then changes to the clones in one
//! step, the base changes places with a clone in one step, and the view comes back to the base: a reader
//! sees the old structure or the new one, each whole. What is left after a crash is made again, because
//! the statement is delivered again and the note of the table still has the old structure.

mod copy;
mod create;
mod restore;
mod statements;

use crate::alter::{self, Plan};
use crate::client::Client;
use crate::config::{ClickHouseConfig, Mode};
use crate::encode::DateRange;
use crate::error::is_for_good;
use crate::fold::{Folder, lock};
use crate::layout::{NoLayout, TableLayout};
use crate::names::{Names, literal};
use crate::server::Version;
use crate::sink::rejection;
use crate::state::{State, TableNote};
use crate::table::Table;
use change::{SinkError, TableSchema};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use create::{in_the_way_beside, in_the_way_of_view, wrong_engine};
pub(crate) use statements::starts_with_drop;

/// Tables by the source's name.
pub(crate) type Tables = BTreeMap<String, Table>;
/// The connection, and the folding thread where there is one.
pub(crate) type Hands<'a> = (&'a Client, Option<&'a Folder>);

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
    /// Tables that the notes know and that could not be taken up: their rows are refused.
    left_out: BTreeMap<String, LeftOut>,
}

/// A table that could not be taken up after a start.
#[derive(Debug)]
pub(crate) struct LeftOut {
    pub note: TableNote,
    /// Why, and what helps.
    pub reason: String,
}

fn source_name(schema: &TableSchema) -> String {
    format!("{}.{}", schema.database, schema.name)
}

/// The whole table is set aside.
fn table_rejection(
    schema: &TableSchema,
    sequence: u64,
    names: &Names,
    reason: String,
) -> SinkError {
    rejection(schema, (None, sequence), names.shown(), reason)
}

/// What a server refuses for good sets the table aside, so that the others go on; other errors stay what
/// they are.
pub(crate) fn aside_if_for_good<T>(
    done: Result<T, SinkError>,
    schema: &TableSchema,
    sequence: u64,
    target: String,
) -> Result<T, SinkError> {
    match done {
        Err(error) if error.rejection.is_none() && is_for_good(&error) => Err(rejection(
            schema,
            (None, sequence),
            target,
            format!("{}: {}", error.operation, error.detail),
        )),
        other => other,
    }
}

/// The end of a reason: what makes the table right.
fn resnapshot(name: &str) -> String {
    format!("fix: headwater heal CONFIG {name} --resnapshot copies it again")
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
            left_out: BTreeMap::new(),
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

    /// Leaves a table out: its rows are refused with this reason.
    pub(crate) fn leave_out(&mut self, name: String, note: TableNote, reason: String) {
        tracing::error!(table = name, "left out: {reason}");
        self.left_out.insert(name, LeftOut { note, reason });
    }

    /// Tables that were left out, and why.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (&String, &LeftOut)> {
        self.left_out.iter()
    }

    /// The table's rows are not the source's any more: that stays known until it is copied again, also if
    /// what was held back of it is delivered before.
    fn set_stale(
        &mut self,
        client: &Client,
        tables: &mut Tables,
        name: &str,
        reason: &str,
    ) -> Result<(), SinkError> {
        match tables.get_mut(name) {
            Some(table) => {
                reason.clone_into(&mut table.note.stale);
                self.put_note(client, table)
            }
            None => match self.left_out.get_mut(name) {
                Some(out) => {
                    reason.clone_into(&mut out.note.stale);
                    self.state.put(client, None, &[(name, &out.note)], &[])
                }
                None => Ok(()),
            },
        }
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
        if let Some(out) = self.left_out.get(&name) {
            let names = self.names(schema);
            return Err(table_rejection(
                schema,
                sequence,
                &names,
                out.reason.clone(),
            ));
        }
        let Some(table) = tables.get_mut(&name) else {
            return self.create(client, tables, schema, (sequence, false));
        };
        let refuse =
            |names: &Names, reason: String| table_rejection(schema, sequence, names, reason);
        if !table.note.stale.is_empty() {
            return Err(refuse(&table.names, table.note.stale.clone()));
        }
        if table.layout.writers.is_empty() {
            let reason = format!(
                "the target's table {} is not there, or is not as the sink made it (was it dropped or \
                 altered, or was mode, plain_name, database or table changed?); {}",
                table.names.base(),
                resnapshot(&name)
            );
            return Err(refuse(&table.names, reason));
        }
        if same_shape(&table.note.schema, schema) {
            return Ok(());
        }
        let mut next = self
            .layout(schema)
            .map_err(|no| refuse(&table.names, no.0))?;
        let reason = match alter::plan(&table.layout, &mut next, None) {
            Ok(Plan::Same) => {
                let described = self.described(client, &table.names.base())?;
                next.describe(&described, self.range)
                    .map_err(|no| refuse(&table.names, no.0))?;
                table.layout = Arc::new(next);
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
        Err(refuse(&table.names, reason))
    }
}
