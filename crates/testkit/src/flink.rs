//! Change messages, as Flink's own formats decode them, and the table that they make.

use crate::judge::{Judge, parse};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

/// Flink 2.3 in a JVM.
#[derive(Debug)]
pub struct FlinkJudge(Judge);

/// How a row changes a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum RowKind {
    /// A new row.
    #[serde(rename = "+I")]
    Insert,
    /// The row before an update goes.
    #[serde(rename = "-U")]
    UpdateBefore,
    /// The row after an update comes.
    #[serde(rename = "+U")]
    UpdateAfter,
    /// A row goes.
    #[serde(rename = "-D")]
    Delete,
}

impl RowKind {
    /// Whether it takes a row away.
    pub fn is_retract(self) -> bool {
        matches!(self, RowKind::UpdateBefore | RowKind::Delete)
    }
}

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowKind::Insert => "+I",
            RowKind::UpdateBefore => "-U",
            RowKind::UpdateAfter => "+U",
            RowKind::Delete => "-D",
        })
    }
}

/// A row: Flink's text of every column, bytes in hex.
pub type FlinkRow = BTreeMap<String, Option<String>>;

/// One step of a changelog.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FlinkChange {
    /// The message that it came from, counted from 0.
    pub message: usize,
    /// What happens.
    pub kind: RowKind,
    /// To which row.
    pub row: FlinkRow,
}

/// A message that Flink refuses: a job that reads it fails.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FlinkRefusal {
    /// Which, counted from 0.
    pub message: usize,
    /// Why.
    pub error: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Refused(FlinkRefusal),
    Change(FlinkChange),
}

impl FlinkJudge {
    /// Starts one; the libraries are fetched where they are missing.
    pub fn start() -> Self {
        Self(Judge::start("flink"))
    }

    /// The one of this process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<FlinkJudge> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Decodes with the format `canal-json`. `columns` as in `CREATE TABLE`: `id BIGINT, name STRING`.
    /// Messages that yield no row, `CREATE` for one, leave no trace.
    pub fn canal_json<L: AsRef<[u8]>>(
        &self,
        columns: &str,
        messages: &[L],
    ) -> Result<Vec<FlinkChange>, FlinkRefusal> {
        self.decode("canal-json", columns, messages)
    }

    /// Decodes with the format `debezium-json`: messages without a schema.
    pub fn debezium_json<L: AsRef<[u8]>>(
        &self,
        columns: &str,
        messages: &[L],
    ) -> Result<Vec<FlinkChange>, FlinkRefusal> {
        self.decode("debezium-json", columns, messages)
    }

    /// Decodes with the format `debezium-json` and `schema-include`: `schema` and `payload` in each.
    pub fn debezium_json_with_schema<L: AsRef<[u8]>>(
        &self,
        columns: &str,
        messages: &[L],
    ) -> Result<Vec<FlinkChange>, FlinkRefusal> {
        self.decode("debezium-json+schema", columns, messages)
    }

    fn decode<L: AsRef<[u8]>>(
        &self,
        format: &str,
        columns: &str,
        messages: &[L],
    ) -> Result<Vec<FlinkChange>, FlinkRefusal> {
        let head = format!("{format} {}", columns.replace('\n', " "));
        let mut lines = vec![head.as_bytes()];
        lines.extend(messages.iter().map(AsRef::as_ref));
        let answer = self.0.ask(&lines);
        let one = |line: &Vec<u8>| match parse(line) {
            Line::Refused(refusal) => Err(refusal),
            Line::Change(change) => Ok(change),
        };
        answer.iter().map(one).collect()
    }
}

/// The table at a changelog's end: each row and how often it is there. Fails on the retraction of a row
/// that is not there, and on an update's second half without its first.
pub fn fold(changes: &[FlinkChange]) -> Result<BTreeMap<FlinkRow, u64>, String> {
    let mut table = BTreeMap::<FlinkRow, u64>::new();
    let mut updating = false;
    for (index, change) in changes.iter().enumerate() {
        let shown = || format!("change {index} (message {})", change.message);
        if updating != (change.kind == RowKind::UpdateAfter) {
            return Err(format!("{}: {} stands alone", shown(), change.kind));
        }
        updating = change.kind == RowKind::UpdateBefore;
        if !change.kind.is_retract() {
            *table.entry(change.row.clone()).or_default() += 1;
            continue;
        }
        match table.get_mut(&change.row) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                table.remove(&change.row);
            }
            None => {
                let (kind, row) = (change.kind, &change.row);
                return Err(format!("{}: {kind} of no such row: {row:?}", shown()));
            }
        }
    }
    match updating {
        true => Err("an update's second half is missing at the end".to_owned()),
        false => Ok(table),
    }
}

/// As [`fold`], for a table with a key: each key once. Fails also when a row comes whose key is there.
pub fn fold_by_key(
    changes: &[FlinkChange],
    key: &[&str],
) -> Result<BTreeMap<Vec<Option<String>>, FlinkRow>, String> {
    let rows = fold(changes)?;
    let mut table = BTreeMap::new();
    for (row, count) in rows {
        let cells: Vec<Option<String>> = key
            .iter()
            .map(|name| row.get(*name).cloned().flatten())
            .collect();
        if count > 1 || table.contains_key(&cells) {
            return Err(format!("more than one row with the key {cells:?}"));
        }
        table.insert(cells, row);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: RowKind, id: &str) -> FlinkChange {
        let row = BTreeMap::from([("id".to_owned(), Some(id.to_owned()))]);
        let message = 0;
        FlinkChange { message, kind, row }
    }

    #[test]
    fn a_changelog_folds_to_the_rows_that_are_left() {
        use RowKind::*;
        let steps = [
            change(Insert, "1"),
            change(Insert, "2"),
            change(UpdateBefore, "1"),
            change(UpdateAfter, "3"),
            change(Delete, "2"),
        ];
        let table = fold_by_key(&steps, &["id"]).expect("it is sound");
        assert_eq!(table.len(), 1);
        assert!(table.contains_key(&vec![Some("3".to_owned())]));
    }

    #[test]
    fn a_changelog_with_a_wrong_retraction_is_refused() {
        use RowKind::*;
        let wrong = [
            vec![change(Delete, "1")],
            vec![change(Insert, "1"), change(UpdateBefore, "1")],
            vec![change(Insert, "1"), change(UpdateAfter, "1")],
            vec![
                change(Insert, "1"),
                change(Delete, "1"),
                change(Delete, "1"),
            ],
        ];
        for steps in wrong {
            assert!(fold(&steps).is_err(), "{steps:?}");
        }
        let twice = [change(Insert, "1"), change(Insert, "1")];
        assert!(fold(&twice).is_ok());
        assert!(fold_by_key(&twice, &["id"]).is_err());
    }
}
