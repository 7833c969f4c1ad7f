//! The life of chunks: planned, opened in the reader, read, merged, emitted.

use super::gate::{Asker, Chunk, GateHandle, Held, HeldChange, Shared, lock, name_of};
use super::key::{self, Key, Order};
use super::table::{ChunkId, RangeState, TableCopy};
use super::worker::{self, After, Answer, ChunkRows, Job, Target, Task};
use crate::binlog::cell::CellKind;
use crate::capture::tables::compile;
use crate::capture::{Capture, Resume};
use crate::config::{Endpoint, LockMode, MysqlConfig, TlsConfig};
use crate::live::server::{self, Server};
use crate::wire::{Connection, WireFailure};
use change::batch::RowBody;
use change::contract::TableProgress;
use change::position::{Gtids, file_number};
use change::wire::put_u64;
use change::{
    Batch, Entry, Operation, SchemaVersion, SourceError, TableId, TableSchema, TransactionHeader,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Pause after a chunk that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(300);
/// Tries of a table without a key before it may be locked.
const KEYLESS_TRIES: u32 = 5;
/// See the module's page.
pub struct Snapshot {
    shared: Arc<Mutex<Shared>>,
    jobs: Option<Sender<Job>>,
    answers: Receiver<(ChunkId, Answer)>,
    server: Server,
    threads: usize,
    chunk_rows: u64,
    lock: LockMode,
    is_complete: bool,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("is_complete", &self.is_complete)
            .finish_non_exhaustive()
    }
}

fn control_key(table: TableId) -> String {
    format!("source/snapshot/{}", table.0)
}

impl Snapshot {
    /// Finds the tables that are still to be copied and starts the workers; none if there are none.
    pub fn prepare(
        (config, endpoint, server): (&MysqlConfig, &Endpoint, &Server),
        capture: &mut Capture,
        resume: &Resume,
        connection: &mut Connection,
    ) -> Result<Option<Self>, WireFailure> {
        let options = &config.snapshot_options;
        let chunk_rows = options.chunk_rows.clamp(100, 1_000_000);
        let mut tables = BTreeMap::new();
        // After a lost journal the sinks have what is older than the position: nothing is copied.
        let is_recovered = !resume.anew && resume.value(b"source/snapshot") == Some(b"recovered");
        for (database, name, estimated) in server::tables(connection)? {
            if !capture.options().selection.matches(&database, &name) {
                continue;
            }
            let Some(schema) = schema_to_copy(capture, resume, &database, &name) else {
                continue;
            };
            let record = resume.value(control_key(schema.table).as_bytes());
            let record = record.filter(|_| !resume.anew);
            let schema = with_collations(connection, &schema)?;
            let mut copy = TableCopy::new(Arc::new(schema), Order::None, chunk_rows);
            copy.order = order_for(capture, &copy.schema);
            copy.rows_estimated = estimated;
            match record {
                Some(record) => copy
                    .restore(record)
                    .map_err(|_| WireFailure::Protocol("a damaged record of the copy"))?,
                None if is_recovered => copy.finish(),
                None => {}
            }
            tables.insert(copy.table, copy);
        }
        let all_done = tables.values().all(TableCopy::is_done);
        if all_done && !is_recovered && resume.value(b"source/snapshot").is_some() {
            return Ok(None);
        }
        let shared = Arc::new(Mutex::new(Shared {
            tables,
            chunks: HashMap::new(),
            next_chunk: 1,
            file: 0,
            bytes_max: options.chunk_bytes_max.max(1 << 20),
            asker: Asker {
                endpoint: endpoint.clone(),
                tls: config.tls.clone(),
                connection: None,
            },
            trouble: String::new(),
            gone: Vec::new(),
        }));
        capture.gate = Some(Box::new(GateHandle(Arc::clone(&shared))));
        let threads = options.threads.clamp(1, 64);
        let (jobs, answers) = start_workers(threads, endpoint, &config.tls, server);
        Ok(Some(Self {
            shared,
            jobs: Some(jobs),
            answers,
            server: server.clone(),
            threads,
            chunk_rows,
            lock: options.lock,
            is_complete: false,
        }))
    }

    /// Writes the state of all tables into the open transaction.
    pub fn announce(&self, batch: &mut Batch) {
        for copy in lock(&self.shared).tables.values() {
            batch.control(control_key(copy.table).as_bytes(), Some(&copy.encode()));
        }
    }

    /// Another server took over: what was read of the former one does not count in this one's log.
    pub fn another_server(&mut self, server: &Server) {
        let mut shared = lock(&self.shared);
        let chunks: Vec<ChunkId> = shared.chunks.keys().copied().collect();
        for chunk in chunks {
            give_up(&mut shared, chunk, "another server took over");
        }
        shared.asker.connection = None;
        self.server = server.clone();
        if self.jobs.is_some() {
            let (endpoint, tls) = (shared.asker.endpoint.clone(), shared.asker.tls.clone());
            let (jobs, answers) = start_workers(self.threads, &endpoint, &tls, server);
            (self.jobs, self.answers) = (Some(jobs), answers);
        }
    }

    /// Whether every table is copied and the journal says so.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Progress by table.
    pub fn progress(&self) -> Vec<TableProgress> {
        let shared = lock(&self.shared);
        let one = |copy: &TableCopy| TableProgress {
            table: name_of(&copy.schema),
            rows: copy.rows,
            rows_estimated: copy.rows_estimated.max(copy.rows),
            done: copy.is_done(),
        };
        shared.tables.values().map(one).collect()
    }

    /// What holds the copy up; empty for nothing.
    pub fn trouble(&self) -> String {
        lock(&self.shared).trouble.clone()
    }

    /// Between two transactions: takes the workers' answers, emits what is ripe, gives out work.
    ///
    /// Errors: none of the copy's own; a chunk that fails is tried again.
    pub fn boundary(
        &mut self,
        capture: &mut Capture,
        batch: &mut Batch,
    ) -> Result<(), SourceError> {
        if self.is_complete {
            return Ok(());
        }
        let place = {
            let (file, offset) = capture.read_offset();
            (file_number(file), offset)
        };
        let shared = Arc::clone(&self.shared);
        let mut shared = lock(&shared);
        shared.file = place.0;
        while let Ok((chunk, answer)) = self.answers.try_recv() {
            self.answered(&mut shared, capture, (chunk, answer));
        }
        emit_ripe(&mut shared, capture, place, batch);
        set_aside(&mut shared, capture, batch);
        announce_renamed(&mut shared, capture, batch);
        self.give_out(&mut shared, capture);
        let is_over = |copy: &TableCopy| copy.is_done() && copy.refused.is_none();
        if shared.chunks.is_empty() && shared.gone.is_empty() && shared.tables.values().all(is_over)
        {
            self.complete(capture, batch);
        }
        Ok(())
    }

    fn complete(&mut self, capture: &mut Capture, batch: &mut Batch) {
        self.is_complete = true;
        self.jobs = None;
        capture.gate = None;
        begin(capture, batch);
        batch.control(b"source/snapshot", Some(b"complete"));
        commit(capture, batch, 0);
    }

    fn answered(&self, shared: &mut Shared, capture: &Capture, (id, answer): (ChunkId, Answer)) {
        let Some(table) = shared.chunks.get(&id).map(|chunk| chunk.table) else {
            return;
        };
        match answer {
            Answer::Planned(high) => self.planned(shared, capture, (id, table), high),
            Answer::Rows(rows) => {
                if let Some(chunk) = shared.chunks.get_mut(&id) {
                    chunk.rows = Some(rows);
                }
            }
            Answer::TooLarge => {
                if let Some(chunk) = shared.chunks.get_mut(&id) {
                    chunk.is_too_large = true;
                }
                give_up(shared, id, "");
            }
            Answer::Failed(reason) => give_up(shared, id, &reason),
        }
    }

    /// The chunk's end is known: it opens in the reader here, then it is read.
    fn planned(
        &self,
        shared: &mut Shared,
        capture: &Capture,
        (id, table): (ChunkId, TableId),
        high: Option<Key>,
    ) {
        if shared
            .chunks
            .get(&id)
            .is_none_or(|chunk| chunk.is_discarded)
        {
            give_up(shared, id, "");
            return;
        }
        let Some(copy) = shared.tables.get_mut(&table) else {
            return;
        };
        let Some(index) = copy.of_chunk(id) else {
            return;
        };
        if let Some(high) = high
            && copy.ranges[index].high.as_ref() != Some(&high)
        {
            copy.split(index, high);
        }
        self.read(shared, capture, (id, table));
    }

    fn read(&self, shared: &mut Shared, capture: &Capture, (id, table): (ChunkId, TableId)) {
        let bytes_max = shared.bytes_max;
        let Some(copy) = shared.tables.get_mut(&table) else {
            return;
        };
        let Some(index) = copy.of_chunk(id) else {
            return;
        };
        copy.ranges[index].state = RangeState::InFlight(id);
        let is_whole = copy.order == Order::None;
        let lock_table = is_whole && self.lock == LockMode::Table && copy.failures >= KEYLESS_TRIES;
        let target = match target_of(capture, copy) {
            Ok(target) => target,
            Err(reason) => return give_up(shared, id, &reason),
        };
        let job = Job {
            chunk: id,
            target,
            low: copy.low(index).cloned(),
            high: copy.ranges[index].high.clone(),
            task: Task::Read {
                after: self.after(capture),
                bytes_max,
                lock_table,
            },
        };
        if let Some(chunk) = shared.chunks.get_mut(&id) {
            chunk.is_locked = lock_table;
        }
        self.send(shared, job);
    }

    /// What the server must have committed: everything that the reader has seen.
    fn after(&self, capture: &Capture) -> After {
        if self.server.mariadb {
            let (file, offset) = capture.read_offset();
            return After::Place(file_number(file), offset);
        }
        match &capture.position().gtids {
            Gtids::Mysql(set) if self.server.has_gtids => After::Gtids(set.to_string()),
            _ if self.server.has_gtids => After::Gtids(String::new()),
            _ => After::Locks,
        }
    }

    fn send(&self, shared: &mut Shared, job: Job) {
        let id = job.chunk;
        let is_sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        if !is_sent {
            give_up(shared, id, "no worker is left");
        }
    }

    /// Plans chunks while workers are free.
    fn give_out(&self, shared: &mut Shared, capture: &Capture) {
        let now = Instant::now();
        while shared.chunks.len() < self.threads * 2 {
            let free = shared.tables.values().find_map(|copy| {
                let is_due = copy.not_before.is_none_or(|time| time <= now);
                let is_unread = |range: &super::table::Range| range.state == RangeState::Unread;
                let index = copy.ranges.iter().position(is_unread)?;
                is_due.then_some((copy.table, index))
            });
            let Some((table, index)) = free else { return };
            self.plan(shared, capture, (table, index));
        }
    }

    fn plan(&self, shared: &mut Shared, capture: &Capture, (table, index): (TableId, usize)) {
        let id = shared.next_chunk;
        shared.next_chunk += 1;
        let Some(copy) = shared.tables.get_mut(&table) else {
            return;
        };
        match refresh(capture, copy) {
            Now::There => {}
            Now::Gone => {
                shared.tables.remove(&table);
                shared.gone.push(table);
                return;
            }
            Now::OtherKey => return copy.refuse_other_key(),
        }
        copy.ranges[index].state = RangeState::Planned(id);
        let chunk = Chunk {
            table,
            ..Chunk::default()
        };
        shared.chunks.insert(id, chunk);
        let Some(copy) = shared.tables.get_mut(&table) else {
            return;
        };
        if copy.order == Order::None {
            return self.read(shared, capture, (id, table));
        }
        let target = match target_of(capture, copy) {
            Ok(target) => target,
            Err(reason) => return give_up(shared, id, &reason),
        };
        let job = Job {
            chunk: id,
            target,
            low: copy.low(index).cloned(),
            high: copy.ranges[index].high.clone(),
            task: Task::Plan {
                rows: copy.chunk_rows.min(self.chunk_rows),
            },
        };
        self.send(shared, job);
    }
}

type Channels = (Sender<Job>, Receiver<(ChunkId, Answer)>);

fn start_workers(
    threads: usize,
    endpoint: &Endpoint,
    tls: &TlsConfig,
    server: &Server,
) -> Channels {
    let (jobs, queue) = channel();
    let (answer, answers) = channel();
    let queue = Arc::new(Mutex::new(queue));
    for number in 0..threads {
        let (queue, answer) = (Arc::clone(&queue), answer.clone());
        let (endpoint, tls, server) = (endpoint.clone(), tls.clone(), server.clone());
        let work = move || worker::run(&queue, &answer, (&endpoint, &tls, &server));
        let thread = std::thread::Builder::new()
            .name(format!("mysql-copy-{number}"))
            .spawn(work);
        if let Err(error) = thread {
            tracing::error!(%error, "could not start a thread");
        }
    }
    (jobs, answers)
}

/// The table's schema if it is to be copied: in a fresh journal every one; later those whose copy is
/// not whole, and those that the journal has never seen.
fn schema_to_copy(
    capture: &mut Capture,
    resume: &Resume,
    database: &str,
    name: &str,
) -> Option<Arc<TableSchema>> {
    let known = capture.catalog().get(database, name).cloned();
    let schema = match known {
        Some(schema) => schema,
        None => {
            let text = capture.oracle.as_mut()?.show_create(database, name)?;
            match capture.catalog_mut().seed(database, &text) {
                Ok(schema) => schema,
                Err(error) => {
                    if !resume.is_fresh() {
                        capture.cannot_read(format!("{database}.{name}"), &error);
                    }
                    return None;
                }
            }
        }
    };
    if resume.is_fresh() {
        return Some(schema);
    }
    let is_begun = resume.value(control_key(schema.table).as_bytes()).is_some();
    let is_seen = resume
        .value(format!("source/catalog/{}", schema.table.0).as_bytes())
        .is_some();
    (is_begun || !is_seen).then_some(schema)
}

/// Collations of text columns, which SHOW CREATE TABLE leaves out where they are the default.
fn with_collations(
    connection: &mut Connection,
    schema: &TableSchema,
) -> Result<TableSchema, WireFailure> {
    let mut schema = schema.clone();
    let rows = connection.rows(&format!(
        "SELECT column_name, character_set_name, collation_name FROM information_schema.columns \
         WHERE table_schema = {} AND table_name = {} AND collation_name IS NOT NULL",
        server::literal(&schema.database),
        server::literal(&schema.name)
    ))?;
    for row in rows {
        let [Some(name), Some(charset), Some(collation)] = &row[..] else {
            continue;
        };
        let name = String::from_utf8_lossy(name);
        if let Some(column) = schema.columns.iter_mut().find(|column| column.name == name) {
            column.collation = Some(String::from_utf8_lossy(collation).into_owned());
            let charset = String::from_utf8_lossy(charset).into_owned();
            column.charset.get_or_insert(charset);
        }
    }
    Ok(schema)
}

fn order_for(capture: &Capture, schema: &TableSchema) -> Order {
    let treatments = capture
        .options()
        .rules
        .treatments(schema)
        .unwrap_or_default();
    let is_masked = schema.key().iter().any(|index| {
        treatments
            .get(*index as usize)
            .is_some_and(|treatment| *treatment != crate::binlog::plan::Treatment::Keep)
    });
    key::order_of(schema, is_masked)
}

/// What became of a table under copy.
enum Now {
    There,
    Gone,
    OtherKey,
}

/// Takes the schema that is in force in the log now.
fn refresh(capture: &Capture, copy: &mut TableCopy) -> Now {
    let Some(now) = capture
        .catalog()
        .get(&copy.schema.database, &copy.schema.name)
    else {
        return Now::Gone;
    };
    if now.version != copy.schema.version {
        if copy.ranges.len() > 1 && key::is_other(&copy.schema, now) {
            return Now::OtherKey;
        }
        let schema = key::with_collations_of(now, &copy.schema);
        copy.order = order_for(capture, &schema);
        copy.schema = Arc::new(schema);
    }
    Now::There
}

fn target_of(capture: &Capture, copy: &TableCopy) -> Result<Arc<Target>, String> {
    let kinds = vec![CellKind::Nothing; copy.schema.columns.len()];
    let plan = compile(&capture.options().rules, &copy.schema, kinds)?;
    Ok(Arc::new(Target {
        schema: Arc::clone(&copy.schema),
        plan,
        order: copy.order,
    }))
}

/// A chunk is thrown away: nothing of it was emitted, its range is unread again.
fn give_up(shared: &mut Shared, id: ChunkId, reason: &str) {
    let Some(chunk) = shared.chunks.remove(&id) else {
        return;
    };
    let Some(copy) = shared.tables.get_mut(&chunk.table) else {
        return;
    };
    copy.failures = copy.failures.saturating_add(1);
    copy.not_before = Some(Instant::now() + RETRY_PAUSE * copy.failures.min(20));
    if chunk.is_too_large && copy.order == Order::None {
        let name = name_of(&copy.schema);
        copy.refused = Some(format!(
            "without a key {name} is read whole, and its rows, or the changes made meanwhile, are \
             more than snapshot_options.chunk_bytes_max ({} bytes): add a primary key, or raise the \
             limit, then headwater heal CONFIG {name} --resnapshot",
            shared.bytes_max
        ));
    } else if chunk.is_too_large {
        copy.chunk_rows = (copy.chunk_rows / 2).max(1);
    }
    if !reason.is_empty() {
        shared.trouble = format!("copy of {}: {reason}", name_of(&copy.schema));
        tracing::warn!(
            table = name_of(&copy.schema),
            reason,
            "a chunk is read again"
        );
    }
    if let Some(index) = copy.of_chunk(id) {
        copy.ranges[index].state = RangeState::Unread;
        copy.join(RangeState::Unread);
    }
}

/// Tables that cannot be copied: set aside with the reason, the others go on.
fn set_aside(shared: &mut Shared, capture: &mut Capture, batch: &mut Batch) {
    for copy in shared.tables.values_mut() {
        let Some(reason) = copy.refused.take() else {
            continue;
        };
        copy.finish();
        begin(capture, batch);
        let known = capture
            .catalog()
            .get(&copy.schema.database, &copy.schema.name);
        if let Some(schema) = known.cloned() {
            capture.announce_schema(&schema, batch);
        }
        capture.park(&name_of(&copy.schema), &reason, batch);
        batch.control(control_key(copy.table).as_bytes(), Some(&copy.encode()));
        commit(capture, batch, 0);
    }
}

/// Tables that were renamed or dropped while they were copied: the journal is told.
fn announce_renamed(shared: &mut Shared, capture: &mut Capture, batch: &mut Batch) {
    let is_new = |copy: &TableCopy| !copy.is_announced;
    if shared.gone.is_empty() && !shared.tables.values().any(is_new) {
        return;
    }
    begin(capture, batch);
    for table in shared.gone.drain(..) {
        batch.control(control_key(table).as_bytes(), None);
    }
    for copy in shared.tables.values_mut().filter(|copy| is_new(copy)) {
        copy.is_announced = true;
        copy.order = order_for(capture, &copy.schema);
        batch.control(control_key(copy.table).as_bytes(), Some(&copy.encode()));
    }
    commit(capture, batch, 0);
}

fn emit_ripe(shared: &mut Shared, capture: &mut Capture, place: (u64, u64), batch: &mut Batch) {
    let mut ripe: Vec<ChunkId> = Vec::new();
    let mut bad: Vec<(ChunkId, &str)> = Vec::new();
    for (id, chunk) in &shared.chunks {
        let Some(rows) = &chunk.rows else { continue };
        let is_keyless_torn = !chunk.is_locked
            && chunk
                .changes
                .iter()
                .any(|change| change.place <= rows.high_mark);
        if chunk.is_discarded {
            bad.push((*id, ""));
        } else if is_keyless_torn {
            bad.push((
                *id,
                "it has no key and was changed while it was read: give it a primary key, or set \
                 snapshot_options.lock: table",
            ));
        } else if place >= rows.high_mark {
            ripe.push(*id);
        }
    }
    for (id, reason) in bad {
        give_up(shared, id, reason);
    }
    ripe.sort_unstable();
    for id in ripe {
        emit(shared, capture, id, batch);
    }
}

fn begin(capture: &Capture, batch: &mut Batch) {
    let position = capture.position();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    batch.begin(&TransactionHeader {
        server_id: capture.options().server_id,
        file: position.file.clone(),
        begin_offset: position.offset,
        time_s: u32::try_from(now.as_secs()).unwrap_or(u32::MAX),
        snapshot: true,
        ..TransactionHeader::default()
    });
}

fn commit(capture: &Capture, batch: &mut Batch, row_changes: u64) {
    let position = capture.position();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let trailer = change::TransactionTrailer {
        step: change::PositionStep {
            file: position.file.clone(),
            offset: position.offset,
            id: None,
        },
        row_changes,
        time_s: u32::try_from(now.as_secs()).unwrap_or(u32::MAX),
        ..change::TransactionTrailer::default()
    };
    batch.commit(&trailer, u64::try_from(now.as_micros()).unwrap_or(u64::MAX));
}

/// Chunk and done-record become one transaction.
fn emit(shared: &mut Shared, capture: &mut Capture, id: ChunkId, batch: &mut Batch) {
    let Some(mut chunk) = shared.chunks.remove(&id) else {
        return;
    };
    let (Some(copy), Some(rows)) = (shared.tables.get_mut(&chunk.table), chunk.rows.take()) else {
        return;
    };
    begin(capture, batch);
    if let Some(schema) = capture
        .catalog()
        .get(&copy.schema.database, &copy.schema.name)
        .cloned()
    {
        capture.announce_schema(&schema, batch);
    }
    let mut count = merge(&rows, &mut chunk.held, batch);
    let version = copy.schema.version;
    for (_, held) in chunk.held.drain() {
        count += put_held(chunk.table, &held, Operation::Read, batch);
    }
    for change in chunk.changes.drain(..) {
        if change.place > rows.high_mark {
            count += put_change(chunk.table, version, &change, batch);
        }
    }
    copy.rows += count;
    copy.failures = 0;
    copy.not_before = None;
    shared.trouble.clear();
    if let Some(index) = copy.of_chunk(id) {
        copy.done(index);
    }
    batch.control(control_key(copy.table).as_bytes(), Some(&copy.encode()));
    commit(capture, batch, count);
}

/// Copies the rows that were read, each replaced by its held image or dropped where it was deleted.
fn merge(rows: &ChunkRows, held: &mut HashMap<Key, Held>, batch: &mut Batch) -> u64 {
    let mut count = 0;
    let mut start = 0;
    let mut image = Vec::new();
    let mut ends = rows.key_ends.iter();
    for entry in rows.batch.entries() {
        let Entry::Record(record) = entry else {
            continue;
        };
        let end = ends.next().copied().unwrap_or(start);
        let key = &rows.keys[start..end];
        start = end;
        if !held.is_empty()
            && let Some(change) = held.remove(key)
        {
            count += put_held(record.table, &change, Operation::Read, batch);
            continue;
        }
        let Ok(body) = RowBody::read(rows.batch.bytes(record.body)) else {
            continue;
        };
        let Some(after) = body.after else { continue };
        image.clear();
        put_u64(&mut image, after.column_count() as u64);
        image.extend_from_slice(after.cell_bytes());
        let mut row = batch.row(record.table, record.schema, body.meta);
        row.copy_after(&image);
        row.finish(Operation::Read, 0, record.key_token);
        count += 1;
    }
    count
}

fn put_held(table: TableId, held: &Held, operation: Operation, batch: &mut Batch) -> u64 {
    let Some(image) = &held.image else { return 0 };
    let mut row = batch.row(table, held.version, held.meta);
    row.copy_after(image);
    row.finish(operation, 0, held.token);
    1
}

fn put_change(
    table: TableId,
    version: SchemaVersion,
    change: &HeldChange,
    batch: &mut Batch,
) -> u64 {
    let mut row = batch.row(table, version, change.held.meta);
    if let Some(before) = &change.before {
        row.copy_before(before);
    }
    if let Some(after) = &change.after {
        row.copy_after(after);
    }
    row.finish(change.operation, change.flags, change.held.token);
    u64::from(change.flags != change::batch::FLAG_PAIR_FIRST)
}
