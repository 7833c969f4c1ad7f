//! Asks the target what only it knows of some rows: the version that a deleted row had, how many equal
//! rows a table without a key holds. The keys go into a small table in memory, so that any number of
//! any kind can be asked for.

use crate::client::Client;
use crate::config::Mode;
use crate::layout::TableLayout;
use crate::names::{list, quote};
use crate::table::{Table, Waiting, Wanted};
use bytes::Bytes;
use change::SinkError;
use change::contract::ErrorKind;
use std::collections::{HashMap, HashSet};

/// Fills in what waits, and takes rows out that turn out to be of nothing.
///
/// Promises: after it, `table.rows` can be sent.
pub(crate) fn fill(table: &mut Table, client: &Client, mode: Mode) -> Result<(), SinkError> {
    if table.waiting.is_empty() {
        table.told.clear();
        return Ok(());
    }
    let mut known = ask(table, client, mode)?;
    let mut left_out = Vec::new();
    let mut told = table.told.iter().peekable();
    for row in &table.waiting {
        while let Some((token, version)) = told.next_if(|(_, version)| *version < row.version) {
            if let Some(latest) = known.get_mut(&u128::from(*token)) {
                *latest = *version;
            }
        }
        let number = known.get(&row.token).copied();
        match row.wanted {
            Wanted::RowVersion | Wanted::Cancelled => {
                let version = number.unwrap_or(0);
                known.insert(row.token, 0);
                if version == 0 && row.wanted == Wanted::Cancelled {
                    left_out.push((row.start, row.end));
                    continue;
                }
                let at = row.at..row.at + 8;
                table.rows.data[at].copy_from_slice(&version.to_le_bytes());
            }
            Wanted::Comes => {
                let count = number.unwrap_or(0) + 1;
                known.insert(row.token, count);
                put_count(&mut table.rows.data, row, count);
            }
            Wanted::Goes => {
                let count = number.unwrap_or(0);
                if count == 0 {
                    left_out.push((row.start, row.end));
                    continue;
                }
                known.insert(row.token, count - 1);
                put_count(&mut table.rows.data, row, count);
            }
        }
    }
    table.rows.count -= left_out.len() as u64;
    for (start, end) in left_out.into_iter().rev() {
        table.rows.data.drain(start..end);
    }
    table.waiting.clear();
    table.told.clear();
    table.keys.clear();
    Ok(())
}

fn put_count(data: &mut [u8], row: &Waiting, count: u64) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    data[row.at..row.at + 4].copy_from_slice(&count.to_le_bytes());
}

/// What the target has: by hash of the key, a version or a count; nothing where it has no such row.
fn ask(table: &Table, client: &Client, mode: Mode) -> Result<HashMap<u128, u64>, SinkError> {
    let mut data = Vec::with_capacity(table.keys.len());
    let mut tokens = Vec::new();
    let mut seen = HashSet::new();
    for row in &table.waiting {
        if seen.insert(row.token) {
            let number = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
            data.extend_from_slice(&number.to_le_bytes());
            data.extend_from_slice(&table.keys[row.key.0..row.key.1]);
            tokens.push(row.token);
        }
    }
    let layout = &table.layout;
    let keys = table.names.keys();
    let columns = key_columns(layout, mode);
    let lines: Vec<String> = columns
        .iter()
        .map(|(name, kind)| format!("{} {kind}", quote(name)))
        .collect();
    let number = layout.alias("n");
    client.run(
        "look up rows",
        &format!(
            "CREATE OR REPLACE TABLE {keys} ({number} UInt32, {}) ENGINE = Memory",
            lines.join(", ")
        ),
    )?;
    let insert = format!("INSERT INTO {keys} FORMAT RowBinary");
    client.insert(&insert, &[Bytes::from(data)], None, &[])?;
    let names = list(columns.iter().map(|(name, _)| name));
    let sql = format!(
        "SELECT k.{number}, r.{} FROM {keys} AS k INNER JOIN ({}) AS r USING ({names})",
        layout.alias("v"),
        found(table, mode, &names)
    );
    let answer = client.bytes("look up rows", &sql, "RowBinary")?;
    client.run("look up rows", &format!("DROP TABLE IF EXISTS {keys} SYNC"))?;
    let mut known = HashMap::new();
    for pair in answer.chunks_exact(12) {
        let (index, value) = pair.split_at(4);
        let index = u32::from_le_bytes(index.try_into().unwrap_or_default()) as usize;
        let value = u64::from_le_bytes(value.try_into().unwrap_or_default());
        let token = tokens.get(index).ok_or_else(|| {
            SinkError::new(
                ErrorKind::Internal,
                "look up rows",
                "an answer to no question",
            )
        })?;
        known.insert(*token, value);
    }
    // What the target does not have: later rows of the same flush may tell.
    tokens.iter().for_each(|token| {
        known.entry(*token).or_insert(0);
    });
    Ok(known)
}

/// The columns by which rows are looked up.
fn key_columns(layout: &TableLayout, mode: Mode) -> Vec<(String, String)> {
    if layout.is_keyless() {
        return vec![(layout.added().row.clone(), "UInt128".into())];
    }
    match mode {
        Mode::Mvcc => layout.key_columns(),
        Mode::SignVersion => layout
            .sort
            .iter()
            .map(|index| {
                let column = &layout.columns[*index];
                (column.name.clone(), column.type_text.clone())
            })
            .collect(),
    }
}

/// A query of what lives: the key's columns, and the version or the count, which is named `v` as
/// [`TableLayout::alias`] has it. No name here may be a column's.
fn found(table: &Table, mode: Mode, names: &str) -> String {
    let layout = &table.layout;
    let added = layout.added();
    let (version, sign, occurrence) = (
        quote(&added.version),
        quote(&added.sign),
        quote(&added.occurrence),
    );
    let dversion = quote(&added.dversion);
    let [v, e, d, o, s, gone] = ["v", "e", "d", "o", "s", "gone"].map(|name| layout.alias(name));
    let base = table.names.base();
    let delta = table.names.delta();
    let tuple = match names.contains(", ") {
        true => format!("({names})"),
        false => names.to_owned(),
    };
    let only = format!(
        "WHERE {tuple} IN (SELECT {names} FROM {})",
        table.names.keys()
    );
    match (mode, layout.is_keyless()) {
        (Mode::Mvcc, false) => format!(
            "SELECT {names}, argMax(if({d} > 0, toUInt64(0), {e}), {e}) AS {v} FROM (SELECT {names}, {version} \
             AS {e}, toUInt64(0) AS {d} FROM {base} {only} UNION ALL SELECT {names}, {version} AS {e}, \
             {dversion} AS {d} FROM {delta} {only}) GROUP BY {names}"
        ),
        (Mode::Mvcc, true) => format!(
            "SELECT {names}, toUInt64(max({o})) AS {v} FROM (SELECT {names}, {o}, argMax({d}, {e}) AS {gone} \
             FROM (SELECT {names}, {occurrence} AS {o}, {version} AS {e}, toUInt64(0) AS {d} FROM {base} \
             {only} UNION ALL SELECT {names}, {occurrence} AS {o}, {version} AS {e}, {dversion} AS {d} FROM \
             {delta} {only}) GROUP BY {names}, {o}) WHERE {gone} = 0 GROUP BY {names}"
        ),
        (Mode::SignVersion, false) => format!(
            "SELECT {names}, max({e}) AS {v} FROM (SELECT {names}, {version} AS {e}, sum({sign}) AS {s} FROM \
             {base} {only} GROUP BY {names}, {version}) WHERE {s} > 0 GROUP BY {names}"
        ),
        (Mode::SignVersion, true) => format!(
            "SELECT {names}, toUInt64(max({o})) AS {v} FROM (SELECT {names}, {occurrence} AS {o}, \
             argMax({sign}, {version}) AS {s} FROM {base} {only} GROUP BY {names}, {occurrence}) WHERE {s} > \
             0 GROUP BY {names}"
        ),
    }
}
