//! Exit codes, and the failures that carry them.

use pipeline::config::ConfigError;
use pipeline::{RunError, Trouble};

/// Why a command failed: a text that fits after "failed to", and the exit code.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub text: String,
}

pub const OTHER: u8 = 1;
pub const USAGE: u8 = 2;
pub const SOURCE: u8 = 3;
pub const SINK: u8 = 4;
pub const JOURNAL: u8 = 5;

impl Failure {
    pub fn new(code: u8, text: impl ToString) -> Self {
        Self {
            code,
            text: text.to_string(),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(USAGE, error)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = match error.trouble {
            Trouble::Config => USAGE,
            Trouble::Source => SOURCE,
            Trouble::Sink => SINK,
            Trouble::Journal => JOURNAL,
            Trouble::Other => OTHER,
        };
        Self::new(code, error)
    }
}

impl From<journal::Error> for Failure {
    fn from(error: journal::Error) -> Self {
        Self::new(JOURNAL, error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            // The reader of a pipe has gone: not a failure worth words.
            std::io::ErrorKind::BrokenPipe => Self::new(0, ""),
            _ => Self::new(OTHER, error),
        }
    }
}
