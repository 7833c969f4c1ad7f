//! Errors of files as the contract's.

use change::contract::ErrorKind;
use change::{Event, SinkError};
use format::FormatError;
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

/// What the format cannot say of a row is set aside; of anything else it ends the sink.
pub(crate) fn encode_error(event: &Event<'_>, error: &FormatError) -> SinkError {
    let Event::Row(row) = event else {
        return SinkError::new(ErrorKind::Unsupported, "encode", error.to_string());
    };
    let rejection = error.rejection(row, Vec::new());
    SinkError {
        rejection: Some(Box::new(rejection)),
        ..SinkError::new(ErrorKind::Invalid, "encode", error.to_string())
    }
}
