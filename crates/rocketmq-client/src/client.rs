//! The connection: the client's runtime, topics and queues.

use crate::{Failed, Refusal, Refused, Security, failed, refusal, words};
use change::contract::ErrorKind;
use cheetah_string::CheetahString;
#[expect(deprecated, reason = "see `Client::consumer`")]
use rocketmq_client_rust::DefaultMQPullConsumer;
use rocketmq_client_rust::{
    AclClientRPCHook, ClientConfig, ClientError, ClientOptions, ClientRuntime, ClientRuntimeConfig,
    DefaultMQProducer, PullStatus,
};
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::message::MessageQueue;
use rocketmq_observability::TelemetryRuntimeGuard;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// A topic that was made a moment ago is known to the name server within this time.
const ROUTE_WAIT: Duration = Duration::from_secs(10);

/// How long the end of a connection may take.
const END_WAIT: Duration = Duration::from_secs(2);

/// What a look at a topic found.
#[derive(Debug)]
pub enum Found {
    /// Its queues that may be written to, sorted by broker and number.
    Queues(Vec<MessageQueue>),
    /// The name server answers and does not know it.
    Missing,
}

/// Where the name servers are and how they and the brokers are spoken to.
#[derive(Debug, Clone, Copy)]
pub struct Connection<'a> {
    /// Name servers, `host:port`.
    pub name_servers: &'a [String],
    /// Encryption and authentication.
    pub security: &'a Security,
    /// The group that is named to the brokers, of producers and of consumers.
    pub group: &'a str,
    /// How long one request may take, seconds, 1 to 60.
    pub request_timeout_s: u32,
    /// Largest message that is sent, bytes.
    pub message_bytes_max: u32,
}

/// One connection to name servers and brokers.
pub struct Client {
    owner: Option<RuntimeOwner>,
    runtime: Arc<ClientRuntime>,
    producer: DefaultMQProducer,
    settings: Settings,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("place", &self.settings.place)
            .finish_non_exhaustive()
    }
}

/// What each part of the client is built with.
struct Settings {
    options: ClientOptions,
    signer: Option<Arc<AclClientRPCHook>>,
    name_servers: String,
    group: CheetahString,
    place: String,
}

impl Connection<'_> {
    /// Checks what needs no broker.
    ///
    /// Errors: [`Refused`] for settings that cannot be.
    pub fn validate(&self) -> Result<(), Refused> {
        if self.name_servers.is_empty() {
            return Err(Refused::new(
                "name_servers is empty",
                "name at least one host:port",
            ));
        }
        if let Some(bad) = self.name_servers.iter().find(|s| !s.contains(':')) {
            return Err(Refused::new(
                format!("name server `{bad}` has no port"),
                "write host:port",
            ));
        }
        if !(1..=60).contains(&self.request_timeout_s) {
            return Err(Refused::new(
                format!("request_timeout_s is {}", self.request_timeout_s),
                "1 to 60",
            ));
        }
        self.security.validate()
    }

    fn settings(&self) -> Settings {
        let name_servers = self.name_servers.join(";");
        let mut client = ClientConfig::new();
        client.set_namesrv_addr(CheetahString::from_slice(&name_servers));
        client.set_vip_channel_enabled(false);
        // A broker that comes back is found soon.
        client.set_poll_name_server_interval(10_000);
        client.set_heartbeat_broker_interval(10_000);
        client.set_mq_client_api_timeout(u64::from(self.request_timeout_s) * 1000);
        client.set_enable_trace(false);
        // The client drops what it cannot inflate: we do it ourselves, see `inflate.rs`.
        client.set_decode_decompress_body(false);
        self.security.apply(&mut client);
        Settings {
            options: ClientOptions::legacy(client),
            signer: self.security.signer(),
            name_servers,
            group: CheetahString::from_slice(self.group),
            place: self.place(),
        }
    }

    /// `rocketmq host:port,…`, for errors.
    pub fn place(&self) -> String {
        format!("rocketmq {}", self.name_servers.join(","))
    }
}

impl Client {
    /// Starts a client; it connects to a broker when it first needs one.
    ///
    /// Errors: `Unavailable` when no name server answers; `Invalid` for a certificate that is not accepted.
    pub fn connect(connection: &Connection<'_>) -> Result<Self, Failed> {
        let settings = connection.settings();
        let not_started = |what: String| Failed {
            kind: ErrorKind::Internal,
            operation: "start the rocketmq client".into(),
            place: settings.place.clone(),
            detail: what,
            hint: "",
        };
        let plan = RuntimeOwner::plan(RuntimeConfig {
            worker_threads: 1,
            thread_name: "rocketmq".into(),
            shutdown_timeout: END_WAIT,
            ..RuntimeConfig::default()
        });
        let owner = plan
            .map_err(|error| not_started(error.to_string()))?
            .build()
            .map_err(|error| not_started(error.to_string()))?;
        let telemetry = TelemetryRuntimeGuard::noop();
        let runtime = ClientRuntime::try_new(
            owner.root_context().component("headwater"),
            ClientRuntimeConfig {
                shutdown_timeout: END_WAIT,
                ..ClientRuntimeConfig::default()
            },
            telemetry.handle(),
        )
        .map_err(|error| not_started(words(&error)))?;
        let mut producer = DefaultMQProducer::builder(Arc::clone(&runtime))
            .client_options(settings.options.clone())
            .producer_group(settings.group.clone())
            .send_msg_timeout(connection.request_timeout_s * 1000)
            // A second try is ours: in order, and with a bound.
            .retry_times_when_send_failed(0)
            .retry_times_when_send_async_failed(0)
            .max_message_size(connection.message_bytes_max)
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
            .map_err(|error| failed("connect", &client.settings.place, &error))?;
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

    /// Runs something on the client's threads; to stop it before its end, abort it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.wait(async move { tokio::spawn(work).abort_handle() })
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

    /// Reads messages of a queue from `offset` up to its end, at most `count`.
    pub fn read(
        &self,
        queue: &MessageQueue,
        offset: i64,
        count: i32,
    ) -> Result<Vec<MessageExt>, ClientError> {
        let consumer = self.consumer()?;
        self.wait(async {
            consumer.start().await?;
            let read = read_range(&consumer, queue, offset, count).await;
            consumer.shutdown().await?;
            read
        })
    }

    #[expect(
        deprecated,
        reason = "the newer consumer keeps positions of its own; ours are the caller's"
    )]
    /// A consumer that pulls what it is told to, not started yet.
    pub(crate) fn consumer(&self) -> Result<DefaultMQPullConsumer, ClientError> {
        let mut builder = DefaultMQPullConsumer::builder(Arc::clone(&self.runtime))
            .client_options(self.settings.options.clone())
            .name_server_addr(self.settings.name_servers.clone())
            .consumer_group(self.settings.group.clone());
        if let Some(signer) = &self.settings.signer {
            builder = builder.rpc_hook(Arc::clone(signer) as _);
        }
        builder.build()
    }
}

/// Whether a name server answered that it knows no queue. The client has no name for it; what a broken
/// connection gives has another code.
pub(crate) fn is_without_route(error: &ClientError) -> bool {
    let code = error.shared_error().code();
    refusal(error) == Refusal::Missing || code.as_str() == "core.argument.invalid"
}

#[expect(deprecated, reason = "see `Client::consumer`")]
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
