//! Errors of ClickHouse sorted by what the caller can do next.

use change::SinkError;
use change::contract::ErrorKind;

pub(crate) fn invalid(detail: impl Into<String>, hint: impl Into<String>) -> SinkError {
    SinkError::new(ErrorKind::Invalid, "configure clickhouse", detail).hint(hint)
}

/// What a server refuses: its error number and its words, without the statement's values.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    /// ClickHouse's error number; 0 when it gave none.
    pub code: u32,
    /// The first line of its text.
    pub text: String,
}

impl Refused {
    /// From the body of an answer: `Code: 60. DB::Exception: …`.
    pub(crate) fn parse(body: &str) -> Self {
        let code = body
            .split("Code: ")
            .nth(1)
            .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next())
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0);
        let line = body.lines().next().unwrap_or_default();
        // What follows may quote the statement, and with it rows.
        let line = line.split(": while ").next().unwrap_or(line);
        let line = line.split("In scope ").next().unwrap_or(line);
        let text = line.chars().take(400).collect();
        Self { code, text }
    }

    pub(crate) fn verdict(&self) -> (ErrorKind, &'static str) {
        match self.code {
            // UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, AUTHENTICATION_FAILED
            192..=194 | 516 => (ErrorKind::Invalid, "check user and password"),
            // ACCESS_DENIED
            497 => (
                ErrorKind::Invalid,
                "grant what the sentence names; `headwater check` lists all that is needed",
            ),
            // READONLY
            164 => (
                ErrorKind::Invalid,
                "the account's profile has readonly = 1: give the sink an account that may write",
            ),
            // UNKNOWN_SETTING, SYNTAX_ERROR, NOT_IMPLEMENTED, UNKNOWN_TYPE
            115 | 62 | 48 | 50 => (
                ErrorKind::Unsupported,
                "the server may be too old; `headwater check` says which version is needed",
            ),
            // NOT_ENOUGH_SPACE, MEMORY_LIMIT_EXCEEDED, TOO_MANY_PARTS, TABLE_IS_READ_ONLY
            243 => (
                ErrorKind::Unavailable,
                "the server's disk is full: make room",
            ),
            241 => (ErrorKind::Unavailable, "the server is short of memory"),
            252 => (
                ErrorKind::Unavailable,
                "merges do not keep up: raise the sink's batch_delay, or give the server more room",
            ),
            242 => (
                ErrorKind::Unavailable,
                "the table is read-only just now: its Keeper or its disk is away",
            ),
            _ => (ErrorKind::Unavailable, ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_the_statement_in_it_is_cut_off() {
        let refused = Refused::parse(
            "Code: 60. DB::Exception: Unknown table expression identifier 'a.b'. In scope SELECT 'secret'",
        );
        assert_eq!(refused.code, 60);
        assert!(!refused.text.contains("secret"));
        assert_eq!(Refused::parse("nothing").code, 0);
    }
}
