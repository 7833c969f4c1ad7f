//! A format as the config names it, and its settings.

mod choices;

pub use choices::{SnapshotType, TsClock};

use crate::Encoder;
use crate::canal_json::{
    self, CanalJson, CanalJsonDecoder, Clock, Flavour, Grouping, OldData, SqlTypeCodes,
};
use crate::decode::Decoder;
use schemars::JsonSchema;
use serde::Deserialize;

/// A message format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FormatName {
    /// Canal JSON, Canal's own or as DTS writes it.
    #[default]
    CanalJson,
}

/// Settings of a message format. An option that the chosen format does not have is an error.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FormatOptions {
    /// canal-json, shareplex-json: offset from UTC in which TIMESTAMP columns are printed: `+08:00`.
    /// Default `+00:00`.
    pub timestamp_tz: Option<String>,
    /// canal-json: `type` of snapshot rows: `insert` or `init`. Default insert, with `flavour: dts`
    /// init.
    pub snapshot_type: Option<SnapshotType>,
    /// All formats, what `ts`, `posttime` or `ts_ms` says: `wall` (now) or `commit` (the
    /// transaction's time: the same bytes on every run). Default wall.
    pub ts: Option<TsClock>,
    /// canal-json: whether `gtid` holds the transaction's own id. Default false, with
    /// `flavour: dts` true.
    pub gtid: Option<bool>,
    /// All formats: whether DDL statements are sent, as far as the format has messages for them.
    /// Default true, for debezium-json false.
    pub ddl: Option<bool>,
    /// canal-json: `open_source` (as Canal writes it) or `dts` (as DTS writes it). Default
    /// open_source.
    pub flavour: Option<Flavour>,
    /// canal-json with `flavour: dts`: `current`, or `before_2022` for consumers that were written
    /// against a DTS instance made before 2022-03-20: an update has the row before in `data` and the
    /// row after in `old`, a deleted row is in `old`. Default current.
    pub old_data: Option<OldData>,
    /// canal-json: codes in `sqlType`: `jdbc` (java.sql.Types) or `data_type_number` (DTS's type
    /// numbers). Default jdbc.
    pub sql_type: Option<SqlTypeCodes>,
    /// canal-json with `flavour: open_source`: rows per message: `row` (one) or `event` (those of one
    /// rows event of the log, as Canal does). Default row, with `canal_exact` event.
    pub grouping: Option<Grouping>,
    /// canal-json with `flavour: open_source`: write what Canal writes also where we differ on
    /// purpose, as far as it can be done. Default false.
    pub canal_exact: Option<bool>,
}

impl FormatName {
    /// All formats.
    pub const ALL: [FormatName; 1] = [FormatName::CanalJson];

    /// The name as written in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            FormatName::CanalJson => "canal-json",
        }
    }

    /// Makes the format's encoder.
    ///
    /// Errors: what is wrong with the options, and what would be right.
    pub fn encoder(self, options: &FormatOptions) -> Result<Box<dyn Encoder>, String> {
        options.check_belong(self)?;
        match self {
            FormatName::CanalJson => Ok(Box::new(CanalJson::new(canal_json_options(options)?))),
        }
    }

    /// Makes the format's decoder, for messages that were written with these options.
    ///
    /// Errors: what is wrong with the options, and what would be right.
    pub fn decoder(self, options: &FormatOptions) -> Result<Box<dyn Decoder>, String> {
        options.check_belong(self)?;
        match self {
            FormatName::CanalJson => {
                let options = canal_json_options(options)?;
                Ok(Box::new(CanalJsonDecoder::new(
                    options.old_data,
                    options.timestamp_offset_seconds,
                )))
            }
        }
    }
}

impl FormatOptions {
    /// The options that are set, and the formats that have them.
    fn owners(&self) -> [(&'static str, bool, &'static [FormatName]); 10] {
        use FormatName as F;
        [
            ("timestamp_tz", self.timestamp_tz.is_some(), &[F::CanalJson]),
            (
                "snapshot_type",
                self.snapshot_type.is_some(),
                &[F::CanalJson],
            ),
            ("ts", self.ts.is_some(), &[F::CanalJson]),
            ("gtid", self.gtid.is_some(), &[F::CanalJson]),
            ("ddl", self.ddl.is_some(), &[F::CanalJson]),
            ("flavour", self.flavour.is_some(), &[F::CanalJson]),
            ("old_data", self.old_data.is_some(), &[F::CanalJson]),
            ("sql_type", self.sql_type.is_some(), &[F::CanalJson]),
            ("grouping", self.grouping.is_some(), &[F::CanalJson]),
            ("canal_exact", self.canal_exact.is_some(), &[F::CanalJson]),
        ]
    }

    fn check_belong(&self, format: FormatName) -> Result<(), String> {
        let foreign =
            |(_, set, owners): &(_, bool, &[FormatName])| *set && !owners.contains(&format);
        let Some((name, _, owners)) = self.owners().into_iter().find(foreign) else {
            return Ok(());
        };
        let owners: Vec<&str> = owners.iter().map(|owner| owner.as_str()).collect();
        Err(format!(
            "format {} has no option {name}; it belongs to {}",
            format.as_str(),
            owners.join(", ")
        ))
    }

    fn clock(&self) -> Clock {
        match self.ts.unwrap_or_default() {
            TsClock::Wall => Clock::Wall,
            TsClock::Commit => Clock::Commit,
        }
    }

    fn timestamp_offset_seconds(&self) -> Result<i32, String> {
        self.timestamp_tz.as_deref().map_or(Ok(0), offset_seconds)
    }
}

fn canal_json_options(options: &FormatOptions) -> Result<canal_json::Options, String> {
    let flavour = options.flavour.unwrap_or_default();
    let exact = options.canal_exact.unwrap_or(false);
    let dts = flavour == Flavour::Dts;
    let grouping = options.grouping.unwrap_or(match exact {
        true => Grouping::Event,
        false => Grouping::Row,
    });
    let old_data = options.old_data.unwrap_or_default();
    let only = |name, owner| Err(format!("{name} belongs to flavour: {owner}"));
    match (dts, old_data) {
        (false, OldData::Before2022) => return only("old_data: before_2022", "dts"),
        (true, _) if exact => return only("canal_exact", "open_source"),
        (true, _) if grouping == Grouping::Event => return only("grouping: event", "open_source"),
        _ => {}
    }
    let snapshot_type = options.snapshot_type.unwrap_or(match dts {
        true => SnapshotType::Init,
        false => SnapshotType::Insert,
    });
    Ok(canal_json::Options {
        flavour,
        clock: options.clock(),
        timestamp_offset_seconds: options.timestamp_offset_seconds()?,
        snapshot_as_init: snapshot_type == SnapshotType::Init,
        gtid: options.gtid.unwrap_or(dts),
        without_ddl: options.ddl == Some(false),
        old_data,
        sql_type: options.sql_type.unwrap_or_default(),
        grouping,
        exact,
    })
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

    #[test]
    fn options_of_the_other_flavour_are_refused() {
        let open_source = FormatOptions {
            old_data: Some(OldData::Before2022),
            ..FormatOptions::default()
        };
        let dts = FormatOptions {
            flavour: Some(Flavour::Dts),
            canal_exact: Some(true),
            ..FormatOptions::default()
        };
        for options in [open_source, dts] {
            let error = canal_json_options(&options).unwrap_err();
            assert!(error.contains("belongs to flavour"), "{error}");
        }
    }
}
