//! Reads a config file: substitutes, parses, checks, and says where and what is wrong.

use super::{Config, SourceConfig};
use std::fmt;
use std::path::Path;

/// What is wrong with a config, where, and what would be right. Never holds a substituted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// `shop.yaml:12:5`, or the file alone.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// The line as written, before substitution; may be empty.
    pub line: String,
    /// The nearest right thing; may be empty.
    pub hint: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read config at {}: {}", self.place, self.what)?;
        if !self.line.is_empty() {
            write!(f, "\n  | {}", self.line.trim_end())?;
        }
        if !self.hint.is_empty() {
            write!(f, "\n  hint: {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Reads and checks the file.
///
/// Errors: [`ConfigError`] with the place of the first fault.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
        place: name.clone(),
        what: error.to_string(),
        line: String::new(),
        hint: "give the path of the pipeline's YAML file".into(),
    })?;
    parse(&text, &name)
}

/// Parses and checks a config's text; `name` stands in errors.
pub fn parse(text: &str, name: &str) -> Result<Config, ConfigError> {
    let substituted = substitute(text, name)?;
    let config: Config = serde_saphyr::from_str(&substituted)
        .map_err(|error| parse_error(&error, text, &substituted, name))?;
    check(&config, name)?;
    Ok(config)
}

fn at_line(text: &str, name: &str, line: usize, what: impl Into<String>) -> ConfigError {
    ConfigError {
        place: format!("{name}:{line}"),
        what: what.into(),
        line: text
            .lines()
            .nth(line.saturating_sub(1))
            .unwrap_or_default()
            .to_owned(),
        hint: String::new(),
    }
}

fn parse_error(
    error: &serde_saphyr::Error,
    text: &str,
    substituted: &str,
    name: &str,
) -> ConfigError {
    let message = error.without_snippet().to_string();
    // A substituted value could stand in the message: then only its kind is told.
    let leaks = text != substituted && {
        let secrets = substituted
            .lines()
            .zip(text.lines())
            .filter(|(a, b)| a != b);
        secrets.into_iter().any(|(line, _)| {
            line.split(|c: char| c.is_whitespace() || "\"'`".contains(c))
                .filter(|word| word.len() > 3 && !text.contains(word))
                .any(|word| message.contains(word))
        })
    };
    let what = match leaks {
        true => "the value does not fit here".to_owned(),
        false => message.lines().next().unwrap_or_default().to_owned(),
    };
    let hint = suggestion(&what).unwrap_or_default();
    match error.location() {
        Some(location) => ConfigError {
            hint,
            ..at_line(text, name, location.line() as usize, what)
        },
        None => ConfigError {
            place: name.to_owned(),
            what,
            line: String::new(),
            hint,
        },
    }
}

/// For "unknown field `x`, expected one of a, b": the nearest of them.
fn suggestion(message: &str) -> Option<String> {
    let wrong = message.split('`').nth(1)?;
    if wrong == "rocketmq" && cfg!(not(feature = "rocketmq")) {
        return Some("this build has no RocketMQ: build with --features full".into());
    }
    let (_, list) = message
        .split_once("expected one of ")
        .or_else(|| message.split_once("expected "))?;
    if !message.contains("unknown") {
        return None;
    }
    let list = list.split(" at line").next().unwrap_or(list);
    let known: Vec<&str> = list
        .split(',')
        .map(|word| word.trim_matches([' ', '`']))
        .collect();
    let near = |word: &&&str| strsim::jaro_winkler(wrong, word);
    let nearest = known.iter().max_by(|a, b| near(a).total_cmp(&near(b)))?;
    (near(&nearest) > 0.7).then(|| format!("did you mean `{nearest}`?"))
}

/// Replaces `${NAME}` and `${file:PATH}` outside comments, quoting the value as its place demands.
fn substitute(text: &str, name: &str) -> Result<String, ConfigError> {
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.split_inclusive('\n').enumerate() {
        substitute_line(line, &mut out).map_err(|what| ConfigError {
            hint: "set the variable, or quote the text".into(),
            ..at_line(text, name, index + 1, what)
        })?;
    }
    Ok(out)
}

fn substitute_line(line: &str, out: &mut String) -> Result<(), String> {
    let mut quote = None;
    let mut before = ' ';
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if quote.is_none() && c == '#' && before.is_whitespace() {
            out.push_str(rest);
            return Ok(());
        }
        if let Some(after) = rest.strip_prefix("${") {
            let end = after.find('}').ok_or("`${` is never closed")?;
            put_value(&lookup(&after[..end])?, quote, out)?;
            rest = &after[end + 1..];
            before = '}';
            continue;
        }
        if matches!(c, '"' | '\'') {
            quote = match quote {
                None if !before.is_alphanumeric() => Some(c),
                Some(open) if open == c && before != '\\' => None,
                other => other,
            };
        }
        out.push(c);
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    Ok(())
}

fn lookup(name: &str) -> Result<String, String> {
    if let Some(path) = name.strip_prefix("file:") {
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"))?;
        return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
    }
    std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))
}

fn put_value(value: &str, quote: Option<char>, out: &mut String) -> Result<(), String> {
    match quote {
        Some('"') => {
            for c in value.chars() {
                match c {
                    '"' | '\\' => out.extend(['\\', c]),
                    '\n' => out.push_str("\\n"),
                    '\t' => out.push_str("\\t"),
                    c => out.push(c),
                }
            }
        }
        Some(_) if value.contains('\n') => {
            return Err("the value has several lines: put \"…\" round it".into());
        }
        Some(_) => out.push_str(&value.replace('\'', "''")),
        None => {
            let unsafe_plain = value.contains(": ")
                || value.contains(" #")
                || value.contains(['\n', '{', '}', '[', ']', ',', '"', '\''])
                || value.ends_with(':');
            if unsafe_plain {
                return Err(
                    "the value has characters with a meaning in YAML: put \"…\" round it".into(),
                );
            }
            out.push_str(value);
        }
    }
    Ok(())
}

fn check(config: &Config, name: &str) -> Result<(), ConfigError> {
    let fail = |what: String, hint: &str| {
        Err(ConfigError {
            place: name.to_owned(),
            what,
            line: String::new(),
            hint: hint.to_owned(),
        })
    };
    if let SourceConfig::Topic(topic) = &config.source
        && let Err(error) = topic.check_brokers()
    {
        return fail(format!("source.topic: {}", error.detail), &error.hint);
    }
    let mut seen = std::collections::HashSet::new();
    for sink in &config.sinks {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if sink.name.is_empty() || !sink.name.chars().all(plain) {
            let what = format!("the sink's name `{}` is not usable", sink.name);
            return fail(what, "use letters, digits, -, _ and .");
        }
        if !seen.insert(&sink.name) {
            return fail(
                format!("two sinks are named `{}`", sink.name),
                "names must differ",
            );
        }
        let kinds = [
            sink.kafka.is_some(),
            sink.file.is_some(),
            sink.stdout.is_some(),
            sink.is_rocketmq(),
            sink.clickhouse.is_some(),
        ];
        if kinds.iter().filter(|kind| **kind).count() != 1 {
            let what = format!(
                "sink `{}` must have exactly one of kafka, rocketmq, clickhouse, file, stdout",
                sink.name
            );
            return fail(what, "split it into one sink for each target");
        }
    }
    if let Some(stream) = check_streams(config) {
        return fail(stream.0, stream.1);
    }
    let segment = config.journal.segment_size.0;
    if !(1 << 20..=1 << 30).contains(&segment) {
        return fail(
            format!("journal.segment_size is {}", config.journal.segment_size),
            "1MiB to 1GiB",
        );
    }
    if config
        .journal
        .disk_max
        .is_some_and(|max| max.0 < 4 * segment)
    {
        return fail(
            "journal.disk_max is below four segments".into(),
            "raise it, or lower journal.segment_size",
        );
    }
    Ok(())
}

/// What is wrong with the streams, and what would be right.
fn check_streams(config: &Config) -> Option<(String, &'static str)> {
    let mut seen = std::collections::HashSet::new();
    for stream in &config.streams {
        let table = &stream.table;
        let whole = table
            .split_once('.')
            .is_some_and(|(database, table)| !database.is_empty() && !table.is_empty());
        if !whole {
            let what = format!("streams: `{table}` is not one table");
            return Some((what, "write `database.table`; one entry for each stream"));
        }
        if !seen.insert(table) {
            return Some((
                format!("two streams of {table}"),
                "a table has one stream at a time",
            ));
        }
        if !(1..=stream::ShardLimits::INITIAL_MAX).contains(&stream.shards.initial) {
            return Some((
                format!(
                    "streams: shards.initial of {table} is {}",
                    stream.shards.initial
                ),
                "1 to 64",
            ));
        }
        if stream.shards.window.0 < std::time::Duration::from_secs(1) {
            return Some((
                format!("streams: shards.window of {table} is below a second"),
                "such as 60s",
            ));
        }
    }
    if !config.streams.is_empty() && config.journal.retention.0 < crate::streams::RETENTION {
        let what = format!(
            "journal.retention is {}, and records of a stream are kept for 24 h",
            config.journal.retention
        );
        return Some((what, "set journal.retention to 24h or more"));
    }
    let wrong = config.api.as_ref()?.check().err()?;
    Some((
        wrong,
        "docs/guides/streams-api.md has a whole section to copy",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> ConfigError {
        parse(text, "shop.yaml").expect_err("the config is wrong")
    }

    #[test]
    fn an_unknown_key_has_its_line_and_the_nearest_known_one() {
        let error = fault("source:\n  mysql:\n    url: mysql://a@b\n    tabels: [\"x.*\"]\n");
        assert_eq!(error.place, "shop.yaml:4");
        assert_eq!(error.hint, "did you mean `tables`?");
        assert_eq!(error.line.trim(), "tabels: [\"x.*\"]");
    }

    #[test]
    fn wrong_units_sinks_of_two_kinds_and_missing_variables_are_told() {
        let source = "source: {mysql: {url: mysql://a@b}}\n";
        let with = |more: &str| fault(&format!("{source}{more}")).to_string();
        assert!(with("journal: {retention: 24}\n").contains("24h"));
        assert!(with("sinks: [{name: a, stdout: {}, file: {path: x}}]\n").contains("exactly one"));
        assert!(with("sinks: [{name: \"a b\", stdout: {}}]\n").contains("not usable"));
        let error = fault("source: {mysql: {url: \"${HEADWATER_NO_SUCH_VARIABLE}\"}}\n");
        assert!(error.what.contains("HEADWATER_NO_SUCH_VARIABLE"), "{error}");
    }

    #[test]
    fn a_topic_source_has_brokers_of_one_kind() {
        let none = fault("source: {topic: {topics: [t]}}\n");
        assert!(none.what.contains("no brokers are named"), "{none}");
        assert_eq!(none.hint, "set kafka or rocketmq");
        let rocketmq = "rocketmq: {name_servers: [\"n:9876\"]}";
        let alone = format!("source: {{topic: {{topics: [t], {rocketmq}}}}}\n");
        if cfg!(feature = "rocketmq") {
            assert!(parse(&alone, "shop.yaml").is_ok());
            let kafka = "kafka: {brokers: [\"k:9092\"]}";
            let both = format!("source: {{topic: {{topics: [t], {rocketmq}, {kafka}}}}}\n");
            assert!(fault(&both).what.contains("both kafka and rocketmq"));
        } else {
            let error = fault(&alone);
            assert!(error.what.contains("rocketmq"), "{error}");
            assert!(error.hint.contains("--features full"), "{error}");
        }
    }

    #[test]
    fn streams_that_cannot_be_are_told() {
        let source = "source: {mysql: {url: mysql://a@b}}\n";
        let with = |more: &str| fault(&format!("{source}{more}")).to_string();
        assert!(with("streams: [{table: orders}]\n").contains("database.table"));
        assert!(with("streams: [{table: a.b}, {table: a.b}]\n").contains("one stream at a time"));
        let short = "streams: [{table: a.b}]\njournal: {retention: 23h}\n";
        assert!(with(short).contains("24h or more"));
        assert!(with("api: {account: \"12\"}\n").contains("12 digits"));
        let good =
            format!("{source}streams: [{{table: a.b, view: keys_only, shards: {{initial: 4}}}}]\n");
        assert!(parse(&good, "shop.yaml").is_ok());
    }

    #[test]
    fn a_substituted_secret_never_stands_in_an_error() {
        let file = std::env::temp_dir().join(format!("hw-secret-{}", std::process::id()));
        std::fs::write(&file, "hunter2-of-headwater\n").unwrap();
        let text = format!(
            "source: {{mysql: {{url: 1, server_id: \"${{file:{}}}\"}}}}\n",
            file.display()
        );
        let error = fault(&text).to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
