//! The connection: topics, partitions, offsets, and what the brokers say about them.

use crate::config::TopicConfig;
use crate::error::{broker_error, invalid};
use crate::lag::Seen;
use change::SourceError;
use change::contract::ErrorKind;
use kafka_client::Mechanism;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::{Statistics, config::ClientConfig};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Questions to the brokers wait at most this long.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Questions while messages flow wait at most this long.
const SHORT_CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// The wish for a token is there when the client is; this is more than it takes.
const TOKEN_WAIT: Duration = Duration::from_millis(100);

/// What the client tells between calls.
#[derive(Clone, Default)]
pub(crate) struct Context {
    connection: kafka_client::Context,
    seen: Arc<Mutex<Seen>>,
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = kafka_client::Context::ENABLE_REFRESH_OAUTH_TOKEN;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.connection.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.connection.error(error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.take(&statistics);
    }

    fn generate_oauth_token(&self, config: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.connection.generate_oauth_token(config)
    }
}

impl ConsumerContext for Context {}

/// See the module's page.
pub(crate) struct Link {
    consumer: BaseConsumer<Context>,
    context: Context,
    /// `kafka host:port,…`.
    pub place: String,
}

impl Link {
    /// A client that reads nothing yet.
    ///
    /// Errors: `Invalid`.
    pub fn new(config: &TopicConfig) -> Result<Self, SourceError> {
        let connection = config.kafka.connection();
        let mut client: ClientConfig = connection
            .properties()
            .map_err(|refused| invalid(refused.detail, refused.hint))?;
        client.set(
            "group.id",
            config.kafka.group.as_deref().unwrap_or("headwater"),
        );
        client.set("enable.auto.commit", "false");
        client.set("enable.auto.offset.store", "false");
        client.set("isolation.level", "read_committed");
        client.set("auto.offset.reset", "error");
        client.set("enable.partition.eof", "true");
        client.set("statistics.interval.ms", "1000");
        if !config
            .kafka
            .properties
            .contains_key("fetch.queue.backoff.ms")
        {
            client.set("fetch.queue.backoff.ms", "20");
        }
        let context = Context {
            connection: kafka_client::Context::new(&config.kafka.security),
            seen: Arc::default(),
        };
        let consumer: BaseConsumer<Context> = client
            .create_with_context(context.clone())
            .map_err(|error| invalid(error.to_string(), "check security and properties"))?;
        if config.kafka.security.mechanism == Some(Mechanism::OauthBearer) {
            // The client wants its first token before any question; the wish comes by polling.
            consumer.poll(TOKEN_WAIT);
        }
        Ok(Self {
            consumer,
            context,
            place: connection.place(),
        })
    }

    /// An error of a call, or the connection's own trouble, which says more than a time that is over.
    fn failed(&self, operation: &str, error: &KafkaError) -> SourceError {
        let plain = broker_error(operation, &self.place, error);
        if plain.kind != ErrorKind::Unavailable {
            return plain;
        }
        // What the connection says (a refused login) arrives by polling.
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {
            self.consumer.poll(Duration::from_millis(10));
        }
        match self.context.connection.take_trouble() {
            Some(trouble) => broker_error(operation, &self.place, &trouble),
            None => plain,
        }
    }

    /// How many brokers there are.
    ///
    /// Errors: `Unavailable`; `Invalid` for a refused login.
    pub fn broker_count(&self) -> Result<usize, SourceError> {
        let metadata = self.consumer.fetch_metadata(None, SHORT_CALL_TIMEOUT);
        match metadata {
            Ok(metadata) => Ok(metadata.brokers().len()),
            Err(error) => Err(self.failed("connect", &error)),
        }
    }

    /// The cluster's id, where the brokers tell it.
    pub fn cluster(&self) -> Option<String> {
        self.consumer.client().fetch_cluster_id(SHORT_CALL_TIMEOUT)
    }

    /// The numbers of a topic's partitions; none for a topic that is not there.
    pub fn partitions(&self, topic: &str) -> Result<Option<Vec<i32>>, SourceError> {
        let metadata = self
            .consumer
            .fetch_metadata(Some(topic), SHORT_CALL_TIMEOUT)
            .map_err(|error| self.failed("connect", &error))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let Some(found) = found else {
            return Ok(None);
        };
        let code = found.error().map(RDKafkaErrorCode::from);
        match code {
            None => {}
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                return Ok(None);
            }
            Some(code) => {
                let error = KafkaError::MetadataFetch(code);
                let place = format!("topic {topic}");
                return Err(broker_error("ask for the topic", &place, &error));
            }
        }
        let mut numbers: Vec<i32> = found.partitions().iter().map(|p| p.id()).collect();
        numbers.sort_unstable();
        Ok((!numbers.is_empty()).then_some(numbers))
    }

    /// A partition's first offset, and the one after its last message that may be read.
    pub fn ends(&self, topic: &str, partition: i32) -> Result<(i64, i64), SourceError> {
        self.consumer
            .fetch_watermarks(topic, partition, CALL_TIMEOUT)
            .map_err(|error| self.failed("ask for offsets", &error))
    }

    /// Reads these partitions too, each from its offset; all partitions anew where `is_new`.
    pub fn read<'a>(
        &self,
        partitions: impl Iterator<Item = (&'a str, i32, i64)>,
        is_new: bool,
    ) -> Result<(), SourceError> {
        let failed = |error: KafkaError| broker_error("read topics", &self.place, &error);
        let mut list = TopicPartitionList::new();
        for (topic, number, offset) in partitions {
            list.add_partition_offset(topic, number, Offset::Offset(offset))
                .map_err(failed)?;
        }
        match is_new {
            true => self.consumer.assign(&list).map_err(failed),
            false => self.consumer.incremental_assign(&list).map_err(failed),
        }
    }

    /// The next message or what is wrong; none when nothing came for `wait`.
    pub fn poll(&self, wait: Duration) -> Option<Result<BorrowedMessage<'_>, KafkaError>> {
        self.consumer.poll(wait)
    }

    /// The connection's own trouble.
    pub fn take_trouble(&self) -> Option<KafkaError> {
        self.context.connection.take_trouble()
    }

    /// What the client last told of the brokers.
    pub fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(
            &self
                .context
                .seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}
