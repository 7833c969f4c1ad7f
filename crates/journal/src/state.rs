//! What the threads, the readers and the handle share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::Result;
use crate::control::ControlState;
use crate::cursor::Cursors;
use crate::error::Error;
use crate::fs::FsLock;
use crate::id::{JournalId, Sequence};
use crate::index::SegmentIndex;
use crate::journal::LastCommit;
use crate::options::Options;
use crate::retention;
use crate::seal::OpenKeys;
use crate::segment::{self, SegmentReader};
use crate::tail::Tail;
use crate::usage::{Capacity, Metrics};

/// Indexes of ended segments kept in memory.
const INDEXES_MAX: usize = 8;
/// `disk_max` counts as reached this far below it, for what is on its way through the threads.
const FULL_MARGIN_FRAMES: u64 = 24;

/// Locks, also after a holder panicked: every holder leaves the state whole between its steps.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One segment as everybody sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentInfo {
    pub number: u32,
    pub base: u64,
    /// First sequence after it.
    pub end: u64,
    /// Durable bytes.
    pub len: u64,
    pub written_us: i64,
    /// Holds snapshot rows only.
    pub snapshot: bool,
    /// Begins inside a transaction.
    pub inside: bool,
    /// Highest commit time before it.
    pub time_before: i64,
}

pub(crate) struct State {
    pub segments: BTreeMap<u32, SegmentInfo>,
    /// The segment being written and its index.
    pub live: Option<u32>,
    pub live_index: SegmentIndex,
    pub indexes: BTreeMap<u32, Arc<SegmentIndex>>,
    pub tail: Tail,
    /// Sequences of aborted transactions: first, end. Sorted.
    pub aborted: Vec<(u64, u64)>,
    pub control: ControlState,
    pub last_commit: Option<LastCommit>,
    pub failed: Option<Error>,
    pub cursors: Cursors,
    /// Named holds: keep what is younger, microseconds.
    pub holds: BTreeMap<String, i64>,
}

impl State {
    /// Whether the transaction that begins at `first` was aborted.
    pub fn is_aborted(&self, first: u64) -> bool {
        let at = self.aborted.partition_point(|(start, _)| *start <= first);
        at.checked_sub(1)
            .is_some_and(|at| first < self.aborted[at].1)
    }

    pub fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.len).sum()
    }

    /// The segment that holds `sequence`, or the first after it; `hint` is a likely one.
    pub fn segment_of(&self, sequence: u64, hint: Option<u32>) -> Option<SegmentInfo> {
        let ends_later =
            |segment: &&SegmentInfo| sequence < segment.end || self.live == Some(segment.number);
        let near = hint.and_then(|number| self.segments.get(&number));
        let near = near.filter(|segment| segment.base <= sequence && ends_later(segment));
        near.or_else(|| self.segments.values().find(ends_later))
            .copied()
    }

    pub fn first(&self) -> u64 {
        self.segments
            .values()
            .next()
            .map_or(0, |segment| segment.base)
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    pub frames: AtomicU64,
    pub bytes: AtomicU64,
    pub bytes_raw: AtomicU64,
    pub records: AtomicU64,
    pub syncs: AtomicU64,
    pub sync_us: AtomicU64,
    pub segments: AtomicU64,
}

pub(crate) struct Shared {
    pub options: Options,
    pub id: JournalId,
    pub keys: Arc<OpenKeys>,
    pub counters: Counters,
    /// Bytes in spool files.
    pub spooled: AtomicU64,
    end: AtomicU64,
    first: AtomicU64,
    /// Percent of `disk_max`; 255 when full.
    capacity: AtomicU8,
    state: Mutex<State>,
    changed: Condvar,
    lock: Mutex<Option<Box<dyn FsLock>>>,
    /// Held while the cursors file is written: sinks move their cursors at the same time.
    pub cursors_file: Mutex<()>,
}

impl Shared {
    pub fn new(
        (options, id, keys): (Options, JournalId, Arc<OpenKeys>),
        end: u64,
        state: State,
        lock: Option<Box<dyn FsLock>>,
    ) -> Self {
        let first = state.first();
        Shared {
            options,
            id,
            keys,
            counters: Counters::default(),
            spooled: AtomicU64::new(0),
            end: AtomicU64::new(end),
            first: AtomicU64::new(first),
            capacity: AtomicU8::new(0),
            state: Mutex::new(state),
            changed: Condvar::new(),
            lock: Mutex::new(lock),
            cursors_file: Mutex::new(()),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// The oldest retained sequence, as of the last change.
    pub fn first_hint(&self) -> u64 {
        self.first.load(Ordering::Relaxed)
    }

    /// Makes what `state` now says visible, and wakes who waits.
    pub fn publish(&self, state: &State, end: u64) {
        self.first.store(state.first(), Ordering::Relaxed);
        self.end.store(end, Ordering::Release);
        self.changed.notify_all();
    }

    /// Whether `bytes` leave no room, before anything is let go.
    pub fn would_be_full(&self, state: &State) -> bool {
        self.options
            .disk_max
            .is_some_and(|disk_max| state.bytes() + self.spooled() >= self.full_at(disk_max))
    }

    pub fn spooled(&self) -> u64 {
        self.spooled.load(Ordering::Relaxed)
    }

    /// Notes how much room is left: full is full, and the alarm is about what cannot be let go.
    pub fn update_capacity(&self, state: &State) {
        let Some(disk_max) = self.options.disk_max else {
            return;
        };
        let held = retention::held_bytes(self, state);
        let percent = held
            .saturating_mul(100)
            .checked_div(disk_max)
            .unwrap_or(100);
        let full = self.would_be_full(state);
        let value = if full {
            u8::MAX
        } else {
            percent.min(100) as u8
        };
        self.capacity.store(value, Ordering::Relaxed);
    }

    /// The number of bytes from which on nothing more is taken.
    pub fn full_at(&self, disk_max: u64) -> u64 {
        let margin = FULL_MARGIN_FRAMES * self.options.frame_bytes as u64;
        disk_max - margin.min(disk_max / 8)
    }

    pub fn is_full(&self) -> bool {
        self.capacity.load(Ordering::Relaxed) == u8::MAX
    }

    pub fn capacity(&self) -> Capacity {
        match self.capacity.load(Ordering::Relaxed) {
            u8::MAX => Capacity::Full,
            percent @ 70.. => Capacity::Alarm(percent),
            _ => Capacity::Ok,
        }
    }

    /// Ends the writer for good; the first reason stays.
    pub fn fail(&self, error: Error) {
        self.state().failed.get_or_insert(error);
        self.changed.notify_all();
    }

    pub fn failed(&self) -> Option<Error> {
        self.state().failed.clone()
    }

    pub fn wait(&self, past: u64, timeout: std::time::Duration) -> Sequence {
        let state = self.state();
        let waiting = |state: &mut State| self.end() <= past && state.failed.is_none();
        let result = self.changed.wait_timeout_while(state, timeout, waiting);
        drop(result.unwrap_or_else(PoisonError::into_inner));
        Sequence(self.end())
    }

    /// Whether this process may change the directory.
    pub fn holds_lock(&self) -> bool {
        locked(&self.lock).is_some()
    }

    /// Lets go of the directory.
    pub fn unlock(&self) {
        locked(&self.lock).take();
    }

    pub fn metrics(&self) -> Metrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Metrics {
            frames: read(&self.counters.frames),
            bytes: read(&self.counters.bytes),
            bytes_raw: read(&self.counters.bytes_raw),
            records: read(&self.counters.records),
            syncs: read(&self.counters.syncs),
            sync_us: read(&self.counters.sync_us),
            segments: read(&self.counters.segments),
        }
    }

    /// A reader of what is durable of a segment.
    pub fn open_segment(&self, info: &SegmentInfo, read_ahead: usize) -> Result<SegmentReader> {
        let Options { fs, dir, .. } = &self.options;
        let number = info.number;
        let mut reader = SegmentReader::open(&**fs, dir, number, self.keys.clone(), read_ahead)?;
        reader.limit = info.len;
        match reader.header.journal == self.id {
            true => Ok(reader),
            false => Err(segment::corrupt(
                number,
                0,
                "the segment belongs to another journal",
            )),
        }
    }

    /// Asks the index of a segment: the live one, a side file, or one built by scan.
    pub fn with_index<T>(
        &self,
        info: &SegmentInfo,
        ask: impl FnOnce(&SegmentIndex) -> T,
    ) -> Result<T> {
        {
            let state = self.state();
            if state.live == Some(info.number) {
                return Ok(ask(&state.live_index));
            }
            if let Some(index) = state.indexes.get(&info.number) {
                return Ok(ask(index));
            }
        }
        let index = Arc::new(self.load_index(info)?);
        let answer = ask(&index);
        let mut state = self.state();
        while state.indexes.len() >= INDEXES_MAX {
            state.indexes.pop_first();
        }
        state.indexes.insert(info.number, index);
        Ok(answer)
    }

    fn load_index(&self, info: &SegmentInfo) -> Result<SegmentIndex> {
        let path = segment::index_path(&self.options.dir, info.number);
        let read = || -> std::io::Result<Vec<u8>> {
            let file = self.options.fs.open(&path)?;
            let mut bytes = vec![0; file.len()? as usize];
            let count = file.read_at(0, &mut bytes)?;
            bytes.truncate(count);
            Ok(bytes)
        };
        let stored = read().ok();
        let decode = |bytes: &Vec<u8>| SegmentIndex::decode(bytes, self.id, info.number, info.len);
        if let Some(index) = stored.as_ref().and_then(decode) {
            return Ok(index);
        }
        let index = self.open_segment(info, 64 << 10)?.build_index(info.len)?;
        self.store_index(&index, info);
        Ok(index)
    }

    /// Writes the side file; without it the index is built again when asked for, so a failure here is none.
    pub fn store_index(&self, index: &SegmentIndex, info: &SegmentInfo) {
        if !self.holds_lock() {
            return;
        }
        let path = segment::index_path(&self.options.dir, info.number);
        let bytes = index.encode(self.id, info.number, info.len);
        let written = self
            .options
            .fs
            .create(&path)
            .and_then(|file| file.write_at(0, &bytes));
        drop(written);
    }
}
