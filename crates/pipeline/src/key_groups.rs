//! Keys of tables: which key group seals a table's rows, and what happens while its key is not to be had.
//!
//! A table that the config gives a key of its own gets a group when its first schema is journaled; the group is a
//! control entry, `keygroup/TABLE`, so it stays the table's also when the config changes. Nothing but row bodies is
//! sealed with it: names and schemas are not rows.

use crate::control::Answer;
use crate::pattern::Patterns;
use change::batch::{Batch, OpaqueEvent, RowMeta};
use change::{Entry, SchemaVersion, TableId, TableSchema};
use journal::{Journal, KeyGroupId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use stream::Streams;

/// Prefix of the control keys.
pub const PREFIX: &str = "keygroup/";
/// A key that was refused is asked for again after this.
const RETRY: Duration = Duration::from_secs(5);
/// What stands in the journal for a row that could not be sealed.
pub const REASON: &str = "the encryption key of its table is not to be had";

/// The control entry of a table.
pub fn control_key(table: TableId) -> String {
    format!("{PREFIX}{}", table.0)
}

/// Groups of tables as the journal holds them.
pub fn groups(journal: &Journal) -> BTreeMap<TableId, KeyGroupId> {
    let state = journal.control();
    let group = |(key, entry): (&[u8], &journal::ControlEntry)| {
        let table = std::str::from_utf8(&key[PREFIX.len()..])
            .ok()?
            .parse()
            .ok()?;
        let number = change::wire::WireReader::new(&entry.value).u32().ok()?;
        Some((TableId(table), KeyGroupId(u16::try_from(number).ok()?)))
    };
    state.prefix(PREFIX.as_bytes()).filter_map(group).collect()
}

/// The newest schema of each table.
fn schemas(journal: &Journal) -> BTreeMap<TableId, TableSchema> {
    let state = journal.control();
    let mut newest: BTreeMap<TableId, TableSchema> = BTreeMap::new();
    for (_, entry) in state.prefix(crate::event_reader::SCHEMA_PREFIX) {
        let Ok(schema) = TableSchema::decode(&entry.value) else {
            continue;
        };
        let is_newer = newest
            .get(&schema.table)
            .is_none_or(|known| known.version < schema.version);
        if is_newer {
            newest.insert(schema.table, schema);
        }
    }
    newest
}

/// What the capture thread needs.
pub struct KeyGroups {
    journal: Journal,
    wanted: Option<Patterns>,
    /// By table number; the default group for the others.
    by_table: Vec<KeyGroupId>,
    /// Until when a group is not asked for again.
    refused: BTreeMap<KeyGroupId, Instant>,
    /// Tables that got a group in the open transaction.
    fresh: Vec<TableId>,
    next: u16,
}

impl KeyGroups {
    /// Of a journal; `patterns` name the tables that get a key of their own.
    pub fn new(journal: Journal, patterns: &[String]) -> Self {
        let mut groups = Self {
            journal,
            wanted: (!patterns.is_empty()).then(|| Patterns::new(patterns)),
            by_table: Vec::new(),
            refused: BTreeMap::new(),
            fresh: Vec::new(),
            next: 1,
        };
        for (table, group) in self::groups(&groups.journal) {
            groups.set(table, group);
            groups.next = groups.next.max(group.0.saturating_add(1));
        }
        groups
    }

    fn set(&mut self, table: TableId, group: KeyGroupId) {
        let index = table.0 as usize;
        if self.by_table.len() <= index {
            self.by_table.resize(index + 1, KeyGroupId::DEFAULT);
        }
        self.by_table[index] = group;
    }

    /// The group that seals a table's rows.
    #[inline]
    pub fn of(&self, table: TableId) -> KeyGroupId {
        self.by_table
            .get(table.0 as usize)
            .copied()
            .unwrap_or(KeyGroupId::DEFAULT)
    }

    /// Tables that are captured already and were given a key since, with the control entries that say so.
    ///
    /// Errors: the key service's, as a text.
    pub fn missing(&mut self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let mut entries = Vec::new();
        if self.wanted.is_none() {
            return Ok(entries);
        }
        for schema in schemas(&self.journal).into_values() {
            entries.extend(self.assign(&schema)?);
        }
        self.fresh.clear();
        Ok(entries)
    }

    /// Gives a table its group if the config asks for one and it has none: the control entry to write.
    ///
    /// Errors: the key service's, as a text.
    pub fn assign(&mut self, schema: &TableSchema) -> Result<Option<(String, Vec<u8>)>, String> {
        let wanted = self
            .wanted
            .as_ref()
            .is_some_and(|patterns| patterns.matches(&schema.database, &schema.name));
        if !wanted || self.of(schema.table) != KeyGroupId::DEFAULT {
            return Ok(None);
        }
        let group = KeyGroupId(self.next);
        self.journal
            .ensure_key(group)
            .map_err(|error| error.to_string())?;
        self.next = self.next.saturating_add(1);
        self.set(schema.table, group);
        self.fresh.push(schema.table);
        let mut value = Vec::new();
        change::wire::put_u64(&mut value, u64::from(group.0));
        Ok(Some((control_key(schema.table), value)))
    }

    /// The open transaction is whole.
    pub fn on_commit(&mut self) {
        self.fresh.clear();
    }

    /// The open transaction never happened.
    pub fn on_rollback(&mut self) {
        for table in std::mem::take(&mut self.fresh) {
            self.set(table, KeyGroupId::DEFAULT);
        }
    }

    /// Whether a group's key was refused a moment ago.
    pub fn is_refused(&self, group: KeyGroupId) -> bool {
        group != KeyGroupId::DEFAULT
            && self
                .refused
                .get(&group)
                .is_some_and(|until| Instant::now() < *until)
    }

    /// Notes that a group's key is not to be had; whether that is news.
    pub fn refuse(&mut self, group: KeyGroupId) -> bool {
        self.refused.insert(group, Instant::now() + RETRY).is_none()
    }

    /// Notes that a group's key was had; whether that is news.
    pub fn accept(&mut self, group: KeyGroupId) -> bool {
        !self.refused.is_empty() && self.refused.remove(&group).is_some()
    }
}

/// The body that stands in the journal for a row that could not be sealed: where it stood, and nothing of it.
pub fn placeholder(row: &[u8]) -> Vec<u8> {
    let meta = change::batch::RowBody::read(row).map_or(RowMeta::default(), |body| body.meta);
    let mut batch = Batch::default();
    let event = OpaqueEvent {
        reason: REASON,
        meta,
        description: &[],
        event: &[],
    };
    batch.opaque(TableId(0), SchemaVersion(0), &event);
    match batch.entries() {
        [Entry::Record(record)] => batch.bytes(record.body).to_vec(),
        _ => Vec::new(),
    }
}

/// What a command asks about keys. A table is `database.table`; none is the default key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum KeyRequest {
    /// Tables with a key of their own.
    List,
    /// A new key; what was written stays readable.
    Rotate {
        /// Which.
        table: Option<String>,
    },
    /// Destroy a table's keys: what is journaled of it can never be read again.
    Erase {
        /// Which.
        table: String,
    },
}

/// Does what a command asks.
pub fn answer(streams: &Streams, request: KeyRequest) -> Answer {
    match act(streams, request) {
        Ok(text) => Answer::done(text),
        Err(text) => Answer::refused(text),
    }
}

fn act(streams: &Streams, request: KeyRequest) -> Result<String, String> {
    let journal = streams.journal();
    match request {
        KeyRequest::List => Ok(list(journal)),
        KeyRequest::Rotate { table } => {
            let group = match &table {
                None => KeyGroupId::DEFAULT,
                Some(table) => group_of(journal, table)?,
            };
            journal
                .rotate_key(group)
                .map_err(|error| error.to_string())?;
            Ok(format!(
                "group {group} has a new key; older ones still open what they sealed"
            ))
        }
        KeyRequest::Erase { table } => {
            let group = group_of(journal, &table)?;
            journal
                .erase_key(group)
                .map_err(|error| error.to_string())?;
            streams.close_readers();
            Ok(format!(
                "the keys of {table} are destroyed: its rows in the journal cannot be read any more. To go on with \
                 the table: `headwater keys rotate CONFIG {table}`, then `headwater heal CONFIG {table} --resnapshot`"
            ))
        }
    }
}

/// What a person reads; also of a stopped pipeline.
pub fn list(journal: &Journal) -> String {
    let names = schemas(journal);
    let lines: Vec<String> = groups(journal)
        .into_iter()
        .filter_map(|(table, group)| {
            let schema = names.get(&table)?;
            Some(format!(
                "{}.{}  key group {group}",
                schema.database, schema.name
            ))
        })
        .collect();
    match lines.is_empty() {
        true => "no table has a key of its own; hint: journal.encryption.table_keys".into(),
        false => lines.join("\n"),
    }
}

fn group_of(journal: &Journal, table: &str) -> Result<KeyGroupId, String> {
    let names = schemas(journal);
    let named = |(id, _): &(TableId, KeyGroupId)| {
        names
            .get(id)
            .is_some_and(|schema| format!("{}.{}", schema.database, schema.name) == table)
    };
    let found = groups(journal).into_iter().rfind(named);
    found
        .map(|(_, group)| group)
        .ok_or_else(|| format!("{table} has no key of its own"))
}
