//! One session: statements and their results.

use super::binary::{BinaryColumn, BinaryRow};
use super::error::WireFailure;
use super::handshake::{self, server_error};
use super::transport::Transport;
use crate::binlog::bytes::Bytes;
use crate::config::{Endpoint, TlsConfig, TlsMode};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a statement may be silent.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(600);

mod command {
    pub const QUERY: u8 = 3;
    pub const PREPARE: u8 = 22;
    pub const EXECUTE: u8 = 23;
    pub const CLOSE: u8 = 25;
}

/// One row of a text result, owned; for the small results of questions about the server.
pub type Row = Vec<Option<Vec<u8>>>;

/// A session on a server.
#[derive(Debug)]
pub struct Connection {
    pub(super) transport: Transport,
    /// The server's version as it greets.
    pub version: String,
    /// Whether it is MariaDB.
    pub mariadb: bool,
    deprecate_eof: bool,
}

/// How a result ended.
enum Reply {
    /// It had no rows.
    Ok,
    /// Its count of columns.
    Columns(usize),
}

impl Connection {
    /// Connects and logs in.
    ///
    /// Promises: `preferred` goes on in clear where TLS cannot be agreed on, as the servers' own
    /// clients do; every other mode fails then.
    pub fn open(endpoint: &Endpoint, tls: &TlsConfig) -> Result<Self, WireFailure> {
        match Self::open_once(endpoint, tls) {
            Err(WireFailure::Tls(detail)) if tls.mode == TlsMode::Preferred => {
                tracing::debug!(detail, "no TLS with this server, going on in clear");
                let clear = TlsConfig {
                    mode: TlsMode::Disabled,
                    ..tls.clone()
                };
                Self::open_once(endpoint, &clear)
            }
            other => other,
        }
    }

    fn open_once(endpoint: &Endpoint, tls: &TlsConfig) -> Result<Self, WireFailure> {
        let socket = connect(endpoint)?;
        socket.set_nodelay(true)?;
        let mut transport = Transport::new(socket);
        transport.set_timeout(Some(CONNECT_TIMEOUT))?;
        let (greeting, deprecate_eof) = handshake::login(&mut transport, endpoint, tls)?;
        transport.set_timeout(Some(STATEMENT_TIMEOUT))?;
        let mariadb = greeting.version.contains("MariaDB");
        // MariaDB puts a version of its own before the real one for old clients.
        let version = greeting
            .version
            .strip_prefix("5.5.5-")
            .unwrap_or(&greeting.version)
            .to_owned();
        Ok(Self {
            transport,
            version,
            mariadb,
            deprecate_eof,
        })
    }

    /// Executes a statement whose rows, if any, do not matter.
    pub fn execute(&mut self, sql: &str) -> Result<(), WireFailure> {
        self.each_row(sql, |_| Ok(()))
    }

    /// All rows of a small result.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Row>, WireFailure> {
        let mut rows = Vec::new();
        self.each_row(sql, |row| {
            rows.push(row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect());
            Ok(())
        })?;
        Ok(rows)
    }

    /// The first row of a result, as texts; NULL is an empty text.
    pub fn texts(&mut self, sql: &str) -> Result<Option<Vec<String>>, WireFailure> {
        let row = self.rows(sql)?.into_iter().next();
        Ok(row.map(|row| {
            row.into_iter()
                .map(|cell| String::from_utf8_lossy(&cell.unwrap_or_default()).into_owned())
                .collect()
        }))
    }

    /// The first cell of a result; none where there is no row or it is NULL.
    pub fn text(&mut self, sql: &str) -> Result<Option<String>, WireFailure> {
        let row = self.rows(sql)?.into_iter().next();
        Ok(row
            .and_then(|row| row.into_iter().next().flatten())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Executes a statement and hands every row over in place.
    pub fn each_row(
        &mut self,
        sql: &str,
        mut each: impl FnMut(&[Option<&[u8]>]) -> Result<(), WireFailure>,
    ) -> Result<(), WireFailure> {
        let message = [&[command::QUERY], sql.as_bytes()].concat();
        self.transport.send(true, &message)?;
        let columns = match self.reply()? {
            Reply::Ok => return Ok(()),
            Reply::Columns(columns) => columns,
        };
        self.skip_definitions(columns)?;
        let deprecate_eof = self.deprecate_eof;
        loop {
            let message = self.transport.receive()?;
            if ends(message, deprecate_eof)? {
                return Ok(());
            }
            let mut b = Bytes::new(message);
            let mut row = Vec::with_capacity(columns);
            for _ in 0..columns {
                row.push(if b.rest().first() == Some(&0xfb) {
                    b.u8("NULL")?;
                    None
                } else {
                    Some(b.lenenc_bytes("a cell")?)
                });
            }
            each(&row)?;
        }
    }

    /// Executes a SELECT by the binary protocol and hands every row over in place.
    ///
    /// Shape: `each` is given the columns' types and the row; `false` ends the reading early, the
    /// rest of the rows is passed over.
    pub fn each_binary_row(
        &mut self,
        sql: &str,
        mut each: impl FnMut(&[BinaryColumn], BinaryRow<'_>) -> Result<bool, WireFailure>,
    ) -> Result<(), WireFailure> {
        let statement = self.prepare(sql)?;
        let mut message = vec![command::EXECUTE];
        message.extend_from_slice(&statement.to_le_bytes());
        message.push(0);
        message.extend_from_slice(&1u32.to_le_bytes());
        self.transport.send(true, &message)?;
        self.transport.enlarge();
        let count = match self.reply()? {
            Reply::Ok => 0,
            Reply::Columns(columns) => columns,
        };
        let columns = self.definitions(count)?;
        let mut wanted = true;
        let deprecate_eof = self.deprecate_eof;
        loop {
            if count == 0 {
                break;
            }
            let message = self.transport.receive()?;
            if ends(message, deprecate_eof)? {
                break;
            }
            if wanted {
                wanted = each(&columns, BinaryRow::new(message, count)?)?;
            }
        }
        let mut close = vec![command::CLOSE];
        close.extend_from_slice(&statement.to_le_bytes());
        self.transport.send(true, &close)
    }

    fn prepare(&mut self, sql: &str) -> Result<u32, WireFailure> {
        let message = [&[command::PREPARE], sql.as_bytes()].concat();
        self.transport.send(true, &message)?;
        let message = self.transport.receive()?;
        if message.first() == Some(&0xff) {
            return Err(server_error(message));
        }
        let mut b = Bytes::new(message);
        b.u8("status")?;
        let statement = b.u32("statement")?;
        let columns = usize::from(b.u16("columns")?);
        let parameters = usize::from(b.u16("parameters")?);
        self.skip_definitions(parameters)?;
        self.skip_definitions(columns)?;
        Ok(statement)
    }

    fn reply(&mut self) -> Result<Reply, WireFailure> {
        let message = self.transport.receive()?;
        match message.first() {
            Some(0) => Ok(Reply::Ok),
            Some(0xff) => Err(server_error(message)),
            Some(0xfb) | None => Err(WireFailure::Protocol("a request for a file")),
            Some(_) => Ok(Reply::Columns(Bytes::new(message).count("columns")?)),
        }
    }

    fn skip_definitions(&mut self, count: usize) -> Result<(), WireFailure> {
        self.definitions(count).map(drop)
    }

    fn definitions(&mut self, count: usize) -> Result<Vec<BinaryColumn>, WireFailure> {
        let mut columns = Vec::with_capacity(count.min(4096));
        for _ in 0..count {
            let message = self.transport.receive()?;
            if message.first() == Some(&0xff) {
                return Err(server_error(message));
            }
            columns.push(BinaryColumn::read(message)?);
        }
        if count > 0 && !self.deprecate_eof {
            self.transport.receive()?;
        }
        Ok(columns)
    }

    /// Ends both directions, so that a blocked read elsewhere returns.
    pub fn shutdown(&self) {
        self.transport.shutdown();
    }
}

/// Whether a message ends the rows.
fn ends(message: &[u8], deprecate_eof: bool) -> Result<bool, WireFailure> {
    match message.first() {
        Some(0xff) => Err(server_error(message)),
        // A row of one huge cell begins with 0xfe too, but is longer than any end.
        Some(0xfe) if deprecate_eof => Ok(message.len() < 0xff_ffff),
        Some(0xfe) => Ok(message.len() < 9),
        _ => Ok(false),
    }
}

fn connect(endpoint: &Endpoint) -> Result<TcpStream, WireFailure> {
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in (endpoint.host.as_str(), endpoint.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last.into())
}
