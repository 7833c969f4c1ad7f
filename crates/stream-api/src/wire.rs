//! Which service, operation and encoding a request asks for, and how an answer is written.

use crate::cbor;
use crate::error::{ApiError, Code};
use crate::operations::Operation;
use http::HeaderMap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The services that are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// `keyspacesstreams`: reading.
    Streams,
    /// `keyspaces`: tables, streams, tags.
    Keyspaces,
    /// `cloudwatch`: metrics.
    CloudWatch,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 3] = [Service::Streams, Service::Keyspaces, Service::CloudWatch];

    /// What stands before the operation in `X-Amz-Target`, and in the path of RPC v2 CBOR.
    pub fn target_prefix(self) -> &'static str {
        match self {
            Service::Streams => "KeyspacesStreams",
            Service::Keyspaces => "KeyspacesService",
            Service::CloudWatch => "GraniteServiceVersion20100801",
        }
    }

    /// The service of the signature's scope.
    pub fn signing_name(self) -> &'static str {
        match self {
            Service::Streams | Service::Keyspaces => "cassandra",
            Service::CloudWatch => "monitoring",
        }
    }

    /// `eventSource` of audit records.
    pub fn event_source(self) -> &'static str {
        match self {
            Service::Streams => "cassandra-streams.amazonaws.com",
            Service::Keyspaces => "cassandra.amazonaws.com",
            Service::CloudWatch => "monitoring.amazonaws.com",
        }
    }

    fn from_prefix(prefix: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|service| service.target_prefix() == prefix)
    }
}

/// How bodies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// AWS JSON 1.0.
    Json,
    /// Smithy RPC v2 CBOR.
    Cbor,
}

impl Encoding {
    /// The `Content-Type` of answers.
    pub fn content_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/x-amz-json-1.0",
            Encoding::Cbor => "application/cbor",
        }
    }

    /// A body's members.
    ///
    /// Errors: `SerializationException` when it is no document, or a member has another type.
    pub fn read<T: DeserializeOwned>(self, body: &[u8]) -> Result<T, ApiError> {
        let wrong = |text: String| ApiError::new(Code::Serialization, text);
        match self {
            // No body at all is an empty document, as the real service takes it.
            Encoding::Json if body.is_empty() => serde_json::from_slice(b"{}"),
            Encoding::Json => serde_json::from_slice(body),
            Encoding::Cbor if body.is_empty() => serde_json::from_slice(b"{}"),
            Encoding::Cbor => serde_json::from_value(cbor::read(body).map_err(wrong)?),
        }
        .map_err(|error| wrong(describe(&error)))
    }

    /// An answer's body.
    pub fn write<T: Serialize>(self, answer: &T) -> Result<Vec<u8>, ApiError> {
        let failed = |error: serde_json::Error| {
            ApiError::new(Code::InternalServer, format!("write the answer: {error}"))
        };
        let mut value = serde_json::to_value(answer).map_err(failed)?;
        match self {
            Encoding::Json => {
                flatten_times(&mut value);
                serde_json::to_vec(&value).map_err(failed)
            }
            Encoding::Cbor => {
                let mut out = Vec::new();
                cbor::write(&mut out, &value);
                Ok(out)
            }
        }
    }

    /// A refusal's body.
    pub fn write_error(self, error: &ApiError) -> Vec<u8> {
        let mut members = serde_json::Map::new();
        members.insert("__type".into(), error.code.name().into());
        members.insert("message".into(), error.message.clone().into());
        if let Code::Validation(fault) = error.code {
            members.insert("errorCode".into(), fault.as_str().into());
        }
        if let Some(resource) = &error.resource {
            members.insert("resourceArn".into(), resource.clone().into());
        }
        let value = Value::Object(members);
        match self {
            Encoding::Json => value.to_string().into_bytes(),
            Encoding::Cbor => {
                let mut out = Vec::new();
                cbor::write(&mut out, &value);
                out
            }
        }
    }
}

/// A time of an answer: a number in JSON, a tagged number in CBOR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// Microseconds since 1970.
    pub micros: i64,
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(cbor::TIME_KEY, &(self.micros as f64 / 1e6))?;
        map.end()
    }
}

fn flatten_times(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(flatten_times),
        Value::Object(members) => match members.remove(cbor::TIME_KEY) {
            Some(time) => *value = time,
            None => members.values_mut().for_each(flatten_times),
        },
        _ => {}
    }
}

/// What is wrong with a document, without any of its values: serde's text quotes them.
fn describe(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let place = match error.line() {
        0 => String::new(),
        line => format!(" at line {line} column {}", error.column()),
    };
    match error.classify() {
        Category::Data => format!("a member of the request has the wrong type{place}"),
        Category::Eof => "the request's document is cut off".to_owned(),
        _ => format!("the request is no valid document{place}"),
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The service; of an unknown target, the nearest guess, which decides statuses.
    pub service: Service,
    /// The operation, if there is such a one.
    pub operation: Option<Operation>,
    /// The encoding of the request, and so of the answer.
    pub encoding: Encoding,
}

/// Reads target, path and content type.
pub fn route(method: &http::Method, path: &str, headers: &HeaderMap) -> Asked {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_cbor = text("smithy-protocol") == Some("rpc-v2-cbor") || path.starts_with("/service/");
    let encoding = match is_cbor {
        true => Encoding::Cbor,
        false => Encoding::Json,
    };
    let named = match is_cbor {
        true => path
            .strip_prefix("/service/")
            .and_then(|rest| rest.split_once("/operation/")),
        false => text("x-amz-target")
            .filter(|_| path == "/")
            .and_then(|target| target.split_once('.')),
    };
    let service = named.and_then(|(prefix, _)| Service::from_prefix(prefix));
    let operation = match (service, named) {
        (Some(service), Some((_, name))) if method == http::Method::POST => {
            Operation::named(service, name)
        }
        _ => None,
    };
    Asked {
        service: service.unwrap_or(Service::Streams),
        // The reading service speaks JSON only.
        operation: operation
            .filter(|operation| !is_cbor || operation.service() != Service::Streams),
        encoding,
    }
}
