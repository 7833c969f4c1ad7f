//! The columns that an ALTER TABLE drops, told from its text.
//!
//! The statement was carried out by the server: this reads what is known to be right, and only as far
//! as DROP needs it.

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// An unquoted word or number.
    Word(String),
    /// A quoted name (or a text in double quotes, which may be a name).
    Name(String),
    Symbol(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(text) if text.eq_ignore_ascii_case(word))
    }

    fn into_name(self) -> Option<String> {
        match self {
            Token::Word(name) | Token::Name(name) => Some(name),
            Token::Symbol(_) => None,
        }
    }
}

/// What follows DROP where no column goes.
const NOT_COLUMNS: [&str; 9] = [
    "INDEX",
    "KEY",
    "PRIMARY",
    "FOREIGN",
    "CONSTRAINT",
    "CHECK",
    "PARTITION",
    "SYSTEM",
    "PERIOD",
];

/// The columns, in the order of the statement; none for any other statement.
pub(super) fn dropped_columns(sql: &str) -> Vec<String> {
    let mut tokens = tokens(sql).into_iter().peekable();
    if !tokens.next().is_some_and(|token| token.is("ALTER")) {
        return vec![];
    }
    while tokens.next_if(|token| token.is("TABLE")).is_none() {
        if tokens.next().is_none() {
            return vec![];
        }
    }
    skip(&mut tokens, &["IF", "EXISTS"]);
    tokens.next();
    while tokens.next_if_eq(&Token::Symbol('.')).is_some() {
        tokens.next();
    }
    if tokens.next_if(|token| token.is("WAIT")).is_some() {
        tokens.next();
    }
    skip(&mut tokens, &["NOWAIT"]);
    let mut dropped = Vec::new();
    loop {
        if tokens.next_if(|token| token.is("DROP")).is_some() {
            dropped.extend(dropped_column(&mut tokens));
        }
        if !skip_clause(&mut tokens) {
            return dropped;
        }
    }
}

type Tokens = std::iter::Peekable<std::vec::IntoIter<Token>>;

fn skip(tokens: &mut Tokens, words: &[&str]) {
    for word in words {
        tokens.next_if(|token| token.is(word));
    }
}

fn dropped_column(tokens: &mut Tokens) -> Option<String> {
    let said = tokens.next_if(|token| token.is("COLUMN")).is_some();
    skip(tokens, &["IF", "EXISTS"]);
    let token = tokens.peek()?;
    if !said && NOT_COLUMNS.iter().any(|word| token.is(word)) {
        return None;
    }
    tokens.next()?.into_name()
}

/// Goes on past the next comma outside parentheses; false at the end.
fn skip_clause(tokens: &mut Tokens) -> bool {
    let mut depth = 0u32;
    for token in tokens {
        match token {
            Token::Symbol('(') => depth += 1,
            Token::Symbol(')') => depth = depth.saturating_sub(1),
            Token::Symbol(',') if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '#' => after(rest, "\n"),
            '-' if rest.starts_with("--") => after(rest, "\n"),
            // What a version comment holds is part of the statement.
            '/' if rest.starts_with("/*!") || rest.starts_with("/*M!") => {
                let inside = rest.trim_start_matches(['/', '*', 'M', '!']);
                inside.trim_start_matches(|digit: char| digit.is_ascii_digit())
            }
            '/' if rest.starts_with("/*") => after(&rest[2..], "*/"),
            '*' if rest.starts_with("*/") => &rest[2..],
            '\'' | '"' | '`' => quoted(rest, first, &mut tokens),
            _ if is_word(first) => {
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].into()));
                &rest[end..]
            }
            _ => {
                if !first.is_whitespace() {
                    tokens.push(Token::Symbol(first));
                }
                &rest[first.len_utf8()..]
            }
        };
    }
    tokens
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

fn after<'t>(text: &'t str, end: &str) -> &'t str {
    text.find(end).map_or("", |at| &text[at + end.len()..])
}

fn quoted<'t>(text: &'t str, quote: char, tokens: &mut Vec<Token>) -> &'t str {
    let mut name = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == '\\' && quote != '`' {
            name.extend(characters.next().map(|(_, escaped)| escaped));
        } else if character != quote {
            name.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            name.push(quote);
        } else {
            tokens.push(Token::Name(name));
            return &text[at + 1..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_columns_are_found_and_nothing_else() {
        let cases: [(&str, &[&str]); 14] = [
            ("ALTER TABLE t DROP COLUMN memo", &["memo"]),
            (
                "alter table `a`.`b` drop memo, drop `x``y`",
                &["memo", "x`y"],
            ),
            ("ALTER TABLE t ADD c INT DEFAULT (1, 2), DROP c2", &["c2"]),
            ("ALTER TABLE t DROP INDEX i, DROP PRIMARY KEY", &[]),
            (
                "ALTER TABLE t DROP FOREIGN KEY f, DROP COLUMN `key`",
                &["key"],
            ),
            ("ALTER TABLE t ALTER COLUMN c DROP DEFAULT", &[]),
            ("ALTER TABLE t DROP PARTITION p0", &[]),
            ("ALTER TABLE t COMMENT 'x, DROP COLUMN y'", &[]),
            (
                "ALTER /* x */ TABLE t -- y\n DROP COLUMN IF EXISTS z",
                &["z"],
            ),
            ("/*!50100 ALTER TABLE t DROP COLUMN a */", &["a"]),
            ("ALTER ONLINE TABLE IF EXISTS t WAIT 5 DROP a", &["a"]),
            ("ALTER TABLE drop_me DROP", &[]),
            ("DROP TABLE t", &[]),
            ("ALTER TABLE t DROP \"q\" , ALGORITHM=INPLACE", &["q"]),
        ];
        for (sql, columns) in cases {
            assert_eq!(dropped_columns(sql), columns, "{sql}");
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic() {
        for sql in [
            "",
            "ALTER",
            "ALTER TABLE",
            "'",
            "`é",
            "/*",
            "--",
            "ALTER TABLE t DROP 'x",
        ] {
            dropped_columns(sql);
        }
    }
}
