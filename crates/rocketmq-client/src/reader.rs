//! Reading queues from offsets that the caller keeps: one pull in flight for each queue, messages of a
//! queue in their order, a bounded number of pulls that wait to be taken.
//!
//! Owns: pulling, waiting at a queue's end, pauses while a broker is away, how far the brokers are ahead.
//! Refuses: groups' offsets, and going on elsewhere when what is wanted is gone: the caller decides.

mod lane;

use crate::client::is_without_route;
use crate::inflate::inflate;
use crate::{Client, Connection, Failed, Found, Refusal, failed, refusal};
use bytes::Bytes;
use cheetah_string::CheetahString;
use lane::{Lane, Packed, Pulled, watch_ends};
#[expect(deprecated, reason = "see `Client::consumer`")]
use rocketmq_client_rust::DefaultMQPullConsumer;
use rocketmq_client_rust::{ClientError, ClientResult};
use rocketmq_model::message::MessageQueue;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

/// Pulls that wait to be taken, besides one for each queue. A pull is about 256 KiB at most, the broker's
/// own limit for what it sends at once.
const PULLS_MAX: usize = 16;

/// How long the end of reading may take.
const END_WAIT: Duration = Duration::from_secs(2);

/// Topic that every broker has: a name server that does not know it knows no broker.
const EVERY_BROKERS_TOPIC: &str = "SELF_TEST_TOPIC";

/// A message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its place in its queue.
    pub offset: i64,
    /// When its producer made it, milliseconds since the epoch.
    pub time_ms: i64,
    /// The KEYS property.
    pub key: Option<CheetahString>,
    /// Its body, inflated where it was compressed.
    pub body: Bytes,
    /// Why it cannot be read; its body is then as it came, as far as the client gave it.
    pub fault: Option<&'static str>,
}

/// Where reading of a queue begins.
#[derive(Debug, Clone)]
pub struct Place {
    /// The queue.
    pub queue: MessageQueue,
    /// The first offset that is wanted.
    pub offset: i64,
}

/// What comes next.
#[derive(Debug)]
pub enum Arrival {
    /// A message of the queue with this number, counted in the order in which they were given.
    Message(usize, Message),
    /// Something is wrong with a queue.
    Trouble(usize, Trouble),
}

/// What is wrong. But for `Offsets` and `Gap`, which end the reading of the queue, it is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The broker refuses the offset: what is wanted may be gone.
    Offsets,
    /// The broker passes over messages that are wanted.
    Gap {
        /// The first that is missing.
        from: i64,
        /// The first that is there.
        to: i64,
    },
    /// The broker does not know the topic.
    Topic(Failed),
    /// Not allowed.
    Refused(Failed),
    /// The broker is away, since then.
    Away(Failed, Instant),
}

/// Where a queue ends, as its broker last said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The offset after the last message; none before the first answer.
    pub end: Option<i64>,
}

/// How reading stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// By number of queue.
    pub ends: Vec<End>,
    /// When a broker last answered, if all answer.
    pub connected: Option<Instant>,
}

/// What is known of one queue.
#[derive(Debug)]
pub(crate) struct Known {
    queue: MessageQueue,
    end: Option<i64>,
    answered: Option<Instant>,
    is_failed: bool,
    /// A pull waits at its end.
    is_waiting: bool,
}

/// Shared with the tasks that pull.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    known: Mutex<Vec<Known>>,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Vec<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, index: usize, note: impl FnOnce(&mut Known)) {
        if let Some(known) = self.known().get_mut(index) {
            note(known);
        }
    }
}

#[expect(deprecated, reason = "see `Client::consumer`")]
type Consumer = DefaultMQPullConsumer;

/// See the module's page.
pub struct Reader {
    consumer: Consumer,
    place: Arc<str>,
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
    sender: Sender<Pulled>,
    receiver: Receiver<Pulled>,
    current: Option<(usize, std::vec::IntoIter<Packed>)>,
    /// Last, so that the tasks' runtime outlives them.
    client: Client,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

async fn start(consumer: &Consumer) -> ClientResult<()> {
    consumer.start().await
}

async fn subscribed(consumer: &Consumer, topic: &str) -> ClientResult<Vec<MessageQueue>> {
    consumer.fetch_subscribe_message_queues(topic).await
}

async fn range_of(consumer: &Consumer, queue: &MessageQueue) -> ClientResult<(i64, i64)> {
    let first = consumer.min_offset(queue).await?;
    let end = consumer.max_offset(queue).await?;
    Ok((first.max(0), end.max(0)))
}

impl Reader {
    /// Connects. Nothing is read yet.
    ///
    /// Errors: as [`Client::connect`].
    pub fn connect(connection: &Connection<'_>) -> Result<Self, Failed> {
        let client = Client::connect(connection)?;
        let told = |error: &ClientError| failed("connect", client.place(), error);
        let consumer = client.consumer().map_err(|error| told(&error))?;
        client
            .wait(start(&consumer))
            .map_err(|error| told(&error))?;
        let (sender, receiver) = channel(PULLS_MAX);
        Ok(Self {
            consumer,
            place: client.place().into(),
            shared: Arc::default(),
            tasks: Vec::new(),
            sender,
            receiver,
            current: None,
            client,
        })
    }

    /// `rocketmq host:port,…`, for errors.
    pub fn place(&self) -> &str {
        &self.place
    }

    fn told(&self, operation: &str, error: &ClientError) -> Failed {
        failed(operation, &self.place, error)
    }

    /// Whether the name servers know any broker.
    ///
    /// Errors: `Unavailable` when no name server answers.
    pub fn has_brokers(&self) -> Result<bool, Failed> {
        match self.client.look_up(EVERY_BROKERS_TOPIC) {
            Ok(found) => Ok(matches!(found, Found::Queues(_))),
            Err(error) => Err(self.told("connect", &error)),
        }
    }

    /// Whether a topic is there now. One that may only be read counts as not there.
    pub fn has_topic(&self, topic: &str) -> Result<bool, Failed> {
        match self.client.look_up(topic) {
            Ok(found) => Ok(matches!(found, Found::Queues(_))),
            Err(error) => Err(self.told("look up topic", &error)),
        }
    }

    /// The queues of a topic that may be read, sorted by broker and number; none for a topic that is not
    /// there.
    pub fn queues(&self, topic: &str) -> Result<Option<Vec<MessageQueue>>, Failed> {
        let is_there = self.has_topic(topic)?;
        match self.client.wait(subscribed(&self.consumer, topic)) {
            Ok(mut queues) => {
                queues.sort_by(|a, b| {
                    (a.broker_name(), a.queue_id()).cmp(&(b.broker_name(), b.queue_id()))
                });
                Ok(Some(queues))
            }
            Err(_) if !is_there => Ok(None),
            Err(error) if is_without_route(&error) => Ok(None),
            Err(error) => Err(self.told("look up topic", &error)),
        }
    }

    /// The offsets of a queue's first message and of the place after its last.
    pub fn range(&self, queue: &MessageQueue) -> Result<(i64, i64), Failed> {
        self.client
            .wait(range_of(&self.consumer, queue))
            .map_err(|error| self.told("ask for offsets", &error))
    }

    /// Reads these queues too, each from its offset. Their numbers follow those that are read already.
    pub fn add(&mut self, places: impl IntoIterator<Item = Place>) {
        let first = self.shared.known().len();
        for (index, place) in (first..).zip(places) {
            self.shared.known().push(Known {
                queue: place.queue.clone(),
                end: None,
                answered: None,
                is_failed: false,
                is_waiting: false,
            });
            let lane = Lane {
                index,
                queue: place.queue,
                next: place.offset,
                consumer: self.consumer.clone(),
                shared: Arc::clone(&self.shared),
                sender: self.sender.clone(),
                place: Arc::clone(&self.place),
            };
            self.tasks.push(self.client.spawn(lane.follow()));
        }
        if first == 0 {
            let ends = watch_ends(self.consumer.clone(), Arc::clone(&self.shared));
            self.tasks.push(self.client.spawn(ends));
        }
    }

    /// Reads nothing more of what was read so far; what waits to be taken is gone.
    pub fn clear(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
        (self.sender, self.receiver) = channel(PULLS_MAX);
        self.shared = Arc::default();
        self.current = None;
    }

    /// The next message, or what is wrong; none when nothing came for `wait`.
    pub fn next(&mut self, wait: Duration) -> Option<Arrival> {
        loop {
            if let Some((index, messages)) = &mut self.current {
                if let Some(packed) = messages.next() {
                    return Some(Arrival::Message(*index, inflated(packed)));
                }
                self.current = None;
            }
            let pulled = match self.receiver.try_recv() {
                Ok(pulled) => pulled,
                Err(_) if wait.is_zero() => return None,
                Err(_) => {
                    let receiver = &mut self.receiver;
                    let next = async { tokio::time::timeout(wait, receiver.recv()).await };
                    self.client.wait(next).ok().flatten()?
                }
            };
            match pulled.outcome {
                Ok(messages) => self.current = Some((pulled.index, messages.into_iter())),
                Err(trouble) => return Some(Arrival::Trouble(pulled.index, trouble)),
            }
        }
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        let known = self.shared.known();
        let is_connected = known.iter().all(|k| !k.is_failed && k.answered.is_some());
        Standing {
            ends: known.iter().map(|k| End { end: k.end }).collect(),
            connected: match is_connected {
                true => known.iter().filter_map(|k| k.answered).max(),
                false => None,
            },
        }
    }
}

/// Inflates a body where its producer compressed it: one at a time, when it is taken.
fn inflated(packed: Packed) -> Message {
    let Packed { mut message, flags } = packed;
    if message.fault.is_none() {
        match inflate(flags, &message.body) {
            Ok(body) => message.body = body,
            Err(fault) => message.fault = Some(fault),
        }
    }
    message
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.clear();
        let consumer = self.consumer.clone();
        let end = async move { tokio::time::timeout(END_WAIT, consumer.shutdown()).await };
        if self.client.wait(end).is_err() {
            tracing::debug!("reading from rocketmq did not end in time");
        }
    }
}

/// What a pull that failed means.
fn trouble_of(place: &str, error: &ClientError) -> Trouble {
    let told = failed("read topics", place, error);
    match refusal(error) {
        Refusal::Missing => Trouble::Topic(told),
        Refusal::Forbidden | Refusal::Group => Trouble::Refused(told),
        Refusal::Record | Refusal::Passing if told.kind == change::contract::ErrorKind::Invalid => {
            Trouble::Refused(told)
        }
        Refusal::Record | Refusal::Passing => Trouble::Away(told, Instant::now()),
    }
}
