//! The `api:` section of a pipeline's config.

use crate::record_json::RecordText;
use crate::throttle::Limits;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use stream::Identity;

/// The API that any AWS SDK reads change streams through.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiConfig {
    /// Address of the first listener. Default 127.0.0.1:8410.
    pub listen: String,
    /// TLS of the first listener. Default: none; an address that others can reach needs it.
    pub tls: Option<TlsConfig>,
    /// A file with an IAM policy that every call through the first listener needs too, besides what its key allows.
    /// Default: everything is allowed.
    pub policy_file: Option<PathBuf>,
    /// Lets the first listener be reached by others without TLS. Default false.
    pub allow_plain: bool,
    /// Further listeners, each with its own policy: what a private endpoint is in AWS. Default: none.
    pub listeners: Vec<ListenerConfig>,
    /// The file with access keys and their policies; read again when it changes. Default: none, every call is refused.
    pub credentials_file: Option<PathBuf>,
    /// First field of every ARN: `aws` or `aws-cn`. Default aws.
    pub partition: String,
    /// The region that SDKs have to be set to. Default us-east-1.
    pub region: String,
    /// The account in every ARN, 12 digits. Default 000000000000.
    pub account: String,
    /// Limits on calls.
    pub limits: Limits,
    /// How values look that the service's model leaves open.
    pub records: RecordText,
    /// The audit trail. Default: on, beside the journal.
    pub audit: AuditConfig,
    /// Threads that work on calls. Default 2.
    pub threads: usize,
}

impl Default for ApiConfig {
    fn default() -> Self {
        let identity = Identity::default();
        Self {
            listen: "127.0.0.1:8410".into(),
            tls: None,
            policy_file: None,
            allow_plain: false,
            listeners: Vec::new(),
            credentials_file: None,
            partition: identity.partition,
            region: identity.region,
            account: identity.account,
            limits: Limits::default(),
            records: RecordText::default(),
            audit: AuditConfig::default(),
            threads: 2,
        }
    }
}

/// One more listener.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenerConfig {
    /// Its address, `host:port`.
    pub listen: String,
    /// TLS. Default: none; an address that others can reach needs it.
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    /// A file with an IAM policy that every call through it needs too. Default: everything is allowed.
    #[serde(default)]
    pub policy_file: Option<PathBuf>,
    /// Lets it be reached by others without TLS. Default false.
    #[serde(default)]
    pub allow_plain: bool,
}

/// TLS of a listener.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file with the certificate and its chain.
    pub certificate: PathBuf,
    /// PEM file with its private key.
    pub key: PathBuf,
    /// PEM file with the authorities of client certificates; without one of theirs a client is not let in. Default: clients
    /// need no certificate.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

/// The audit trail.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// Whether there is one. Default true.
    pub enabled: bool,
    /// Its directory. Default: the journal directory's name with `.audit`, beside it.
    pub dir: Option<PathBuf>,
    /// Whether reads are recorded too (GetShardIterator, GetRecords, tails): CloudTrail's data events. Default true.
    pub data_events: bool,
    /// Bytes after which a new file is begun. Default 64 MiB.
    pub file_bytes: u64,
    /// Files that are kept; older ones are removed. Default 0: all.
    pub files_max: usize,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            dir: None,
            data_events: true,
            file_bytes: 64 << 20,
            files_max: 0,
        }
    }
}

impl ApiConfig {
    /// The first fields of every ARN.
    pub fn identity(&self) -> Identity {
        Identity {
            partition: self.partition.clone(),
            region: self.region.clone(),
            account: self.account.clone(),
        }
    }

    /// All listeners, the first one first.
    pub fn all_listeners(&self) -> Vec<ListenerConfig> {
        let first = ListenerConfig {
            listen: self.listen.clone(),
            tls: self.tls.clone(),
            policy_file: self.policy_file.clone(),
            allow_plain: self.allow_plain,
        };
        std::iter::once(first)
            .chain(self.listeners.iter().cloned())
            .collect()
    }

    /// Makes paths full.
    pub fn resolve_paths(&mut self, full: impl Fn(&std::path::Path) -> PathBuf) {
        let fix = |path: &mut Option<PathBuf>| {
            if let Some(path) = path {
                *path = full(path);
            }
        };
        let fix_tls = |tls: &mut Option<TlsConfig>| {
            if let Some(tls) = tls {
                tls.certificate = full(&tls.certificate);
                tls.key = full(&tls.key);
                fix(&mut tls.client_ca);
            }
        };
        fix(&mut self.policy_file);
        fix(&mut self.credentials_file);
        fix(&mut self.audit.dir);
        fix_tls(&mut self.tls);
        for listener in &mut self.listeners {
            fix(&mut listener.policy_file);
            fix_tls(&mut listener.tls);
        }
    }

    /// Whether it can be served.
    ///
    /// Errors: the key that is wrong, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        self.identity()
            .check()
            .map_err(|text| format!("api: {text}"))?;
        self.limits.check().map_err(|text| format!("api.{text}"))?;
        if !(1..=64).contains(&self.threads) {
            return Err("api.threads is 1 to 64".into());
        }
        if self.audit.file_bytes < 64 << 10 {
            return Err("api.audit.file_bytes is 65536 at least".into());
        }
        for listener in self.all_listeners() {
            let address = &listener.listen;
            let loopback = match address.parse::<SocketAddr>() {
                Ok(address) => address.ip().is_loopback(),
                Err(_) => address.starts_with("localhost:"),
            };
            if !loopback && listener.tls.is_none() && !listener.allow_plain {
                return Err(format!(
                    "api: {address} can be reached by others, and rows would cross the network in the clear; give it \
                     `tls: {{certificate: …, key: …}}`, or say `allow_plain: true`"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_may_be_plain() {
        assert!(ApiConfig::default().check().is_ok());
        let open = ApiConfig {
            listen: "0.0.0.0:8410".into(),
            ..ApiConfig::default()
        };
        assert!(open.check().unwrap_err().contains("allow_plain"));
        let said = ApiConfig {
            allow_plain: true,
            ..open.clone()
        };
        assert!(said.check().is_ok());
        let tls = ApiConfig {
            tls: Some(TlsConfig::default()),
            ..open
        };
        assert!(tls.check().is_ok());
        let wrong = ApiConfig {
            account: "1".into(),
            ..ApiConfig::default()
        };
        assert!(wrong.check().unwrap_err().contains("12 digits"));
    }
}
