//! What `headwater check` says about a source, with the statement that mends it.

use super::oracle::show_create;
use super::server::{self, Server};
use crate::capture::columns::ColumnRules;
use crate::config::{Endpoint, MysqlConfig, column_rules, selection};
use crate::wire::{Connection, WireFailure};
use change::{SourceError, TableSchema};
use source_mysql_ddl::Catalog;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckLevel {
    /// As it should be.
    Ok,
    /// Works, with a drawback.
    Warn,
    /// Does not work.
    Fail,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckItem {
    /// How bad it is.
    pub level: CheckLevel,
    /// What was found.
    pub text: String,
    /// The statement, or setting, that mends it.
    pub fix: Option<String>,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// The findings, in the order in which they were made.
    pub items: Vec<CheckItem>,
    /// The captured tables: database and name.
    pub tables: Vec<(String, String)>,
}

/// Shortest time a log should be kept: a week-end and a night.
const EXPIRE_SECONDS_MIN: u64 = 3 * 86_400;

/// Connects and looks; never changes anything.
pub fn check(config: &MysqlConfig) -> Checked {
    let mut report = Report::default();
    if let Err(error) = report.run(config) {
        let fix = (!error.hint.is_empty()).then(|| error.hint.clone());
        let text = SourceError {
            hint: String::new(),
            ..error
        };
        report.add(CheckLevel::Fail, text.to_string(), fix);
    }
    Checked {
        items: report.items,
        tables: report.tables,
    }
}

#[derive(Default)]
struct Report {
    items: Vec<CheckItem>,
    tables: Vec<(String, String)>,
}

impl Report {
    fn add(&mut self, level: CheckLevel, text: impl Into<String>, fix: Option<String>) {
        self.items.push(CheckItem {
            level,
            text: text.into(),
            fix,
        });
    }

    fn run(&mut self, config: &MysqlConfig) -> Result<(), SourceError> {
        let endpoint = Endpoint::parse(&config.url)?;
        let selection = selection(&config.tables)?;
        let place = format!("{}:{}", endpoint.host, endpoint.port);
        let wire = |failure: WireFailure| failure.into_source("connect", &place);
        let mut connection = Connection::open(&endpoint, &config.tls).map_err(wire)?;
        let server = Server::read(&mut connection).map_err(wire)?;
        self.add(
            CheckLevel::Ok,
            format!("{} at {place}, user {}", server.title(), endpoint.user),
            None,
        );
        let ask = |failure: WireFailure| failure.into_source("ask the server", &place);
        self.grants(&server, &mut connection).map_err(ask)?;
        self.settings(&server, &mut connection).map_err(ask)?;
        self.expiry(&server, &mut connection).map_err(ask)?;
        self.server_id(config, &mut connection).map_err(ask)?;
        let selection = selection.ignoring_case(server.lower_case_table_names > 0);
        let tables = server::tables(&mut connection).map_err(ask)?;
        let names: Vec<(String, String)> = tables
            .into_iter()
            .map(|(database, table, _)| (database, table))
            .collect();
        self.tables = names
            .iter()
            .filter(|(database, table)| selection.matches(database, table))
            .cloned()
            .collect();
        for pattern in selection.unmatched(&names) {
            self.add(
                CheckLevel::Fail,
                format!("the pattern {pattern:?} matches no table"),
                nearest(pattern, &names).map(|name| format!("did you mean {name:?}?")),
            );
        }
        self.keys(&selection, &mut connection).map_err(ask)?;
        let rules = column_rules(&config.columns, &config.mask_key);
        let mut catalog = Catalog::new(server.catalog_options());
        for table in rules.tables.keys() {
            let Some((database, name)) = names.iter().find(|(d, t)| format!("{d}.{t}") == *table)
            else {
                self.add(
                    CheckLevel::Fail,
                    format!("columns names {table:?}, which is no table"),
                    nearest(table, &names).map(|name| format!("did you mean {name:?}?")),
                );
                continue;
            };
            let text = show_create(&mut connection, database, name).map_err(ask)?;
            let schema = text.and_then(|text| catalog.seed(database, &text).ok());
            if let Some(schema) = schema {
                self.columns(&rules, &schema);
            }
        }
        Ok(())
    }

    /// Names in the column rules that the table does not have, and keys that would be lost.
    fn columns(&mut self, rules: &ColumnRules, schema: &TableSchema) {
        let table = format!("{}.{}", schema.database, schema.name);
        for unknown in rules.unknown_columns(schema) {
            let names = schema.columns.iter().map(|column| column.name.as_str());
            let near = names.min_by_key(|name| distance(unknown, name));
            self.add(
                CheckLevel::Fail,
                format!("columns of {table} names {unknown:?}, which is no column of it"),
                near.map(|name| format!("did you mean {name:?}?")),
            );
        }
        if let Err(reason) = rules.treatments(schema) {
            self.add(CheckLevel::Fail, reason, None);
        }
    }

    fn grants(&mut self, server: &Server, connection: &mut Connection) -> Result<(), WireFailure> {
        let rows = connection.rows("SHOW GRANTS")?;
        let grants: Vec<String> = rows
            .iter()
            .filter_map(|row| row.first()?.as_deref())
            .map(|bytes| String::from_utf8_lossy(bytes).to_uppercase())
            .collect();
        let global: Vec<&String> = grants.iter().filter(|g| g.contains(" ON *.* ")).collect();
        let has = |names: &[&str]| {
            global.iter().any(|grant| {
                grant.contains("ALL PRIVILEGES") || names.iter().any(|name| grant.contains(name))
            })
        };
        let user = connection
            .text("SELECT CURRENT_USER()")?
            .unwrap_or_default();
        let account = user.replacen('@', "'@'", 1);
        let fix = |privilege: &str| Some(format!("GRANT {privilege} ON *.* TO '{account}';"));
        if has(&["REPLICATION SLAVE", "REPLICATION REPLICA"]) {
            self.add(CheckLevel::Ok, "may read the log (REPLICATION SLAVE)", None);
        } else {
            self.add(
                CheckLevel::Fail,
                "may not read the log: REPLICATION SLAVE is missing",
                fix("REPLICATION SLAVE"),
            );
        }
        let monitor = if server.mariadb {
            "BINLOG MONITOR"
        } else {
            "REPLICATION CLIENT"
        };
        // Grants may come through roles, which SHOW GRANTS does not spell out: the question itself
        // is tried.
        if let Err(WireFailure::Server { .. }) = server.head_place(connection) {
            self.add(
                CheckLevel::Fail,
                format!("may not ask where the log ends: {monitor} is missing"),
                fix(monitor),
            );
        }
        if !has(&["SELECT"]) && !grants.iter().any(|grant| grant.contains("SELECT")) {
            self.add(
                CheckLevel::Fail,
                "may not read tables: SELECT is missing",
                fix("SELECT"),
            );
        }
        Ok(())
    }

    fn variable(&mut self, connection: &mut Connection, name: &str) -> Option<String> {
        // A variable that a version does not have is no finding.
        connection.text(&format!("SELECT @@global.{name}")).ok()?
    }

    fn settings(
        &mut self,
        server: &Server,
        connection: &mut Connection,
    ) -> Result<(), WireFailure> {
        if self.variable(connection, "log_bin").as_deref() != Some("1") {
            self.add(
                CheckLevel::Fail,
                "the server writes no binlog",
                Some("start the server with --log-bin and a server_id".into()),
            );
            return Ok(());
        }
        let mut good = Vec::new();
        for (name, wanted, level, why) in [
            (
                "binlog_format",
                "ROW",
                CheckLevel::Fail,
                "changes come as statements, not as rows",
            ),
            (
                "binlog_row_image",
                "FULL",
                CheckLevel::Warn,
                "unchanged columns are unknown in updates and deletes",
            ),
        ] {
            let Some(value) = self.variable(connection, name) else {
                continue;
            };
            if value.eq_ignore_ascii_case(wanted) {
                good.push(format!("{name} {wanted}"));
            } else {
                self.add(
                    level,
                    format!("{name} is {value}: {why}"),
                    Some(lasting(server, name, &format!("'{wanted}'"))),
                );
            }
        }
        match self.variable(connection, "binlog_row_metadata") {
            Some(value) if value.eq_ignore_ascii_case("FULL") => {
                good.push("binlog_row_metadata FULL".into());
            }
            Some(value) => self.add(
                CheckLevel::Warn,
                format!(
                    "binlog_row_metadata is {value}: a DDL that is missed sets its table aside"
                ),
                Some(lasting(server, "binlog_row_metadata", "'FULL'")),
            ),
            None => {}
        }
        if !server.mariadb {
            if server.has_gtids {
                good.push("gtid_mode ON".into());
            } else {
                self.add(
                    CheckLevel::Warn,
                    "gtid_mode is not ON: no failover, and the copy locks the rows it reads",
                    Some(
                        "SET PERSIST gtid_mode = ON; (in its four steps, see the server's manual)"
                            .into(),
                    ),
                );
            }
            let options = self
                .variable(connection, "binlog_row_value_options")
                .unwrap_or_default();
            if options.contains("PARTIAL_JSON") {
                self.add(
                    CheckLevel::Warn,
                    "binlog_row_value_options is PARTIAL_JSON: it needs binlog_row_image FULL",
                    Some(lasting(server, "binlog_row_value_options", "''")),
                );
            }
        }
        self.add(CheckLevel::Ok, good.join(" · "), None);
        Ok(())
    }

    fn expiry(&mut self, server: &Server, connection: &mut Connection) -> Result<(), WireFailure> {
        let seconds = self
            .variable(connection, "binlog_expire_logs_seconds")
            .and_then(|text| text.parse::<u64>().ok());
        let days = self
            .variable(connection, "expire_logs_days")
            .and_then(|text| text.parse::<f64>().ok());
        let kept = seconds.filter(|seconds| *seconds > 0).or(days
            .filter(|days| *days > 0.0)
            .map(|days| (days * 86_400.0) as u64));
        if let Some(kept) = kept.filter(|kept| *kept < EXPIRE_SECONDS_MIN) {
            // MariaDB counts in days up to 10.5.
            let (name, week) = match server.mariadb && server.numbers() < (10, 6, 0) {
                true => ("expire_logs_days", "7"),
                false => ("binlog_expire_logs_seconds", "604800"),
            };
            self.add(
                CheckLevel::Fail,
                format!(
                    "the log is kept for {kept} s ({name}): a pause longer than {} h loses the position",
                    kept / 3600
                ),
                Some(lasting(server, name, week)),
            );
        }
        Ok(())
    }

    fn server_id(
        &mut self,
        config: &MysqlConfig,
        connection: &mut Connection,
    ) -> Result<(), WireFailure> {
        let Some(wanted) = config.server_id else {
            return Ok(());
        };
        let own = self
            .variable(connection, "server_id")
            .and_then(|text| text.parse().ok());
        let mut taken: Vec<u32> = own.into_iter().collect();
        let replicas = connection
            .rows("SHOW REPLICAS")
            .or_else(|_| connection.rows("SHOW SLAVE HOSTS"))
            .unwrap_or_default();
        let numbers = replicas.iter().filter_map(|row| row.first()?.as_deref());
        taken.extend(
            numbers.filter_map(|bytes| std::str::from_utf8(bytes).ok()?.parse::<u32>().ok()),
        );
        if taken.contains(&wanted) {
            self.add(
                CheckLevel::Fail,
                format!("server_id {wanted} is taken by another replica or the server itself"),
                Some("leave server_id out, or set one that no replica has".into()),
            );
        }
        Ok(())
    }

    fn keys(
        &mut self,
        selection: &crate::capture::selection::Selection,
        connection: &mut Connection,
    ) -> Result<(), WireFailure> {
        let rows = connection.rows(
            "SELECT t.table_schema, t.table_name FROM information_schema.tables t \
             LEFT JOIN (SELECT DISTINCT table_schema, table_name FROM information_schema.statistics \
             WHERE index_name = 'PRIMARY') k USING (table_schema, table_name) \
             WHERE t.table_type = 'BASE TABLE' AND k.table_name IS NULL ORDER BY 1, 2",
        )?;
        for row in rows {
            let [Some(database), Some(table)] = &row[..] else {
                continue;
            };
            let database = String::from_utf8_lossy(database);
            let table = String::from_utf8_lossy(table);
            if selection.matches(&database, &table) {
                self.add(
                    CheckLevel::Warn,
                    format!(
                        "{database}.{table} has no primary key: updates are keyed by a unique key, else by the whole row (docs/guides/keyless.md)"
                    ),
                    None,
                );
            }
        }
        Ok(())
    }
}

/// The statement that sets a variable, also for later starts of the server.
fn lasting(server: &Server, name: &str, value: &str) -> String {
    let has_persist = !server.mariadb && server.numbers() >= (8, 0, 0);
    match has_persist {
        true => format!("SET PERSIST {name} = {value};"),
        false => {
            let plain = value.trim_matches('\'');
            format!("SET GLOBAL {name} = {value}; and {name}={plain} in my.cnf, so that it lasts")
        }
    }
}

/// The table's name that differs least from a pattern.
fn nearest(pattern: &str, names: &[(String, String)]) -> Option<String> {
    let wanted = pattern.trim_start_matches('!');
    names
        .iter()
        .map(|(database, table)| {
            if wanted.ends_with(".*") {
                format!("{database}.*")
            } else {
                format!("{database}.{table}")
            }
        })
        .map(|name| (distance(wanted, &name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len() / 3)
        .map(|(_, name)| name)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let next = (corner + usize::from(ca != *cb))
                .min(row[j] + 1)
                .min(row[j + 1] + 1);
            corner = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}
