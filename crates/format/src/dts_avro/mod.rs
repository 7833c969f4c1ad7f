//! DTS Avro: the messages that Alibaba Cloud DTS writes, and that its subscribers read.
//!
//! Shape: a message is one bare Avro datum of [`avro_schema`]'s last type: no container, no schema
//! number, no length before it. One operation per message. All fifteen fields are always written.
//!
//! Owns: the encoder here, the schema's text ([`schema`]), the table of types ([`types`]), the bytes
//! of a datum ([`datum`]) and the decoder ([`decode`]). Refuses: schema registries and their framing.
//!
//! On purpose other than DTS (see docs/reference/dts-avro.md): text is always UTF-8, and says so;
//! key names in `pk_uk_info` are escaped as JSON wants it; `id` is the journal's sequence.
//!
//! Recipe, to add a type: its line in [`types::wire`], its number in [`types::named`], its value in
//! `values.rs`, and a row of the table in the reference page.

pub mod datum;
pub mod decode;
pub mod schema;
mod table;
mod tags;
pub mod types;
mod values;

pub use decode::DtsAvroDecoder;
pub use schema::avro_schema;
pub use types::SourceKind;

use crate::canal_json::Clock;
use crate::{Encoder, FormatError, Heartbeat, Messages};
use change::event::DdlChange;
use change::position::file_number;
use change::{Event, Operation, RowChange, TransactionHeader};
use datum::{Short, Stack, put_long, put_string};
use std::collections::HashMap;
use table::{TableDatum, put_object, put_text_image};
use tags::TagWriter;

/// The format's name as in the config.
pub const NAME: &str = "dts-avro";

/// Readers drop messages of this many bytes and less as fillers. Every message here is longer: its
/// `readerThroughoutTime` alone takes 35.
pub const FILLER_BYTES_MAX: usize = 48;

/// Heartbeats come this often while a source is idle.
const HEARTBEAT_PERIOD: std::time::Duration = std::time::Duration::from_secs(10);

/// Settings of the format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// `source.sourceType`, and with it the table of types. Default MySQL.
    pub source: SourceKind,
    /// `source.version`: the server's version, `8.0.28`. Default empty.
    pub source_version: String,
    /// A part before database and table in `objectName`, for sources that have databases above their
    /// schemas. Default none.
    pub database: Option<String>,
    /// What the tag `readerThroughoutTime` says. Default wall.
    pub clock: Clock,
    /// BEGIN and COMMIT are messages too. Default false: a topic of rows has no use for them.
    pub transactions: bool,
    /// HEARTBEAT is a message too. Default false.
    pub heartbeats: bool,
    /// Leave DDL messages out. Default false.
    pub without_ddl: bool,
    /// Snapshot rows are INSERT rather than INIT. Default false; readers before 2.1.5 show INIT as an
    /// unknown operation.
    pub snapshot_as_insert: bool,
    /// The tag `GTID` is on rows too, not only on BEGIN, COMMIT and DDL. Default false.
    pub gtid: bool,
    /// The tags `server_id` and `commitTimestamp`. Default false.
    pub source_tags: bool,
    /// The tag `metaVersion`, by which fast readers keep a table's columns. Default false: it is a
    /// number of one journal, so two pipelines that write tables of one name must not have it.
    pub meta_version: bool,
    /// TEXT columns are `BinaryObject`s of number 252 with the word `TEXT`, as some readers expect.
    /// Default false: `Character` of number 15.
    pub text_as_blob: bool,
}

/// `Operation` of the schema.
mod operation {
    pub const INSERT: i64 = 0;
    pub const UPDATE: i64 = 1;
    pub const DELETE: i64 = 2;
    pub const DDL: i64 = 3;
    pub const BEGIN: i64 = 4;
    pub const COMMIT: i64 = 5;
    pub const HEARTBEAT: i64 = 8;
    pub const INIT: i64 = 16;
}

/// The encoder.
#[derive(Debug, Default)]
pub struct DtsAvro {
    options: Options,
    /// `sourceTxid` and `source`, the same in every message.
    source: Vec<u8>,
    tables: HashMap<(u32, u32), TableDatum>,
}

/// What stands before `operation`, and behind the images.
struct Head<'a> {
    id: u64,
    /// In the unit of the source.
    time: u64,
    file: &'a str,
    offset: u64,
    safe_offset: u64,
    operation: i64,
}

impl DtsAvro {
    /// An encoder with these settings.
    pub fn new(options: Options) -> Self {
        let mut source = Vec::new();
        put_string(&mut source, "0");
        put_long(&mut source, options.source.symbol());
        put_string(&mut source, &options.source_version);
        Self {
            options,
            source,
            tables: HashMap::new(),
        }
    }

    fn row(&mut self, row: &RowChange<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        FormatError::refuse_cql(NAME, row)?;
        let operation = self.row_operation(row)?;
        let (table, header) = (row.table, row.header);
        let time = self.time(row.meta.time_s, header);
        let key = (table.table.0, table.version.0);
        if table.table.0 == 0 {
            // A table without a number, as decoders give it: the next may be another.
            self.tables.remove(&key);
        }
        let options = &self.options;
        let datum = self
            .tables
            .entry(key)
            .or_insert_with(|| TableDatum::new(options, table));
        let images = [&row.before, &row.after];
        if images
            .iter()
            .any(|image| image.is_some_and(|i| i.column_count() > datum.column_count()))
        {
            return Err(failed(row, "an image has more columns than the table"));
        }
        let head = Head {
            id: row.sequence,
            time,
            file: &header.file,
            offset: row.meta.end_offset.max(header.begin_offset),
            safe_offset: header.begin_offset,
            operation,
        };
        put_head(out, &head, &self.source);
        out.extend_from_slice(&datum.object);
        let mut tags = TagWriter::new(out);
        tags.encoded(&datum.keys);
        put_tags(&mut tags, options, header, options.gtid);
        if options.meta_version {
            tags.number("metaVersion", u64::from(key.0) << 32 | u64::from(key.1));
        }
        tags.end();
        out.extend_from_slice(&datum.fields);
        match row.operation {
            Operation::Update => {
                datum.put_image(out, row.before.as_ref());
                datum.put_image(out, row.after.as_ref());
            }
            Operation::Delete => {
                datum.put_image(out, row.before.as_ref());
                put_long(out, 0);
            }
            _ => {
                put_long(out, 0);
                datum.put_image(out, row.after.as_ref());
            }
        }
        put_long(out, time as i64);
        Ok(())
    }

    fn row_operation(&self, row: &RowChange<'_>) -> Result<i64, FormatError> {
        let (operation, shown) = match row.operation {
            Operation::Insert => (operation::INSERT, &row.after),
            Operation::Update => (operation::UPDATE, &row.after),
            Operation::Delete => (operation::DELETE, &row.before),
            Operation::Read if self.options.snapshot_as_insert => (operation::INSERT, &row.after),
            Operation::Read => (operation::INIT, &row.after),
            _ => return Err(failed(row, "the change is not one of a row")),
        };
        match shown {
            Some(_) => Ok(operation),
            None => Err(failed(row, "the change has no image of the row")),
        }
    }

    fn ddl(&self, change: &DdlChange<'_>, out: &mut Vec<u8>) {
        let header = change.header;
        let head = Head {
            id: change.sequence,
            time: self.time(header.time_s, header),
            file: &header.file,
            offset: header.begin_offset,
            safe_offset: header.begin_offset,
            operation: operation::DDL,
        };
        put_head(out, &head, &self.source);
        put_object(out, &self.options, &[change.ddl.database]);
        let mut tags = TagWriter::new(out);
        put_tags(&mut tags, &self.options, header, true);
        tags.end();
        // No fields, no image before: readers take an empty array for a broken row.
        out.extend_from_slice(&[0; 2]);
        put_text_image(out, change.ddl.sql);
        put_long(out, head.time as i64);
    }

    /// BEGIN and COMMIT.
    fn mark(&self, head: &Head<'_>, header: &TransactionHeader, out: &mut Vec<u8>) {
        put_head(out, head, &self.source);
        put_object(out, &Options::default(), &[]);
        let mut tags = TagWriter::new(out);
        put_tags(&mut tags, &self.options, header, true);
        tags.end();
        out.extend_from_slice(&[0; 3]);
        put_long(out, head.time as i64);
    }

    /// Seconds for MySQL, milliseconds for PostgreSQL: what readers take them for.
    fn time(&self, time_s: u32, header: &TransactionHeader) -> u64 {
        match self.options.source {
            SourceKind::MySql if time_s == 0 => u64::from(header.time_s),
            SourceKind::MySql => u64::from(time_s),
            SourceKind::PostgreSql => header.best_time_us() / 1000,
        }
    }
}

fn failed(row: &RowChange<'_>, what: &str) -> FormatError {
    FormatError {
        format: NAME,
        table: format!("{}.{}", row.table.database, row.table.name),
        what: what.into(),
    }
}

fn put_head(out: &mut Vec<u8>, head: &Head<'_>, source: &[u8]) {
    // Four numbers of at most ten bytes, and two positions of at most 42.
    let mut all = Stack::<128>::new();
    // The version: always 0.
    all.long(0);
    all.long(head.id as i64);
    all.long(head.time as i64);
    put_positions(&mut all, head);
    out.extend_from_slice(all.as_slice());
    out.extend_from_slice(source);
    put_long(out, head.operation);
}

/// `sourcePosition` and `safeSourcePosition`: `offset@number of the file`; empty when the file is not
/// known.
fn put_positions(all: &mut Stack<128>, head: &Head<'_>) {
    if head.file.is_empty() {
        return all.raw(&[0; 2]);
    }
    let mut number = itoa::Buffer::new();
    let number = number.format(file_number(head.file));
    for offset in [head.offset, head.safe_offset] {
        let mut buffer = itoa::Buffer::new();
        let offset = buffer.format(offset);
        all.long((offset.len() + 1 + number.len()) as i64);
        all.raw(offset.as_bytes());
        all.raw(b"@");
        all.raw(number.as_bytes());
    }
}

fn put_tags(tags: &mut TagWriter<'_>, options: &Options, header: &TransactionHeader, gtid: bool) {
    put_reader_time(tags, options.clock, header.best_time_us());
    tags.known_number("thread_id", u64::from(header.thread_id));
    if options.source_tags {
        tags.known_number("server_id", u64::from(header.server_id));
        tags.number("commitTimestamp", header.best_time_us() / 1_000_000);
    }
    if gtid
        && let Some(id) = &header.id
        && let Some(text) = Short::of(format_args!("{id}"))
    {
        tags.text("GTID", text.as_str());
    }
}

fn put_reader_time(tags: &mut TagWriter<'_>, clock: Clock, time_us: u64) {
    let millis: u64 = match clock {
        Clock::Commit => time_us / 1000,
        Clock::Wall => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64),
    };
    // Thirteen digits in our time, and also for a source without a clock: a message must not get as
    // short as a filler.
    let mut digits = [b'0'; READER_TIME_DIGITS];
    let mut left = millis;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let mut tag = Stack::<40>::new();
    tag.bytes(b"readerThroughoutTime");
    tag.bytes(&digits);
    tags.encoded(tag.as_slice());
}

/// Enough for milliseconds until the year 2286.
const READER_TIME_DIGITS: usize = 13;

impl Encoder for DtsAvro {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(&mut self, event: &Event<'_>, out: &mut Messages) -> Result<(), FormatError> {
        match event {
            Event::Row(row) => self.row(row, out.buffer())?,
            Event::Ddl(change) => {
                // A schema is about to change: templates of old versions are made again if needed.
                self.tables.clear();
                if self.options.without_ddl {
                    return Ok(());
                }
                self.ddl(change, out.buffer());
            }
            Event::Begin { sequence, header } if self.options.transactions => {
                let head = Head {
                    // A beginning has no sequence of its own: it has that of its first record.
                    id: *sequence,
                    time: self.time(header.time_s, header),
                    file: &header.file,
                    offset: header.begin_offset,
                    safe_offset: header.begin_offset,
                    operation: operation::BEGIN,
                };
                self.mark(&head, header, out.buffer());
            }
            Event::Commit {
                sequence,
                header,
                trailer,
            } if self.options.transactions => {
                let head = Head {
                    id: *sequence,
                    time: self.time(trailer.time_s, header),
                    file: &trailer.step.file,
                    offset: trailer.step.offset,
                    safe_offset: trailer.step.offset,
                    operation: operation::COMMIT,
                };
                self.mark(&head, header, out.buffer());
            }
            _ => return Ok(()),
        }
        out.end();
        Ok(())
    }

    fn wants_marks(&self) -> bool {
        self.options.transactions
    }

    fn heartbeat_period(&self) -> Option<std::time::Duration> {
        self.options.heartbeats.then_some(HEARTBEAT_PERIOD)
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn heartbeat(&mut self, beat: &Heartbeat<'_>, out: &mut Messages) {
        if !self.options.heartbeats {
            return;
        }
        let time = match self.options.source {
            SourceKind::MySql => beat.time_us / 1_000_000,
            SourceKind::PostgreSql => beat.time_us / 1000,
        };
        let head = Head {
            id: beat.sequence,
            time,
            file: beat.file,
            offset: beat.offset,
            safe_offset: beat.offset,
            operation: operation::HEARTBEAT,
        };
        let bytes = out.buffer();
        put_head(bytes, &head, &self.source);
        put_object(bytes, &Options::default(), &[]);
        let mut tags = TagWriter::new(bytes);
        put_reader_time(&mut tags, self.options.clock, beat.time_us);
        tags.end();
        bytes.extend_from_slice(&[0; 3]);
        put_long(bytes, time as i64);
        out.end();
    }
}
