//! Row changes from MySQL and MariaDB.
//!
//! Owns: the binary log's bytes ([`binlog`]), the order of transactions and the schema history
//! ([`capture`]), the connection ([`wire`]), the lock-free snapshot, and the live source.
//! Refuses: journals, formats and sinks; it fills a [`change::Batch`] and knows nothing to the right.
#![warn(missing_docs)]

pub mod binlog;
pub mod capture;
pub mod config;
pub mod live;
mod snapshot;
pub mod wire;

pub use capture::Resume;
pub use config::MysqlConfig;
pub use live::{CheckItem, CheckLevel, Checked, MysqlSource, check};
pub use snapshot::copy_stage;
