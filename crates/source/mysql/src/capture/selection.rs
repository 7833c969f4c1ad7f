//! Which tables are captured: patterns such as `shop.*` and `!shop.tmp_*`.

use change::glob::glob;

/// A list of patterns, compiled.
///
/// Promises: a table is captured if a pattern matches it and no pattern with `!` does. The server's
/// own databases are captured only where a pattern names them without a wildcard.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    patterns: Vec<Pattern>,
    ignore_case: bool,
}

#[derive(Debug, Clone)]
struct Pattern {
    text: String,
    database: String,
    table: String,
    negative: bool,
}

/// A pattern that is not of the form `database.table`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "pattern {0:?} is not of the form database.table; * and ? are wildcards, ! in front excludes"
)]
pub struct PatternError(pub String);

const SYSTEM: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];

impl Selection {
    /// Compiles patterns; none at all captures every table.
    pub fn new(patterns: &[String]) -> Result<Self, PatternError> {
        let mut compiled = patterns
            .iter()
            .map(|text| compile(text))
            .collect::<Result<Vec<_>, _>>()?;
        if compiled.iter().all(|pattern| pattern.negative) {
            compiled.push(compile("*.*")?);
        }
        Ok(Self {
            patterns: compiled,
            ignore_case: false,
        })
    }

    /// Compares names without case (`lower_case_table_names` 1 or 2).
    #[must_use]
    pub fn ignoring_case(mut self, ignore: bool) -> Self {
        self.ignore_case = ignore;
        self
    }

    /// Whether the table is captured.
    pub fn matches(&self, database: &str, table: &str) -> bool {
        let system = SYSTEM
            .iter()
            .any(|name| name.eq_ignore_ascii_case(database));
        let hits = |pattern: &&Pattern| {
            (!system || pattern.negative || !pattern.database.contains(['*', '?']))
                && self.glob(&pattern.database, database)
                && self.glob(&pattern.table, table)
        };
        let mut captured = false;
        for pattern in self.patterns.iter().filter(hits) {
            if pattern.negative {
                return false;
            }
            captured = true;
        }
        captured
    }

    /// Whether a table of this database could be captured.
    pub fn touches_database(&self, database: &str) -> bool {
        self.patterns
            .iter()
            .any(|pattern| !pattern.negative && self.glob(&pattern.database, database))
            && !SYSTEM.contains(&database)
    }

    /// The patterns that no table of the list matches, as written.
    pub fn unmatched(&self, tables: &[(String, String)]) -> Vec<&str> {
        self.patterns
            .iter()
            .filter(|pattern| {
                !tables.iter().any(|(database, table)| {
                    self.glob(&pattern.database, database) && self.glob(&pattern.table, table)
                })
            })
            .map(|pattern| pattern.text.as_str())
            .collect()
    }

    fn glob(&self, pattern: &str, name: &str) -> bool {
        if self.ignore_case {
            glob(
                pattern.to_lowercase().as_bytes(),
                name.to_lowercase().as_bytes(),
            )
        } else {
            glob(pattern.as_bytes(), name.as_bytes())
        }
    }
}

fn compile(text: &str) -> Result<Pattern, PatternError> {
    let (negative, body) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    match body.trim().split_once('.') {
        Some((database, table)) if !database.is_empty() && !table.is_empty() => Ok(Pattern {
            text: text.to_owned(),
            database: database.to_owned(),
            table: table.to_owned(),
            negative,
        }),
        _ => Err(PatternError(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(patterns: &[&str]) -> Selection {
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        Selection::new(&patterns).unwrap()
    }

    #[test]
    fn exclusions_win_and_underscores_are_plain() {
        let all = selection(&["shop.*", "!shop.tmp_*"]);
        assert!(all.matches("shop", "orders"));
        assert!(!all.matches("shop", "tmp_1"));
        assert!(all.matches("shop", "tmpx1"));
        assert!(!all.matches("shop2", "orders"));
        assert!(!all.matches("Shop", "orders"));
        assert!(all.ignoring_case(true).matches("Shop", "Orders"));
    }

    #[test]
    fn system_tables_need_their_name() {
        assert!(!selection(&[]).matches("mysql", "user"));
        assert!(selection(&["mysql.user"]).matches("mysql", "user"));
        assert!(selection(&["*.a*b?"]).matches("x", "axxbc"));
        assert!(Selection::new(&["shop".into()]).is_err());
    }

    #[test]
    fn patterns_that_match_nothing_are_named() {
        let selection = selection(&["shop.*", "shpo.*"]);
        let tables = [("shop".to_owned(), "t".to_owned())];
        assert_eq!(selection.unmatched(&tables), ["shpo.*"]);
    }
}
