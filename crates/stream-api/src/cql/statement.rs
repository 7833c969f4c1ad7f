//! The grammar.

use super::lexer::{Token, read};
use std::collections::BTreeMap;

/// A statement that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    /// `ALTER TABLE … WITH cdc = …`
    Cdc {
        table: TableName,
        is_enabled: bool,
        specification: Specification,
    },
    /// `ALTER TABLE … ADD|DROP TAGS_FOR_CDC {…}`, or `TAGS`.
    Tags {
        table: TableName,
        of_stream: bool,
        is_add: bool,
        tags: BTreeMap<String, String>,
    },
    /// `SELECT … FROM system_schema_mcs.…`
    Select {
        columns: Option<Vec<String>>,
        table: String,
        conditions: Vec<(String, String)>,
        limit: Option<usize>,
    },
}

/// A table by its shown names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableName {
    pub keyspace: String,
    pub table: String,
}

/// `cdc_specification`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Specification {
    pub view_type: Option<String>,
    pub propagate_tags: Option<String>,
    pub tags: BTreeMap<String, String>,
}

/// A literal of an option's map.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Literal {
    Text(String),
    Map(BTreeMap<String, Literal>),
}

/// Maps nest at most this deep; three are needed.
const DEPTH_MAX: usize = 8;

const UNDERSTOOD: &str = "there are: ALTER TABLE ks.t WITH cdc = TRUE|FALSE [AND CUSTOM_PROPERTIES = \
                          {'cdc_specification': {'view_type': …, 'propagate_tags': …, 'tags': {…}}}]; ALTER TABLE ks.t \
                          ADD|DROP TAGS_FOR_CDC {…}; SELECT … FROM system_schema_mcs.tables|streams|tags|keyspaces";

struct Parser<'t> {
    tokens: &'t [(Token, usize)],
}

/// Reads one statement. Errors: what is wrong and where, and what there is.
pub(super) fn parse(text: &str) -> Result<Statement, String> {
    let tokens = read(text)?;
    let mut parser = Parser { tokens: &tokens };
    let statement = match parser.word()?.as_str() {
        "alter" => parser.alter()?,
        "select" => parser.select()?,
        "create" => {
            return Err("tables are made in the source; to enable the stream of one that is captured: ALTER TABLE ks.t \
                        WITH cdc = TRUE"
                .into());
        }
        other => return Err(format!("`{other}` is not understood; {UNDERSTOOD}")),
    };
    parser.take_sign(';');
    match parser.tokens.first() {
        None => Ok(statement),
        Some((token, at)) => Err(format!(
            "{token:?} at character {} is too much; {UNDERSTOOD}",
            at + 1
        )),
    }
}

impl Parser<'_> {
    fn expected<T>(&self, what: &str) -> Result<T, String> {
        match self.tokens.first() {
            Some((_, at)) => Err(format!(
                "expected {what} at character {}; {UNDERSTOOD}",
                at + 1
            )),
            None => Err(format!("expected {what} at the end; {UNDERSTOOD}")),
        }
    }

    fn next(&mut self) -> Option<&Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(&first.0)
    }

    fn word(&mut self) -> Result<String, String> {
        match self.tokens.first() {
            Some((Token::Word(word), _)) => {
                let word = word.clone();
                self.next();
                Ok(word)
            }
            _ => self.expected("a word"),
        }
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let is_it = matches!(self.tokens.first(), Some((Token::Word(word), _)) if word == wanted);
        if is_it {
            self.next();
        }
        is_it
    }

    fn take_sign(&mut self, wanted: char) -> bool {
        let is_it = matches!(self.tokens.first(), Some((Token::Sign(sign), _)) if *sign == wanted);
        if is_it {
            self.next();
        }
        is_it
    }

    fn sign(&mut self, wanted: char) -> Result<(), String> {
        match self.take_sign(wanted) {
            true => Ok(()),
            false => self.expected(&format!("`{wanted}`")),
        }
    }

    fn table(&mut self) -> Result<TableName, String> {
        let keyspace = self.word()?;
        if !self.take_sign('.') {
            return self.expected("`.` and the table's name, for there is no USE here,");
        }
        let table = self.word()?;
        Ok(TableName { keyspace, table })
    }

    fn alter(&mut self) -> Result<Statement, String> {
        if !self.take_word("table") {
            return self.expected("TABLE");
        }
        let table = self.table()?;
        match self.word()?.as_str() {
            "with" => self.with(table),
            action @ ("add" | "drop") => {
                let of_stream = match self.word()?.as_str() {
                    "tags_for_cdc" => true,
                    "tags" => false,
                    _ => return Err(format!("columns are the source's; {UNDERSTOOD}")),
                };
                let Literal::Map(map) = self.literal(0)? else {
                    return self.expected("tags as {'key': 'value'}");
                };
                Ok(Statement::Tags {
                    table,
                    of_stream,
                    is_add: action == "add",
                    tags: texts(map)?,
                })
            }
            _ => self.expected("WITH, ADD or DROP before this"),
        }
    }

    fn with(&mut self, table: TableName) -> Result<Statement, String> {
        let (mut cdc, mut specification) = (None, None);
        loop {
            let option = self.word()?;
            self.sign('=')?;
            match option.as_str() {
                "cdc" => {
                    cdc = match self.word()?.as_str() {
                        "true" => Some(true),
                        "false" => Some(false),
                        _ => return self.expected("TRUE or FALSE before this"),
                    }
                }
                "custom_properties" => {
                    let Literal::Map(map) = self.literal(0)? else {
                        return self.expected("a map");
                    };
                    specification = Some(read_specification(map)?);
                }
                other => {
                    return Err(format!(
                        "option `{other}` is not kept here: the table is the source's; {UNDERSTOOD}"
                    ));
                }
            }
            if !self.take_word("and") {
                break;
            }
        }
        let Some(is_enabled) = cdc else {
            return Err(
                "CUSTOM_PROPERTIES needs `cdc = TRUE` with it: the view of a stream never changes"
                    .into(),
            );
        };
        if !is_enabled && specification.is_some() {
            return Err("CUSTOM_PROPERTIES go with `cdc = TRUE` only".into());
        }
        Ok(Statement::Cdc {
            table,
            is_enabled,
            specification: specification.unwrap_or_default(),
        })
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, String> {
        if depth > DEPTH_MAX {
            return Err("the map nests too deep".into());
        }
        if !self.take_sign('{') {
            return match self.next() {
                Some(Token::Text(text) | Token::Number(text) | Token::Word(text)) => {
                    Ok(Literal::Text(text.clone()))
                }
                _ => self.expected("a text or a map before this"),
            };
        }
        let mut map = BTreeMap::new();
        while !self.take_sign('}') {
            let Some(Token::Text(key)) = self.next().cloned() else {
                return self.expected("a key in quotes before this");
            };
            self.sign(':')?;
            let value = self.literal(depth + 1)?;
            map.insert(key, value);
            if !self.take_sign(',') {
                self.sign('}')?;
                break;
            }
        }
        Ok(Literal::Map(map))
    }

    fn select(&mut self) -> Result<Statement, String> {
        let columns = match self.take_sign('*') {
            true => None,
            false => {
                let mut columns = vec![self.word()?];
                while self.take_sign(',') {
                    columns.push(self.word()?);
                }
                Some(columns)
            }
        };
        if !self.take_word("from") {
            return self.expected("FROM");
        }
        let table = self.table()?;
        if table.keyspace != "system_schema_mcs" {
            return Err(format!(
                "rows of tables are read through the API; {UNDERSTOOD}"
            ));
        }
        let mut conditions = Vec::new();
        if self.take_word("where") {
            loop {
                let column = self.word()?;
                self.sign('=')?;
                let Some(Token::Text(value)) = self.next().cloned() else {
                    return self.expected("a text in quotes before this");
                };
                conditions.push((column, value));
                if !self.take_word("and") {
                    break;
                }
            }
        }
        let mut limit = None;
        if self.take_word("limit") {
            match self.next() {
                Some(Token::Number(digits)) => limit = digits.parse().ok(),
                _ => return self.expected("a number before this"),
            }
        }
        if self.take_word("allow") && !self.take_word("filtering") {
            return self.expected("FILTERING");
        }
        Ok(Statement::Select {
            columns,
            table: table.table,
            conditions,
            limit,
        })
    }
}

fn texts(map: BTreeMap<String, Literal>) -> Result<BTreeMap<String, String>, String> {
    let text = |(key, value)| match value {
        Literal::Text(text) => Ok((key, text)),
        Literal::Map(_) => Err(format!("the value of tag `{key}` is no text")),
    };
    map.into_iter().map(text).collect()
}

fn read_specification(map: BTreeMap<String, Literal>) -> Result<Specification, String> {
    let mut specification = Specification::default();
    for (property, value) in map {
        let (name, Literal::Map(members)) = (property.as_str(), value) else {
            return Err(format!("property `{property}` is no map"));
        };
        if name != "cdc_specification" {
            return Err(format!(
                "property `{name}` is not kept here: the table is the source's"
            ));
        }
        for (member, value) in members {
            match (member.as_str(), value) {
                ("view_type", Literal::Text(text)) => {
                    specification.view_type = Some(text.to_ascii_uppercase());
                }
                ("propagate_tags", Literal::Text(text)) => {
                    specification.propagate_tags = Some(text.to_ascii_uppercase());
                }
                ("tags", Literal::Map(tags)) => specification.tags = texts(tags)?,
                _ => {
                    return Err(format!(
                        "`{member}` in cdc_specification is not understood; there are view_type, propagate_tags and tags"
                    ));
                }
            }
        }
    }
    Ok(specification)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> TableName {
        TableName {
            keyspace: "shop".into(),
            table: "Orders".into(),
        }
    }

    #[test]
    fn statements_of_the_manual_are_understood() {
        let text = "ALTER TABLE shop.\"Orders\" WITH cdc=TRUE AND CUSTOM_PROPERTIES={ 'cdc_specification' : { 'view_type': \
                    'NEW_IMAGE', 'propagate_tags': 'TABLE', 'tags': {'team': 'it''s', } } };";
        let Statement::Cdc {
            table,
            is_enabled,
            specification,
        } = parse(text).unwrap()
        else {
            panic!("not an ALTER … WITH");
        };
        assert!(is_enabled && table == name());
        assert_eq!(specification.view_type.as_deref(), Some("NEW_IMAGE"));
        assert_eq!(specification.tags["team"], "it's");
        let off = parse("alter table shop.\"Orders\" with cdc = false").unwrap();
        assert_eq!(
            off,
            Statement::Cdc {
                table: name(),
                is_enabled: false,
                specification: Specification::default()
            }
        );
        let add = parse("ALTER TABLE shop.\"Orders\" ADD TAGS_FOR_CDC {'a':'b'}").unwrap();
        let tags = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(
            add,
            Statement::Tags {
                table: name(),
                of_stream: true,
                is_add: true,
                tags
            }
        );
        let select = "SELECT keyspace_name, cdc FROM system_schema_mcs.tables WHERE keyspace_name = 'shop' AND table_name = \
                      'Orders' LIMIT 3 -- all";
        let Statement::Select {
            columns,
            table,
            conditions,
            limit,
        } = parse(select).unwrap()
        else {
            panic!("not a SELECT");
        };
        assert_eq!(
            (
                columns.unwrap().len(),
                table.as_str(),
                conditions.len(),
                limit
            ),
            (2, "tables", 2, Some(3))
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, part) in [
            ("", "a word"),
            ("DROP TABLE shop.t", "`drop` is not understood"),
            ("CREATE TABLE shop.t (id int)", "made in the source"),
            ("ALTER TABLE t WITH cdc = true", "at character 15"),
            ("ALTER TABLE shop.t WITH ttl = 5", "`ttl`"),
            ("ALTER TABLE shop.t ADD c int", "columns are the source's"),
            (
                "ALTER TABLE shop.t WITH cdc = true AND CUSTOM_PROPERTIES = {'x': {}}",
                "`x`",
            ),
            (
                "ALTER TABLE shop.t WITH CUSTOM_PROPERTIES = {'cdc_specification': {}}",
                "cdc = TRUE",
            ),
            ("ALTER TABLE shop.t WITH cdc = 'x", "does not end"),
            ("SELECT * FROM shop.t", "through the API"),
            ("ALTER TABLE shop.t WITH cdc = true nonsense", "too much"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let deep = format!("ALTER TABLE shop.t ADD TAGS {}", "{'a':".repeat(100_000));
        assert!(parse(&deep).unwrap_err().contains("too deep"));
    }
}
