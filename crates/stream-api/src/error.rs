//! What a call is refused with, in the words that SDKs know.
//!
//! Clients decide by `__type` and, for validation, by `errorCode`; the status follows from the service that was called.

use crate::wire::Service;
use std::fmt;

/// The members of `errorCode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Missing, of a wrong form, or out of bounds.
    InvalidFormat,
    /// The place is older than what is kept.
    TrimmedDataAccess,
    /// The iterator is older than 15 minutes.
    ExpiredIterator,
    /// The page token is older than 15 minutes.
    ExpiredNextToken,
}

impl Fault {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::InvalidFormat => "InvalidFormat",
            Fault::TrimmedDataAccess => "TrimmedDataAccess",
            Fault::ExpiredIterator => "ExpiredIterator",
            Fault::ExpiredNextToken => "ExpiredNextToken",
        }
    }
}

/// Kinds of refusal; each is one `__type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// No policy allows it, or one denies it.
    AccessDenied,
    /// Our own trouble, or not now. SDKs try again.
    InternalServer,
    /// Gone, or never there.
    ResourceNotFound,
    /// Too fast, or a third reader of a shard. SDKs try again.
    Throttling,
    /// The call is wrong.
    Validation(Fault),
    /// The state forbids it (control plane).
    Conflict,
    /// A limit of the service (control plane).
    ServiceQuotaExceeded,
    /// No such operation.
    UnknownOperation,
    /// The body is no document, or a member has another type.
    Serialization,
    /// No signature.
    MissingAuthenticationToken,
    /// The `Authorization` header is no whole signature.
    IncompleteSignature,
    /// The access key is not known.
    UnrecognizedClient,
    /// The signature does not fit, or is too old.
    InvalidSignature,
    /// The session has ended.
    ExpiredToken,
    /// The body is too long.
    RequestEntityTooLarge,
}

impl Code {
    /// All of them, for the page of errors.
    pub const ALL: [Code; 18] = [
        Code::AccessDenied,
        Code::InternalServer,
        Code::ResourceNotFound,
        Code::Throttling,
        Code::Validation(Fault::InvalidFormat),
        Code::Validation(Fault::TrimmedDataAccess),
        Code::Validation(Fault::ExpiredIterator),
        Code::Validation(Fault::ExpiredNextToken),
        Code::Conflict,
        Code::ServiceQuotaExceeded,
        Code::UnknownOperation,
        Code::Serialization,
        Code::MissingAuthenticationToken,
        Code::IncompleteSignature,
        Code::UnrecognizedClient,
        Code::InvalidSignature,
        Code::ExpiredToken,
        Code::RequestEntityTooLarge,
    ];

    /// The `__type`.
    pub fn name(self) -> &'static str {
        match self {
            Code::AccessDenied => "AccessDeniedException",
            Code::InternalServer => "InternalServerException",
            Code::ResourceNotFound => "ResourceNotFoundException",
            Code::Throttling => "ThrottlingException",
            Code::Validation(_) => "ValidationException",
            Code::Conflict => "ConflictException",
            Code::ServiceQuotaExceeded => "ServiceQuotaExceededException",
            Code::UnknownOperation => "UnknownOperationException",
            Code::Serialization => "SerializationException",
            Code::MissingAuthenticationToken => "MissingAuthenticationTokenException",
            Code::IncompleteSignature => "IncompleteSignatureException",
            Code::UnrecognizedClient => "UnrecognizedClientException",
            Code::InvalidSignature => "InvalidSignatureException",
            Code::ExpiredToken => "ExpiredTokenException",
            Code::RequestEntityTooLarge => "RequestEntityTooLarge",
        }
    }

    /// Whether the caller did not show who he is.
    pub(crate) fn is_of_signature(self) -> bool {
        matches!(
            self,
            Code::MissingAuthenticationToken
                | Code::IncompleteSignature
                | Code::UnrecognizedClient
                | Code::InvalidSignature
                | Code::ExpiredToken
        )
    }

    /// The HTTP status. The streams' own service answers 400 where the control plane has statuses of its own.
    pub fn status(self, service: Service) -> u16 {
        let is_streams = service == Service::Streams;
        match self {
            Code::InternalServer => 500,
            Code::RequestEntityTooLarge => 413,
            Code::AccessDenied if !is_streams => 403,
            Code::ResourceNotFound if !is_streams => 404,
            Code::Conflict if !is_streams => 409,
            Code::ServiceQuotaExceeded if !is_streams => 402,
            _ => 400,
        }
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// Its kind.
    pub code: Code,
    /// What is wrong and what to do next. No row value and no secret.
    pub message: String,
    /// What was not found, where the service tells that.
    pub resource: Option<String>,
}

impl ApiError {
    /// A refusal.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            resource: None,
        }
    }

    /// A validation error of the plainest kind.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Validation(Fault::InvalidFormat), message)
    }

    /// An error of streams as the service that was called names it.
    pub fn from_stream(error: &stream::Error, service: Service) -> Self {
        use stream::ErrorKind as K;
        let is_streams = service == Service::Streams;
        let code = match error.kind() {
            K::Invalid => Code::Validation(Fault::InvalidFormat),
            K::Trimmed => Code::Validation(Fault::TrimmedDataAccess),
            K::NotFound => Code::ResourceNotFound,
            K::Conflict | K::Quota if is_streams => Code::Validation(Fault::InvalidFormat),
            K::Conflict => Code::Conflict,
            K::Quota => Code::ServiceQuotaExceeded,
            K::KeyUnavailable => Code::AccessDenied,
            K::Unavailable | K::Corrupt | K::Internal => Code::InternalServer,
        };
        // What is damaged is for the operator's log; the caller learns that it is not his doing.
        let message = match error.kind() {
            K::Corrupt | K::Internal => {
                tracing::error!("{error}");
                "the server could not read this; its log tells why".to_owned()
            }
            _ if error.hint_text().is_empty() => error.detail().to_owned(),
            _ => format!("{}; {}", error.detail(), error.hint_text()),
        };
        Self::new(code, message)
    }

    /// Whether it is the server's doing.
    pub fn is_server_fault(&self) -> bool {
        self.code == Code::InternalServer
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}

impl std::error::Error for ApiError {}
