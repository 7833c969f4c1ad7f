//! What `check` tells of brokers and topics.

use crate::config::{RocketMqConfig, cluster_default};
use crate::error::broker_error;
use change::SinkError;
use change::contract::ErrorKind;
use rocketmq_client::{Client, ClientError, Found, MessageQueue};

/// See [`crate::check`].
pub(crate) fn check(config: &RocketMqConfig, topics: &[String]) -> Result<Vec<String>, SinkError> {
    config.validate()?;
    let client = Client::connect(&config.connection("headwater-check"))?;
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
