//! Row changes from recorded binlog files: the live source's decoder without a server.
//!
//! Owns: reading whole files in order. Refuses: anything that a recording cannot know; schemas come
//! from the CREATE TABLEs inside or from FULL table metadata, and the recording supplies the clock.
//! The same files always give the same output.
#![warn(missing_docs)]

mod file;

use change::contract::{ErrorKind, SourceStatus};
use change::{Batch, Position, Progress, Source, SourceError};
use file::{LogFile, Next};
use schemars::JsonSchema;
use serde::Deserialize;
pub use source_mysql::capture::Resume;
use source_mysql::capture::{Capture, CaptureOptions};
use source_mysql::config::{ColumnsConfig, Secret, column_rules, selection};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A batch is handed out at this many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// Recorded binlog files and what is captured from them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedConfig {
    /// Binlog files in the order of their writing. At least one.
    pub files: Vec<PathBuf>,
    /// Patterns `database.table`, with `*` and `?`; `!` in front excludes. Default: every table of every
    /// database but the server's own.
    #[serde(default)]
    pub tables: Vec<String>,
    /// By `database.table`: columns that are excluded or masked. Default: none.
    #[serde(default)]
    pub columns: BTreeMap<String, ColumnsConfig>,
    /// Key of `sha256` masks; empty for plain SHA-256. Default: empty.
    #[serde(default)]
    pub mask_key: Secret,
    /// A last file that ends inside an event or a transaction ends the recording there, instead of
    /// being an error. Default: false.
    #[serde(default)]
    pub allow_torn_tail: bool,
}

/// See the module's page.
#[derive(Debug)]
pub struct RecordedSource {
    files: Vec<PathBuf>,
    allow_torn_tail: bool,
    capture: Capture,
    index: usize,
    open: Option<LogFile>,
    started: bool,
    bytes_received: u64,
    bytes_total: u64,
    bytes_done: u64,
    event: Vec<u8>,
}

/// The name a file goes by in positions: its last path component.
fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

impl RecordedSource {
    /// Opens the recording, to go on after `resume`.
    ///
    /// Errors: `Invalid` for a bad config, `Lost` when the position's file is not in the list,
    /// `Corrupt` or `Unsupported` for a file that is no binlog.
    pub fn open(config: RecordedConfig, resume: Resume) -> Result<Self, SourceError> {
        if config.files.is_empty() {
            return Err(SourceError::new(
                ErrorKind::Invalid,
                "open a recording",
                "no files are named",
            ));
        }
        let mut bytes_total = 0;
        for path in &config.files {
            bytes_total += LogFile::open(path)?.size();
        }
        let position = resume.full_position().unwrap_or_else(|| Position {
            file: name_of(&config.files[0]),
            offset: 4,
            ..Position::default()
        });
        let Some(index) = config
            .files
            .iter()
            .position(|path| name_of(path) == position.file)
        else {
            return Err(SourceError::new(
                ErrorKind::Lost,
                "resume a recording",
                "its file is not in the list",
            )
            .at(position.to_string()));
        };
        let options = CaptureOptions {
            selection: selection(&config.tables)?,
            rules: column_rules(&config.columns, &config.mask_key),
            ..CaptureOptions::default()
        };
        let mut capture = Capture::new(options, position);
        capture.restore(&resume)?;
        Ok(Self {
            files: config.files,
            allow_torn_tail: config.allow_torn_tail,
            capture,
            index,
            open: None,
            started: false,
            bytes_received: 0,
            bytes_total,
            bytes_done: 0,
            event: Vec::new(),
        })
    }

    /// Opens the current file, at the capture's position the first time.
    fn open_file(&mut self) -> Result<(), SourceError> {
        let path = &self.files[self.index];
        let mut file = LogFile::open(path)?;
        let mut from = 4;
        if !self.started {
            self.started = true;
            from = self.capture.position().offset.max(4);
        }
        self.capture.start_file(&name_of(path), from);
        file.start_at(from);
        self.open = Some(file);
        Ok(())
    }

    /// Takes the next event; `false` at the end of the recording.
    fn step(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        if self.open.is_none() {
            if self.index >= self.files.len() {
                return self.finish(batch);
            }
            self.open_file()?;
        }
        let Some(file) = &mut self.open else {
            return Ok(false);
        };
        match file.next(&mut self.event)? {
            Next::Event => {
                self.bytes_received += self.event.len() as u64;
                // A recording's files follow each other as listed, whatever a rotate names.
                if !file::is_rotate(&self.event) {
                    self.capture.event(&self.event, batch)?;
                }
            }
            Next::End => {
                self.bytes_done += file.size();
                self.open = None;
                self.index += 1;
            }
            Next::Torn(offset) => {
                if !self.allow_torn_tail || self.index + 1 < self.files.len() {
                    return Err(self.torn(offset, "the file ends inside an event"));
                }
                self.open = None;
                self.index = self.files.len();
            }
        }
        Ok(true)
    }

    fn torn(&self, offset: u64, what: &str) -> SourceError {
        let path = self.files.get(self.index).or(self.files.last());
        let name = path.map(|path| name_of(path)).unwrap_or_default();
        SourceError::new(ErrorKind::Corrupt, "read recording", what)
            .at(format!("{name}:{offset}"))
            .hint("copy the file again, or set allow_torn_tail to end there")
    }

    fn finish(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        if !self.capture.at_boundary() {
            if !self.allow_torn_tail {
                let offset = self.capture.position().offset;
                return Err(self.torn(offset, "the last file ends inside a transaction"));
            }
            self.capture.break_stream(batch);
        }
        self.capture.emit_position(batch);
        Ok(false)
    }
}

impl Source for RecordedSource {
    fn poll(&mut self, batch: &mut Batch, _wait: Duration) -> Result<Progress, SourceError> {
        while batch.byte_count() < BATCH_BYTES {
            if !self.step(batch)? {
                return Ok(match batch.is_empty() {
                    true => Progress::End,
                    false => Progress::Data,
                });
            }
        }
        Ok(Progress::Data)
    }

    fn status(&mut self) -> SourceStatus {
        let read = self.bytes_done
            + self
                .open
                .as_ref()
                .map_or(0, |_| self.capture.read_offset().1);
        let left = self.bytes_total.saturating_sub(read);
        SourceStatus {
            server: format!("recording of {}", self.capture.server_version()),
            phase: "streaming",
            position: self.capture.position().to_string(),
            head: self
                .files
                .last()
                .map(|path| name_of(path))
                .unwrap_or_default(),
            lag_bytes: Some(if self.index >= self.files.len() {
                0
            } else {
                left
            }),
            lag_seconds: None,
            parked: self.capture.parked().to_vec(),
            trouble: self.capture.trouble().to_owned(),
            bytes_received: self.bytes_received,
            ..SourceStatus::default()
        }
    }

    fn position(&self) -> Option<Position> {
        Some(self.capture.position().clone())
    }
}

#[cfg(test)]
mod tests;
