//! Change streams in the config.

use super::{Bytes, Span};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use stream::{ShardLimits, ViewType};

/// A change stream that is to be there. One that is there and not listed here stays as it is: only
/// `headwater streams disable` and the API end a stream.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamConfig {
    /// Its table, `database.table`.
    pub table: String,
    /// A short name for commands. Default: none; the table's name serves too.
    #[serde(default)]
    pub name: Option<String>,
    /// What records show: `keys_only`, `new_image`, `old_image`, `new_and_old_images`. Fixed for the
    /// life of a stream. Default new_and_old_images.
    #[serde(default)]
    pub view: ViewConfig,
    /// Columns of the primary key that are clustering columns; the others are the partition key.
    /// Default: none, the whole key is the partition key.
    #[serde(default)]
    pub clustering: Vec<String>,
    /// Whether rows that a snapshot or resync read are records too. Default false.
    #[serde(default)]
    pub include_snapshot: bool,
    /// Tags that it gets when it is made.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// When its shards are split and merged.
    #[serde(default)]
    pub shards: ShardsConfig,
}

/// See [`StreamConfig::view`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ViewConfig {
    /// Keys alone.
    KeysOnly,
    /// The row after the change.
    NewImage,
    /// The row before the change.
    OldImage,
    /// Both.
    #[default]
    NewAndOldImages,
}

impl From<ViewConfig> for ViewType {
    fn from(view: ViewConfig) -> Self {
        match view {
            ViewConfig::KeysOnly => ViewType::KeysOnly,
            ViewConfig::NewImage => ViewType::NewImage,
            ViewConfig::OldImage => ViewType::OldImage,
            ViewConfig::NewAndOldImages => ViewType::NewAndOldImages,
        }
    }
}

/// When a stream's shards are split and merged.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShardsConfig {
    /// Shards that it begins with, 1 to 64. Default 1.
    pub initial: u32,
    /// Open shards at which splitting under load stops. Default 32; 1 turns it off.
    pub max: u32,
    /// A shard above this many records a second, over a window, is split. Default 20000.
    pub split_records: u64,
    /// A shard above this many bytes a second, over a window, is split. Default 16MiB.
    pub split_bytes: Bytes,
    /// Two neighbours that together stay below this share of the split limits for 15 windows are merged;
    /// percent. Default 0, never: the Java adapter of Keyspaces streams follows only the first parent of
    /// a merged shard.
    pub merge_percent: u32,
    /// Over what load is measured. Default 60s.
    pub window: Span,
}

impl Default for ShardsConfig {
    fn default() -> Self {
        let limits = ShardLimits::default();
        Self {
            initial: limits.initial,
            max: limits.max,
            split_records: limits.split_records,
            split_bytes: Bytes(limits.split_bytes),
            merge_percent: limits.merge_percent,
            window: Span(Duration::from_secs(u64::from(limits.window_s))),
        }
    }
}

impl From<&ShardsConfig> for ShardLimits {
    fn from(config: &ShardsConfig) -> Self {
        Self {
            initial: config.initial,
            max: config.max,
            split_records: config.split_records,
            split_bytes: config.split_bytes.0,
            merge_percent: config.merge_percent,
            window_s: u32::try_from(config.window.0.as_secs()).unwrap_or(u32::MAX),
        }
    }
}
