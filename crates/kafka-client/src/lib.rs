//! The connection to Apache Kafka: what every client of it needs, whether it writes or reads.
//!
//! Owns: encryption and authentication, the properties that all connections share, the client's logs and
//! its last trouble, which errors of a connection are the config's. Refuses: producers, consumers and
//! topics, which are the sink's and the source's.
//!
//! Read next: [`Connection`], then [`Context`].
#![warn(missing_docs)]

mod context;
mod security;
mod token;
mod verdict;

pub use change::contract::Refused;
pub use context::Context;
pub use security::{Mechanism, Protocol, Security};
pub use token::give_token;
pub use verdict::{code_of, verdict};

use rdkafka::config::ClientConfig;
use std::collections::BTreeMap;

/// Properties that come from keys of their own, for every kind of client.
const OWN: [&str; 7] = [
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "enable.auto.commit",
];

/// Where the brokers are and how they are spoken to.
#[derive(Debug, Clone, Copy)]
pub struct Connection<'a> {
    /// Bootstrap brokers, `host:port`.
    pub brokers: &'a [String],
    /// Encryption and authentication.
    pub security: &'a Security,
    /// Further properties, as the config has them.
    pub properties: &'a BTreeMap<String, String>,
    /// Who refuses properties that it sets itself: `sink`, `source`.
    pub owner: &'a str,
    /// Properties that the owner sets itself.
    pub owned: &'a [&'a str],
}

impl Connection<'_> {
    /// The properties of every client of this connection.
    ///
    /// Errors: [`Refused`] for settings that cannot be.
    pub fn properties(&self) -> Result<ClientConfig, Refused> {
        if self.brokers.is_empty() {
            return Err(Refused::new(
                "brokers is empty",
                "name at least one host:port",
            ));
        }
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.brokers.join(","));
        client.set("client.id", "headwater");
        client.set("socket.nagle.disable", "true");
        client.set("reconnect.backoff.max.ms", "2000");
        // Brokers close what is idle for ten minutes, which would look like a fault.
        client.set("connections.max.idle.ms", "300000");
        self.security.apply(&mut client)?;
        for (name, value) in self.properties {
            if OWN.contains(&name.as_str()) || self.owned.contains(&name.as_str()) {
                let hint = match self.owner {
                    "sink" => "the sink has a key of its own for it",
                    _ => "the source sets it itself or has a key for it",
                };
                return Err(Refused::new(
                    format!("properties may not set `{name}`"),
                    hint,
                ));
            }
            client.set(name, value);
        }
        Ok(client)
    }

    /// The place that an error names.
    pub fn place(&self) -> String {
        format!("kafka {}", self.brokers.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection<'a>(
        security: &'a Security,
        properties: &'a BTreeMap<String, String>,
        brokers: &'a [String],
    ) -> Connection<'a> {
        Connection {
            brokers,
            security,
            properties,
            owner: "sink",
            owned: &["acks"],
        }
    }

    #[test]
    fn properties_pass_but_for_owned_ones() {
        let brokers = ["k1:9092".to_owned(), "k2:9092".to_owned()];
        let security = Security::default();
        let properties = |name: &str| BTreeMap::from([(name.to_owned(), "1".to_owned())]);
        let free = properties("linger.ms");
        let client = connection(&security, &free, &brokers).properties();
        let client = client.expect("the settings are right");
        assert_eq!(client.get("linger.ms"), Some("1"));
        assert_eq!(client.get("bootstrap.servers"), Some("k1:9092,k2:9092"));
        for name in ["acks", "sasl.password"] {
            let owned = properties(name);
            let refused = connection(&security, &owned, &brokers).properties();
            let refused = refused.expect_err("the property is owned");
            assert!(refused.detail.contains(name), "{refused}");
        }
        let refused = connection(&security, &free, &[]).properties();
        assert_eq!(refused.expect_err("no broker").detail, "brokers is empty");
    }

    #[test]
    fn sasl_needs_its_words() {
        let brokers = ["k1:9092".to_owned()];
        let none = BTreeMap::new();
        let mut security = Security {
            protocol: Protocol::SaslSsl,
            ..Security::default()
        };
        let detail = |security: &Security| {
            let refused = connection(security, &none, &brokers).properties();
            refused.map(drop).map_err(|refused| refused.detail)
        };
        assert_eq!(
            detail(&security),
            Err("security.mechanism is missing".into())
        );
        security.mechanism = Some(Mechanism::OauthBearer);
        assert_eq!(
            detail(&security),
            Err("security.token_file is missing".into())
        );
        security.mechanism = Some(Mechanism::ScramSha512);
        security.username = Some("hw".into());
        assert!(detail(&security).is_err());
        security.password = Some("secret".into());
        assert_eq!(detail(&security), Ok(()));
        assert!(!format!("{security:?}").contains("secret"));
    }
}
