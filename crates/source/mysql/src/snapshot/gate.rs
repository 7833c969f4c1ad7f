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
            .is_some_and(|copy| !copy.is_done())
    }

    fn rows(&mut self, rows: &Batch, verdicts: &mut Vec<bool>) -> Result<(), SourceError> {
        let mut shared = lock(&self.0);
        let Some(table) = rows.entries().iter().find_map(|entry| match entry {
            Entry::Record(record) => Some(record.table),
            _ => None,
        }) else {
            return Ok(());
        };
        let seen = seen_rows(&shared, rows, table);
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

fn seen_rows<'a>(shared: &Shared, rows: &'a Batch, table: TableId) -> Vec<Seen<'a>> {
    let schema = shared
        .tables
        .get(&table)
        .map(|copy| Arc::clone(&copy.schema));
    let columns = schema
        .as_ref()
        .map(|schema| schema.key())
        .unwrap_or_default();
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
