//! What the program tells about itself: JSON Schema, completions, manual page.

use crate::cli::Cli;
use crate::exit::{self, Failure};
use clap::CommandFactory;
use format::settings::FormatName;
use std::io::{Write, stdout};

pub fn schema(format: Option<&str>) -> Result<(), Failure> {
    let Some(name) = format else {
        return config_schema();
    };
    let found: FormatName = name
        .parse()
        .map_err(|text: String| Failure::new(exit::USAGE, format!("read --format: {text}")))?;
    if found != FormatName::DtsAvro {
        let text =
            format!("print a schema: {name} has none; its page in docs/reference says its shape");
        return Err(Failure::new(exit::USAGE, text));
    }
    writeln!(stdout().lock(), "{}", format::dts_avro::avro_schema())?;
    Ok(())
}

fn config_schema() -> Result<(), Failure> {
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
