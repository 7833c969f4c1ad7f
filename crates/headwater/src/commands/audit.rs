//! `audit`: the audit trail of the stream API, of a running pipeline or a stopped one.

use super::load;
use crate::exit::{self, Failure};
use crate::log::say;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    pub command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that every record is as it was written, and that none is missing.
    Verify {
        /// The pipeline's YAML file.
        config: PathBuf,
    },
}

pub fn run(args: AuditArgs) -> Result<(), Failure> {
    let AuditCommand::Verify { config } = args.command;
    let (loaded, place) = load(&config)?;
    let verified = pipeline::api::verify_audit(&loaded, &place)
        .map_err(|text| Failure::new(exit::OTHER, text))?;
    say(&verified);
    Ok(())
}
