//! The second thread: compresses and seals frames, and decides where segments end.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use crate::Result;
use crate::checkpoint::{self, Checkpoint};
use crate::format::{
    BLOCK_ENTRY_BYTES, BlockEntry, FRAME_HEADER_BYTES, FrameHeader, KeyEntry, SEGMENT_HEADER_BYTES,
    SegmentHeader, flag, put_block_entry, put_key_entry,
};
use crate::frame::Frame;
use crate::id::Sequence;
use crate::journal::LastCommit;
use crate::options::Compression;
use crate::seal::{PiecePlace, SPINE, SealKey, seal_piece};
use crate::state::Shared;
use crate::wire::put_varint;

/// What the writer sends.
pub(crate) enum ToSeal {
    Frame(Box<Frame>),
    Close { key: Arc<SealKey>, next: u64 },
}

/// What the write thread gets.
pub(crate) enum ToStore {
    Segment {
        header: SegmentHeader,
        bytes: Vec<u8>,
        key: u32,
    },
    Frame(Sealed),
}

/// A frame, sealed, with the open one beside it for the tail.
pub(crate) struct Sealed {
    pub frame: Box<Frame>,
    pub header: FrameHeader,
    /// `bytes[..header.len]` is the frame.
    pub bytes: Vec<u8>,
    /// Whether the directory introduces data keys, and which.
    pub keys: Vec<u32>,
}

/// The segment being written, as the sealer sees it.
struct Current {
    number: u32,
    ordinal: u32,
    len: u64,
    data_start: u64,
    snapshot: bool,
    introduced: Vec<u32>,
}

/// The segment before.
#[derive(Clone, Copy, Default)]
pub(crate) struct Previous {
    pub number: u32,
    pub len: u64,
    pub written_us: i64,
    pub snapshot: bool,
}

pub(crate) struct Sealer {
    shared: Arc<Shared>,
    epoch: u64,
    pub state: Checkpoint,
    current: Current,
    previous: Previous,
    directory: Vec<u8>,
    pieces: Vec<u8>,
}

impl Sealer {
    pub fn new(
        shared: Arc<Shared>,
        epoch: u64,
        state: Checkpoint,
        (number, previous): (u32, Previous),
    ) -> Self {
        let current = Current {
            number,
            ordinal: 0,
            len: previous.len,
            data_start: 0,
            snapshot: previous.snapshot,
            introduced: Vec::new(),
        };
        let (directory, pieces) = (Vec::new(), Vec::new());
        Sealer {
            shared,
            epoch,
            state,
            current,
            previous,
            directory,
            pieces,
        }
    }

    /// Runs until the writer lets go, or the write thread has.
    pub fn run(
        mut self,
        frames: Receiver<ToSeal>,
        (out, buffers): (SyncSender<ToStore>, Receiver<Vec<u8>>),
    ) {
        while let Ok(message) = frames.recv() {
            let result = match message {
                ToSeal::Frame(frame) => self.frame(frame, &out, &buffers),
                ToSeal::Close { key, next } => self.close(key, next, &out),
            };
            match result {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.shared.fail(error),
            }
        }
    }

    fn frame(
        &mut self,
        frame: Box<Frame>,
        out: &SyncSender<ToStore>,
        buffers: &Receiver<Vec<u8>>,
    ) -> Result<bool> {
        if self.must_roll(&frame)
            && let Some(key) = &frame.spine_key
        {
            let start = self.start_segment(frame.base, frame.first_in, key.clone())?;
            if out.send(start).is_err() {
                return Ok(false);
            }
        }
        let Ok(buffer) = buffers.recv() else {
            return Ok(false);
        };
        let sealed = self.seal(frame, buffer)?;
        Ok(out.send(ToStore::Frame(sealed)).is_ok())
    }

    /// A mark that lets the next opening tell damage from a torn tail.
    fn close(&mut self, key: Arc<SealKey>, next: u64, out: &SyncSender<ToStore>) -> Result<bool> {
        let mut frame = Box::new(Frame::default());
        frame.reset(next, 0);
        frame.spine_key = Some(key);
        let mut sealed = self.seal(frame, Vec::new())?;
        sealed.header.flags |= flag::CLOSE;
        let header = sealed.header.encode();
        sealed.bytes[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        Ok(out.send(ToStore::Frame(sealed)).is_ok())
    }

    /// At the size limit, and where a long run of snapshot frames meets a long run of others.
    fn must_roll(&self, frame: &Frame) -> bool {
        let held = self.current.len - self.current.data_start;
        let run_bytes = (self.shared.options.segment_bytes / 16).clamp(64 << 10, 8 << 20);
        let switches = frame.snapshot != self.current.snapshot;
        let full = self.current.len + frame.bytes() as u64 > self.shared.options.segment_bytes;
        held > 0 && (full || (switches && frame.first_in.is_none() && held >= run_bytes))
    }

    /// Header and checkpoint of the next segment, which begins at `base`.
    pub fn start_segment(
        &mut self,
        base: u64,
        first_in: Option<u64>,
        key: Arc<SealKey>,
    ) -> Result<ToStore> {
        self.state
            .aborted
            .retain(|(_, end)| *end > self.shared.first_hint());
        let header = SegmentHeader {
            number: self.current.number + 1,
            journal: self.shared.id,
            epoch: self.epoch,
            base,
            created_us: self.shared.options.clock.now_us(),
            previous: self.previous.number,
            previous_len: self.previous.len,
            previous_written_us: self.previous.written_us,
            previous_snapshot: self.previous.snapshot,
            time_max: self.state.time_max,
            first_in,
        };
        self.current = Current {
            number: header.number,
            ordinal: 0,
            len: SEGMENT_HEADER_BYTES as u64,
            data_start: 0,
            snapshot: true,
            introduced: Vec::new(),
        };
        let mut bytes = header.encode().to_vec();
        let parts = checkpoint::encode(&self.state);
        for (index, part) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            self.checkpoint_part(part, last, (base, key.clone()), &mut bytes)?;
        }
        self.current.data_start = self.current.len;
        self.previous = Previous {
            number: header.number,
            len: self.current.len,
            written_us: header.created_us,
            snapshot: false,
        };
        Ok(ToStore::Segment {
            header,
            bytes,
            key: key.number,
        })
    }

    fn checkpoint_part(
        &mut self,
        part: &[u8],
        last: bool,
        (base, key): (u64, Arc<SealKey>),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut frame = Frame::default();
        frame.reset(base, part.len());
        frame.spine.extend_from_slice(part);
        frame.spine_key = Some(key);
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut header = self.seal_into(&frame, &mut pieces)?.0;
        header.flags |= flag::CHECKPOINT | if last { flag::CHECKPOINT_END } else { 0 };
        let mut encoded = header.encode();
        crate::format::set_synced_through(&mut encoded, 0);
        out.extend_from_slice(&encoded);
        out.extend_from_slice(&pieces[FRAME_HEADER_BYTES..header.len as usize]);
        self.pieces = pieces;
        Ok(())
    }

    fn seal(&mut self, frame: Box<Frame>, mut bytes: Vec<u8>) -> Result<Sealed> {
        let (header, keys) = self.seal_into(&frame, &mut bytes)?;
        self.current.snapshot &= frame.snapshot || frame.is_empty();
        self.previous.len = self.current.len;
        self.previous.written_us = header.written_us;
        self.previous.snapshot =
            self.current.snapshot && self.current.len > self.current.data_start;
        self.fold(&frame);
        Ok(Sealed {
            frame,
            header,
            bytes,
            keys,
        })
    }

    fn fold(&mut self, frame: &Frame) {
        if frame.abort_in
            && let Some(first) = frame.first_in
        {
            self.state.aborted.push((first, frame.base));
        }
        frame
            .controls
            .iter()
            .for_each(|change| self.state.control.apply(change));
        self.state.pending.clear();
        self.state.pending.extend(frame.pending.iter().cloned());
        if let Some((sequence, time_us)) = frame.last_commit {
            let (sequence, position) = (Sequence(sequence), frame.position.clone());
            self.state.last_commit = Some(LastCommit {
                sequence,
                position,
                time_us,
            });
        }
        self.state.time_max = self.state.time_max.max(frame.time_max.unwrap_or(i64::MIN));
    }

    /// Seals `frame` into `out`, header included; returns the header and the keys that appear here first.
    fn seal_into(&mut self, frame: &Frame, out: &mut Vec<u8>) -> Result<(FrameHeader, Vec<u32>)> {
        let spine_key = frame
            .spine_key
            .clone()
            .expect("the writer gives every frame its key");
        let keys = self.introduce(frame, &spine_key);
        let compression = self.shared.options.compression;
        let place = PiecePlace {
            journal: self.shared.id,
            segment: self.current.number,
            ordinal: self.current.ordinal,
            block: SPINE,
            base: frame.base,
        };
        put_varint(&mut self.directory, frame.blocks().len() as u64);
        let start =
            FRAME_HEADER_BYTES + self.directory.len() + frame.blocks().len() * BLOCK_ENTRY_BYTES;
        let with = (&*spine_key.cipher, compression);
        let spine_len = seal_piece(&frame.spine, &place, with, out, start)?;
        let mut end = start + spine_len;
        for (index, block) in frame.blocks().iter().enumerate() {
            let key = block
                .key
                .as_deref()
                .expect("the writer gives every block its key");
            let place = PiecePlace {
                block: index as u32,
                ..place
            };
            let with = (&*key.cipher, compression);
            let sealed_len = seal_piece(&block.bytes, &place, with, out, end)?;
            put_block_entry(
                &mut self.directory,
                BlockEntry {
                    group: block.group.0,
                    key: key.number,
                    sealed_len: sealed_len as u32,
                    raw_len: block.bytes.len() as u32,
                },
            );
            end += sealed_len;
        }
        out[FRAME_HEADER_BYTES..start].copy_from_slice(&self.directory);
        let mut header = self.header(frame, (end, spine_len), spine_key.number, out);
        if !keys.is_empty() {
            header.flags |= flag::KEYS;
        }
        out[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode());
        self.current.ordinal += 1;
        self.current.len += end as u64;
        Ok((header, keys))
    }

    /// Begins the directory with the keys that this segment has not shown yet.
    fn introduce(&mut self, frame: &Frame, spine_key: &Arc<SealKey>) -> Vec<u32> {
        let mut fresh: Vec<&Arc<SealKey>> = Vec::new();
        for key in frame
            .blocks()
            .iter()
            .filter_map(|block| block.key.as_ref())
            .chain([spine_key])
        {
            let known = self.current.introduced.contains(&key.number);
            if !known {
                self.current.introduced.push(key.number);
                fresh.push(key);
            }
        }
        self.directory.clear();
        put_varint(&mut self.directory, fresh.len() as u64);
        for key in &fresh {
            let entry = KeyEntry {
                key: key.number,
                group: key.group.0,
                wrapped: &key.wrapped,
            };
            put_key_entry(&mut self.directory, entry);
        }
        fresh.iter().map(|key| key.number).collect()
    }

    fn header(
        &self,
        frame: &Frame,
        (len, spine_len): (usize, usize),
        spine_key: u32,
        out: &[u8],
    ) -> FrameHeader {
        FrameHeader {
            flags: self.flags(frame),
            ordinal: self.current.ordinal,
            len: len as u32,
            directory_len: self.directory.len() as u32,
            spine_len: spine_len as u32,
            base: frame.base,
            next: frame.next,
            visible_end: frame.visible_end,
            first_in: frame.first_in.unwrap_or(0),
            first_out: frame.first_out.unwrap_or(0),
            time_max: frame.time_max.unwrap_or(i64::MIN),
            commits: frame.commits,
            spine_raw: frame.spine.len() as u32,
            spine_key,
            body_crc: crc32c::crc32c(&out[FRAME_HEADER_BYTES..len]),
            written_us: self.shared.options.clock.now_us(),
            synced_through: 0,
        }
    }

    fn flags(&self, frame: &Frame) -> u16 {
        let packed = match self.shared.options.compression {
            Compression::Lz4 => flag::LZ4,
            Compression::Zstd1 => flag::ZSTD,
            Compression::None => 0,
        };
        let when = |condition: bool, flag: u16| if condition { flag } else { 0 };
        packed
            | when(frame.first_in.is_some(), flag::OPEN_IN)
            | when(frame.first_out.is_some(), flag::OPEN_OUT)
            | when(frame.abort_in, flag::ABORT_IN)
            | when(frame.has_control, flag::CONTROL)
            | when(frame.snapshot && !frame.is_empty(), flag::SNAPSHOT)
    }
}
