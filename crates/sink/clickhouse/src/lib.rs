//! Changes into ClickHouse, so that a plain SELECT equals the source.
//!
//! Owns: the connection, the tables and views of the target and how they change, how values become
//! RowBinary, inserts and their watermark, folding, the cursor in the target. Refuses: formats (there is
//! none), and retries across flushes (the caller's).
//!
//! Two modes. `sign_version`: every change is a row with `_sign` and `_version`, read with FINAL. `mvcc`:
//! a base table of plain rows, a delta of what is newer, a view over both that shows a transaction in all
//! tables at once, and a thread that folds the delta into the base.
//!
//! One flush is, in this order: rows into deltas (nobody sees them: their versions are above the
//! watermark), then one row with the cursor and the watermark (everybody sees them).
//!
//! Read next: [`ClickHouseSink`], then `layout.rs` (what the tables are), `fold.rs` (how changes move),
//! `structure` (how statements are followed), `encode.rs` (how values are checked and written). To add
//! a type: `type_map.rs`, `target_type.rs`, `encode.rs`, `added_column.rs`.
#![warn(missing_docs)]

pub mod config;

mod added_column;
mod alter;
mod check;
mod client;
mod encode;
mod error;
mod fold;
mod layout;
mod lookup;
mod names;
mod server;
mod sink;
mod standing;
mod state;
mod statement;
mod structure;
mod table;
mod target_type;
mod type_map;

pub use check::{Finding, check};
pub use config::ClickHouseConfig;
pub use sink::{ClickHouseSink, Identity};
pub use type_map::page as type_page;
