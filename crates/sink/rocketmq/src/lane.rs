//! Lanes: one per queue, each with one batch in flight, so that a queue's messages arrive in order.
//!
//! A batch that fails is tried again, itself, until it is stored or its time is over; no later message
//! of the queue is sent before it.

use crate::message::{Origin, Record};
use cheetah_string::CheetahString;
use rocketmq_client::{Client, ClientError, MessageQueue, Refusal, refusal, words};
use rocketmq_client_rust::{DefaultMQProducer, SendResult, SendStatus};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A batch is sent at this size: larger ones gain little and wait longer.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// Messages per batch at most: the broker writes them under one lock.
const BATCH_RECORDS: usize = 1000;

/// Pause before a second try, and its bound.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Why a batch was not stored.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The target refused one message, or (for `Missing` and `Forbidden`) its topic.
    Refused {
        origin: Origin,
        topic: String,
        refusal: Refusal,
        reason: String,
    },
    /// It took too long.
    Passing { topic: String, reason: String },
}

/// How batches are sent.
#[derive(Clone)]
pub(crate) struct Courier {
    pub producer: DefaultMQProducer,
    /// For one request.
    pub request_timeout: Duration,
    /// For all tries of one batch.
    pub timeout: Duration,
    pub batch: bool,
}

#[derive(Default)]
struct State {
    waiting_bytes: usize,
    waiting_batches: usize,
    failure: Option<Failure>,
    is_cancelled: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    fn done(&self, bytes: usize, failure: Option<Failure>) {
        let mut state = self.state();
        state.waiting_bytes -= bytes;
        state.waiting_batches -= 1;
        if let Some(failure) = failure {
            // A refusal says more than a timeout that came first.
            let is_better = matches!(failure, Failure::Refused { .. })
                && !matches!(state.failure, Some(Failure::Refused { .. }));
            if state.failure.is_none() || is_better {
                state.failure = Some(failure);
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

struct Batch {
    records: Vec<Record>,
    bytes: usize,
}

struct Lane {
    sender: UnboundedSender<Batch>,
    records: Vec<Record>,
    bytes: usize,
}

/// All lanes of one connection.
pub(crate) struct Lanes {
    courier: Courier,
    shared: Arc<Shared>,
    lanes: HashMap<MessageQueue, Lane>,
    bytes_max: usize,
}

impl Lanes {
    /// `bytes_max`: how much may wait to be acknowledged.
    pub fn new(courier: Courier, bytes_max: usize) -> Self {
        Self {
            courier,
            shared: Arc::default(),
            lanes: HashMap::new(),
            bytes_max,
        }
    }

    /// Takes one message; waits while too much is on its way.
    ///
    /// Errors: what became of an earlier message.
    pub fn push(
        &mut self,
        client: &Client,
        queue: &MessageQueue,
        record: Record,
    ) -> Result<(), Failure> {
        if !self.lanes.contains_key(queue) {
            let (sender, receiver) = unbounded_channel();
            let work = run(
                self.courier.clone(),
                queue.clone(),
                receiver,
                Arc::clone(&self.shared),
            );
            drop(client.spawn(work));
            let lane = Lane {
                sender,
                records: Vec::new(),
                bytes: 0,
            };
            self.lanes.insert(queue.clone(), lane);
        }
        let lane = self.lanes.get_mut(queue).expect("inserted above");
        let size = record.size();
        let is_full = lane.bytes + size > BATCH_BYTES || lane.records.len() == BATCH_RECORDS;
        if is_full && !lane.records.is_empty() {
            lane.send(&self.shared);
            self.wait_for_room()?;
        }
        let lane = self.lanes.get_mut(queue).expect("inserted above");
        lane.bytes += size;
        lane.records.push(record);
        Ok(())
    }

    fn wait_for_room(&self) -> Result<(), Failure> {
        let mut state = self.shared.state();
        // Each batch has a time of its own, so this ends.
        while state.waiting_bytes > self.bytes_max && state.failure.is_none() {
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.failure.clone().map_or(Ok(()), Err)
    }

    /// Waits until everything is stored.
    pub fn drain(&mut self) -> Result<(), Failure> {
        for lane in self.lanes.values_mut() {
            lane.send(&self.shared);
        }
        let mut state = self.shared.state();
        while state.waiting_batches > 0 && state.failure.is_none() {
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.failure.clone().map_or(Ok(()), Err)
    }

    /// Forgets what was not sent, and waits for the answers to what was: a message that arrives after
    /// its own repeat would stand in the wrong place.
    pub fn cancel(&mut self) {
        self.lanes.clear();
        let end = Instant::now() + self.courier.request_timeout + Duration::from_secs(1);
        let mut state = self.shared.state();
        state.is_cancelled = true;
        while state.waiting_batches > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let (next, _) = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
        drop(state);
        self.shared = Arc::default();
    }
}

impl Lane {
    fn send(&mut self, shared: &Shared) {
        if self.records.is_empty() {
            return;
        }
        let batch = Batch {
            records: std::mem::take(&mut self.records),
            bytes: std::mem::take(&mut self.bytes),
        };
        let mut state = shared.state();
        state.waiting_bytes += batch.bytes;
        state.waiting_batches += 1;
        drop(state);
        if let Err(unsent) = self.sender.send(batch) {
            shared.done(unsent.0.bytes, None);
        }
    }
}

async fn run(
    courier: Courier,
    queue: MessageQueue,
    mut receiver: UnboundedReceiver<Batch>,
    shared: Arc<Shared>,
) {
    let mut is_broken = false;
    while let Some(batch) = receiver.recv().await {
        let mut failure = None;
        if !is_broken && !shared.is_cancelled() {
            failure = courier.deliver(&queue, &batch.records, &shared).await.err();
            is_broken = failure.is_some();
        }
        shared.done(batch.bytes, failure);
    }
}

/// A failed try.
enum Unsent {
    Error(ClientError),
    /// Stored, but not as safely as the broker's settings ask for.
    Unsafe(SendStatus),
}

impl Courier {
    async fn deliver(
        &self,
        queue: &MessageQueue,
        records: &[Record],
        shared: &Shared,
    ) -> Result<(), Failure> {
        if !self.batch {
            return self.one_by_one(queue, records, shared).await;
        }
        match self
            .persist(queue, records, &|| shared.is_cancelled())
            .await
        {
            // The broker does not say which of them it is: it is the one that is refused alone.
            Err(Failure::Refused {
                refusal: Refusal::Record,
                ..
            }) if records.len() > 1 => self.one_by_one(queue, records, shared).await,
            other => other.map(|_| ()),
        }
    }

    async fn one_by_one(
        &self,
        queue: &MessageQueue,
        records: &[Record],
        shared: &Shared,
    ) -> Result<(), Failure> {
        for record in records {
            let one = std::slice::from_ref(record);
            self.persist(queue, one, &|| shared.is_cancelled()).await?;
        }
        Ok(())
    }

    /// Sends until it is stored, at most for the time of one batch.
    pub async fn persist(
        &self,
        queue: &MessageQueue,
        records: &[Record],
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Stored, Failure> {
        let end = Instant::now() + self.timeout;
        let mut pause = PAUSE.0;
        let mut tries = 0;
        loop {
            tries += 1;
            let unsent = match self.attempt(queue, records).await {
                Ok(SendResult {
                    send_status: SendStatus::SendOk,
                    queue_offset,
                    ..
                }) => {
                    return Ok(Stored {
                        offset: queue_offset as i64,
                        tries,
                    });
                }
                Ok(result) => Unsent::Unsafe(result.send_status),
                Err(error) => Unsent::Error(error),
            };
            let (refusal, reason) = match &unsent {
                Unsent::Error(error) => (refusal(error), words(error)),
                Unsent::Unsafe(status) => (Refusal::Passing, unsafe_words(*status).to_owned()),
            };
            let topic = queue.topic_str().to_owned();
            if !matches!(refusal, Refusal::Passing | Refusal::Group) {
                let origin = records[0].origin.clone();
                return Err(Failure::Refused {
                    origin,
                    topic,
                    refusal,
                    reason,
                });
            }
            tracing::debug!(topic, queue = queue.queue_id(), tries, "{reason}");
            if Instant::now() + pause > end || is_cancelled() {
                return Err(Failure::Passing { topic, reason });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    async fn attempt(
        &self,
        queue: &MessageQueue,
        records: &[Record],
    ) -> Result<SendResult, ClientError> {
        let topic: &CheetahString = queue.topic();
        let timeout_ms = self.request_timeout.as_millis() as u64;
        if let [record] = records {
            let message = record.message(topic)?;
            let sent = self
                .producer
                .send_to_queue_with_timeout(message, queue.clone(), timeout_ms)
                .await?;
            return sent.ok_or_else(|| ClientError::timeout("send", timeout_ms));
        }
        let messages: Result<Vec<_>, _> = records.iter().map(|r| r.message(topic)).collect();
        self.producer
            .send_batch_to_queue_with_timeout(messages?, queue.clone(), timeout_ms)
            .await
    }
}

/// Where a batch was stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    /// Offset of its first message.
    pub offset: i64,
    /// How many tries it took; an earlier one may have been stored too.
    pub tries: u32,
}

fn unsafe_words(status: SendStatus) -> &'static str {
    match status {
        SendStatus::SendOk => "stored",
        SendStatus::FlushDiskTimeout => "the broker did not flush it to disk in time",
        SendStatus::FlushSlaveTimeout => "the broker's replica did not take it in time",
        SendStatus::SlaveNotAvailable => "the broker has no replica",
    }
}
