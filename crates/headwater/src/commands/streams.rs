//! `streams`: change streams, of a running pipeline over its socket; list and describe also of a stopped one.

use super::load;
use crate::exit::{self, Failure};
use crate::log::say;
use clap::{Args, Subcommand};
use pipeline::assemble;
use pipeline::config::Config;
use pipeline::control::{self, Request};
use pipeline::streams::{self, StreamRequest, StreamStatusReport};
use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stream::Streams;

#[derive(Debug, Args)]
pub struct StreamsArgs {
    #[command(subcommand)]
    pub command: StreamsCommand,
}

#[derive(Debug, Subcommand)]
pub enum StreamsCommand {
    /// All streams, also disabled ones while they can be read.
    List {
        /// The pipeline's YAML file.
        config: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// One stream with its shards.
    Describe {
        /// The pipeline's YAML file.
        config: PathBuf,
        /// Its ARN, its name, or `database.table`.
        stream: String,
    },
    /// Make a stream of a captured table.
    #[command(visible_alias = "create")]
    Enable {
        /// The pipeline's YAML file.
        config: PathBuf,
        /// `database.table`.
        table: String,
        /// keys_only, new_image, old_image or new_and_old_images; fixed for the life of the stream.
        #[arg(long, default_value = "new_and_old_images")]
        view: String,
        /// A short name for commands.
        #[arg(long)]
        name: Option<String>,
        /// A column of the primary key that is a clustering column. May be given more than once.
        #[arg(long = "clustering", value_name = "COLUMN")]
        clustering: Vec<String>,
        /// A tag. May be given more than once.
        #[arg(long = "tag", value_name = "KEY=VALUE")]
        tags: Vec<String>,
        /// Rows that a snapshot or resync reads are records too.
        #[arg(long)]
        include_snapshot: bool,
        /// Shards to begin with, 1 to 64.
        #[arg(long)]
        shards: Option<u32>,
    },
    /// End a stream: its shards close, and can be read for 24 h more.
    Disable {
        /// The pipeline's YAML file.
        config: PathBuf,
        /// Its ARN, its name, or `database.table`.
        stream: String,
    },
    /// Split an open shard.
    Split {
        /// The pipeline's YAML file.
        config: PathBuf,
        /// The stream's ARN, its name, or `database.table`.
        stream: String,
        /// The shard's id. Default: the only open one.
        shard: Option<String>,
        /// Into how many, 2 to 64.
        #[arg(long, default_value_t = 2)]
        pieces: u32,
    },
    /// Merge open shards whose key ranges are neighbours.
    Merge {
        /// The pipeline's YAML file.
        config: PathBuf,
        /// The stream's ARN, its name, or `database.table`.
        stream: String,
        /// Two or more shard ids.
        #[arg(required = true, num_args = 2..)]
        shards: Vec<String>,
    },
    /// Set or remove a stream's tags, and show them.
    Tags {
        /// The pipeline's YAML file.
        config: PathBuf,
        /// The stream's ARN, its name, or `database.table`.
        stream: String,
        /// A tag to set. May be given more than once.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// A key to remove. May be given more than once.
        #[arg(long = "remove", value_name = "KEY")]
        remove: Vec<String>,
    },
}

pub fn run(args: StreamsArgs) -> Result<(), Failure> {
    match args.command {
        StreamsCommand::List { config, json } => list(&config, json),
        StreamsCommand::Describe { config, stream } => describe(&config, stream),
        StreamsCommand::Enable {
            config,
            table,
            view,
            name,
            clustering,
            tags,
            include_snapshot,
            shards,
        } => {
            let request = StreamRequest::Enable {
                table,
                view,
                name,
                clustering,
                tags: pairs(&tags)?,
                include_snapshot,
                shards,
            };
            ask(&config, request)
        }
        StreamsCommand::Disable { config, stream } => {
            ask(&config, StreamRequest::Disable { stream })
        }
        StreamsCommand::Split {
            config,
            stream,
            shard,
            pieces,
        } => ask(
            &config,
            StreamRequest::Split {
                stream,
                shard,
                pieces,
            },
        ),
        StreamsCommand::Merge {
            config,
            stream,
            shards,
        } => ask(&config, StreamRequest::Merge { stream, shards }),
        StreamsCommand::Tags {
            config,
            stream,
            set,
            remove,
        } => {
            let set = pairs(&set)?;
            ask(
                &config,
                StreamRequest::Tag {
                    stream,
                    set,
                    remove,
                },
            )
        }
    }
}

fn pairs(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let pair = |text: &String| {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            Failure::new(
                exit::USAGE,
                format!("read the tag `{text}`: it is not KEY=VALUE"),
            )
        })?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(pair).collect()
}

fn ask(config: &Path, request: StreamRequest) -> Result<(), Failure> {
    super::control::ask(config, &Request::Streams { request })
}

/// The streams of a pipeline that does not run, as its journal holds them.
fn stopped(config: &Path) -> Result<Streams, Failure> {
    let (loaded, place) = load(config)?;
    let options = assemble::journal_options(&loaded, &place, false)?;
    open(journal::open_read_only(options)?, &loaded)
}

fn open(journal: journal::Journal, config: &Config) -> Result<Streams, Failure> {
    let clock: Arc<dyn journal::Clock> = Arc::new(journal::SystemClock::default());
    let (streams, _) = Streams::open(journal, streams::options(config, &clock)).map_err(failed)?;
    Ok(streams)
}

/// How the streams of a stopped pipeline stand.
pub fn of_stopped(
    journal: journal::Journal,
    config: &Config,
) -> Result<Vec<StreamStatusReport>, Failure> {
    Ok(streams::report(&open(journal, config)?))
}

fn failed(error: stream::Error) -> Failure {
    Failure::new(exit::JOURNAL, error.to_string())
}

fn is_running(config: &Path) -> Result<bool, Failure> {
    let (loaded, place) = load(config)?;
    Ok(control::connect(&place.journal_dir(&loaded)).is_some())
}

/// In the audit trail of a pipeline that does not run.
fn record(config: &Path, request: StreamRequest) -> Result<(), Failure> {
    let (loaded, place) = load(config)?;
    pipeline::api::record_offline(&loaded, &place, &Request::Streams { request })
        .map_err(|text| Failure::new(exit::OTHER, text))
}

fn list(config: &Path, json: bool) -> Result<(), Failure> {
    let request = StreamRequest::List { json };
    if is_running(config)? {
        return match json {
            true => super::control::ask_for_data(config, &Request::Streams { request }),
            false => ask(config, request),
        };
    }
    record(config, request)?;
    let streams = stopped(config)?;
    if !json {
        say(&streams::list(&streams).map_err(failed)?);
        return Ok(());
    }
    let text =
        serde_json::to_string_pretty(&streams::report(&streams)).map_err(std::io::Error::other)?;
    writeln!(stdout().lock(), "{text}")?;
    Ok(())
}

fn describe(config: &Path, stream: String) -> Result<(), Failure> {
    if is_running(config)? {
        return ask(config, StreamRequest::Describe { stream });
    }
    record(
        config,
        StreamRequest::Describe {
            stream: stream.clone(),
        },
    )?;
    let streams = stopped(config)?;
    let info = streams.resolve(&stream).map_err(failed)?;
    say(&streams::describe(&streams, &info).map_err(failed)?);
    Ok(())
}
