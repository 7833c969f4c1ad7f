//! The reader's side of the copy: what the gate and the coordinator share, and what is held.

use super::key::{self, Key, Order};
use super::table::{ChunkId, RangeState, TableCopy};
use super::worker::{self, ChunkRows};
use crate::capture::Gate;
use crate::config::{Endpoint, TlsConfig};
use crate::wire::{Connection, WireFailure};
use change::batch::RowBody;
use change::contract::ErrorKind;
use change::wire::put_u64;
use change::{Batch, Entry, Operation, RowMeta, SchemaVersion, SourceError, TableId, TableSchema};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys per question to the server.
const KEYS_PER_QUESTION: usize = 200;

/// A row's last image.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) image: Option<Vec<u8>>,
    pub(super) version: SchemaVersion,
    pub(super) meta: RowMeta,
    pub(super) token: u64,
}

/// A change of a table without a key, in its order.
#[derive(Debug)]
pub(super) struct HeldChange {
    pub(super) place: (u64, u64),
    pub(super) operation: Operation,
    pub(super) flags: u8,
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Option<Vec<u8>>,
    pub(super) held: Held,
}

/// A chunk in flight.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) table: TableId,
    pub(super) held: HashMap<Key, Held>,
    pub(super) changes: Vec<HeldChange>,
    pub(super) held_bytes: usize,
    pub(super) rows: Option<ChunkRows>,
    pub(super) is_discarded: bool,
    pub(super) is_too_large: bool,
    pub(super) is_locked: bool,
}

/// What the reader's gate and the coordinator share.
pub(super) struct Shared {
    pub(super) tables: BTreeMap<TableId, TableCopy>,
    pub(super) chunks: HashMap<ChunkId, Chunk>,
    pub(super) next_chunk: ChunkId,
    pub(super) file: u64,
    pub(super) bytes_max: usize,
    pub(super) asker: Asker,
    pub(super) trouble: String,
    /// Tables whose copy ended with them: the journal is still to be told.
    pub(super) gone: Vec<TableId>,
}

/// Asks the server how keys compare.
pub(super) struct Asker {
    pub(super) endpoint: Endpoint,
    pub(super) tls: TlsConfig,
    pub(super) connection: Option<Connection>,
}

pub(super) fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn name_of(schema: &TableSchema) -> String {
    format!("{}.{}", schema.database, schema.name)
}

/// The reader's side: judges rows of tables under snapshot.
pub(super) struct GateHandle(pub(super) Arc<Mutex<Shared>>);

/// One record of the log, as the gate looks at it.
struct Seen<'a> {
    body: RowBody<'a>,
    key: Key,
}

impl Gate for GateHandle {
    fn holds(&self, table: TableId) -> bool {
        lock(&self.0)
            .tables
            .get(&table)
            .is_some_and(|copy| !copy.is_done() || copy.refused.is_some())
    }

    fn rows(
        &mut self,
        rows: &Batch,
        schema: &TableSchema,
        verdicts: &mut Vec<bool>,
    ) -> Result<(), SourceError> {
        let mut shared = lock(&self.0);
        let Some(table) = rows.entries().iter().find_map(|entry| match entry {
            Entry::Record(record) => Some(record.table),
            _ => None,
        }) else {
            return Ok(());
        };
        if let Some(copy) = shared.tables.get_mut(&table) {
            let may_differ = copy.schema.version != schema.version && copy.ranges.len() > 1;
            if may_differ && key::is_other(&copy.schema, schema) {
                copy.refuse_other_key();
            }
            if copy.refused.is_some() {
                // It is set aside at the transaction's end, and copied again once it is healed.
                verdicts.extend(rows.entries().iter().map(|_| false));
                return Ok(());
            }
        }
        let seen = seen_rows(rows, schema);
        let places = places(&mut shared, table, &seen)?;
        let mut next = seen.into_iter().zip(places);
        for entry in rows.entries() {
            let Entry::Record(record) = entry else {
                verdicts.push(true);
                continue;
            };
            let Some((seen, place)) = next.next() else {
                verdicts.push(true);
                continue;
            };
            let state = shared
                .tables
                .get(&table)
                .and_then(|copy| copy.ranges.get(place))
                .map_or(RangeState::Done, |range| range.state);
            verdicts.push(state == RangeState::Done);
            if let RangeState::InFlight(chunk) = state {
                hold(&mut shared, chunk, record, seen);
            }
        }
        Ok(())
    }

    fn ddl(&mut self, table: Option<TableId>) {
        discard(&mut lock(&self.0), table);
    }

    fn rollback(&mut self) {
        discard(&mut lock(&self.0), None);
    }

    fn renamed(&mut self, old: TableId, new: Option<&TableSchema>) {
        let mut shared = lock(&self.0);
        discard(&mut shared, Some(old));
        let Some(copy) = shared.tables.remove(&old) else {
            return;
        };
        shared.gone.push(old);
        if copy.is_done() && copy.refused.is_none() {
            return;
        }
        let Some(new) = new else { return };
        // What was read is told under the old name; under the new one the copy begins again.
        let schema = key::with_collations_of(new, &copy.schema);
        let mut again = TableCopy::new(Arc::new(schema), copy.order, copy.chunk_rows);
        again.rows_estimated = copy.rows_estimated;
        again.is_announced = false;
        shared.tables.insert(again.table, again);
    }
}

fn discard(shared: &mut Shared, table: Option<TableId>) {
    for chunk in shared.chunks.values_mut() {
        if table.is_none_or(|table| table == chunk.table) {
            chunk.is_discarded = true;
            chunk.held.clear();
            chunk.changes.clear();
        }
    }
}

/// The rows with their keys; `schema` is that of the images: without columns that are left out.
fn seen_rows<'a>(rows: &'a Batch, schema: &TableSchema) -> Vec<Seen<'a>> {
    let columns = schema.key();
    let mut seen = Vec::new();
    for entry in rows.entries() {
        let Entry::Record(record) = entry else {
            continue;
        };
        let Ok(body) = RowBody::read(rows.bytes(record.body)) else {
            continue;
        };
        let mut key = Key::new();
        if let Some(image) = body.after.or(body.before) {
            for index in columns {
                change::value::put_cell(&mut key, image.cell(*index as usize));
            }
        }
        seen.push(Seen { body, key });
    }
    seen
}

/// The range of each row.
///
/// Errors: `Unavailable` when the server cannot be asked; the transaction then comes again.
fn places(
    shared: &mut Shared,
    table: TableId,
    seen: &[Seen<'_>],
) -> Result<Vec<usize>, SourceError> {
    let Some(copy) = shared.tables.get(&table) else {
        return Ok(vec![usize::MAX; seen.len()]);
    };
    if copy.order != Order::Servers || copy.ranges.len() == 1 {
        return Ok(seen.iter().map(|one| copy.find(&one.key)).collect());
    }
    let mut places = Vec::with_capacity(seen.len());
    let highs = copy.highs();
    for part in seen.chunks(KEYS_PER_QUESTION) {
        let keys: Vec<Key> = part.iter().map(|one| one.key.clone()).collect();
        let Some(question) = key::place_question(&copy.schema, &keys, &highs) else {
            return Err(SourceError::new(
                ErrorKind::Internal,
                "compare keys",
                "a key cannot be written as SQL",
            )
            .at(name_of(&copy.schema)));
        };
        let answer = shared
            .asker
            .ask(&question)
            .map_err(|failure| failure.into_source("compare keys", &name_of(&copy.schema)))?;
        places.extend(answer);
    }
    Ok(places)
}

impl Asker {
    fn ask(&mut self, question: &str) -> Result<Vec<usize>, WireFailure> {
        for is_last in [false, true] {
            let answer = match &mut self.connection {
                Some(connection) => connection.rows(question),
                None => {
                    self.connection = Some(worker::session(&self.endpoint, &self.tls)?);
                    continue;
                }
            };
            match answer {
                Ok(rows) => return Ok(numbers(rows)),
                Err(failure) if is_last || !failure.is_passing() => return Err(failure),
                Err(_) => self.connection = Some(worker::session(&self.endpoint, &self.tls)?),
            }
        }
        match &mut self.connection {
            Some(connection) => connection.rows(question).map(numbers),
            None => Err(WireFailure::Protocol("no connection")),
        }
    }
}

fn numbers(rows: Vec<crate::wire::Row>) -> Vec<usize> {
    let cells = rows.into_iter().flatten();
    cells
        .map(|cell| {
            let text = cell.and_then(|bytes| String::from_utf8(bytes).ok());
            text.and_then(|text| text.parse().ok())
                .unwrap_or(usize::MAX)
        })
        .collect()
}

fn image_bytes(image: &change::Image<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(image.cell_bytes().len() + 2);
    put_u64(&mut bytes, image.column_count() as u64);
    bytes.extend_from_slice(image.cell_bytes());
    bytes
}

fn hold(shared: &mut Shared, id: ChunkId, record: &change::batch::RecordEntry, seen: Seen<'_>) {
    let (file, bytes_max) = (shared.file, shared.bytes_max);
    let is_ordered = shared
        .tables
        .get(&record.table)
        .is_some_and(|copy| copy.order != Order::None);
    let Some(chunk) = shared.chunks.get_mut(&id) else {
        return;
    };
    if chunk.is_discarded {
        return;
    }
    let body = seen.body;
    let before = body.before.as_ref().map(image_bytes);
    let after = body.after.as_ref().map(image_bytes);
    let size = before.as_ref().map_or(0, Vec::len) + after.as_ref().map_or(0, Vec::len);
    chunk.held_bytes += size + seen.key.len() + 128;
    let held = Held {
        image: if is_ordered { after.clone() } else { None },
        version: record.schema,
        meta: body.meta,
        token: record.key_token,
    };
    if is_ordered {
        chunk.held.insert(seen.key, held);
    } else {
        chunk.changes.push(HeldChange {
            place: (file, body.meta.end_offset),
            operation: record.operation,
            flags: record.flags,
            before,
            after,
            held,
        });
    }
    if chunk.held_bytes > bytes_max {
        chunk.is_discarded = true;
        chunk.is_too_large = true;
        chunk.held.clear();
        chunk.changes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Column, ColumnType, Value};

    fn column(name: &str) -> Column {
        Column {
            name: name.into(),
            declared: "int".into(),
            kind: ColumnType::Int {
                bytes: 4,
                unsigned: false,
            },
            charset: None,
            collation: None,
            nullable: false,
            default: None,
            comment: String::new(),
            generated: false,
            invisible: false,
            masked: false,
        }
    }

    fn schema(version: u32, columns: &[&str], key: &str) -> TableSchema {
        let place = columns.iter().position(|name| *name == key).unwrap();
        TableSchema {
            table: TableId(1),
            version: SchemaVersion(version),
            database: "shop".into(),
            name: "t".into(),
            columns: columns.iter().map(|name| column(name)).collect(),
            primary_key: vec![place as u32],
            unique_keys: Vec::new(),
            charset: None,
            comment: String::new(),
        }
    }

    fn key_of(value: i64) -> Key {
        let mut key = Key::new();
        change::value::put_value(&mut key, Value::Int(value));
        key
    }

    /// `shop.t` of `secret` and `id`, copied up to the key 10.
    fn half_copied() -> GateHandle {
        let mut copy = TableCopy::new(
            Arc::new(schema(1, &["secret", "id"], "id")),
            Order::Ours,
            100,
        );
        copy.split(0, key_of(10));
        copy.done(0);
        let config = crate::config::Endpoint::parse(&"mysql://nobody@127.0.0.1:1".into()).unwrap();
        GateHandle(Arc::new(Mutex::new(Shared {
            tables: BTreeMap::from([(TableId(1), copy)]),
            chunks: HashMap::new(),
            next_chunk: 1,
            file: 0,
            bytes_max: 1 << 20,
            asker: Asker {
                endpoint: config,
                tls: TlsConfig::default(),
                connection: None,
            },
            trouble: String::new(),
            gone: Vec::new(),
        })))
    }

    fn rows(cells: &[&[i64]]) -> Batch {
        let mut batch = Batch::default();
        for cells in cells {
            let mut row = batch.row(TableId(1), SchemaVersion(1), RowMeta::default());
            {
                let mut image = row.after(cells.len());
                for cell in *cells {
                    image.value(Value::Int(*cell));
                }
            }
            row.finish(Operation::Insert, 0, 0);
        }
        batch
    }

    #[test]
    fn the_key_is_found_in_images_that_lack_a_column_before_it() {
        let mut gate = half_copied();
        let mut verdicts = Vec::new();
        // `secret` is left out: images hold the key alone.
        let emitted = schema(1, &["id"], "id");
        gate.rows(&rows(&[&[3], &[10], &[11]]), &emitted, &mut verdicts)
            .unwrap();
        assert_eq!(verdicts, [true, true, false]);
    }

    #[test]
    fn after_a_statement_the_key_is_where_the_new_definition_has_it() {
        let mut gate = half_copied();
        let mut verdicts = Vec::new();
        let moved = schema(2, &["id", "added", "secret"], "id");
        gate.rows(&rows(&[&[3, 99, 99], &[11, 1, 1]]), &moved, &mut verdicts)
            .unwrap();
        assert_eq!(verdicts, [true, false]);
        assert!(lock(&gate.0).tables[&TableId(1)].refused.is_none());
    }

    #[test]
    fn a_table_whose_key_changes_while_it_is_copied_is_set_aside() {
        let mut gate = half_copied();
        let mut verdicts = Vec::new();
        let other = schema(2, &["secret", "id"], "secret");
        gate.rows(&rows(&[&[3, 3]]), &other, &mut verdicts).unwrap();
        assert_eq!(verdicts, [false]);
        assert!(gate.holds(TableId(1)), "its rows are kept back");
        let refused = lock(&gate.0).tables[&TableId(1)].refused.clone();
        assert!(refused.unwrap().contains("heal CONFIG shop.t --resnapshot"));
    }

    #[test]
    fn a_table_that_is_renamed_while_it_is_copied_is_copied_under_its_new_name() {
        let mut gate = half_copied();
        let mut renamed = schema(1, &["secret", "id"], "id");
        renamed.table = TableId(7);
        renamed.name = "u".into();
        gate.renamed(TableId(1), Some(&renamed));
        let shared = lock(&gate.0);
        assert_eq!(shared.gone, [TableId(1)]);
        let copy = &shared.tables[&TableId(7)];
        assert!(!copy.is_done() && !copy.is_announced && copy.ranges.len() == 1);
        assert_eq!(copy.schema.name, "u");
    }
}
