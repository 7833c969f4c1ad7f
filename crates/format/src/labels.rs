//! The labels of an ENUM or SET column.

use crate::json;
use change::ColumnType;

/// Labels as JSON text, escaped, without quotes.
#[derive(Debug)]
pub(crate) struct Labels(Vec<Box<[u8]>>);

impl Labels {
    /// Of any column; other types have none.
    pub fn of(kind: &ColumnType) -> Self {
        let members = match kind {
            ColumnType::Enum { members } | ColumnType::Set { members } => members.as_slice(),
            _ => &[],
        };
        let escaped = |label: &String| {
            let mut out = Vec::new();
            json::put_escaped(&mut out, label);
            out.into_boxed_slice()
        };
        Self(members.iter().map(escaped).collect())
    }

    /// An ENUM's label; nothing for the error value.
    pub fn put_label(&self, out: &mut Vec<u8>, ordinal: u16) {
        let index = usize::from(ordinal).checked_sub(1);
        match index.map(|index| self.0.get(index)) {
            None => {}
            Some(Some(label)) => out.extend_from_slice(label),
            // The schema lacks the label: the number says more than nothing.
            Some(None) => put!(out, "{ordinal}"),
        }
    }

    /// A SET's labels, separated by commas.
    pub fn put_labels(&self, out: &mut Vec<u8>, mask: u64) {
        let mut first = true;
        for (bit, label) in self.0.iter().enumerate().take(64) {
            if mask & 1 << bit == 0 {
                continue;
            }
            if !first {
                out.push(b',');
            }
            first = false;
            out.extend_from_slice(label);
        }
    }
}
