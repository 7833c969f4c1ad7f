//! Errors of files as the contract's.

use change::SinkError;
use change::contract::ErrorKind;
use std::io;
use std::path::Path;

pub(crate) fn io_error(operation: &str, path: &Path, error: &io::Error) -> SinkError {
    let (kind, hint) = match error.kind() {
        io::ErrorKind::PermissionDenied => (
            ErrorKind::Invalid,
            "give the user that runs headwater write access to it",
        ),
        io::ErrorKind::NotFound => (ErrorKind::Invalid, "create the folder, or change `path`"),
        io::ErrorKind::StorageFull => (ErrorKind::Unavailable, "free space on this disk"),
        io::ErrorKind::IsADirectory => (ErrorKind::Invalid, "`path` must name a file"),
        _ => (ErrorKind::Unavailable, ""),
    };
    SinkError::new(kind, operation, error.to_string())
        .at(path.display().to_string())
        .hint(hint)
}

pub(crate) fn encode_error(error: format::FormatError) -> SinkError {
    SinkError::new(ErrorKind::Unsupported, "encode", error.to_string())
}
