//! `heal --replay` at capture: what was set aside is decoded again, in order, once its cause is gone.
//!
//! First everything is tried. Then it is written: each source transaction as one of its own, with the header
//! that it had, and with the sequence up to which this has come, so that a crash in between doubles nothing.
//! Live capture waits meanwhile, so that nothing of the table comes before what is older.

use super::{Capture, CaptureError};
use crate::event_reader::{EventReader, EventSink, OpaqueRecord, ReadError};
use crate::status::now_us;
use change::batch::FLAG_PAIR_SECOND;
use change::contract::Again;
use change::wire::{WireReader, put_bytes, put_u64};
use change::{Batch, Entry, Event, Position, Source, TransactionHeader, TransactionTrailer};
use journal::Sequence;

/// The value of `source/parked/<table>`: since which place, why, and from which sequence on it is still to
/// be decoded again, once that was begun.
struct Mark {
    since: String,
    reason: String,
    next: Option<u64>,
}

impl Mark {
    fn decode(value: &[u8]) -> Option<Self> {
        let mut r = WireReader::new(value);
        Some(Self {
            since: r.text().ok()?.to_owned(),
            reason: r.text().ok()?.to_owned(),
            next: r.u64().ok(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        put_bytes(&mut value, self.since.as_bytes());
        put_bytes(&mut value, self.reason.as_bytes());
        if let Some(next) = self.next {
            put_u64(&mut value, next);
        }
        value
    }
}

/// Whether the value of `source/parked/<table>` says that the table is decoded again from here on.
pub(crate) fn is_taken_up(value: &[u8]) -> bool {
    Mark::decode(value).is_some_and(|mark| mark.next.is_some())
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
    key: String,
    mark: Mark,
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
        let mark = self.mark.encode();
        self.batch.control(self.key.as_bytes(), Some(&mark));
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
        self.mark.next = Some(from.0);
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
        self.mark.next = Some(next);
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
        let key = format!("source/parked/{table}");
        let state = self.journal.control();
        let kept = state.get(key.as_bytes());
        let kept = kept.and_then(|entry| Some((entry.sequence, Mark::decode(&entry.value)?)));
        let Some((since, mut mark)) = kept else {
            return Ok(Err(format!("nothing of {table} was set aside at capture")));
        };
        let from = mark.next.map_or(since, Sequence);
        if from < self.journal.first() {
            return Ok(Err(format!(
                "the journal no longer holds {from}, where {table} was set aside; use `heal {table} \
                 --resnapshot`"
            )));
        }
        let until = self.journal.end();
        mark.next = Some(from.0);
        let mut replay = Replay {
            table,
            source,
            is_trial: true,
            key,
            mark,
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
        let (key, mark) = (replay.key.clone(), replay.mark.encode());
        self.control_transaction([(key.as_bytes(), Some(mark.as_slice()))], now_us())?;
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
        self.control_transaction([(key.as_bytes(), None)], now_us())?;
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
