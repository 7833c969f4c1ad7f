//! The statements that change schemas.

use crate::alter::{self, AlterAction};
use crate::column::{self, ColumnDefinition, KeyDefinition, charset_name, charset_of_collation};
use crate::column_type::TypeStyle;
use crate::lexer::{Cursor, Token};
use crate::{DdlError, MODE_REAL_AS_FLOAT, lexer};

/// `database.table`, the database filled in from the session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TableName {
    pub database: String,
    pub table: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Statement {
    CreateTable(Box<CreateTable>),
    CreateTableLike {
        name: TableName,
        like: TableName,
        if_not_exists: bool,
    },
    AlterTable {
        name: TableName,
        actions: Vec<AlterAction>,
    },
    DropTables {
        names: Vec<TableName>,
    },
    Truncate {
        name: TableName,
    },
    Rename {
        pairs: Vec<(TableName, TableName)>,
    },
    CreateIndex {
        name: TableName,
        key: Option<KeyDefinition>,
    },
    DropIndex {
        name: TableName,
        index: String,
    },
    Database {
        name: String,
        charset: Option<String>,
        dropped: bool,
    },
    /// Anything else, also what touches only temporary tables.
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreateTable {
    pub name: TableName,
    pub if_not_exists: bool,
    pub columns: Vec<ColumnDefinition>,
    pub keys: Vec<KeyDefinition>,
    pub options: TableOptions,
    /// The columns come from a SELECT: the statement does not tell them.
    pub from_select: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TableOptions {
    pub charset: Option<String>,
    pub collation: Option<String>,
    pub comment: Option<String>,
    pub system_versioning: bool,
}

pub(crate) struct Parser<'a> {
    pub cursor: Cursor<'a>,
    pub database: &'a str,
    pub style: TypeStyle,
}

/// Reads one statement.
pub(crate) fn parse(
    sql: &str,
    database: &str,
    sql_mode: u64,
    style: TypeStyle,
) -> Result<Statement, DdlError> {
    let tokens = lexer::tokens(sql, sql_mode)?;
    let style = TypeStyle {
        real_as_float: sql_mode & MODE_REAL_AS_FLOAT != 0,
        ..style
    };
    let mut parser = Parser {
        cursor: Cursor::new(&tokens, sql.len()),
        database,
        style,
    };
    parser.statement()
}

impl Parser<'_> {
    pub fn table(&mut self) -> Result<TableName, DdlError> {
        let (database, table) = self.cursor.table_name()?;
        let database = database.unwrap_or_else(|| self.database.to_owned());
        Ok(TableName { database, table })
    }

    fn statement(&mut self) -> Result<Statement, DdlError> {
        // MariaDB: SET STATEMENT variable=value, … FOR statement.
        if self.cursor.eat_all(&["set", "statement"]) {
            while !self.cursor.is_end() && !self.cursor.eat("for") {
                self.cursor.skip_one();
            }
        }
        if self.cursor.eat("create") {
            self.create()
        } else if self.cursor.eat("alter") {
            self.alter()
        } else if self.cursor.eat("drop") {
            self.drop()
        } else if self.cursor.eat("truncate") {
            self.cursor.eat("table");
            Ok(Statement::Truncate {
                name: self.table()?,
            })
        } else if self.cursor.eat_all(&["rename", "table"])
            || self.cursor.eat_all(&["rename", "tables"])
        {
            self.rename()
        } else {
            Ok(Statement::Other)
        }
    }

    fn create(&mut self) -> Result<Statement, DdlError> {
        self.cursor.eat_all(&["or", "replace"]);
        if self.cursor.eat("temporary") {
            return Ok(Statement::Other);
        }
        if self.cursor.eat("table") {
            return self.create_table();
        }
        if self.cursor.eat_any(&["database", "schema"]) {
            return self.database();
        }
        let unique = self.cursor.eat("unique");
        self.cursor
            .eat_any(&["online", "offline", "fulltext", "spatial", "vector"]);
        if !self.cursor.eat("index") {
            return Ok(Statement::Other);
        }
        self.cursor.eat_all(&["if", "not", "exists"]);
        let index = self.cursor.name()?;
        while !self.cursor.is_end() && !self.cursor.eat("on") {
            self.cursor.skip_one();
        }
        let name = self.table()?;
        let columns = column::parts(&mut self.cursor)?;
        let key = unique.then_some(KeyDefinition {
            name: Some(index),
            primary: false,
            columns,
        });
        Ok(Statement::CreateIndex { name, key })
    }

    fn create_table(&mut self) -> Result<Statement, DdlError> {
        let if_not_exists = self.cursor.eat_all(&["if", "not", "exists"]);
        let name = self.table()?;
        self.create_table_of(name.clone(), if_not_exists)
            .map_err(|error| of_table(error, &name))
    }

    fn create_table_of(
        &mut self,
        name: TableName,
        if_not_exists: bool,
    ) -> Result<Statement, DdlError> {
        if self.cursor.eat("like") {
            let like = self.table()?;
            return Ok(Statement::CreateTableLike {
                name,
                like,
                if_not_exists,
            });
        }
        if self.cursor.is_mark('(') && self.cursor.is_at(1, "like") {
            self.cursor.need_mark('(')?;
            self.cursor.eat("like");
            let like = self.table()?;
            return Ok(Statement::CreateTableLike {
                name,
                like,
                if_not_exists,
            });
        }
        let (mut columns, mut keys) = (Vec::new(), Vec::new());
        if self.cursor.is_mark('(') && !self.cursor.is_at(1, "select") {
            self.cursor.need_mark('(')?;
            self.elements(&mut columns, &mut keys)?;
        }
        let options = self.options();
        let from_select = self.cursor.is("as") || self.cursor.is("select") || columns.is_empty();
        let table = CreateTable {
            name,
            if_not_exists,
            columns,
            keys,
            options,
            from_select,
        };
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn elements(
        &mut self,
        columns: &mut Vec<ColumnDefinition>,
        keys: &mut Vec<KeyDefinition>,
    ) -> Result<(), DdlError> {
        loop {
            if self.cursor.eat_all(&["period", "for"]) {
                self.cursor.skip_item();
            } else if let Some(key) = column::key(&mut self.cursor)? {
                keys.extend(key);
            } else {
                columns.push(column::definition(&mut self.cursor, self.style)?);
            }
            if self.cursor.mark(')') {
                return Ok(());
            }
            self.cursor.need_mark(',')?;
        }
    }

    /// Table options up to `AS`, `SELECT` or the end; those of no interest are passed by.
    pub fn options(&mut self) -> TableOptions {
        let mut options = TableOptions::default();
        while !self.cursor.is_end() && !self.cursor.is("as") && !self.cursor.is("select") {
            if !self.option(&mut options) {
                self.cursor.skip_one();
            }
        }
        options
    }

    /// Reads one option that matters; false when another starts here.
    pub fn option(&mut self, options: &mut TableOptions) -> bool {
        if self.cursor.eat_all(&["character", "set"]) || self.cursor.eat("charset") {
            self.cursor.mark('=');
            options.charset = self.word().map(|name| charset_name(&name));
        } else if self.cursor.eat("collate") {
            self.cursor.mark('=');
            options.collation = self.word().map(|name| name.to_ascii_lowercase());
            if options.charset.is_none() {
                options.charset = options.collation.as_deref().map(charset_of_collation);
            }
        } else if self.cursor.eat("comment") {
            self.cursor.mark('=');
            options.comment = self.word();
        } else if self.cursor.eat_all(&["with", "system", "versioning"]) {
            options.system_versioning = true;
        } else {
            return false;
        }
        true
    }

    fn word(&mut self) -> Option<String> {
        match self.cursor.advance() {
            Some(Token::Word(text) | Token::Quoted(text) | Token::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    fn database(&mut self) -> Result<Statement, DdlError> {
        self.cursor.eat_all(&["if", "not", "exists"]);
        // ALTER DATABASE may leave the name out: the session's then.
        let unnamed = [
            "character",
            "charset",
            "default",
            "collate",
            "comment",
            "read",
            "encryption",
        ]
        .iter()
        .any(|word| self.cursor.is(word));
        let name = if unnamed || self.cursor.is_end() {
            self.database.to_owned()
        } else {
            self.cursor.name()?
        };
        let charset = self.options().charset;
        Ok(Statement::Database {
            name,
            charset,
            dropped: false,
        })
    }

    fn alter(&mut self) -> Result<Statement, DdlError> {
        if self.cursor.eat_any(&["database", "schema"]) {
            return self.database();
        }
        while self.cursor.eat_any(&["online", "offline", "ignore"]) {}
        if !self.cursor.eat("table") {
            return Ok(Statement::Other);
        }
        self.cursor.eat_all(&["if", "exists"]);
        let name = self.table()?;
        // MariaDB: ALTER TABLE t WAIT n | NOWAIT.
        if self.cursor.eat("wait") {
            self.cursor.skip_one();
        }
        self.cursor.eat("nowait");
        match alter::actions(self) {
            Ok(actions) => Ok(Statement::AlterTable { name, actions }),
            Err(error) => Err(of_table(error, &name)),
        }
    }

    fn drop(&mut self) -> Result<Statement, DdlError> {
        if self.cursor.eat("temporary") {
            return Ok(Statement::Other);
        }
        if self.cursor.eat_any(&["database", "schema"]) {
            self.cursor.eat_all(&["if", "exists"]);
            let name = self.cursor.name()?;
            return Ok(Statement::Database {
                name,
                charset: None,
                dropped: true,
            });
        }
        while self.cursor.eat_any(&["online", "offline"]) {}
        if self.cursor.eat("index") {
            self.cursor.eat_all(&["if", "exists"]);
            let index = self.cursor.name()?;
            if !self.cursor.eat("on") {
                return self.cursor.fail("expected ON");
            }
            return Ok(Statement::DropIndex {
                name: self.table()?,
                index,
            });
        }
        if !self.cursor.eat_any(&["table", "tables"]) {
            return Ok(Statement::Other);
        }
        self.cursor.eat_all(&["if", "exists"]);
        let mut names = vec![self.table()?];
        while self.cursor.mark(',') {
            names.push(self.table()?);
        }
        Ok(Statement::DropTables { names })
    }

    fn rename(&mut self) -> Result<Statement, DdlError> {
        self.cursor.eat_all(&["if", "exists"]);
        let mut pairs = Vec::new();
        loop {
            let from = self.table()?;
            if self.cursor.eat("wait") {
                self.cursor.skip_one();
            }
            self.cursor.eat("nowait");
            if !self.cursor.eat("to") {
                return self.cursor.fail("expected TO");
            }
            pairs.push((from, self.table()?));
            if !self.cursor.mark(',') {
                return Ok(Statement::Rename { pairs });
            }
        }
    }
}

fn of_table(mut error: DdlError, name: &TableName) -> DdlError {
    error.table = Some((name.database.clone(), name.table.clone()));
    error
}
