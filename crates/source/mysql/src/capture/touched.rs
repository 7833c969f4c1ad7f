//! Which tables a statement-based change writes to.
//!
//! Wider rather than narrower: a table named too much is set aside for nothing, one named too little
//! would be wrong for good. Tables that a trigger writes to cannot be seen in the text.

/// A name or another word of a statement; texts, numbers and marks but `.` and `(` are left out.
#[derive(Debug, PartialEq, Eq)]
enum Word<'a> {
    Bare(&'a str),
    Quoted(String),
    Dot,
    Open,
}

impl Word<'_> {
    fn is(&self, keyword: &str) -> bool {
        matches!(self, Word::Bare(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn name(&self) -> Option<&str> {
        match self {
            Word::Bare(name) => Some(name),
            Word::Quoted(name) => Some(name),
            Word::Dot | Word::Open => None,
        }
    }
}

/// The length of a quoted piece at the start of `text`, with its quotes.
fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            // A doubled quote begins the next piece, which is as good for finding names.
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

fn words(sql: &str, ansi_quotes: bool) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
        let count = match first {
            '`' | '"' | '\'' => {
                let count = quoted_bytes(rest, first);
                if first == '`' || first == '"' && ansi_quotes {
                    words.push(Word::Quoted(rest[..count].trim_matches(first).to_owned()));
                }
                count
            }
            c if is_name(c) => {
                let count = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                words.push(Word::Bare(&rest[..count]));
                count
            }
            '.' => {
                words.push(Word::Dot);
                1
            }
            '(' => {
                words.push(Word::Open);
                1
            }
            c => c.len_utf8(),
        };
        rest = &rest[count..];
    }
    words
}

/// Whether this is a CREATE TABLE that takes its rows from a SELECT.
pub fn is_filled(sql: &str, ansi_quotes: bool) -> bool {
    let create = "create";
    if !sql
        .trim_start()
        .get(..create.len())
        .is_some_and(|word| word.eq_ignore_ascii_case(create))
    {
        return false;
    }
    let words = words(sql, ansi_quotes);
    let mut head = words.iter().skip(1);
    let is_table = head
        .find(|word| !word.is("OR") && !word.is("REPLACE"))
        .is_some_and(|word| word.is("TABLE"));
    is_table && words.iter().any(|word| word.is("SELECT"))
}

/// The part of a statement that names what it writes to.
fn target<'w, 'a>(words: &'w [Word<'a>]) -> &'w [Word<'a>] {
    let until = |ends: &[&str], at_open: bool| {
        words
            .iter()
            .position(|word| at_open && *word == Word::Open || ends.iter().any(|end| word.is(end)))
            .unwrap_or(words.len())
    };
    let end = match words.first() {
        Some(word) if word.is("INSERT") || word.is("REPLACE") => {
            until(&["VALUES", "VALUE", "SET", "SELECT", "TABLE"], true)
        }
        Some(word) if word.is("UPDATE") => until(&["SET"], false),
        Some(word) if word.is("DELETE") => until(&["WHERE", "ORDER", "LIMIT"], false),
        _ => words.len(),
    };
    &words[..end]
}

/// The names in the writing part of a statement, each with its database, or with `database`.
pub fn names(sql: &str, database: &str, ansi_quotes: bool) -> Vec<(String, String)> {
    let words = words(sql, ansi_quotes);
    let words = target(&words);
    let mut found = Vec::new();
    let mut index = 0;
    while let Some(word) = words.get(index) {
        index += 1;
        let Some(name) = word.name() else { continue };
        if let (Some(Word::Dot), Some(table)) =
            (words.get(index), words.get(index + 1).and_then(Word::name))
        {
            found.push((name.to_owned(), table.to_owned()));
            index += 2;
        } else {
            found.push((database.to_owned(), name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(sql: &str, table: &str) -> bool {
        let (database, name) = table.split_once('.').unwrap();
        names(sql, "d", false).contains(&(database.to_owned(), name.to_owned()))
    }

    #[test]
    fn what_is_written_to_is_found_and_what_is_read_is_not() {
        assert!(has("INSERT INTO t VALUES (1, 'INTO u')", "d.t"));
        assert!(has(
            "insert ignore `shop`.`o t`(a) SELECT a FROM u",
            "shop.o t"
        ));
        assert!(!has("INSERT INTO t SELECT a FROM u", "d.u"));
        assert!(has("UPDATE a JOIN x.b USING (id) SET a.v = 1", "x.b"));
        assert!(!has("DELETE FROM t WHERE id IN (SELECT id FROM u)", "d.u"));
        assert!(has(
            "LOAD DATA INFILE 'f' INTO TABLE t FIELDS TERMINATED BY ','",
            "d.t"
        ));
        assert!(has("WITH c AS (SELECT 1) DELETE FROM t", "d.t"));
    }
}
