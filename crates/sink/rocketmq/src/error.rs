//! Errors of RocketMQ as a sink tells them.

use change::SinkError;
use change::contract::ErrorKind;
use rocketmq_client::{ClientError, failed};

pub(crate) fn invalid(detail: impl Into<String>, hint: &str) -> SinkError {
    SinkError::new(ErrorKind::Invalid, "configure rocketmq", detail).hint(hint)
}

/// An error of the connection as a whole.
pub(crate) fn broker_error(operation: &str, place: &str, error: &ClientError) -> SinkError {
    failed(operation, place, error).into()
}
