//! Change messages that another capture tool wrote to Kafka, as a source: Canal, SharePlex, Debezium,
//! Alibaba DTS.
//!
//! Owns: partitions and their offsets, what messages mean, where transactions begin and end, schemas out
//! of messages, messages that cannot be read. Refuses: group offsets (the journal is the only memory) and
//! guesses about what a message does not tell.
//!
//! Control keys: `source/topic/<topic>/<partition>` the next offset, in the transaction of the rows before
//! it; `source/identity` the cluster; `source/parked/<topic>` messages that were set aside;
//! `source/altered/<table>` a statement changed the table since its last whole row;
//! `schema/<table>/<version>`.
//!
//! Read next: [`TopicConfig`], [`TopicSource`], then `capture.rs`.
//!
//! Recipe, to read another format: a decoder in `format`; what its types are worth in `capture/rows.rs`.
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
