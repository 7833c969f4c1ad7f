//! The third thread: makes frames durable, then visible.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};

use crate::format::{FrameHeader, SEGMENT_HEADER_BYTES, SegmentHeader, flag};
use crate::frame::Frame;
use crate::id::Sequence;
use crate::index::SegmentIndex;
use crate::journal::LastCommit;
use crate::log::{Epoch, Log, LogEntry};
use crate::retention;
use crate::sealer::{Sealed, ToStore};
use crate::state::{SegmentInfo, Shared, State};
use crate::{Error, Result};

/// Frames that one fdatasync may cover: all that can be waiting.
const BATCH_MAX: usize = 8;

pub(crate) struct Storer {
    pub shared: Arc<Shared>,
    pub log: Box<dyn Log>,
    pub epoch: Epoch,
}

/// Where used buffers go.
pub(crate) struct Recycle {
    pub frames: SyncSender<Box<Frame>>,
    pub buffers: SyncSender<Vec<u8>>,
}

impl Storer {
    /// Runs until the seal thread lets go, or something fails.
    pub fn run(mut self, work: Receiver<ToStore>, recycle: Recycle) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while let Ok(first) = work.recv() {
            batch.push(first);
            while batch.len() < BATCH_MAX
                && let Ok(more) = work.try_recv()
            {
                batch.push(more);
            }
            if let Err(error) = self.store(&mut batch, Some(&recycle)) {
                return self.shared.fail(error);
            }
        }
    }

    /// Makes a batch durable and visible.
    pub fn store(
        &mut self,
        batch: &mut Vec<ToStore>,
        recycle: Option<&Recycle>,
    ) -> Result<(), Error> {
        let mut entries: Vec<LogEntry<'_>> = batch.iter_mut().map(entry).collect();
        self.log.append(self.epoch, &mut entries)?;
        drop(entries);
        self.count(batch);
        let mut ended = Vec::new();
        let full = {
            let mut state = self.shared.state();
            for stored in batch.drain(..) {
                match stored {
                    ToStore::Segment { header, bytes, key } => {
                        ended.extend(begin_segment(&mut state, &header, bytes.len() as u64));
                        // The checkpoint introduces the key that seals it.
                        state
                            .live_index
                            .add_keys(&[key], SEGMENT_HEADER_BYTES as u64);
                        self.shared
                            .counters
                            .segments
                            .fetch_add(1, Ordering::Relaxed);
                    }
                    ToStore::Frame(sealed) => self.frame(&mut state, sealed, recycle),
                }
            }
            let end = self.shared.end();
            self.shared.publish(&state, end);
            let full = self.shared.would_be_full(&state);
            if !full {
                self.shared.update_capacity(&state);
            }
            full
        };
        for (info, index) in ended {
            self.shared.store_index(&index, &info);
            self.shared
                .state()
                .indexes
                .insert(info.number, Arc::new(index));
        }
        if full {
            // What may go goes before anybody is told to pause.
            retention::retain(&self.shared)?;
        }
        Ok(())
    }

    fn frame(&self, state: &mut State, sealed: Sealed, recycle: Option<&Recycle>) {
        let Sealed {
            mut frame,
            header,
            bytes,
            keys,
        } = sealed;
        add_frame(state, &header, &frame, &keys);
        for change in frame.controls.drain(..) {
            state.control.apply(&change);
        }
        if let Some((sequence, time_us)) = frame.last_commit {
            let (sequence, position) = (Sequence(sequence), frame.position.clone());
            state.last_commit = Some(LastCommit {
                sequence,
                position,
                time_us,
            });
        }
        if let Some((first, end)) = header.aborted() {
            state.aborted.push((first, end));
        }
        if header.next > header.base || header.has(flag::ABORT_IN) {
            self.shared
                .publish(state, header.visible_end.max(self.shared.end()));
        }
        let Some(recycle) = recycle else { return };
        let close = header.has(flag::CLOSE);
        let spare = if header.next > header.base {
            state.tail.push(frame, header)
        } else {
            frame
        };
        if !close {
            // The other end is gone only when the writer has gone, and then needs no buffer.
            let _ = recycle.frames.try_send(spare);
            let _ = recycle.buffers.try_send(bytes);
        }
    }

    fn count(&self, batch: &[ToStore]) {
        let counters = &self.shared.counters;
        for stored in batch {
            match stored {
                ToStore::Segment { bytes, .. } => {
                    counters
                        .bytes
                        .fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
                ToStore::Frame(Sealed { frame, header, .. }) => {
                    counters.frames.fetch_add(1, Ordering::Relaxed);
                    counters
                        .bytes
                        .fetch_add(u64::from(header.len), Ordering::Relaxed);
                    counters
                        .bytes_raw
                        .fetch_add(frame.bytes() as u64, Ordering::Relaxed);
                    counters
                        .records
                        .fetch_add(header.next - header.base, Ordering::Relaxed);
                }
            }
        }
        let (syncs, sync_us) = self.log.syncs();
        counters.syncs.store(syncs, Ordering::Relaxed);
        counters.sync_us.store(sync_us, Ordering::Relaxed);
    }
}

fn entry(stored: &mut ToStore) -> LogEntry<'_> {
    match stored {
        ToStore::Segment { header, bytes, .. } => LogEntry::Segment {
            number: header.number,
            base: Sequence(header.base),
            bytes,
        },
        ToStore::Frame(Sealed { header, bytes, .. }) => LogEntry::Frame {
            base: Sequence(header.base),
            next: Sequence(header.next),
            bytes: &mut bytes[..header.len as usize],
        },
    }
}

/// Enters a new segment; returns the ended one with its index.
fn begin_segment(
    state: &mut State,
    header: &SegmentHeader,
    len: u64,
) -> Option<(SegmentInfo, SegmentIndex)> {
    let index = std::mem::take(&mut state.live_index);
    let ended = state
        .live
        .and_then(|number| state.segments.get(&number).copied());
    let info = SegmentInfo {
        number: header.number,
        base: header.base,
        end: header.base,
        len,
        written_us: header.created_us,
        snapshot: false,
        inside: header.first_in.is_some(),
        time_before: header.time_max,
    };
    state.segments.insert(header.number, info);
    state.live = Some(header.number);
    ended.map(|info| (info, index))
}

fn add_frame(state: &mut State, header: &FrameHeader, frame: &Frame, keys: &[u32]) {
    let Some(info) = state
        .live
        .and_then(|number| state.segments.get_mut(&number))
    else {
        return;
    };
    let offset = info.len;
    let empty = info.end == info.base;
    info.len += u64::from(header.len);
    info.end = header.next;
    info.written_us = header.written_us;
    if header.next > header.base {
        info.snapshot = header.has(flag::SNAPSHOT) && (empty || info.snapshot);
    }
    state.live_index.add_keys(keys, offset);
    state.live_index.add(header, offset, &frame.tables);
}
