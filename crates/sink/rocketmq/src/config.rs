//! Settings of a RocketMQ sink.

use crate::error::invalid;
use change::SinkError;
use format::settings::{FormatName, FormatOptions};
use rocketmq_client::Connection;
pub use rocketmq_client::Security;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A RocketMQ sink.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RocketMqConfig {
    /// Name servers, `host:port`.
    #[serde(alias = "namesrv")]
    pub name_servers: Vec<String>,
    /// Encryption and authentication. Default: plain text without authentication.
    #[serde(default)]
    pub security: Security,
    /// Topic of a table's rows; `{database}` and `{table}` stand for its names. In the names, bytes
    /// other than letters, digits and `_` become `%` and two hex digits, so that no two tables share a
    /// topic. At most 127 bytes when filled in. Default `{database}-{table}`.
    #[serde(default = "topic_default")]
    pub topic: String,
    /// Topics of single tables: `shop.orders` or `shop.*` to a template. Default: none.
    #[serde(default)]
    pub topics: BTreeMap<String, String>,
    /// Topic of rows that a snapshot read. Default: the table's own.
    #[serde(default)]
    pub snapshot_topic: Option<String>,
    /// Tag of a table's messages, written like `topic`; empty for none. Default `{table}`.
    #[serde(default = "tag_default")]
    pub tag: String,
    /// Topic of DDL statements. Default: the table's own, in queue 0; statements without a table
    /// (CREATE DATABASE) are then not sent.
    #[serde(default)]
    pub ddl_topic: Option<String>,
    /// Producer group. Default `headwater-PIPELINE-SINK`.
    #[serde(default)]
    pub group: Option<String>,
    /// Which rows share a queue, and so keep their order. Default `primary_key`.
    #[serde(default)]
    pub partition_by: PartitionBy,
    /// Where `partition_by: primary_key` sends the rows of a table without a key: `spread` over the queues
    /// by the whole row, or to the `first` queue, in their order, as Alibaba DTS does. Default spread.
    #[serde(default)]
    pub keyless: Keyless,
    /// The KEYS property and the sharding key: `primary_key` (its columns' texts joined by `^`) or
    /// `none`. Default primary_key.
    #[serde(default)]
    pub key: KeyConfig,
    /// The messages' format. Default canal-json.
    #[serde(default)]
    pub format: FormatName,
    /// The format's own settings.
    #[serde(default)]
    pub format_options: FormatOptions,
    /// Topic with one queue that holds this sink's cursor; made when missing. Default
    /// `headwater-cursor-PIPELINE-SINK`.
    #[serde(default)]
    pub cursor_topic: Option<String>,
    /// Make missing topics with these settings. Default: a missing topic parks its tables.
    #[serde(default)]
    pub create_topics: Option<CreateTopics>,
    /// What to do when a topic's queues are no longer those that this sink first wrote to: `park` its
    /// tables when queues were added and wait when some are away, or `rehash`: keys move to other
    /// queues. Let consumers drain first, and set it for one start only. Default park.
    #[serde(default)]
    pub queues_changed: QueuesChanged,
    /// Whether messages of one queue are sent many at a time. Turn it off for services that refuse
    /// batches. Default true.
    #[serde(default = "yes")]
    pub batch: bool,
    /// Largest message body, bytes; a larger one parks its key. The broker's `maxMessageSize` (4194304
    /// unless set) must also hold the topic, the properties and 100 bytes. Default 4128768.
    #[serde(default = "message_bytes_default")]
    pub message_bytes_max: u32,
    /// Bytes that may wait to be acknowledged, KiB, 64 to 1048576. Default 16384.
    #[serde(default = "queue_default")]
    pub queue_kib: u32,
    /// How long one request may take, seconds, 1 to 60. Default 5.
    #[serde(default = "request_timeout_default")]
    pub request_timeout_s: u32,
    /// How long one batch is tried again before the sink starts over, seconds, 1 to 3600. Default 60.
    #[serde(default = "timeout_default")]
    pub timeout_s: u32,
}

fn topic_default() -> String {
    "{database}-{table}".into()
}

fn tag_default() -> String {
    "{table}".into()
}

fn yes() -> bool {
    true
}

/// The broker's own limit of 4 MiB less 64 KiB for topic, properties and the rest of a message.
fn message_bytes_default() -> u32 {
    4_194_304 - 65_536
}

fn queue_default() -> u32 {
    16_384
}

fn request_timeout_default() -> u32 {
    5
}

fn timeout_default() -> u32 {
    60
}

/// Which rows share a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartitionBy {
    /// Rows with the same key (the primary key, else the first unique NOT NULL key, else the whole
    /// row). A change of the key goes out as a delete of the old and an insert of the new key.
    #[default]
    PrimaryKey,
    /// All rows of a table.
    Table,
    /// Everything to queue 0: the order of all in one topic.
    First,
    /// Rows with the same values in these columns.
    Columns(Vec<String>),
}

/// See [`RocketMqConfig::keyless`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keyless {
    /// The whole row is the key.
    #[default]
    Spread,
    /// Queue 0. A change of a row is then one UPDATE.
    First,
}

/// The KEYS property and the sharding key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyConfig {
    /// The key columns' texts joined by `^`.
    #[default]
    PrimaryKey,
    /// Neither.
    None,
}

/// See [`RocketMqConfig::queues_changed`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueuesChanged {
    /// Set the topic's tables aside, or wait for the queues that are away.
    #[default]
    Park,
    /// Spread keys over the queues that there are now.
    Rehash,
}

/// Settings of topics that are made.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTopics {
    /// Queues on each broker, 1 to 1024. Default 4.
    #[serde(default = "queues_default")]
    pub queues: u32,
    /// Cluster on whose brokers topics are made. Default `DefaultCluster`.
    #[serde(default = "cluster_default")]
    pub cluster: String,
    /// Attributes, each with a `+` before its name: `{"+message.type": "FIFO"}`.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

pub(crate) fn cluster_default() -> String {
    "DefaultCluster".into()
}

fn queues_default() -> u32 {
    4
}

impl RocketMqConfig {
    /// The connection.
    pub(crate) fn connection<'a>(&'a self, group: &'a str) -> Connection<'a> {
        Connection {
            name_servers: &self.name_servers,
            security: &self.security,
            group,
            request_timeout_s: self.request_timeout_s,
            message_bytes_max: self.message_bytes_max.max(crate::lane::BATCH_BYTES as u32),
        }
    }

    /// Checks what needs no broker.
    ///
    /// Errors: `Invalid` for settings that cannot be.
    pub(crate) fn validate(&self) -> Result<(), SinkError> {
        let ranges = [
            ("queue_kib", self.queue_kib, 64, 1 << 20),
            ("timeout_s", self.timeout_s, 1, 3600),
            ("message_bytes_max", self.message_bytes_max, 1024, 128 << 20),
            (
                "create_topics.queues",
                self.create_topics.as_ref().map_or(1, |c| c.queues),
                1,
                1024,
            ),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(invalid(
                    format!("{key} is {value}"),
                    &format!("{least} to {most}"),
                ));
            }
        }
        self.connection("headwater")
            .validate()
            .map_err(|refused| invalid(refused.detail, refused.hint))
    }
}
