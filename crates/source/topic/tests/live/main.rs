//! The source on real brokers. They take a while: `cargo test -p source-topic -- --ignored`.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod kafka;
#[cfg(feature = "rocketmq")]
mod rocketmq;
mod support;
