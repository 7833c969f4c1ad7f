//! Changes into Apache RocketMQ: at least once, in the order of each key, with stable ids.
//!
//! Owns: topics and queues, the cursor topic, batches in order, and the sorting of refusals into "this
//! record", "this table" and "this broker"; the connection is `rocketmq-client`'s. Refuses: formats (an
//! encoder is given) and retries across flushes (the caller's).
//!
//! The client is asynchronous and runs on threads of its own inside the sink; the sink's callers are
//! not.
//!
//! Read next: [`RocketMqSink`], then [`config`], then `lane` (how order is kept).
#![warn(missing_docs)]

pub mod config;

mod check;
mod cursor;
mod error;
mod lane;
mod message;
mod queue;
mod route;
mod sink;
mod template;
mod topics;

pub use config::RocketMqConfig;
pub use sink::{Identity, RocketMqSink};

/// Connects and describes the brokers and the topics that would be written to.
///
/// Shape: `topics` are names as the template gives them for the captured tables.
/// Errors: `Unavailable` or `Invalid` with the place and the fix.
pub fn check(config: &RocketMqConfig, topics: &[String]) -> Result<Vec<String>, change::SinkError> {
    check::check(config, topics)
}

/// The topic that a table's rows go to.
///
/// Errors: `Invalid` for a template with an unknown placeholder.
pub fn topic_of(
    config: &RocketMqConfig,
    database: &str,
    table: &str,
) -> Result<String, change::SinkError> {
    Ok(route::TopicNames::new(config)?.of(database, table))
}
