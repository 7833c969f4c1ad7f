//! The file sink.

use crate::cursor_file::{self, FileCursor};
use crate::error::{encode_error, io_error};
use change::contract::ErrorKind;
use change::event::{Ahead, Heartbeat};
use change::{Cursor, Event, Sink, SinkError};
use format::framing::put_messages;
use format::{Encoder, Messages};
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// When the file is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// At every flush, before the cursor moves.
    #[default]
    Flush,
    /// Left to the operating system: a power cut may lose what the cursor already covers.
    Never,
}

/// Where and how to write.
#[derive(Debug, Clone)]
pub struct FileConfig {
    /// The file. With rotation, the files are `path.000001`, `path.000002`, ….
    pub path: PathBuf,
    /// A new file is begun at the first flush past this size, bytes; none never rotates.
    pub rotate_bytes: Option<u64>,
    /// When the file is made durable.
    pub fsync: Fsync,
}

/// Writes one message a line (of a binary format: after its length).
///
/// Promises: after any crash the file holds each change once, in order: `open` cuts the file back to
/// what its cursor covers, and removes files begun after it.
pub struct FileSink {
    config: FileConfig,
    encoder: Box<dyn Encoder>,
    messages: Messages,
    pending: Vec<u8>,
    file: Option<File>,
    generation: u64,
    length: u64,
}

impl FileSink {
    /// A sink that is not open yet.
    pub fn new(config: FileConfig, encoder: Box<dyn Encoder>) -> Self {
        Self {
            config,
            encoder,
            messages: Messages::default(),
            pending: Vec::new(),
            file: None,
            generation: 0,
            length: 0,
        }
    }

    fn data_path(&self, generation: u64) -> PathBuf {
        if self.config.rotate_bytes.is_none() {
            return self.config.path.clone();
        }
        let mut name = self.config.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{generation:06}"));
        self.config.path.with_file_name(name)
    }

    fn cursor_path(&self) -> PathBuf {
        cursor_file::path_of(&self.config.path)
    }

    /// Opens the file of the current generation, cut to `length`.
    fn open_file(&mut self) -> Result<(), SinkError> {
        let path = self.data_path(self.generation);
        let open = || -> std::io::Result<(File, u64)> {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&path)?;
            let found = file.metadata()?.len();
            if found >= self.length {
                file.set_len(self.length)?;
                file.seek(SeekFrom::Start(self.length))?;
            }
            Ok((file, found))
        };
        let (file, found) = open().map_err(|error| io_error("open", &path, &error))?;
        if found < self.length {
            return Err(too_short(&path, found, self.length));
        }
        self.file = Some(file);
        Ok(())
    }

    /// Removes files begun after the cursor was written.
    fn remove_later(&self) -> Result<(), SinkError> {
        for generation in self.generation + 1.. {
            let path = self.data_path(generation);
            if self.config.rotate_bytes.is_none() || !path.exists() {
                return Ok(());
            }
            fs::remove_file(&path).map_err(|error| io_error("remove", &path, &error))?;
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), SinkError> {
        let path = self.data_path(self.generation);
        let Some(file) = &mut self.file else {
            return Err(SinkError::new(
                ErrorKind::Internal,
                "write",
                "the file is not open",
            ));
        };
        file.write_all(&self.pending)
            .map_err(|error| io_error("write", &path, &error))?;
        self.length += self.pending.len() as u64;
        self.pending.clear();
        self.pending.shrink_to(4 << 20);
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), SinkError> {
        if self
            .config
            .rotate_bytes
            .is_some_and(|limit| self.length >= limit)
        {
            self.generation += 1;
            self.length = 0;
            self.open_file()?;
        }
        Ok(())
    }
}

/// The cursor of a file that nothing was made durable in yet.
fn unset() -> Cursor {
    Cursor {
        journal: [0; 16],
        sequence: 0,
        position: Vec::new(),
        parked: Vec::new(),
    }
}

fn too_short(path: &Path, found: u64, wanted: u64) -> SinkError {
    let detail = format!("the file has {found} bytes, but its cursor covers {wanted}");
    SinkError::new(ErrorKind::Corrupt, "open", detail).at(path.display().to_string()).hint(
        "something cut the file; put it back, or move it and its .cursor file away to start a new \
         one from the oldest change that the journal still holds",
    )
}

impl Sink for FileSink {
    fn open(&mut self) -> Result<Option<Cursor>, SinkError> {
        let found = cursor_file::read(&self.cursor_path())?;
        self.pending.clear();
        self.encoder.reset();
        (self.generation, self.length) = found
            .as_ref()
            .map_or((1, 0), |state| (state.generation, state.length));
        if found.is_none() {
            let path = self.data_path(self.generation);
            if fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
                let detail = "the file exists, but has no cursor beside it";
                return Err(SinkError::new(ErrorKind::Invalid, "open", detail)
                    .at(path.display().to_string())
                    .hint("move it away, or change `path`: it would be overwritten"));
            }
        }
        self.open_file()?;
        self.remove_later()?;
        if found.is_none() {
            // From here on the file is ours, also if a kill comes before the first flush.
            let state = FileCursor {
                generation: self.generation,
                length: 0,
                cursor: unset(),
            };
            let fsync = self.config.fsync == Fsync::Flush;
            cursor_file::write(&self.cursor_path(), &state, fsync)?;
        }
        Ok(found
            .map(|state| state.cursor)
            .filter(|cursor| *cursor != unset()))
    }

    fn write(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        self.messages.clear();
        self.encoder
            .encode(event, &mut self.messages)
            .map_err(|error| encode_error(event, &error))?;
        put_messages(&mut self.pending, &self.messages, self.encoder.is_binary());
        // A large transaction is written through; the cursor alone decides what counts.
        if self.pending.len() > 1 << 20 {
            self.write_out()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self, cursor: &Cursor) -> Result<(), SinkError> {
        self.write_out()?;
        let fsync = self.config.fsync == Fsync::Flush;
        if fsync && let Some(file) = &self.file {
            let path = self.data_path(self.generation);
            file.sync_data()
                .map_err(|error| io_error("fsync", &path, &error))?;
        }
        let state = FileCursor {
            generation: self.generation,
            length: self.length,
            cursor: cursor.clone(),
        };
        cursor_file::write(&self.cursor_path(), &state, fsync)?;
        self.rotate()
    }

    fn abort(&mut self) -> Result<(), SinkError> {
        self.open().map(|_| ())
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

#[cfg(test)]
mod tests;
