//! The command line.

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Change data capture with durable change streams.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, about, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// How much is logged to stderr: error, warn, info, debug, trace, or per module.
    #[arg(long, global = true, default_value = "info", env = "HEADWATER_LOG")]
    pub log: String,
    /// How log lines look.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 2 wrong call or config; 3 source, 4 sink, 5 journal \
                          trouble that a retry did not cure; 1 anything else.";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replay a bundled recording through the real path: no database, no broker needed.
    Demo(DemoArgs),
    /// Connect to everything, and say what is wrong and the statement that fixes it.
    Check(ConfigArgs),
    /// Snapshot, then stream, until SIGTERM or Ctrl-C drains and stops it.
    Run(RunArgs),
    /// How a pipeline stands: phase, position, lag, sinks.
    Status(StatusArgs),
    /// The journal as lines on stdout.
    Tail(TailArgs),
    /// Pause one sink.
    Pause(SinkArgs),
    /// Let a paused sink go on.
    Resume(SinkArgs),
    /// Move a sink to another place in the journal.
    Rewind(RewindArgs),
    /// Bring a parked table or key back: it is read again from the journal, then goes on.
    Heal(HealArgs),
    /// Change streams: list, enable, disable, split, merge, tags.
    Streams(crate::commands::streams::StreamsArgs),
    /// Keys of tables: list, rotate, erase.
    Keys(crate::commands::keys::KeysArgs),
    /// One CQL statement about change streams: ALTER TABLE … WITH cdc, tags, SELECT on system_schema_mcs.
    Cql(crate::commands::cql::CqlArgs),
    /// The audit trail of the stream API.
    Audit(crate::commands::audit::AuditArgs),
    /// Make messages readable, and say what is wrong with each and where.
    Decode(DecodeArgs),
    /// Print the JSON Schema of the config, for editors; or of a format's messages, for consumers.
    Schema {
        /// The format whose schema is wanted: `dts-avro` (Avro).
        #[arg(long)]
        format: Option<String>,
    },
    /// How fast this machine is, as ratios to the raw limit of the source.
    Bench(BenchArgs),
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
}

/// A config file.
#[derive(Debug, clap::Args)]
pub struct ConfigArgs {
    /// The pipeline's YAML file.
    pub config: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// End when the recording ends (always so when stdout is no terminal).
    #[arg(long)]
    pub once: bool,
    /// The format of what is written.
    #[arg(long, default_value = "canal-json")]
    pub format: String,
    /// Where the messages go: a file, or `-` for stdout and nothing else on it.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Where the demo keeps its journal; emptied first. Default: a folder among the temporary files.
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// The pipeline's YAML file.
    pub config: PathBuf,
    /// The journal was lost: begin at the oldest position in the sinks' cursors.
    #[arg(long)]
    pub recover: bool,
    /// If the server purged changes that were not captured yet: copy every table again, in its place,
    /// and go on.
    #[arg(long, conflicts_with = "recover")]
    pub resnapshot_lost: bool,
}

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The pipeline's YAML file.
    pub config: PathBuf,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct TailArgs {
    /// The pipeline's YAML file.
    pub config: PathBuf,
    /// earliest, now, a sequence, a UTC time, an age such as -15m, or a GTID.
    #[arg(long, default_value = "now", allow_hyphen_values = true)]
    pub from: String,
    /// Tables, as in the config: `shop.*`, `!shop.tmp_*`. May be given more than once.
    #[arg(long = "table")]
    pub tables: Vec<String>,
    /// The format of the lines; of dts-avro, messages each after its length in 4 bytes, big-endian.
    #[arg(long, default_value = "canal-json")]
    pub format: String,
    /// Settings of the format, as in the config's `format_options`: `flavour=dts`. May be given more
    /// than once.
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub options: Vec<String>,
    /// End at the journal's end instead of waiting for more.
    #[arg(long)]
    pub no_follow: bool,
}

#[derive(Debug, clap::Args)]
pub struct DecodeArgs {
    /// The messages' format: canal-json, shareplex-json, debezium-json or dts-avro.
    #[arg(long)]
    pub format: String,
    /// Settings of the format, as in the config's `format_options`: `old_data=before_2022`. May be
    /// given more than once.
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub options: Vec<String>,
    /// How messages stand in the file. Default: lines for JSON; for dts-avro each after its length in
    /// 4 bytes, big-endian, as `tail` and file sinks write them.
    #[arg(long, value_enum)]
    pub framing: Option<Framing>,
    /// One JSON object for each operation.
    #[arg(long)]
    pub json: bool,
    /// The file. Default: standard input.
    pub file: Option<PathBuf>,
}

/// How messages stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Framing {
    /// One a line.
    Lines,
    /// One a line, in hexadecimal.
    Hex,
    /// Each after its length: 4 bytes, big-endian.
    Length,
    /// The whole file is one message.
    Whole,
}

#[derive(Debug, clap::Args)]
pub struct SinkArgs {
    /// The pipeline's YAML file.
    pub config: PathBuf,
    /// The sink's name.
    pub sink: String,
}

#[derive(Debug, clap::Args)]
pub struct RewindArgs {
    /// The pipeline's YAML file.
    pub config: PathBuf,
    /// The sink's name.
    pub sink: String,
    /// earliest, now, a sequence, a UTC time, an age such as -15m, or a GTID.
    #[arg(long, allow_hyphen_values = true)]
    pub to: String,
}

#[derive(Debug, clap::Args)]
pub struct HealArgs {
    /// The pipeline's YAML file.
    pub config: PathBuf,
    /// `database.table`.
    pub table: String,
    /// Decode again what capture set aside, or deliver again what sinks set aside, from the journal
    /// (the default).
    #[arg(long, conflicts_with = "resnapshot")]
    pub replay: bool,
    /// Copy the table again from the source while its stream goes on.
    #[arg(long)]
    pub resnapshot: bool,
}

#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// A MySQL or MariaDB of your own to measure: `mysql://user:password@host:port`.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub url: String,
    /// Also measure each format's encoder against copying the same bytes into a journal; alone it
    /// needs no server.
    #[arg(long)]
    pub formats: bool,
    /// One-row transactions to make and measure.
    #[arg(long, default_value_t = 100_000)]
    pub rows: u64,
    /// Runs of each measurement; the best counts.
    #[arg(long, default_value_t = 3)]
    pub runs: u32,
    /// Folder with `mysqlbinlog` and `mysql` clients. Default: the PATH.
    #[arg(long)]
    pub clients: Option<PathBuf>,
    /// A Kafka of your own, `host:port`: also measure the way into it, when behind and when keeping up.
    #[arg(long)]
    pub kafka: Option<String>,
    /// Rows per second while latency is measured.
    #[arg(long, default_value_t = 5_000)]
    pub rate: u64,
    /// Seconds for which latency is measured.
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// With `--kafka`, also send one transaction of this size, MiB, and watch the memory.
    #[arg(long)]
    pub transaction_mib: Option<u64>,
}
