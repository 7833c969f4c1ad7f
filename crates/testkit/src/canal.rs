//! Canal JSON messages, read as an outsider reads them.

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A message; what no test looks at is skipped.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message<'a> {
    /// The rows, after the change, or before a delete.
    #[serde(borrow)]
    pub data: Option<Vec<Cells<'a>>>,
    /// The database.
    #[serde(borrow)]
    pub database: Cow<'a, str>,
    /// The table.
    #[serde(borrow)]
    pub table: Cow<'a, str>,
    /// Whether it is a statement.
    pub is_ddl: bool,
    /// Its number: the journal's sequence.
    pub id: u64,
    /// The time of the statement, milliseconds.
    pub es: u64,
    /// The time of sending, milliseconds.
    pub ts: u64,
    /// What changed: its value before.
    #[serde(borrow)]
    pub old: Option<Vec<Cells<'a>>>,
    /// Names of the key columns.
    #[serde(borrow)]
    pub pk_names: Option<Vec<Text<'a>>>,
    /// The statement of a DDL.
    #[serde(borrow)]
    pub sql: Cow<'a, str>,
    /// `INSERT`, `UPDATE`, `DELETE`, `ALTER`, …
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
}

/// Parses one message.
pub fn parse(line: &[u8]) -> Result<Message<'_>, String> {
    serde_json::from_slice(line).map_err(|error| {
        let shown: String = String::from_utf8_lossy(line).chars().take(400).collect();
        format!("no Canal JSON ({error}): {shown}")
    })
}

/// A string, borrowed where it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A row's cells in the message's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cells<'a>(pub Vec<(Text<'a>, Option<Text<'a>>)>);

impl<'a> Cells<'a> {
    /// The value of one column; none when the column is not there.
    pub fn get(&self, name: &str) -> Option<Option<&str>> {
        let found = self.0.iter().find(|(column, _)| column.0 == name)?;
        Some(found.1.as_ref().map(|text| &*text.0))
    }
}

struct CellsVisitor;

impl<'de> Visitor<'de> for CellsVisitor {
    type Value = Cells<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings and nulls")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut cells = Vec::with_capacity(12);
        while let Some(cell) = map.next_entry()? {
            cells.push(cell);
        }
        Ok(Cells(cells))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::custom("a row must be an object"))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Cells<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CellsVisitor)
    }
}
