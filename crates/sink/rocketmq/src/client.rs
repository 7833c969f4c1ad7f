//! The connection: the client's runtime, topics and queues, and `check`.

use crate::config::{RocketMqConfig, cluster_default};
use crate::error::{Refusal, broker_error, invalid, refusal, words};
use change::SinkError;
use change::contract::ErrorKind;
use cheetah_string::CheetahString;
#[expect(deprecated, reason = "see `Client::read`")]
use rocketmq_client_rust::DefaultMQPullConsumer;
use rocketmq_client_rust::{
    AclClientRPCHook, ClientConfig, ClientError, ClientOptions, ClientRuntime, ClientRuntimeConfig,
    DefaultMQProducer, PullStatus, SessionCredentials,
};
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::message::MessageQueue;
use rocketmq_observability::TelemetryRuntimeGuard;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A topic that was made a moment ago is known to the name server within this time.
const ROUTE_WAIT: Duration = Duration::from_secs(10);

/// How long the end of a connection may take.
const END_WAIT: Duration = Duration::from_secs(2);

/// What a look at a topic found.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its queues that may be written to, sorted by broker and number.
    Queues(Vec<MessageQueue>),
    /// The name server answers and does not know it.
    Missing,
}

/// One connection to name servers and brokers.
pub(crate) struct Client {
    owner: Option<RuntimeOwner>,
    runtime: Arc<ClientRuntime>,
    producer: DefaultMQProducer,
    settings: Settings,
}

/// What each part of the client is built with.
#[derive(Clone)]
struct Settings {
    options: ClientOptions,
    signer: Option<Arc<AclClientRPCHook>>,
    name_servers: String,
    group: CheetahString,
    place: String,
}

/// Errors: `Invalid` for settings that cannot be.
pub(crate) fn validate(config: &RocketMqConfig) -> Result<(), SinkError> {
    if config.name_servers.is_empty() {
        return Err(invalid(
            "name_servers is empty",
            "name at least one host:port",
        ));
    }
    if let Some(bad) = config.name_servers.iter().find(|s| !s.contains(':')) {
        return Err(invalid(
            format!("name server `{bad}` has no port"),
            "write host:port",
        ));
    }
    let ranges = [
        ("queue_kib", config.queue_kib, 64, 1 << 20),
        ("request_timeout_s", config.request_timeout_s, 1, 60),
        ("timeout_s", config.timeout_s, 1, 3600),
        (
            "message_bytes_max",
            config.message_bytes_max,
            1024,
            128 << 20,
        ),
        (
            "create_topics.queues",
            config.create_topics.as_ref().map_or(1, |c| c.queues),
            1,
            1024,
        ),
    ];
    for (key, value, least, most) in ranges {
        if !(least..=most).contains(&value) {
            return Err(invalid(
                format!("{key} is {value}"),
                &format!("{least} to {most}"),
            ));
        }
    }
    let security = &config.security;
    if security.access_key.is_some() != security.secret_key.is_some() {
        return Err(invalid(
            "security needs both access_key and secret_key, or neither",
            "",
        ));
    }
    if security.certificate.is_some() != security.key.is_some() {
        return Err(invalid(
            "security needs both certificate and key, or neither",
            "",
        ));
    }
    let files = [&security.ca, &security.certificate, &security.key];
    if !security.tls && files.iter().any(|file| file.is_some()) {
        return Err(invalid(
            "security names certificates without tls: true",
            "set security.tls: true",
        ));
    }
    for file in files.into_iter().flatten() {
        if let Err(error) = std::fs::File::open(file) {
            return Err(invalid(
                format!("read {}: {error}", file.display()),
                "check the paths under security",
            ));
        }
    }
    Ok(())
}

fn settings(config: &RocketMqConfig, group: &str) -> Settings {
    let name_servers = config.name_servers.join(";");
    let mut client = ClientConfig::new();
    client.set_namesrv_addr(CheetahString::from_slice(&name_servers));
    client.set_vip_channel_enabled(false);
    // A broker that comes back is found soon.
    client.set_poll_name_server_interval(10_000);
    client.set_heartbeat_broker_interval(10_000);
    client.set_mq_client_api_timeout(u64::from(config.request_timeout_s) * 1000);
    client.set_enable_trace(false);
    let security = &config.security;
    if security.tls {
        let path = |file: &Option<PathBuf>| file.as_ref().map(|f| f.display().to_string());
        client.set_use_tls(true);
        client.tls_config.client.trust_cert_path = path(&security.ca);
        client.tls_config.client.cert_path = path(&security.certificate);
        client.tls_config.client.key_path = path(&security.key);
        client
            .tls_config
            .client
            .key_password
            .clone_from(&security.key_password);
        client.tls_config.client.auth_server = security.verify_certificate.unwrap_or(true);
    }
    let signer = match (&security.access_key, &security.secret_key) {
        (Some(access), Some(secret)) => {
            let keys = match &security.security_token {
                Some(token) => {
                    SessionCredentials::with_token(access.clone(), secret.clone(), token.clone())
                }
                None => SessionCredentials::with_keys(access.clone(), secret.clone()),
            };
            Some(Arc::new(AclClientRPCHook::new(keys)))
        }
        _ => None,
    };
    Settings {
        options: ClientOptions::legacy(client),
        signer,
        name_servers,
        group: CheetahString::from_slice(group),
        place: format!("rocketmq {}", config.name_servers.join(",")),
    }
}

impl Client {
    /// Starts a client; it connects to a broker when it first needs one.
    pub fn connect(config: &RocketMqConfig, group: &str) -> Result<Self, SinkError> {
        let settings = settings(config, group);
        let failed = |what: String| {
            SinkError::new(ErrorKind::Internal, "start the rocketmq client", what)
                .at(settings.place.clone())
        };
        let plan = RuntimeOwner::plan(RuntimeConfig {
            worker_threads: 1,
            thread_name: "rocketmq".into(),
            shutdown_timeout: END_WAIT,
            ..RuntimeConfig::default()
        });
        let owner = plan
            .map_err(|error| failed(error.to_string()))?
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let telemetry = TelemetryRuntimeGuard::noop();
        let runtime = ClientRuntime::try_new(
            owner.root_context().component("headwater"),
            ClientRuntimeConfig {
                shutdown_timeout: END_WAIT,
                ..ClientRuntimeConfig::default()
            },
            telemetry.handle(),
        )
        .map_err(|error| failed(words(&error)))?;
        let mut producer = DefaultMQProducer::builder(Arc::clone(&runtime))
            .client_options(settings.options.clone())
            .producer_group(settings.group.clone())
            .send_msg_timeout(config.request_timeout_s * 1000)
            // A second try is ours: in order, and with a bound.
            .retry_times_when_send_failed(0)
            .retry_times_when_send_async_failed(0)
            .max_message_size(
                config
                    .message_bytes_max
                    .max(crate::lane::BATCH_BYTES as u32),
            )
            // Bodies go as they are, also large ones.
            .compress_msg_body_over_howmuch(i32::MAX as u32);
        if let Some(signer) = &settings.signer {
            producer = producer.rpc_hook(Arc::clone(signer) as _);
        }
        let mut client = Self {
            producer: producer.build(),
            owner: Some(owner),
            runtime,
            settings,
        };
        let mut producer = client.producer.clone();
        client
            .wait(async { producer.start().await })
            .map_err(|error| broker_error("connect", &client.settings.place, &error))?;
        client.producer = producer;
        Ok(client)
    }

    /// `rocketmq host:port`, for errors.
    pub fn place(&self) -> &str {
        &self.settings.place
    }

    /// The producer, to send with from the client's threads.
    pub fn producer(&self) -> DefaultMQProducer {
        self.producer.clone()
    }

    /// Runs something on the client's threads.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(owner) = &self.owner else { return };
        owner.block_on(async move {
            tokio::spawn(work);
        });
    }

    /// Waits for a call of the client.
    pub fn wait<F: Future>(&self, call: F) -> F::Output {
        let owner = self.owner.as_ref();
        owner
            .expect("the runtime lives as long as the client")
            .block_on(call)
    }

    /// The queues of a topic.
    ///
    /// Errors: passing faults; also a name server that knows no broker.
    pub fn look_up(&self, topic: &str) -> Result<Found, ClientError> {
        let mut producer = self.producer.clone();
        match self.wait(producer.fetch_publish_message_queues(topic)) {
            Ok(mut queues) => {
                queues.sort_by(|a, b| {
                    (a.broker_name(), a.queue_id()).cmp(&(b.broker_name(), b.queue_id()))
                });
                Ok(Found::Queues(queues))
            }
            Err(error) if is_without_route(&error) => Ok(Found::Missing),
            Err(error) => Err(error),
        }
    }

    /// Makes a topic on all brokers that have `key` (a cluster's or a broker's name), and waits until it
    /// is known.
    pub fn create(
        &self,
        key: &str,
        topic: &str,
        queue_count: u32,
        attributes: HashMap<String, String>,
    ) -> Result<Found, ClientError> {
        let mut producer = self.producer.clone();
        self.wait(producer.create_topic(key, topic, queue_count as i32, attributes))?;
        let end = Instant::now() + ROUTE_WAIT;
        loop {
            match self.look_up(topic)? {
                Found::Missing if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                found => return Ok(found),
            }
        }
    }

    /// The offsets of a queue's first message and of the place after its last.
    pub fn range(&self, queue: &MessageQueue) -> Result<(i64, i64), ClientError> {
        let mut producer = self.producer.clone();
        self.wait(async {
            // The way to the queue's broker is known after this, also in a new connection.
            producer
                .fetch_publish_message_queues(queue.topic_str())
                .await?;
            let first = producer.min_offset(queue).await?;
            Ok((first, producer.max_offset(queue).await?))
        })
    }

    #[expect(
        deprecated,
        reason = "the newer consumer keeps positions of its own; ours are the caller's"
    )]
    /// Reads messages of a queue from `offset` up to its end, at most `count`.
    pub fn read(
        &self,
        queue: &MessageQueue,
        offset: i64,
        count: i32,
    ) -> Result<Vec<MessageExt>, ClientError> {
        let mut builder = DefaultMQPullConsumer::builder(Arc::clone(&self.runtime))
            .client_options(self.settings.options.clone())
            .name_server_addr(self.settings.name_servers.clone())
            .consumer_group(self.settings.group.clone());
        if let Some(signer) = &self.settings.signer {
            builder = builder.rpc_hook(Arc::clone(signer) as _);
        }
        let consumer = builder.build()?;
        self.wait(async {
            consumer.start().await?;
            let read = read_range(&consumer, queue, offset, count).await;
            consumer.shutdown().await?;
            read
        })
    }
}

/// Whether a name server answered that it knows no queue. The client has no name for it; what a broken
/// connection gives has another code.
fn is_without_route(error: &ClientError) -> bool {
    let code = error.shared_error().code();
    refusal(error) == Refusal::Missing || code.as_str() == "core.argument.invalid"
}

#[expect(deprecated, reason = "see `Client::read`")]
async fn read_range(
    consumer: &DefaultMQPullConsumer,
    queue: &MessageQueue,
    mut offset: i64,
    count: i32,
) -> Result<Vec<MessageExt>, ClientError> {
    let mut found = Vec::new();
    while found.len() < count as usize {
        let pulled = consumer.pull(queue, "*", offset, count).await?;
        if *pulled.pull_status() != PullStatus::Found {
            break;
        }
        found.extend_from_slice(pulled.msg_found_list().unwrap_or_default());
        let next = pulled.next_begin_offset() as i64;
        if next <= offset {
            break;
        }
        offset = next;
    }
    Ok(found)
}

impl Drop for Client {
    fn drop(&mut self) {
        let Some(owner) = self.owner.take() else {
            return;
        };
        let mut producer = self.producer.clone();
        let runtime = Arc::clone(&self.runtime);
        let ended = owner.block_on(async move {
            tokio::time::timeout(END_WAIT, async {
                producer.shutdown().await;
                runtime.shutdown().await
            })
            .await
        });
        if ended.is_err() {
            tracing::debug!("the rocketmq client did not end in time");
        }
        owner.shutdown_background();
    }
}

/// See [`crate::check`].
pub(crate) fn check(config: &RocketMqConfig, topics: &[String]) -> Result<Vec<String>, SinkError> {
    validate(config)?;
    let client = Client::connect(config, "headwater-check")?;
    let failed = |error: &ClientError| broker_error("connect", client.place(), error);
    let cluster = config
        .create_topics
        .as_ref()
        .map_or_else(cluster_default, |create| create.cluster.clone());
    let mut lines = vec![match client.look_up(&cluster).map_err(|e| failed(&e))? {
        Found::Queues(queues) => {
            let mut brokers: Vec<_> = queues.iter().map(MessageQueue::broker_name).collect();
            brokers.dedup();
            format!(
                "rocketmq at {}: {} broker(s) in {cluster}",
                config.name_servers.join(","),
                brokers.len()
            )
        }
        Found::Missing if config.create_topics.is_some() => {
            return Err(SinkError::new(
                ErrorKind::Unavailable,
                "connect",
                format!("the name server knows no broker of the cluster {cluster}"),
            )
            .at(client.place())
            .hint("is a broker up, and is create_topics.cluster its brokerClusterName?"));
        }
        Found::Missing => format!(
            "rocketmq at {}: no cluster named {cluster}",
            config.name_servers.join(",")
        ),
    }];
    for topic in topics {
        lines.push(match client.look_up(topic).map_err(|e| failed(&e))? {
            Found::Queues(queues) => format!("topic {topic} exists, {} queues", queues.len()),
            Found::Missing if config.create_topics.is_some() => {
                format!("topic {topic} will be made")
            }
            Found::Missing => format!(
                "topic {topic} does not exist: its tables will be parked; make it, or set \
                 create_topics"
            ),
        });
    }
    Ok(lines)
}
