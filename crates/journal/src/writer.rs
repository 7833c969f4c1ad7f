//! The one writer: fills frames on the caller's thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Result;
use crate::control::ControlChange;
use crate::error::{Error, ErrorKind};
use crate::format::FRAME_BYTES_MAX;
use crate::frame::Frame;
use crate::id::{KeyGroupId, Sequence};
use crate::item::{Commit, RecordDescriptor, TransactionStart};
use crate::seal::SealKey;
use crate::sealer::{Sealer, ToSeal};
use crate::state::Shared;
use crate::storer::{Recycle, Storer};
use crate::usage::Capacity;

/// Buffers on each way between the threads: enough to keep all three busy, few enough to stay small.
const BUFFERS: usize = 8;
/// The longest body; one record must fit one frame.
const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;
/// A data key that cannot be renewed is used this many times its age, so that a short outage of the key service stops nothing.
const KEY_AGE_FACTOR: u32 = 2;

/// Appends transactions, in order.
///
/// Order: `begin`, then `record` and `control`, then `commit` or `rollback`; one transaction is open at a time.
/// Nothing is durable when a call returns: [`crate::Journal::end`] passes a commit once it is. After an error of kind
/// `Full` or `Invalid` the writer is as it was before the call; after any other the writer has ended, and opening the
/// journal again finds everything that was visible.
pub struct Writer {
    shared: Arc<Shared>,
    frame: Box<Frame>,
    /// When the current frame got its first entry.
    frame_since: Option<Duration>,
    transaction: Option<Transaction>,
    header: Vec<u8>,
    /// Control records of the open transaction.
    pending: Vec<ControlChange>,
    keys: KeyRing,
    frames: Option<SyncSender<ToSeal>>,
    free: Receiver<Box<Frame>>,
    threads: Vec<JoinHandle<()>>,
}

struct Transaction {
    first: u64,
    snapshot: bool,
    /// Whether its begin stands in the current frame.
    begun_here: bool,
}

/// The data keys of this epoch.
pub(crate) struct KeyRing {
    shared: Arc<Shared>,
    keys: Vec<OwnedKey>,
    next_number: u32,
}

/// A data key in use, since when, and of which generation of its group.
struct OwnedKey {
    key: Arc<SealKey>,
    since: Duration,
    generation: u64,
}

impl KeyRing {
    pub fn new(shared: Arc<Shared>) -> Self {
        KeyRing {
            shared,
            keys: Vec::new(),
            next_number: 0,
        }
    }

    /// The data key of `group`: the one in use, or a new one when that is too old.
    pub fn get(&mut self, group: KeyGroupId) -> Result<Arc<SealKey>> {
        let now = self.shared.options.clock.monotonic();
        let key_age = self.shared.options.key_age;
        let generation = self.shared.keys.generation(group);
        self.keys
            .retain(|owned| owned.key.group != group || owned.generation == generation);
        let at = self.keys.iter().position(|owned| owned.key.group == group);
        let age = at.map(|at| now.saturating_sub(self.keys[at].since));
        if let (Some(at), Some(age)) = (at, age)
            && age < key_age
        {
            return Ok(self.keys[at].key.clone());
        }
        match (self.shared.keys.create(group, self.next_number), at, age) {
            (Ok(key), at, _) => {
                self.next_number += 1;
                let key = Arc::new(key);
                let owned = OwnedKey {
                    key: key.clone(),
                    since: now,
                    generation,
                };
                match at {
                    Some(at) => self.keys[at] = owned,
                    None => self.keys.push(owned),
                }
                Ok(key)
            }
            (Err(_), Some(at), Some(age)) if age < key_age * KEY_AGE_FACTOR => {
                Ok(self.keys[at].key.clone())
            }
            (Err(error), ..) => Err(error),
        }
    }
}

impl Writer {
    pub(crate) fn start(
        shared: Arc<Shared>,
        (keys, sealer, storer): (KeyRing, Sealer, Storer),
        next: u64,
    ) -> Result<Writer> {
        let (frames, to_seal) = sync_channel(BUFFERS);
        let (to_store, stored) = sync_channel(BUFFERS);
        let (free_frames, free) = sync_channel(BUFFERS + 1);
        let (free_buffers, buffers) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            let _ = free_frames.try_send(Box::default());
            let _ = free_buffers.try_send(Vec::new());
        }
        let recycle = Recycle {
            frames: free_frames,
            buffers: free_buffers,
        };
        let seal = spawn("journal-seal", move || {
            sealer.run(to_seal, (to_store, buffers))
        })?;
        let store = spawn("journal-write", move || storer.run(stored, recycle))?;
        let mut frame = Box::<Frame>::default();
        frame.reset(next, shared.options.frame_bytes);
        Ok(Writer {
            shared,
            frame,
            frame_since: None,
            transaction: None,
            header: Vec::new(),
            pending: Vec::new(),
            keys,
            frames: Some(frames),
            free,
            threads: vec![seal, store],
        })
    }

    /// Opens a transaction. Errors: `Full`; `Invalid` when one is open.
    pub fn begin(&mut self, start: TransactionStart<'_>) -> Result<()> {
        if self.transaction.is_some() {
            return Err(invalid("begin transaction", "another transaction is open"));
        }
        self.check_room("begin transaction")?;
        let small = self.frame.bytes() < self.shared.options.frame_bytes / 16;
        if start.snapshot != self.frame.snapshot && !small {
            self.dispatch()?;
        }
        self.header.clear();
        self.header.extend_from_slice(start.header);
        let (first, snapshot) = (self.frame.next, start.snapshot);
        self.transaction = Some(Transaction {
            first,
            snapshot,
            begun_here: false,
        });
        self.frame.mark_start();
        Ok(())
    }

    /// Adds one record to the open transaction. The body is copied; nothing is allocated.
    ///
    /// Errors: `Full`; `Invalid` when no transaction is open or the body is longer than 1 GiB; `Unavailable` at the place
    /// `key group …` when that group's key cannot be had: the transaction stays open and whole, the table should be parked.
    pub fn record(&mut self, descriptor: &RecordDescriptor, body: &[u8]) -> Result<Sequence> {
        if self.shared.is_full() {
            return Err(full("append record"));
        }
        if body.len() > BODY_BYTES_MAX {
            return Err(invalid("append record", "the body is longer than 1 GiB"));
        }
        if self.frame.bytes() + body.len() > self.shared.options.frame_bytes {
            self.make_room(body.len())?;
        }
        let block = match self.frame.block_of(descriptor.key_group) {
            Some(block) => block,
            None => {
                let key = self.keys.get(descriptor.key_group)?;
                self.frame.add_block(descriptor.key_group, Some(key))
            }
        };
        self.ensure_begun("append record")?;
        let sequence = Sequence(self.frame.next);
        self.frame.put_record(descriptor, body, block);
        Ok(sequence)
    }

    /// Adds a control record to the open transaction; `None` removes the entry. It takes effect when the transaction
    /// commits.
    pub fn control(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<Sequence> {
        self.check_room("append control record")?;
        let len = key.len() + value.map_or(0, <[u8]>::len);
        if len > BODY_BYTES_MAX {
            return Err(invalid(
                "append control record",
                "the value is longer than 1 GiB",
            ));
        }
        self.make_room(len)?;
        self.ensure_begun("append control record")?;
        let sequence = Sequence(self.frame.next);
        self.frame.put_control(key, value);
        self.pending.push(ControlChange {
            sequence,
            key: key.into(),
            value: value.map(Into::into),
        });
        Ok(sequence)
    }

    /// Ends the open transaction. Never refused for want of room.
    pub fn commit(&mut self, commit: Commit<'_>) -> Result<Sequence> {
        self.ensure_begun("commit transaction")?;
        let sequence = Sequence(self.frame.next);
        self.frame.put_commit(&commit);
        self.frame.controls.append(&mut self.pending);
        self.transaction = None;
        match self.frame.bytes() >= self.shared.options.frame_bytes {
            true => self.dispatch()?,
            false => self.poll()?,
        }
        Ok(sequence)
    }

    /// Discards the open transaction, also one that was partly written through.
    pub fn rollback(&mut self) -> Result<()> {
        let Some(transaction) = self.transaction.take() else {
            return Err(invalid("roll back", "no transaction is open"));
        };
        self.pending.clear();
        self.frame.rewind();
        if transaction.first < self.frame.base {
            self.frame.first_in = Some(transaction.first);
            self.frame.put_abort();
            self.touch();
        }
        if self.frame.is_empty() {
            self.frame_since = None;
        }
        Ok(())
    }

    /// Hands the current frame on when it is older than `frame_delay`; call it when idle.
    pub fn poll(&mut self) -> Result<()> {
        let Some(since) = self.frame_since else {
            return self.check_alive();
        };
        let age = self.shared.options.clock.monotonic().saturating_sub(since);
        match age >= self.shared.options.frame_delay {
            true => self.dispatch(),
            false => Ok(()),
        }
    }

    /// Hands the current frame on now. It is durable when [`crate::Journal::end`] has passed it.
    pub fn flush(&mut self) -> Result<()> {
        self.dispatch()
    }

    /// The next sequence that will be given out.
    pub fn next_sequence(&self) -> Sequence {
        Sequence(self.frame.next)
    }

    /// Room left under `disk_max`.
    pub fn capacity(&self) -> Capacity {
        self.shared.capacity()
    }

    /// Discards an open transaction, makes the rest durable and lets go of the directory.
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        if self.transaction.is_some() {
            self.rollback()?;
        }
        let sent = self.dispatch().and_then(|()| {
            let key = self.keys.get(KeyGroupId::DEFAULT)?;
            self.send(ToSeal::Close {
                key,
                next: self.frame.base,
            })
        });
        self.stop();
        match self.shared.failed() {
            Some(error) => Err(error),
            None => sent,
        }
    }

    /// Waits for the threads and lets go of the lock.
    fn stop(&mut self) {
        self.frames = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                let detail = "a thread of the journal panicked";
                self.shared
                    .fail(Error::new(ErrorKind::Internal, "append", detail));
            }
        }
        if let Err(error) = crate::retention::store_cursors(&self.shared) {
            self.shared.fail(error);
        }
        self.shared.unlock();
    }

    /// Begins the open transaction in the current frame if it has not begun there.
    fn ensure_begun(&mut self, operation: &'static str) -> Result<()> {
        let Some(transaction) = &mut self.transaction else {
            return Err(invalid(operation, "no transaction is open"));
        };
        if !transaction.begun_here {
            transaction.begun_here = true;
            let start = TransactionStart {
                header: &self.header,
                snapshot: transaction.snapshot,
            };
            let continued = transaction.first < self.frame.base;
            self.frame.put_begin(start, continued);
            self.touch();
        }
        Ok(())
    }

    /// Notes when the current frame got its first entry.
    fn touch(&mut self) {
        if self.frame_since.is_none() {
            self.frame_since = Some(self.shared.options.clock.monotonic());
        }
    }

    /// Hands the frame on when `len` more bytes would not fit.
    fn make_room(&mut self, len: usize) -> Result<()> {
        match self.frame.bytes() + len > self.shared.options.frame_bytes && !self.frame.is_empty() {
            true => self.dispatch(),
            false => Ok(()),
        }
    }

    fn check_room(&self, operation: &'static str) -> Result<()> {
        match self.shared.is_full() {
            true => Err(full(operation)),
            false => Ok(()),
        }
    }

    fn check_alive(&self) -> Result<()> {
        self.shared.failed().map_or(Ok(()), Err)
    }

    /// Hands the current frame to the seal thread and takes an empty one, waiting for it when all are on their way.
    fn dispatch(&mut self) -> Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        self.frame.spine_key = Some(self.keys.get(KeyGroupId::DEFAULT)?);
        let next = self.frame.next;
        let mut open = None;
        if let Some(transaction) = &mut self.transaction
            && transaction.first < next
        {
            open = Some(transaction.first);
            transaction.begun_here = false;
            self.frame.first_out = open;
            self.frame.pending.extend(self.pending.iter().cloned());
        }
        self.frame.visible_end = open.unwrap_or(next);
        let Ok(mut frame) = self.free.recv() else {
            return Err(self.ended());
        };
        frame.reset(next, self.shared.options.frame_bytes);
        frame.first_in = open;
        std::mem::swap(&mut frame, &mut self.frame);
        self.frame_since = None;
        self.send(ToSeal::Frame(frame))
    }

    fn send(&mut self, message: ToSeal) -> Result<()> {
        let sent = self
            .frames
            .as_ref()
            .is_some_and(|frames| frames.send(message).is_ok());
        if sent { Ok(()) } else { Err(self.ended()) }
    }

    /// Why the threads have gone.
    fn ended(&self) -> Error {
        self.shared.failed().unwrap_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "append",
                "the journal's threads have ended",
            )
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            // Whoever wants to know calls `close`.
            let _ = self.finish();
            self.stop();
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .map_err(|source| {
            Error::new(ErrorKind::Unavailable, "start a thread", source.to_string())
                .caused_by(source)
        })
}

fn invalid(operation: &'static str, detail: &str) -> Error {
    Error::new(ErrorKind::Invalid, operation, detail)
}

fn full(operation: &'static str) -> Error {
    Error::new(
        ErrorKind::Full,
        operation,
        "the journal has reached disk_max",
    )
    .hint("let the slowest cursor catch up, detach it, or raise disk_max")
}
