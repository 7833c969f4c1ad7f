//! What can go wrong on a connection, and what the reader of the error can do.

use change::SourceError;
use change::contract::ErrorKind;

/// A failure of a connection.
#[derive(Debug, thiserror::Error)]
pub enum WireFailure {
    /// The network.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The server's own words.
    #[error("server error {code}: {message}")]
    Server {
        /// Its number.
        code: u16,
        /// Its text.
        message: String,
    },
    /// Bytes that make no sense at this place of the protocol.
    #[error("the server sent {0} where none is expected")]
    Protocol(&'static str),
    /// A TLS setting or file is wrong.
    #[error("{0}")]
    TlsConfig(String),
    /// TLS could not be set up.
    #[error("{0}")]
    Tls(String),
    /// No way to log in.
    #[error("{0}")]
    Auth(String),
}

/// Server error numbers that are acted upon.
pub mod code {
    /// Access denied for the user.
    pub const ACCESS_DENIED: u16 = 1045;
    /// A privilege is missing.
    pub const PRIVILEGE_MISSING: u16 = 1227;
    /// A table is not there.
    pub const NO_SUCH_TABLE: u16 = 1146;
    /// The log cannot be read from there.
    pub const LOG_UNREADABLE: u16 = 1236;
}

impl WireFailure {
    /// The server's error number.
    pub fn code(&self) -> Option<u16> {
        match self {
            WireFailure::Server { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the same call may succeed on a new connection.
    pub fn is_passing(&self) -> bool {
        match self {
            WireFailure::Io(_) | WireFailure::Protocol(_) => true,
            WireFailure::Server { code, .. } => matches!(
                code,
                // Too many connections, shutdown, lost, killed, read-only for a moment, time-outs.
                1040 | 1053 | 1077 | 1078 | 1079 | 1080 | 1152..=1161 | 1203 | 1205 | 1213 | 1317
                    | 1927 | 2002..=2013 | 3169 | 4031
            ),
            WireFailure::TlsConfig(_) | WireFailure::Tls(_) | WireFailure::Auth(_) => false,
        }
    }

    /// As a source's error.
    pub fn into_source(self, operation: &str, place: &str) -> SourceError {
        let (kind, hint) = self.kind();
        // What the config names is wrong, whatever was being done.
        let operation = match self {
            WireFailure::TlsConfig(_) => "configure the source",
            _ => operation,
        };
        SourceError::new(kind, operation, self.to_string())
            .at(place)
            .hint(hint)
    }

    fn kind(&self) -> (ErrorKind, &'static str) {
        match self {
            _ if self.is_passing() => (ErrorKind::Unavailable, ""),
            WireFailure::Server { code, message } => match *code {
                code::ACCESS_DENIED => (
                    ErrorKind::Invalid,
                    "check user, password and the host part of the account",
                ),
                code::PRIVILEGE_MISSING | 1044 | 1142 | 1143 | 1370 => (
                    ErrorKind::Invalid,
                    "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user",
                ),
                code::LOG_UNREADABLE if is_clash(message) => (
                    ErrorKind::Fenced,
                    "another client reads the log under the same server_id: set another one",
                ),
                code::LOG_UNREADABLE => log_unreadable(message),
                code::NO_SUCH_TABLE => (ErrorKind::Invalid, ""),
                _ => (ErrorKind::Invalid, ""),
            },
            WireFailure::TlsConfig(_) | WireFailure::Tls(_) => (
                ErrorKind::Invalid,
                "check tls.mode, tls.ca, tls.cert and tls.key",
            ),
            WireFailure::Auth(_) => (ErrorKind::Invalid, "check the account"),
            WireFailure::Io(_) | WireFailure::Protocol(_) => (ErrorKind::Unavailable, ""),
        }
    }
}

/// What error 1236 means; only its text tells (mysql/mysql-server, sql/rpl_binlog_sender.cc;
/// MariaDB/server, sql/sql_repl.cc).
fn log_unreadable(message: &str) -> (ErrorKind, &'static str) {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["max_allowed_packet"]) {
        return (
            ErrorKind::Invalid,
            "the log holds an event that is larger than the server may send: SET GLOBAL \
             max_allowed_packet = 1073741824, then run again",
        );
    }
    if says(&["crc", "checksum", "bogus data", "truncated", "corrupt"]) {
        return (
            ErrorKind::Corrupt,
            "the server cannot read its own log there: look at its disk; where the log cannot be \
             mended, headwater run CONFIG --resnapshot-lost copies every table again and goes on",
        );
    }
    if says(&["gtid_mode", "auto_position"]) {
        return (
            ErrorKind::Invalid,
            "the position holds GTIDs, and the server has gtid_mode = OFF: switch it on, or take a new \
             snapshot (a fresh journal directory)",
        );
    }
    (
        ErrorKind::Lost,
        "the server purged this part of its log, and nothing brings it back but a new copy: headwater run \
         CONFIG --resnapshot-lost copies every table again and goes on",
    )
}

/// Whether error 1236 says that another replica has the same number.
fn is_clash(message: &str) -> bool {
    message.contains("same server_uuid") || message.contains("same server_id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_1236_is_told_by_its_text() {
        let kind = |message: &str| log_unreadable(message).0;
        let purged = "Could not find first log file name in binary log index file";
        let packet =
            "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source";
        assert_eq!(kind(purged), ErrorKind::Lost);
        assert_eq!(kind(packet), ErrorKind::Invalid);
        assert_eq!(
            kind("event read from binlog did not pass crc check"),
            ErrorKind::Corrupt
        );
        assert_eq!(
            kind("bogus data in log event; the first event 'x' at 4"),
            ErrorKind::Corrupt
        );
    }
}
