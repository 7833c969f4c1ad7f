//! The control state: a small ordered map that changes in the same order as the data.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::Sequence;

/// One value of the control state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlEntry {
    /// The control record that set it.
    pub sequence: Sequence,
    /// The caller's bytes; shared, so that a copy of the state is cheap.
    pub value: Arc<[u8]>,
}

/// The whole control state as of one sequence. Cloning is one reference count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControlState {
    entries: Arc<BTreeMap<Arc<[u8]>, ControlEntry>>,
}

/// One control record.
#[derive(Clone, Debug)]
pub(crate) struct ControlChange {
    pub sequence: Sequence,
    pub key: Arc<[u8]>,
    pub value: Option<Arc<[u8]>>,
}

impl ControlState {
    /// The entry under `key`.
    pub fn get(&self, key: &[u8]) -> Option<&ControlEntry> {
        self.entries.get(key)
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &ControlEntry)> {
        self.entries.iter().map(|(key, entry)| (&**key, entry))
    }

    /// The entries whose key begins with `prefix`, in key order.
    pub fn prefix<'a>(
        &'a self,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a ControlEntry)> {
        self.entries
            .range::<[u8], _>((
                std::ops::Bound::Included(prefix),
                std::ops::Bound::Unbounded,
            ))
            .map(|(key, entry)| (&**key, entry))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn apply(&mut self, change: &ControlChange) {
        let entries = Arc::make_mut(&mut self.entries);
        match &change.value {
            Some(value) => {
                let entry = ControlEntry {
                    sequence: change.sequence,
                    value: value.clone(),
                };
                entries.insert(change.key.clone(), entry);
            }
            None => {
                entries.remove(&change.key);
            }
        }
    }
}
