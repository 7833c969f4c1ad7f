//! From messages back to tables, with a check of every key's history on the way.
//!
//! The rules, for every key of every table: its first change is its snapshot row or its insert; an
//! insert meets no row, an update and a delete meet one; the before image of an update (`data` with
//! `old` laid over it) and of a delete is the row as it was rebuilt so far; message ids rise. So
//! nothing can be lost, doubled or swapped without one of them, or the final comparison with the
//! source's own SELECT, failing.

use crate::canal::{self, Cells, Message};
use crate::oracle;
use crate::sql::Sql;
use std::collections::{BTreeMap, HashMap};

/// Faults that are told in full; the others are counted.
const FAULTS_MAX: usize = 8;

/// One key's standing.
#[derive(Debug)]
struct Entry {
    /// The row; none after a delete.
    row: Option<Box<[u8]>>,
    last_id: u64,
    /// Rows with this key; more than one only without a key.
    count: u32,
}

/// One table, rebuilt.
#[derive(Debug, Default)]
pub struct Table {
    keys: Vec<String>,
    entries: HashMap<Box<[u8]>, Entry>,
    /// Statements changed it: rows from before may lack columns.
    altered: bool,
    /// Inserts, updates, deletes.
    pub counts: [u64; 3],
}

impl Table {
    /// Rows that are there.
    pub fn rows(&self) -> usize {
        self.entries
            .values()
            .filter(|e| e.row.is_some())
            .map(|e| e.count as usize)
            .sum()
    }
}

/// Tables as messages tell them.
#[derive(Debug, Default)]
pub struct Rebuilt {
    tables: BTreeMap<String, Table>,
    faults: Vec<String>,
    fault_count: u64,
    last_id: u64,
    /// Ids rise over all messages, not only within a key: one writer, one file.
    ids_rise: bool,
    /// Messages seen.
    pub messages: u64,
    /// Statements seen.
    pub statements: Vec<String>,
}

impl Rebuilt {
    /// Of messages in one order: a file, a tail.
    pub fn from_one_order() -> Self {
        Self {
            ids_rise: true,
            ..Self::default()
        }
    }

    /// Of messages that are ordered within each key only: the partitions of topics.
    pub fn from_partitions() -> Self {
        Self::default()
    }

    /// Takes lines from a reader to its end.
    pub fn read_lines(&mut self, mut reader: impl std::io::BufRead) {
        let mut line = Vec::new();
        loop {
            line.clear();
            match reader
                .read_until(b'\n', &mut line)
                .expect("the lines can be read")
            {
                0 => return,
                _ if line.last() == Some(&b'\n') => self.take(&line),
                _ => self.fault("the last line is cut off".into()),
            }
        }
    }

    /// Takes one message.
    pub fn take(&mut self, line: &[u8]) {
        self.messages += 1;
        match canal::parse(line) {
            Ok(message) => self.apply(&message),
            Err(text) => self.fault(text),
        }
    }

    /// Notes a fault.
    pub fn fault(&mut self, text: String) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(text);
        }
    }

    /// One table by `database.table`.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    fn apply(&mut self, message: &Message<'_>) {
        if self.ids_rise && message.id <= self.last_id {
            self.fault(format!("id {} comes after {}", message.id, self.last_id));
        }
        self.last_id = message.id;
        let name = format!("{}.{}", message.database, message.table);
        if message.is_ddl {
            self.statements.push(message.sql.clone().into_owned());
            self.tables.entry(name).or_default().altered = true;
            return;
        }
        let table = self.tables.entry(name.clone()).or_default();
        if let Some(names) = &message.pk_names
            && table.keys.is_empty()
        {
            table.keys = names
                .iter()
                .map(|text| text.0.clone().into_owned())
                .collect();
        }
        let rows = message.data.as_deref().unwrap_or_default();
        let [data] = rows else {
            self.fault(format!(
                "{name}: {} rows in message {}",
                rows.len(),
                message.id
            ));
            return;
        };
        let old = message.old.as_ref().and_then(|rows| rows.first());
        if let Err(text) = table.change(&message.kind, message.id, data, old) {
            self.fault(format!("{name} id {}: {text}", message.id));
        }
    }

    /// Compares with the source, table by table, and panics with all that is wrong.
    pub fn assert_equals(&mut self, what: &str, sql: &mut Sql, tables: &[String]) {
        for name in tables {
            let empty = Table::default();
            let table = self.tables.get(name).unwrap_or(&empty);
            let faults = table.compare(name, sql);
            for fault in faults {
                self.fault(fault);
            }
        }
        self.assert_clean(what);
    }

    /// Panics when a history was wrong.
    pub fn assert_clean(&self, what: &str) {
        assert!(
            self.fault_count == 0,
            "{what}: {} faults in {} messages, the first:\n  {}",
            self.fault_count,
            self.messages,
            self.faults.join("\n  ")
        );
    }

    /// `table inserts/updates/deletes` of all tables, for the test's log.
    pub fn summary(&self) -> String {
        let totals = self.tables.values().fold([0u64; 3], |sum, table| {
            [0, 1, 2].map(|index| sum[index] + table.counts[index])
        });
        format!(
            "{} tables, {} inserts, {} updates, {} deletes",
            self.tables.len(),
            totals[0],
            totals[1],
            totals[2]
        )
    }
}

impl Table {
    fn key(&self, row: &Cells<'_>, over: Option<&Cells<'_>>) -> Box<[u8]> {
        let mut key = Vec::with_capacity(16);
        for (name, value) in &row.0 {
            if !self.keys.is_empty() && !self.keys.iter().any(|k| *k == name.0) {
                continue;
            }
            let old = over.and_then(|old| old.get(&name.0));
            let value = old.unwrap_or(value.as_ref().map(|text| &*text.0));
            oracle::put_value(&mut key, value.map(str::as_bytes));
        }
        key.into_boxed_slice()
    }

    fn change(
        &mut self,
        kind: &str,
        id: u64,
        data: &Cells<'_>,
        old: Option<&Cells<'_>>,
    ) -> Result<(), String> {
        match kind {
            "INSERT" => {
                self.counts[0] += 1;
                self.insert(self.key(data, None), id, row_text(data, None))
            }
            "DELETE" => {
                self.counts[2] += 1;
                self.remove(&self.key(data, None), id, &row_text(data, None))
            }
            "UPDATE" => {
                self.counts[1] += 1;
                let old = old.ok_or("an UPDATE without old values")?;
                let (key, old_key) = (self.key(data, None), self.key(data, Some(old)));
                let (row, old_row) = (row_text(data, None), row_text(data, Some(old)));
                if key == old_key {
                    return self.update(&key, id, row, &old_row);
                }
                self.remove(&old_key, id, &old_row)?;
                self.insert(key, id, row)
            }
            other => Err(format!("a row of type {other}")),
        }
    }

    fn insert(&mut self, key: Box<[u8]>, id: u64, row: Box<[u8]>) -> Result<(), String> {
        let keyless = self.keys.is_empty();
        let shown = show(&key);
        let entry = self.entries.entry(key).or_insert(Entry {
            row: None,
            last_id: 0,
            count: 0,
        });
        rises(entry.last_id, id, &shown)?;
        if entry.row.is_some() && !keyless {
            let last = entry.last_id;
            return Err(format!(
                "INSERT of key {shown}, which is there since id {last}"
            ));
        }
        entry.row = Some(row);
        entry.last_id = id;
        entry.count += 1;
        Ok(())
    }

    fn remove(&mut self, key: &[u8], id: u64, before: &[u8]) -> Result<(), String> {
        let altered = self.altered;
        let Some(entry) = self
            .entries
            .get_mut(key)
            .filter(|entry| entry.row.is_some())
        else {
            return Err(format!("DELETE of key {}, which is not there", show(key)));
        };
        rises(entry.last_id, id, &show(key))?;
        entry.last_id = id;
        entry.count -= 1;
        let was = match entry.count {
            0 => entry.row.take(),
            _ => entry.row.clone(),
        };
        same(&was.unwrap_or_default(), before, altered, "DELETE", key)
    }

    fn update(&mut self, key: &[u8], id: u64, row: Box<[u8]>, before: &[u8]) -> Result<(), String> {
        let altered = self.altered;
        let Some(entry) = self
            .entries
            .get_mut(key)
            .filter(|entry| entry.row.is_some())
        else {
            return Err(format!("UPDATE of key {}, which is not there", show(key)));
        };
        rises(entry.last_id, id, &show(key))?;
        entry.last_id = id;
        let was = entry.row.replace(row).unwrap_or_default();
        same(&was, before, altered, "UPDATE", key)
    }

    fn compare(&self, name: &str, sql: &mut Sql) -> Vec<String> {
        let mut faults = Vec::new();
        let mut seen = 0usize;
        oracle::each_row(sql, name, &self.keys, |key, row| {
            seen += 1;
            let entry = self.entries.get(key).and_then(|entry| entry.row.as_deref());
            let fault = match entry {
                None => format!(
                    "{name}: the source has key {}, rebuilt it is not there",
                    show(key)
                ),
                Some(ours) if agrees(ours, row, self.altered) => return,
                Some(ours) => format!(
                    "{name} key {} differs\n    source  {}\n    rebuilt {}",
                    show(key),
                    show(row),
                    show(ours)
                ),
            };
            faults.push(fault);
        });
        if seen != self.rows() {
            faults.push(format!(
                "{name}: the source has {seen} rows, rebuilt are {}",
                self.rows()
            ));
        }
        faults
    }
}

fn rises(last: u64, id: u64, key: &str) -> Result<(), String> {
    // Both halves of a key change have one id in formats that join them.
    match id > last || last == 0 {
        true => Ok(()),
        false => Err(format!("key {key}: id {id} comes after {last}")),
    }
}

fn row_text(row: &Cells<'_>, over: Option<&Cells<'_>>) -> Box<[u8]> {
    let mut text = Vec::with_capacity(128);
    for (name, value) in &row.0 {
        let old = over.and_then(|old| old.get(&name.0));
        let value = old.unwrap_or(value.as_ref().map(|text| &*text.0));
        oracle::put_cell(&mut text, &name.0, value.map(str::as_bytes));
    }
    text.into_boxed_slice()
}

fn same(was: &[u8], before: &[u8], altered: bool, kind: &str, key: &[u8]) -> Result<(), String> {
    match agrees(was, before, altered) {
        true => Ok(()),
        false => Err(format!(
            "{kind} of key {}: its before image is not the row so far\n    row    {}\n    before {}",
            show(key),
            show(was),
            show(before)
        )),
    }
}

/// Equal, or after a change of the table equal in the columns that both have.
fn agrees(ours: &[u8], theirs: &[u8], altered: bool) -> bool {
    if ours == theirs {
        return true;
    }
    if !altered {
        return false;
    }
    let theirs: HashMap<&[u8], &[u8]> = oracle::cells(theirs).collect();
    let mut shared = 0;
    for (name, value) in oracle::cells(ours) {
        match theirs.get(name) {
            Some(other) if *other == value => shared += 1,
            Some(_) => return false,
            None => {}
        }
    }
    shared > 0
}

fn show(text: &[u8]) -> String {
    let mut shown: String = String::from_utf8_lossy(text).chars().take(400).collect();
    for (mark, word) in [
        (oracle::NULL, "NULL"),
        (oracle::VALUE, ""),
        (oracle::NAME, "="),
        (oracle::END, " "),
    ] {
        shown = shown.replace(char::from(mark), word);
    }
    shown
}
