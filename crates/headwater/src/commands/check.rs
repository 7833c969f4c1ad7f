//! `check`: connects to everything and says what is wrong, and the statement that fixes it.

use super::load;
use crate::exit::{self, Failure};
use pipeline::config::{Config, SourceConfig};
use source_mysql::{CheckItem, CheckLevel};
use std::io::{Write, stdout};
use std::path::Path;

pub fn run(path: &Path) -> Result<(), Failure> {
    let (config, place) = load(path)?;
    let mut out = stdout().lock();
    let mut worst = 0;
    let mut tables = Vec::new();
    match &config.source {
        SourceConfig::Mysql(source) | SourceConfig::Mariadb(source) => {
            let found = source_mysql::check(source);
            tables = found.tables;
            for item in &found.items {
                print(&mut out, item)?;
                if item.level == CheckLevel::Fail {
                    worst = exit::SOURCE;
                }
            }
        }
        SourceConfig::Recorded(source) => {
            for file in &source.files {
                let file = place.path(file);
                let found = std::fs::metadata(&file);
                let item = CheckItem {
                    level: if found.is_ok() {
                        CheckLevel::Ok
                    } else {
                        CheckLevel::Fail
                    },
                    text: match found {
                        Ok(meta) => format!("recording {}, {} bytes", file.display(), meta.len()),
                        Err(error) => format!("recording {}: {error}", file.display()),
                    },
                    fix: None,
                };
                if item.level == CheckLevel::Fail {
                    worst = exit::SOURCE;
                }
                print(&mut out, &item)?;
            }
        }
    }
    check_sinks(&config, &tables, &mut out, &mut worst)?;
    match worst {
        0 => Ok(()),
        code => Err(Failure::new(code, "pass: see the lines marked ✗ above")),
    }
}

fn check_sinks(
    config: &Config,
    tables: &[(String, String)],
    out: &mut dyn Write,
    worst: &mut u8,
) -> Result<(), Failure> {
    for sink in &config.sinks {
        let Some(kafka) = &sink.kafka else {
            let what = if sink.file.is_some() {
                "file"
            } else {
                "stdout"
            };
            print(out, &ok(format!("sink {}: {what}", sink.name)))?;
            continue;
        };
        let mut topics = Vec::new();
        for (database, table) in tables {
            let topic = sink_kafka::topic_of(kafka, database, table)
                .map_err(|error| Failure::new(exit::USAGE, error))?;
            if !topics.contains(&topic) {
                topics.push(topic);
            }
        }
        match sink_kafka::check(kafka, &topics) {
            Ok(lines) => {
                for line in lines {
                    print(out, &ok(format!("sink {}: {line}", sink.name)))?;
                }
            }
            Err(error) => {
                let level = CheckLevel::Fail;
                let text = format!("sink {}: {error}", sink.name);
                print(
                    out,
                    &CheckItem {
                        level,
                        text,
                        fix: None,
                    },
                )?;
                *worst = (*worst).max(exit::SINK);
            }
        }
    }
    Ok(())
}

fn ok(text: String) -> CheckItem {
    CheckItem {
        level: CheckLevel::Ok,
        text,
        fix: None,
    }
}

fn print(out: &mut dyn Write, item: &CheckItem) -> Result<(), Failure> {
    let mark = match item.level {
        CheckLevel::Ok => "✓",
        CheckLevel::Warn => "!",
        CheckLevel::Fail => "✗",
    };
    writeln!(out, "{mark} {}", item.text)?;
    if let Some(fix) = &item.fix {
        writeln!(out, "    fix: {fix}")?;
    }
    Ok(())
}
