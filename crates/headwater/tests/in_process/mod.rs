//! A pipeline in the test's own process, for tests that ask its handles.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use pipeline::assemble::Place;
use pipeline::{RunOptions, Running};
use std::path::Path;

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
