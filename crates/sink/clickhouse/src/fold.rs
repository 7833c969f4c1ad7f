//! Moves pending changes of a table into its base, on a thread of its own.
//!
//! A fold makes the next base beside the present one: a clone (hard links), without the keys that
//! changed (one mask), with their newest rows; then the two change places. No reader ever sees a base
//! between two states. Then the view leaves the folded changes out, and after a while they go.
//!
//! Every step may be the last before a crash: until the note says that an epoch is folded, the same
//! fold is made again from its first step, whether or not the bases had changed places.
//!
//! Order that the readers rely on: a view's text names the last folded epoch; a reader takes the text
//! first, the tables after. The base changes places before the text changes, and folded changes stay
//! until no reader can hold the older text.

use crate::client::Client;
use crate::layout::TableLayout;
use crate::names::{Names, quote};
use crate::state::State;
use crate::table::FoldStanding;
use change::SinkError;
use change::contract::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Parts of one partition above which a fold merges them: a server merges by itself, but what it merges
/// while a fold runs is thrown away, and above some thousands it takes no more inserts.
const PARTS_MAX: u64 = 50;
/// Partitions that one fold merges, so that it ends.
const MERGED_PARTITIONS_MAX: u64 = 4;

/// What is to be folded.
pub(crate) struct Job {
    pub source: String,
    pub names: Names,
    pub layout: Arc<TableLayout>,
    /// Epochs up to this.
    pub epoch: u64,
    /// When the watermark had passed them.
    pub covered_at: Instant,
    pub standing: Arc<Mutex<FoldStanding>>,
    pub base_lock: Arc<Mutex<()>>,
}

/// Folded changes that nobody can look for any more, from some time on.
struct Leftover {
    due: Instant,
    names: Names,
    epoch: u64,
}

/// The thread and the way to it.
pub(crate) struct Folder {
    jobs: Option<Sender<Job>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
struct Worker {
    client: Client,
    state: Arc<State>,
    grace: Duration,
    stop: Arc<AtomicBool>,
    leftovers: Vec<Leftover>,
}

impl Folder {
    pub(crate) fn start(
        client: Client,
        state: Arc<State>,
        grace: Duration,
    ) -> Result<Self, SinkError> {
        let (jobs, receiver) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            client,
            state,
            grace,
            stop: Arc::clone(&stop),
            leftovers: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("clickhouse-fold".into())
            .spawn(move || worker.run(&receiver))
            .map_err(|error| {
                SinkError::new(ErrorKind::Internal, "start a thread", error.to_string())
            })?;
        Ok(Self {
            jobs: Some(jobs),
            stop,
            thread: Some(thread),
        })
    }

    /// Gives a fold to the thread; they are made one after the other.
    pub(crate) fn give(&self, job: Job) {
        lock(&job.standing).is_running = true;
        let standing = Arc::clone(&job.standing);
        let is_given = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        if !is_given {
            lock(&standing).is_running = false;
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            match jobs.recv_timeout(Duration::from_millis(200)) {
                Ok(job) => self.make(&job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.sweep();
        }
    }

    fn make(&mut self, job: &Job) {
        if self.is_stopping() {
            lock(&job.standing).is_running = false;
            return;
        }
        let started = Instant::now();
        let folded = self.fold(job);
        let mut standing = lock(&job.standing);
        standing.is_running = false;
        standing.last_end = Some(Instant::now());
        standing.last_took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        match folded {
            Ok(()) => {
                standing.folded = job.epoch;
                standing.folds += 1;
                standing.trouble.clear();
            }
            Err(error) => {
                if !self.is_stopping() {
                    tracing::warn!(table = job.source, "fold: {error}; it is tried again");
                }
                standing.trouble = error.to_string();
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Between two steps: an orderly end need not wait for the rest.
    fn step(&self) -> Result<(), SinkError> {
        match self.is_stopping() {
            true => Err(SinkError::new(
                ErrorKind::Unavailable,
                "fold",
                "the sink is stopping",
            )),
            false => Ok(()),
        }
    }

    fn fold(&mut self, job: &Job) -> Result<(), SinkError> {
        let held = lock(&job.base_lock);
        self.exchange(job)?;
        drop(held);
        let view = job.layout.create_live_view(
            &job.names.view(),
            (&job.names.base(), &job.names.delta()),
            job.epoch,
            &self.state.watermark_sql(),
        );
        self.client.run("fold: renew the view", &view)?;
        crash_point("fold-view");
        let folded = [(job.source.as_str(), job.epoch)];
        self.state.put(&self.client, None, &[], &folded)?;
        crash_point("fold-note");
        self.leftovers.push(Leftover {
            due: Instant::now() + self.grace * 5,
            names: job.names.clone(),
            epoch: job.epoch,
        });
        Ok(())
    }

    /// Makes the next base and lets it take its place.
    fn exchange(&self, job: &Job) -> Result<(), SinkError> {
        let (base, delta, staging) = (job.names.base(), job.names.delta(), job.names.staging());
        let layout = &job.layout;
        let client = &self.client;
        self.step()?;
        client.drop_table("fold", &staging)?;
        client.run("fold", &format!("CREATE TABLE {staging} CLONE AS {base}"))?;
        crash_point("fold-clone");
        self.step()?;
        let (key, keys) = (layout.key_tuple(), crate::names::list(layout.key_names()));
        let epoch = quote(&layout.added().epoch);
        let changed = format!(
            "{key} IN (SELECT {keys} FROM {delta} WHERE {epoch} <= {})",
            job.epoch
        );
        let counts = client.rows(
            "fold: count",
            &format!(
                "SELECT (SELECT count() FROM {staging}), (SELECT count() FROM {staging} WHERE {changed}), \
                 (SELECT count() FROM ({}))",
                layout.select_fold(&delta, job.epoch)
            ),
        )?;
        let number = |at: usize| -> u64 {
            let cell = counts.first().and_then(|row| row.get(at));
            cell.and_then(|cell| cell.parse().ok()).unwrap_or(0)
        };
        let (all, gone, come) = (number(0), number(1), number(2));
        if gone > 0 {
            client.run_with(
                "fold: mask",
                &format!("DELETE FROM {staging} WHERE {changed}"),
                &[
                    ("lightweight_deletes_sync", "2"),
                    ("lightweight_delete_mode", "alter_update"),
                ],
            )?;
        }
        crash_point("fold-mask");
        self.step()?;
        if come > 0 {
            client.run_with(
                "fold: insert",
                &format!(
                    "INSERT INTO {staging} ({}) {}",
                    layout.fold_columns(),
                    layout.select_fold(&delta, job.epoch)
                ),
                &[("insert_allow_materialized_columns", "1")],
            )?;
        }
        crash_point("fold-insert");
        self.merge(job)?;
        let now = client.number("fold: count", &format!("SELECT count() FROM {staging}"))?;
        if now != all - gone + come {
            let detail = format!(
                "the next base has {now} rows, not {all} - {gone} + {come}; it is thrown away"
            );
            return Err(SinkError::new(ErrorKind::Internal, "fold", detail).at(job.names.shown()));
        }
        // A query over several tables has read the watermark before it comes to this base.
        let wait = self.grace.saturating_sub(job.covered_at.elapsed());
        std::thread::sleep(wait);
        self.step()?;
        client.run(
            "fold: exchange",
            &format!("EXCHANGE TABLES {base} AND {staging}"),
        )?;
        crash_point("fold-exchange");
        Ok(())
    }

    /// Merges the parts of the next base where they became many: merges that ran on the present base
    /// meanwhile are lost with it.
    fn merge(&self, job: &Job) -> Result<(), SinkError> {
        let client = &self.client;
        let sql = format!(
            "SELECT partition_id FROM system.parts WHERE database = {} AND table = {} AND active GROUP BY \
             partition_id HAVING count() > {PARTS_MAX} ORDER BY count() DESC LIMIT {MERGED_PARTITIONS_MAX}",
            crate::names::literal(&job.names.database),
            crate::names::literal(&job.names.staging_name())
        );
        for row in client.rows("fold: count parts", &sql)? {
            let Some(partition) = row.first() else {
                continue;
            };
            self.step()?;
            let sql = format!(
                "OPTIMIZE TABLE {} PARTITION ID {}",
                job.names.staging(),
                crate::names::literal(partition)
            );
            // A fold is right without it, and the account may lack the grant.
            if let Err(error) = client.run("fold: merge", &sql) {
                tracing::debug!(table = job.source, "{error}");
                break;
            }
        }
        Ok(())
    }

    /// Drops what nobody can look for any more.
    fn sweep(&mut self) {
        let now = Instant::now();
        let (due, later): (Vec<Leftover>, Vec<Leftover>) =
            self.leftovers.drain(..).partition(|one| one.due <= now);
        self.leftovers = later;
        for one in due {
            if let Err(error) = drop_folded(&self.client, &one.names, one.epoch) {
                tracing::debug!(table = one.names.shown(), "{error}");
            }
        }
    }
}

/// Drops the changes of folded epochs.
pub(crate) fn drop_folded(client: &Client, names: &Names, folded: u64) -> Result<(), SinkError> {
    let sql = format!(
        "SELECT DISTINCT partition FROM system.parts WHERE database = {} AND table = {} AND active",
        crate::names::literal(&names.database),
        crate::names::literal(&names.delta_name())
    );
    for row in client.rows("list folded changes", &sql)? {
        let epoch: u64 = row
            .first()
            .and_then(|cell| cell.parse().ok())
            .unwrap_or(u64::MAX);
        if epoch <= folded {
            let sql = format!("ALTER TABLE {} DROP PARTITION {epoch}", names.delta());
            client.run_dropping("drop folded changes", &sql)?;
            crash_point("fold-drop");
        }
    }
    client.drop_table("drop the former base", &names.staging())
}

/// Where tests kill the process: the variable `HEADWATER_CRASH_AT` names the point.
pub(crate) fn crash_point(name: &str) {
    static WANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let wanted = WANTED.get_or_init(|| std::env::var("HEADWATER_CRASH_AT").ok());
    if wanted.as_deref() == Some(name) {
        tracing::error!("HEADWATER_CRASH_AT={name}: the process kills itself");
        let pid = std::process::id().to_string();
        let _ = std::process::Command::new("kill")
            .args(["-9", &pid])
            .status();
        std::thread::sleep(Duration::from_secs(10));
    }
}
