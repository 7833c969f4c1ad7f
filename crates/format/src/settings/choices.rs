//! Choices that several formats share.

use schemars::JsonSchema;
use serde::Deserialize;

/// See [`super::FormatOptions::snapshot_type`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotType {
    /// As Canal knows it.
    #[default]
    Insert,
    /// As DTS writes it.
    Init,
}

/// See [`super::FormatOptions::ts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TsClock {
    /// The time at which the message is built.
    #[default]
    Wall,
    /// The transaction's commit time.
    Commit,
}
