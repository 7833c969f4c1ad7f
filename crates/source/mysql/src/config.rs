//! What a user writes under `source.mysql` or `source.mariadb`.

use crate::binlog::mask::MaskKey;
use crate::capture::columns::{ColumnRules, Mask, TableRules};
use crate::capture::selection::{PatternError, Selection};
use change::SourceError;
use change::contract::ErrorKind;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A MySQL or MariaDB server and what is captured from it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MysqlConfig {
    /// `mysql://user:password@host:port`; the port defaults to 3306. Characters such as `@` or `/` in
    /// user and password are percent-encoded. No default.
    pub url: Secret,
    /// How the connection is encrypted. Default: `preferred`.
    #[serde(default)]
    pub tls: TlsConfig,
    /// Patterns `database.table`, with `*` and `?`; `!` in front excludes. Default: every table of every
    /// database but the server's own.
    #[serde(default)]
    pub tables: Vec<String>,
    /// By `database.table`: columns that are excluded or masked before anything is stored. Default:
    /// none.
    #[serde(default)]
    pub columns: BTreeMap<String, ColumnsConfig>,
    /// Key of `sha256` masks; empty for plain SHA-256. Default: empty.
    #[serde(default)]
    pub mask_key: Secret,
    /// Whether the rows that exist are copied first. Default: `initial`.
    #[serde(default)]
    pub snapshot: SnapshotMode,
    /// Where a fresh journal starts. Default: where the server's log ends now.
    #[serde(default)]
    pub start: Option<StartConfig>,
    /// The number under which this client reads the log; no other replica may have it. Range: 1 to
    /// 4294967295. Default: random at each start, in the range from
    /// 3,000,000,000.
    #[serde(default)]
    pub server_id: Option<u32>,
    /// How often the server says that it lives while its log is quiet, seconds. Range: 1 to 3600.
    /// Default: 10.
    #[serde(default = "default_heartbeat")]
    pub heartbeat_seconds: u32,
    /// How the copy is made.
    #[serde(default)]
    pub snapshot_options: SnapshotConfig,
}

fn default_heartbeat() -> u32 {
    10
}

/// A text that never appears in messages.
#[derive(Clone, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(transparent)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// How the connection is encrypted.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// Default: `preferred`.
    #[serde(default)]
    pub mode: TlsMode,
    /// PEM file with the authorities that may sign the server's certificate. Default: the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// PEM file with the client's certificate and those above it. Default: none.
    #[serde(default)]
    pub cert: Option<PathBuf>,
    /// PEM file with the client's private key. Default: none.
    #[serde(default)]
    pub key: Option<PathBuf>,
}

/// Modes of encryption, as the servers' own clients name them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// In clear.
    Disabled,
    /// Encrypted if the server can; its certificate is not checked.
    #[default]
    Preferred,
    /// Encrypted; the certificate is not checked.
    Required,
    /// Encrypted; the certificate must be signed by an authority.
    VerifyCa,
    /// As `verify-ca`, and the certificate must be of the host's name.
    VerifyFull,
}

/// Columns of one table.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnsConfig {
    /// Stored nowhere. Key columns cannot be excluded. Default: none.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Replaced, by column. Default: none.
    #[serde(default)]
    pub mask: BTreeMap<String, MaskConfig>,
}

/// What stands instead of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MaskConfig {
    /// SHA-256 (HMAC where `mask_key` is set), in hex.
    Sha256,
    /// NULL.
    Null,
    /// The same as `null`.
    Redact,
}

/// Whether the rows that exist are copied first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotMode {
    /// Copied, while the log is read; tables that are added later too.
    #[default]
    Initial,
    /// Only what happens from now on.
    Never,
    /// Copied, then the source ends.
    Only,
}

/// Where a fresh journal starts.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartConfig {
    /// A GTID set (MySQL) or the last GTIDs per domain (MariaDB): everything after it is read.
    #[serde(default)]
    pub gtid: Option<String>,
    /// Name of a binlog file; with `position`.
    #[serde(default)]
    pub file: Option<String>,
    /// Offset in that file. Default: 4, its beginning.
    #[serde(default)]
    pub position: Option<u64>,
}

/// How the copy is made.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotConfig {
    /// Rows per chunk. Range: 100 to 1000000. Default: 8192.
    pub chunk_rows: u64,
    /// Bytes that one chunk and the changes held for it may take; more makes chunks smaller. Range:
    /// 1 MiB and up. Default: 33554432 (32 MiB).
    pub chunk_bytes_max: usize,
    /// Connections that copy. Range: 1 to 64. Default: 2.
    pub threads: usize,
    /// `table`: tables without a key are read under LOCK TABLES … READ where nothing else gives an
    /// exact copy. Default: never locked.
    pub lock: LockMode,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        Self {
            chunk_rows: 8192,
            chunk_bytes_max: 32 << 20,
            threads: 2,
            lock: LockMode::Never,
        }
    }
}

/// Whether tables may be locked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LockMode {
    /// Never.
    #[default]
    Never,
    /// A table without a key, while it is read.
    Table,
}

fn invalid(detail: impl Into<String>, place: &str) -> SourceError {
    SourceError::new(ErrorKind::Invalid, "configure the source", detail).at(place)
}

/// Compiles table patterns.
///
/// Errors: `Invalid` for a pattern that is not `database.table`.
pub fn selection(tables: &[String]) -> Result<Selection, SourceError> {
    Selection::new(tables).map_err(|error: PatternError| invalid(error.to_string(), "tables"))
}

/// Compiles column rules.
pub fn column_rules(columns: &BTreeMap<String, ColumnsConfig>, mask_key: &Secret) -> ColumnRules {
    let tables = columns.iter().map(|(table, config)| {
        let mask = config.mask.iter().map(|(column, mask)| {
            let mask = match mask {
                MaskConfig::Sha256 => Mask::Sha256,
                MaskConfig::Null | MaskConfig::Redact => Mask::Null,
            };
            (column.clone(), mask)
        });
        let rules = TableRules {
            exclude: config.exclude.clone(),
            mask: mask.collect(),
        };
        (table.clone(), rules)
    });
    ColumnRules {
        tables: tables.collect(),
        key: Arc::new(MaskKey::new(mask_key.0.as_bytes())),
    }
}

/// Where and as whom to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// User.
    pub user: String,
    /// Password.
    pub password: Secret,
}

impl Endpoint {
    /// Reads `mysql://user:password@host:port`.
    ///
    /// Errors: `Invalid`, without repeating the text.
    pub fn parse(url: &Secret) -> Result<Self, SourceError> {
        let bad = |what: &str| invalid(what, "url").hint("write mysql://user:password@host:port");
        let rest = ["mysql://", "mariadb://"]
            .iter()
            .find_map(|scheme| url.0.strip_prefix(scheme))
            .ok_or_else(|| bad("it does not start with mysql://"))?;
        let rest = rest.split(['/', '?']).next().unwrap_or(rest);
        let (login, address) = rest
            .rsplit_once('@')
            .ok_or_else(|| bad("it names no user"))?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = match address.strip_prefix('[').and_then(|a| a.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => match address.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            },
        };
        let port = match port {
            None | Some("") => 3306,
            Some(port) => port.parse().map_err(|_| bad("its port is no number"))?,
        };
        if host.is_empty() || user.is_empty() {
            return Err(bad("its host or user is empty"));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            user: percent_decode(user).ok_or_else(|| bad("its user cannot be read"))?,
            password: Secret(
                percent_decode(password).ok_or_else(|| bad("its password cannot be read"))?,
            ),
        })
    }
}

fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        out.push((high << 4 | low) as u8);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_bad_ones_do_not_leak() {
        let endpoint = Endpoint::parse(&"mysql://hw:p%40ss@db1:3307".into()).unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("db1", 3307));
        assert_eq!(endpoint.password.0, "p@ss");
        assert_eq!(
            Endpoint::parse(&"mysql://u@[::1]:1".into()).unwrap().host,
            "::1"
        );
        assert_eq!(Endpoint::parse(&"mysql://u@h".into()).unwrap().port, 3306);
        for bad in [
            "mysql://h",
            "http://u:secret@h",
            "mysql://u:secret@h:x",
            "mysql://u:%zz@h",
        ] {
            let error = Endpoint::parse(&bad.into()).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        assert_eq!(format!("{endpoint:?}").matches("p@ss").count(), 0);
    }
}
