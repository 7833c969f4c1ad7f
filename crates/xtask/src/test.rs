//! `test`: everything in one pass, with one summary at its end.

use crate::needs;
use crate::steps::{FULL, Step, root, script};
use std::io::{BufRead, BufReader, Write, stdout};
use std::process::Stdio;
use std::time::{Duration, Instant};

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
            "--release",
            "--workspace",
            "--features",
            FULL,
            "--no-run",
        ],
    );
    done.push(timed(build.name, || (build.run(), None)));
    match fetching.join() {
        Ok(fetched) => done.insert(0, fetched),
        Err(_) => println!("fetching the servers broke off"),
    }
    // The source's own live tests are left out of a plain `cargo test`; here are its servers.
    let tests = Step::cargo(
        "tests",
        &[
            "test",
            "--release",
            "--workspace",
            "--features",
            FULL,
            "--no-fail-fast",
            "--",
            "--include-ignored",
        ],
    );
    done.push(timed(tests.name, || run_tests(&tests)));
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

/// Runs the tests, passing their output through and counting their results.
fn run_tests(step: &Step) -> (bool, Option<(u64, u64)>) {
    println!("\n==> {}", step.shown());
    let spawned = step.command().stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            println!("cargo: {error}");
            return (false, Some((0, 0)));
        }
    };
    let mut counts = (0, 0);
    if let Some(output) = child.stdout.take() {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            let _ = stdout().write_all(&line);
            let _ = stdout().flush();
            if let Some((passed, failed)) = result(&String::from_utf8_lossy(&line)) {
                counts = (counts.0 + passed, counts.1 + failed);
            }
            line.clear();
        }
    }
    let good = child.wait().is_ok_and(|status| status.success());
    (good, Some(counts))
}

/// Passed and failed in a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn result(line: &str) -> Option<(u64, u64)> {
    let counts = line.strip_prefix("test result: ")?;
    let number = |word: &str| {
        let before = counts.split(word).next()?;
        before
            .rsplit([' ', ';'])
            .find(|part| !part.is_empty())?
            .parse()
            .ok()
    };
    Some((number(" passed")?, number(" failed")?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_tests_are_read_from_their_last_line() {
        let line = "test result: ok. 32 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; \
                    finished in 0.01s";
        assert_eq!(result(line), Some((32, 1)));
        assert_eq!(result("test result::works ... ok"), None);
        assert_eq!(result("running 3 tests"), None);
    }
}
