//! Which tables are taken: patterns such as `shop.*` and `!shop.tmp_*`.

use crate::error::invalid;
use change::SourceError;
use change::glob::glob;

/// A list of patterns; without a positive one everything is taken that none excludes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    take: Vec<(String, String)>,
    leave: Vec<(String, String)>,
}

impl Selection {
    /// Errors: `Invalid` for a pattern that is not of the form `database.table`.
    pub fn new(patterns: &[String]) -> Result<Self, SourceError> {
        let mut selection = Self::default();
        for text in patterns {
            let (list, body) = match text.strip_prefix('!') {
                Some(rest) => (&mut selection.leave, rest),
                None => (&mut selection.take, text.as_str()),
            };
            match body.trim().split_once('.') {
                Some((database, table)) if !database.is_empty() && !table.is_empty() => {
                    list.push((database.to_owned(), table.to_owned()));
                }
                _ => {
                    return Err(invalid(
                        format!("pattern {text:?} is not of the form database.table"),
                        "* and ? are wildcards, ! in front excludes",
                    ));
                }
            }
        }
        Ok(selection)
    }

    pub fn matches(&self, database: &str, table: &str) -> bool {
        let hits = |(d, t): &(String, String)| {
            glob(d.as_bytes(), database.as_bytes()) && glob(t.as_bytes(), table.as_bytes())
        };
        (self.take.is_empty() || self.take.iter().any(hits)) && !self.leave.iter().any(hits)
    }

    /// Whether a statement that names a database (or nothing) may concern a table that is taken.
    pub fn touches(&self, database: &str) -> bool {
        let hits = |(d, _): &(String, String)| glob(d.as_bytes(), database.as_bytes());
        database.is_empty() || self.take.is_empty() || self.take.iter().any(hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_take_and_leave() {
        let patterns = ["shop.*", "!shop.tmp_*"].map(str::to_owned);
        let selection = Selection::new(&patterns).unwrap();
        assert!(selection.matches("shop", "orders"));
        assert!(!selection.matches("shop", "tmp_1"));
        assert!(!selection.matches("hr", "pay"));
        assert!(selection.touches("shop") && !selection.touches("hr"));
        assert!(Selection::default().matches("", "t"));
        assert!(Selection::new(&["shop".to_owned()]).is_err());
    }
}
