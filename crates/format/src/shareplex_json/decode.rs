//! SharePlex JSON back to changes: every variant, with members left out, both vocabularies of `op`.
//!
//! The format does not say a column's type: values are texts, bare numbers decimals. Of an update
//! without a full `key` the columns that are in neither `data` nor `key` are not known to the message
//! and not to the change.

use super::options::OpWords;
use super::{FORMAT, Word};
use crate::decode::{Decoded, Decoder, Fault, Kind};
use crate::decoded_table::DecodedTable;
use crate::json_reader::{Document, Json};
use crate::{canal_json::read_value::is_decimal, temporal_reader};
use change::value::put_cell;
use change::wire::put_u64;
use change::{Cell, ColumnType, DdlKind, Operation, Value};

/// The decoder.
#[derive(Debug, Default)]
pub struct SharePlexJsonDecoder {
    words: OpWords,
    document: Document,
}

impl SharePlexJsonDecoder {
    /// A decoder that knows these words of `op` beside the short and the long ones.
    pub fn new(words: OpWords) -> Self {
        Self {
            words,
            document: Document::default(),
        }
    }
}

impl Decoder for SharePlexJsonDecoder {
    fn name(&self) -> &'static str {
        FORMAT
    }

    fn decode(&mut self, message: &[u8], out: &mut Vec<Decoded>) -> Result<(), Fault> {
        let root = self.document.parse(FORMAT, message)?;
        if !root.is_object() {
            return Err(root.fault("an object is expected"));
        }
        let reader = Reader {
            root,
            meta: object(root, "meta")?,
            data: object(root, "data")?,
            key: object(root, "key")?,
        };
        let word = reader.word(&self.words)?;
        out.push(reader.read(word)?);
        Ok(())
    }
}

/// A member that is an object, where it is there and not null.
fn object<'d>(root: Json<'d>, name: &str) -> Result<Option<Json<'d>>, Fault> {
    match root.get(name) {
        Some(member) if !member.is_object() => Err(member.fault("an object is expected")),
        member => Ok(member),
    }
}

/// Where a row's values are: in the first object, else in the second.
type Sources<'d> = [Option<Json<'d>>; 2];

struct Reader<'d> {
    root: Json<'d>,
    meta: Option<Json<'d>>,
    data: Option<Json<'d>>,
    key: Option<Json<'d>>,
}

impl<'d> Reader<'d> {
    fn meta(&self, name: &str) -> Option<Json<'d>> {
        self.meta.and_then(|meta| meta.get(name))
    }

    fn word(&self, words: &OpWords) -> Result<Word, Fault> {
        let Some(op) = self.meta("op") else {
            // Only an update has a key beside its data.
            return match (self.data, self.key) {
                (Some(_), Some(_)) => Ok(Word::Update),
                _ => Err(self
                    .meta
                    .unwrap_or(self.root)
                    .fault("there is no member `op`")),
            };
        };
        let text = op.text().ok_or_else(|| op.fault("a string is expected"))?;
        const WORDS: [Word; 7] = [
            Word::Insert,
            Word::Update,
            Word::Delete,
            Word::Truncate,
            Word::DropColumn,
            Word::UpdateBefore,
            Word::UpdateAfter,
        ];
        [words, &OpWords::short(), &OpWords::long()]
            .iter()
            .flat_map(|vocabulary| WORDS.map(|word| (word, word.of(vocabulary))))
            .find(|(_, known)| known.eq_ignore_ascii_case(text.trim()))
            .map(|(word, _)| word)
            .ok_or_else(|| op.fault("an unknown operation"))
    }

    fn read(&self, word: Word) -> Result<Decoded, Fault> {
        let mut decoded = self.without_rows()?;
        let data = self.data;
        let (before, after): (Option<Sources<'d>>, Option<Sources<'d>>) = match word {
            Word::Insert => (None, Some([self.need_data()?, None])),
            Word::Update => (
                self.key.map(|key| [Some(key), None]),
                Some([data, self.key]),
            ),
            Word::Delete if self.key.is_none() => (Some([self.need_data()?, None]), None),
            Word::Delete => (Some([data, self.key]), None),
            Word::UpdateBefore => (Some([self.need_data()?, self.key]), None),
            Word::UpdateAfter => (None, Some([self.need_data()?, self.key])),
            Word::Truncate => {
                decoded.kind = Kind::Ddl(DdlKind::TruncateTable);
                decoded.sql = format!("TRUNCATE TABLE {}", name_of(&decoded));
                return Ok(decoded);
            }
            Word::DropColumn => {
                decoded.kind = Kind::Ddl(DdlKind::AlterTable);
                decoded.sql = self.drop_columns(&decoded);
                return Ok(decoded);
            }
        };
        decoded.kind = Kind::Row(match word {
            Word::Insert => Operation::Insert,
            Word::Delete => Operation::Delete,
            _ => Operation::Update,
        });
        let table = self.table(&decoded);
        let mut image = |rows| image(&table, rows, &mut decoded.warnings);
        decoded.before = before.map(&mut image).transpose()?;
        decoded.after = after.map(&mut image).transpose()?;
        decoded.table = table.schema();
        Ok(decoded)
    }

    fn need_data(&self) -> Result<Option<Json<'d>>, Fault> {
        match self.data {
            None => Err(self.root.fault("there is no member `data`")),
            data => Ok(data),
        }
    }

    /// The columns: of an update as in `key`, which may hold the whole row. A column's type is that of
    /// its first value.
    fn table(&self, decoded: &Decoded) -> DecodedTable {
        let mut table = DecodedTable::new(&decoded.table.database, &decoded.table.name);
        let mut is_open = Vec::new();
        let rows = [self.key, self.data].into_iter().flatten();
        for (name, value) in rows.flat_map(|row| row.members()) {
            let (declared, kind) = type_of(&value);
            match table.index(&name) {
                None => {
                    table.column(&name, declared, kind);
                    is_open.push(value.is_null());
                }
                Some(index) if is_open[index] => {
                    table.retype(index, declared, kind);
                    is_open[index] = value.is_null();
                }
                Some(_) => {}
            }
        }
        table
    }

    fn drop_columns(&self, decoded: &Decoded) -> String {
        let columns: Vec<String> = (self.data.iter())
            .flat_map(|data| data.members())
            .map(|(name, _)| format!("DROP COLUMN {}", quoted(&name)))
            .collect();
        format!("ALTER TABLE {} {}", name_of(decoded), columns.join(", "))
    }

    fn without_rows(&self) -> Result<Decoded, Fault> {
        let mut warnings = self.root.duplicates();
        if self.meta.is_none() {
            warnings.push(self.root.fault("there is no member `meta`"));
        }
        let name = self
            .meta("table")
            .and_then(|table| table.text())
            .unwrap_or_default();
        if let (Some(meta), true) = (self.meta, name.is_empty()) {
            warnings.push(meta.fault("there is no member `table`"));
        }
        let (database, table) = name.split_once('.').unwrap_or(("", &name));
        let time = self.meta("time");
        let instant =
            time.and_then(|time| temporal_reader::instant(&time.text().unwrap_or_default()));
        if let (Some(time), None) = (time, instant) {
            warnings.push(time.fault("a time is expected"));
        }
        let transaction = self.meta("trans").and_then(|id| id.text());
        Ok(Decoded {
            kind: Kind::Heartbeat,
            table: DecodedTable::new(database, table).schema(),
            before: None,
            after: None,
            sql: String::new(),
            time_us: instant.map_or(0, |(micros, _)| micros.max(0) as u64),
            id: self.meta("scn").and_then(|scn| scn.unsigned()),
            transaction: transaction.filter(|id| !id.is_empty()).map(Into::into),
            position: None,
            warnings,
        })
    }
}

fn type_of(value: &Json<'_>) -> (&'static str, ColumnType) {
    let decimal = ColumnType::Decimal {
        precision: 0,
        scale: 0,
        unsigned: false,
    };
    match value.number() {
        None => ("longtext", ColumnType::Text { length_bytes: 4 }),
        Some(number) if !is_decimal(number) => ("double", ColumnType::Double),
        Some(_) => ("decimal", decimal),
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn name_of(decoded: &Decoded) -> String {
    let (database, table) = (&decoded.table.database, &decoded.table.name);
    match database.as_str() {
        "" => quoted(table),
        database => format!("{}.{}", quoted(database), quoted(table)),
    }
}

/// The image of a row: each column from the first object that has it.
fn image(
    table: &DecodedTable,
    rows: Sources<'_>,
    warnings: &mut Vec<Fault>,
) -> Result<Vec<u8>, Fault> {
    let [first, second] = rows.map(|row| row.map(|row| table.cells(&row)));
    let mut out = Vec::new();
    put_u64(&mut out, table.columns().len() as u64);
    for index in 0..table.columns().len() {
        let value = [&first, &second]
            .into_iter()
            .find_map(|cells| cells.as_ref().and_then(|cells| cells[index]));
        match value {
            None => put_cell(&mut out, Cell::Unknown),
            Some(json) => put_json(&mut out, &json, warnings)?,
        }
    }
    Ok(out)
}

fn put_json(out: &mut Vec<u8>, json: &Json<'_>, warnings: &mut Vec<Fault>) -> Result<(), Fault> {
    if json.is_null() {
        put_cell(out, Cell::Null);
        return Ok(());
    }
    let text = json.text();
    let value = match (json.number(), &text) {
        (Some(number), _) if is_decimal(number) => Value::Decimal(number),
        (Some(number), _) => Value::Double(
            number
                .parse()
                .map_err(|_| json.fault("a number is expected"))?,
        ),
        (None, Some(text)) => Value::Text(text),
        (None, None) => {
            const WARNINGS_MAX: usize = 16;
            if warnings.len() < WARNINGS_MAX {
                warnings.push(json.fault("a string, a number or null is expected"));
            }
            Value::Text(json.raw())
        }
    };
    put_cell(out, Cell::Value(value));
    Ok(())
}
