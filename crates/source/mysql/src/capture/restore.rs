//! What outlives a restart: schemas, prepared transactions, tables set aside, the full position.
//!
//! Control keys: `schema/<id>/<version>` the schema of images; `source/catalog/<id>` one byte (1 for a
//! table that is gone) and the schema of the server; `source/xa/<xid>`; `source/parked/<table>`;
//! `source/position` the full position.

use super::Capture;
use super::columns::emitted_schema;
use change::contract::{ErrorKind, ParkedTable};
use change::position::Gtids;
use change::wire::WireReader;
use change::{Batch, Position, SchemaVersion, SourceError, TableId, TableSchema};
use std::collections::HashMap;

/// What the journal gives back to a source when it opens.
#[derive(Debug, Clone, Default)]
pub struct Resume {
    /// The position of everything in the journal; none for a fresh journal.
    pub position: Option<Position>,
    /// All control entries of the journal, in order of their keys.
    pub control: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where bytes may wait beside the journal; none for memory.
    pub spool: Option<std::sync::Arc<dyn change::spool::Spool>>,
    /// The log between the position and what the server still has is lost, and that is accepted: the
    /// source begins at the log's end and copies every table again.
    pub anew: bool,
}

fn damaged(key: &str) -> SourceError {
    SourceError::new(ErrorKind::Corrupt, "read control record", "it is damaged").at(key.to_owned())
}

impl Resume {
    /// The full position: the journal's, completed by the ids of transactions that held nothing
    /// captured.
    pub fn full_position(&self) -> Option<Position> {
        let mut position = self.position.clone()?;
        let saved = self
            .value(b"source/position")
            .and_then(|value| Position::decode(value).ok());
        match (&mut position.gtids, saved.map(|saved| saved.gtids)) {
            (Gtids::Mysql(set), Some(Gtids::Mysql(saved))) => set.union(&saved),
            (Gtids::Mariadb(set), Some(Gtids::Mariadb(saved))) => {
                for gtid in saved.iter() {
                    if !set.contains(gtid) {
                        set.add(*gtid);
                    }
                }
            }
            (none @ Gtids::None, Some(saved)) => *none = saved,
            _ => {}
        }
        Some(position)
    }

    /// Whether the stream begins at the log's end, and every table is copied.
    pub fn is_fresh(&self) -> bool {
        self.position.is_none() || self.anew
    }

    /// The value of one control key.
    pub fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.control
            .iter()
            .rfind(|(name, _)| name == key)
            .map(|(_, value)| value.as_slice())
    }

    /// The entries whose key starts with `prefix`, the prefix cut off.
    pub fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a [u8])> + 'a {
        self.control.iter().filter_map(move |(key, value)| {
            let key = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
            Some((key, value.as_slice()))
        })
    }
}

impl Capture {
    /// Takes back what the journal kept.
    ///
    /// Promises: a table whose column rules were changed since gets a new schema version.
    /// Errors: `Corrupt` for a control record that cannot be read.
    pub fn restore(&mut self, resume: &Resume) -> Result<(), SourceError> {
        let mut stored: HashMap<(u32, u32), &[u8]> = HashMap::new();
        for (key, value) in resume.with_prefix("schema/") {
            let schema = TableSchema::decode(value).map_err(|_| damaged(key))?;
            stored.insert((schema.table.0, schema.version.0), value);
        }
        for (key, value) in resume.with_prefix("source/catalog/") {
            let (gone, bytes) = value.split_first().ok_or_else(|| damaged(key))?;
            let mut schema = TableSchema::decode(bytes).map_err(|_| damaged(key))?;
            let (database, name) = (schema.database.clone(), schema.name.clone());
            if let Some(kept) = stored.get(&(schema.table.0, schema.version.0)) {
                if *gone == 0 && self.emitted(&schema) != *kept {
                    schema.version = SchemaVersion(schema.version.0 + 1);
                } else {
                    self.tables
                        .announced
                        .insert((schema.table.0, schema.version.0));
                }
            }
            let names = (database.clone(), name.clone());
            let key = (schema.table.0, schema.version.0);
            self.tables.last_versions.insert(names, key);
            self.catalog.insert(schema);
            if *gone == 1 {
                self.catalog.remove(&database, &name);
            }
        }
        self.xa.restore(resume.with_prefix("source/xa/"))?;
        if resume.anew {
            // A new copy of everything brings what was set aside back too.
            return Ok(());
        }
        for (table, value) in resume.with_prefix("source/parked/") {
            let mut r = WireReader::new(value);
            let since = r.text().map_err(|_| damaged(table))?.to_owned();
            let reason = r.text().map_err(|_| damaged(table))?.to_owned();
            self.parked.insert(table.to_owned(), reason.clone());
            self.parked_since.push(ParkedTable {
                table: table.to_owned(),
                since,
                reason,
            });
        }
        Ok(())
    }

    /// The schema as images have it: without excluded columns.
    pub fn emitted_schema(&self, schema: &TableSchema) -> TableSchema {
        let treatments = self.options.rules.treatments(schema).unwrap_or_default();
        match treatments.len() == schema.columns.len() {
            true => emitted_schema(schema, &treatments),
            false => schema.clone(),
        }
    }

    fn emitted(&self, schema: &TableSchema) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.emitted_schema(schema).encode(&mut bytes);
        bytes
    }

    /// Puts a schema version into the journal, once.
    pub fn announce_schema(&mut self, schema: &TableSchema, batch: &mut Batch) {
        let key = (schema.table.0, schema.version.0);
        if !self.tables.announced.insert(key) {
            return;
        }
        let names = (schema.database.clone(), schema.name.clone());
        let before = self.tables.last_versions.insert(names.clone(), key);
        if self.tx.begun {
            self.tx.said.schemas.push(key);
            self.tx.said.last_versions.push((names, before));
        }
        let name = format!("schema/{}/{}", key.0, key.1);
        batch.control(name.as_bytes(), Some(&self.emitted(schema)));
        put_catalog(schema, 0, batch);
    }

    /// Says that a table is no longer there.
    pub fn announce_gone(&mut self, database: &str, table: &str, batch: &mut Batch) {
        let Some((id, version)) = self.last_version(database, table) else {
            return;
        };
        let schema = TableSchema {
            table: id,
            version,
            database: database.to_owned(),
            name: table.to_owned(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            unique_keys: Vec::new(),
            charset: None,
            comment: String::new(),
        };
        put_catalog(&schema, 1, batch);
    }

    /// Number and last announced version of a table that the catalog may no longer hold.
    pub(super) fn last_version(
        &self,
        database: &str,
        table: &str,
    ) -> Option<(TableId, SchemaVersion)> {
        let key = (database.to_owned(), table.to_owned());
        let (table, version) = self.tables.last_versions.get(&key)?;
        Some((TableId(*table), SchemaVersion(*version)))
    }
}

fn put_catalog(schema: &TableSchema, gone: u8, batch: &mut Batch) {
    let mut value = vec![gone];
    schema.encode(&mut value);
    let name = format!("source/catalog/{}", schema.table.0);
    batch.control(name.as_bytes(), Some(&value));
}
