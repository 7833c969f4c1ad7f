//! The journal as lines: what `tail` prints.

use crate::event_reader::{EventReader, EventSink, OpaqueRecord, ReadError};
use crate::pattern::Patterns;
use change::event::Ahead;
use change::{Event, Position};
use format::framing::put_messages;
use format::{Encoder, Messages};
use journal::{Journal, Sequence};
use std::io::{self, Write};
use std::time::Duration;

/// What to print.
#[derive(Debug, Clone)]
pub struct TailOptions {
    /// Where to begin.
    pub from: Sequence,
    /// Which tables.
    pub tables: Patterns,
    /// Go on when the end is reached.
    pub follow: bool,
}

/// Why a tail ended early.
#[derive(Debug)]
pub enum TailError {
    /// The journal.
    Read(ReadError),
    /// The reader of the lines is gone, or the disk is full.
    Write(io::Error),
}

impl From<ReadError> for TailError {
    fn from(error: ReadError) -> Self {
        TailError::Read(error)
    }
}

impl std::fmt::Display for TailError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TailError::Read(error) => error.fmt(f),
            TailError::Write(error) => write!(f, "write lines: {error}"),
        }
    }
}

struct Lines<'a> {
    options: &'a TailOptions,
    encoder: Box<dyn Encoder>,
    messages: Messages,
    bytes: Vec<u8>,
    out: &'a mut dyn Write,
}

impl Lines<'_> {
    fn wants(&self, event: &Event<'_>) -> bool {
        let (database, table) = match event {
            Event::Row(row) => (&*row.table.database, &*row.table.name),
            Event::Ddl(change) => (change.ddl.database, change.ddl.table),
            _ => return self.encoder.wants_marks(),
        };
        self.options.tables.matches(database, table)
    }
}

impl EventSink for Lines<'_> {
    type Error = TailError;

    fn event(&mut self, event: &Event<'_>, _: u64, _: &Position) -> Result<(), TailError> {
        if !self.wants(event) {
            return Ok(());
        }
        self.messages.clear();
        if let Err(error) = self.encoder.encode(event, &mut self.messages) {
            tracing::warn!("{error}; the change is left out");
            return Ok(());
        }
        self.bytes.clear();
        put_messages(&mut self.bytes, &self.messages, self.encoder.is_binary());
        self.out.write_all(&self.bytes).map_err(TailError::Write)
    }

    fn opaque(&mut self, record: &OpaqueRecord<'_>, _: u64) -> Result<(), TailError> {
        let table = record.table.map_or("?", |table| &table.name);
        tracing::warn!(
            "{} of {table} is parked: {}",
            Sequence(record.sequence),
            record.reason
        );
        Ok(())
    }

    fn looks_ahead(&self) -> bool {
        self.encoder.looks_ahead()
    }

    fn count(&self, event: &Event<'_>) -> u64 {
        match self.wants(event) {
            true => self.encoder.operations(event),
            false => 0,
        }
    }

    fn transaction(&mut self, ahead: &Ahead) {
        self.encoder.transaction(ahead);
    }
}

/// Prints from `options.from` on, one message a line (of a binary format: each after its length); ends at the journal's end unless it follows.
/// `go_on` is asked now and then while waiting.
pub fn tail(
    journal: &Journal,
    options: &TailOptions,
    encoder: Box<dyn Encoder>,
    out: &mut dyn Write,
    go_on: &dyn Fn() -> bool,
) -> Result<(), TailError> {
    let mut reader = EventReader::open(journal, options.from, None)?;
    let mut lines = Lines {
        options,
        encoder,
        messages: Messages::default(),
        bytes: Vec::new(),
        out,
    };
    while go_on() {
        if reader.read_frame(&mut lines)? {
            continue;
        }
        lines.out.flush().map_err(TailError::Write)?;
        if !options.follow {
            return Ok(());
        }
        journal.wait(Sequence(reader.next_sequence()), Duration::from_millis(200));
    }
    lines.out.flush().map_err(TailError::Write)
}
