//! The tables of the log: from a table map's number to the plan of its rows.
//!
//! A plan is compiled once and used for as long as the table map's bytes stay equal.

use super::columns::{ColumnRules, emitted_schema};
use super::selection::Selection;
use crate::binlog::bytes::Decoded;
use crate::binlog::cell::CellKind;
use crate::binlog::plan::{
    ColumnPlan, KEY_COLUMNS_MAX, TablePlan, Treatment, column_kinds, schema_of_map,
};
use crate::binlog::table_map::{self, TableMap};
use change::TableSchema;
use source_mysql_ddl::Catalog;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What is to be done with the rows of one table number.
#[derive(Debug, Clone)]
pub enum Route {
    /// Not captured.
    Skip,
    /// Decoded by this plan.
    Decode(Arc<TablePlan>),
    /// Captured, but not decodable: journaled as it is.
    Opaque(Arc<Aside>),
}

/// A captured table that cannot be decoded.
#[derive(Debug)]
pub struct Aside {
    /// Database.
    pub database: String,
    /// Table.
    pub name: String,
    /// Its schema as far as known.
    pub schema: Option<Arc<TableSchema>>,
    /// Why.
    pub reason: String,
}

/// One table number of the log.
#[derive(Debug)]
pub struct Slot {
    id: u64,
    /// The table map's body.
    pub map: Vec<u8>,
    /// What to do with its rows.
    pub route: Route,
    /// Whether its schema is known to be in the journal.
    pub announced: bool,
    map_is_stale: bool,
}

/// Asks the server (where there is one) what a table looks like now.
pub trait Oracle: Send {
    /// The text of SHOW CREATE TABLE; none when the table is not there or there is no server.
    fn show_create(&mut self, database: &str, table: &str) -> Option<String>;
}

/// Table numbers in use; a server gives out new ones, so old ones are forgotten at this many.
const SLOTS_MAX: usize = 4096;

/// See the module's page.
#[derive(Debug, Default)]
pub struct Tables {
    slots: Vec<Slot>,
    by_id: HashMap<u64, usize>,
    last: usize,
    /// Schema versions that the journal holds.
    pub announced: HashSet<(u32, u32)>,
    /// By database and table: its number and last announced version, also of tables that are gone.
    pub last_versions: HashMap<(String, String), (u32, u32)>,
}

/// What resolving a table map needs.
pub struct Resolver<'a> {
    /// Which tables are captured.
    pub selection: &'a Selection,
    /// What becomes of columns.
    pub rules: &'a ColumnRules,
    /// The schema history.
    pub catalog: &'a mut Catalog,
    /// The server, where there is one.
    pub oracle: Option<&'a mut (dyn Oracle + 'static)>,
    /// Tables set aside, by `database.table`, with the reason.
    pub parked: &'a HashMap<String, String>,
    /// Whose log it is.
    pub mariadb: bool,
}

impl Tables {
    /// Forgets all numbers (a server restart gives them out anew; DDL makes plans old).
    pub fn forget(&mut self) {
        self.slots.clear();
        self.by_id.clear();
        self.last = 0;
    }

    /// Forgets where the rows of one table (`database.table`) go.
    pub fn forget_routes_of(&mut self, name: &str) {
        for slot in &mut self.slots {
            let matches = match &slot.route {
                Route::Decode(plan) => {
                    format!("{}.{}", plan.schema.database, plan.schema.name) == name
                }
                Route::Opaque(aside) => format!("{}.{}", aside.database, aside.name) == name,
                Route::Skip => false,
            };
            if matches {
                // The next table map differs from no bytes, so it is resolved anew; rows before it
                // go on as they are.
                slot.map_is_stale = true;
            }
        }
    }

    /// The slot of a table number.
    #[inline]
    pub fn slot(&mut self, id: u64) -> Option<&mut Slot> {
        if self.slots.get(self.last).is_none_or(|slot| slot.id != id) {
            self.last = *self.by_id.get(&id)?;
        }
        self.slots.get_mut(self.last)
    }

    /// Takes a table map; where its bytes are those of the one before, nothing happens.
    pub fn map(&mut self, body: &[u8], resolver: Resolver<'_>) -> Decoded<()> {
        let id = table_map::table_id(body)?;
        if self
            .slot(id)
            .is_some_and(|slot| !slot.map_is_stale && slot.map == body)
        {
            return Ok(());
        }
        let route = resolver.resolve(body)?;
        let announced = match &route {
            Route::Decode(plan) => self.announced.contains(&(plan.table.0, plan.version.0)),
            _ => false,
        };
        if self.slots.len() >= SLOTS_MAX {
            self.forget();
        }
        let slot = Slot {
            id,
            map: body.to_vec(),
            route,
            announced,
            map_is_stale: false,
        };
        match self.by_id.get(&id) {
            Some(index) => self.slots[*index] = slot,
            None => {
                self.by_id.insert(id, self.slots.len());
                self.slots.push(slot);
            }
        }
        Ok(())
    }
}

impl Resolver<'_> {
    /// Where the rows of a table map go.
    pub fn resolve(mut self, body: &[u8]) -> Decoded<Route> {
        let (database, name) = table_map::names(body)?;
        let database = String::from_utf8_lossy(database);
        let name = String::from_utf8_lossy(name);
        if !self.selection.matches(&database, &name) {
            return Ok(Route::Skip);
        }
        let known = self.catalog.get(&database, &name).cloned();
        let aside = |schema: Option<Arc<TableSchema>>, reason: String| {
            Route::Opaque(Arc::new(Aside {
                database: database.clone().into_owned(),
                name: name.clone().into_owned(),
                schema,
                reason,
            }))
        };
        if let Some(reason) = self.parked.get(&format!("{database}.{name}")) {
            return Ok(aside(known, reason.clone()));
        }
        let map = table_map::read(body, self.mariadb)?;
        if self.mariadb && known.is_none() && is_sequence(&map) {
            return Ok(Route::Skip);
        }
        Ok(match self.schema_for(&map, known.clone()) {
            Err(reason) => aside(known, reason),
            Ok((schema, kinds)) => match compile(self.rules, &schema, kinds) {
                Ok(plan) => Route::Decode(Arc::new(plan)),
                Err(reason) => aside(Some(schema), reason),
            },
        })
    }

    /// The schema that fits the map: the catalog's; else the map's own (FULL metadata); else what the
    /// server says now, if that fits.
    fn schema_for(
        &mut self,
        map: &TableMap,
        known: Option<Arc<TableSchema>>,
    ) -> Result<(Arc<TableSchema>, Vec<CellKind>), String> {
        let reason = match known {
            Some(schema) => match column_kinds(map, &schema, self.mariadb) {
                Ok(kinds) => return Ok((schema, kinds)),
                Err(reason) => reason,
            },
            None => "no CREATE TABLE was seen and the log has no names".to_owned(),
        };
        if let Some(text) = self
            .oracle
            .as_mut()
            .and_then(|oracle| oracle.show_create(&map.database, &map.name))
            && let Ok(schema) = self.catalog.seed(&map.database, &text)
            && let Ok(kinds) = column_kinds(map, &schema, self.mariadb)
        {
            return Ok((schema, kinds));
        }
        if let Some(schema) = schema_of_map(map) {
            let schema = self.catalog.put(schema);
            let kinds = column_kinds(map, &schema, self.mariadb)?;
            return Ok((schema, kinds));
        }
        Err(format!("the log and the schema history differ: {reason}"))
    }
}

/// Whether this is one of MariaDB's sequences, which travel as one-row tables.
fn is_sequence(map: &TableMap) -> bool {
    use table_map::wire::{LONGLONG, TINY};
    let types = [
        LONGLONG, LONGLONG, LONGLONG, LONGLONG, LONGLONG, LONGLONG, TINY, LONGLONG,
    ];
    let first = map
        .columns
        .first()
        .and_then(|column| column.name.as_deref());
    map.columns.iter().map(|column| column.wire).eq(types)
        && first.is_none_or(|name| name == "next_not_cached_value")
}

/// Compiles a plan.
///
/// Errors: a text when the column rules would lose the key.
pub fn compile(
    rules: &ColumnRules,
    schema: &TableSchema,
    kinds: Vec<CellKind>,
) -> Result<TablePlan, String> {
    let treatments = rules.treatments(schema)?;
    let key: Vec<u32> = schema.key().iter().copied().take(KEY_COLUMNS_MAX).collect();
    let slot_of = |index: usize| {
        let place = key.iter().position(|column| *column as usize == index);
        place.map_or(0, |place| place as u8 + 1)
    };
    let emitted = emitted_schema(schema, &treatments);
    let json_count = kinds
        .iter()
        .filter(|kind| matches!(kind, CellKind::Json { .. }))
        .count();
    let row_end = schema
        .columns
        .iter()
        .position(|column| column.invisible && column.generated && column.name == "row_end");
    Ok(TablePlan {
        row_end,
        table: schema.table,
        version: schema.version,
        emitted_count: emitted.columns.len(),
        key_count: key.len(),
        json_count,
        plain: kinds.len() == treatments.len()
            && treatments.iter().all(|one| *one == Treatment::Keep),
        columns: kinds
            .into_iter()
            // Columns behind those of the schema are hidden ones.
            .zip(
                treatments
                    .into_iter()
                    .chain(std::iter::repeat(Treatment::Exclude)),
            )
            .enumerate()
            .map(|(index, (kind, treatment))| ColumnPlan {
                kind,
                treatment,
                key_slot: slot_of(index),
            })
            .collect(),
        schema: Arc::new(emitted),
    })
}
