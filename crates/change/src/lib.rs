//! What happened to a row: the vocabulary every other room speaks.
//!
//! Owns: values in a source's exact form ([`value`]), row images ([`image`]), table schemas
//! ([`schema`]), what only a source of CQL has ([`cql`]), text in other charsets ([`charset`]),
//! transactions ([`transaction`]), positions in a source's log ([`position`], [`gtid`]), the batch a
//! source fills ([`batch`]), the events a sink reads ([`event`]) and the two contracts ([`contract`];
//! [`spool`] for what has to wait).
//!
//! Refuses: I/O, sockets, serde, async, any database's client. Values only.
//!
//! Read next: [`batch`] for how a source writes, [`event`] for how a sink reads.
//!
//! Recipe, to add a kind of value: a variant in [`value::Value`], its tag beside it, its
//! text in every format's value file, a golden vector in each source that has the type.
#![warn(missing_docs)]

pub mod batch;
pub mod charset;
pub mod contract;
pub mod cql;
pub mod ddl;
pub mod event;
pub mod glob;
pub mod gtid;
pub mod image;
pub mod position;
pub mod schema;
pub mod spool;
pub mod temporal;
pub mod transaction;
pub mod value;
pub mod wire;

pub use batch::{Batch, Entry, Operation, RowMeta};
pub use contract::{CopyMark, CopyStage, Cursor, Progress, Sink, SinkError, Source, SourceError};
pub use cql::{CqlColumn, CqlRole, CqlType, CqlValue, Times};
pub use ddl::{Ddl, DdlKind};
pub use event::{Event, RowChange};
pub use gtid::{Gtid, GtidSet, MariadbGtid, MariadbGtidSet};
pub use image::{Image, ImageWriter};
pub use position::{Position, PositionStep};
pub use schema::{Column, ColumnType, SchemaVersion, TableId, TableSchema, UniqueKey};
pub use transaction::{TransactionHeader, TransactionTrailer};
pub use value::{Cell, Value};
