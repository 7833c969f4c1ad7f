//! Shards: ranges of the key's hash, with lineage.

use journal::Sequence;
use std::fmt;

/// A shard's name: `shardId-`, 20 digits of the milliseconds of its making, `-`, 8 hex digits.
///
/// The second field is a time because KCL reads it as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId {
    /// Milliseconds since 1970.
    pub(crate) created_ms: u64,
    /// Its number in its stream, scrambled.
    pub(crate) tag: u32,
}

impl ShardId {
    /// The id of a stream's `number`th shard.
    pub(crate) fn new(created_ms: u64, number: u32) -> Self {
        // Odd, so that different numbers stay different.
        let tag = number.wrapping_add(1).wrapping_mul(0x9e37_79b1);
        Self { created_ms, tag }
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<ShardId> {
        let rest = text.strip_prefix("shardId-")?;
        let (millis, tag) = rest.split_once('-')?;
        let digits = millis.len() == 20 && millis.bytes().all(|b| b.is_ascii_digit());
        let hex = tag.len() == 8
            && tag
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        (digits && hex).then_some(())?;
        Some(ShardId {
            created_ms: millis.parse().ok()?,
            tag: u32::from_str_radix(tag, 16).ok()?,
        })
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shardId-{:020}-{:08x}", self.created_ms, self.tag)
    }
}

/// One shard as the API lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardInfo {
    /// Its name.
    pub id: ShardId,
    /// Where it came from: none for a first shard, one after a split, several after a merge.
    pub parents: Vec<ShardId>,
    /// Its first sequence; above every parent's last.
    pub starting: Sequence,
    /// Its last sequence, once it is closed.
    pub ending: Option<Sequence>,
    /// First key hash in it.
    pub from_hash: u64,
    /// Last key hash in it.
    pub to_hash: u64,
}

/// Shards in the order of their first sequence, then of their name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPage {
    /// At most as many as were asked for.
    pub shards: Vec<ShardInfo>,
    /// Whether more follow; go on after the last one's id.
    pub more: bool,
    /// The moment that is shown. Give it to [`crate::Streams::shards_as_of`] for the pages after this one: then all
    /// pages together show one moment, and no child stands beside a parent that an earlier page showed open.
    pub as_of: Sequence,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_37_characters_and_read_back() {
        let id = ShardId::new(1_796_000_000_123, 7);
        let text = id.to_string();
        assert_eq!(text.len(), 37);
        assert_eq!(&text[..29], "shardId-00000001796000000123-");
        assert_eq!(ShardId::parse(&text), Some(id));
        assert_ne!(ShardId::new(1, 0), ShardId::new(1, 1));
        for bad in ["", "shardId-1-2", &text[1..], &text.to_uppercase()] {
            assert_eq!(ShardId::parse(bad), None);
        }
    }
}
