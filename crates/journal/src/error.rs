//! The one error of this crate.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Named for the reader's next move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// Try again later, or open the journal anew.
    Unavailable,
    /// Somebody else holds the journal or has taken it over.
    Fenced,
    /// The call or the configuration must change.
    Invalid,
    /// Written by a newer version, or not possible here.
    Unsupported,
    /// Bytes on disk are not what was written.
    Corrupt,
    /// `disk_max` is reached: nothing was lost, the same call works once there is room. Or the disk itself is full: the
    /// writer has ended ([`crate::Journal::failed`]), nothing visible was lost, open the journal again once there is room.
    Full,
    /// A broken invariant of this crate.
    Internal,
}

/// What failed, where, why, and what to do about it.
///
/// Shown as `read segment at 000001.seg:1931: the checksum does not match; hint: …`, which fits after
/// "failed to". Row values and secrets never appear.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    place: String,
    detail: String,
    hint: Option<&'static str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, operation: &'static str, detail: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            operation,
            place: String::new(),
            detail: detail.into(),
            hint: None,
            source: None,
        }))
    }

    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
            _ => ErrorKind::Unavailable,
        };
        let error = Self::new(kind, operation, source.to_string()).at(path.display());
        let error = match kind {
            ErrorKind::Full => error.hint(
                "free space on the journal's disk, or lower journal.retention or disk_max; then \
                 start again: nothing that was durable is lost",
            ),
            _ => error,
        };
        error.caused_by(source)
    }

    pub(crate) fn at(mut self, place: impl fmt::Display) -> Self {
        self.0.place = place.to_string();
        self
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.0.hint = Some(hint);
        self
    }

    pub(crate) fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The reader's next move.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was being done, for example `read segment`.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// File and offset, sequence, cursor or key group; empty when there is none.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// Why it failed.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// What the operator can do, where something can be done.
    pub fn advice(&self) -> Option<&'static str> {
        self.0.hint
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            operation,
            place,
            detail,
            hint,
            ..
        } = &*self.0;
        f.write_str(operation)?;
        if !place.is_empty() {
            write!(f, " at {place}")?;
        }
        write!(f, ": {detail}")?;
        match hint {
            Some(hint) => write!(f, "; hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}
