//! DTS Avro back to operations: messages of this encoder, of DTS itself, and of writers between.
//!
//! Tolerates: fourteen fields instead of fifteen, bytes after the last field, block counts with sizes,
//! numbers that the table of types does not have (the value's branch decides), images shorter than
//! `fields` (the rest is unknown), every operation of the schema. Fillers (at most two bytes; 48 bytes
//! that are no record) and DTS's internal marks give no operation.
//!
//! Bounded: every length and count is checked against what is left of the message, a row has at most
//! [`COLUMNS_MAX`] columns, nothing recurses.

mod cells;
mod charset;
mod columns;
mod keys;
mod statement;

use super::datum::{Damage, Reader};
use super::types::{branch, named};
use super::{FILLER_BYTES_MAX, NAME};
use crate::decode::{Decoded, Decoder, Fault, Kind};
use cells::{Parts, Raw};
use change::{DdlKind, Operation, SchemaVersion, TableId, TableSchema};
use std::sync::Arc;

/// More columns than any database has.
pub const COLUMNS_MAX: usize = 32_768;

/// What one message may complain of; the rest is one more warning.
const WARNINGS_MAX: usize = 32;

/// Above this, a time is milliseconds: in seconds it would be the year 2286.
const SECONDS_MAX: u64 = 10_000_000_000;

/// The decoder.
///
/// What a message does not tell, and what is therefore not as it was: lengths of CHAR, VARCHAR,
/// BINARY; fraction digits (always 6); UNSIGNED, but for numbers that need it; the labels of ENUM and
/// SET (values are their texts); a geometry's SRID (0); sizes of TEXT; BINARY or VARBINARY (VARBINARY);
/// VECTOR (a BLOB), UUID and INET of MariaDB (CHAR, VARCHAR); NULL or NOT NULL but for the primary
/// key; defaults, comments, collations; the declared size of a DECIMAL. A DDL has its database only.
#[derive(Debug, Clone, Copy, Default)]
pub struct DtsAvroDecoder;

impl Decoder for DtsAvroDecoder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&mut self, message: &[u8], out: &mut Vec<Decoded>) -> Result<(), Fault> {
        if message.len() <= 2 {
            return Ok(());
        }
        match record(message) {
            Ok(decoded) => {
                out.extend(decoded);
                Ok(())
            }
            Err(_) if message.len() == FILLER_BYTES_MAX => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

/// What is odd, gathered on the way.
#[derive(Debug, Default)]
struct Warnings(Vec<Fault>);

impl Warnings {
    fn add(&mut self, offset: usize, path: impl FnOnce() -> String, what: &str) {
        let what = match self.0.len() {
            WARNINGS_MAX.. => return,
            last if last == WARNINGS_MAX - 1 => "more is odd from here on",
            _ => what,
        };
        self.0.push(Fault {
            format: NAME,
            offset,
            path: path(),
            what: what.into(),
        });
    }
}

/// `fields` or an image, as it stands.
enum Part<'a, T> {
    Null,
    Text(&'a str),
    Array(Vec<(usize, T)>),
}

impl<T> Part<'_, T> {
    fn rows(&self) -> &[(usize, T)] {
        match self {
            Part::Array(entries) => entries,
            _ => &[],
        }
    }
}

/// One entry of `fields`.
struct Field<'a> {
    name: &'a str,
    number: i32,
}

/// The record before its columns are made of it.
struct Record<'a> {
    id: i64,
    time: i64,
    position: &'a str,
    txid: &'a str,
    source: usize,
    operation: usize,
    object: Option<(usize, &'a str)>,
    keys: Option<(usize, &'a str)>,
    gtid: Option<&'a str>,
    /// Where `fields` and the two images begin.
    starts: [usize; 3],
    fields: Part<'a, Field<'a>>,
    before: Part<'a, Raw<'a>>,
    after: Part<'a, Raw<'a>>,
}

fn record(message: &[u8]) -> Result<Option<Decoded>, Fault> {
    let mut warnings = Warnings::default();
    let record = read(message, &mut warnings)?;
    let kind = match record.operation {
        0 => Kind::Row(Operation::Insert),
        1 => Kind::Row(Operation::Update),
        2 => Kind::Row(Operation::Delete),
        16 => Kind::Row(Operation::Read),
        3 => Kind::Ddl(statement::kind(record.sql())),
        // A command of a source without SQL.
        10 => Kind::Ddl(DdlKind::Other),
        4 => Kind::Begin,
        5 => Kind::Commit,
        6 | 7 => Kind::Rollback,
        // Marks that carry a position and a time and nothing else.
        8 | 9 | 15 => Kind::Heartbeat,
        _ => return Ok(None),
    };
    let mut table = TableSchema {
        table: TableId(0),
        version: SchemaVersion(0),
        database: String::new(),
        name: String::new(),
        columns: Vec::new(),
        primary_key: Vec::new(),
        unique_keys: Vec::new(),
        charset: None,
        comment: String::new(),
    };
    if let Some((offset, object)) = record.object {
        (table.database, table.name) = names(object)
            .ok_or("at most three names")
            .map_err(|what| Damage { offset, what }.at("objectName"))?;
    }
    let is_row = matches!(kind, Kind::Row(_));
    let (mut before, mut after) = (None, None);
    if is_row {
        (before, after) = columns::images(&record, &mut table, &mut warnings)?;
    }
    Ok(Some(Decoded {
        kind,
        table: Arc::new(table),
        before,
        after,
        sql: if is_row {
            String::new()
        } else {
            record.sql().to_owned()
        },
        time_us: record.time_us(),
        id: u64::try_from(record.id).ok().filter(|id| *id != 0),
        transaction: record.transaction().map(str::to_owned),
        position: Some(record.position)
            .filter(|position| !position.is_empty())
            .map(str::to_owned),
        warnings: warnings.0,
    }))
}

impl Record<'_> {
    fn sql(&self) -> &str {
        match (&self.after, &self.before) {
            (Part::Text(sql), _) | (_, Part::Text(sql)) => sql,
            _ => "",
        }
    }

    fn time_us(&self) -> u64 {
        match u64::try_from(self.time) {
            Err(_) => 0,
            Ok(seconds @ ..=SECONDS_MAX) => seconds * 1_000_000,
            Ok(millis) => millis.saturating_mul(1000),
        }
    }

    fn transaction(&self) -> Option<&str> {
        self.gtid
            .or(Some(self.txid))
            .filter(|id| !matches!(*id, "" | "0"))
    }

    /// Whether a DateTime's fraction counts nanoseconds: all sources but MySQL and PostgreSQL, and
    /// these where DTS reads their physical log, which shows in the position.
    fn counts_nanos(&self) -> bool {
        !matches!(self.source, 0 | 3) || self.position.contains("<->")
    }
}

/// Database and table of an `objectName`; of three parts the middle one is `change`'s database.
fn names(object: &str) -> Option<(String, String)> {
    let part = |text: &str| text.replace("\\u002E", ".");
    let mut parts = object.split('.');
    let (first, second, third) = (parts.next()?, parts.next(), parts.next());
    if parts.next().is_some() {
        return None;
    }
    Some(match (second, third) {
        (None, _) => (part(first), String::new()),
        (Some(table), None) => (part(first), part(table)),
        (Some(schema), Some(table)) => (part(schema), part(table)),
    })
}

fn read<'a>(message: &'a [u8], warnings: &mut Warnings) -> Result<Record<'a>, Fault> {
    let r = &mut Reader::new(message);
    r.int().map_err(|d| d.at("version"))?;
    let id = r.long().map_err(|d| d.at("id"))?;
    let time = r.long().map_err(|d| d.at("sourceTimestamp"))?;
    let position = r.text().map_err(|d| d.at("sourcePosition"))?;
    r.text().map_err(|d| d.at("safeSourcePosition"))?;
    let txid = r.text().map_err(|d| d.at("sourceTxid"))?;
    let source = r.branch(14).map_err(|d| d.at("source.sourceType"))?;
    r.text().map_err(|d| d.at("source.version"))?;
    let operation = r.branch(17).map_err(|d| d.at("operation"))?;
    let object_at = r.offset();
    let object = match r.branch(2).map_err(|d| d.at("objectName"))? {
        0 => None,
        _ => Some((object_at, r.text().map_err(|d| d.at("objectName"))?)),
    };
    process_timestamps(r).map_err(|d| d.at("processTimestamps"))?;
    let (keys, gtid) = tags(r).map_err(|d| d.at("tags"))?;
    let fields_at = r.offset();
    let fields = part(r, "fields", 2, |r, index| {
        Ok(Field {
            name: r
                .text()
                .map_err(|d| d.at(format!("fields[{index}].name")))?,
            number: r
                .int()
                .map_err(|d| d.at(format!("fields[{index}].dataTypeNumber")))?,
        })
    })?;
    let before_at = r.offset();
    let before = image(r, "beforeImages")?;
    let after_at = r.offset();
    let after = image(r, "afterImages")?;
    if r.left() > 0 {
        let at = r.offset();
        if r.long().is_err() {
            warnings.add(at, || "bornTimestamp".into(), "no number");
        } else if r.left() > 0 {
            warnings.add(r.offset(), String::new, "bytes after the last field");
        }
    }
    Ok(Record {
        id,
        time,
        position,
        txid,
        source,
        operation,
        object,
        keys,
        gtid,
        starts: [fields_at, before_at, after_at],
        fields,
        before,
        after,
    })
}

fn process_timestamps(r: &mut Reader<'_>) -> Result<(), Damage> {
    if r.branch(2)? == 0 {
        return Ok(());
    }
    loop {
        match r.block(1)? {
            0 => return Ok(()),
            count => (0..count).try_for_each(|_| r.long().map(drop))?,
        }
    }
}

/// The tags that say something about the change: `pk_uk_info` with its place, and `GTID`.
type Tags<'a> = (Option<(usize, &'a str)>, Option<&'a str>);

fn tags<'a>(r: &mut Reader<'a>) -> Result<Tags<'a>, Damage> {
    let (mut keys, mut gtid) = (None, None);
    loop {
        let count = r.block(2)?;
        if count == 0 {
            return Ok((keys, gtid));
        }
        for _ in 0..count {
            let key = r.bytes()?;
            let at = r.offset();
            // A tag that nothing is made of may be no text.
            match key {
                b"pk_uk_info" => keys = Some((at, r.text()?)),
                b"GTID" => gtid = Some(r.text()?),
                _ => drop(r.bytes()?),
            }
        }
    }
}

/// One of the three unions of null, text and array.
fn part<'a, T>(
    r: &mut Reader<'a>,
    path: &'static str,
    entry_bytes_min: usize,
    mut entry: impl FnMut(&mut Reader<'a>, usize) -> Result<T, Fault>,
) -> Result<Part<'a, T>, Fault> {
    match r.branch(3).map_err(|d| d.at(path))? {
        0 => return Ok(Part::Null),
        1 => return Ok(Part::Text(r.text().map_err(|d| d.at(path))?)),
        _ => {}
    }
    let mut entries = Vec::new();
    loop {
        let too_many = r.damage("at most 32768 columns");
        let count = r.block(entry_bytes_min).map_err(|d| d.at(path))?;
        if count == 0 {
            return Ok(Part::Array(entries));
        }
        if entries.len() + count > COLUMNS_MAX {
            return Err(too_many.at(path));
        }
        entries.reserve(count);
        for _ in 0..count {
            let at = r.offset();
            let value = entry(r, entries.len())?;
            entries.push((at, value));
        }
    }
}

fn image<'a>(r: &mut Reader<'a>, path: &'static str) -> Result<Part<'a, Raw<'a>>, Fault> {
    part(r, path, 1, |r, index| {
        raw(r).map_err(|d| d.at(format!("{path}[{index}]")))
    })
}

/// One entry of an image.
fn raw<'a>(r: &mut Reader<'a>) -> Result<Raw<'a>, Damage> {
    let at = r.offset();
    Ok(match r.branch(branch::COUNT)? as i64 {
        branch::NULL => Raw::Null,
        branch::INTEGER => {
            let precision = r.int()?;
            let digits = r.text()?;
            let digits = digits.strip_prefix('+').unwrap_or(digits);
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
                let what = "decimal digits";
                return Err(Damage { offset: at, what });
            }
            Raw::Integer(precision, digits)
        }
        branch::CHARACTER => Raw::Character(r.text()?, r.bytes()?),
        branch::DECIMAL => {
            let text = r.text()?;
            r.int()?;
            r.int()?;
            Raw::Decimal(text)
        }
        branch::FLOAT => {
            let value = r.double()?;
            r.int()?;
            r.int()?;
            Raw::Float(value)
        }
        branch::TIMESTAMP => Raw::Timestamp(r.long()?, r.int()?),
        branch::DATE_TIME => Raw::DateTime(parts(r)?),
        branch::ZONED => Raw::Zoned(parts(r)?, r.text()?),
        branch::BINARY_GEOMETRY => {
            r.text()?;
            Raw::BinaryGeometry(r.bytes()?)
        }
        branch::TEXT_GEOMETRY => {
            r.text()?;
            Raw::TextGeometry(r.bytes()?)
        }
        branch::BINARY_OBJECT => Raw::BinaryObject(r.text()?, r.bytes()?),
        branch::TEXT_OBJECT => Raw::TextObject(r.text()?, r.bytes()?),
        _ => match r.branch(2)? {
            0 => Raw::EmptyNull,
            _ => Raw::Unknown,
        },
    })
}

fn parts(r: &mut Reader<'_>) -> Result<Parts, Damage> {
    let mut parts = [None; 7];
    for part in &mut parts {
        if r.branch(2)? == 1 {
            *part = Some(r.int()?);
        }
    }
    Ok(Parts(parts))
}

/// What a number means to this record's source.
fn named_at(record: &Record<'_>, field: &Field<'_>) -> Option<super::types::Named> {
    named(record.source, field.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_of_one_to_three_parts_are_read() {
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(names("mydb"), pair("mydb", ""));
        assert_eq!(names("my\\u002Edb.t1\\u002E"), pair("my.db", "t1."));
        assert_eq!(names("db.public.t"), pair("public", "t"));
        assert_eq!(names("a.b.c.d"), None);
    }
}
