//! `heal --replay` at capture: what was set aside is decoded again, in order, once its cause is gone.
//!
//! First everything is tried. Then it is written: each source transaction as one of its own, with the header
//! that it had, and with the sequence up to which this has come, so that a crash in between doubles nothing.
//! Live capture waits meanwhile, so that nothing of the table comes before what is older.

use super::{Capture, CaptureError};
use crate::event_reader::{EventReader, EventSink, OpaqueRecord, PARKED_PREFIX, ReadError};
use crate::status::now_us;
use change::batch::FLAG_PAIR_SECOND;
use change::contract::Again;
use change::{Batch, Entry, Event, Position, Source, TransactionHeader, TransactionTrailer};
use journal::Sequence;

/// Control keys `source/replay/<table>`: from which sequence on a table is still to be decoded again. Sinks
/// let the table go on from such a record on.
pub(crate) const REPLAY_PREFIX: &[u8] = b"source/replay/";

/// The control key that says how far a table is decoded again.
pub(super) fn replay_key(table: &str) -> Vec<u8> {
    [REPLAY_PREFIX, table.as_bytes()].concat()
}

/// The control key of a table that is set aside.
pub(super) fn parked_key(table: &str) -> Vec<u8> {
    [PARKED_PREFIX, table.as_bytes()].concat()
}

/// Why the reading ends.
enum Stop {
    Read(ReadError),
    Capture(CaptureError),
    Refused(String),
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Stop::Read(error)
    }
}

impl Stop {
    /// The user gets an answer, or capture ends.
    fn told(self) -> Result<Result<String, String>, CaptureError> {
        match self {
            Stop::Refused(text) => Ok(Err(text)),
            Stop::Read(error) => Err(CaptureError::Read(error)),
            Stop::Capture(error) => Err(error),
        }
    }
}

/// Decodes what of one table was set aside.
struct Replay<'a> {
    table: &'a str,
    source: &'a mut dyn Source,
    is_trial: bool,
    key: Vec<u8>,
    /// First sequence that is not decoded again yet.
    next: Sequence,
    batch: Batch,
    /// Of the transaction that is open in the batch.
    header: Option<TransactionHeader>,
    /// Entries of the batch that are counted.
    counted: usize,
    /// Row changes of the open transaction, and of all.
    rows: (u64, u64),
    has_found: bool,
}

impl Replay<'_> {
    fn open(&mut self, header: &TransactionHeader) {
        if self.header.as_ref() == Some(header) {
            return;
        }
        self.close();
        self.batch.begin(header);
        self.header = Some(header.clone());
    }

    /// Ends the open transaction.
    fn close(&mut self) {
        let Some(header) = self.header.take() else {
            return;
        };
        self.batch
            .control(&self.key, Some(&self.next.0.to_le_bytes()));
        let trailer = TransactionTrailer {
            row_changes: self.rows.0,
            time_s: header.time_s,
            ..TransactionTrailer::default()
        };
        self.batch.commit(&trailer, header.best_time_us());
        self.rows.1 += std::mem::take(&mut self.rows.0);
    }

    fn count(&mut self) {
        let new = &self.batch.entries()[self.counted..];
        let is_change = |entry: &&Entry| matches!(entry, Entry::Record(record) if record.flags & FLAG_PAIR_SECOND == 0);
        self.rows.0 += new.iter().filter(is_change).count() as u64;
        self.counted = self.batch.entries().len();
    }

    fn is_of(&self, database: &str, name: &str) -> bool {
        self.table
            .strip_prefix(database)
            .and_then(|rest| rest.strip_prefix('.'))
            == Some(name)
    }

    /// Begins anew, to write.
    fn start(&mut self, from: Sequence) {
        self.is_trial = false;
        self.next = from;
        self.rows = (0, 0);
        self.has_found = false;
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.counted = 0;
    }
}

impl EventSink for Replay<'_> {
    type Error = Stop;

    fn event(&mut self, event: &Event<'_>, _: u64, _: &Position) -> Result<(), Stop> {
        if let Event::Ddl(change) = event
            && self.has_found
            && self.is_of(change.ddl.database, change.ddl.table)
        {
            return Err(Stop::Refused(format!(
                "{} was changed by a statement after it was set aside, at sequence {}: use `heal {} \
                 --resnapshot`",
                self.table, change.sequence, self.table
            )));
        }
        Ok(())
    }

    fn opaque(&mut self, record: &OpaqueRecord<'_>, next: u64) -> Result<(), Stop> {
        let is_known = match record.table {
            Some(table) if self.is_of(&table.database, &table.name) => true,
            Some(_) => return Ok(()),
            None => false,
        };
        let table = self.table;
        let refused = |why: String| {
            Stop::Refused(format!(
                "what was set aside of {table} at sequence {} is not to be had: {why}; the journal keeps it; fix \
                 that and try again, or use `heal {table} --resnapshot`",
                record.sequence
            ))
        };
        let Some(event) = &record.event else {
            return match is_known {
                true => Err(refused(record.reason.to_owned())),
                false => Ok(()),
            };
        };
        // Whether it is of this table is known only then: a transaction of nothing does no harm.
        self.open(record.header);
        let again = Again {
            table,
            event,
            is_trial: self.is_trial,
        };
        match self.source.decode_again(&again, &mut self.batch) {
            Ok(true) => {}
            Ok(false) if is_known => return Err(refused("no rows were kept".to_owned())),
            Ok(false) => return Ok(()),
            Err(error) => return Err(refused(error.to_string())),
        }
        self.has_found = true;
        self.next = Sequence(next);
        self.count();
        Ok(())
    }
}

impl Capture {
    /// Decodes again what was set aside of a table, and lets it go on. The answer is for the user.
    pub(super) fn replay(
        &mut self,
        table: &str,
        source: &mut dyn Source,
    ) -> Result<Result<String, String>, CaptureError> {
        // All that was set aside can be read.
        self.settle()?;
        let (parked, key) = (parked_key(table), replay_key(table));
        let state = self.journal.control();
        let Some(since) = state.get(&parked).map(|entry| entry.sequence) else {
            return Ok(Err(format!("nothing of {table} was set aside at capture")));
        };
        let begun = state
            .get(&key)
            .and_then(|entry| (*entry.value).try_into().ok());
        let from = begun.map_or(since, |next| since.max(Sequence(u64::from_le_bytes(next))));
        if from < self.journal.first() {
            return Ok(Err(format!(
                "the journal no longer holds {from}, where {table} was set aside; use `heal {table} \
                 --resnapshot`"
            )));
        }
        let until = self.journal.end();
        let mut replay = Replay {
            table,
            source,
            is_trial: true,
            key,
            next: from,
            batch: Batch::default(),
            header: None,
            counted: 0,
            rows: (0, 0),
            has_found: false,
        };
        if let Err(stop) = self.read(from, until, &mut replay) {
            return stop.told();
        }
        // Sinks let the table go on from here. A frame of its own: what a sink is told of a transaction
        // beforehand is told by frames.
        replay.start(from);
        let next = from.0.to_le_bytes();
        self.control_transaction([(replay.key.as_slice(), Some(next.as_slice()))], now_us())?;
        self.writer.flush()?;
        let written = self.read(from, until, &mut replay);
        if let Err(stop) = written {
            if self.in_transaction {
                self.writer.rollback()?;
                self.in_transaction = false;
            }
            return stop.told();
        }
        let rows = replay.rows.1;
        replay.source.take_up(table);
        let done = [(parked.as_slice(), None), (replay.key.as_slice(), None)];
        self.control_transaction(done, now_us())?;
        self.writer.flush()?;
        tracing::info!(table, rows, "what was set aside is decoded again");
        Ok(Ok(format!(
            "{table}: {rows} row changes decoded again; it goes on"
        )))
    }

    /// Reads the journal for `replay`, and writes what comes of it unless it is only tried.
    fn read(
        &mut self,
        from: Sequence,
        until: Sequence,
        replay: &mut Replay<'_>,
    ) -> Result<(), Stop> {
        let mut reader = EventReader::open(&self.journal, from, None)?;
        while reader.next_sequence() < until.0 && reader.read_frame(replay)? {
            self.take(replay)?;
        }
        replay.close();
        self.take(replay)
    }

    fn take(&mut self, replay: &mut Replay<'_>) -> Result<(), Stop> {
        if !replay.is_trial {
            self.append(&replay.batch, &*replay.source)
                .map_err(Stop::Capture)?;
        }
        replay.clear();
        Ok(())
    }
}
