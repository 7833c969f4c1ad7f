//! Standard output, for pipes.

use crate::error::encode_error;
use change::contract::ErrorKind;
use change::event::{Ahead, Heartbeat};
use change::{Cursor, Event, Sink, SinkError};
use format::framing::put_messages;
use format::{Encoder, Messages};
use std::io::{self, Write};
use std::time::Duration;

/// Writes one message a line (of a binary format: after its length) to standard output; it has no cursor, so every run starts where the
/// caller says.
pub struct StdoutSink {
    encoder: Box<dyn Encoder>,
    messages: Messages,
    pending: Vec<u8>,
}

impl StdoutSink {
    /// A sink over this process's standard output.
    pub fn new(encoder: Box<dyn Encoder>) -> Self {
        Self {
            encoder,
            messages: Messages::default(),
            pending: Vec::new(),
        }
    }

    fn write_out(&mut self) -> Result<(), SinkError> {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(&self.pending)
            .and_then(|()| stdout.flush());
        self.pending.clear();
        written.map_err(|error| {
            // The reader of the pipe has gone (`| head`): the end of the job, not a fault.
            let kind = match error.kind() {
                io::ErrorKind::BrokenPipe => ErrorKind::Fenced,
                _ => ErrorKind::Unavailable,
            };
            SinkError::new(kind, "write", error.to_string()).at("standard output")
        })
    }
}

impl Sink for StdoutSink {
    fn open(&mut self) -> Result<Option<Cursor>, SinkError> {
        self.encoder.reset();
        Ok(None)
    }

    fn write(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        self.messages.clear();
        self.encoder
            .encode(event, &mut self.messages)
            .map_err(|error| encode_error(event, &error))?;
        put_messages(&mut self.pending, &self.messages, self.encoder.is_binary());
        if self.pending.len() > 256 << 10 {
            self.write_out()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self, _cursor: &Cursor) -> Result<(), SinkError> {
        self.write_out()
    }

    fn abort(&mut self) -> Result<(), SinkError> {
        self.pending.clear();
        Ok(())
    }

    fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    fn looks_ahead(&self) -> bool {
        self.encoder.looks_ahead()
    }

    fn operations(&self, event: &Event<'_>) -> u64 {
        self.encoder.operations(event)
    }

    fn transaction(&mut self, ahead: &Ahead) {
        self.encoder.transaction(ahead);
    }

    fn wants_marks(&self) -> bool {
        self.encoder.wants_marks()
    }

    fn heartbeat_period(&self) -> Option<Duration> {
        self.encoder.heartbeat_period()
    }

    fn heartbeat(&mut self, beat: &Heartbeat<'_>) -> Result<(), SinkError> {
        self.messages.clear();
        self.encoder.heartbeat(beat, &mut self.messages);
        put_messages(&mut self.pending, &self.messages, self.encoder.is_binary());
        Ok(())
    }

    fn held_from(&self) -> Option<u64> {
        self.encoder.held_from()
    }

    fn not_carried(&self) -> u64 {
        self.encoder.not_carried()
    }
}
