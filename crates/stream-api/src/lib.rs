//! Change streams over HTTP, as Amazon Keyspaces serves them: any AWS SDK is a client.
//!
//! **Owns:** the operations of `keyspacesstreams`, the subset of `keyspaces` that has to do with streams, the metrics half
//! of `cloudwatch`; their encodings (AWS JSON 1.0, RPC v2 CBOR), errors and request ids; signatures, access keys and
//! policies; iterators and page tokens; throttling; the audit trail; the CQL door; listeners and TLS.
//!
//! **Refuses:** to know what a stream is: [`stream::Streams`] does. It keeps no state of its own besides counts; the API,
//! CQL, the command line and the config all change the same streams.
//!
//! ```text
//!  socket ─▶ server ─▶ Api::answer ─▶ signature ─▶ route ─▶ operations ─▶ policy, throttle ─▶ Streams
//!                                                              │
//!                                                              └─▶ record_json ─▶ answer · metrics · audit
//! ```
//!
//! **Where to read next:** [`api`] for a call's way, [`mod@operations`] for what there is, [`server`] for the sockets.
//!
//! **To add an operation:** see [`mod@operations`].
#![warn(missing_docs)]

pub mod api;
pub mod audit;
pub mod call;
mod cbor;
pub mod cql;
pub mod error;
mod guests;
pub mod keys;
pub mod metrics;
pub mod operations;
mod patience;
pub mod policy;
pub mod record_json;
mod refusals;
pub mod seal;
pub mod server;
pub mod settings;
pub mod signature;
pub mod throttle;
mod time;
mod tls;
mod tokens;
pub mod wire;

pub use api::{Api, ApiParts};
pub use audit::Audit;
pub use call::LocalUser;
pub use keys::{KeyFile, Keys};
pub use seal::Sealer;
pub use server::Server;
pub use settings::ApiConfig;
