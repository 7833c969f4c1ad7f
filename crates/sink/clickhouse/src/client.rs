//! The connection: statements, small answers, inserts with retries, over HTTP or HTTPS.

use crate::config::{ClickHouseConfig, Compression};
use crate::error::{Refused, SETTING_CONSTRAINT_VIOLATION, code, invalid};
use crate::names::{literal, quote};
use crate::server::Version;
use bytes::Bytes;
use change::SinkError;
use change::contract::ErrorKind;
use clickhouse::error::Error;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Bytes that are handed to the connection at once.
const CHUNK_BYTES: usize = 1 << 20;
/// An insert whose answer was lost is sent again, with its token, so often.
const TRIES: u32 = 3;

/// One connection pool and the runtime that drives it; each thread that talks has its own.
pub(crate) struct Client {
    runtime: Runtime,
    client: clickhouse::Client,
    place: String,
    timeout: Duration,
    /// See [`drops_any_size`](Self::drops_any_size).
    drops_any_size: bool,
}

/// Settings of one statement.
pub(crate) type Settings<'a> = &'a [(&'a str, &'a str)];

/// A server refuses to drop what is larger than 50 GB, unless the statement says otherwise. What the sink
/// drops it has made, and what it replaces it keeps in another table.
const ANY_SIZE: [(&str, &str); 2] = [
    ("max_table_size_to_drop", "0"),
    ("max_partition_size_to_drop", "0"),
];

impl Client {
    /// Connects lazily. `label` marks the sink's statements in the server's own lists.
    ///
    /// Errors: `Invalid` for an address or authorities that cannot be.
    pub(crate) fn new(config: &ClickHouseConfig, label: &str) -> Result<Self, SinkError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| {
                SinkError::new(ErrorKind::Internal, "start the client", error.to_string())
            })?;
        let http = match &config.ca {
            None => clickhouse::Client::default(),
            Some(ca) => with_authorities(ca)?,
        };
        let compression = match config.compression {
            Compression::Lz4 => clickhouse::Compression::Lz4,
            Compression::Zstd => clickhouse::Compression::zstd(),
            Compression::None => clickhouse::Compression::None,
        };
        let client = http
            .with_url(&config.url)
            .with_user(&config.user)
            .with_password(&config.password)
            .with_compression(compression)
            .with_setting("log_comment", label)
            .with_setting("async_insert", "0")
            // A copy of years of a table by month is one insert all the same.
            .with_setting("max_partitions_per_insert_block", "0")
            .with_setting("max_query_size", "67108864");
        Ok(Self {
            runtime,
            client,
            place: format!("clickhouse {}", without_userinfo(&config.url)),
            timeout: Duration::from_secs(config.timeout_s),
            drops_any_size: false,
        })
    }

    /// The same, for a server of this version.
    pub(crate) fn for_version(mut self, version: Version) -> Self {
        self.drops_any_size = version.drops_any_size();
        self
    }

    fn error(&self, operation: &str, error: &Error) -> SinkError {
        let (kind, detail, hint) = match error {
            Error::BadResponse(body) => {
                let refused = Refused::parse(body);
                let (kind, hint) = refused.verdict();
                (kind, refused.text, hint)
            }
            Error::TimedOut => (
                ErrorKind::Unavailable,
                "no answer in time".to_owned(),
                "see timeout_s",
            ),
            Error::InvalidParams(inner) => (ErrorKind::Invalid, inner.to_string(), "check url"),
            other => (
                ErrorKind::Unavailable,
                chain(other),
                "is the server up, and is the address right?",
            ),
        };
        SinkError::new(kind, operation, detail)
            .at(self.place.clone())
            .hint(hint)
    }

    fn with(&self, settings: Settings<'_>) -> clickhouse::Client {
        let mut client = self.client.clone();
        for (name, value) in settings {
            client.set_setting(*name, *value);
        }
        client
    }

    /// Runs a statement to its end.
    pub(crate) fn run(&self, operation: &str, sql: &str) -> Result<(), SinkError> {
        self.run_with(operation, sql, &[])
    }

    /// As [`run`](Self::run), with settings.
    pub(crate) fn run_with(
        &self,
        operation: &str,
        sql: &str,
        settings: Settings<'_>,
    ) -> Result<(), SinkError> {
        tracing::debug!(sql, "statement");
        let query = self.with(settings).query_raw(sql);
        let done = async { tokio::time::timeout(self.timeout, query.execute()).await };
        let done = self.runtime.block_on(done).unwrap_or(Err(Error::TimedOut));
        done.map_err(|error| self.error(operation, &error))
    }

    /// Drops a table, where there is one.
    pub(crate) fn drop_table(&self, operation: &str, name: &str) -> Result<(), SinkError> {
        self.run_dropping(operation, &format!("DROP TABLE IF EXISTS {name}"))
    }

    /// Runs a statement that drops a table or a partition, of any size.
    pub(crate) fn run_dropping(&self, operation: &str, sql: &str) -> Result<(), SinkError> {
        if !self.drops_any_size {
            return self.run(operation, sql);
        }
        match self.run_with(operation, sql, &ANY_SIZE) {
            // The account's profile does not let it say so: then what is small can be dropped.
            Err(error) if code(&error) == SETTING_CONSTRAINT_VIOLATION => self.run(operation, sql),
            done => done,
        }
    }

    /// Makes a database where it is missing. For one that is there no grant to make it is needed.
    pub(crate) fn ensure_database(&self, operation: &str, name: &str) -> Result<(), SinkError> {
        let there = format!(
            "SELECT count() FROM system.databases WHERE name = {}",
            literal(name)
        );
        match self.number(operation, &there)? {
            0 => self.run(
                operation,
                &format!("CREATE DATABASE IF NOT EXISTS {}", quote(name)),
            ),
            _ => Ok(()),
        }
    }

    /// The answer's bytes in a format.
    pub(crate) fn bytes(
        &self,
        operation: &str,
        sql: &str,
        format: &str,
    ) -> Result<Vec<u8>, SinkError> {
        let query = self.client.query_raw(sql);
        let all = async {
            let mut cursor = query.fetch_bytes(format)?;
            let mut out = Vec::new();
            while let Some(piece) = cursor.next().await? {
                out.extend_from_slice(&piece);
            }
            Ok(out)
        };
        let all = async { tokio::time::timeout(self.timeout, all).await };
        let all = self.runtime.block_on(all).unwrap_or(Err(Error::TimedOut));
        all.map_err(|error| self.error(operation, &error))
    }

    /// The answer's rows as texts; NULL is `\N`.
    pub(crate) fn rows(&self, operation: &str, sql: &str) -> Result<Vec<Vec<String>>, SinkError> {
        let bytes = self.bytes(operation, sql, "TabSeparated")?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text
            .lines()
            .map(|line| line.split('\t').map(unescape).collect())
            .collect())
    }

    /// The first cell of the answer.
    pub(crate) fn cell(&self, operation: &str, sql: &str) -> Result<Option<String>, SinkError> {
        let rows = self.rows(operation, sql)?;
        Ok(rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next()))
    }

    /// The first cell as a number; 0 for no rows.
    pub(crate) fn number(&self, operation: &str, sql: &str) -> Result<u64, SinkError> {
        let cell = self.cell(operation, sql)?.unwrap_or_default();
        Ok(cell.parse().unwrap_or(0))
    }

    /// One insert: all of `data` or nothing. With a token the server knows a repetition.
    pub(crate) fn insert(
        &self,
        sql: &str,
        data: &[Bytes],
        token: Option<&str>,
        settings: Settings<'_>,
    ) -> Result<(), SinkError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let done = self.runtime.block_on(self.send(sql, data, token, settings));
            let error = match done {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let passing = matches!(error, Error::Network(_) | Error::TimedOut);
            if !passing || token.is_none() || tries >= TRIES {
                return Err(self.error("insert", &error));
            }
            std::thread::sleep(Duration::from_millis(200 * u64::from(tries)));
        }
    }

    async fn send(
        &self,
        sql: &str,
        data: &[Bytes],
        token: Option<&str>,
        settings: Settings<'_>,
    ) -> Result<(), Error> {
        let mut insert = self
            .with(settings)
            .insert_formatted_with(sql)
            .with_timeouts(Some(self.timeout), Some(self.timeout));
        if let Some(token) = token {
            insert = insert.with_setting("insert_deduplication_token", token);
        }
        for piece in data {
            let mut rest = piece.clone();
            while !rest.is_empty() {
                let next = rest.split_to(rest.len().min(CHUNK_BYTES));
                insert.send(next).await?;
            }
        }
        insert.end().await
    }
}

/// The causes of an error in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

fn without_userinfo(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}{}", &url[..scheme + 3], &url[at + 1..])
        }
        _ => url.to_owned(),
    }
}

fn with_authorities(ca: &std::path::Path) -> Result<clickhouse::Client, SinkError> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let wrong = |what: String| invalid(format!("read {}: {what}", ca.display()), "check ca");
    let mut roots = rustls::RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(ca).map_err(|error| wrong(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(error.to_string()))?;
    }
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(Duration::from_secs(2))
        .build(connector);
    Ok(clickhouse::Client::with_http_client(client))
}

/// A cell of the format TabSeparated.
fn unescape(text: &str) -> String {
    if !text.contains('\\') || text == "\\N" {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_an_address_are_not_shown_and_cells_are_unescaped() {
        assert_eq!(without_userinfo("http://a:b@h:1"), "http://h:1");
        assert_eq!(without_userinfo("http://h:1"), "http://h:1");
        assert_eq!(unescape("a\\tb\\'c"), "a\tb'c");
        assert_eq!(unescape("\\N"), "\\N");
    }
}
