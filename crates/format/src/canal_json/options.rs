//! Settings of Canal JSON.

use schemars::JsonSchema;
use serde::Deserialize;

/// What `ts` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The time at which the message is built, as Canal does.
    #[default]
    Wall,
    /// The commit time of the transaction: the same bytes on every run.
    Commit,
}

/// Whose Canal JSON it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    /// Canal's own flat messages: all fourteen members, `old` with the changed columns.
    #[default]
    OpenSource,
    /// As DTS writes it: no null members, types without precision, `old` with all columns.
    Dts,
}

/// What stands in `data` and `old`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OldData {
    /// `data` is the row after, `old` what was before; a deleted row is in `data`.
    #[default]
    Current,
    /// As DTS instances made before 2022-03-20 write it: an update's `data` is the row before and
    /// its `old` the row after; a deleted row is in `old`.
    #[serde(rename = "before_2022")]
    Before2022,
}

/// The vocabulary of `sqlType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SqlTypeCodes {
    /// `java.sql.Types`.
    #[default]
    Jdbc,
    /// DTS's dataTypeNumber.
    DataTypeNumber,
}

/// How many rows a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// One.
    #[default]
    Row,
    /// Those of one rows event of the log, as Canal does.
    Event,
}

/// Settings of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Whose Canal JSON it is. Default open source.
    pub flavour: Flavour,
    /// What `ts` says. Default wall.
    pub clock: Clock,
    /// Offset from UTC in which TIMESTAMP columns are printed, seconds. Default 0.
    pub timestamp_offset_seconds: i32,
    /// `type` of snapshot rows is `INIT` rather than `INSERT`. Default false: Flink refuses `INIT`.
    pub snapshot_as_init: bool,
    /// `gtid` holds the transaction's own id. Default false: empty, as Canal without `gtidon`; the
    /// DTS flavour then leaves the member out.
    pub gtid: bool,
    /// Leave DDL messages out. Default false.
    pub without_ddl: bool,
    /// What stands in `data` and `old` (DTS flavour). Default current.
    pub old_data: OldData,
    /// The vocabulary of `sqlType`. Default jdbc.
    pub sql_type: SqlTypeCodes,
    /// How many rows a message holds (open-source flavour). Default one.
    pub grouping: Grouping,
    /// Canal's own deviations too (open-source flavour): DECIMAL without its last zero group, BINARY
    /// without trailing zero bytes, other codes for a NULL SET or JSON, batch numbers in `id`, the
    /// first table only of a statement over several. Default false.
    pub exact: bool,
}
