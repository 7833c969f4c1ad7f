//! `test`: everything in one pass, with one summary at its end.

use crate::steps::{FULL, PROFILE, Step, root, script};
use crate::{lanes, needs};
use std::time::{Duration, Instant};

/// What a whole run may take: the summary is to be printed by somebody who waits an hour and a half.
const LIMIT: Duration = Duration::from_secs(75 * 60);

/// What came of one step.
struct Done {
    name: String,
    took: Duration,
    good: bool,
    /// Tests that passed and failed; none for a step that is one check.
    tests: Option<(u64, u64)>,
}

/// Runs everything; false when anything failed.
pub fn run() -> bool {
    let started = Instant::now();
    if !needs::check() {
        println!("0 passed, 1 failed");
        return false;
    }
    let fetching = std::thread::spawn(|| timed("servers", || (fetch(), None)));
    let mut done: Vec<Done> = Step::checks()
        .iter()
        .map(|step| timed(step.name, || (step.run(), None)))
        .collect();
    let build = Step::cargo(
        "build of the tests",
        &[
            "test",
            "--profile",
            PROFILE,
            "--workspace",
            "--features",
            FULL,
            "--no-run",
        ],
    );
    let mut binaries = None;
    done.push(timed(build.name, || {
        binaries = lanes::build(&build);
        (binaries.is_some(), None)
    }));
    match fetching.join() {
        Ok(fetched) => done.insert(0, fetched),
        Err(_) => println!("fetching the servers broke off"),
    }
    // What did not build is not run: the build's own failure counts.
    if let Some(binaries) = binaries {
        done.push(timed("tests", || {
            let (good, counts) = lanes::run(binaries, started + LIMIT);
            (good, Some(counts))
        }));
    }
    summarise(&done, started.elapsed())
}

fn timed(name: &str, body: impl FnOnce() -> (bool, Option<(u64, u64)>)) -> Done {
    let started = Instant::now();
    let (good, tests) = body();
    Done {
        name: name.to_owned(),
        took: started.elapsed(),
        good,
        tests,
    }
}

fn fetch() -> bool {
    script("crates/testkit/servers/fetch.sh", &["all"])
}

fn summarise(done: &[Done], took: Duration) -> bool {
    println!(
        "\n==> Summary ({})",
        root().file_name().unwrap_or_default().to_string_lossy()
    );
    let (mut passed, mut failed) = (0, 0);
    for step in done {
        let word = if step.good { "ok" } else { "FAILED" };
        let mut line = format!(
            "{:20} {word:7} {:>8.1} s",
            step.name,
            step.took.as_secs_f64()
        );
        if let Some((good, bad)) = step.tests {
            line.push_str(&format!("   {good} passed, {bad} failed"));
            (passed, failed) = (passed + good, failed + bad);
        }
        // A step that broke without a test's failing counts as one failure.
        if !step.good && step.tests.is_none_or(|(_, bad)| bad == 0) {
            failed += 1;
        }
        println!("{line}");
    }
    println!("{:20} {:7} {:>8.1} s", "all", "", took.as_secs_f64());
    println!("{passed} passed, {failed} failed");
    failed == 0
}
