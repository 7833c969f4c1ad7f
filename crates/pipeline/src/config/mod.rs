//! One YAML file describes a pipeline: one source, its journal, what reads it.
//!
//! Only `source` is required. Text may hold `${NAME}` (an environment variable) and `${file:PATH}`
//! (a file's content without its last line break). Unknown keys are errors.

mod api;
mod load;
mod streams;
mod units;

pub use api::ApiConfig;
pub use load::{ConfigError, load, parse};
pub use streams::{ShardsConfig, StreamConfig, ViewConfig};
pub use units::{Bytes, Span};

use format::settings::{FormatName, FormatOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// A pipeline.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where changes come from.
    pub source: SourceConfig,
    /// Where they are kept. Every key has a default.
    #[serde(default)]
    pub journal: JournalConfig,
    /// Change streams that are to be there. Default: none; commands and the API make them too.
    #[serde(default)]
    pub streams: Vec<StreamConfig>,
    /// The stream API. Default: off.
    #[serde(default)]
    pub api: Option<ApiConfig>,
    /// Where they go. Default: nowhere; `tail` and later sinks read the journal.
    #[serde(default)]
    pub sinks: Vec<SinkConfig>,
    /// Metrics and health over HTTP. Default: off.
    #[serde(default)]
    pub metrics: Option<MetricsConfig>,
    /// How long a stop waits for sinks to deliver what was captured. Default 30s.
    #[serde(default = "drain_default")]
    pub drain_timeout: Span,
}

fn drain_default() -> Span {
    Span(Duration::from_secs(30))
}

/// The source; exactly one kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceConfig {
    /// MySQL 8.0 to 9.x.
    Mysql(source_mysql::config::MysqlConfig),
    /// MariaDB 10.5 and later.
    Mariadb(source_mysql::config::MysqlConfig),
    /// Recorded binlog files.
    Recorded(source_recorded::RecordedConfig),
    /// Messages of another capture tool in topics of Kafka or RocketMQ.
    Topic(Box<source_topic::TopicConfig>),
}

/// The journal.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JournalConfig {
    /// Its directory. Default: the config file's name with `.journal`, beside the config file.
    pub dir: Option<PathBuf>,
    /// How long changes are kept after every sink has passed them. Default 24h.
    pub retention: Span,
    /// Most bytes on disk. At the limit: consumed segments go first, then sinks with `on_full: detach`
    /// lose their place, then capture pauses; nothing is dropped silently. Default: no limit.
    pub disk_max: Option<Bytes>,
    /// Size at which a new segment file is begun. Default 128MiB, 1MiB to 1GiB.
    pub segment_size: Bytes,
    /// Block compression. Default lz4.
    pub compression: CompressionConfig,
    /// Encryption at rest; always on.
    pub encryption: EncryptionConfig,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            dir: None,
            retention: Span(Duration::from_secs(24 * 3600)),
            disk_max: None,
            segment_size: Bytes(128 << 20),
            compression: CompressionConfig::default(),
            encryption: EncryptionConfig::default(),
        }
    }
}

/// How blocks are compressed before they are sealed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompressionConfig {
    /// Fast.
    #[default]
    Lz4,
    /// Smaller, about twice the CPU.
    Zstd,
    /// None.
    None,
}

/// Encryption at rest.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EncryptionConfig {
    /// The file with the key-encryption keys; made with mode 0600 for a new journal. Default: the
    /// journal directory's name with `.key`, beside it: `shop.key` for `shop.journal`.
    pub key_file: Option<PathBuf>,
    /// Tables whose rows are sealed with a key of their own (`shop.customers`, `shop.*`): one key for each
    /// table, made in the key file. `headwater keys` rotates and erases them. A table that is captured
    /// already keeps the default key for what is in the journal. Default: none.
    pub table_keys: Vec<String>,
}

/// One sink; exactly one of `kafka`, `rocketmq`, `clickhouse`, `file`, `stdout`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SinkConfig {
    /// Its name in commands, status and metrics. Letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Apache Kafka.
    #[serde(default)]
    pub kafka: Option<sink_kafka::KafkaConfig>,
    /// Apache RocketMQ (in builds with the feature `full`).
    #[cfg(feature = "rocketmq")]
    #[serde(default)]
    pub rocketmq: Option<sink_rocketmq::RocketMqConfig>,
    /// ClickHouse.
    #[serde(default)]
    pub clickhouse: Option<Box<sink_clickhouse::ClickHouseConfig>>,
    /// A file.
    #[serde(default)]
    pub file: Option<FileConfig>,
    /// Standard output.
    #[serde(default)]
    pub stdout: Option<StdoutConfig>,
    /// Only these tables (`shop.*`, `!shop.tmp_*`). Default: all that are captured.
    #[serde(default)]
    pub tables: Vec<String>,
    /// What gives way when the journal is full and only this sink still needs its oldest part:
    /// `pause` stops capture, `detach` gives up the sink's place. Default pause.
    #[serde(default)]
    pub on_full: OnFullConfig,
    /// Where a sink without a cursor begins: `earliest` or `now`. Default earliest.
    #[serde(default)]
    pub start: StartConfig,
    /// Bytes after which a batch is made durable; for Kafka at least 8MiB, for ClickHouse at least 32MiB.
    /// Default 1MiB.
    #[serde(default = "batch_default")]
    pub batch_size: Bytes,
    /// Time after which a batch is made durable. Default 20ms for Kafka, 200ms for ClickHouse,
    /// 100ms for files.
    #[serde(default)]
    pub batch_delay: Option<Span>,
    /// Keys of one table that may be parked before the whole table is. Default 1000.
    #[serde(default = "parked_default")]
    pub parked_keys_max: usize,
}

impl SinkConfig {
    /// Whether it is a RocketMQ sink.
    pub fn is_rocketmq(&self) -> bool {
        #[cfg(feature = "rocketmq")]
        return self.rocketmq.is_some();
        #[cfg(not(feature = "rocketmq"))]
        false
    }
}

fn batch_default() -> Bytes {
    Bytes(1 << 20)
}

fn parked_default() -> usize {
    1000
}

/// See [`SinkConfig::on_full`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFullConfig {
    /// Capture pauses.
    #[default]
    Pause,
    /// The sink loses its place; `heal TABLE --resnapshot` brings its tables back.
    Detach,
}

/// See [`SinkConfig::start`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StartConfig {
    /// The oldest change that the journal holds.
    #[default]
    Earliest,
    /// Only what comes from now on.
    Now,
}

/// A file sink.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileConfig {
    /// The file. With rotation the files are `PATH.000001`, `PATH.000002`, ….
    pub path: PathBuf,
    /// The messages' format. Default canal-json.
    #[serde(default)]
    pub format: FormatName,
    /// The format's own settings.
    #[serde(default)]
    pub format_options: FormatOptions,
    /// Size after which a new file is begun. Default: never.
    #[serde(default)]
    pub rotate_size: Option<Bytes>,
    /// When the file is made durable: `flush` (before the cursor moves) or `never`. Default flush.
    #[serde(default)]
    pub fsync: FsyncConfig,
}

/// See [`FileConfig::fsync`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FsyncConfig {
    /// At every flush.
    #[default]
    Flush,
    /// Left to the operating system.
    Never,
}

/// Standard output.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StdoutConfig {
    /// The messages' format. Default canal-json.
    pub format: FormatName,
    /// The format's own settings.
    pub format_options: FormatOptions,
}

/// Metrics and health.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsConfig {
    /// Address of `/metrics`, `/healthz` and `/readyz`. Default 127.0.0.1:9410.
    #[serde(default = "metrics_default")]
    pub listen: String,
    /// `/readyz` answers 200 once the lag of the source and of every sink is below this. Default 30s.
    #[serde(default = "ready_default")]
    pub ready_lag: Span,
}

fn metrics_default() -> String {
    "127.0.0.1:9410".into()
}

fn ready_default() -> Span {
    Span(Duration::from_secs(30))
}

/// The JSON Schema of the config, for editors.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(Config);
    serde_json::to_string_pretty(&schema).expect("a JSON Schema is JSON")
}
