//! Opening, and the handle that everybody shares.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;

use crate::Result;
use crate::checkpoint::Checkpoint;
use crate::control::ControlState;
use crate::cursor::{Cursor, CursorReport, Cursors};
use crate::error::{Error, ErrorKind};
use crate::fs::FsLock;
use crate::id::{JournalId, KeyGroupId, Sequence};
use crate::keys::{KeyError, random_failed};
use crate::log::{Epoch, LocalLog};
use crate::options::Options;
use crate::reader::{ReadOptions, Reader};
use crate::recovery::{self, Recovered};
use crate::retention;
use crate::seal::OpenKeys;
use crate::sealer::{Previous, Sealer};
use crate::seek;
use crate::segment;
use crate::spool::Spool;
use crate::state::{Shared, State};
use crate::storer::Storer;
use crate::tail::Tail;
use crate::usage::{Metrics, Retained, Usage};
use crate::writer::{KeyRing, Writer};

/// With `disk_max`, at least this many segments fit, so that there is always one that can leave.
const SEGMENTS_MIN: u64 = 8;
/// The shortest segment that options may ask for.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// One journal, shared by its readers and whoever watches it. Cloning is one reference count.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

/// The newest visible commit: where capture resumes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastCommit {
    /// Its place in the order.
    pub sequence: Sequence,
    /// As given to [`Writer::commit`].
    pub position: Vec<u8>,
    /// As given to [`Writer::commit`].
    pub time_us: i64,
}

/// Opens the journal in `options.dir`, recovering or creating it, for the one process that writes.
///
/// Promises: everything that was visible before is there, once and in order; a transaction that was open when the last
/// writer ended is not. A new segment begins; nothing is appended to an old one.
/// Errors: `Fenced` when another process has it open, naming its id; `Corrupt` with file and offset when durable bytes
/// are damaged; `Unavailable` when the default key cannot be had; `Unsupported` when a newer version wrote it.
pub fn open(mut options: Options) -> Result<(Journal, Writer)> {
    clamp(&mut options);
    let fail = |source| Error::io("create journal directory", &options.dir, source);
    options.fs.create_dir_all(&options.dir).map_err(fail)?;
    let lock = lock(&options)?;
    let keys = Arc::new(OpenKeys::new(options.keys.clone()));
    let recovered = match recovery::recover(&options, &keys, true)? {
        Some(recovered) => recovered,
        None => create(&options)?,
    };
    start(options, keys, (recovered, lock))
}

/// Opens a journal that nobody needs to be writing, for `tail` and `status`. Takes no lock and changes nothing.
///
/// It stays as it was at that moment, also when somebody is writing. Errors: as [`open`]; `Invalid` when there is none.
pub fn open_read_only(options: Options) -> Result<Journal> {
    let keys = Arc::new(OpenKeys::new(options.keys.clone()));
    let recovered = recovery::recover(&options, &keys, false)?.ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            "open journal",
            "there is no journal here",
        )
        .at(options.dir.display())
    })?;
    let cursors = load_cursors(&options, recovered.id);
    let end = recovered.open.unwrap_or(recovered.next);
    let id = recovered.id;
    let state = state(&options, recovered, cursors);
    let shared = Arc::new(Shared::new((options, id, keys), end, state, None));
    Ok(Journal { shared })
}

fn key_failed(operation: &'static str, group: KeyGroupId, source: KeyError) -> Error {
    Error::new(ErrorKind::Unavailable, operation, source.to_string())
        .at(format!("key group {group}"))
        .caused_by(source)
}

fn clamp(options: &mut Options) {
    if let Some(disk_max) = options.disk_max {
        options.segment_bytes = options.segment_bytes.min(disk_max / SEGMENTS_MIN);
    }
    options.segment_bytes = options.segment_bytes.clamp(SEGMENT_BYTES_MIN, 2 << 30);
    options.frame_bytes = options.frame_bytes.clamp(4 << 10, 4 << 20);
}

fn lock(options: &Options) -> Result<Box<dyn FsLock>> {
    let path = options.dir.join("lock");
    let pid = std::process::id().to_string();
    options
        .fs
        .lock(&path, &pid)
        .map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => {
                let detail = format!("process {source} has it open");
                Error::new(ErrorKind::Fenced, "open journal", detail)
                .at(options.dir.display())
                .hint("end that process first; to look at the journal meanwhile, open it read-only")
            }
            _ => Error::io("lock journal", &path, source),
        })
}

/// What a journal that does not exist yet holds.
fn create(options: &Options) -> Result<Recovered> {
    let mut id = JournalId([0; 16]);
    rand::fill(&mut id.0).map_err(|_| random_failed())?;
    let millis = u64::try_from(options.clock.now_us() / 1000).unwrap_or(0);
    Ok(Recovered {
        id,
        segments: Default::default(),
        last_number: 0,
        epoch: 0,
        next: millis << 20,
        open: None,
        checkpoint: Checkpoint {
            time_max: i64::MIN,
            ..Checkpoint::default()
        },
        previous: Previous::default(),
        empty: None,
    })
}

fn load_cursors(options: &Options, id: JournalId) -> Cursors {
    let read = || -> io::Result<Vec<u8>> {
        let file = options.fs.open(&options.dir.join("cursors"))?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    };
    // Without the file every sink says where it stands when it starts.
    read()
        .ok()
        .and_then(|bytes| Cursors::decode(&bytes, id))
        .unwrap_or_default()
}

fn state(options: &Options, recovered: Recovered, cursors: Cursors) -> State {
    State {
        segments: recovered.segments,
        live: None,
        live_index: Default::default(),
        indexes: Default::default(),
        tail: Tail::new(options.tail_bytes),
        aborted: recovered.checkpoint.aborted,
        control: recovered.checkpoint.control,
        last_commit: recovered.checkpoint.last_commit,
        failed: None,
        cursors,
        holds: Default::default(),
    }
}

fn start(
    options: Options,
    keys: Arc<OpenKeys>,
    (mut recovered, lock): (Recovered, Box<dyn FsLock>),
) -> Result<(Journal, Writer)> {
    let cursors = load_cursors(&options, recovered.id);
    recovery::refuse_lost_end(recovered.next, cursors.furthest())?;
    if let Some(first) = recovered.open.take() {
        recovered.checkpoint.aborted.push((first, recovered.next));
    }
    let (id, next) = (recovered.id, recovered.next);
    let (last_number, empty) = (recovered.last_number, recovered.empty);
    let epoch = recovered.epoch + 1;
    let checkpoint = recovered.checkpoint.clone();
    let previous = recovered.previous;
    let known: Vec<_> = recovered
        .segments
        .values()
        .map(|info| (info.number, Sequence(info.base)))
        .collect();
    let log = LocalLog::new(options.fs.clone(), &options.dir, Sequence(next), known);
    let state = state(&options, recovered, cursors);
    let shared = Arc::new(Shared::new((options, id, keys), next, state, Some(lock)));
    let mut sealer = Sealer::new(shared.clone(), epoch, checkpoint, (last_number, previous));
    let mut storer = Storer {
        shared: shared.clone(),
        log: Box::new(log),
        epoch: Epoch(epoch),
    };
    let mut ring = KeyRing::new(shared.clone());
    let segment = sealer.start_segment(next, None, ring.get(KeyGroupId::DEFAULT)?)?;
    storer.store(&mut vec![segment], None)?;
    if let Some(number) = empty {
        shared.state().segments.remove(&number);
        segment::unlink(&*shared.options.fs, &shared.options.dir, number)?;
    }
    let writer = Writer::start(shared.clone(), (ring, sealer, storer), next)?;
    Ok((Journal { shared }, writer))
}

impl Journal {
    /// This journal's name.
    pub fn id(&self) -> JournalId {
        self.shared.id
    }

    /// The oldest retained sequence.
    pub fn first(&self) -> Sequence {
        Sequence(self.shared.state().first())
    }

    /// The first sequence that is not visible yet. Visible means durable, and its transaction committed.
    pub fn end(&self) -> Sequence {
        Sequence(self.shared.end())
    }

    /// Waits until `end()` is past `past`, the writer has failed, or `timeout` has gone by; returns `end()`.
    pub fn wait(&self, past: Sequence, timeout: Duration) -> Sequence {
        self.shared.wait(past.0, timeout)
    }

    /// Why the writer ended, if it did.
    pub fn failed(&self) -> Option<Error> {
        self.shared.failed()
    }

    /// The newest visible commit; `None` in a journal without any.
    pub fn last_commit(&self) -> Option<LastCommit> {
        self.shared.state().last_commit.clone()
    }

    /// The control state as of `end()`.
    pub fn control(&self) -> ControlState {
        self.shared.state().control.clone()
    }

    /// A reader. Errors: `Invalid` when `from` has aged out or is past `end()`.
    pub fn reader(&self, options: ReadOptions) -> Result<Reader> {
        Reader::open(self.shared.clone(), options)
    }

    /// A reader for records only: its [`Reader::control`] is empty, which spares it looking for the state at `from`.
    /// Errors: as [`Journal::reader`].
    pub fn reader_of_records(&self, options: ReadOptions) -> Result<Reader> {
        Reader::open_for_records(self.shared.clone(), options)
    }

    /// The first sequence at or after `from` that was written after `micros` by this journal's clock, and when; else
    /// `end()`. Everything in one frame counts as written at the same time, see [`crate::FrameView::written_us`].
    pub fn seek_written(&self, micros: i64, from: Sequence) -> Result<(Sequence, Option<i64>)> {
        seek::written(&self.shared, micros, from)
    }

    /// The start of the first transaction whose commit time, as a running maximum, is `micros` or later; else `end()`.
    pub fn seek_time(&self, micros: i64) -> Result<Sequence> {
        seek::time(&self.shared, micros)
    }

    /// The start of the first transaction whose position satisfies `reached`, which must stay true once it is; else
    /// `end()`.
    pub fn seek_position(&self, reached: &mut dyn FnMut(&[u8]) -> bool) -> Result<Sequence> {
        seek::position(&self.shared, reached)
    }

    /// Sets how far `name` has come; segments from there on are kept for it.
    ///
    /// The file follows within a second, by [`Journal::retain`] at the latest, and never runs ahead. A cursor set before
    /// `first()` is detached at once; a detached one holds again when it is set at or past `first()`.
    /// Errors: `Invalid` past `end()`; `Unavailable` when the file cannot be written, or the journal is not open for
    /// writing (any more).
    pub fn set_cursor(&self, name: &str, cursor: Cursor) -> Result<()> {
        self.check_open("set cursor", name)?;
        {
            let mut state = self.shared.state();
            let end = Sequence(self.shared.end());
            if cursor.sequence > end {
                let detail = format!("{} is past the end, {end}", cursor.sequence);
                return Err(Error::new(ErrorKind::Invalid, "set cursor", detail).at(name));
            }
            let first = state.first();
            state.cursors.set(name, cursor, first);
        }
        retention::store_cursors_soon(&self.shared)
    }

    /// Forgets a cursor and its hold.
    pub fn remove_cursor(&self, name: &str) -> Result<()> {
        self.check_open("remove cursor", name)?;
        {
            let mut state = self.shared.state();
            if state.cursors.entries.remove(name).is_none() {
                return Ok(());
            }
            state.cursors.dirty = true;
        }
        retention::store_cursors(&self.shared)
    }

    fn check_open(&self, operation: &'static str, name: &str) -> Result<()> {
        if self.shared.holds_lock() {
            return Ok(());
        }
        let detail = "the journal is not open for writing";
        Err(Error::new(ErrorKind::Unavailable, operation, detail).at(name))
    }

    /// All cursors by name.
    pub fn cursors(&self) -> Vec<CursorReport> {
        let state = self.shared.state();
        state.cursors.report(state.first())
    }

    /// Keeps what is younger than `age` whatever `disk_max` says, for as long as the hold `name` is set; `None` ends it.
    /// Not persisted: whoever owes the data sets it again after opening.
    pub fn set_retention_hold(&self, name: &str, age: Option<Duration>) {
        let mut state = self.shared.state();
        match age {
            Some(age) => {
                let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
                state.holds.insert(name.to_owned(), micros);
            }
            None => {
                state.holds.remove(name);
            }
        }
    }

    /// Unlinks what retention lets go and enforces `disk_max`. Call it every few seconds; does nothing once the writer
    /// was closed.
    pub fn retain(&self) -> Result<Retained> {
        retention::retain(&self.shared)
    }

    /// Makes sure that `group` has a key to seal with. Call it before the first record of a group.
    ///
    /// Errors: `Unavailable` when the key service does not make one.
    pub fn ensure_key(&self, group: KeyGroupId) -> Result<()> {
        let provider = &self.shared.keys.provider;
        provider
            .ensure(group)
            .map_err(|error| key_failed("make a key", group, error))
    }

    /// Gives `group` a new key. What was written stays readable; what is written from now on needs the new one.
    ///
    /// Errors: `Unavailable` when the key service does not do that.
    pub fn rotate_key(&self, group: KeyGroupId) -> Result<()> {
        let provider = &self.shared.keys.provider;
        provider
            .rotate(group)
            .map_err(|error| key_failed("rotate a key", group, error))?;
        self.shared.keys.forget(group);
        Ok(())
    }

    /// Destroys every key of `group`, so that nothing sealed with them can be opened again, and forgets what is opened
    /// here. Readers that are open keep what they have in memory until they move on.
    ///
    /// Errors: `Invalid` for the default group, whose keys hold the journal together; `Unavailable` when the key service
    /// does not do that.
    pub fn erase_key(&self, group: KeyGroupId) -> Result<()> {
        if group == KeyGroupId::DEFAULT {
            let detail = "the default key holds the whole journal together";
            return Err(Error::new(ErrorKind::Invalid, "erase a key", detail));
        }
        let provider = &self.shared.keys.provider;
        provider
            .erase(group)
            .map_err(|error| key_failed("erase a key", group, error))?;
        self.forget_key(group);
        Ok(())
    }

    /// Asks the key service again for every key of `group`: it may have been disabled, or given back.
    pub fn forget_key(&self, group: KeyGroupId) {
        self.shared.keys.forget(group);
        self.shared.state().tail.clear();
    }

    /// Sealed files beside the segments, for what has to wait.
    pub fn spool(&self) -> Spool {
        Spool::new(self.shared.clone())
    }

    /// The place on disk.
    pub fn usage(&self) -> Usage {
        let state = self.shared.state();
        Usage {
            bytes: state.bytes() + self.shared.spooled(),
            segments: state.segments.len(),
            disk_max: self.shared.options.disk_max,
            state: self.shared.capacity(),
            first: Sequence(state.first()),
            end: Sequence(self.shared.end()),
        }
    }

    /// Counters since opening.
    pub fn metrics(&self) -> Metrics {
        self.shared.metrics()
    }
}
