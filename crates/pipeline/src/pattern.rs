//! Table patterns: `shop.*` takes, `!shop.tmp_*` leaves out; `*` and `?` are wild.

use change::glob::glob;

/// A list of patterns over names as the journal has them. Empty takes everything.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    take: Vec<String>,
    leave: Vec<String>,
}

impl Patterns {
    /// From the config's list.
    pub fn new(list: &[String]) -> Self {
        let mut patterns = Self::default();
        for text in list {
            match text.strip_prefix('!') {
                Some(rest) => patterns.leave.push(rest.to_owned()),
                None => patterns.take.push(text.clone()),
            }
        }
        patterns
    }

    /// Whether the table is taken.
    pub fn matches(&self, database: &str, table: &str) -> bool {
        if self.take.is_empty() && self.leave.is_empty() {
            return true;
        }
        let any = |list: &[String]| list.iter().any(|p| matches_one(p, database, table));
        (self.take.is_empty() || any(&self.take)) && !any(&self.leave)
    }
}

fn matches_one(pattern: &str, database: &str, table: &str) -> bool {
    match pattern.split_once('.') {
        Some((d, t)) => {
            glob(d.as_bytes(), database.as_bytes()) && glob(t.as_bytes(), table.as_bytes())
        }
        None => glob(pattern.as_bytes(), table.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_take_and_leave_and_underscore_is_plain() {
        let list: Vec<String> = ["shop.*", "!shop.tmp_*", "hr.p?y"]
            .map(String::from)
            .to_vec();
        let patterns = Patterns::new(&list);
        assert!(patterns.matches("shop", "orders") && patterns.matches("hr", "pay"));
        assert!(!patterns.matches("shop", "tmp_1") && !patterns.matches("hr", "payroll"));
        assert!(patterns.matches("shop", "tmpx1"));
        assert!(Patterns::default().matches("a", "b"));
    }
}
