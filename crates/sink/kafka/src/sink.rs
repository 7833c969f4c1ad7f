//! The sink itself.

use crate::client::{self, Context};
use crate::config::{
    DdlPartitions, Delivery, KafkaConfig, KeyConfig, OnPartitionChange, PartitionBy,
};
use crate::cursor;
use crate::error::{Refusal, broker_error, invalid, refusal};
use crate::partition::partition_of;
use crate::route::{Route, Topics, splits_key_changes};
use crate::template::Template;
use crate::undecided;
use change::contract::{ErrorKind, Rejection};
use change::event::{Ahead, DdlChange, Heartbeat};
use change::{Cursor, Event, Image, Operation, RowChange, Sink, SinkError, TableSchema};
use format::{Encoder, FormatError, Key, Messages, key_text};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Who writes: part of the transactional id and of the cursor topic's name.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The pipeline's name.
    pub pipeline: String,
    /// The sink's name.
    pub sink: String,
}

/// How often topics are looked at for partitions that were added.
const PARTITIONS_PERIOD: Duration = Duration::from_secs(30);

/// After so many flushes what was written to is stored again, so that it stands near the end of the
/// cursor's topic.
const WRITTEN_FLUSHES: u32 = 1000;

/// Whether records are sent one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OneByOne {
    /// In batches.
    No,
    /// From the next connection on.
    Wanted,
    /// Now, and whether the broker refused one.
    Yes { found: bool },
    /// The refused record is set aside.
    Done,
    /// No single record was refused: a topic takes no batches as large as these.
    ForGood,
}

impl OneByOne {
    fn on_open(self) -> Self {
        match self {
            Self::No | Self::Done => Self::No,
            Self::Wanted => Self::Yes { found: false },
            Self::Yes { .. } | Self::ForGood => self,
        }
    }

    fn on_flush(self) -> Self {
        match self {
            Self::Yes { found: true } => Self::Done,
            Self::Yes { found: false } => {
                tracing::warn!(
                    "a topic's max.message.bytes is below the batches that are sent: records go one by one \
                     from here on; set `properties: {{batch.size: …}}` below it and start again"
                );
                Self::ForGood
            }
            other => other,
        }
    }
}

/// One record of the running batch, to name it if it is refused.
#[derive(Debug, Clone)]
struct Sent {
    topic: Arc<str>,
    /// `database.table`; empty for what belongs to no table, and then nothing is set aside for it.
    table: Arc<str>,
    /// Hash of the row's key; none for what is no row: a refusal then means the whole table.
    key_token: Option<u64>,
    sequence: u64,
    op: &'static str,
}

/// What of an event is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// The messages of events before it.
    Earlier,
    /// Its own messages.
    Own,
    /// A record without a value.
    Tombstone,
}

/// Writes to Kafka.
///
/// Promises: with `delivery: transactional`, a reader with `read_committed` sees each change once, in
/// the order of its key, whatever process was killed when. With `idempotent`, at least once across
/// restarts.
pub struct KafkaSink {
    config: KafkaConfig,
    transactional_id: String,
    cursor_topic: String,
    topics: Topics,
    encoder: Box<dyn Encoder>,
    producer: Option<BaseProducer<Context>>,
    context: Context,
    routes: HashMap<(u32, u32), Route>,
    topic_partitions: HashMap<String, i32>,
    /// Topics that were there when the sink opened.
    known_topics: HashSet<String>,
    /// Topics that were written to, also in earlier lives: over how many partitions their keys were
    /// spread, or 0.
    written: BTreeMap<String, i32>,
    /// Flushes since `written` was stored.
    written_age: u32,
    partitions_seen: Instant,
    key_names: HashMap<Arc<str>, Vec<String>>,
    messages: Messages,
    /// The text that chose the partition, then the record's key.
    key: Vec<u8>,
    /// The record's key where the format has one of its own.
    own_key: Vec<u8>,
    /// Whether records get `key`, which may be an empty text.
    has_key: bool,
    /// Where the last row that waits in the encoder would have gone.
    held: Option<(Sent, i32)>,
    sent: Vec<Sent>,
    /// A broker refuses a batch as a whole: which record it means shows when each is a batch of its own.
    one_by_one: OneByOne,
    in_transaction: bool,
    pending_bytes: usize,
}

impl KafkaSink {
    /// A sink that is not connected yet.
    ///
    /// Errors: `Invalid` for settings that cannot be.
    pub fn new(config: KafkaConfig, identity: &Identity) -> Result<Self, SinkError> {
        client::base(&config)?;
        let encoder = config
            .format
            .encoder_that_may_hold(&config.format_options)
            .map_err(|what| invalid(what, ""))?;
        if config.tombstones && config.key == KeyConfig::None {
            return Err(invalid(
                "tombstones need a key",
                "leave `key` at primary_key: a compacted topic forgets by key",
            ));
        }
        let topics = Topics::new(&config)?;
        if encoder.wants_marks()
            && (config.partition_by != PartitionBy::First
                || !config.partition_columns.is_empty()
                || topics.only().is_none())
        {
            return Err(invalid(
                "messages of whole transactions or row groups need the order of all",
                "set partition_by: first, no partition_columns, and one topic without placeholders",
            ));
        }
        if encoder.heartbeat_period().is_some() && topics.only().is_none() {
            return Err(invalid(
                "heartbeats belong to no table",
                "set one topic without {database} and {table}, and no `topics`",
            ));
        }
        if encoder.may_hold() && config.key != KeyConfig::None {
            return Err(invalid(
                "a message of several rows has no key",
                "set key: none, or grouping: row",
            ));
        }
        let cursor_topic = match &config.cursor_topic {
            Some(name) => name.clone(),
            None => Template::parse("headwater.cursor.{database}.{table}")?
                .render(&identity.pipeline, &identity.sink),
        };
        let transactional_id = config
            .transactional_id
            .clone()
            .unwrap_or_else(|| format!("headwater-{}-{}", identity.pipeline, identity.sink));
        Ok(Self {
            topics,
            context: client::context(&config),
            config,
            transactional_id,
            cursor_topic,
            encoder,
            producer: None,
            routes: HashMap::new(),
            topic_partitions: HashMap::new(),
            known_topics: HashSet::new(),
            written: BTreeMap::new(),
            written_age: WRITTEN_FLUSHES,
            partitions_seen: Instant::now(),
            key_names: HashMap::new(),
            messages: Messages::default(),
            key: Vec::new(),
            own_key: Vec::new(),
            has_key: false,
            held: None,
            sent: Vec::new(),
            one_by_one: OneByOne::No,
            in_transaction: false,
            pending_bytes: 0,
        })
    }
}

impl KafkaSink {
    fn broker_error(&self, operation: &str, error: &KafkaError) -> SinkError {
        // A call that timed out says little; the connection's own trouble says why.
        let trouble = self.context.connection.take_trouble();
        let plain = broker_error(operation, &self.config.brokers, error);
        match trouble {
            Some(trouble) if plain.kind == ErrorKind::Unavailable => {
                broker_error(operation, &self.config.brokers, &trouble)
            }
            _ => plain,
        }
    }

    fn producer(&self) -> Result<&BaseProducer<Context>, SinkError> {
        self.producer.as_ref().ok_or_else(|| {
            SinkError::new(ErrorKind::Unavailable, "write", "kafka is not connected")
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.config.timeout_s))
    }

    fn new_producer(&self) -> Result<BaseProducer<Context>, SinkError> {
        let one_by_one = self.one_by_one != OneByOne::No;
        let (id, context) = (&self.transactional_id, self.context.clone());
        client::producer(&self.config, id, context, one_by_one)
    }

    fn fence_older_writers(&self, producer: &BaseProducer<Context>) -> Result<(), SinkError> {
        match self.config.delivery {
            Delivery::Idempotent => Ok(()),
            Delivery::Transactional => producer
                .init_transactions(Duration::from_secs(15))
                .map_err(|error| self.broker_error("fence older writers", &error)),
        }
    }

    /// After a flush: a producer that makes batches. If it cannot be had, the next write says so, and the
    /// sink opens again.
    fn send_in_batches_again(&mut self) {
        self.producer = None;
        self.one_by_one = OneByOne::No;
        let Ok(producer) = self.new_producer() else {
            return;
        };
        let is_ready = self.fence_older_writers(&producer).is_ok();
        self.producer = is_ready.then_some(producer);
    }

    /// What a broker confirmed shortly before its connection ended has to be looked at: see
    /// [`undecided`].
    fn trust_the_broker(&self) -> Result<(), SinkError> {
        let is_transactional = self.config.delivery == Delivery::Transactional;
        if !is_transactional || !self.context.lost.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(SinkError::new(
            ErrorKind::Unavailable,
            "write",
            "the connection to a broker ended",
        )
        .at(format!("kafka {}", self.config.brokers.join(",")))
        .hint("nothing to do: the sink connects again and looks whether all that was confirmed is there"))
    }

    /// Takes back what is open on partitions of this sink, though its transactions have ended.
    fn end_what_is_open(
        &self,
        producer: &BaseProducer<Context>,
        metadata: &Metadata,
    ) -> Result<(), SinkError> {
        let mut written = cursor::read_now(&self.config, &self.cursor_topic, "read_uncommitted")?;
        let known = self
            .written
            .iter()
            .map(|(topic, count)| (topic.clone(), *count));
        written.partitions.extend(known);
        let partitions =
            undecided::partitions_of(metadata, &written.partitions, &self.cursor_topic);
        let open = undecided::still_open(&self.config, &partitions)?;
        if open.is_empty() {
            return Ok(());
        }
        let topics = undecided::topics_of(&open);
        // With several brokers, what is open may belong to a batch whose cursor is committed: then the
        // next commit ends it rightly, and taking it back would lose it.
        let is_committed = || {
            let committed = cursor::read_now(&self.config, &self.cursor_topic, "read_committed")?;
            Ok::<_, SinkError>(written.offset == committed.offset)
        };
        if metadata.brokers().len() > 1 && is_committed()? {
            tracing::warn!(
                "transactions are open on {topics}; if no other producer is at work there, a broker lost \
                 their end: give these topics replicas"
            );
            return Ok(());
        }
        tracing::warn!(
            "{} partitions have transactions without an end, as a stopped broker leaves them: what of this \
             sink is open there is taken back, and delivered again; topics: {topics}",
            open.len()
        );
        undecided::take_back(&self.config, producer, &self.context, &open)
    }

    fn say_if_not_compacted(&self) {
        if client::is_compacted(&self.config, &self.cursor_topic) == Some(false) {
            tracing::warn!(
                "topic {} holds the sink's cursor but is not compacted, so that the cursor ages out: set its \
                 cleanup.policy to compact",
                self.cursor_topic
            );
        }
    }

    fn begin(&mut self) -> Result<(), SinkError> {
        if self.in_transaction || self.config.delivery == Delivery::Idempotent {
            return Ok(());
        }
        self.producer()?
            .begin_transaction()
            .map_err(|error| self.broker_error("begin transaction", &error))?;
        self.in_transaction = true;
        Ok(())
    }

    fn partitions(&mut self, topic: &str) -> Result<i32, KafkaError> {
        if let Some(count) = self.topic_partitions.get(topic) {
            return Ok(*count);
        }
        let Some(producer) = &self.producer else {
            return Err(KafkaError::Canceled);
        };
        let is_known = self.known_topics.contains(topic);
        let count = client::partition_count(producer, &self.config, topic, is_known)?;
        self.topic_partitions.insert(topic.to_owned(), count);
        if !self.written.contains_key(topic) {
            self.written.insert(topic.to_owned(), 0);
            self.written_age = WRITTEN_FLUSHES;
        }
        Ok(count)
    }

    /// The partitions of a topic; a topic that cannot be written to refuses the whole table.
    fn partitions_or_park(
        &mut self,
        topic: &str,
        table: &str,
        sequence: u64,
    ) -> Result<i32, SinkError> {
        self.partitions(topic).map_err(|error| {
            let code = error.rdkafka_error_code();
            if code.is_none_or(|code| refusal(code) != Refusal::Topic) {
                return self.broker_error("look up topic", &error);
            }
            SinkError::rejected(Rejection {
                table: table.to_owned(),
                key_token: None,
                sequence,
                target: format!("topic {topic}"),
                key_columns: Vec::new(),
                reason: format!("{error}; create it, allow it, or set create_topics"),
            })
        })
    }

    fn route(&mut self, table: &TableSchema, sequence: u64) -> Result<(u32, u32), SinkError> {
        let id = (table.table.0, table.version.0);
        if self.routes.contains_key(&id) {
            return Ok(id);
        }
        let topic = self.topics.of(&table.database, &table.name);
        let name = format!("{}.{}", table.database, table.name);
        let partition_count = self.partitions_or_park(&topic, &name, sequence)?;
        let snapshot = match &self.topics.snapshot {
            None => None,
            Some(template) => {
                let topic = template.render(&table.database, &table.name);
                let count = self.partitions_or_park(&topic, &name, sequence)?;
                Some((Arc::from(topic), count))
            }
        };
        let refused = |reason| {
            SinkError::rejected(Rejection {
                table: name.clone(),
                key_token: None,
                sequence,
                target: format!("topic {topic}"),
                key_columns: Vec::new(),
                reason,
            })
        };
        let place = (Arc::from(topic.as_str()), partition_count);
        let route = Route::new(&self.config, table, place, snapshot).map_err(refused)?;
        if route.is_spread() {
            let is_new = spread_over(&mut self.written, &topic, partition_count, &self.config);
            if is_new.map_err(refused)? {
                self.written_age = WRITTEN_FLUSHES;
            }
        }
        let key_names = table
            .key()
            .iter()
            .filter_map(|i| table.columns.get(*i as usize));
        self.key_names.insert(
            Arc::clone(&route.table),
            key_names.map(|column| column.name.clone()).collect(),
        );
        self.routes.insert(id, route);
        Ok(id)
    }

    /// Looks, now and then, whether topics have other partitions than before. What changed is judged
    /// when the table's next row comes.
    fn look_for_partitions(&mut self) {
        if self.partitions_seen.elapsed() < PARTITIONS_PERIOD {
            return;
        }
        self.partitions_seen = Instant::now();
        let Some(producer) = &self.producer else {
            return;
        };
        let Ok(metadata) = producer
            .client()
            .fetch_metadata(None, Duration::from_secs(2))
        else {
            return;
        };
        let mut changed = false;
        for topic in metadata.topics() {
            let count = topic.partitions().len() as i32;
            if let Some(known) = self.topic_partitions.get_mut(topic.name())
                && count > 0
                && *known != count
            {
                *known = count;
                changed = true;
            }
        }
        if changed {
            self.routes.clear();
        }
    }

    fn row(&mut self, row: &RowChange<'_>) -> Result<(), SinkError> {
        let id = self.route(row.table, row.sequence)?;
        let by_key = self.routes[&id].splits_key_changes();
        match row.split_key_change() {
            // Each key's part goes to its own key's partition, so that each keeps its order.
            Some((gone, come)) if by_key => {
                self.send_row(&gone, id)?;
                self.send_row(&come, id)
            }
            _ => self.send_row(row, id),
        }
    }

    /// Encodes an event, and sends what it completes of the events before it.
    fn encode(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        self.messages.clear();
        let encoded = self.encoder.encode(event, &mut self.messages);
        encoded.map_err(|error| self.not_carried(event, &error))?;
        if !self.messages.has_earlier() {
            return Ok(());
        }
        let Some((sent, partition)) = self.held.take() else {
            let detail = "rows waited in the encoder, and nobody knows where they go";
            return Err(SinkError::new(ErrorKind::Internal, "write", detail));
        };
        self.has_key = false;
        self.send(sent, partition, Load::Earlier)
    }

    /// What the format cannot say of a row is set aside, as what the brokers refuse is.
    fn not_carried(&self, event: &Event<'_>, error: &FormatError) -> SinkError {
        let Event::Row(row) = event else {
            return SinkError::new(ErrorKind::Unsupported, "encode", error.to_string());
        };
        let key_names = self.key_names.get(error.table.as_str()).cloned();
        SinkError::rejected(error.rejection(row, key_names.unwrap_or_default()))
    }

    fn send_row(&mut self, row: &RowChange<'_>, id: (u32, u32)) -> Result<(), SinkError> {
        self.encode(&Event::Row(*row))?;
        let route = &self.routes[&id];
        let (topic, count) = match (&route.snapshot, row.operation) {
            (Some((topic, count)), Operation::Read) => (topic, *count),
            _ => (&route.topic, route.partition_count),
        };
        let sent = Sent {
            topic: Arc::clone(topic),
            table: Arc::clone(&route.table),
            key_token: Some(row.key_token),
            sequence: row.sequence,
            op: match row.operation {
                Operation::Insert => "insert",
                Operation::Update => "update",
                Operation::Delete => "delete",
                _ => "read",
            },
        };
        // A key change that goes out as one update: under its old key nothing else would come.
        if self.config.tombstones
            && row.operation == Operation::Update
            && row.old_key_token.is_some()
            && let Some(before) = &row.before
        {
            let partition = self.place(row, (id, count), Some(before))?;
            self.send(sent.clone(), partition, Load::Tombstone)?;
        }
        let image = key_text::image_of_key(row);
        let partition = self.place(row, (id, count), image.as_ref())?;
        if self.encoder.held_from().is_some() {
            self.held = Some((sent, partition));
            return Ok(());
        }
        if self.config.tombstones && row.operation == Operation::Delete {
            self.send(sent.clone(), partition, Load::Own)?;
            return self.send(sent, partition, Load::Tombstone);
        }
        self.send(sent, partition, Load::Own)
    }

    /// The partition of a row with this image, and its key.
    fn place(
        &mut self,
        row: &RowChange<'_>,
        (id, partition_count): ((u32, u32), i32),
        image: Option<&Image<'_>>,
    ) -> Result<i32, SinkError> {
        let route = &self.routes[&id];
        let seen = (row.table, image);
        let partition = route.partition(&self.config, partition_count, seen, &mut self.key);
        self.has_key = false;
        let (KeyConfig::PrimaryKey, Some(image)) = (self.config.key, image) else {
            return Ok(partition);
        };
        // Spread by its key, a row's key text is there already.
        let is_there = route.splits_key_changes();
        self.own_key.clear();
        let made = self.encoder.key(row, image, &mut self.own_key);
        match made.map_err(|error| self.not_carried(&Event::Row(*row), &error))? {
            Key::Own => std::mem::swap(&mut self.key, &mut self.own_key),
            Key::None => return Ok(partition),
            Key::Text if is_there => {}
            Key::Text => {
                self.key.clear();
                key_text::put_key(&mut self.key, row.table, image);
            }
        }
        self.has_key = true;
        Ok(partition)
    }

    fn ddl(&mut self, change: &DdlChange<'_>) -> Result<(), SinkError> {
        self.encode(&Event::Ddl(*change))?;
        self.routes.clear();
        if !self.messages.has_own() {
            return Ok(());
        }
        let topic = match (&self.topics.ddl, self.topics.only()) {
            (Some(template), _) => template.render(change.ddl.database, change.ddl.table),
            (None, Some(only)) => only,
            (None, None) if change.ddl.table.is_empty() => {
                // No table's topic is its own: CREATE DATABASE and the like need a ddl_topic.
                tracing::debug!("a statement without a table is not sent: ddl_topic is not set");
                return Ok(());
            }
            (None, None) => self.topics.of(change.ddl.database, change.ddl.table),
        };
        let table: Arc<str> = format!("{}.{}", change.ddl.database, change.ddl.table).into();
        let count = self.partitions_or_park(&topic, &table, change.sequence)?;
        let topic: Arc<str> = topic.into();
        let partitions = match (self.config.ddl_partitions, &self.config.partition_by) {
            (DdlPartitions::All, _) => 0..count,
            // A table's statements stand among its rows.
            (DdlPartitions::First, PartitionBy::Table) if !change.ddl.table.is_empty() => {
                let one = partition_of(self.config.partition_hash, table.as_bytes(), count);
                one..one + 1
            }
            (DdlPartitions::First, _) => 0..1,
        };
        self.has_key = false;
        for partition in partitions {
            let sent = Sent {
                topic: Arc::clone(&topic),
                table: Arc::clone(&table),
                key_token: None,
                sequence: change.sequence,
                op: "ddl",
            };
            self.send(sent, partition, Load::Own)?;
        }
        Ok(())
    }

    /// Begin and commit, to the partition where everything goes.
    fn mark(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        self.encode(event)?;
        self.send_plain(0..1)
    }

    /// Sends what is encoded to partitions of the only topic; where topics differ by table, nowhere.
    fn send_plain(&mut self, partitions: std::ops::Range<i32>) -> Result<(), SinkError> {
        let Some(topic) = self.topics.only() else {
            return Ok(());
        };
        if !self.messages.has_own() {
            return Ok(());
        }
        let topic: Arc<str> = topic.into();
        self.has_key = false;
        for partition in partitions {
            let sent = Sent {
                topic: Arc::clone(&topic),
                table: Arc::from(""),
                key_token: None,
                sequence: 0,
                op: "mark",
            };
            self.send(sent, partition, Load::Own)?;
        }
        Ok(())
    }

    /// Hands records to the producer, waiting while its queue is full.
    fn send(&mut self, sent: Sent, partition: i32, load: Load) -> Result<(), SinkError> {
        // A table without a key has nothing to bury.
        if load == Load::Tombstone && !self.has_key {
            return Ok(());
        }
        self.begin()?;
        let index = self.sent.len();
        let Some(producer) = &self.producer else {
            return Err(SinkError::new(
                ErrorKind::Unavailable,
                "write",
                "kafka is not connected",
            ));
        };
        let end = Instant::now() + self.timeout();
        let headers = (self.config.headers && sent.op != CURSOR_OP).then(|| headers(&sent));
        let wanted = |earlier: bool| match load {
            Load::Earlier => earlier,
            Load::Own => !earlier,
            Load::Tombstone => false,
        };
        let messages = self.messages.iter_with_origin();
        let messages = messages.filter_map(|(message, earlier)| wanted(earlier).then_some(message));
        let tombstone = (load == Load::Tombstone).then_some(None);
        let mut not_sent = None;
        'messages: for message in messages.map(Some).chain(tombstone) {
            self.pending_bytes += message.map_or(0, <[u8]>::len);
            let mut record: BaseRecord<'_, [u8], [u8], usize> =
                BaseRecord::with_opaque_to(&sent.topic, index).partition(partition);
            if let Some(message) = message {
                record = record.payload(message);
            }
            if self.has_key {
                record = record.key(&self.key);
            }
            if let Some(headers) = &headers {
                record = record.headers(headers.clone());
            }
            let mut pause = Pause::default();
            while let Err((error, back)) = producer.send(record) {
                let full =
                    error.rdkafka_error_code() == Some(rdkafka::error::RDKafkaErrorCode::QueueFull);
                if !full || Instant::now() > end {
                    not_sent = Some(error);
                    break 'messages;
                }
                pause.poll(producer);
                record = back;
            }
        }
        if let Some(error) = not_sent {
            return Err(self.why_not_sent(&sent, &error));
        }
        if index.is_multiple_of(1024) {
            producer.poll(Duration::ZERO);
        }
        self.sent.push(sent);
        Ok(())
    }

    /// Sends what is encoded to the cursor topic.
    fn send_own(&mut self, key: &[u8], sequence: u64) -> Result<(), SinkError> {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.has_key = true;
        let sent = Sent {
            topic: self.cursor_topic.as_str().into(),
            table: Arc::from(""),
            key_token: None,
            sequence,
            op: CURSOR_OP,
        };
        self.send(sent, 0, Load::Own)
    }

    /// Sorts one record's refusal.
    fn refused(&self, sent: &Sent, error: &KafkaError) -> SinkError {
        let kind = error.rdkafka_error_code().map_or(Refusal::Broker, refusal);
        if kind == Refusal::Broker {
            return self.broker_error("write", error);
        }
        if sent.table.is_empty() {
            return SinkError::new(ErrorKind::Invalid, "write", error.to_string())
                .at(format!("{} on topic {}", sent.op, sent.topic));
        }
        SinkError::rejected(Rejection {
            table: sent.table.to_string(),
            key_token: sent.key_token.filter(|_| kind == Refusal::Record),
            sequence: sent.sequence,
            target: format!("topic {}", sent.topic),
            key_columns: self.key_names.get(&sent.table).cloned().unwrap_or_default(),
            reason: error.to_string(),
        })
    }

    /// Waits until everything sent is acknowledged.
    ///
    /// `flush` and `commit_transaction` of the library wait in steps of 100 ms while a message is in
    /// flight; polling here keeps a commit at a few milliseconds.
    fn drain(&mut self) -> Result<(), SinkError> {
        let producer = self.producer()?;
        let end = Instant::now() + self.timeout();
        let mut pause = Pause::default();
        while producer.in_flight_count() > 0 {
            pause.poll(producer);
            // After a refusal the library holds back what is left until it times out.
            if self
                .context
                .failed
                .lock()
                .is_ok_and(|failed| !failed.is_empty())
            {
                producer.poll(Duration::from_millis(50));
                break;
            }
            if Instant::now() > end {
                let timeout = KafkaError::MessageProduction(
                    rdkafka::error::RDKafkaErrorCode::MessageTimedOut,
                );
                return Err(self.broker_error("flush", &timeout));
            }
        }
        self.judge_failed()
    }

    /// What came back of records that were not delivered.
    fn judge_failed(&mut self) -> Result<(), SinkError> {
        let failed = match self.context.failed.lock() {
            Ok(mut failed) => std::mem::take(&mut *failed),
            Err(_) => Vec::new(),
        };
        let refuses = |error: &KafkaError| {
            let code = error.rdkafka_error_code();
            code.is_some_and(|code| refusal(code) == Refusal::Record)
        };
        if self.one_by_one == OneByOne::No && failed.iter().any(|(_, error)| refuses(error)) {
            self.one_by_one = OneByOne::Wanted;
            let detail =
                "the broker refused a batch; its records go one by one, to see which it means";
            return Err(SinkError::new(ErrorKind::Unavailable, "write", detail));
        }
        // A refused record is told before the aborts that follow from it.
        let mut first = None;
        for (index, error) in &failed {
            let Some(sent) = self.sent.get(*index) else {
                continue;
            };
            let error = self.refused(sent, error);
            if error.rejection.is_some() {
                if let OneByOne::Yes { found } = &mut self.one_by_one {
                    *found = true;
                }
                return Err(error);
            }
            first.get_or_insert(error);
        }
        first.map_or(Ok(()), Err)
    }

    /// Why the producer took no further record: what happened to the ones before it, if that is known.
    fn why_not_sent(&mut self, sent: &Sent, error: &KafkaError) -> SinkError {
        if error.rdkafka_error_code() == Some(rdkafka::error::RDKafkaErrorCode::State)
            && let Some(producer) = &self.producer
        {
            producer.poll(Duration::from_millis(50));
            if let Err(cause) = self.judge_failed() {
                return cause;
            }
        }
        self.refused(sent, error)
    }

    fn forget_batch(&mut self) {
        self.sent.clear();
        self.sent.shrink_to(1 << 16);
        self.pending_bytes = 0;
        self.in_transaction = false;
        if let Ok(mut failed) = self.context.failed.lock() {
            failed.clear();
        }
    }
}

/// What the sink's own records are called.
const CURSOR_OP: &str = "cursor";

fn headers(sent: &Sent) -> OwnedHeaders {
    let mut digits = itoa::Buffer::new();
    let header = |key, value: &[u8]| -> OwnedHeaders {
        OwnedHeaders::new_with_capacity(3).insert(Header {
            key,
            value: Some(value),
        })
    };
    header("sequence", digits.format(sent.sequence).as_bytes())
        .insert(Header {
            key: "table",
            value: Some(sent.table.as_bytes()),
        })
        .insert(Header {
            key: "op",
            value: Some(sent.op.as_bytes()),
        })
}

/// Notes over how many partitions a topic's keys are spread; true when that is news.
///
/// Errors: text, when it was another number and the config does not allow that.
fn spread_over(
    spread: &mut BTreeMap<String, i32>,
    topic: &str,
    count: i32,
    config: &KafkaConfig,
) -> Result<bool, String> {
    match spread.get(topic).filter(|before| **before > 0) {
        Some(before) if *before == count => Ok(false),
        Some(before) if config.on_partition_change == OnPartitionChange::Park => Err(format!(
            "the topic has {count} partitions, but its keys were spread over {before}: they would \
             move, and lose their order. Let consumers read what is there, then set \
             on_partition_change: rehash, restart, and heal the table"
        )),
        _ => {
            spread.insert(topic.to_owned(), count);
            Ok(true)
        }
    }
}

/// Waits between looks at the producer, 0.1 ms at first, then up to 1 ms.
///
/// The library's own `poll` counts in whole milliseconds and spins through what is less.
#[derive(Default)]
struct Pause {
    length: Duration,
}

impl Pause {
    fn poll(&mut self, producer: &BaseProducer<Context>) {
        producer.poll(Duration::ZERO);
        self.length =
            (self.length * 3 / 2).clamp(Duration::from_micros(100), Duration::from_millis(1));
        std::thread::sleep(self.length);
    }
}

impl Sink for KafkaSink {
    fn open(&mut self) -> Result<Option<Cursor>, SinkError> {
        self.producer = None;
        self.routes.clear();
        self.topic_partitions.clear();
        self.encoder.reset();
        self.held = None;
        self.forget_batch();
        self.one_by_one = self.one_by_one.on_open();
        let producer = self.new_producer()?;
        // A broker that is away is told at once, not after the long wait for a coordinator. What the
        // connection itself says (a refused login) arrives by polling. All topics are asked for: a
        // broker may make one that is asked for by name.
        let asked = producer
            .client()
            .fetch_metadata(None, Duration::from_secs(5));
        let metadata = match asked {
            Ok(metadata) => metadata,
            Err(error) => {
                let mut pause = Pause::default();
                let end = Instant::now() + Duration::from_millis(200);
                while Instant::now() < end {
                    pause.poll(&producer);
                }
                return Err(self.broker_error("connect", &error));
            }
        };
        // From here on a connection that ends is told.
        self.context.lost.store(false, Ordering::SeqCst);
        self.fence_older_writers(&producer)?;
        let topics = metadata.topics().iter();
        self.known_topics = topics.map(|found| found.name().to_owned()).collect();
        let kept = if self.known_topics.contains(&self.cursor_topic) {
            self.say_if_not_compacted();
            if self.config.delivery == Delivery::Transactional {
                self.end_what_is_open(&producer, &metadata)?;
            }
            cursor::read(&self.config, &self.cursor_topic)?
        } else {
            client::create_cursor_topic(&self.config, &self.cursor_topic)
                .map_err(|error| self.broker_error("create cursor topic", &error))?;
            cursor::Kept::default()
        };
        self.producer = Some(producer);
        self.written = kept.partitions;
        self.written_age = WRITTEN_FLUSHES;
        Ok(kept.cursor)
    }

    fn write(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        match event {
            Event::Row(row) => self.row(row),
            Event::Ddl(change) => self.ddl(change),
            Event::Begin { .. } | Event::Commit { .. } => self.mark(event),
        }
    }

    fn looks_ahead(&self) -> bool {
        self.encoder.looks_ahead()
    }

    fn operations(&self, event: &Event<'_>) -> u64 {
        if let Event::Row(row) = event
            && splits_key_changes(&self.config, row.table)
            && let Some((gone, come)) = row.split_key_change()
        {
            return self.encoder.operations(&Event::Row(gone))
                + self.encoder.operations(&Event::Row(come));
        }
        self.encoder.operations(event)
    }

    fn transaction(&mut self, ahead: &Ahead) {
        self.encoder.transaction(ahead);
    }

    fn wants_marks(&self) -> bool {
        self.encoder.wants_marks()
    }

    fn heartbeat_period(&self) -> Option<Duration> {
        self.encoder.heartbeat_period()
    }

    /// To every partition, so that each consumer knows how far it has come.
    fn heartbeat(&mut self, beat: &Heartbeat<'_>) -> Result<(), SinkError> {
        let Some(topic) = self.topics.only() else {
            return Ok(());
        };
        self.messages.clear();
        self.encoder.heartbeat(beat, &mut self.messages);
        let count = self
            .partitions(&topic)
            .map_err(|error| self.broker_error("look up topic", &error))?;
        self.send_plain(0..count)
    }

    fn idle(&mut self) -> Result<(), SinkError> {
        if let Some(producer) = &self.producer {
            producer.poll(Duration::ZERO);
        }
        self.trust_the_broker()
    }

    fn held_from(&self) -> Option<u64> {
        self.encoder.held_from()
    }

    fn not_carried(&self) -> u64 {
        self.encoder.not_carried()
    }

    fn flush(&mut self, cursor: &Cursor) -> Result<(), SinkError> {
        // The cursor follows only what is acknowledged, also within a transaction: one that is aborted
        // for a refused record with a cursor in flight may stay undecided on the cursor's topic.
        self.drain()?;
        self.begin()?;
        self.written_age += 1;
        if self.written_age > WRITTEN_FLUSHES && !self.written.is_empty() {
            self.messages.clear();
            cursor::encode_partitions(&self.written, self.messages.buffer());
            self.messages.end();
            self.send_own(cursor::PARTITIONS_KEY, cursor.sequence)?;
            self.written_age = 0;
        }
        self.messages.clear();
        cursor.encode(self.messages.buffer());
        self.messages.end();
        self.pending_bytes = 0;
        self.send_own(cursor::KEY, cursor.sequence)?;
        self.drain()?;
        self.trust_the_broker()?;
        if self.in_transaction {
            self.producer()?
                .commit_transaction(self.timeout())
                .map_err(|error| self.broker_error("commit transaction", &error))?;
        }
        self.forget_batch();
        self.look_for_partitions();
        self.one_by_one = self.one_by_one.on_flush();
        if self.one_by_one == OneByOne::Done {
            self.send_in_batches_again();
        }
        Ok(())
    }

    fn abort(&mut self) -> Result<(), SinkError> {
        let Some(producer) = &self.producer else {
            return Ok(());
        };
        // The library's own abort waits until the application has taken back what is purged: that has to
        // happen before, on this thread.
        producer.purge(rdkafka::producer::PurgeConfig::default().queue().inflight());
        let end = Instant::now() + Duration::from_secs(5);
        let mut pause = Pause::default();
        while producer.in_flight_count() > 0 && Instant::now() < end {
            pause.poll(producer);
        }
        let aborted = match self.in_transaction {
            true => producer.abort_transaction(self.timeout()),
            false => Ok(()),
        };
        self.forget_batch();
        aborted.map_err(|error| self.broker_error("abort transaction", &error))
    }

    fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }
}
