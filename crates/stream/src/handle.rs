//! The handle that everybody shares.

use crate::Result;
use crate::arn::{Arn, Identity};
use crate::columns::Layout;
use crate::entry;
use crate::error::{Error, ErrorKind};
use crate::info::{
    EnableStream, KeyspaceInfo, Resource, StreamInfo, StreamPage, StreamReport, TableInfo,
    TablePage, TableStatus, Tags,
};
use crate::load::ShardLimits;
use crate::name;
use crate::page::Page;
use crate::read::Readers;
use crate::registry::{Registry, Shard, Stream};
use crate::shard::{ShardId, ShardPage};
use crate::writer::{Change, Command, StreamWriter};
use change::{TableId, TableSchema};
use journal::{Clock, Journal, Sequence, SystemClock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Layouts that are kept; beyond it all are made anew.
const LAYOUTS_MAX: usize = 4096;
/// A command waits at most this long for the capture thread.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

/// How streams are kept and shown.
#[derive(Clone)]
pub struct StreamsOptions {
    /// The first fields of every ARN.
    pub identity: Identity,
    /// How long each record is kept. The API's contract is 24 h, the default.
    pub retention: Duration,
    /// Whether key columns stand in images too. Default true: real consumers take them from there.
    pub keys_in_images: bool,
    /// For streams that do not say otherwise.
    pub limits: ShardLimits,
    /// Must be the journal's own clock: ages are compared with the times that it wrote.
    pub clock: Arc<dyn Clock>,
    /// One call reads for at most this long before it returns what it has, also if that is nothing. Default 1 s.
    pub read_time_max: Duration,
    /// Readers kept open between calls. Default 128.
    pub readers_max: usize,
    /// Why no stream can be enabled here, and how to change that: the journal is kept for less than 24 h. Default none.
    pub refusal: Option<String>,
}

impl Default for StreamsOptions {
    fn default() -> Self {
        Self {
            identity: Identity::default(),
            retention: Duration::from_secs(24 * 3600),
            keys_in_images: true,
            limits: ShardLimits::default(),
            clock: Arc::new(SystemClock::default()),
            read_time_max: Duration::from_secs(1),
            readers_max: 128,
            refusal: None,
        }
    }
}

/// Where a reader wants to begin: the API's iterator types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the oldest retained record.
    TrimHorizon,
    /// After the newest record.
    Latest,
    /// At this sequence, or the next greater one that has a record.
    AtSequence(Sequence),
    /// After this sequence.
    AfterSequence(Sequence),
}

/// Where a read begins: what an iterator holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// Wherever the horizon is by then: it moves while the iterator waits.
    Horizon,
    /// At the first record with this sequence or a greater one.
    Sequence(Sequence),
}

/// What one read returns at most; at least one record if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// Records.
    pub records_max: usize,
    /// Stored bytes.
    pub bytes_max: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            records_max: 1000,
            bytes_max: 1 << 20,
        }
    }
}

/// What readers may rely on together: changes are shown at once and whole.
pub(crate) struct Shown {
    pub registry: Arc<Registry>,
    /// No sequence from here on may be read yet: its streams are being changed.
    pub fence: u64,
}

/// The horizon as last computed.
#[derive(Clone, Copy)]
struct Horizon {
    sequence: u64,
    /// When what stands there was written; it stays the horizon until that is too old.
    written_us: i64,
}

pub(crate) struct Inner {
    pub journal: Journal,
    pub options: StreamsOptions,
    pub shown: RwLock<Shown>,
    horizon: Mutex<Option<Horizon>>,
    layouts: Mutex<HashMap<(u32, u32, u32), Arc<Layout>>>,
    pub readers: Readers,
    /// Tables of which a record could not be opened for want of its key.
    pub locked: Mutex<BTreeSet<u32>>,
    commands: Mutex<Sender<Command>>,
    pub ended: AtomicBool,
}

/// Streams of one journal. Cloning is one reference count; every call may come from any thread.
///
/// Order: what a call shows is a state that was in force at one sequence of the journal; a change is shown to every
/// later call once the call that made it has returned. Promises of reading: every record of a shard once, in rising
/// sequence, whatever pieces it is read in; none that a crash could take back.
#[derive(Clone)]
pub struct Streams {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    /// The handle and the half that the journal's one writer drives.
    ///
    /// Errors: `Corrupt` when the journal's entries do not decode.
    pub fn open(journal: Journal, options: StreamsOptions) -> Result<(Streams, StreamWriter)> {
        let registry =
            Registry::derive(&journal.control(), &options.identity, &Registry::default())?;
        let (commands, received) = channel();
        let readers = Readers::new(options.readers_max);
        let inner = Arc::new(Inner {
            journal,
            options,
            shown: RwLock::new(Shown {
                registry: Arc::new(registry),
                fence: u64::MAX,
            }),
            horizon: Mutex::default(),
            layouts: Mutex::default(),
            readers,
            locked: Mutex::default(),
            commands: Mutex::new(commands),
            ended: AtomicBool::new(false),
        });
        let streams = Streams {
            inner: Arc::clone(&inner),
        };
        let writer = StreamWriter::new(inner, received);
        Ok((streams, writer))
    }

    /// The first fields of every ARN.
    pub fn identity(&self) -> &Identity {
        &self.inner.options.identity
    }

    /// How long each record is kept.
    pub fn retention(&self) -> Duration {
        self.inner.options.retention
    }

    /// The time now, microseconds since 1970, by the clock that decides what is too old.
    pub fn now_us(&self) -> i64 {
        self.inner.options.clock.now_us()
    }

    /// The journal that the streams are views on.
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// Reads a sequence number as clients send it: decimal digits, of any length. One that no journal could hold
    /// becomes the nearest that it could.
    pub fn parse_sequence(text: &str) -> Option<Sequence> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        const BASE: u128 = 10u128.pow(20);
        let digits = text.trim_start_matches('0');
        if digits.len() > 38 {
            return Some(Sequence(u64::MAX));
        }
        let number: u128 = if digits.is_empty() {
            0
        } else {
            digits.parse().ok()?
        };
        Some(Sequence(
            u64::try_from(number.saturating_sub(BASE)).unwrap_or(u64::MAX),
        ))
    }

    // ---- listing -----------------------------------------------------------------------------------------------

    /// Streams, also disabled ones for as long as they can be read, in the order of keyspace, table and label.
    ///
    /// `after`: the ARN of the last one of the page before. `table` counts only with `keyspace`.
    /// Errors: `Invalid` when `after` is no stream's ARN. An unknown keyspace or table has no streams.
    pub fn list(
        &self,
        keyspace: Option<&str>,
        table: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<StreamPage> {
        let registry = self.inner.registry();
        let horizon = self.inner.horizon()?;
        let from = match after.map(Arn::parse).transpose()? {
            None => Bound::Unbounded,
            Some(Arn::Stream {
                keyspace,
                table,
                label,
                ..
            }) => Bound::Excluded((keyspace, table, label.0)),
            Some(_) => {
                let detail = "the page before ended with something that is no stream";
                return Err(Error::new(ErrorKind::Invalid, "list streams", detail));
            }
        };
        let mut found = registry
            .streams
            .range((from, Bound::Unbounded))
            .map(|(_, stream)| stream)
            .filter(|stream| {
                keyspace.is_none_or(|keyspace| stream.info.keyspace == keyspace)
                    && table.is_none_or(|table| stream.info.table == table)
                    && !stream.is_gone(horizon)
            });
        let streams = found
            .by_ref()
            .take(limit)
            .map(|stream| Arc::clone(&stream.info))
            .collect();
        let more = found.next().is_some();
        Ok(StreamPage { streams, more })
    }

    /// One stream. Errors: `Invalid` for what is no stream's ARN, `NotFound`.
    pub fn describe(&self, arn: &str) -> Result<Arc<StreamInfo>> {
        Ok(Arc::clone(&self.inner.stream(arn)?.info))
    }

    /// The newest live stream with our own name `name`, or `None`.
    pub fn named(&self, name: &str) -> Option<Arc<StreamInfo>> {
        let registry = self.inner.registry();
        let mut live = registry
            .streams
            .values()
            .filter(|stream| stream.info.status.is_live());
        live.find(|stream| stream.info.name.as_deref() == Some(name))
            .map(|stream| Arc::clone(&stream.info))
    }

    /// The stream that a person means: an ARN, our own name, or `database.table`, whose newest stream it is then.
    ///
    /// Errors: `NotFound`.
    pub fn resolve(&self, text: &str) -> Result<Arc<StreamInfo>> {
        if text.starts_with("arn:") {
            return self.describe(text);
        }
        if let Some(info) = self.named(text) {
            return Ok(info);
        }
        let registry = self.inner.registry();
        let horizon = self.inner.horizon()?;
        let of_table = text.split_once('.').and_then(|(database, table)| {
            let (keyspace, table) = (name::mapped(database), name::mapped(table));
            let mut streams = registry
                .of_table(&keyspace, &table)
                .filter(|stream| !stream.is_gone(horizon));
            streams.next_back().map(|stream| Arc::clone(&stream.info))
        });
        of_table.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "find the stream",
                "no stream has this ARN, name or table",
            )
            .at(text)
            .hint("`headwater streams list` shows all")
        })
    }

    /// A stream's shards, those that still hold retained records or may get some.
    ///
    /// `children_of`: only shards that name this one as a parent; none when it is unknown. `after`: the last one of the
    /// page before.
    /// Errors: as [`Streams::describe`].
    pub fn shards(
        &self,
        arn: &str,
        children_of: Option<ShardId>,
        after: Option<ShardId>,
        limit: usize,
    ) -> Result<ShardPage> {
        self.shards_as_of(arn, children_of, (after, None), limit)
    }

    /// As [`Streams::shards`], for the pages after the first: `as_of` is the first page's [`ShardPage::as_of`]. What was
    /// split, merged or closed since is shown as it was.
    pub fn shards_as_of(
        &self,
        arn: &str,
        children_of: Option<ShardId>,
        (after, as_of): (Option<ShardId>, Option<Sequence>),
        limit: usize,
    ) -> Result<ShardPage> {
        let (registry, readable) = self.inner.readable();
        let horizon = self.inner.horizon()?;
        let stream = self.inner.stream_in(&registry, arn, horizon)?;
        let as_of = as_of.unwrap_or(Sequence(readable));
        let is_after = |shard: &Shard| match after.map(|id| (id, stream.shard(id))) {
            None => true,
            Some((id, Some(last))) => {
                (shard.info.starting, shard.info.id) > (last.info.starting, id)
            }
            // It has left since; ids rise with the time of making, as first sequences do.
            Some((id, None)) => shard.info.id > id,
        };
        let mut found = stream.shards.iter().filter(|shard| {
            !is_trimmed(shard, horizon)
                && shard.info.starting < as_of
                && is_after(shard)
                && children_of.is_none_or(|parent| shard.info.parents.contains(&parent))
        });
        let shown = |shard: &Shard| {
            let mut info = shard.info.clone();
            info.ending = info.ending.filter(|ending| *ending < as_of);
            info
        };
        let shards = found.by_ref().take(limit).map(shown).collect();
        let more = found.next().is_some();
        Ok(ShardPage {
            shards,
            more,
            as_of,
        })
    }

    // ---- reading -----------------------------------------------------------------------------------------------

    /// Turns an iterator's type into a place to read from.
    ///
    /// Errors: `NotFound` for an unknown stream or shard; `Trimmed` for a sequence below the horizon when records may
    /// have been lost between; `Invalid` for a sequence past a closed shard's end.
    pub fn locate(&self, arn: &str, shard: ShardId, start: Start) -> Result<ReadFrom> {
        self.inner.locate(arn, shard, start)
    }

    /// Reads records of one shard.
    ///
    /// Promises: at least one record if there is one and the time allows; then [`Page::next`] goes on exactly after the
    /// last one. The same place read twice gives the same records while they are retained. May return none although
    /// there are more (`at_tip` is false then): call again.
    /// Errors: `NotFound`; `Trimmed` when records at `from` have been trimmed; `KeyUnavailable` when the first record
    /// cannot be opened; `Corrupt`.
    pub fn read(
        &self,
        arn: &str,
        shard: ShardId,
        from: ReadFrom,
        limits: ReadLimits,
    ) -> Result<Page> {
        self.inner.read(arn, shard, from, limits)
    }

    /// The first sequence of a shard that is not trimmed.
    pub fn horizon(&self, arn: &str, shard: ShardId) -> Result<Sequence> {
        let stream = self.inner.stream(arn)?;
        let shard = find_shard(&stream, shard)?;
        Ok(Sequence(shard.entry.starting.max(self.inner.horizon()?)))
    }

    /// Where the next record of a shard will be at the earliest: the journal's end, or after a closed shard's last.
    pub fn tip(&self, arn: &str, shard: ShardId) -> Result<Sequence> {
        let stream = self.inner.stream(arn)?;
        let shard = find_shard(&stream, shard)?;
        Ok(match shard.info.ending {
            Some(ending) => ending.next(),
            None => self.inner.journal.end(),
        })
    }

    /// Waits until the journal has something at or after `from` for anybody, or `timeout` has gone by; whether it has.
    /// A shard that is closed is never waited for.
    ///
    /// Errors: as [`Streams::describe`].
    pub fn wait_for_more(
        &self,
        arn: &str,
        shard: ShardId,
        from: Sequence,
        timeout: Duration,
    ) -> Result<bool> {
        let stream = self.inner.stream(arn)?;
        let shard = find_shard(&stream, shard)?;
        if shard.info.ending.is_some() {
            return Ok(true);
        }
        Ok(self.inner.journal.wait(from, timeout) > from)
    }

    // ---- tables ------------------------------------------------------------------------------------------------

    /// Databases of the source that have captured tables.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for schema in self.inner.newest_schemas().values() {
            *counts
                .entry(name::mapped(&schema.0.database).into_owned())
                .or_default() += 1;
        }
        let info = |(keyspace, tables): (String, usize)| KeyspaceInfo {
            arn: self.identity().keyspace_arn(&keyspace),
            keyspace,
            tables,
        };
        counts.into_iter().map(info).collect()
    }

    /// Captured tables of a keyspace, or of all, in the order of keyspace and name; `after` is the last one's names.
    pub fn tables(
        &self,
        keyspace: Option<&str>,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> TablePage {
        let mut found = BTreeMap::new();
        for (schema, sequence) in self.inner.newest_schemas().into_values() {
            let names = (
                name::mapped(&schema.database).into_owned(),
                name::mapped(&schema.name).into_owned(),
            );
            let wanted = keyspace.is_none_or(|keyspace| names.0 == keyspace)
                && after.is_none_or(|after| (names.0.as_str(), names.1.as_str()) > after);
            if wanted {
                found.insert(names, (schema, sequence));
            }
        }
        let more = found.len() > limit;
        let tables = found
            .into_iter()
            .take(limit)
            .map(|(names, (schema, sequence))| self.table_info(names, schema, sequence))
            .collect();
        TablePage { tables, more }
    }

    /// One table by its shown names. Errors: `NotFound`; `Conflict` when two tables are shown under this name.
    pub fn table(&self, keyspace: &str, table: &str) -> Result<TableInfo> {
        let (schema, sequence) = self.inner.find_table(keyspace, table)?;
        Ok(self.table_info((keyspace.to_owned(), table.to_owned()), schema, sequence))
    }

    fn table_info(
        &self,
        names: (String, String),
        schema: Arc<TableSchema>,
        sequence: Sequence,
    ) -> TableInfo {
        let (keyspace, table) = names;
        let registry = self.inner.registry();
        let stream = registry
            .of_table(&keyspace, &table)
            .next_back()
            .map(|stream| Arc::clone(&stream.info));
        let tags = registry
            .tags
            .get(&format!("{keyspace}/{table}"))
            .cloned()
            .unwrap_or_default();
        let is_locked = locked(&self.inner.locked).contains(&schema.table.0);
        TableInfo {
            arn: self.identity().table_arn(&keyspace, &table),
            keyspace,
            table,
            schema,
            status: if is_locked {
                TableStatus::KeyUnavailable
            } else {
                TableStatus::Active
            },
            // A journal's first sequence is its time in milliseconds, and later ones only rise.
            created_us: ((sequence.0 >> 20) * 1000) as i64,
            tags,
            stream,
        }
    }

    // ---- changing ----------------------------------------------------------------------------------------------

    fn ask_stream(&self, change: Change) -> Result<Arc<StreamInfo>> {
        let missing = || {
            Error::new(
                ErrorKind::Internal,
                "change the streams",
                "no stream came back",
            )
        };
        self.ask(change)?.ok_or_else(missing)
    }

    fn ask(&self, change: Change) -> Result<Option<Arc<StreamInfo>>> {
        let unavailable = |detail: &str| {
            Error::new(ErrorKind::Unavailable, "change the streams", detail)
                .hint("try again; `headwater status` shows how capture stands")
        };
        let (answer, answered) = channel();
        if self.inner.ended.load(Ordering::SeqCst)
            || locked(&self.inner.commands)
                .send(Command { change, answer })
                .is_err()
        {
            return Err(unavailable("capture has ended"));
        }
        answered
            .recv_timeout(COMMAND_TIMEOUT)
            .unwrap_or_else(|_| Err(unavailable("capture gave no answer")))
    }

    /// Makes a stream of a captured table. Returns once it is asked for durably; it is `ENABLING` until the table's copy
    /// is whole, mostly not at all.
    ///
    /// Errors: `NotFound` for a table that is not captured; `Conflict` when it has a live stream, has no key, or its log
    /// carries partial rows while the view needs whole ones (the text says how to change that); `Invalid` for a clustering
    /// column that is none.
    pub fn enable(&self, request: EnableStream) -> Result<Arc<StreamInfo>> {
        self.ask_stream(Change::Enable(Box::new(request)))
    }

    /// Ends a stream: its shards close now, and can be read for 24 hours more. Does nothing to one that has ended.
    ///
    /// Errors: as [`Streams::describe`].
    pub fn disable(&self, arn: &str) -> Result<Arc<StreamInfo>> {
        self.ask_stream(Change::Disable {
            arn: arn.to_owned(),
        })
    }

    /// Splits an open shard into `pieces` equal ranges, 2 to 64.
    ///
    /// Errors: `NotFound`; `Conflict` when it is closed or too small; `Quota` past 1024 open shards.
    pub fn split(&self, arn: &str, shard: ShardId, pieces: u32) -> Result<Arc<StreamInfo>> {
        self.ask_stream(Change::Split {
            arn: arn.to_owned(),
            shard,
            pieces,
        })
    }

    /// Merges two or more open shards whose ranges are neighbours.
    ///
    /// Errors: `NotFound`; `Conflict` when one is closed or they are no neighbours; `Invalid` for fewer than two.
    pub fn merge(&self, arn: &str, shards: &[ShardId]) -> Result<Arc<StreamInfo>> {
        self.ask_stream(Change::Merge {
            arn: arn.to_owned(),
            shards: shards.to_vec(),
        })
    }

    /// Sets tags; a key that is there gets the new value.
    ///
    /// Errors: `NotFound`; `Invalid` for a key or value of a wrong length or with `aws:`; `Quota` past 50; `Conflict` for a
    /// stream that is not the latest of its table.
    pub fn tag(&self, resource: &Resource, tags: &Tags) -> Result<()> {
        self.ask_tags(
            resource,
            tags.iter()
                .map(|(key, value)| (key.clone(), Some(value.clone())))
                .collect(),
        )
    }

    /// Removes tags by key; keys that are not there do not matter.
    ///
    /// Errors: `NotFound`; `Conflict` for a stream that is not the latest of its table.
    pub fn untag(&self, resource: &Resource, keys: &[String]) -> Result<()> {
        self.ask_tags(
            resource,
            keys.iter().map(|key| (key.clone(), None)).collect(),
        )
    }

    fn ask_tags(&self, resource: &Resource, changes: Vec<(String, Option<String>)>) -> Result<()> {
        let change = Change::Tags {
            resource: resource.clone(),
            changes,
        };
        self.ask(change).map(|_| ())
    }

    /// A resource's tags. Errors: `NotFound`.
    pub fn tags(&self, resource: &Resource) -> Result<Tags> {
        self.inner.tags(resource)
    }

    /// Closes the readers that are kept between calls: what they hold opened may not be shown any more.
    pub fn close_readers(&self) {
        self.inner.readers.close_all();
    }

    // ---- figures -----------------------------------------------------------------------------------------------

    /// Every listed stream's figures.
    pub fn reports(&self) -> Result<Vec<StreamReport>> {
        let registry = self.inner.registry();
        let horizon = self.inner.horizon()?;
        let now = self.now_us();
        let retention = self.inner.options.retention.as_micros() as i64;
        let report = |stream: &Arc<Stream>| {
            let counters = &stream.counters;
            let made_us = stream.entry.label.0.saturating_mul(1000);
            StreamReport {
                stream: Arc::clone(&stream.info),
                shards_open: stream.open_shards().count(),
                shards_listed: stream
                    .shards
                    .iter()
                    .filter(|shard| !is_trimmed(shard, horizon))
                    .count(),
                records_captured: counters.records_captured.load(Ordering::Relaxed),
                bytes_captured: counters.bytes_captured.load(Ordering::Relaxed),
                records_read: counters.records_read.load(Ordering::Relaxed),
                bytes_read: counters.bytes_read.load(Ordering::Relaxed),
                depth_us: (now - made_us).clamp(0, retention),
                iterator_age_ms: counters.iterator_age_ms(now),
            }
        };
        Ok(registry
            .streams
            .values()
            .filter(|stream| !stream.is_gone(horizon))
            .map(report)
            .collect())
    }
}

/// Whether nothing of a closed shard is retained.
pub(crate) fn is_trimmed(shard: &Shard, horizon: u64) -> bool {
    shard.entry.ending != 0 && shard.entry.ending < horizon
}

pub(crate) fn find_shard(stream: &Stream, shard: ShardId) -> Result<&Shard> {
    stream.shard(shard).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            "find the shard",
            "the stream has no such shard",
        )
        .at(shard)
    })
}

impl Inner {
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(
            &self
                .shown
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .registry,
        )
    }

    /// The streams, and the first sequence that may not be read yet.
    pub fn readable(&self) -> (Arc<Registry>, u64) {
        // In this order: whatever is visible by then is covered by the streams or behind the fence.
        let end = self.journal.end().0;
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&shown.registry), end.min(shown.fence))
    }

    /// One stream by its ARN.
    pub fn stream(&self, arn: &str) -> Result<Arc<Stream>> {
        let registry = self.registry();
        let horizon = self.horizon()?;
        self.stream_in(&registry, arn, horizon)
    }

    pub fn stream_in(&self, registry: &Registry, arn: &str, horizon: u64) -> Result<Arc<Stream>> {
        if let Some(stream) = registry.by_arn.get(arn)
            && !stream.is_gone(horizon)
        {
            return Ok(Arc::clone(stream));
        }
        let failed = |kind, detail| Err(Error::new(kind, "find the stream", detail).at(arn));
        match Arn::parse(arn) {
            Ok(Arn::Stream { .. }) => failed(ErrorKind::NotFound, "there is no such stream"),
            _ => failed(ErrorKind::Invalid, "this is not the ARN of a stream"),
        }
    }

    /// The first sequence that is not too old: what was written before it has been kept for its whole time.
    pub fn horizon(&self) -> Result<u64> {
        let cutoff = self.options.clock.now_us() - self.options.retention.as_micros() as i64;
        let mut known = locked(&self.horizon);
        if let Some(known) = &*known
            && known.written_us > cutoff
        {
            return Ok(known.sequence);
        }
        let from = known.map_or(Sequence(0), |known| Sequence(known.sequence));
        let (sequence, written_us) = self.journal.seek_written(cutoff, from)?;
        let sequence = sequence.0.max(from.0).max(self.journal.first().0);
        // Without a time there is nothing after it: what comes will be younger than the cutoff, if not by much.
        *known = Some(Horizon {
            sequence,
            written_us: written_us.unwrap_or(cutoff),
        });
        Ok(sequence)
    }

    /// The layout of a stream's table under one of its schemas.
    pub fn layout(&self, stream: &Stream, table: u32, version: u32) -> Result<Arc<Layout>> {
        let key = (stream.number, table, version);
        if let Some(layout) = locked(&self.layouts).get(&key) {
            return Ok(Arc::clone(layout));
        }
        let corrupt = |detail: String| {
            Error::new(ErrorKind::Corrupt, "describe a record", detail).at(&stream.info.arn)
        };
        let state = self.journal.control();
        let name = format!("schema/{table}/{version}");
        let entry = state.get(name.as_bytes()).ok_or_else(|| {
            corrupt(format!(
                "schema {version} of its table is not in the journal"
            ))
        })?;
        let schema =
            TableSchema::decode(&entry.value).map_err(|error| corrupt(error.to_string()))?;
        let schema = Arc::new(schema);
        // A clustering column that was dropped since is none any more; the rest still is.
        let layout = Layout::new(Arc::clone(&schema), &stream.entry.clustering)
            .or_else(|_| Layout::new(schema, &[]))
            .map_err(corrupt)?;
        let layout = Arc::new(layout);
        let mut layouts = locked(&self.layouts);
        if layouts.len() >= LAYOUTS_MAX {
            layouts.clear();
        }
        layouts.insert(key, Arc::clone(&layout));
        Ok(layout)
    }

    /// Forgets the layouts of streams that have gone.
    pub fn forget_layouts(&self, registry: &Registry, horizon: u64) {
        let live: BTreeSet<u32> = registry
            .streams
            .values()
            .filter(|stream| !stream.is_gone(horizon))
            .map(|stream| stream.number)
            .collect();
        locked(&self.layouts).retain(|(stream, _, _), _| live.contains(stream));
    }

    /// The newest schema of every table that is still there, and when it came.
    pub fn newest_schemas(&self) -> BTreeMap<u32, (Arc<TableSchema>, Sequence)> {
        let state = self.journal.control();
        let mut newest: BTreeMap<u32, Newest> = BTreeMap::new();
        for (key, entry) in state.prefix(entry::SCHEMA_PREFIX) {
            let Some((table, version)) = schema_key(key) else {
                continue;
            };
            let slot = newest.entry(table).or_insert_with(|| Newest {
                version,
                first: entry.sequence,
                last: entry.sequence,
                bytes: Arc::clone(&entry.value),
            });
            slot.first = slot.first.min(entry.sequence);
            if (version, entry.sequence) >= (slot.version, slot.last) {
                (slot.version, slot.last) = (version, entry.sequence);
                slot.bytes = Arc::clone(&entry.value);
            }
        }
        let is_there = |table: u32, slot: &Newest| {
            let gone = state.get(&entry::gone_key(table));
            gone.is_none_or(|gone| gone.sequence < slot.last)
        };
        newest
            .into_iter()
            .filter(|(table, slot)| is_there(*table, slot))
            .filter_map(|(table, slot)| {
                let schema = TableSchema::decode(&slot.bytes).ok()?;
                Some((table, (Arc::new(schema), slot.first)))
            })
            .collect()
    }

    /// A captured table by its shown names.
    pub fn find_table(&self, keyspace: &str, table: &str) -> Result<(Arc<TableSchema>, Sequence)> {
        let mut found = self.newest_schemas().into_values().filter(|(schema, _)| {
            name::mapped(&schema.database) == keyspace && name::mapped(&schema.name) == table
        });
        let place = || format!("{keyspace}.{table}");
        let Some(first) = found.next() else {
            let detail = "no captured table has this name";
            return Err(Error::new(ErrorKind::NotFound, "find the table", detail)
                .at(place())
                .hint("add it to source.tables, or look at the names with ListTables"));
        };
        match found.next() {
            // The same name under two numbers: it was dropped and made again; the later one counts.
            Some(second)
                if (&second.0.database, &second.0.name) == (&first.0.database, &first.0.name) =>
            {
                let later = found
                    .chain([first, second])
                    .max_by_key(|(schema, _)| schema.table);
                later.ok_or_else(|| Error::new(ErrorKind::Internal, "find the table", "no newest"))
            }
            Some(second) => {
                let detail = format!(
                    "{}.{} and {}.{} are both shown under this name",
                    first.0.database, first.0.name, second.0.database, second.0.name
                );
                Err(Error::new(ErrorKind::Conflict, "find the table", detail)
                    .at(place())
                    .hint("capture one of them with another pipeline, or rename it"))
            }
            None => Ok(first),
        }
    }

    fn tags(&self, resource: &Resource) -> Result<Tags> {
        let registry = self.registry();
        let key = match resource {
            Resource::Stream(arn) => return Ok(self.stream(arn)?.entry.tags.clone()),
            Resource::Table(keyspace, table) => {
                self.find_table(keyspace, table)?;
                format!("{keyspace}/{table}")
            }
            Resource::Keyspace(keyspace) => {
                self.find_keyspace(keyspace)?;
                keyspace.clone()
            }
        };
        Ok(registry.tags.get(&key).cloned().unwrap_or_default())
    }

    pub fn find_keyspace(&self, keyspace: &str) -> Result<()> {
        let known = self
            .newest_schemas()
            .into_values()
            .any(|(schema, _)| name::mapped(&schema.database) == keyspace);
        match known {
            true => Ok(()),
            false => {
                let detail = "no captured table is in this keyspace";
                Err(Error::new(ErrorKind::NotFound, "find the keyspace", detail).at(keyspace))
            }
        }
    }

    /// How long a read may take.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.options.read_time_max
    }

    /// Notes whether a table's records could be opened.
    pub fn note_locked(&self, table: TableId, is_locked: bool) {
        let mut tables = locked(&self.locked);
        if is_locked {
            tables.insert(table.0);
        } else if !tables.is_empty() {
            tables.remove(&table.0);
        }
    }
}

/// The newest schema of a table, and when its first and this one came.
struct Newest {
    version: u32,
    first: Sequence,
    last: Sequence,
    bytes: Arc<[u8]>,
}

/// Table and version of a schema's key, `schema/TABLE/VERSION`.
fn schema_key(key: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(key.get(entry::SCHEMA_PREFIX.len()..)?).ok()?;
    let (table, version) = text.split_once('/')?;
    Some((table.parse().ok()?, version.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_of_any_length_are_read_as_numbers() {
        let sequence = Sequence(1_900_000_000_000_000_000);
        assert_eq!(
            Streams::parse_sequence(&sequence.to_string()),
            Some(sequence)
        );
        assert_eq!(
            Streams::parse_sequence("000000000000000000001"),
            Some(Sequence(0))
        );
        assert_eq!(
            Streams::parse_sequence(&"9".repeat(48)),
            Some(Sequence(u64::MAX))
        );
        assert_eq!(Streams::parse_sequence(&"0".repeat(48)), Some(Sequence(0)));
        assert_eq!(Streams::parse_sequence("12a"), None);
        assert_eq!(Streams::parse_sequence(""), None);
    }
}
