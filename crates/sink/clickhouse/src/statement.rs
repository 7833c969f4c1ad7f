//! What a statement says that the schemas before and after it cannot tell: which columns it renames, which
//! it makes anew under their old names, and whether it takes rows away that no row event tells of.

/// Pairs of an old and a new name, in the order of the statement: of `RENAME COLUMN a TO b` and of
/// `CHANGE [COLUMN] a b …`.
pub(crate) fn renames(sql: &str) -> Vec<(String, String)> {
    let words = Words::of(sql);
    let mut out = Vec::new();
    for at in 0..words.count() {
        if words.is(at, "RENAME") && words.is(at + 1, "COLUMN") {
            let next = words.after_if_exists(at + 2);
            if words.is(next + 1, "TO")
                && let (Some(old), Some(new)) = (words.text(next), words.text(next + 2))
            {
                out.push((old, new));
            }
        } else if words.is(at, "CHANGE") {
            let next = words.column(at + 1);
            if let (Some(old), Some(new)) = (words.text(next), words.text(next + 1)) {
                out.push((old, new));
            }
        }
    }
    out
}

/// Columns that are given another definition, by their new names: of MODIFY and CHANGE.
pub(crate) fn redefined(sql: &str) -> Vec<String> {
    let words = Words::of(sql);
    let of = |at: usize| {
        let column = words.column(at + 1);
        if words.is(at, "MODIFY") {
            words.text(column)
        } else if words.is(at, "CHANGE") {
            words.text(column + 1)
        } else {
            None
        }
    };
    (0..words.count()).filter_map(of).collect()
}

/// Columns that are dropped.
pub(crate) fn dropped(sql: &str) -> Vec<String> {
    const OTHERS: [&str; 12] = [
        "PRIMARY",
        "INDEX",
        "KEY",
        "CONSTRAINT",
        "FOREIGN",
        "CHECK",
        "PARTITION",
        "PERIOD",
        "SYSTEM",
        "DEFAULT",
        "TABLE",
        "TABLES",
    ];
    let words = Words::of(sql);
    let of = |at: usize| {
        let is_other = OTHERS.iter().any(|word| words.is(at + 1, word));
        match words.is(at, "DROP") && !is_other {
            true => words.text(words.column(at + 1)),
            false => None,
        }
    };
    (0..words.count()).filter_map(of).collect()
}

/// Whether it is CREATE OR REPLACE: what stood under the name goes with its rows.
pub(crate) fn replaces(sql: &str) -> bool {
    let words = Words::of(sql);
    let at = words.begin();
    words.is(at, "CREATE") && words.is(at + 1, "OR") && words.is(at + 2, "REPLACE")
}

/// What takes rows away, or brings some, without a row event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unseen {
    /// DROP or TRUNCATE PARTITION: rows go.
    Emptied,
    /// Rows go or come: EXCHANGE, IMPORT, DISCARD, CONVERT PARTITION, ALTER IGNORE.
    Swapped,
}

/// Whether an ALTER TABLE changes rows that no row event tells of.
pub(crate) fn unseen(sql: &str) -> Option<Unseen> {
    let words = Words::of(sql);
    let at = words.begin();
    if !words.is(at, "ALTER") {
        return None;
    }
    let head = (at + 1..at + 4).take_while(|at| !words.is(*at, "TABLE"));
    if head.into_iter().any(|at| words.is(at, "IGNORE")) {
        // Rows that break a unique key go, values that do not fit are changed.
        return Some(Unseen::Swapped);
    }
    let of = |at: usize| {
        let is = |word| words.is(at, word);
        let next = |word| words.is(at + 1, word);
        let (partition, tablespace) = (next("PARTITION"), next("TABLESPACE"));
        if (is("DROP") || is("TRUNCATE")) && partition {
            return Some(Unseen::Emptied);
        }
        let is_swapped = is("EXCHANGE") && partition
            || is("CONVERT") && (partition || next("TABLE"))
            || (is("IMPORT") || is("DISCARD")) && (partition || tablespace);
        is_swapped.then_some(Unseen::Swapped)
    };
    (0..words.count()).find_map(of)
}

/// The other table of EXCHANGE PARTITION … WITH TABLE: its database, where it is named, and its name.
pub(crate) fn exchanged(sql: &str) -> Option<(Option<String>, String)> {
    let words = Words::of(sql);
    let at =
        (0..words.count()).find(|at| words.is(*at, "EXCHANGE") && words.is(at + 1, "PARTITION"))?;
    let at = (at..words.count()).find(|at| words.is(*at, "WITH") && words.is(at + 1, "TABLE"))?;
    let first = words.text(at + 2)?;
    match words.is(at + 3, ".") {
        true => Some((Some(first), words.text(at + 4)?)),
        false => Some((None, first)),
    }
}

/// A statement in words.
struct Words(Vec<Word>);

impl Words {
    fn of(sql: &str) -> Self {
        Self(words(sql))
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn is(&self, at: usize, word: &str) -> bool {
        let found = self.0.get(at);
        found.is_some_and(|found| !found.quoted && found.text.eq_ignore_ascii_case(word))
    }

    fn text(&self, at: usize) -> Option<String> {
        self.0.get(at).map(|word| word.text.clone())
    }

    /// Where the statement itself begins: behind MariaDB's SET STATEMENT … FOR.
    fn begin(&self) -> usize {
        if !(self.is(0, "SET") && self.is(1, "STATEMENT")) {
            return 0;
        }
        let end = (0..self.count()).find(|at| self.is(*at, "FOR"));
        end.map_or(0, |at| at + 1)
    }

    /// Where a column's name stands, behind `COLUMN` and `IF EXISTS`.
    fn column(&self, at: usize) -> usize {
        self.after_if_exists(at + usize::from(self.is(at, "COLUMN")))
    }

    fn after_if_exists(&self, at: usize) -> usize {
        match self.is(at, "IF") && self.is(at + 1, "EXISTS") {
            true => at + 2,
            false => at,
        }
    }
}

/// A name, a keyword, or a sign of its own.
struct Word {
    text: String,
    quoted: bool,
}

/// Takes a statement apart; comments are left out, texts stay quoted words.
fn words(sql: &str) -> Vec<Word> {
    let mut out = Vec::new();
    let mut chars = sql.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '`' | '"' | '\'' => out.push(quoted(c, &mut chars)),
            '-' if chars.peek() == Some(&'-') => skip_line(&mut chars),
            '#' => skip_line(&mut chars),
            '/' if chars.peek() == Some(&'*') => {
                chars.next();
                // What stands in /*! … */ is executed, and in MariaDB's /*M! … */.
                let mut ahead = chars.clone();
                ahead.next_if_eq(&'M');
                if ahead.next_if_eq(&'!').is_some() {
                    while ahead.next_if(char::is_ascii_digit).is_some() {}
                    chars = ahead;
                } else {
                    skip_comment(&mut chars);
                }
            }
            c if c.is_alphanumeric() || c == '_' || c == '$' => {
                let mut text = c.to_string();
                while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
                {
                    text.push(c);
                }
                out.push(Word {
                    text,
                    quoted: false,
                });
            }
            c if c.is_whitespace() => {}
            c => out.push(Word {
                text: c.to_string(),
                quoted: false,
            }),
        }
    }
    out
}

fn quoted(quote: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Word {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        if c == quote {
            if chars.next_if_eq(&quote).is_none() {
                break;
            }
            text.push(quote);
        } else if c == '\\' && quote != '`' {
            text.extend(chars.next());
        } else {
            text.push(c);
        }
    }
    Word { text, quoted: true }
}

fn skip_line(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while chars.next_if(|c| *c != '\n').is_some() {}
}

fn skip_comment(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let mut last = ' ';
    for c in chars.by_ref() {
        if last == '*' && c == '/' {
            return;
        }
        last = c;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(sql: &str) -> Vec<(String, String)> {
        renames(sql)
    }

    #[test]
    fn renames_are_found_in_both_forms_and_not_in_texts_or_comments() {
        let sql = "ALTER TABLE t RENAME COLUMN `a b` TO c, CHANGE COLUMN d `e``f` INT DEFAULT 1, change x y text";
        let want = [("a b", "c"), ("d", "e`f"), ("x", "y")];
        let want: Vec<(String, String)> = want
            .iter()
            .map(|(a, b)| (a.to_string(), b.to_string()))
            .collect();
        assert_eq!(pairs(sql), want);
        let sql = "ALTER TABLE t /* change a b */ ADD c TEXT COMMENT 'rename column x to y' -- change q r";
        assert!(pairs(sql).is_empty());
        assert_eq!(
            pairs("ALTER TABLE t /*!80000 RENAME COLUMN a TO b */"),
            [("a".to_string(), "b".to_string())]
        );
    }

    #[test]
    fn what_no_row_event_tells_is_seen_in_the_statement() {
        let emptied = [
            "ALTER TABLE t DROP PARTITION p0, p1",
            "alter table `t` truncate partition ALL",
            "ALTER ONLINE TABLE t WAIT 5 DROP PARTITION IF EXISTS p",
            "ALTER TABLE t /*M!100500 DROP PARTITION p */",
        ];
        for sql in emptied {
            assert_eq!(unseen(sql), Some(Unseen::Emptied), "{sql}");
        }
        let swapped = [
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
            "ALTER IGNORE TABLE t ADD UNIQUE (a)",
            "SET STATEMENT max_statement_time=9 FOR ALTER TABLE t DISCARD TABLESPACE",
            "ALTER TABLE t CONVERT PARTITION p TO TABLE u",
        ];
        for sql in swapped {
            assert_eq!(unseen(sql), Some(Unseen::Swapped), "{sql}");
        }
        let harmless = [
            "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))",
            "ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (9))",
            "ALTER TABLE t DROP `partition`",
            "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
            "ALTER TABLE t COMMENT 'drop partition' -- drop partition p",
            "CREATE TABLE t (a INT)",
        ];
        for sql in harmless {
            assert_eq!(unseen(sql), None, "{sql}");
        }
        let other =
            |sql| exchanged(sql).map(|(database, table)| (database.unwrap_or_default(), table));
        assert_eq!(
            other("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE `a`.`b` WITHOUT VALIDATION"),
            Some(("a".into(), "b".into()))
        );
        assert_eq!(
            other("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE b"),
            Some((String::new(), "b".into()))
        );
    }

    #[test]
    fn columns_that_are_dropped_or_redefined_and_tables_that_are_replaced_are_found() {
        let sql = "ALTER TABLE t DROP a, DROP COLUMN IF EXISTS b, DROP INDEX c, ALTER d DROP DEFAULT, DROP PRIMARY \
                   KEY, ADD a INT, MODIFY COLUMN e INT, CHANGE f g INT";
        assert_eq!(dropped(sql), ["a", "b"]);
        assert_eq!(redefined(sql), ["e", "g"]);
        assert!(replaces("CREATE OR REPLACE TABLE t (a INT)"));
        assert!(replaces(
            "set statement x=1 for create /* a */ or replace table t (a INT)"
        ));
        assert!(!replaces("CREATE TABLE t (a INT COMMENT 'or replace')"));
    }
}
