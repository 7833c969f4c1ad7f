//! Settings of SharePlex JSON.

use crate::canal_json::Clock;
use schemars::JsonSchema;
use serde::Deserialize;

/// Whose SharePlex JSON it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// As DTS writes it: all of `meta`, values as strings, the whole row before in `key`.
    #[default]
    Dts,
    /// As Quest's SharePlex writes it by default: `op` and `table` in `meta`, numbers bare, names in
    /// upper case, only the key columns in `key`.
    Quest,
}

/// How an update is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpdateShape {
    /// One message: changed columns in `data`, the row before in `key`.
    #[default]
    Single,
    /// Two messages: the row before, then the row after, each in `data`.
    BeforeAfter,
}

/// What `rowid` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowId {
    /// Nothing: MySQL's rows have no address.
    #[default]
    Empty,
    /// The text of the key, before the change.
    PrimaryKey,
}

/// What becomes of NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Nulls {
    /// It is written as null.
    Explicit,
    /// It is left out of the `data` of whole rows; where leaving out would mean "unchanged", in an
    /// update's `data`, it is written.
    Omitted,
}

/// The letters of column and table names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Names {
    /// As in the source.
    Source,
    /// In upper case, as Oracle has them.
    Upper,
}

/// How times in `meta` end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeSuffix {
    /// With the seconds; they are in UTC.
    #[default]
    None,
    /// With `Z`.
    Z,
}

/// A member of `meta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetaField {
    /// Commit time at the source, UTC.
    Time,
    /// User that committed; always 0.
    Userid,
    /// What happened.
    Op,
    /// Commit number: the journal sequence of the commit.
    Scn,
    /// See [`RowId`].
    Rowid,
    /// The transaction's id.
    Trans,
    /// Place in the transaction, from 1.
    Seq,
    /// Operations in the transaction that are sent.
    Size,
    /// `database.table`.
    Table,
    /// `seq/size`.
    Idx,
    /// Time at which the message was built, UTC.
    Posttime,
}

const META_DTS: [MetaField; 11] = [
    MetaField::Time,
    MetaField::Userid,
    MetaField::Op,
    MetaField::Scn,
    MetaField::Rowid,
    MetaField::Trans,
    MetaField::Seq,
    MetaField::Size,
    MetaField::Table,
    MetaField::Idx,
    MetaField::Posttime,
];

/// The words of `op`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpWords {
    /// A new row, also of a snapshot.
    pub insert: String,
    /// A changed row.
    pub update: String,
    /// A row that went.
    pub delete: String,
    /// TRUNCATE TABLE.
    pub truncate: String,
    /// A column that went.
    pub drop_column: String,
    /// The row before an update.
    pub update_before: String,
    /// The row after an update.
    pub update_after: String,
}

impl OpWords {
    fn of(words: [&str; 7]) -> Self {
        let [
            insert,
            update,
            delete,
            truncate,
            drop_column,
            update_before,
            update_after,
        ] = words.map(str::to_owned);
        Self {
            insert,
            update,
            delete,
            truncate,
            drop_column,
            update_before,
            update_after,
        }
    }

    /// `ins`, `upd`, `del`, …
    pub fn short() -> Self {
        Self::of(["ins", "upd", "del", "trunc", "dropcol", "ub", "ua"])
    }

    /// `INSERT`, `UPDATE`, `DELETE`, …
    pub fn long() -> Self {
        Self::of([
            "INSERT",
            "UPDATE",
            "DELETE",
            "TRUNCATE",
            "DROP COLUMN",
            "UPDATE BEFORE",
            "UPDATE AFTER",
        ])
    }
}

impl Default for OpWords {
    fn default() -> Self {
        Self::short()
    }
}

/// Settings of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whose SharePlex JSON it is.
    pub variant: Variant,
    /// The words of `op`. Default short.
    pub op_words: OpWords,
    /// How an update is sent. Default single.
    pub update: UpdateShape,
    /// What `rowid` says. Default empty.
    pub rowid: RowId,
    /// What becomes of NULL. Default explicit, Quest omitted.
    pub nulls: Nulls,
    /// The letters of names. Default source, Quest upper.
    pub names: Names,
    /// How times in `meta` end. Default none.
    pub time_suffix: TimeSuffix,
    /// Members of `meta`, in this order. Default all eleven, Quest `op` and `table`.
    pub meta: Vec<MetaField>,
    /// What `posttime` says. Default wall.
    pub clock: Clock,
    /// Offset from UTC in which TIMESTAMP columns are printed, seconds. Default 0.
    pub timestamp_offset_seconds: i32,
    /// Leave TRUNCATE and DROP COLUMN out. Default false.
    pub without_ddl: bool,
}

impl Options {
    /// A variant's defaults.
    pub fn of(variant: Variant) -> Self {
        let quest = variant == Variant::Quest;
        Self {
            variant,
            op_words: OpWords::short(),
            update: UpdateShape::Single,
            rowid: RowId::Empty,
            nulls: if quest {
                Nulls::Omitted
            } else {
                Nulls::Explicit
            },
            names: if quest { Names::Upper } else { Names::Source },
            time_suffix: TimeSuffix::None,
            meta: if quest {
                vec![MetaField::Op, MetaField::Table]
            } else {
                META_DTS.to_vec()
            },
            clock: Clock::Wall,
            timestamp_offset_seconds: 0,
            without_ddl: false,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::of(Variant::Dts)
    }
}
