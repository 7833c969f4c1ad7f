//! Change streams of a running pipeline: what the config declares, and what commands ask.

use crate::config::{Config, StreamConfig};
use crate::control::Answer;
use change::contract::SourceStatus;
use change::{TableId, TableSchema};
use journal::{Clock, RecordDescriptor, Sequence, Writer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stream::{
    EnableStream, ErrorKind, Resource, ShardId, SourceFacts, StreamInfo, StreamReport,
    StreamWriter, Streams, StreamsOptions, Tags, ViewType, name,
};

/// What the API promises for every record.
pub const RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Segments are held a little longer, so that a read that has begun can end.
const HOLD: Duration = Duration::from_secs(24 * 3600 + 900);
/// Declared streams whose table is not known yet are looked at again after this.
const DECLARED_INTERVAL: Duration = Duration::from_secs(1);
const NO_KEY: &str = "its table has no key any more; give it one, then enable the stream anew";
const PARTIAL: &str = "the log did not carry a whole row of its table: binlog_row_image is not FULL, on the server or in a \
                       session; set it, let the writers connect anew, then enable the stream anew";
const COPIED_AGAIN: &str = "its table is copied again, and changes of rows that are still to be copied are no records \
                            of their own; enable a stream anew";
/// Name of the journal's hold.
const HOLD_NAME: &str = "streams";

/// How a pipeline keeps its streams.
pub fn options(config: &Config, clock: &Arc<dyn Clock>) -> StreamsOptions {
    let short = config.journal.retention.0 < RETENTION;
    let api = config.api.clone().unwrap_or_default();
    StreamsOptions {
        identity: api.identity(),
        keys_in_images: api.records.keys_in_images,
        clock: Arc::clone(clock),
        refusal: short.then(|| {
            format!(
                "journal.retention is {}, and records of a stream are kept for 24 h; hint: set \
                 journal.retention to 24h or more",
                config.journal.retention
            )
        }),
        ..StreamsOptions::default()
    }
}

/// Keeps the journal for as long as a stream owes it.
pub fn hold(streams: &Streams) {
    let any = streams
        .list(None, None, None, 1)
        .is_ok_and(|page| !page.streams.is_empty());
    streams
        .journal()
        .set_retention_hold(HOLD_NAME, any.then_some(HOLD));
}

/// The stream that a config entry asks for.
fn request(config: &StreamConfig) -> EnableStream {
    let (database, table) = config.table.split_once('.').unwrap_or(("", &config.table));
    EnableStream {
        keyspace: name::mapped(database).into_owned(),
        table: name::mapped(table).into_owned(),
        view: Some(config.view.into()),
        name: config.name.clone(),
        clustering: config.clustering.clone(),
        include_snapshot: config.include_snapshot,
        tags: config.tags.clone(),
        propagate_tags: false,
        shards: Some((&config.shards).into()),
    }
}

/// What the source's standing says about streams.
pub struct Facts<'a> {
    status: &'a SourceStatus,
}

impl<'a> Facts<'a> {
    /// Of a standing.
    pub fn of(status: &'a SourceStatus) -> Self {
        Self { status }
    }

    fn is_copying(&self, table: &str) -> bool {
        let mut tables = self.status.tables.iter();
        tables.any(|progress| progress.table == table && !progress.done)
    }

    fn with<T>(&self, act: impl FnOnce(&SourceFacts<'_>) -> T) -> T {
        act(&SourceFacts {
            partial_images: self.status.partial_images.as_deref(),
            is_copying: &|table| self.is_copying(table),
        })
    }
}

/// A stream of the config.
struct Declared {
    request: EnableStream,
    /// Its table, once that is known.
    table: Option<TableId>,
    /// It is to be made: it never was, or what ended it has passed. One that was ended by command is not.
    is_wanted: bool,
}

/// The capture thread's side: the streams' writer, and what the config declares.
pub struct CaptureStreams {
    driver: StreamWriter,
    declared: Vec<Declared>,
    told: BTreeSet<String>,
    looked: Option<Instant>,
}

impl CaptureStreams {
    /// Of a pipeline with these declared streams.
    pub fn new(driver: StreamWriter, declared: &[StreamConfig]) -> Self {
        Self {
            driver,
            declared: declared
                .iter()
                .map(|config| Declared {
                    request: request(config),
                    table: None,
                    is_wanted: true,
                })
                .collect(),
            told: BTreeSet::new(),
            looked: None,
        }
    }

    /// Counts a record before it is appended. True when it lacks cells that its table's stream shows: then
    /// [`CaptureStreams::end_at_partial_row`].
    #[inline]
    #[must_use]
    pub fn observe(&mut self, descriptor: &RecordDescriptor, body: &[u8]) -> bool {
        self.driver.observe(descriptor, body)
    }

    /// Ends the stream of a table of which the next record is not whole.
    ///
    /// Errors: the journal's.
    pub fn end_at_partial_row(
        &mut self,
        table: TableId,
        writer: &mut Writer,
    ) -> Result<(), stream::Error> {
        let sequence = writer.next_sequence();
        self.driver.end_streams(table, sequence, PARTIAL, writer)?;
        Ok(())
    }

    /// Makes a declared stream as soon as its table's first schema is written, in the same transaction: no row of the
    /// table that follows it is missed. Also that of a table which went and came again.
    ///
    /// A table that lost its key has no stream from here on. Errors: the journal's.
    pub fn on_schema(
        &mut self,
        schema: TableSchema,
        writer: &mut Writer,
        status: &SourceStatus,
    ) -> Result<(), stream::Error> {
        if schema.key().is_empty() {
            let sequence = writer.next_sequence();
            self.want_again(schema.table);
            return self.end_streams(schema.table, sequence, NO_KEY, writer);
        }
        let (keyspace, table) = (name::mapped(&schema.database), name::mapped(&schema.name));
        let wanted = |declared: &&mut Declared| {
            let request = &declared.request;
            request.keyspace == keyspace && request.table == table
        };
        let Some(declared) = self.declared.iter_mut().find(wanted) else {
            return Ok(());
        };
        declared.table = Some(schema.table);
        if !declared.is_wanted || self.driver.is_live(&schema) {
            return Ok(());
        }
        let request = declared.request.clone();
        let schema = Arc::new(schema);
        let outcome = Facts::of(status).with(|facts| {
            self.driver
                .enable_inside(&request, &schema, (writer, facts))
        });
        // It stays wanted until it is seen: a transaction that is taken back takes the stream with it.
        self.looked = None;
        if let Err(error) = outcome {
            self.tell(&request, &error);
        }
        Ok(())
    }

    /// A table went: under this name there is none from here on.
    ///
    /// Errors: the journal's.
    pub fn on_table_gone(
        &mut self,
        table: TableId,
        reason: &str,
        writer: &mut Writer,
    ) -> Result<(), stream::Error> {
        let sequence = writer.next_sequence();
        self.want_again(table);
        self.end_streams(table, sequence, reason, writer)?;
        self.driver.forget_table(table, writer)
    }

    /// A table is about to be copied again: the control records that end its stream at `sequence`, to be written at once.
    pub fn on_copy_again(
        &mut self,
        table: TableId,
        sequence: Sequence,
    ) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        self.want_again(table);
        self.driver.endings(table, sequence, COPIED_AGAIN)
    }

    /// A declared stream of this table is made anew as soon as that can be, unless it was ended by command.
    fn want_again(&mut self, table: TableId) {
        for declared in &mut self.declared {
            let request = &declared.request;
            if declared.table == Some(table)
                && !self
                    .driver
                    .is_disabled_by_command(&request.keyspace, &request.table)
            {
                declared.is_wanted = true;
            }
        }
    }

    /// The number of a captured table by the source's names, `database.table`.
    pub fn table_named(&self, name: &str) -> Option<TableId> {
        let (database, table) = name.split_once('.')?;
        self.driver.table_named(database, table)
    }

    /// Ends the streams of a table that cannot be followed from `sequence` on.
    ///
    /// Errors: the journal's.
    pub fn end_streams(
        &mut self,
        table: TableId,
        sequence: Sequence,
        reason: &str,
        writer: &mut Writer,
    ) -> Result<(), stream::Error> {
        if self.driver.has_live_stream(table) {
            self.driver.end_streams(table, sequence, reason, writer)?;
        }
        Ok(())
    }

    /// Notes whether a table's key is to be had.
    pub fn note_key(&mut self, table: TableId, is_there: bool) {
        self.driver.note_key(table, is_there);
    }

    /// What is due between transactions.
    ///
    /// Errors: the journal's, when its writer has ended.
    pub fn serve(
        &mut self,
        writer: &mut Writer,
        status: &SourceStatus,
    ) -> Result<(), stream::Error> {
        let facts = Facts::of(status);
        facts.with(|facts| self.driver.serve(writer, facts))?;
        let is_due = self
            .looked
            .is_none_or(|at| at.elapsed() >= DECLARED_INTERVAL);
        if is_due && self.declared.iter().any(|declared| declared.is_wanted) {
            self.looked = Some(Instant::now());
            self.look_at_declared(writer, &facts);
        }
        Ok(())
    }

    /// Makes what is declared and not there.
    fn look_at_declared(&mut self, writer: &mut Writer, facts: &Facts<'_>) {
        // Away from the rest meanwhile.
        let mut all = std::mem::take(&mut self.declared);
        for declared in all.iter_mut().filter(|declared| declared.is_wanted) {
            let request = &declared.request;
            if let Some(live) = self.driver.find_live(&request.keyspace, &request.table) {
                if request.view.is_some_and(|view| view != live.view) {
                    tracing::error!(
                        stream = live.arn,
                        "the config asks for the view {}, and the stream has {}: a stream's view never \
                         changes; hint: disable it and run again, then it is made anew",
                        request.view.unwrap_or_default().as_str(),
                        live.view.as_str()
                    );
                }
                (declared.table, declared.is_wanted) = (Some(live.table_id), false);
                continue;
            }
            match facts.with(|facts| self.driver.enable_now(request, writer, facts)) {
                Ok(info) => {
                    tracing::info!(stream = info.arn, "stream {}", info.status.as_str());
                    (declared.table, declared.is_wanted) = (Some(info.table_id), false);
                }
                Err(error) => self.tell(request, &error),
            }
        }
        self.declared = all;
    }

    /// Tells of a declared stream that cannot be made, once for each reason. A table that is not known yet may come.
    fn tell(&mut self, request: &EnableStream, error: &stream::Error) {
        if error.kind() != ErrorKind::NotFound && self.told.insert(error.to_string()) {
            tracing::error!(
                table = format!("{}.{}", request.keyspace, request.table),
                "{error}"
            );
        }
    }
}

/// What a command asks about streams. A stream is named by its ARN, our own name or `database.table`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum StreamRequest {
    /// All of them.
    List {
        /// As JSON.
        #[serde(default)]
        json: bool,
    },
    /// One, with its shards.
    Describe {
        /// Which.
        stream: String,
    },
    /// Make one.
    Enable {
        /// `database.table`.
        table: String,
        /// A view type's name.
        view: String,
        /// Our own name.
        name: Option<String>,
        /// Clustering columns.
        clustering: Vec<String>,
        /// Tags.
        tags: Tags,
        /// Whether snapshot rows are records.
        include_snapshot: bool,
        /// Shards to begin with.
        shards: Option<u32>,
    },
    /// End one.
    Disable {
        /// Which.
        stream: String,
    },
    /// Split a shard.
    Split {
        /// Which.
        stream: String,
        /// Its shard; may be left out when only one is open.
        shard: Option<String>,
        /// Into how many.
        pieces: u32,
    },
    /// Merge shards.
    Merge {
        /// Which.
        stream: String,
        /// Its shards.
        shards: Vec<String>,
    },
    /// Set and remove tags.
    Tag {
        /// Which.
        stream: String,
        /// To set.
        set: Tags,
        /// Keys to remove.
        remove: Vec<String>,
    },
}

/// One stream as `status` and `streams list` show it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamStatusReport {
    /// Its ARN.
    pub arn: String,
    /// Our own name.
    pub name: Option<String>,
    /// Its table, as the API shows it.
    pub table: String,
    /// `ENABLING`, `ENABLED`, `DISABLING`, `DISABLED`.
    pub status: String,
    /// Its view type.
    pub view: String,
    /// Why it ended, if that was not asked for.
    pub reason: String,
    /// Shards that take records.
    pub shards_open: usize,
    /// Shards that are listed.
    pub shards: usize,
    /// Records captured since the start of the process.
    pub records_captured: u64,
    /// Records read since the start of the process.
    pub records_read: u64,
    /// Age of the last record that the reader furthest behind has read, milliseconds; 0 at the tip, none without a reader.
    #[serde(default)]
    pub iterator_age_ms: Option<u64>,
    /// Its tags.
    pub tags: Tags,
}

impl From<StreamReport> for StreamStatusReport {
    fn from(report: StreamReport) -> Self {
        let info = &report.stream;
        Self {
            arn: info.arn.clone(),
            name: info.name.clone(),
            table: format!("{}.{}", info.keyspace, info.table),
            status: info.status.as_str().to_owned(),
            view: info.view.as_str().to_owned(),
            reason: info.reason.clone(),
            shards_open: report.shards_open,
            shards: report.shards_listed,
            records_captured: report.records_captured,
            records_read: report.records_read,
            iterator_age_ms: report.iterator_age_ms,
            tags: info.tags.clone(),
        }
    }
}

/// Every stream's standing.
pub fn report(streams: &Streams) -> Vec<StreamStatusReport> {
    match streams.reports() {
        Ok(reports) => reports.into_iter().map(StreamStatusReport::from).collect(),
        Err(error) => {
            tracing::warn!("{error}");
            Vec::new()
        }
    }
}

/// Does what a command asks.
pub fn answer(streams: &Streams, request: StreamRequest) -> Answer {
    match act(streams, request) {
        Ok(text) => Answer::done(text),
        Err(error) => Answer::refused(error.to_string()),
    }
}

fn invalid(detail: impl Into<String>) -> stream::Error {
    stream::Error::new(ErrorKind::Invalid, "read the command", detail)
}

fn shard_id(text: &str) -> Result<ShardId, stream::Error> {
    ShardId::parse(text).ok_or_else(|| invalid(format!("`{text}` is no shard id")))
}

fn act(streams: &Streams, request: StreamRequest) -> Result<String, stream::Error> {
    match request {
        StreamRequest::List { json: false } => list(streams),
        StreamRequest::List { json: true } => serde_json::to_string_pretty(&report(streams))
            .map_err(|error| invalid(error.to_string())),
        StreamRequest::Describe { stream } => describe(streams, &*streams.resolve(&stream)?),
        StreamRequest::Enable {
            table,
            view,
            name: own_name,
            clustering,
            tags,
            include_snapshot,
            shards,
        } => {
            let (database, table) = table
                .split_once('.')
                .ok_or_else(|| invalid(format!("`{table}` is not `database.table`")))?;
            let view = ViewType::parse(&view).ok_or_else(|| {
                invalid(format!(
                    "`{view}` is no view type; write keys_only, new_image, old_image or \
                     new_and_old_images"
                ))
            })?;
            let limits = shards.map(|initial| stream::ShardLimits {
                initial,
                ..stream::ShardLimits::default()
            });
            let info = streams.enable(EnableStream {
                keyspace: name::mapped(database).into_owned(),
                table: name::mapped(table).into_owned(),
                view: Some(view),
                name: own_name,
                clustering,
                include_snapshot,
                tags,
                propagate_tags: false,
                shards: limits,
            })?;
            hold(streams);
            Ok(format!("{} {}", info.status.as_str(), info.arn))
        }
        StreamRequest::Disable { stream } => {
            let info = streams.disable(&streams.resolve(&stream)?.arn)?;
            Ok(format!(
                "{} {}: readable for 24 h more",
                info.status.as_str(),
                info.arn
            ))
        }
        StreamRequest::Split {
            stream,
            shard,
            pieces,
        } => {
            let info = streams.resolve(&stream)?;
            let shard = match shard {
                Some(text) => shard_id(&text)?,
                None => only_open_shard(streams, &info)?,
            };
            let info = streams.split(&info.arn, shard, pieces)?;
            describe(streams, &info)
        }
        StreamRequest::Merge { stream, shards } => {
            let info = streams.resolve(&stream)?;
            let shards = shards
                .iter()
                .map(|text| shard_id(text))
                .collect::<Result<Vec<_>, _>>()?;
            let info = streams.merge(&info.arn, &shards)?;
            describe(streams, &info)
        }
        StreamRequest::Tag {
            stream,
            set,
            remove,
        } => {
            let resource = Resource::Stream(streams.resolve(&stream)?.arn.clone());
            if !set.is_empty() {
                streams.tag(&resource, &set)?;
            }
            if !remove.is_empty() {
                streams.untag(&resource, &remove)?;
            }
            let tags = streams.tags(&resource)?;
            Ok(tags
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
                .join("\n"))
        }
    }
}

fn only_open_shard(streams: &Streams, info: &StreamInfo) -> Result<ShardId, stream::Error> {
    let page = streams.shards(&info.arn, None, None, usize::MAX)?;
    let mut open = page.shards.iter().filter(|shard| shard.ending.is_none());
    match (open.next(), open.next()) {
        (Some(shard), None) => Ok(shard.id),
        _ => Err(invalid(
            "the stream has not exactly one open shard: name the one to split",
        )),
    }
}

/// What a person reads; also of a stopped pipeline.
pub fn list(streams: &Streams) -> Result<String, stream::Error> {
    let reports = streams.reports()?;
    if reports.is_empty() {
        return Ok(
            "there is no stream; hint: `headwater streams enable CONFIG database.table`".into(),
        );
    }
    let line = |report: &StreamReport| {
        let info = &report.stream;
        let name = info
            .name
            .as_deref()
            .map(|name| format!(" ({name})"))
            .unwrap_or_default();
        format!(
            "{:<9} {:<18} {:>3} open shards  {}.{}{name}  {}",
            info.status.as_str(),
            info.view.as_str(),
            report.shards_open,
            info.keyspace,
            info.table,
            info.arn
        )
    };
    Ok(reports.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// What a person reads of one stream; also of a stopped pipeline.
pub fn describe(streams: &Streams, info: &StreamInfo) -> Result<String, stream::Error> {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            // A text takes everything.
            let _ = writeln!(out, "{name:<10} {value}");
        }
    };
    let number = |sequence: Option<Sequence>| sequence.map(|s| s.to_string()).unwrap_or_default();
    line("arn", &info.arn);
    line("name", info.name.as_deref().unwrap_or_default());
    line("status", info.status.as_str());
    line("reason", &info.reason);
    line("view", info.view.as_str());
    line("clustering", &info.clustering.join(", "));
    line("enabled", &number(info.enabled_at));
    line("disabled", &number(info.disabled_at));
    for (key, value) in &info.tags {
        line("tag", &format!("{key}={value}"));
    }
    for shard in streams.shards(&info.arn, None, None, usize::MAX)?.shards {
        let ending = shard
            .ending
            .map_or_else(|| "open".to_owned(), |ending| ending.to_string());
        let parents: Vec<String> = shard.parents.iter().map(ShardId::to_string).collect();
        let of = if parents.is_empty() {
            String::new()
        } else {
            format!("  of {}", parents.join(", "))
        };
        let span = format!(
            "{} to {ending}  keys {:016x} to {:016x}{of}",
            shard.starting, shard.from_hash, shard.to_hash
        );
        line("shard", &format!("{}  {span}", shard.id));
    }
    out.truncate(out.trim_end().len());
    Ok(out)
}
