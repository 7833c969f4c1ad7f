//! Connections: properties, callbacks, topics.

use crate::config::{CreateTopics, Delivery, KafkaConfig};
use crate::error::{broker_error, invalid};
use change::SinkError;
use kafka_client::{Connection, give_token};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::{Client, ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Metadata and admin calls wait at most this long.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What librdkafka tells between calls.
#[derive(Clone, Default)]
pub(crate) struct Context {
    /// Records that were not delivered: index in the batch, and why.
    pub failed: Arc<Mutex<Vec<(usize, KafkaError)>>>,
    /// Whether a broker's connection has ended since this was last cleared.
    pub lost: Arc<AtomicBool>,
    /// The connection's own part.
    pub connection: kafka_client::Context,
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = kafka_client::Context::ENABLE_REFRESH_OAUTH_TOKEN;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.connection.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if matches!(
            error.rdkafka_error_code(),
            Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown)
        ) {
            self.lost.store(true, Ordering::SeqCst);
        }
        self.connection.error(error, reason);
    }

    fn generate_oauth_token(&self, config: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.connection.generate_oauth_token(config)
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        if let Err((error, _)) = result
            && let Ok(mut failed) = self.failed.lock()
        {
            failed.push((index, error.clone()));
        }
    }
}

impl ConsumerContext for Context {}

/// Properties that the sink sets itself.
const OWNED: [&str; 5] = [
    "transactional.id",
    "enable.idempotence",
    "acks",
    "isolation.level",
    "group.id",
];

pub(crate) fn context(config: &KafkaConfig) -> Context {
    Context {
        failed: Arc::default(),
        lost: Arc::default(),
        connection: kafka_client::Context::new(&config.security),
    }
}

/// Properties of every connection.
pub(crate) fn base(config: &KafkaConfig) -> Result<ClientConfig, SinkError> {
    let connection = Connection {
        brokers: &config.brokers,
        security: &config.security,
        properties: &config.properties,
        owner: "sink",
        owned: &OWNED,
    };
    connection
        .properties()
        .map_err(|refused| invalid(refused.detail, refused.hint))
}

/// Gives a client that was just made what it needs before its first question.
pub(crate) fn ready(client: &Client<Context>, config: &KafkaConfig) -> Result<(), SinkError> {
    give_token(client, &config.security).map_err(|refused| invalid(refused.detail, refused.hint))
}

/// Makes a producer.
fn made(
    client: &ClientConfig,
    config: &KafkaConfig,
    context: Context,
) -> Result<BaseProducer<Context>, SinkError> {
    let producer: BaseProducer<Context> = client
        .create_with_context(context)
        .map_err(|error| invalid(error.to_string(), "check security and properties"))?;
    ready(producer.client(), config)?;
    Ok(producer)
}

/// Properties of the producer. With `one_by_one`, every record is a batch of its own.
pub(crate) fn producer(
    config: &KafkaConfig,
    transactional_id: &str,
    context: Context,
    one_by_one: bool,
) -> Result<BaseProducer<Context>, SinkError> {
    let mut client = base(config)?;
    let timeout_ms = (u64::from(config.timeout_s) * 1000).to_string();
    let is_transactional = config.delivery == Delivery::Transactional;
    // What the config's own properties may set otherwise.
    let linger = if is_transactional { "0.5" } else { "5" };
    for (name, value) in [
        ("batch.size", "1000000"),
        ("queue.buffering.max.messages", "0"),
        ("linger.ms", linger),
    ] {
        if client.get(name).is_none() {
            client.set(name, value);
        }
    }
    client.set("enable.idempotence", "true");
    client.set("acks", "all");
    client.set("compression.type", config.compression.as_str());
    client.set("message.max.bytes", config.message_bytes_max.to_string());
    client.set("queue.buffering.max.kbytes", config.queue_kib.to_string());
    if one_by_one {
        client.set("batch.num.messages", "1");
    }
    if is_transactional {
        client.set("transactional.id", transactional_id);
        client.set("transaction.timeout.ms", &timeout_ms);
    } else {
        client.set("message.timeout.ms", &timeout_ms);
    }
    made(&client, config, context)
}

/// How many partitions a topic has; makes it first where that is asked for and `is_known` does not say
/// that it is there.
///
/// Errors: as [`KafkaError`]; `UnknownTopicOrPartition` when it is missing and not made.
pub(crate) fn partition_count(
    producer: &BaseProducer<Context>,
    config: &KafkaConfig,
    topic: &str,
    is_known: bool,
) -> Result<i32, KafkaError> {
    if let Some(wanted) = &config.create_topics
        && !is_known
        && !exists(producer, topic)?
    {
        let settings: Vec<(&str, &str)> = wanted
            .config
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        create(config, topic, wanted, &settings)?;
    }
    // The broker may make the topic on the first metadata request: it answers "leader not available"
    // for a moment.
    let mut last = KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition);
    for attempt in 0..20 {
        match count(producer, topic) {
            Ok(found) if found > 0 => return Ok(found),
            Ok(_) => {}
            Err(error) => last = error,
        }
        let code = last.rdkafka_error_code();
        if code == Some(RDKafkaErrorCode::UnknownTopicOrPartition) && attempt > 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(last)
}

/// Whether a topic is there. Asking for it by name would let the broker make it, in its own way.
fn exists(producer: &BaseProducer<Context>, topic: &str) -> Result<bool, KafkaError> {
    let all = producer.client().fetch_metadata(None, CALL_TIMEOUT)?;
    Ok(all.topics().iter().any(|found| found.name() == topic))
}

fn count(producer: &BaseProducer<Context>, topic: &str) -> Result<i32, KafkaError> {
    let metadata = producer
        .client()
        .fetch_metadata(Some(topic), CALL_TIMEOUT)?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Ok(0);
    };
    match found.error() {
        Some(code) => Err(KafkaError::MetadataFetch(code.into())),
        None => Ok(found.partitions().len() as i32),
    }
}

fn create(
    config: &KafkaConfig,
    topic: &str,
    wanted: &CreateTopics,
    settings: &[(&str, &str)],
) -> Result<(), KafkaError> {
    let invalid = |error: SinkError| {
        tracing::warn!("{error}");
        KafkaError::AdminOp(RDKafkaErrorCode::InvalidConfig)
    };
    let client = base(config).map_err(invalid)?;
    let admin: AdminClient<Context> = client.create_with_context(context(config))?;
    ready(admin.inner(), config).map_err(invalid)?;
    let replication = TopicReplication::Fixed(wanted.replication.unwrap_or(-1));
    let mut new = NewTopic::new(topic, wanted.partitions, replication);
    for (name, value) in settings {
        new = new.set(name, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(CALL_TIMEOUT));
    let results = pollster::block_on(admin.create_topics([&new], &options))?;
    for result in results {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(KafkaError::AdminOp(code)),
        }
    }
    Ok(())
}

/// Makes the compacted cursor topic, which is missing.
pub(crate) fn create_cursor_topic(config: &KafkaConfig, topic: &str) -> Result<(), KafkaError> {
    let replication = config
        .create_topics
        .as_ref()
        .and_then(|create| create.replication);
    let wanted = CreateTopics {
        partitions: 1,
        replication,
        config: std::collections::BTreeMap::new(),
    };
    create(config, topic, &wanted, &[("cleanup.policy", "compact")])
}

/// Whether a topic is compacted; none when the broker does not tell.
pub(crate) fn is_compacted(config: &KafkaConfig, topic: &str) -> Option<bool> {
    let admin: AdminClient<Context> = base(config)
        .ok()?
        .create_with_context(context(config))
        .ok()?;
    ready(admin.inner(), config).ok()?;
    let options = AdminOptions::new().request_timeout(Some(CALL_TIMEOUT));
    let resource = ResourceSpecifier::Topic(topic);
    let described = pollster::block_on(admin.describe_configs([&resource], &options)).ok()?;
    let resource = described.into_iter().next()?.ok()?;
    let policy = resource.get("cleanup.policy")?.value.clone()?;
    Some(policy.contains("compact"))
}

pub(crate) fn check(config: &KafkaConfig, topics: &[String]) -> Result<Vec<String>, SinkError> {
    let context = context(config);
    let mut client = base(config)?;
    client.set("socket.connection.setup.timeout.ms", "5000");
    let producer = made(&client, config, context.clone())?;
    let metadata = match producer.client().fetch_metadata(None, CALL_TIMEOUT) {
        Ok(metadata) => metadata,
        Err(error) => {
            let trouble = context.connection.take_trouble();
            return Err(broker_error(
                "connect",
                &config.brokers,
                &trouble.unwrap_or(error),
            ));
        }
    };
    let mut lines = vec![format!(
        "kafka at {}: {} broker(s)",
        config.brokers.join(","),
        metadata.brokers().len()
    )];
    for topic in topics {
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        lines.push(match found {
            Some(found) => format!(
                "topic {topic} exists, {} partitions",
                found.partitions().len()
            ),
            None if config.create_topics.is_some() => format!("topic {topic} will be made"),
            None => format!("topic {topic} does not exist yet: left to the broker's auto creation"),
        });
    }
    Ok(lines)
}
