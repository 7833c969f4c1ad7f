//! Rows: their table, their images, their keys.

use super::{Capture, Message, time_us};
use crate::partition::Held;
use crate::tables::{Fit, Told, Types};
use change::batch::{FLAG_PAIR_FIRST, FLAG_PAIR_SECOND, key_token};
use change::wire::WireReader;
use change::{Batch, Cell, Image, Operation, RowMeta, TableSchema};
use format::decode::Decoded;
use format::settings::FormatName;

impl Capture {
    /// One row; `held` is the row before that came in a message of its own.
    pub(super) fn row(
        &mut self,
        message: &Message<'_>,
        (operation, decoded): (Operation, &Decoded),
        held: Option<&Held>,
        batch: &mut Batch,
    ) {
        let (database, name) = (&decoded.table.database, &decoded.table.name);
        if !self.selection.matches(database, name) {
            return;
        }
        self.continue_with(message, decoded, batch);
        self.begin(batch);
        let key = match self.format {
            FormatName::DebeziumJson if self.tables.wants_key(database, name) => {
                key_names(message.key.unwrap_or_default())
            }
            _ => Vec::new(),
        };
        let types = self.types(message);
        if let Some(held) = held {
            let fit = self.fit((&held.decoded, types), (false, &key), batch);
            self.put_image(0, &fit, held.decoded.before.as_deref());
        }
        let is_whole = matches!(operation, Operation::Insert | Operation::Read);
        let fit = self.fit((decoded, types), (is_whole, &key), batch);
        match held {
            None => self.put_image(0, &fit, decoded.before.as_deref()),
            // The row after may have told more columns than the row before.
            Some(held) => {
                let again = self.fit((&held.decoded, types), (false, &key), batch);
                self.put_image(0, &again, held.decoded.before.as_deref());
            }
        }
        self.put_image(1, &fit, decoded.after.as_deref());
        let meta = self.meta(message, time_us(message, decoded));
        let [before, after] = &self.images;
        let images = [before, after].map(|image| (!image.is_empty()).then_some(image.as_slice()));
        put_row(batch, self.tables.schema(&fit), (operation, images), meta);
        if let Some(tx) = &mut self.tx {
            tx.rows += 1;
        }
    }

    fn fit(
        &mut self,
        (decoded, types): (&Decoded, Types),
        (is_whole, key): (bool, &[String]),
        batch: &mut Batch,
    ) -> Fit {
        let told = Told {
            schema: &decoded.table,
            types,
            is_whole,
            // SharePlex's default: what an inserted row does not name is NULL.
            leaves_nulls_out: self.format == FormatName::SharePlexJson,
            key,
            images: [decoded.before.as_deref(), decoded.after.as_deref()],
        };
        self.tables.fit(&told, batch)
    }

    fn put_image(&mut self, which: usize, fit: &Fit, image: Option<&[u8]>) {
        self.images[which].clear();
        if let Some(image) = image {
            fit.put(image, &mut self.images[which]);
        }
    }

    fn types(&self, message: &Message<'_>) -> Types {
        match self.format {
            FormatName::CanalJson => Types::Exact,
            FormatName::DtsAvro => Types::Widest,
            FormatName::SharePlexJson => Types::Text,
            FormatName::DebeziumJson => {
                let payload = message.payload.unwrap_or_default();
                match self
                    .has_schema
                    .unwrap_or_else(|| begins_with_schema(payload))
                {
                    true => Types::Exact,
                    false => Types::Text,
                }
            }
        }
    }
}

/// Whether a JSON object's first member is a `schema` that is there, as the JsonConverter writes it.
fn begins_with_schema(payload: &[u8]) -> bool {
    let skip = |bytes: &'_ [u8]| bytes.trim_ascii_start().len();
    let mut rest = payload;
    for token in [&b"{"[..], b"\"schema\"", b":"] {
        rest = &rest[rest.len() - skip(rest)..];
        match rest.strip_prefix(token) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.trim_ascii_start().first() == Some(&b'{')
}

/// The key columns that a record's key names, as the JsonConverter writes it: `{"id":7}`, with its schema
/// around it or without.
fn key_names(key: &[u8]) -> Vec<String> {
    use serde_json::Value;
    let Ok(Value::Object(root)) = serde_json::from_slice::<Value>(key) else {
        return Vec::new();
    };
    let members = match (root.get("schema"), root.get("payload")) {
        (Some(_), Some(Value::Object(payload))) => payload,
        _ => &root,
    };
    members.keys().cloned().collect()
}

/// Writes one row; an update that moves it to another key becomes a delete and an insert.
fn put_row(
    batch: &mut Batch,
    schema: &TableSchema,
    (operation, images): (Operation, [Option<&[u8]>; 2]),
    meta: RowMeta,
) {
    let (table, version) = (schema.table, schema.version);
    let read = |bytes| Image::read(&mut WireReader::new(bytes), bytes).ok();
    let [before, after] = images.map(|image| image.and_then(read));
    let key = schema.key();
    let token = |image: Option<Image<'_>>| image.map_or(0, |image| key_token(&image, key));
    if operation == Operation::Update
        && let (Some(old), Some(new)) = (&before, &after)
        && moves(old, new, key)
        && let [Some(old_bytes), Some(new_bytes)] = images
    {
        let mut first = batch.row(table, version, meta);
        first.copy_before(old_bytes);
        first.finish(Operation::Delete, FLAG_PAIR_FIRST, token(before));
        let mut second = batch.row(table, version, meta);
        second.copy_after(new_bytes);
        second.finish(Operation::Insert, FLAG_PAIR_SECOND, token(after));
        return;
    }
    let keyed = match operation {
        Operation::Delete => before,
        // A row after that lacks its key has the key of the row before.
        _ => match (&before, &after) {
            (Some(_), Some(new)) if !is_known(new, key) => before,
            (Some(_), None) => before,
            _ => after,
        },
    };
    let keyed = token(keyed);
    let mut row = batch.row(table, version, meta);
    if let Some(bytes) = images[0] {
        row.copy_before(bytes);
    }
    if let Some(bytes) = images[1] {
        row.copy_after(bytes);
    }
    row.finish(operation, 0, keyed);
}

/// Whether an update changes the key, as far as both rows tell it; without a key the whole row is one.
fn moves(old: &Image<'_>, new: &Image<'_>, key: &[u32]) -> bool {
    if key.is_empty() {
        let is_whole = !old.cells().any(|cell| cell == Cell::Unknown);
        return is_whole && old.cell_bytes() != new.cell_bytes();
    }
    key.iter().any(|index| {
        let (a, b) = (old.cell(*index as usize), new.cell(*index as usize));
        a != Cell::Unknown && b != Cell::Unknown && a != b
    })
}

fn is_known(image: &Image<'_>, key: &[u32]) -> bool {
    !key.iter()
        .any(|index| image.cell(*index as usize) == Cell::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_shows_at_the_start() {
        for with in [&b"{\"schema\":{}}"[..], b" {\n \"schema\" : {\"a\""] {
            assert!(begins_with_schema(with));
        }
        for without in [
            &b""[..],
            b"{",
            b"{\"before\":null}",
            b"{\"schema\":null,\"payload\":{}}",
        ] {
            assert!(!begins_with_schema(without));
        }
    }

    #[test]
    fn a_key_names_its_columns() {
        assert_eq!(key_names(b"{\"id\":7}"), ["id"]);
        assert_eq!(
            key_names(b"{\"schema\":{\"type\":\"struct\"},\"payload\":{\"a\":1,\"b\":2}}"),
            ["a", "b"]
        );
        assert!(key_names(b"7").is_empty() && key_names(b"").is_empty());
    }
}
