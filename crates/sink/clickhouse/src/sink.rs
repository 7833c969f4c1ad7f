//! The sink: rows into buffers, buffers into inserts, one watermark after them.

use crate::check;
use crate::client::Client;
use crate::config::{ClickHouseConfig, Engine, FoldConfig, Mode, OnDrop};
use crate::encode::DateRange;
use crate::error::invalid;
use crate::fold::{Folder, Job, crash_point, lock};
use crate::layout::TableLayout;
use crate::lookup;
use crate::names;
use crate::state::State;
use crate::statement;
use crate::structure::{Structure, aside_if_for_good, starts_with_drop};
use crate::table::{Refusal, RowPart, Rows, Table, differ, header};
use bytes::Bytes;
use change::contract::{Aside, ErrorKind, Rejection};
use change::event::DdlChange;
use change::{
    CopyMark, CopyStage, Cursor, DdlKind, Event, Operation, RowChange, Sink, SinkError, TableSchema,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long statements of a former life may still run.
const FORMER_WAIT: Duration = Duration::from_secs(60);

/// Whose sink it is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The pipeline's name.
    pub pipeline: String,
    /// The sink's name.
    pub sink: String,
}

/// Changes into ClickHouse; see the crate's page.
pub struct ClickHouseSink {
    config: Arc<ClickHouseConfig>,
    label: String,
    state: Arc<State>,
    /// What [`Sink::open`] made; none before.
    opened: Option<Opened>,
    /// The newest version of each table's schema, by the table's number.
    schemas: HashMap<u32, Arc<TableSchema>>,
}

/// A connection and what is known of the target.
struct Opened {
    client: Client,
    structure: Structure,
    /// By the source's name.
    tables: BTreeMap<String, Table>,
    /// The table of a number and a version, by its name: the way of a row.
    routes: HashMap<(u32, u32), String>,
    folder: Option<Folder>,
    watermark: u64,
    cursor: u64,
    /// A transaction is running: nothing after the last commit may be seen.
    in_transaction: bool,
    last_commit: u64,
    /// Highest sequence that was inserted.
    last_inserted: u64,
    /// When the watermark last covered everything.
    covered_at: Instant,
    /// Tells the inserts of this connection from those of former ones: what was cleaned up and comes
    /// again must not look like a repetition.
    life: String,
    /// Tables whose copy is whole with the next flush, and where the journal says so.
    pending_marks: Vec<(String, u64)>,
}

impl ClickHouseSink {
    /// A sink that is not connected yet.
    ///
    /// Errors: `Invalid` for settings that cannot be.
    pub fn new(config: ClickHouseConfig, identity: &Identity) -> Result<Self, SinkError> {
        validate(&config)?;
        let (database, table) = names::state(&config, &identity.pipeline, &identity.sink);
        let state = Arc::new(State::new(database, table, config.fsync));
        Ok(Self {
            label: format!("headwater {}/{}", identity.pipeline, identity.sink),
            config: Arc::new(config),
            state,
            opened: None,
            schemas: HashMap::new(),
        })
    }

    fn opened(&mut self) -> Result<&mut Opened, SinkError> {
        self.opened
            .as_mut()
            .ok_or_else(|| SinkError::new(ErrorKind::Internal, "write", "the sink is not open"))
    }

    /// Waits until statements of a former process have ended: what they insert must not come after
    /// what is cleaned up now.
    fn wait_for_former(&self, client: &Client) -> Result<(), SinkError> {
        let sql = format!(
            "SELECT count() FROM system.processes WHERE Settings['log_comment'] = {} AND query NOT LIKE \
             '%system.processes%'",
            names::literal(&self.label)
        );
        let since = Instant::now();
        while client.number("look for statements of a former process", &sql)? > 0 {
            if since.elapsed() > FORMER_WAIT {
                return Err(SinkError::new(
                    ErrorKind::Unavailable,
                    "open",
                    "statements of a former process still run",
                ));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Errors: `Invalid` for what cannot be.
pub(crate) fn validate(config: &ClickHouseConfig) -> Result<(), SinkError> {
    names::validate(config)?;
    if !config.url.starts_with("http://") && !config.url.starts_with("https://") {
        return Err(invalid(
            "url is no HTTP address",
            "write http://host:8123 or https://host:8443",
        ));
    }
    let fold = &config.fold;
    let ranges = [
        ("insert_rows_max", config.insert_rows_max, 1000, 1_000_000),
        ("timeout_s", config.timeout_s, 1, 86_400),
        ("fold.rows", fold.rows, 1, u64::MAX),
        ("fold.age_ms", fold.age_ms, 10, 86_400_000),
        ("fold.duty_percent", fold.duty_percent, 1, 100),
        ("fold.grace_ms", fold.grace_ms, 10, 600_000),
    ];
    for (key, value, least, most) in ranges {
        if !(least..=most).contains(&value) {
            return Err(invalid(
                format!("{key} is {value}"),
                format!("{least} to {most}"),
            ));
        }
    }
    if config.cancel_rows
        && (config.mode != Mode::SignVersion || config.engine != Engine::Replacing)
    {
        return Err(invalid(
            "cancel_rows is for mode: sign_version with engine: replacing",
            "leave it out; versioned_collapsing always has them",
        ));
    }
    Ok(())
}

pub(crate) fn rejection(
    table: &TableSchema,
    (key_token, sequence): (Option<u64>, u64),
    target: String,
    reason: String,
) -> SinkError {
    let name = format!("{}.{}", table.database, table.name);
    let key_columns = match key_token {
        Some(_) => table
            .key()
            .iter()
            .map(|index| table.columns[*index as usize].name.clone())
            .collect(),
        None => Vec::new(),
    };
    let mut error =
        SinkError::new(ErrorKind::Invalid, "write row", reason.clone()).at(name.clone());
    error.rejection = Some(Box::new(Rejection {
        table: name,
        key_token,
        sequence,
        target,
        key_columns,
        reason,
    }));
    error
}

fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Opened {
    /// The table of a row, made or changed where the target lags behind.
    fn table_for(&mut self, schema: &TableSchema, sequence: u64) -> Result<&mut Table, SinkError> {
        let route = (schema.table.0, schema.version.0);
        if !self.routes.contains_key(&route) {
            let name = format!("{}.{}", schema.database, schema.name);
            let known = Arc::new(schema.clone());
            let (client, tables) = (&self.client, &mut self.tables);
            let ensured = self.structure.ensure(client, tables, &known, sequence);
            aside_if_for_good(ensured, schema, sequence, name.clone())?;
            self.routes.insert(route, name);
        }
        let name = &self.routes[&route];
        self.tables.get_mut(name).ok_or_else(|| {
            SinkError::new(
                ErrorKind::Internal,
                "write row",
                "a table without its target",
            )
        })
    }

    fn row(&mut self, row: &RowChange<'_>, config: &ClickHouseConfig) -> Result<(), SinkError> {
        let table = self.table_for(row.table, row.sequence)?;
        let mark = table.mark();
        if let Err(refusal) = write_row(table, row, config) {
            table.take_back(mark);
            let column = &row.table.columns[refusal.column].name;
            let reason = format!("column `{column}`: {}", refusal.misfit.0);
            let target = table.names.shown();
            return Err(rejection(
                row.table,
                (Some(row.key_token), row.sequence),
                target,
                reason,
            ));
        }
        let time = row.header.best_time_us();
        table.oldest_us.get_or_insert(time);
        Ok(())
    }

    /// Sends what every table holds.
    ///
    /// Errors: a rejection of a whole table whose rows the server refuses for what they are.
    fn send(&mut self, config: &ClickHouseConfig, label: &str) -> Result<(), SinkError> {
        for table in self.tables.values_mut() {
            let first = [&table.load, &table.rows]
                .into_iter()
                .filter(|rows| rows.count > 0)
                .map(|rows| rows.first)
                .min();
            let Some(first) = first else { continue };
            if table.rows.count > 0 {
                self.last_inserted = self.last_inserted.max(table.rows.last);
            }
            let sent = send_table(&self.client, table, config, label);
            let (schema, target) = (Arc::clone(&table.note.schema), table.names.shown());
            aside_if_for_good(sent, &schema, first, target)?;
        }
        Ok(())
    }

    /// Gives tables to the folding thread whose time has come; only between transactions.
    fn fold_due(&mut self, config: &ClickHouseConfig) {
        let Some(folder) = &self.folder else { return };
        if self.last_inserted > self.watermark {
            return;
        }
        for table in self.tables.values_mut() {
            // Rows that wait for the next flush carry the running epoch: it may not end before them.
            if table.rows.count > 0 || !is_fold_due(table, &config.fold) {
                continue;
            }
            folder.give(Job {
                source: table.source.clone(),
                names: table.names.clone(),
                layout: Arc::clone(&table.layout),
                epoch: table.epoch,
                covered_at: self.covered_at,
                standing: Arc::clone(&table.fold),
                base_lock: Arc::clone(&table.base_lock),
            });
            table.epoch += 1;
        }
    }
}

fn is_fold_due(table: &mut Table, policy: &FoldConfig) -> bool {
    let standing = lock(&table.fold);
    table
        .pending
        .retain(|pending| pending.epoch > standing.folded);
    let rows: u64 = table.pending.iter().map(|pending| pending.rows).sum();
    let Some(first) = table.pending.first() else {
        return false;
    };
    let age_ms = first.since.elapsed().as_millis();
    if standing.is_running || rows < policy.rows && age_ms < u128::from(policy.age_ms) {
        return false;
    }
    // So much rest after a fold that folding takes at most its share of the time.
    let mut rest_ms = standing.last_took_ms * (100 - policy.duty_percent) / policy.duty_percent;
    if !standing.trouble.is_empty() {
        rest_ms = rest_ms.max(1000);
    }
    standing
        .last_end
        .is_none_or(|end| end.elapsed().as_millis() >= u128::from(rest_ms))
}

/// Sends what one table holds.
fn send_table(
    client: &Client,
    table: &mut Table,
    config: &ClickHouseConfig,
    label: &str,
) -> Result<(), SinkError> {
    if table.load.count > 0 {
        let lock_of = Arc::clone(&table.base_lock);
        let _held = lock(&lock_of);
        let columns = table.layout.base_insert();
        let sql = insert_sql(&table.names.base(), &columns);
        let mut settings = vec![("insert_allow_materialized_columns", "1")];
        settings.extend(json_settings(&table.layout));
        let token = token(label, &table.source, &table.load);
        let rows = (&mut table.load, &*token);
        send(client, (&sql, &columns), rows, &settings)?;
        crash_point("flush-load");
    }
    if table.rows.count == 0 {
        return Ok(());
    }
    lookup::fill(table, client, config.mode)?;
    if table.rows.count == 0 {
        table.rows.clear();
        return Ok(());
    }
    let (name, columns) = match config.mode {
        Mode::Mvcc => (table.names.delta(), table.layout.delta_insert()),
        Mode::SignVersion => (table.names.base(), table.layout.base_insert()),
    };
    let count = table.rows.count;
    let sql = insert_sql(&name, &columns);
    let mut settings = vec![
        ("insert_allow_materialized_columns", "1"),
        ("optimize_on_insert", "0"),
    ];
    settings.extend(json_settings(&table.layout));
    let token = token(label, &table.source, &table.rows);
    let rows = (&mut table.rows, &*token);
    send(client, (&sql, &columns), rows, &settings)?;
    crash_point("flush-rows");
    table.add_pending(count);
    Ok(())
}

/// Writes one change into the buffers of its table.
fn write_row(
    table: &mut Table,
    row: &RowChange<'_>,
    config: &ClickHouseConfig,
) -> Result<(), Refusal> {
    if let Some((gone, come)) = row.split_key_change() {
        put_gone(table, &gone, config)?;
        return put_come(table, &come, config);
    }
    match (row.operation, row.before, row.after) {
        (Operation::Read, _, Some(image))
            if table.note.is_loading && !table.layout.is_keyless() =>
        {
            table.put_loaded(part(row, image))
        }
        // What a copy brings takes the place of what is there: a row that the stream has brought before
        // is there with its own version.
        (Operation::Read, _, Some(image)) if table.layout.has_event() => {
            table.put_signed(part(row, image), -1, true)?;
            put_come(table, row, config)
        }
        (Operation::Insert | Operation::Read, _, Some(_)) => put_come(table, row, config),
        (Operation::Update, Some(before), Some(after)) => {
            let layout = Arc::clone(&table.layout);
            let all: Vec<usize> = (0..layout.columns.len()).collect();
            if layout.is_keyless() && !differ(before, after, &all) {
                // The same row: gone and come with one sequence it could be either.
                return Ok(());
            }
            let moves = layout.is_keyless()
                || differ(before, after, &layout.key)
                || config.mode == Mode::SignVersion && differ(before, after, &layout.sort);
            let cancels = config.mode == Mode::SignVersion
                && (config.cancel_rows || config.engine == Engine::VersionedCollapsing);
            if moves || cancels {
                put_gone(table, row, config)?;
            }
            put_come(table, row, config)
        }
        (Operation::Update, None, Some(_)) => put_come(table, row, config),
        (Operation::Delete, Some(_), _) => put_gone(table, row, config),
        // Statements and unreadable records are no rows; an image is always there.
        _ => Ok(()),
    }
}

fn part<'a>(row: &RowChange<'a>, image: change::Image<'a>) -> RowPart<'a> {
    RowPart {
        image,
        also: None,
        token: row.key_token,
        sequence: row.sequence,
    }
}

fn put_come(
    table: &mut Table,
    row: &RowChange<'_>,
    config: &ClickHouseConfig,
) -> Result<(), Refusal> {
    let Some(image) = row.after else {
        return Ok(());
    };
    let mut part = part(row, image);
    // What an update's image lacks has not changed.
    part.also = row.before;
    match config.mode {
        Mode::Mvcc => table.put_pending(part, now_ms()),
        Mode::SignVersion => table.put_signed(part, 1, false),
    }
}

fn put_gone(
    table: &mut Table,
    row: &RowChange<'_>,
    config: &ClickHouseConfig,
) -> Result<(), Refusal> {
    let Some(image) = row.before else {
        return Ok(());
    };
    let part = part(row, image);
    match config.mode {
        Mode::Mvcc => table.put_deleted(part, now_ms()),
        Mode::SignVersion => {
            let cancels = config.engine == Engine::VersionedCollapsing;
            table.put_signed(part, -1, cancels)
        }
    }
}

/// Documents are sent as text; servers without the type JSON do not know the setting.
fn json_settings(layout: &TableLayout) -> Option<(&'static str, &'static str)> {
    layout
        .has_json()
        .then_some(("input_format_binary_read_json_as_string", "1"))
}

fn insert_sql(name: &str, columns: &[(String, String)]) -> String {
    let list = names::list(columns.iter().map(|(name, _)| name));
    format!("INSERT INTO {name} ({list}) FORMAT RowBinaryWithNamesAndTypes")
}

/// What a repetition of an insert is known by.
fn token(label: &str, table: &str, rows: &Rows) -> String {
    format!(
        "{label} {table} {}-{} {}",
        rows.first, rows.last, rows.count
    )
}

fn send(
    client: &Client,
    (sql, columns): (&str, &[(String, String)]),
    (rows, token): (&mut Rows, &str),
    settings: &[(&str, &str)],
) -> Result<(), SinkError> {
    let data = Bytes::from(std::mem::take(&mut rows.data));
    let sent = client.insert(
        sql,
        &[Bytes::from(header(columns)), data.clone()],
        Some(token),
        settings,
    );
    // The buffer comes back for the next batch.
    rows.data = data.try_into_mut().map(Vec::from).unwrap_or_default();
    rows.clear();
    sent
}

impl Sink for ClickHouseSink {
    fn open(&mut self) -> Result<Option<Cursor>, SinkError> {
        self.opened = None;
        let client = Client::new(&self.config, &self.label)?;
        let version = check::version(&client)?;
        check::require(&self.config, version)?;
        let client = client.for_version(version);
        self.state.create(&client)?;
        let kept = self.state.take_over(&client)?;
        self.wait_for_former(&client)?;
        let cursor = kept.cursor.as_ref().map_or(0, |cursor| cursor.sequence);
        let structure = Structure::new(
            Arc::clone(&self.config),
            Arc::clone(&self.state),
            version,
            DateRange::new(version.has_all_dates(), self.config.types.out_of_range),
            kept.folded,
        );
        let mut opened = Opened {
            structure,
            tables: BTreeMap::new(),
            routes: HashMap::new(),
            folder: None,
            watermark: kept.watermark,
            cursor,
            in_transaction: false,
            last_commit: kept.watermark,
            last_inserted: kept.watermark,
            covered_at: Instant::now(),
            pending_marks: Vec::new(),
            life: format!(
                "{:x}",
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default()
                    .as_nanos()
            ),
            client,
        };
        for (name, note) in kept.tables {
            let (structure, client) = (&mut opened.structure, &opened.client);
            match structure.restore(client, &name, note.clone(), cursor) {
                Ok(table) => drop(opened.tables.insert(name, table)),
                // The others go on: its rows are refused as they come.
                Err(error) => match error.rejection {
                    Some(rejection) => structure.leave_out(name, note, rejection.reason),
                    None => return Err(error),
                },
            }
        }
        if self.config.mode == Mode::Mvcc {
            let client = Client::new(&self.config, &self.label)?.for_version(version);
            let grace = Duration::from_millis(self.config.fold.grace_ms);
            opened.folder = Some(Folder::start(client, Arc::clone(&self.state), grace)?);
        }
        self.opened = Some(opened);
        Ok(kept.cursor)
    }

    fn write(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        let config = Arc::clone(&self.config);
        match event {
            Event::Begin { .. } => self.opened()?.in_transaction = true,
            Event::Row(row) => {
                let opened = self.opened()?;
                opened.in_transaction = true;
                opened.row(row, &config)?;
            }
            Event::Commit { sequence, .. } => {
                let opened = self.opened()?;
                opened.in_transaction = false;
                opened.last_commit = *sequence;
            }
            Event::Ddl(change) => self.statement(change)?,
        }
        Ok(())
    }

    fn flush(&mut self, cursor: &Cursor) -> Result<(), SinkError> {
        let config = Arc::clone(&self.config);
        let label = self.label.clone();
        let state = Arc::clone(&self.state);
        let opened = self.opened()?;
        let life = format!("{label} {}", opened.life);
        opened.send(&config, &life)?;
        opened.end_copies()?;
        let watermark = match opened.in_transaction {
            true => opened.last_commit.min(cursor.sequence.saturating_sub(1)),
            false => cursor.sequence.saturating_sub(1),
        };
        let watermark = watermark.max(opened.watermark);
        crash_point("flush-cursor");
        let notes = opened.structure.take_notes(&opened.tables);
        let notes: Vec<_> = notes
            .iter()
            .map(|(name, note)| (name.as_str(), note))
            .collect();
        state.put(&opened.client, Some((cursor, watermark)), &notes, &[])?;
        crash_point("flush-done");
        opened.watermark = watermark;
        opened.cursor = cursor.sequence;
        opened.covered_at = Instant::now();
        opened.fold_due(&config);
        Ok(())
    }

    fn abort(&mut self) -> Result<(), SinkError> {
        if let Some(opened) = &mut self.opened {
            opened.tables.values_mut().for_each(Table::clear);
        }
        Ok(())
    }

    fn pending_bytes(&self) -> usize {
        let tables = self.opened.iter().flat_map(|opened| opened.tables.values());
        tables.map(Table::byte_count).sum()
    }

    fn is_full(&self) -> bool {
        let most = self.config.insert_rows_max;
        let tables = self.opened.iter().flat_map(|opened| opened.tables.values());
        tables
            .into_iter()
            .any(|table| table.rows.count >= most || table.load.count >= most)
    }

    fn wants_marks(&self) -> bool {
        true
    }

    fn schema(&mut self, schema: &Arc<TableSchema>) {
        let newest = self
            .schemas
            .entry(schema.table.0)
            .or_insert_with(|| Arc::clone(schema));
        if newest.version <= schema.version {
            *newest = Arc::clone(schema);
        }
    }

    fn copy(&mut self, mark: &CopyMark<'_>) -> Result<bool, SinkError> {
        let opened = self.opened()?;
        match mark.stage {
            CopyStage::Begun => opened.begin_copy(mark)?,
            CopyStage::Done => opened.pending_marks.push(mark_name(mark)),
        }
        Ok(true)
    }

    fn is_barrier(&self, event: &Event<'_>) -> bool {
        matches!(event, Event::Ddl(_))
    }

    /// A row that does not fit is known before anything of it is sent.
    fn refuses_alone(&self, event: &Event<'_>) -> bool {
        matches!(event, Event::Row(_))
    }

    fn aside(&self, event: &Event<'_>) -> Aside {
        let Event::Ddl(change) = event else {
            return Aside::Stays;
        };
        if !change.ddl.renamed_from.is_empty() {
            return Aside::Moves;
        }
        let follows = match change.ddl.kind {
            DdlKind::CreateTable if statement::replaces(change.ddl.sql) => self.config.ddl.drop,
            DdlKind::DropTable => self.config.ddl.drop,
            DdlKind::Database if starts_with_drop(change.ddl.sql) => self.config.ddl.drop,
            DdlKind::TruncateTable => self.config.ddl.truncate,
            _ => return Aside::Stays,
        };
        match follows {
            OnDrop::Follow => Aside::Ends,
            OnDrop::Keep => Aside::Stays,
        }
    }

    fn refuses_rewind(&self) -> Option<&'static str> {
        Some(
            "a ClickHouse sink cannot be rewound: its rows carry the journal's sequence, and older ones \
             would not replace newer ones; copy a table again (resync): `headwater heal CONFIG TABLE \
             --resnapshot`",
        )
    }

    fn details(&self) -> Vec<(String, String)> {
        let Some(opened) = &self.opened else {
            return Vec::new();
        };
        let mut out: Vec<(String, String)> = match self.config.mode {
            Mode::Mvcc => opened.tables.values().map(crate::standing::of).collect(),
            Mode::SignVersion => Vec::new(),
        };
        let left_out = opened.structure.left_out();
        out.extend(left_out.map(|(name, out)| (name.clone(), format!("left out: {}", out.reason))));
        out
    }

    fn idle(&mut self) -> Result<(), SinkError> {
        let config = Arc::clone(&self.config);
        if let Some(opened) = &mut self.opened {
            opened.fold_due(&config);
        }
        Ok(())
    }
}

fn mark_name(mark: &CopyMark<'_>) -> (String, u64) {
    let name = format!("{}.{}", mark.table.database, mark.table.name);
    (name, mark.sequence)
}

impl Opened {
    /// A copy begins: of a table that is new here, or again.
    fn begin_copy(&mut self, mark: &CopyMark<'_>) -> Result<(), SinkError> {
        let (name, sequence) = mark_name(mark);
        self.routes.retain(|_, table| *table != name);
        let schema = Arc::new(mark.table.clone());
        let (client, tables) = (&self.client, &mut self.tables);
        let begun = self.structure.begin_copy(client, tables, &schema, sequence);
        aside_if_for_good(begun, &schema, sequence, name)
    }

    /// Copies that are whole: what the target had before and was not told of goes.
    fn end_copies(&mut self) -> Result<(), SinkError> {
        let marks = std::mem::take(&mut self.pending_marks);
        for (name, sequence) in marks {
            let Some(table) = self.tables.get_mut(&name) else {
                continue;
            };
            let ended = self.structure.end_copy(&self.client, table, sequence);
            let (schema, target) = (Arc::clone(&table.note.schema), table.names.shown());
            aside_if_for_good(ended, &schema, sequence, target)?;
            self.last_inserted = self.last_inserted.max(sequence);
        }
        Ok(())
    }
}

impl ClickHouseSink {
    /// A statement: what came before it is flushed (see [`Sink::is_barrier`]).
    fn statement(&mut self, change: &DdlChange<'_>) -> Result<(), SinkError> {
        let ddl = &change.ddl;
        let newest = self
            .schemas
            .values()
            .filter(|schema| schema.database == ddl.database && schema.name == ddl.table)
            .max_by_key(|schema| (schema.table, schema.version))
            .cloned();
        let done = self.statement_on(change, newest.clone());
        match newest {
            Some(schema) => {
                let target = format!("{}.{}", schema.database, schema.name);
                aside_if_for_good(done, &schema, change.sequence, target)
            }
            None => done,
        }
    }

    fn statement_on(
        &mut self,
        change: &DdlChange<'_>,
        newest: Option<Arc<TableSchema>>,
    ) -> Result<(), SinkError> {
        let ddl = &change.ddl;
        let opened = self.opened()?;
        opened.routes.clear();
        let name = format!("{}.{}", ddl.database, ddl.table);
        let (client, tables) = (&opened.client, &mut opened.tables);
        let structure = &mut opened.structure;
        let folder = opened.folder.as_ref();
        // ALTER TABLE … RENAME TO is of the kind of its first action.
        if !ddl.renamed_from.is_empty() {
            let names = (ddl.renamed_from, &*name);
            structure.rename((client, folder), tables, names, change.sequence)?;
        }
        match ddl.kind {
            DdlKind::CreateTable => match newest {
                Some(schema) => {
                    let how = (change.sequence, statement::replaces(ddl.sql));
                    structure.create_anew((client, folder), tables, &schema, how)
                }
                None => Ok(()),
            },
            DdlKind::DropTable => structure.drop_table((client, folder), tables, &name),
            DdlKind::TruncateTable => {
                let whose = (&*name, newest.as_ref());
                structure.truncate((client, folder), tables, whose, change.sequence)
            }
            DdlKind::Database => structure.database((client, folder), tables, ddl),
            DdlKind::RenameTable
            | DdlKind::AlterTable
            | DdlKind::CreateIndex
            | DdlKind::DropIndex
            | DdlKind::Other => {
                structure.refuse_unseen(client, tables, change)?;
                match newest {
                    Some(schema) => structure.follow((client, folder), tables, &schema, change),
                    None => Ok(()),
                }
            }
        }
    }
}
