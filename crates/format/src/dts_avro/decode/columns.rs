//! Columns and images of a row's message.

use super::cells::{self, Raw, is_plain};
use super::{Damage, Part, Record, Warnings, keys, named_at};
use crate::decode::Fault;
use crate::dts_avro::NAME;
use crate::dts_avro::types::{BLOB, DECIMAL, Named, TEXT};
use change::wire::put_u64;
use change::{Column, ColumnType, TableSchema};

/// The two images in stored form.
pub(super) type Images = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Makes the table's columns and keys, and the images in stored form.
pub(super) fn images(
    record: &Record<'_>,
    table: &mut TableSchema,
    warnings: &mut Warnings,
) -> Result<Images, Fault> {
    check(record)?;
    let (before, after) = (record.before.rows(), record.after.rows());
    for (index, (at, field)) in record.fields.rows().iter().enumerate() {
        let samples = [before, after].map(|image| {
            let raw = image.get(index).map(|(_, raw)| raw);
            raw.filter(|raw| raw.is_value())
        });
        let named = named_at(record, field);
        if named.is_none() {
            warnings.add(
                *at,
                || format!("fields[{index}].dataTypeNumber"),
                "a number that the table of types does not have",
            );
        }
        let (declared, kind) = settle(named, samples);
        table
            .columns
            .push(column(field.name, declared, kind, samples));
    }
    if let Some((offset, text)) = record.keys
        && let Err(what) = keys::put(table, text)
    {
        warnings.add(offset, || "tags.pk_uk_info".into(), what);
    }
    let mut stored = |part: &Part<'_, Raw<'_>>, path: &'static str| {
        let Part::Array(raws) = part else {
            return Ok(None);
        };
        image(record, table, raws, path, warnings).map(Some)
    };
    let before = stored(&record.before, "beforeImages")?;
    let after = stored(&record.after, "afterImages")?;
    // What an update without an image before is written as.
    let is_empty = record.operation == 1
        && !table.columns.is_empty()
        && record
            .before
            .rows()
            .iter()
            .all(|(_, raw)| *raw == Raw::Unknown);
    Ok((before.filter(|_| !is_empty), after))
}

/// Whether the parts that a row needs are there, and fit each other.
fn check(record: &Record<'_>) -> Result<(), Fault> {
    let [fields_at, before_at, after_at] = record.starts;
    let fault = |offset, path: &'static str, what| Err(Damage { offset, what }.at(path));
    if matches!(record.fields, Part::Text(_)) {
        return fault(fields_at, "fields", "an array");
    }
    let is_delete = record.operation == 2;
    for (path, part, start, is_needed) in [
        ("beforeImages", &record.before, before_at, is_delete),
        ("afterImages", &record.after, after_at, !is_delete),
    ] {
        match part {
            Part::Text(_) => return fault(start, path, "an array"),
            Part::Null if is_needed => return fault(start, path, "an image of the row"),
            _ => {}
        }
        if let Some((offset, _)) = part.rows().get(record.fields.rows().len()) {
            return fault(*offset, path, "no more values than fields");
        }
    }
    Ok(())
}

fn column(name: &str, declared: &str, kind: ColumnType, samples: [Option<&Raw<'_>>; 2]) -> Column {
    let charset = samples.into_iter().flatten().find_map(|raw| match raw {
        Raw::Character(charset, _) if !charset.eq_ignore_ascii_case("binary") => {
            Some((*charset).to_owned())
        }
        _ => None,
    });
    Column {
        name: name.to_owned(),
        declared: declared.to_owned(),
        kind,
        charset,
        collation: None,
        nullable: true,
        default: None,
        comment: String::new(),
        generated: false,
        invisible: false,
        masked: false,
    }
}

/// The column's type: its number's, where the values can be of it, else the values' own.
fn settle(named: Option<Named>, samples: [Option<&Raw<'_>>; 2]) -> Named {
    let mut settled = named;
    for raw in samples.into_iter().flatten() {
        settled = Some(match settled {
            Some((declared, kind)) => narrow(declared, kind, raw),
            None => of_value(raw),
        });
    }
    settled.unwrap_or(("longtext", TEXT))
}

/// A type as its number tells it, with what one value adds to it.
fn narrow(declared: &'static str, kind: ColumnType, raw: &Raw<'_>) -> Named {
    use ColumnType as T;
    let fits = match (raw, &kind) {
        (Raw::Integer(precision, digits), T::Int { bytes, unsigned }) => {
            // INT UNSIGNED has the precision of a number that is too wide for its readers otherwise.
            let unsigned = *unsigned || (declared == "int" && *precision == 8);
            return integer(declared, (*bytes, unsigned), digits);
        }
        (Raw::Integer(_, digits), T::Bit { .. }) => digits.parse::<u64>().is_ok(),
        (Raw::Integer(..), kind) => matches!(kind, T::Int { .. } | T::Decimal { .. }),
        (Raw::Decimal(text), T::Decimal { scale, .. }) => {
            return (declared, decimal(text, *scale));
        }
        (Raw::Float(_), kind) => matches!(kind, T::Float | T::Double),
        (Raw::Timestamp(..), kind) => matches!(kind, T::Timestamp { .. }),
        (Raw::Zoned(..), kind) => matches!(kind, T::Timestamp { .. } | T::Varchar { .. }),
        (Raw::DateTime(parts), kind) => match kind {
            T::Year => parts.has_year_only(),
            T::Date => parts.has_date() && !parts.has_clock(),
            T::Time { .. } => parts.has_clock_only(),
            T::DateTime { .. } => parts.has_date(),
            T::Varchar { .. } => true,
            _ => false,
        },
        (Raw::Character(charset, _), T::Char { .. }) if charset.eq_ignore_ascii_case("binary") => {
            return ("binary", T::Binary { length: 0 });
        }
        (Raw::Character(charset, _), T::Varchar { .. } | T::Text { .. })
            if charset.eq_ignore_ascii_case("binary") =>
        {
            return ("varbinary", T::Varbinary { length: 0 });
        }
        (Raw::Character(..), kind) => matches!(
            kind,
            T::Char { .. }
                | T::Varchar { .. }
                | T::Text { .. }
                | T::Enum { .. }
                | T::Set { .. }
                | T::Json
                | T::Uuid
        ),
        (Raw::BinaryGeometry(_) | Raw::TextGeometry(_), kind) => matches!(kind, T::Geometry),
        (Raw::BinaryObject(word, _), T::Blob { .. }) if !word.eq_ignore_ascii_case("BLOB") => {
            return of_word(word).unwrap_or((declared, kind));
        }
        (Raw::BinaryObject(..), kind) => matches!(
            kind,
            T::Blob { .. } | T::Varbinary { .. } | T::Bit { .. } | T::Json | T::Text { .. }
        ),
        (Raw::TextObject(..), kind) => matches!(
            kind,
            T::Json
                | T::Enum { .. }
                | T::Set { .. }
                | T::Text { .. }
                | T::Varchar { .. }
                | T::Char { .. }
                | T::Uuid
        ),
        _ => false,
    };
    if fits {
        (declared, kind)
    } else {
        of_value(raw)
    }
}

/// An integer column that holds this number too: of the size that its number tells, UNSIGNED where the
/// range wants that, or wider where the writer's number is too small.
fn integer(declared: &'static str, (bytes, unsigned): (u8, bool), digits: &str) -> Named {
    let int = |bytes, unsigned| ColumnType::Int { bytes, unsigned };
    let Ok(number) = digits.parse::<i128>() else {
        return ("decimal", DECIMAL);
    };
    let fits = |bytes: u8, unsigned| {
        let bits = u32::from(bytes.min(8)) * 8;
        match unsigned {
            true => (0..1i128 << bits).contains(&number),
            false => (-1i128 << (bits - 1)..1i128 << (bits - 1)).contains(&number),
        }
    };
    match () {
        () if !unsigned && fits(bytes, false) => (declared, int(bytes, false)),
        () if fits(bytes, true) => (unsigned_name(declared), int(bytes, true)),
        () if fits(8, false) => ("bigint", int(8, false)),
        () if fits(8, true) => ("bigint unsigned", int(8, true)),
        () => ("decimal", DECIMAL),
    }
}

fn unsigned_name(declared: &'static str) -> &'static str {
    match declared {
        "tinyint" => "tinyint unsigned",
        "smallint" => "smallint unsigned",
        "mediumint" => "mediumint unsigned",
        "int" => "int unsigned",
        "bigint" => "bigint unsigned",
        other => other,
    }
}

fn decimal(text: &str, scale: u8) -> ColumnType {
    let fraction = match text.split_once('.') {
        Some((_, fraction)) if is_plain(text) => fraction.len().min(255) as u8,
        _ => 0,
    };
    ColumnType::Decimal {
        precision: 65,
        scale: scale.max(fraction),
        unsigned: false,
    }
}

/// What a `BinaryObject`'s word says of its column.
fn of_word(word: &str) -> Option<Named> {
    use ColumnType as T;
    let is = |known: &str| word.eq_ignore_ascii_case(known);
    Some(match () {
        () if is("BINARY") || is("RAW") => ("varbinary", T::Varbinary { length: 0 }),
        () if is("TEXT") => ("longtext", TEXT),
        () if is("BIT") => ("bit", T::Bit { width: 64 }),
        () if is("JSON") || is("JSONB") => ("json", T::Json),
        () => return None,
    })
}

/// The type of a value whose number says nothing, or something else.
fn of_value(raw: &Raw<'_>) -> Named {
    use ColumnType as T;
    let digits = 6;
    match raw {
        Raw::Integer(_, digits) => integer("bigint", (8, false), digits),
        Raw::Decimal(text) => ("decimal", decimal(text, 0)),
        Raw::Float(_) => ("double", T::Double),
        Raw::Timestamp(..) | Raw::Zoned(..) => ("timestamp", T::Timestamp { digits }),
        Raw::DateTime(parts) if parts.has_year_only() => ("year", T::Year),
        Raw::DateTime(parts) if parts.has_clock_only() => ("time", T::Time { digits }),
        Raw::DateTime(parts) if parts.has_date() && !parts.has_clock() => ("date", T::Date),
        Raw::DateTime(parts) if parts.has_date() => ("datetime", T::DateTime { digits }),
        Raw::BinaryGeometry(_) | Raw::TextGeometry(_) => ("geometry", T::Geometry),
        Raw::Character(charset, _) if charset.eq_ignore_ascii_case("binary") => {
            ("varbinary", T::Varbinary { length: 0 })
        }
        Raw::BinaryObject(word, _) => of_word(word).unwrap_or(("longblob", BLOB)),
        Raw::TextObject(word, _) if word.eq_ignore_ascii_case("ENUM") => {
            ("enum", T::Enum { members: vec![] })
        }
        Raw::TextObject(word, _) if word.eq_ignore_ascii_case("SET") => {
            ("set", T::Set { members: vec![] })
        }
        Raw::TextObject(word, _) if word.eq_ignore_ascii_case("JSON") => ("json", T::Json),
        _ => ("longtext", TEXT),
    }
}

fn image(
    record: &Record<'_>,
    table: &TableSchema,
    raws: &[(usize, Raw<'_>)],
    path: &'static str,
    warnings: &mut Warnings,
) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    put_u64(&mut out, table.columns.len() as u64);
    let counts_nanos = record.counts_nanos();
    for (index, column) in table.columns.iter().enumerate() {
        let Some((offset, raw)) = raws.get(index) else {
            if index == raws.len() {
                let at = raws.last().map_or(0, |(offset, _)| *offset);
                warnings.add(at, || path.into(), "fewer values than fields");
            }
            change::value::put_cell(&mut out, change::Cell::Unknown);
            continue;
        };
        let at = || format!("{path}[{index}]");
        match cells::put(&mut out, &column.kind, raw, counts_nanos) {
            Ok(None) => {}
            Ok(Some(odd)) => warnings.add(*offset, at, odd),
            Err(what) => {
                return Err(Fault {
                    format: NAME,
                    offset: *offset,
                    path: at(),
                    what: format!("expected {what}"),
                });
            }
        }
    }
    Ok(out)
}
