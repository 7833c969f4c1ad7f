//! The connection to a server: one transport for SQL, for the copy and for the log.
//!
//! Owns: packets, TLS, authentication, text and binary results, the binlog dump. Blocking, one thread
//! per connection. Refuses: what the bytes of a log mean.
//!
//! Read next: `transport.rs`, `connection.rs`.

mod auth;
mod binary;
mod connection;
mod dump;
mod error;
mod handshake;
mod tls;
mod transport;

pub use binary::{BinaryColumn, BinaryRow};
pub use connection::{Connection, Row};
pub use dump::{Dump, DumpStart};
pub use error::WireFailure;
