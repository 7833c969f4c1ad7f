//! The connection to brokers of one kind: topics, their parts (partitions of Kafka, queues of RocketMQ),
//! offsets, messages, and what the brokers say about them.

mod kafka;
#[cfg(feature = "rocketmq")]
mod rocketmq;

use crate::capture::Message;
use crate::config::TopicConfig;
use crate::error::invalid;
use crate::lag::End;
use crate::partition::Partition;
use change::SourceError;
use rdkafka::Message as _;
use rdkafka::message::BorrowedMessage;
use std::time::{Duration, Instant};

/// What brokers of one kind call things, for errors and hints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// What a topic has.
    pub parts: &'static str,
    /// The setting that says how long messages are kept.
    pub retention: &'static str,
}

/// Who answers.
#[derive(Debug)]
pub(crate) struct Greeting {
    /// What tells these brokers from others; none where they do not tell.
    pub identity: Option<String>,
    /// For the status.
    pub server: String,
    /// For `check`.
    pub found: String,
}

/// A message as it came.
pub(crate) enum Arrived<'a> {
    /// From Kafka, of the partition with this index.
    Kafka(usize, BorrowedMessage<'a>),
    /// From RocketMQ.
    #[cfg(feature = "rocketmq")]
    RocketMq(usize, rocketmq_client::Message),
}

impl Arrived<'_> {
    /// What capture takes.
    pub fn message(&self) -> Message<'_> {
        match self {
            Self::Kafka(partition, message) => Message {
                partition: *partition,
                offset: message.offset(),
                time_ms: message.timestamp().to_millis().unwrap_or(0),
                key: message.key(),
                payload: message.payload(),
                fault: None,
            },
            #[cfg(feature = "rocketmq")]
            Self::RocketMq(partition, message) => Message {
                partition: *partition,
                offset: message.offset,
                time_ms: message.time_ms,
                key: message.key.as_ref().map(|key| key.as_bytes()),
                payload: Some(&message.body),
                fault: message.fault,
            },
        }
    }
}

/// What comes between two messages, and what it says about going on.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nothing: a sign that a partition's end is reached, or something that does not concern us.
    None,
    /// Offsets that are wanted may be gone; their partitions are not read any more.
    Offsets,
    /// Messages of a partition are passed over by the broker, which has later ones.
    #[cfg(feature = "rocketmq")]
    Gap {
        /// Its index.
        partition: usize,
        /// The first that is missing.
        from: i64,
        /// The first that is there.
        to: i64,
    },
    /// The topic may be gone.
    Topic(SourceError),
    /// Not allowed.
    Refused(SourceError),
    /// The brokers are away, since then; the link tries again.
    Away(SourceError, Instant),
}

/// How reading stands.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Where each partition ends, as far as it is known.
    pub ends: Vec<Option<End>>,
    /// When the brokers last answered, if all answer.
    pub connected: Option<Instant>,
    /// Nothing waited in the client's queue then.
    pub is_drained: bool,
}

/// A connection.
///
/// Promises: messages of one part come in their order, from the offset that was given, without a gap;
/// what can be cured by trying again is tried again, and told as [`Fault::Away`].
pub(crate) trait Link: Send {
    /// `kafka host:port,…`, for errors.
    fn place(&self) -> &str;

    /// What its brokers call things.
    fn words(&self) -> Words;

    /// Connects.
    ///
    /// Errors: `Unavailable`; `Invalid` for a refused login.
    fn greet(&mut self) -> Result<Greeting, SourceError>;

    /// The parts of a topic; none for a topic that is not there.
    fn parts(&self, topic: &str) -> Result<Option<Vec<String>>, SourceError>;

    /// Whether a topic is there now.
    fn has_topic(&self, topic: &str) -> Result<bool, SourceError>;

    /// Whether a part that was there before, and is not among those that are there now, may come back:
    /// its broker may be away.
    fn may_be_away(&self, part: &str, found: &[String]) -> bool;

    /// A part's first offset, and the one after its last message that may be read.
    fn ends(&self, topic: &str, part: &str) -> Result<(i64, i64), SourceError>;

    /// Reads the partitions from index `first` on too, each from where it stands; all anew with 0.
    fn read(&mut self, partitions: &[Partition], first: usize) -> Result<(), SourceError>;

    /// The next message or what is wrong; none when nothing came for `wait`.
    fn poll(&mut self, wait: Duration) -> Option<Result<Arrived<'_>, Fault>>;

    /// What the brokers last told.
    fn standing(&self, partitions: &[Partition]) -> Standing;
}

/// The connection that a config names.
///
/// Errors: `Invalid`; for RocketMQ `Unavailable` too.
pub(crate) fn connect(config: &TopicConfig) -> Result<Box<dyn Link>, SourceError> {
    config.check_brokers()?;
    #[cfg(feature = "rocketmq")]
    if let Some(rocketmq) = &config.rocketmq {
        return Ok(Box::new(rocketmq::RocketMqLink::new(rocketmq)?));
    }
    match &config.kafka {
        Some(kafka) => Ok(Box::new(kafka::KafkaLink::new(kafka)?)),
        None => Err(invalid("no brokers are named", "set kafka or rocketmq")),
    }
}
