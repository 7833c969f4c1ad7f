//! What a server is and where its log stands.

use crate::wire::{Connection, WireFailure};
use change::gtid::GtidError;
use change::position::{Gtids, file_number};
use change::{GtidSet, Position};
use source_mysql_ddl::CatalogOptions;

/// A server as it answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Server {
    /// `9.7.4`, `10.11.18-MariaDB-log`.
    pub version: String,
    /// MariaDB rather than MySQL.
    pub mariadb: bool,
    /// MySQL's UUID; empty for MariaDB.
    pub uuid: String,
    /// Its number in the replication.
    pub server_id: u32,
    /// MariaDB's domain.
    pub domain: u32,
    /// Whether transactions get GTIDs (always in MariaDB).
    pub has_gtids: bool,
    /// How it compares table names.
    pub lower_case_table_names: u8,
    /// Its default charset.
    pub charset: String,
    /// What of a row its binlog holds: `FULL`, `MINIMAL`, …
    pub row_image: String,
}

fn number<T: std::str::FromStr + Default>(text: Option<String>) -> T {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Quotes a name: `` ` `` in it is doubled.
pub fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text as an SQL literal that needs no escapes.
pub fn literal(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 x'{hex}'")
}

impl Server {
    /// Asks.
    pub fn read(connection: &mut Connection) -> Result<Self, WireFailure> {
        settle(connection)?;
        let mariadb = connection.mariadb;
        let mut server = Self {
            version: connection.version.clone(),
            mariadb,
            server_id: number(connection.text("SELECT @@server_id")?),
            lower_case_table_names: number(connection.text("SELECT @@lower_case_table_names")?),
            charset: connection
                .text("SELECT @@character_set_server")?
                .unwrap_or_default(),
            row_image: connection
                .text("SELECT @@global.binlog_row_image")?
                .unwrap_or_default(),
            has_gtids: mariadb,
            ..Self::default()
        };
        if mariadb {
            server.domain = number(connection.text("SELECT @@gtid_domain_id")?);
        } else {
            server.uuid = connection.text("SELECT @@server_uuid")?.unwrap_or_default();
            let mode = connection.text("SELECT @@gtid_mode")?.unwrap_or_default();
            server.has_gtids = mode.eq_ignore_ascii_case("ON");
        }
        Ok(server)
    }

    /// Why images may lack columns, and the statement that changes it.
    pub fn partial_images(&self) -> Option<String> {
        let persist = if self.mariadb { "GLOBAL" } else { "PERSIST" };
        (!self.row_image.eq_ignore_ascii_case("FULL")).then(|| {
            format!(
                "binlog_row_image is {}: unchanged columns are not in the log; hint: SET {persist} \
                 binlog_row_image = 'FULL'; then let the sessions of the writers connect anew, and run again",
                self.row_image
            )
        })
    }

    /// What is kept in the journal to know the server again.
    pub fn identity(&self) -> String {
        match self.mariadb {
            true => format!("mariadb {} {}", self.domain, self.server_id),
            false => format!("mysql {}", self.uuid),
        }
    }

    /// `mysql 9.7.4`.
    pub fn title(&self) -> String {
        match self.mariadb {
            true => format!("mariadb {}", self.version),
            false => format!("mysql {}", self.version),
        }
    }

    /// Major and minor version.
    pub fn numbers(&self) -> (u32, u32, u32) {
        let mut parts = self
            .version
            .split(|c: char| !c.is_ascii_digit())
            .map(|part| part.parse().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        (next(), next(), next())
    }

    /// Naming rules for the schema history.
    pub fn catalog_options(&self) -> CatalogOptions {
        CatalogOptions {
            lower_case_table_names: self.lower_case_table_names,
            mariadb: self.mariadb,
            display_width: self.mariadb || self.numbers() < (8, 0, 19),
            default_charset: self.charset.clone(),
        }
    }

    fn status_statement(&self) -> &'static str {
        if !self.mariadb && self.numbers() >= (8, 2, 0) {
            "SHOW BINARY LOG STATUS"
        } else {
            "SHOW MASTER STATUS"
        }
    }

    /// Where the log ends now, without GTIDs; none when there is no log.
    pub fn head_place(
        &self,
        connection: &mut Connection,
    ) -> Result<Option<(String, u64)>, WireFailure> {
        let row = connection.texts(self.status_statement())?;
        Ok(row.and_then(|row| Some((row.first()?.clone(), row.get(1)?.parse().ok()?))))
    }

    /// Where the log ends now.
    pub fn head(&self, connection: &mut Connection) -> Result<Option<Position>, WireFailure> {
        let Some(row) = connection.texts(self.status_statement())? else {
            return Ok(None);
        };
        let (Some(file), Some(offset)) = (row.first(), row.get(1)) else {
            return Ok(None);
        };
        let offset: u64 = offset.parse().unwrap_or(4);
        let bad = |_: GtidError| WireFailure::Protocol("a GTID set that cannot be read");
        let gtids = if self.mariadb {
            let sql = format!("SELECT BINLOG_GTID_POS({}, {offset})", literal(file));
            let text = connection.text(&sql)?.unwrap_or_default();
            Gtids::Mariadb(text.parse().map_err(bad)?)
        } else if self.has_gtids {
            let text = row.get(4).map(String::as_str).unwrap_or_default();
            Gtids::Mysql(text.parse().map_err(bad)?)
        } else {
            Gtids::None
        };
        Ok(Some(Position {
            file: file.clone(),
            offset,
            gtids,
        }))
    }

    /// MySQL's executed or purged set.
    pub fn gtid_set(
        &self,
        connection: &mut Connection,
        variable: &str,
    ) -> Result<GtidSet, WireFailure> {
        let text = connection
            .text(&format!("SELECT @@global.{variable}"))?
            .unwrap_or_default();
        text.parse()
            .map_err(|_| WireFailure::Protocol("a GTID set that cannot be read"))
    }
}

/// How a session is set that asks what there is: SHOW CREATE TABLE quotes as the mode says, so it has none.
pub fn settle(connection: &mut Connection) -> Result<(), WireFailure> {
    connection.execute("SET NAMES utf8mb4")?;
    connection.execute("SET SESSION sql_mode = ''")
}

/// The server's log files and their sizes, oldest first.
pub fn log_files(connection: &mut Connection) -> Result<Vec<(String, u64)>, WireFailure> {
    let mut files: Vec<(String, u64)> = connection
        .rows("SHOW BINARY LOGS")?
        .into_iter()
        .filter_map(|row| {
            let mut cells = row.into_iter().flatten();
            let name = String::from_utf8(cells.next()?).ok()?;
            let size = String::from_utf8(cells.next()?).ok()?.parse().ok()?;
            Some((name, size))
        })
        .collect();
    files.sort_by_key(|(name, _)| file_number(name));
    Ok(files)
}

/// All tables: database, name, and how many rows it is thought to have.
pub fn tables(connection: &mut Connection) -> Result<Vec<(String, String, u64)>, WireFailure> {
    let rows = connection.rows(
        "SELECT table_schema, table_name, IFNULL(table_rows, 0) FROM information_schema.tables \
         WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1, 2",
    )?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            let mut cells = row.into_iter();
            let mut text = || {
                cells
                    .next()
                    .flatten()
                    .and_then(|b| String::from_utf8(b).ok())
            };
            Some((text()?, text()?, text()?.parse().unwrap_or(0)))
        })
        .collect())
}
