//! From the source into the journal: one thread, one batch, no waiting for sinks.

mod replay;

pub(crate) use replay::REPLAY_PREFIX;

use crate::event_reader::{
    EventReader, EventSink, OpaqueRecord, PARKED_PREFIX, POSITION_KEY, ReadError, SCHEMA_PREFIX,
};
use crate::event_reader::{journal_schema, journal_table};
use crate::key_groups::{self, KeyGroups};
use crate::spool::JournalSpool;
use crate::status::Shared;
use crate::streams::CaptureStreams;
use change::contract::{ErrorKind, SourceStatus};
use change::ddl::{Ddl, DdlKind};
use change::spool::Spool;
use change::{
    Batch, Entry, Event, Operation, Position, Progress, Source, SourceError, TableId, TableSchema,
};
use journal::{Journal, KeyGroupId, RecordDescriptor, Sequence, TransactionStart, Writer};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// With [`KeepPosition::EverySecond`]: what has to be read again to fold a position is this much.
const POSITION_INTERVAL: Duration = Duration::from_secs(1);
/// A source waits at most this long, so that a stop is seen.
const POLL_WAIT: Duration = Duration::from_millis(100);
/// How often the source is asked how it stands.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// Why capture ended before it was told to.
#[derive(Debug)]
pub enum CaptureError {
    /// The source: exit code 3.
    Source(SourceError),
    /// The journal: exit code 5.
    Journal(journal::Error),
    /// A record of the journal that does not decode: exit code 5.
    Read(ReadError),
    /// The streams' part of the journal: exit code 5.
    Streams(stream::Error),
    /// A stop was asked for while the journal was full: what is unfinished is taken back.
    Stopped,
}

impl std::fmt::Display for CaptureError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CaptureError::Source(error) => error.fmt(f),
            CaptureError::Journal(error) => error.fmt(f),
            CaptureError::Read(error) => error.fmt(f),
            CaptureError::Streams(error) => error.fmt(f),
            CaptureError::Stopped => f.write_str("a stop was asked for"),
        }
    }
}

impl std::error::Error for CaptureError {}

impl From<stream::Error> for CaptureError {
    fn from(error: stream::Error) -> Self {
        CaptureError::Streams(error)
    }
}

impl From<journal::Error> for CaptureError {
    fn from(error: journal::Error) -> Self {
        CaptureError::Journal(error)
    }
}

/// The full position and control entries from which a source resumes.
#[derive(Debug, Clone, Default)]
pub struct Resumed {
    /// Everything up to here is in the journal.
    pub position: Option<Position>,
    /// Every control entry of the journal.
    pub control: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where its bytes may wait.
    pub spool: Option<Arc<dyn Spool>>,
    /// The position is lost: the source begins at its log's end and copies every table again.
    pub anew: bool,
}

/// Nothing but the position is of interest.
struct Fold;

impl EventSink for Fold {
    type Error = ReadError;
    fn event(&mut self, _: &Event<'_>, _: u64, _: &Position) -> Result<(), ReadError> {
        Ok(())
    }
    fn opaque(&mut self, _: &OpaqueRecord<'_>, _: u64) -> Result<(), ReadError> {
        Ok(())
    }
}

/// Reads from the journal where its source has to resume.
pub fn resume(journal: &Journal) -> Result<Resumed, ReadError> {
    let state = journal.control();
    let control = state
        .iter()
        .map(|(key, entry)| (key.to_vec(), entry.value.to_vec()))
        .collect();
    let spool: Option<Arc<dyn Spool>> = Some(Arc::new(JournalSpool(journal.spool())));
    let Some(entry) = state.get(POSITION_KEY) else {
        return Ok(Resumed {
            position: None,
            control,
            spool,
            anew: false,
        });
    };
    let from = entry.sequence.max(journal.first()).min(journal.end());
    // The filter names no table: only commits and control records are read.
    let mut reader = EventReader::open(journal, from, None)?;
    while reader.read_frame(&mut Fold)? {}
    Ok(Resumed {
        position: Some(reader.position().clone()),
        control,
        spool,
        anew: false,
    })
}

/// When the full position is kept as a control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepPosition {
    /// Once a second while transactions pass.
    EverySecond,
    /// Each time this many bytes have passed: a recording then gives the same journal on every run.
    EveryBytes(u64),
}

/// A table to bring back.
pub struct Heal {
    /// `database.table`.
    pub table: String,
    /// Copy it again, instead of decoding again what the journal keeps.
    pub resnapshot: bool,
    /// Where the answer goes.
    pub answer: Sender<Result<String, String>>,
}

/// Opens the source anew where the journal ends.
pub type Reopen = Box<dyn Fn(Resumed) -> Result<Box<dyn Source>, SourceError> + Send>;

/// What capture leaves when it has ended.
pub struct Captured {
    /// Still open; close it last.
    pub writer: Writer,
    /// How it ended.
    pub outcome: Result<(), CaptureError>,
}

/// Writes batches into the journal.
pub struct Capture {
    writer: Writer,
    shared: Arc<Shared>,
    keep: KeepPosition,
    bytes_since_kept: u64,
    position_written: Instant,
    position_kept: Option<Position>,
    in_transaction: bool,
    to_heal: Receiver<Heal>,
    journal: Journal,
    reopen: Reopen,
    streams: CaptureStreams,
    key_groups: KeyGroups,
    status: SourceStatus,
    resnapshot_lost: bool,
    begins_anew: bool,
}

/// What a capture works with.
pub struct CaptureParts {
    /// Appends.
    pub writer: Writer,
    /// The same journal, for reading where to resume.
    pub journal: Journal,
    /// Where it reports.
    pub shared: Arc<Shared>,
    /// When the full position is kept.
    pub keep: KeepPosition,
    /// Tables to bring back.
    pub to_heal: Receiver<Heal>,
    /// Opens the source anew.
    pub reopen: Reopen,
    /// The change streams.
    pub streams: CaptureStreams,
    /// Keys of tables.
    pub key_groups: KeyGroups,
    /// A lost position is accepted: everything is copied again.
    pub resnapshot_lost: bool,
    /// The source that [`Capture::run`] is given was opened so.
    pub begins_anew: bool,
}

impl Capture {
    /// A capture of these parts.
    pub fn new(parts: CaptureParts) -> Self {
        let CaptureParts {
            writer,
            journal,
            shared,
            keep,
            to_heal,
            reopen,
            streams,
            key_groups,
            resnapshot_lost,
            begins_anew,
        } = parts;
        Self {
            journal,
            reopen,
            streams,
            key_groups,
            status: SourceStatus::default(),
            writer,
            shared,
            keep,
            bytes_since_kept: 0,
            position_written: Instant::now() - POSITION_INTERVAL,
            position_kept: None,
            in_transaction: false,
            to_heal,
            resnapshot_lost,
            begins_anew,
        }
    }

    /// Runs until the source ends, fails, or a stop is asked for; then makes everything durable.
    ///
    /// The writer comes back open: sinks hold their places in the journal until they have drained.
    pub fn run(mut self, mut source: Box<dyn Source>) -> Captured {
        let pumped = match self.pump(&mut source) {
            Err(CaptureError::Stopped) => Ok(()),
            pumped => pumped,
        };
        let ended = self.settle().and_then(|()| {
            // Streams that the last transactions made or ended are shown before this thread goes.
            let (writer, status) = (&mut self.writer, &self.status);
            self.streams
                .serve(writer, status)
                .map_err(CaptureError::from)
        });
        self.publish(&mut *source);
        Captured {
            writer: self.writer,
            outcome: pumped.and(ended),
        }
    }

    /// Takes an unfinished transaction back and waits until the rest is durable.
    fn settle(&mut self) -> Result<(), CaptureError> {
        if self.in_transaction {
            self.writer.rollback()?;
        }
        self.writer.flush()?;
        let end = self.writer.next_sequence();
        while self.journal.end() < end {
            if let Some(error) = self.journal.failed() {
                return Err(error.into());
            }
            self.journal
                .wait(self.journal.end(), Duration::from_millis(100));
            self.writer.poll()?;
            if self.in_transaction {
                // Sequences of what was taken back are never shown.
                return Ok(());
            }
        }
        Ok(())
    }

    fn pump(&mut self, source: &mut Box<dyn Source>) -> Result<(), CaptureError> {
        let mut batch = Batch::default();
        let mut status_due = Instant::now() + STATUS_INTERVAL;
        self.publish(&mut **source);
        self.give_keys()?;
        if self.begins_anew {
            self.forget_for_copies()?;
        }
        while !self.shared.is_stopping() {
            if !self.wait_for_room(Some(&mut **source)) {
                break;
            }
            if !self.in_transaction
                && let Ok(heal) = self.to_heal.try_recv()
            {
                let said = match heal.resnapshot {
                    true => self.copy_again(&heal.table, source)?,
                    false => self.replay(&heal.table, &mut **source)?,
                };
                self.publish(&mut **source);
                let _ = heal.answer.send(said);
            }
            if !self.in_transaction {
                self.streams.serve(&mut self.writer, &self.status)?;
            }
            batch.clear();
            let polled = source.poll(&mut batch, POLL_WAIT);
            self.append(&batch, &**source)?;
            batch.shrink(4 << 20);
            match polled {
                Ok(Progress::Data) => {}
                Ok(Progress::Idle) => self.writer.flush()?,
                Ok(Progress::End) => {
                    self.writer.flush()?;
                    return Ok(());
                }
                Err(error) if self.resnapshot_lost && is_lost(&error) => {
                    *source = self.begin_anew(&error)?;
                }
                Err(error) => return Err(CaptureError::Source(error)),
            }
            if Instant::now() >= status_due {
                status_due = Instant::now() + STATUS_INTERVAL;
                self.publish(&mut **source);
            }
        }
        Ok(())
    }

    /// Forgets that a table was copied and why it was parked, and opens the source anew: it then
    /// copies the table like one that was never copied, while the stream goes on.
    fn copy_again(
        &mut self,
        table: &str,
        source: &mut Box<dyn Source>,
    ) -> Result<Result<String, String>, CaptureError> {
        let state = self.journal.control();
        let named = |bytes: &[u8]| {
            let schema = change::TableSchema::decode(bytes).ok()?;
            (format!("{}.{}", schema.database, schema.name) == table).then_some(schema.table)
        };
        let found = state
            .prefix(SCHEMA_PREFIX)
            .find_map(|(_, entry)| named(&entry.value));
        let Some(id) = found else {
            return Ok(Err(format!("{table} is not a captured table")));
        };
        // A record of a copy with nothing done: version 1, no rows, no ranges.
        let copied = format!("source/snapshot/{}", id.0);
        let (parked, replay) = (replay::parked_key(table), replay::replay_key(table));
        let records = [
            (copied.as_bytes(), Some([1, 0, 0].as_slice())),
            (parked.as_slice(), None),
            (replay.as_slice(), None),
        ];
        // Changes of rows that are still to be copied are no records from here on.
        let ends = self.streams.on_copy_again(id, self.writer.next_sequence());
        let ends = ends
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()));
        let records = records.into_iter().chain(ends);
        self.control_transaction(records, crate::status::now_us())?;
        self.settle()?;
        let resumed = resume(&self.journal).map_err(CaptureError::Read)?;
        match (self.reopen)(resumed) {
            Ok(opened) => {
                *source = opened;
                Ok(Ok(format!("{table} is copied again; see `status`")))
            }
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// The position is lost, and that is accepted: opens the source at its log's end, where it copies
    /// every table again.
    fn begin_anew(&mut self, lost: &SourceError) -> Result<Box<dyn Source>, CaptureError> {
        self.settle()?;
        let mut resumed = resume(&self.journal).map_err(CaptureError::Read)?;
        tell_lost(lost, &resumed);
        resumed.anew = true;
        let mut source = (self.reopen)(resumed).map_err(CaptureError::Source)?;
        self.forget_for_copies()?;
        self.publish(&mut *source);
        Ok(source)
    }

    /// Before every table is copied again: nothing is set aside any more, and no stream goes on over the gap.
    fn forget_for_copies(&mut self) -> Result<(), CaptureError> {
        let state = self.journal.control();
        let mut records: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for prefix in [PARKED_PREFIX, REPLAY_PREFIX] {
            records.extend(state.prefix(prefix).map(|(key, _)| (key.to_vec(), None)));
        }
        let schemas = state.prefix(SCHEMA_PREFIX);
        let tables: BTreeSet<TableId> = schemas
            .filter_map(|(_, entry)| TableSchema::decode(&entry.value).ok())
            .map(|schema| schema.table)
            .collect();
        for table in tables {
            let sequence = self.writer.next_sequence();
            records.extend(self.streams.on_copy_again(table, sequence));
        }
        let records = records
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()));
        self.control_transaction(records, crate::status::now_us())
    }

    fn publish(&mut self, source: &mut dyn Source) {
        self.status = source.status();
        self.shared.set_source(self.status.clone());
    }

    /// The last status, [`STATUS_INTERVAL`] later.
    fn publish_older(&mut self) {
        let lag = self.status.lag_seconds.unwrap_or_default();
        self.status.lag_seconds = Some(lag + STATUS_INTERVAL.as_secs_f64());
        self.status.lag_bytes = self.status.lag_bytes.filter(|bytes| *bytes > 0);
        self.shared.set_source(self.status.clone());
    }

    /// Waits while the journal is full; false when a stop is asked for.
    ///
    /// With the source at hand its lag is shown all the while; without, what is shown grows with time.
    fn wait_for_room(&mut self, mut source: Option<&mut dyn Source>) -> bool {
        let mut told = false;
        let mut status_due = Instant::now();
        while self.writer.capacity() == journal::Capacity::Full {
            self.shared.journal_full.store(true, Ordering::Relaxed);
            if !told {
                tracing::error!(
                    "the journal has reached disk_max and every segment is still needed: capture is \
                     paused; hint: let the sinks catch up, raise journal.disk_max, or set on_full: \
                     detach"
                );
                told = true;
            }
            if self.shared.is_stopping() || self.journal.failed().is_some() {
                return false;
            }
            if Instant::now() >= status_due {
                match &mut source {
                    Some(source) => self.publish(&mut **source),
                    None => self.publish_older(),
                }
                status_due = Instant::now() + STATUS_INTERVAL;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        self.shared.journal_full.store(false, Ordering::Relaxed);
        true
    }

    fn append(&mut self, batch: &Batch, source: &dyn Source) -> Result<(), CaptureError> {
        let mut rows = 0;
        for entry in batch.entries() {
            match entry {
                Entry::Begin { header, snapshot } => {
                    let header = batch.bytes(*header);
                    self.retry(|writer| {
                        writer.begin(TransactionStart {
                            header,
                            snapshot: *snapshot,
                        })
                    })?;
                    self.in_transaction = true;
                }
                Entry::Record(record) => {
                    rows += 1;
                    let descriptor = RecordDescriptor {
                        table: journal_table(record.table),
                        schema: journal_schema(record.schema),
                        operation: record.operation as u8,
                        flags: record.flags,
                        key_token: record.key_token,
                        key_group: self.key_groups.of(record.table),
                    };
                    let body = batch.bytes(record.body);
                    if self.streams.observe(&descriptor, body) {
                        let (streams, writer) = (&mut self.streams, &mut self.writer);
                        streams.end_at_partial_row(record.table, writer)?;
                    }
                    if matches!(record.operation, Operation::Ddl | Operation::Opaque) {
                        self.end_streams(record.table, record.operation, body)?;
                    }
                    match self.key_groups.is_refused(descriptor.key_group) {
                        true => self.record_unsealed(&descriptor, body)?,
                        false => self.record(&descriptor, body)?,
                    }
                }
                Entry::Control { key, value } => {
                    let (key, value) = (batch.bytes(*key), value.map(|v| batch.bytes(v)));
                    self.retry(|writer| writer.control(key, value).map(|_| ()))?;
                    if let Some(value) = value.filter(|_| key.starts_with(SCHEMA_PREFIX)) {
                        self.on_schema(value)?;
                    }
                }
                Entry::Commit {
                    trailer,
                    position,
                    time_us,
                    rows,
                } => {
                    let commit = journal::Commit {
                        trailer: batch.bytes(*trailer),
                        position: batch.bytes(*position),
                        time_us: *time_us,
                        rows: *rows,
                    };
                    self.retry(|writer| writer.commit(commit).map(|_| ()))?;
                    self.in_transaction = false;
                    self.key_groups.on_commit();
                }
                Entry::Rollback => {
                    self.key_groups.on_rollback();
                    if self.in_transaction {
                        self.writer.rollback()?;
                    }
                    self.in_transaction = false;
                }
            }
        }
        self.shared.rows_captured.fetch_add(rows, Ordering::Relaxed);
        self.bytes_since_kept += batch.byte_count() as u64;
        self.keep_position(source)?;
        self.writer.poll()?;
        Ok(())
    }

    /// A table that was dropped or renamed, or of which something could not be decoded, has no stream from here on.
    fn end_streams(
        &mut self,
        table: TableId,
        operation: Operation,
        body: &[u8],
    ) -> Result<(), CaptureError> {
        if operation == Operation::Opaque {
            let sequence = self.writer.next_sequence();
            let reason = "a change of its table could not be decoded; heal the table, then enable \
                          the stream anew";
            let (streams, writer) = (&mut self.streams, &mut self.writer);
            return Ok(streams.end_streams(table, sequence, reason, writer)?);
        }
        // What does not decode is found by its readers.
        let Ok(ddl) = Ddl::decode(body) else {
            return Ok(());
        };
        let (gone, reason) = match ddl.kind {
            DdlKind::DropTable => (Some(table), "its table was dropped"),
            _ if !ddl.renamed_from.is_empty() => (
                self.streams.table_named(ddl.renamed_from),
                "its table was renamed; enable a stream of the new name",
            ),
            _ => return Ok(()),
        };
        match gone {
            Some(table) if table.0 != 0 => {
                Ok(self
                    .streams
                    .on_table_gone(table, reason, &mut self.writer)?)
            }
            _ => Ok(()),
        }
    }

    fn record(&mut self, descriptor: &RecordDescriptor, body: &[u8]) -> Result<(), CaptureError> {
        let error = match self.writer.record(descriptor, body) {
            Ok(_) => {
                if self.key_groups.accept(descriptor.key_group) {
                    tracing::info!("the key of group {} is there again", descriptor.key_group);
                    self.streams.note_key(TableId(descriptor.table.0), true);
                }
                return Ok(());
            }
            Err(error) => error,
        };
        if error.kind() == journal::ErrorKind::Unavailable
            && descriptor.key_group != KeyGroupId::DEFAULT
        {
            if self.key_groups.refuse(descriptor.key_group) {
                tracing::error!("{error}; rows of its table are not kept until it is there again");
            }
            return self.record_unsealed(descriptor, body);
        }
        self.full_or_fail(error)?;
        self.retry(|writer| writer.record(descriptor, body).map(|_| ()))
    }

    /// A row whose table's key is not to be had: its place is kept, its bytes are not. The table is set aside there.
    fn record_unsealed(
        &mut self,
        descriptor: &RecordDescriptor,
        body: &[u8],
    ) -> Result<(), CaptureError> {
        let (table, sequence) = (TableId(descriptor.table.0), self.writer.next_sequence());
        self.streams.note_key(table, false);
        self.streams
            .end_streams(table, sequence, key_groups::REASON, &mut self.writer)?;
        let descriptor = RecordDescriptor {
            operation: Operation::Opaque as u8,
            flags: 0,
            key_group: KeyGroupId::DEFAULT,
            ..*descriptor
        };
        let body = key_groups::placeholder(body);
        self.retry(|writer| writer.record(&descriptor, &body).map(|_| ()))
    }

    /// Keys for tables that are captured already and were given one in the config since.
    fn give_keys(&mut self) -> Result<(), CaptureError> {
        let entries = match self.key_groups.missing() {
            Ok(entries) if entries.is_empty() => return Ok(()),
            Ok(entries) => entries,
            Err(text) => return Err(no_key(text)),
        };
        let records = entries
            .iter()
            .map(|(key, value)| (key.as_bytes(), Some(value.as_slice())));
        self.control_transaction(records, crate::status::now_us())
    }

    /// Writes a transaction of control records only: an empty step moves no position.
    fn control_transaction<'a>(
        &mut self,
        records: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        time_us: i64,
    ) -> Result<(), CaptureError> {
        let (mut header, mut trailer, mut step) = (Vec::new(), Vec::new(), Vec::new());
        change::TransactionHeader::default().encode(&mut header);
        change::TransactionTrailer::default().encode(&mut trailer);
        change::PositionStep::default().encode(&mut step);
        self.retry(|writer| {
            writer.begin(TransactionStart {
                header: &header,
                snapshot: false,
            })
        })?;
        for (key, value) in records {
            self.retry(|writer| writer.control(key, value).map(|_| ()))?;
        }
        let commit = journal::Commit {
            trailer: &trailer,
            position: &step,
            time_us,
            rows: 0,
        };
        self.retry(|writer| writer.commit(commit).map(|_| ()))
    }

    /// A schema that was just written: a key of its own for a table that is new, and what it means for streams.
    fn on_schema(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        // What does not decode is found by its readers.
        let Ok(schema) = TableSchema::decode(bytes) else {
            return Ok(());
        };
        self.give_key(&schema)?;
        let (writer, status) = (&mut self.writer, &self.status);
        Ok(self.streams.on_schema(schema, writer, status)?)
    }

    /// A key of its own for a table that is new.
    fn give_key(&mut self, schema: &TableSchema) -> Result<(), CaptureError> {
        if let Some((key, value)) = self.key_groups.assign(schema).map_err(no_key)? {
            self.retry(|writer| writer.control(key.as_bytes(), Some(&value)).map(|_| ()))?;
        }
        Ok(())
    }

    /// Runs one append; while the disk is full it waits and tries again.
    fn retry(
        &mut self,
        mut append: impl FnMut(&mut Writer) -> journal::Result<()>,
    ) -> Result<(), CaptureError> {
        loop {
            match append(&mut self.writer) {
                Ok(()) => return Ok(()),
                Err(error) => self.full_or_fail(error)?,
            }
        }
    }

    fn full_or_fail(&mut self, error: journal::Error) -> Result<(), CaptureError> {
        // A disk that is full ends the writer for good: trying again would wait for ever.
        let is_over = error.kind() != journal::ErrorKind::Full || self.journal.failed().is_some();
        if is_over {
            return Err(error.into());
        }
        if !self.wait_for_room(None) {
            return Err(match self.journal.failed() {
                Some(failed) => failed.into(),
                None => CaptureError::Stopped,
            });
        }
        // What made room may not be done yet.
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    }

    /// Keeps the full position as a control record, so that a restart has little to fold.
    fn keep_position(&mut self, source: &dyn Source) -> Result<(), CaptureError> {
        let due = match self.keep {
            KeepPosition::EverySecond => self.position_written.elapsed() >= POSITION_INTERVAL,
            KeepPosition::EveryBytes(bytes) => self.bytes_since_kept >= bytes,
        };
        if self.in_transaction || !due {
            return Ok(());
        }
        let Some(position) = source.position() else {
            return Ok(());
        };
        if self.position_kept.as_ref() == Some(&position) {
            return Ok(());
        }
        let mut value = Vec::new();
        position.encode(&mut value);
        let time_us = match self.keep {
            KeepPosition::EverySecond => crate::status::now_us(),
            KeepPosition::EveryBytes(_) => 0,
        };
        self.control_transaction([(POSITION_KEY, Some(value.as_slice()))], time_us)?;
        self.position_written = Instant::now();
        self.bytes_since_kept = 0;
        self.position_kept = Some(position);
        Ok(())
    }
}

/// Whether an error that ended a source says that a part of its log is gone: purged, or damaged for good.
pub(crate) fn is_lost(error: &SourceError) -> bool {
    matches!(error.kind, ErrorKind::Lost | ErrorKind::Corrupt)
}

/// Says what a lost position means, before everything is copied again.
pub(crate) fn tell_lost(lost: &SourceError, resumed: &Resumed) {
    let after = match &resumed.position {
        Some(position) => format!(" after {position}"),
        None => String::new(),
    };
    tracing::error!(
        "{lost}: the single changes{after} are lost; as --resnapshot-lost says, every captured table is \
         copied again from now on, and the stream goes on at the end of the server's log"
    );
}

/// A table that shall have a key is not captured without it.
fn no_key(text: String) -> CaptureError {
    CaptureError::Streams(stream::Error::new(
        stream::ErrorKind::KeyUnavailable,
        "make the key of a table",
        text,
    ))
}

/// The first sequence that a sink without a cursor reads.
pub fn start_sequence(journal: &Journal, now: bool) -> Sequence {
    if now { journal.end() } else { journal.first() }
}
