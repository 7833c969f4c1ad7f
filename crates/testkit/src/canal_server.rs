//! The Canal server 1.1.7, run on the same binlog: the oracle for Canal JSON.
//!
//! What it writes depends on the server, apart from `id` and `ts`, which are Canal's own:
//!
//! - MySQL 8.0 and 9.7: as one expects.
//! - MariaDB 10.11: before each statement's rows stands a message of type `QUERY` with the statement's
//!   text, no database and no table. [`without_annotations`] leaves them out.
//! - MariaDB 11.4: Canal 1.1.7 cannot read its query events, and fails.

use crate::judge::{Answer, Judge};
use crate::{Flavour, MysqlServer};
use std::sync::OnceLock;
use std::time::Duration;

/// The account that Canal uses: its driver needs a password.
const USER: &str = "canal";

/// Canal servers in a JVM.
#[derive(Debug)]
pub struct CanalServer(Judge);

/// Where Canal has the columns of a table from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CanalSchema {
    /// From the server, when Canal meets the table: wrong for rows from before an `ALTER`.
    Now,
    /// From the statements in the binlog, as Canal's table history (`tsdb`) has them. What was created
    /// before the beginning is taken from the server.
    Replayed,
}

/// Where a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CanalEnd {
    /// After so many rows.
    Rows(u64),
    /// At a change of this table, `database.table`, which is left out itself. The surest.
    Marker(String),
    /// At a place in the binlog. The transaction before it must be of tables that the filter lets
    /// through: Canal says nothing of others.
    Position(String, u64),
}

/// A run over a binlog.
#[derive(Debug, Clone)]
pub struct CanalRun {
    /// The tables, Canal's way: `shop\..*`.
    pub filter: String,
    /// Where to begin: the binlog's name.
    pub file: String,
    /// And the place in it.
    pub position: u64,
    /// Where the columns come from.
    pub schema: CanalSchema,
    /// Where to end.
    pub end: CanalEnd,
    /// How long it may take.
    pub limit: Duration,
}

impl CanalRun {
    /// A run from the head of the first binlog, of the tables that `filter` names, with the columns as
    /// the statements make them.
    pub fn new(filter: &str, end: CanalEnd) -> Self {
        Self {
            filter: filter.to_owned(),
            file: "binlog.000001".to_owned(),
            position: 4,
            schema: CanalSchema::Replayed,
            end,
            limit: Duration::from_secs(60),
        }
    }

    /// Begins at another place.
    pub fn from(mut self, file: &str, position: u64) -> Self {
        file.clone_into(&mut self.file);
        self.position = position;
        self
    }

    fn request(&self, port: u16) -> Vec<String> {
        let schema = match self.schema {
            CanalSchema::Now => "now",
            CanalSchema::Replayed => "replayed",
        };
        vec![
            format!("port\t{port}"),
            format!("user\t{USER}"),
            format!("password\t{USER}"),
            format!("filter\t{}", self.filter),
            format!("file\t{}", self.file),
            format!("position\t{}", self.position),
            format!("schema\t{schema}"),
            match &self.end {
                CanalEnd::Rows(count) => format!("rows\t{count}"),
                CanalEnd::Marker(table) => format!("until\t{table}"),
                CanalEnd::Position(file, position) => format!("end\t{file}:{position}"),
            },
            format!("seconds\t{}", self.limit.as_secs().max(1)),
        ]
    }
}

/// A run that has begun: Canal reads, and waits for what comes.
pub struct CanalLines<'a>(Answer<'a>);

impl CanalLines<'_> {
    /// Waits for the end; the messages, as Canal's producer for Kafka writes them.
    pub fn finish(self) -> Vec<Vec<u8>> {
        self.0.finish()
    }
}

impl CanalServer {
    /// Starts one; the libraries are fetched where they are missing.
    pub fn start() -> Self {
        Self(Judge::start("canal"))
    }

    /// The one of this process. Its runs go one after the other.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<CanalServer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Begins a run, and returns when the server sends: what is written from now on is read with the
    /// rest. No other run can be begun before this one is finished.
    pub fn follow(&self, server: &MysqlServer, run: &CanalRun) -> CanalLines<'_> {
        create_user(server);
        // The JVM's own limit comes first: it knows how far it got.
        let limit = run.limit + Duration::from_secs(120);
        let mut answer = self.0.begin(&run.request(server.port()), limit);
        let line = answer.first_line();
        assert_eq!(line, b"ready", "Canal says so first");
        CanalLines(answer)
    }

    /// A whole run over what the binlog holds, up to its end.
    pub fn lines(&self, server: &MysqlServer, run: &CanalRun) -> Vec<Vec<u8>> {
        self.follow(server, run).finish()
    }
}

fn create_user(server: &MysqlServer) {
    let mut sql = server.sql();
    // Not for the binlog under test, and the same account for all runs.
    sql.exec("SET SESSION sql_log_bin = 0");
    sql.exec(&format!(
        "CREATE USER IF NOT EXISTS {USER}@'127.0.0.1' IDENTIFIED BY '{USER}'"
    ));
    sql.exec(&format!("GRANT ALL ON *.* TO {USER}@'127.0.0.1'"));
    sql.exec("SET SESSION sql_log_bin = 1");
}

/// Whether Canal 1.1.7 can read the server's binlog.
pub fn can_read(flavour: Flavour) -> bool {
    flavour != Flavour::Mariadb11
}

/// The messages without those that MariaDB's annotations of rows become.
pub fn without_annotations(lines: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let is_annotation = |line: &Vec<u8>| {
        crate::canal::parse(line).is_ok_and(|message| message.kind == "QUERY" && !message.is_ddl)
    };
    let mut lines = lines;
    lines.retain(|line| !is_annotation(line));
    lines
}
