//! What a server can do, by its version.

/// A server's version: major and minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
}

/// Mode `mvcc` needs one snapshot of each table within a query.
pub(crate) const MVCC: Version = Version::new(25, 6);
/// Mode `sign_version` needs ReplacingMergeTree with a mark for deleted rows.
pub(crate) const SIGN_VERSION: Version = Version::new(23, 2);

impl Version {
    pub(crate) const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// From `26.9.2.1`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('.');
        Some(Self {
            major: parts.next()?.parse().ok()?,
            minor: parts.next()?.parse().ok()?,
        })
    }

    /// Time64 is there without asking for it.
    pub(crate) fn has_time64(self) -> bool {
        self >= Self::new(25, 12)
    }

    /// Date32 and DateTime64 hold the years 1 to 9999, else 1900 to 2299.
    pub(crate) fn has_all_dates(self) -> bool {
        self >= Self::new(26, 7)
    }

    /// How large a table may be that a statement drops can be said with the statement.
    pub(crate) fn drops_any_size(self) -> bool {
        self >= Self::new(23, 12)
    }

    /// The snapshot of a table is shared within a query without asking for it.
    pub(crate) fn shares_snapshots(self) -> bool {
        self >= Self::new(25, 12)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        assert!(Version::parse("25.12.1.3").unwrap() > MVCC);
        assert!(Version::parse("18.16.1").unwrap() < SIGN_VERSION);
        assert_eq!(Version::parse("x"), None);
    }
}
