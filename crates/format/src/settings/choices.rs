//! Choices that are not a format's own.

use crate::shareplex_json::OpWords;
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

/// See [`super::FormatOptions::op_words`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OpVocabulary {
    /// One of the vocabularies.
    Named(Vocabulary),
    /// Words of one's own.
    Listed(OpWords),
}

/// Words of `op` that readers know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Vocabulary {
    /// `ins`, `upd`, `del`, `trunc`, `dropcol`, `ub`, `ua`.
    Short,
    /// `INSERT`, `UPDATE`, `DELETE`, `TRUNCATE`, `DROP COLUMN`, `UPDATE BEFORE`, `UPDATE AFTER`.
    Long,
}

impl OpVocabulary {
    /// The words.
    pub fn words(&self) -> OpWords {
        match self {
            OpVocabulary::Named(Vocabulary::Short) => OpWords::short(),
            OpVocabulary::Named(Vocabulary::Long) => OpWords::long(),
            OpVocabulary::Listed(words) => words.clone(),
        }
    }
}
