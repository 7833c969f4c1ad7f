//! SQL over a client that is not ours.

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row};

/// Error numbers that a random workload meets: the row is there already, deadlock, lock wait timeout,
/// no such savepoint (after a deadlock).
const PASSING: [u16; 4] = [1062, 1213, 1205, 1305];

/// How a statement of a random workload went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    /// Done.
    Done,
    /// Refused; the transaction goes on.
    Refused,
    /// The server rolled the transaction back.
    RolledBack,
}

/// A connection.
pub struct Sql(Conn);

impl Sql {
    /// As root over TCP.
    pub fn root(port: u16) -> Self {
        Self::connect(port, "root", "").expect("root can connect")
    }

    /// As anybody.
    pub fn connect(port: u16, user: &str, password: &str) -> Result<Self, String> {
        let options = OptsBuilder::new()
            .ip_or_hostname(Some("127.0.0.1"))
            .tcp_port(port)
            .user(Some(user))
            .pass(Some(password))
            .prefer_socket(false)
            .max_allowed_packet(Some(64 << 20))
            .init(vec!["SET NAMES utf8mb4, time_zone = '+00:00'"]);
        Conn::new(options)
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// Runs statements that must succeed; several are split at `;` before a blank or a line break.
    pub fn exec(&mut self, statements: &str) {
        for statement in statements.split("; ").flat_map(|part| part.split(";\n")) {
            let statement = statement.trim().trim_end_matches(';');
            if statement.is_empty() {
                continue;
            }
            if let Err(error) = self.0.query_drop(statement) {
                let shown: String = statement.chars().take(300).collect();
                panic!("{error}\n  in: {shown}");
            }
        }
    }

    /// All rows of a query, each cell's text as the server sends it.
    pub fn select(&mut self, query: &str) -> Vec<Vec<Option<Vec<u8>>>> {
        let rows: Vec<Row> = self.0.query(query).expect("the query is right");
        let cell = |value: mysql::Value| match value {
            mysql::Value::NULL => None,
            mysql::Value::Bytes(bytes) => Some(bytes),
            other => panic!("a text result has only bytes, not {other:?}"),
        };
        rows.into_iter()
            .map(|row| row.unwrap().into_iter().map(cell).collect())
            .collect()
    }

    /// Runs statements as they are.
    pub fn exec_each(&mut self, statements: &[String]) {
        for statement in statements {
            if let Err(error) = self.0.query_drop(statement) {
                let shown: String = statement.chars().take(300).collect();
                panic!("{error}\n  in: {shown}");
            }
        }
    }

    /// Runs a statement that may be refused for what other writers did.
    pub fn attempt(&mut self, statement: &str) -> Went {
        match self.0.query_drop(statement) {
            Ok(()) => Went::Done,
            Err(mysql::Error::MySqlError(error)) if PASSING.contains(&error.code) => {
                match error.code {
                    1062 => Went::Refused,
                    _ => Went::RolledBack,
                }
            }
            Err(error) => {
                let shown: String = statement.chars().take(300).collect();
                panic!("{error}\n  in: {shown}");
            }
        }
    }

    /// One row's values as text, `NULL` for null.
    pub fn row(&mut self, query: &str) -> Vec<String> {
        let row: Option<Row> = self.0.query_first(query).expect("the query is right");
        let values = row.expect("there is a row").unwrap();
        values.into_iter().map(text).collect()
    }

    /// One value as text.
    pub fn value(&mut self, query: &str) -> String {
        self.row(query).swap_remove(0)
    }

    /// One number.
    pub fn number(&mut self, query: &str) -> u64 {
        self.value(query).parse().expect("it is a number")
    }

    /// The connection itself.
    pub fn conn(&mut self) -> &mut Conn {
        &mut self.0
    }
}

fn text(value: mysql::Value) -> String {
    match value {
        mysql::Value::NULL => "NULL".into(),
        mysql::Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => other.as_sql(true),
    }
}
