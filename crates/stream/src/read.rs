//! Reading one shard: which part of the journal, from which reader, into which page.
//!
//! A read that goes on where an earlier one stopped finds that one's reader here, with what is left of its frame.
//! Any other opens a new one; nothing is wrong then, it only costs more.

use crate::Result;
use crate::columns::Layout;
use crate::error::{Error, ErrorKind};
use crate::handle::{Inner, ReadFrom, ReadLimits, Start, find_shard, is_trimmed, locked};
use crate::page::{Page, Piece, Slot};
use crate::record::{Origin, RecordOperation, ViewType};
use crate::registry::{Progress, Shard, Stream};
use crate::shard::ShardId;
use change::batch::{FLAG_EXPIRED, FLAG_STATIC, RowBody};
use change::image::Image;
use change::{Operation, TransactionHeader};
use journal::{Body, Item, ReadOptions, Reader, RecordDescriptor, Sequence};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A kept reader that nobody came back to is closed after this.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Stream, shard, and the sequence at which it goes on.
type Key = (u32, u32, u64);

/// Readers kept between calls.
pub(crate) struct Readers {
    kept: Mutex<HashMap<Key, (Box<ShardReader>, Instant)>>,
    count_max: usize,
}

impl Readers {
    pub fn new(count_max: usize) -> Self {
        Self {
            kept: Mutex::default(),
            count_max,
        }
    }

    fn take(&self, key: Key) -> Option<Box<ShardReader>> {
        locked(&self.kept).remove(&key).map(|(reader, _)| reader)
    }

    fn keep(&self, key: Key, reader: Box<ShardReader>) {
        let mut kept = locked(&self.kept);
        if kept.len() >= self.count_max {
            let now = Instant::now();
            kept.retain(|_, (_, since)| now.saturating_duration_since(*since) < IDLE_MAX);
            let oldest = kept
                .iter()
                .min_by_key(|(_, (_, since))| *since)
                .map(|(key, _)| *key);
            if let Some(oldest) = oldest.filter(|_| kept.len() >= self.count_max) {
                kept.remove(&oldest);
            }
        }
        kept.insert(key, (reader, Instant::now()));
    }

    /// Closes every reader.
    pub fn close_all(&self) {
        locked(&self.kept).clear();
    }

    /// Closes readers that nobody came back to.
    pub fn close_idle(&self) {
        let now = Instant::now();
        locked(&self.kept).retain(|_, (_, since)| now.saturating_duration_since(*since) < IDLE_MAX);
    }
}

/// What of the journal one shard shows.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    table: journal::TableId,
    from_hash: u64,
    to_hash: u64,
    starting: u64,
    snapshot: bool,
    view: ViewType,
}

impl Wanted {
    fn of(stream: &Stream, shard: &Shard) -> Self {
        Self {
            table: journal::TableId(stream.entry.table_id.0),
            from_hash: shard.entry.from_hash,
            to_hash: shard.entry.to_hash,
            starting: shard.entry.starting,
            snapshot: stream.entry.include_snapshot,
            view: stream.entry.view,
        }
    }

    /// What a record is to this shard, if anything.
    fn operation(
        &self,
        sequence: Sequence,
        descriptor: &RecordDescriptor,
    ) -> Option<RecordOperation> {
        let is_mine = descriptor.table == self.table
            && (self.from_hash..=self.to_hash).contains(&descriptor.key_token)
            && sequence.0 >= self.starting;
        let operation = Operation::from_u8(descriptor.operation).filter(|_| is_mine)?;
        match operation {
            Operation::Insert => Some(RecordOperation::Insert),
            Operation::Update => Some(RecordOperation::Update),
            Operation::Delete => Some(RecordOperation::Delete),
            Operation::Read => self.snapshot.then_some(RecordOperation::Snapshot),
            Operation::Ddl | Operation::Statement | Operation::Opaque => None,
        }
    }
}

/// Reads one shard from the journal.
struct ShardReader {
    reader: Reader,
    header: TransactionHeader,
    piece: Arc<Piece>,
    /// First record of the piece that was not handed out.
    at: usize,
    /// What ended the piece early: told once its records have been handed out.
    trouble: Option<(u64, Error)>,
}

impl ShardReader {
    fn open(inner: &Inner, wanted: &Wanted, from: u64) -> Result<Self> {
        let options = ReadOptions {
            from: Sequence(from),
            tables: Some(BTreeSet::from([wanted.table])),
        };
        let reader =
            inner
                .journal
                .reader_of_records(options)
                .map_err(|error| match error.kind() {
                    journal::ErrorKind::Invalid => trimmed(Sequence(from)),
                    _ => error.into(),
                })?;
        Ok(Self {
            reader,
            header: TransactionHeader::default(),
            piece: Arc::default(),
            at: 0,
            trouble: None,
        })
    }

    /// The first sequence that was not handed out or passed over.
    fn position(&self) -> u64 {
        match (self.piece.slots.get(self.at), &self.trouble) {
            (Some(slot), _) => slot.sequence,
            (None, Some((sequence, _))) => *sequence,
            (None, None) => self.reader.position().0,
        }
    }

    /// Fills the piece from the next frame; false when there is none now.
    fn next_frame(&mut self, inner: &Inner, stream: &Stream, wanted: &Wanted) -> Result<bool> {
        let Self { reader, header, .. } = self;
        let Some(frame) = reader.next()? else {
            return Ok(false);
        };
        let created_us = frame.written_us();
        let mut filling = Filling {
            inner,
            stream,
            wanted,
            piece: Piece::default(),
            layouts: Vec::new(),
            created_us,
        };
        let mut trouble = None;
        for item in frame.items() {
            match item {
                Item::Begin { header: bytes, .. } => {
                    header.decode_into(bytes).map_err(|error| {
                        Error::new(
                            ErrorKind::Corrupt,
                            "read a transaction's header",
                            error.to_string(),
                        )
                    })?
                }
                Item::Record {
                    sequence,
                    descriptor,
                    body,
                } => {
                    if let Err(error) = filling.record(sequence, &descriptor, body, header) {
                        trouble = Some((sequence.0, error));
                        break;
                    }
                }
                Item::Control { .. } | Item::Commit { .. } | Item::Retired { .. } => {}
            }
        }
        if trouble.is_none() && !filling.piece.slots.is_empty() {
            inner.note_locked(stream.entry.table_id, false);
        }
        self.piece = Arc::new(filling.piece);
        self.at = 0;
        self.trouble = trouble;
        Ok(true)
    }

    /// Moves records below `limit` into the page, as many as still fit; whether it is full.
    fn hand_out(&mut self, page: &mut Page, limit: u64, limits: &ReadLimits) -> bool {
        let mut count = page.len();
        let start = self.at;
        let mut is_full = false;
        while let Some(slot) = self.piece.slots.get(self.at) {
            if slot.sequence >= limit {
                break;
            }
            let bytes = page.byte_count + u64::from(slot.len);
            if count >= limits.records_max || (count > 0 && bytes > limits.bytes_max as u64) {
                is_full = true;
                break;
            }
            page.byte_count = bytes;
            count += 1;
            self.at += 1;
        }
        if self.at > start {
            page.pieces.push((Arc::clone(&self.piece), start..self.at));
        }
        is_full
    }
}

/// One frame on its way into a piece.
struct Filling<'a> {
    inner: &'a Inner,
    stream: &'a Stream,
    wanted: &'a Wanted,
    piece: Piece,
    /// Schema versions of the piece's layouts.
    layouts: Vec<u32>,
    created_us: i64,
}

impl Filling<'_> {
    fn record(
        &mut self,
        sequence: Sequence,
        descriptor: &RecordDescriptor,
        body: Body<'_>,
        header: &TransactionHeader,
    ) -> Result<()> {
        let Some(operation) = self.wanted.operation(sequence, descriptor) else {
            return Ok(());
        };
        let bytes = match body {
            Body::Bytes(bytes) => bytes,
            Body::Locked(_) => {
                self.inner.note_locked(self.stream.entry.table_id, true);
                let detail = "the encryption key of its table is not to be had";
                return Err(
                    Error::new(ErrorKind::KeyUnavailable, "read a record", detail)
                        .at(&self.stream.info.arn)
                        .hint("give Headwater the key back, and read on"),
                );
            }
        };
        let corrupt = |detail: String| {
            Error::new(ErrorKind::Corrupt, "read a record", detail)
                .at(format!("{} {sequence}", self.stream.info.arn))
        };
        let row = RowBody::read(bytes).map_err(|error| corrupt(error.to_string()))?;
        if has_partial(&row, self.wanted.view) {
            return Err(corrupt(
                "the source's log did not carry the whole row; hint: SET PERSIST binlog_row_image = \
                 FULL, then disable the stream and enable it anew"
                    .into(),
            ));
        }
        let layout = self.layout(descriptor.schema.0)?;
        // When a row of CQL was written, the row itself says, or nothing does.
        let is_cql = self
            .piece
            .layouts
            .get(layout as usize)
            .is_some_and(|layout| layout.schema.is_cql());
        let write_us = match is_cql {
            true => 0,
            false => i64::try_from(header.commit_time_us).unwrap_or(0),
        };
        let has = |flag: u8| descriptor.flags & flag != 0;
        let start = self.piece.bodies.len();
        self.piece.bodies.extend_from_slice(bytes);
        self.piece.slots.push(Slot {
            sequence: sequence.0,
            created_us: self.created_us,
            write_us,
            start: u32::try_from(start)
                .map_err(|_| corrupt("a frame of more than 4 GiB".into()))?,
            len: bytes.len() as u32,
            layout,
            operation,
            origin: match header.replicated {
                _ if has(FLAG_EXPIRED) => Origin::Ttl,
                true => Origin::Replication,
                false => Origin::User,
            },
            is_static: has(FLAG_STATIC),
        });
        Ok(())
    }

    fn layout(&mut self, version: u32) -> Result<u32> {
        if let Some(index) = self.layouts.iter().rposition(|known| *known == version) {
            return Ok(index as u32);
        }
        let layout: Arc<Layout> = self
            .inner
            .layout(self.stream, self.wanted.table.0, version)?;
        self.layouts.push(version);
        self.piece.layouts.push(layout);
        Ok(self.layouts.len() as u32 - 1)
    }
}

/// Whether a cell of an image that the view shows is not known, though it is of the record.
fn has_partial(row: &RowBody<'_>, view: ViewType) -> bool {
    let is_partial = |image: Image<'_>| !image.is_whole();
    (view.has_old() && row.before.is_some_and(is_partial))
        || (view.has_new() && row.after.is_some_and(is_partial))
}

/// Whether a row's record lacks cells that the view shows. What does not decode is found by its readers.
pub(crate) fn lacks_cells(body: &[u8], view: ViewType) -> bool {
    RowBody::read(body).is_ok_and(|row| has_partial(&row, view))
}

fn trimmed(sequence: Sequence) -> Error {
    Error::new(
        ErrorKind::Trimmed,
        "read the shard",
        format!("records at {sequence} have been trimmed: they are kept for 24 hours"),
    )
    .hint("go on with TRIM_HORIZON, and expect a gap")
}

impl Inner {
    pub fn locate(&self, arn: &str, shard: ShardId, start: Start) -> Result<ReadFrom> {
        // In this order: the latest place is not past what the streams shown account for.
        let end = self.journal.end();
        let (registry, _) = self.readable();
        let horizon = self.horizon()?;
        let stream = self.stream_in(&registry, arn, horizon)?;
        let shard = find_shard(&stream, shard)?;
        let from = match start {
            Start::TrimHorizon | Start::Latest if is_trimmed(shard, horizon) => {
                let detail = "every record of the shard has been trimmed";
                return Err(
                    Error::new(ErrorKind::NotFound, "find the shard", detail).at(shard.info.id)
                );
            }
            Start::TrimHorizon => return Ok(ReadFrom::Horizon),
            Start::Latest => match shard.info.ending {
                Some(ending) => return Ok(ReadFrom::Sequence(ending.next())),
                None => end.max(shard.info.starting),
            },
            Start::AtSequence(sequence) => sequence,
            Start::AfterSequence(sequence) => Sequence(sequence.0.saturating_add(1)),
        };
        let named = match start {
            Start::AtSequence(sequence) | Start::AfterSequence(sequence) => sequence,
            _ => from,
        };
        if named < shard.info.starting {
            return Err(trimmed(named));
        }
        if shard.info.ending.is_some_and(|ending| named > ending) {
            let detail = format!("{named} is past the end of the shard, which is closed");
            return Err(
                Error::new(ErrorKind::Invalid, "find the sequence number", detail)
                    .at(shard.info.id)
                    .hint("go on with the shard's children"),
            );
        }
        if from.0 < horizon && self.has_lost(&stream, shard, from.0, horizon)? {
            return Err(trimmed(named));
        }
        Ok(ReadFrom::Sequence(from.min(end.max(shard.info.starting))))
    }

    /// Whether a record of the shard stands, or may have stood, between `from` and the horizon.
    fn has_lost(&self, stream: &Stream, shard: &Shard, from: u64, horizon: u64) -> Result<bool> {
        if from < self.journal.first().0 {
            return Ok(true);
        }
        let wanted = Wanted::of(stream, shard);
        let upto = match shard.entry.ending {
            0 => horizon,
            ending => horizon.min(ending + 1),
        };
        if from >= upto {
            return Ok(false);
        }
        let options = ReadOptions {
            from: Sequence(from),
            tables: Some(BTreeSet::from([wanted.table])),
        };
        let mut reader = match self.journal.reader_of_records(options) {
            Ok(reader) => reader,
            Err(error) if error.kind() == journal::ErrorKind::Invalid => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        while let Some(frame) = reader.next()? {
            for item in frame.items() {
                if let Item::Record {
                    sequence,
                    descriptor,
                    ..
                } = item
                {
                    if sequence.0 >= upto {
                        return Ok(false);
                    }
                    if wanted.operation(sequence, &descriptor).is_some() {
                        return Ok(true);
                    }
                }
            }
            if frame.next_sequence().0 >= upto {
                return Ok(false);
            }
        }
        Ok(false)
    }

    pub fn read(
        &self,
        arn: &str,
        shard: ShardId,
        from: ReadFrom,
        limits: ReadLimits,
    ) -> Result<Page> {
        let (registry, readable) = self.readable();
        let horizon = self.horizon()?;
        let stream = self.stream_in(&registry, arn, horizon)?;
        let shard = find_shard(&stream, shard)?;
        let mut from = match from {
            ReadFrom::Horizon => horizon.max(shard.entry.starting),
            ReadFrom::Sequence(sequence) => sequence.0.max(shard.entry.starting),
        };
        if from < horizon {
            if self.has_lost(&stream, shard, from, horizon)? {
                return Err(trimmed(Sequence(from)));
            }
            from = horizon;
        }
        let limit = match shard.entry.ending {
            0 => readable,
            ending => readable.min(ending + 1),
        };
        let mut page = Page::empty(stream.entry.view, self.options.keys_in_images);
        let is_closed = shard.entry.ending != 0;
        if from < limit {
            self.fill(&mut page, (&stream, shard), (from, limit), limits)?;
        } else {
            page.next = Some(Sequence(from));
        }
        if is_closed && page.next.is_some_and(|next| next.0 > shard.entry.ending) {
            page.next = None;
        }
        let records = page.len() as u64;
        let counters = &stream.counters;
        counters.records_read.fetch_add(records, Ordering::Relaxed);
        counters
            .bytes_read
            .fetch_add(page.byte_count, Ordering::Relaxed);
        let last = page.pieces.last().and_then(|(piece, range)| {
            let slot = piece.slots.get(range.end.wrapping_sub(1))?;
            Some(slot.created_us)
        });
        let progress = Progress {
            behind_us: last.filter(|_| !page.at_tip),
            at: Instant::now(),
        };
        counters.note_read(shard.number, page.next.map(|_| progress));
        Ok(page)
    }

    fn fill(
        &self,
        page: &mut Page,
        (stream, shard): (&Stream, &Shard),
        (from, limit): (u64, u64),
        limits: ReadLimits,
    ) -> Result<()> {
        let wanted = Wanted::of(stream, shard);
        let key = |at: u64| (stream.number, shard.number, at);
        let mut reader = match self.readers.take(key(from)) {
            Some(reader) => reader,
            None => Box::new(ShardReader::open(self, &wanted, from)?),
        };
        let deadline = self.deadline();
        loop {
            let is_full = reader.hand_out(page, limit, &limits);
            let at = reader.position();
            let ended = at >= limit;
            if is_full || ended {
                page.at_tip = ended;
                break;
            }
            if let Some((_, error)) = reader.trouble.take() {
                // What comes before it is handed out first. The reader is not kept: it is past it.
                if page.is_empty() {
                    return Err(error);
                }
                page.at_tip = false;
                page.next = Some(Sequence(at));
                return Ok(());
            }
            if Instant::now() >= deadline {
                page.at_tip = false;
                break;
            }
            if !reader.next_frame(self, stream, &wanted)? {
                page.at_tip = true;
                break;
            }
        }
        // Past the limit is not read yet, whatever was passed over there.
        let next = reader.position().max(from);
        page.next = Some(Sequence(next));
        let is_done = shard.entry.ending != 0 && next > shard.entry.ending;
        if !is_done {
            self.readers.keep(key(next), reader);
        }
        Ok(())
    }
}
