//! Which errors of a connection are the config's.

use change::contract::ErrorKind;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// The code of an error, also of one of a transaction.
pub fn code_of(error: &KafkaError) -> Option<RDKafkaErrorCode> {
    match error {
        KafkaError::Transaction(error) => Some(error.code()),
        other => other.rdkafka_error_code(),
    }
}

/// What an error of the connection means and what to do; none where it is not about the connection.
pub fn verdict(error: &KafkaError) -> Option<(ErrorKind, &'static str)> {
    use RDKafkaErrorCode as C;
    match code_of(error)? {
        C::Authentication | C::SaslAuthenticationFailed => Some((
            ErrorKind::Invalid,
            "check security.mechanism, username and password",
        )),
        C::SSL => Some((
            ErrorKind::Invalid,
            "check security.protocol, the CA file and the name in the broker's certificate",
        )),
        _ => None,
    }
}
