//! The scripts in `servers/`, run and read.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// Where the scripts are.
pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/servers"))
}

/// Runs a script to its end; returns what it printed, or its complaint.
pub fn run<S: AsRef<OsStr>>(script: &str, arguments: &[S]) -> Result<String, String> {
    let mut command = Command::new(folder().join(script));
    let output = command
        .args(arguments)
        .output()
        .map_err(|error| format!("{script}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{script}: {}", text(&output.stderr))),
    }
}

/// Fetches servers that are missing; several calls at once are safe.
pub fn fetch(names: &[&str]) -> Result<(), String> {
    run("fetch.sh", names).map(|_| ())
}

/// The value of `name=` in a line that a script printed.
pub fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}
