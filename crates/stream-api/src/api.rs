//! The service itself, without a socket: a request's bytes in, an answer's bytes out. What is fuzzed.

use crate::audit::{Audit, Happened};
use crate::call::{Call, Caller, LocalUser, Principal};
use crate::error::{ApiError, Code};
use crate::keys::KeyFile;
use crate::metrics::Metrics;
use crate::operations::{self, Facts, Operation};
use crate::refusals::Refusals;
use crate::seal::Sealer;
use crate::settings::ApiConfig;
use crate::signature::{Signed, Verifier};
use crate::throttle::Throttle;
use crate::wire::{self, Asked, Encoding, Service};
use http::{HeaderMap, Method, Uri};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use stream::Streams;

/// What a service is made of.
pub struct ApiParts {
    /// The streams that are served.
    pub streams: Streams,
    /// The config's section.
    pub settings: ApiConfig,
    /// Who may sign.
    pub keys: KeyFile,
    /// Makes iterators and tokens.
    pub sealer: Sealer,
    /// Where calls are recorded; none for nowhere.
    pub audit: Option<std::sync::Arc<Audit>>,
}

/// Answers calls. Every method may be called from any thread.
pub struct Api {
    pub(crate) streams: Streams,
    pub(crate) settings: ApiConfig,
    pub(crate) sealer: Sealer,
    pub(crate) throttle: Throttle,
    pub(crate) metrics: Metrics,
    keys: KeyFile,
    verifier: Verifier,
    audit: Option<std::sync::Arc<Audit>>,
    refusals: Refusals,
    ids: AtomicU64,
    readers: AtomicU64,
}

/// A request as it came.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path and query.
    pub uri: &'a Uri,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its whole body.
    pub body: &'a [u8],
    /// Where it came from.
    pub caller: &'a Caller,
}

/// An answer as it goes.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The HTTP status.
    pub status: u16,
    /// How the body is written.
    pub encoding: Encoding,
    /// `x-amzn-RequestId`.
    pub request_id: String,
    /// The body.
    pub body: Vec<u8>,
    /// Whether its caller was known; the connection of one who is not is closed.
    pub is_known: bool,
}

/// What a local command did, for the audit.
#[derive(Debug, Clone)]
pub struct LocalEvent {
    /// The record's name.
    pub name: &'static str,
    /// A management event; else a data event.
    pub is_management: bool,
    /// Whether it changes nothing.
    pub is_read_only: bool,
    /// What was asked.
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

fn seed() -> u64 {
    let mut bytes = [0; 8];
    // Ids only have to differ; without random bytes they still do.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// An id in the form of a UUID; different numbers have different ones.
fn id_of(number: u64) -> String {
    let (a, b) = (mixed(number), mixed(number ^ 0x5851_f42d_4c95_7f2d));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        0x8000 | b >> 48 & 0x3fff,
        b & 0xffff_ffff_ffff
    )
}

/// An id that no other process gives out.
pub(crate) fn random_id() -> String {
    id_of(seed())
}

pub(crate) fn local_caller() -> Caller {
    Caller {
        user_agent: concat!("headwater/", env!("CARGO_PKG_VERSION")).into(),
        ..Caller::default()
    }
}

/// SplitMix64's mixing step: different numbers stay different.
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Api {
    /// Of its parts.
    pub fn new(parts: ApiParts) -> Self {
        Self {
            throttle: Throttle::new(parts.settings.limits),
            streams: parts.streams,
            settings: parts.settings,
            sealer: parts.sealer,
            metrics: Metrics::default(),
            keys: parts.keys,
            verifier: Verifier::default(),
            audit: parts.audit,
            refusals: Refusals::default(),
            ids: AtomicU64::new(seed()),
            readers: AtomicU64::new(seed()),
        }
    }

    /// The streams that are served.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The config's section.
    pub fn settings(&self) -> &ApiConfig {
        &self.settings
    }

    /// What was counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Where calls are recorded.
    pub fn audit(&self) -> Option<&std::sync::Arc<Audit>> {
        self.audit.as_ref()
    }

    /// Reads the access keys again if their file has changed.
    pub fn refresh_keys(&self) {
        self.keys.refresh();
    }

    /// An id in the form of a UUID.
    pub(crate) fn new_id(&self) -> String {
        id_of(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn new_reader(&self) -> u64 {
        mixed(self.readers.fetch_add(1, Ordering::Relaxed))
    }

    /// Answers one request. Never panics, whatever it holds.
    pub fn answer(&self, request: &Incoming<'_>) -> Outgoing {
        let began = Instant::now();
        let asked = wire::route(request.method, request.uri.path(), request.headers);
        let request_id = self.new_id();
        let result = self.verified(request, asked, &request_id, began);
        let is_known = result
            .as_ref()
            .err()
            .is_none_or(|error| !error.code.is_of_signature());
        let (status, body) = match result {
            Ok(body) => (200, body),
            Err(error) => (
                error.code.status(asked.service),
                asked.encoding.write_error(&error),
            ),
        };
        Outgoing {
            status,
            encoding: asked.encoding,
            request_id,
            body,
            is_known,
        }
    }

    fn verified(
        &self,
        request: &Incoming<'_>,
        asked: Asked,
        request_id: &str,
        began: Instant,
    ) -> Result<Vec<u8>, ApiError> {
        let now_us = self.streams.now_us();
        let signed = Signed {
            method: request.method,
            uri: request.uri,
            headers: request.headers,
            body: request.body,
        };
        let scope = (asked.service, self.settings.region.as_str());
        let key = self
            .verifier
            .verify(&signed, &self.keys.keys(), scope, now_us);
        let operation = asked.operation.ok_or_else(|| {
            ApiError::new(Code::UnknownOperation, "there is no such operation here")
        });
        let (key, operation) = match (key, operation) {
            (Ok(key), Ok(operation)) => (key, operation),
            (Err(error), operation) => {
                // Whose calls are refused is for the audit and the metrics as well.
                if let Ok(operation) = operation {
                    let about = (operation, None);
                    let millis = began.elapsed().as_secs_f64() * 1000.0;
                    self.metrics.ended(about, Err(&error), (now_us, millis));
                    self.record_refused(request, operation, &error, request_id);
                }
                return Err(error);
            }
            (_, Err(error)) => return Err(error),
        };
        let principal = Principal::Key(key.clone());
        let mut call = self.call(
            (operation, asked.encoding),
            &principal,
            request.caller,
            now_us,
        );
        let result = self
            .throttle
            .call(&key.id, operation == Operation::GetRecords)
            .and_then(|()| operations::dispatch(&mut call, request.body));
        self.end(&call, result.as_ref().map(|_| ()), request_id, began);
        result
    }

    fn call<'a>(
        &'a self,
        (operation, encoding): (Operation, Encoding),
        principal: &'a Principal,
        caller: &'a Caller,
        now_us: i64,
    ) -> Call<'a> {
        Call {
            api: self,
            operation,
            encoding,
            principal,
            caller,
            now_us,
            parameters: serde_json::Map::new(),
            resources: Vec::new(),
            subject: None,
        }
    }

    fn end(
        &self,
        call: &Call<'_>,
        outcome: Result<(), &ApiError>,
        request_id: &str,
        began: Instant,
    ) {
        let millis = began.elapsed().as_secs_f64() * 1000.0;
        let subject = call.subject.as_ref();
        self.metrics
            .ended((call.operation, subject), outcome, (call.now_us, millis));
        let Some(audit) = &self.audit else { return };
        audit.record(&Happened {
            facts: call.operation.facts(),
            principal: Some(call.principal),
            caller: call.caller,
            parameters: &call.parameters,
            resources: &call.resources,
            error: outcome.err(),
            request_id,
            event_id: &self.new_id(),
            at_us: call.now_us,
        });
    }

    fn record_refused(
        &self,
        request: &Incoming<'_>,
        operation: Operation,
        error: &ApiError,
        request_id: &str,
    ) {
        self.tell_skipped(false);
        if !self.refusals.is_recorded(request.caller, error) {
            return;
        }
        let Some(audit) = &self.audit else { return };
        audit.record(&Happened {
            facts: operation.facts(),
            principal: None,
            caller: request.caller,
            parameters: &serde_json::Map::new(),
            resources: &[],
            error: Some(error),
            request_id,
            event_id: &self.new_id(),
            at_us: self.streams.now_us(),
        });
    }

    /// Records how many calls with a refused signature were not recorded one by one, once their minute is over, or
    /// `at_once`.
    pub(crate) fn tell_skipped(&self, at_once: bool) {
        let (Some(skipped), Some(audit)) = (self.refusals.take(at_once), &self.audit) else {
            return;
        };
        let mut parameters = serde_json::Map::new();
        parameters.insert("count".into(), skipped.count.into());
        audit.record(&Happened {
            facts: Facts {
                service: Service::Streams,
                name: "RefusedCalls",
                action: "",
                event: "RefusedCalls",
                is_management: true,
                is_read_only: true,
            },
            principal: None,
            caller: &skipped.caller,
            parameters: &parameters,
            resources: &[],
            error: Some(&skipped.error),
            request_id: &self.new_id(),
            event_id: &self.new_id(),
            at_us: self.streams.now_us(),
        });
    }

    /// Records what a user of this machine did by other ways than the API's operations; `refused` tells why it was not
    /// done.
    pub fn record_local(&self, user: &LocalUser, event: LocalEvent, refused: Option<&str>) {
        if let Some(audit) = &self.audit {
            audit.record_local(user, &event, refused, self.streams.now_us());
        }
    }

    /// Does one thing for a user of this machine, as a call like any other: recorded and counted.
    pub(crate) fn locally<T>(
        &self,
        operation: Operation,
        user: &LocalUser,
        body: impl FnOnce(&mut Call<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let began = Instant::now();
        let principal = Principal::Local(user.clone());
        let caller = local_caller();
        let now_us = self.streams.now_us();
        let mut call = self.call((operation, Encoding::Json), &principal, &caller, now_us);
        let result = body(&mut call);
        let request_id = self.new_id();
        self.end(&call, result.as_ref().map(|_| ()), &request_id, began);
        result
    }
}
