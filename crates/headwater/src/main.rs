//! Headwater: change data capture with durable change streams.
//!
//! Owns: the command line, its exit codes, the demo, progress on a terminal. Everything else is in
//! `pipeline` and the rooms it joins.

mod cli;
mod commands;
mod exit;
mod log;
mod progress;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::start(&cli);
    match dispatch(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.text.trim_end();
            if !text.is_empty() {
                log::say(&format!("error: failed to {text}"));
            }
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(command: Command) -> Result<(), exit::Failure> {
    match command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Check(args) => commands::check::run(&args.config),
        Command::Run(args) => commands::run::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Tail(args) => commands::tail::run(&args),
        Command::Pause(args) => commands::control::pause(&args),
        Command::Resume(args) => commands::control::resume(&args),
        Command::Rewind(args) => commands::control::rewind(&args),
        Command::Heal(args) => commands::control::heal(&args),
        Command::Streams(args) => commands::streams::run(args),
        Command::Keys(args) => commands::keys::run(args),
        Command::Cql(args) => commands::cql::run(args),
        Command::Audit(args) => commands::audit::run(args),
        Command::Decode(args) => commands::decode::run(&args),
        Command::Schema { format } => commands::reference::schema(format.as_deref()),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Completions { shell } => commands::reference::completions(shell),
        Command::Man => commands::reference::man(),
    }
}
