//! A statement that changes a schema, as a change in its place among the rows.

use crate::wire::{WireError, WireReader, put_bytes};

/// What a statement does, in the classes that message formats know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DdlKind {
    /// CREATE TABLE.
    CreateTable,
    /// ALTER TABLE that changes columns, partitions or options.
    AlterTable,
    /// DROP TABLE.
    DropTable,
    /// TRUNCATE TABLE.
    TruncateTable,
    /// RENAME TABLE, ALTER TABLE … RENAME TO.
    RenameTable,
    /// CREATE INDEX, ALTER TABLE … ADD INDEX.
    CreateIndex,
    /// DROP INDEX, ALTER TABLE … DROP INDEX.
    DropIndex,
    /// CREATE, ALTER or DROP DATABASE.
    Database,
    /// Anything else that the log carries as a statement.
    Other,
}

impl DdlKind {
    const ALL: [DdlKind; 9] = [
        DdlKind::CreateTable,
        DdlKind::AlterTable,
        DdlKind::DropTable,
        DdlKind::TruncateTable,
        DdlKind::RenameTable,
        DdlKind::CreateIndex,
        DdlKind::DropIndex,
        DdlKind::Database,
        DdlKind::Other,
    ];
}

/// One statement; its journal record has the table it changes (0 for none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ddl<'a> {
    /// Its class.
    pub kind: DdlKind,
    /// Database of the table it changes, else the session's; may be empty.
    pub database: &'a str,
    /// The table it changes, after a rename the new name; may be empty.
    pub table: &'a str,
    /// The table's old name (`database.table`), for a rename; else empty.
    pub renamed_from: &'a str,
    /// The statement as in the log, decoded to UTF-8.
    pub sql: &'a str,
    /// The session's charset, as the log names it; may be empty.
    pub charset: &'a str,
    /// The session's SQL mode bits, 0 when unknown.
    pub sql_mode: u64,
}

impl<'a> Ddl<'a> {
    /// Stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = DdlKind::ALL.iter().position(|kind| *kind == self.kind);
        out.push(kind.expect("every kind is listed") as u8);
        for text in [
            self.database,
            self.table,
            self.renamed_from,
            self.sql,
            self.charset,
        ] {
            put_bytes(out, text.as_bytes());
        }
        crate::wire::put_u64(out, self.sql_mode);
    }

    /// Reads the stored form.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut r = WireReader::new(bytes);
        let kind = DdlKind::ALL.get(usize::from(r.u8()?)).copied();
        Ok(Self {
            kind: kind.ok_or(WireError {
                offset: 0,
                what: "a known kind of statement",
            })?,
            database: r.text()?,
            table: r.text()?,
            renamed_from: r.text()?,
            sql: r.text()?,
            charset: r.text()?,
            sql_mode: r.u64()?,
        })
    }
}
