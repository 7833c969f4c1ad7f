//! Steps: commands that are printed, run and timed.

use std::path::PathBuf;
use std::process::Command;

/// One command.
pub struct Step {
    /// What the summary calls it.
    pub name: &'static str,
    program: String,
    arguments: Vec<String>,
    /// Variables that it gets.
    pub environment: Vec<(&'static str, &'static str)>,
}

/// The workspace's folder.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map_or(here.clone(), PathBuf::from)
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// What tests and releases build: the heavy sinks too. Always the same, so that nothing is built twice.
pub const FULL: &str = "headwater/full";

/// The profile of all that is checked and tested: the C libraries are built once.
pub const PROFILE: &str = "ci";

impl Step {
    /// A cargo command.
    pub fn cargo(name: &'static str, arguments: &[&str]) -> Self {
        let arguments = arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect();
        Self {
            name,
            program: cargo(),
            arguments,
            environment: Vec::new(),
        }
    }

    /// Format, clippy, documentation: all in one profile, so that C libraries are built once.
    pub fn checks() -> Vec<Self> {
        let clippy = [
            "clippy",
            "--profile",
            PROFILE,
            "--workspace",
            "--all-targets",
            "--features",
            FULL,
            "--",
            "-D",
            "warnings",
        ];
        let mut docs = Self::cargo(
            "documentation",
            &[
                "doc",
                "--profile",
                PROFILE,
                "--workspace",
                "--no-deps",
                "--features",
                FULL,
            ],
        );
        docs.environment.push(("RUSTDOCFLAGS", "-D warnings"));
        vec![
            Self::cargo("format", &["fmt", "--all", "--check"]),
            Self::cargo("clippy", &clippy),
            docs,
        ]
    }

    /// The command, ready to run.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(root());
        command.envs(self.environment.iter().copied());
        command
    }

    /// As one would type it.
    pub fn shown(&self) -> String {
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}='{value}' "));
        format!(
            "{}cargo {}",
            variables.collect::<String>(),
            self.arguments.join(" ")
        )
    }

    /// Runs it; false when it fails.
    pub fn run(&self) -> bool {
        println!("\n==> {}", self.shown());
        match self.command().status() {
            Ok(status) => status.success(),
            Err(error) => {
                println!("{}: {error}", self.program);
                false
            }
        }
    }
}

/// Runs a script of the workspace; false when it fails.
pub fn script(path: &str, arguments: &[&str]) -> bool {
    println!("\n==> {path} {}", arguments.join(" "));
    match Command::new(root().join(path)).args(arguments).status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("{path}: {error}");
            false
        }
    }
}

/// As [`script`]; returns what it printed.
pub fn script_output(path: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(root().join(path))
        .args(arguments)
        .output()
        .ok()?;
    if !output.status.success() {
        println!("{path}: {}", String::from_utf8_lossy(&output.stderr).trim());
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
