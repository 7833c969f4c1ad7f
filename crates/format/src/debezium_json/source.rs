//! `source`: where a change comes from.

use super::options::Options;
use crate::json;
use change::TransactionHeader;
use change::position::TransactionId;

/// Which of Debezium's connectors would have written the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connector {
    Mysql,
    Mariadb,
}

impl Connector {
    /// Told from the transaction's id.
    pub fn of(header: &TransactionHeader) -> Self {
        match header.id {
            Some(TransactionId::Mariadb(_)) => Connector::Mariadb,
            _ => Connector::Mysql,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Connector::Mysql => "mysql",
            Connector::Mariadb => "mariadb",
        }
    }
}

/// Appends `"source":{` and its first members, up to the value of `ts_ms`.
pub(super) fn put_head(out: &mut Vec<u8>, options: &Options, connector: Connector) {
    out.extend_from_slice(b"\"source\":{\"version\":");
    json::put_string(out, env!("CARGO_PKG_VERSION"));
    put!(out, ",\"connector\":\"{}\",\"name\":", connector.as_str());
    json::put_string(out, &options.server_name);
    out.extend_from_slice(b",\"ts_ms\":");
}

/// What `source` tells of one event.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// What [`put_head`] wrote.
    pub head: &'a [u8],
    /// `,"db":"…"`.
    pub database: &'a [u8],
    /// `,"table":"…"`; nothing for no table.
    pub table: &'a [u8],
    pub header: &'a TransactionHeader,
    pub snapshot: bool,
    /// Time of the event, microseconds.
    pub time_us: u64,
    /// Offset after the event in the log.
    pub offset: u64,
    /// Number of the row in its event.
    pub row: u32,
}

impl Source<'_> {
    /// Appends `"source":{…}`.
    pub fn put(&self, out: &mut Vec<u8>) {
        let header = self.header;
        out.extend_from_slice(self.head);
        put!(
            out,
            "{},\"snapshot\":\"{}\"",
            self.time_us / 1000,
            self.snapshot
        );
        out.extend_from_slice(self.database);
        put!(
            out,
            ",\"sequence\":null,\"ts_us\":{},\"ts_ns\":{}",
            self.time_us,
            self.time_us.saturating_mul(1000)
        );
        out.extend_from_slice(match self.table {
            b"" => b",\"table\":null",
            table => table,
        });
        put!(out, ",\"server_id\":{},\"gtid\":", header.server_id);
        match &header.id {
            Some(id) => put!(out, "\"{id}\""),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"file\":");
        json::put_string(out, &header.file);
        put!(
            out,
            ",\"pos\":{},\"row\":{},\"thread\":",
            self.offset,
            self.row
        );
        match header.thread_id {
            0 => out.extend_from_slice(b"null"),
            thread => put!(out, "{thread}"),
        }
        out.extend_from_slice(b",\"query\":null}");
    }
}

/// Appends the schema of `source`.
pub(super) fn put_schema(out: &mut Vec<u8>, connector: Connector) {
    const SNAPSHOT: &[u8] = b",{\"type\":\"string\",\"optional\":true,\
        \"name\":\"io.debezium.data.Enum\",\"version\":1,\"parameters\":{\"allowed\":\
        \"true,first,first_in_data_collection,last_in_data_collection,last,false,incremental\"},\
        \"default\":\"false\",\"field\":\"snapshot\"}";
    const FIELDS: [(&str, &str, bool); 16] = [
        ("string", "version", false),
        ("string", "connector", false),
        ("string", "name", false),
        ("int64", "ts_ms", false),
        ("string", "db", false),
        ("string", "sequence", true),
        ("int64", "ts_us", true),
        ("int64", "ts_ns", true),
        ("string", "table", true),
        ("int64", "server_id", false),
        ("string", "gtid", true),
        ("string", "file", false),
        ("int64", "pos", false),
        ("int32", "row", false),
        ("int64", "thread", true),
        ("string", "query", true),
    ];
    out.extend_from_slice(b"{\"type\":\"struct\",\"fields\":[");
    for (index, (kind, field, optional)) in FIELDS.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put!(
            out,
            "{{\"type\":\"{kind}\",\"optional\":{optional},\"field\":\"{field}\"}}"
        );
        if *field == "ts_ms" {
            out.extend_from_slice(SNAPSHOT);
        }
    }
    put!(
        out,
        "],\"optional\":false,\"name\":\"io.debezium.connector.{}.Source\",\"version\":1,\"field\":\"source\"}}",
        connector.as_str()
    );
}
