//! The half that the journal's one writer drives: changes of streams, in their place among the rows, and load.
//!
//! Every change is a transaction of control records. From before it is written until it is shown, a fence keeps
//! readers from what comes after it, so that none reads on in a shard that has been closed meanwhile.

use crate::Result;
use crate::arn::Label;
use crate::columns::Layout;
use crate::entry::{self, NEXT_KEY, ShardEntry, StreamEntry};
use crate::error::{Error, ErrorKind};
use crate::handle::{Inner, Shown, find_shard};
use crate::info::{EnableStream, Resource, StreamInfo, StreamStatus, Tags};
use crate::load::{self, Load, ShardLimits, Wish};
use crate::name;
use crate::read::lacks_cells;
use crate::record::ViewType;
use crate::registry::{Counters, Registry, Shard, Stream};
use crate::shard::ShardId;
use change::{
    Operation, PositionStep, TableId, TableSchema, TransactionHeader, TransactionTrailer,
};
use journal::{Commit, RecordDescriptor, Sequence, TransactionStart, Writer};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Open shards of one stream, also by command.
const SHARDS_OPEN_MAX: usize = 1024;
/// User tags of one resource.
const TAGS_MAX: usize = 50;
/// What has been trimmed leaves the control state this often.
const TRIM_INTERVAL: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_secs(1);
/// A change is durable within milliseconds; a journal that takes longer has failed.
const VISIBLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What is asked of the writer.
pub(crate) enum Change {
    Enable(Box<EnableStream>),
    Disable {
        arn: String,
    },
    Split {
        arn: String,
        shard: ShardId,
        pieces: u32,
    },
    Merge {
        arn: String,
        shards: Vec<ShardId>,
    },
    Tags {
        resource: Resource,
        changes: Vec<(String, Option<String>)>,
    },
}

pub(crate) type Answer = Result<Option<Arc<StreamInfo>>>;

pub(crate) struct Command {
    pub change: Change,
    pub answer: Sender<Answer>,
}

/// What the writer has to know about the source to decide whether a stream can be enabled.
#[derive(Clone, Copy)]
pub struct SourceFacts<'a> {
    /// Why images are not complete, and how to change that; none when they are.
    pub partial_images: Option<&'a str>,
    /// Whether `database.table` is still being copied.
    pub is_copying: &'a dyn Fn(&str) -> bool,
}

impl SourceFacts<'_> {
    /// A source with complete images that copies nothing.
    pub const COMPLETE: SourceFacts<'static> = SourceFacts {
        partial_images: None,
        is_copying: &|_| false,
    };
}

/// Drives all changes of streams. Owned by whoever owns the journal's [`Writer`].
pub struct StreamWriter {
    inner: Arc<Inner>,
    commands: Receiver<Command>,
    loads: Loads,
    ticked: Instant,
    trimmed: Instant,
    unshown: Unshown,
    /// The next stream's number after those that were made inside somebody else's transaction.
    next_inside: u32,
}

/// Changes that were written into somebody else's transactions and are not shown yet.
#[derive(Default)]
struct Unshown {
    is_there: bool,
    made: BTreeMap<TableId, Made>,
    /// Numbers of the streams that ended.
    ended: BTreeSet<u32>,
    /// The last label of a table's streams that were made, also of those that ended since.
    labels: BTreeMap<TableId, i64>,
}

/// A stream that was made and is not shown yet.
struct Made {
    number: u32,
    entry: StreamEntry,
    shards: Vec<(u32, ShardEntry)>,
}

impl StreamWriter {
    pub(crate) fn new(inner: Arc<Inner>, commands: Receiver<Command>) -> Self {
        let now = Instant::now();
        let mut writer = Self {
            inner,
            commands,
            loads: Loads::default(),
            ticked: now,
            trimmed: now,
            unshown: Unshown::default(),
            next_inside: 0,
        };
        writer.loads.follow(&writer.inner.registry());
        writer
    }

    /// Counts one record's load; call it for every record before it is appended.
    ///
    /// True when the record lacks cells that its table's stream shows: the stream cannot have it, so end it there with
    /// [`StreamWriter::end_streams`].
    #[inline]
    #[must_use]
    pub fn observe(&mut self, descriptor: &RecordDescriptor, body: &[u8]) -> bool {
        let Some(Some(watched)) = self.loads.tables.get_mut(descriptor.table.0 as usize) else {
            return false;
        };
        watched.add(descriptor.key_token, body.len() as u64);
        let is_row = Operation::from_u8(descriptor.operation).is_some_and(|operation| {
            matches!(
                operation,
                Operation::Insert | Operation::Update | Operation::Delete
            )
        });
        is_row && watched.view != ViewType::KeysOnly && lacks_cells(body, watched.view)
    }

    /// Notes inside the open transaction that a table is gone: it is not listed any more, until it has a new schema.
    ///
    /// Errors: the journal's.
    pub fn forget_table(&self, table: TableId, writer: &mut Writer) -> Result<()> {
        writer.control(&entry::gone_key(table.0), Some(&[1]))?;
        Ok(())
    }

    /// The number of a captured table by the source's own names.
    pub fn table_named(&self, database: &str, table: &str) -> Option<TableId> {
        let named = |(schema, _): &(Arc<TableSchema>, Sequence)| {
            schema.database == database && schema.name == table
        };
        let found = self.inner.newest_schemas().into_values().find(named);
        found.map(|(schema, _)| schema.table)
    }

    /// Whether the table has a stream that takes records, or is about to.
    pub fn has_live_stream(&self, table: TableId) -> bool {
        matches!(self.loads.tables.get(table.0 as usize), Some(Some(_)))
            || self.loads.enabling.contains(&table)
    }

    /// Ends the live streams of a table whose history ends at `sequence`, inside the transaction that is open in
    /// `writer`: its table was dropped, or a record of it could not be kept. Nothing from `sequence` on is a record of them.
    ///
    /// They are shown as ended by the next [`StreamWriter::serve`] after the transaction. Whether there were any.
    pub fn end_streams(
        &mut self,
        table: TableId,
        sequence: Sequence,
        reason: &str,
        writer: &mut Writer,
    ) -> Result<bool> {
        let changes = self.endings(table, sequence, reason);
        for (key, value) in &changes {
            writer.control(key, value.as_deref())?;
        }
        Ok(!changes.is_empty())
    }

    /// The control records with which [`StreamWriter::end_streams`] ends the streams of a table, for whoever writes them
    /// himself, at once.
    pub fn endings(
        &mut self,
        table: TableId,
        sequence: Sequence,
        reason: &str,
    ) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let ending = Sequence(sequence.0.saturating_sub(1));
        let registry = self.inner.registry();
        let mut changes = Vec::new();
        for stream in registry.streams.values() {
            let is_live = stream.entry.table_id == table
                && !matches!(stream.entry.status, StreamStatus::Disabled)
                && self.unshown.ended.insert(stream.number);
            if is_live {
                changes.extend(closing_shown(stream, ending, reason));
                tracing::warn!(stream = stream.info.arn, "the stream has ended: {reason}");
            }
        }
        if let Some(made) = self.unshown.made.remove(&table) {
            let open = made.shards.iter().map(|(number, shard)| (*number, shard));
            changes.extend(closing((made.number, &made.entry), open, ending, reason));
        }
        self.loads.forget(table);
        if !changes.is_empty() {
            self.raise_fence(sequence.0);
            self.unshown.is_there = true;
        }
        changes
    }

    /// Makes the stream that a config declares, for whoever owns the writer. Between transactions.
    ///
    /// Errors: as [`crate::Streams::enable`].
    pub fn enable_now(
        &mut self,
        request: &EnableStream,
        writer: &mut Writer,
        facts: &SourceFacts<'_>,
    ) -> Result<Arc<StreamInfo>> {
        self.enable(request, writer, facts)
    }

    /// Makes a stream of a table whose first schema record has just been written, inside the transaction that is open
    /// in `writer`, so that the rows that follow it there are records already.
    ///
    /// Shown by the next [`StreamWriter::serve`] after the transaction; gone with it when it is rolled back.
    /// Errors: as [`crate::Streams::enable`].
    pub fn enable_inside(
        &mut self,
        request: &EnableStream,
        schema: &Arc<TableSchema>,
        (writer, facts): (&mut Writer, &SourceFacts<'_>),
    ) -> Result<()> {
        if self.unshown.made.contains_key(&schema.table) {
            return Ok(());
        }
        let (number, mut stored) = self.new_entry(request, schema, facts)?;
        self.next_inside = number + 1;
        let first = writer.next_sequence();
        let mut changes = vec![(NEXT_KEY.to_vec(), Some(next_value(number)))];
        let mut shards = Vec::new();
        if waits(&stored, facts) {
            changes.push((entry::stream_key(number), Some(stored.encode())));
        } else {
            shards = beginning(&mut stored, first, self.now_ms());
            changes.extend(stored_with(number, &stored, &shards));
        }
        self.raise_fence(first.0);
        self.unshown.is_there = true;
        for (key, value) in &changes {
            writer.control(key, value.as_deref())?;
        }
        self.unshown.labels.insert(schema.table, stored.label.0);
        let made = Made {
            number,
            entry: stored,
            shards,
        };
        self.loads.watch(&made);
        self.unshown.made.insert(schema.table, made);
        Ok(())
    }

    /// Notes whether a table's key is to be had, for its status.
    pub fn note_key(&self, table: TableId, is_there: bool) {
        self.inner.note_locked(table, !is_there);
    }

    /// Whether [`StreamWriter::serve`] has something to do; cheap.
    pub fn is_due(&self) -> bool {
        self.unshown.is_there || self.ticked.elapsed() >= TICK
    }

    /// Whether a table has a stream that takes records or is about to, also one that is not shown yet.
    pub fn is_live(&self, schema: &TableSchema) -> bool {
        let (keyspace, table) = (name::mapped(&schema.database), name::mapped(&schema.name));
        self.unshown.made.contains_key(&schema.table)
            || self
                .live_of(&self.inner.registry(), &keyspace, &table)
                .is_some()
    }

    /// Whether the newest stream of a table was ended by a command.
    pub fn is_disabled_by_command(&self, keyspace: &str, table: &str) -> bool {
        let registry = self.inner.registry();
        let newest = registry.of_table(keyspace, table).next_back();
        newest.is_some_and(|stream| !stream.info.status.is_live() && stream.entry.reason.is_empty())
    }

    /// The shown stream of a table that is live and has not ended since.
    fn live_of<'r>(
        &self,
        registry: &'r Registry,
        keyspace: &str,
        table: &str,
    ) -> Option<&'r Arc<Stream>> {
        let mut streams = registry.of_table(keyspace, table);
        streams.find(|stream| {
            stream.info.status.is_live() && !self.unshown.ended.contains(&stream.number)
        })
    }

    /// The stream of a table that takes records, or is about to.
    pub fn find_live(&self, keyspace: &str, table: &str) -> Option<Arc<StreamInfo>> {
        let registry = self.inner.registry();
        let mut live = registry
            .of_table(keyspace, table)
            .filter(|stream| stream.info.status.is_live());
        live.next_back().map(|stream| Arc::clone(&stream.info))
    }

    /// Does what was asked for and what time and load bring. Call it often, between transactions.
    ///
    /// Errors: the journal's, when the writer has ended; what a command got wrong is its own answer.
    pub fn serve(&mut self, writer: &mut Writer, facts: &SourceFacts<'_>) -> Result<()> {
        if self.unshown.is_there {
            writer.flush()?;
            self.show(writer.next_sequence())?;
            self.unshown = Unshown::default();
        }
        while let Ok(command) = self.commands.try_recv() {
            let answer = self.change(command.change, writer, facts);
            let failed = answer
                .as_ref()
                .err()
                .is_some_and(|_| self.inner.journal.failed().is_some());
            // Whoever asked may have gone.
            let _ = command.answer.send(answer);
            if failed && let Some(error) = self.inner.journal.failed() {
                return Err(error.into());
            }
        }
        if self.ticked.elapsed() >= TICK {
            let seconds = self.ticked.elapsed().as_secs_f64();
            self.ticked = Instant::now();
            self.tick(seconds, writer, facts);
        }
        Ok(())
    }

    /// Refuses what is still asked for, now and later: the writer goes.
    pub fn end(&mut self) {
        self.inner.ended.store(true, Ordering::SeqCst);
        while let Ok(command) = self.commands.try_recv() {
            let _ = command.answer.send(Err(Error::new(
                ErrorKind::Unavailable,
                "change the streams",
                "capture has ended",
            )));
        }
    }

    /// What time and load bring; a failure is tried again at the next tick.
    fn tick(&mut self, seconds: f64, writer: &mut Writer, facts: &SourceFacts<'_>) {
        let outcome = self.finish_enabling(writer, facts).and_then(|()| {
            for (stream, wish) in self.loads.tick(seconds) {
                self.grant(stream, wish, writer)?;
            }
            if self.trimmed.elapsed() >= TRIM_INTERVAL {
                self.trimmed = Instant::now();
                self.inner.readers.close_idle();
                self.forget_trimmed(writer)?;
            }
            Ok(())
        });
        if let Err(error) = outcome {
            tracing::warn!("{error}");
        }
    }

    fn grant(&mut self, number: u32, wish: Wish, writer: &mut Writer) -> Result<()> {
        let registry = self.inner.registry();
        let Some(stream) = registry.numbered(number) else {
            return Ok(());
        };
        let id = |number| stream.shard_numbered(number).map(|shard| shard.info.id);
        let result = match wish {
            Wish::Split(shard) => match id(shard) {
                Some(shard) => self.split(stream, shard, 2, writer),
                None => return Ok(()),
            },
            Wish::Merge(left, right) => match (id(left), id(right)) {
                (Some(left), Some(right)) => self.merge(stream, &[left, right], writer),
                _ => return Ok(()),
            },
        };
        match result {
            Ok(()) => {
                tracing::info!(
                    stream = stream.info.arn,
                    "shards changed under load: {wish:?}"
                );
                Ok(())
            }
            // Such as a range that cannot be split any more.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn change(&mut self, change: Change, writer: &mut Writer, facts: &SourceFacts<'_>) -> Answer {
        let arn = match change {
            Change::Enable(request) => return self.enable(&request, writer, facts).map(Some),
            Change::Tags { resource, changes } => {
                return self.change_tags(&resource, &changes, writer).map(|()| None);
            }
            Change::Disable { arn } => {
                let stream = self.inner.stream(&arn)?;
                self.disable(&stream, writer)?;
                arn
            }
            Change::Split { arn, shard, pieces } => {
                let stream = self.inner.stream(&arn)?;
                self.split(&stream, shard, pieces, writer)?;
                arn
            }
            Change::Merge { arn, shards } => {
                let stream = self.inner.stream(&arn)?;
                self.merge(&stream, &shards, writer)?;
                arn
            }
        };
        Ok(Some(Arc::clone(&self.inner.stream(&arn)?.info)))
    }

    // ---- life of a stream --------------------------------------------------------------------------------------

    fn enable(
        &mut self,
        request: &EnableStream,
        writer: &mut Writer,
        facts: &SourceFacts<'_>,
    ) -> Result<Arc<StreamInfo>> {
        let (schema, _) = self.inner.find_table(&request.keyspace, &request.table)?;
        let (number, entry) = self.new_entry(request, &schema, facts)?;
        let label = entry.label;
        let changes = vec![
            (NEXT_KEY.to_vec(), Some(next_value(number))),
            (entry::stream_key(number), Some(entry.encode())),
        ];
        self.commit(writer, |_| changes)?;
        self.finish_enabling(writer, facts)?;
        let identity = &self.inner.options.identity;
        let arn = identity.stream_arn(&request.keyspace, &request.table, label);
        Ok(Arc::clone(&self.inner.stream(&arn)?.info))
    }

    /// The entry of a stream that may be made, and its number.
    fn new_entry(
        &self,
        request: &EnableStream,
        schema: &Arc<TableSchema>,
        facts: &SourceFacts<'_>,
    ) -> Result<(u32, StreamEntry)> {
        let place = format!("{}.{}", request.keyspace, request.table);
        let refuse = |kind, detail: String| Error::new(kind, "enable a stream", detail).at(&place);
        if let Some(why) = &self.inner.options.refusal {
            return Err(refuse(ErrorKind::Conflict, why.clone()));
        }
        Layout::new(Arc::clone(schema), &request.clustering).map_err(|detail| {
            let kind = match request.clustering.is_empty() {
                true => ErrorKind::Conflict,
                false => ErrorKind::Invalid,
            };
            refuse(kind, detail)
        })?;
        let view = request.view.unwrap_or_default();
        if let Some(why) = facts
            .partial_images
            .filter(|_| view.has_new() || view.has_old())
        {
            return Err(refuse(
                ErrorKind::Conflict,
                format!("the view {} needs whole rows, and {why}", view.as_str()),
            ));
        }
        let limits = request.shards.unwrap_or(self.inner.options.limits);
        if !(1..=ShardLimits::INITIAL_MAX).contains(&limits.initial) {
            let detail = format!(
                "a stream begins with 1 to {} shards",
                ShardLimits::INITIAL_MAX
            );
            return Err(refuse(ErrorKind::Invalid, detail));
        }
        let registry = self.inner.registry();
        if let Some(live) = self.live_of(&registry, &request.keyspace, &request.table) {
            let detail = format!(
                "the table has a stream already, with the view {}",
                live.info.view.as_str()
            );
            return Err(refuse(ErrorKind::Conflict, detail)
                .hint("disable it first; a stream's view never changes"));
        }
        if let Some(name) = &request.name
            && self.has_name(&registry, name)
        {
            return Err(refuse(
                ErrorKind::Conflict,
                format!("another stream is named `{name}`"),
            ));
        }
        let mut tags = Tags::new();
        if request.propagate_tags {
            let of_table = registry
                .tags
                .get(&format!("{}/{}", request.keyspace, request.table));
            tags.extend(of_table.cloned().unwrap_or_default());
        }
        tags.extend(request.tags.clone());
        check_tags(&tags)?;
        // Unique per table: two in one millisecond differ by one.
        let now_ms = self.inner.options.clock.now_us().div_euclid(1000);
        let last = registry
            .of_table(&request.keyspace, &request.table)
            .map(|stream| stream.entry.label.0)
            .chain(self.unshown.labels.get(&schema.table).copied())
            .max();
        let label = Label(last.map_or(now_ms, |last| now_ms.max(last + 1)));
        let entry = StreamEntry {
            label,
            database: schema.database.clone(),
            table: schema.name.clone(),
            table_id: schema.table,
            status: StreamStatus::Enabling,
            view,
            name: request.name.clone(),
            clustering: request.clustering.clone(),
            include_snapshot: request.include_snapshot,
            propagate_tags: request.propagate_tags,
            enabled_at: 0,
            disabled_at: 0,
            reason: String::new(),
            tags,
            limits,
            shards_made: 0,
        };
        Ok((self.next_number(), entry))
    }

    /// Whether a live stream has our own name `name`.
    fn has_name(&self, registry: &Registry, name: &str) -> bool {
        let shown = registry.streams.values().any(|stream| {
            stream.info.status.is_live()
                && !self.unshown.ended.contains(&stream.number)
                && stream.info.name.as_deref() == Some(name)
        });
        let mut made = self.unshown.made.values();
        shown || made.any(|made| made.entry.name.as_deref() == Some(name))
    }

    fn next_number(&self) -> u32 {
        let state = self.inner.journal.control();
        let stored = state.get(NEXT_KEY).map(|entry| Arc::clone(&entry.value));
        let counted = stored.and_then(|bytes| change::wire::WireReader::new(&bytes).u32().ok());
        let used = self
            .inner
            .registry()
            .streams
            .values()
            .map(|stream| stream.number + 1)
            .max();
        counted
            .unwrap_or(1)
            .max(used.unwrap_or(1))
            .max(self.next_inside)
    }

    /// Enables what has been asked for and has nothing to wait for by now.
    fn finish_enabling(&mut self, writer: &mut Writer, facts: &SourceFacts<'_>) -> Result<()> {
        let registry = self.inner.registry();
        for stream in registry.streams.values() {
            match stream.entry.status {
                StreamStatus::Enabling if !waits(&stream.entry, facts) => {
                    self.begin(stream, writer)?
                }
                StreamStatus::Disabling => self.close(stream, writer)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The stream's first sequence, and its first shards.
    fn begin(&mut self, stream: &Stream, writer: &mut Writer) -> Result<()> {
        let mut stored = stream.entry.clone();
        let number = stream.number;
        let created_ms = self.now_ms();
        self.commit(writer, |first| {
            let shards = beginning(&mut stored, first, created_ms);
            stored_with(number, &stored, &shards)
        })
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.inner.options.clock.now_us() / 1000).unwrap_or(0)
    }

    fn disable(&mut self, stream: &Stream, writer: &mut Writer) -> Result<()> {
        match stream.entry.status {
            StreamStatus::Disabled => return Ok(()),
            StreamStatus::Disabling => {}
            StreamStatus::Enabling | StreamStatus::Enabled => {
                let mut stored = stream.entry.clone();
                stored.status = StreamStatus::Disabling;
                let change = (entry::stream_key(stream.number), Some(stored.encode()));
                self.commit(writer, |_| vec![change])?;
            }
        }
        let registry = self.inner.registry();
        match registry.numbered(stream.number) {
            Some(stream) => self.close(stream, writer),
            None => Ok(()),
        }
    }

    /// Closes every shard.
    fn close(&mut self, stream: &Stream, writer: &mut Writer) -> Result<()> {
        self.commit(writer, |first| closing_shown(stream, first, ""))
    }

    // ---- shards ------------------------------------------------------------------------------------------------

    fn split(
        &mut self,
        stream: &Stream,
        shard: ShardId,
        pieces: u32,
        writer: &mut Writer,
    ) -> Result<()> {
        let parent = open_shard(stream, shard)?.clone();
        let width = u128::from(parent.entry.to_hash - parent.entry.from_hash) + 1;
        let refuse =
            |kind, detail: String| Err(Error::new(kind, "split a shard", detail).at(shard));
        if !(2..=64).contains(&pieces) {
            return refuse(ErrorKind::Invalid, "a shard is split into 2 to 64".into());
        }
        if width < u128::from(pieces) {
            return refuse(ErrorKind::Conflict, "its range is too small".into());
        }
        if stream.open_shards().count() + pieces as usize - 1 > SHARDS_OPEN_MAX {
            return refuse(
                ErrorKind::Quota,
                format!("a stream has at most {SHARDS_OPEN_MAX} open shards"),
            );
        }
        let children = ranges((parent.entry.from_hash, parent.entry.to_hash), pieces).collect();
        self.replace(stream, &[parent], children, writer)
    }

    fn merge(&mut self, stream: &Stream, shards: &[ShardId], writer: &mut Writer) -> Result<()> {
        let refuse =
            |kind, detail: &str| Err(Error::new(kind, "merge shards", detail).at(&stream.info.arn));
        if shards.len() < 2 {
            return refuse(ErrorKind::Invalid, "it takes two shards at least");
        }
        let mut parents = Vec::new();
        for id in shards {
            parents.push(open_shard(stream, *id)?.clone());
        }
        parents.sort_by_key(|shard| shard.entry.from_hash);
        let neighbours = parents
            .windows(2)
            .all(|pair| pair[0].entry.to_hash.checked_add(1) == Some(pair[1].entry.from_hash));
        if !neighbours {
            return refuse(ErrorKind::Conflict, "their ranges are not neighbours");
        }
        let (first, last) = (&parents[0], &parents[parents.len() - 1]);
        let range = (first.entry.from_hash, last.entry.to_hash);
        self.replace(stream, &parents, vec![range], writer)
    }

    /// Closes the parents and opens their children in one step.
    fn replace(
        &mut self,
        stream: &Stream,
        parents: &[Shard],
        children: Vec<(u64, u64)>,
        writer: &mut Writer,
    ) -> Result<()> {
        let number = stream.number;
        let mut stored = stream.entry.clone();
        let made_last = stream
            .shards
            .iter()
            .map(|shard| shard.entry.created_ms)
            .max();
        let created_ms = self.now_ms().max(made_last.unwrap_or(0));
        self.commit(writer, |first| {
            let mut changes = Vec::new();
            for parent in parents {
                let mut closed = parent.entry.clone();
                closed.ending = first.0;
                changes.push((
                    entry::shard_key(number, parent.number),
                    Some(closed.encode()),
                ));
            }
            for (from_hash, to_hash) in children {
                let child = ShardEntry {
                    created_ms,
                    parents: parents.iter().map(|parent| parent.number).collect(),
                    from_hash,
                    to_hash,
                    starting: first.0 + 1,
                    ending: 0,
                };
                changes.push((
                    entry::shard_key(number, stored.shards_made),
                    Some(child.encode()),
                ));
                stored.shards_made += 1;
            }
            changes.push((entry::stream_key(number), Some(stored.encode())));
            changes
        })
    }

    /// Removes what has been trimmed whole from the control state.
    fn forget_trimmed(&mut self, writer: &mut Writer) -> Result<()> {
        let horizon = self.inner.horizon()?;
        let registry = self.inner.registry();
        self.inner.forget_layouts(&registry, horizon);
        let mut changes = Vec::new();
        for stream in registry.streams.values() {
            let is_gone = stream.is_gone(horizon);
            for shard in &stream.shards {
                if is_gone || crate::handle::is_trimmed(shard, horizon) {
                    changes.push((entry::shard_key(stream.number, shard.number), None));
                }
            }
            if is_gone {
                changes.push((entry::stream_key(stream.number), None));
            }
        }
        match changes.is_empty() {
            true => Ok(()),
            false => self.commit(writer, |_| changes),
        }
    }

    // ---- tags --------------------------------------------------------------------------------------------------

    fn change_tags(
        &mut self,
        resource: &Resource,
        changes: &[(String, Option<String>)],
        writer: &mut Writer,
    ) -> Result<()> {
        let registry = self.inner.registry();
        let apply = |tags: &Tags| -> Result<Tags> {
            let mut tags = tags.clone();
            for (key, value) in changes {
                match value {
                    Some(value) => tags.insert(key.clone(), value.clone()),
                    None => tags.remove(key),
                };
            }
            check_tags(&tags)?;
            Ok(tags)
        };
        let key = match resource {
            Resource::Stream(arn) => {
                let stream = self.inner.stream(arn)?;
                if !stream.info.is_latest {
                    let detail = "only the latest stream of a table takes tags";
                    return Err(Error::new(ErrorKind::Conflict, "tag a stream", detail).at(arn));
                }
                let mut stored = stream.entry.clone();
                stored.tags = apply(&stored.tags)?;
                let change = (entry::stream_key(stream.number), Some(stored.encode()));
                return self.commit(writer, |_| vec![change]);
            }
            Resource::Table(keyspace, table) => {
                self.inner.find_table(keyspace, table)?;
                format!("{keyspace}/{table}")
            }
            Resource::Keyspace(keyspace) => {
                self.inner.find_keyspace(keyspace)?;
                keyspace.clone()
            }
        };
        let tags = apply(registry.tags.get(&key).unwrap_or(&Tags::new()))?;
        let value = (!tags.is_empty()).then(|| entry::encode_tags(&tags));
        self.commit(writer, |_| vec![(entry::tag_key(&key), value)])
    }

    // ---- the journal -------------------------------------------------------------------------------------------

    /// Writes one transaction of control records and shows it. `make` is told the first of its sequences.
    fn commit(
        &mut self,
        writer: &mut Writer,
        make: impl FnOnce(Sequence) -> Changes,
    ) -> Result<()> {
        let first = writer.next_sequence();
        let (mut header, mut trailer, mut step) = (Vec::new(), Vec::new(), Vec::new());
        TransactionHeader::default().encode(&mut header);
        TransactionTrailer::default().encode(&mut trailer);
        PositionStep::default().encode(&mut step);
        writer.begin(TransactionStart {
            header: &header,
            snapshot: false,
        })?;
        self.raise_fence(first.0);
        let outcome = self.write(writer, make(first), (&trailer, &step));
        let outcome = match outcome {
            Ok(commit) => self.show(commit.next()),
            Err(error) => {
                // The journal may have ended; then there is nothing to take back.
                let _ = writer.rollback();
                Err(error)
            }
        };
        if outcome.is_err() {
            self.drop_fence(None);
        }
        outcome
    }

    fn write(
        &self,
        writer: &mut Writer,
        changes: Changes,
        (trailer, step): (&[u8], &[u8]),
    ) -> Result<Sequence> {
        for (key, value) in &changes {
            writer.control(key, value.as_deref())?;
        }
        let commit = writer.commit(Commit {
            trailer,
            position: step,
            time_us: self.inner.options.clock.now_us(),
            rows: 0,
        })?;
        writer.flush()?;
        Ok(commit)
    }

    fn raise_fence(&self, sequence: u64) {
        let mut shown = self
            .inner
            .shown
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        shown.fence = shown.fence.min(sequence);
    }

    /// Shows what the journal holds once it reaches `upto`.
    fn show(&mut self, upto: Sequence) -> Result<()> {
        let journal = &self.inner.journal;
        let since = Instant::now();
        while journal.end() < upto {
            if let Some(error) = journal.failed() {
                return Err(error.into());
            }
            if since.elapsed() > VISIBLE_TIMEOUT {
                let detail = "the journal takes too long to become durable";
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "change the streams",
                    detail,
                ));
            }
            journal.wait(Sequence(upto.0 - 1), Duration::from_millis(100));
        }
        let before = self.inner.registry();
        let registry = Registry::derive(&journal.control(), &self.inner.options.identity, &before)?;
        self.loads.follow(&registry);
        self.drop_fence(Some(registry));
        Ok(())
    }

    fn drop_fence(&self, registry: Option<Registry>) {
        let mut shown = self
            .inner
            .shown
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let registry = registry.map_or_else(|| Arc::clone(&shown.registry), Arc::new);
        *shown = Shown {
            registry,
            fence: u64::MAX,
        };
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        self.end();
    }
}

type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn next_value(number: u32) -> Vec<u8> {
    let mut next = Vec::new();
    change::wire::put_u64(&mut next, u64::from(number) + 1);
    next
}

/// Whether a stream that is asked for has to wait: changes of rows that are still to be copied arrive inside the copied
/// rows. One that has those as records loses nothing.
fn waits(entry: &StreamEntry, facts: &SourceFacts<'_>) -> bool {
    !entry.include_snapshot && (facts.is_copying)(&format!("{}.{}", entry.database, entry.table))
}

/// Enables a stream at `first`; its first shards.
fn beginning(stored: &mut StreamEntry, first: Sequence, created_ms: u64) -> Vec<(u32, ShardEntry)> {
    stored.status = StreamStatus::Enabled;
    stored.enabled_at = first.0;
    let mut shards = Vec::new();
    for (from_hash, to_hash) in ranges((0, u64::MAX), stored.limits.initial.max(1)) {
        let shard = ShardEntry {
            created_ms,
            parents: Vec::new(),
            from_hash,
            to_hash,
            starting: first.0,
            ending: 0,
        };
        shards.push((stored.shards_made, shard));
        stored.shards_made += 1;
    }
    shards
}

/// The control records of a stream and some of its shards.
fn stored_with(number: u32, stored: &StreamEntry, shards: &[(u32, ShardEntry)]) -> Changes {
    let shards = shards
        .iter()
        .map(|(shard, entry)| (entry::shard_key(number, *shard), Some(entry.encode())));
    let stream = (entry::stream_key(number), Some(stored.encode()));
    shards.chain([stream]).collect()
}

/// What ends a stream at `ending`, with its shards that are `open`.
fn closing<'a>(
    (number, entry): (u32, &StreamEntry),
    open: impl Iterator<Item = (u32, &'a ShardEntry)>,
    ending: Sequence,
    reason: &str,
) -> Changes {
    let mut stored = entry.clone();
    stored.status = StreamStatus::Disabled;
    stored.disabled_at = ending.0;
    stored.reason = reason.to_owned();
    let close = |(shard, entry): (u32, &ShardEntry)| {
        let mut closed = entry.clone();
        closed.ending = ending.0.max(closed.starting);
        (shard, closed)
    };
    let shards: Vec<_> = open.map(close).collect();
    stored_with(number, &stored, &shards)
}

fn closing_shown(stream: &Stream, ending: Sequence, reason: &str) -> Changes {
    let open = stream.open_shards();
    let open = open.map(|shard| (shard.number, &shard.entry));
    closing((stream.number, &stream.entry), open, ending, reason)
}

fn open_shard(stream: &Stream, shard: ShardId) -> Result<&Shard> {
    let found = find_shard(stream, shard)?;
    if found.entry.ending != 0 {
        let detail = "the shard is closed";
        return Err(Error::new(ErrorKind::Conflict, "change a shard", detail).at(shard));
    }
    Ok(found)
}

/// `count` ranges of nearly equal width that cover `from..=to`.
fn ranges((from, to): (u64, u64), count: u32) -> impl Iterator<Item = (u64, u64)> {
    let width = u128::from(to - from) + 1;
    let bound = move |index: u32| u128::from(from) + width * u128::from(index) / u128::from(count);
    (0..count).map(move |index| (bound(index) as u64, (bound(index + 1) - 1) as u64))
}

fn check_tags(tags: &Tags) -> Result<()> {
    let refuse = |kind, detail: &str| Err(Error::new(kind, "set tags", detail));
    if tags.len() > TAGS_MAX {
        return refuse(ErrorKind::Quota, "a resource has at most 50 tags");
    }
    for (key, value) in tags {
        if !(1..=128).contains(&key.chars().count()) || !(1..=256).contains(&value.chars().count())
        {
            return refuse(
                ErrorKind::Invalid,
                "a tag's key has 1 to 128 characters, its value 1 to 256",
            );
        }
        if key.to_ascii_lowercase().starts_with("aws:") {
            return refuse(
                ErrorKind::Invalid,
                "tag keys that begin with aws: are reserved",
            );
        }
    }
    Ok(())
}

/// Load by table.
#[derive(Default)]
struct Loads {
    tables: Vec<Option<Watched>>,
    /// Tables with a stream that is not enabled yet.
    enabling: BTreeSet<TableId>,
}

/// One table with a live stream.
struct Watched {
    stream: u32,
    view: ViewType,
    limits: ShardLimits,
    counters: Arc<Counters>,
    /// Open shards in the order of their ranges, which cover everything.
    shards: Vec<Load>,
    records: u64,
    bytes: u64,
    /// Seconds since the window began.
    window: f64,
}

impl Watched {
    #[inline]
    fn add(&mut self, token: u64, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
        let index = match self.shards.len() {
            1 => 0,
            _ => self
                .shards
                .partition_point(|load| load.from_hash <= token)
                .saturating_sub(1),
        };
        if let Some(load) = self.shards.get_mut(index) {
            load.records += 1;
            load.bytes += bytes;
        }
    }
}

impl Loads {
    /// Follows the streams as they are now, keeping what was counted.
    fn follow(&mut self, registry: &Registry) {
        let mut before: HashMap<u32, Watched> = self
            .tables
            .drain(..)
            .flatten()
            .map(|watched| (watched.stream, watched))
            .collect();
        self.enabling.clear();
        for stream in registry.streams.values() {
            if stream.entry.status == StreamStatus::Enabling {
                self.enabling.insert(stream.entry.table_id);
            }
            if stream.entry.status != StreamStatus::Enabled {
                continue;
            }
            let old = before.remove(&stream.number);
            let known = |number: u32| {
                old.as_ref()?
                    .shards
                    .iter()
                    .find(|load| load.shard == number)
                    .copied()
            };
            let mut shards: Vec<Load> = stream
                .open_shards()
                .map(|shard| {
                    known(shard.number).unwrap_or(Load {
                        shard: shard.number,
                        from_hash: shard.entry.from_hash,
                        ..Load::default()
                    })
                })
                .collect();
            shards.sort_by_key(|load| load.from_hash);
            *self.slot(stream.entry.table_id) = Some(Watched {
                stream: stream.number,
                view: stream.entry.view,
                limits: stream.entry.limits,
                counters: Arc::clone(&stream.counters),
                shards,
                records: old.as_ref().map_or(0, |old| old.records),
                bytes: old.as_ref().map_or(0, |old| old.bytes),
                window: old.as_ref().map_or(0.0, |old| old.window),
            });
        }
    }

    /// Follows a stream that is not shown yet.
    fn watch(&mut self, made: &Made) {
        let table = made.entry.table_id;
        if made.entry.status == StreamStatus::Enabling {
            self.enabling.insert(table);
            return;
        }
        let load = |(shard, entry): &(u32, ShardEntry)| Load {
            shard: *shard,
            from_hash: entry.from_hash,
            ..Load::default()
        };
        *self.slot(table) = Some(Watched {
            stream: made.number,
            view: made.entry.view,
            limits: made.entry.limits,
            counters: Arc::default(),
            shards: made.shards.iter().map(load).collect(),
            records: 0,
            bytes: 0,
            window: 0.0,
        });
    }

    /// Follows a table's stream no more.
    fn forget(&mut self, table: TableId) {
        self.enabling.remove(&table);
        if let Some(slot) = self.tables.get_mut(table.0 as usize) {
            *slot = None;
        }
    }

    fn slot(&mut self, table: TableId) -> &mut Option<Watched> {
        let index = table.0 as usize;
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, || None);
        }
        &mut self.tables[index]
    }

    /// Adds what was counted to the streams' figures; what the load asks for.
    fn tick(&mut self, seconds: f64) -> Vec<(u32, Wish)> {
        let mut wishes = Vec::new();
        for watched in self.tables.iter_mut().flatten() {
            let (records, bytes) = (
                std::mem::take(&mut watched.records),
                std::mem::take(&mut watched.bytes),
            );
            if records > 0 {
                watched
                    .counters
                    .records_captured
                    .fetch_add(records, Ordering::Relaxed);
                watched
                    .counters
                    .bytes_captured
                    .fetch_add(bytes, Ordering::Relaxed);
            }
            watched.window += seconds;
            if watched.window < f64::from(watched.limits.window_s) {
                continue;
            }
            let window = std::mem::take(&mut watched.window);
            if let Some(wish) = load::judge(&mut watched.shards, &watched.limits, window) {
                wishes.push((watched.stream, wish));
            }
        }
        wishes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_everything_without_a_gap() {
        for count in [1, 2, 3, 7, 64] {
            let parts: Vec<_> = ranges((0, u64::MAX), count).collect();
            assert_eq!(parts.len(), count as usize);
            assert_eq!((parts[0].0, parts[parts.len() - 1].1), (0, u64::MAX));
            assert!(parts.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
        }
        assert_eq!(ranges((5, 6), 2).collect::<Vec<_>>(), [(5, 5), (6, 6)]);
    }

    #[test]
    fn tags_are_checked() {
        let tags = |key: &str, value: &str| Tags::from([(key.to_owned(), value.to_owned())]);
        assert!(check_tags(&tags("a", "b")).is_ok());
        assert!(check_tags(&tags("", "b")).is_err());
        assert!(check_tags(&tags("aws:a", "b")).is_err());
        assert!(check_tags(&tags("a", &"x".repeat(257))).is_err());
        let many: Tags = (0..51).map(|n| (n.to_string(), "v".into())).collect();
        assert_eq!(check_tags(&many).unwrap_err().kind(), ErrorKind::Quota);
    }
}
