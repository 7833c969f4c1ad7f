//! `decode`: messages of any format made readable; a message that is not valid is named with the
//! place of its fault, and the next one is read.

use crate::cli::{DecodeArgs, Framing};
use crate::exit::{self, Failure};
use change::{Cell, Image, Operation};
use format::decode::{Decoded, Decoder, Kind};
use format::settings::FormatName;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};

/// A message above this is refused: no broker carries it.
const MESSAGE_BYTES_MAX: u32 = 1 << 30;

pub fn run(args: &DecodeArgs) -> Result<(), Failure> {
    let usage = |text: String| Failure::new(exit::USAGE, format!("decode: {text}"));
    let name: FormatName = args.format.parse().map_err(usage)?;
    let options = pipeline::run::format_options(&args.options).map_err(usage)?;
    let mut decoder = name.decoder(&options).map_err(usage)?;
    let framing = args.framing.unwrap_or(match name {
        FormatName::DtsAvro => Framing::Length,
        _ => Framing::Lines,
    });
    let input: Box<dyn Read> = match &args.file {
        Some(path) => Box::new(File::open(path).map_err(|error| {
            Failure::new(exit::USAGE, format!("open {}: {error}", path.display()))
        })?),
        None => Box::new(io::stdin()),
    };
    let mut judge = Judge {
        decoder: &mut *decoder,
        as_json: args.json,
        out: io::BufWriter::new(io::stdout().lock()),
        decoded: Vec::new(),
        messages: 0,
        operations: 0,
        faults: 0,
        warnings: 0,
    };
    each_message(&mut BufReader::new(input), framing, &mut |message| {
        judge.message(message)
    })?;
    judge.out.flush()?;
    let summary = format!(
        "{} messages, {} operations, {} not valid, {} warnings",
        judge.messages, judge.operations, judge.faults, judge.warnings
    );
    match judge.faults {
        0 => {
            crate::log::say(&summary);
            Ok(())
        }
        _ => Err(Failure::new(exit::OTHER, format!("decode all: {summary}"))),
    }
}

/// Is given each message, or why it cannot be cut out.
type Each<'a> = dyn FnMut(Result<&[u8], String>) -> Result<(), Failure> + 'a;

/// Cuts the input into messages.
fn each_message(
    input: &mut impl BufRead,
    framing: Framing,
    each: &mut Each<'_>,
) -> Result<(), Failure> {
    let mut message = Vec::new();
    match framing {
        Framing::Whole => {
            input.read_to_end(&mut message)?;
            each(Ok(&message))
        }
        Framing::Lines | Framing::Hex => loop {
            message.clear();
            if input.read_until(b'\n', &mut message)? == 0 {
                return Ok(());
            }
            let line = message.trim_ascii_end();
            match framing {
                _ if line.is_empty() => {}
                Framing::Hex => match unhex(line) {
                    Some(bytes) => each(Ok(&bytes))?,
                    None => each(Err("it is not hexadecimal".into()))?,
                },
                _ => each(Ok(line))?,
            }
        },
        Framing::Length => loop {
            let mut length = [0; 4];
            match input.read(&mut length[..1])? {
                0 => return Ok(()),
                _ => input.read_exact(&mut length[1..])?,
            }
            let length = u32::from_be_bytes(length);
            if length > MESSAGE_BYTES_MAX {
                return each(Err(format!(
                    "its length would be {length} bytes; are these messages after their lengths? \
                     hint: --framing"
                )));
            }
            message.clear();
            let got = input
                .by_ref()
                .take(u64::from(length))
                .read_to_end(&mut message)?;
            if got < length as usize {
                return each(Err(format!("it ends after {got} of {length} bytes")));
            }
            each(Ok(&message))?;
        },
    }
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    text.chunks(2).map(pair).collect()
}

struct Judge<'a, W> {
    decoder: &'a mut dyn Decoder,
    as_json: bool,
    out: W,
    decoded: Vec<Decoded>,
    messages: u64,
    operations: u64,
    faults: u64,
    warnings: u64,
}

impl<W: Write> Judge<'_, W> {
    fn message(&mut self, message: Result<&[u8], String>) -> Result<(), Failure> {
        self.messages += 1;
        self.decoded.clear();
        let outcome = match message {
            Ok(bytes) => self
                .decoder
                .decode(bytes, &mut self.decoded)
                .map_err(|fault| fault.to_string()),
            Err(what) => Err(what),
        };
        if let Err(what) = outcome {
            self.faults += 1;
            self.out.flush()?;
            crate::log::say(&format!("message {}: not valid: {what}", self.messages));
            return Ok(());
        }
        for one in &self.decoded {
            self.operations += 1;
            self.warnings += one.warnings.len() as u64;
            if self.as_json {
                serde_json::to_writer(&mut self.out, &as_json(one, self.messages))
                    .map_err(io::Error::from)?;
                self.out.write_all(b"\n")?;
            } else {
                show(one, self.messages, &mut self.out)?;
            }
        }
        Ok(())
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Row(Operation::Insert) => "INSERT",
        Kind::Row(Operation::Update) => "UPDATE",
        Kind::Row(Operation::Delete) => "DELETE",
        Kind::Row(_) => "READ",
        Kind::Ddl(_) => "DDL",
        Kind::Begin => "BEGIN",
        Kind::Commit => "COMMIT",
        Kind::Rollback => "ROLLBACK",
        Kind::Heartbeat => "HEARTBEAT",
    }
}

fn time(micros: u64) -> String {
    let mut text = Vec::new();
    change::temporal::put_timestamp(&mut text, micros as i64, 6, 0);
    String::from_utf8_lossy(&text).into_owned()
}

fn text(cell: Cell<'_>) -> Option<String> {
    match cell {
        Cell::Value(value) => {
            let mut out = Vec::new();
            format::key_text::put_value(&mut out, value);
            Some(String::from_utf8_lossy(&out).into_owned())
        }
        _ => None,
    }
}

fn shown(cell: Cell<'_>) -> String {
    match (cell, text(cell)) {
        (_, Some(text)) => format!("{text:?}"),
        (Cell::Unknown, None) => "(not told)".into(),
        _ => "NULL".into(),
    }
}

fn cell(image: Option<Image<'_>>, index: usize) -> Option<Cell<'_>> {
    image.map(|image| image.cell(index))
}

fn show(one: &Decoded, number: u64, out: &mut dyn Write) -> io::Result<()> {
    let table = match one.table.name.as_str() {
        "" => one.table.database.clone(),
        name => format!("{}.{name}", one.table.database),
    };
    write!(out, "{number}  {} {table}", word(one.kind))?;
    if let Some(id) = one.id {
        write!(out, "  id {id}")?;
    }
    if one.time_us > 0 {
        write!(out, "  at {} UTC", time(one.time_us))?;
    }
    if let Some(transaction) = &one.transaction {
        write!(out, "  transaction {transaction}")?;
    }
    if let Some(position) = &one.position {
        write!(out, "  position {position}")?;
    }
    writeln!(out)?;
    if !one.sql.is_empty() {
        writeln!(out, "    {}", one.sql)?;
    }
    let (before, after) = (one.before(), one.after());
    for (index, column) in one.table.columns.iter().enumerate() {
        let key = match one.table.primary_key.contains(&(index as u32)) {
            true => ", key",
            false => "",
        };
        write!(out, "    {} ({}{key}): ", column.name, column.declared)?;
        match (cell(before, index), cell(after, index)) {
            (Some(was), Some(now)) if shown(was) != shown(now) => {
                writeln!(out, "{} -> {}", shown(was), shown(now))?;
            }
            (_, Some(now)) => writeln!(out, "{}", shown(now))?,
            (Some(was), None) => writeln!(out, "{}", shown(was))?,
            (None, None) => writeln!(out)?,
        }
    }
    for warning in &one.warnings {
        writeln!(out, "    warning: {warning}")?;
    }
    Ok(())
}

fn as_json(one: &Decoded, number: u64) -> serde_json::Value {
    let row = |image: Option<Image<'_>>| {
        image.map(|image| {
            let cells = one.table.columns.iter().zip(image.cells());
            let known = cells.filter(|(_, cell)| *cell != Cell::Unknown);
            known
                .map(|(column, cell)| (column.name.clone(), text(cell).into()))
                .collect::<serde_json::Map<String, serde_json::Value>>()
        })
    };
    let key = one.table.primary_key.iter();
    let key: Vec<&str> = key
        .filter_map(|index| one.table.columns.get(*index as usize))
        .map(|column| column.name.as_str())
        .collect();
    let warnings: Vec<String> = one.warnings.iter().map(ToString::to_string).collect();
    serde_json::json!({
        "message": number, "operation": word(one.kind), "database": one.table.database,
        "table": one.table.name, "key": key, "before": row(one.before()), "after": row(one.after()),
        "sql": one.sql, "time_us": one.time_us, "id": one.id, "transaction": one.transaction,
        "position": one.position, "warnings": warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], framing: Framing) -> Vec<Result<Vec<u8>, String>> {
        let mut found = Vec::new();
        let outcome = each_message(&mut &*bytes, framing, &mut |message| {
            found.push(message.map(<[u8]>::to_vec));
            Ok(())
        });
        assert!(outcome.is_ok());
        found
    }

    #[test]
    fn messages_are_cut_as_they_stand() {
        let two = [Ok(b"ab".to_vec()), Ok(b"c".to_vec())];
        assert_eq!(cut(b"ab\n\nc", Framing::Lines), two);
        assert_eq!(cut(b"6162\r\n63\n", Framing::Hex), two);
        assert_eq!(cut(b"\0\0\0\x02ab\0\0\0\x01c", Framing::Length), two);
        assert_eq!(cut(b"ab\nc", Framing::Whole), [Ok(b"ab\nc".to_vec())]);
        assert!(cut(b"6x\n", Framing::Hex)[0].is_err());
        assert!(cut(b"\0\0\0\x09ab", Framing::Length)[0].is_err());
        assert!(cut(b"{\"a\":1}", Framing::Length)[0].is_err());
    }
}
