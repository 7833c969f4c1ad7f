//! Statements of the log: transaction control and DDL.

use super::xa::normal_xid;
use super::{Capture, Outcome};
use crate::binlog::charset::{self, Charset};
use crate::binlog::header::EventHeader;
use crate::binlog::query::{self, Meaning, Query};
use crate::binlog::{header, inflate};
use change::{Batch, Ddl, DdlKind, SchemaVersion, TableId, TableSchema};
use source_mysql_ddl::{DdlError, Effect, Session};
use std::sync::Arc;

/// A statement, decoded to UTF-8.
struct Statement<'a> {
    sql: &'a str,
    database: &'a str,
    charset: &'a str,
    sql_mode: u64,
}

impl Capture {
    pub(super) fn compressed_statement(
        &mut self,
        header: &EventHeader,
        body: &[u8],
        batch: &mut Batch,
    ) -> Outcome {
        // Only the text behind the fixed part is compressed.
        let plain = query::read(body)?;
        let mut whole = body[..body.len() - plain.sql.len()].to_vec();
        inflate::mariadb_event(plain.sql, &mut whole, self.options.event_bytes_max)?;
        self.statement(header, &whole, batch)
    }

    pub(super) fn statement(
        &mut self,
        header: &EventHeader,
        body: &[u8],
        batch: &mut Batch,
    ) -> Outcome {
        let query = query::read(body)?;
        self.open_if_none(header);
        if self.header.thread_id == 0 {
            self.header.thread_id = query.thread_id;
        }
        // The common case, without decoding anything.
        if query.sql == b"BEGIN" {
            self.tx.explicit = true;
            return Ok(());
        }
        let sql = decode(&query);
        let sql = query::without_settings(&sql);
        match query::meaning(sql) {
            Meaning::Begin => self.tx.explicit = true,
            Meaning::Commit => return self.commit(header, 0, batch),
            Meaning::Rollback => return self.roll_back(header, batch),
            Meaning::Savepoint => {
                self.tx.savepoint_rows.get_or_insert(self.tx.rows);
            }
            Meaning::RollbackTo => self.roll_back_to(header, batch),
            Meaning::XaStart(xid) => {
                let xid = normal_xid(xid);
                self.xa.start(&xid);
                self.tx.explicit = true;
                self.tx.xa = Some(xid);
            }
            Meaning::XaEnd => {}
            Meaning::XaCommit(xid) => return self.xa_commit(header, xid, batch),
            Meaning::XaRollback(xid) => return self.xa_roll_back(header, xid, batch),
            Meaning::StatementBased => {
                let sql = query::skip_comments(sql);
                self.park_written(header, &query, sql, batch);
            }
            Meaning::Other => return self.ddl(header, &query, sql, batch),
        }
        Ok(())
    }

    /// A change whose rows the log does not hold: the captured tables that it names are set aside.
    fn park_written(
        &mut self,
        header: &EventHeader,
        query: &Query<'_>,
        sql: &str,
        batch: &mut Batch,
    ) {
        let database = String::from_utf8_lossy(query.database);
        let ansi_quotes = query.sql_mode & source_mysql_ddl::MODE_ANSI_QUOTES != 0;
        let names = super::touched::names(sql, &database, ansi_quotes);
        let selection = &self.options.selection;
        let known = names
            .iter()
            .filter_map(|(database, table)| self.catalog.get(database, table))
            .filter(|schema| selection.matches(&schema.database, &schema.name))
            .cloned()
            .collect::<Vec<_>>();
        let word = statement_word(sql);
        // A table that the schema history does not know cannot be told from other names.
        if known.is_empty() && names.iter().any(|(d, t)| selection.matches(d, t)) {
            self.statement_based(header, word, batch);
        }
        for schema in known {
            let name = format!("{}.{}", schema.database, schema.name);
            let reason = format!(
                "{word} is in the log as a statement, not as rows (binlog_format was not ROW): set \
                 binlog_format = ROW, then headwater heal CONFIG {name} --resnapshot"
            );
            self.park_for_statement(header, &schema, (word, &reason), batch);
        }
    }

    /// Sets a table aside for a statement whose rows are not known.
    fn park_for_statement(
        &mut self,
        header: &EventHeader,
        schema: &TableSchema,
        (word, reason): (&str, &str),
        batch: &mut Batch,
    ) {
        self.begin(batch);
        self.announce_schema(schema, batch);
        self.park(
            &format!("{}.{}", schema.database, schema.name),
            reason,
            batch,
        );
        let table = (schema.table, schema.version);
        self.put_statement(header, (word, reason), table, batch);
    }

    /// CREATE TABLE … SELECT as one statement: under ROW the log holds the rows on their own.
    fn park_filled(&mut self, header: &EventHeader, effects: &[Effect], batch: &mut Batch) {
        for effect in effects {
            let schema = self.catalog.get(&effect.database, &effect.table).cloned();
            let Some(schema) = schema.filter(|schema| {
                let selection = &self.options.selection;
                selection.matches(&schema.database, &schema.name)
            }) else {
                continue;
            };
            let name = format!("{}.{}", schema.database, schema.name);
            let reason = format!(
                "it was filled by CREATE TABLE … SELECT, which is in the log as a statement, not as rows \
                 (binlog_format was not ROW): headwater heal CONFIG {name} --resnapshot copies its rows"
            );
            self.park_for_statement(header, &schema, ("CREATE", &reason), batch);
        }
    }

    /// Rows after a savepoint stay in the log only if a table without transactions is among them;
    /// which of them stand cannot be told.
    fn roll_back_to(&mut self, header: &EventHeader, batch: &mut Batch) {
        if self
            .tx
            .savepoint_rows
            .is_some_and(|rows| rows < self.tx.rows)
        {
            self.statement_based(header, "ROLLBACK TO a savepoint after rows", batch);
        }
    }

    fn xa_commit(&mut self, header: &EventHeader, xid: &str, batch: &mut Batch) -> Outcome {
        let named = normal_xid(xid);
        let xid = self.tx.completed_xa.take().unwrap_or(named);
        self.replay(header, &xid, batch)?;
        self.commit(header, 0, batch)
    }

    fn xa_roll_back(&mut self, header: &EventHeader, xid: &str, batch: &mut Batch) -> Outcome {
        let named = normal_xid(xid);
        let xid = self.tx.completed_xa.take().unwrap_or(named);
        self.tx.xa = None;
        if self.xa.take(&xid).is_some() {
            self.forget_xa(header, &xid, batch);
        }
        self.commit(header, 0, batch)
    }

    fn ddl(
        &mut self,
        header: &EventHeader,
        query: &Query<'_>,
        sql: &str,
        batch: &mut Batch,
    ) -> Outcome {
        let database = String::from_utf8_lossy(query.database);
        let charset = charset::name_of_collation(u32::from(query.client_charset)).unwrap_or("");
        let statement = Statement {
            sql,
            database: &database,
            charset,
            sql_mode: query.sql_mode,
        };
        let session = Session {
            database: &database,
            sql_mode: query.sql_mode,
            charset,
        };
        match self.catalog.apply(sql, &session) {
            Ok(effects) => {
                for effect in &effects {
                    self.effect(effect, &statement, batch);
                }
                let ansi_quotes = query.sql_mode & source_mysql_ddl::MODE_ANSI_QUOTES != 0;
                if super::touched::is_filled(sql, ansi_quotes) {
                    self.park_filled(header, &effects, batch);
                }
            }
            Err(error) => self.unreadable(&error, &statement, batch),
        }
        let opens = sql
            .trim_end()
            .to_ascii_uppercase()
            .ends_with("START TRANSACTION");
        if self.tx.explicit || opens {
            self.tx.explicit = true;
            return Ok(());
        }
        self.commit(header, 0, batch)
    }

    fn effect(&mut self, effect: &Effect, statement: &Statement<'_>, batch: &mut Batch) {
        let selection = &self.options.selection;
        let selected = if effect.table.is_empty() {
            effect.kind != DdlKind::Other && selection.touches_database(&effect.database)
        } else {
            let before = effect.renamed_from.split_once('.');
            selection.matches(&effect.database, &effect.table)
                || before.is_some_and(|(database, table)| selection.matches(database, table))
        };
        if effect.kind != DdlKind::Other {
            self.tables.forget();
        }
        if !selected {
            return;
        }
        let mut schema = effect.schema.clone();
        if effect.unknown_table && !effect.table.is_empty() {
            schema = self.reread(&effect.database, &effect.table).or(schema);
        }
        if schema.is_none() && !effect.table.is_empty() {
            schema = self.catalog.get(&effect.database, &effect.table).cloned();
        }
        self.put_ddl(effect, schema, statement, batch);
    }

    fn put_ddl(
        &mut self,
        effect: &Effect,
        schema: Option<Arc<TableSchema>>,
        statement: &Statement<'_>,
        batch: &mut Batch,
    ) {
        self.begin(batch);
        if effect.gone {
            self.announce_gone(&effect.database, &effect.table, batch);
        }
        let renamed = effect.renamed_from.split_once('.');
        let former = renamed.and_then(|(database, table)| self.last_version(database, table));
        if let Some((database, table)) = renamed {
            self.announce_gone(database, table, batch);
        }
        let (table, version) = match &schema {
            Some(schema) => {
                self.announce_schema(schema, batch);
                (schema.table, schema.version)
            }
            None => self
                .last_version(&effect.database, &effect.table)
                .unwrap_or((TableId(0), SchemaVersion(0))),
        };
        let selection = &self.options.selection;
        let is_captured = selection.matches(&effect.database, &effect.table);
        if let Some(gate) = &mut self.gate {
            gate.ddl((table.0 != 0).then_some(table));
            if let Some((former, _)) = former {
                gate.renamed(former, schema.as_deref().filter(|_| is_captured));
            }
        }
        batch.ddl(
            table,
            version,
            &Ddl {
                kind: effect.kind,
                database: if effect.database.is_empty() {
                    statement.database
                } else {
                    &effect.database
                },
                table: &effect.table,
                renamed_from: &effect.renamed_from,
                sql: statement.sql,
                charset: statement.charset,
                sql_mode: statement.sql_mode,
            },
        );
        if let Some((database, name)) = renamed
            && is_captured
            && !self.options.selection.matches(database, name)
            && !is_ghost_of(name, &effect.table)
        {
            let to = format!("{}.{}", effect.database, effect.table);
            let reason = format!(
                "it was {database}.{name}, which is not captured, and came with its rows: headwater heal \
                 CONFIG {to} --resnapshot copies them"
            );
            self.park(&to, &reason, batch);
        }
    }

    /// A statement that the grammar cannot read: on a captured table the server is asked; the next
    /// table map decides whether the answer fits.
    fn unreadable(&mut self, error: &DdlError, statement: &Statement<'_>, batch: &mut Batch) {
        let Some((database, table)) = &error.table else {
            tracing::debug!(%error, "statement passed by");
            return;
        };
        if !self.options.selection.matches(database, table) {
            return;
        }
        self.tables.forget();
        let schema = self.reread(database, table);
        if schema.is_none() {
            self.trouble = format!(
                "a statement on {database}.{table} at {}:{} could not be read ({error})",
                self.header.file, self.event_start
            );
        }
        let schema = schema.or_else(|| self.catalog.get(database, table).cloned());
        let effect = Effect {
            kind: DdlKind::AlterTable,
            database: database.clone(),
            table: table.clone(),
            renamed_from: String::new(),
            schema: None,
            gone: false,
            unknown_table: true,
        };
        self.put_ddl(&effect, schema, statement, batch);
    }

    fn reread(&mut self, database: &str, table: &str) -> Option<Arc<TableSchema>> {
        let text = self.oracle.as_mut()?.show_create(database, table)?;
        self.catalog.seed(database, &text).ok()
    }
}

/// Whether a table is the one that an online schema change (gh-ost: `_t_gho`, pt-osc: `_t_new`) has
/// filled to take the place of `table`: it has the same rows.
fn is_ghost_of(name: &str, table: &str) -> bool {
    let bare = name.trim_start_matches('_');
    let ends = ["_gho", "_new"];
    name.starts_with('_')
        && ends
            .iter()
            .any(|end| bare.strip_suffix(end) == Some(table.trim_start_matches('_')))
}

fn decode<'a>(query: &Query<'a>) -> std::borrow::Cow<'a, str> {
    let charset = match query.client_charset {
        0 => Charset::Utf8,
        number => Charset::of_collation(u32::from(number)),
    };
    match (charset, std::str::from_utf8(query.sql)) {
        (Charset::Utf8 | Charset::Ascii | Charset::Binary | Charset::Unknown, Ok(text)) => {
            text.into()
        }
        (_, Ok(text)) if text.is_ascii() => text.into(),
        _ => charset.decode_lossy(query.sql).into(),
    }
}

/// The first word of a statement, for messages: never its values.
fn statement_word(sql: &str) -> &str {
    let sql = query::skip_comments(sql);
    sql.split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .filter(|word| word.len() < header::HEADER_BYTES)
        .unwrap_or("a change")
}
