//! The developer's commands: `cargo xtask check | test | servers | bench | gen | recording | vectors`.
//!
//! Owns: the order of the steps and their summary. Every step is a command that can be typed by hand;
//! it is printed before it runs.
#![expect(clippy::print_stdout, reason = "a command line tool talks on stdout")]

mod lanes;
mod needs;
mod servers;
mod steps;
mod test;

use std::process::ExitCode;
use steps::{Step, root};

const USAGE: &str = "\
cargo xtask COMMAND

  check            format, clippy and documentation, warnings denied
  test             everything: servers, format, clippy, documentation, all tests; one summary
  servers up       fetch all servers and start one of each; prints where they are
  servers down     kill them and remove their folders
  bench [ARG]...   `headwater bench` against a MySQL 9.7 that is started for it
  gen              write the golden files and reference pages anew
  recording        record the demo's binlog anew
  vectors          make the golden vectors of the column types anew";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["check"] => check(),
        ["test"] => test::run(),
        ["servers", "up"] => servers::up(),
        ["servers", "down"] => servers::down(),
        ["bench", rest @ ..] => servers::bench(rest),
        ["gen"] => {
            let mut step = Step::cargo(
                "gen",
                &[
                    "test",
                    "--profile",
                    steps::PROFILE,
                    "--workspace",
                    "--exclude",
                    "headwater",
                ],
            );
            step.environment.push(("UPDATE_EXPECT", "1"));
            step.run()
        }
        ["recording"] => steps::script("crates/testkit/recording/make.sh", &[]),
        ["vectors"] => steps::script("crates/testkit/vectors/make.sh", &[]),
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn check() -> bool {
    println!("in {}", root().display());
    let steps = Step::checks();
    let mut all = true;
    for step in &steps {
        all &= step.run();
    }
    all
}
