//! Errors of the config.

use change::SourceError;
use change::contract::ErrorKind;

pub(crate) fn invalid(detail: impl Into<String>, hint: &str) -> SourceError {
    SourceError::new(ErrorKind::Invalid, "configure the topic source", detail).hint(hint)
}
