//! The parts of a message that depend on the table alone, encoded once per schema version.

use super::Options;
use super::datum::{put_bytes, put_long, put_string};
use super::tags::encoded_keys;
use super::values::{ColumnForm, put_cell};
use change::{Cell, Image, TableSchema};

/// Encoded parts of one table.
#[derive(Debug)]
pub(super) struct TableDatum {
    /// `objectName` and `processTimestamps`.
    pub object: Vec<u8>,
    /// The tag `pk_uk_info`, or empty.
    pub keys: Vec<u8>,
    /// `fields`.
    pub fields: Vec<u8>,
    columns: Vec<ColumnForm>,
}

impl TableDatum {
    pub fn new(options: &Options, table: &TableSchema) -> Self {
        let form = |column| ColumnForm::new(options.source, column, options.text_as_blob);
        let columns: Vec<ColumnForm> = table.columns.iter().map(form).collect();
        let mut fields = Vec::new();
        put_array(&mut fields, columns.len(), |out| {
            for (column, form) in table.columns.iter().zip(&columns) {
                put_string(out, &column.name);
                put_long(out, i64::from(form.number));
            }
        });
        let mut object = Vec::new();
        put_object(&mut object, options, &[&table.database, &table.name]);
        Self {
            object,
            keys: encoded_keys(table),
            fields,
            columns,
        }
    }

    /// Appends an image; without one, a row of which nothing is known.
    pub fn put_image(&self, out: &mut Vec<u8>, image: Option<&Image<'_>>) {
        put_array(out, self.columns.len(), |out| {
            let mut cells = image.map(Image::cells).into_iter().flatten();
            for column in &self.columns {
                put_cell(out, column, cells.next().unwrap_or(Cell::Unknown));
            }
        });
    }

    pub fn column_count(&self) -> usize {
        self.columns.len()
    }
}

/// Appends the array branch of `fields` and of the images: one block.
fn put_array(out: &mut Vec<u8>, count: usize, entries: impl FnOnce(&mut Vec<u8>)) {
    put_long(out, 2);
    if count > 0 {
        put_long(out, count as i64);
        entries(out);
    }
    put_long(out, 0);
}

/// Appends `objectName` and a null `processTimestamps`; null where no part is known.
///
/// Shape: the parts that are not empty, joined with dots; a dot within a part is `\u002E`.
pub(super) fn put_object(out: &mut Vec<u8>, options: &Options, parts: &[&str]) {
    let parts = || {
        let leading = options.database.as_deref();
        let all = leading.into_iter().chain(parts.iter().copied());
        all.filter(|part| !part.is_empty())
    };
    let dots = |part: &str| part.bytes().filter(|byte| *byte == b'.').count();
    let byte_count: usize = parts().map(|part| part.len() + 5 * dots(part) + 1).sum();
    if byte_count == 0 {
        out.extend_from_slice(&[0; 2]);
        return;
    }
    put_long(out, 1);
    put_long(out, byte_count as i64 - 1);
    for (index, part) in parts().enumerate() {
        if index > 0 {
            out.push(b'.');
        }
        for (piece, text) in part.split('.').enumerate() {
            if piece > 0 {
                out.extend_from_slice(b"\\u002E");
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
    put_long(out, 0);
}

/// Appends a text branch of an image.
pub(super) fn put_text_image(out: &mut Vec<u8>, text: &str) {
    put_long(out, 1);
    put_bytes(out, text.as_bytes());
}
