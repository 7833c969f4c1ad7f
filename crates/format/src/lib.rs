//! Changes to bytes: the message formats that consumers decode.
//!
//! Owns: one folder per format. Refuses: I/O; a format turns an [`change::Event`] into the bytes of
//! messages and knows no sink.
//!
//! Read next: [`Encoder`], then [`canal_json`].
//!
//! Recipe, to add a format: a folder with `mod.rs` (the encoder), `values.rs` (one value's text), its
//! golden vectors under `tests/`, and an arm in `pipeline`'s `format` config.
#![warn(missing_docs)]

pub mod canal_json;
pub mod decode;
pub mod dts_avro;
pub mod framing;
pub mod java_number;
pub mod json;
pub mod key_text;
pub mod settings;

use change::Event;
pub use change::event::{Ahead, Heartbeat};

/// What one event became: no message, one, or several, one after another in one buffer.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    ends: Vec<usize>,
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
        self.ends.push(self.bytes.len());
    }

    /// The messages in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.bytes[start..*end])
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

    /// Whether the last message waits for the next event or the commit: no cursor may pass it.
    fn holds_back(&self) -> bool {
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

    /// Appends a heartbeat, where the format has one.
    fn heartbeat(&mut self, _beat: &Heartbeat<'_>, _out: &mut Messages) {}

    /// Events that the format could not carry and left out, since the start, for `status`.
    fn not_carried(&self) -> u64 {
        0
    }
}
