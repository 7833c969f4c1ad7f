//! Topics and their queues, and the layout that keeps a key in its queue.

use crate::config::{QueuesChanged, RocketMqConfig};
use crate::error::broker_error;
use change::SinkError;
use change::contract::ErrorKind;
use change::wire::{WireError, WireReader, put_bytes, put_u64};
use rocketmq_client::{Client, ClientError, Found, MessageQueue, Refusal, refusal, words};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often one of the topics in use is looked at again for added queues.
const RECHECK: Duration = Duration::from_secs(5);

/// How many queues each broker has of a topic, by the broker's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout(BTreeMap<String, u64>);

/// How a topic's queues differ from those that keys were spread over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    None,
    /// Some are not there.
    Away,
    /// Some are new.
    Added,
}

impl Layout {
    fn of(queues: &[MessageQueue]) -> Self {
        let mut counts = BTreeMap::new();
        for queue in queues {
            *counts.entry(queue.broker_name().to_string()).or_insert(0) += 1;
        }
        Self(counts)
    }

    fn queue_count(&self) -> u64 {
        self.0.values().sum()
    }

    fn difference(&self, now: &Self) -> Difference {
        let has_added = now
            .0
            .iter()
            .any(|(broker, count)| *count > self.0.get(broker).copied().unwrap_or(0));
        match (has_added, self == now) {
            (_, true) => Difference::None,
            (true, _) => Difference::Added,
            (false, _) => Difference::Away,
        }
    }
}

/// The layouts of all topics that were written to. They are kept with the cursor, so that a restart
/// does not move keys either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layouts(BTreeMap<String, Layout>);

impl Layouts {
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.0.len() as u64);
        for (topic, layout) in &self.0 {
            put_bytes(out, topic.as_bytes());
            put_u64(out, layout.0.len() as u64);
            for (broker, count) in &layout.0 {
                put_bytes(out, broker.as_bytes());
                put_u64(out, *count);
            }
        }
    }

    pub fn decode(r: &mut WireReader<'_>) -> Result<Self, WireError> {
        let mut topics = BTreeMap::new();
        for _ in 0..r.u64()? {
            let topic = r.text()?.to_owned();
            let mut counts = BTreeMap::new();
            for _ in 0..r.u64()? {
                let broker = r.text()?.to_owned();
                counts.insert(broker, r.u64()?);
            }
            topics.insert(topic, Layout(counts));
        }
        Ok(Self(topics))
    }
}

/// A topic that is written to.
pub(crate) struct Topic {
    pub name: String,
    pub queues: Vec<MessageQueue>,
}

/// Why a topic cannot be written to.
pub(crate) enum TopicFault {
    /// For good: its tables are to be parked.
    Park(String),
    /// For now, or for all tables.
    Error(SinkError),
}

/// The topics of one connection.
pub(crate) struct Topics {
    pub layouts: Layouts,
    found: HashMap<String, Arc<Topic>>,
    checked: Instant,
    next_check: usize,
}

impl Topics {
    pub fn new(layouts: Layouts) -> Self {
        Self {
            layouts,
            found: HashMap::new(),
            checked: Instant::now(),
            next_check: 0,
        }
    }

    /// Finds a topic, or makes it where that is asked for.
    pub fn find(
        &mut self,
        client: &Client,
        config: &RocketMqConfig,
        name: &str,
    ) -> Result<Arc<Topic>, TopicFault> {
        if let Some(topic) = self.found.get(name) {
            return Ok(Arc::clone(topic));
        }
        let queues = self.queues(client, config, name)?;
        let now = Layout::of(&queues);
        match self
            .layouts
            .0
            .get(name)
            .map(|then| (then, then.difference(&now)))
        {
            None | Some((_, Difference::None)) => {}
            Some(_) if config.queues_changed == QueuesChanged::Rehash => {
                tracing::warn!(topic = name, "its queues have changed: keys move");
            }
            Some((then, Difference::Added)) => {
                return Err(TopicFault::Park(format!(
                    "the topic had {} queues and has {}: its keys would move to other queues; let \
                     consumers drain, then restart once with queues_changed: rehash and heal",
                    then.queue_count(),
                    now.queue_count()
                )));
            }
            Some((then, Difference::Away)) => {
                let detail = format!(
                    "{} of its {} queues are there",
                    now.queue_count(),
                    then.queue_count()
                );
                let error = SinkError::new(ErrorKind::Unavailable, "write", detail)
                    .at(format!("topic {name}"))
                    .hint(
                        "is a broker down? If queues were taken away on purpose, restart once with \
                         queues_changed: rehash",
                    );
                return Err(TopicFault::Error(error));
            }
        }
        self.layouts.0.insert(name.to_owned(), now);
        let topic = Arc::new(Topic {
            name: name.to_owned(),
            queues,
        });
        self.found.insert(name.to_owned(), Arc::clone(&topic));
        Ok(topic)
    }

    fn queues(
        &self,
        client: &Client,
        config: &RocketMqConfig,
        name: &str,
    ) -> Result<Vec<MessageQueue>, TopicFault> {
        let failed = |operation: &str, error: &ClientError| {
            let told = broker_error(operation, client.place(), error);
            TopicFault::Error(told.at(format!("topic {name}, {}", client.place())))
        };
        let missing = match client.look_up(name) {
            Ok(Found::Queues(queues)) => return Ok(queues),
            Ok(Found::Missing) => "look up topic",
            Err(error) => return Err(failed("look up topic", &error)),
        };
        // A broker that is down takes its topics out of the name server.
        if self.layouts.0.contains_key(name) && config.queues_changed == QueuesChanged::Park {
            let error = SinkError::new(
                ErrorKind::Unavailable,
                missing,
                "the topic was there before and is not now",
            )
            .at(format!("topic {name}, {}", client.place()))
            .hint(
                "is its broker down? If the topic was deleted, make it again, or restart once with \
                 queues_changed: rehash",
            );
            return Err(TopicFault::Error(error));
        }
        let Some(create) = &config.create_topics else {
            return Err(TopicFault::Park(
                "the topic does not exist; make it, or set create_topics".into(),
            ));
        };
        let attributes = create.attributes.clone().into_iter().collect();
        match client.create(&create.cluster, name, create.queues, attributes) {
            Ok(Found::Queues(queues)) => Ok(queues),
            Ok(Found::Missing) => Err(TopicFault::Error(
                SinkError::new(
                    ErrorKind::Unavailable,
                    "create topic",
                    "it was made, but the name server does not tell of it",
                )
                .at(format!("topic {name}, {}", client.place())),
            )),
            Err(error) => match refusal(&error) {
                Refusal::Forbidden => Err(TopicFault::Park(format!(
                    "{}; the topic does not exist, and this user may not make it",
                    words(&error)
                ))),
                _ => Err(failed("create topic", &error)),
            },
        }
    }

    /// Looks at one of the topics in use now and then; true when routes must be made again.
    pub fn recheck(&mut self, client: &Client) -> bool {
        if self.checked.elapsed() < RECHECK || self.found.is_empty() {
            return false;
        }
        self.checked = Instant::now();
        self.next_check = (self.next_check + 1) % self.found.len();
        let Some(topic) = self.found.values().nth(self.next_check) else {
            return false;
        };
        let Ok(Found::Queues(queues)) = client.look_up(&topic.name) else {
            return false;
        };
        let difference = Layout::of(&topic.queues).difference(&Layout::of(&queues));
        if difference != Difference::Added {
            return false;
        }
        let name = topic.name.clone();
        self.found.remove(&name);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(counts: &[(&str, u64)]) -> Layout {
        let counts = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        Layout(counts.collect())
    }

    #[test]
    fn queues_that_are_added_or_away_are_told_apart() {
        let then = layout(&[("a", 4), ("b", 4)]);
        assert_eq!(then.difference(&then), Difference::None);
        assert_eq!(then.difference(&layout(&[("a", 4)])), Difference::Away);
        assert_eq!(
            then.difference(&layout(&[("a", 4), ("b", 2)])),
            Difference::Away
        );
        assert_eq!(
            then.difference(&layout(&[("a", 8), ("b", 4)])),
            Difference::Added
        );
        assert_eq!(
            then.difference(&layout(&[("a", 4), ("c", 4)])),
            Difference::Added
        );
    }

    #[test]
    fn layouts_come_back() {
        let mut layouts = Layouts::default();
        layouts.0.insert("t".into(), layout(&[("a", 4), ("b", 1)]));
        let mut bytes = Vec::new();
        layouts.encode(&mut bytes);
        assert_eq!(Layouts::decode(&mut WireReader::new(&bytes)), Ok(layouts));
    }
}
