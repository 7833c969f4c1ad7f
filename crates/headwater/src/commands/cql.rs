//! `cql`: the CQL door of a running pipeline.

use crate::exit::Failure;
use clap::Args;
use pipeline::control::Request;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct CqlArgs {
    /// The pipeline's YAML file.
    pub config: PathBuf,
    /// The statement.
    pub statement: String,
    /// Rows as JSON.
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: CqlArgs) -> Result<(), Failure> {
    let request = Request::Cql {
        statement: args.statement,
        json: args.json,
    };
    super::control::ask_for_data(&args.config, &request)
}
