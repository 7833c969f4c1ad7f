//! All streams as of one moment, derived from the journal's control state.

use crate::arn::Identity;
use crate::entry::{self, SHARD_PREFIX, STREAM_PREFIX, ShardEntry, StreamEntry, TAG_PREFIX};
use crate::error::{Error, ErrorKind};
use crate::info::{StreamInfo, Tags};
use crate::name;
use crate::shard::{ShardId, ShardInfo};
use journal::{ControlState, Sequence};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counters of one stream since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub records_captured: AtomicU64,
    pub bytes_captured: AtomicU64,
    pub records_read: AtomicU64,
    pub bytes_read: AtomicU64,
    /// By shard, how far its last reader came.
    pub reads: Mutex<BTreeMap<u32, Progress>>,
}

/// How far a reader of a shard came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// Creation time of the last record of its page; none at the tip.
    pub behind_us: Option<i64>,
    /// When.
    pub at: Instant,
}

/// A reader that was not heard of for this long is none any more.
const READER_IDLE: Duration = Duration::from_secs(300);

impl Counters {
    /// Notes how far a reader of a shard came; `None` when it has read it to its end.
    pub fn note_read(&self, shard: u32, progress: Option<Progress>) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Some(progress) => {
                reads.insert(shard, progress);
            }
            None => {
                reads.remove(&shard);
            }
        }
    }

    /// How far the reader furthest behind is, milliseconds at `now_us`; none when nobody reads.
    pub fn iterator_age_ms(&self, now_us: i64) -> Option<u64> {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.retain(|_, progress| progress.at.elapsed() < READER_IDLE);
        let age =
            |progress: &Progress| progress.behind_us.map_or(0, |us| now_us.saturating_sub(us));
        let most = reads.values().map(age).max()?;
        Some(u64::try_from(most / 1000).unwrap_or(0))
    }
}

/// One shard.
#[derive(Debug, Clone)]
pub(crate) struct Shard {
    pub number: u32,
    pub info: ShardInfo,
    pub entry: ShardEntry,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub number: u32,
    pub entry: StreamEntry,
    pub info: Arc<StreamInfo>,
    /// In the order of first sequence and name.
    pub shards: Vec<Shard>,
    by_id: HashMap<ShardId, usize>,
    pub counters: Arc<Counters>,
    signature: (Sequence, usize),
}

impl Stream {
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        self.by_id.get(&id).map(|index| &self.shards[*index])
    }

    pub fn shard_numbered(&self, number: u32) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.number == number)
    }

    pub fn open_shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter(|shard| shard.entry.ending == 0)
    }

    /// Whether nothing of it is retained any more.
    pub fn is_gone(&self, horizon: u64) -> bool {
        self.entry.disabled_at != 0 && self.entry.disabled_at < horizon
    }
}

/// Key of a stream in listing order: keyspace, table, label.
pub(crate) type StreamOrder = (String, String, i64);

/// All streams.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub streams: BTreeMap<StreamOrder, Arc<Stream>>,
    pub by_arn: HashMap<String, Arc<Stream>>,
    /// Tags of tables and keyspaces, by `keyspace/table` or `keyspace`.
    pub tags: BTreeMap<String, Tags>,
}

fn corrupt(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "read the streams in the journal",
        format!("{what}: {error}"),
    )
}

/// What belongs to one stream in the control state.
#[derive(Default)]
struct Parts<'a> {
    stream: Option<&'a [u8]>,
    shards: Vec<(u32, &'a [u8])>,
    signature: (Sequence, usize),
}

impl Registry {
    /// Derives it from the control state, taking over from `before` what has not changed.
    pub fn derive(
        state: &ControlState,
        identity: &Identity,
        before: &Registry,
    ) -> Result<Registry, Error> {
        let mut parts: BTreeMap<u32, Parts<'_>> = BTreeMap::new();
        let entries = state
            .prefix(STREAM_PREFIX)
            .chain(state.prefix(SHARD_PREFIX));
        for (key, entry) in entries {
            let number = entry::stream_of_key(key).ok_or_else(|| corrupt("a key", "no number"))?;
            let part = parts.entry(number).or_default();
            part.signature.0 = part.signature.0.max(entry.sequence);
            part.signature.1 += 1;
            if key.starts_with(STREAM_PREFIX) {
                part.stream = Some(&entry.value);
            } else {
                let shard =
                    entry::shard_of_key(key).ok_or_else(|| corrupt("a key", "no number"))?;
                part.shards.push((shard, &entry.value));
            }
        }
        let known: HashMap<u32, &Arc<Stream>> =
            before.streams.values().map(|s| (s.number, s)).collect();
        let mut registry = Registry::default();
        for (number, part) in &parts {
            let Some(bytes) = part.stream else { continue };
            let old = known.get(number).copied();
            let stream = match old {
                Some(old) if old.signature == part.signature => Arc::clone(old),
                _ => Arc::new(build(*number, (bytes, part), identity, old)?),
            };
            let order = (
                stream.info.keyspace.clone(),
                stream.info.table.clone(),
                stream.entry.label.0,
            );
            registry.streams.insert(order, stream);
        }
        registry.mark_latest();
        for stream in registry.streams.values() {
            registry
                .by_arn
                .insert(stream.info.arn.clone(), Arc::clone(stream));
        }
        for (key, entry) in state.prefix(TAG_PREFIX) {
            let resource = String::from_utf8_lossy(&key[TAG_PREFIX.len()..]).into_owned();
            let tags = entry::decode_tags(&entry.value).map_err(|error| corrupt("tags", error))?;
            registry.tags.insert(resource, tags);
        }
        Ok(registry)
    }

    /// Only a table's newest stream takes tags.
    fn mark_latest(&mut self) {
        let orders: Vec<StreamOrder> = self.streams.keys().cloned().collect();
        for (index, order) in orders.iter().enumerate() {
            let next = orders.get(index + 1);
            let is_latest = next.is_none_or(|next| (&next.0, &next.1) != (&order.0, &order.1));
            let Some(slot) = self.streams.get_mut(order) else {
                continue;
            };
            if slot.info.is_latest == is_latest {
                continue;
            }
            let mut info = StreamInfo::clone(&slot.info);
            info.is_latest = is_latest;
            *slot = Arc::new(Stream {
                number: slot.number,
                entry: slot.entry.clone(),
                info: Arc::new(info),
                shards: slot.shards.clone(),
                by_id: slot.by_id.clone(),
                counters: Arc::clone(&slot.counters),
                signature: slot.signature,
            });
        }
    }

    /// All streams of a table by its shown names, oldest first.
    pub fn of_table<'a>(
        &'a self,
        keyspace: &str,
        table: &str,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Stream>> {
        let from = (keyspace.to_owned(), table.to_owned(), i64::MIN);
        let to = (keyspace.to_owned(), table.to_owned(), i64::MAX);
        self.streams.range(from..=to).map(|(_, stream)| stream)
    }

    pub fn numbered(&self, number: u32) -> Option<&Arc<Stream>> {
        self.streams.values().find(|stream| stream.number == number)
    }
}

fn build(
    number: u32,
    (bytes, part): (&[u8], &Parts<'_>),
    identity: &Identity,
    old: Option<&Arc<Stream>>,
) -> Result<Stream, Error> {
    let entry = StreamEntry::decode(bytes).map_err(|error| corrupt("a stream", error))?;
    let mut entries = BTreeMap::new();
    for (shard, bytes) in &part.shards {
        let decoded = ShardEntry::decode(bytes).map_err(|error| corrupt("a shard", error))?;
        entries.insert(*shard, decoded);
    }
    let id_of = |shard: u32, made_ms: u64| ShardId::new(made_ms, shard);
    let mut shards: Vec<Shard> = entries
        .iter()
        .map(|(shard, stored)| Shard {
            number: *shard,
            info: ShardInfo {
                id: id_of(*shard, stored.created_ms),
                // A parent that has gone is no longer named: there is nothing to be finished first.
                parents: stored
                    .parents
                    .iter()
                    .filter_map(|parent| Some(id_of(*parent, entries.get(parent)?.created_ms)))
                    .collect(),
                starting: Sequence(stored.starting),
                ending: (stored.ending != 0).then_some(Sequence(stored.ending)),
                from_hash: stored.from_hash,
                to_hash: stored.to_hash,
            },
            entry: stored.clone(),
        })
        .collect();
    shards.sort_by_key(|shard| (shard.info.starting, shard.info.id));
    let by_id = shards
        .iter()
        .enumerate()
        .map(|(index, shard)| (shard.info.id, index))
        .collect();
    let keyspace = name::mapped(&entry.database).into_owned();
    let table = name::mapped(&entry.table).into_owned();
    let sequence = |number: u64| (number != 0).then_some(Sequence(number));
    let info = StreamInfo {
        arn: identity.stream_arn(&keyspace, &table, entry.label),
        keyspace,
        table,
        label: entry.label,
        status: entry.status,
        view: entry.view,
        name: entry.name.clone(),
        clustering: entry.clustering.clone(),
        include_snapshot: entry.include_snapshot,
        enabled_at: sequence(entry.enabled_at),
        disabled_at: sequence(entry.disabled_at),
        reason: entry.reason.clone(),
        tags: entry.tags.clone(),
        propagate_tags: entry.propagate_tags,
        is_latest: true,
        table_id: entry.table_id,
    };
    Ok(Stream {
        number,
        entry,
        info: Arc::new(info),
        shards,
        by_id,
        counters: old.map(|old| Arc::clone(&old.counters)).unwrap_or_default(),
        signature: part.signature,
    })
}
