//! What was set aside, decoded again once its cause is gone.

use super::tables::{Resolver, Route};
use super::{Capture, Failure};
use crate::binlog::header::{EventHeader, HEADER_BYTES};
use crate::binlog::plan::TablePlan;
use crate::binlog::rows::RowsType;
use crate::binlog::table_map;
use change::contract::{Again, ErrorKind};
use change::{Batch, SourceError};
use std::collections::HashMap;

impl Capture {
    /// As [`change::Source::decode_again`].
    pub fn decode_again(
        &mut self,
        again: &Again<'_>,
        batch: &mut Batch,
    ) -> Result<bool, SourceError> {
        let (table, aside) = (again.table, again.event);
        if aside.description.is_empty() {
            return Ok(false);
        }
        let refused = |kind, detail: String| {
            SourceError::new(kind, "decode again", detail)
                .at(format!("offset {}", aside.meta.end_offset))
        };
        let corrupt =
            |error: &dyn std::fmt::Display| refused(ErrorKind::Corrupt, error.to_string());
        let (database, name) =
            table_map::names(aside.description).map_err(|error| corrupt(&error))?;
        let (database, name) = (
            String::from_utf8_lossy(database),
            String::from_utf8_lossy(name),
        );
        if format!("{database}.{name}") != table {
            return Ok(false);
        }
        let header = EventHeader::read(aside.event).map_err(|error| corrupt(&error))?;
        let (Some(of), Some(body)) = (RowsType::of(header.kind), aside.event.get(HEADER_BYTES..))
        else {
            return Err(corrupt(&"what was kept is not an event of rows"));
        };
        let plan = self.plan_again(aside.description, &refused)?;
        let is_copied = self
            .gate
            .as_ref()
            .is_none_or(|gate| !gate.holds(plan.table));
        if !is_copied {
            let text = "its copy is not whole".to_owned();
            return Err(refused(ErrorKind::Invalid, text).hint(format!(
                "headwater heal CONFIG {table} --resnapshot copies it again"
            )));
        }
        let mark = batch.mark();
        let version = (plan.table.0, plan.version.0);
        let was_announced = self.tables.announced.contains(&version);
        self.announce(&plan, batch);
        let decoded = self.decode_rows((body, of), &plan, aside.meta, batch);
        if (again.is_trial || decoded.is_err()) && !was_announced {
            // The journal does not get it from this batch.
            self.tables.announced.remove(&version);
        }
        match decoded {
            Ok(_) => Ok(true),
            Err(failure) => {
                batch.rewind(mark);
                Err(match failure {
                    Failure::Decode(error) => refused(ErrorKind::Unsupported, error.to_string()),
                    Failure::Source(error) => error,
                })
            }
        }
    }

    /// How a table's rows are decoded, as if it were not set aside.
    fn plan_again(
        &mut self,
        map: &[u8],
        refused: &dyn Fn(ErrorKind, String) -> SourceError,
    ) -> Result<std::sync::Arc<TablePlan>, SourceError> {
        let none = HashMap::new();
        let resolver = Resolver {
            selection: &self.options.selection,
            rules: &self.options.rules,
            catalog: &mut self.catalog,
            oracle: self.oracle.as_deref_mut(),
            parked: &none,
            mariadb: self.mariadb,
        };
        match resolver.resolve(map) {
            Ok(Route::Decode(plan)) => Ok(plan),
            Ok(Route::Opaque(aside)) => Err(refused(ErrorKind::Invalid, aside.reason.clone())),
            Ok(Route::Skip) => Err(refused(
                ErrorKind::Invalid,
                "the table is not captured by this config".to_owned(),
            )),
            Err(error) => Err(refused(ErrorKind::Corrupt, error.to_string())),
        }
    }

    /// As [`change::Source::take_up`].
    pub fn take_up(&mut self, table: &str) {
        self.parked.remove(table);
        self.parked_since.retain(|parked| parked.table != table);
        self.tables.forget_routes_of(table);
    }
}
