//! Joins one source, one journal and many sinks.
//!
//! Owns: the config, the capture thread (source → journal), one delivery thread a sink (journal →
//! sink), parking and healing, the local control socket, status, metrics and health. Refuses: how a
//! source reads or a sink writes; those are theirs.
//!
//! Read next: [`run`] for what starts when, [`capture`] and [`delivery`] for the two loops.
//!
//! Recipe, to add a sink: its crate with a [`change::Sink`], its settings in [`config::SinkConfig`], an
//! arm in `assemble.rs`.
#![warn(missing_docs)]

pub mod api;
pub mod assemble;
pub mod capture;
pub mod clock;
pub mod config;
pub mod control;
pub mod delivery;
pub mod event_reader;
pub mod key_groups;
pub mod metrics;
pub mod parking;
pub mod pattern;
pub mod recover;
pub mod run;
pub mod seek;
pub mod spool;
pub mod status;
pub mod streams;
pub mod tail;

pub use run::{RunError, RunOptions, Running, Trouble};
