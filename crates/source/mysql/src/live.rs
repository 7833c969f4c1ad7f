//! The live source: a server's log, read for ever.
//!
//! Owns: connecting, going on after a fault, who the server is, lag. Refuses: decoding (`capture`).
//!
//! Read next: `source.rs`, then `server.rs`.

pub mod check;
mod head;
mod lost;
mod oracle;
pub mod server;
mod source;

pub use check::{CheckItem, CheckLevel, Checked, check};
pub use source::MysqlSource;
