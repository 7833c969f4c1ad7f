//! Reads the journal as events: joins key changes, finds the schema as of then, and keeps the
//! source's full position.

mod look_ahead;

use crate::capture::REPLAY_PREFIX;
use change::batch::{FLAG_PAIR_FIRST, FLAG_PAIR_SECOND, RowBody};
use change::event::{Ahead, DdlChange};
use change::{
    CopyMark, CopyStage, Ddl, Event, Operation, Position, PositionStep, RowChange, SchemaVersion,
    TableId, TableSchema, TransactionHeader, TransactionTrailer,
};
use journal::{Body, Item, Journal, ReadOptions, Reader, Sequence};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Control key of the source's full position.
pub const POSITION_KEY: &[u8] = b"source/position";
/// Prefix of control keys that hold a schema version: `schema/TABLE/VERSION`.
pub const SCHEMA_PREFIX: &[u8] = b"schema/";
/// Prefix of control keys that say how far a table's copy has come.
const COPY_PREFIX: &[u8] = b"source/snapshot/";
/// Prefix of control keys that say why a table was set aside at capture.
pub(crate) const PARKED_PREFIX: &[u8] = b"source/parked/";

/// Why reading cannot go on.
#[derive(Debug, Clone)]
pub enum ReadError {
    /// The journal.
    Journal(journal::Error),
    /// A record of ours that does not decode: damage, or a newer version wrote it.
    Record {
        /// Its sequence.
        sequence: u64,
        /// What is wrong.
        what: String,
    },
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadError::Journal(error) => error.fmt(f),
            ReadError::Record { sequence, what } => {
                write!(
                    f,
                    "decode journal record at {}: {what}",
                    Sequence(*sequence)
                )
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl From<journal::Error> for ReadError {
    fn from(error: journal::Error) -> Self {
        ReadError::Journal(error)
    }
}

/// What a frame's items are given to, and what it says about going on.
pub trait EventSink {
    /// The error that ends the reading.
    type Error: From<ReadError>;

    /// One event; `next` is the first sequence after it.
    fn event(
        &mut self,
        event: &Event<'_>,
        next: u64,
        position: &Position,
    ) -> Result<(), Self::Error>;

    /// A record that cannot be given: it was not decoded at capture, or its key is not to be had.
    fn opaque(&mut self, record: &OpaqueRecord<'_>, next: u64) -> Result<(), Self::Error>;

    /// Whether `transaction` is wanted.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// How many operations a row or statement will be.
    fn count(&self, _event: &Event<'_>) -> u64 {
        0
    }

    /// Told before a transaction's first event.
    fn transaction(&mut self, _ahead: &Ahead) {}

    /// A new schema version.
    fn schema(&mut self, _schema: &Arc<TableSchema>) {}

    /// A table that was set aside at capture is decoded again from here on; `next` is the first sequence
    /// after the mark. It may be told more than once.
    fn taken_up(&mut self, _table: &str, _next: u64) {}

    /// How far the copy of a table has come; `next` is the first sequence after the mark.
    fn copy(&mut self, _mark: &CopyMark<'_>, _next: u64) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A record that is there but cannot be read.
#[derive(Debug, Clone, Copy)]
pub struct OpaqueRecord<'a> {
    /// Its sequence.
    pub sequence: u64,
    /// Its table, if it is known.
    pub table: Option<&'a TableSchema>,
    /// Hash of its key.
    pub key_token: u64,
    /// Why it cannot be read.
    pub reason: &'a str,
    /// The transaction that it stands in.
    pub header: &'a TransactionHeader,
    /// What was kept of it; none where its key is not to be had.
    pub event: Option<change::batch::OpaqueEvent<'a>>,
}

/// Reads events from one sequence on.
pub struct EventReader {
    reader: Reader,
    state: State,
    journal: Journal,
    tables: Option<BTreeSet<journal::TableId>>,
    /// Everything before is only folded into the position.
    skip_until: u64,
}

/// What accumulates between items.
struct State {
    schemas: Arc<HashMap<(u32, u32), Arc<TableSchema>>>,
    header: TransactionHeader,
    position: Position,
    statement: String,
    pair: Pair,
    next: u64,
    /// Of the transactions that begin in the running frame, in order.
    aheads: VecDeque<Ahead>,
    /// Of the running transaction, until the sink was told.
    ahead: Option<Ahead>,
    /// Tables set aside at capture, by name: a copy that was given up is not whole.
    parked: BTreeSet<Vec<u8>>,
}

/// The first record of a key change, kept until the second comes.
#[derive(Clone, Default)]
struct Pair {
    body: Vec<u8>,
    key_token: u64,
    open: bool,
}

fn record_error(sequence: Sequence, what: impl ToString) -> ReadError {
    ReadError::Record {
        sequence: sequence.0,
        what: what.to_string(),
    }
}

impl EventReader {
    /// Opens at `from`. The position is folded from the last full one before it.
    ///
    /// Errors: `Invalid` from the journal when `from` has aged out.
    pub fn open(
        journal: &Journal,
        from: Sequence,
        tables: Option<BTreeSet<journal::TableId>>,
    ) -> Result<Self, ReadError> {
        let reader = journal.reader(ReadOptions {
            from,
            tables: tables.clone(),
        })?;
        let control = reader.control();
        let mut state = State {
            schemas: Arc::default(),
            header: TransactionHeader::default(),
            position: Position::default(),
            statement: String::new(),
            pair: Pair::default(),
            next: from.0,
            aheads: VecDeque::new(),
            ahead: None,
            parked: BTreeSet::new(),
        };
        for (_, entry) in control.prefix(SCHEMA_PREFIX) {
            state
                .add_schema(&entry.value)
                .map_err(|error| record_error(entry.sequence, error))?;
        }
        for (key, _) in control.prefix(PARKED_PREFIX) {
            state.parked.insert(key[PARKED_PREFIX.len()..].to_vec());
        }
        let mut base = from;
        if let Some(entry) = control.get(POSITION_KEY) {
            state.position =
                Position::decode(&entry.value).map_err(|e| record_error(entry.sequence, e))?;
            base = entry.sequence.max(journal.first()).min(from);
        }
        let reader = match base < from {
            true => journal.reader(ReadOptions {
                from: base,
                tables: tables.clone(),
            })?,
            false => reader,
        };
        Ok(Self {
            reader,
            state,
            journal: journal.clone(),
            tables,
            skip_until: from.0,
        })
    }

    /// The schemas in force at the start and seen since.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.state.schemas.values()
    }

    /// The source's full position after what was read.
    pub fn position(&self) -> &Position {
        &self.state.position
    }

    /// First sequence not given yet; never inside a key change.
    pub fn next_sequence(&self) -> u64 {
        self.state.next.max(self.skip_until)
    }

    /// Gives one frame's events; false when nothing more is there now.
    pub fn read_frame<S: EventSink>(&mut self, sink: &mut S) -> Result<bool, S::Error> {
        let frame = self.reader.next().map_err(ReadError::from)?;
        let Some(frame) = frame else { return Ok(false) };
        let after = frame.next_sequence();
        if sink.looks_ahead() {
            let from = (&self.state, self.skip_until);
            let rest = (&self.journal, self.tables.as_ref());
            self.state.aheads = look_ahead::look_ahead(&frame, from, rest, sink)?;
        }
        for item in frame.items() {
            self.state.item(item, self.skip_until, sink)?;
        }
        if !self.state.pair.open {
            self.state.next = self.state.next.max(after.0);
        }
        Ok(true)
    }
}

impl State {
    /// A copy that counts from here on.
    fn copy_for_counting(&self) -> State {
        State {
            schemas: Arc::clone(&self.schemas),
            header: self.header.clone(),
            position: Position::default(),
            statement: String::new(),
            pair: self.pair.clone(),
            next: self.next,
            aheads: VecDeque::new(),
            ahead: None,
            parked: BTreeSet::new(),
        }
    }

    /// Tells the sink of the running transaction, once.
    fn tell<S: EventSink>(&mut self, sink: &mut S) {
        if let Some(ahead) = self.ahead.take() {
            sink.transaction(&ahead);
        }
    }

    fn add_schema(&mut self, bytes: &[u8]) -> Result<Arc<TableSchema>, change::wire::WireError> {
        let schema = Arc::new(TableSchema::decode(bytes)?);
        Arc::make_mut(&mut self.schemas)
            .insert((schema.table.0, schema.version.0), Arc::clone(&schema));
        Ok(schema)
    }

    /// The mark that a control record of a copy is, for a sink that may not have seen it.
    fn copied<S: EventSink>(
        &mut self,
        sequence: Sequence,
        (key, value): (&[u8], &[u8]),
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let digits = std::str::from_utf8(&key[COPY_PREFIX.len()..]).unwrap_or_default();
        let Ok(table) = digits.parse::<u32>() else {
            return Ok(());
        };
        let Some(stage) = source_mysql::copy_stage(value) else {
            return Ok(());
        };
        let versions = self.schemas.values().filter(|s| s.table.0 == table);
        let Some(schema) = versions.max_by_key(|s| s.version).cloned() else {
            return Ok(());
        };
        let name = format!("{}.{}", schema.database, schema.name);
        if stage == CopyStage::Done && self.parked.contains(name.as_bytes()) {
            return Ok(());
        }
        let mark = CopyMark {
            table: &schema,
            stage,
            sequence: sequence.0,
        };
        sink.copy(&mark, sequence.0 + 1)
    }

    fn item<S: EventSink>(
        &mut self,
        item: Item<'_>,
        skip_until: u64,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        match item {
            Item::Begin { header, .. } => {
                let at = Sequence(self.next);
                self.header
                    .decode_into(header)
                    .map_err(|e| record_error(at, e))?;
                self.statement.clear();
                self.ahead = self.aheads.pop_front();
                if self.next >= skip_until {
                    self.tell(sink);
                    let event = Event::Begin {
                        sequence: self.next,
                        header: &self.header,
                    };
                    sink.event(&event, self.next, &self.position)?;
                }
                Ok(())
            }
            Item::Control {
                sequence,
                key,
                value,
            } => {
                self.next = sequence.0 + 1;
                if let Some(schema) = self.control(sequence, key, value)? {
                    sink.schema(&schema);
                }
                match value {
                    Some(_) if key.starts_with(REPLAY_PREFIX) && sequence.0 >= skip_until => {
                        if let Ok(name) = std::str::from_utf8(&key[REPLAY_PREFIX.len()..]) {
                            sink.taken_up(name, self.next);
                        }
                        Ok(())
                    }
                    Some(value) if key.starts_with(COPY_PREFIX) && sequence.0 >= skip_until => {
                        self.copied(sequence, (key, value), sink)
                    }
                    _ => Ok(()),
                }
            }
            Item::Record {
                sequence,
                descriptor,
                body,
            } if sequence.0 >= skip_until => {
                self.tell(sink);
                self.record(sequence, &descriptor, body, sink)
            }
            Item::Record {
                sequence,
                descriptor,
                body,
            } => {
                self.next = sequence.0 + 1;
                if descriptor.operation == Operation::Statement as u8
                    && let Body::Bytes(text) = body
                {
                    self.set_statement(text);
                }
                Ok(())
            }
            Item::Commit {
                sequence,
                trailer,
                position,
                ..
            } => {
                let trailer = TransactionTrailer::decode(trailer, position)
                    .map_err(|error| record_error(sequence, error))?;
                self.advance(&trailer.step);
                self.next = sequence.0 + 1;
                if sequence.0 < skip_until {
                    return Ok(());
                }
                let event = Event::Commit {
                    sequence: sequence.0,
                    header: &self.header,
                    trailer: &trailer,
                };
                sink.event(&event, self.next, &self.position)
            }
            Item::Retired { sequence } => {
                self.next = sequence.0;
                Ok(())
            }
        }
    }

    fn advance(&mut self, step: &PositionStep) {
        // Snapshot chunks and pure control groups do not move the source's position.
        if !step.file.is_empty() {
            self.position.advance(step);
        }
    }

    fn control(
        &mut self,
        sequence: Sequence,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<Option<Arc<TableSchema>>, ReadError> {
        if let Some(name) = key.strip_prefix(PARKED_PREFIX) {
            match value {
                Some(_) => self.parked.insert(name.to_vec()),
                None => self.parked.remove(name),
            };
        }
        let Some(value) = value else { return Ok(None) };
        if key.starts_with(SCHEMA_PREFIX) {
            let schema = self.add_schema(value);
            return schema
                .map(Some)
                .map_err(|error| record_error(sequence, error));
        }
        if key == POSITION_KEY {
            self.position = Position::decode(value).map_err(|e| record_error(sequence, e))?;
        }
        Ok(None)
    }

    fn set_statement(&mut self, text: &[u8]) {
        self.statement.clear();
        self.statement.push_str(&String::from_utf8_lossy(text));
    }

    fn schema(&self, table: u32, version: u32) -> Option<&Arc<TableSchema>> {
        self.schemas.get(&(table, version))
    }

    fn record<S: EventSink>(
        &mut self,
        sequence: Sequence,
        descriptor: &journal::RecordDescriptor,
        body: Body<'_>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let operation = Operation::from_u8(descriptor.operation)
            .ok_or_else(|| record_error(sequence, "an operation of a newer version"))?;
        let next = sequence.0 + 1;
        let bytes = match body {
            Body::Bytes(bytes) => bytes,
            Body::Locked(_) => {
                self.next = next;
                let table = self.schema(descriptor.table.0, descriptor.schema.0);
                let record = OpaqueRecord {
                    sequence: sequence.0,
                    table: table.map(|schema| &**schema),
                    key_token: descriptor.key_token,
                    reason: "the key of its table is not to be had",
                    header: &self.header,
                    event: None,
                };
                return sink.opaque(&record, next);
            }
        };
        match operation {
            Operation::Statement => {
                self.set_statement(bytes);
                self.next = next;
                Ok(())
            }
            Operation::Ddl => {
                let ddl = Ddl::decode(bytes).map_err(|error| record_error(sequence, error))?;
                let change = DdlChange {
                    sequence: sequence.0,
                    ddl,
                    header: &self.header,
                };
                self.next = next;
                sink.event(&Event::Ddl(change), next, &self.position)
            }
            Operation::Opaque => {
                let event = change::batch::OpaqueEvent::decode(bytes)
                    .map_err(|error| record_error(sequence, error))?;
                self.next = next;
                let table = self.schema(descriptor.table.0, descriptor.schema.0);
                let record = OpaqueRecord {
                    sequence: sequence.0,
                    table: table.map(|schema| &**schema),
                    key_token: descriptor.key_token,
                    reason: event.reason,
                    header: &self.header,
                    event: Some(event),
                };
                sink.opaque(&record, next)
            }
            Operation::Insert | Operation::Update | Operation::Delete | Operation::Read => {
                self.row(sequence, (descriptor, operation), bytes, sink)
            }
        }
    }

    fn row<S: EventSink>(
        &mut self,
        sequence: Sequence,
        (descriptor, operation): (&journal::RecordDescriptor, Operation),
        bytes: &[u8],
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if descriptor.flags & FLAG_PAIR_FIRST != 0 {
            self.pair.body.clear();
            self.pair.body.extend_from_slice(bytes);
            self.pair.key_token = descriptor.key_token;
            self.pair.open = true;
            self.next = sequence.0;
            return Ok(());
        }
        let body = RowBody::read(bytes).map_err(|error| record_error(sequence, error))?;
        let schema = self
            .schemas
            .get(&(descriptor.table.0, descriptor.schema.0))
            .cloned()
            .ok_or_else(|| record_error(sequence, "its schema version is not in the journal"))?;
        let mut change = RowChange {
            sequence: sequence.0,
            table: &schema,
            operation,
            before: body.before,
            after: body.after,
            key_token: descriptor.key_token,
            old_key_token: None,
            flags: descriptor.flags,
            meta: body.meta,
            header: &self.header,
            statement: (!self.statement.is_empty()).then_some(&self.statement),
        };
        if descriptor.flags & FLAG_PAIR_SECOND != 0 && self.pair.open {
            let first =
                RowBody::read(&self.pair.body).map_err(|error| record_error(sequence, error))?;
            change.operation = Operation::Update;
            change.before = first.before;
            change.old_key_token = Some(self.pair.key_token);
        }
        self.pair.open = false;
        self.next = sequence.0 + 1;
        sink.event(&Event::Row(change), sequence.0 + 1, &self.position)
    }
}

/// The table's id as the journal counts it.
pub fn journal_table(table: TableId) -> journal::TableId {
    journal::TableId(table.0)
}

/// The schema's version as the journal counts it.
pub fn journal_schema(version: SchemaVersion) -> journal::SchemaId {
    journal::SchemaId(version.0)
}
