//! The connection to Apache RocketMQ: what every client of it needs, whether it writes or reads.
//!
//! Owns: the client's runtime and threads, encryption and authentication, topics and queues, reading
//! queues from offsets that the caller keeps, which errors of a connection are the config's. Refuses:
//! formats, cursors, offsets of consumer groups, and retries of what is sent.
//!
//! The client is asynchronous; its callers need not be: they wait for what they ask, and take what was
//! read from a bounded buffer.
//!
//! Read next: [`Client`], then [`Reader`].
#![warn(missing_docs)]
// Types of the client nest deep in the tasks that pull.
#![recursion_limit = "512"]

mod client;
mod inflate;
mod reader;
mod security;
mod verdict;

pub use change::contract::Refused;
pub use client::{Client, Connection, Found};
pub use reader::{Arrival, End, Message, Place, Reader, Standing, Trouble};
pub use rocketmq_client_rust::ClientError;
pub use rocketmq_model::message::MessageQueue;
pub use security::Security;
pub use verdict::{Failed, Refusal, failed, refusal, words};
