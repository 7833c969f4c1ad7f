//! Errors of RocketMQ as a sink tells them.

use change::SinkError;
use change::contract::{ErrorKind, Rejection};
use rocketmq_client::{ClientError, failed};

pub(crate) fn invalid(detail: impl Into<String>, hint: &str) -> SinkError {
    SinkError::new(ErrorKind::Invalid, "configure rocketmq", detail).hint(hint)
}

/// An error of the connection as a whole.
pub(crate) fn broker_error(operation: &str, place: &str, error: &ClientError) -> SinkError {
    failed(operation, place, error).into()
}

pub(crate) fn rejected(rejection: Rejection) -> SinkError {
    let keys = match rejection.key_columns.is_empty() {
        true => String::new(),
        false => format!(", key ({})", rejection.key_columns.join(", ")),
    };
    let place = format!("{} of table {}{keys}", rejection.target, rejection.table);
    SinkError {
        rejection: Some(Box::new(rejection.clone())),
        ..SinkError::new(ErrorKind::Invalid, "write", rejection.reason).at(place)
    }
}
