//! The source: from the brokers to batches, and how it stands.

use crate::Resume;
use crate::capture::{Capture, Open};
use crate::config::{Start, TopicConfig};
use crate::error::invalid;
use crate::link::{self, Fault, Link, Words};
use crate::partition::{PREFIX, Partition, Waiting, read_saved};
use change::contract::{ErrorKind, SourceStatus};
use change::{Batch, Position, Progress, Source, SourceError};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A batch is handed out at this many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Messages that name their transaction are waited for this long before their transaction ends.
const QUIET: Duration = Duration::from_millis(10);
/// A transaction whose end a message will tell is waited for this long; then it is journaled in parts.
const TOLD_WAIT: Duration = Duration::from_secs(5);
/// Messages of other partitions that wait for such a transaction hold at most this many bytes.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Offsets that no row took into the journal are written there this often.
const SAVE_PERIOD: Duration = Duration::from_secs(1);
/// How often topics are looked at for partitions that were added.
const PARTITIONS_PERIOD: Duration = Duration::from_secs(10);
/// A status names at most this many partitions.
const PLACES_MAX: usize = 8;

/// Topics of change messages.
pub struct TopicSource {
    config: TopicConfig,
    link: Box<dyn Link>,
    capture: Capture,
    waiting_bytes: usize,
    server: String,
    /// To be written into the journal with the first offsets.
    identity: Option<String>,
    saved: Instant,
    partitions_seen: Instant,
    /// Why the brokers are not reached, and since when.
    away: Option<(String, Instant)>,
    message_count: u64,
    bytes_received: u64,
    has_read: bool,
}

impl std::fmt::Debug for TopicSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicSource")
            .field("topics", &self.config.topics)
            .field("position", &self.capture.position())
            .finish_non_exhaustive()
    }
}

/// Where each partition goes on, as the journal has it: by topic and part.
type Saved = BTreeMap<String, BTreeMap<String, i64>>;

impl TopicSource {
    /// Connects and finds out where each partition goes on.
    ///
    /// Errors: `Invalid` for a bad config, a missing topic or grant, or another cluster; `Lost` when
    /// messages that are wanted are gone; `Unavailable` when no broker answers.
    pub fn open(config: TopicConfig, resume: Resume) -> Result<Self, SourceError> {
        let mut capture = Capture::new(&config)?;
        capture.restore(&resume)?;
        let saved = saved_offsets(&resume)?;
        let mut link = link::connect(&config)?;
        let greeting = link.greet()?;
        let kept = resume.value(b"source/identity");
        refuse_stranger(greeting.identity.as_deref(), kept)?;
        for topic in &config.topics {
            let known = saved.get(topic);
            for partition in find_all(link.as_ref(), topic, known, config.start)? {
                capture.partitions.push(partition);
            }
        }
        let now = Instant::now();
        let is_known = kept.is_some();
        let mut source = Self {
            server: greeting.server,
            identity: greeting.identity.filter(|_| !is_known),
            config,
            link,
            capture,
            waiting_bytes: 0,
            saved: now - SAVE_PERIOD,
            partitions_seen: now,
            away: None,
            message_count: 0,
            bytes_received: 0,
            has_read: false,
        };
        source.read_from(0)?;
        Ok(source)
    }

    /// Has the partitions from `first` on read.
    fn read_from(&mut self, first: usize) -> Result<(), SourceError> {
        if first == 0 {
            // What waited comes again.
            for partition in &mut self.capture.partitions {
                partition.waiting.clear();
            }
            self.waiting_bytes = 0;
        }
        self.link.read(&self.capture.partitions, first)
    }

    /// Takes messages that wait for their turn.
    fn take_waiting(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        while self.waiting_bytes > 0 && batch.byte_count() < BATCH_BYTES {
            let next = match self.capture.open() {
                Open::Told { partition, .. } => Some(partition),
                _ => (self.capture.partitions.iter()).position(|p| !p.waiting.is_empty()),
            };
            let Some(index) = next else { return Ok(()) };
            let Some(waiting) = self.capture.partitions[index].waiting.pop_front() else {
                return Ok(());
            };
            self.waiting_bytes -= waiting.byte_count();
            self.capture.take(waiting.message(index), batch)?;
        }
        Ok(())
    }

    /// Takes one message from the client, or waits for one; `false` when nothing came.
    fn take_next(&mut self, wait: Duration, batch: &mut Batch) -> Result<bool, SourceError> {
        let arrived = match self.link.poll(wait) {
            None => return Ok(false),
            Some(Err(fault)) => return self.fault(fault).map(|()| true),
            Some(Ok(arrived)) => arrived,
        };
        let message = arrived.message();
        let index = message.partition;
        self.away = None;
        self.has_read = true;
        self.message_count += 1;
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len) as u64;
        self.bytes_received += length(message.payload) + length(message.key);
        let is_held_up = match self.capture.open() {
            Open::Told { partition, .. } => partition != index,
            _ => false,
        };
        // What waits in a partition comes before what arrives.
        if is_held_up || !self.capture.partitions[index].waiting.is_empty() {
            let waiting = Waiting::new(&message);
            self.waiting_bytes += waiting.byte_count();
            self.capture.partitions[index].waiting.push_back(waiting);
            if self.waiting_bytes > WAITING_BYTES_MAX {
                self.capture.commit(batch);
            }
            return Ok(true);
        }
        self.capture.take(message, batch)?;
        Ok(true)
    }

    /// Something between two messages: what can be cured is left to the link, which tries again.
    fn fault(&mut self, fault: Fault) -> Result<(), SourceError> {
        match fault {
            Fault::None => Ok(()),
            Fault::Offsets => self.find_lost(),
            #[cfg(feature = "rocketmq")]
            Fault::Gap {
                partition,
                from,
                to,
            } => Err(passed_over(
                &self.capture.partitions[partition].place,
                (from, to),
                self.link.words(),
            )),
            Fault::Topic(error) => self.find_missing(error),
            Fault::Refused(error) => Err(error),
            Fault::Away(error, since) => {
                self.is_away(&error, since);
                Ok(())
            }
        }
    }

    fn is_away(&mut self, error: &SourceError, since: Instant) {
        let text = error.to_string();
        if self.away.is_none() {
            tracing::warn!("{text}; trying again");
        }
        self.away = Some((text, since));
    }

    /// The brokers refused an offset: finds out which, and goes on if none is gone after all.
    fn find_lost(&mut self) -> Result<(), SourceError> {
        for partition in &self.capture.partitions {
            match self.link.ends(&partition.topic, &partition.part) {
                Ok(ends) => is_kept(&partition.place, partition.from(), ends, self.link.words())?,
                Err(error) if error.kind == ErrorKind::Unavailable => {}
                Err(error) => return Err(error),
            }
        }
        self.read_from(0)
    }

    /// The brokers do not know a topic: finds out whether it is gone.
    fn find_missing(&mut self, error: SourceError) -> Result<(), SourceError> {
        for topic in &self.config.topics {
            match self.link.has_topic(topic) {
                Ok(true) => {}
                Ok(false) => {
                    return Err(SourceError::new(
                        ErrorKind::Lost,
                        "read topics",
                        "the topic is gone",
                    )
                    .at(format!("topic {topic}"))
                    .hint("if it was removed on purpose, take it out of topics"));
                }
                Err(error) if error.kind == ErrorKind::Unavailable => {}
                Err(error) => return Err(error),
            }
        }
        self.is_away(&error, Instant::now());
        Ok(())
    }

    /// Looks for partitions that were added; they begin with their first message.
    fn find_partitions(&mut self) -> Result<(), SourceError> {
        if self.partitions_seen.elapsed() < PARTITIONS_PERIOD || self.away.is_some() {
            return Ok(());
        }
        self.partitions_seen = Instant::now();
        let first = self.capture.partitions.len();
        for topic in &self.config.topics {
            let Ok(Some(parts)) = self.link.parts(topic) else {
                continue;
            };
            for part in parts {
                let is_known = |p: &Partition| p.topic == *topic && p.part == part;
                if self.capture.partitions.iter().any(is_known) {
                    continue;
                }
                let Ok((low, _)) = self.link.ends(topic, &part) else {
                    continue;
                };
                let partition = Partition::new(topic, &part, low, None);
                tracing::info!("{} was added", partition.place);
                self.capture.partitions.push(partition);
            }
        }
        match first == self.capture.partitions.len() {
            true => Ok(()),
            false => self.read_from(first),
        }
    }

    /// Offsets that no row took into the journal: of tombstones, of tables that are left out, of the
    /// brokers' own records.
    fn save_offsets(&mut self, batch: &mut Batch) {
        if self.saved.elapsed() < SAVE_PERIOD || self.capture.open() != Open::Nothing {
            return;
        }
        self.saved = Instant::now();
        let standing = self.link.standing(&self.capture.partitions);
        let partitions = self.capture.partitions.iter_mut().zip(&standing.ends);
        for (partition, end) in partitions.filter(|_| standing.is_drained) {
            let is_idle = partition.held.is_none() && partition.waiting.is_empty();
            if let Some(end) = end
                && is_idle
                && partition.saved.is_some()
            {
                partition.next = partition.next.max(end.reached);
            }
        }
        self.capture.save_offsets(self.identity.as_deref(), batch);
        if !batch.is_empty() {
            self.identity = None;
        }
    }

    /// Ends a transaction that nothing more is waited for.
    fn settle(&mut self, batch: &mut Batch) -> Duration {
        let (since, patience) = match self.capture.open() {
            Open::Nothing => return Duration::MAX,
            Open::Differs {
                is_named: false, ..
            } => {
                self.capture.commit(batch);
                return Duration::MAX;
            }
            Open::Differs { since, .. } => (since, QUIET),
            Open::Told { since, .. } => (since, TOLD_WAIT),
        };
        let left = patience.saturating_sub(since.elapsed());
        if left.is_zero() {
            if patience == TOLD_WAIT {
                tracing::warn!("the end of a transaction does not come: it is journaled in parts");
            }
            self.capture.commit(batch);
            return Duration::MAX;
        }
        left
    }

    fn places(&self, at: impl Fn(&Partition) -> Option<i64>) -> String {
        let partitions = &self.capture.partitions;
        let one = |p: &Partition| match at(p) {
            Some(offset) => format!("{}:{offset}", p.place),
            None => format!("{}:?", p.place),
        };
        let mut places: Vec<String> = partitions.iter().take(PLACES_MAX).map(one).collect();
        if partitions.len() > PLACES_MAX {
            places.push(format!("and {} more", partitions.len() - PLACES_MAX));
        }
        places.join(" ")
    }
}

impl Source for TopicSource {
    fn poll(&mut self, batch: &mut Batch, wait: Duration) -> Result<Progress, SourceError> {
        let deadline = Instant::now() + wait;
        self.find_partitions()?;
        self.save_offsets(batch);
        loop {
            self.take_waiting(batch)?;
            if batch.byte_count() >= BATCH_BYTES {
                if let Open::Differs {
                    is_named: false, ..
                } = self.capture.open()
                {
                    self.capture.commit(batch);
                }
                return Ok(Progress::Data);
            }
            if self.take_next(Duration::ZERO, batch)? {
                continue;
            }
            let left = self.settle(batch);
            if self.waiting_bytes > 0 && self.capture.open() == Open::Nothing {
                continue;
            }
            let is_whole = self.capture.open() == Open::Nothing;
            let is_told = matches!(self.capture.open(), Open::Told { .. });
            if !batch.is_empty() && (is_whole || is_told) {
                return Ok(Progress::Data);
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                // What is open stays open: the next poll goes on with it.
                return Ok(match batch.is_empty() {
                    true => Progress::Idle,
                    false => Progress::Data,
                });
            }
            self.take_next(rest.min(left).max(Duration::from_millis(1)), batch)?;
        }
    }

    fn status(&mut self) -> SourceStatus {
        let away_since = self.away.as_ref().map(|(_, since)| *since);
        let standing = self.link.standing(&self.capture.partitions);
        let connected = standing.connected;
        if away_since.is_some_and(|since| connected.is_some_and(|at| at > since)) {
            self.away = None;
        }
        let partitions = &self.capture.partitions;
        let ends = standing.ends;
        let behind = partitions.iter().zip(&ends);
        let behind: Option<u64> = behind.map(|(p, end)| (*end)?.behind(p.read)).sum();
        // The last times of partitions that are behind.
        let oldest_us = (partitions.iter().zip(&ends))
            .filter(|(p, end)| end.and_then(|end| end.behind(p.read)) != Some(0))
            .map(|(p, _)| p.time_us)
            .filter(|time| *time > 0)
            .min();
        let lag_seconds = match behind {
            Some(0) => Some(0.0),
            _ => oldest_us.map(age_seconds),
        };
        let mean_bytes = self.bytes_received.checked_div(self.message_count);
        let lag_bytes = match behind {
            Some(0) => Some(0),
            behind => behind
                .zip(mean_bytes)
                .map(|(n, bytes)| n.saturating_mul(bytes)),
        };
        let head_of: HashMap<&str, i64> = (partitions.iter().zip(&ends))
            .filter_map(|(p, end)| Some((p.place.as_str(), end.as_ref()?.end)))
            .collect();
        let mut head = self.places(|p| head_of.get(p.place.as_str()).copied().filter(|o| *o >= 0));
        if let Some(behind) = behind.filter(|behind| *behind > 0) {
            head = format!("{head} ({behind} messages behind)");
        }
        SourceStatus {
            server: self.server.clone(),
            phase: match (&self.away, self.has_read || behind.is_some()) {
                (Some(_), _) => "retrying",
                (None, false) => "connecting",
                (None, true) => "streaming",
            },
            position: self.places(|p| Some(p.next)),
            head,
            lag_bytes,
            lag_seconds,
            tables: Vec::new(),
            parked: self.capture.parked(),
            trouble: self
                .away
                .as_ref()
                .map_or_else(String::new, |(text, _)| text.clone()),
            bytes_received: self.bytes_received,
            partial_images: Some(
                "messages do not always hold the whole row before and after a change; hint: use the view \
                 KEYS_ONLY"
                    .into(),
            ),
        }
    }

    fn position(&self) -> Option<Position> {
        self.capture.position().cloned()
    }
}

/// Connects and describes the topics that would be read.
///
/// Errors: `Unavailable` or `Invalid` with the place and the fix.
pub fn check(config: &TopicConfig) -> Result<Vec<String>, SourceError> {
    Capture::new(config)?;
    let mut link = link::connect(config)?;
    let greeting = link.greet()?;
    let mut lines = vec![format!("{}: {}", link.place(), greeting.found)];
    for topic in &config.topics {
        let parts = link.parts(topic)?.ok_or_else(|| missing(topic))?;
        let mut messages = 0;
        for part in &parts {
            let (low, high) = link.ends(topic, part)?;
            messages += high - low;
        }
        lines.push(format!(
            "topic {topic}: {} {}, at most {messages} messages",
            parts.len(),
            link.words().parts
        ));
    }
    Ok(lines)
}

/// The partitions of a topic, each where it goes on.
///
/// `known`: where the journal says that they go on; none for a topic that it does not know.
fn find_all(
    link: &dyn Link,
    topic: &str,
    known: Option<&BTreeMap<String, i64>>,
    start: Start,
) -> Result<Vec<Partition>, SourceError> {
    let Some(parts) = link.parts(topic)? else {
        let away = known.and_then(|known| known.keys().find(|part| link.may_be_away(part, &[])));
        return Err(match away {
            Some(_) => away_now(link, &format!("topic {topic}")),
            None => missing(topic),
        });
    };
    if let Some(gone) = known.and_then(|known| known.keys().find(|part| !parts.contains(part))) {
        let place = format!("{topic}/{gone}");
        return Err(match link.may_be_away(gone, &parts) {
            true => away_now(link, &place),
            false => made_anew(&place),
        });
    }
    let one = |part: String| {
        let ends = link.ends(topic, &part)?;
        let next = known.and_then(|known| known.get(&part).copied());
        Ok(match (next, known, start) {
            (Some(next), _, _) => {
                is_kept(&format!("{topic}/{part}"), next, ends, link.words())?;
                Partition::new(topic, &part, next, Some(next))
            }
            (None, None, Start::Latest) => Partition::new(topic, &part, ends.1, None),
            (None, _, _) => Partition::new(topic, &part, ends.0, None),
        })
    };
    parts.into_iter().map(one).collect()
}

fn age_seconds(time_us: u64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs_f64();
    (now - time_us as f64 / 1e6).max(0.0)
}

fn saved_offsets(resume: &Resume) -> Result<Saved, SourceError> {
    let mut saved = Saved::new();
    for (key, value) in resume.with_prefix(PREFIX) {
        let (topic, part, next) = read_saved(key, value)?;
        saved.entry(topic).or_default().insert(part, next);
    }
    if saved.is_empty() && resume.position.is_some() {
        return Err(SourceError::new(
            ErrorKind::Lost,
            "go on with topics",
            "the journal has no offsets of them",
        )
        .hint("start with a fresh journal directory; what is still in the topics is read again"));
    }
    Ok(saved)
}

fn missing(topic: &str) -> SourceError {
    invalid(
        "the topic does not exist",
        "check its name; topics that are read are not made",
    )
    .at(format!("topic {topic}"))
}

/// What the journal knows is not among what brokers tell.
fn away_now(link: &dyn Link, place: &str) -> SourceError {
    let detail = "it was there before and is not now";
    SourceError::new(ErrorKind::Unavailable, "read topics", detail)
        .at(format!("{place}, {}", link.place()))
        .hint("is its broker down? If it was removed on purpose, take the topic out of topics")
}

fn made_anew(place: &str) -> SourceError {
    SourceError::new(
        ErrorKind::Lost,
        "read topics",
        "it is gone: the topic was made anew, or has fewer parts than before",
    )
    .at(place)
    .hint(LOST_HINT)
}

const LOST_HINT: &str = "start with a fresh journal directory, and bring the targets to the state that the topic begins with";

/// Whether what comes next is still there.
///
/// Errors: `Lost`.
fn is_kept(
    place: &str,
    next: i64,
    (low, high): (i64, i64),
    words: Words,
) -> Result<(), SourceError> {
    let detail = if next < low {
        format!(
            "the topic begins at offset {low} now: what came before was removed by its retention"
        )
    } else if next > high {
        format!("the topic ends at offset {high}: it was made anew, or the brokers lost its end")
    } else {
        return Ok(());
    };
    Err(SourceError::new(ErrorKind::Lost, "read topics", detail)
        .at(format!("{place}:{next}"))
        .hint(lost_hint(words)))
}

fn lost_hint(words: Words) -> String {
    format!("{LOST_HINT}; keep messages longer: {}", words.retention)
}

/// A broker that removes messages passes over them before it says that the topic begins later.
#[cfg(feature = "rocketmq")]
fn passed_over(place: &str, (from, to): (i64, i64), words: Words) -> SourceError {
    let detail =
        format!("the next message that there is has offset {to}: those before it are gone");
    SourceError::new(ErrorKind::Lost, "read topics", detail)
        .at(format!("{place}:{from}"))
        .hint(lost_hint(words))
}

/// Refuses another cluster behind the addresses.
fn refuse_stranger(found: Option<&str>, kept: Option<&[u8]>) -> Result<(), SourceError> {
    match (found, kept) {
        (Some(found), Some(kept)) if found.as_bytes() != kept => Err(SourceError::new(
            ErrorKind::Invalid,
            "connect",
            format!(
                "another cluster answers: {found} instead of {}",
                String::from_utf8_lossy(kept)
            ),
        )
        .hint("name the brokers of the old cluster, or start a new journal")),
        _ => Ok(()),
    }
}
