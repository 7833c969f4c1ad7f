//! What only a source of CQL has: types that nest, columns that say what they are in the key, values of its own, and when
//! each cell was written and expires.
//!
//! Shape: a table of CQL is one whose columns are [`crate::ColumnType::Cql`]; [`crate::TableSchema::is_cql`] tells. A row of
//! it is an image like any other. Three facts are of CQL alone:
//!
//! - *Static rows.* A partition's static columns are a record of their own, with [`crate::batch::FLAG_STATIC`] and the hash
//!   of the partition key. Its images hold the partition key and the static columns; the others are
//!   [outside](crate::ImageWriter::outside) of it, as static columns are outside of a row's record. One mutation of both
//!   is two records, the static one first.
//! - *Expiry.* What a time to live ended is an ordinary delete or update with [`crate::batch::FLAG_EXPIRED`].
//! - *Times.* A row, a cell and an element of a collection may each have [`Times`].
//!
//! A range or partition delete is a delete of each row, in clustering order, and one of the static row; a batch is its
//! rows' records in order. Neither leaves a mark of its own.
//!
//! **To add a type:** its variant and tag in `kind`, its arm in `stream`'s `cql`, its row in
//! `docs/reference/stream-types.md`.

mod kind;
mod times;
mod value;

pub use kind::{CqlType, UserType};
pub use times::Times;
pub use value::{CqlValue, Nested, NestedCells, clock_digits, put_text};

pub(crate) use value::{put, put_head, put_times, read};

/// How deep a value may nest, so that bytes from outside cannot exhaust the stack.
///
/// Keyspaces allows 8 levels; 32 still decode in AWS's SDK for Rust, which stops at 128 levels of JSON and spends three on
/// each.
pub const DEPTH_MAX: u32 = 32;

/// What a column is in its table.
///
/// Source: `kind` and `clustering_order` of `system_schema.columns`; the order within a kind is that of
/// [`crate::TableSchema::primary_key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CqlRole {
    /// Part of the partition key.
    Partition,
    /// A clustering column.
    Clustering {
        /// `CLUSTERING ORDER BY … DESC`.
        descending: bool,
    },
    /// One value per partition.
    Static,
    /// Any other.
    Regular,
}

/// A column of a table of CQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlColumn {
    /// What it is in its table.
    pub role: CqlRole,
    /// Its type.
    pub kind: CqlType,
}

impl CqlRole {
    /// Its number in stored form.
    pub(crate) fn number(self) -> u32 {
        match self {
            CqlRole::Partition => 1,
            CqlRole::Clustering { descending: false } => 2,
            CqlRole::Clustering { descending: true } => 3,
            CqlRole::Static => 4,
            CqlRole::Regular => 5,
        }
    }

    /// What [`CqlRole::number`] stands for.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        [
            CqlRole::Partition,
            CqlRole::Clustering { descending: false },
            CqlRole::Clustering { descending: true },
            CqlRole::Static,
            CqlRole::Regular,
        ]
        .into_iter()
        .find(|role| role.number() == number)
    }
}
