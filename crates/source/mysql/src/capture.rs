//! From a stream of binlog events to transactions in a batch.
//!
//! Owns: the order of events, transactions and their ends, positions, the schema history, prepared XA
//! transactions, tables set aside. Refuses: sockets and files; who calls it feeds it whole events.
//!
//! Read next: `tables.rs` (which rows are decoded how), `transaction.rs`, `statement.rs`.

mod again;
pub mod columns;
mod restore;
pub mod selection;
mod statement;
pub mod tables;
mod touched;
mod transaction;
pub mod xa;

use crate::binlog::bytes::{DecodeError, Decoded};
use crate::binlog::control::{self, FormatDescription};
use crate::binlog::header::{Checksum, EventHeader, HEADER_BYTES, kind, verify};
use crate::binlog::rows::{self, RowDecoder, RowsType};
use crate::binlog::{header, inflate};
use change::contract::{ErrorKind, ParkedTable};
use change::position::Gtids;
use change::{
    Batch, Position, SourceError, TableId, TableSchema, TransactionHeader, TransactionTrailer,
};
use columns::ColumnRules;
pub use restore::Resume;
use selection::Selection;
use source_mysql_ddl::{Catalog, CatalogOptions};
use std::collections::HashMap;
use tables::{Oracle, Resolver, Route, Tables};
use transaction::{Occurrence, Tx};

/// What a capture needs to know beforehand.
#[derive(Debug, Clone)]
pub struct CaptureOptions {
    /// Which tables.
    pub selection: Selection,
    /// What becomes of columns.
    pub rules: ColumnRules,
    /// The server's naming rules.
    pub catalog: CatalogOptions,
    /// Id of the server that is read; 0 when not known. Transactions of others are `replicated`.
    pub server_id: u32,
    /// MariaDB: the server's own GTID domain, where known. Transactions of other domains are `replicated`.
    pub domain: Option<u32>,
    /// Largest event after inflation, bytes.
    pub event_bytes_max: usize,
    /// Where large prepared XA transactions wait; none keeps them in memory.
    pub spool: Option<std::sync::Arc<dyn change::spool::Spool>>,
}

/// Largest inflated event by default: twice the server's own limit of a row.
pub const EVENT_BYTES_MAX: usize = 2 << 30;

impl Default for CaptureOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            rules: ColumnRules::default(),
            catalog: CatalogOptions {
                default_charset: "utf8mb4".into(),
                ..CatalogOptions::default()
            },
            server_id: 0,
            domain: None,
            event_bytes_max: EVENT_BYTES_MAX,
            spool: None,
        }
    }
}

/// Holds rows of tables whose snapshot is under way.
pub trait Gate: Send {
    /// Whether rows of this table have to be judged.
    fn holds(&self, table: TableId) -> bool;
    /// Judges each record of `rows`, images of `schema`: `true` passes it on, `false` means it was taken
    /// or dropped.
    fn rows(
        &mut self,
        rows: &Batch,
        schema: &TableSchema,
        verdicts: &mut Vec<bool>,
    ) -> Result<(), SourceError>;
    /// A statement changed the table (or, for none, any table).
    fn ddl(&mut self, table: Option<TableId>);
    /// The table has another name, and with it another number, from here on; none for a name that is
    /// not captured.
    fn renamed(&mut self, old: TableId, new: Option<&TableSchema>);
    /// The open transaction was rolled back.
    fn rollback(&mut self);
}

/// See the module's page.
pub struct Capture {
    options: CaptureOptions,
    catalog: Catalog,
    tables: Tables,
    decoder: RowDecoder,
    inflated: Vec<u8>,
    event: Vec<u8>,
    side: Batch,
    verdicts: Vec<bool>,
    format: Option<FormatDescription>,
    checksum: Checksum,
    mariadb: bool,
    event_start: u64,
    event_end: u64,
    in_payload: bool,
    header: TransactionHeader,
    trailer: TransactionTrailer,
    tx: Tx,
    position: Position,
    unsaved: bool,
    xa: xa::XaStore,
    parked: HashMap<String, String>,
    parked_since: Vec<ParkedTable>,
    /// Captured tables whose definition could not be read, with the reason: still to be set aside.
    unreadable: Vec<(String, String)>,
    trouble: String,
    /// Judges rows of tables under snapshot.
    pub gate: Option<Box<dyn Gate>>,
    /// Answers what a table looks like now.
    pub oracle: Option<Box<dyn Oracle>>,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Capture {
    /// Starts at `position`.
    pub fn new(options: CaptureOptions, position: Position) -> Self {
        let mut catalog_options = options.catalog.clone();
        if catalog_options.default_charset.is_empty() {
            catalog_options.default_charset = "utf8mb4".into();
        }
        let header = TransactionHeader {
            file: position.file.clone(),
            ..TransactionHeader::default()
        };
        Self {
            catalog: Catalog::new(catalog_options),
            tables: Tables::default(),
            decoder: RowDecoder::default(),
            inflated: Vec::new(),
            event: Vec::new(),
            side: Batch::default(),
            verdicts: Vec::new(),
            format: None,
            checksum: Checksum::Off,
            mariadb: options.catalog.mariadb,
            event_start: position.offset,
            event_end: position.offset,
            in_payload: false,
            header,
            trailer: TransactionTrailer::default(),
            tx: Tx::default(),
            unsaved: false,
            xa: xa::XaStore::new(options.spool.clone()),
            parked: HashMap::new(),
            parked_since: Vec::new(),
            unreadable: Vec::new(),
            trouble: String::new(),
            gate: None,
            oracle: None,
            position,
            options,
        }
    }

    /// Where the next transaction begins: everything before is decoded.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The schema history.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The schema history, to seed it.
    pub fn catalog_mut(&mut self) -> &mut Catalog {
        &mut self.catalog
    }

    /// What this capture was told.
    pub fn options(&self) -> &CaptureOptions {
        &self.options
    }

    /// The server's version, once a format description was read.
    pub fn server_version(&self) -> &str {
        self.format
            .as_ref()
            .map_or("", |format| format.server_version.as_str())
    }

    /// Tables set aside.
    pub fn parked(&self) -> &[ParkedTable] {
        &self.parked_since
    }

    /// The last passing trouble; empty for none.
    pub fn trouble(&self) -> &str {
        &self.trouble
    }

    /// Header time of the last transaction begun, seconds since the epoch; none before the first.
    pub fn last_time(&self) -> Option<u32> {
        Some(self.header.time_s).filter(|time| *time > 0)
    }

    /// Whether no transaction is open.
    pub fn at_boundary(&self) -> bool {
        !self.tx.open
    }

    /// Offset after the last event read, in the current file.
    pub fn read_offset(&self) -> (&str, u64) {
        (&self.header.file, self.event_end)
    }

    /// A new stream begins (a connection, a file): checksums are as given until its format
    /// description, and table numbers start anew.
    pub fn start_stream(&mut self, checksum: Checksum) {
        self.checksum = checksum;
        self.tables.forget();
    }

    /// Another server answers, or the same one with other numbers: whose transactions are its own.
    pub fn set_server(&mut self, server_id: u32, domain: Option<u32>) {
        self.options.server_id = server_id;
        self.options.domain = domain;
    }

    /// The place (file, offset) does not count any more, or is not of the same moment as the GTIDs: they
    /// alone tell where to go on, until a transaction's end or a file's beginning gives a place again.
    pub fn forget_place(&mut self) {
        self.position.file.clear();
        self.position.offset = 0;
    }

    /// A recorded file begins (or goes on at `offset`, between two transactions).
    pub fn start_file(&mut self, file: &str, offset: u64) {
        self.header.file.clear();
        self.header.file.push_str(file);
        self.event_start = offset;
        self.event_end = offset;
        if !self.tx.open {
            self.position.file.clear();
            self.position.file.push_str(file);
            self.position.offset = offset;
        }
    }

    /// The stream broke: forgets the open transaction, taking back what the batches hold of it.
    pub fn break_stream(&mut self, batch: &mut Batch) {
        self.take_back(batch);
        self.tx.reset();
        self.in_payload = false;
        self.event_end = self.position.offset;
        self.header.file.clone_from(&self.position.file);
    }

    /// Takes one event with its header and checksum.
    ///
    /// Promises: whatever `Ok` follows is decoded exactly or journaled as an opaque record.
    /// Errors: `Corrupt` for damaged bytes, `Unsupported` for an event whose rows would be lost,
    /// `Lost` for an incident; the place is file and offset.
    pub fn event(&mut self, event: &[u8], batch: &mut Batch) -> Result<(), SourceError> {
        match self.take(event, batch) {
            Ok(()) => Ok(()),
            Err(Failure::Source(error)) => Err(error),
            Err(Failure::Decode(error)) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: DecodeError) -> SourceError {
        let (kind, hint) = match &error {
            DecodeError::Incident(_) => (
                ErrorKind::Lost,
                "the server says that its log lacks changes: headwater run CONFIG --resnapshot-lost copies \
                 every table again and goes on",
            ),
            DecodeError::Unsupported(_) => (ErrorKind::Unsupported, ""),
            _ => (ErrorKind::Corrupt, ""),
        };
        SourceError::new(kind, "read binlog", error.to_string())
            .at(format!("{}:{}", self.header.file, self.event_start))
            .hint(hint)
    }

    fn take(&mut self, raw: &[u8], batch: &mut Batch) -> Outcome {
        let header = EventHeader::read(raw)?;
        self.locate(&header);
        if raw.len() != header.event_bytes as usize {
            return Err(damaged("an event of the stated size").into());
        }
        if header.kind == kind::FORMAT_DESCRIPTION {
            return self.format_description(raw);
        }
        let event = if header.kind == kind::ROTATE && header.is_artificial() {
            // The first rotate of a stream may come with or without a checksum.
            verify(raw, Checksum::Crc32).unwrap_or(raw)
        } else {
            verify(raw, self.checksum)?
        };
        self.dispatch(&header, event, batch)
    }

    fn locate(&mut self, header: &EventHeader) {
        if header.is_artificial() || matches!(header.kind, kind::HEARTBEAT | kind::HEARTBEAT_V2) {
            return;
        }
        // The log keeps 32 bits; files may be longer.
        let mut end = self.event_end & !0xffff_ffff | u64::from(header.end_offset);
        let size = u64::from(header.event_bytes);
        if end + (1 << 31) < self.event_end {
            end += 1 << 32;
        }
        self.event_start = end.saturating_sub(size);
        self.event_end = end;
    }

    fn format_description(&mut self, raw: &[u8]) -> Outcome {
        let Some(end) = raw.len().checked_sub(header::CRC_BYTES) else {
            return Err(damaged("a whole format description").into());
        };
        let body = raw.get(HEADER_BYTES..end).unwrap_or_default();
        let format = FormatDescription::read(body)?;
        verify(raw, format.checksum)?;
        self.checksum = format.checksum;
        self.mariadb = format.mariadb;
        if format.created_s != 0 {
            // The server was restarted: its table numbers start anew, and what was open is gone.
            self.tables.forget();
        }
        self.format = Some(format);
        Ok(())
    }

    fn dispatch(&mut self, header: &EventHeader, event: &[u8], batch: &mut Batch) -> Outcome {
        let body = &event[HEADER_BYTES..];
        if let Some(of) = RowsType::of(header.kind) {
            return self.rows(header, event, of, batch);
        }
        match header.kind {
            kind::TABLE_MAP => self.table_map(event),
            kind::GTID | kind::ANONYMOUS_GTID | kind::GTID_TAGGED => self.mysql_gtid(header, body),
            kind::MARIADB_GTID => self.mariadb_gtid(header, body),
            kind::QUERY => self.statement(header, body, batch),
            kind::MARIADB_QUERY_COMPRESSED => self.compressed_statement(header, body, batch),
            kind::XID => {
                let xid = body.get(..8).map_or(0, |bytes| {
                    bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
                });
                self.commit(header, xid, batch)
            }
            kind::ROWS_QUERY => {
                self.tx.keep_statement(body.get(1..).unwrap_or_default());
                Ok(())
            }
            kind::MARIADB_ANNOTATE_ROWS => {
                self.tx.keep_statement(body);
                Ok(())
            }
            kind::XA_PREPARE => self.xa_prepare(header, body, batch),
            kind::TRANSACTION_PAYLOAD => self.payload(body, batch),
            _ => self.log_event(header, body, batch),
        }
    }

    /// Events about the log itself, and everything that is not known.
    fn log_event(&mut self, header: &EventHeader, body: &[u8], batch: &mut Batch) -> Outcome {
        match header.kind {
            kind::ROTATE => self.rotate(header, body)?,
            kind::PREVIOUS_GTIDS => {
                let gtids = control::read_previous_gtids(body)?;
                if self.position.gtids == Gtids::None && !gtids.is_empty() {
                    self.position.gtids = Gtids::Mysql(gtids);
                }
            }
            kind::MARIADB_GTID_LIST => {
                let gtids = control::read_mariadb_gtid_list(body)?;
                if self.position.gtids == Gtids::None && !gtids.is_empty() {
                    self.position.gtids = Gtids::Mariadb(gtids);
                }
            }
            kind::HEARTBEAT | kind::HEARTBEAT_V2 => self.heartbeat(header, body)?,
            kind::INCIDENT => {
                return Err(DecodeError::Incident(control::read_incident(body)?).into());
            }
            kind::EXECUTE_LOAD_QUERY => {
                // As a query event, with the file's place after the fixed fields.
                let plain = match (body.get(..13), body.get(26..)) {
                    (Some(fixed), Some(rest)) => [fixed, rest].concat(),
                    _ => return Err(damaged("a whole LOAD DATA").into()),
                };
                self.statement(header, &plain, batch)?;
            }
            kind::MARIADB_START_ENCRYPTION => {
                return Err(DecodeError::Unsupported(
                    "the file is encrypted; read it through its server".into(),
                )
                .into());
            }
            kind::STOP
            | kind::INTVAR
            | kind::RAND
            | kind::USER_VAR
            | kind::SLAVE
            | kind::APPEND_BLOCK
            | kind::DELETE_FILE
            | kind::BEGIN_LOAD_QUERY
            | kind::IGNORABLE
            | kind::TRANSACTION_CONTEXT
            | kind::VIEW_CHANGE
            | kind::MARIADB_CHECKPOINT => {}
            _ if header.flags & header::FLAG_IGNORABLE != 0 => {}
            unknown => {
                return Err(DecodeError::Unsupported(format!(
                    "event type {unknown} is not known and may carry rows"
                ))
                .into());
            }
        }
        Ok(())
    }

    /// The server passed over events that are not for us; its place tells how far.
    fn heartbeat(&mut self, header: &EventHeader, body: &[u8]) -> Decoded<()> {
        let v2 = header.kind == kind::HEARTBEAT_V2;
        let (file, offset) = control::read_heartbeat(body, v2, header.end_offset)?;
        if !self.tx.open && file == self.header.file && offset > self.event_end {
            self.event_end = offset;
        }
        Ok(())
    }

    fn rotate(&mut self, header: &EventHeader, body: &[u8]) -> Decoded<()> {
        let (file, offset) = control::read_rotate(body)?;
        let continues = header.is_artificial() && file == self.header.file;
        // A stream after GTIDs begins at a file's start, before transactions that the GTIDs hold.
        let is_before = header.is_artificial()
            && self.position.file.is_empty()
            && self.position.gtids != Gtids::None;
        self.header.file.clear();
        self.header.file.push_str(file);
        if !continues {
            self.event_end = offset;
            self.event_start = offset;
            if !self.tx.open && !is_before {
                self.position.file.clear();
                self.position.file.push_str(file);
                self.position.offset = offset;
            }
        }
        Ok(())
    }

    fn table_map(&mut self, event: &[u8]) -> Outcome {
        let resolver = Resolver {
            selection: &self.options.selection,
            rules: &self.options.rules,
            catalog: &mut self.catalog,
            oracle: self.oracle.as_deref_mut(),
            parked: &self.parked,
            mariadb: self.mariadb,
        };
        self.tables.map(&event[HEADER_BYTES..], resolver)?;
        if let Some(xid) = &self.tx.xa {
            let id = crate::binlog::table_map::table_id(&event[HEADER_BYTES..])?;
            let captured = self
                .tables
                .slot(id)
                .is_some_and(|slot| !matches!(slot.route, Route::Skip));
            if captured {
                self.xa.push(xid, event)?;
            }
        }
        Ok(())
    }

    fn rows(
        &mut self,
        header: &EventHeader,
        event: &[u8],
        of: RowsType,
        batch: &mut Batch,
    ) -> Outcome {
        let body = &event[HEADER_BYTES..];
        let id = crate::binlog::table_map::table_id(body)?;
        let group = self.tx.groups;
        self.tx.groups = group.wrapping_add(1);
        let at = Occurrence {
            header,
            event,
            group,
        };
        let Some(slot) = self.tables.slot(id) else {
            // A dummy rows event of table number 2^24-1 ends a statement whose rows are elsewhere.
            if id == 0xff_ffff {
                return Ok(());
            }
            return Err(damaged("a table map before the rows").into());
        };
        let plan = match &slot.route {
            Route::Skip => return Ok(()),
            _ if self.tx.xa.is_some() => {
                let xid = self.tx.xa.clone().unwrap_or_default();
                self.xa.push(&xid, event)?;
                return Ok(());
            }
            Route::Opaque(aside) => {
                let aside = std::sync::Arc::clone(aside);
                self.set_aside(&at, &aside, batch);
                return Ok(());
            }
            Route::Decode(plan) => std::sync::Arc::clone(plan),
        };
        let announced = slot.announced;
        slot.announced = true;
        self.begin(batch);
        if !announced {
            self.announce(&plan, batch);
        }
        if self.tx.has_statement {
            self.tx.has_statement = false;
            batch.statement(&self.tx.statement);
        }
        let meta = change::RowMeta {
            group,
            end_offset: self.event_end,
            time_s: header.time_s,
        };
        let mark = batch.mark();
        match self.decode_rows((body, of), &plan, meta, batch) {
            Ok(count) => {
                self.tx.rows += count;
                Ok(())
            }
            Err(Failure::Decode(error)) => {
                batch.rewind(mark);
                self.park_event(&at, &plan, &error, batch);
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    fn decode_rows(
        &mut self,
        (body, of): (&[u8], RowsType),
        plan: &crate::binlog::plan::TablePlan,
        meta: change::RowMeta,
        batch: &mut Batch,
    ) -> Result<u64, Failure> {
        let bytes_max = self.options.event_bytes_max;
        let (event, columns) = rows::read(body, of, &mut self.inflated, bytes_max)?;
        if columns != plan.columns.len() {
            return Err(damaged("rows with as many columns as their table map").into());
        }
        let held = self
            .gate
            .as_ref()
            .is_some_and(|gate| gate.holds(plan.table));
        if !held {
            return Ok(self.decoder.rows(&event, plan, meta, batch)?);
        }
        self.side.clear();
        self.decoder.rows(&event, plan, meta, &mut self.side)?;
        self.verdicts.clear();
        if let Some(gate) = &mut self.gate {
            gate.rows(&self.side, &plan.schema, &mut self.verdicts)
                .map_err(Failure::Source)?;
        }
        Ok(transaction::pass(&self.side, &self.verdicts, batch))
    }

    fn payload(&mut self, body: &[u8], batch: &mut Batch) -> Outcome {
        if self.in_payload {
            return Err(damaged("a payload outside a payload").into());
        }
        let payload = inflate::read_payload(body)?;
        let mut reader = inflate::PayloadReader::new(payload)?;
        let mut event = std::mem::take(&mut self.event);
        self.in_payload = true;
        let mut outcome: Outcome = Ok(());
        while outcome.is_ok() {
            match reader.next(&mut event, self.options.event_bytes_max) {
                Ok(true) => {
                    // Events inside carry no checksum: the outer one covers them.
                    outcome = EventHeader::read(&event)
                        .map_err(Failure::from)
                        .and_then(|header| self.dispatch(&header, &event, batch));
                }
                Ok(false) => break,
                Err(error) => outcome = Err(error.into()),
            }
        }
        self.in_payload = false;
        if event.capacity() > 1 << 20 {
            event = Vec::new();
        }
        self.event = event;
        outcome
    }
}

/// Why an event could not be taken.
enum Failure {
    /// Its bytes.
    Decode(DecodeError),
    /// Anything else.
    Source(SourceError),
}

type Outcome = Result<(), Failure>;

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Failure::Decode(error)
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Failure::Source(error)
    }
}

fn damaged(what: &'static str) -> DecodeError {
    DecodeError::Damaged { what, offset: 0 }
}
