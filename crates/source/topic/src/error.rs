//! Errors of Kafka sorted by what the reader can do next.

use change::SourceError;
use change::contract::ErrorKind;
use kafka_client::{code_of, verdict};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

pub(crate) fn invalid(detail: impl Into<String>, hint: &str) -> SourceError {
    SourceError::new(ErrorKind::Invalid, "configure the topic source", detail).hint(hint)
}

pub(crate) fn broker_error(operation: &str, place: &str, error: &KafkaError) -> SourceError {
    use RDKafkaErrorCode as C;
    let (kind, hint) = verdict(error).unwrap_or_else(|| match code_of(error) {
        Some(C::TopicAuthorizationFailed) => {
            (ErrorKind::Invalid, "grant READ and DESCRIBE on the topic")
        }
        Some(C::GroupAuthorizationFailed) => (
            ErrorKind::Invalid,
            "grant READ on the group, or name an allowed one in kafka.group",
        ),
        _ => (
            ErrorKind::Unavailable,
            "are the brokers up, and is the address right?",
        ),
    });
    SourceError::new(kind, operation, error.to_string())
        .at(place)
        .hint(hint)
}

/// What an error between two messages says about going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing: a sign that a partition's end is reached, or something that does not concern us.
    None,
    /// The offsets that are wanted may be gone.
    Offsets,
    /// The topic may be gone.
    Topic,
    /// Not allowed.
    Refused,
    /// The brokers are away.
    Away,
}

pub(crate) fn trouble(error: &KafkaError) -> Trouble {
    use RDKafkaErrorCode as C;
    if matches!(error, KafkaError::PartitionEOF(_)) {
        return Trouble::None;
    }
    match code_of(error) {
        Some(C::PartitionEOF | C::GroupAuthorizationFailed) => Trouble::None,
        Some(C::AutoOffsetReset | C::OffsetOutOfRange) => Trouble::Offsets,
        Some(C::UnknownTopicOrPartition | C::UnknownTopic | C::UnknownPartition) => Trouble::Topic,
        Some(C::TopicAuthorizationFailed) => Trouble::Refused,
        _ => Trouble::Away,
    }
}
