//! The sink itself.

use crate::client::{self, Context};
use crate::config::{Delivery, KafkaConfig, KeyConfig, PartitionBy};
use crate::cursor;
use crate::error::{Refusal, broker_error, invalid, refusal};
use crate::partition::partition_of;
use crate::template::Template;
use change::contract::{ErrorKind, Rejection};
use change::event::DdlChange;
use change::{Cursor, Event, Operation, RowChange, Sink, SinkError, TableSchema};
use format::{Encoder, Messages, key_text};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who writes: part of the transactional id and of the cursor topic's name.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The pipeline's name.
    pub pipeline: String,
    /// The sink's name.
    pub sink: String,
}

/// What is known of one table's topic; compiled once per schema version.
struct Route {
    topic: Arc<str>,
    partition_count: i32,
    table: Arc<str>,
    columns: Vec<usize>,
}

/// One record of the running batch, to name it if it is refused.
struct Sent {
    topic: Arc<str>,
    table: Arc<str>,
    key_token: u64,
    sequence: u64,
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
    topic: Template,
    ddl_topic: Option<Template>,
    encoder: Box<dyn Encoder>,
    producer: Option<BaseProducer<Context>>,
    context: Context,
    routes: HashMap<(u32, u32), Route>,
    topic_partitions: HashMap<String, i32>,
    key_names: HashMap<Arc<str>, Vec<String>>,
    messages: Messages,
    key: Vec<u8>,
    sent: Vec<Sent>,
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
            .encoder(&config.format_options)
            .map_err(|what| invalid(what, ""))?;
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
            topic: Template::parse(&config.topic)?,
            ddl_topic: config
                .ddl_topic
                .as_deref()
                .map(Template::parse)
                .transpose()?,
            context: client::context(&config),
            config,
            transactional_id,
            cursor_topic,
            encoder,
            producer: None,
            routes: HashMap::new(),
            topic_partitions: HashMap::new(),
            key_names: HashMap::new(),
            messages: Messages::default(),
            key: Vec::new(),
            sent: Vec::new(),
            in_transaction: false,
            pending_bytes: 0,
        })
    }
}

impl KafkaSink {
    fn broker_error(&self, operation: &str, error: &KafkaError) -> SinkError {
        // A call that timed out says little; the connection's own trouble says why.
        let trouble = self
            .context
            .trouble
            .lock()
            .ok()
            .and_then(|mut trouble| trouble.take());
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
        let count = client::partition_count(producer, &self.config, topic)?;
        self.topic_partitions.insert(topic.to_owned(), count);
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
            rejected(Rejection {
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
        let topic = self.topic.render(&table.database, &table.name);
        let name = format!("{}.{}", table.database, table.name);
        let partition_count = self.partitions_or_park(&topic, &name, sequence)?;
        let mut columns = Vec::new();
        if let PartitionBy::Columns(wanted) = &self.config.partition_by {
            for column in wanted {
                match table
                    .columns
                    .iter()
                    .position(|c| c.name.eq_ignore_ascii_case(column))
                {
                    Some(index) => columns.push(index),
                    None => {
                        return Err(rejected(Rejection {
                            table: name,
                            key_token: None,
                            sequence,
                            target: format!("topic {topic}"),
                            key_columns: Vec::new(),
                            reason: format!(
                                "partition_by names the column {column}, which it lacks"
                            ),
                        }));
                    }
                }
            }
        }
        let key_names = table
            .key()
            .iter()
            .filter_map(|i| table.columns.get(*i as usize));
        let table_name: Arc<str> = name.into();
        self.key_names.insert(
            Arc::clone(&table_name),
            key_names.map(|column| column.name.clone()).collect(),
        );
        self.routes.insert(
            id,
            Route {
                topic: topic.into(),
                partition_count,
                table: table_name,
                columns,
            },
        );
        Ok(id)
    }

    fn row(&mut self, row: &RowChange<'_>) -> Result<(), SinkError> {
        let id = self.route(row.table, row.sequence)?;
        let by_key = self.config.partition_by == PartitionBy::PrimaryKey;
        match (row.old_key_token, row.before) {
            // Each key's part goes to its own key's partition, so that each keeps its order.
            (Some(old_token), Some(_)) if by_key => {
                let gone = RowChange {
                    operation: Operation::Delete,
                    after: None,
                    key_token: old_token,
                    old_key_token: None,
                    sequence: row.sequence - 1,
                    ..*row
                };
                let come = RowChange {
                    operation: Operation::Insert,
                    before: None,
                    old_key_token: None,
                    ..*row
                };
                self.send_row(&gone, id)?;
                self.send_row(&come, id)
            }
            _ => self.send_row(row, id),
        }
    }

    fn send_row(&mut self, row: &RowChange<'_>, id: (u32, u32)) -> Result<(), SinkError> {
        self.messages.clear();
        self.encoder
            .encode(&Event::Row(*row), &mut self.messages)
            .map_err(|error| SinkError::new(ErrorKind::Unsupported, "encode", error.to_string()))?;
        let image = match row.operation {
            Operation::Delete => row.before,
            _ => row.after,
        };
        self.key.clear();
        let route = &self.routes[&id];
        let partition = match (&self.config.partition_by, &image) {
            (PartitionBy::First, _) | (_, None) => 0,
            (PartitionBy::Table, _) => partition_of(route.table.as_bytes(), route.partition_count),
            (PartitionBy::Columns(_), Some(image)) => {
                key_text::put_columns(&mut self.key, &route.columns, image);
                partition_of(&self.key, route.partition_count)
            }
            (PartitionBy::PrimaryKey, Some(image)) => {
                key_text::put_key(&mut self.key, row.table, image);
                partition_of(&self.key, route.partition_count)
            }
        };
        self.key.clear();
        if let (KeyConfig::PrimaryKey, Some(image)) = (self.config.key, &image) {
            key_text::put_key(&mut self.key, row.table, image);
        }
        let sent = Sent {
            topic: Arc::clone(&route.topic),
            table: Arc::clone(&route.table),
            key_token: row.key_token,
            sequence: row.sequence,
        };
        self.send(sent, partition)
    }

    fn ddl(&mut self, change: &DdlChange<'_>) -> Result<(), SinkError> {
        self.messages.clear();
        self.encoder
            .encode(&Event::Ddl(*change), &mut self.messages)
            .map_err(|error| SinkError::new(ErrorKind::Unsupported, "encode", error.to_string()))?;
        self.routes.clear();
        if self.messages.is_empty() {
            return Ok(());
        }
        if change.ddl.table.is_empty() && self.ddl_topic.is_none() {
            // No table's topic is its own: CREATE DATABASE and the like need a ddl_topic.
            tracing::debug!("a statement without a table is not sent: ddl_topic is not set");
            return Ok(());
        }
        let template = self.ddl_topic.as_ref().unwrap_or(&self.topic);
        let topic = template.render(change.ddl.database, change.ddl.table);
        let table = format!("{}.{}", change.ddl.database, change.ddl.table);
        self.partitions_or_park(&topic, &table, change.sequence)?;
        self.key.clear();
        let sent = Sent {
            topic: topic.into(),
            table: table.into(),
            key_token: 0,
            sequence: change.sequence,
        };
        self.send(sent, 0)
    }

    /// Hands the encoded messages to the producer, waiting while its queue is full.
    fn send(&mut self, sent: Sent, partition: i32) -> Result<(), SinkError> {
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
        for message in self.messages.iter() {
            self.pending_bytes += message.len();
            let mut record: BaseRecord<'_, [u8], [u8], usize> =
                BaseRecord::with_opaque_to(&sent.topic, index)
                    .payload(message)
                    .partition(partition);
            if !self.key.is_empty() {
                record = record.key(&self.key);
            }
            let mut pause = Pause::default();
            while let Err((error, back)) = producer.send(record) {
                let full =
                    error.rdkafka_error_code() == Some(rdkafka::error::RDKafkaErrorCode::QueueFull);
                if !full || Instant::now() > end {
                    return Err(self.refused(&sent, &error));
                }
                pause.poll(producer);
                record = back;
            }
        }
        if index.is_multiple_of(1024) {
            producer.poll(Duration::ZERO);
        }
        self.sent.push(sent);
        Ok(())
    }

    /// Sorts one record's refusal.
    fn refused(&self, sent: &Sent, error: &KafkaError) -> SinkError {
        let kind = error.rdkafka_error_code().map_or(Refusal::Broker, refusal);
        if kind == Refusal::Broker {
            return self.broker_error("write", error);
        }
        rejected(Rejection {
            table: sent.table.to_string(),
            key_token: (kind == Refusal::Record).then_some(sent.key_token),
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
            if Instant::now() > end {
                let timeout = KafkaError::MessageProduction(
                    rdkafka::error::RDKafkaErrorCode::MessageTimedOut,
                );
                return Err(self.broker_error("flush", &timeout));
            }
        }
        let failed = match self.context.failed.lock() {
            Ok(mut failed) => std::mem::take(&mut *failed),
            Err(_) => Vec::new(),
        };
        // A refused record is told before the aborts that follow from it.
        let sorted = failed
            .iter()
            .map(|(index, error)| (self.sent.get(*index), error));
        let mut first = None;
        for (sent, error) in sorted {
            let Some(sent) = sent else { continue };
            let error = self.refused(sent, error);
            if error.rejection.is_some() {
                return Err(error);
            }
            first.get_or_insert(error);
        }
        first.map_or(Ok(()), Err)
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

fn rejected(rejection: Rejection) -> SinkError {
    let keys = match rejection.key_columns.is_empty() {
        true => String::new(),
        false => format!(", key ({})", rejection.key_columns.join(", ")),
    };
    let place = format!("{} of table {}{keys}", rejection.target, rejection.table);
    SinkError {
        rejection: Some(Box::new(rejection.clone())),
        ..SinkError::new(ErrorKind::Invalid, "write", rejection.reason).at(place)
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
        self.forget_batch();
        let producer =
            client::producer(&self.config, &self.transactional_id, self.context.clone())?;
        // A broker that is away is told at once, not after the long wait for a coordinator. What the
        // connection itself says (a refused login) arrives by polling.
        let asked = producer
            .client()
            .fetch_metadata(Some(&self.cursor_topic), Duration::from_secs(5));
        if let Err(error) = asked {
            let mut pause = Pause::default();
            let end = Instant::now() + Duration::from_millis(200);
            while Instant::now() < end {
                pause.poll(&producer);
            }
            return Err(self.broker_error("connect", &error));
        }
        if self.config.delivery == Delivery::Transactional {
            producer
                .init_transactions(Duration::from_secs(15))
                .map_err(|error| self.broker_error("fence older writers", &error))?;
        }
        client::create_cursor_topic(&self.config, &self.cursor_topic)
            .map_err(|error| self.broker_error("create cursor topic", &error))?;
        let cursor = cursor::read(&self.config, &self.cursor_topic)?;
        self.producer = Some(producer);
        Ok(cursor)
    }

    fn write(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        match event {
            Event::Row(row) => self.row(row),
            Event::Ddl(change) => self.ddl(change),
            _ => Ok(()),
        }
    }

    fn flush(&mut self, cursor: &Cursor) -> Result<(), SinkError> {
        // Within a transaction the cursor stands or falls with the rows; without one it may only follow
        // what is acknowledged.
        if self.config.delivery == Delivery::Idempotent {
            self.drain()?;
        }
        self.begin()?;
        self.messages.clear();
        cursor.encode(self.messages.buffer());
        self.messages.end();
        self.key.clear();
        self.key.extend_from_slice(cursor::KEY);
        let sent = Sent {
            topic: self.cursor_topic.as_str().into(),
            table: "headwater's cursor".into(),
            key_token: 0,
            sequence: cursor.sequence,
        };
        self.pending_bytes = 0;
        self.send(sent, 0)?;
        self.drain()?;
        if self.in_transaction {
            self.producer()?
                .commit_transaction(self.timeout())
                .map_err(|error| self.broker_error("commit transaction", &error))?;
        }
        self.forget_batch();
        Ok(())
    }

    fn abort(&mut self) -> Result<(), SinkError> {
        let Some(producer) = &self.producer else {
            return Ok(());
        };
        producer.purge(rdkafka::producer::PurgeConfig::default().queue().inflight());
        let aborted = match self.in_transaction {
            true => producer.abort_transaction(self.timeout()),
            false => Ok(()),
        };
        let end = Instant::now() + Duration::from_secs(5);
        let mut pause = Pause::default();
        while producer.in_flight_count() > 0 && Instant::now() < end {
            pause.poll(producer);
        }
        self.forget_batch();
        aborted.map_err(|error| self.broker_error("abort transaction", &error))
    }

    fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }
}
