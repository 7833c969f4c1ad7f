//! A partition: where reading stands, and what of it the journal holds.

use crate::capture::Message;
use crate::tables::damaged;
use change::wire::{WireReader, put_u64};
use change::{Batch, SourceError};
use format::decode::Decoded;
use std::collections::VecDeque;

/// Prefix of the control keys that hold a partition's next offset: topic and part follow.
pub(crate) const PREFIX: &str = "source/topic/";

/// A message that waits for its turn.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub offset: i64,
    pub time_ms: i64,
    pub key: Option<Vec<u8>>,
    pub payload: Option<Vec<u8>>,
    pub fault: Option<&'static str>,
}

impl Waiting {
    pub fn new(message: &Message<'_>) -> Self {
        Self {
            offset: message.offset,
            time_ms: message.time_ms,
            key: message.key.map(<[u8]>::to_vec),
            payload: message.payload.map(<[u8]>::to_vec),
            fault: message.fault,
        }
    }

    pub fn message(&self, partition: usize) -> Message<'_> {
        Message {
            partition,
            offset: self.offset,
            time_ms: self.time_ms,
            key: self.key.as_deref(),
            payload: self.payload.as_deref(),
            fault: self.fault,
        }
    }

    pub fn byte_count(&self) -> usize {
        let of = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        size_of::<Self>() + of(&self.key) + of(&self.payload)
    }
}

/// The row before an update, in a message of its own; the row after comes next.
#[derive(Debug)]
pub(crate) struct Held {
    pub offset: i64,
    pub payload: Vec<u8>,
    pub decoded: Decoded,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Partition {
    pub topic: String,
    /// Kafka's number of it, or RocketMQ's queue: `broker/number`.
    pub part: String,
    /// `topic/part`.
    pub place: String,
    /// The first offset that is not in a batch yet: where a restart begins.
    pub next: i64,
    /// The first offset that was not read yet.
    pub read: i64,
    /// What of `next` is in a batch as a control record.
    pub saved: Option<i64>,
    pub held: Option<Held>,
    pub waiting: VecDeque<Waiting>,
    /// Time of the last message, microseconds since the epoch; 0 before the first.
    pub time_us: u64,
}

impl Partition {
    pub fn new(topic: &str, part: &str, next: i64, saved: Option<i64>) -> Self {
        Self {
            topic: topic.to_owned(),
            part: part.to_owned(),
            place: format!("{topic}/{part}"),
            next,
            read: next,
            saved,
            held: None,
            waiting: VecDeque::new(),
            time_us: 0,
        }
    }

    /// Puts the next offset into the open transaction.
    pub fn save(&mut self, batch: &mut Batch) {
        let mut value = Vec::new();
        put_u64(&mut value, self.next.max(0) as u64);
        let key = format!("{PREFIX}{}", self.place);
        batch.control(key.as_bytes(), Some(&value));
        self.saved = Some(self.next);
    }

    /// Where reading goes on: brokers' own records behind the last message are passed.
    pub fn from(&self) -> i64 {
        self.read.max(self.next)
    }

    pub fn is_saved(&self) -> bool {
        self.saved == Some(self.next)
    }
}

/// A partition's next offset as the journal has it: topic, part, offset. No topic has a `/` in its name.
pub(crate) fn read_saved(key: &str, value: &[u8]) -> Result<(String, String, i64), SourceError> {
    let (topic, part) = key.split_once('/').ok_or_else(|| damaged(key))?;
    let next = WireReader::new(value).u64().map_err(|_| damaged(key))?;
    let next = i64::try_from(next).map_err(|_| damaged(key))?;
    Ok((topic.to_owned(), part.to_owned(), next))
}
