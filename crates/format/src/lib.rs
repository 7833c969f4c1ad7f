//! Changes to bytes and back: the message formats that consumers decode.
//!
//! Owns: one folder per format, its encoder and its decoder, and the page of all types. Refuses: I/O; a
//! format turns an [`change::Event`] into the bytes of messages and knows no sink.
//!
//! Read next: [`Encoder`], [`decode::Decoder`], then [`canal_json`].
//!
//! Recipe, to add a format: a folder with `mod.rs` (the encoder), `options.rs`, `values.rs` (one value's
//! text) and `decode.rs`; a name, its options and their owners in [`settings`]; a table in
//! `type_table/formats.rs`; golden vectors, round trips and the check for allocations under `tests/`.
#![warn(missing_docs)]

/// Formats into a buffer of bytes, which does not fail.
macro_rules! put {
    ($out:expr, $($arguments:tt)*) => {
        std::io::Write::write_fmt($out, format_args!($($arguments)*))
            .expect("writing to a Vec does not fail")
    };
}

mod base64;
pub mod canal_json;
pub mod debezium_json;
mod declared;
pub mod decode;
mod decoded_table;
pub mod dts_avro;
pub mod framing;
pub mod java_number;
pub mod json;
mod json_reader;
pub mod key_text;
mod labels;
pub mod name_template;
pub mod settings;
pub mod shareplex_json;
mod temporal_reader;
mod type_table;
mod unscaled;

pub use type_table::type_table;

use change::contract::Rejection;
pub use change::event::{Ahead, Heartbeat};
use change::{Event, Image, RowChange};

/// What one event became: no message, one, or several, one after another in one buffer.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    ends: Vec<End>,
}

/// Where a message ends, and whether it is of the event that was just encoded.
#[derive(Debug, Clone, Copy)]
struct End {
    at: usize,
    earlier: bool,
}

impl Messages {
    /// Empties it, keeping its buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Where the next message's bytes go; call [`Messages::end`] after it.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The bytes since the last end are one message.
    #[inline]
    pub fn end(&mut self) {
        self.ends.push(End {
            at: self.bytes.len(),
            earlier: false,
        });
    }

    /// The bytes since the last end are one message, made of events before the one just encoded: it
    /// goes where the last row before it that gave no message would have gone.
    #[inline]
    pub fn end_earlier(&mut self) {
        self.ends.push(End {
            at: self.bytes.len(),
            earlier: true,
        });
    }

    /// The messages in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.iter_with_origin().map(|(message, _)| message)
    }

    /// The messages in order, and whether each is of earlier events; see [`Messages::end_earlier`].
    pub fn iter_with_origin(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|end| end.at));
        starts
            .zip(&self.ends)
            .map(|(start, end)| (&self.bytes[start..end.at], end.earlier))
    }

    /// Whether one of them is of earlier events.
    pub fn has_earlier(&self) -> bool {
        self.ends.iter().any(|end| end.earlier)
    }

    /// Whether one of them is of the event just encoded.
    pub fn has_own(&self) -> bool {
        self.ends.iter().any(|end| !end.earlier)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// An event that a format cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("encode {table} as {format}: {what}")]
pub struct FormatError {
    /// The format's name.
    pub format: &'static str,
    /// `database.table`.
    pub table: String,
    /// Why it cannot be carried.
    pub what: String,
}

impl FormatError {
    /// Refuses a row of a table whose columns no format here knows: see [`change::TableSchema::cql_refusal`].
    #[inline]
    pub(crate) fn refuse_cql(format: &'static str, row: &RowChange<'_>) -> Result<(), Self> {
        match row.table.is_cql() {
            false => Ok(()),
            true => Err(Self {
                format,
                table: format!("{}.{}", row.table.database, row.table.name),
                what: row.table.cql_refusal().unwrap_or_default(),
            }),
        }
    }

    /// As what sets the row aside, or its table where no row of it can be carried.
    pub fn rejection(&self, row: &RowChange<'_>, key_columns: Vec<String>) -> Rejection {
        Rejection {
            table: self.table.clone(),
            key_token: (!row.table.is_cql()).then_some(row.key_token),
            sequence: row.sequence,
            target: format!("format {}", self.format),
            key_columns,
            reason: self.what.clone(),
        }
    }
}

/// Whether a format has a record key of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// It has, and it was appended.
    Own,
    /// It has, but not for this table.
    None,
    /// It has not: the key's text serves, as [`key_text`] makes it.
    Text,
}

/// Turns events into messages.
///
/// Order: events come in journal order, and so do their messages. Repeats: the same event gives the
/// same bytes, but for a wall clock where the format asks for one. What `Ok` promises: `out` holds
/// the event's messages (none for events that the format does not carry).
pub trait Encoder: Send {
    /// The format's name as in the config.
    fn name(&self) -> &'static str;

    /// Appends the event's messages to `out`.
    fn encode(&mut self, event: &Event<'_>, out: &mut Messages) -> Result<(), FormatError>;

    /// Whether [`Encoder::transaction`] must be called before a transaction's first event.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// How many operations the event will become in [`Ahead::operations`].
    fn operations(&self, _event: &Event<'_>) -> u64 {
        0
    }

    /// Tells of the transaction whose events come next.
    fn transaction(&mut self, _ahead: &Ahead) {}

    /// Whether [`Encoder::encode`] wants the begin and the commit of transactions.
    fn wants_marks(&self) -> bool {
        false
    }

    /// How often heartbeats are wanted while the source is idle; none for never.
    fn heartbeat_period(&self) -> Option<std::time::Duration> {
        None
    }

    /// Whether messages are bytes that may hold line ends.
    fn is_binary(&self) -> bool {
        false
    }

    /// Appends the record key that the format's own readers expect for a row with this image.
    ///
    /// Errors: as [`Encoder::encode`].
    fn key(
        &mut self,
        _row: &RowChange<'_>,
        _image: &Image<'_>,
        _out: &mut Vec<u8>,
    ) -> Result<Key, FormatError> {
        Ok(Key::Text)
    }

    /// Appends a heartbeat, where the format has one.
    fn heartbeat(&mut self, _beat: &Heartbeat<'_>, _out: &mut Messages) {}

    /// The journal sequence of the first event that was encoded but is not yet in a message, for a
    /// format whose messages hold several events. A cursor must not move past it, and what waits
    /// comes with the next event at the latest, also [`Event::Commit`]. None for most formats.
    fn held_from(&self) -> Option<u64> {
        None
    }

    /// Whether [`Encoder::held_from`] may ever be something: only for a sink that keeps its cursor back,
    /// gives the encoder every event, routes by [`Messages::iter_with_origin`] and calls
    /// [`Encoder::reset`].
    fn may_hold(&self) -> bool {
        false
    }

    /// Forgets what waits: the events come again, from the sink's cursor.
    fn reset(&mut self) {}

    /// Events that the format could not carry and left out, since the start, for `status`.
    fn not_carried(&self) -> u64 {
        0
    }
}

/// Now, microseconds since the epoch.
fn wall_clock_us() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}
