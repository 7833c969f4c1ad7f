//! Settings of a topic source.

use crate::error::invalid;
use change::SourceError;
use format::decode::Decoder;
use format::settings::{FormatName, FormatOptions};
use kafka_client::{Connection, Security};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Topics with the change messages of another capture tool, in Kafka or in RocketMQ: exactly one of
/// `kafka` and `rocketmq`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicConfig {
    /// The brokers of Kafka.
    #[serde(default)]
    pub kafka: Option<BrokersConfig>,
    /// The name servers of RocketMQ (in builds with the feature `full`).
    #[cfg(feature = "rocketmq")]
    #[serde(default)]
    pub rocketmq: Option<NameServersConfig>,
    /// Names of the topics. At least one.
    pub topics: Vec<String>,
    /// The messages' format. Default canal-json.
    #[serde(default)]
    pub format: FormatName,
    /// The format's own settings, as the producer of the messages has them.
    #[serde(default)]
    pub format_options: FormatOptions,
    /// Where a topic begins that the journal does not know yet: `earliest` or `latest`. A partition that
    /// is added later begins with its first message. Default earliest.
    #[serde(default)]
    pub start: Start,
    /// What a message that cannot be read does: `park` (it is journaled as it came, the status names it,
    /// the next message follows) or `stop`. Default park.
    #[serde(default)]
    pub on_bad_message: OnBadMessage,
    /// Patterns `database.table`, with `*` and `?`; `!` in front excludes. Default: every table.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Key columns of tables whose messages do not tell them, `shop.orders: [id]`. Default: none.
    #[serde(default)]
    pub keys: BTreeMap<String, Vec<String>>,
}

/// Where the brokers are and how they are spoken to.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BrokersConfig {
    /// Bootstrap brokers, `host:port`.
    pub brokers: Vec<String>,
    /// Encryption and authentication. Default: plain text without authentication.
    #[serde(default)]
    pub security: Security,
    /// Consumer group to name to the brokers, where they ask for one (change tracking of Alibaba DTS). No
    /// offsets are kept in it. Default `headwater`.
    #[serde(default)]
    pub group: Option<String>,
    /// Further librdkafka properties, as they are; those that the source sets itself are refused.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// Where RocketMQ's name servers are and how they and the brokers are spoken to.
#[cfg(feature = "rocketmq")]
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameServersConfig {
    /// Name servers, `host:port`.
    #[serde(alias = "namesrv")]
    pub name_servers: Vec<String>,
    /// Encryption and authentication. Default: plain text without authentication.
    #[serde(default)]
    pub security: rocketmq_client::Security,
    /// Consumer group to name to the brokers. No offsets are kept in it. Default `headwater`.
    #[serde(default)]
    pub group: Option<String>,
    /// How long one request may take, seconds, 1 to 60. Default 5.
    #[serde(default = "request_timeout_default")]
    pub request_timeout_s: u32,
}

#[cfg(feature = "rocketmq")]
fn request_timeout_default() -> u32 {
    5
}

#[cfg(feature = "rocketmq")]
impl NameServersConfig {
    /// The connection.
    pub(crate) fn connection(&self) -> rocketmq_client::Connection<'_> {
        rocketmq_client::Connection {
            name_servers: &self.name_servers,
            security: &self.security,
            group: self.group.as_deref().unwrap_or("headwater"),
            request_timeout_s: self.request_timeout_s,
            // Nothing is sent.
            message_bytes_max: 4 << 20,
        }
    }
}

/// See [`TopicConfig::start`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// The oldest message that is kept.
    #[default]
    Earliest,
    /// After the last message there is now.
    Latest,
}

/// See [`TopicConfig::on_bad_message`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnBadMessage {
    /// It is set aside and the next one follows.
    #[default]
    Park,
    /// The source ends with an error that names the message.
    Stop,
}

/// Properties that the source sets itself.
const OWNED: [&str; 7] = [
    "group.id",
    "isolation.level",
    "auto.offset.reset",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "partition.assignment.strategy",
    "statistics.interval.ms",
];

impl BrokersConfig {
    /// The connection.
    pub(crate) fn connection(&self) -> Connection<'_> {
        Connection {
            brokers: &self.brokers,
            security: &self.security,
            properties: &self.properties,
            owner: "source",
            owned: &OWNED,
        }
    }
}

impl TopicConfig {
    /// Whether brokers of RocketMQ are named.
    fn has_rocketmq(&self) -> bool {
        #[cfg(feature = "rocketmq")]
        return self.rocketmq.is_some();
        #[cfg(not(feature = "rocketmq"))]
        false
    }

    /// Whether brokers of exactly one kind are named.
    ///
    /// Errors: `Invalid`.
    pub fn check_brokers(&self) -> Result<(), SourceError> {
        match (self.kafka.is_some(), self.has_rocketmq()) {
            (true, false) | (false, true) => Ok(()),
            (false, false) => Err(invalid("no brokers are named", "set kafka or rocketmq")),
            (true, true) => Err(invalid(
                "both kafka and rocketmq are set",
                "a source reads one of them: make a pipeline for each",
            )),
        }
    }

    /// Checks what needs no broker and makes the decoder.
    ///
    /// Errors: `Invalid`.
    pub(crate) fn decoder(&self) -> Result<Box<dyn Decoder>, SourceError> {
        self.check_brokers()?;
        if self.topics.is_empty() {
            return Err(invalid("topics is empty", "name at least one topic"));
        }
        let mut names = self.topics.clone();
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(invalid(format!("topic {} is named twice", pair[0]), ""));
        }
        if let Some(name) = self.keys.keys().find(|name| !name.contains('.')) {
            return Err(invalid(
                format!("`{name}` in keys is not of the form database.table"),
                "",
            ));
        }
        self.format
            .decoder(&self.format_options)
            .map_err(|what| invalid(what, ""))
    }
}
