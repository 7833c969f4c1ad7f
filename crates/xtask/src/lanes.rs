//! The test binaries, a few at a time: most of their time they wait for servers to start, to stop and to
//! come back, and one after another they would take the hour that a run may last.

use crate::steps::{FULL, PROFILE, Step, root};
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many run at once. Each runs as many tests at once as the machine has cores.
const LANES: usize = 3;

/// What no binary takes, on the slowest machine: one that is still at work then hangs. Broken off, it
/// shows how far it came, and the others are still run.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Those that measure: they run alone.
const MEASURING: [&str; 3] = [
    "sink-clickhouse costs",
    "stream-api http",
    "headwater clickhouse_visible",
];

/// A command that runs tests.
pub struct Binary {
    /// Its package and target.
    name: String,
    command: Command,
    /// Whether it is known to run long: such ones start first, so that none is left over at the end.
    is_long: bool,
}

/// Passed and failed.
pub type Counts = (u64, u64);

/// Builds all tests; none when that fails.
pub fn build(step: &Step) -> Option<Vec<Binary>> {
    println!("\n==> {}", step.shown());
    let mut command = step.command();
    command.arg("--message-format=json-render-diagnostics");
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let output = BufReader::new(child.stdout.take()?);
    let binaries = output
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| binary(&line))
        .collect();
    child.wait().ok()?.success().then_some(binaries)
}

/// What cargo says of a target that it built, if it is one of tests.
fn binary(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = message["executable"].as_str()?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?;
    let is_integration = message["target"]["kind"][0] == "test";
    let mut command = Command::new(executable);
    // As cargo runs it. The source's own live tests are left out of a plain `cargo test`; here are its
    // servers.
    command
        .arg("--include-ignored")
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder);
    Some(Binary {
        name: format!(
            "{} {}",
            package(message["package_id"].as_str()?),
            message["target"]["name"].as_str()?
        ),
        command,
        is_long: is_integration && (folder.ends_with("headwater") || folder.ends_with("mysql")),
    })
}

/// The name in `path+file:///…/folder#name@0.1.0` or `path+file:///…/name#0.1.0`.
fn package(id: &str) -> &str {
    let (place, version) = id.rsplit_once('#').unwrap_or((id, ""));
    match version.rsplit_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    }
}

/// The examples in the documentation, which only cargo can run.
fn documentation() -> Binary {
    let step = Step::cargo(
        "examples",
        &[
            "test",
            "--profile",
            PROFILE,
            "--workspace",
            "--features",
            FULL,
            "--no-fail-fast",
            "--doc",
        ],
    );
    Binary {
        name: "examples in the documentation".to_owned(),
        command: step.command(),
        is_long: false,
    }
}

/// Runs them all; whether all was well, and how many tests passed and failed. What is not done at the
/// deadline is broken off or not begun, and has failed.
pub fn run(binaries: Vec<Binary>, deadline: Instant) -> (bool, Counts) {
    let (alone, mut shared): (Vec<_>, Vec<_>) = binaries
        .into_iter()
        .partition(|binary| MEASURING.contains(&binary.name.as_str()));
    shared.push(documentation());
    shared.sort_by_key(|binary| !binary.is_long);
    let (first, first_counts) = run_in_lanes(shared, LANES, deadline);
    let (second, second_counts) = run_in_lanes(alone, 1, deadline);
    let passed = first_counts.0 + second_counts.0;
    let failed = first_counts.1 + second_counts.1;
    (first && second, (passed, failed))
}

fn run_in_lanes(binaries: Vec<Binary>, lanes: usize, deadline: Instant) -> (bool, Counts) {
    let queue = Mutex::new(VecDeque::from(binaries));
    let sum = Mutex::new((true, (0, 0)));
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                let next = || {
                    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                    queue.pop_front()
                };
                while let Some(binary) = next() {
                    let (good, counts) = run_one(binary, deadline);
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.0 &= good;
                    sum.1.0 += counts.0;
                    sum.1.1 += counts.1;
                }
            });
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for its end, or makes it: none when it had to be killed.
fn end_of(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs one and prints, when it has ended, what it said.
fn run_one(mut binary: Binary, deadline: Instant) -> (bool, Counts) {
    let started = Instant::now();
    if started > deadline {
        println!("{}: not run: the time is over", binary.name);
        return (false, (0, 1));
    }
    println!("     started {}", binary.name);
    let deadline = deadline.min(started + PATIENCE);
    let folder = root().join("target/tmp");
    let log = folder.join(format!("{}.log", binary.name.replace(' ', "-")));
    let mut run = || -> std::io::Result<Option<ExitStatus>> {
        std::fs::create_dir_all(&folder)?;
        // One stream for both, so that what a test says stands where it said it.
        let file = std::fs::File::create(&log)?;
        let command = binary.command.stdin(Stdio::null());
        let mut child = command.stderr(file.try_clone()?).stdout(file).spawn()?;
        end_of(&mut child, deadline)
    };
    let complaint = match run() {
        Ok(Some(status)) if status.success() => None,
        Ok(Some(status)) => Some(status.to_string()),
        Ok(None) => Some("killed: it did not end in time".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    let said = std::fs::read(&log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let mut counts = (0, 0);
    for (passed, failed) in said.lines().filter_map(result) {
        counts.0 += passed;
        counts.1 += failed;
    }
    let mut text = format!(
        "\n==> {} ({:.1} s)\n{said}",
        binary.name,
        started.elapsed().as_secs_f64()
    );
    if let Some(complaint) = &complaint {
        let _ = writeln!(text, "{}: {complaint}", binary.name);
        // A binary that breaks off says nothing of its tests: one failure.
        counts.1 = counts.1.max(1);
    }
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
    (complaint.is_none(), counts)
}

/// Passed and failed in a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn result(line: &str) -> Option<Counts> {
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

    #[test]
    fn what_hangs_is_broken_off() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a child");
        let soon = Instant::now() + Duration::from_millis(100);
        assert_eq!(end_of(&mut child, soon).expect("it can be killed"), None);
        let mut child = Command::new("true").spawn().expect("a child");
        let later = Instant::now() + Duration::from_secs(60);
        let status = end_of(&mut child, later).expect("it ends");
        assert!(status.is_some_and(|status| status.success()));
    }

    #[test]
    fn a_binary_of_tests_is_known_from_what_cargo_says() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/sink/clickhouse#sink-clickhouse@0.1.0","manifest_path":"/w/crates/sink/clickhouse/Cargo.toml","target":{"kind":["test"],"name":"costs"},"profile":{"test":true},"executable":"/w/target/release/deps/costs-1"}"#;
        let found = binary(line).expect("a binary");
        assert_eq!(found.name, "sink-clickhouse costs");
        assert!(!found.is_long);
        assert!(binary(&line.replace("\"test\":true", "\"test\":false")).is_none());
        assert_eq!(package("path+file:///w/crates/change#0.1.0"), "change");
    }
}
