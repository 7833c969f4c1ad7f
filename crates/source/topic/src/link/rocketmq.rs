//! RocketMQ: topics, queues, offsets. A topic's parts are its queues, `broker/number`.

use super::{Arrived, Fault, Greeting, Link, Standing, Words};
use crate::config::NameServersConfig;
use crate::error::invalid;
use crate::lag::End;
use crate::partition::Partition;
use change::SourceError;
use change::contract::ErrorKind;
use rocketmq_client::{Arrival, MessageQueue, Place, Reader, Trouble};
use std::time::Duration;

/// See the module's page.
pub(crate) struct RocketMqLink {
    reader: Reader,
}

impl RocketMqLink {
    /// Errors: `Invalid` for settings that cannot be; `Unavailable` when no name server answers.
    pub fn new(config: &NameServersConfig) -> Result<Self, SourceError> {
        let connection = config.connection();
        connection
            .validate()
            .map_err(|refused| invalid(refused.detail, refused.hint))?;
        let reader = Reader::connect(&connection)?;
        Ok(Self { reader })
    }
}

fn part_of(queue: &MessageQueue) -> String {
    format!("{}/{}", queue.broker_name(), queue.queue_id())
}

fn queue_of(topic: &str, part: &str) -> Result<MessageQueue, SourceError> {
    let read = || {
        let (broker, number) = part.rsplit_once('/')?;
        Some(MessageQueue::from_parts(
            topic,
            broker,
            number.parse().ok()?,
        ))
    };
    read().ok_or_else(|| {
        let detail = format!("`{part}` is no queue of RocketMQ");
        SourceError::new(ErrorKind::Lost, "go on with topics", detail)
            .at(format!("topic {topic}"))
            .hint("the journal was made from another kind of broker: start with a fresh one")
    })
}

impl Link for RocketMqLink {
    fn place(&self) -> &str {
        self.reader.place()
    }

    fn words(&self) -> Words {
        Words {
            parts: "queues",
            retention: "fileReservedTime",
        }
    }

    fn greet(&mut self) -> Result<Greeting, SourceError> {
        if !self.reader.has_brokers()? {
            let detail = "the name server answers and knows no broker";
            return Err(SourceError::new(
                ErrorKind::Unavailable,
                change::contract::CONNECT,
                detail,
            )
            .at(self.reader.place())
            .hint("is a broker up, and does it register with this name server?"));
        }
        Ok(Greeting {
            // Clusters have no id of their own; queues are told apart by their broker's name.
            identity: Some("rocketmq".into()),
            server: "rocketmq".into(),
            found: "name server and brokers answer".into(),
        })
    }

    fn parts(&self, topic: &str) -> Result<Option<Vec<String>>, SourceError> {
        let queues = self.reader.queues(topic)?;
        Ok(queues.map(|queues| queues.iter().map(part_of).collect()))
    }

    fn has_topic(&self, topic: &str) -> Result<bool, SourceError> {
        Ok(self.reader.has_topic(topic)?)
    }

    fn may_be_away(&self, part: &str, found: &[String]) -> bool {
        let broker_of = |part: &str| part.rsplit_once('/').map(|(broker, _)| broker.to_owned());
        let broker = broker_of(part);
        // A broker that is away takes its queues out of the name server.
        broker.is_some() && found.iter().all(|other| broker_of(other) != broker)
    }

    fn ends(&self, topic: &str, part: &str) -> Result<(i64, i64), SourceError> {
        Ok(self.reader.range(&queue_of(topic, part)?)?)
    }

    fn read(&mut self, partitions: &[Partition], first: usize) -> Result<(), SourceError> {
        let place = |partition: &Partition| {
            Ok(Place {
                queue: queue_of(&partition.topic, &partition.part)?,
                offset: partition.from(),
            })
        };
        let places: Result<Vec<Place>, SourceError> =
            partitions[first..].iter().map(place).collect();
        let places = places?;
        if first == 0 {
            self.reader.clear();
        }
        self.reader.add(places);
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Option<Result<Arrived<'_>, Fault>> {
        Some(match self.reader.next(wait)? {
            Arrival::Message(index, message) => Ok(Arrived::RocketMq(index, message)),
            Arrival::Trouble(partition, trouble) => Err(match trouble {
                Trouble::Offsets => Fault::Offsets,
                Trouble::Gap { from, to } => Fault::Gap {
                    partition,
                    from,
                    to,
                },
                Trouble::Topic(failed) => Fault::Topic(failed.into()),
                Trouble::Refused(failed) => Fault::Refused(failed.into()),
                Trouble::Away(failed, since) => Fault::Away(failed.into(), since),
            }),
        })
    }

    fn standing(&self, partitions: &[Partition]) -> Standing {
        let standing = self.reader.standing();
        let mut ends: Vec<Option<End>> = standing
            .ends
            .iter()
            .map(|known| {
                known.end.map(|end| End {
                    end,
                    // Every offset is a message: there is nothing to pass at the end.
                    reached: -1,
                })
            })
            .collect();
        ends.resize(partitions.len(), None);
        Standing {
            ends,
            connected: standing.connected,
            is_drained: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_comes_back_from_its_name() {
        let queue = MessageQueue::from_parts("orders", "broker-a", 3);
        assert_eq!(part_of(&queue), "broker-a/3");
        assert_eq!(queue_of("orders", "broker-a/3").unwrap(), queue);
        let odd = MessageQueue::from_parts("orders", "rack/7", 0);
        assert_eq!(queue_of("orders", &part_of(&odd)).unwrap(), odd);
        // The journal of a source that read Kafka.
        let error = queue_of("orders", "3").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Lost);
    }
}
