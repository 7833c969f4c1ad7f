//! A format as the config names it, and its settings.

use crate::Encoder;
use crate::canal_json::{self, CanalJson, Clock};
use crate::dts_avro::{self, DtsAvro};
use schemars::JsonSchema;
use serde::Deserialize;

/// A message format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FormatName {
    /// Canal JSON, the open-source flavour.
    #[default]
    CanalJson,
    /// DTS Avro.
    DtsAvro,
}

/// Settings of a message format.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FormatOptions {
    /// Offset from UTC in which TIMESTAMP columns are printed: `+08:00`. Default `+00:00`.
    pub timestamp_tz: Option<String>,
    /// `type` of snapshot rows: `insert` or `init`. Default insert.
    pub snapshot_type: SnapshotType,
    /// What `ts` says: `wall` (now) or `commit` (the transaction's time: the same bytes on every run).
    /// Default wall.
    pub ts: TsClock,
    /// Whether `gtid` holds the transaction's own id. Default false.
    pub gtid: bool,
    /// Whether DDL statements are sent. Default true.
    pub ddl: Option<bool>,
    /// dts-avro: `source.version`, the server's version: `8.0.28`. Default empty.
    pub dts_source_version: String,
    /// dts-avro: whether BEGIN and COMMIT are messages. Default false.
    pub dts_transactions: bool,
    /// dts-avro: whether heartbeats are messages. Default false.
    pub dts_heartbeats: bool,
    /// dts-avro: whether snapshot rows are INSERT rather than INIT. Default false.
    pub dts_snapshot_as_insert: bool,
    /// dts-avro: whether the tags `server_id` and `commitTimestamp` are written. Default false.
    pub dts_source_tags: bool,
    /// dts-avro: whether the tag `metaVersion` is written; only for a topic that one pipeline fills.
    /// Default false.
    pub dts_meta_version: bool,
    /// dts-avro: whether TEXT columns are BinaryObjects of number 252. Default false.
    pub dts_text_as_blob: bool,
}

/// See [`FormatOptions::snapshot_type`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotType {
    /// As Canal knows it.
    #[default]
    Insert,
    /// As DTS writes it.
    Init,
}

/// See [`FormatOptions::ts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TsClock {
    /// The time at which the message is built.
    #[default]
    Wall,
    /// The transaction's commit time.
    Commit,
}

impl FormatName {
    /// The name as written in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            FormatName::CanalJson => "canal-json",
            FormatName::DtsAvro => dts_avro::NAME,
        }
    }

    /// Makes the format's encoder.
    ///
    /// Errors: what is wrong with the options, and what would be right.
    pub fn encoder(self, options: &FormatOptions) -> Result<Box<dyn Encoder>, String> {
        let timestamp_offset_seconds = match options.timestamp_tz.as_deref() {
            None => 0,
            Some(text) => offset_seconds(text)?,
        };
        let clock = match options.ts {
            TsClock::Wall => Clock::Wall,
            TsClock::Commit => Clock::Commit,
        };
        match self {
            FormatName::CanalJson => Ok(Box::new(CanalJson::new(canal_json::Options {
                clock,
                timestamp_offset_seconds,
                snapshot_as_init: options.snapshot_type == SnapshotType::Init,
                gtid: options.gtid,
                without_ddl: options.ddl == Some(false),
            }))),
            FormatName::DtsAvro => Ok(Box::new(DtsAvro::new(dts_avro::Options {
                clock,
                source_version: options.dts_source_version.clone(),
                transactions: options.dts_transactions,
                heartbeats: options.dts_heartbeats,
                without_ddl: options.ddl == Some(false),
                snapshot_as_insert: options.dts_snapshot_as_insert,
                gtid: options.gtid,
                source_tags: options.dts_source_tags,
                meta_version: options.dts_meta_version,
                text_as_blob: options.dts_text_as_blob,
                ..dts_avro::Options::default()
            }))),
        }
    }
}

fn offset_seconds(text: &str) -> Result<i32, String> {
    let bad = || format!("timestamp_tz `{text}` is no offset; write it as +08:00");
    if matches!(text, "UTC" | "Z") {
        return Ok(0);
    }
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        _ => return Err(bad()),
    };
    let (hours, minutes) = rest.split_once(':').ok_or_else(bad)?;
    match (hours.parse::<i32>(), minutes.parse::<i32>()) {
        (Ok(h @ 0..=14), Ok(m @ 0..=59)) => Ok(sign * (h * 3600 + m * 60)),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_or_refused() {
        assert_eq!(offset_seconds("+08:00"), Ok(28_800));
        assert_eq!(offset_seconds("-03:30"), Ok(-12_600));
        assert_eq!(offset_seconds("UTC"), Ok(0));
        for bad in ["", "8", "+8", "+99:00", "Asia/Shanghai"] {
            assert!(offset_seconds(bad).is_err(), "{bad}");
        }
    }
}
