//! Finding out, after whatever happened, what the journal holds.
//!
//! Frames are checked from the last segment's start. At the first one that is not whole, everything after it is searched
//! for a frame that was written when the bad place was already known to be durable (`synced_through`). If there is one,
//! synced bytes have changed: that is damage, and opening is refused. If there is none, the place was never
//! acknowledged: it is the torn tail, and is cut. A segment whose header and checkpoint are not whole, with nothing
//! proving otherwise, was being created, and goes. Earlier segments were wholly durable before the next one was begun,
//! which notes their length: a shorter file is damage.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::Result;
use crate::checkpoint::{self, Checkpoint, Fold};
use crate::error::{Error, ErrorKind};
use crate::format::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader,
    flag,
};
use crate::frame::Frame;
use crate::fs::FsFile;
use crate::id::{JournalId, Sequence};
use crate::journal::LastCommit;
use crate::options::Options;
use crate::seal::OpenKeys;
use crate::sealer::Previous;
use crate::segment::{self, SegmentReader, corrupt, newer};
use crate::spine::{Entries, Entry};
use crate::state::SegmentInfo;

/// Bytes read at a time while checking.
const WINDOW_BYTES: usize = 1 << 20;
/// At most this much of a torn tail is kept beside its segment.
const TORN_KEEP_BYTES: u64 = 16 << 20;

/// What an existing journal holds.
pub(crate) struct Recovered {
    pub id: JournalId,
    pub segments: BTreeMap<u32, SegmentInfo>,
    /// The highest segment number in use, also of one that was dropped.
    pub last_number: u32,
    pub epoch: u64,
    /// The first sequence that is free.
    pub next: u64,
    /// The transaction that the end of the journal cuts off.
    pub open: Option<u64>,
    pub checkpoint: Checkpoint,
    pub previous: Previous,
    /// The last segment, when nothing was ever written to it: the next one takes its place.
    pub empty: Option<u32>,
}

/// What the checked frames of one segment say.
#[derive(Debug)]
struct Scan {
    valid_len: u64,
    /// Where the checkpoint ends; `None` when it is not whole.
    data_start: Option<u64>,
    ordinal: u32,
    next: u64,
    open: Option<u64>,
    aborted: Vec<(u64, u64)>,
    written_us: i64,
    snapshot: bool,
    time_max: i64,
    last_commit_at: Option<u64>,
}

/// Looks at every segment; with `repair`, cuts the torn tail and removes a segment that was being created.
pub(crate) fn recover(
    options: &Options,
    keys: &Arc<OpenKeys>,
    repair: bool,
) -> Result<Option<Recovered>> {
    let mut numbers = list(options)?;
    let last_number = numbers.last().copied().unwrap_or(0);
    while let Some(number) = numbers.last().copied() {
        if let Some((header, scan)) = check_last(options, number)? {
            if repair {
                cut(options, number, scan.valid_len)?;
            }
            return describe(options, keys, (&numbers, last_number), (header, scan)).map(Some);
        }
        if repair {
            segment::unlink(&*options.fs, &options.dir, number)?;
            // Before its successor is begun: coming back after it, the remnant would look like damage.
            let fail = |source| Error::io("sync directory", &options.dir, source);
            options.fs.sync_dir(&options.dir).map_err(fail)?;
        }
        numbers.pop();
    }
    Ok(None)
}

fn list(options: &Options) -> Result<Vec<u32>> {
    let fail = |source| Error::io("list segments", &options.dir, source);
    let paths = options.fs.list(&options.dir).map_err(fail)?;
    let mut numbers: Vec<u32> = paths
        .iter()
        .filter_map(|path| segment::number_of(path))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Checks the last segment; `None` when it was still being created.
fn check_last(options: &Options, number: u32) -> Result<Option<(SegmentHeader, Scan)>> {
    let path = segment::path(&options.dir, number);
    let fail = |source| Error::io("read segment", &path, source);
    let file = options.fs.open(&path).map_err(fail)?;
    let len = file.len().map_err(fail)?;
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let count = file.read_at(0, &mut bytes).map_err(fail)?;
    let mut check = Check {
        file,
        path: &path,
        number,
        len,
    };
    match SegmentHeader::decode(&bytes[..count]) {
        Ok(header) => {
            let scan = check.frames(&header)?;
            if scan.valid_len < len {
                check.refuse_damage(scan.valid_len, scan.ordinal)?;
            }
            Ok(scan.data_start.is_some().then_some((header, scan)))
        }
        Err(HeaderError::Newer(version)) => Err(newer(number, 0, version)),
        Err(HeaderError::Damaged) => check.refuse_damage(0, 0).map(|()| None),
    }
}

struct Check<'a> {
    file: Arc<dyn FsFile>,
    path: &'a Path,
    number: u32,
    len: u64,
}

impl Check<'_> {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.file
            .read_at(offset, buffer)
            .map_err(|source| Error::io("read segment", self.path, source))
    }

    /// Walks the frames as long as they are whole.
    fn frames(&mut self, header: &SegmentHeader) -> Result<Scan> {
        let mut scan = Scan {
            valid_len: SEGMENT_HEADER_BYTES as u64,
            data_start: None,
            ordinal: 0,
            next: header.base,
            open: header.first_in,
            aborted: Vec::new(),
            written_us: header.created_us,
            snapshot: true,
            time_max: header.time_max,
            last_commit_at: None,
        };
        let mut window = Window {
            bytes: vec![0; WINDOW_BYTES],
            at: 0,
            len: 0,
        };
        while let Some(frame) = self.frame(&scan, &mut window)? {
            scan.add(&frame);
        }
        if scan.next == header.base {
            scan.snapshot = false;
        }
        Ok(scan)
    }

    /// The header of the next frame, if all of it is whole and belongs there.
    fn frame(&self, scan: &Scan, window: &mut Window) -> Result<Option<FrameHeader>> {
        let offset = scan.valid_len;
        let mut bytes = [0; FRAME_HEADER_BYTES];
        if !window.copy(self, offset, &mut bytes)? {
            return Ok(None);
        }
        let header = match FrameHeader::decode(&bytes) {
            Ok(header) => header,
            Err(HeaderError::Newer(version)) => return Err(newer(self.number, offset, version)),
            Err(HeaderError::Damaged) => return Ok(None),
        };
        let fits = offset + u64::from(header.len) <= self.len;
        let checkpoint_next = header.has(flag::CHECKPOINT) == scan.data_start.is_none();
        if !fits || header.ordinal != scan.ordinal || header.base != scan.next || !checkpoint_next {
            return Ok(None);
        }
        let body = (
            offset + FRAME_HEADER_BYTES as u64,
            offset + u64::from(header.len),
        );
        let whole = window.crc(self, body)? == Some(header.body_crc);
        Ok(whole.then_some(header))
    }

    /// Refuses when a frame after `offset` proves that `offset` had been durable.
    fn refuse_damage(&mut self, offset: u64, ordinal: u32) -> Result<()> {
        let mut buffer = vec![0; WINDOW_BYTES];
        let mut at = offset;
        while at < self.len {
            let count = self.read(at, &mut buffer)?;
            // A writer that is at work may have added more since: only what was there counts.
            let bytes = &buffer[..count.min((self.len - at) as usize)];
            for start in memchr_magic(bytes) {
                if let Ok(header) = FrameHeader::decode(&bytes[start..])
                    && header.ordinal >= ordinal
                    && header.synced_through > offset
                {
                    let proof = segment::place(self.number, at + start as u64);
                    let detail = format!("bytes that were durable are damaged (proved by {proof})");
                    return Err(corrupt(self.number, offset, detail));
                }
            }
            if count < buffer.len() {
                break;
            }
            at += (count - FRAME_HEADER_BYTES) as u64;
        }
        Ok(())
    }
}

fn memchr_magic(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let places = bytes.windows(FRAME_MAGIC.len()).enumerate();
    places
        .filter(|(_, window)| **window == FRAME_MAGIC)
        .map(|(at, _)| at)
}

/// A stretch of the file in memory.
struct Window {
    bytes: Vec<u8>,
    at: u64,
    len: usize,
}

impl Window {
    /// The bytes from `offset` on, some of them at least, none at the end of the file.
    fn from(&mut self, check: &Check<'_>, offset: u64, least: usize) -> Result<&[u8]> {
        let held = (self.at + self.len as u64).saturating_sub(offset);
        if offset < self.at || held < least as u64 {
            self.len = check.read(offset, &mut self.bytes)?;
            self.at = offset;
        }
        Ok(&self.bytes[(offset - self.at) as usize..self.len])
    }

    fn copy(&mut self, check: &Check<'_>, offset: u64, out: &mut [u8]) -> Result<bool> {
        let bytes = self.from(check, offset, out.len())?;
        let whole = bytes.len() >= out.len();
        if whole {
            out.copy_from_slice(&bytes[..out.len()]);
        }
        Ok(whole)
    }

    fn crc(&mut self, check: &Check<'_>, (from, to): (u64, u64)) -> Result<Option<u32>> {
        let (mut offset, mut crc) = (from, 0);
        while offset < to {
            let bytes = self.from(check, offset, 1)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let count = bytes.len().min((to - offset) as usize);
            crc = crc32c::crc32c_append(crc, &bytes[..count]);
            offset += count as u64;
        }
        Ok(Some(crc))
    }
}

impl Scan {
    fn add(&mut self, frame: &FrameHeader) {
        let offset = self.valid_len;
        self.valid_len += u64::from(frame.len);
        self.ordinal += 1;
        self.written_us = frame.written_us;
        if frame.has(flag::CHECKPOINT) {
            if frame.has(flag::CHECKPOINT_END) {
                self.data_start = Some(self.valid_len);
            }
            return;
        }
        if frame.next > frame.base {
            self.snapshot &= frame.has(flag::SNAPSHOT);
        }
        self.next = frame.next;
        if frame.next > frame.base || frame.has(flag::ABORT_IN) {
            self.open = frame.has(flag::OPEN_OUT).then_some(frame.first_out);
        }
        self.aborted.extend(frame.aborted());
        self.time_max = self.time_max.max(frame.time_max);
        if frame.commits > 0 {
            self.last_commit_at = Some(offset);
        }
    }
}

/// Cuts the torn tail off, keeping what it held beside the segment.
fn cut(options: &Options, number: u32, valid_len: u64) -> Result<()> {
    let path = segment::path(&options.dir, number);
    let fail = |source| Error::io("cut the torn tail", &path, source);
    let file = options.fs.open(&path).map_err(fail)?;
    let len = file.len().map_err(fail)?;
    if len <= valid_len {
        return Ok(());
    }
    let mut torn = vec![0; (len - valid_len).min(TORN_KEEP_BYTES) as usize];
    file.read_at(valid_len, &mut torn).map_err(fail)?;
    let kept = options
        .fs
        .create(&segment::torn_path(&options.dir, number))
        .map_err(fail)?;
    kept.write_at(0, &torn).map_err(fail)?;
    options.fs.truncate(&path, valid_len).map_err(fail)
}

fn describe(
    options: &Options,
    keys: &Arc<OpenKeys>,
    (numbers, last_number): (&[u32], u32),
    (header, scan): (SegmentHeader, Scan),
) -> Result<Recovered> {
    let mut segments = earlier_segments(options, numbers, &header)?;
    let own = Previous {
        number: header.number,
        len: scan.valid_len,
        written_us: scan.written_us,
        snapshot: scan.snapshot,
    };
    segments.insert(header.number, info(&header, scan.next, &own));
    let empty = (scan.next == header.base).then_some(header.number);
    let previous = if empty.is_some() {
        previous_by(&header)
    } else {
        own
    };
    let mut reader = SegmentReader::open(
        &*options.fs,
        &options.dir,
        header.number,
        keys.clone(),
        64 << 10,
    )?;
    let (mut checkpoint, data_start) = checkpoint::read(&mut reader)?;
    checkpoint.aborted.extend(&scan.aborted);
    let aborted = checkpoint.aborted.clone();
    let is_aborted = |sequence: u64| {
        aborted
            .iter()
            .any(|(first, end)| (*first..*end).contains(&sequence))
    };
    let fold = Fold {
        upto: scan.open.unwrap_or(scan.next),
        is_aborted: &is_aborted,
    };
    fold.pending(&mut checkpoint);
    fold.frames(
        &mut reader,
        (data_start, scan.valid_len),
        &mut checkpoint.control,
    )?;
    if let Some(offset) = scan.last_commit_at {
        checkpoint.last_commit = last_commit(&mut reader, offset)?.or(checkpoint.last_commit);
    }
    checkpoint.time_max = scan.time_max;
    Ok(Recovered {
        id: header.journal,
        segments,
        last_number,
        epoch: header.epoch,
        next: scan.next,
        open: scan.open,
        checkpoint,
        previous,
        empty,
    })
}

fn info(header: &SegmentHeader, end: u64, own: &Previous) -> SegmentInfo {
    SegmentInfo {
        number: header.number,
        base: header.base,
        end,
        len: own.len,
        written_us: own.written_us,
        snapshot: own.snapshot,
        inside: header.first_in.is_some(),
        time_before: header.time_max,
    }
}

/// All segments but the last, from their headers and what the next one says about them.
fn earlier_segments(
    options: &Options,
    numbers: &[u32],
    last: &SegmentHeader,
) -> Result<BTreeMap<u32, SegmentInfo>> {
    let mut segments = BTreeMap::new();
    let mut following = *last;
    for number in numbers
        .iter()
        .rev()
        .copied()
        .filter(|number| *number != last.number)
    {
        let path = segment::path(&options.dir, number);
        let fail = |source| Error::io("read segment", &path, source);
        let file = options.fs.open(&path).map_err(fail)?;
        let len = file.len().map_err(fail)?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let count = file.read_at(0, &mut bytes).map_err(fail)?;
        let header = match SegmentHeader::decode(&bytes[..count]) {
            Ok(header) if header.journal == last.journal && header.number == number => header,
            Ok(_) => return Err(corrupt(number, 0, "the segment belongs to another journal")),
            Err(HeaderError::Newer(version)) => return Err(newer(number, 0, version)),
            Err(HeaderError::Damaged) => {
                return Err(corrupt(number, 0, "the segment header is damaged"));
            }
        };
        refuse_missing(numbers, &following)?;
        let (end, own) = if following.previous == number {
            if len < following.previous_len {
                let detail = format!("the file was {} bytes long", following.previous_len);
                return Err(corrupt(number, len, detail));
            }
            (following.base, previous_by(&following))
        } else {
            let scan = Check {
                file,
                path: &path,
                number,
                len,
            }
            .frames(&header)?;
            if scan.valid_len < len {
                return Err(corrupt(number, scan.valid_len, "a frame is damaged"));
            }
            let own = Previous {
                number,
                len,
                written_us: scan.written_us,
                snapshot: scan.snapshot,
            };
            (scan.next, own)
        };
        segments.insert(number, info(&header, end, &own));
        following = header;
    }
    Ok(segments)
}

/// Refuses when the segment before `following` is gone although it held more than snapshot rows: retention takes such
/// segments from the front only.
fn refuse_missing(numbers: &[u32], following: &SegmentHeader) -> Result<()> {
    let missing = following.previous;
    if following.previous_snapshot || numbers.contains(&missing) {
        return Ok(());
    }
    let older = numbers.first().is_some_and(|first| *first < missing);
    match older {
        true => Err(corrupt(
            missing,
            0,
            "the segment is missing, but older ones are there",
        )),
        false => Ok(()),
    }
}

fn previous_by(following: &SegmentHeader) -> Previous {
    Previous {
        number: following.previous,
        len: following.previous_len,
        written_us: following.previous_written_us,
        snapshot: following.previous_snapshot,
    }
}

/// The last commit in the frame at `offset`.
fn last_commit(reader: &mut SegmentReader, offset: u64) -> Result<Option<LastCommit>> {
    let header = reader.frame_header(offset)?;
    let mut frame = Frame::default();
    reader.spine(offset, &header, &mut frame)?;
    let mut sequence = header.base;
    let mut last = None;
    for entry in Entries::new(&frame.spine) {
        if let Entry::Commit(commit) = entry {
            last = Some((sequence, commit.time_us, commit.position));
        }
        sequence += entry.sequences();
    }
    Ok(last.map(|(sequence, time_us, position)| LastCommit {
        sequence: Sequence(sequence),
        position: position.to_vec(),
        time_us,
    }))
}

/// Refuses when a cursor stands past the end: what it has passed was durable once.
pub(crate) fn refuse_lost_end(next: u64, cursor: Option<(&str, Sequence)>) -> Result<()> {
    match cursor {
        Some((name, sequence)) if sequence.0 > next => {
            let end = Sequence(next);
            let detail = format!("the journal ends at {end}, but cursor {name} is at {sequence}");
            Err(Error::new(ErrorKind::Corrupt, "open journal", detail).hint(
                "the end of the journal was lost; restore it, or start with a fresh journal directory and `run --recover`",
            ))
        }
        _ => Ok(()),
    }
}
