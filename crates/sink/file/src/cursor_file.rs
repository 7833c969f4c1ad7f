//! The cursor beside a file: which file, how long it is, and the sink's own cursor.
//!
//! Shape: `HWCUR1`, generation (8 bytes, little endian), length (8), the stored [`Cursor`], CRC32C of
//! all before it (4). Replaced whole, by rename, after the data is durable.

use crate::error::io_error;
use change::contract::ErrorKind;
use change::{Cursor, SinkError};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 6] = b"HWCUR1";

pub(crate) struct FileCursor {
    pub generation: u64,
    pub length: u64,
    pub cursor: Cursor,
}

pub(crate) fn path_of(data: &Path) -> PathBuf {
    let mut name = data.file_name().unwrap_or_default().to_owned();
    name.push(".cursor");
    data.with_file_name(name)
}

fn damaged(path: &Path, what: &str) -> SinkError {
    SinkError::new(ErrorKind::Corrupt, "read cursor", what)
        .at(path.display().to_string())
        .hint(
            "move the cursor file and the data file away: the sink then starts a new file from the \
         oldest change that the journal still holds",
        )
}

pub(crate) fn read(path: &Path) -> Result<Option<FileCursor>, SinkError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("read cursor", path, &error)),
    };
    let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
        return Err(damaged(path, "the file is too short"));
    };
    if u32::from_le_bytes(*crc) != crc32c::crc32c(body) {
        return Err(damaged(path, "the checksum does not match"));
    }
    let fixed = body
        .strip_prefix(MAGIC)
        .and_then(|rest| rest.split_at_checked(16));
    let Some((numbers, stored)) = fixed else {
        return Err(damaged(path, "this is no cursor file"));
    };
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    Ok(Some(FileCursor {
        generation: number(&numbers[..8]),
        length: number(&numbers[8..]),
        cursor: Cursor::decode(stored).map_err(|error| damaged(path, &error.to_string()))?,
    }))
}

pub(crate) fn write(path: &Path, state: &FileCursor, fsync: bool) -> Result<(), SinkError> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&state.generation.to_le_bytes());
    bytes.extend_from_slice(&state.length.to_le_bytes());
    state.cursor.encode(&mut bytes);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let temporary = path.with_extension("cursor.new");
    replace(&temporary, path, &bytes, fsync).map_err(|error| io_error("write cursor", path, &error))
}

fn replace(temporary: &Path, path: &Path, bytes: &[u8], fsync: bool) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    if fsync {
        file.sync_data()?;
    }
    fs::rename(temporary, path)?;
    if fsync && let Some(folder) = path.parent() {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
