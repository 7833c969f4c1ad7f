//! Every table as it looks at the place reached in the log.

use crate::column_type::TypeStyle;
use crate::statement::{self, Statement, TableName};
use crate::{DdlError, apply};
use change::{DdlKind, SchemaVersion, TableId, TableSchema};
use std::collections::HashMap;
use std::sync::Arc;

/// What the server is like, as far as statements depend on it.
#[derive(Debug, Clone, Default)]
pub struct CatalogOptions {
    /// The server's variable: 0 compares names by case, 1 and 2 do not (1 stores them lower case).
    pub lower_case_table_names: u8,
    /// MariaDB rather than MySQL.
    pub mariadb: bool,
    /// Integers keep their display width: MariaDB, and MySQL before 8.0.19.
    pub display_width: bool,
    /// Charset of databases that name none, e.g. `utf8mb4`.
    pub default_charset: String,
}

/// The session that executed a statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Session<'a> {
    /// Its default database; may be empty.
    pub database: &'a str,
    /// Its SQL mode bits.
    pub sql_mode: u64,
    /// Its charset; the statement is UTF-8 here already.
    pub charset: &'a str,
}

/// What a statement did to one table or database.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The statement's class.
    pub kind: DdlKind,
    /// Database of the table (after a rename, the new one).
    pub database: String,
    /// The table (after a rename, the new name); empty for a database.
    pub table: String,
    /// `database.table` before a rename; else empty.
    pub renamed_from: String,
    /// The new version, if the statement made one.
    pub schema: Option<Arc<TableSchema>>,
    /// The table is gone.
    pub gone: bool,
    /// The table is not in the catalog, or its columns come from a SELECT: it has to be read from the
    /// server.
    pub unknown_table: bool,
}

/// The tables; see the module's page. A [`TableId`] belongs to a (database, name) pair for ever;
/// versions rise.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) options: CatalogOptions,
    pub(crate) tables: HashMap<(String, String), Arc<TableSchema>>,
    /// Ids and last versions, also of tables that are gone.
    ids: HashMap<(String, String), (TableId, SchemaVersion)>,
    pub(crate) database_charsets: HashMap<String, String>,
    next_id: u32,
}

impl Catalog {
    /// An empty catalog.
    pub fn new(options: CatalogOptions) -> Self {
        Self {
            options,
            tables: HashMap::new(),
            ids: HashMap::new(),
            database_charsets: HashMap::new(),
            next_id: 1,
        }
    }

    pub(crate) fn key(&self, database: &str, table: &str) -> (String, String) {
        match self.options.lower_case_table_names {
            0 => (database.to_owned(), table.to_owned()),
            _ => (database.to_lowercase(), table.to_lowercase()),
        }
    }

    /// The table as it is now.
    pub fn get(&self, database: &str, table: &str) -> Option<&Arc<TableSchema>> {
        self.tables.get(&self.key(database, table))
    }

    /// All tables that exist now, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables.values()
    }

    /// Tells a database's default charset.
    pub fn set_database_charset(&mut self, database: &str, charset: &str) {
        let key = self.key(database, "").0;
        self.database_charsets
            .insert(key, crate::column::charset_name(charset));
    }

    pub(crate) fn database_charset(&self, database: &str) -> String {
        let key = self.key(database, "").0;
        self.database_charsets
            .get(&key)
            .unwrap_or(&self.options.default_charset)
            .clone()
    }

    /// Takes back a stored version with its id; the highest version of a table stays in force.
    pub fn insert(&mut self, schema: TableSchema) {
        let key = self.key(&schema.database, &schema.name);
        self.next_id = self.next_id.max(schema.table.0 + 1);
        let newest = self
            .ids
            .get(&key)
            .is_none_or(|(_, version)| *version < schema.version);
        if newest {
            self.ids.insert(key.clone(), (schema.table, schema.version));
            self.tables.insert(key, Arc::new(schema));
        }
    }

    /// Forgets a table that is gone; its id stays its own.
    pub fn remove(&mut self, database: &str, table: &str) -> Option<Arc<TableSchema>> {
        let key = self.key(database, table);
        self.tables.remove(&key)
    }

    /// Puts a table in force; `table` and `version` of `schema` are ignored. A new version is given
    /// out only if something differs from the one in force.
    pub fn put(&mut self, mut schema: TableSchema) -> Arc<TableSchema> {
        if self.options.lower_case_table_names == 1 {
            schema.database = schema.database.to_lowercase();
            schema.name = schema.name.to_lowercase();
        }
        let key = self.key(&schema.database, &schema.name);
        if let Some(now) = self.tables.get(&key) {
            (schema.table, schema.version) = (now.table, now.version);
            if **now == schema {
                return Arc::clone(now);
            }
        }
        let next_id = &mut self.next_id;
        let (id, version) = self.ids.entry(key.clone()).or_insert_with(|| {
            *next_id += 1;
            (TableId(*next_id - 1), SchemaVersion(0))
        });
        version.0 += 1;
        (schema.table, schema.version) = (*id, *version);
        let schema = Arc::new(schema);
        self.tables.insert(key, Arc::clone(&schema));
        schema
    }

    pub(crate) fn style(&self) -> TypeStyle {
        TypeStyle {
            mariadb: self.options.mariadb,
            display_width: self.options.display_width,
            real_as_float: false,
        }
    }

    /// Puts a table in force from the text of SHOW CREATE TABLE.
    ///
    /// Errors: [`DdlError`] when the text cannot be read.
    pub fn seed(
        &mut self,
        database: &str,
        show_create_table: &str,
    ) -> Result<Arc<TableSchema>, DdlError> {
        match statement::parse(show_create_table, database, 0, self.style())? {
            Statement::CreateTable(create) if !create.from_select => {
                Ok(self.put(apply::created(self, &create)?))
            }
            _ => Err(DdlError {
                offset: 0,
                what: "this creates no table".into(),
                table: None,
            }),
        }
    }

    /// Applies one statement of the log.
    ///
    /// Promises: one effect per table that it touches; nothing for statements that change no schema
    /// (their effect has kind `Other`). Temporary tables are passed by.
    /// Errors: [`DdlError`] when a statement on a table cannot be read, with the table where that
    /// much could be read; the catalog is unchanged then.
    pub fn apply(&mut self, sql: &str, session: &Session<'_>) -> Result<Vec<Effect>, DdlError> {
        let statement = statement::parse(sql, session.database, session.sql_mode, self.style())?;
        apply::statement(self, statement)
    }

    pub(crate) fn lookup(&self, name: &TableName) -> Option<Arc<TableSchema>> {
        self.get(&name.database, &name.table).cloned()
    }
}
