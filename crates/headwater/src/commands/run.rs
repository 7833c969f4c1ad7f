//! `run`: until a signal drains and stops it.

use super::load;
use crate::cli::RunArgs;
use crate::exit::{self, Failure};
use crate::progress::Progress;
use pipeline::{RunOptions, Running, run};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let (config, place) = load(&args.config)?;
    let options = RunOptions {
        recover: args.recover,
        resnapshot_lost: args.resnapshot_lost,
        clock: test_clock(),
    };
    let stop = on_signal()?;
    let running = run::start(&config, &place, &options)?;
    tracing::info!(
        pid = std::process::id(),
        journal = %running.journal().id(),
        "pipeline {} runs",
        place.name
    );
    let outcome = drive(running, &stop);
    if outcome.is_ok() {
        tracing::info!("pipeline {} has stopped", place.name);
    }
    outcome
}

/// The clock of a test that shifts time; none in a run for real.
fn test_clock() -> Option<Arc<dyn journal::Clock>> {
    let clock = pipeline::clock::OffsetClock::from_environment()?;
    tracing::warn!(
        "the time is shifted by the file in {}: this is for tests only",
        pipeline::clock::OFFSET_FILE_VARIABLE
    );
    Some(Arc::new(clock))
}

/// A flag that SIGTERM and Ctrl-C set; a second one ends the process at once.
pub fn on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        let failed = |error: std::io::Error| Failure::new(exit::OTHER, error);
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .map_err(failed)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
    }
    Ok(stop)
}

/// Waits for the end, showing progress.
pub fn drive(running: Running, stop: &AtomicBool) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let mut told = false;
    let outcome = running.wait(&mut |running| {
        if stop.load(Ordering::Relaxed) && !told {
            told = true;
            tracing::info!("stopping: capture ends, then the sinks drain; again to end at once");
            running.stop();
        }
        progress.tick(running);
    });
    progress.finish();
    Ok(outcome?)
}
