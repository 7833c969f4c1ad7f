//! How a running pipeline stands: written by its threads, read by `status`, metrics and health.

use change::contract::SourceStatus;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since the epoch.
pub fn now_us() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// One sink's standing.
#[derive(Debug, Clone, Default, Serialize, serde::Deserialize)]
pub struct SinkStatus {
    /// `starting`, `running`, `paused`, `retrying`, `failed`, `ended`.
    pub state: String,
    /// First sequence not delivered yet.
    pub sequence: String,
    /// Records between it and the journal's end.
    pub lag_rows: u64,
    /// Age of the oldest change not delivered yet, seconds; 0 when there is none.
    pub lag_seconds: f64,
    /// Rows delivered since the start.
    pub rows: u64,
    /// Messages' bytes made durable since the start.
    pub bytes: u64,
    /// Flushes since the start.
    pub flushes: u64,
    /// Events left out because the format cannot carry them, since the start.
    #[serde(default)]
    pub not_carried: u64,
    /// The last trouble; empty when none.
    pub error: String,
    /// Tables and keys set aside.
    pub parked: Vec<ParkedStatus>,
    /// First sequence not delivered yet, as a number.
    #[serde(skip)]
    pub at: u64,
    /// Commit time of the oldest change in the running batch, microseconds since the epoch.
    #[serde(skip)]
    pub oldest_us: Option<i64>,
    /// When the sink last had everything, microseconds since the epoch.
    #[serde(skip)]
    pub caught_up_us: i64,
}

/// What a sink set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct ParkedStatus {
    /// `database.table`.
    pub table: String,
    /// Number of keys; none when the whole table is set aside.
    pub keys: Option<usize>,
    /// First sequence that was not delivered.
    pub from_sequence: String,
    /// Where it was refused.
    pub target: String,
    /// Why.
    pub reason: String,
}

/// What all threads share.
#[derive(Debug, Default)]
pub struct Shared {
    stopping: AtomicBool,
    /// The source has ended (a recording, `snapshot: only`), or capture has stopped.
    pub source_ended: AtomicBool,
    /// Capture waits for room.
    pub journal_full: AtomicBool,
    /// Records appended since the start.
    pub rows_captured: AtomicU64,
    source: Mutex<SourceStatus>,
    sinks: Mutex<BTreeMap<String, SinkStatus>>,
}

impl Shared {
    /// Asks every thread to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// The source's last standing.
    pub fn source(&self) -> SourceStatus {
        self.source
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sets the source's standing.
    pub fn set_source(&self, status: SourceStatus) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// All sinks' standing.
    pub fn sinks(&self) -> BTreeMap<String, SinkStatus> {
        self.sinks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// All sinks' standing, their lag counted against the journal's end: right also for a sink that is
    /// paused or away.
    pub fn sinks_against(&self, end: u64) -> BTreeMap<String, SinkStatus> {
        let now = now_us();
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        for status in sinks.values_mut() {
            status.lag_rows = end.saturating_sub(status.at);
            if status.lag_rows == 0 || status.caught_up_us == 0 {
                status.caught_up_us = now;
            }
            let since = status.oldest_us.unwrap_or(status.caught_up_us);
            status.lag_seconds = match status.lag_rows {
                0 => 0.0,
                _ => (now - since).max(0) as f64 / 1e6,
            };
        }
        sinks.clone()
    }

    /// Changes one sink's standing.
    pub fn on_sink(&self, name: &str, change: impl FnOnce(&mut SinkStatus)) {
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        change(sinks.entry(name.to_owned()).or_default());
    }

    /// Sleeps up to `duration`, less when a stop is asked for.
    pub fn sleep(&self, duration: Duration) {
        let end = std::time::Instant::now() + duration;
        while !self.is_stopping() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20).min(duration));
        }
    }
}

/// The whole standing, as `status --json` prints it.
#[derive(Debug, Clone, Serialize, serde::Deserialize)]
pub struct Report {
    /// The pipeline's name.
    pub pipeline: String,
    /// Process id of the running pipeline; none when it is stopped.
    pub pid: Option<u32>,
    /// The source.
    pub source: SourceReport,
    /// The journal.
    pub journal: JournalReport,
    /// Each sink by name.
    pub sinks: BTreeMap<String, SinkStatus>,
    /// Change streams, disabled ones too while they can be read.
    #[serde(default)]
    pub streams: Vec<crate::streams::StreamStatusReport>,
}

/// The source's part.
#[derive(Debug, Clone, Default, Serialize, serde::Deserialize)]
pub struct SourceReport {
    /// The server, as `mysql 9.7.4`.
    pub server: String,
    /// `connecting`, `snapshot`, `streaming`, `retrying`, `stopped`.
    pub phase: String,
    /// Where it has read to.
    pub position: String,
    /// Where the server's log ends.
    pub head: String,
    /// Log bytes between the two.
    pub lag_bytes: Option<u64>,
    /// Age of what is being read, seconds.
    pub lag_seconds: Option<f64>,
    /// Records appended since the start.
    pub rows: u64,
    /// Log bytes received since the start.
    pub bytes_received: u64,
    /// Snapshot progress by table: rows, estimate, done.
    pub tables: Vec<(String, u64, u64, bool)>,
    /// Tables set aside: name, place, reason.
    pub parked: Vec<(String, String, String)>,
    /// The last passing trouble.
    pub trouble: String,
}

/// The journal's part.
#[derive(Debug, Clone, Default, Serialize, serde::Deserialize)]
pub struct JournalReport {
    /// Its id.
    pub id: String,
    /// Oldest retained sequence.
    pub first: String,
    /// First sequence not visible yet.
    pub end: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// Segments.
    pub segments: usize,
    /// The limit.
    pub disk_max: Option<u64>,
    /// `ok`, `alarm N %`, `full: capture is paused`.
    pub state: String,
    /// Data syncs since the start.
    pub syncs: u64,
    /// Mean time of one, microseconds.
    pub sync_us_mean: u64,
}

impl SourceReport {
    /// From the source's own words.
    pub fn new(status: SourceStatus, rows: u64) -> Self {
        Self {
            server: status.server,
            phase: status.phase.to_owned(),
            position: status.position,
            head: status.head,
            lag_bytes: status.lag_bytes,
            lag_seconds: status.lag_seconds,
            rows,
            bytes_received: status.bytes_received,
            tables: status
                .tables
                .into_iter()
                .map(|t| (t.table, t.rows, t.rows_estimated, t.done))
                .collect(),
            parked: status
                .parked
                .into_iter()
                .map(|p| (p.table, p.since, p.reason))
                .collect(),
            trouble: status.trouble,
        }
    }
}

impl JournalReport {
    /// From the journal.
    pub fn new(journal: &journal::Journal, full: bool) -> Self {
        let usage = journal.usage();
        let metrics = journal.metrics();
        let state = match usage.state {
            _ if full => "full: capture is paused".to_owned(),
            journal::Capacity::Full => "full: capture is paused".to_owned(),
            journal::Capacity::Alarm(percent) => format!("alarm: {percent} % of disk_max"),
            journal::Capacity::Ok => "ok".to_owned(),
        };
        Self {
            id: journal.id().to_string(),
            first: usage.first.to_string(),
            end: usage.end.to_string(),
            bytes: usage.bytes,
            segments: usage.segments,
            disk_max: usage.disk_max,
            state,
            syncs: metrics.syncs,
            sync_us_mean: metrics.sync_us.checked_div(metrics.syncs).unwrap_or(0),
        }
    }
}
