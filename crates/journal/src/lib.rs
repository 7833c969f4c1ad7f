//! The durable, totally ordered log of one source.
//!
//! **Owns:** segments on disk and their format, group commit, sealing and data keys, recovery, the index of each
//! segment, readers (also of the tail in memory), cursors, retention and the disk limit, and the control state:
//! a small ordered map whose changes are records in the same order as the data.
//!
//! **Refuses:** to know a row. It stores bytes under a [`RecordDescriptor`]; what the bytes mean is the caller's.
//! It knows no source, no sink, no async runtime and no serialisation library. It never shows a reader anything
//! that a crash could take back, and it never guesses about damage: it names the file and the offset and stops.
//!
//! ```text
//! caller thread            seal thread              write thread                readers
//! Writer::record ──frame──▶ compress, seal ──────▶ write, one fdatasync ──end──▶ Reader::next
//!        ▲                      │                       │    per drained queue
//!        └──── eight recycled buffers on each way ──────┘
//! ```
//!
//! **Where to read next:** [`mod@format`] describes every byte on disk. [`Writer`] and [`Reader`] are the two ways
//! in and out; [`Journal`] is the handle that everybody shares. `recovery` decides between a torn tail and
//! damage. [`Log`] is the contract that a journal on many machines will be built on.
//!
//! ```no_run
//! # use journal::{Commit, Options, FileKeys, ReadOptions, TransactionStart};
//! # fn main() -> Result<(), journal::Error> {
//! let keys = FileKeys::open_or_create("shop.keys".as_ref())?;
//! let (journal, mut writer) = journal::open(Options::new("shop", std::sync::Arc::new(keys)))?;
//! writer.begin(TransactionStart { header: b"gtid 1", snapshot: false })?;
//! let commit = writer.commit(Commit { trailer: b"", position: b"1", time_us: 0, rows: 0 })?;
//! writer.flush()?;
//! journal.wait(commit, std::time::Duration::from_secs(1));
//! let mut reader = journal.reader(ReadOptions::from(journal.first()))?;
//! while let Some(frame) = reader.next()? {
//!     for item in frame.items() { let _ = item; }
//! }
//! # Ok(()) }
//! ```
//!
//! **To add a key service:** implement [`KeyProvider`], or [`KmsClient`] for one of KMS's shape; nothing else knows where keys come from.
//! **To add a field to a header:** take it from the zero bytes, document it in [`mod@format`], raise the version there, and
//! keep reading the old one. **To add an entry to the spine:** the next tag in `spine`, and an arm in `view`.
#![warn(missing_docs)]

mod checkpoint;
mod clock;
mod control;
mod cursor;
mod error;
pub mod format;
mod frame;
mod fs;
mod id;
mod index;
mod item;
mod journal;
mod keys;
mod kms;
mod log;
mod options;
mod reader;
mod recovery;
mod retention;
mod seal;
mod sealer;
mod seek;
mod segment;
mod spine;
mod spool;
mod state;
mod storer;
mod tail;
mod usage;
mod view;
mod wire;
mod writer;

pub use clock::{Clock, SystemClock};
pub use control::{ControlEntry, ControlState};
pub use cursor::{Cursor, CursorReport, LostRange, OnFull};
pub use error::{Error, ErrorKind};
pub use fs::{Fs, FsFile, FsLock, RealFs};
pub use id::{JournalId, KeyGroupId, SchemaId, Sequence, TableId};
pub use item::{Body, Commit, Item, RecordDescriptor, TransactionStart};
pub use journal::{Journal, LastCommit, open, open_read_only};
pub use keys::{DataKey, FileKeys, KeyError, KeyProvider};
pub use kms::{EncryptionContext, KmsClient, KmsKeys};
pub use log::{Epoch, LocalLog, Log, LogEntry, LogFrame, MemoryLog};
pub use options::{Compression, Options};
pub use reader::{ReadOptions, Reader};
pub use spool::{Spool, SpoolReader, SpoolWriter};
pub use usage::{Capacity, Metrics, Retained, Usage};
pub use view::{FrameView, Items};
pub use writer::Writer;

/// What the calls of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
