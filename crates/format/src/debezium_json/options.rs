//! Settings of Debezium JSON.

use crate::canal_json::Clock;
use schemars::JsonSchema;
use serde::Deserialize;

/// Whether messages carry their schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SchemaMode {
    /// The payload alone, as JsonConverter with `schemas.enable=false`.
    #[default]
    None,
    /// `schema` and `payload`, as JsonConverter by default.
    Inline,
}

/// How DECIMAL is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecimalMode {
    /// Bytes of the unscaled number, base64.
    #[default]
    Precise,
    /// Text.
    String,
    /// A number, which may lose digits.
    Double,
}

/// How BIGINT UNSIGNED is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BigintUnsigned {
    /// A 64-bit signed number; above 9223372036854775807 it wraps to negative.
    #[default]
    Long,
    /// As a decimal without fraction.
    Precise,
}

/// Settings of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether messages carry their schema. Default none.
    pub schema: SchemaMode,
    /// How DECIMAL is written. Default precise.
    pub decimal: DecimalMode,
    /// How BIGINT UNSIGNED is written. Default long.
    pub bigint_unsigned: BigintUnsigned,
    /// `source.name`, and the first part of schema names. Default headwater.
    pub server_name: String,
    /// What `ts_ms` says. Default wall.
    pub clock: Clock,
    /// Send statements as schema change events. Default false: they belong in a topic of their own.
    pub ddl: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: SchemaMode::None,
            decimal: DecimalMode::Precise,
            bigint_unsigned: BigintUnsigned::Long,
            server_name: "headwater".into(),
            clock: Clock::Wall,
            ddl: false,
        }
    }
}
