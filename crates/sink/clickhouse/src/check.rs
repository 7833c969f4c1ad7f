//! `check`: whether the server can do what the config asks for, and the statement that fixes it.

use crate::client::Client;
use crate::config::{ClickHouseConfig, Mode};
use crate::names::{Names, literal, quote};
use crate::server::{MVCC, SIGN_VERSION, Version};
use change::SinkError;
use change::contract::ErrorKind;

/// One finding: whether it is good, what was found, and the statement that fixes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Nothing has to be done.
    pub good: bool,
    /// What was found.
    pub text: String,
    /// The statement that fixes it.
    pub fix: Option<String>,
}

fn good(text: impl Into<String>) -> Finding {
    Finding {
        good: true,
        text: text.into(),
        fix: None,
    }
}

fn bad(text: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding {
        good: false,
        text: text.into(),
        fix: Some(fix.into()),
    }
}

/// The server's version.
pub(crate) fn version(client: &Client) -> Result<Version, SinkError> {
    let text = client
        .cell("connect", "SELECT version()")?
        .unwrap_or_default();
    Version::parse(&text).ok_or_else(|| {
        SinkError::new(
            ErrorKind::Unsupported,
            "connect",
            format!("the server's version is `{text}`"),
        )
    })
}

fn least(config: &ClickHouseConfig) -> Version {
    match config.mode {
        Mode::Mvcc => MVCC,
        Mode::SignVersion => SIGN_VERSION,
    }
}

/// Errors: `Unsupported` for a server that is too old for the mode.
pub(crate) fn require(config: &ClickHouseConfig, version: Version) -> Result<(), SinkError> {
    let least = least(config);
    if version >= least {
        return Ok(());
    }
    let detail = format!("the server is {version}, and this mode needs {least} or later");
    Err(SinkError::new(ErrorKind::Unsupported, "connect", detail).hint(old_hint(config, version)))
}

fn old_hint(config: &ClickHouseConfig, version: Version) -> &'static str {
    match config.mode {
        Mode::Mvcc if version >= SIGN_VERSION => "set mode: sign_version, or upgrade the server",
        _ => "upgrade the server",
    }
}

/// Connects and looks at the server, the account and the tables that would be written to.
///
/// Shape: `tables` are the captured tables' databases and names.
/// Errors: `Unavailable` or `Invalid` when there is no connection.
pub fn check(
    config: &ClickHouseConfig,
    tables: &[(String, String)],
) -> Result<Vec<Finding>, SinkError> {
    crate::sink::validate(config)?;
    let client = Client::new(config, "headwater check")?;
    let version = version(&client)?;
    let mut out = vec![good(format!(
        "clickhouse {version} at {}, user {}",
        config.url, config.user
    ))];
    let least = least(config);
    if version < least {
        out.push(bad(
            format!("this mode needs ClickHouse {least} or later"),
            old_hint(config, version),
        ));
        return Ok(out);
    }
    if config.mode == Mode::Mvcc && !version.shares_snapshots() {
        let sql = "SELECT value FROM system.settings WHERE name = 'enable_shared_storage_snapshot_in_query'";
        if client.cell("look at the settings", sql)?.as_deref() != Some("1") {
            out.push(bad(
                "readers do not share one snapshot of a table within a query",
                "ALTER SETTINGS PROFILE default SETTINGS enable_shared_storage_snapshot_in_query = 1",
            ));
        }
    }
    let readonly = "SELECT value FROM system.settings WHERE name = 'readonly'";
    if client.cell("look at the settings", readonly)?.as_deref() != Some("0") {
        out.push(bad(
            format!("the account {} may only read (readonly)", config.user),
            format!("ALTER USER {} SETTINGS readonly = 0", quote(&config.user)),
        ));
        return Ok(out);
    }
    disk(&client, &mut out)?;
    let mut databases: Vec<String> = Vec::new();
    for (database, table) in tables {
        let names = Names::of(config, database, table);
        if !databases.contains(&names.database) {
            databases.push(names.database);
        }
    }
    if databases.is_empty() && !config.database.contains('{') {
        databases.push(config.database.clone());
    }
    let (state_database, _) = crate::names::state(config, "", "");
    if !databases.contains(&state_database) {
        databases.push(state_database);
    }
    for database in &databases {
        database_of(&client, config, database, &mut out)?;
    }
    for (database, table) in tables {
        let names = Names::of(config, database, table);
        engine_of(&client, &names, &mut out)?;
    }
    Ok(out)
}

fn disk(client: &Client, out: &mut Vec<Finding>) -> Result<(), SinkError> {
    let sql = "SELECT name, free_space, total_space, is_read_only FROM system.disks";
    for row in client.rows("look at the disks", sql)? {
        let [name, free, total, read_only] = row.as_slice() else {
            continue;
        };
        let (free, total): (u64, u64) = (free.parse().unwrap_or(0), total.parse().unwrap_or(0));
        if read_only == "1" {
            out.push(bad(
                format!("the disk `{name}` is read-only"),
                "give the storage policy a disk that can be written to",
            ));
        } else if total > 0 && free < total / 50 {
            out.push(bad(
                format!("the disk `{name}` is full: {} MB are left", free >> 20),
                "make room, or add a disk to the storage policy",
            ));
        }
    }
    Ok(())
}

/// The engine of a database that is there, and the privileges on it.
fn database_of(
    client: &Client,
    config: &ClickHouseConfig,
    database: &str,
    out: &mut Vec<Finding>,
) -> Result<(), SinkError> {
    let sql = format!(
        "SELECT engine FROM system.databases WHERE name = {}",
        literal(database)
    );
    let shown = quote(database);
    let engine = client.cell("look at the database", &sql)?;
    if let Some(engine) = &engine
        && engine != "Atomic"
    {
        out.push(bad(
            format!(
                "the database {shown} has the engine {engine}; the sink is tested with Atomic alone"
            ),
            format!(
                "CREATE DATABASE {} ENGINE = Atomic, and name it in `database`",
                quote("another")
            ),
        ));
        return Ok(());
    }
    let mut wanted = vec![
        "SELECT",
        "INSERT",
        "ALTER",
        "CREATE TABLE",
        "CREATE VIEW",
        "DROP TABLE",
        "DROP VIEW",
        "TRUNCATE",
    ];
    if engine.is_none() {
        wanted.push("CREATE DATABASE");
    }
    let mut missing = Vec::new();
    for privilege in wanted {
        let sql = format!("CHECK GRANT {privilege} ON {shown}.*");
        match client.cell("look at the grants", &sql) {
            Ok(Some(answer)) if answer == "0" => missing.push(privilege),
            Ok(_) => {}
            // Servers before 24.12 have no CHECK GRANT.
            Err(error) if error.kind == ErrorKind::Unsupported => break,
            Err(error) => return Err(error),
        }
    }
    match missing.is_empty() {
        true => out.push(good(format!(
            "database {shown}: {}, grants",
            if engine.is_some() {
                "there"
            } else {
                "will be made"
            }
        ))),
        false => out.push(bad(
            format!(
                "the account {} lacks {} on {shown}",
                config.user,
                missing.join(", ")
            ),
            format!(
                "GRANT {} ON {shown}.* TO {}",
                missing.join(", "),
                quote(&config.user)
            ),
        )),
    }
    Ok(())
}

/// A table that is there already must be one that the sink can write.
fn engine_of(client: &Client, names: &Names, out: &mut Vec<Finding>) -> Result<(), SinkError> {
    let sql = format!(
        "SELECT engine FROM system.tables WHERE database = {} AND name = {}",
        literal(&names.database),
        literal(&names.base_name())
    );
    let Some(engine) = client.cell("look at the table", &sql)? else {
        return Ok(());
    };
    if engine.starts_with("Replicated") || engine.starts_with("Shared") || engine == "Distributed" {
        out.push(bad(
            format!(
                "{} has the engine {engine}, for which the sink is not tested: it is refused",
                names.shown()
            ),
            format!(
                "RENAME TABLE {} TO another name; the sink makes its own",
                names.base()
            ),
        ));
    }
    Ok(())
}
