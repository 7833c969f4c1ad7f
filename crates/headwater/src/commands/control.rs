//! Commands to a running pipeline, over its local socket.

use super::load;
use crate::cli::{HealArgs, RewindArgs, SinkArgs};
use crate::exit::{self, Failure};
use crate::log::say;
use pipeline::control::{self, Request};
use std::io::{Write, stdout};
use std::path::Path;

pub fn pause(args: &SinkArgs) -> Result<(), Failure> {
    ask(
        &args.config,
        &Request::Pause {
            sink: args.sink.clone(),
        },
    )
}

pub fn resume(args: &SinkArgs) -> Result<(), Failure> {
    ask(
        &args.config,
        &Request::Resume {
            sink: args.sink.clone(),
        },
    )
}

pub fn rewind(args: &RewindArgs) -> Result<(), Failure> {
    ask(
        &args.config,
        &Request::Rewind {
            sink: args.sink.clone(),
            to: args.to.clone(),
        },
    )
}

pub fn heal(args: &HealArgs) -> Result<(), Failure> {
    ask(
        &args.config,
        &Request::Heal {
            table: args.table.clone(),
            resnapshot: args.resnapshot,
        },
    )
}

/// Asks a running pipeline, and says what it answers.
pub fn ask(config: &Path, request: &Request) -> Result<(), Failure> {
    say(&answer(config, request)?);
    Ok(())
}

/// Asks a running pipeline, and writes what it answers to stdout.
pub fn ask_for_data(config: &Path, request: &Request) -> Result<(), Failure> {
    let text = answer(config, request)?;
    writeln!(stdout().lock(), "{text}")?;
    Ok(())
}

fn answer(config: &Path, request: &Request) -> Result<String, Failure> {
    let (loaded, place) = load(config)?;
    let dir = place.journal_dir(&loaded);
    let Some(stream) = control::connect(&dir) else {
        let text = format!(
            "reach the pipeline at {}: nothing runs on this journal; hint: start it with `headwater \
             run {}`",
            dir.display(),
            config.display()
        );
        return Err(Failure::new(exit::OTHER, text));
    };
    let answer = control::call(&stream, request)?;
    match answer.ok {
        true => Ok(answer.text),
        false => Err(Failure::new(
            exit::OTHER,
            format!("do that: {}", answer.text),
        )),
    }
}
