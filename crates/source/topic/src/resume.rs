//! What the journal gives back to the source when it opens.

use change::Position;

/// See the module's page.
#[derive(Debug, Clone, Default)]
pub struct Resume {
    /// The position of everything in the journal; none for a fresh journal.
    pub position: Option<Position>,
    /// All control entries of the journal.
    pub control: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Resume {
    /// The value of one control key.
    pub(crate) fn value(&self, key: &[u8]) -> Option<&[u8]> {
        let found = self.control.iter().rfind(|(name, _)| name == key);
        found.map(|(_, value)| value.as_slice())
    }

    /// The entries whose key starts with `prefix`, the prefix cut off.
    pub(crate) fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a [u8])> + 'a {
        self.control.iter().filter_map(move |(key, value)| {
            let key = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
            Some((key, value.as_slice()))
        })
    }
}
