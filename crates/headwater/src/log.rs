//! Logs and everything else for people: to stderr, never to stdout.

use crate::cli::{Cli, LogFormat};
use std::io::{IsTerminal, Write};
use tracing_subscriber::EnvFilter;

/// Starts the log. Lines are written through [`say`]'s lock so that progress bars survive them.
pub fn start(cli: &Cli) {
    let (filter, wrong) = match EnvFilter::try_new(&cli.log) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    // A client that tells of every connection; who wants that writes `--log info,rocketmq=info`.
    let filter = match cli.log.contains("rocketmq") {
        true => filter,
        false => filter.add_directive("rocketmq=warn".parse().expect("the directive is right")),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match cli.log_format {
        LogFormat::Json => builder.json().init(),
        LogFormat::Text => {
            builder
                .with_ansi(std::io::stderr().is_terminal())
                .with_target(false)
                .init();
        }
    }
    if let Some(error) = wrong {
        tracing::warn!("--log {}: {error}; using info", cli.log);
    }
}

/// One line for a person.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
