//! Words of CQL.

/// A word, and the byte at which it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or keyword, in lower case; one in double quotes as it is.
    Word(String),
    /// Text in single quotes.
    Text(String),
    /// Digits.
    Number(String),
    /// One character.
    Sign(char),
}

pub(super) fn read(text: &str) -> Result<Vec<(Token, usize)>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((at, first)) = rest.next() {
        let token = match first {
            c if c.is_whitespace() => continue,
            '-' if rest.peek().is_some_and(|(_, next)| *next == '-') => {
                rest.by_ref().find(|(_, c)| *c == '\n');
                continue;
            }
            '\'' | '"' => {
                let mut body = String::new();
                loop {
                    match rest.next() {
                        None => {
                            return Err(format!("the text at character {} does not end", at + 1));
                        }
                        Some((_, c)) if c == first => {
                            match rest.next_if(|(_, next)| *next == first) {
                                Some(_) => body.push(first),
                                None => break,
                            }
                        }
                        Some((_, c)) => body.push(c),
                    }
                }
                if first == '"' {
                    Token::Word(body)
                } else {
                    Token::Text(body)
                }
            }
            c if c.is_ascii_digit() => {
                let mut digits = String::from(c);
                while let Some((_, digit)) = rest.next_if(|(_, c)| c.is_ascii_digit()) {
                    digits.push(digit);
                }
                Token::Number(digits)
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let mut word = String::from(c.to_ascii_lowercase());
                while let Some((_, c)) =
                    rest.next_if(|(_, c)| c.is_ascii_alphanumeric() || *c == '_')
                {
                    word.push(c.to_ascii_lowercase());
                }
                Token::Word(word)
            }
            '{' | '}' | ':' | ',' | '.' | '=' | ';' | '*' | '(' | ')' => Token::Sign(first),
            other => {
                return Err(format!(
                    "`{other}` at character {} is not understood",
                    at + 1
                ));
            }
        };
        tokens.push((token, at));
    }
    Ok(tokens)
}
