//! Connections: properties, callbacks, topics.

use crate::config::{CreateTopics, Delivery, KafkaConfig, Mechanism, Protocol};
use crate::error::{broker_error, invalid};
use change::SinkError;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Metadata and admin calls wait at most this long.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What librdkafka tells between calls.
#[derive(Clone, Default)]
pub(crate) struct Context {
    /// Records that were not delivered: index in the batch, and why.
    pub failed: Arc<Mutex<Vec<(usize, KafkaError)>>>,
    /// The last trouble of the connection, for the error of a call that timed out.
    pub trouble: Arc<Mutex<Option<KafkaError>>>,
    token_file: Option<PathBuf>,
    token_principal: String,
    token_lifetime: Duration,
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => tracing::warn!(target: "kafka", facility, "{message}"),
            _ => tracing::debug!(target: "kafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "kafka", "{error}: {reason}");
        // "All brokers are down" follows a refused login: the first says more.
        let telling = |error: &KafkaError| {
            matches!(
                error.rdkafka_error_code(),
                Some(
                    RDKafkaErrorCode::Authentication
                        | RDKafkaErrorCode::SaslAuthenticationFailed
                        | RDKafkaErrorCode::SSL
                )
            )
        };
        if let Ok(mut trouble) = self.trouble.lock()
            && !trouble.as_ref().is_some_and(telling)
        {
            *trouble = Some(error);
        }
    }

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let Some(path) = &self.token_file else {
            return Err("security.token_file is not set".into());
        };
        let token = std::fs::read_to_string(path)
            .map_err(|error| format!("read token file {}: {error}", path.display()))?;
        let end = SystemTime::now().duration_since(UNIX_EPOCH)? + self.token_lifetime;
        Ok(OAuthToken {
            token: token.trim().to_owned(),
            principal_name: self.token_principal.clone(),
            lifetime_ms: i64::try_from(end.as_millis())?,
        })
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
const OWN: [&str; 12] = [
    "bootstrap.servers",
    "transactional.id",
    "enable.idempotence",
    "acks",
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "isolation.level",
    "group.id",
    "enable.auto.commit",
];

pub(crate) fn context(config: &KafkaConfig) -> Context {
    let security = &config.security;
    Context {
        token_file: security.token_file.clone(),
        token_principal: security
            .token_principal
            .clone()
            .unwrap_or_else(|| "headwater".into()),
        token_lifetime: Duration::from_secs(u64::from(security.token_lifetime_s.unwrap_or(300))),
        ..Context::default()
    }
}

/// Properties of every connection.
pub(crate) fn base(config: &KafkaConfig) -> Result<ClientConfig, SinkError> {
    if config.brokers.is_empty() {
        return Err(invalid("brokers is empty", "name at least one host:port"));
    }
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", config.brokers.join(","));
    client.set("client.id", "headwater");
    client.set("socket.nagle.disable", "true");
    client.set("reconnect.backoff.max.ms", "2000");
    security(config, &mut client)?;
    for (name, value) in &config.properties {
        if OWN.contains(&name.as_str()) {
            return Err(invalid(
                format!("properties may not set `{name}`"),
                "the sink has a key of its own for it",
            ));
        }
        client.set(name, value);
    }
    Ok(client)
}

fn security(config: &KafkaConfig, client: &mut ClientConfig) -> Result<(), SinkError> {
    let security = &config.security;
    let (protocol, sasl) = match security.protocol {
        Protocol::Plaintext => ("plaintext", false),
        Protocol::Ssl => ("ssl", false),
        Protocol::SaslPlaintext => ("sasl_plaintext", true),
        Protocol::SaslSsl => ("sasl_ssl", true),
    };
    client.set("security.protocol", protocol);
    let files = [
        ("ssl.ca.location", &security.ca),
        ("ssl.certificate.location", &security.certificate),
        ("ssl.key.location", &security.key),
    ];
    for (name, file) in files {
        if let Some(file) = file {
            client.set(name, file.display().to_string());
        }
    }
    if let Some(password) = &security.key_password {
        client.set("ssl.key.password", password);
    }
    if security.verify_hostname == Some(false) {
        client.set("ssl.endpoint.identification.algorithm", "none");
    }
    if !sasl {
        return Ok(());
    }
    let mechanism = match security.mechanism {
        Some(Mechanism::Plain) => "PLAIN",
        Some(Mechanism::ScramSha256) => "SCRAM-SHA-256",
        Some(Mechanism::ScramSha512) => "SCRAM-SHA-512",
        Some(Mechanism::OauthBearer) => "OAUTHBEARER",
        None => {
            return Err(invalid(
                "security.mechanism is missing",
                "name it for a sasl_ protocol",
            ));
        }
    };
    client.set("sasl.mechanism", mechanism);
    if security.mechanism == Some(Mechanism::OauthBearer) {
        return match security.token_file {
            Some(_) => Ok(()),
            None => Err(invalid(
                "security.token_file is missing",
                "OAUTHBEARER reads its token there",
            )),
        };
    }
    let (Some(user), Some(password)) = (&security.username, &security.password) else {
        return Err(invalid("security.username or password is missing", ""));
    };
    client.set("sasl.username", user);
    client.set("sasl.password", password);
    Ok(())
}

/// Properties of the producer.
pub(crate) fn producer(
    config: &KafkaConfig,
    transactional_id: &str,
    context: Context,
) -> Result<BaseProducer<Context>, SinkError> {
    let mut client = base(config)?;
    let timeout_ms = (u64::from(config.timeout_s) * 1000).to_string();
    client.set("enable.idempotence", "true");
    client.set("acks", "all");
    client.set("compression.type", config.compression.as_str());
    client.set("message.max.bytes", config.message_bytes_max.to_string());
    client.set("batch.size", "1000000");
    client.set("queue.buffering.max.kbytes", config.queue_kib.to_string());
    client.set("queue.buffering.max.messages", "0");
    match config.delivery {
        Delivery::Transactional => {
            client.set("transactional.id", transactional_id);
            client.set("transaction.timeout.ms", &timeout_ms);
            client.set("linger.ms", "0.5");
        }
        Delivery::Idempotent => {
            client.set("message.timeout.ms", &timeout_ms);
            client.set("linger.ms", "5");
        }
    }
    client
        .create_with_context(context)
        .map_err(|error| invalid(error.to_string(), "check security and properties"))
}

/// How many partitions a topic has; makes it first where that is asked for.
///
/// Errors: as [`KafkaError`]; `UnknownTopicOrPartition` when it is missing and not made.
pub(crate) fn partition_count(
    producer: &BaseProducer<Context>,
    config: &KafkaConfig,
    topic: &str,
) -> Result<i32, KafkaError> {
    if let Some(wanted) = &config.create_topics {
        let missing = !matches!(count(producer, topic), Ok(n) if n > 0);
        if missing {
            let settings: Vec<(&str, &str)> = wanted
                .config
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect();
            create(config, topic, wanted, &settings)?;
        }
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
    let client = base(config).map_err(|error| {
        KafkaError::AdminOp({
            tracing::warn!("{error}");
            RDKafkaErrorCode::InvalidConfig
        })
    })?;
    let admin: AdminClient<Context> = client.create_with_context(context(config))?;
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

/// Makes the compacted cursor topic if it is missing.
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

pub(crate) fn check(config: &KafkaConfig, topics: &[String]) -> Result<Vec<String>, SinkError> {
    let context = context(config);
    let mut client = base(config)?;
    client.set("socket.connection.setup.timeout.ms", "5000");
    let producer: BaseProducer<Context> = client
        .create_with_context(context.clone())
        .map_err(|error| invalid(error.to_string(), "check security and properties"))?;
    let metadata = match producer.client().fetch_metadata(None, CALL_TIMEOUT) {
        Ok(metadata) => metadata,
        Err(error) => {
            let trouble = context
                .trouble
                .lock()
                .ok()
                .and_then(|mut trouble| trouble.take());
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
