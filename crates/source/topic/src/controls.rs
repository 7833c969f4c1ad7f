//! Control records of the open transaction: what has to be said again if the transaction is taken back.

use change::{Batch, TableSchema};

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    open: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Controls {
    pub fn put(&mut self, batch: &mut Batch, key: &str, value: Option<&[u8]>) {
        batch.control(key.as_bytes(), value);
        let value = value.map(<[u8]>::to_vec);
        self.open.push((key.as_bytes().to_vec(), value));
    }

    /// A schema version, which rows of the transaction need.
    pub fn schema(&mut self, schema: &TableSchema, batch: &mut Batch) {
        let mut value = Vec::new();
        schema.encode(&mut value);
        let key = format!("schema/{}/{}", schema.table.0, schema.version.0);
        self.put(batch, &key, Some(&value));
    }

    /// The transaction is whole.
    pub fn settle(&mut self) {
        self.open.clear();
    }

    /// Says again what was taken back.
    pub fn replay(&self, batch: &mut Batch) {
        for (key, value) in &self.open {
            batch.control(key, value.as_deref());
        }
    }
}
