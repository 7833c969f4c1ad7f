//! Kafka: topics, partitions, offsets, and what the brokers say about them.

use super::{Arrived, Fault, Greeting, Link, Standing, Words};
use crate::config::BrokersConfig;
use crate::error::invalid;
use crate::lag::{End, Seen};
use crate::partition::Partition;
use change::SourceError;
use change::contract::ErrorKind;
use kafka_client::{code_of, give_token, verdict};
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::{Statistics, config::ClientConfig};
use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Questions to the brokers wait at most this long.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Questions while messages flow wait at most this long.
const SHORT_CALL_TIMEOUT: Duration = Duration::from_secs(3);

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
pub(crate) struct KafkaLink {
    consumer: BaseConsumer<Context>,
    context: Context,
    /// `kafka host:port,…`.
    place: String,
    /// Which partition is which, by topic and number.
    by_topic: HashMap<String, Vec<Option<usize>>>,
}

fn broker_error(operation: &str, place: &str, error: &KafkaError) -> SourceError {
    use RDKafkaErrorCode as C;
    let (kind, hint) = verdict(error).unwrap_or_else(|| match code_of(error) {
        Some(C::TopicAuthorizationFailed) => {
            (ErrorKind::Invalid, "grant READ and DESCRIBE on the topic")
        }
        Some(C::GroupAuthorizationFailed) => (
            ErrorKind::Invalid,
            "grant READ on the group, or name an allowed one in kafka.group",
        ),
        _ => (
            ErrorKind::Unavailable,
            "are the brokers up, and is the address right?",
        ),
    });
    SourceError::new(kind, operation, error.to_string())
        .at(place)
        .hint(hint)
}

impl KafkaLink {
    /// A client that reads nothing yet.
    ///
    /// Errors: `Invalid`.
    pub fn new(config: &BrokersConfig) -> Result<Self, SourceError> {
        let connection = config.connection();
        let mut client: ClientConfig = connection
            .properties()
            .map_err(|refused| invalid(refused.detail, refused.hint))?;
        client.set("group.id", config.group.as_deref().unwrap_or("headwater"));
        client.set("enable.auto.commit", "false");
        client.set("enable.auto.offset.store", "false");
        client.set("isolation.level", "read_committed");
        client.set("auto.offset.reset", "error");
        client.set("enable.partition.eof", "true");
        client.set("statistics.interval.ms", "1000");
        if !config.properties.contains_key("fetch.queue.backoff.ms") {
            client.set("fetch.queue.backoff.ms", "20");
        }
        let context = Context {
            connection: kafka_client::Context::new(&config.security),
            seen: Arc::default(),
        };
        let consumer: BaseConsumer<Context> = client
            .create_with_context(context.clone())
            .map_err(|error| invalid(error.to_string(), "check security and properties"))?;
        give_token(consumer.client(), &config.security)
            .map_err(|refused| invalid(refused.detail, refused.hint))?;
        Ok(Self {
            consumer,
            context,
            place: connection.place(),
            by_topic: HashMap::new(),
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

    /// The numbers of a topic's partitions; none for a topic that is not there.
    fn numbers(&self, topic: &str) -> Result<Option<Vec<i32>>, SourceError> {
        let metadata = self
            .consumer
            .fetch_metadata(Some(topic), SHORT_CALL_TIMEOUT)
            .map_err(|error| self.failed(change::contract::CONNECT, &error))?;
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

    fn index(&self, topic: &str, number: i32) -> Option<usize> {
        let place = usize::try_from(number).ok()?;
        self.by_topic.get(topic)?.get(place).copied().flatten()
    }

    /// What an error between two messages says about going on.
    fn fault(&self, error: &KafkaError) -> Fault {
        use RDKafkaErrorCode as C;
        if matches!(error, KafkaError::PartitionEOF(_)) {
            return Fault::None;
        }
        let told = |error: &KafkaError| broker_error("read topics", &self.place, error);
        match code_of(error) {
            Some(C::PartitionEOF | C::GroupAuthorizationFailed) => Fault::None,
            Some(C::AutoOffsetReset | C::OffsetOutOfRange) => Fault::Offsets,
            Some(C::UnknownTopicOrPartition | C::UnknownTopic | C::UnknownPartition) => {
                Fault::Topic(told(error))
            }
            Some(C::TopicAuthorizationFailed) => Fault::Refused(told(error)),
            _ => {
                let trouble = self.context.connection.take_trouble();
                Fault::Away(told(trouble.as_ref().unwrap_or(error)), Instant::now())
            }
        }
    }
}

/// A partition's number.
fn number_of(part: &str) -> Result<i32, SourceError> {
    part.parse().map_err(|_| {
        let detail = format!("`{part}` is no number of a partition of Kafka");
        SourceError::new(ErrorKind::Lost, "go on with topics", detail)
            .hint("the journal was made from another kind of broker: start with a fresh one")
    })
}

impl Link for KafkaLink {
    fn place(&self) -> &str {
        &self.place
    }

    fn words(&self) -> Words {
        Words {
            parts: "partitions",
            retention: "retention.ms",
        }
    }

    fn greet(&mut self) -> Result<Greeting, SourceError> {
        let metadata = self.consumer.fetch_metadata(None, SHORT_CALL_TIMEOUT);
        let count = match metadata {
            Ok(metadata) => metadata.brokers().len(),
            Err(error) => return Err(self.failed(change::contract::CONNECT, &error)),
        };
        let cluster = self.consumer.client().fetch_cluster_id(SHORT_CALL_TIMEOUT);
        Ok(Greeting {
            identity: cluster.map(|id| format!("kafka {id}")),
            server: format!("kafka, {count} broker{}", if count == 1 { "" } else { "s" }),
            found: format!("{count} broker(s)"),
        })
    }

    fn parts(&self, topic: &str) -> Result<Option<Vec<String>>, SourceError> {
        let numbers = self.numbers(topic)?;
        Ok(numbers.map(|numbers| numbers.iter().map(i32::to_string).collect()))
    }

    fn has_topic(&self, topic: &str) -> Result<bool, SourceError> {
        self.numbers(topic).map(|numbers| numbers.is_some())
    }

    fn ends(&self, topic: &str, part: &str) -> Result<(i64, i64), SourceError> {
        self.consumer
            .fetch_watermarks(topic, number_of(part)?, CALL_TIMEOUT)
            .map_err(|error| self.failed("ask for offsets", &error))
    }

    fn may_be_away(&self, _: &str, _: &[String]) -> bool {
        false
    }

    fn read(&mut self, partitions: &[Partition], first: usize) -> Result<(), SourceError> {
        let failed = |error: KafkaError| broker_error("read topics", &self.place, &error);
        let mut list = TopicPartitionList::new();
        for (index, partition) in partitions.iter().enumerate().skip(first) {
            let number = number_of(&partition.part)?;
            list.add_partition_offset(&partition.topic, number, Offset::Offset(partition.from()))
                .map_err(failed)?;
            let numbers = self.by_topic.entry(partition.topic.clone()).or_default();
            let place = usize::try_from(number).unwrap_or(0);
            numbers.resize(numbers.len().max(place + 1), None);
            numbers[place] = Some(index);
        }
        match first {
            0 => self.consumer.assign(&list).map_err(failed),
            _ => self.consumer.incremental_assign(&list).map_err(failed),
        }
    }

    fn poll(&mut self, wait: Duration) -> Option<Result<Arrived<'_>, Fault>> {
        Some(match self.consumer.poll(wait)? {
            Err(error) => Err(self.fault(&error)),
            Ok(message) => match self.index(message.topic(), message.partition()) {
                Some(index) => Ok(Arrived::Kafka(index, message)),
                None => Err(Fault::None),
            },
        })
    }

    fn standing(&self, partitions: &[Partition]) -> Standing {
        let seen = self.context.seen.lock();
        let seen = seen.unwrap_or_else(PoisonError::into_inner);
        let end = |p: &Partition| -> Option<End> {
            let number = p.part.parse().ok()?;
            seen.ends.get(&(p.topic.clone(), number)).copied()
        };
        Standing {
            ends: partitions.iter().map(end).collect(),
            connected: seen.at.filter(|_| seen.is_connected),
            is_drained: seen.is_drained,
        }
    }
}
