//! Healing: what was held back of a parked table is read from the journal once more.

use super::{AT_CAPTURE, AT_RENAME, Delivery, Stop};
use crate::event_reader::{EventReader, EventSink, OpaqueRecord, journal_table};
use crate::parking::Parking;
use change::event::Ahead;
use change::{Event, Position, RowChange};
use journal::Sequence;
use std::sync::Arc;

impl Delivery {
    /// Reads a parked table again up to now, then lets it go on.
    pub(super) fn heal(&mut self, table: &str) -> Result<Result<String, String>, Stop> {
        self.flush()?;
        if self.parking.is_of(table, AT_CAPTURE) {
            return Ok(Err(format!(
                "{table} could not be read at capture, so the journal has nothing to deliver again; use \
                 `heal {table} --resnapshot`"
            )));
        }
        if self.parking.is_of(table, AT_RENAME) {
            return Ok(Err(format!(
                "{table} was renamed while it was parked, and lacks what was held back under its former \
                 name; use `heal {table} --resnapshot`"
            )));
        }
        let Some(healing) = self.parking.remove(table) else {
            return Ok(Err(format!(
                "nothing of {table} is parked in {}",
                self.config.name
            )));
        };
        let from = healing.from_sequence().unwrap_or(self.cursor.sequence);
        if from < self.journal.first().0 {
            for parked in healing.to_cursor() {
                self.parking.add(&parked);
            }
            return Ok(Err(format!(
                "the journal no longer holds {}, where {table} was parked; use `heal {table} \
                 --resnapshot`",
                Sequence(from)
            )));
        }
        let until = self.cursor.sequence;
        let now = EventReader::open(&self.journal, Sequence(until), None)?;
        let then = EventReader::open(&self.journal, Sequence(from), None)?;
        let named = |schema: &&Arc<change::TableSchema>| {
            format!("{}.{}", schema.database, schema.name) == table
        };
        // By its name now, or when it was parked: it may have been renamed or dropped since.
        let tables = now
            .schemas()
            .chain(then.schemas())
            .filter(named)
            .map(|s| journal_table(s.table))
            .collect();
        let mut reader = EventReader::open(&self.journal, Sequence(from), Some(tables))?;
        let mut replay = Replay {
            delivery: self,
            healing,
            until,
            rows: 0,
        };
        while reader.next_sequence() < until && reader.read_frame(&mut replay)? {}
        let rows = replay.rows;
        // The place does not change, only the parked set does.
        let mut cursor = self.cursor.clone();
        cursor.parked = self.parking.to_cursor();
        if let Err(error) = self.sink.flush(&cursor) {
            let _ = self.sink.abort();
            return Err(error.into());
        }
        self.cursor = cursor;
        self.report();
        if self.parking.has(table) {
            let refused = self.parking.to_status();
            let refused = refused.iter().find(|parked| parked.table == table);
            let reason = refused.map_or("", |parked| &parked.reason);
            return Ok(Err(format!(
                "{rows} changes of {table} were delivered again, and some of it is refused again: {reason}"
            )));
        }
        Ok(Ok(format!(
            "{table} is healed in {}: {rows} changes delivered again",
            self.config.name
        )))
    }
}

/// Gives a healed table's records again.
struct Replay<'a> {
    delivery: &'a mut Delivery,
    healing: Parking,
    until: u64,
    rows: u64,
}

impl Replay<'_> {
    /// A part of it is delivered: memory stays bounded, and after a crash healing goes on behind it.
    fn flush_part(&mut self, next: u64) -> Result<(), Stop> {
        let delivery = &mut *self.delivery;
        let mut cursor = delivery.cursor.clone();
        let mut parked = delivery.parking.clone();
        for one in self.healing.not_before(next) {
            parked.add(&one);
        }
        cursor.parked = parked.to_cursor();
        if let Err(error) = delivery.sink.flush(&cursor) {
            let _ = delivery.sink.abort();
            return Err(error.into());
        }
        delivery.cursor = cursor;
        Ok(())
    }

    fn is_healed(&self, row: &RowChange<'_>) -> bool {
        let name = format!("{}.{}", row.table.database, row.table.name);
        self.healing
            .holds(&name, row.sequence, row.key_token, row.old_key_token)
    }
}

impl EventSink for Replay<'_> {
    type Error = Stop;

    fn event(&mut self, event: &Event<'_>, _next: u64, _: &Position) -> Result<(), Stop> {
        let Event::Row(row) = event else {
            return Ok(());
        };
        if row.sequence >= self.until {
            return Ok(());
        }
        if !self.is_healed(row) {
            return Ok(());
        }
        if self.delivery.is_held(event) {
            // Refused again.
            self.delivery.spread(event);
            return Ok(());
        }
        self.rows += 1;
        self.delivery.marks.is_begun = true;
        self.delivery.give(event)?;
        if self.delivery.is_full() {
            self.flush_part(row.sequence + 1)?;
        }
        Ok(())
    }

    fn looks_ahead(&self) -> bool {
        self.delivery.sink.looks_ahead()
    }

    fn count(&self, event: &Event<'_>) -> u64 {
        match event {
            Event::Row(row) if row.sequence < self.until && self.is_healed(row) => {
                self.delivery.sink.operations(event)
            }
            _ => 0,
        }
    }

    fn transaction(&mut self, ahead: &Ahead) {
        self.delivery.sink.transaction(ahead);
    }

    fn opaque(&mut self, _: &OpaqueRecord<'_>, _: u64) -> Result<(), Stop> {
        Ok(())
    }
}
