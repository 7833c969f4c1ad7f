//! The binary log: from an event's bytes to values, without copying or allocating per row.
//!
//! Owns: every event type and column type of MySQL 5.6 to 9 and MariaDB 10 to 12. Refuses: sockets,
//! files, the order of events (that is `capture`).
//!
//! Read next: [`header`], then [`table_map`], [`plan`] and [`rows`].
//!
//! Recipe, to add a column type: its number in [`table_map::wire`], its bytes in [`cell`], its place
//! in [`plan`], a line in the golden vectors.

pub mod bytes;
pub mod cell;
pub mod charset;
pub mod control;
pub mod gtid;
pub mod header;
pub mod inflate;
pub mod json;
pub mod json_diff;
pub mod mask;
pub mod number;
pub mod plan;
pub mod query;
pub mod rows;
pub mod table_map;
pub mod temporal;
