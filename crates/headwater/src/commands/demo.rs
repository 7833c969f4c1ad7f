//! `demo`: a bundled recording of a small shop through the real path: decoder, journal on disk,
//! messages. The recording supplies the clock, so every run writes the same bytes.

use super::run::{drive, on_signal};
use crate::cli::DemoArgs;
use crate::exit::{self, Failure};
use crate::log::say;
use change::event::Ahead;
use change::{Event, Operation, Position};
use format::settings::FormatName;
use format::{Encoder, Messages};
use pipeline::assemble::Place;
use pipeline::event_reader::{EventReader, EventSink, OpaqueRecord, ReadError};
use pipeline::{RunOptions, Running, config, run};
use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A real MySQL 9.7 binlog; `crates/testkit/recording/make.sh` made it.
pub const RECORDING: &[u8] = include_bytes!("../../../testkit/recording/shop.binlog");

/// 2026-01-01 00:00 UTC, when the recording begins; sequences of the demo's journal begin there.
const RECORDING_START_US: i64 = 1_767_225_600_000_000;

/// The time of the recording for what is stored, of the machine for waiting.
struct RecordedClock(Instant);

impl journal::Clock for RecordedClock {
    fn now_us(&self) -> i64 {
        RECORDING_START_US
    }
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let to_stdout = args.out.as_deref() == Some(Path::new("-"));
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => default_dir(),
    };
    let config_file = prepare(&dir, args, to_stdout)?;
    let config = config::load(&config_file)?;
    let place = Place::of(&config_file);
    let options = RunOptions {
        clock: Some(Arc::new(RecordedClock(Instant::now()))),
        ..RunOptions::default()
    };
    let started = Instant::now();
    let stop = on_signal()?;
    let running = run::start(&config, &place, &options)?;
    let journal = running.journal().clone();
    let stay = !args.once && !to_stdout && stdout().is_terminal() && stderr().is_terminal();
    if stay {
        return stay_up(running, &journal, &config_file, &stop, started);
    }
    if to_stdout {
        // Data only: no progress, no words.
        return Ok(running.wait(&mut |running| {
            if stop.load(Ordering::Relaxed) {
                running.stop();
            }
        })?);
    }
    drive(running, &stop)?;
    tell(&journal, &config_file, started)
}

fn default_dir() -> PathBuf {
    let user = std::env::var("USER").unwrap_or_else(|_| "user".to_owned());
    std::env::temp_dir().join(format!("headwater-demo-{user}"))
}

/// Empties the folder and writes the recording and the config into it.
fn prepare(dir: &Path, args: &DemoArgs, to_stdout: bool) -> Result<PathBuf, Failure> {
    let failed = |what: &str, path: &Path| {
        let place = format!("{what} {}", path.display());
        move |error: std::io::Error| Failure::new(exit::OTHER, format!("{place}: {error}"))
    };
    let config_file = dir.join("demo.yaml");
    if dir.exists() {
        // Only what a demo made is emptied.
        if !config_file.exists() && dir.read_dir().is_ok_and(|mut all| all.next().is_some()) {
            let text = format!("empty {}: it is no demo's folder", dir.display());
            return Err(Failure::new(exit::USAGE, text));
        }
        std::fs::remove_dir_all(dir).map_err(failed("empty", dir))?;
    }
    std::fs::create_dir_all(dir).map_err(failed("make", dir))?;
    let recording = dir.join("shop.000001");
    std::fs::write(&recording, RECORDING).map_err(failed("write", &recording))?;
    let sink = match (&args.out, to_stdout) {
        (_, true) => "stdout: {format: FORMAT, format_options: {ts: commit}}".to_owned(),
        (out, false) => {
            let path = match out {
                Some(path) => std::path::absolute(path).map_err(failed("find", path))?,
                None => PathBuf::from("demo.jsonl"),
            };
            // A demo may write over what a demo wrote: its cursor beside the file tells.
            let mut cursor = path.clone().into_os_string();
            cursor.push(".cursor");
            if std::fs::remove_file(&cursor).is_ok() {
                std::fs::remove_file(&path).map_err(failed("replace", &path))?;
            }
            let quoted = serde_json::Value::from(path.to_string_lossy().into_owned());
            format!("file: {{path: {quoted}, format: FORMAT, format_options: {{ts: commit}}}}")
        }
    };
    let text = format!(
        "# Made by `headwater demo`. `headwater tail` and `headwater status` take this file.\n\
         source:\n  recorded: {{files: [shop.000001], tables: [\"shop.*\"]}}\n\
         sinks:\n  - name: out\n    {}\n",
        sink.replace("FORMAT", &args.format)
    );
    std::fs::write(&config_file, text).map_err(failed("write", &config_file))?;
    Ok(config_file)
}

/// On a terminal the demo stays, so that the other commands have something to talk to.
fn stay_up(
    running: Running,
    journal: &journal::Journal,
    config_file: &Path,
    stop: &AtomicBool,
    started: Instant,
) -> Result<(), Failure> {
    let mut told = false;
    Ok(running.wait(&mut |running| {
        let ended = running.shared().source_ended.load(Ordering::SeqCst);
        if ended && !told {
            told = true;
            if let Err(failure) = tell(journal, config_file, started) {
                say(&failure.text);
            }
            say("Ctrl-C ends the demo.");
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        if stop.load(Ordering::Relaxed) {
            running.stop();
        }
    })?)
}

/// Counts by table, and one row's changes.
#[derive(Default)]
struct Tour {
    counts: BTreeMap<String, [u64; 3]>,
    statements: u64,
    transactions: u64,
    journey: Vec<String>,
    encoders: Vec<Box<dyn Encoder>>,
}

/// The row whose way is shown: one order, from its insert to its delete.
const SHOWN: (&str, &str) = ("orders", "5000000007");

impl EventSink for Tour {
    type Error = ReadError;

    fn event(&mut self, event: &Event<'_>, _: u64, _: &Position) -> Result<(), ReadError> {
        match event {
            Event::Commit { header, .. } if header.id.is_some() => self.transactions += 1,
            Event::Ddl(_) => self.statements += 1,
            Event::Row(row) => {
                let counts = self.counts.entry(row.table.name.clone()).or_default();
                let index = match row.operation {
                    Operation::Update => 1,
                    Operation::Delete => 2,
                    _ => 0,
                };
                counts[index] += 1;
                let mut key = Vec::new();
                let image = row.after.or(row.before);
                if let Some(image) = image {
                    format::key_text::put_key(&mut key, row.table, &image);
                }
                if (row.table.name.as_str(), &*key) == (SHOWN.0, SHOWN.1.as_bytes()) {
                    self.show(event, row);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn opaque(&mut self, _: &OpaqueRecord<'_>, _: u64) -> Result<(), ReadError> {
        Ok(())
    }
}

impl Tour {
    fn show(&mut self, event: &Event<'_>, row: &change::RowChange<'_>) {
        if self.journey.len() >= 3 {
            return;
        }
        let mut messages = String::new();
        for encoder in &mut self.encoders {
            encoder.transaction(&Ahead {
                operations: encoder.operations(event),
                sent_before: 0,
                commit_sequence: row.sequence + 1,
            });
            messages.push_str(&shown(&mut **encoder, event));
        }
        let id = row
            .header
            .id
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        self.journey.push(format!(
            "{:?} of {}.{}, key {}\n  binlog   {}:{} gtid {id}\n  journal  sequence {}, schema \
             version {}{messages}",
            row.operation,
            row.table.database,
            row.table.name,
            SHOWN.1,
            row.header.file,
            row.meta.end_offset,
            journal::Sequence(row.sequence),
            row.table.version.0,
        ));
    }
}

/// A row's messages in one format, on a line each; bytes in hexadecimal.
fn shown(encoder: &mut dyn Encoder, event: &Event<'_>) -> String {
    let mut messages = Messages::default();
    if let Err(error) = encoder.encode(event, &mut messages) {
        return format!("\n  {error}");
    }
    let name = encoder.name();
    let message = |bytes: &[u8]| match encoder.is_binary() {
        false => format!("\n  {name}\n    {}", String::from_utf8_lossy(bytes)),
        true => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\n  {name}, {} bytes\n    {hex}", bytes.len())
        }
    };
    messages.iter().map(message).collect()
}

fn tell(journal: &journal::Journal, config_file: &Path, started: Instant) -> Result<(), Failure> {
    let seconds = started.elapsed().as_secs_f64();
    let commit = ["ts=commit".to_owned()];
    let encoders = FormatName::ALL.map(|name| pipeline::run::encoder(name.as_str(), &commit));
    let mut tour = Tour {
        encoders: encoders.into_iter().flatten().collect(),
        ..Tour::default()
    };
    let mut reader = EventReader::open(journal, journal.first(), None)
        .map_err(|error| Failure::new(exit::JOURNAL, error))?;
    while reader
        .read_frame(&mut tour)
        .map_err(|error| Failure::new(exit::JOURNAL, error))?
    {}
    say("\nOne row's way, from the database's log through the journal to a message:\n");
    for step in &tour.journey {
        say(&format!("{step}\n"));
    }
    say("table            inserts   updates   deletes");
    let mut rows = 0;
    for (table, [inserts, updates, deletes]) in &tour.counts {
        rows += inserts + updates + deletes;
        say(&format!(
            "{table:16} {inserts:>7}   {updates:>7}   {deletes:>7}"
        ));
    }
    let usage = journal.usage();
    say(&format!(
        "\n{rows} rows and {} DDL statements in {} transactions, {:.1} s ({:.0} rows/s); the journal \
         has {}, the binlog had {}.",
        tour.statements,
        tour.transactions,
        seconds,
        rows as f64 / seconds,
        config::Bytes(usage.bytes),
        config::Bytes(RECORDING.len() as u64),
    ));
    let config = config_file.display();
    say(&format!(
        "\nTry next:\n  headwater tail {config} --from earliest --no-follow | head\n  headwater tail \
         {config} --from 5ca1ab1e-0000-4000-8000-00000000c0de:700 --table shop.customers \
         --no-follow\n  headwater status \
         {config}\n  headwater check YOUR.yaml     # then: headwater run YOUR.yaml; see README.md\n\
         Messages are in {}.",
        config_file.with_file_name("demo.jsonl").display()
    ));
    Ok(())
}
