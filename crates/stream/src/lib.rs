//! Change streams: durable, sharded views on one journal. No HTTP.
//!
//! **Owns:** which table has a stream and in which state, shards and their lineage, ARNs, labels and shard ids, what a
//! record shows (view types, keys, origin, typed cells), where reading begins and ends, the 24 hours, and when a shard
//! is split or merged.
//!
//! **Refuses:** to copy a row: a stream is (table, first sequence), a shard a range of the key's hash, and both are
//! entries of the journal's control state, in the same order as the data. It knows no HTTP, no JSON, no signature and
//! no permission; it opens no thread.
//!
//! ```text
//!  capture thread                       journal                       any thread
//!  StreamWriter::serve ──control────▶  stream/…  ◀──(as of end())──  Streams: list, describe, shards
//!  StreamWriter::observe (load)        frames    ◀─────────────────  Streams: locate, read ──▶ Page ──▶ RecordView
//!         ▲                                                            │
//!         └────────────── commands (enable, split, tag, …) ────────────┘
//! ```
//!
//! **Where to read next:** [`Streams`] is the handle; [`RecordView`] and [`CellValue`] are what an encoder renders;
//! [`StreamWriter`] is the half that the capture thread owns. [`mod@columns`] says how a column becomes a CQL type.
//!
//! **To add a type:** its variant in [`CellValue`], its arm in `columns` (of CQL: in `cql`), its row in `docs/reference/stream-types.md`.
#![warn(missing_docs)]

pub mod arn;
pub mod cell;
pub mod columns;
mod cql;
mod entry;
mod error;
mod handle;
mod info;
mod load;
pub mod name;
mod page;
mod read;
mod record;
mod registry;
mod shard;
mod writer;

pub use arn::{Arn, Identity, Label};
pub use cell::{CellValue, CellView, Elements, Entries, Entry, Fields, Integer, Metadata};
pub use error::{Error, ErrorKind};
pub use handle::{ReadFrom, ReadLimits, Start, Streams, StreamsOptions};
pub use info::{
    EnableStream, KeyspaceInfo, Resource, StreamInfo, StreamPage, StreamReport, StreamStatus,
    TableInfo, TablePage, TableStatus, Tag, Tags,
};
pub use load::ShardLimits;
pub use page::Page;
pub use record::{NamedCell, Origin, RecordOperation, RecordView, RowView, ViewType};
pub use shard::{ShardId, ShardInfo, ShardPage};
pub use writer::{SourceFacts, StreamWriter};

pub use change::{Column, CqlRole, TableSchema};
pub use journal::Sequence;

/// What the calls of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
