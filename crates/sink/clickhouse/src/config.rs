//! Settings of a ClickHouse sink.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A ClickHouse sink.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClickHouseConfig {
    /// The HTTP interface: `http://host:8123` or `https://host:8443`.
    pub url: String,
    /// The account. Default `default`.
    #[serde(default = "user_default")]
    pub user: String,
    /// Its password. Default: none.
    #[serde(default)]
    pub password: String,
    /// For https: a file with the authorities to trust. Default: those of the operating system.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// The database of a table; `{database}` stands for the source's. Default `{database}`.
    #[serde(default = "database_default")]
    pub database: String,
    /// The name of a table; `{database}` and `{table}` stand for the source's names. Default `{table}`.
    #[serde(default = "table_default")]
    pub table: String,
    /// `mvcc`: a plain SELECT equals the source. `sign_version`: rows with `_sign` and `_version`, read
    /// with FINAL. Default mvcc.
    #[serde(default)]
    pub mode: Mode,
    /// In mode `mvcc`, what the table's own name is: `live`, the view that shows every committed
    /// transaction at once (the folded table is `t__base`), or `base`, the folded table (the view is
    /// `t__live`). Default live.
    #[serde(default)]
    pub plain_name: PlainName,
    /// In mode `mvcc`, what `SELECT *` shows: `libra`, also `_sign` and `_version`; `clean`, only the
    /// source's columns. Default libra.
    #[serde(default)]
    pub layout: Layout,
    /// In mode `sign_version`, the engine: `replacing` or `versioned_collapsing`. Default replacing.
    #[serde(default)]
    pub engine: Engine,
    /// In mode `sign_version` with `engine: replacing`, an update also writes the row before it with
    /// `_sign` -1. Default false.
    #[serde(default)]
    pub cancel_rows: bool,
    /// A table without a key: `identity` tells its rows apart by all their columns and a count,
    /// `refuse` sets the table aside. Default identity.
    #[serde(default)]
    pub keyless: Keyless,
    /// First letters of the columns that the sink adds (`_sign`, `_version`, …). Default `_`.
    #[serde(default = "prefix_default")]
    pub column_prefix: String,
    /// Where the sink keeps its cursor and its notes. Default: `database` when that is one name, else
    /// `headwater`.
    #[serde(default)]
    pub state_database: Option<String>,
    /// Compression of what is sent: lz4, zstd or none. Default lz4.
    #[serde(default)]
    pub compression: Compression,
    /// Rows of one insert, 1000 to 1000000: above a million the server would split it. Default 500000.
    #[serde(default = "insert_rows_default")]
    pub insert_rows_max: u64,
    /// How long one statement may take, seconds. Default 300.
    #[serde(default = "timeout_default")]
    pub timeout_s: u64,
    /// Make inserts durable on the server before the cursor moves (`fsync_after_insert`). Default true.
    #[serde(default = "yes")]
    pub fsync: bool,
    /// When changes move into the base table, in mode `mvcc`. Every key has a default.
    #[serde(default)]
    pub fold: FoldConfig,
    /// How values become ClickHouse values. Every key has a default.
    #[serde(default)]
    pub types: TypesConfig,
    /// What statements of the source do. Every key has a default.
    #[serde(default)]
    pub ddl: DdlConfig,
    /// Settings of single tables, by the source's name `shop.orders`. Default: none.
    #[serde(default)]
    pub tables: BTreeMap<String, TableConfig>,
}

fn user_default() -> String {
    "default".into()
}

fn database_default() -> String {
    "{database}".into()
}

fn table_default() -> String {
    "{table}".into()
}

fn prefix_default() -> String {
    "_".into()
}

fn insert_rows_default() -> u64 {
    500_000
}

fn timeout_default() -> u64 {
    300
}

fn yes() -> bool {
    true
}

/// See [`ClickHouseConfig::mode`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Base, delta and view.
    #[default]
    Mvcc,
    /// Rows with a sign and a version.
    SignVersion,
}

/// See [`ClickHouseConfig::plain_name`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlainName {
    /// The view.
    #[default]
    Live,
    /// The folded table.
    Base,
}

/// See [`ClickHouseConfig::layout`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// `_sign` and `_version` are ordinary columns.
    #[default]
    Libra,
    /// None of the added columns shows.
    Clean,
}

/// See [`ClickHouseConfig::engine`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// ReplacingMergeTree.
    #[default]
    Replacing,
    /// VersionedCollapsingMergeTree, with cancel rows that carry the version of what they cancel.
    VersionedCollapsing,
}

/// See [`ClickHouseConfig::keyless`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keyless {
    /// All columns and a count.
    #[default]
    Identity,
    /// The table is set aside.
    Refuse,
}

/// See [`ClickHouseConfig::compression`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Fast.
    #[default]
    Lz4,
    /// Smaller.
    Zstd,
    /// None.
    None,
}

/// When pending changes of a table are folded into its base: as soon as one limit is passed, unless
/// folding then took more of the time than `duty_percent`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FoldConfig {
    /// Pending changes of one table. Default 50000.
    pub rows: u64,
    /// Age of its oldest pending change, milliseconds. Default 5000.
    pub age_ms: u64,
    /// Most of the time that folding one table may take, percent, 1 to 100. Default 20.
    pub duty_percent: u64,
    /// How long a query may take to begin reading after it was sent, milliseconds: what it may still
    /// look for is kept so long. Default 1000.
    pub grace_ms: u64,
}

impl Default for FoldConfig {
    fn default() -> Self {
        Self {
            rows: 50_000,
            age_ms: 5000,
            duty_percent: 20,
            grace_ms: 1000,
        }
    }
}

/// How values become ClickHouse values.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TypesConfig {
    /// Dates and times: `native` (Date32, DateTime64, Time64) or `text` (String, as the source prints
    /// them, zero dates too). Default native.
    pub dates: Dates,
    /// A date that the target's type cannot hold: `park` its row's key, or `clamp` it to the nearest
    /// that it can. Zero dates become NULL in either case. Default park.
    pub out_of_range: OutOfRange,
    /// JSON documents: `string`, or `json` (ClickHouse's JSON type: objects only). Default string.
    pub json: JsonType,
}

/// See [`TypesConfig::dates`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dates {
    /// Date32, DateTime64, Time64.
    #[default]
    Native,
    /// String.
    Text,
}

/// See [`TypesConfig::out_of_range`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutOfRange {
    /// The key is set aside.
    #[default]
    Park,
    /// The nearest value.
    Clamp,
}

/// See [`TypesConfig::json`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JsonType {
    /// String.
    #[default]
    String,
    /// JSON.
    Json,
}

/// What statements of the source do to the target.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DdlConfig {
    /// DROP TABLE: `follow`, or `keep` the target's table as it is. Default follow.
    pub drop: OnDrop,
    /// TRUNCATE TABLE: `follow`, or `keep` the rows. Default follow.
    pub truncate: OnDrop,
}

/// See [`DdlConfig`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDrop {
    /// The target does it too.
    #[default]
    Follow,
    /// The target keeps what it has.
    Keep,
}

/// Settings of one table; they count when the target's table is made.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TableConfig {
    /// Columns that identify a row, all NOT NULL. Default: the primary key, else the first unique key
    /// without NULL.
    pub key: Vec<String>,
    /// Columns of ORDER BY. In mode `sign_version` they must contain the key. Default: the key.
    pub order_by: Vec<String>,
    /// The expression of PARTITION BY. In mode `sign_version` it may use only columns of ORDER BY.
    /// Default: none.
    pub partition_by: String,
    /// Types of single columns where they differ from the map: `note: LowCardinality(String)`.
    pub types: BTreeMap<String, String>,
    /// Further settings of the table: `index_granularity: "1024"`.
    pub settings: BTreeMap<String, String>,
}
