//! The copy of the rows that exist, made while the log is read, without locks.
//!
//! Owns: key ranges and their states, what is held of a range in flight, the merge of both, the
//! workers that read. Refuses: decoding the log (`capture` asks it through a [`crate::capture::Gate`]).
//!
//! The rules (why each is needed was measured, see the design's "Snapshot and stream"):
//! a chunk *opens in the reader first*, at the set R of what has been read; from there its events are
//! held. The SELECT starts once the server has committed all of R. H is where the log ends after the
//! SELECT. At the first transaction boundary at or after H, the held last images are laid over the
//! rows that were read, and chunk and done-record become one transaction.
//!
//! Read next: `table.rs` (ranges), `coordinator.rs` (the life of a chunk), `gate.rs` (what is held), `worker.rs` (the SELECTs).

mod coordinator;
mod gate;
mod key;
mod table;
mod worker;

pub use coordinator::Snapshot;
pub use table::stage as copy_stage;
