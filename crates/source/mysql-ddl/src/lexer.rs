//! Splits a statement into names, strings, numbers and punctuation.
//!
//! Executable comments (`/*!80000 … */`, `/*M!100301 … */`) are read as if they stood open, since the
//! server that wrote the log executed them.

use crate::{DdlError, MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A bare word as written, or a number.
    Word(String),
    /// A quoted name.
    Quoted(String),
    /// A string literal, unescaped.
    Text(String),
    /// One character of punctuation.
    Mark(char),
}

#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub token: Token,
    pub offset: usize,
}

pub(crate) fn tokens(sql: &str, sql_mode: u64) -> Result<Vec<Placed>, DdlError> {
    let mut lexer = Lexer {
        sql,
        bytes: sql.as_bytes(),
        at: 0,
        sql_mode,
    };
    let mut out = Vec::new();
    while let Some(placed) = lexer.next()? {
        out.push(placed);
    }
    Ok(out)
}

struct Lexer<'a> {
    sql: &'a str,
    bytes: &'a [u8],
    at: usize,
    sql_mode: u64,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '@') || c > '\u{7f}'
}

/// `--` followed by white space or the end.
fn is_line_comment(rest: &str) -> bool {
    rest.strip_prefix("--")
        .is_some_and(|after| after.is_empty() || after.starts_with(char::is_whitespace))
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.sql[self.at..]
    }

    fn fail<T>(&self, what: &str) -> Result<T, DdlError> {
        Err(DdlError {
            offset: self.at,
            what: what.to_owned(),
            table: None,
        })
    }

    fn skip_to(&mut self, end: &str) {
        self.at = self
            .rest()
            .find(end)
            .map_or(self.bytes.len(), |i| self.at + i + end.len());
    }

    /// Skips white space and comments; opens executable comments and drops their closing `*/`.
    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return;
            };
            if first.is_whitespace() || first == '\0' {
                self.at += first.len_utf8();
            } else if rest.starts_with("/*!") || rest.starts_with("/*M!") {
                self.at += if rest.starts_with("/*!") { 3 } else { 4 };
                let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
                self.at += digits.min(6);
            } else if rest.starts_with("*/") {
                self.at += 2;
            } else if rest.starts_with("/*") {
                self.at += 2;
                self.skip_to("*/");
            } else if first == '#' || is_line_comment(rest) {
                self.skip_to("\n");
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<Option<Placed>, DdlError> {
        self.skip_blank();
        let offset = self.at;
        let Some(first) = self.rest().chars().next() else {
            return Ok(None);
        };
        let token = match first {
            '`' => Token::Quoted(self.quoted('`', false)?),
            '"' if self.sql_mode & MODE_ANSI_QUOTES != 0 => Token::Quoted(self.quoted('"', false)?),
            '\'' | '"' => {
                Token::Text(self.quoted(first, self.sql_mode & MODE_NO_BACKSLASH_ESCAPES == 0)?)
            }
            c if is_word(c) => self.word(),
            c => {
                self.at += c.len_utf8();
                Token::Mark(c)
            }
        };
        Ok(Some(Placed { token, offset }))
    }

    fn word(&mut self) -> Token {
        let rest = self.rest();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let mut word = rest[..end].to_owned();
        self.at += end;
        // A number with a fraction is one token: 1.5 (but `db.table` is three).
        if word.bytes().all(|b| b.is_ascii_digit()) && self.rest().starts_with('.') {
            let digits = self.rest()[1..]
                .bytes()
                .take_while(u8::is_ascii_digit)
                .count();
            if digits > 0 {
                word.push_str(&self.rest()[..=digits]);
                self.at += digits + 1;
            }
        }
        // x'ff', b'01', n'…', _utf8'…': the introducer stays a word of its own.
        Token::Word(word)
    }

    fn quoted(&mut self, quote: char, escapes: bool) -> Result<String, DdlError> {
        let start = self.at;
        let mut out = String::new();
        let mut chars = self.sql[start + 1..].char_indices().peekable();
        while let Some((index, c)) = chars.next() {
            if c == quote {
                if chars.peek().is_some_and(|(_, next)| *next == quote) {
                    chars.next();
                    out.push(quote);
                    continue;
                }
                self.at = start + 1 + index + c.len_utf8();
                return Ok(out);
            }
            if c == '\\' && escapes {
                match chars.next() {
                    Some((_, next)) => push_escape(&mut out, next),
                    None => break,
                }
                continue;
            }
            out.push(c);
        }
        self.fail("a quote that is never closed")
    }
}

/// Source: MySQL manual, "String Literals", special character escape sequences.
fn push_escape(out: &mut String, c: char) {
    match c {
        '0' => out.push('\0'),
        'b' => out.push('\u{8}'),
        'n' => out.push('\n'),
        'r' => out.push('\r'),
        't' => out.push('\t'),
        'Z' => out.push('\u{1a}'),
        '%' | '_' => {
            out.push('\\');
            out.push(c);
        }
        other => out.push(other),
    }
}

/// Walks tokens; keywords are compared without case.
pub(crate) struct Cursor<'a> {
    tokens: &'a [Placed],
    at: usize,
    end_offset: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(tokens: &'a [Placed], end_offset: usize) -> Self {
        Self {
            tokens,
            at: 0,
            end_offset,
        }
    }

    pub fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    pub fn peek_at(&self, ahead: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + ahead).map(|placed| &placed.token)
    }

    pub fn offset(&self) -> usize {
        self.tokens
            .get(self.at)
            .map_or(self.end_offset, |placed| placed.offset)
    }

    pub fn advance(&mut self) -> Option<&'a Token> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    pub fn is_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    pub fn fail<T>(&self, what: impl Into<String>) -> Result<T, DdlError> {
        Err(DdlError {
            offset: self.offset(),
            what: what.into(),
            table: None,
        })
    }

    /// Whether the next token is this keyword.
    pub fn is(&self, keyword: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword))
    }

    pub fn is_at(&self, ahead: usize, keyword: &str) -> bool {
        matches!(self.peek_at(ahead), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword))
    }

    pub fn eat(&mut self, keyword: &str) -> bool {
        let found = self.is(keyword);
        self.at += usize::from(found);
        found
    }

    /// Eats a sequence of keywords, all or none.
    pub fn eat_all(&mut self, keywords: &[&str]) -> bool {
        let found = keywords
            .iter()
            .enumerate()
            .all(|(ahead, word)| self.is_at(ahead, word));
        if found {
            self.at += keywords.len();
        }
        found
    }

    pub fn eat_any(&mut self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.eat(keyword))
    }

    pub fn mark(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    pub fn is_mark(&self, mark: char) -> bool {
        self.peek() == Some(&Token::Mark(mark))
    }

    pub fn need_mark(&mut self, mark: char) -> Result<(), DdlError> {
        if self.mark(mark) {
            Ok(())
        } else {
            self.fail(format!("expected `{mark}`"))
        }
    }

    /// A name, quoted or bare.
    pub fn name(&mut self) -> Result<String, DdlError> {
        match self.peek() {
            Some(Token::Word(name) | Token::Quoted(name)) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => self.fail("expected a name"),
        }
    }

    /// `table` or `database.table`.
    pub fn table_name(&mut self) -> Result<(Option<String>, String), DdlError> {
        let first = self.name()?;
        if self.mark('.') {
            Ok((Some(first), self.name()?))
        } else {
            Ok((None, first))
        }
    }

    /// A string literal; adjacent literals join.
    pub fn text(&mut self) -> Result<String, DdlError> {
        let Some(Token::Text(first)) = self.peek() else {
            return self.fail("expected a string");
        };
        let mut text = first.clone();
        self.at += 1;
        while let Some(Token::Text(more)) = self.peek() {
            text.push_str(more);
            self.at += 1;
        }
        Ok(text)
    }

    /// Skips one token, or a whole parenthesis.
    pub fn skip_one(&mut self) {
        if !self.is_mark('(') {
            self.at += usize::from(!self.is_end());
            return;
        }
        let mut depth = 0usize;
        while let Some(token) = self.advance() {
            match token {
                Token::Mark('(') => depth += 1,
                Token::Mark(')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips to the next `,` or `)` outside parentheses, or the end.
    pub fn skip_item(&mut self) {
        while !self.is_end() && !self.is_mark(',') && !self.is_mark(')') {
            self.skip_one();
        }
    }
}
