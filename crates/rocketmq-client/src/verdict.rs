//! Errors of RocketMQ sorted by what the caller can do next, and put into words.

use change::contract::ErrorKind;
use change::{SinkError, SourceError};
use rocketmq_client_rust::ClientError;
use std::error::Error;

/// What one refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// This message alone: too large, or not to the broker's liking.
    Record,
    /// The topic: missing.
    Missing,
    /// The topic, the group or the broker: this user may not use it.
    Forbidden,
    /// The consumer group: missing, and the broker makes none.
    Group,
    /// None of them: the broker is away or busy.
    Passing,
}

// Source: Apache RocketMQ, `ResponseCode` and `RemotingSysResponseCode`.
const SYSTEM_ERROR: i32 = 1;
const SYSTEM_BUSY: i32 = 2;
const FLUSH_DISK_TIMEOUT: i32 = 10;
const SLAVE_NOT_AVAILABLE: i32 = 11;
const FLUSH_SLAVE_TIMEOUT: i32 = 12;
const MESSAGE_ILLEGAL: i32 = 13;
const SERVICE_NOT_AVAILABLE: i32 = 14;
const NO_PERMISSION: i32 = 16;
const TOPIC_NOT_EXIST: i32 = 17;
const GROUP_NOT_EXIST: i32 = 26;

/// Sorts an error.
pub fn refusal(error: &ClientError) -> Refusal {
    let code = error.shared_error().code();
    match (error.broker_response_code(), code.as_str()) {
        (Some(MESSAGE_ILLEGAL), _)
        | (_, "broker.message.too_large" | "broker.message.invalid" | "protocol.body.invalid") => {
            Refusal::Record
        }
        (Some(TOPIC_NOT_EXIST), _) | (_, "broker.topic.not_found") => Refusal::Missing,
        (Some(NO_PERMISSION), _) => Refusal::Forbidden,
        (Some(GROUP_NOT_EXIST), _) => Refusal::Group,
        _ => Refusal::Passing,
    }
}

/// What went wrong. The client often says only of what kind its error is: the broker's number and the
/// causes below it say more.
pub fn words(error: &ClientError) -> String {
    let shared = error.shared_error();
    let mut text = shared.descriptor().public_message().to_owned();
    if text.is_empty() {
        shared.code().as_str().clone_into(&mut text);
    }
    if let Some(code) = error.broker_response_code() {
        let meaning = match code {
            SYSTEM_ERROR => "the broker failed inside",
            SYSTEM_BUSY => "the broker is busy",
            FLUSH_DISK_TIMEOUT => "the broker's disk did not keep up",
            SLAVE_NOT_AVAILABLE => "the broker has no replica",
            FLUSH_SLAVE_TIMEOUT => "the broker's replica did not keep up",
            MESSAGE_ILLEGAL => "the broker refuses the message",
            SERVICE_NOT_AVAILABLE => "the broker takes no messages now",
            NO_PERMISSION => "not allowed",
            TOPIC_NOT_EXIST => "the topic does not exist",
            GROUP_NOT_EXIST => "the group does not exist",
            _ => "the broker's answer",
        };
        text = format!("{text}: {meaning} (code {code})");
    }
    let mut cause = shared.source();
    while let Some(error) = cause {
        // Further lines are advice of the client's own.
        let more = error.to_string();
        let more = more.lines().next().unwrap_or_default();
        if !more.is_empty() && !text.contains(more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// A call that failed, as a source or a sink tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What the reader can do next.
    pub kind: ErrorKind,
    /// What was to be done.
    pub operation: String,
    /// Where.
    pub place: String,
    /// What went wrong.
    pub detail: String,
    /// What to do.
    pub hint: &'static str,
}

/// An error of the connection as a whole.
pub fn failed(operation: &str, place: &str, error: &ClientError) -> Failed {
    let words = words(error);
    let (kind, hint) = match refusal(error) {
        Refusal::Passing if words.contains("certificate") => (
            ErrorKind::Invalid,
            "check security.ca, certificate and key, and the name in the server's certificate",
        ),
        Refusal::Forbidden => (
            ErrorKind::Invalid,
            "check security.access_key and secret_key, and what ACL grants them",
        ),
        Refusal::Record => (ErrorKind::Invalid, "raise the broker's maxMessageSize"),
        Refusal::Group => (
            ErrorKind::Invalid,
            "make the consumer group on the brokers, or name one that is there in group",
        ),
        Refusal::Missing | Refusal::Passing => (
            ErrorKind::Unavailable,
            "are the name server and the broker up, and is the address right?",
        ),
    };
    Failed {
        kind,
        operation: operation.to_owned(),
        place: place.to_owned(),
        detail: words,
        hint,
    }
}

impl From<Failed> for SinkError {
    fn from(failed: Failed) -> Self {
        Self::new(failed.kind, &failed.operation, failed.detail)
            .at(failed.place)
            .hint(failed.hint)
    }
}

impl From<Failed> for SourceError {
    fn from(failed: Failed) -> Self {
        Self::new(failed.kind, &failed.operation, failed.detail)
            .at(failed.place)
            .hint(failed.hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_a_text_gets_words() {
        let error = ClientError::timeout("send", 5000);
        assert!(!words(&error).is_empty());
        assert_eq!(refusal(&error), Refusal::Passing);
        let told = failed("write", "rocketmq 127.0.0.1:9876", &error);
        assert_eq!(told.kind, ErrorKind::Unavailable);
        assert!(!told.hint.is_empty());
    }
}
