//! The tags of a message: a map of texts, and the value of `pk_uk_info`.

use super::datum::{put_long, put_string};
use crate::json;
use change::TableSchema;

/// Writes the map as one block whose count is put in at the end.
#[derive(Debug)]
pub(super) struct TagWriter<'a> {
    out: &'a mut Vec<u8>,
    count_at: usize,
    count: u8,
}

impl<'a> TagWriter<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let count_at = out.len();
        // The count's one byte; it stays 0, an empty map, when no tag comes.
        out.push(0);
        Self {
            out,
            count_at,
            count: 0,
        }
    }

    pub fn text(&mut self, key: &str, value: &str) {
        put_string(self.out, key);
        put_string(self.out, value);
        self.count += 1;
    }

    pub fn number(&mut self, key: &str, value: u64) {
        self.text(key, itoa::Buffer::new().format(value));
    }

    /// A tag that is there only when its number is not 0.
    pub fn known_number(&mut self, key: &str, value: u64) {
        if value != 0 {
            self.number(key, value);
        }
    }

    /// Key and value as they were encoded before; none when empty.
    pub fn encoded(&mut self, tag: &[u8]) {
        if !tag.is_empty() {
            self.out.extend_from_slice(tag);
            self.count += 1;
        }
    }

    pub fn end(self) {
        if self.count > 0 {
            // Zig-zag coded; a message has fewer than 64 tags.
            self.out[self.count_at] = self.count << 1;
            put_long(self.out, 0);
        }
    }
}

/// The tag `pk_uk_info`, encoded: an object of key name to column names, the primary key first.
/// Empty for a table without a key.
pub(super) fn encoded_keys(table: &TableSchema) -> Vec<u8> {
    let primary = ("PRIMARY", &table.primary_key);
    let unique = table
        .unique_keys
        .iter()
        .map(|key| (key.name.as_str(), &key.columns));
    let keys = std::iter::once(primary)
        .chain(unique)
        .filter(|(_, columns)| {
            let is_here = |column: &u32| (*column as usize) < table.columns.len();
            !columns.is_empty() && columns.iter().all(is_here)
        });
    let mut text = Vec::new();
    for (name, columns) in keys {
        text.push(if text.is_empty() { b'{' } else { b',' });
        json::put_string(&mut text, name);
        text.push(b':');
        for (index, column) in columns.iter().enumerate() {
            text.push(if index == 0 { b'[' } else { b',' });
            json::put_string(&mut text, &table.columns[*column as usize].name);
        }
        text.push(b']');
    }
    let mut tag = Vec::new();
    if !text.is_empty() {
        text.push(b'}');
        put_string(&mut tag, "pk_uk_info");
        super::datum::put_bytes(&mut tag, &text);
    }
    tag
}
