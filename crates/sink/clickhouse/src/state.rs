//! What the sink keeps in the target: its cursor and watermark, its owner, and a note for each table.
//!
//! One small table, of which only the newest row of each key counts. A cursor and the watermark are one
//! row, so one insert shows a transaction in all tables at once.

use crate::client::Client;
use crate::names::{literal, quote};
use change::contract::ErrorKind;
use change::wire::{WireError, WireReader, put_bytes, put_u64};
use change::{Cursor, SinkError, TableSchema};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Key of the cursor's row.
const CURSOR: &str = "cursor";
/// Key of the row that names the process that may write.
const OWNER: &str = "owner";
/// Prefix of keys of tables: `table:shop.orders`.
const TABLE: &str = "table:";
/// Prefix of keys of last folded epochs, which the folding thread writes: `fold:shop.orders`.
const FOLD: &str = "fold:";

/// What the sink knows about a table of the target.
#[derive(Debug, Clone)]
pub(crate) struct TableNote {
    /// The source's schema that the target follows.
    pub schema: Arc<TableSchema>,
    /// Its first copy runs: rows go straight into the base.
    pub is_loading: bool,
    /// Journal sequence at which a later copy began; 0 for none.
    pub copy_from: u64,
    /// The table is gone.
    pub is_gone: bool,
    /// Why its rows are not the source's any more, until it is copied again; empty while they are.
    pub stale: String,
}

impl TableNote {
    pub(crate) fn new(schema: Arc<TableSchema>) -> Self {
        Self {
            schema,
            is_loading: false,
            copy_from: 0,
            is_gone: false,
            stale: String::new(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![1];
        let is_stale = !self.stale.is_empty();
        out.push(u8::from(self.is_loading) | u8::from(self.is_gone) << 1 | u8::from(is_stale) << 2);
        put_u64(&mut out, self.copy_from);
        let mut schema = Vec::new();
        self.schema.encode(&mut schema);
        put_bytes(&mut out, &schema);
        if is_stale {
            put_bytes(&mut out, self.stale.as_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut r = WireReader::new(bytes);
        if r.u8()? != 1 {
            return Err(WireError {
                offset: 0,
                what: "a known version of a table's note",
            });
        }
        let flags = r.u8()?;
        let copy_from = r.u64()?;
        let schema = Arc::new(TableSchema::decode(r.bytes()?)?);
        let stale = match flags & 4 {
            0 => String::new(),
            _ => r.text()?.to_owned(),
        };
        Ok(Self {
            schema,
            stale,
            is_loading: flags & 1 != 0,
            is_gone: flags & 2 != 0,
            copy_from,
        })
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub cursor: Option<Cursor>,
    pub watermark: u64,
    /// By the source's name.
    pub tables: BTreeMap<String, TableNote>,
    /// Epochs of each table up to which the base has everything.
    pub folded: BTreeMap<String, u64>,
}

/// The state table.
#[derive(Debug)]
pub(crate) struct State {
    database: String,
    table: String,
    owner: String,
    /// Number of the next row: the newest of a key wins.
    next: AtomicU64,
    fsync: bool,
}

impl State {
    pub(crate) fn new(database: String, table: String, fsync: bool) -> Self {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            database,
            table,
            owner: format!("{}-{}", std::process::id(), since.as_nanos()),
            next: AtomicU64::new(1),
            fsync,
        }
    }

    fn name(&self) -> String {
        format!("{}.{}", quote(&self.database), quote(&self.table))
    }

    /// The watermark, as a subquery of the views.
    pub(crate) fn watermark_sql(&self) -> String {
        format!(
            "(SELECT max(watermark) FROM {} WHERE key = '{CURSOR}')",
            self.name()
        )
    }

    /// Makes the table where it is missing.
    pub(crate) fn create(&self, client: &Client) -> Result<(), SinkError> {
        client.ensure_database("create the state's database", &self.database)?;
        let durable = match self.fsync {
            true => " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1",
            false => "",
        };
        let table = format!(
            "CREATE TABLE IF NOT EXISTS {} (key String, seq UInt64, watermark UInt64, value String) \
             ENGINE = ReplacingMergeTree(seq) ORDER BY key{durable}",
            self.name()
        );
        client.run("create the state's table", &table)
    }

    /// Reads all of it, and takes it over: whoever wrote it before may not any more.
    pub(crate) fn take_over(&self, client: &Client) -> Result<Kept, SinkError> {
        let sql = format!(
            "SELECT key, max(seq), argMax(watermark, seq), hex(argMax(value, seq)) FROM {} GROUP BY key",
            self.name()
        );
        let rows = client.rows("read the cursor", &sql)?;
        let damaged = |what: String| {
            SinkError::new(ErrorKind::Corrupt, "read the cursor", what)
                .at(self.name())
                .hint("drop the state's table and the sink's tables to begin anew")
        };
        let mut kept = Kept::default();
        let mut last = 0;
        for row in rows {
            let [key, seq, watermark, value] = row.as_slice() else {
                return Err(damaged("an answer with other columns".into()));
            };
            last = last.max(seq.parse().unwrap_or(0));
            let bytes = unhex(value).ok_or_else(|| damaged(format!("the row `{key}`")))?;
            if key == CURSOR {
                kept.watermark = watermark.parse().unwrap_or(0);
                kept.cursor = Some(Cursor::decode(&bytes).map_err(|e| damaged(e.to_string()))?);
            } else if let Some(name) = key.strip_prefix(FOLD) {
                let folded = watermark.parse().unwrap_or(0);
                kept.folded.insert(name.to_owned(), folded);
            } else if let Some(name) = key.strip_prefix(TABLE) {
                let note = TableNote::decode(&bytes).map_err(|e| damaged(e.to_string()))?;
                if !note.is_gone {
                    kept.tables.insert(name.to_owned(), note);
                }
            }
        }
        self.next.store(last + 1, Ordering::SeqCst);
        let sql = format!(
            "INSERT INTO {} VALUES ('{OWNER}', {}, 0, {})",
            self.name(),
            self.number(),
            literal(&self.owner)
        );
        client.run("take over the cursor", &sql)?;
        Ok(kept)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    fn owner_sql(&self) -> String {
        format!(
            "(SELECT argMax(value, seq) FROM {} WHERE key = '{OWNER}')",
            self.name()
        )
    }

    /// Moves the cursor and the watermark, and writes notes and folded epochs, in one insert.
    ///
    /// Errors: `Fenced` when another process took over; nothing was written then.
    pub(crate) fn put(
        &self,
        client: &Client,
        cursor: Option<(&Cursor, u64)>,
        notes: &[(&str, &TableNote)],
        folded: &[(&str, u64)],
    ) -> Result<(), SinkError> {
        let mut rows = Vec::new();
        if let Some((cursor, watermark)) = cursor {
            let mut bytes = Vec::new();
            cursor.encode(&mut bytes);
            rows.push((CURSOR.to_owned(), watermark, bytes));
        }
        for (name, note) in notes {
            rows.push((format!("{TABLE}{name}"), 0, note.encode()));
        }
        for (name, epoch) in folded {
            rows.push((format!("{FOLD}{name}"), *epoch, Vec::new()));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let rows: Vec<String> = rows
            .iter()
            .map(|(key, watermark, bytes)| {
                format!(
                    "({}, {}, {watermark}, '{}')",
                    literal(key),
                    self.number(),
                    hex(bytes)
                )
            })
            .collect();
        let sql = format!(
            "INSERT INTO {} SELECT r.1, r.2, r.3, unhex(r.4) FROM (SELECT arrayJoin([{}]) AS r) WHERE {} \
             = {}",
            self.name(),
            rows.join(", "),
            self.owner_sql(),
            literal(&self.owner)
        );
        client.run("write the cursor", &sql)?;
        self.check_owner(client)
    }

    fn check_owner(&self, client: &Client) -> Result<(), SinkError> {
        let sql = format!("SELECT {}", self.owner_sql());
        let owner = client.cell("read the cursor's owner", &sql)?;
        match owner.as_deref() == Some(&self.owner) {
            true => Ok(()),
            false => Err(SinkError::new(
                ErrorKind::Fenced,
                "write the cursor",
                "another process with this pipeline's and sink's name took over",
            )
            .at(self.name())
            .hint("stop one of the two, or give each its own name")),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02X}");
    }
    out
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{SchemaVersion, TableId};

    #[test]
    fn a_note_comes_back_whole_and_an_older_one_too() {
        let schema = TableSchema {
            table: TableId(1),
            version: SchemaVersion(1),
            database: "shop".into(),
            name: "t".into(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            unique_keys: Vec::new(),
            charset: None,
            comment: String::new(),
        };
        let mut note = TableNote::new(Arc::new(schema));
        note.copy_from = 7;
        let older = note.encode();
        let back = TableNote::decode(&older).unwrap();
        assert_eq!((back.copy_from, &*back.stale), (7, ""));
        note.stale = "partitions".into();
        let back = TableNote::decode(&note.encode()).unwrap();
        assert_eq!(back.stale, "partitions");
        // What it adds stands behind what earlier versions read.
        assert_eq!(note.encode()[10..older.len()], older[10..]);
    }
}
