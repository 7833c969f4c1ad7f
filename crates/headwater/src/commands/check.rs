//! `check`: connects to everything and says what is wrong, and the statement that fixes it.

use super::load;
use crate::exit::{self, Failure};
use change::SinkError;
use pipeline::config::{Config, SinkConfig, SourceConfig};
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
        SourceConfig::Topic(source) => match source_topic::check(source) {
            Ok(lines) => {
                for line in lines {
                    print(&mut out, &ok(line))?;
                }
            }
            Err(error) => {
                let item = CheckItem {
                    level: CheckLevel::Fail,
                    text: error.to_string(),
                    fix: None,
                };
                print(&mut out, &item)?;
                worst = exit::SOURCE;
            }
        },
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

fn print_findings(
    sink: &str,
    findings: Vec<sink_clickhouse::Finding>,
    out: &mut dyn Write,
    worst: &mut u8,
) -> Result<(), Failure> {
    for finding in findings {
        let level = match finding.good {
            true => CheckLevel::Ok,
            false => CheckLevel::Fail,
        };
        if !finding.good {
            *worst = (*worst).max(exit::SINK);
        }
        let item = CheckItem {
            level,
            text: format!("sink {sink}: {}", finding.text),
            fix: finding.fix,
        };
        print(out, &item)?;
    }
    Ok(())
}

fn check_sinks(
    config: &Config,
    tables: &[(String, String)],
    out: &mut dyn Write,
    worst: &mut u8,
) -> Result<(), Failure> {
    for sink in &config.sinks {
        let checked = if let Some(kafka) = &sink.kafka {
            let topic = |database: &str, table: &str| sink_kafka::topic_of(kafka, database, table);
            sink_kafka::check(kafka, &topics(tables, topic)?)
        } else if let Some(checked) = check_rocketmq(sink, tables)? {
            checked
        } else if let Some(clickhouse) = &sink.clickhouse {
            match sink_clickhouse::check(clickhouse, tables) {
                Ok(findings) => {
                    print_findings(&sink.name, findings, out, worst)?;
                    continue;
                }
                Err(error) => Err(error),
            }
        } else {
            let what = if sink.file.is_some() {
                "file"
            } else {
                "stdout"
            };
            print(out, &ok(format!("sink {}: {what}", sink.name)))?;
            continue;
        };
        match checked {
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

type Checked = Result<Vec<String>, SinkError>;

#[cfg(feature = "rocketmq")]
fn check_rocketmq(
    sink: &SinkConfig,
    tables: &[(String, String)],
) -> Result<Option<Checked>, Failure> {
    let Some(rocketmq) = &sink.rocketmq else {
        return Ok(None);
    };
    let topic = |database: &str, table: &str| sink_rocketmq::topic_of(rocketmq, database, table);
    let topics = topics(tables, topic)?;
    Ok(Some(sink_rocketmq::check(rocketmq, &topics)))
}

#[cfg(not(feature = "rocketmq"))]
fn check_rocketmq(_: &SinkConfig, _: &[(String, String)]) -> Result<Option<Checked>, Failure> {
    Ok(None)
}

/// The topics of the captured tables, each once.
fn topics(
    tables: &[(String, String)],
    topic_of: impl Fn(&str, &str) -> Result<String, SinkError>,
) -> Result<Vec<String>, Failure> {
    let mut topics = Vec::new();
    for (database, table) in tables {
        let topic = topic_of(database, table).map_err(|error| Failure::new(exit::USAGE, error))?;
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    Ok(topics)
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
