//! The threads that read: borders and rows of chunks, each on a connection of its own.

use super::key::{self, Key, Order};
use super::table::ChunkId;
use crate::binlog::bytes::{Bytes, Decoded};
use crate::binlog::cell::{Scratch, put_padded, put_text};
use crate::binlog::charset::Charset;
use crate::binlog::mask::hash_last_cell;
use crate::binlog::plan::{TablePlan, Treatment};
use crate::binlog::table_map::wire;
use crate::config::{Endpoint, TlsConfig};
use crate::live::server::{Server, literal, quote};
use crate::wire::{BinaryColumn, BinaryRow, Connection, WireFailure};
use change::batch::key_token_of_bytes;
use change::position::file_number;
use change::temporal::{DatePacked, DateTimePacked};
use change::value::{put_cell, put_value};
use change::{Batch, Cell, Column, ColumnType, Operation, RowMeta, TableSchema, Value};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a worker waits for the server to commit what the reader has seen.
const COMMIT_WAIT: Duration = Duration::from_secs(60);

/// What the server must have committed before the SELECT.
#[derive(Debug, Clone)]
pub enum After {
    /// MySQL: these transactions.
    Gtids(String),
    /// MariaDB: its own view of the log has come to this place.
    Place(u64, u64),
    /// The rows are locked while they are read, which waits for it.
    Locks,
}

/// A table as a worker needs it.
#[derive(Debug)]
pub struct Target {
    pub schema: Arc<TableSchema>,
    pub plan: TablePlan,
    pub order: Order,
}

/// One piece of work.
#[derive(Debug)]
pub struct Job {
    pub chunk: ChunkId,
    pub target: Arc<Target>,
    pub low: Option<Key>,
    pub high: Option<Key>,
    pub task: Task,
}

/// What to do with a range.
#[derive(Debug)]
pub enum Task {
    /// Find the end of a chunk of this many rows.
    Plan { rows: u64 },
    /// Read it.
    Read {
        after: After,
        bytes_max: usize,
        lock_table: bool,
    },
}

/// The rows of a chunk.
#[derive(Debug, Default)]
pub struct ChunkRows {
    pub batch: Batch,
    /// The keys, one after another, and where each ends.
    pub keys: Vec<u8>,
    pub key_ends: Vec<usize>,
    /// The log's end after the read.
    pub high_mark: (u64, u64),
}

/// What became of a job.
#[derive(Debug)]
pub enum Answer {
    /// The chunk's end; none for an open range.
    Planned(Option<Key>),
    /// Its rows.
    Rows(ChunkRows),
    /// More bytes than a chunk may have.
    TooLarge,
    /// Not now.
    Failed(String),
}

/// Runs until the jobs' sender is gone.
pub fn run(
    jobs: &Mutex<Receiver<Job>>,
    answers: &Sender<(ChunkId, Answer)>,
    (endpoint, tls, server): (&Endpoint, &TlsConfig, &Server),
) {
    let mut connection: Option<Connection> = None;
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let open = |connection: &mut Option<Connection>| -> Result<(), WireFailure> {
            if connection.is_none() {
                *connection = Some(session(endpoint, tls)?);
            }
            Ok(())
        };
        let answer = match open(&mut connection) {
            Err(failure) => Answer::Failed(failure.to_string()),
            Ok(()) => match connection.as_mut().map(|c| work(c, server, &job)) {
                Some(Ok(answer)) => answer,
                Some(Err(failure)) => {
                    // Locks and unread rows go with the connection.
                    connection = None;
                    Answer::Failed(failure.to_string())
                }
                None => Answer::Failed(String::new()),
            },
        };
        if answers.send((job.chunk, answer)).is_err() {
            return;
        }
    }
}

/// A session in which values read as the log has them: UTC, no charset conversion, no padding.
pub fn session(endpoint: &Endpoint, tls: &TlsConfig) -> Result<Connection, WireFailure> {
    let mut connection = Connection::open(endpoint, tls)?;
    for statement in [
        "SET NAMES utf8mb4",
        "SET SESSION character_set_results = NULL",
        "SET SESSION time_zone = '+00:00'",
        "SET SESSION sql_mode = ''",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION sql_big_selects = 1",
        "SET SESSION net_write_timeout = 600",
    ] {
        connection.execute(statement)?;
    }
    Ok(connection)
}

fn work(connection: &mut Connection, server: &Server, job: &Job) -> Result<Answer, WireFailure> {
    match &job.task {
        Task::Plan { rows } => plan(connection, job, *rows),
        Task::Read {
            after,
            bytes_max,
            lock_table,
        } => read(connection, server, job, (after, *bytes_max, *lock_table)),
    }
}

fn table_name(schema: &TableSchema) -> String {
    format!("{}.{}", quote(&schema.database), quote(&schema.name))
}

/// The key's columns as a worker selects them.
fn key_list(schema: &TableSchema) -> Vec<String> {
    let names = schema.key().iter();
    names
        .map(|index| quote(&schema.columns[*index as usize].name))
        .collect()
}

fn plan(connection: &mut Connection, job: &Job, rows: u64) -> Result<Answer, WireFailure> {
    let schema = &job.target.schema;
    let names = key_list(schema);
    let condition = key::condition(schema, job.low.as_deref(), job.high.as_deref());
    let list: Vec<String> = schema
        .key()
        .iter()
        .map(|index| selected(&schema.columns[*index as usize]))
        .collect();
    let select = format!(
        "SELECT {} FROM {} WHERE {condition}",
        list.join(", "),
        table_name(schema)
    );
    let border = format!(
        "{select} ORDER BY {} LIMIT 1 OFFSET {}",
        names.join(", "),
        rows.max(1) - 1
    );
    let mut high = one_key(connection, &border, schema)?;
    if high.is_none() && job.high.is_none() {
        // The last chunk ends at the greatest key; what comes behind it is a chunk of its own.
        let last: Vec<String> = names.iter().map(|name| format!("{name} DESC")).collect();
        let last = format!("{select} ORDER BY {} LIMIT 1", last.join(", "));
        high = one_key(connection, &last, schema)?;
    }
    Ok(Answer::Planned(high.or_else(|| job.high.clone())))
}

fn one_key(
    connection: &mut Connection,
    sql: &str,
    schema: &TableSchema,
) -> Result<Option<Key>, WireFailure> {
    let mut found = None;
    let mut scratch = Scratch::default();
    let mariadb = connection.mariadb;
    connection.each_binary_row(sql, |wires, mut row| {
        let mut key = Key::new();
        for (index, wire) in schema.key().iter().zip(wires) {
            if row.next_is_null() {
                put_cell(&mut key, Cell::Null);
            } else {
                let column = &schema.columns[*index as usize];
                put_binary((column, mariadb), *wire, row.cell(), &mut key, &mut scratch)?;
            }
        }
        found = Some(key);
        Ok(false)
    })?;
    Ok(found)
}

/// A column as a worker selects it: ENUM and SET by their number.
fn selected(column: &Column) -> String {
    let name = quote(&column.name);
    match column.kind {
        ColumnType::Enum { .. } | ColumnType::Set { .. } => format!("CAST({name} AS UNSIGNED)"),
        _ => name,
    }
}

fn read(
    connection: &mut Connection,
    server: &Server,
    job: &Job,
    (after, bytes_max, lock_table): (&After, usize, bool),
) -> Result<Answer, WireFailure> {
    let schema = &job.target.schema;
    let xa_before = xa_count(connection, server)?;
    let is_locking = matches!(after, After::Locks) || xa_before > 0;
    if lock_table {
        connection.execute(&format!("LOCK TABLES {} READ", table_name(schema)))?;
    } else if is_locking {
        connection.execute("START TRANSACTION")?;
    } else {
        wait_for(connection, after)?;
    }
    let list: Vec<String> = schema
        .columns
        .iter()
        .zip(&job.target.plan.columns)
        .filter(|(_, plan)| plan.treatment != Treatment::Exclude)
        .map(|(column, _)| selected(column))
        .collect();
    let mut sql = format!(
        "SELECT {} FROM {} WHERE {}",
        list.join(", "),
        table_name(schema),
        key::condition(schema, job.low.as_deref(), job.high.as_deref())
    );
    if job.target.order != Order::None {
        sql.push_str(&format!(" ORDER BY {}", key_list(schema).join(", ")));
    }
    if is_locking && !lock_table {
        sql.push_str(" LOCK IN SHARE MODE");
    }
    let mut reader = RowReader::new(&job.target, connection.mariadb);
    let mut is_too_large = false;
    connection.each_binary_row(&sql, |wires, row| {
        reader.row(wires, row)?;
        is_too_large = reader.rows.batch.byte_count() > bytes_max;
        Ok(!is_too_large)
    })?;
    let mut rows = reader.rows;
    let Some((file, offset)) = server.head_place(connection)? else {
        return Ok(Answer::Failed("the server writes no binlog".into()));
    };
    rows.high_mark = (file_number(&file), offset);
    if lock_table {
        connection.execute("UNLOCK TABLES")?;
    } else if is_locking {
        connection.execute("COMMIT")?;
    } else if xa_count(connection, server)? != xa_before {
        return Ok(Answer::Failed("XA transactions came into use".into()));
    }
    Ok(match is_too_large {
        true => Answer::TooLarge,
        false => Answer::Rows(rows),
    })
}

/// MariaDB shows an XA COMMIT in its log before its rows: where XA is in use, chunks take locks.
fn xa_count(connection: &mut Connection, server: &Server) -> Result<u64, WireFailure> {
    if !server.mariadb {
        return Ok(0);
    }
    let row = connection.texts("SHOW GLOBAL STATUS LIKE 'Com_xa_commit'")?;
    Ok(row
        .and_then(|row| row.get(1)?.parse().ok())
        .unwrap_or_default())
}

fn wait_for(connection: &mut Connection, after: &After) -> Result<(), WireFailure> {
    let late = || {
        WireFailure::Io(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            "the server did not commit in time what its log shows",
        ))
    };
    match after {
        After::Locks => Ok(()),
        After::Gtids(set) if set.is_empty() => Ok(()),
        After::Gtids(set) => {
            let seconds = COMMIT_WAIT.as_secs();
            let sql = format!(
                "SELECT WAIT_FOR_EXECUTED_GTID_SET({}, {seconds})",
                literal(set)
            );
            match connection.text(&sql)?.as_deref() {
                Some("0") => Ok(()),
                _ => Err(late()),
            }
        }
        After::Place(file, offset) => {
            let since = Instant::now();
            while snapshot_place(connection)? < (*file, *offset) {
                if since.elapsed() > COMMIT_WAIT {
                    return Err(late());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    }
}

/// How far the engine's commits have come in MariaDB's log.
fn snapshot_place(connection: &mut Connection) -> Result<(u64, u64), WireFailure> {
    let mut place = (0, 0);
    for row in connection.rows("SHOW STATUS LIKE 'binlog_snapshot_%'")? {
        let [Some(name), Some(value)] = &row[..] else {
            continue;
        };
        let value = String::from_utf8_lossy(value);
        match name.to_ascii_lowercase().as_slice() {
            b"binlog_snapshot_file" => place.0 = file_number(&value),
            b"binlog_snapshot_position" => place.1 = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    Ok(place)
}

/// Turns rows of the binary protocol into images.
struct RowReader<'a> {
    target: &'a Target,
    mariadb: bool,
    meta: RowMeta,
    scratch: Scratch,
    key: Vec<u8>,
    rows: ChunkRows,
}

impl<'a> RowReader<'a> {
    fn new(target: &'a Target, mariadb: bool) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            target,
            mariadb,
            meta: RowMeta {
                group: 0,
                end_offset: 0,
                time_s: u32::try_from(now.as_secs()).unwrap_or(u32::MAX),
            },
            scratch: Scratch::default(),
            key: Vec::new(),
            rows: ChunkRows::default(),
        }
    }

    fn row(&mut self, wires: &[BinaryColumn], mut from: BinaryRow<'_>) -> Result<(), WireFailure> {
        let plan = &self.target.plan;
        let mut row = self.rows.batch.row(plan.table, plan.version, self.meta);
        let mut image = row.after(plan.emitted_count);
        let out = image.arena();
        let start = out.len();
        let mut places = [(0, 0); crate::binlog::plan::KEY_COLUMNS_MAX];
        let mut wires = wires.iter();
        for (column, planned) in self.target.schema.columns.iter().zip(&plan.columns) {
            if planned.treatment == Treatment::Exclude {
                continue;
            }
            let Some(wire) = wires.next() else {
                return Err(WireFailure::Protocol("a row with fewer columns"));
            };
            let cell_start = out.len();
            if from.next_is_null() {
                put_cell(out, Cell::Null);
            } else {
                let kind = (column, self.mariadb);
                put_binary(kind, *wire, from.cell(), out, &mut self.scratch)?;
                match &planned.treatment {
                    Treatment::Hash(key) => hash_last_cell(out, cell_start, key),
                    Treatment::Redact => {
                        out.truncate(cell_start);
                        put_cell(out, Cell::Null);
                    }
                    Treatment::Keep | Treatment::Exclude => {}
                }
            }
            if planned.key_slot > 0 {
                places[usize::from(planned.key_slot) - 1] = (cell_start, out.len());
            }
        }
        self.key.clear();
        if plan.key_count == 0 {
            self.key.extend_from_slice(&out[start..]);
        }
        for (from, to) in &places[..plan.key_count] {
            self.key.extend_from_slice(&out[*from..*to]);
        }
        row.finish(Operation::Read, 0, key_token_of_bytes(&self.key));
        if self.target.order != Order::None {
            self.rows.keys.extend_from_slice(&self.key);
        }
        self.rows.key_ends.push(self.rows.keys.len());
        Ok(())
    }
}

/// Appends the stored cell of one value of the binary protocol: the cell that the log gives.
pub fn put_binary(
    (column, mariadb): (&Column, bool),
    wire: BinaryColumn,
    b: &mut Bytes<'_>,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<(), WireFailure> {
    use ColumnType as T;
    let value = match &column.kind {
        T::Int { unsigned, .. } => int(b, wire, *unsigned)?,
        T::Enum { .. } => Value::Enum(number(b, wire)? as u16),
        T::Set { .. } => Value::Set(number(b, wire)?),
        T::Year => Value::Year(number(b, wire)? as u16),
        T::Float => Value::Float(f32::from_bits(b.u32("a float")?)),
        T::Double => Value::Double(f64::from_bits(b.u64("a double")?)),
        T::Decimal { .. } => {
            let text = b.lenenc_bytes("a decimal")?;
            let text = std::str::from_utf8(text).map_err(|_| WireFailure::Protocol("a decimal"))?;
            put_value(out, Value::Decimal(&plain_decimal(text)));
            return Ok(());
        }
        T::Bit { .. } => {
            let bytes = b.lenenc_bytes("bits")?;
            Value::Bit(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
        }
        T::Date | T::DateTime { .. } | T::Timestamp { .. } | T::Time { .. } => {
            temporal(b, &column.kind)?
        }
        T::Char { .. } | T::Varchar { .. } | T::Text { .. } => {
            let name = column.charset.as_deref().unwrap_or("utf8mb4");
            put_text(
                b.lenenc_bytes("a text")?,
                Charset::of_name(name),
                out,
                scratch,
            );
            return Ok(());
        }
        T::Binary { length } => {
            put_padded(b.lenenc_bytes("bytes")?, *length as usize, out, scratch);
            return Ok(());
        }
        T::Json if mariadb => {
            put_text(b.lenenc_bytes("a text")?, Charset::Utf8, out, scratch);
            return Ok(());
        }
        T::Json => {
            let text = std::str::from_utf8(b.lenenc_bytes("JSON")?);
            Value::Json(text.map_err(|_| WireFailure::Protocol("JSON that is not UTF-8"))?)
        }
        T::Varbinary { .. } | T::Blob { .. } => Value::Bytes(b.lenenc_bytes("bytes")?),
        T::Geometry => Value::Geometry(b.lenenc_bytes("a geometry")?),
        T::Vector => Value::Vector(b.lenenc_bytes("a vector")?),
        T::Uuid => Value::Uuid(parsed(b, |text| change::gtid::parse_uuid(text).ok())?),
        T::Inet4 => Value::Inet4(parsed(b, |text| {
            text.parse::<std::net::Ipv4Addr>().ok().map(|a| a.octets())
        })?),
        T::Inet6 => Value::Inet6(parsed(b, |text| {
            text.parse::<std::net::Ipv6Addr>().ok().map(|a| a.octets())
        })?),
        T::Cql(_) => return Err(WireFailure::Protocol("a column of MySQL")),
    };
    put_value(out, value);
    Ok(())
}

fn parsed<T>(b: &mut Bytes<'_>, parse: impl Fn(&str) -> Option<T>) -> Result<T, WireFailure> {
    let text = std::str::from_utf8(b.lenenc_bytes("an address or UUID")?).ok();
    text.and_then(parse)
        .ok_or(WireFailure::Protocol("an address or UUID"))
}

/// Without ZEROFILL's zeros.
fn plain_decimal(text: &str) -> std::borrow::Cow<'_, str> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let cut = digits.trim_start_matches('0');
    let digits = if cut.is_empty() || cut.starts_with('.') {
        &digits[digits.len() - cut.len() - usize::from(cut.len() < digits.len())..]
    } else {
        cut
    };
    if sign.is_empty() && digits.starts_with(|c: char| c.is_ascii_digit()) {
        return digits.into();
    }
    let zero = if digits.starts_with('.') { "0" } else { "" };
    format!("{sign}{zero}{digits}").into()
}

fn number(b: &mut Bytes<'_>, wire: BinaryColumn) -> Decoded<u64> {
    let what = "a number";
    match wire.kind {
        wire::TINY => b.u8(what).map(u64::from),
        wire::SHORT | wire::YEAR => b.u16(what).map(u64::from),
        wire::LONG | wire::INT24 => b.u32(what).map(u64::from),
        wire::LONGLONG => b.u64(what),
        _ => b.fail(what),
    }
}

fn int<'v>(b: &mut Bytes<'_>, wire: BinaryColumn, unsigned: bool) -> Decoded<Value<'v>> {
    let raw = number(b, wire)?;
    if unsigned {
        return Ok(Value::UInt(raw));
    }
    Ok(Value::Int(match wire.kind {
        wire::TINY => i64::from(raw as u8 as i8),
        wire::SHORT => i64::from(raw as u16 as i16),
        wire::LONG | wire::INT24 => i64::from(raw as u32 as i32),
        _ => raw as i64,
    }))
}

fn temporal<'v>(b: &mut Bytes<'_>, kind: &ColumnType) -> Decoded<Value<'v>> {
    let what = "a date or time";
    let length = b.u8(what)?;
    let mut b = Bytes::new(b.take(usize::from(length), what)?);
    if let ColumnType::Time { digits } = kind {
        return time(&mut b, *digits);
    }
    let mut fields = [0u64; 6];
    let mut micros = 0;
    if !b.is_empty() {
        fields[0] = u64::from(b.u16(what)?);
        fields[1] = u64::from(b.u8(what)?);
        fields[2] = u64::from(b.u8(what)?);
    }
    if !b.is_empty() {
        for field in &mut fields[3..] {
            *field = u64::from(b.u8(what)?);
        }
    }
    if !b.is_empty() {
        micros = u64::from(b.u32(what)?);
    }
    let date = DatePacked::new(fields[0] as u32, fields[1] as u32, fields[2] as u32);
    let of_day = (fields[3] * 3600 + fields[4] * 60 + fields[5]) * 1_000_000 + micros;
    Ok(match kind {
        ColumnType::DateTime { digits } => Value::DateTime {
            at: DateTimePacked::new(date, of_day),
            digits: *digits,
        },
        ColumnType::Timestamp { digits } => match date.to_days() {
            Some(days) => Value::Timestamp {
                micros: days * 86_400_000_000 + of_day as i64,
                digits: *digits,
            },
            None => Value::ZeroTimestamp { digits: *digits },
        },
        _ => Value::Date(date),
    })
}

fn time<'v>(b: &mut Bytes<'_>, digits: u8) -> Decoded<Value<'v>> {
    let what = "a time";
    if b.is_empty() {
        return Ok(Value::Time { micros: 0, digits });
    }
    let negative = b.u8(what)? != 0;
    let days = i64::from(b.u32(what)?);
    let hours = days * 24 + i64::from(b.u8(what)?);
    let seconds = hours * 3600 + i64::from(b.u8(what)?) * 60 + i64::from(b.u8(what)?);
    let part = if b.is_empty() {
        0
    } else {
        i64::from(b.u32(what)?)
    };
    let micros = seconds * 1_000_000 + part;
    Ok(Value::Time {
        micros: if negative { -micros } else { micros },
        digits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zerofill_and_signs_leave_plain_decimals() {
        for (text, plain) in [
            ("00012.50", "12.50"),
            ("0000.00", "0.00"),
            ("-0.10", "-0.10"),
            ("0", "0"),
            ("000", "0"),
            ("7", "7"),
            ("-12", "-12"),
            ("0.5", "0.5"),
        ] {
            assert_eq!(plain_decimal(text), plain);
        }
    }
}
