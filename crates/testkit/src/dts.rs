//! DTS Avro datums, as the vendor's subscription SDK decodes them.

use crate::judge::{Judge, hex, parse, unhex};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The DTS SDK 2.0.0 in a JVM.
#[derive(Debug)]
pub struct DtsJudge(Judge);

/// What the SDK makes of one datum.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DtsRecord {
    /// `INSERT`, `UPDATE`, `DELETE`, `DDL`, …, and `UNKNOWN` for what the SDK's users never see.
    pub operation: String,
    /// The operation in the datum: `INIT`, where `operation` says `UNKNOWN`.
    pub avro_operation: String,
    /// Its number in the stream.
    pub id: i64,
    /// The time of the change, in the datum's unit: seconds for MySQL.
    pub source_timestamp: i64,
    /// Its place in the source.
    pub position: String,
    /// A place from which reading may start again.
    pub safe_position: String,
    /// The source's transaction.
    pub transaction: String,
    /// The name as it stands in the datum.
    pub object_name: Option<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// `MySQL`, `PostgreSQL`, …
    pub source_type: String,
    /// The source's version.
    pub source_version: String,
    /// The database, parsed from the name.
    pub database: Option<String>,
    /// The table, parsed from the name.
    pub table: Option<String>,
    /// The columns. A statement has one, `ddl`, made up by the SDK.
    pub fields: Vec<DtsField>,
    /// Names of the primary key's columns.
    pub primary_key: Vec<String>,
    /// The row before; none where the datum has none.
    pub before: Option<DtsImage>,
    /// The row after.
    pub after: Option<DtsImage>,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DtsField {
    /// Its name.
    pub name: String,
    /// The number of its type.
    pub data_type: i32,
    /// Whether it is in the primary key.
    pub is_primary: bool,
    /// Whether it is in a unique key.
    pub is_unique: bool,
}

/// A row: names and values in the datum's order.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DtsImage(pub Vec<(String, Option<DtsValue>)>);

impl DtsImage {
    /// The value of a column; none when it is not there, or null.
    pub fn get(&self, name: &str) -> Option<&DtsValue> {
        let found = self.0.iter().find(|(column, _)| column == name)?;
        found.1.as_ref()
    }

    /// The text of a column.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(|value| value.text.as_str())
    }
}

/// One value that is not null.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DtsValue {
    /// The SDK's word for its kind: `INTEGER_NUMERIC`, `STRING`, `DATETIME`, `NONE`, …
    pub kind: String,
    /// The SDK's own text of it: what its users print. Timestamps are in UTC here.
    pub text: String,
    /// The bytes of a string, a binary object or a geometry, in hex.
    pub hex: Option<String>,
}

impl DtsValue {
    /// The bytes of a string, a binary object or a geometry.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        self.hex.as_deref().map(unhex)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Refused { error: String },
    Record(Box<DtsRecord>),
}

impl DtsJudge {
    /// Starts one; the libraries are fetched where they are missing.
    pub fn start() -> Self {
        Self(Judge::start("dts"))
    }

    /// The one of this process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<DtsJudge> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Decodes datums: for each the record, or the SDK's complaint.
    pub fn try_decode(&self, datums: &[Vec<u8>]) -> Vec<Result<DtsRecord, String>> {
        let lines: Vec<String> = datums.iter().map(|datum| hex(datum)).collect();
        let answer = self.0.ask(&lines);
        assert_eq!(answer.len(), datums.len(), "one answer for each datum");
        let one = |line: &Vec<u8>| match parse(line) {
            Line::Refused { error } => Err(error),
            Line::Record(record) => Ok(*record),
        };
        answer.iter().map(one).collect()
    }

    /// Decodes datums all of which the SDK must understand.
    pub fn decode(&self, datums: &[Vec<u8>]) -> Vec<DtsRecord> {
        let records = self.try_decode(datums).into_iter().enumerate();
        let one = |(index, record): (usize, Result<DtsRecord, String>)| {
            record.unwrap_or_else(|error| {
                let datum = hex(&datums[index]);
                panic!("the DTS SDK refuses datum {index}: {error}\n{datum}")
            })
        };
        records.map(one).collect()
    }
}
