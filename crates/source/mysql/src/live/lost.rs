//! What became of the captured tables while a part of the log was lost.
//!
//! Nobody told of their statements: the tables are read again, and the difference is said as the
//! statements that make it, so that what follows statements follows these.

use super::oracle::show_create;
use super::server::quote;
use crate::capture::Capture;
use crate::wire::{Connection, WireFailure};
use change::{Batch, Column, Ddl, DdlKind, SchemaVersion, TableId, TableSchema};
use std::fmt::Write;
use std::sync::Arc;

/// Tables that are not what the journal says.
#[derive(Debug, Default)]
pub struct Found {
    gone: Vec<Arc<TableSchema>>,
    /// As it was, as it is.
    changed: Vec<(Arc<TableSchema>, Arc<TableSchema>)>,
}

impl Found {
    /// Reads every captured table's definition into the schema history.
    ///
    /// Errors: the connection's, also where the account may no longer see a table: it is not gone for
    /// that. A definition that cannot be read sets its table aside.
    pub fn read(capture: &mut Capture, connection: &mut Connection) -> Result<Self, WireFailure> {
        let mut found = Self::default();
        let mut known: Vec<_> = capture.catalog().iter().cloned().collect();
        known.sort_by_key(|schema| schema.table);
        for was in known {
            let (database, name) = (was.database.clone(), was.name.clone());
            if !capture.options().selection.matches(&database, &name) {
                // Read again when it is needed.
                capture.catalog_mut().remove(&database, &name);
                continue;
            }
            let Some(text) = show_create(connection, &database, &name)? else {
                capture.catalog_mut().remove(&database, &name);
                found.gone.push(was);
                continue;
            };
            match capture.catalog_mut().seed(&database, &text) {
                Ok(is) if is.version != was.version => found.changed.push((was, is)),
                Ok(_) => {}
                Err(error) => capture.cannot_read(format!("{database}.{name}"), &error),
            }
        }
        Ok(found)
    }

    /// Says it, into the open transaction; the new versions' schemas stand there already.
    pub fn announce(&self, capture: &mut Capture, batch: &mut Batch) {
        for schema in &self.gone {
            capture.announce_gone(&schema.database, &schema.name, batch);
            let sql = format!("DROP TABLE {}", name_of(schema));
            let kind = DdlKind::DropTable;
            put(batch, (schema.table, schema.version), kind, schema, &sql);
        }
        for (was, is) in &self.changed {
            let (was, is) = (capture.emitted_schema(was), capture.emitted_schema(is));
            let sql = alter(&was, &is);
            let kind = DdlKind::AlterTable;
            put(batch, (is.table, is.version), kind, &is, &sql);
        }
    }
}

fn put(
    batch: &mut Batch,
    (table, version): (TableId, SchemaVersion),
    kind: DdlKind,
    schema: &TableSchema,
    sql: &str,
) {
    let ddl = Ddl {
        kind,
        database: &schema.database,
        table: &schema.name,
        renamed_from: "",
        sql,
        charset: "utf8mb4",
        sql_mode: 0,
    };
    batch.ddl(table, version, &ddl);
}

fn name_of(schema: &TableSchema) -> String {
    format!("{}.{}", quote(&schema.database), quote(&schema.name))
}

/// The statement that makes one structure of the other. A column that was renamed is one that goes and one
/// that comes: nobody knows better, and its values come with the copy.
fn alter(was: &TableSchema, is: &TableSchema) -> String {
    let find = |schema: &TableSchema, name: &str| {
        let mut columns = schema.columns.iter();
        columns.position(|column| column.name.eq_ignore_ascii_case(name))
    };
    let mut actions = Vec::new();
    for column in &was.columns {
        if find(is, &column.name).is_none() {
            actions.push(format!("DROP COLUMN {}", quote(&column.name)));
        }
    }
    for (index, column) in is.columns.iter().enumerate() {
        let verb = match find(was, &column.name) {
            None => "ADD",
            Some(before) if was.columns[before] != *column => "MODIFY",
            Some(_) => continue,
        };
        let place = match index.checked_sub(1) {
            None => "FIRST".to_owned(),
            Some(before) => format!("AFTER {}", quote(&is.columns[before].name)),
        };
        actions.push(format!("{verb} COLUMN {} {place}", definition(column)));
    }
    let names = |schema: &TableSchema| -> Vec<String> {
        let key = schema.primary_key.iter();
        key.map(|index| schema.columns[*index as usize].name.clone())
            .collect()
    };
    if names(was) != names(is) {
        if !was.primary_key.is_empty() {
            actions.push("DROP PRIMARY KEY".to_owned());
        }
        let key: Vec<String> = names(is).iter().map(|name| quote(name)).collect();
        if !key.is_empty() {
            actions.push(format!("ADD PRIMARY KEY ({})", key.join(", ")));
        }
    }
    format!("ALTER TABLE {} {}", name_of(is), actions.join(", "))
        .trim_end()
        .to_owned()
}

fn definition(column: &Column) -> String {
    let mut text = format!("{} {}", quote(&column.name), column.declared);
    if let Some(charset) = &column.charset {
        let _ = write!(text, " CHARACTER SET {charset}");
    }
    if let Some(collation) = &column.collation {
        let _ = write!(text, " COLLATE {collation}");
    }
    text.push_str(match column.nullable {
        true => " NULL",
        false => " NOT NULL",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use source_mysql_ddl::{Catalog, CatalogOptions};

    fn difference(was: &str, is: &str) -> String {
        let mut catalog = Catalog::new(CatalogOptions::default());
        let mut schema = |text: &str| catalog.seed("shop", text).unwrap();
        let was = schema(was);
        alter(&was, &schema(is))
    }

    #[test]
    fn the_difference_is_one_statement() {
        let was = "CREATE TABLE `t` (`id` int NOT NULL, `v` int DEFAULT NULL, `goes` date DEFAULT NULL, \
                   PRIMARY KEY (`id`)) DEFAULT CHARSET=utf8mb4";
        assert_eq!(
            difference(
                was,
                "CREATE TABLE `t` (`new``one` varchar(9) NOT NULL, `id` int NOT NULL, `v` bigint \
                 unsigned NOT NULL, PRIMARY KEY (`id`,`v`)) DEFAULT CHARSET=utf8mb4"
            ),
            "ALTER TABLE `shop`.`t` DROP COLUMN `goes`, ADD COLUMN `new``one` varchar(9) CHARACTER SET \
             utf8mb4 NOT NULL FIRST, MODIFY COLUMN `v` bigint unsigned NOT NULL AFTER `id`, DROP \
             PRIMARY KEY, ADD PRIMARY KEY (`id`, `v`)"
        );
        // What no column shows is a statement too: the table is another one.
        let commented = format!("{was} COMMENT='x'");
        assert_eq!(difference(was, &commented), "ALTER TABLE `shop`.`t`");
    }
}
