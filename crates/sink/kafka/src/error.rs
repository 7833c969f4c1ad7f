//! Errors of Kafka sorted by what the caller can do next.

use change::SinkError;
use change::contract::ErrorKind;
use kafka_client::{code_of, verdict};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

pub(crate) fn invalid(detail: impl Into<String>, hint: &str) -> SinkError {
    SinkError::new(ErrorKind::Invalid, "configure kafka", detail).hint(hint)
}

/// What one refused record means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// This record alone: too large, or the broker's own check refused it.
    Record,
    /// The topic: missing, not allowed, or of another kind.
    Topic,
    /// Neither: the broker is away, or another process took over.
    Broker,
}

pub(crate) fn refusal(code: RDKafkaErrorCode) -> Refusal {
    use RDKafkaErrorCode as C;
    match code {
        C::MessageSizeTooLarge | C::InvalidMessageSize | C::InvalidRecord | C::InvalidMessage => {
            Refusal::Record
        }
        C::UnknownTopicOrPartition
        | C::UnknownTopic
        | C::UnknownPartition
        | C::InvalidTopic
        | C::TopicAuthorizationFailed
        | C::PolicyViolation
        | C::InvalidTimestamp => Refusal::Topic,
        _ => Refusal::Broker,
    }
}

pub(crate) fn broker_error(operation: &str, brokers: &[String], error: &KafkaError) -> SinkError {
    use RDKafkaErrorCode as C;
    let (kind, hint) = verdict(error).unwrap_or_else(|| match code_of(error) {
        Some(C::Fenced | C::ProducerFenced | C::InvalidProducerEpoch) => (
            ErrorKind::Fenced,
            "another process with the same transactional_id took over; stop one of the two, or give \
             each its own",
        ),
        Some(C::TransactionalIdAuthorizationFailed) => (
            ErrorKind::Invalid,
            "grant WRITE and DESCRIBE on this transactional id, or set delivery: idempotent",
        ),
        Some(C::ClusterAuthorizationFailed) => {
            (ErrorKind::Invalid, "grant IDEMPOTENT_WRITE on the cluster")
        }
        Some(C::TopicAuthorizationFailed) => (
            ErrorKind::Invalid,
            "grant READ, WRITE, DESCRIBE and CREATE on the topic",
        ),
        _ => (
            ErrorKind::Unavailable,
            "are the brokers up, and is the address right?",
        ),
    });
    SinkError::new(kind, operation, error.to_string())
        .at(format!("kafka {}", brokers.join(",")))
        .hint(hint)
}
