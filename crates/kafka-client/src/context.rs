//! What the client tells between calls: logs, its last trouble, and the wish for a new token.

use crate::Security;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The part of a client's context that every client has; one that needs more wraps it.
#[derive(Debug, Clone, Default)]
pub struct Context {
    trouble: Arc<Mutex<Option<KafkaError>>>,
    token_file: Option<PathBuf>,
    token_principal: String,
    token_lifetime: Duration,
}

impl Context {
    /// The context of a connection with this security.
    pub fn new(security: &Security) -> Self {
        let seconds = security.token_lifetime_s.unwrap_or(300);
        Self {
            trouble: Arc::default(),
            token_file: security.token_file.clone(),
            token_principal: security
                .token_principal
                .clone()
                .unwrap_or_else(|| "headwater".into()),
            token_lifetime: Duration::from_secs(u64::from(seconds)),
        }
    }

    /// Takes the last trouble of the connection, for the error of a call that timed out.
    pub fn take_trouble(&self) -> Option<KafkaError> {
        self.trouble.lock().ok()?.take()
    }
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => tracing::warn!(target: "kafka", facility, "{message}"),
            _ => tracing::debug!(target: "kafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "kafka", "{error}: {reason}");
        // "All brokers are down" follows a refused login: the first says more.
        let telling = |error: &KafkaError| {
            matches!(
                error.rdkafka_error_code(),
                Some(
                    RDKafkaErrorCode::Authentication
                        | RDKafkaErrorCode::SaslAuthenticationFailed
                        | RDKafkaErrorCode::SSL
                )
            )
        };
        if let Ok(mut trouble) = self.trouble.lock()
            && !trouble.as_ref().is_some_and(telling)
        {
            *trouble = Some(error);
        }
    }

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let Some(path) = &self.token_file else {
            return Err("security.token_file is not set".into());
        };
        let token = std::fs::read_to_string(path)
            .map_err(|error| format!("read token file {}: {error}", path.display()))?;
        let end = SystemTime::now().duration_since(UNIX_EPOCH)? + self.token_lifetime;
        Ok(OAuthToken {
            token: token.trim().to_owned(),
            principal_name: self.token_principal.clone(),
            lifetime_ms: i64::try_from(end.as_millis())?,
        })
    }
}

impl ConsumerContext for Context {}
