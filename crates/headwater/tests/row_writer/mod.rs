//! Writes a random history of `shop.t` into a server, over the server's crashes.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support::{History, Row, Step, Workload, remember};
use crate::wait::wait_within;
use mysql::prelude::Queryable;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// The tables that it needs.
pub const TABLES: &str = "CREATE DATABASE shop; CREATE TABLE shop.t (id BIGINT PRIMARY KEY, v INT, s VARCHAR(100)); \
                          CREATE TABLE shop.mark (n BIGINT); INSERT INTO shop.mark VALUES (0)";

fn literal(row: &Row) -> String {
    let v = row.v.map_or("NULL".to_owned(), |v| v.to_string());
    format!("v = {v}, s = '{}'", row.s)
}

fn statement(step: &Step) -> String {
    match step {
        Step::Insert(row) => format!("INSERT INTO shop.t SET id = {}, {}", row.id, literal(row)),
        Step::Delete(row) => format!("DELETE FROM shop.t WHERE id = {}", row.id),
        Step::Update(old, new) => {
            format!(
                "UPDATE shop.t SET id = {}, {} WHERE id = {}",
                new.id,
                literal(new),
                old.id
            )
        }
    }
}

/// A client that tells a refusal from a connection that broke; none while nobody listens.
pub fn connect(port: u16) -> Option<mysql::Conn> {
    let options = mysql::OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(port)
        .user(Some("root"))
        .prefer_socket(false);
    mysql::Conn::new(options).ok()
}

/// Runs the workload until it is told to end; what the server committed of it. A transaction whose answer a crash took
/// is looked up by the number that it wrote.
pub fn write(port: u16, seed: u64, ends: &AtomicBool) -> (History, u64) {
    let connect = || connect(port);
    let mut sql = wait_within(LIMIT, "the server", connect);
    let (mut workload, mut history) = (Workload::new(seed, 50), History::new());
    let mut number = 0u64;
    while !ends.load(Ordering::Relaxed) {
        number += 1;
        let steps = workload.next();
        let mut statements = vec!["BEGIN".to_owned()];
        statements.extend(steps.iter().map(statement));
        statements.push(format!("UPDATE shop.mark SET n = {number}"));
        statements.push("COMMIT".to_owned());
        loop {
            if statements.iter().all(|text| match sql.query_drop(text) {
                Ok(()) => true,
                Err(mysql::Error::MySqlError(error)) => panic!("{error} in {text}"),
                Err(_) => false,
            }) {
                break;
            }
            sql = wait_within(LIMIT, "the server again", connect);
            let done: Option<u64> = sql.query_first("SELECT n FROM shop.mark").unwrap();
            if done == Some(number) {
                break;
            }
        }
        steps.iter().for_each(|step| remember(&mut history, step));
    }
    (history, number)
}
