//! One binlog file: its magic, then event after event.

use change::SourceError;
use change::contract::ErrorKind;
use source_mysql::binlog::header::{Checksum, EventHeader, HEADER_BYTES, kind, verify};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 4] = *b"\xfebin";
const MAGIC_ENCRYPTED: [u8; 4] = *b"\xfdbin";

/// Offset of the first event, behind the magic.
const FIRST_EVENT: u64 = MAGIC.len() as u64;

/// Bytes read from the disk at once.
const BUFFER_BYTES: usize = 1 << 20;

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole event.
    Event,
    /// The end of the file, between two events.
    End,
    /// The file ends inside the event at this offset.
    Torn(u64),
}

/// An open file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    reader: BufReader<File>,
    size: u64,
    offset: u64,
    start_at: u64,
}

impl LogFile {
    /// Opens a file and checks its magic.
    ///
    /// Errors: `Invalid` when it cannot be read, `Unsupported` when it is encrypted, `Corrupt` when
    /// it is no binlog.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let fail = |kind, detail: String| {
            SourceError::new(kind, "open recording", detail).at(path.display().to_string())
        };
        let io = |error: std::io::Error| fail(ErrorKind::Invalid, error.to_string());
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut magic = [0u8; 4];
        reader
            .read_exact(&mut magic)
            .map_err(|_| fail(ErrorKind::Corrupt, "it is too short for a binlog".into()))?;
        match magic {
            MAGIC => Ok(Self {
                path: path.to_owned(),
                reader,
                size,
                offset: FIRST_EVENT,
                start_at: FIRST_EVENT,
            }),
            MAGIC_ENCRYPTED => Err(fail(
                ErrorKind::Unsupported,
                "it is encrypted; copy it with mysqlbinlog --read-from-remote-server --raw".into(),
            )),
            _ => Err(fail(
                ErrorKind::Corrupt,
                "it does not begin as a binlog does".into(),
            )),
        }
    }

    /// Bytes of the whole file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// After the format description, goes on at `offset`.
    pub fn start_at(&mut self, offset: u64) {
        self.start_at = offset;
    }

    fn io(&self, error: &std::io::Error) -> SourceError {
        SourceError::new(ErrorKind::Unavailable, "read recording", error.to_string()).at(format!(
            "{}:{}",
            self.path.display(),
            self.offset
        ))
    }

    /// Reads the next event into `event`, header and checksum included.
    pub fn next(&mut self, event: &mut Vec<u8>) -> Result<Next, SourceError> {
        event.clear();
        let left = self.size.saturating_sub(self.offset);
        if left == 0 {
            return Ok(Next::End);
        }
        if left < HEADER_BYTES as u64 {
            return Ok(Next::Torn(self.offset));
        }
        self.fill(event, HEADER_BYTES as u64)?;
        let header = EventHeader::read(event).map_err(|_| self.damaged())?;
        let size = u64::from(header.event_bytes);
        if size < HEADER_BYTES as u64 {
            return Err(self.damaged());
        }
        if size > left {
            return Ok(Next::Torn(self.offset));
        }
        self.fill(event, size - HEADER_BYTES as u64)?;
        if self.offset == FIRST_EVENT {
            self.check_format_description(&header, event)?;
        }
        self.offset += size;
        if header.kind == kind::FORMAT_DESCRIPTION && self.start_at > self.offset {
            self.offset = self.start_at;
            let seek = self.reader.seek(SeekFrom::Start(self.offset));
            seek.map_err(|error| self.io(&error))?;
        }
        Ok(Next::Event)
    }

    fn fill(&mut self, event: &mut Vec<u8>, count: u64) -> Result<(), SourceError> {
        // The size of the file bounds the count, so this reserves no more than is there.
        let got = (&mut self.reader).take(count).read_to_end(event);
        match got {
            Ok(got) if got as u64 == count => Ok(()),
            Ok(_) => Err(self.io(&std::io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.io(&error)),
        }
    }

    /// The first event says how all others are read, so it is believed only with its own checksum,
    /// which servers write also where the others have none.
    fn check_format_description(
        &self,
        header: &EventHeader,
        event: &[u8],
    ) -> Result<(), SourceError> {
        let what = if header.kind != kind::FORMAT_DESCRIPTION {
            "the first event is not a format description".to_owned()
        } else {
            match verify(event, Checksum::Crc32) {
                Ok(_) => return Ok(()),
                Err(error) => format!("the format description is damaged: {error}"),
            }
        };
        Err(SourceError::new(ErrorKind::Corrupt, "read recording", what)
            .at(format!("{}:{}", self.path.display(), self.offset))
            .hint("copy the file again from the server"))
    }

    fn damaged(&self) -> SourceError {
        SourceError::new(
            ErrorKind::Corrupt,
            "read recording",
            "an event's size is impossible",
        )
        .at(format!("{}:{}", self.path.display(), self.offset))
    }
}

/// Whether an event is a rotate.
pub fn is_rotate(event: &[u8]) -> bool {
    event.get(4) == Some(&kind::ROTATE)
}
