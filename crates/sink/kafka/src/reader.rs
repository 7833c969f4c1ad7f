//! Reads topics back, as a consumer with `read_committed` sees them.

use crate::client::{self, CALL_TIMEOUT, Context};
use crate::config::KafkaConfig;
use crate::error::broker_error;
use change::SinkError;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::time::Duration;

/// A reader of all partitions of one topic, from its present end on. It joins no group and commits
/// nothing.
pub struct CommittedReader {
    consumer: BaseConsumer<Context>,
    brokers: Vec<String>,
}

impl CommittedReader {
    /// Connects and stands at the topic's end.
    ///
    /// Errors: `Unavailable` when the brokers do not answer.
    pub fn at_end(config: &KafkaConfig, topic: &str) -> Result<Self, SinkError> {
        let failed = |error: KafkaError| broker_error("read topic", &config.brokers, &error);
        let mut client = client::base(config)?;
        client.set("group.id", "headwater-reader");
        client.set("enable.auto.commit", "false");
        client.set("isolation.level", "read_committed");
        client.set("fetch.wait.max.ms", "10");
        let consumer: BaseConsumer<Context> = client
            .create_with_context(client::context(config))
            .map_err(failed)?;
        client::ready(consumer.client(), config)?;
        let metadata = consumer
            .fetch_metadata(Some(topic), CALL_TIMEOUT)
            .map_err(failed)?;
        let mut assignment = TopicPartitionList::new();
        for partition in metadata
            .topics()
            .iter()
            .flat_map(|topic| topic.partitions())
        {
            let (_, end) = consumer
                .fetch_watermarks(topic, partition.id(), CALL_TIMEOUT)
                .map_err(failed)?;
            assignment
                .add_partition_offset(topic, partition.id(), Offset::Offset(end))
                .map_err(failed)?;
        }
        consumer.assign(&assignment).map_err(failed)?;
        Ok(Self {
            consumer,
            brokers: config.brokers.clone(),
        })
    }

    /// Gives the next record's value to `then`; none when nothing came for `wait`.
    ///
    /// Errors: what the client reports; passing faults too.
    pub fn next<T>(
        &self,
        wait: Duration,
        then: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, SinkError> {
        match self.consumer.poll(wait) {
            None => Ok(None),
            Some(Ok(message)) => Ok(Some(then(message.payload().unwrap_or_default()))),
            Some(Err(error)) => Err(broker_error("read topic", &self.brokers, &error)),
        }
    }
}
