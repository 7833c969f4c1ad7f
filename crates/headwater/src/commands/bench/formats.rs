//! How fast each format is written on one core, against copying the same bytes into a journal: rows of
//! the bundled recording, no server.

use super::measure::{Folder, cpu};
use crate::commands::demo::RECORDING;
use crate::exit::{self, Failure};
use change::{Event, Position};
use format::settings::{FormatName, FormatOptions};
use format::{Ahead, Encoder, Messages};
use journal::{
    Commit, FileKeys, Journal, KeyGroupId, RecordDescriptor, SchemaId, Sequence, TableId,
    TransactionStart,
};
use pipeline::assemble::Place;
use pipeline::event_reader::{EventReader, EventSink, OpaqueRecord, ReadError};
use pipeline::{RunOptions, config, run};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The recording is encoded so many times: the kernel counts CPU time in 10 ms.
const REPEATS: u32 = 40;

/// Encodes what it is given, and forgets it; without an encoder it only reads.
struct Encode<'a> {
    encoder: Option<&'a mut dyn Encoder>,
    messages: Messages,
    rows: u64,
    bytes: u64,
    failed: u64,
    /// The messages, where they are wanted.
    kept: Option<Vec<Vec<u8>>>,
}

impl EventSink for Encode<'_> {
    type Error = ReadError;

    fn event(&mut self, event: &Event<'_>, _: u64, _: &Position) -> Result<(), ReadError> {
        let Event::Row(row) = event else {
            return Ok(());
        };
        self.rows += 1;
        let Some(encoder) = &mut self.encoder else {
            return Ok(());
        };
        self.messages.clear();
        encoder.transaction(&Ahead {
            operations: 1,
            sent_before: 0,
            commit_sequence: row.sequence,
        });
        self.failed += u64::from(encoder.encode(event, &mut self.messages).is_err());
        for message in self.messages.iter() {
            self.bytes += message.len() as u64;
            if let Some(kept) = &mut self.kept {
                kept.push(message.to_vec());
            }
        }
        Ok(())
    }

    fn opaque(&mut self, _: &OpaqueRecord<'_>, _: u64) -> Result<(), ReadError> {
        Ok(())
    }
}

impl<'a> Encode<'a> {
    fn new(encoder: Option<&'a mut dyn Encoder>) -> Self {
        Self {
            encoder,
            messages: Messages::default(),
            rows: 0,
            bytes: 0,
            failed: 0,
            kept: None,
        }
    }
}

/// Reads the journal once.
fn pass(journal: &Journal, encode: &mut Encode<'_>) -> Result<(), Failure> {
    let failed = |error: ReadError| Failure::new(exit::JOURNAL, error);
    let mut reader = EventReader::open(journal, journal.first(), None).map_err(failed)?;
    while reader.read_frame(encode).map_err(failed)? {}
    match encode.failed {
        0 => Ok(()),
        rows => Err(Failure::new(
            exit::OTHER,
            format!("encode: {rows} rows failed"),
        )),
    }
}

/// Reads the journal `REPEATS` times; the CPU seconds it took.
fn passes(journal: &Journal, encode: &mut Encode<'_>) -> Result<f64, Failure> {
    let before = cpu("self");
    for _ in 0..REPEATS {
        pass(journal, encode)?;
    }
    Ok(cpu("self") - before)
}

/// Appends messages to a journal of their own; CPU seconds for `REPEATS` times.
fn copy(messages: &[Vec<u8>]) -> Result<f64, Failure> {
    let folder = Folder::new("copy")?;
    let keys = FileKeys::open_or_create(&folder.0.join("copy.key"))?;
    let options = journal::Options::new(folder.0.join("copy.journal"), Arc::new(keys));
    let (journal, mut writer) = journal::open(options)?;
    let before = cpu("self");
    let descriptor = RecordDescriptor {
        table: TableId(1),
        schema: SchemaId(1),
        operation: 1,
        flags: 0,
        key_token: 1,
        key_group: KeyGroupId::DEFAULT,
    };
    for _ in 0..REPEATS {
        // Transactions as the recording has them: about twenty rows.
        for some in messages.chunks(20) {
            writer.begin(TransactionStart {
                header: b"",
                snapshot: false,
            })?;
            for message in some {
                writer.record(&descriptor, message)?;
            }
            writer.commit(Commit {
                trailer: b"",
                position: b"",
                time_us: 0,
                rows: some.len() as u64,
            })?;
        }
    }
    writer.flush()?;
    let last = Sequence(writer.next_sequence().0 - 1);
    journal.wait(last, Duration::from_secs(60));
    Ok(cpu("self") - before)
}

/// The recording in a journal.
fn recorded(folder: &Folder) -> Result<Journal, Failure> {
    std::fs::write(folder.0.join("shop.000001"), RECORDING)?;
    let file = folder.0.join("formats.yaml");
    std::fs::write(&file, "source:\n  recorded: {files: [shop.000001]}\n")?;
    let config = config::load(&file)?;
    let running = run::start(&config, &Place::of(&file), &RunOptions::default())?;
    let journal = running.journal().clone();
    running.wait(&mut |_| {})?;
    Ok(journal)
}

pub fn run(out: &mut dyn Write) -> Result<(), Failure> {
    let folder = Folder::new("formats")?;
    let journal = recorded(&folder)?;
    let mut nothing = Encode::new(None);
    let since = Instant::now();
    let reading = passes(&journal, &mut nothing)?;
    writeln!(
        out,
        "formats, one core; x is the throughput over that of copying the same bytes into a journal \
         ({} rows read in {:.1} s):",
        nothing.rows,
        since.elapsed().as_secs_f64()
    )?;
    for name in FormatName::ALL {
        let mut encoder = name
            .encoder(&FormatOptions::default())
            .map_err(|text| Failure::new(exit::OTHER, text))?;
        let mut encode = Encode::new(Some(&mut *encoder));
        let seconds = (passes(&journal, &mut encode)? - reading).max(0.01);
        let (rows, bytes) = (encode.rows as f64, encode.bytes as f64);
        let mut keep = Encode::new(Some(&mut *encoder));
        keep.kept = Some(Vec::new());
        pass(&journal, &mut keep)?;
        let copying = copy(&keep.kept.unwrap_or_default())?.max(0.01);
        writeln!(
            out,
            "  {:16} {:>9.0} rows/s  {:>6.2} µs CPU/row  {:>5.0} MB/s  {:>6.2}x",
            name.as_str(),
            rows / seconds,
            seconds * 1e6 / rows,
            bytes / seconds / 1e6,
            copying / seconds,
        )?;
    }
    Ok(())
}
