//! The tables that messages tell of: their numbers, their schema versions, and their rows in the columns
//! of the version in force.
//!
//! A message says what it says: some list every column with its type, others only the columns of one
//! update. So columns are joined by name; a column that a message leaves out is unknown in its row, and
//! goes from the table only when a statement changed the table and the next whole row lacks it.

use crate::controls::Controls;
use change::value::{Cell, Value, put_cell};
use change::wire::{WireReader, put_u64};
use change::{Batch, Column, ColumnType, Image, SchemaVersion, SourceError, TableId, TableSchema};
use std::collections::{BTreeMap, HashMap};

/// Prefix of the control key that says that a statement changed a table: its number follows.
pub(crate) const ALTERED: &str = "source/altered/";

/// How far the types of a message's columns can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Types {
    /// They are the source's: a difference is a change of the table.
    Exact,
    /// They come from numbers and values: a version takes the widest that was seen.
    Widest,
    /// They are told by no one: all columns are text.
    Text,
}

/// What a message says of its table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a> {
    /// Names, columns and keys.
    pub schema: &'a TableSchema,
    /// How far to trust the types.
    pub types: Types,
    /// Whether the message holds the whole row.
    pub is_whole: bool,
    /// Whether a column that the whole row lacks is NULL in it.
    pub leaves_nulls_out: bool,
    /// Names of the key columns, where something beside the columns tells them; may be empty.
    pub key: &'a [String],
    /// The message's images.
    pub images: [Option<&'a [u8]>; 2],
}

#[derive(Debug)]
struct Table {
    schema: TableSchema,
    /// A statement changed the table since its last whole row.
    altered: bool,
}

/// How a message's row becomes a row of the table.
#[derive(Debug)]
pub(crate) struct Fit {
    /// Index of the table.
    table: usize,
    /// By column of the table: the message's column; none where the message has the same columns.
    map: Option<Vec<Option<usize>>>,
    text: bool,
    /// What stands for a column that the message lacks.
    absent: Absent,
}

/// The cell of a column that a message lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    Unknown,
    Null,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    tables: Vec<Table>,
    /// `database`, a zero, `table`.
    by_name: HashMap<String, usize>,
    keys: BTreeMap<String, Vec<String>>,
    name: String,
    /// What the open transaction says of tables.
    pub controls: Controls,
}

impl Tables {
    /// Without tables; `keys` names the key columns of some, by `database.table`.
    pub fn new(keys: BTreeMap<String, Vec<String>>) -> Self {
        Self {
            keys,
            ..Self::default()
        }
    }

    /// Takes back a schema version that the journal holds.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), change::wire::WireError> {
        let schema = TableSchema::decode(bytes)?;
        match self.find(&schema.database, &schema.name) {
            Some(index) if self.tables[index].schema.version >= schema.version => {}
            Some(index) => self.tables[index].schema = schema,
            None => self.push(schema),
        }
        Ok(())
    }

    /// Takes back that a statement changed a table.
    pub fn restore_altered(&mut self, id: u32) {
        let table = self.tables.iter_mut().find(|t| t.schema.table.0 == id);
        if let Some(table) = table {
            table.altered = true;
        }
    }

    fn find(&mut self, database: &str, name: &str) -> Option<usize> {
        self.name.clear();
        self.name.push_str(database);
        self.name.push('\0');
        self.name.push_str(name);
        self.by_name.get(self.name.as_str()).copied()
    }

    fn push(&mut self, schema: TableSchema) {
        let name = format!("{}\0{}", schema.database, schema.name);
        self.by_name.insert(name, self.tables.len());
        self.tables.push(Table {
            schema,
            altered: false,
        });
    }

    /// The number and version of a table that is known.
    pub fn known(&mut self, database: &str, name: &str) -> Option<(TableId, SchemaVersion)> {
        let index = self.find(database, name)?;
        let schema = &self.tables[index].schema;
        Some((schema.table, schema.version))
    }

    /// Whether a key has to be looked for beside the columns.
    pub fn wants_key(&mut self, database: &str, name: &str) -> bool {
        match self.find(database, name) {
            None => true,
            Some(index) => {
                let table = &self.tables[index];
                table.altered || table.schema.key().is_empty()
            }
        }
    }

    /// A statement changed a table, or (without a table) perhaps any of the database.
    pub fn altered(&mut self, database: &str, name: &str, batch: &mut Batch) {
        for table in &mut self.tables {
            let is_meant = (database.is_empty() || table.schema.database == database)
                && (name.is_empty() || table.schema.name == name);
            if is_meant && !table.altered {
                table.altered = true;
                let key = format!("{ALTERED}{}", table.schema.table.0);
                self.controls.put(batch, &key, Some(b"1"));
            }
        }
    }

    /// Finds how a message's row fits its table; a new table or version goes into the journal first.
    ///
    /// Shape: `batch` has an open transaction.
    pub fn fit(&mut self, told: &Told<'_>, batch: &mut Batch) -> Fit {
        let text = told.types == Types::Text;
        let absent = match told.is_whole && told.leaves_nulls_out {
            true => Absent::Null,
            false => Absent::Unknown,
        };
        let Some(index) = self.find(&told.schema.database, &told.schema.name) else {
            let mut schema = told.schema.clone();
            let last = self.tables.iter().map(|t| t.schema.table.0).max();
            schema.table = TableId(last.unwrap_or(0) + 1);
            schema.version = SchemaVersion(1);
            if text {
                schema.columns.iter_mut().for_each(make_text);
            }
            self.set_key(&mut schema, told);
            self.controls.schema(&schema, batch);
            self.push(schema);
            let table = self.tables.len() - 1;
            return Fit {
                table,
                map: None,
                text,
                absent,
            };
        };
        let known = &self.tables[index].schema;
        if !self.tables[index].altered && is_same(known, told) {
            return Fit {
                table: index,
                map: None,
                text,
                absent,
            };
        }
        let mut next = self.joined(index, told);
        self.set_key(&mut next, told);
        let table = &mut self.tables[index];
        if table.altered && told.is_whole {
            table.altered = false;
            let key = format!("{ALTERED}{}", table.schema.table.0);
            self.controls.put(batch, &key, None);
        }
        if next != table.schema {
            next.version = SchemaVersion(table.schema.version.0 + 1);
            self.controls.schema(&next, batch);
            table.schema = next;
        }
        let columns = &table.schema.columns;
        let map: Vec<Option<usize>> = (columns.iter().enumerate())
            .map(|(at, column)| place_of(&told.schema.columns, at, &column.name))
            .collect();
        let is_identity = columns.len() == told.schema.columns.len()
            && map.iter().enumerate().all(|(at, from)| *from == Some(at));
        Fit {
            table: index,
            map: (!is_identity).then_some(map),
            text,
            absent,
        }
    }

    /// The schema that a fit is for.
    pub fn schema(&self, fit: &Fit) -> &TableSchema {
        &self.tables[fit.table].schema
    }

    /// The table's columns, joined with those of a message.
    fn joined(&self, index: usize, told: &Told<'_>) -> TableSchema {
        let Table { schema, altered } = &self.tables[index];
        let mut next = schema.clone();
        if *altered && told.is_whole && told.types != Types::Text {
            let kept = std::mem::take(&mut next.columns);
            next.columns.clone_from(&told.schema.columns);
            if told.types == Types::Widest {
                for (at, column) in next.columns.iter_mut().enumerate() {
                    if let Some(from) = place_of(&kept, at, &column.name) {
                        let told = std::mem::replace(column, kept[from].clone());
                        widen(column, &told);
                    }
                }
            }
        } else {
            for at in 0..told.schema.columns.len() {
                add_column(&mut next.columns, told, at);
            }
        }
        let named = |name: &str| next.columns.iter().position(|column| column.name == name);
        let moved = |from: &TableSchema, columns: &[u32]| -> Option<Vec<u32>> {
            let one = |index: &u32| named(&from.columns.get(*index as usize)?.name);
            columns.iter().map(|i| one(i).map(|i| i as u32)).collect()
        };
        let (key_of, unique_of) = (
            if told.schema.primary_key.is_empty() {
                schema
            } else {
                told.schema
            },
            if told.schema.unique_keys.is_empty() {
                schema
            } else {
                told.schema
            },
        );
        next.primary_key = moved(key_of, &key_of.primary_key).unwrap_or_default();
        next.unique_keys = unique_of
            .unique_keys
            .iter()
            .filter_map(|key| {
                Some(change::schema::UniqueKey {
                    name: key.name.clone(),
                    columns: moved(unique_of, &key.columns)?,
                })
            })
            .collect();
        next
    }

    /// The key that the config names, else what the message tells beside its columns.
    fn set_key(&self, schema: &mut TableSchema, told: &Told<'_>) {
        let configured = self
            .keys
            .get(&format!("{}.{}", schema.database, schema.name));
        let names = match configured {
            Some(names) => names,
            None if !told.key.is_empty() => told.key,
            None => return,
        };
        let place = |name: &String| schema.columns.iter().position(|c| c.name == *name);
        let indexes: Option<Vec<u32>> = names.iter().map(|n| place(n).map(|i| i as u32)).collect();
        if let Some(mut indexes) = indexes {
            if configured.is_none() {
                indexes.sort_unstable();
            }
            schema.primary_key = indexes;
        }
    }
}

impl Fit {
    /// Writes a message's image as one of the table.
    ///
    /// Shape: `image` is in stored form, `out` gets the same form.
    pub fn put(&self, image: &[u8], out: &mut Vec<u8>) {
        if self.map.is_none() && !self.text {
            out.extend_from_slice(image);
            return;
        }
        let Ok(image) = Image::read(&mut WireReader::new(image), image) else {
            return;
        };
        let cells: Vec<Cell<'_>> = image.cells().collect();
        let count = self.map.as_ref().map_or(cells.len(), Vec::len);
        put_u64(out, count as u64);
        for at in 0..count {
            let from = self.map.as_ref().map_or(Some(at), |map| map[at]);
            let cell = from.and_then(|from| cells.get(from)).copied();
            let cell = cell.unwrap_or(match self.absent {
                Absent::Unknown => Cell::Unknown,
                Absent::Null => Cell::Null,
            });
            match self.text {
                true => put_text(out, cell),
                false => put_cell(out, cell),
            }
        }
    }
}

/// Where the column of a name stands; most often where it stood.
fn place_of(columns: &[Column], guess: usize, name: &str) -> Option<usize> {
    match columns.get(guess) {
        Some(column) if column.name == name => Some(guess),
        _ => columns.iter().position(|column| column.name == name),
    }
}

/// Joins one column of a message with those of the table.
fn add_column(columns: &mut Vec<Column>, told: &Told<'_>, at: usize) {
    let mut column = told.schema.columns[at].clone();
    if told.types == Types::Text {
        make_text(&mut column);
    }
    match (place_of(columns, at, &column.name), told.types) {
        (None, _) => columns.push(column),
        (Some(known), Types::Exact) => columns[known] = column,
        (Some(known), Types::Widest) if has_value(told, at) => widen(&mut columns[known], &column),
        (Some(_), _) => {}
    }
}

/// Whether a message tells the same columns and keys in the same order.
fn is_same(known: &TableSchema, told: &Told<'_>) -> bool {
    let schema = told.schema;
    let column = |(known, told_column): (&Column, &Column)| match told.types {
        Types::Text => known.name == told_column.name,
        _ => known == told_column,
    };
    let is_key = |ours: &[u32], theirs: &[u32]| theirs.is_empty() || ours == theirs;
    known.columns.len() == schema.columns.len()
        && known.columns.iter().zip(&schema.columns).all(column)
        && is_key(&known.primary_key, &schema.primary_key)
        && (schema.unique_keys.is_empty() || schema.unique_keys == known.unique_keys)
        && (told.key.is_empty() || !known.primary_key.is_empty())
}

/// Whether a message has a value in a column: NULL tells nothing of a type.
fn has_value(told: &Told<'_>, column: usize) -> bool {
    let images = told.images.into_iter().flatten();
    let mut cells = images.filter_map(|bytes| {
        let image = Image::read(&mut WireReader::new(bytes), bytes).ok()?;
        Some(matches!(image.cell(column), Cell::Value(_)))
    });
    cells.any(|is_value| is_value)
}

fn make_text(column: &mut Column) {
    column.declared = "longtext".into();
    column.kind = ColumnType::Text { length_bytes: 4 };
    column.charset = None;
    column.collation = None;
}

/// Makes a column hold what it held and what the other holds, where both are of one kind; else it becomes
/// the other.
fn widen(known: &mut Column, told: &Column) {
    use ColumnType as T;
    let kind = match (&known.kind, &told.kind) {
        (
            T::Int {
                bytes: a,
                unsigned: x,
            },
            T::Int {
                bytes: b,
                unsigned: y,
            },
        ) => T::Int {
            bytes: *a.max(b),
            unsigned: *x || *y,
        },
        (
            T::Decimal {
                precision: a,
                scale: c,
                unsigned: x,
            },
            T::Decimal {
                precision: b,
                scale: d,
                unsigned: y,
            },
        ) => T::Decimal {
            precision: *a.max(b),
            scale: *c.max(d),
            unsigned: *x && *y,
        },
        (T::Bit { width: a }, T::Bit { width: b }) => T::Bit { width: *a.max(b) },
        (T::Char { length: a }, T::Char { length: b }) => T::Char { length: *a.max(b) },
        (T::Varchar { length: a }, T::Varchar { length: b }) => T::Varchar { length: *a.max(b) },
        (T::Text { length_bytes: a }, T::Text { length_bytes: b }) => T::Text {
            length_bytes: *a.max(b),
        },
        (_, told) => told.clone(),
    };
    let is_unsigned = |kind: &T| matches!(kind, T::Int { unsigned: true, .. });
    let becomes_unsigned = is_unsigned(&told.kind) && !is_unsigned(&known.kind);
    if becomes_unsigned || std::mem::discriminant(&known.kind) != std::mem::discriminant(&told.kind)
    {
        known.declared.clone_from(&told.declared);
    }
    known.kind = kind;
    if told.charset.is_some() {
        known.charset.clone_from(&told.charset);
    }
}

/// A value as the text that the message had.
fn put_text(out: &mut Vec<u8>, cell: Cell<'_>) {
    let Cell::Value(value) = cell else {
        return put_cell(out, cell);
    };
    let text = match value {
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Bit(bits) => (if bits == 0 { "false" } else { "true" }).to_owned(),
        Value::Float(number) => format!("{number:?}"),
        Value::Double(number) => format!("{number:?}"),
        Value::Decimal(text) | Value::Json(text) => {
            return put_cell(out, Cell::Value(Value::Text(text)));
        }
        _ => return put_cell(out, cell),
    };
    put_cell(out, Cell::Value(Value::Text(&text)));
}

/// An error for a control record that cannot be read.
pub(crate) fn damaged(key: &str) -> SourceError {
    let kind = change::contract::ErrorKind::Corrupt;
    SourceError::new(kind, "read control record", "it is damaged").at(key.to_owned())
}

#[cfg(test)]
mod tests;
