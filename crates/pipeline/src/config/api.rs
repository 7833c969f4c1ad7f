//! The stream API in the config.

use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// Whose streams these are, and where the API listens.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiConfig {
    /// Address. Default 127.0.0.1:8410.
    pub listen: String,
    /// The file with access keys and their policies.
    pub credentials_file: Option<PathBuf>,
    /// The ARNs' partition: `aws` or `aws-cn`. Default aws.
    pub partition: String,
    /// The ARNs' region. Default us-east-1.
    pub region: String,
    /// The ARNs' account, 12 digits. Default 000000000000.
    pub account: String,
}

impl Default for ApiConfig {
    fn default() -> Self {
        let identity = stream::Identity::default();
        Self {
            listen: "127.0.0.1:8410".into(),
            credentials_file: None,
            partition: identity.partition,
            region: identity.region,
            account: identity.account,
        }
    }
}

impl ApiConfig {
    /// The first fields of every ARN.
    pub fn identity(&self) -> stream::Identity {
        stream::Identity {
            partition: self.partition.clone(),
            region: self.region.clone(),
            account: self.account.clone(),
        }
    }
}
