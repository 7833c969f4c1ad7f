//! `keys`: keys of tables of a running pipeline.

use crate::exit::Failure;
use clap::{Args, Subcommand};
use pipeline::control::Request;
use pipeline::key_groups::KeyRequest;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    pub command: KeysCommand,
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Tables whose rows are sealed with a key of their own.
    List {
        /// The pipeline's YAML file.
        config: PathBuf,
    },
    /// A new key from now on; what was written stays readable.
    Rotate {
        /// The pipeline's YAML file.
        config: PathBuf,
        /// `database.table`. Default: the default key.
        table: Option<String>,
    },
    /// Destroy a table's keys: its rows in the journal can never be read again.
    Erase {
        /// The pipeline's YAML file.
        config: PathBuf,
        /// `database.table`.
        table: String,
    },
}

pub fn run(args: KeysArgs) -> Result<(), Failure> {
    let (config, request) = match args.command {
        KeysCommand::List { config } => (config, KeyRequest::List),
        KeysCommand::Rotate { config, table } => (config, KeyRequest::Rotate { table }),
        KeysCommand::Erase { config, table } => (config, KeyRequest::Erase { table }),
    };
    super::control::ask(&config, &Request::Keys { request })
}
