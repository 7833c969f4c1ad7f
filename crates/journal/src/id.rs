//! The numbers that name things, each with a type of its own.

use std::fmt;

/// The journal's own order: one number per record, control record and commit.
///
/// Rises without reuse; a new journal starts at (unix milliseconds << 20), so a re-created journal stays above the
/// old one. Shown as `1` and 20 digits, so that text order is number order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The sequence after this one.
    pub const fn next(self) -> Sequence {
        Sequence(self.0 + 1)
    }

    /// Reads what `Display` writes: `1` and 20 digits.
    pub fn parse(text: &str) -> Option<Sequence> {
        let digits = text.strip_prefix('1')?;
        if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok().map(Sequence)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1{:020}", self.0)
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A table of the source, as the pipeline numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TableId(pub u32);

/// One version of one table's schema, as the pipeline numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SchemaId(pub u32);

/// The tables that share one key-encryption key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct KeyGroupId(pub u16);

impl KeyGroupId {
    /// All tables without a key of their own, and everything that is not a record body.
    pub const DEFAULT: KeyGroupId = KeyGroupId(0);
}

impl fmt::Display for KeyGroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("default"),
            number => write!(f, "{number}"),
        }
    }
}

/// Names one journal for as long as it exists: 16 random bytes, shown as hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JournalId(pub [u8; 16]);

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_text_keeps_number_order_and_reads_back() {
        let small = Sequence(7).to_string();
        let large = Sequence(u64::MAX).to_string();
        assert_eq!(small, "100000000000000000007");
        assert!(small < large);
        assert_eq!(Sequence::parse(&large), Some(Sequence(u64::MAX)));
        assert_eq!(Sequence::parse("7"), None);
    }
}
