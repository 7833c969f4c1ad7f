//! One call: who makes it, what it is about, and whether it may.

use crate::api::Api;
use crate::error::{ApiError, Code};
use crate::keys::AccessKey;
use crate::metrics::{Metric, Subject};
use crate::operations::Operation;
use crate::policy::{Ask, Policy, Verdict, judge};
use crate::wire::{Encoding, Service};
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::sync::Arc;
use stream::{Arn, Resource, Streams, TableInfo};

/// A user of this machine: through the local socket, which only the pipeline's own user may open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalUser {
    /// Its number.
    pub uid: u32,
    /// Its name; the number where it has none.
    pub name: String,
}

impl LocalUser {
    /// The user that runs this process.
    pub fn me() -> Self {
        use std::os::unix::fs::MetadataExt;
        Self::of(std::fs::metadata("/proc/self").map_or(u32::MAX, |meta| meta.uid()))
    }

    /// The user with this number, named by `/etc/passwd` where it stands there.
    pub fn of(uid: u32) -> Self {
        let all = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name = all.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse::<u32>().ok()? == uid).then(|| name.to_owned())
        });
        Self {
            uid,
            name: name.unwrap_or_else(|| uid.to_string()),
        }
    }
}

/// Who makes a call.
#[derive(Debug, Clone)]
pub enum Principal {
    /// The owner of an access key.
    Key(Arc<AccessKey>),
    /// A user of this machine. May do everything: whoever opens the socket owns the journal.
    Local(LocalUser),
}

impl Principal {
    /// Its name.
    pub fn user(&self) -> &str {
        match self {
            Principal::Key(key) => &key.user,
            Principal::Local(user) => &user.name,
        }
    }
}

/// TLS as audit records tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsDetails {
    /// As `TLSv1.3`.
    pub version: String,
    /// The cipher suite's name.
    pub cipher_suite: String,
}

/// Where a call comes from.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The other end; none for the local socket.
    pub address: Option<SocketAddr>,
    /// Number of the connection; calls on one connection come from one process.
    pub connection: u64,
    /// What the listener allows; none for everything.
    pub policy: Option<Arc<Policy>>,
    /// Of an encrypted connection.
    pub tls: Option<TlsDetails>,
    /// The `Host` header.
    pub host: String,
    /// The `User-Agent` header.
    pub user_agent: String,
}

/// One call on its way.
pub(crate) struct Call<'a> {
    pub api: &'a Api,
    pub operation: Operation,
    pub encoding: Encoding,
    pub principal: &'a Principal,
    pub caller: &'a Caller,
    pub now_us: i64,
    /// `requestParameters` of its audit record.
    pub parameters: Map<String, Value>,
    /// ARNs of what it is about.
    pub resources: Vec<String>,
    /// What metrics count it under.
    pub subject: Option<Subject>,
}

impl<'a> Call<'a> {
    pub fn streams(&self) -> &'a Streams {
        &self.api.streams
    }

    fn service(&self) -> Service {
        self.operation.service()
    }

    /// Notes a parameter for the audit.
    pub fn note(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            // A stranger decides how long it is.
            let shown: String = value.chars().take(1024).collect();
            self.parameters.insert(name.to_owned(), shown.into());
        }
    }

    /// Notes which table and stream it is about.
    pub fn touch(&mut self, keyspace: &str, table: &str, label: Option<String>) {
        self.subject = Some(Subject {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            label,
        });
    }

    /// Notes the stream that it is about. Errors: `InvalidFormat` for what is no stream's ARN.
    pub fn touch_stream(&mut self, arn: &str) -> Result<(), ApiError> {
        match Arn::parse(arn) {
            Ok(Arn::Stream {
                keyspace,
                table,
                label,
                ..
            }) => {
                self.touch(&keyspace, &table, Some(label.to_string()));
                Ok(())
            }
            _ => Err(ApiError::invalid(
                "this is not the ARN of a stream; ListStreams names them",
            )),
        }
    }

    /// What can be tagged under this ARN. Errors: `InvalidFormat`.
    pub fn resource(&self, arn: &str) -> Result<Resource, ApiError> {
        Ok(
            match Arn::parse(arn).map_err(|error| self.refusal(&error))? {
                Arn::Keyspace { keyspace, .. } => Resource::Keyspace(keyspace),
                Arn::Table {
                    keyspace, table, ..
                } => Resource::Table(keyspace, table),
                Arn::Stream { .. } => Resource::Stream(arn.to_owned()),
            },
        )
    }

    /// Whether the ARN is one of this server. Errors: `ResourceNotFoundException`.
    pub fn check_identity(&self, arn: &str) -> Result<(), ApiError> {
        let ours = format!("{}:", self.streams().identity());
        match arn.starts_with(&ours) {
            true => Ok(()),
            false => {
                Err(self.not_found("the resource is not of this account, region and partition"))
            }
        }
    }

    /// One table.
    pub fn table(&self, keyspace: &str, table: &str) -> Result<TableInfo, ApiError> {
        self.streams()
            .table(keyspace, table)
            .map_err(|error| self.refusal(&error))
    }

    /// Whether the caller may do this with that.
    ///
    /// Errors: `AccessDeniedException`, telling whose policy is missing.
    pub fn authorize(&mut self, resource: &str) -> Result<(), ApiError> {
        self.resources.push(resource.to_owned());
        let Principal::Key(key) = self.principal else {
            return Ok(());
        };
        let action = self.operation.facts().action;
        let ask = Ask {
            action,
            resource,
            principal: &key.arn,
            user: &key.user,
            address: self.caller.address.map(|address| address.ip()),
            is_encrypted: self.caller.tls.is_some(),
        };
        let by_key = judge(key.policies.iter().map(|policy| &**policy), &ask);
        let by_listener = match &self.caller.policy {
            Some(policy) => judge([&**policy], &ask),
            None => Verdict::Allowed,
        };
        let why = match (by_key, by_listener) {
            (Verdict::Allowed, Verdict::Allowed) => return Ok(()),
            (Verdict::Denied, _) => "with an explicit deny in a policy of the key",
            (_, Verdict::Denied) => "with an explicit deny in the policy of the endpoint",
            (Verdict::Silent, _) => "because no policy of the key allows it",
            (_, Verdict::Silent) => "because the policy of the endpoint does not allow it",
        };
        Err(ApiError::new(
            Code::AccessDenied,
            format!(
                "user {} is not authorized to perform {action} on {resource} {why}",
                key.arn
            ),
        ))
    }

    /// An error of streams as this call's service names it.
    pub fn refusal(&self, error: &stream::Error) -> ApiError {
        let mut refusal = ApiError::from_stream(error, self.service());
        self.name_resource(&mut refusal);
        refusal
    }

    pub fn not_found(&self, text: &str) -> ApiError {
        let mut refusal = ApiError::new(Code::ResourceNotFound, text);
        self.name_resource(&mut refusal);
        refusal
    }

    /// The control plane tells what it did not find.
    fn name_resource(&self, refusal: &mut ApiError) {
        if refusal.code == Code::ResourceNotFound && self.service() == Service::Keyspaces {
            refusal.resource = self.resources.last().cloned();
        }
    }

    /// Counts a value under the call's stream.
    pub fn measure(&self, metric: Metric, value: f64) {
        let about = (self.operation, self.subject.as_ref());
        self.api.metrics.measure(metric, about, self.now_us, value);
    }

    /// Counts records that are returned.
    pub fn returned(&self, count: u64) {
        if let Some(subject) = &self.subject {
            self.api.metrics.returned(subject, count);
        }
    }
}
