//! From the journal into one sink: one thread, one cursor, everything else retried or set aside.

mod heal;
mod set_aside;

use crate::event_reader::{EventReader, EventSink, OpaqueRecord, ReadError};
use crate::parking::Parking;
use crate::pattern::Patterns;
use crate::recover;
use crate::status::Shared;
use change::contract::{ErrorKind, Parked};
use change::event::{Ahead, Heartbeat};
use change::{CopyMark, CopyStage, Cursor, Event, Position, Sink, SinkError, TableSchema};
use journal::{Journal, OnFull, Sequence};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// Longest pause between two tries.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Target of what was parked because its log could not be decoded.
pub const AT_CAPTURE: &str = "capture";
/// Target of what was parked under a former name of its table.
const AT_RENAME: &str = "rename";
/// A sink that is behind flushes at this age: few, large batches.
const BATCH_AGE_MAX: Duration = Duration::from_millis(500);
/// With more records than this before the journal's end, a sink is behind.
const BEHIND_RECORDS: u64 = 20_000;

/// How a sink is driven.
#[derive(Debug, Clone)]
pub struct DeliveryConfig {
    /// The sink's name.
    pub name: String,
    /// Tables that it takes.
    pub tables: Patterns,
    /// What gives way when the journal is full.
    pub on_full: OnFull,
    /// Without a cursor, begin at the journal's end.
    pub start_now: bool,
    /// Flush at this age when nothing more is waiting.
    pub batch_delay: Duration,
    /// Flush at this size.
    pub batch_bytes: usize,
    /// See [`Parking`].
    pub parked_keys_max: usize,
    /// Accept a cursor of another journal: the sink goes on at this journal's start.
    pub accept_foreign_cursor: bool,
    /// Whether the sink has ended its job when its reader goes away (standard output).
    pub ends_with_reader: bool,
}

/// What a person asks of a sink.
#[derive(Debug)]
pub enum Command {
    /// Deliver nothing until resumed.
    Pause,
    /// Go on.
    Resume,
    /// Go on at another sequence.
    Rewind(Sequence),
    /// Read a parked table again, then let it go on.
    Heal(String),
}

/// A command and where its answer goes.
pub type Request = (Command, Sender<Result<String, String>>);

/// Why a pass of delivering ended.
#[derive(Debug)]
pub enum Stop {
    /// The sink.
    Sink(SinkError),
    /// The journal.
    Read(ReadError),
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Stop::Read(error)
    }
}

impl From<SinkError> for Stop {
    fn from(error: SinkError) -> Self {
        Stop::Sink(error)
    }
}

/// How a sink's thread ended.
pub type Outcome = Result<(), String>;

/// The thread of one sink.
pub struct Delivery {
    config: DeliveryConfig,
    journal: Journal,
    shared: Arc<Shared>,
    sink: Box<dyn Sink>,
    requests: Receiver<Request>,
    parking: Parking,
    cursor: Cursor,
    unflushed: Unflushed,
    paused: bool,
    /// After a lost journal: what the sink has already, by the source's position.
    has: Option<Position>,
    /// Where a person sent the sink while it could not run.
    forced_start: Option<Sequence>,
    /// The running transaction is in it.
    skipping: bool,
    marks: Marks,
    /// When the sink last wrote a row or a sign of life.
    last_sign: Instant,
}

/// Begin and commit around what a sink is given of a transaction, for sinks that want them.
struct Marks {
    wanted: bool,
    /// First sequence of the running transaction.
    begin: u64,
    /// Whether the sink was given its begin.
    is_begun: bool,
    /// Whether a transaction is running.
    is_open: bool,
}

/// What was written since the last flush.
struct Unflushed {
    /// First sequence after what was written.
    next: u64,
    position: Vec<u8>,
    position_dirty: bool,
    since: Option<Instant>,
    /// Since when that may have waited in the journal: it came while the last flush ran. None: it did not.
    waited: Option<Instant>,
    /// The same of what is not read yet.
    waiting: Option<Instant>,
    rows: u64,
    bytes: u64,
    oldest_us: Option<i64>,
}

impl Delivery {
    /// A delivery that is not open yet.
    pub fn new(
        config: DeliveryConfig,
        journal: Journal,
        shared: Arc<Shared>,
        sink: Box<dyn Sink>,
        requests: Receiver<Request>,
    ) -> Self {
        let parking = Parking::new(&[], config.parked_keys_max);
        let cursor = Cursor {
            journal: journal.id().0,
            sequence: 0,
            position: Vec::new(),
            parked: Vec::new(),
        };
        let unflushed = Unflushed {
            next: 0,
            position: Vec::new(),
            position_dirty: false,
            since: None,
            waited: None,
            waiting: None,
            rows: 0,
            bytes: 0,
            oldest_us: None,
        };
        Self {
            config,
            journal,
            shared,
            sink,
            requests,
            parking,
            cursor,
            unflushed,
            paused: false,
            has: None,
            forced_start: None,
            skipping: false,
            marks: Marks {
                wanted: false,
                begin: 0,
                is_begun: false,
                is_open: false,
            },
            last_sign: Instant::now(),
        }
    }

    /// Delivers until a stop is asked for and (within `drain`) everything captured is delivered.
    ///
    /// Errors: text of a fault that a retry does not cure; other sinks go on.
    pub fn run(mut self, drain: Duration) -> Outcome {
        let outcome = self.keep_running(drain);
        let state = if outcome.is_ok() { "ended" } else { "failed" };
        self.shared.on_sink(&self.config.name, |status| {
            status.state = state.to_owned();
            if let Err(error) = &outcome {
                status.error.clone_from(error);
            }
        });
        outcome
    }

    fn keep_running(&mut self, drain: Duration) -> Outcome {
        let mut backoff = Duration::from_millis(200);
        let mut failing_since: Option<Instant> = None;
        self.set_state("starting");
        loop {
            let before = self.cursor.sequence;
            let stop = match self.open_and_deliver(drain) {
                Ok(()) => return Ok(()),
                Err(stop) => stop,
            };
            if self.cursor.sequence > before {
                (backoff, failing_since) = (Duration::from_millis(200), None);
            }
            let error = match stop {
                Stop::Read(error) => return Err(error.to_string()),
                Stop::Sink(error) => error,
            };
            if self.park(&error) {
                // A restart knows what is parked already; a stop must not wait for the last refusal.
                if self.shared.is_stopping()
                    && failing_since.get_or_insert_with(Instant::now).elapsed() > drain
                {
                    return Err(error.to_string());
                }
                continue;
            }
            if error.kind == ErrorKind::Fenced && self.config.ends_with_reader {
                self.shared.stop();
                return Ok(());
            }
            if error.kind == ErrorKind::Lost && self.wait_for_person(&error) {
                continue;
            }
            // A refusal of what is set aside already is tried again, slowly: nothing else is known to help.
            if error.kind != ErrorKind::Unavailable && error.rejection.is_none() {
                return Err(error.to_string());
            }
            let since = *failing_since.get_or_insert_with(Instant::now);
            tracing::warn!(
                sink = self.config.name,
                "{error}; trying again in {backoff:?}"
            );
            self.shared.on_sink(&self.config.name, |status| {
                status.state = "retrying".into();
                status.error = error.to_string();
            });
            if self.shared.is_stopping() && since.elapsed() > drain {
                return Err(error.to_string());
            }
            self.wait_backoff(backoff);
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    fn wait_backoff(&mut self, backoff: Duration) {
        if self.shared.is_stopping() {
            std::thread::sleep(backoff.min(Duration::from_millis(500)));
        } else {
            self.shared.sleep(backoff);
        }
        while let Ok((_, answer)) = self.requests.try_recv() {
            let _ = answer.send(Err("the sink is away just now; see `status`".into()));
        }
    }

    /// What was lost is a person's decision: the sink stands still until it is rewound or resumed;
    /// false when a stop is asked for.
    fn wait_for_person(&mut self, error: &SinkError) -> bool {
        tracing::error!(sink = self.config.name, "{error}");
        self.shared.on_sink(&self.config.name, |status| {
            status.state = "failed".into();
            status.error = error.to_string();
        });
        while !self.shared.is_stopping() {
            match self.requests.recv_timeout(Duration::from_millis(100)) {
                Ok((Command::Rewind(to), answer)) => {
                    self.forced_start = Some(to);
                    let _ = answer.send(Ok(format!("{} goes on at {to}", self.config.name)));
                    return true;
                }
                Ok((Command::Resume, answer)) => {
                    let _ = answer.send(Ok(format!("{} tries again", self.config.name)));
                    return true;
                }
                Ok((_, answer)) => {
                    let _ = answer.send(Err(format!("{} has failed: {error}", self.config.name)));
                }
                Err(_) => {}
            }
        }
        false
    }

    fn set_state(&self, state: &str) {
        self.shared
            .on_sink(&self.config.name, |status| status.state = state.to_owned());
    }

    fn open_and_deliver(&mut self, drain: Duration) -> Result<(), Stop> {
        let kept = std::mem::take(&mut self.parking);
        let found = self.sink.open()?;
        let found = self.accept(found)?;
        let from = match &found {
            Some(cursor) => Sequence(cursor.sequence),
            None => crate::capture::start_sequence(&self.journal, self.config.start_now),
        };
        let mut parking = Parking::new(
            found.as_ref().map_or(&[], |cursor| &cursor.parked),
            self.config.parked_keys_max,
        );
        for parked in kept.to_cursor() {
            parking.add(&parked);
        }
        self.parking = parking;
        let from = self.forced_start.take().unwrap_or(from);
        let from = self.checked_start(from)?;
        self.cursor.sequence = from.0;
        if let Some(cursor) = found {
            self.cursor.position = cursor.position;
        }
        self.reset_unflushed();
        self.marks = Marks {
            wanted: self.sink.wants_marks(),
            begin: from.0,
            // A cursor within a transaction stands behind its begin: see `flush`.
            is_begun: true,
            is_open: false,
        };
        self.hold()?;
        self.report();
        self.shared.on_sink(&self.config.name, |status| {
            status.state = if self.paused { "paused" } else { "running" }.into();
            status.error.clear();
        });
        self.deliver(drain)
    }

    /// A cursor must count in this journal.
    fn accept(&mut self, found: Option<Cursor>) -> Result<Option<Cursor>, SinkError> {
        let Some(cursor) = found else { return Ok(None) };
        if cursor.journal == self.journal.id().0 {
            return Ok(Some(cursor));
        }
        if self.config.accept_foreign_cursor {
            self.has = Position::decode(&cursor.position).ok();
            return Ok(None);
        }
        Err(SinkError::new(
            ErrorKind::Invalid,
            "open",
            "the sink's cursor counts in another journal",
        )
        .at(format!("sink {}", self.config.name))
        .hint(
            "put the old journal directory back, or start once with `run --recover`: what the sink \
             already has is then skipped as far as the source's positions tell",
        ))
    }

    /// What has aged out cannot be delivered: said, never skipped.
    fn checked_start(&self, from: Sequence) -> Result<Sequence, SinkError> {
        let (first, end) = (self.journal.first(), self.journal.end());
        if from > end {
            let detail = format!("the cursor {from} lies past the journal's end {end}");
            return Err(SinkError::new(ErrorKind::Corrupt, "open", detail).hint(
                "the journal lost its end: restore its directory, or give the sink a fresh cursor \
                       (kafka: another cursor_topic; file: move the file and its .cursor away)",
            ));
        }
        if from < first {
            let detail = format!("the journal no longer holds {from}; it begins at {first}");
            return Err(SinkError::new(ErrorKind::Lost, "open", detail).hint(
                "the sink was away longer than journal.retention: `headwater rewind CONFIG SINK --to \
                 earliest` goes on with what is left, `headwater heal CONFIG TABLE --resnapshot` \
                 copies a table again",
            ));
        }
        Ok(from)
    }

    fn hold(&self) -> Result<(), SinkError> {
        let cursor = journal::Cursor {
            sequence: Sequence(self.cursor.sequence),
            on_full: self.config.on_full,
        };
        self.journal
            .set_cursor(&self.config.name, cursor)
            .map_err(|error| {
                // A disk that is full or away just now is no reason to end.
                let kind = match error.kind() {
                    journal::ErrorKind::Unavailable | journal::ErrorKind::Full => {
                        ErrorKind::Unavailable
                    }
                    _ => ErrorKind::Internal,
                };
                SinkError::new(kind, "hold journal", error.to_string())
            })
    }

    fn reset_unflushed(&mut self) {
        self.unflushed.next = self.cursor.sequence;
        self.unflushed.since = None;
        self.unflushed.waited = None;
        self.unflushed.waiting = None;
        self.unflushed.rows = 0;
        self.unflushed.bytes = 0;
        self.unflushed.oldest_us = None;
    }

    fn deliver(&mut self, drain: Duration) -> Result<(), Stop> {
        let from = Sequence(self.cursor.sequence);
        let mut reader = EventReader::open(&self.journal, from, None)?;
        reader.schemas().for_each(|schema| self.sink.schema(schema));
        let mut drain_until: Option<Instant> = None;
        loop {
            if let Some(next) = self.answer_requests(&mut reader)? {
                reader = next;
            }
            if let Some(error) = self.journal.failed() {
                // What is in hand is still delivered; that its place cannot be held any more is no fault
                // of the sink's.
                let _ = self.flush();
                return Err(Stop::Read(error.into()));
            }
            if self.paused {
                if self.shared.is_stopping() {
                    return Ok(());
                }
                self.shared.sleep(Duration::from_millis(50));
                continue;
            }
            let more = reader.read_frame(self)?;
            self.unflushed.next = self.unflushed.next.max(reader.next_sequence());
            if !more && self.unflushed.since.is_none() {
                self.unflushed.waiting = None;
            }
            self.flush_if_due(more)?;
            self.report();
            if more {
                continue;
            }
            self.beat(&reader)?;
            self.sink.idle()?;
            let ended = self.shared.source_ended.load(Ordering::SeqCst);
            if ended || self.shared.is_stopping() {
                let until = *drain_until.get_or_insert_with(|| Instant::now() + drain);
                // After capture has closed the writer, the end is the end.
                let all = ended && self.unflushed.next >= self.journal.end().0;
                if all || Instant::now() > until {
                    self.flush()?;
                    self.report();
                    return Ok(());
                }
            }
            self.wait_for_more();
        }
    }

    /// A sign of life, when everything was read and there was nothing to say for a while.
    fn beat(&mut self, reader: &EventReader) -> Result<(), Stop> {
        let Some(period) = self.sink.heartbeat_period() else {
            return Ok(());
        };
        if self.last_sign.elapsed() < period || self.unflushed.since.is_some() {
            return Ok(());
        }
        let source = self.shared.source();
        if source.phase != "streaming" || source.lag_seconds != Some(0.0) {
            return Ok(());
        }
        let position = reader.position();
        self.sink.heartbeat(&Heartbeat {
            sequence: self.journal.end().0,
            time_us: crate::status::now_us() as u64,
            file: &position.file,
            offset: position.offset,
        })?;
        self.last_sign = Instant::now();
        self.unflushed.since = Some(self.last_sign);
        Ok(())
    }

    fn wait_for_more(&self) {
        let wait = match self.unflushed.waited.or(self.unflushed.since) {
            Some(since) => self.config.batch_delay.saturating_sub(since.elapsed()),
            None => Duration::from_millis(50),
        };
        let past = Sequence(self.unflushed.next);
        self.journal.wait(
            past,
            wait.clamp(Duration::from_millis(1), Duration::from_millis(50)),
        );
    }

    fn flush_if_due(&mut self, more: bool) -> Result<(), Stop> {
        let Some(since) = self.unflushed.since else {
            // Nothing for this sink: its place still moves on, now and then, so that it holds nothing.
            if !more && self.unflushed.next > self.cursor.sequence + 100_000 {
                self.flush()?;
            }
            return Ok(());
        };
        let left = self.journal.end().0.saturating_sub(self.unflushed.next);
        let is_due = match more {
            false => {
                let waited = self.unflushed.waited.unwrap_or(since);
                waited.elapsed() >= self.config.batch_delay
            }
            // Under a steady load there is always a little more: it must not make what is here wait.
            true if left <= BEHIND_RECORDS => since.elapsed() >= self.config.batch_delay,
            true => since.elapsed() >= BATCH_AGE_MAX.max(self.config.batch_delay),
        };
        if is_due || self.is_full() {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn is_full(&self) -> bool {
        self.sink.pending_bytes() >= self.config.batch_bytes || self.sink.is_full()
    }

    fn flush(&mut self) -> Result<(), Stop> {
        if self.unflushed.next == self.cursor.sequence && self.unflushed.since.is_none() {
            return Ok(());
        }
        let mut cursor = self.cursor.clone();
        cursor.sequence = self.unflushed.next;
        if self.marks.wanted && self.marks.is_open && !self.marks.is_begun {
            // After a restart here its begin would be missing.
            cursor.sequence = self.marks.begin.max(self.cursor.sequence);
        }
        if let Some(held) = self.sink.held_from() {
            cursor.sequence = cursor.sequence.min(held).max(self.cursor.sequence);
        }
        cursor.parked = self.parking.to_cursor();
        if self.unflushed.position_dirty {
            cursor.position.clone_from(&self.unflushed.position);
        }
        let bytes = self.sink.pending_bytes() as u64;
        let since = Instant::now();
        if let Err(error) = self.sink.flush(&cursor) {
            // What was written is taken back as far as the target can; the open that follows does the
            // rest.
            let _ = self.sink.abort();
            return Err(error.into());
        }
        self.cursor = cursor;
        self.unflushed.position_dirty = false;
        let rows = self.unflushed.rows;
        tracing::debug!(sink = self.config.name, rows, took = ?since.elapsed(), "flushed");
        self.shared.on_sink(&self.config.name, |status| {
            status.rows += rows;
            status.bytes += bytes;
            status.flushes += 1;
        });
        let next = self.unflushed.next;
        self.reset_unflushed();
        self.unflushed.next = next.max(self.cursor.sequence);
        if self.journal.end().0 > self.unflushed.next {
            self.unflushed.waiting = Some(since);
        }
        self.hold()?;
        Ok(())
    }

    fn report(&self) {
        let oldest = self.unflushed.oldest_us;
        let not_carried = self.sink.not_carried();
        let details = self.sink.details();
        self.shared.on_sink(&self.config.name, |status| {
            status.sequence = Sequence(self.cursor.sequence).to_string();
            // With nothing in hand, what was passed over is not behind.
            status.at = match self.unflushed.since {
                Some(_) => self.cursor.sequence,
                None => self.unflushed.next,
            };
            status.oldest_us = oldest;
            status.not_carried = not_carried;
            status.details = details;
            if !self.parking.is_empty() || !status.parked.is_empty() {
                status.parked = self.parking.to_status();
            }
        });
    }

    /// Answers what people asked; a new reader when the place changed.
    fn answer_requests(&mut self, reader: &mut EventReader) -> Result<Option<EventReader>, Stop> {
        loop {
            let (command, answer) = match self.requests.try_recv() {
                Ok(request) => request,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(None),
            };
            match command {
                Command::Pause => {
                    self.flush()?;
                    self.paused = true;
                    self.set_state("paused");
                    let _ = answer.send(Ok(format!("{} is paused", self.config.name)));
                }
                Command::Resume => {
                    self.paused = false;
                    self.set_state("running");
                    let _ = answer.send(Ok(format!("{} goes on", self.config.name)));
                }
                Command::Rewind(to) => {
                    let (moved, text) = self.rewind(to)?;
                    let _ = answer.send(text);
                    if moved {
                        let from = Sequence(self.cursor.sequence);
                        return Ok(Some(EventReader::open(&self.journal, from, None)?));
                    }
                }
                Command::Heal(table) => {
                    self.unflushed.next = self.unflushed.next.max(reader.next_sequence());
                    let text = self.heal(&table)?;
                    let _ = answer.send(text);
                }
            }
        }
    }

    fn rewind(&mut self, to: Sequence) -> Result<(bool, Result<String, String>), Stop> {
        if let Some(reason) = self.sink.refuses_rewind() {
            return Ok((false, Err(format!("{}: {reason}", self.config.name))));
        }
        self.flush()?;
        let (first, end) = (self.journal.first(), self.journal.end());
        if to < first || to > end {
            let text = format!("{to} is not in the journal, which holds {first} to {end}");
            return Ok((false, Err(text)));
        }
        self.cursor.sequence = to.0;
        self.reset_unflushed();
        let cursor = Cursor {
            parked: self.parking.to_cursor(),
            ..self.cursor.clone()
        };
        self.sink.flush(&cursor)?;
        self.hold()?;
        Ok((true, Ok(format!("{} goes on at {to}", self.config.name))))
    }

    fn give(&mut self, event: &Event<'_>) -> Result<(), Stop> {
        if self.marks.wanted && !self.marks.is_begun {
            let header = match event {
                Event::Row(row) => row.header,
                Event::Ddl(change) => change.header,
                Event::Begin { header, .. } | Event::Commit { header, .. } => header,
            };
            self.sink.write(&Event::Begin {
                sequence: self.marks.begin,
                header,
            })?;
            self.marks.is_begun = true;
        }
        if self.sink.is_barrier(event) {
            self.flush()?;
        }
        let done = self.sink.write(event);
        if self.unflushed.since.is_none() {
            self.unflushed.waited = self.unflushed.waiting;
        }
        // What was set aside travels with the cursor: a flush has to come.
        let now = *self.unflushed.since.get_or_insert_with(Instant::now);
        self.last_sign = now;
        if let Err(error) = done {
            if self.sink.refuses_alone(event) && self.park(&error) {
                self.spread(event);
                return Ok(());
            }
            return Err(error.into());
        }
        if let Event::Row(row) = event {
            self.unflushed.rows += 1;
            let time = row.header.best_time_us() as i64;
            self.unflushed.oldest_us.get_or_insert(time);
        }
        Ok(())
    }
}

impl EventSink for Delivery {
    type Error = Stop;

    fn event(&mut self, event: &Event<'_>, next: u64, position: &Position) -> Result<(), Stop> {
        match event {
            Event::Begin { sequence, header } => {
                let covers = |has: &Position| !header.snapshot && recover::covers(has, header);
                self.skipping = self.has.as_ref().is_some_and(covers);
                self.marks.begin = *sequence;
                self.marks.is_begun = false;
                self.marks.is_open = true;
                return Ok(());
            }
            Event::Commit { .. } => {
                self.unflushed.position.clear();
                position.encode(&mut self.unflushed.position);
                self.unflushed.position_dirty = true;
                if self.marks.wanted && self.marks.is_begun {
                    self.sink.write(event)?;
                    self.unflushed.since.get_or_insert_with(Instant::now);
                }
                self.marks.is_open = false;
            }
            _ => {
                self.unpark_copied(event);
                if self.set_aside_meets(event)? {
                    // Given, and what was set aside followed it.
                } else if self.is_held(event) {
                    self.spread(event);
                } else if !self.skipping {
                    self.give(event)?;
                }
            }
        }
        self.unflushed.next = next;
        if self.is_full() { self.flush() } else { Ok(()) }
    }

    fn opaque(&mut self, record: &OpaqueRecord<'_>, next: u64) -> Result<(), Stop> {
        if let Some(table) = record.table
            && self.config.tables.matches(&table.database, &table.name)
        {
            let name = format!("{}.{}", table.database, table.name);
            self.parking.add(&Parked {
                table: name,
                key_token: None,
                from_sequence: record.sequence,
                target: AT_CAPTURE.to_owned(),
                reason: record.reason.to_owned(),
            });
        }
        self.unflushed.next = next;
        Ok(())
    }

    fn taken_up(&mut self, table: &str, next: u64) {
        if self.parking.is_of(table, AT_CAPTURE) {
            self.parking.remove(table);
        }
        self.unflushed.next = next;
    }

    fn looks_ahead(&self) -> bool {
        self.sink.looks_ahead()
    }

    fn count(&self, event: &Event<'_>) -> u64 {
        match self.is_held(event) {
            true => 0,
            false => self.sink.operations(event),
        }
    }

    fn transaction(&mut self, ahead: &Ahead) {
        self.sink.transaction(ahead);
    }

    fn schema(&mut self, schema: &Arc<TableSchema>) {
        self.sink.schema(schema);
    }

    fn copy(&mut self, mark: &CopyMark<'_>, next: u64) -> Result<(), Stop> {
        let (database, table) = (&mark.table.database, &mark.table.name);
        if !self.config.tables.matches(database, table) {
            return Ok(());
        }
        let name = format!("{database}.{table}");
        let refused_since = self.parking.whole_table_since(&name);
        match mark.stage {
            CopyStage::Done if refused_since.is_some() => return Ok(()),
            // The mark comes again after a restart; what it was refused for stays.
            CopyStage::Begun if refused_since.is_some_and(|since| since >= mark.sequence) => {
                return Ok(());
            }
            _ => {}
        }
        let heals = self.sink.copy(mark)?;
        if heals && mark.stage == CopyStage::Begun {
            self.parking.forget_before(&name, mark.sequence);
        }
        self.unflushed.since.get_or_insert_with(Instant::now);
        self.unflushed.next = next;
        Ok(())
    }
}
