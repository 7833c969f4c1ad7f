//! `check`: whether the server can do what the config asks for, and the statement that fixes it.

use crate::client::Client;
use crate::config::{ClickHouseConfig, Mode};
use crate::error::{ACCESS_DENIED, READONLY, code};
use crate::layout::Added;
use crate::names::{Names, literal, quote};
use crate::server::{MVCC, SIGN_VERSION, Version};
use crate::structure::{in_the_way_beside, in_the_way_of_view, wrong_engine};
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
    let version = match version(&client) {
        // With readonly = 1 a server refuses the settings that come with every statement.
        Err(error) if code(&error) == READONLY => return Ok(vec![reads_only(config)]),
        found => found?,
    };
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
        out.push(reads_only(config));
        return Ok(out);
    }
    system_tables(&client, config, &mut out)?;
    disks(&client, config, &mut out)?;
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
        engine_of(&client, config, &names, &mut out)?;
    }
    Ok(out)
}

fn reads_only(config: &ClickHouseConfig) -> Finding {
    bad(
        format!("the account {} may only read (readonly)", config.user),
        format!(
            "ALTER USER {} SETTINGS readonly = 0 (or take it out of the account's profile)",
            quote(&config.user)
        ),
    )
}

/// What the sink reads of the server itself; servers may want a grant for it.
fn system_tables(
    client: &Client,
    config: &ClickHouseConfig,
    out: &mut Vec<Finding>,
) -> Result<(), SinkError> {
    let mut missing = Vec::new();
    for table in ["system.processes", "system.parts"] {
        let sql = format!("SELECT count() FROM {table} WHERE 0");
        match client.cell("look at the grants", &sql) {
            Err(error) if code(&error) == ACCESS_DENIED => missing.push(table),
            other => drop(other?),
        }
    }
    if !missing.is_empty() {
        let grants: Vec<String> = missing
            .iter()
            .map(|table| format!("GRANT SELECT ON {table} TO {}", quote(&config.user)))
            .collect();
        out.push(bad(
            format!(
                "the account {} may not read {}",
                config.user,
                missing.join(" and ")
            ),
            grants.join("; "),
        ));
    }
    Ok(())
}

/// Every storage policy that tables are made with needs a disk that takes more.
fn disks(
    client: &Client,
    config: &ClickHouseConfig,
    out: &mut Vec<Finding>,
) -> Result<(), SinkError> {
    let mut policies = vec!["default".to_owned()];
    let named = config
        .tables
        .values()
        .filter_map(|table| table.settings.get("storage_policy"));
    policies.extend(named.cloned());
    policies.sort();
    policies.dedup();
    for policy in policies {
        let sql = format!(
            "SELECT name, free_space, total_space, is_read_only FROM system.disks WHERE name IN (SELECT \
             arrayJoin(disks) FROM system.storage_policies WHERE policy_name = {})",
            literal(&policy)
        );
        let rows = match client.rows("look at the disks", &sql) {
            Err(error) if code(&error) == ACCESS_DENIED => {
                out.push(good(
                    "the disks were not looked at: the account may not read system.disks",
                ));
                return Ok(());
            }
            rows => rows?,
        };
        let troubles: Vec<Finding> = rows
            .iter()
            .filter_map(|row| disk_trouble(row, &policy))
            .collect();
        if !troubles.is_empty() && troubles.len() == rows.len() {
            out.extend(troubles);
        }
    }
    Ok(())
}

fn disk_trouble(row: &[String], policy: &str) -> Option<Finding> {
    let [name, free, total, read_only] = row else {
        return None;
    };
    let (free, total): (u64, u64) = (free.parse().unwrap_or(0), total.parse().unwrap_or(0));
    if read_only == "1" {
        return Some(bad(
            format!("the disk `{name}` of the storage policy `{policy}` is read-only"),
            "give the storage policy a disk that can be written to",
        ));
    }
    // What a disk keeps free by its settings does not count; a server then may call its size 0.
    (free <= total / 50).then(|| {
        bad(
            format!(
                "the disk `{name}` of the storage policy `{policy}` is full: {} MB are left",
                free >> 20
            ),
            "make room, or add a disk to the storage policy",
        )
    })
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
        // Not ALTER: that holds what no grant on a database can give.
        "ALTER TABLE",
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
    let mut is_known = true;
    for privilege in &wanted {
        let sql = format!("CHECK GRANT {privilege} ON {shown}.*");
        match client.cell("look at the grants", &sql) {
            Ok(Some(answer)) if answer == "0" => missing.push(*privilege),
            Ok(_) => {}
            // Servers before 24.12 have no CHECK GRANT.
            Err(error) if error.kind == ErrorKind::Unsupported => {
                is_known = false;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    match missing.is_empty() {
        true => out.push(good(format!(
            "database {shown}: {}, {}",
            match engine {
                Some(_) => "there",
                None => "will be made",
            },
            match is_known {
                true => "grants".to_owned(),
                false => format!(
                    "needs {} (this server cannot say what is granted)",
                    wanted.join(", ")
                ),
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

/// A table that is there already must be one that the sink can write; where its view goes, nothing else
/// may be.
fn engine_of(
    client: &Client,
    config: &ClickHouseConfig,
    names: &Names,
    out: &mut Vec<Finding>,
) -> Result<(), SinkError> {
    if let Some((found, fix)) = wrong_engine(client, config, names)? {
        out.push(bad(found, fix));
    }
    if let Some((found, fix)) = in_the_way_of_view(client, names)? {
        out.push(bad(found, fix));
    }
    let added = Added::new(&config.column_prefix);
    if let Some((found, fix)) = in_the_way_beside(client, &added, names)? {
        out.push(bad(found, fix));
    }
    Ok(())
}
