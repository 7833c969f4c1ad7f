//! Which columns a statement renames: the schemas alone cannot tell a renamed column from one that was
//! dropped while another was added.

/// Pairs of an old and a new name, in the order of the statement: of `RENAME COLUMN a TO b` and of
/// `CHANGE [COLUMN] a b …`.
pub(crate) fn of(sql: &str) -> Vec<(String, String)> {
    let words = words(sql);
    let is = |at: usize, word: &str| {
        words
            .get(at)
            .is_some_and(|w| !w.quoted && w.text.eq_ignore_ascii_case(word))
    };
    let text = |at: usize| words.get(at).map(|word| word.text.clone());
    let mut out = Vec::new();
    for at in 0..words.len() {
        let mut next = at + 1;
        if is(at, "RENAME") && is(next, "COLUMN") {
            next += 1;
            if is(next, "IF") && is(next + 1, "EXISTS") {
                next += 2;
            }
            if is(next + 1, "TO")
                && let (Some(old), Some(new)) = (text(next), text(next + 2))
            {
                out.push((old, new));
            }
        } else if is(at, "CHANGE") {
            if is(next, "COLUMN") {
                next += 1;
            }
            if is(next, "IF") && is(next + 1, "EXISTS") {
                next += 2;
            }
            if let (Some(old), Some(new)) = (text(next), text(next + 1)) {
                out.push((old, new));
            }
        }
    }
    out
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
                // What stands in /*! … */ is executed.
                match chars.peek() {
                    Some('!') => {
                        chars.next();
                        while chars.next_if(char::is_ascii_digit).is_some() {}
                    }
                    _ => skip_comment(&mut chars),
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
        of(sql)
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
}
