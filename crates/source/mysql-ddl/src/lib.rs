//! The schema history of MySQL and MariaDB: what each table looks like at the place reached in the
//! log.
//!
//! Owns: a lexer and a basic grammar for CREATE, ALTER, RENAME, DROP and TRUNCATE, and the
//! [`Catalog`] that statements advance. Refuses: I/O, and decoding rows (a table map decides that).
//!
//! A statement on a table that cannot be read is an error for that table alone; statements of other
//! kinds are passed by. Read next: `catalog.rs`, then `statement.rs`.
//!
//! Recipe, to add an ALTER action: parse it in `alter.rs` into an `AlterAction`, apply it in
//! `apply.rs`, and add the statement with its outcome to `tests/statements.rs`.
#![warn(missing_docs)]

mod alter;
mod apply;
mod catalog;
mod column;
mod column_type;
mod lexer;
mod statement;

pub use catalog::{Catalog, CatalogOptions, Effect, Session};

/// A statement that the grammar cannot read, or that does not fit the catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read statement at byte {offset}: {what}")]
pub struct DdlError {
    /// Byte offset in the statement.
    pub offset: usize,
    /// What was expected, or what does not fit.
    pub what: String,
    /// The table it is about, as `database.table`, where that much could be read.
    pub table: Option<(String, String)>,
}

/// SQL mode bit ANSI_QUOTES: `"` quotes names.
pub const MODE_ANSI_QUOTES: u64 = 4;
/// SQL mode bit NO_BACKSLASH_ESCAPES.
pub const MODE_NO_BACKSLASH_ESCAPES: u64 = 1 << 20;
/// SQL mode bit REAL_AS_FLOAT.
pub const MODE_REAL_AS_FLOAT: u64 = 1;
