//! `tail`: from a running pipeline over its socket, from a stopped one out of its journal.

use super::load;
use super::run::on_signal;
use crate::cli::TailArgs;
use crate::exit::{self, Failure};
use pipeline::control::{self, Request};
use pipeline::pattern::Patterns;
use pipeline::tail::{TailError, TailOptions, tail};
use pipeline::{assemble, seek};
use std::io::{self, Read, Write};
use std::sync::atomic::Ordering;

pub fn run(args: &TailArgs) -> Result<(), Failure> {
    let (config, place) = load(&args.config)?;
    let from: seek::Place = args
        .from
        .parse()
        .map_err(|text: String| Failure::new(exit::USAGE, format!("read --from: {text}")))?;
    let encoder = pipeline::run::encoder(&args.format, &args.options)
        .map_err(|text| Failure::new(exit::USAGE, format!("read --format: {text}")))?;
    let request = Request::Tail {
        from: args.from.clone(),
        tables: args.tables.clone(),
        format: args.format.clone(),
        options: args.options.clone(),
        follow: !args.no_follow,
    };
    if let Some(stream) = control::connect(&place.journal_dir(&config)) {
        control::send(&stream, &request)?;
        return copy(&stream);
    }
    pipeline::api::record_offline(&config, &place, &request)
        .map_err(|text| Failure::new(exit::OTHER, text))?;
    let journal = journal::open_read_only(assemble::journal_options(&config, &place, false)?)?;
    let found = seek::find(&journal, &from)
        .map_err(|text| Failure::new(exit::JOURNAL, format!("find {}: {text}", args.from)))?;
    let options = TailOptions {
        from: found,
        tables: Patterns::new(&args.tables),
        follow: false,
    };
    let stop = on_signal()?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match tail(&journal, &options, encoder, &mut out, &|| {
        !stop.load(Ordering::Relaxed)
    }) {
        Ok(()) => Ok(()),
        Err(TailError::Write(error)) => Err(error.into()),
        Err(error) => Err(Failure::new(exit::JOURNAL, error)),
    }
}

/// Copies what the running pipeline streams. An answer in place of lines says what is wrong.
fn copy(mut stream: &std::os::unix::net::UnixStream) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let mut buffer = vec![0u8; 64 << 10];
    let mut first = true;
    loop {
        let count = stream.read(&mut buffer)?;
        let bytes = &buffer[..count];
        if count == 0 {
            return Ok(());
        }
        if first && let Some(text) = refusal(bytes) {
            return Err(Failure::new(exit::OTHER, format!("tail: {text}")));
        }
        first = false;
        out.write_all(bytes)?;
        out.flush()?;
    }
}

fn refusal(bytes: &[u8]) -> Option<String> {
    if !bytes.starts_with(b"{\"ok\":false") {
        return None;
    }
    serde_json::from_slice::<control::Answer>(bytes)
        .ok()
        .map(|answer| answer.text)
}
