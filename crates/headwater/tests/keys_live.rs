//! A table with a key of its own: its rows are nowhere on disk in clear; a missing key stops only that table; keys are
//! rotated and erased.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../../stream/tests/support/mod.rs"]
mod support;

mod in_process;
#[allow(dead_code, reason = "its clients are what is used here")]
mod sdk;
mod wait;

use in_process::{start, stop};
use pipeline::Running;
use pipeline::control::{self, Request};
use pipeline::key_groups::KeyRequest;
use std::path::Path;
use std::time::Duration;
use stream::{ErrorKind, ReadFrom, ReadLimits, StreamStatus, TableStatus};
use testkit::{Flavour, MysqlServer, TempDir, one_at_a_time};

const LIMIT: Duration = Duration::from_secs(60);
const MARK: &str = "the-marked-value";
const API_KEYS: &str = r#"
keys: [{access_key: admin, secret: admin-secret, user: admin, policies: [all]}]
policies: {all: {Version: "2012-10-17", Statement: [{Effect: Allow, Action: "*", Resource: "*"}]}}
"#;

fn wait<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait::wait_within(LIMIT, what, look)
}

/// Records of a table's oldest listed stream.
fn read(running: &Running, table: &str) -> Result<usize, ErrorKind> {
    let streams = running.streams();
    let listed = streams
        .list(Some("shop"), Some(table), None, 10)
        .unwrap()
        .streams;
    let info = listed.first().ok_or(ErrorKind::NotFound)?;
    let shards = streams.shards(&info.arn, None, None, 10).unwrap().shards;
    let shard = shards.first().ok_or(ErrorKind::NotFound)?;
    let page = streams.read(
        &info.arn,
        shard.id,
        ReadFrom::Horizon,
        ReadLimits::default(),
    );
    page.map(|page| page.len()).map_err(|error| error.kind())
}

fn status(running: &Running, table: &str) -> TableStatus {
    running.streams().table("shop", table).unwrap().status
}

/// What GetRecords answers over HTTP for a table's oldest listed stream: how many records, or the error's name.
fn read_over_http(running: &Running, table: &str) -> Result<usize, String> {
    let api = sdk::Api::new(&format!("http://{}", running.api_addresses()[0]));
    let streams = running.streams();
    let listed = streams.list(Some("shop"), Some(table), None, 10).unwrap();
    let info = &listed.streams[0];
    let shard = streams.shards(&info.arn, None, None, 10).unwrap().shards[0].id;
    let iterator = api.run(
        api.streams
            .get_shard_iterator()
            .stream_arn(&info.arn)
            .shard_id(shard.to_string())
            .shard_iterator_type("TRIM_HORIZON".into())
            .send(),
    );
    let iterator = iterator.unwrap().shard_iterator.unwrap();
    let page = api.run(
        api.streams
            .get_records()
            .shard_iterator(iterator)
            .max_results(1000)
            .send(),
    );
    match page {
        Ok(page) => Ok(page.change_records.unwrap_or_default().len()),
        Err(error) => {
            let error = error.into_service_error();
            Err(error.meta().code().unwrap_or_default().to_owned())
        }
    }
}

/// Files under `dir` that hold the mark in clear.
fn marked(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let Ok(bytes) = std::fs::read(entry.path()) else {
            continue;
        };
        if bytes
            .windows(MARK.len())
            .any(|window| window == MARK.as_bytes())
        {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn keys(journal: &Path, request: KeyRequest) -> String {
    let socket = control::connect(journal).unwrap();
    let answer = control::call(&socket, &Request::Keys { request }).unwrap();
    assert!(answer.ok, "{}", answer.text);
    answer.text
}

#[test]
fn rows_of_a_table_with_its_own_key() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec(
        "CREATE DATABASE shop; CREATE TABLE shop.secret (id BIGINT PRIMARY KEY, s VARCHAR(200)); \
         CREATE TABLE shop.open (id BIGINT PRIMARY KEY, s VARCHAR(200))",
    );
    let dir = TempDir::new("keys");
    let folder = dir.path().to_owned();
    // Not compressed: what is in clear would be found.
    let text = server.source_yaml("\"shop.*\"", &[])
        + "journal: {compression: none, encryption: {table_keys: [\"shop.secret\"]}}\n\
           streams:\n  - {table: shop.secret}\n  - {table: shop.open}\n\
           api: {listen: \"127.0.0.1:0\", credentials_file: api-keys.yaml}\n";
    write_private(&folder.join("api-keys.yaml"), API_KEYS);
    let journal = folder.join("shop.journal");
    let running = start(&text, &folder);
    let enabled = |running: &Running, table: &str| {
        wait("the stream", || {
            let info = running.streams().resolve(&format!("shop.{table}")).ok()?;
            (info.status == StreamStatus::Enabled).then_some(())
        });
    };
    enabled(&running, "secret");
    enabled(&running, "open");
    for id in 0..50 {
        sql.exec(&format!("INSERT INTO shop.secret VALUES ({id}, '{MARK}-{id}'); INSERT INTO shop.open VALUES ({id}, 'x')"));
    }
    // What waits for its XA COMMIT lies in the spool meanwhile.
    sql.exec(&format!(
        "XA START 'a'; INSERT INTO shop.secret VALUES (100, '{MARK}'); XA END 'a'; XA PREPARE 'a'"
    ));
    let list = keys(&journal, KeyRequest::List);
    assert!(
        list.contains("shop.secret  key group 1") && !list.contains("shop.open"),
        "{list}"
    );
    keys(
        &journal,
        KeyRequest::Rotate {
            table: Some("shop.secret".into()),
        },
    );
    keys(&journal, KeyRequest::Rotate { table: None });
    sql.exec(&format!(
        "INSERT INTO shop.secret VALUES (101, '{MARK}'); XA COMMIT 'a'"
    ));
    wait("all rows", || {
        (read(&running, "secret") == Ok(52)).then_some(())
    });
    assert_eq!(marked(&journal), Vec::<String>::new());
    assert_eq!(marked(&folder), Vec::<String>::new());
    stop(running);

    let key_file = folder.join("shop.key");
    let whole = std::fs::read_to_string(&key_file).unwrap();
    assert_eq!(
        whole.lines().filter(|line| line.starts_with("1 ")).count(),
        2,
        "rotated once"
    );
    let without: String = whole
        .lines()
        .filter(|line| !line.starts_with("1 "))
        .map(|l| format!("{l}\n"))
        .collect();
    std::fs::write(&key_file, &without).unwrap();
    let running = start(&text, &folder);
    assert_eq!(read(&running, "secret"), Err(ErrorKind::KeyUnavailable));
    let denied = Err("AccessDeniedException".to_owned());
    assert_eq!(read_over_http(&running, "secret"), denied);
    assert_eq!(read_over_http(&running, "open"), Ok(50));
    assert_eq!(status(&running, "secret"), TableStatus::KeyUnavailable);
    assert_eq!(status(&running, "open"), TableStatus::Active);
    sql.exec(&format!(
        "INSERT INTO shop.secret VALUES (200, '{MARK}'); INSERT INTO shop.open VALUES (200, 'x')"
    ));
    wait("the other table", || {
        (read(&running, "open") == Ok(51)).then_some(())
    });
    let ended = running.streams().resolve("shop.secret").unwrap();
    assert_eq!(
        (ended.status, ended.reason.is_empty()),
        (StreamStatus::Disabled, false),
        "its history has a gap"
    );

    std::fs::write(&key_file, &whole).unwrap();
    wait("the rows from before", || {
        (read(&running, "secret") == Ok(52)).then_some(())
    });
    assert_eq!(status(&running, "secret"), TableStatus::Active);
    assert_eq!(read_over_http(&running, "secret"), Ok(52));
    assert_eq!(marked(&journal), Vec::<String>::new());
    stop(running);

    // A key of the right form that is another one.
    let wrong = |line: &str| match line.strip_prefix("1 ") {
        Some(hex) => format!("1 {}\n", hex.chars().rev().collect::<String>()),
        None => format!("{line}\n"),
    };
    std::fs::write(&key_file, whole.lines().map(wrong).collect::<String>()).unwrap();
    let running = start(&text, &folder);
    assert_eq!(read(&running, "secret"), Err(ErrorKind::KeyUnavailable));
    assert_eq!(read_over_http(&running, "secret"), denied);
    assert_eq!(status(&running, "secret"), TableStatus::KeyUnavailable);
    assert_eq!(read_over_http(&running, "open"), Ok(51));
    assert_eq!(status(&running, "open"), TableStatus::Active);
    stop(running);
    std::fs::write(&key_file, &whole).unwrap();
    let running = start(&text, &folder);
    assert_eq!(read(&running, "secret"), Ok(52));

    keys(
        &journal,
        KeyRequest::Erase {
            table: "shop.secret".into(),
        },
    );
    assert_eq!(read(&running, "secret"), Err(ErrorKind::KeyUnavailable));
    assert_eq!(read(&running, "open"), Ok(51));
    keys(
        &journal,
        KeyRequest::Rotate {
            table: Some("shop.secret".into()),
        },
    );
    assert_eq!(
        read(&running, "secret"),
        Err(ErrorKind::KeyUnavailable),
        "a new key opens nothing old"
    );
    stop(running);
}
