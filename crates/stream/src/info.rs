//! What the handle tells about streams and tables, and what it is asked to do.

use crate::arn::Label;
use crate::load::ShardLimits;
use crate::record::ViewType;
use change::{TableId, TableSchema};
use journal::Sequence;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stream's state. A stream never becomes enabled again: that makes a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamStatus {
    /// Asked for; waits for the table's copy to be whole. Has no shard yet.
    Enabling,
    /// Takes records.
    Enabled,
    /// Told to end.
    Disabling,
    /// Every shard is closed; readable for 24 hours more.
    Disabled,
}

impl StreamStatus {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            StreamStatus::Enabling => "ENABLING",
            StreamStatus::Enabled => "ENABLED",
            StreamStatus::Disabling => "DISABLING",
            StreamStatus::Disabled => "DISABLED",
        }
    }

    /// Whether the table counts as one with a stream.
    pub fn is_live(self) -> bool {
        matches!(self, StreamStatus::Enabling | StreamStatus::Enabled)
    }
}

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// One tag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// 1 to 128 characters, not `aws:…`.
    pub key: String,
    /// 1 to 256 characters.
    pub value: String,
}

/// What can be tagged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// A keyspace, by its shown name.
    Keyspace(String),
    /// A table, by its shown names.
    Table(String, String),
    /// A stream, by its ARN; only the latest of its table may be changed.
    Stream(String),
}

/// One stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamInfo {
    /// Its ARN.
    pub arn: String,
    /// Its keyspace as shown, see [`mod@crate::name`].
    pub keyspace: String,
    /// Its table as shown.
    pub table: String,
    /// Its label: the ARN's last part, and when it was asked for.
    pub label: Label,
    /// Its state.
    pub status: StreamStatus,
    /// What its records show.
    pub view: ViewType,
    /// Our own short name for it, from the config.
    pub name: Option<String>,
    /// Columns of the primary key that are clustering columns; all others are the partition key.
    pub clustering: Vec<String>,
    /// Whether snapshot rows are records.
    pub include_snapshot: bool,
    /// Its first sequence, once it is enabled.
    pub enabled_at: Option<Sequence>,
    /// Its last sequence, once it is disabled.
    pub disabled_at: Option<Sequence>,
    /// Why it was disabled, where that was not asked for: its table was dropped, its log could not be decoded.
    pub reason: String,
    /// Its tags.
    pub tags: Tags,
    /// Whether it took over its table's tags (`propagateTags: TABLE`).
    pub propagate_tags: bool,
    /// Whether it is the newest of its table.
    pub is_latest: bool,
    /// The journal's number of its table.
    pub table_id: TableId,
}

/// Streams in the order of keyspace, table, label.
#[derive(Debug, Clone)]
pub struct StreamPage {
    /// At most as many as were asked for.
    pub streams: Vec<Arc<StreamInfo>>,
    /// Whether more follow; go on after the last one's ARN.
    pub more: bool,
}

/// A table's state as the control plane names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableStatus {
    /// Captured.
    Active,
    /// Its key is not to be had: `INACCESSIBLE_ENCRYPTION_CREDENTIALS`.
    KeyUnavailable,
}

/// One captured table.
#[derive(Debug, Clone)]
pub struct TableInfo {
    /// Its keyspace as shown.
    pub keyspace: String,
    /// Its name as shown.
    pub table: String,
    /// Its ARN.
    pub arn: String,
    /// Its newest schema: the names in it are the source's.
    pub schema: Arc<TableSchema>,
    /// Its state.
    pub status: TableStatus,
    /// When the journal first knew it, microseconds since 1970.
    pub created_us: i64,
    /// Its tags.
    pub tags: Tags,
    /// Its newest stream, live or not.
    pub stream: Option<Arc<StreamInfo>>,
}

/// Tables in the order of keyspace and name.
#[derive(Debug, Clone)]
pub struct TablePage {
    /// At most as many as were asked for.
    pub tables: Vec<TableInfo>,
    /// Whether more follow; go on after the last one.
    pub more: bool,
}

/// One keyspace: a database of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceInfo {
    /// Its name as shown.
    pub keyspace: String,
    /// Its ARN.
    pub arn: String,
    /// How many captured tables it has.
    pub tables: usize,
}

/// A stream that is asked for.
#[derive(Debug, Clone, Default)]
pub struct EnableStream {
    /// Keyspace as shown.
    pub keyspace: String,
    /// Table as shown.
    pub table: String,
    /// Default: both images.
    pub view: Option<ViewType>,
    /// Our own short name, unique among live streams.
    pub name: Option<String>,
    /// Columns of the primary key that are clustering columns.
    pub clustering: Vec<String>,
    /// Whether snapshot rows are records.
    pub include_snapshot: bool,
    /// Its tags.
    pub tags: Tags,
    /// Take over the table's tags.
    pub propagate_tags: bool,
    /// When its shards are split and merged, and how many it begins with; default the options'.
    pub shards: Option<ShardLimits>,
}

/// A stream's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamReport {
    /// The stream.
    pub stream: Arc<StreamInfo>,
    /// Shards that take records.
    pub shards_open: usize,
    /// Shards that are listed.
    pub shards_listed: usize,
    /// Records captured into it since the start of this process.
    pub records_captured: u64,
    /// Bytes of them.
    pub bytes_captured: u64,
    /// Records handed to readers since the start of this process.
    pub records_read: u64,
    /// Bytes of them.
    pub bytes_read: u64,
    /// Age of the oldest retained moment, microseconds: how far back a reader could go.
    pub depth_us: i64,
    /// Age of the last record that the reader furthest behind has read, milliseconds: 0 when all are at the tip. None
    /// when nobody has read for five minutes.
    pub iterator_age_ms: Option<u64>,
}
