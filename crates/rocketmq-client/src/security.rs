//! Encryption and authentication.

use crate::Refused;
use rocketmq_client_rust::{AclClientRPCHook, ClientConfig, SessionCredentials};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Encryption and authentication.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// Whether connections are encrypted. Default false.
    pub tls: bool,
    /// CA certificates, PEM file. Default: the system's.
    pub ca: Option<PathBuf>,
    /// Client certificate, PEM file.
    pub certificate: Option<PathBuf>,
    /// Client key, PEM file.
    pub key: Option<PathBuf>,
    /// Password of the client key.
    pub key_password: Option<String>,
    /// Whether the servers' certificates are checked: that the CA signed them, and that they name the
    /// host. Default true.
    pub verify_certificate: Option<bool>,
    /// Access key (user name) of ACL.
    pub access_key: Option<String>,
    /// Secret key (password) of ACL.
    pub secret_key: Option<String>,
    /// Security token that belongs to temporary keys.
    pub security_token: Option<String>,
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Security")
            .field("tls", &self.tls)
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

impl Security {
    pub(crate) fn validate(&self) -> Result<(), Refused> {
        if self.access_key.is_some() != self.secret_key.is_some() {
            return Err(Refused::new(
                "security needs both access_key and secret_key, or neither",
                "",
            ));
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Err(Refused::new(
                "security needs both certificate and key, or neither",
                "",
            ));
        }
        let files = [&self.ca, &self.certificate, &self.key];
        if !self.tls && files.iter().any(|file| file.is_some()) {
            return Err(Refused::new(
                "security names certificates without tls: true",
                "set security.tls: true",
            ));
        }
        for file in files.into_iter().flatten() {
            if let Err(error) = std::fs::File::open(file) {
                return Err(Refused::new(
                    format!("read {}: {error}", file.display()),
                    "check the paths under security",
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn apply(&self, client: &mut ClientConfig) {
        if !self.tls {
            return;
        }
        let path = |file: &Option<PathBuf>| file.as_ref().map(|f| f.display().to_string());
        client.set_use_tls(true);
        let tls = &mut client.tls_config.client;
        tls.trust_cert_path = path(&self.ca);
        tls.cert_path = path(&self.certificate);
        tls.key_path = path(&self.key);
        tls.key_password.clone_from(&self.key_password);
        tls.auth_server = self.verify_certificate.unwrap_or(true);
    }

    /// What signs requests, where there is an access key.
    pub(crate) fn signer(&self) -> Option<Arc<AclClientRPCHook>> {
        let (Some(access), Some(secret)) = (&self.access_key, &self.secret_key) else {
            return None;
        };
        let keys = match &self.security_token {
            Some(token) => {
                SessionCredentials::with_token(access.clone(), secret.clone(), token.clone())
            }
            None => SessionCredentials::with_keys(access.clone(), secret.clone()),
        };
        Some(Arc::new(AclClientRPCHook::new(keys)))
    }
}
