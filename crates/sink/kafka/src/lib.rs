//! Changes into Apache Kafka: transactional by default, with the cursor in the same transaction.
//!
//! Owns: the connection and its security, topics and partitions, the cursor topic, and the sorting of
//! refusals into "this record", "this table" and "this broker". Refuses: formats (an encoder is given)
//! and retries across flushes (the caller's).
//!
//! Read next: [`KafkaSink`], then [`config`].
#![warn(missing_docs)]

pub mod config;

mod client;
mod cursor;
mod error;
mod partition;
mod reader;
mod route;
mod sink;
mod template;
mod undecided;

pub use config::KafkaConfig;
pub use reader::CommittedReader;
pub use sink::{Identity, KafkaSink};

/// Connects and describes the broker and the topics that would be written to.
///
/// Shape: `topics` are names as the template gives them for the captured tables.
/// Errors: `Unavailable` or `Invalid` with the place and the fix.
pub fn check(config: &KafkaConfig, topics: &[String]) -> Result<Vec<String>, change::SinkError> {
    client::check(config, topics)
}

/// The topic that a table's rows go to.
///
/// Errors: `Invalid` for a template with an unknown placeholder.
pub fn topic_of(
    config: &KafkaConfig,
    database: &str,
    table: &str,
) -> Result<String, change::SinkError> {
    Ok(route::Topics::new(config)?.of(database, table))
}
