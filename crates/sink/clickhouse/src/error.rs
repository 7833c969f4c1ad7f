//! Errors of ClickHouse sorted by what the caller can do next.

use change::SinkError;
use change::contract::ErrorKind;

/// The account may not do what a statement needs.
pub(crate) const ACCESS_DENIED: u32 = 497;
/// The account, or its profile, may only read.
pub(crate) const READONLY: u32 = 164;
const DISK_FULL: &str = "the server's disk is full: make room, or add a disk to the storage policy; the sink \
                         waits and goes on";

/// The account's profile forbids a setting of the statement.
pub(crate) const SETTING_CONSTRAINT_VIOLATION: u32 = 452;
/// The server has no table of this name.
const UNKNOWN_TABLE: u32 = 60;
/// The server has no database of this name.
const UNKNOWN_DATABASE: u32 = 81;

/// What a server refuses for what a statement or its rows say, not for how it stands: the same again is
/// refused again.
const FOR_GOOD: [(u32, &str); 37] = [
    (6, "CANNOT_PARSE_TEXT"),
    (10, "NOT_FOUND_COLUMN_IN_BLOCK"),
    (15, "DUPLICATE_COLUMN"),
    (16, "NO_SUCH_COLUMN_IN_TABLE"),
    (26, "CANNOT_PARSE_QUOTED_STRING"),
    (27, "CANNOT_PARSE_INPUT_ASSERTION_FAILED"),
    (36, "BAD_ARGUMENTS"),
    (38, "CANNOT_PARSE_DATE"),
    (41, "CANNOT_PARSE_DATETIME"),
    (43, "ILLEGAL_TYPE_OF_ARGUMENT"),
    (44, "ILLEGAL_COLUMN"),
    (46, "UNKNOWN_FUNCTION"),
    (47, "UNKNOWN_IDENTIFIER"),
    (48, "NOT_IMPLEMENTED"),
    (50, "UNKNOWN_TYPE"),
    (53, "TYPE_MISMATCH"),
    (57, "TABLE_ALREADY_EXISTS"),
    (62, "SYNTAX_ERROR"),
    (69, "ARGUMENT_OUT_OF_BOUND"),
    (70, "CANNOT_CONVERT_TYPE"),
    (72, "CANNOT_PARSE_NUMBER"),
    (115, "UNKNOWN_SETTING"),
    (117, "INCORRECT_DATA"),
    (131, "TOO_LARGE_STRING_SIZE"),
    (179, "MULTIPLE_EXPRESSIONS_FOR_ALIAS"),
    (248, "INVALID_PARTITION_VALUE"),
    (321, "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE"),
    (344, "SUPPORT_IS_DISABLED"),
    (349, "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN"),
    (352, "AMBIGUOUS_COLUMN_NAME"),
    (376, "CANNOT_PARSE_UUID"),
    (407, "DECIMAL_OVERFLOW"),
    (467, "CANNOT_PARSE_BOOL"),
    (469, "VIOLATED_CONSTRAINT"),
    (524, "ALTER_OF_COLUMN_IS_FORBIDDEN"),
    (549, "DATA_TYPE_CANNOT_BE_USED_IN_KEY"),
    (691, "UNKNOWN_ELEMENT_OF_ENUM"),
];

/// Whether trying again is of no use: the table is set aside, so that the others go on.
pub(crate) fn is_for_good(error: &SinkError) -> bool {
    let code = code(error);
    code != 0 && FOR_GOOD.iter().any(|(known, _)| *known == code)
}

/// Whether the server said that a table or its database is not there.
pub(crate) fn is_missing(error: &SinkError) -> bool {
    matches!(code(error), UNKNOWN_TABLE | UNKNOWN_DATABASE)
}

/// The server's error number in an error of [`Client`](crate::client::Client); 0 for none.
pub(crate) fn code(error: &SinkError) -> u32 {
    Refused::parse(&error.detail).code
}

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
            // What an administrator took away can be given back: the sink waits for it.
            ACCESS_DENIED => (
                ErrorKind::Unavailable,
                "grant what the sentence names; `headwater check` lists all that is needed",
            ),
            READONLY => (
                ErrorKind::Unavailable,
                "the account's profile has readonly: ALTER USER … SETTINGS readonly = 0; `headwater check` \
                 has the statement",
            ),
            // UNKNOWN_SETTING, SYNTAX_ERROR, NOT_IMPLEMENTED, UNKNOWN_TYPE
            115 | 62 | 48 | 50 => (
                ErrorKind::Unsupported,
                "the server may be too old; `headwater check` says which version is needed",
            ),
            // NOT_ENOUGH_SPACE, MEMORY_LIMIT_EXCEEDED, TOO_MANY_PARTS, TABLE_IS_READ_ONLY
            243 => (ErrorKind::Unavailable, DISK_FULL),
            // CANNOT_WRITE_TO_FILE_DESCRIPTOR and others, as the operating system says it
            _ if self.text.contains("No space left on device") => {
                (ErrorKind::Unavailable, DISK_FULL)
            }
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

    #[test]
    fn what_is_refused_for_what_it_says_is_told_from_what_passes() {
        let error = |body: &str| {
            let refused = Refused::parse(body);
            SinkError::new(refused.verdict().0, "insert", refused.text)
        };
        for (code, name) in FOR_GOOD {
            assert!(is_for_good(&error(&format!(
                "Code: {code}. DB::Exception: no. ({name})"
            ))));
        }
        for passing in [
            "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)",
            "Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)",
            "Code: 497. DB::Exception: Not enough privileges. (ACCESS_DENIED)",
            "no answer in time",
        ] {
            assert!(!is_for_good(&error(passing)), "{passing}");
        }
        assert!(is_missing(&error(
            "Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)"
        )));
    }

    #[test]
    fn what_can_be_given_back_is_waited_for_and_what_the_config_says_is_not() {
        let kind = |body: &str| Refused::parse(body).verdict().0;
        for passing in [
            "Code: 164. DB::Exception: hw: Cannot execute query in readonly mode. (READONLY)",
            "Code: 497. DB::Exception: hw: Not enough privileges. (ACCESS_DENIED)",
            "Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space. (NOT_ENOUGH_SPACE)",
            "Code: 242. DB::Exception: Table is in readonly mode. (TABLE_IS_READ_ONLY)",
        ] {
            assert_eq!(kind(passing), ErrorKind::Unavailable, "{passing}");
        }
        let full = Refused::parse(
            "Code: 75. DB::ErrnoException: Cannot write to file /x, errno: 28, strerror: No space left on device",
        );
        assert_eq!(full.verdict(), (ErrorKind::Unavailable, DISK_FULL));
        let wrong = "Code: 516. DB::Exception: hw: Authentication failed. (AUTHENTICATION_FAILED)";
        assert_eq!(kind(wrong), ErrorKind::Invalid);
        let old = "Code: 115. DB::Exception: Unknown setting x. (UNKNOWN_SETTING)";
        assert_eq!(kind(old), ErrorKind::Unsupported);
    }
}
