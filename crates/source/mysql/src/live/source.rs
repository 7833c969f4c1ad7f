//! The live source.

use super::head::HeadWatch;
use super::lost::Found;
use super::oracle::{LiveOracle, show_create};
use super::server::{self, Server, log_files};
use crate::capture::{Capture, CaptureOptions, Resume};
use crate::config::{Endpoint, MysqlConfig, SnapshotMode, StartConfig, column_rules, selection};
use crate::snapshot::Snapshot;
use crate::wire::{Connection, Dump, DumpStart, WireFailure};
use change::contract::{ErrorKind, SourceStatus};
use change::position::{Gtids, file_number};
use change::{Batch, Position, Progress, Source, SourceError, TransactionHeader};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A batch is handed out at this many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Reads below this many bytes are spaced, so that a slow stream costs few wake-ups.
const SMALL_READ_BYTES: usize = 16 << 10;
/// The space between small reads.
const SMALL_READ_PAUSE: Duration = Duration::from_millis(1);
/// A stream that brings more than this in [`RATE_PERIOD`] (16 MB/s) is never made to wait.
const FAST_BYTES: u64 = 64 << 10;
/// How long a stream's rate is measured.
const RATE_PERIOD: Duration = Duration::from_millis(4);
/// A position is emitted at least this often when nothing captured passes.
const POSITION_PERIOD: Duration = Duration::from_secs(1);
/// A position is emitted after this many bytes of the source's log.
const POSITION_BYTES: u64 = 16 << 20;
/// The longest pause between two attempts to connect.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The range of numbers given out by default.
const SERVER_ID_BASE: u32 = 3_000_000_000;

/// A MySQL or MariaDB server's changes.
#[derive(Debug)]
pub struct MysqlSource {
    config: MysqlConfig,
    endpoint: Endpoint,
    server: Server,
    server_id: u32,
    capture: Capture,
    dump: Option<Dump>,
    snapshot: Option<Snapshot>,
    head: HeadWatch,
    /// The journal lacks who the server is, or where a fresh journal starts.
    unannounced: bool,
    /// What became of the tables while the log was lost; said once.
    found: Option<Found>,
    retry: Retry,
    bytes_before: u64,
    last_position: (Instant, u64),
    last_read: Instant,
    /// When the rate was last measured, and the bytes received until then.
    rate_since: (Instant, u64),
    is_fast: bool,
    damaged_at: Option<(String, u64)>,
    ended: bool,
}

#[derive(Debug)]
struct Retry {
    attempt: u32,
    not_before: Instant,
    trouble: String,
}

impl Retry {
    fn failed(&mut self, error: &SourceError) {
        self.attempt = self.attempt.saturating_add(1);
        let base = Duration::from_millis(100) * 2u32.saturating_pow(self.attempt.min(9));
        let mut byte = [0u8; 1];
        // Without random numbers every client waits alike, which does no harm.
        let _ = aws_lc_rs::rand::fill(&mut byte);
        let jitter = base.mul_f64(f64::from(byte[0]) / 512.0);
        self.not_before = Instant::now() + (base / 2 + jitter).min(BACKOFF_MAX);
        self.trouble = error.to_string();
        tracing::warn!(%error, attempt = self.attempt, "the connection failed, trying again");
    }
}

impl MysqlSource {
    /// Connects, finds out where to start and what the tables look like.
    ///
    /// Promises: with [`Resume::anew`] it begins at the log's end as with a fresh journal, and says in
    /// one transaction where that is, what the tables look like now, and that all are copied again.
    /// Errors: `Invalid` for a bad config or a missing grant, `Lost` when the position is gone or
    /// another server answers, `Unavailable` when no server answers.
    pub fn open(config: MysqlConfig, resume: Resume) -> Result<Self, SourceError> {
        let endpoint = Endpoint::parse(&config.url)?;
        // What is wrong in the config is told before anything is connected.
        selection(&config.tables)?;
        let place = format!("{}:{}", endpoint.host, endpoint.port);
        let wire = |operation: &'static str| {
            let place = place.clone();
            move |failure: WireFailure| failure.into_source(operation, &place)
        };
        let mut connection =
            Connection::open(&endpoint, &config.tls).map_err(wire(change::contract::CONNECT))?;
        let server = Server::read(&mut connection).map_err(wire("ask the server"))?;
        must_log_rows(&mut connection, &server).map_err(wire("ask the server"))??;
        let kept_position = resume.full_position().filter(|_| !resume.anew);
        // A place that the config names is for the first start.
        let start = config.start.as_ref().filter(|_| !resume.anew);
        let position = match kept_position {
            Some(position) => position,
            None => first_position(start, &server, &mut connection)?,
        };
        let starts_by_gtids = resume.is_fresh()
            && start.is_none()
            && matches!(&position.gtids, Gtids::Mysql(set) if !set.is_empty());
        let options = CaptureOptions {
            selection: selection(&config.tables)?.ignoring_case(server.lower_case_table_names > 0),
            rules: column_rules(&config.columns, &config.mask_key),
            catalog: server.catalog_options(),
            server_id: server.server_id,
            domain: server.mariadb.then_some(server.domain),
            spool: resume.spool.clone(),
            ..CaptureOptions::default()
        };
        let mut capture = Capture::new(options, position);
        capture.restore(&resume)?;
        if starts_by_gtids {
            // MySQL reads the set before the place: a transaction between the two would be in neither.
            capture.forget_place();
        }
        capture.oracle = Some(Box::new(LiveOracle::new(
            endpoint.clone(),
            config.tls.clone(),
        )));
        let kept = resume.value(b"source/identity").map(<[u8]>::to_vec);
        let is_same = kept.as_deref() == Some(server.identity().as_bytes());
        if kept.is_some() && !is_same && !resume.anew {
            refuse_stranger(&server, capture.position(), &mut connection, &kept)?;
            capture.forget_place();
        }
        let found = resume
            .anew
            .then(|| Found::read(&mut capture, &mut connection));
        let found = found.transpose().map_err(wire("read the tables"))?;
        seed(&mut capture, &mut connection, resume.is_fresh()).map_err(wire("read the tables"))?;
        must_know_columns(&capture, resume.position.is_none())?;
        let snapshot = match config.snapshot {
            SnapshotMode::Never => None,
            _ => Snapshot::prepare(
                (&config, &endpoint, &server),
                &mut capture,
                &resume,
                &mut connection,
            )
            .map_err(wire("prepare the copy"))?,
        };
        let server_id = match config.server_id {
            Some(server_id) => server_id,
            None => random_server_id(),
        };
        let head = HeadWatch::start(endpoint.clone(), config.tls.clone(), server.clone());
        let now = Instant::now();
        Ok(Self {
            config,
            endpoint,
            server,
            server_id,
            capture,
            dump: None,
            snapshot,
            head,
            unannounced: !is_same || resume.anew,
            found,
            retry: Retry {
                attempt: 0,
                not_before: now,
                trouble: String::new(),
            },
            bytes_before: 0,
            last_position: (now, 0),
            last_read: now,
            rate_since: (now, 0),
            is_fast: false,
            damaged_at: None,
            ended: false,
        })
    }

    fn place(&self) -> String {
        format!("{}:{}", self.endpoint.host, self.endpoint.port)
    }

    fn bytes_received(&self) -> u64 {
        self.bytes_before + self.dump.as_ref().map_or(0, Dump::bytes_received)
    }

    /// Connects and starts the stream at the capture's position.
    fn connect(&mut self) -> Result<(), SourceError> {
        let place = self.place();
        let mut connection = Connection::open(&self.endpoint, &self.config.tls)
            .map_err(|failure| failure.into_source(change::contract::CONNECT, &place))?;
        let server = Server::read(&mut connection)
            .map_err(|failure| failure.into_source("ask the server", &place))?;
        if server.identity() != self.server.identity() {
            let kept = Some(self.server.identity().into_bytes());
            refuse_stranger(&server, self.capture.position(), &mut connection, &kept)?;
            self.unannounced = true;
            self.capture.forget_place();
            self.head = HeadWatch::start(
                self.endpoint.clone(),
                self.config.tls.clone(),
                server.clone(),
            );
            if let Some(snapshot) = &mut self.snapshot {
                snapshot.another_server(&server);
            }
        }
        // Also on the same server settings may be others than before: its number, its row images.
        self.capture
            .set_server(server.server_id, server.mariadb.then_some(server.domain));
        self.server = server;
        let start = self.dump_start(&mut connection)?;
        let heartbeat =
            Duration::from_secs(u64::from(self.config.heartbeat_seconds.clamp(1, 3600)));
        let dump = Dump::start(connection, self.server_id, heartbeat, &start)
            .map_err(|failure| failure.into_source("start reading the log", &place))?;
        self.capture.start_stream(dump.checksum);
        self.dump = Some(dump);
        Ok(())
    }

    /// Where to start: at the place where one is known (exact), else after the GTIDs.
    fn dump_start(&self, connection: &mut Connection) -> Result<DumpStart, SourceError> {
        let position = self.capture.position();
        let place = self.place();
        let ask = |failure: WireFailure| failure.into_source("ask the server", &place);
        if let Gtids::Mysql(set) = &position.gtids {
            let executed = self
                .server
                .gtid_set(connection, "gtid_executed")
                .map_err(ask)?;
            phantom(set, &executed)?;
        }
        let by_place = !position.file.is_empty() && u32::try_from(position.offset).is_ok();
        if by_place {
            match log_files(connection) {
                Ok(files) => {
                    if is_kept(position, &files)? {
                        return Ok(DumpStart::Place {
                            file: position.file.clone(),
                            offset: position.offset.max(4),
                        });
                    }
                }
                // Without the privilege to list them, the server says itself what it lacks.
                Err(WireFailure::Server { .. }) => {
                    return Ok(DumpStart::Place {
                        file: position.file.clone(),
                        offset: position.offset.max(4),
                    });
                }
                Err(other) => return Err(ask(other)),
            }
        }
        match &position.gtids {
            Gtids::Mysql(set) => {
                let purged = self
                    .server
                    .gtid_set(connection, "gtid_purged")
                    .map_err(ask)?;
                let missing = purged.subtract(set);
                if !missing.is_empty() {
                    return Err(lost(position, &format!("transactions {missing}")));
                }
                Ok(DumpStart::Mysql(set.clone()))
            }
            Gtids::Mariadb(set) => Ok(DumpStart::Mariadb(set.to_string())),
            Gtids::None => Err(lost(position, &format!("file {}", position.file))),
        }
    }

    /// What a fresh journal has to know: who the server is, where the stream starts, the tables.
    fn announce(&mut self, batch: &mut Batch) {
        self.unannounced = false;
        let position = self.capture.position().clone();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let header = TransactionHeader {
            server_id: self.server.server_id,
            file: position.file.clone(),
            begin_offset: position.offset,
            time_s: u32::try_from(now.as_secs()).unwrap_or(u32::MAX),
            ..TransactionHeader::default()
        };
        batch.begin(&header);
        batch.control(b"source/identity", Some(self.server.identity().as_bytes()));
        let mut value = Vec::new();
        position.encode(&mut value);
        batch.control(b"source/position", Some(&value));
        let mut schemas: Vec<_> = self.capture.catalog().iter().cloned().collect();
        schemas.sort_by_key(|schema| schema.table);
        for schema in schemas {
            let is_captured = self
                .capture
                .options()
                .selection
                .matches(&schema.database, &schema.name);
            if is_captured {
                self.capture.announce_schema(&schema, batch);
            }
        }
        if let Some(found) = self.found.take() {
            found.announce(&mut self.capture, batch);
        }
        if let Some(snapshot) = &self.snapshot {
            snapshot.announce(batch);
        }
        let trailer = change::TransactionTrailer {
            step: change::PositionStep {
                file: position.file,
                offset: position.offset,
                id: None,
            },
            time_s: header.time_s,
            ..change::TransactionTrailer::default()
        };
        batch.commit(&trailer, header.best_time_us());
    }

    /// Decodes what has been received; ends when the batch is full or nothing is left.
    fn drain(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        let Some(dump) = &mut self.dump else {
            return Ok(());
        };
        while batch.byte_count() < BATCH_BYTES {
            let event = match dump.buffered() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(failure) => {
                    let place = format!("{}:{}", self.endpoint.host, self.endpoint.port);
                    return Err(failure.into_source("read the log", &place));
                }
            };
            self.capture.event(event, batch)?;
            if let Some(snapshot) = &mut self.snapshot
                && self.capture.at_boundary()
            {
                snapshot.boundary(&mut self.capture, batch)?;
            }
        }
        Ok(())
    }

    fn tick_position(&mut self, batch: &mut Batch) {
        let bytes = self.bytes_received();
        let is_due = self.last_position.0.elapsed() >= POSITION_PERIOD
            || bytes - self.last_position.1 >= POSITION_BYTES;
        if is_due && self.capture.at_boundary() {
            self.last_position = (Instant::now(), bytes);
            self.capture.emit_position(batch);
        }
    }

    /// A fault: what can be cured is left to the next poll.
    fn fault(&mut self, error: SourceError, batch: &mut Batch) -> Result<(), SourceError> {
        let here = self.capture.read_offset();
        let here = (here.0.to_owned(), here.1);
        self.bytes_before = self.bytes_received();
        self.dump = None;
        self.capture.break_stream(batch);
        let is_curable = match error.kind {
            ErrorKind::Unavailable => true,
            // Damage on the way is gone at the second reading; damage in the file is not.
            ErrorKind::Corrupt => self.damaged_at.replace(here.clone()) != Some(here),
            _ => false,
        };
        if !is_curable {
            return Err(error);
        }
        self.retry.failed(&error);
        Ok(())
    }

    /// Connects if it is time; `false` while it is not.
    fn is_connected(&mut self, batch: &mut Batch, wait: Duration) -> Result<bool, SourceError> {
        if self.dump.is_some() {
            return Ok(true);
        }
        let left = self
            .retry
            .not_before
            .saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left.min(wait));
            if left > wait {
                return Ok(false);
            }
        }
        if let Err(error) = self.connect() {
            self.fault(error, batch)?;
            return Ok(false);
        }
        Ok(true)
    }

    fn receive(&mut self, wait: Duration) -> Result<bool, SourceError> {
        let place = self.place();
        let Some(dump) = &mut self.dump else {
            return Ok(false);
        };
        let since = self.last_read.elapsed();
        let is_small = dump.last_read_bytes() < SMALL_READ_BYTES;
        if !self.is_fast && is_small && since < SMALL_READ_PAUSE {
            std::thread::sleep(SMALL_READ_PAUSE - since);
        }
        let came = dump
            .fill(wait)
            .map_err(|failure| failure.into_source("read the log", &place))?;
        let now = Instant::now();
        self.last_read = now;
        let bytes = dump.bytes_received();
        let period = now.duration_since(self.rate_since.0);
        if period >= RATE_PERIOD {
            let here = bytes.saturating_sub(self.rate_since.1);
            self.is_fast = u128::from(here) * RATE_PERIOD.as_nanos()
                >= u128::from(FAST_BYTES) * period.as_nanos();
            self.rate_since = (now, bytes);
        }
        if came {
            self.retry.attempt = 0;
        }
        Ok(came)
    }

    fn step(&mut self, batch: &mut Batch, wait: Duration) -> Result<Progress, SourceError> {
        self.drain(batch)?;
        self.capture.park_unreadable(batch);
        if let Some(snapshot) = &mut self.snapshot
            && self.capture.at_boundary()
        {
            snapshot.boundary(&mut self.capture, batch)?;
            if snapshot.is_complete() && self.config.snapshot == SnapshotMode::Only {
                self.ended = true;
                return Ok(Progress::Data);
            }
        }
        self.tick_position(batch);
        if !batch.is_empty() {
            return Ok(Progress::Data);
        }
        // While a copy is under way its workers' answers are waited for too.
        let is_copying = self.snapshot.as_ref().is_some_and(|s| !s.is_complete());
        let wait = if is_copying {
            wait.min(Duration::from_millis(5))
        } else {
            wait.min(POSITION_PERIOD)
        };
        match self.receive(wait)? {
            true => Ok(Progress::Data),
            false => Ok(Progress::Idle),
        }
    }
}

impl Source for MysqlSource {
    fn poll(&mut self, batch: &mut Batch, wait: Duration) -> Result<Progress, SourceError> {
        let deadline = Instant::now() + wait;
        loop {
            if self.ended {
                return Ok(Progress::End);
            }
            if self.unannounced {
                self.announce(batch);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_connected(batch, left)?
                && let Err(error) = self.step(batch, left)
            {
                self.fault(error, batch)?;
            }
            if !batch.is_empty() {
                return Ok(Progress::Data);
            }
            if Instant::now() >= deadline {
                return Ok(Progress::Idle);
            }
        }
    }

    fn status(&mut self) -> SourceStatus {
        let head = self.head.head();
        let (file, offset) = self.capture.read_offset();
        let lag_bytes = head.bytes_after(file, offset);
        let lag_seconds = match lag_bytes {
            Some(0) => Some(0.0),
            // Nobody knows how far the log has gone since the server was last heard.
            None if head.file.is_empty() => Some(self.last_read.elapsed().as_secs_f64()),
            _ => self.capture.last_time().map(|time| {
                let now = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                (now.as_secs_f64() - f64::from(time)).max(0.0)
            }),
        };
        let is_copying = self.snapshot.as_ref().is_some_and(|s| !s.is_complete());
        let phase = match (&self.dump, is_copying) {
            (None, _) if self.retry.attempt > 0 => "retrying",
            (None, _) => "connecting",
            (Some(_), true) => "snapshot",
            (Some(_), false) => "streaming",
        };
        let trouble = match self.retry.attempt {
            0 => self.capture.trouble().to_owned(),
            _ => self.retry.trouble.clone(),
        };
        let of_snapshot = self
            .snapshot
            .as_ref()
            .map(Snapshot::trouble)
            .unwrap_or_default();
        SourceStatus {
            server: self.server.title(),
            phase,
            position: self.capture.position().to_string(),
            head: format!("{}:{}", head.file, head.offset),
            lag_bytes,
            lag_seconds,
            tables: self
                .snapshot
                .as_ref()
                .map(Snapshot::progress)
                .unwrap_or_default(),
            parked: self.capture.parked().to_vec(),
            trouble: if trouble.is_empty() {
                of_snapshot
            } else {
                trouble
            },
            bytes_received: self.bytes_received(),
            partial_images: self.server.partial_images(),
        }
    }

    fn position(&self) -> Option<Position> {
        Some(self.capture.position().clone())
    }

    fn decode_again(
        &mut self,
        again: &change::contract::Again<'_>,
        batch: &mut Batch,
    ) -> Result<bool, SourceError> {
        self.capture.decode_again(again, batch)
    }

    fn take_up(&mut self, table: &str) {
        self.capture.take_up(table);
    }
}

fn random_server_id() -> u32 {
    let mut bytes = [0u8; 4];
    // Without random numbers the process's own number tells two clients of one machine apart.
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        bytes = std::process::id().to_le_bytes();
    }
    SERVER_ID_BASE + u32::from_le_bytes(bytes) % 1_000_000_000
}

/// What helps where a part of the log is gone.
const COPY_AGAIN: &str = "nothing brings these changes back but a new copy: headwater run CONFIG \
                          --resnapshot-lost copies every table again and goes on";

fn lost(position: &Position, what: &str) -> SourceError {
    SourceError::new(
        ErrorKind::Lost,
        "read binlog",
        format!("the server purged {what}"),
    )
    .at(format!("{}:{}", position.file, position.offset))
    .hint(format!(
        "{COPY_AGAIN}; keep logs longer: SET PERSIST binlog_expire_logs_seconds = 604800"
    ))
}

/// Refuses a server that lacks transactions which the journal holds.
fn phantom(ours: &change::GtidSet, executed: &change::GtidSet) -> Result<(), SourceError> {
    let phantom = ours.subtract(executed);
    if phantom.is_empty() {
        return Ok(());
    }
    Err(SourceError::new(
        ErrorKind::Lost,
        "go on after a failover",
        format!("the journal holds transactions that this server never executed: {phantom}"),
    )
    .hint(
        "if this server is the right one: headwater run CONFIG --resnapshot-lost copies every table \
         again, which brings the targets to this server's state",
    ))
}

/// Whether the position's file is still there.
///
/// Errors: `Lost` when the file is shorter than the position.
fn is_kept(position: &Position, files: &[(String, u64)]) -> Result<bool, SourceError> {
    let number = file_number(&position.file);
    match files.iter().find(|(name, _)| file_number(name) == number) {
        Some((_, size)) if *size < position.offset => Err(SourceError::new(
            ErrorKind::Lost,
            "read binlog",
            format!("the file ends at {size}: the server lost the end of its log"),
        )
        .at(format!("{}:{}", position.file, position.offset))
        .hint(COPY_AGAIN)),
        Some(_) => Ok(true),
        None => {
            if position.gtids == Gtids::None {
                let oldest = files.first().map_or("none", |(name, _)| name.as_str());
                let what = format!("file {} (the oldest it keeps is {oldest})", position.file);
                return Err(lost(position, &what));
            }
            Ok(false)
        }
    }
}

/// Refuses another server behind the name, unless our GTIDs are all in its own.
fn refuse_stranger(
    server: &Server,
    position: &Position,
    connection: &mut Connection,
    kept: &Option<Vec<u8>>,
) -> Result<(), SourceError> {
    let kept = String::from_utf8_lossy(kept.as_deref().unwrap_or_default()).into_owned();
    match &position.gtids {
        Gtids::Mysql(set) if !server.mariadb && server.has_gtids => {
            let executed = server
                .gtid_set(connection, "gtid_executed")
                .map_err(|failure| failure.into_source("ask the server", ""))?;
            phantom(set, &executed)
        }
        // The server itself refuses a GTID that it does not have.
        Gtids::Mariadb(_) if server.mariadb => Ok(()),
        _ => Err(SourceError::new(
            ErrorKind::Invalid,
            "connect",
            format!(
                "another server answers: {} instead of {kept}",
                server.identity()
            ),
        )
        .hint("point the url at the old server, or start a new journal")),
    }
}

fn first_position(
    start: Option<&StartConfig>,
    server: &Server,
    connection: &mut Connection,
) -> Result<Position, SourceError> {
    if let Some(start) = start {
        return configured_position(start, server);
    }
    let head = server
        .head(connection)
        .map_err(|failure| failure.into_source("ask where the log ends", ""))?;
    head.ok_or_else(|| {
        SourceError::new(
            ErrorKind::Invalid,
            "read binlog",
            "the server writes no binlog",
        )
        .hint("start it with --log-bin")
    })
}

fn configured_position(start: &StartConfig, server: &Server) -> Result<Position, SourceError> {
    let bad = |detail: String| {
        SourceError::new(ErrorKind::Invalid, "configure the source", detail).at("start")
    };
    match (&start.gtid, &start.file) {
        (Some(gtid), None) => {
            let gtids = if server.mariadb {
                Gtids::Mariadb(gtid.parse().map_err(|e| bad(format!("{e}")))?)
            } else {
                Gtids::Mysql(gtid.parse().map_err(|e| bad(format!("{e}")))?)
            };
            Ok(Position {
                gtids,
                ..Position::default()
            })
        }
        (None, Some(file)) => Ok(Position {
            file: file.clone(),
            offset: start.position.unwrap_or(4),
            gtids: Gtids::None,
        }),
        _ => Err(bad("name either gtid, or file and position".into())),
    }
}

/// Tells the schema history about databases and, for a fresh journal, about every captured table.
fn seed(
    capture: &mut Capture,
    connection: &mut Connection,
    is_fresh: bool,
) -> Result<(), WireFailure> {
    let charsets = connection
        .rows("SELECT schema_name, default_character_set_name FROM information_schema.schemata")?;
    for row in charsets {
        if let [Some(database), Some(charset)] = &row[..] {
            let (database, charset) = (
                String::from_utf8_lossy(database),
                String::from_utf8_lossy(charset),
            );
            capture
                .catalog_mut()
                .set_database_charset(&database, &charset);
        }
    }
    for (database, table, _) in server::tables(connection)? {
        let wanted = capture.options().selection.matches(&database, &table)
            && capture.catalog().get(&database, &table).is_none();
        if !wanted || !is_fresh {
            continue;
        }
        if let Some(text) = show_create(connection, &database, &table)?
            && let Err(error) = capture.catalog_mut().seed(&database, &text)
        {
            capture.cannot_read(format!("{database}.{table}"), &error);
        }
    }
    Ok(())
}

/// Columns that are to be hidden and do not exist may be misspelt: what was meant would be told.
///
/// Errors: `Invalid` for a fresh journal; later a column may have been dropped, which is only said.
fn must_know_columns(capture: &Capture, is_fresh: bool) -> Result<(), SourceError> {
    for schema in capture.catalog().iter() {
        let unknown = capture.options().rules.unknown_columns(schema);
        if unknown.is_empty() {
            continue;
        }
        let table = format!("{}.{}", schema.database, schema.name);
        let detail = format!("it has no column {}", unknown.join(", "));
        if is_fresh {
            let error = SourceError::new(ErrorKind::Invalid, "configure the source", detail);
            return Err(error.at(format!("columns: {table}")).hint(
                "what was meant to be hidden would be told: write the name as in SHOW CREATE TABLE, or \
                 take the rule away",
            ));
        }
        tracing::warn!(table, detail, "a rule of columns hides nothing");
    }
    Ok(())
}

/// A log of statements cannot be captured: said before anything is missed.
fn must_log_rows(
    connection: &mut Connection,
    server: &Server,
) -> Result<Result<(), SourceError>, WireFailure> {
    let format = connection
        .text("SELECT @@GLOBAL.binlog_format")?
        .unwrap_or_default();
    if format.eq_ignore_ascii_case("ROW") {
        return Ok(Ok(()));
    }
    let fix = match server.mariadb {
        true => {
            "SET GLOBAL binlog_format = 'ROW'; and binlog_format=ROW in my.cnf, so that it lasts"
        }
        false => "SET PERSIST binlog_format = 'ROW';",
    };
    let detail =
        format!("binlog_format is {format}: changes are logged as statements, not as rows");
    let error = SourceError::new(ErrorKind::Invalid, "capture", detail);
    Ok(Err(error.hint(format!(
        "{fix} sessions that are open keep the old format until they reconnect"
    ))))
}
