//! What goes wrong with a stream, by what the caller can do next.

use std::fmt;

/// What the caller can do next. Each kind is one error of the Keyspaces API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The call is wrong as it stands: a malformed ARN, shard id, sequence or name, a number past a closed shard.
    /// API: `ValidationException`, `InvalidFormat`.
    Invalid,
    /// The place is older than what is kept. API: `ValidationException`, `TrimmedDataAccess`.
    Trimmed,
    /// No such stream, shard, table or keyspace, or it has gone for good. API: `ResourceNotFoundException`.
    NotFound,
    /// The state forbids it: already enabled with another view, two shards that are not neighbours, a table whose images
    /// are not complete. The text says what to change. API: `ConflictException` (control plane), `ValidationException`.
    Conflict,
    /// A limit of the service: tags, shards. API: `ServiceQuotaExceededException`.
    Quota,
    /// The table's key is not to be had now. API: `AccessDeniedException`, table status
    /// `INACCESSIBLE_ENCRYPTION_CREDENTIALS`.
    KeyUnavailable,
    /// Not now: capture is busy or has ended, the journal is full. Try again. API: `InternalServerException`.
    Unavailable,
    /// A record or entry of ours does not decode. API: `InternalServerException`.
    Corrupt,
    /// A broken invariant of our own. API: `InternalServerException`.
    Internal,
}

/// What failed, where, and what to do next. No row value appears in it.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    operation: &'static str,
    place: String,
    detail: String,
    hint: String,
}

impl Error {
    /// An error without a place or hint.
    pub fn new(kind: ErrorKind, operation: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind,
            operation,
            place: String::new(),
            detail: detail.into(),
            hint: String::new(),
        }
    }

    /// Adds where it happened.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.place = place.to_string();
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// What the caller can do next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened, without the operation: the message of an API error.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What to do next; may be empty.
    pub fn hint_text(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        if !self.place.is_empty() {
            write!(f, " at {}", self.place)?;
        }
        write!(f, ": {}", self.detail)?;
        if !self.hint.is_empty() {
            write!(f, "; hint: {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<journal::Error> for Error {
    fn from(error: journal::Error) -> Self {
        use journal::ErrorKind as J;
        let kind = match error.kind() {
            J::Corrupt => ErrorKind::Corrupt,
            J::Internal => ErrorKind::Internal,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, "read the journal", error.to_string())
    }
}
