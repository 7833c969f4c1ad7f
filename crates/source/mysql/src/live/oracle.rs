//! Asks the server what a table looks like now.

use super::server::{quote, settle};
use crate::capture::tables::Oracle;
use crate::config::{Endpoint, TlsConfig};
use crate::wire::{Connection, WireFailure};

/// A connection of its own, opened when it is first needed.
pub struct LiveOracle {
    endpoint: Endpoint,
    tls: TlsConfig,
    connection: Option<Connection>,
}

impl LiveOracle {
    pub fn new(endpoint: Endpoint, tls: TlsConfig) -> Self {
        Self {
            endpoint,
            tls,
            connection: None,
        }
    }

    fn ask(&mut self, database: &str, table: &str) -> Result<Option<String>, WireFailure> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let mut connection = Connection::open(&self.endpoint, &self.tls)?;
                settle(&mut connection)?;
                none.insert(connection)
            }
        };
        show_create(connection, database, table)
    }
}

/// The text of SHOW CREATE TABLE; none when the table is not there or is a view.
pub fn show_create(
    connection: &mut Connection,
    database: &str,
    table: &str,
) -> Result<Option<String>, WireFailure> {
    let sql = format!("SHOW CREATE TABLE {}.{}", quote(database), quote(table));
    match connection.texts(&sql) {
        Ok(row) => Ok(row
            .and_then(|row| row.into_iter().nth(1))
            .filter(|text| text.starts_with("CREATE TABLE") || text.starts_with("CREATE TEMP"))),
        Err(WireFailure::Server {
            code: 1146 | 1049, ..
        }) => Ok(None),
        Err(other) => Err(other),
    }
}

impl Oracle for LiveOracle {
    fn show_create(&mut self, database: &str, table: &str) -> Option<String> {
        for _ in 0..2 {
            match self.ask(database, table) {
                Ok(text) => return text,
                Err(error) => {
                    tracing::warn!(database, table, %error, "could not read the table's definition");
                    self.connection = None;
                }
            }
        }
        None
    }
}
