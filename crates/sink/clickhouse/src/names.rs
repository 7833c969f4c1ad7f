//! Names in the target: of tables, views and columns, and how they are quoted.

use crate::config::{ClickHouseConfig, Mode, PlainName};
use crate::error::invalid;
use change::SinkError;

/// An identifier in backquotes.
pub(crate) fn quote(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push('`');
    for c in name.chars() {
        if matches!(c, '`' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('`');
    out
}

/// A text literal.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\0' => out.push_str("\\0"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// Columns joined by commas, quoted.
pub(crate) fn list<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|n| quote(n.as_ref())).collect();
    quoted.join(", ")
}

/// Names of one table's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// The database in the target.
    pub database: String,
    /// The table's name in the target.
    pub table: String,
    plain_is_view: bool,
    mode: Mode,
}

impl Names {
    /// Of a table of the source.
    pub(crate) fn of(config: &ClickHouseConfig, database: &str, table: &str) -> Self {
        let fill = |template: &str| {
            template
                .replace("{database}", database)
                .replace("{table}", table)
        };
        Self {
            database: fill(&config.database),
            table: fill(&config.table),
            plain_is_view: config.plain_name == PlainName::Live,
            mode: config.mode,
        }
    }

    fn part(&self, suffix: &str) -> String {
        format!(
            "{}.{}",
            quote(&self.database),
            quote(&format!("{}{suffix}", self.table))
        )
    }

    /// `database.table`, unquoted, for people.
    pub(crate) fn shown(&self) -> String {
        format!("{}.{}", self.database, self.table)
    }

    /// The table that holds the rows: in mode `mvcc` the folded one.
    pub(crate) fn base(&self) -> String {
        self.part(self.base_suffix())
    }

    fn base_suffix(&self) -> &'static str {
        match (self.mode, self.plain_is_view) {
            (Mode::Mvcc, true) => "__base",
            _ => "",
        }
    }

    /// The name of [`base`](Self::base) without its database, unquoted.
    pub(crate) fn base_name(&self) -> String {
        format!("{}{}", self.table, self.base_suffix())
    }

    /// Whether the view is the live one of mode `mvcc`.
    pub(crate) fn has_live_view(&self) -> bool {
        self.mode == Mode::Mvcc
    }

    /// The view: in mode `mvcc` the live one, else the one with FINAL.
    pub(crate) fn view(&self) -> String {
        self.part(self.view_suffix())
    }

    fn view_suffix(&self) -> &'static str {
        match (self.mode, self.plain_is_view) {
            (Mode::Mvcc, true) => "",
            (Mode::Mvcc, false) => "__live",
            (Mode::SignVersion, _) => "__v",
        }
    }

    /// The name of [`view`](Self::view) without its database, unquoted.
    pub(crate) fn view_name(&self) -> String {
        format!("{}{}", self.table, self.view_suffix())
    }

    /// Pending changes: the delete cache and what is newer than the base.
    pub(crate) fn delta(&self) -> String {
        self.part("__delta")
    }

    /// The name of [`delta`](Self::delta) without its database, unquoted.
    pub(crate) fn delta_name(&self) -> String {
        format!("{}__delta", self.table)
    }

    /// The table that becomes the next base.
    pub(crate) fn staging(&self) -> String {
        self.part("__stg")
    }

    /// The name of [`staging`](Self::staging) without its database, unquoted.
    pub(crate) fn staging_name(&self) -> String {
        format!("{}__stg", self.table)
    }

    /// The table that becomes the next base with another structure.
    pub(crate) fn next(&self) -> String {
        self.part("__next")
    }

    /// A second one, which changes places with the base while the first is read.
    pub(crate) fn next_second(&self) -> String {
        self.part("__next2")
    }

    /// The delta of the next structure.
    pub(crate) fn delta_next(&self) -> String {
        self.part("__delta2")
    }

    /// Keys to look up.
    pub(crate) fn keys(&self) -> String {
        self.part("__keys")
    }

    /// Names, unquoted, of tables that the sink makes beside the base and drops again.
    pub(crate) fn beside(&self) -> Vec<(Beside, String)> {
        let name = |suffix: &str| format!("{}{suffix}", self.table);
        let mut all = vec![
            (Beside::Rows, name("__next")),
            (Beside::Rows, name("__next2")),
            (Beside::Keys, name("__keys")),
        ];
        if self.mode == Mode::Mvcc {
            all.extend([
                (Beside::Changes, self.delta_name()),
                (Beside::Changes, name("__delta2")),
                (Beside::Rows, self.staging_name()),
            ]);
        }
        all
    }

    /// A name of [`beside`](Self::beside) with the database, quoted.
    pub(crate) fn quoted(&self, name: &str) -> String {
        format!("{}.{}", quote(&self.database), quote(name))
    }
}

/// What a table beside the base holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Pending changes.
    Changes,
    /// Rows as in the base.
    Rows,
    /// Keys to look up.
    Keys,
}

/// Errors: `Invalid` for templates that cannot be.
pub(crate) fn validate(config: &ClickHouseConfig) -> Result<(), SinkError> {
    for (key, template, known) in [
        ("database", &config.database, &["{database}"][..]),
        ("table", &config.table, &["{database}", "{table}"][..]),
    ] {
        let mut rest = template.clone();
        known.iter().for_each(|word| rest = rest.replace(word, ""));
        if template.is_empty() || rest.contains(['{', '}']) {
            return Err(invalid(
                format!("{key} is `{template}`"),
                format!("it may use {}", known.join(" and ")),
            ));
        }
    }
    Ok(())
}

/// Where the cursor is kept: the database and the table, unquoted.
pub(crate) fn state(config: &ClickHouseConfig, pipeline: &str, sink: &str) -> (String, String) {
    let database = match &config.state_database {
        Some(database) => database.clone(),
        None if !config.database.contains('{') => config.database.clone(),
        None => "headwater".to_owned(),
    };
    (database, format!("_headwater_{pipeline}_{sink}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_and_texts_are_quoted() {
        assert_eq!(quote("a`b\\"), "`a\\`b\\\\`");
        assert_eq!(literal("it's\n\\"), "'it\\'s\\n\\\\'");
        assert_eq!(list(["a", "b"]), "`a`, `b`");
    }
}
