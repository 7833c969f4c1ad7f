//! A format as the config names it, and its settings.

mod choices;

pub use choices::{OpVocabulary, SnapshotType, TsClock, Vocabulary};

use crate::Encoder;
use crate::canal_json::{
    self, CanalJson, CanalJsonDecoder, Clock, Flavour, Grouping, OldData, SqlTypeCodes,
};
use crate::debezium_json::{
    self, BigintUnsigned, DebeziumJson, DebeziumJsonDecoder, DecimalMode, SchemaMode,
};
use crate::decode::Decoder;
use crate::dts_avro::{self, DtsAvro, DtsAvroDecoder};
use crate::shareplex_json::{
    self, MetaField, Names, Nulls, OpWords, RowId, SharePlexJson, SharePlexJsonDecoder, TimeSuffix,
    UpdateShape, Variant,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A message format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FormatName {
    /// Canal JSON, Canal's own or as DTS writes it.
    #[default]
    CanalJson,
    /// SharePlex JSON, as DTS or Quest's SharePlex writes it.
    #[serde(rename = "shareplex-json")]
    SharePlexJson,
    /// Debezium's envelope, as Kafka Connect's JsonConverter writes it.
    DebeziumJson,
    /// DTS Avro, as Alibaba DTS writes it.
    DtsAvro,
}

/// Settings of a message format. An option that the chosen format does not have is an error.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FormatOptions {
    /// canal-json, shareplex-json: offset from UTC in which TIMESTAMP columns are printed: `+08:00`.
    /// Default `+00:00`.
    pub timestamp_tz: Option<String>,
    /// canal-json, dts-avro: what snapshot rows are: `insert` or `init`. Default insert, with
    /// `flavour: dts` and for dts-avro init.
    pub snapshot_type: Option<SnapshotType>,
    /// All formats, what `ts`, `posttime` or `ts_ms` says: `wall` (now) or `commit` (the
    /// transaction's time: the same bytes on every run). Default wall.
    pub ts: Option<TsClock>,
    /// canal-json, dts-avro: whether `gtid` holds the transaction's own id. Default false, with
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
    /// shareplex-json: `dts` or `quest`. Default dts.
    pub variant: Option<Variant>,
    /// shareplex-json: words of `op`: `short` (`ins`), `long` (`INSERT`), or a table that names some
    /// of `insert`, `update`, `delete`, `truncate`, `drop_column`, `update_before` and `update_after`,
    /// the others being short. Default short.
    pub op_words: Option<OpVocabulary>,
    /// shareplex-json: `single` (an update is one message) or `before_after` (two). Default single.
    pub update: Option<UpdateShape>,
    /// shareplex-json: `rowid` is `empty` or the text of the `primary_key`. Default empty.
    pub rowid: Option<RowId>,
    /// shareplex-json: NULL in whole rows is `explicit` or `omitted`. Default explicit, with
    /// `variant: quest` omitted.
    pub nulls: Option<Nulls>,
    /// shareplex-json: table and column names as in the `source` or in `upper` case. Default source,
    /// with `variant: quest` upper.
    pub names: Option<Names>,
    /// shareplex-json: times in `meta` end with `none` or `z`. Default none.
    pub time_suffix: Option<TimeSuffix>,
    /// shareplex-json: members of `meta` in their order. Default time, userid, op, scn, rowid, trans,
    /// seq, size, table, idx, posttime; with `variant: quest` op, table.
    pub meta: Option<Vec<MetaField>>,
    /// debezium-json: `none` (the payload alone) or `inline` (`schema` and `payload` in every
    /// message). Default none.
    pub schema: Option<SchemaMode>,
    /// debezium-json: DECIMAL as `precise` (bytes), `string` or `double`. Default precise.
    pub decimal: Option<DecimalMode>,
    /// debezium-json: BIGINT UNSIGNED as `long` (wraps above 9223372036854775807) or `precise` (a
    /// decimal). Default long.
    pub bigint_unsigned: Option<BigintUnsigned>,
    /// debezium-json: `source.name` and the first part of schema names. Default headwater.
    pub server_name: Option<String>,
    /// dts-avro: `source.version`, the server's version: `8.0.28`. Default empty.
    pub source_version: Option<String>,
    /// dts-avro: whether BEGIN and COMMIT are messages. Default false.
    pub transactions: Option<bool>,
    /// dts-avro: whether a source that is idle shows every 10 s that it lives. Default false.
    pub heartbeats: Option<bool>,
    /// dts-avro: whether the tags `server_id` and `commitTimestamp` are written. Default false.
    pub source_tags: Option<bool>,
    /// dts-avro: whether the tag `metaVersion` is written; only for a topic that one pipeline fills.
    /// Default false.
    pub meta_version: Option<bool>,
    /// dts-avro: whether TEXT columns are BinaryObjects of number 252. Default false.
    pub text_as_blob: Option<bool>,
}

impl std::str::FromStr for FormatName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|name| name.as_str() == text);
        found.ok_or_else(|| {
            format!(
                "there is no format `{text}`; there is: {}",
                Self::ALL.map(Self::as_str).join(", ")
            )
        })
    }
}

impl FormatName {
    /// All formats.
    pub const ALL: [FormatName; 4] = [
        FormatName::CanalJson,
        FormatName::SharePlexJson,
        FormatName::DebeziumJson,
        FormatName::DtsAvro,
    ];

    /// The name as written in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            FormatName::CanalJson => "canal-json",
            FormatName::SharePlexJson => "shareplex-json",
            FormatName::DebeziumJson => "debezium-json",
            FormatName::DtsAvro => dts_avro::NAME,
        }
    }

    /// Makes the format's encoder, for a sink that moves its cursor with every event.
    ///
    /// Errors: what is wrong with the options, and what would be right.
    pub fn encoder(self, options: &FormatOptions) -> Result<Box<dyn Encoder>, String> {
        let encoder = self.encoder_that_may_hold(options)?;
        if encoder.may_hold() {
            // Rows that wait for their message would be lost with a crash.
            return Err("this sink writes every row at once; set grouping: row".into());
        }
        Ok(encoder)
    }

    /// Makes the format's encoder, for a sink that honours [`Encoder::may_hold`].
    ///
    /// Errors: what is wrong with the options, and what would be right.
    pub fn encoder_that_may_hold(
        self,
        options: &FormatOptions,
    ) -> Result<Box<dyn Encoder>, String> {
        options.check_belong(self)?;
        Ok(match self {
            FormatName::CanalJson => Box::new(CanalJson::new(canal_json_options(options)?)),
            FormatName::SharePlexJson => {
                Box::new(SharePlexJson::new(shareplex_json_options(options)?))
            }
            FormatName::DebeziumJson => Box::new(DebeziumJson::new(debezium_json_options(options))),
            FormatName::DtsAvro => Box::new(DtsAvro::new(dts_avro_options(options))),
        })
    }

    /// Makes the format's decoder, for messages that were written with these options.
    ///
    /// Errors: what is wrong with the options, and what would be right.
    pub fn decoder(self, options: &FormatOptions) -> Result<Box<dyn Decoder>, String> {
        options.check_belong(self)?;
        Ok(match self {
            FormatName::CanalJson => {
                let options = canal_json_options(options)?;
                let offset_seconds = options.timestamp_offset_seconds;
                let decoder = CanalJsonDecoder::new(options.old_data, offset_seconds);
                Box::new(decoder.bare_types(options.flavour == Flavour::Dts))
            }
            FormatName::SharePlexJson => {
                let options = shareplex_json_options(options)?;
                Box::new(SharePlexJsonDecoder::new(options.op_words))
            }
            FormatName::DebeziumJson => Box::new(DebeziumJsonDecoder::default()),
            FormatName::DtsAvro => Box::new(DtsAvroDecoder),
        })
    }
}

impl FormatOptions {
    /// Every option: its name, whether it is set, the formats that have it.
    fn owners(&self) -> Vec<(&'static str, bool, &'static [FormatName])> {
        use FormatName as F;
        const ALL: &[F] = &F::ALL;
        const TIMESTAMP: &[F] = &[F::CanalJson, F::SharePlexJson];
        const CANAL: &[F] = &[F::CanalJson];
        const CANAL_AND_DTS: &[F] = &[F::CanalJson, F::DtsAvro];
        const DTS: &[F] = &[F::DtsAvro];
        const SHAREPLEX: &[F] = &[F::SharePlexJson];
        const DEBEZIUM: &[F] = &[F::DebeziumJson];
        vec![
            ("timestamp_tz", self.timestamp_tz.is_some(), TIMESTAMP),
            ("snapshot_type", self.snapshot_type.is_some(), CANAL_AND_DTS),
            ("ts", self.ts.is_some(), ALL),
            ("gtid", self.gtid.is_some(), CANAL_AND_DTS),
            ("ddl", self.ddl.is_some(), ALL),
            ("flavour", self.flavour.is_some(), CANAL),
            ("old_data", self.old_data.is_some(), CANAL),
            ("sql_type", self.sql_type.is_some(), CANAL),
            ("grouping", self.grouping.is_some(), CANAL),
            ("canal_exact", self.canal_exact.is_some(), CANAL),
            ("variant", self.variant.is_some(), SHAREPLEX),
            ("op_words", self.op_words.is_some(), SHAREPLEX),
            ("update", self.update.is_some(), SHAREPLEX),
            ("rowid", self.rowid.is_some(), SHAREPLEX),
            ("nulls", self.nulls.is_some(), SHAREPLEX),
            ("names", self.names.is_some(), SHAREPLEX),
            ("time_suffix", self.time_suffix.is_some(), SHAREPLEX),
            ("meta", self.meta.is_some(), SHAREPLEX),
            ("schema", self.schema.is_some(), DEBEZIUM),
            ("decimal", self.decimal.is_some(), DEBEZIUM),
            ("bigint_unsigned", self.bigint_unsigned.is_some(), DEBEZIUM),
            ("server_name", self.server_name.is_some(), DEBEZIUM),
            ("source_version", self.source_version.is_some(), DTS),
            ("transactions", self.transactions.is_some(), DTS),
            ("heartbeats", self.heartbeats.is_some(), DTS),
            ("source_tags", self.source_tags.is_some(), DTS),
            ("meta_version", self.meta_version.is_some(), DTS),
            ("text_as_blob", self.text_as_blob.is_some(), DTS),
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

fn shareplex_json_options(options: &FormatOptions) -> Result<shareplex_json::Options, String> {
    let defaults = shareplex_json::Options::of(options.variant.unwrap_or_default());
    let meta = options
        .meta
        .clone()
        .unwrap_or_else(|| defaults.meta.clone());
    if !meta.contains(&MetaField::Op) {
        return Err("meta needs op: no reader knows what happened without it".into());
    }
    Ok(shareplex_json::Options {
        op_words: match &options.op_words {
            None => OpWords::short(),
            Some(vocabulary) => vocabulary.words(),
        },
        update: options.update.unwrap_or(defaults.update),
        rowid: options.rowid.unwrap_or(defaults.rowid),
        nulls: options.nulls.unwrap_or(defaults.nulls),
        names: options.names.unwrap_or(defaults.names),
        time_suffix: options.time_suffix.unwrap_or(defaults.time_suffix),
        meta,
        clock: options.clock(),
        timestamp_offset_seconds: options.timestamp_offset_seconds()?,
        without_ddl: options.ddl == Some(false),
        variant: defaults.variant,
    })
}

fn debezium_json_options(options: &FormatOptions) -> debezium_json::Options {
    let defaults = debezium_json::Options::default();
    debezium_json::Options {
        schema: options.schema.unwrap_or(defaults.schema),
        decimal: options.decimal.unwrap_or(defaults.decimal),
        bigint_unsigned: options.bigint_unsigned.unwrap_or(defaults.bigint_unsigned),
        server_name: options.server_name.clone().unwrap_or(defaults.server_name),
        clock: options.clock(),
        ddl: options.ddl.unwrap_or(defaults.ddl),
    }
}

fn dts_avro_options(options: &FormatOptions) -> dts_avro::Options {
    dts_avro::Options {
        clock: options.clock(),
        source_version: options.source_version.clone().unwrap_or_default(),
        transactions: options.transactions.unwrap_or(false),
        heartbeats: options.heartbeats.unwrap_or(false),
        without_ddl: options.ddl == Some(false),
        snapshot_as_insert: options.snapshot_type == Some(SnapshotType::Insert),
        gtid: options.gtid.unwrap_or(false),
        source_tags: options.source_tags.unwrap_or(false),
        meta_version: options.meta_version.unwrap_or(false),
        text_as_blob: options.text_as_blob.unwrap_or(false),
        ..dts_avro::Options::default()
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

    #[test]
    fn the_words_of_the_config_are_read() {
        let read =
            |text| serde_json::from_str::<FormatOptions>(text).expect("the options are right");
        let canal = read(
            r#"{"flavour":"dts","old_data":"before_2022","sql_type":"data_type_number","ts":"commit"}"#,
        );
        let options = canal_json_options(&canal).expect("the options fit each other");
        assert_eq!(options.old_data, OldData::Before2022);
        assert!(options.gtid && options.snapshot_as_init);
        let shareplex = read(
            r#"{"variant":"quest","op_words":{"insert":"I"},"update":"before_after","rowid":"primary_key","nulls":"explicit","names":"source","time_suffix":"z","meta":["op","idx"]}"#,
        );
        let options = shareplex_json_options(&shareplex).expect("the options fit each other");
        assert_eq!(
            (
                options.op_words.insert.as_str(),
                options.op_words.update.as_str()
            ),
            ("I", "upd")
        );
        assert_eq!(options.meta, [MetaField::Op, MetaField::Idx]);
        let long = shareplex_json_options(&read(r#"{"op_words":"long"}"#));
        assert_eq!(
            long.expect("the options fit each other").op_words,
            OpWords::long()
        );
        let debezium =
            read(r#"{"schema":"inline","decimal":"string","bigint_unsigned":"precise"}"#);
        assert_eq!(
            debezium_json_options(&debezium).decimal,
            DecimalMode::String
        );
        assert!(serde_json::from_str::<FormatOptions>(r#"{"flavor":"dts"}"#).is_err());
        let names = FormatName::ALL.map(FormatName::as_str).join(", ");
        assert_eq!(names, "canal-json, shareplex-json, debezium-json, dts-avro");
        for format in FormatName::ALL {
            let name = serde_json::Value::String(format.as_str().into());
            assert_eq!(
                serde_json::from_value::<FormatName>(name).ok(),
                Some(format)
            );
        }
    }

    #[test]
    fn options_of_another_format_are_refused_by_name() {
        let options = FormatOptions {
            schema: Some(SchemaMode::Inline),
            ..FormatOptions::default()
        };
        for format in FormatName::ALL {
            let encoder = format.encoder(&options).map(|encoder| encoder.name());
            let decoder = format.decoder(&options).map(|decoder| decoder.name());
            match format {
                FormatName::DebeziumJson => assert_eq!(encoder, Ok("debezium-json")),
                _ => assert_eq!(
                    encoder,
                    Err(format!(
                        "format {} has no option schema; it belongs to debezium-json",
                        format.as_str()
                    ))
                ),
            }
            assert_eq!(encoder, decoder);
        }
    }

    #[test]
    fn rows_wait_only_for_sinks_that_know_of_it() {
        let exact = |grouping| FormatOptions {
            canal_exact: Some(true),
            grouping,
            ..FormatOptions::default()
        };
        let refused = FormatName::CanalJson.encoder(&exact(None)).map(|_| ());
        assert!(refused.is_err_and(|error| error.contains("grouping: row")));
        let alone = exact(Some(Grouping::Row));
        assert!(FormatName::CanalJson.encoder(&alone).is_ok());
        let together = FormatName::CanalJson.encoder_that_may_hold(&exact(None));
        assert!(together.is_ok_and(|encoder| encoder.may_hold()));
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
