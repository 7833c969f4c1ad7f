//! The cursor: the last message of a topic with one queue, which only this sink writes.
//!
//! Shape of the body: `HWRC1`, the writer's epoch (8 bytes, little endian), the topics' layouts, 0 or 1,
//! and with 1 the stored [`Cursor`]. Each `open` writes one with the next epoch, which fences older
//! writers: they find it before their next cursor.

use crate::config::{RocketMqConfig, cluster_default};
use crate::error::broker_error;
use crate::lane::{Courier, Failure};
use crate::message::{Origin, Piece, Record, id};
use crate::topics::Layouts;
use bytes::Bytes;
use change::contract::ErrorKind;
use change::wire::{WireError, WireReader};
use change::{Cursor, SinkError};
use cheetah_string::CheetahString;
use rocketmq_client::{Client, ClientError, Found, MessageQueue};
use std::collections::HashMap;

const MAGIC: &[u8; 5] = b"HWRC1";

/// How far back `open` looks: writers that were fenced leave at most one message each.
const LOOK_BACK: i64 = 32;

/// What one message of the cursor topic holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    epoch: u64,
    layouts: Layouts,
    cursor: Option<Cursor>,
}

impl Entry {
    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.epoch.to_le_bytes());
        self.layouts.encode(&mut out);
        match &self.cursor {
            None => out.push(0),
            Some(cursor) => {
                out.push(1);
                cursor.encode(&mut out);
            }
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut r = WireReader::new(bytes);
        if &r.array::<5>()? != MAGIC {
            return Err(WireError {
                offset: 0,
                what: "a known version of a cursor",
            });
        }
        let epoch = u64::from_le_bytes(r.array()?);
        let layouts = Layouts::decode(&mut r)?;
        let cursor = match r.u8()? {
            0 => None,
            _ => Some(Cursor::decode(&bytes[r.offset()..])?),
        };
        Ok(Self {
            epoch,
            layouts,
            cursor,
        })
    }
}

/// The cursor topic, opened for writing.
pub(crate) struct CursorTopic {
    queue: MessageQueue,
    epoch: u64,
    next_offset: i64,
}

/// What the topic held.
pub(crate) struct Opened {
    pub topic: CursorTopic,
    pub layouts: Layouts,
    pub cursor: Option<Cursor>,
}

/// Opens the topic, makes it when it is missing, reads the cursor and fences older writers.
///
/// `accept_lost`: go on without a cursor where the broker has deleted it.
/// Errors: `Lost` when the broker has deleted it.
pub(crate) fn open(
    client: &Client,
    courier: &Courier,
    config: &RocketMqConfig,
    name: &str,
    accept_lost: bool,
) -> Result<Opened, SinkError> {
    let queue = find(client, config, name)?;
    let failed = |error: &ClientError| {
        broker_error("read cursor", client.place(), error)
            .at(format!("topic {name}, {}", client.place()))
    };
    let (first, end) = client.range(&queue).map_err(|error| failed(&error))?;
    let last = read_last(client, &queue, first, end).map_err(|error| failed(&error))?;
    let last = match last {
        None => None,
        Some(bytes) => Some(Entry::decode(&bytes).map_err(|error| {
            SinkError::new(ErrorKind::Corrupt, "read cursor", error.to_string())
                .at(format!("topic {name}"))
                .hint(
                    "name another cursor_topic: the sink then starts from the journal's oldest change",
                )
        })?),
    };
    if last.is_none() && end > 0 && !accept_lost {
        return Err(SinkError::new(
            ErrorKind::Lost,
            "read cursor",
            "the broker has deleted it: no cursor was written for longer than its fileReservedTime",
        )
        .at(format!("topic {name}"))
        .hint(
            "resume the sink to start from the journal's oldest change, or rewind it to where it \
             stood; what comes again has the same ids",
        ));
    }
    let (epoch, layouts, cursor) = match last {
        Some(entry) => (entry.epoch, entry.layouts, entry.cursor),
        // Above every writer that ever wrote here.
        None => (end.max(0) as u64, Layouts::default(), None),
    };
    let mut topic = CursorTopic {
        queue,
        epoch: epoch + 1,
        next_offset: end,
    };
    topic.save(client, courier, &layouts, cursor.as_ref())?;
    Ok(Opened {
        topic,
        layouts,
        cursor,
    })
}

fn find(client: &Client, config: &RocketMqConfig, name: &str) -> Result<MessageQueue, SinkError> {
    let failed = |error: &ClientError| {
        broker_error("open cursor topic", client.place(), error)
            .at(format!("topic {name}, {}", client.place()))
    };
    let mut found = client.look_up(name).map_err(|error| failed(&error))?;
    if matches!(found, Found::Missing) {
        let cluster = config
            .create_topics
            .as_ref()
            .map_or_else(cluster_default, |create| create.cluster.clone());
        // On one broker: a queue on each would leave two cursors.
        let broker = match client.look_up(&cluster).map_err(|error| failed(&error))? {
            Found::Queues(queues) => queues.first().map(|queue| queue.broker_name().to_string()),
            Found::Missing => None,
        };
        let Some(broker) = broker else {
            return Err(SinkError::new(
                ErrorKind::Unavailable,
                "open cursor topic",
                format!("the name server knows no broker of the cluster {cluster}"),
            )
            .at(format!("topic {name}, {}", client.place()))
            .hint("is a broker up, and is create_topics.cluster its brokerClusterName?"));
        };
        found = client
            .create(&broker, name, 1, HashMap::new())
            .map_err(|error| {
                failed(&error).hint("make the topic with one queue on one broker, and allow it")
            })?;
    }
    let queues = match found {
        Found::Queues(queues) => queues,
        Found::Missing => Vec::new(),
    };
    match <[MessageQueue; 1]>::try_from(queues) {
        Ok([queue]) => Ok(queue),
        Err(queues) if queues.is_empty() => Err(SinkError::new(
            ErrorKind::Unavailable,
            "open cursor topic",
            "it was made, but the name server does not tell of it",
        )
        .at(format!("topic {name}"))),
        Err(queues) => Err(SinkError::new(
            ErrorKind::Invalid,
            "open cursor topic",
            format!("it has {} queues and must have one", queues.len()),
        )
        .at(format!("topic {name}"))
        .hint("delete it on all brokers but one, or name another cursor_topic")),
    }
}

fn read_last(
    client: &Client,
    queue: &MessageQueue,
    first: i64,
    end: i64,
) -> Result<Option<Bytes>, ClientError> {
    if end <= first {
        return Ok(None);
    }
    let from = first.max(end - LOOK_BACK);
    let messages = client.read(queue, from, (end - from) as i32)?;
    // A writer that was fenced may have written after the newest one.
    let newest = messages
        .iter()
        .filter_map(|message| message.body())
        .max_by_key(|body| Entry::decode(body).map_or(0, |entry| entry.epoch));
    Ok(newest)
}

impl CursorTopic {
    /// Writes a cursor, and finds out whether another writer has taken over.
    ///
    /// Errors: `Fenced` when one has.
    pub fn save(
        &mut self,
        client: &Client,
        courier: &Courier,
        layouts: &Layouts,
        cursor: Option<&Cursor>,
    ) -> Result<(), SinkError> {
        let entry = Entry {
            epoch: self.epoch,
            layouts: layouts.clone(),
            cursor: cursor.cloned(),
        };
        let sequence = cursor.map_or(0, |cursor| cursor.sequence);
        let record = Record {
            body: entry.encode().into(),
            tag: CheetahString::new(),
            key: CheetahString::from_static_str("cursor"),
            sharding_key: CheetahString::new(),
            id: id(sequence, Piece::Of(0)),
            origin: Origin {
                table: "headwater's cursor".into(),
                key_token: None,
                sequence,
            },
        };
        let stored = client
            .wait(courier.persist(&self.queue, std::slice::from_ref(&record), &|| false))
            .map_err(|failure| self.failed(client, failure))?;
        let expected = std::mem::replace(&mut self.next_offset, stored.offset + 1);
        if stored.offset == expected {
            return Ok(());
        }
        if stored.tries == 1 {
            tracing::debug!("another writer wrote to the cursor topic");
        }
        self.check_epochs(client, expected, stored.offset)
    }

    fn check_epochs(&self, client: &Client, from: i64, to: i64) -> Result<(), SinkError> {
        let from = from.max(to - 1000);
        if from >= to {
            return Ok(());
        }
        let between = client
            .read(&self.queue, from, (to - from) as i32)
            .map_err(|error| broker_error("read cursor", client.place(), &error))?;
        let newest = between
            .iter()
            .filter_map(|message| message.body())
            .filter_map(|body| Entry::decode(&body).ok())
            .map(|entry| entry.epoch)
            .max();
        if newest.is_none_or(|epoch| epoch <= self.epoch) {
            return Ok(());
        }
        Err(SinkError::new(
            ErrorKind::Fenced,
            "write cursor",
            "another process writes for this sink",
        )
        .at(format!("topic {}", self.queue.topic_str()))
        .hint("stop one of the two, or give each its own cursor_topic"))
    }

    fn failed(&self, client: &Client, failure: Failure) -> SinkError {
        let (kind, reason, hint) = match failure {
            Failure::Passing { reason, .. } => (
                ErrorKind::Unavailable,
                reason,
                "is the broker of the cursor topic up?",
            ),
            Failure::Refused { reason, .. } => (
                ErrorKind::Invalid,
                reason,
                "make the cursor topic with one queue, allow it, and look at the broker's \
                 maxMessageSize",
            ),
        };
        SinkError::new(kind, "write cursor", reason)
            .at(format!(
                "topic {}, {}",
                self.queue.topic_str(),
                client.place()
            ))
            .hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_and_a_damaged_one_is_refused() {
        let entry = Entry {
            epoch: 7,
            layouts: Layouts::default(),
            cursor: Some(Cursor {
                journal: [3; 16],
                sequence: 1 << 60,
                position: vec![1, 2],
                parked: Vec::new(),
            }),
        };
        let bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Ok(entry));
        for cut in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..cut]).is_err());
        }
        let fresh = Entry {
            epoch: 1,
            layouts: Layouts::default(),
            cursor: None,
        };
        assert_eq!(Entry::decode(&fresh.encode()), Ok(fresh));
    }
}
