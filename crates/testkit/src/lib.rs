//! The test rooms: real servers, random work on them, and judges that compare what came out with
//! what the source holds.
//!
//! Owns: thin wrappers over the scripts in `servers/` ([`MysqlServer`], [`Kafka`], [`RocketMq`], [`ClickHouse`]) and over
//! the foreign decoders in `judges/` ([`DtsJudge`], [`FlinkJudge`], [`CanalServer`]), the binary as a
//! process ([`Pipeline`]), [`workload`], and [`rebuild`], which turns messages back into tables and
//! checks every key's history. Refuses: anything of Headwater's own code; what is checked here is
//! checked with other people's clients.
//!
//! Read next: `servers/README.md`, then [`rebuild`] for what "lost or doubled nothing" means.

pub mod canal;
pub mod canal_server;
pub mod clickhouse;
pub mod dts;
pub mod faulty_http;
pub mod flink;
mod judge;
pub mod kafka;
pub mod mirror;
pub mod mysql_server;
pub mod oracle;
pub mod pipeline;
pub mod ports;
pub mod rebuild;
pub mod rng;
pub mod rocketmq;
pub mod script;
pub mod sql;
pub mod switch;
pub mod temp;
pub mod topics;
pub mod types;
pub mod workload;

pub use canal_server::CanalServer;
pub use clickhouse::ClickHouse;
pub use dts::DtsJudge;
pub use flink::FlinkJudge;
pub use kafka::Kafka;
pub use mysql_server::{Flavour, MysqlServer};
pub use pipeline::Pipeline;
pub use rocketmq::RocketMq;
pub use switch::Switch;
pub use temp::TempDir;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lets the heavy tests of one binary run one after the other.
pub fn one_at_a_time() -> MutexGuard<'static, ()> {
    static HEAVY: Mutex<()> = Mutex::new(());
    HEAVY.lock().unwrap_or_else(PoisonError::into_inner)
}
