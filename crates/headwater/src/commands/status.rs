//! `status`: of a running pipeline over its socket, of a stopped one from its journal.

use super::load;
use crate::cli::StatusArgs;
use crate::exit::Failure;
use pipeline::assemble;
use pipeline::config::Bytes;
use pipeline::control::{self, Request};
use pipeline::delivery::AT_CAPTURE;
use pipeline::status::{JournalReport, Report, SinkStatus, SourceReport};
use std::io::{Write, stdout};

pub fn run(args: &StatusArgs) -> Result<(), Failure> {
    let (config, place) = load(&args.config)?;
    let dir = place.journal_dir(&config);
    let running = control::connect(&dir)
        .and_then(|stream| control::call(&stream, &Request::Status).ok())
        .and_then(|answer| answer.report);
    let report = match running {
        Some(report) => report,
        None => stopped(&config, &place)?,
    };
    let mut out = stdout().lock();
    if args.json {
        let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::other)?;
        writeln!(out, "{text}")?;
        return Ok(());
    }
    out.write_all(render(&report, &args.config.display().to_string()).as_bytes())?;
    Ok(())
}

fn stopped(config: &pipeline::config::Config, place: &assemble::Place) -> Result<Report, Failure> {
    let journal = journal::open_read_only(assemble::journal_options(config, place, false)?)?;
    let resumed = pipeline::capture::resume(&journal).map_err(pipeline::run::read_trouble)?;
    let source = SourceReport {
        phase: "stopped".into(),
        position: resumed
            .position
            .map(|position| position.to_string())
            .unwrap_or_default(),
        ..SourceReport::default()
    };
    let sinks = journal
        .cursors()
        .into_iter()
        .map(|report| {
            let status = SinkStatus {
                state: "stopped".into(),
                sequence: report.cursor.sequence.to_string(),
                lag_rows: journal.end().0.saturating_sub(report.cursor.sequence.0),
                ..SinkStatus::default()
            };
            (report.name, status)
        })
        .collect();
    Ok(Report {
        pipeline: place.name.clone(),
        pid: None,
        source,
        journal: JournalReport::new(&journal, false),
        sinks,
        streams: super::streams::of_stopped(journal, config)?,
    })
}

fn render(report: &Report, config: &str) -> String {
    let mut lines = Vec::new();
    let state = match report.pid {
        Some(pid) => format!("running, pid {pid}"),
        None => "stopped".to_owned(),
    };
    lines.push(format!("pipeline {} ({state})", report.pipeline));
    render_source(&report.source, config, &mut lines);
    let journal = &report.journal;
    let limit = journal
        .disk_max
        .map(|max| format!(" of {}", Bytes(max)))
        .unwrap_or_default();
    lines.push(format!(
        "journal {}: {}{limit} in {} segments, {} to {}, {}",
        &journal.id.get(..8).unwrap_or(&journal.id),
        Bytes(journal.bytes),
        journal.segments,
        journal.first,
        journal.end,
        journal.state
    ));
    for stream in &report.streams {
        let name = stream.name.as_deref().unwrap_or(&stream.table);
        lines.push(format!(
            "stream {name}: {}, {}, {} open shards of {}, {} records captured, {} read",
            stream.status,
            stream.view,
            stream.shards_open,
            stream.shards,
            stream.records_captured,
            stream.records_read
        ));
        if !stream.reason.is_empty() {
            lines.push(format!("  it has ended: {}", stream.reason));
        }
    }
    for (name, sink) in &report.sinks {
        lines.push(format!(
            "sink {name}: {}, at {}, {} records behind, lag {:.1} s, {} rows delivered",
            sink.state, sink.sequence, sink.lag_rows, sink.lag_seconds, sink.rows
        ));
        if sink.not_carried > 0 {
            lines.push(format!(
                "  {} events left out: the format cannot carry them",
                sink.not_carried
            ));
        }
        for (what, text) in &sink.details {
            lines.push(format!("  {what}: {text}"));
        }
        if !sink.error.is_empty() {
            lines.push(format!("  trouble: {}", sink.error));
        }
        for parked in &sink.parked {
            let what = match parked.keys {
                Some(count) => format!("{count} key(s) of {}", parked.table),
                None => format!("all of {}", parked.table),
            };
            lines.push(format!(
                "  parked: {what} since {} ({}): {}",
                parked.from_sequence, parked.target, parked.reason
            ));
            let table = &parked.table;
            // What capture could not decode it can decode again; what it could not keep, not. Other reasons
            // say themselves that only a new copy helps.
            let is_kept = report.source.parked.iter().any(|(name, ..)| name == table);
            let needs_copy = match parked.target == AT_CAPTURE {
                true => !is_kept,
                false => parked.reason.contains("--resnapshot"),
            };
            let how = if needs_copy { " --resnapshot" } else { "" };
            lines.push(format!(
                "    fix the cause, then: headwater heal {config} {table}{how}"
            ));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn render_source(source: &SourceReport, config: &str, lines: &mut Vec<String>) {
    let lag = match (source.lag_seconds, source.lag_bytes) {
        (Some(seconds), Some(bytes)) => format!(", lag {seconds:.1} s, {}", Bytes(bytes)),
        _ => String::new(),
    };
    lines.push(format!(
        "source {}: {}{lag}, {} rows",
        source.server, source.phase, source.rows
    ));
    if !source.position.is_empty() {
        lines.push(format!("  at {}", source.position));
    }
    if !source.trouble.is_empty() {
        lines.push(format!("  trouble: {}", source.trouble));
    }
    for (table, rows, estimate, done) in &source.tables {
        if !done {
            let percent = (*rows as f64 * 100.0 / (*estimate).max(1) as f64).min(99.9);
            lines.push(format!(
                "  snapshot {table}: {rows} of about {estimate} rows, {percent:.1} %"
            ));
        }
    }
    let done = source.tables.iter().filter(|table| table.3).count();
    if !source.tables.is_empty() {
        lines.push(format!(
            "  snapshot: {done} of {} tables done",
            source.tables.len()
        ));
    }
    for (table, since, reason) in &source.parked {
        lines.push(format!("  parked: {table} since {since}: {reason}"));
        lines.push(format!(
            "    fix the cause, then: headwater heal {config} {table}"
        ));
    }
}
