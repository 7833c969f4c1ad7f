//! Encryption and authentication.

use crate::Refused;
use rdkafka::config::ClientConfig;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// Encryption and authentication.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// Default plaintext.
    pub protocol: Protocol,
    /// SASL mechanism; needed with a `sasl_` protocol.
    pub mechanism: Option<Mechanism>,
    /// User for PLAIN and SCRAM.
    pub username: Option<String>,
    /// Password for PLAIN and SCRAM.
    pub password: Option<String>,
    /// CA certificates, PEM file. Default: the system's.
    pub ca: Option<PathBuf>,
    /// Client certificate, PEM file.
    pub certificate: Option<PathBuf>,
    /// Client key, PEM file.
    pub key: Option<PathBuf>,
    /// Password of the client key.
    pub key_password: Option<String>,
    /// Whether the broker's certificate must name its host. Default true.
    pub verify_hostname: Option<bool>,
    /// File with the OAUTHBEARER token; read again before the token ends.
    pub token_file: Option<PathBuf>,
    /// Principal of the OAUTHBEARER token. Default `headwater`; brokers usually take it from the token.
    pub token_principal: Option<String>,
    /// Seconds after which the token file is read again. Default 300.
    pub token_lifetime_s: Option<u32>,
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Security")
            .field("protocol", &self.protocol)
            .field("mechanism", &self.mechanism)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// The protocol of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Neither encrypted nor authenticated.
    #[default]
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL without TLS.
    SaslPlaintext,
    /// SASL over TLS.
    SaslSsl,
}

/// A SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Mechanism {
    /// User and password in clear; use TLS.
    #[serde(rename = "PLAIN")]
    Plain,
    /// Salted challenge and response, SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// Salted challenge and response, SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// A bearer token from a file.
    #[serde(rename = "OAUTHBEARER")]
    OauthBearer,
}

impl Security {
    /// Whether clients want a token before they are asked anything: see [`crate::give_token`].
    pub fn wants_token(&self) -> bool {
        let is_sasl = matches!(self.protocol, Protocol::SaslPlaintext | Protocol::SaslSsl);
        is_sasl && self.mechanism == Some(Mechanism::OauthBearer)
    }

    pub(crate) fn apply(&self, client: &mut ClientConfig) -> Result<(), Refused> {
        let (protocol, sasl) = match self.protocol {
            Protocol::Plaintext => ("plaintext", false),
            Protocol::Ssl => ("ssl", false),
            Protocol::SaslPlaintext => ("sasl_plaintext", true),
            Protocol::SaslSsl => ("sasl_ssl", true),
        };
        client.set("security.protocol", protocol);
        let files = [
            ("ssl.ca.location", &self.ca),
            ("ssl.certificate.location", &self.certificate),
            ("ssl.key.location", &self.key),
        ];
        for (name, file) in files {
            if let Some(file) = file {
                client.set(name, file.display().to_string());
            }
        }
        if let Some(password) = &self.key_password {
            client.set("ssl.key.password", password);
        }
        if self.verify_hostname == Some(false) {
            client.set("ssl.endpoint.identification.algorithm", "none");
        }
        if !sasl {
            return Ok(());
        }
        let mechanism = match self.mechanism {
            Some(Mechanism::Plain) => "PLAIN",
            Some(Mechanism::ScramSha256) => "SCRAM-SHA-256",
            Some(Mechanism::ScramSha512) => "SCRAM-SHA-512",
            Some(Mechanism::OauthBearer) => "OAUTHBEARER",
            None => {
                return Err(Refused::new(
                    "security.mechanism is missing",
                    "name it for a sasl_ protocol",
                ));
            }
        };
        client.set("sasl.mechanism", mechanism);
        if self.mechanism == Some(Mechanism::OauthBearer) {
            return match self.token_file {
                Some(_) => Ok(()),
                None => Err(Refused::new(
                    "security.token_file is missing",
                    "OAUTHBEARER reads its token there",
                )),
            };
        }
        let (Some(user), Some(password)) = (&self.username, &self.password) else {
            return Err(Refused::new("security.username or password is missing", ""));
        };
        client.set("sasl.username", user);
        client.set("sasl.password", password);
        Ok(())
    }
}
