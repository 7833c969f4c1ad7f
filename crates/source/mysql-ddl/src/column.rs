//! One column or key definition inside CREATE TABLE or ALTER TABLE.

use crate::DdlError;
use crate::column_type::{self, ParsedType, TypeStyle};
use crate::lexer::{Cursor, Token};

/// A column as its definition says; charset and default await the table's own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnDefinition {
    pub name: String,
    pub kind: ParsedType,
    pub charset: Option<String>,
    pub collation: Option<String>,
    /// `CHAR(5) BINARY`: the binary collation of the charset.
    pub binary_collation: bool,
    /// Said explicitly; TIMESTAMP has its own rules otherwise.
    pub nullable: Option<bool>,
    pub default: Option<String>,
    pub comment: String,
    pub generated: bool,
    pub invisible: bool,
    pub primary: bool,
    pub unique: bool,
}

/// Stands as the default of an AUTO_INCREMENT column: each row gets its own number.
const AUTO_INCREMENT: &str = "AUTO_INCREMENT";
/// Stands as the default of a TIMESTAMP that names none, on servers where the variable of this name may
/// be off: the current time then, else NULL.
const UNSAID_TIMESTAMP: &str = "EXPLICIT_DEFAULTS_FOR_TIMESTAMP";

/// Where an added or changed column goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Unsaid,
    First,
    After(String),
}

/// A key over columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyDefinition {
    pub name: Option<String>,
    pub primary: bool,
    /// Column names; none when a part is an expression.
    pub columns: Option<Vec<String>>,
}

/// Charset of a collation's name: `utf8mb4_0900_ai_ci` → `utf8mb4`.
pub(crate) fn charset_of_collation(collation: &str) -> String {
    // MariaDB's uca1400 collations may stand without a charset; the table's then holds.
    let head = collation
        .split('_')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    charset_name(&head)
}

pub(crate) fn charset_name(name: &str) -> String {
    match name.to_ascii_lowercase().as_str() {
        "utf8" => "utf8mb3".into(),
        other => other.to_owned(),
    }
}

pub(crate) fn definition(
    cursor: &mut Cursor<'_>,
    style: TypeStyle,
) -> Result<ColumnDefinition, DdlError> {
    let name = cursor.name()?;
    definition_of(cursor, name, style)
}

/// The rest of a definition whose name was read.
pub(crate) fn definition_of(
    cursor: &mut Cursor<'_>,
    name: String,
    style: TypeStyle,
) -> Result<ColumnDefinition, DdlError> {
    let kind = column_type::parse(cursor, style)?;
    let serial = kind.serial;
    let numbers_itself = serial.then(|| AUTO_INCREMENT.to_owned());
    let mut column = ColumnDefinition {
        name,
        charset: kind.charset.clone(),
        collation: kind.collation.clone(),
        kind,
        binary_collation: false,
        nullable: serial.then_some(false),
        default: numbers_itself,
        comment: String::new(),
        generated: false,
        invisible: false,
        primary: false,
        unique: serial,
    };
    while attribute(cursor, &mut column)? {}
    if is_automatic_timestamp(&column) && (style.mariadb || style.display_width) {
        column.default = Some(UNSAID_TIMESTAMP.to_owned());
    }
    Ok(column)
}

/// A TIMESTAMP that says nothing of NULL and of a default: what it gets is the server's setting.
fn is_automatic_timestamp(column: &ColumnDefinition) -> bool {
    matches!(column.kind.kind, change::ColumnType::Timestamp { .. })
        && column.nullable.is_none()
        && column.default.is_none()
        && !column.generated
}

/// Reads one attribute; false at the end of the definition.
fn attribute(cursor: &mut Cursor<'_>, column: &mut ColumnDefinition) -> Result<bool, DdlError> {
    if cursor.is_end() || cursor.is_mark(',') || cursor.is_mark(')') {
        return Ok(false);
    }
    if cursor.is("first") || cursor.is("after") {
        return Ok(false);
    }
    if cursor.eat_all(&["not", "null"]) {
        column.nullable = Some(false);
    } else if cursor.eat("null") {
        column.nullable = Some(true);
    } else if cursor.eat("default") {
        column.default = default_value(cursor)?;
    } else if cursor.eat("comment") {
        column.comment = cursor.text()?;
    } else if cursor.eat_all(&["character", "set"])
        || cursor.eat_all(&["char", "set"])
        || cursor.eat("charset")
    {
        cursor.mark('=');
        column.charset = Some(charset_name(&text_or_name(cursor)?));
    } else if cursor.eat("collate") {
        cursor.mark('=');
        set_collation(column, text_or_name(cursor)?);
    } else {
        return key_or_other(cursor, column);
    }
    Ok(true)
}

fn set_collation(column: &mut ColumnDefinition, collation: String) {
    if column.charset.is_none() && !collation.to_ascii_lowercase().starts_with("uca1400") {
        column.charset = Some(charset_of_collation(&collation));
    }
    column.collation = Some(collation.to_ascii_lowercase());
}

fn key_or_other(cursor: &mut Cursor<'_>, column: &mut ColumnDefinition) -> Result<bool, DdlError> {
    if cursor.eat_all(&["primary", "key"]) || cursor.eat_all(&["key"]) {
        column.primary = true;
        column.nullable = Some(false);
    } else if cursor.eat("unique") {
        cursor.eat("key");
        column.unique = true;
    } else if cursor.eat("invisible") {
        column.invisible = true;
    } else if cursor.eat("ascii") {
        column.charset = Some("latin1".into());
    } else if cursor.eat("unicode") {
        column.charset = Some("ucs2".into());
    } else if cursor.eat("byte") {
        column.charset = Some("binary".into());
    } else if cursor.eat("binary") {
        column.binary_collation = true;
    } else if cursor.eat_all(&["generated", "always"]) {
        column.generated = true;
    } else if cursor.eat("as") {
        column.generated = true;
        if !cursor.eat("row") {
            cursor.skip_one();
        }
    } else if cursor.eat("references") {
        cursor.table_name()?;
    } else if cursor.eat("check") {
        cursor.skip_one();
    } else if cursor.eat("auto_increment") {
        column.default = Some(AUTO_INCREMENT.to_owned());
    } else {
        // STORED, VIRTUAL, ON UPDATE …, COLUMN_FORMAT …, SRID n, COMPRESSED, …
        cursor.skip_one();
    }
    Ok(true)
}

pub(crate) fn text_or_name(cursor: &mut Cursor<'_>) -> Result<String, DdlError> {
    if matches!(cursor.peek(), Some(Token::Text(_))) {
        cursor.text()
    } else {
        cursor.name()
    }
}

/// A text in quotes, with those within it doubled.
fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The default as SHOW CREATE TABLE would name it: texts in quotes, so that they are no expressions, and
/// expressions as written.
pub(crate) fn default_value(cursor: &mut Cursor<'_>) -> Result<Option<String>, DdlError> {
    if cursor.eat("null") {
        return Ok(None);
    }
    if matches!(cursor.peek(), Some(Token::Text(_))) {
        return cursor.text().map(|text| Some(in_quotes(&text)));
    }
    let mut out = String::new();
    loop {
        match cursor.advance() {
            Some(Token::Word(word)) => out.push_str(word),
            Some(Token::Quoted(name)) => out.push_str(&format!("`{name}`")),
            Some(Token::Text(text)) => {
                out.push_str(&in_quotes(text));
                return Ok(Some(out));
            }
            Some(Token::Mark('(')) => push_parenthesis(cursor, &mut out),
            Some(Token::Mark(mark @ ('-' | '+'))) => {
                if *mark == '-' {
                    out.push('-');
                }
                continue;
            }
            Some(Token::Mark(mark)) => {
                return cursor.fail(format!("a default that starts `{mark}`"));
            }
            None => return cursor.fail("expected a default"),
        }
        if cursor.is_mark('(') {
            continue;
        }
        let introduces = out.starts_with('_')
            || ["x", "b", "n"]
                .iter()
                .any(|letter| out.eq_ignore_ascii_case(letter));
        if !(introduces && matches!(cursor.peek(), Some(Token::Text(_)))) {
            return Ok(Some(out));
        }
    }
}

fn push_parenthesis(cursor: &mut Cursor<'_>, out: &mut String) {
    out.push('(');
    let mut depth = 1;
    let mut word_before = false;
    while depth > 0 {
        let Some(token) = cursor.advance() else {
            return;
        };
        let is_word = !matches!(token, Token::Mark(_));
        if is_word && word_before {
            out.push(' ');
        }
        word_before = is_word;
        match token {
            Token::Word(word) => out.push_str(word),
            Token::Quoted(name) => out.push_str(&format!("`{name}`")),
            Token::Text(text) => out.push_str(&in_quotes(text)),
            Token::Mark(mark) => {
                depth += i32::from(*mark == '(') - i32::from(*mark == ')');
                out.push(*mark);
            }
        }
    }
}

pub(crate) fn place(cursor: &mut Cursor<'_>) -> Result<Place, DdlError> {
    if cursor.eat("first") {
        Ok(Place::First)
    } else if cursor.eat("after") {
        Ok(Place::After(cursor.name()?))
    } else {
        Ok(Place::Unsaid)
    }
}

/// A key or constraint, if one starts here; `None` inside means that it is of no interest (an
/// ordinary index, a foreign key, a check).
pub(crate) fn key(cursor: &mut Cursor<'_>) -> Result<Option<Option<KeyDefinition>>, DdlError> {
    let mut name = None;
    let starts = |c: &Cursor<'_>, ahead| {
        [
            "primary", "unique", "foreign", "check", "index", "key", "fulltext", "spatial",
        ]
        .iter()
        .any(|word| c.is_at(ahead, word))
            || (c.is_at(ahead, "vector")
                && (c.is_at(ahead + 1, "index") || c.is_at(ahead + 1, "key")))
    };
    if cursor.eat("constraint") {
        if !starts(cursor, 0) {
            name = Some(cursor.name()?);
        }
    } else if !starts(cursor, 0) {
        return Ok(None);
    }
    if cursor.eat_all(&["primary", "key"]) {
        using(cursor);
        let columns = parts(cursor)?;
        cursor.skip_item();
        return Ok(Some(Some(KeyDefinition {
            name: None,
            primary: true,
            columns,
        })));
    }
    if cursor.eat("unique") {
        cursor.eat_any(&["index", "key"]);
        cursor.eat_all(&["if", "not", "exists"]);
        if !cursor.is_mark('(') && !cursor.is("using") {
            name = Some(cursor.name()?);
        }
        using(cursor);
        let columns = parts(cursor)?;
        cursor.skip_item();
        return Ok(Some(Some(KeyDefinition {
            name,
            primary: false,
            columns,
        })));
    }
    cursor.skip_item();
    Ok(Some(None))
}

fn using(cursor: &mut Cursor<'_>) {
    if cursor.eat("using") {
        cursor.skip_one();
    }
}

/// `(a, b(10) DESC, (expression))`.
pub(crate) fn parts(cursor: &mut Cursor<'_>) -> Result<Option<Vec<String>>, DdlError> {
    cursor.need_mark('(')?;
    let mut columns = Some(Vec::new());
    loop {
        if cursor.is_mark('(') {
            columns = None;
        } else {
            let name = cursor.name()?;
            if let Some(columns) = &mut columns {
                columns.push(name);
            }
        }
        cursor.skip_item();
        if cursor.mark(')') {
            return Ok(columns);
        }
        cursor.need_mark(',')?;
    }
}
