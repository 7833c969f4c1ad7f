//! From messages to transactions in a batch.
//!
//! Owns: what a message means, where transactions begin and end, the next offset of each partition in the
//! transaction of its rows, messages that cannot be read. Refuses: the broker; who calls it feeds it
//! messages, those of one partition in their order.
//!
//! Read next: `rows.rs`, `tables.rs`.

mod rows;

use crate::config::{OnBadMessage, TopicConfig};
use crate::partition::{Held, Partition};
use crate::selection::Selection;
use crate::tables::{Tables, damaged};
use change::batch::OpaqueEvent;
use change::contract::{ErrorKind, ParkedTable};
use change::position::TransactionId;
use change::wire::{WireReader, put_bytes, put_u64};
use change::{
    Batch, Ddl, DdlKind, Operation, Position, PositionStep, RowMeta, SchemaVersion, SourceError,
    TableId, TransactionHeader, TransactionTrailer,
};
use format::decode::{Decoded, Decoder, Kind};
use format::settings::FormatName;
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Prefix of the control keys of topics with messages that were set aside.
pub(crate) const PARKED: &str = "source/parked/";

/// A message as the broker has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    /// Index of its partition.
    pub partition: usize,
    pub offset: i64,
    /// Its timestamp, milliseconds since the epoch; 0 or less for none.
    pub time_ms: i64,
    pub key: Option<&'a [u8]>,
    pub payload: Option<&'a [u8]>,
    /// Why the client could not read it; its payload is then as it came.
    pub fault: Option<&'static str>,
}

/// How the open transaction ends.
#[derive(Debug)]
enum End {
    /// By a message that says so.
    Told,
    /// With the first message that is of another transaction or time.
    Differs {
        transaction: Option<String>,
        time_us: u64,
        is_snapshot: bool,
    },
}

#[derive(Debug)]
struct Tx {
    partition: usize,
    end: End,
    /// `Begin` is in a batch.
    begun: bool,
    header: TransactionHeader,
    /// Messages in it so far.
    group: u32,
    rows: u64,
    /// When its last message came.
    last: Instant,
}

/// What is open between two messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    Nothing,
    /// A transaction that the next message may end; `is_named` when messages name their transaction.
    Differs {
        is_named: bool,
        since: Instant,
    },
    /// A transaction of this partition, whose end a message will tell.
    Told {
        partition: usize,
        since: Instant,
    },
}

/// Messages of one topic that were set aside.
#[derive(Debug)]
struct Aside {
    since: String,
    reason: String,
    count: u64,
}

/// See the module's page.
pub(crate) struct Capture {
    decoder: Box<dyn Decoder>,
    format: FormatName,
    /// Whether messages of debezium-json have their schema; none when each tells itself.
    has_schema: Option<bool>,
    selection: Selection,
    on_bad: OnBadMessage,
    pub partitions: Vec<Partition>,
    tables: Tables,
    asides: BTreeMap<String, Aside>,
    tx: Option<Tx>,
    decoded: Vec<Decoded>,
    images: [Vec<u8>; 2],
    position: Option<Position>,
}

impl Capture {
    pub fn new(config: &TopicConfig) -> Result<Self, SourceError> {
        use format::debezium_json::SchemaMode;
        let schema = config.format_options.schema;
        Ok(Self {
            decoder: config.decoder()?,
            format: config.format,
            has_schema: schema.map(|mode| mode == SchemaMode::Inline),
            selection: Selection::new(&config.tables)?,
            on_bad: config.on_bad_message,
            partitions: Vec::new(),
            tables: Tables::new(config.keys.clone()),
            asides: BTreeMap::new(),
            tx: None,
            decoded: Vec::new(),
            images: [Vec::new(), Vec::new()],
            position: None,
        })
    }

    /// Takes back what the journal kept, but for offsets.
    ///
    /// Errors: `Corrupt` for a control record that cannot be read.
    pub fn restore(&mut self, resume: &crate::Resume) -> Result<(), SourceError> {
        self.position.clone_from(&resume.position);
        for (key, value) in resume.with_prefix("schema/") {
            self.tables.restore(value).map_err(|_| damaged(key))?;
        }
        for (id, _) in resume.with_prefix(crate::tables::ALTERED) {
            self.tables
                .restore_altered(id.parse().map_err(|_| damaged(id))?);
        }
        for (topic, value) in resume.with_prefix(PARKED) {
            let read = || {
                let mut r = WireReader::new(value);
                Ok(Aside {
                    since: r.text()?.to_owned(),
                    reason: r.text()?.to_owned(),
                    count: r.u64()?,
                })
            };
            let aside = read().map_err(|_: change::wire::WireError| damaged(topic))?;
            self.asides.insert(topic.to_owned(), aside);
        }
        Ok(())
    }

    /// What was handed out last.
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Topics with messages that were set aside.
    pub fn parked(&self) -> Vec<ParkedTable> {
        let one = |(topic, aside): (&String, &Aside)| ParkedTable {
            table: topic.clone(),
            since: aside.since.clone(),
            reason: aside.text(),
        };
        self.asides.iter().map(one).collect()
    }

    /// What is open.
    pub fn open(&self) -> Open {
        match &self.tx {
            None => Open::Nothing,
            Some(tx) => match &tx.end {
                End::Told => Open::Told {
                    partition: tx.partition,
                    since: tx.last,
                },
                End::Differs { transaction, .. } => Open::Differs {
                    is_named: transaction.is_some(),
                    since: tx.last,
                },
            },
        }
    }

    /// Takes one message.
    ///
    /// Promises: all of it is in the batch, or it was set aside, or it has nothing for us; its offset is in
    /// the same transaction.
    /// Errors: `Corrupt` for a message that cannot be read, with `on_bad_message: stop`.
    pub fn take(&mut self, message: Message<'_>, batch: &mut Batch) -> Result<(), SourceError> {
        let partition = &mut self.partitions[message.partition];
        partition.read = message.offset + 1;
        if let Some(fault) = message.fault {
            self.bad(&message, fault, batch)?;
            self.advance(&message);
            return Ok(());
        }
        let Some(payload) = message.payload else {
            // A tombstone: the row's last change came before it.
            self.advance(&message);
            return Ok(());
        };
        let mut decoded = std::mem::take(&mut self.decoded);
        decoded.clear();
        let done = match self.decoder.decode(payload, &mut decoded) {
            Err(fault) => self.bad(&message, &fault.to_string(), batch),
            Ok(()) => self.said(&message, &decoded, batch),
        };
        self.decoded = decoded;
        done?;
        self.advance(&message);
        Ok(())
    }

    /// Everything up to a message is done with.
    fn advance(&mut self, message: &Message<'_>) {
        let partition = &mut self.partitions[message.partition];
        partition.next = match &partition.held {
            Some(held) => held.offset,
            None => message.offset + 1,
        };
    }

    fn said(
        &mut self,
        message: &Message<'_>,
        decoded: &[Decoded],
        batch: &mut Batch,
    ) -> Result<(), SourceError> {
        let Some(first) = decoded.first() else {
            return Ok(());
        };
        for warning in decoded.iter().flat_map(|d| &d.warnings) {
            let place = &self.partitions[message.partition].place;
            tracing::debug!("message at {place}:{}: {warning}", message.offset);
        }
        self.partitions[message.partition].time_us = time_us(message, first);
        let held = match first.kind {
            Kind::Heartbeat => return Ok(()),
            _ => self.partitions[message.partition].held.take(),
        };
        let held = match held {
            Some(held) if is_continued(&held, decoded) => Some(held),
            Some(held) => {
                self.bad_half(message, &held, batch)?;
                None
            }
            None => None,
        };
        if let Some(what) = decoded.iter().find_map(problem) {
            return self.bad(message, what, batch);
        }
        if let [only] = decoded
            && is_half(only)
        {
            self.partitions[message.partition].held = Some(Held {
                offset: message.offset,
                payload: message.payload.unwrap_or_default().to_vec(),
                decoded: only.clone(),
            });
            return Ok(());
        }
        if matches!(first.kind, Kind::Row(_) | Kind::Ddl(_)) {
            self.continue_with(message, first, batch);
        }
        for one in decoded {
            self.one(message, one, held.as_ref(), batch)?;
        }
        if let Some(tx) = &mut self.tx {
            tx.group += 1;
            tx.last = Instant::now();
        }
        Ok(())
    }

    fn one(
        &mut self,
        message: &Message<'_>,
        decoded: &Decoded,
        held: Option<&Held>,
        batch: &mut Batch,
    ) -> Result<(), SourceError> {
        match decoded.kind {
            Kind::Row(operation) => self.row(message, (operation, decoded), held, batch),
            Kind::Ddl(kind) => self.statement(message, kind, decoded, batch),
            Kind::Begin => {
                self.commit(batch);
                self.tx = Some(self.transaction(message, decoded, End::Told));
            }
            Kind::Commit => {
                let is_ours = |tx: &Tx| tx.partition == message.partition;
                if self.tx.as_ref().is_some_and(is_ours) {
                    self.advance(message);
                    self.commit(batch);
                }
            }
            Kind::Rollback => return self.roll_back(message, batch),
            Kind::Heartbeat => {}
        }
        Ok(())
    }

    /// Ends the open transaction if the message is of another one, and opens one if none is open.
    fn continue_with(&mut self, message: &Message<'_>, decoded: &Decoded, batch: &mut Batch) {
        let time_us = time_us(message, decoded);
        let is_snapshot = decoded.kind == Kind::Row(Operation::Read);
        let goes_on = match &self.tx {
            None => false,
            Some(tx) if tx.partition != message.partition => false,
            Some(Tx { end: End::Told, .. }) => true,
            Some(Tx {
                end:
                    End::Differs {
                        transaction,
                        time_us: its_time_us,
                        is_snapshot: is_its,
                    },
                ..
            }) => {
                let is_same = match (transaction, &decoded.transaction) {
                    (Some(a), Some(b)) => a == b,
                    (None, None) => *its_time_us == time_us,
                    _ => false,
                };
                is_same && *is_its == is_snapshot
            }
        };
        if goes_on {
            return;
        }
        self.commit(batch);
        let end = End::Differs {
            transaction: decoded.transaction.clone(),
            time_us,
            is_snapshot,
        };
        let mut tx = self.transaction(message, decoded, end);
        tx.header.snapshot = is_snapshot;
        self.tx = Some(tx);
    }

    fn transaction(&self, message: &Message<'_>, decoded: &Decoded, end: End) -> Tx {
        let id = decoded.transaction.as_deref().and_then(transaction_id);
        self.transaction_at(message, (time_us(message, decoded), id), end)
    }

    fn transaction_at(
        &self,
        message: &Message<'_>,
        (time_us, id): (u64, Option<TransactionId>),
        end: End,
    ) -> Tx {
        Tx {
            partition: message.partition,
            end,
            begun: false,
            header: TransactionHeader {
                id,
                file: self.partitions[message.partition].place.clone(),
                begin_offset: message.offset.max(0) as u64,
                time_s: seconds(time_us),
                commit_time_us: time_us,
                ..TransactionHeader::default()
            },
            group: 0,
            rows: 0,
            last: Instant::now(),
        }
    }

    /// Writes `Begin`, once.
    fn begin(&mut self, batch: &mut Batch) {
        if let Some(tx) = &mut self.tx
            && !tx.begun
        {
            tx.begun = true;
            batch.begin(&tx.header);
        }
    }

    /// Ends the open transaction: what is read of it is whole, or its rest becomes another one.
    pub fn commit(&mut self, batch: &mut Batch) {
        let Some(tx) = self.tx.take() else { return };
        if !tx.begun {
            return;
        }
        let partition = &mut self.partitions[tx.partition];
        partition.save(batch);
        let position = Position {
            file: partition.place.clone(),
            offset: partition.next.max(0) as u64,
            ..Position::default()
        };
        end(batch, &position, (tx.header.best_time_us(), tx.rows));
        self.position = Some(position);
        self.tables.controls.settle();
    }

    fn roll_back(&mut self, message: &Message<'_>, batch: &mut Batch) -> Result<(), SourceError> {
        match self.tx.take() {
            Some(mut tx) if tx.partition == message.partition && matches!(tx.end, End::Told) => {
                if tx.begun {
                    batch.rollback();
                    batch.begin(&tx.header);
                    self.tables.controls.replay(batch);
                    tx.rows = 0;
                    self.tx = Some(tx);
                    self.advance(message);
                    self.commit(batch);
                }
                Ok(())
            }
            open => {
                self.tx = open;
                let what = "a transaction is taken back whose rows are in the journal already";
                self.bad(message, what, batch)
            }
        }
    }

    fn statement(
        &mut self,
        message: &Message<'_>,
        kind: DdlKind,
        decoded: &Decoded,
        batch: &mut Batch,
    ) {
        let (database, table) = (&decoded.table.database, &decoded.table.name);
        let is_taken = match table.as_str() {
            "" => self.selection.touches(database),
            table => self.selection.matches(database, table),
        };
        if !is_taken {
            return;
        }
        self.continue_with(message, decoded, batch);
        self.begin(batch);
        let known = self.tables.known(database, table);
        let (id, version) = known.unwrap_or((TableId(0), SchemaVersion(0)));
        let ddl = Ddl {
            kind,
            database,
            table,
            renamed_from: "",
            sql: &decoded.sql,
            charset: "",
            sql_mode: 0,
        };
        batch.ddl(id, version, &ddl);
        let keeps_columns = matches!(
            kind,
            DdlKind::TruncateTable | DdlKind::CreateIndex | DdlKind::DropIndex | DdlKind::Database
        );
        if !keeps_columns {
            self.tables.altered(database, table, batch);
        }
    }

    /// A message that cannot be read: journaled as it came, with a control record that names it.
    fn bad(
        &mut self,
        message: &Message<'_>,
        what: &str,
        batch: &mut Batch,
    ) -> Result<(), SourceError> {
        let partition = &self.partitions[message.partition];
        let place = format!("{}:{}", partition.place, message.offset);
        if self.on_bad == OnBadMessage::Stop {
            if !matches!(self.open(), Open::Told { .. }) {
                self.commit(batch);
            }
            return Err(SourceError::new(ErrorKind::Corrupt, "read message", what)
                .at(place)
                .hint("set on_bad_message: park to go on without it"));
        }
        let topic = partition.topic.clone();
        tracing::warn!("message at {place} set aside: {what}");
        let time_us = u64::try_from(message.time_ms).unwrap_or(0) * 1000;
        if (self.tx.as_ref()).is_none_or(|tx| tx.partition != message.partition) {
            self.commit(batch);
            let end = End::Differs {
                transaction: None,
                time_us,
                is_snapshot: false,
            };
            self.tx = Some(self.transaction_at(message, (time_us, None), end));
        }
        self.begin(batch);
        let aside = self.asides.entry(topic.clone()).or_insert_with(|| Aside {
            since: place.clone(),
            reason: String::new(),
            count: 0,
        });
        aside.count += 1;
        aside.reason = format!("{place}: {what}");
        let mut value = Vec::new();
        put_bytes(&mut value, aside.since.as_bytes());
        put_bytes(&mut value, aside.reason.as_bytes());
        put_u64(&mut value, aside.count);
        let controls = &mut self.tables.controls;
        controls.put(batch, &format!("{PARKED}{topic}"), Some(&value));
        let event = OpaqueEvent {
            reason: what,
            meta: self.meta(message, time_us),
            description: place.as_bytes(),
            event: message.payload.unwrap_or_default(),
        };
        batch.opaque(TableId(0), SchemaVersion(0), &event);
        Ok(())
    }

    /// A row before an update whose row after did not come.
    fn bad_half(
        &mut self,
        message: &Message<'_>,
        held: &Held,
        batch: &mut Batch,
    ) -> Result<(), SourceError> {
        let half = Message {
            offset: held.offset,
            payload: Some(&held.payload),
            ..*message
        };
        self.bad(&half, "the row after the update does not follow", batch)?;
        self.advance(&half);
        Ok(())
    }

    fn meta(&self, message: &Message<'_>, time_us: u64) -> RowMeta {
        RowMeta {
            group: self.tx.as_ref().map_or(0, |tx| tx.group),
            end_offset: message.offset.max(0) as u64 + 1,
            time_s: seconds(time_us),
        }
    }

    /// Puts offsets into the journal that no row took there; with `identity`, who the brokers are too.
    ///
    /// Promises: a no-op inside a transaction or when nothing moved.
    pub fn save_offsets(&mut self, identity: Option<&str>, batch: &mut Batch) {
        let moved = |partition: &Partition| !partition.is_saved();
        let Some(first) = self.partitions.iter().position(moved) else {
            return;
        };
        if self.tx.is_some() {
            return;
        }
        let position = Position {
            file: self.partitions[first].place.clone(),
            offset: self.partitions[first].next.max(0) as u64,
            ..Position::default()
        };
        let now_us = now_us();
        batch.begin(&TransactionHeader {
            file: position.file.clone(),
            begin_offset: position.offset,
            time_s: seconds(now_us),
            ..TransactionHeader::default()
        });
        if let Some(identity) = identity {
            batch.control(b"source/identity", Some(identity.as_bytes()));
        }
        for partition in self.partitions.iter_mut().filter(|p| !p.is_saved()) {
            partition.save(batch);
        }
        end(batch, &position, (now_us, 0));
        self.position = Some(position);
    }
}

impl Aside {
    fn text(&self) -> String {
        match self.count {
            1 => format!("a message was set aside: {}", self.reason),
            count => format!(
                "{count} messages were set aside, the last at {}",
                self.reason
            ),
        }
    }
}

fn end(batch: &mut Batch, position: &Position, (time_us, rows): (u64, u64)) {
    let trailer = TransactionTrailer {
        step: PositionStep {
            file: position.file.clone(),
            offset: position.offset,
            id: None,
        },
        xid: 0,
        row_changes: rows,
        time_s: seconds(time_us),
    };
    batch.commit(&trailer, time_us);
}

/// What makes a decoded operation unusable.
fn problem(decoded: &Decoded) -> Option<&'static str> {
    let Kind::Row(operation) = decoded.kind else {
        return None;
    };
    if decoded.table.name.is_empty() {
        return Some("the message does not name its table");
    }
    let (before, after) = (decoded.before.is_some(), decoded.after.is_some());
    match operation {
        Operation::Delete if !before => Some("a deleted row is missing"),
        Operation::Insert | Operation::Read if !after => Some("a new row is missing"),
        Operation::Update if !before && !after => Some("an updated row is missing"),
        _ => None,
    }
}

/// Whether it is the first of two messages of an update.
fn is_half(decoded: &Decoded) -> bool {
    decoded.kind == Kind::Row(Operation::Update) && decoded.after.is_none()
}

/// Whether the message after a half is the other half.
fn is_continued(held: &Held, decoded: &[Decoded]) -> bool {
    let [only] = decoded else { return false };
    let first = &held.decoded;
    only.kind == Kind::Row(Operation::Update)
        && only.before.is_none()
        && only.after.is_some()
        && only.table.database == first.table.database
        && only.table.name == first.table.name
        && only.transaction == first.transaction
}

fn time_us(message: &Message<'_>, decoded: &Decoded) -> u64 {
    match decoded.time_us {
        0 => u64::try_from(message.time_ms).unwrap_or(0) * 1000,
        time_us => time_us,
    }
}

fn seconds(time_us: u64) -> u32 {
    u32::try_from(time_us / 1_000_000).unwrap_or(u32::MAX)
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

/// A transaction's text as an id, where it is one.
fn transaction_id(text: &str) -> Option<TransactionId> {
    let mysql = text.parse().map(TransactionId::Mysql);
    let mariadb = || text.parse().map(TransactionId::Mariadb);
    mysql.or_else(|_| mariadb()).ok()
}

#[cfg(test)]
mod tests;
