//! Messages of each format as changes, and the tables that they rebuild against the source's own SELECT.
#![allow(dead_code, reason = "each test uses a part of it")]

use serde_json::Value;
use std::collections::BTreeMap;
use testkit::DtsJudge;
use testkit::sql::Sql;
use testkit::workload::{Key, Table};

/// A row's columns, as texts.
pub type Row = BTreeMap<String, Option<String>>;

/// One message: its table, the row before, the row after.
pub type Change = (String, Option<Row>, Option<Row>);

/// How a format's values are asked of the server, for the columns that every table has.
pub type Columns = [(&'static str, &'static str); 9];

pub const DTS_AVRO: Columns = [
    ("num", "num"),
    ("amount", "amount"),
    ("label", "label"),
    ("at", "at"),
    ("doc", "CAST(doc AS CHAR)"),
    ("color", "CAST(color AS CHAR)"),
    ("raw", "HEX(raw)"),
    ("seen", "seen"),
    ("ratio", "ratio"),
];
pub const SHAREPLEX: Columns = DTS_AVRO;
pub const CANAL_DTS: Columns = [
    ("num", "num"),
    ("amount", "amount"),
    ("label", "label"),
    ("at", "at"),
    ("doc", "CAST(doc AS CHAR)"),
    ("color", "color + 0"),
    ("raw", "HEX(raw)"),
    ("seen", "seen"),
    ("ratio", "ratio"),
];
pub const DEBEZIUM: Columns = [
    ("num", "num"),
    ("amount", "amount"),
    ("label", "label"),
    ("at", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at)"),
    ("doc", "CAST(doc AS CHAR)"),
    ("color", "CAST(color AS CHAR)"),
    ("raw", "TO_BASE64(raw)"),
    (
        "seen",
        "CONCAT(DATE_FORMAT(seen, '%Y-%m-%dT%H:%i:%s'), RIGHT(seen, 4), 'Z')",
    ),
    ("ratio", "ratio"),
];

/// Tables with keys of every kind.
pub fn tables() -> [Table; 4] {
    [
        Table::new("signed", Key::Signed, 400),
        Table::new("unsigned", Key::Unsigned, 400),
        Table::new("pair", Key::Pair, 400),
        Table::new("decimals", Key::Decimal, 400),
    ]
}

/// A JSON object as a row; numbers as they stand.
fn row(value: &Value) -> Option<Row> {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let object = value.as_object()?;
    Some(
        object
            .iter()
            .map(|(name, value)| (name.clone(), text(value)))
            .collect(),
    )
}

fn json(message: &[u8]) -> Value {
    serde_json::from_slice(message).expect("the message is JSON")
}

pub fn canal(message: &[u8]) -> Vec<Change> {
    let message = json(message);
    let table = message["table"].as_str().unwrap_or_default().to_owned();
    let (data, old) = (row(&message["data"][0]), row(&message["old"][0]));
    let latin1_to_hex = |mut row: Row| {
        let raw = row.get("raw").cloned().flatten();
        let hex = raw.map(|text| text.chars().map(|c| format!("{:02X}", c as u32)).collect());
        row.insert("raw".into(), hex);
        row
    };
    let (data, old) = (data.map(latin1_to_hex), old.map(latin1_to_hex));
    match message["type"].as_str() {
        Some("INSERT" | "INIT") => vec![(table, None, data)],
        Some("UPDATE") => vec![(table, old, data)],
        Some("DELETE") => vec![(table, data, None)],
        _ => Vec::new(),
    }
}

pub fn shareplex(message: &[u8]) -> Vec<Change> {
    let message = json(message);
    let name = message["meta"]["table"].as_str().unwrap_or_default();
    let table = name.rsplit('.').next().unwrap_or_default().to_owned();
    let (data, key) = (row(&message["data"]), row(&message["key"]));
    match message["meta"]["op"].as_str() {
        Some("ins") => vec![(table, None, data)],
        Some("del") => vec![(table, data, None)],
        Some("upd") => {
            let before = key.expect("an update has the row before");
            let mut after = before.clone();
            after.extend(data.expect("an update has what changed"));
            vec![(table, Some(before), Some(after))]
        }
        _ => Vec::new(),
    }
}

pub fn debezium(message: &[u8]) -> Vec<Change> {
    let mut message = json(message);
    // With its schema the message is a part of it.
    if message.get("schema").is_some() {
        message = message["payload"].take();
    }
    let table = message["source"]["table"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    // The default is a long, which wraps.
    let unwrap = |mut row: Row| {
        let id = row
            .get("id")
            .cloned()
            .flatten()
            .filter(|_| table == "unsigned");
        if let Some(id) = id {
            let id: i64 = id.parse().expect("a long");
            row.insert("id".into(), Some((id as u64).to_string()));
        }
        row
    };
    let (before, after) = (row(&message["before"]), row(&message["after"]));
    let (before, after) = (before.map(unwrap), after.map(unwrap));
    match message["op"].as_str() {
        Some(_) => vec![(table, before, after)],
        None => Vec::new(),
    }
}

pub fn dts(messages: &[Vec<u8>]) -> Vec<Change> {
    let image = |image: testkit::dts::DtsImage| -> Row {
        let text = |value: Option<testkit::dts::DtsValue>| value.map(|value| value.text);
        image
            .0
            .into_iter()
            .map(|(name, value)| (name, text(value)))
            .collect()
    };
    // The judge has a limit for one answer.
    let parts = messages.chunks(2000);
    let records = parts.flat_map(|part| DtsJudge::shared().decode(part));
    let is_row = |record: &testkit::dts::DtsRecord| record.operation != "DDL";
    records
        .filter(is_row)
        .map(|record| {
            let table = record.table.unwrap_or_default();
            (table, record.before.map(image), record.after.map(image))
        })
        .collect()
}

/// Cuts a file of messages after their lengths.
pub fn framed(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut messages = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (message, next) = after.split_at(u32::from_be_bytes(*length) as usize);
        messages.push(message.to_vec());
        rest = next;
    }
    messages
}

/// Texts of one value that only differ in spelling.
fn plain(name: &str, text: &str) -> String {
    match name {
        "amount" | "at" | "seen" if text.contains('.') && !text.ends_with('Z') => {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        "ratio" => text
            .parse::<f64>()
            .map_or(text.to_owned(), |value| value.to_string()),
        _ => text.to_owned(),
    }
}

/// Applies changes in the order of each key, and compares what is left with the source.
pub fn assert_rebuilds(
    what: &str,
    changes: Vec<Change>,
    sql: &mut Sql,
    tables: &[Table],
    columns: &Columns,
) {
    let mut rebuilt: BTreeMap<String, BTreeMap<String, Row>> = BTreeMap::new();
    let mut faults = Vec::new();
    let key_of = |row: &Row| {
        let part = |name: &str| row.get(name).cloned().flatten();
        let parts = [part("id"), part("a"), part("b")];
        let parts: Vec<String> = parts
            .into_iter()
            .flatten()
            .map(|text| plain("amount", &text))
            .collect();
        parts.join("^")
    };
    for (table, before, after) in changes {
        let rows = rebuilt.entry(table.clone()).or_default();
        if let Some(before) = &before
            && rows.remove(&key_of(before)).is_none()
        {
            faults.push(format!(
                "{table}: {} goes, but was not there",
                key_of(before)
            ));
        }
        if let Some(after) = after
            && rows.insert(key_of(&after), after.clone()).is_some()
        {
            faults.push(format!("{table}: {} comes, but was there", key_of(&after)));
        }
    }
    assert!(
        faults.is_empty(),
        "{what}: {} faults, first: {}",
        faults.len(),
        faults[0]
    );
    for table in tables {
        let name = table.name.rsplit('.').next().expect("a name has a part");
        let keys = if name == "pair" { "a, b" } else { "id" };
        let list: Vec<&str> = columns.iter().map(|(_, expression)| *expression).collect();
        let query = format!(
            "SELECT CONCAT_WS('^', {keys}), {} FROM {}",
            list.join(", "),
            table.name
        );
        let text =
            |cell: Option<Vec<u8>>| cell.map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        let rows = rebuilt.remove(name).unwrap_or_default();
        let source = sql.select(&query);
        assert_eq!(rows.len(), source.len(), "{what}: rows of {name}");
        for mut cells in source {
            let key = text(cells.remove(0)).expect("a key is not null");
            let key: Vec<String> = key.split('^').map(|part| plain("amount", part)).collect();
            let key = key.join("^");
            let row = rows
                .get(&key)
                .unwrap_or_else(|| panic!("{what}: {name} lacks {key}"));
            for ((column, _), cell) in columns.iter().zip(cells) {
                let ours = row
                    .get(*column)
                    .cloned()
                    .flatten()
                    .map(|text| plain(column, &text));
                let source = text(cell).map(|text| plain(column, &text));
                assert_eq!(ours, source, "{what}: {name}.{column} of {key}");
            }
        }
    }
}
