//! Transactions: how they open, what they hold, how they end.

use super::tables::Aside;
use super::{Capture, Outcome};
use crate::binlog::bytes::DecodeError;
use crate::binlog::gtid;
use crate::binlog::header::{EventHeader, kind};
use crate::binlog::plan::TablePlan;
use change::batch::{FLAG_PAIR_FIRST, FLAG_PAIR_SECOND, OpaqueEvent, RowBody};
use change::contract::ParkedTable;
use change::position::TransactionId;
use change::wire::put_u64;
use change::{Batch, Entry, RowMeta, SchemaVersion, TableId, TransactionHeader};

/// The open transaction.
#[derive(Debug, Default)]
pub struct Tx {
    /// An opening event was read and no end yet.
    pub open: bool,
    /// `Begin` is in a batch: something captured is in it.
    pub begun: bool,
    /// It was opened by BEGIN (or MariaDB's equal), so a statement in it does not end it.
    pub explicit: bool,
    /// Row changes so far.
    pub rows: u64,
    /// Row events so far, captured or not.
    pub groups: u32,
    /// The statement text that the log gave for the next rows.
    pub statement: Vec<u8>,
    /// Whether that text is still to be written.
    pub has_statement: bool,
    /// The XID of the branch whose events are being set aside until its commit.
    pub xa: Option<String>,
    /// The XID that MariaDB's opening event named as now complete.
    pub completed_xa: Option<String>,
    /// Row changes at the oldest savepoint.
    pub savepoint_rows: Option<u64>,
    /// What its control records say; without them it was never said.
    pub said: Said,
}

/// Database and table.
type Names = (String, String);

/// What a transaction put into the journal beside its rows. It is forgotten with the transaction.
#[derive(Debug, Default)]
pub struct Said {
    /// Schema versions announced for the first time.
    pub schemas: Vec<(u32, u32)>,
    /// Tables by database and name, with what their last announced version was before.
    pub last_versions: Vec<(Names, Option<(u32, u32)>)>,
    /// Tables set aside.
    pub parked: Vec<String>,
}

impl Tx {
    /// Back to none open; buffers are kept.
    pub fn reset(&mut self) {
        let mut statement = std::mem::take(&mut self.statement);
        statement.clear();
        *self = Self {
            statement,
            ..Self::default()
        };
    }

    /// Keeps the statement text for the rows that follow.
    pub fn keep_statement(&mut self, text: &[u8]) {
        self.statement.clear();
        self.statement.extend_from_slice(text);
        self.has_statement = true;
    }
}

/// A rows event in its place.
#[derive(Debug, Clone, Copy)]
pub struct Occurrence<'a> {
    /// Its header.
    pub header: &'a EventHeader,
    /// The event with its header.
    pub event: &'a [u8],
    /// Its ordinal among the rows events of the transaction.
    pub group: u32,
}

/// Copies the records that passed the gate; returns how many row changes they are.
pub fn pass(rows: &Batch, verdicts: &[bool], batch: &mut Batch) -> u64 {
    let mut count = 0;
    let mut image = Vec::new();
    let entries = rows.entries();
    for (index, entry) in entries.iter().enumerate() {
        let Entry::Record(record) = entry else {
            continue;
        };
        let passes = |at: usize| verdicts.get(at).copied().unwrap_or(false);
        if !passes(index) {
            continue;
        }
        // A key change of which only one half passes is an insert or a delete.
        let other = match record.flags {
            FLAG_PAIR_FIRST => passes(index + 1),
            FLAG_PAIR_SECOND => index > 0 && passes(index - 1),
            _ => false,
        };
        let flags = if other { record.flags } else { 0 };
        count += u64::from(flags != FLAG_PAIR_FIRST);
        let Ok(body) = RowBody::read(rows.bytes(record.body)) else {
            continue;
        };
        let mut row = batch.row(record.table, record.schema, body.meta);
        for (from, after) in [(body.before, false), (body.after, true)] {
            let Some(from) = from else { continue };
            image.clear();
            put_u64(&mut image, from.column_count() as u64);
            image.extend_from_slice(from.cell_bytes());
            if after {
                row.copy_after(&image);
            } else {
                row.copy_before(&image);
            }
        }
        row.finish(record.operation, flags, record.key_token);
    }
    count
}

impl Capture {
    fn open(&mut self, header: &EventHeader) {
        self.tx.reset();
        self.tx.open = true;
        self.header.server_id = header.server_id;
        self.header.replicated =
            self.options.server_id != 0 && header.server_id != self.options.server_id;
        self.header.thread_id = 0;
        self.header.begin_offset = self.event_start;
        self.header.time_s = header.time_s;
        self.header.commit_time_us = 0;
        self.header.id = None;
    }

    pub(super) fn mysql_gtid(&mut self, header: &EventHeader, body: &[u8]) -> Outcome {
        let opening = match header.kind {
            kind::GTID_TAGGED => gtid::read_mysql_tagged(body)?,
            other => gtid::read_mysql(body, other == kind::ANONYMOUS_GTID)?,
        };
        self.open(header);
        self.header.id = opening.id.map(TransactionId::Mysql);
        self.header.commit_time_us = opening.original_commit_us;
        Ok(())
    }

    pub(super) fn mariadb_gtid(&mut self, header: &EventHeader, body: &[u8]) -> Outcome {
        let opening = gtid::read_mariadb(body, header.server_id)?;
        self.open(header);
        let domain = self.options.domain;
        self.header.replicated |= domain.is_some_and(|own| own != opening.id.domain);
        self.header.id = Some(TransactionId::Mariadb(opening.id));
        self.tx.explicit = !opening.standalone;
        let xid = super::xa::normal_xid(&opening.xid);
        if opening.prepared_xa {
            self.xa.start(&xid);
            self.tx.xa = Some(xid);
        } else if opening.completed_xa {
            self.tx.completed_xa = Some(xid);
        }
        Ok(())
    }

    /// Opens a transaction that has no opening event (logs without GTIDs).
    pub(super) fn open_if_none(&mut self, header: &EventHeader) {
        if !self.tx.open {
            self.open(header);
        }
    }

    /// Writes `Begin`, once.
    pub(super) fn begin(&mut self, batch: &mut Batch) {
        if !self.tx.begun {
            self.tx.begun = true;
            self.tx.open = true;
            batch.begin(&self.header);
        }
    }

    /// Puts the schema of a plan into the journal, once.
    pub(super) fn announce(&mut self, plan: &TablePlan, batch: &mut Batch) {
        let schema = std::sync::Arc::clone(&plan.schema);
        let full = self
            .catalog
            .get(&schema.database, &schema.name)
            .cloned()
            .unwrap_or_else(|| std::sync::Arc::clone(&schema));
        self.announce_schema(&full, batch);
    }

    pub(super) fn commit(&mut self, header: &EventHeader, xid: u64, batch: &mut Batch) -> Outcome {
        self.trailer.step.file.clone_from(&self.header.file);
        self.trailer.step.offset = self.event_end;
        self.trailer.step.id.clone_from(&self.header.id);
        self.trailer.xid = xid;
        self.trailer.row_changes = self.tx.rows;
        self.trailer.time_s = header.time_s;
        self.position.advance(&self.trailer.step);
        if self.tx.begun {
            let mut time_us = self.header.best_time_us();
            if self.header.commit_time_us == 0 {
                time_us = u64::from(header.time_s) * 1_000_000;
            }
            batch.commit(&self.trailer, time_us);
        } else {
            self.unsaved = true;
        }
        self.tx.reset();
        Ok(())
    }

    /// Takes back what the batches, the gate and this memory hold of the open transaction.
    pub(super) fn take_back(&mut self, batch: &mut Batch) {
        if self.tx.begun {
            batch.rollback();
            self.tx.begun = false;
        }
        if self.tx.open
            && let Some(gate) = &mut self.gate
        {
            gate.rollback();
        }
        let said = std::mem::take(&mut self.tx.said);
        for key in &said.schemas {
            self.tables.announced.remove(key);
        }
        for (names, before) in said.last_versions.into_iter().rev() {
            match before {
                Some(key) => self.tables.last_versions.insert(names, key),
                None => self.tables.last_versions.remove(&names),
            };
        }
        if !said.schemas.is_empty() || !said.parked.is_empty() {
            // Their routes remember what was announced and set aside.
            self.tables.forget();
        }
        for name in said.parked {
            self.parked.remove(&name);
            self.parked_since.retain(|parked| parked.table != name);
        }
    }

    /// The log says that the open transaction did not happen.
    pub(super) fn roll_back(&mut self, header: &EventHeader, batch: &mut Batch) -> Outcome {
        self.take_back(batch);
        // Its id counts as executed all the same.
        self.commit(header, 0, batch)
    }

    /// Emits the position where nothing captured has passed since the last commit in the journal.
    ///
    /// Promises: a no-op inside a transaction or when nothing moved.
    pub fn emit_position(&mut self, batch: &mut Batch) {
        if self.tx.open || !self.unsaved {
            return;
        }
        self.unsaved = false;
        self.in_own_transaction(batch, |capture, batch| capture.control_position(batch));
    }

    /// A transaction of ours between two of the log, at the place that was reached.
    fn in_own_transaction(&mut self, batch: &mut Batch, write: impl FnOnce(&mut Self, &mut Batch)) {
        let header = TransactionHeader {
            server_id: self.header.server_id,
            file: self.position.file.clone(),
            begin_offset: self.position.offset,
            time_s: self.header.time_s,
            ..TransactionHeader::default()
        };
        batch.begin(&header);
        write(self, batch);
        let trailer = change::TransactionTrailer {
            step: change::PositionStep {
                file: self.position.file.clone(),
                offset: self.position.offset,
                id: None,
            },
            time_s: header.time_s,
            ..change::TransactionTrailer::default()
        };
        batch.commit(&trailer, header.best_time_us());
    }

    /// A captured table's definition cannot be read: it is set aside with the next boundary.
    pub fn cannot_read(&mut self, name: String, error: &source_mysql_ddl::DdlError) {
        tracing::warn!(table = name, %error, "the table's definition could not be read");
        let reason = format!(
            "its definition could not be read ({error}): report it with the text of SHOW CREATE TABLE; \
             after an upgrade headwater heal CONFIG {name} --resnapshot copies it"
        );
        self.unreadable.push((name, reason));
    }

    /// Sets aside what [`cannot_read`](Self::cannot_read) named.
    ///
    /// Promises: a no-op inside a transaction or when nothing is to be set aside.
    pub fn park_unreadable(&mut self, batch: &mut Batch) {
        if self.tx.open || self.unreadable.is_empty() {
            return;
        }
        self.in_own_transaction(batch, |capture, batch| {
            for (name, reason) in std::mem::take(&mut capture.unreadable) {
                capture.park(&name, &reason, batch);
            }
        });
    }

    pub(super) fn control_position(&self, batch: &mut Batch) {
        let mut value = Vec::new();
        self.position.encode(&mut value);
        batch.control(b"source/position", Some(&value));
    }

    /// An event of a table that is set aside: journaled as it is.
    pub(super) fn set_aside(&mut self, at: &Occurrence<'_>, aside: &Aside, batch: &mut Batch) {
        self.begin(batch);
        let (table, version) = match &aside.schema {
            Some(schema) => {
                self.announce_schema(schema, batch);
                (schema.table, schema.version)
            }
            None => (TableId(0), SchemaVersion(0)),
        };
        let name = format!("{}.{}", aside.database, aside.name);
        self.park(&name, &aside.reason, batch);
        self.put_opaque(at, (table, version), &aside.reason, batch);
    }

    /// An event that its plan could not decode: journaled as it is, and its table set aside.
    pub(super) fn park_event(
        &mut self,
        at: &Occurrence<'_>,
        plan: &TablePlan,
        error: &DecodeError,
        batch: &mut Batch,
    ) {
        let reason = error.to_string();
        let name = format!("{}.{}", plan.schema.database, plan.schema.name);
        self.park(&name, &reason, batch);
        self.put_opaque(at, (plan.table, plan.version), &reason, batch);
    }

    fn put_opaque(
        &mut self,
        at: &Occurrence<'_>,
        (table, version): (TableId, SchemaVersion),
        reason: &str,
        batch: &mut Batch,
    ) {
        let event = at.event;
        let body = event
            .get(crate::binlog::header::HEADER_BYTES..)
            .unwrap_or_default();
        let id = crate::binlog::table_map::table_id(body).unwrap_or(u64::MAX);
        let description = self.tables.slot(id).map(|slot| slot.map.clone());
        let opaque = OpaqueEvent {
            reason,
            meta: RowMeta {
                group: at.group,
                end_offset: self.event_end,
                time_s: at.header.time_s,
            },
            description: description.as_deref().unwrap_or_default(),
            event,
        };
        batch.opaque(table, version, &opaque);
    }

    /// Sets a table aside, once, with a control record.
    pub(crate) fn park(&mut self, name: &str, reason: &str, batch: &mut Batch) {
        if self.parked.contains_key(name) {
            return;
        }
        tracing::warn!(table = name, reason, "table set aside");
        let since = format!("{}:{}", self.header.file, self.event_start);
        let mut value = Vec::new();
        change::wire::put_bytes(&mut value, since.as_bytes());
        change::wire::put_bytes(&mut value, reason.as_bytes());
        batch.control(format!("source/parked/{name}").as_bytes(), Some(&value));
        if self.tx.begun {
            self.tx.said.parked.push(name.to_owned());
        }
        self.parked.insert(name.to_owned(), reason.to_owned());
        self.parked_since.push(ParkedTable {
            table: name.to_owned(),
            since,
            reason: reason.to_owned(),
        });
        self.tables.forget_routes_of(name);
    }

    /// A change that the log holds as a statement: its rows are not known.
    pub(super) fn statement_based(&mut self, header: &EventHeader, what: &str, batch: &mut Batch) {
        self.begin(batch);
        self.trouble = format!(
            "{what} at {}:{} is in the log as a statement, not as rows; set binlog_format = ROW",
            self.header.file, self.event_start
        );
        let reason = self.trouble.clone();
        self.put_statement(
            header,
            (what, &reason),
            (TableId(0), SchemaVersion(0)),
            batch,
        );
    }

    /// An opaque record of a statement, without its text: that holds values.
    pub(super) fn put_statement(
        &self,
        header: &EventHeader,
        (what, reason): (&str, &str),
        (table, version): (TableId, SchemaVersion),
        batch: &mut Batch,
    ) {
        let opaque = OpaqueEvent {
            reason,
            meta: RowMeta {
                group: self.tx.groups,
                end_offset: self.event_end,
                time_s: header.time_s,
            },
            description: &[],
            event: what.as_bytes(),
        };
        batch.opaque(table, version, &opaque);
    }

    pub(super) fn xa_prepare(
        &mut self,
        header: &EventHeader,
        body: &[u8],
        batch: &mut Batch,
    ) -> Outcome {
        let (one_phase, text) = gtid::read_xa_prepare(body)?;
        let xid = self
            .tx
            .xa
            .take()
            .unwrap_or_else(|| super::xa::normal_xid(&text));
        if one_phase {
            self.replay(header, &xid, batch)?;
        } else if let Some(value) = self.xa.seal(&xid)? {
            self.begin(batch);
            let key = format!("source/xa/{xid}");
            batch.control(key.as_bytes(), Some(&value));
        }
        self.commit(header, 0, batch)
    }

    /// Replays a prepared transaction's rows into the open one.
    pub(super) fn replay(&mut self, header: &EventHeader, xid: &str, batch: &mut Batch) -> Outcome {
        let Some(prepared) = self.xa.take(xid) else {
            return Ok(());
        };
        self.tx.xa = None;
        let mut outcome: Outcome = Ok(());
        let read = prepared.replay(|event| {
            if outcome.is_ok() {
                outcome = EventHeader::read(event)
                    .map_err(Into::into)
                    .and_then(|inner| self.dispatch(&inner, event, batch));
            }
            Ok(())
        });
        if let Err(failure) = read.map_err(Into::into).and(outcome) {
            // Its commit is read again after the fault.
            self.xa.put_back(xid, prepared);
            return Err(failure);
        }
        self.forget_xa(header, xid, batch);
        Ok(())
    }

    /// Drops a prepared transaction's control record.
    pub(super) fn forget_xa(&mut self, _header: &EventHeader, xid: &str, batch: &mut Batch) {
        self.begin(batch);
        batch.control(format!("source/xa/{xid}").as_bytes(), None);
    }
}
