//! What the program tells about itself: JSON Schema, completions, manual page.

use crate::cli::Cli;
use crate::exit::Failure;
use clap::CommandFactory;
use std::io::{Write, stdout};

pub fn schema() -> Result<(), Failure> {
    writeln!(stdout().lock(), "{}", pipeline::config::json_schema())?;
    Ok(())
}

pub fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    clap_complete::generate(
        shell,
        &mut Cli::command(),
        "headwater",
        &mut stdout().lock(),
    );
    Ok(())
}

pub fn man() -> Result<(), Failure> {
    clap_mangen::Man::new(Cli::command()).render(&mut stdout().lock())?;
    Ok(())
}
