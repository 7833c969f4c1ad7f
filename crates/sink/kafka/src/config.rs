//! Settings of a Kafka sink.

use format::settings::{FormatName, FormatOptions};
pub use kafka_client::{Mechanism, Protocol, Security};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A Kafka sink.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// Bootstrap brokers, `host:port`.
    pub brokers: Vec<String>,
    /// Encryption and authentication. Default: plain text without authentication.
    #[serde(default)]
    pub security: Security,
    /// Topic of a table's rows; `{database}` and `{table}` stand for its names. Characters that Kafka
    /// does not allow become `_`. Default `{database}.{table}`.
    #[serde(default = "topic_default")]
    pub topic: String,
    /// Topics of single tables: `shop.orders` or `shop.*` to a template. Default: none.
    #[serde(default)]
    pub topics: BTreeMap<String, String>,
    /// Topic of rows that a snapshot read. Default: the table's own.
    #[serde(default)]
    pub snapshot_topic: Option<String>,
    /// Topic of DDL statements. Default: the table's own, on partition 0; statements without a table
    /// (CREATE DATABASE) are then not sent.
    #[serde(default)]
    pub ddl_topic: Option<String>,
    /// Which rows share a partition, and so keep their order. Default `primary_key`.
    #[serde(default)]
    pub partition_by: PartitionBy,
    /// Where `partition_by: primary_key` sends the rows of a table without a key: `spread` over the
    /// partitions by the whole row, or to the `first` partition, in their order, as Alibaba DTS does.
    /// Default spread.
    #[serde(default)]
    pub keyless: Keyless,
    /// Partition columns of single tables, `shop.orders: [customer_id]`, where they differ from
    /// `partition_by`. Default: none.
    #[serde(default)]
    pub partition_columns: BTreeMap<String, Vec<String>>,
    /// How a key's text becomes a partition: `kafka` (murmur2, as Kafka's own producer) or `java`
    /// (`String.hashCode`, as Alibaba DTS documents). Default kafka.
    #[serde(default)]
    pub partition_hash: PartitionHash,
    /// What a topic that has other partitions than before does to its tables: `park` (keys would move to
    /// other partitions, and their order would be lost) or `rehash`. Default park.
    #[serde(default)]
    pub on_partition_change: OnPartitionChange,
    /// Partitions that a DDL statement goes to: `first`, or `all` of the topic. Default first.
    #[serde(default)]
    pub ddl_partitions: DdlPartitions,
    /// After each delete a record with the same key and no value, for compacted topics; also for the old
    /// key of a row that moves to another one. Needs a `key`. Default false.
    #[serde(default)]
    pub tombstones: bool,
    /// Record headers `sequence` (the journal's, decimal), `table` and `op` (`insert`, `update`,
    /// `delete`, `read`, `ddl`). Default false.
    #[serde(default)]
    pub headers: bool,
    /// The record's key: `primary_key` (its columns' texts joined by `^`; of debezium-json the object of
    /// its columns that Debezium's consumers expect) or `none`. Default primary_key.
    #[serde(default)]
    pub key: KeyConfig,
    /// The messages' format. Default canal-json.
    #[serde(default)]
    pub format: FormatName,
    /// The format's own settings.
    #[serde(default)]
    pub format_options: FormatOptions,
    /// `transactional`: exactly once for readers with `isolation.level=read_committed`.
    /// `idempotent`: lower latency, at least once across restarts. Default transactional.
    #[serde(default)]
    pub delivery: Delivery,
    /// The `transactional.id`. Default `headwater-PIPELINE-SINK`. Two processes with one id fence each
    /// other.
    #[serde(default)]
    pub transactional_id: Option<String>,
    /// Compacted topic that holds this sink's cursor; made when missing. Default
    /// `headwater.cursor.PIPELINE.SINK`.
    #[serde(default)]
    pub cursor_topic: Option<String>,
    /// Make missing topics with these settings. Default: leave it to the broker.
    #[serde(default)]
    pub create_topics: Option<CreateTopics>,
    /// Producer compression: none, gzip, snappy, lz4 or zstd. Default lz4.
    #[serde(default)]
    pub compression: Compression,
    /// Largest message, bytes; a larger one parks its key. Match it with the topics'
    /// `max.message.bytes`. Default 1048576.
    #[serde(default = "message_bytes_default")]
    pub message_bytes_max: u32,
    /// Producer queue, KiB, 1024 to 1048576. Default 16384.
    #[serde(default = "queue_default")]
    pub queue_kib: u32,
    /// How long one flush may take before the sink starts over, seconds. Default 60.
    #[serde(default = "timeout_default")]
    pub timeout_s: u32,
    /// Further librdkafka properties, as they are; those that the sink sets itself are refused.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

fn topic_default() -> String {
    "{database}.{table}".into()
}

fn message_bytes_default() -> u32 {
    1 << 20
}

fn queue_default() -> u32 {
    16_384
}

fn timeout_default() -> u32 {
    60
}

/// Which rows share a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartitionBy {
    /// Rows with the same key (the primary key, else the first unique NOT NULL key, else the whole
    /// row). A change of the key goes out as a delete of the old and an insert of the new key.
    #[default]
    PrimaryKey,
    /// All rows of a table.
    Table,
    /// Everything to partition 0: the order of all.
    First,
    /// Rows with the same values in these columns.
    Columns(Vec<String>),
}

/// See [`KafkaConfig::keyless`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keyless {
    /// The whole row is the key.
    #[default]
    Spread,
    /// Partition 0. A change of a row is then one UPDATE.
    First,
}

/// See [`KafkaConfig::partition_hash`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartitionHash {
    /// murmur2.
    #[default]
    Kafka,
    /// `String.hashCode`.
    Java,
}

/// See [`KafkaConfig::on_partition_change`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnPartitionChange {
    /// The tables of the topic are set aside.
    #[default]
    Park,
    /// Keys go to where their hash now says.
    Rehash,
}

/// See [`KafkaConfig::ddl_partitions`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DdlPartitions {
    /// Partition 0.
    #[default]
    First,
    /// Every partition, so that each consumer sees it among its rows.
    All,
}

/// The record's key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyConfig {
    /// The key columns' texts joined by `^`, or the format's own form of them.
    #[default]
    PrimaryKey,
    /// No key, as Canal does.
    None,
}

/// How records become durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// Batches are Kafka transactions that also hold the cursor.
    #[default]
    Transactional,
    /// Ordered and without duplicates while the process lives.
    Idempotent,
}

/// Settings of topics that are made.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTopics {
    /// Partitions. Default 4.
    #[serde(default = "partitions_default")]
    pub partitions: i32,
    /// Replicas. Default: the broker's default.
    #[serde(default)]
    pub replication: Option<i32>,
    /// Topic settings such as `retention.ms`.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

fn partitions_default() -> i32 {
    4
}

/// Producer compression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// None.
    None,
    /// gzip.
    Gzip,
    /// snappy.
    Snappy,
    /// lz4.
    #[default]
    Lz4,
    /// zstd.
    Zstd,
}

impl Compression {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}
