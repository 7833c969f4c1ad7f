//! What is set aside meets the events that come: which are held, which end it.

use super::{AT_CAPTURE, AT_RENAME, Delivery, Stop};
use change::contract::Aside;
use change::{Event, Operation, SinkError};
use std::time::Instant;

impl Delivery {
    /// Sets a refused record aside; false for other errors, and where it was set aside already.
    pub(super) fn park(&mut self, error: &SinkError) -> bool {
        let Some(rejection) = &error.rejection else {
            return false;
        };
        if !self.parking.reject(rejection) {
            return false;
        }
        tracing::error!(
            sink = self.config.name,
            "{error}; it is parked, the rest goes on"
        );
        // The parked set travels with the cursor; it is durable with the next flush, and if that is
        // lost, the same record is refused again.
        true
    }

    /// A statement of a table of which something is set aside; false when it goes the way of the others.
    pub(super) fn set_aside_meets(&mut self, event: &Event<'_>) -> Result<bool, Stop> {
        let Event::Ddl(change) = event else {
            return Ok(false);
        };
        if self.parking.is_empty() || self.skipping {
            return Ok(false);
        }
        let (ddl, tables) = (&change.ddl, &self.config.tables);
        if !ddl.table.is_empty() && !tables.matches(ddl.database, ddl.table) {
            return Ok(false);
        }
        let name = format!("{}.{}", ddl.database, ddl.table);
        match self.sink.aside(event) {
            Aside::Stays => Ok(false),
            Aside::Ends => {
                let ended = match ddl.table.is_empty() {
                    true => self.parking.tables_of(ddl.database),
                    false => vec![name],
                };
                if !ended.iter().any(|table| self.parking.has(table)) {
                    return Ok(false);
                }
                self.give(event)?;
                for table in &ended {
                    if self.parking.remove(table).is_some() {
                        tracing::info!(
                            sink = self.config.name,
                            "{table} is not parked any more: a statement of the source took its rows away"
                        );
                    }
                }
                Ok(true)
            }
            Aside::Moves => {
                if !self.parking.has(ddl.renamed_from) {
                    return Ok(false);
                }
                // After a refusal the statement comes again, and the new name waits as a whole.
                if !self.parking.holds_table(&name, change.sequence) {
                    self.give(event)?;
                }
                tracing::warn!(
                    sink = self.config.name,
                    "{} was renamed to {name} while it was parked: heal {name} --resnapshot",
                    ddl.renamed_from
                );
                self.parking.rename(ddl.renamed_from, &name, AT_RENAME);
                self.unflushed.since.get_or_insert_with(Instant::now);
                Ok(true)
            }
        }
    }

    /// A table that the source copies again is whole from the copy's first row on.
    pub(super) fn unpark_copied(&mut self, event: &Event<'_>) {
        if self.parking.is_empty() {
            return;
        }
        if let Event::Row(row) = event
            && row.operation == Operation::Read
        {
            let name = format!("{}.{}", row.table.database, row.table.name);
            if self.parking.is_of(&name, AT_CAPTURE) {
                self.parking.remove(&name);
            }
        }
    }

    pub(super) fn spread(&mut self, event: &Event<'_>) {
        if let Event::Row(row) = event
            && !self.parking.is_empty()
        {
            let name = format!("{}.{}", row.table.database, row.table.name);
            self.parking
                .spread(&name, row.sequence, row.key_token, row.old_key_token);
        }
    }

    pub(super) fn is_held(&self, event: &Event<'_>) -> bool {
        match event {
            Event::Row(row) => {
                let (database, table) = (&row.table.database, &row.table.name);
                if !self.config.tables.matches(database, table) {
                    return true;
                }
                if self.parking.is_empty() {
                    return false;
                }
                let name = format!("{database}.{table}");
                if row.operation == Operation::Read && self.parking.is_of(&name, AT_CAPTURE) {
                    return false;
                }
                self.parking
                    .holds(&name, row.sequence, row.key_token, row.old_key_token)
            }
            Event::Ddl(change) => {
                let (database, table) = (change.ddl.database, change.ddl.table);
                (!table.is_empty() && !self.config.tables.matches(database, table))
                    || self
                        .parking
                        .holds_table(&format!("{database}.{table}"), change.sequence)
            }
            _ => false,
        }
    }
}
