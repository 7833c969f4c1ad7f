//! A pipeline in the test's own process, for tests that ask its handles.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use pipeline::assemble::Place;
use pipeline::{RunOptions, Running};
use std::path::Path;
use std::time::{Duration, Instant};

/// Starts a config's text as `shop`, in `folder`.
pub fn start(text: &str, folder: &Path) -> Running {
    let config = pipeline::config::parse(text, "shop.yaml").unwrap();
    let place = Place {
        name: "shop".into(),
        folder: folder.to_owned(),
    };
    pipeline::run::start(&config, &place, &RunOptions::default()).unwrap()
}

/// Stops it, and waits for its end.
pub fn stop(running: Running) {
    running.stop();
    running.wait(&mut |_| {}).unwrap();
}

/// Looks until there is something; panics after `limit`.
pub fn wait_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < limit, "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
