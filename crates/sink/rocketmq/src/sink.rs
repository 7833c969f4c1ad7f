//! The sink itself.

use crate::config::{KeyConfig, PartitionBy, RocketMqConfig};
use crate::cursor::{self, CursorTopic};
use crate::error::invalid;
use crate::lane::{Courier, Failure, Lanes};
use crate::message::{Origin, Piece, Record, id, key_property};
use crate::queue::queue_of;
use crate::route::{Route, Spread, TopicNames, splits_key_changes};
use crate::template::{TOPIC_BYTES_MAX, Template, put_escaped};
use crate::topics::{Topic, TopicFault, Topics};
use bytes::{Bytes, BytesMut};
use change::contract::{ErrorKind, Rejection};
use change::event::{Ahead, DdlChange, Heartbeat};
use change::{Cursor, Event, Operation, RowChange, Sink, SinkError, TableSchema};
use cheetah_string::CheetahString;
use format::{Encoder, FormatError, Messages, key_text};
use rocketmq_client::{Client, Refusal};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How often the cursor is written anew while nothing happens: brokers delete what is old.
const CURSOR_REFRESH: Duration = Duration::from_secs(3600);

/// Bodies share buffers of this size.
const ARENA_BYTES: usize = 1 << 20;

/// Who writes: part of the group and of the cursor topic's name.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The pipeline's name.
    pub pipeline: String,
    /// The sink's name.
    pub sink: String,
}

impl Identity {
    fn name(&self, prefix: &str) -> String {
        let mut name = format!("{prefix}-");
        put_escaped(&mut name, &self.pipeline);
        name.push('-');
        put_escaped(&mut name, &self.sink);
        name
    }
}

/// Writes to RocketMQ.
///
/// Promises: at least once, in the order of each key, whatever process was killed when; a message that
/// comes again has the same id.
pub struct RocketMqSink {
    config: RocketMqConfig,
    group: String,
    cursor_topic: String,
    topics: TopicNames,
    tag: Template,
    marks_topic: Option<String>,
    encoder: Box<dyn Encoder>,
    connection: Option<Connection>,
    has_told_lost: bool,
    routes: HashMap<(u32, u32), Route>,
    key_names: HashMap<Arc<str>, Vec<String>>,
    messages: Messages,
    arena: BytesMut,
    key: Vec<u8>,
    pending_bytes: usize,
}

/// What lives from one `open` to the next.
struct Connection {
    lanes: Lanes,
    courier: Courier,
    cursor: CursorTopic,
    topics: Topics,
    client: Client,
}

/// Where one event's messages go.
struct Destination {
    topic: Arc<Topic>,
    queue: usize,
    tag: CheetahString,
    key: CheetahString,
    sharding_key: CheetahString,
}

impl RocketMqSink {
    /// A sink that is not connected yet.
    ///
    /// Errors: `Invalid` for settings that cannot be.
    pub fn new(config: RocketMqConfig, identity: &Identity) -> Result<Self, SinkError> {
        config.validate()?;
        let encoder = config
            .format
            .encoder(&config.format_options)
            .map_err(|what| invalid(what, ""))?;
        let name_of = |name: &Option<String>, prefix: &str| {
            name.clone().unwrap_or_else(|| identity.name(prefix))
        };
        let topics = TopicNames::new(&config)?;
        let marks_topic = topics.of_marks();
        let has_marks = encoder.wants_marks() || encoder.heartbeat_period().is_some();
        if marks_topic.is_none() && has_marks {
            return Err(invalid(
                "marks of transactions and heartbeats belong to no table",
                "set a topic without {database} and {table} and no `topics`, or a ddl_topic without them",
            ));
        }
        let sink = Self {
            group: name_of(&config.group, "headwater"),
            cursor_topic: name_of(&config.cursor_topic, "headwater-cursor"),
            tag: Template::parse("tag", &config.tag)?,
            topics,
            marks_topic,
            config,
            encoder,
            connection: None,
            has_told_lost: false,
            routes: HashMap::new(),
            key_names: HashMap::new(),
            messages: Messages::default(),
            arena: BytesMut::new(),
            key: Vec::new(),
            pending_bytes: 0,
        };
        legal_name("cursor_topic", &sink.cursor_topic, TOPIC_BYTES_MAX)?;
        legal_name("group", &sink.group, 255)?;
        Ok(sink)
    }

    /// The topic; one that cannot be written to refuses the whole table.
    fn find_topic(
        &mut self,
        topic: &str,
        table: &str,
        sequence: u64,
    ) -> Result<Arc<Topic>, SinkError> {
        let park = |reason: String| {
            SinkError::rejected(Rejection {
                table: table.to_owned(),
                key_token: None,
                sequence,
                target: format!("topic {topic}"),
                key_columns: Vec::new(),
                reason,
            })
        };
        if topic.len() > TOPIC_BYTES_MAX {
            return Err(park(format!(
                "its name has {} bytes and RocketMQ allows {TOPIC_BYTES_MAX}; set a shorter topic",
                topic.len()
            )));
        }
        let connection = connected(&mut self.connection)?;
        connection
            .topics
            .find(&connection.client, &self.config, topic)
            .map_err(|fault| match fault {
                TopicFault::Park(reason) => park(reason),
                TopicFault::Error(error) => error,
            })
    }

    fn route(&mut self, table: &TableSchema, sequence: u64) -> Result<(u32, u32), SinkError> {
        let id = (table.table.0, table.version.0);
        if self.routes.contains_key(&id) {
            return Ok(id);
        }
        let name = format!("{}.{}", table.database, table.name);
        let topic = self.topics.of(&table.database, &table.name);
        let topic = self.find_topic(&topic, &name, sequence)?;
        let snapshot = self.topics.snapshot.as_ref();
        let snapshot = snapshot.map(|template| template.render(&table.database, &table.name));
        let snapshot = match snapshot {
            Some(snapshot) => Some(self.find_topic(&snapshot, &name, sequence)?),
            None => None,
        };
        let spread = Spread::of(&self.config, table).map_err(|lacks| {
            SinkError::rejected(Rejection {
                table: name.clone(),
                key_token: None,
                sequence,
                target: format!("topic {}", topic.name),
                key_columns: Vec::new(),
                reason: format!("partition_by names the column {lacks}, which it lacks"),
            })
        })?;
        let key_names = table
            .key()
            .iter()
            .filter_map(|i| table.columns.get(*i as usize));
        let table_name: Arc<str> = name.into();
        self.key_names.insert(
            Arc::clone(&table_name),
            key_names.map(|column| column.name.clone()).collect(),
        );
        let route = Route {
            topic,
            snapshot,
            table: table_name,
            tag: CheetahString::from_string(self.tag.render(&table.database, &table.name)),
            spread,
        };
        self.routes.insert(id, route);
        Ok(id)
    }

    fn row(&mut self, row: &RowChange<'_>) -> Result<(), SinkError> {
        let id = self.route(row.table, row.sequence)?;
        let by_key = self.routes[&id].spread == Spread::Key;
        match row.split_key_change() {
            // Each key's part goes to its own key's queue, so that each keeps its order.
            Some((gone, come)) if by_key => {
                self.send_row(&gone, id)?;
                self.send_row(&come, id)
            }
            _ => self.send_row(row, id),
        }
    }

    fn send_row(&mut self, row: &RowChange<'_>, route: (u32, u32)) -> Result<(), SinkError> {
        self.encode(&Event::Row(*row))?;
        let image = key_text::image_of_key(row);
        let route = &self.routes[&route];
        let topic = match &route.snapshot {
            Some(topic) if row.operation == Operation::Read => topic,
            _ => &route.topic,
        };
        let queue_count = topic.queues.len();
        let mut destination = Destination {
            topic: Arc::clone(topic),
            queue: 0,
            tag: route.tag.clone(),
            key: CheetahString::new(),
            sharding_key: CheetahString::new(),
        };
        let has_key = self.config.key == KeyConfig::PrimaryKey;
        self.key.clear();
        if let Some(image) = &image {
            key_text::put_key(&mut self.key, row.table, image);
            if has_key {
                destination.key = key_property(&text_of(&self.key), row.key_token);
            }
            match &route.spread {
                Spread::Key => {}
                Spread::First => self.key.clear(),
                Spread::Table => {
                    self.key.clear();
                    self.key.extend_from_slice(route.table.as_bytes());
                }
                Spread::Columns(columns) => {
                    self.key.clear();
                    key_text::put_columns(&mut self.key, columns, image);
                }
            }
            if route.spread != Spread::First {
                let text = text_of(&self.key);
                destination.queue = queue_of(&text, queue_count);
                if has_key {
                    destination.sharding_key = key_property(&text, row.key_token);
                }
            }
        }
        let origin = Origin {
            table: Arc::clone(&route.table),
            key_token: Some(row.key_token),
            sequence: row.sequence,
        };
        self.send(&destination, &origin, Piece::Of)
    }

    fn ddl(&mut self, change: &DdlChange<'_>) -> Result<(), SinkError> {
        self.encode(&Event::Ddl(*change))?;
        self.routes.clear();
        if self.messages.is_empty() {
            return Ok(());
        }
        let (database, table) = (change.ddl.database, change.ddl.table);
        let Some(topic) = self.topics.of_statement(database, table) else {
            // No table's topic is its own: CREATE DATABASE and the like need a ddl_topic.
            tracing::debug!("a statement without a table is not sent: ddl_topic is not set");
            return Ok(());
        };
        let name = format!("{database}.{table}");
        let topic = self.find_topic(&topic, &name, change.sequence)?;
        // A table's statements stand among its rows.
        let queue = match self.config.partition_by {
            PartitionBy::Table if !table.is_empty() => queue_of(&name, topic.queues.len()),
            _ => 0,
        };
        let destination = Destination {
            topic,
            queue,
            tag: CheetahString::from_string(self.tag.render(database, table)),
            key: CheetahString::new(),
            sharding_key: CheetahString::new(),
        };
        let origin = Origin {
            table: name.into(),
            key_token: None,
            sequence: change.sequence,
        };
        self.send(&destination, &origin, Piece::Of)
    }

    /// Sends what belongs to no table.
    fn mark(&mut self, sequence: u64, piece: impl Fn(usize) -> Piece) -> Result<(), SinkError> {
        let Some(topic) = self.marks_topic.clone() else {
            return Ok(());
        };
        if self.messages.is_empty() {
            return Ok(());
        }
        let connection = connected(&mut self.connection)?;
        let found = connection
            .topics
            .find(&connection.client, &self.config, &topic)
            .map_err(|fault| match fault {
                TopicFault::Park(reason) => {
                    SinkError::new(ErrorKind::Invalid, "write", reason).at(format!("topic {topic}"))
                }
                TopicFault::Error(error) => error,
            })?;
        let destination = Destination {
            topic: found,
            queue: 0,
            tag: CheetahString::new(),
            key: CheetahString::new(),
            sharding_key: CheetahString::new(),
        };
        let origin = Origin {
            table: "".into(),
            key_token: None,
            sequence,
        };
        self.send(&destination, &origin, piece)
    }

    fn encode(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        self.messages.clear();
        let encoded = self.encoder.encode(event, &mut self.messages);
        encoded.map_err(|error| self.not_carried(event, &error))
    }

    /// What the format cannot say of a row is set aside, as what the broker refuses is.
    fn not_carried(&self, event: &Event<'_>, error: &FormatError) -> SinkError {
        let Event::Row(row) = event else {
            return SinkError::new(ErrorKind::Unsupported, "encode", error.to_string());
        };
        let key_names = self.key_names.get(error.table.as_str()).cloned();
        SinkError::rejected(error.rejection(row, key_names.unwrap_or_default()))
    }

    /// Hands the encoded messages to their queue's lane.
    fn send(
        &mut self,
        destination: &Destination,
        origin: &Origin,
        piece: impl Fn(usize) -> Piece,
    ) -> Result<(), SinkError> {
        let connection = connected(&mut self.connection)?;
        let mut outcome = Ok(());
        for (index, message) in self.messages.iter().enumerate() {
            if message.len() > self.config.message_bytes_max as usize {
                outcome = Err(Failure::Refused {
                    origin: origin.clone(),
                    topic: destination.topic.name.clone(),
                    refusal: Refusal::Record,
                    reason: format!(
                        "the message has {} bytes and message_bytes_max is {}",
                        message.len(),
                        self.config.message_bytes_max
                    ),
                });
                break;
            }
            self.pending_bytes += message.len();
            let record = Record {
                body: put_body(&mut self.arena, message),
                tag: destination.tag.clone(),
                key: destination.key.clone(),
                sharding_key: destination.sharding_key.clone(),
                id: id(origin.sequence, piece(index)),
                origin: origin.clone(),
            };
            let queue = &destination.topic.queues[destination.queue];
            outcome = connection.lanes.push(&connection.client, queue, record);
            if outcome.is_err() {
                break;
            }
        }
        outcome.map_err(|failure| self.failed(failure))
    }

    fn failed(&self, failure: Failure) -> SinkError {
        let place = |topic: &str| match &self.connection {
            Some(connection) => format!("topic {topic}, {}", connection.client.place()),
            None => format!("topic {topic}"),
        };
        match failure {
            Failure::Passing { topic, reason } => {
                SinkError::new(ErrorKind::Unavailable, "write", reason)
                    .at(place(&topic))
                    .hint("is the broker up, and can it keep up?")
            }
            Failure::Refused {
                topic,
                reason,
                origin,
                ..
            } if origin.table.is_empty() => {
                SinkError::new(ErrorKind::Invalid, "write", reason).at(place(&topic))
            }
            Failure::Refused {
                origin,
                topic,
                refusal,
                reason,
            } => SinkError::rejected(Rejection {
                table: origin.table.to_string(),
                key_token: origin.key_token.filter(|_| refusal == Refusal::Record),
                sequence: origin.sequence,
                target: format!("topic {topic}"),
                key_columns: self
                    .key_names
                    .get(&origin.table)
                    .cloned()
                    .unwrap_or_default(),
                reason,
            }),
        }
    }
}

fn connected(connection: &mut Option<Connection>) -> Result<&mut Connection, SinkError> {
    connection
        .as_mut()
        .ok_or_else(|| SinkError::new(ErrorKind::Unavailable, "write", "rocketmq is not connected"))
}

fn legal_name(key: &str, name: &str, bytes_max: usize) -> Result<(), SinkError> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-%|".contains(&byte);
    if name.is_empty() || name.len() > bytes_max || !name.bytes().all(is_legal) {
        return Err(invalid(
            format!("{key} `{name}` is no name that RocketMQ allows"),
            &format!("1 to {bytes_max} letters, digits, `_`, `-`, `%` or `|`"),
        ));
    }
    Ok(())
}

fn text_of(key: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(key)
}

fn put_body(arena: &mut BytesMut, message: &[u8]) -> Bytes {
    if arena.capacity() < message.len() {
        *arena = BytesMut::with_capacity(ARENA_BYTES.max(message.len()));
    }
    arena.extend_from_slice(message);
    arena.split().freeze()
}

impl Sink for RocketMqSink {
    fn open(&mut self) -> Result<Option<Cursor>, SinkError> {
        self.abort()?;
        self.connection = None;
        self.routes.clear();
        let client = Client::connect(&self.config.connection(&self.group))?;
        let seconds = |s: u32| Duration::from_secs(u64::from(s));
        let courier = Courier {
            producer: client.producer(),
            request_timeout: seconds(self.config.request_timeout_s),
            timeout: seconds(self.config.timeout_s),
            batch: self.config.batch,
        };
        let opened = cursor::open(
            &client,
            &courier,
            &self.config,
            &self.cursor_topic,
            self.has_told_lost,
        );
        // A second open after that is a person's decision to go on without it.
        self.has_told_lost |= matches!(&opened, Err(error) if error.kind == ErrorKind::Lost);
        let opened = opened?;
        self.has_told_lost = false;
        self.connection = Some(Connection {
            lanes: Lanes::new(courier.clone(), (self.config.queue_kib as usize) << 10),
            courier,
            cursor: opened.topic,
            topics: Topics::new(opened.layouts),
            client,
        });
        Ok(opened.cursor)
    }

    fn write(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        match event {
            Event::Row(row) => self.row(row),
            Event::Ddl(change) => self.ddl(change),
            Event::Begin { sequence, .. } => {
                self.encode(event)?;
                self.mark(*sequence, Piece::Begin)
            }
            Event::Commit { sequence, .. } => {
                self.encode(event)?;
                self.mark(*sequence, Piece::Of)
            }
        }
    }

    fn flush(&mut self, cursor: &Cursor) -> Result<(), SinkError> {
        let connection = connected(&mut self.connection)?;
        if let Err(failure) = connection.lanes.drain() {
            return Err(self.failed(failure));
        }
        let connection = connected(&mut self.connection)?;
        connection.cursor.save(
            &connection.client,
            &connection.courier,
            &connection.topics.layouts,
            Some(cursor),
        )?;
        if connection.topics.recheck(&connection.client) {
            self.routes.clear();
        }
        self.pending_bytes = 0;
        Ok(())
    }

    fn abort(&mut self) -> Result<(), SinkError> {
        if let Some(connection) = &mut self.connection {
            connection.lanes.cancel();
        }
        self.pending_bytes = 0;
        Ok(())
    }

    fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    fn looks_ahead(&self) -> bool {
        self.encoder.looks_ahead()
    }

    fn operations(&self, event: &Event<'_>) -> u64 {
        if let Event::Row(row) = event
            && splits_key_changes(&self.config, row.table)
            && let Some((gone, come)) = row.split_key_change()
        {
            return self.encoder.operations(&Event::Row(gone))
                + self.encoder.operations(&Event::Row(come));
        }
        self.encoder.operations(event)
    }

    fn transaction(&mut self, ahead: &Ahead) {
        self.encoder.transaction(ahead);
    }

    fn wants_marks(&self) -> bool {
        self.encoder.wants_marks()
    }

    fn heartbeat_period(&self) -> Option<Duration> {
        Some(self.encoder.heartbeat_period().unwrap_or(CURSOR_REFRESH))
    }

    fn heartbeat(&mut self, beat: &Heartbeat<'_>) -> Result<(), SinkError> {
        self.messages.clear();
        self.encoder.heartbeat(beat, &mut self.messages);
        self.mark(beat.sequence, |_| Piece::Heartbeat(beat.time_us))
    }

    fn not_carried(&self) -> u64 {
        self.encoder.not_carried()
    }
}
