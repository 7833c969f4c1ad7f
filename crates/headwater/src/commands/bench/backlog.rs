//! The backlog that is measured: one-row transactions, and transactions of a thousand rows.

use super::measure::{Workload, wire};
use crate::exit::Failure;
use source_mysql::config::{Endpoint, TlsConfig, TlsMode};
use source_mysql::wire::Connection;
use std::fmt::Write;

pub fn connect(endpoint: &Endpoint, mode: TlsMode) -> Result<Connection, Failure> {
    Connection::open(
        endpoint,
        &TlsConfig {
            mode,
            ..TlsConfig::default()
        },
    )
    .map_err(wire("connect"))
}

/// Where the server's log ends.
pub fn head(connection: &mut Connection) -> Result<(String, u64), Failure> {
    let found = match connection.texts("SHOW BINARY LOG STATUS") {
        Ok(found) => found,
        Err(_) => connection
            .texts("SHOW MASTER STATUS")
            .map_err(wire("ask where the log ends"))?,
    };
    let row = found.unwrap_or_default();
    let offset = row
        .get(1)
        .and_then(|offset| offset.parse().ok())
        .unwrap_or(4);
    Ok((row.first().cloned().unwrap_or_default(), offset))
}

/// Makes both workloads; returns the server's name too.
pub fn make(endpoint: &Endpoint, rows: u64) -> Result<(String, Workload, Workload), Failure> {
    let mut connection = connect(endpoint, TlsMode::Disabled)?;
    let mut run = |sql: &str| connection.execute(sql).map_err(wire("make the backlog"));
    run("DROP DATABASE IF EXISTS headwater_bench")?;
    run("CREATE DATABASE headwater_bench")?;
    for table in ["one_row", "bulk"] {
        run(&format!(
            "CREATE TABLE headwater_bench.{table} (id BIGINT PRIMARY KEY, k INT, c CHAR(120), \
             pad CHAR(60), amount DECIMAL(12,2), at DATETIME(3))"
        ))?;
    }
    let small_from = head(&mut connection)?;
    for id in 0..rows {
        let sql = format!("INSERT INTO headwater_bench.one_row VALUES {}", row(id));
        connection.execute(&sql).map_err(wire("make the backlog"))?;
    }
    let small_to = head(&mut connection)?;
    let mut sql = String::new();
    for from in (0..rows).step_by(1000) {
        sql.clear();
        sql.push_str("INSERT INTO headwater_bench.bulk VALUES ");
        for id in from..(from + 1000).min(rows) {
            let comma = if id > from { "," } else { "" };
            let _ = write!(sql, "{comma}{}", row(id));
        }
        connection.execute(&sql).map_err(wire("make the backlog"))?;
    }
    let bulk_to = head(&mut connection)?;
    let server = connection
        .text("SELECT CONCAT(@@version_comment, ' ', @@version)")
        .map_err(wire("ask the version"))?
        .unwrap_or_default();
    let workload = |name, table, from, to| Workload {
        name,
        table,
        from,
        to,
        rows,
    };
    Ok((
        server,
        workload(
            "one-row transactions",
            "one_row",
            small_from,
            small_to.clone(),
        ),
        workload("1000-row transactions", "bulk", small_to, bulk_to),
    ))
}

fn row(id: u64) -> String {
    let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!(
        "({id},{},'{mixed:020}-{:020}-{:020}-{mixed:020}','{mixed:020}-{id:020}',{}.{:02},\
         '2026-01-02 03:04:05.{:03}')",
        mixed >> 40,
        mixed >> 3,
        mixed >> 7,
        id % 1_000_000,
        id % 100,
        id % 1000,
    )
}

/// Takes the database away again.
pub fn drop(endpoint: &Endpoint) -> Result<(), Failure> {
    connect(endpoint, TlsMode::Disabled)?
        .execute("DROP DATABASE headwater_bench")
        .map_err(wire("drop headwater_bench"))
}
