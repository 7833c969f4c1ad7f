//! Change messages that another capture tool wrote to Kafka or RocketMQ, as a source: Canal, SharePlex,
//! Debezium, Alibaba DTS.
//!
//! A topic has parts, each with its own order and offsets: partitions of Kafka, message queues of
//! RocketMQ. RocketMQ's client is heavy: it is there with the feature `rocketmq`.
//!
//! Owns: parts of topics and their offsets, what messages mean, where transactions begin and end, schemas out
//! of messages, messages that cannot be read. Refuses: group offsets (the journal is the only memory) and
//! guesses about what a message does not tell.
//!
//! Control keys: `source/topic/<topic>/<part>` the next offset, in the transaction of the rows before it,
//! where the part is a partition's number or `<broker>/<queue>`; `source/identity` the cluster; `source/parked/<topic>` messages that were set aside;
//! `source/altered/<table>` a statement changed the table since its last whole row;
//! `schema/<table>/<version>`.
//!
//! Read next: [`TopicConfig`], [`TopicSource`], then `link.rs` and `capture.rs`.
//!
//! Recipe, to read another format: a decoder in `format`; what its types are worth in `capture/rows.rs`.
//! To read another kind of broker: a `Link`.
#![warn(missing_docs)]

pub mod config;

mod capture;
mod controls;
mod error;
mod lag;
mod link;
mod partition;
mod resume;
mod selection;
mod source;
mod tables;

pub use config::TopicConfig;
pub use resume::Resume;
pub use source::{TopicSource, check};
