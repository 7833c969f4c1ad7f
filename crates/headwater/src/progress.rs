//! Progress of a snapshot on a terminal; a log line now and then elsewhere.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use pipeline::Running;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Lines in the log are this far apart.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Shows how a run goes on.
pub struct Progress {
    bars: MultiProgress,
    tables: HashMap<String, ProgressBar>,
    summary: Option<ProgressBar>,
    on_terminal: bool,
    logged: Instant,
    rows_before: (u64, Instant),
    phase: String,
}

impl Progress {
    pub fn new() -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let bars = MultiProgress::new();
        let summary = on_terminal.then(|| {
            let bar = bars.add(ProgressBar::new_spinner());
            bar.set_style(
                ProgressStyle::with_template("{spinner} {msg}").expect("the template is right"),
            );
            bar
        });
        Self {
            bars,
            tables: HashMap::new(),
            summary,
            on_terminal,
            logged: Instant::now(),
            rows_before: (0, Instant::now()),
            phase: String::new(),
        }
    }

    /// Called a few times a second.
    pub fn tick(&mut self, running: &Running) {
        let report = running.report();
        if report.source.phase != self.phase {
            self.phase.clone_from(&report.source.phase);
            tracing::info!(position = report.source.position, "{}", report.source.phase);
        }
        if self.on_terminal {
            self.show(&report);
        } else if self.logged.elapsed() >= LOG_INTERVAL {
            self.logged = Instant::now();
            for (table, rows, estimate, done) in &report.source.tables {
                if !done {
                    tracing::info!(table, rows, estimate, "snapshot");
                }
            }
            let lag = report.source.lag_seconds.unwrap_or(0.0);
            tracing::info!(
                rows = report.source.rows,
                lag_seconds = lag,
                journal_bytes = report.journal.bytes,
                "{}",
                report.source.phase
            );
        }
    }

    fn show(&mut self, report: &pipeline::status::Report) {
        for (table, rows, estimate, done) in &report.source.tables {
            if *done {
                if let Some(bar) = self.tables.remove(table) {
                    bar.finish_and_clear();
                }
                continue;
            }
            if *rows == 0 {
                continue;
            }
            let bars = &self.bars;
            let bar = self.tables.entry(table.clone()).or_insert_with(|| {
                let template = "{prefix:24!} {bar:24} {pos}/{len} rows {percent} % eta {eta}";
                let bar = bars.add(ProgressBar::new(*estimate));
                bar.set_style(ProgressStyle::with_template(template).expect("it is right"));
                bar.set_prefix(table.clone());
                bar
            });
            bar.set_length((*estimate).max(*rows));
            bar.set_position(*rows);
        }
        let (before, at) = self.rows_before;
        let seconds = at.elapsed().as_secs_f64();
        if seconds >= 0.5
            && let Some(summary) = &self.summary
        {
            let rate = (report.source.rows - before) as f64 / seconds;
            self.rows_before = (report.source.rows, Instant::now());
            let lag = report.source.lag_seconds.unwrap_or(0.0);
            let parts = [
                report.source.phase.clone(),
                format!("{rate:.0} rows/s"),
                format!("lag {lag:.1} s"),
                format!("journal {}", pipeline::config::Bytes(report.journal.bytes)),
            ];
            summary.set_message(parts.join(" · "));
            summary.tick();
        }
    }

    /// Takes the bars away.
    pub fn finish(&mut self) {
        for (_, bar) in self.tables.drain() {
            bar.finish_and_clear();
        }
        if let Some(summary) = self.summary.take() {
            summary.finish_and_clear();
        }
    }
}
