//! Change streams of a real server: for each key the sequence of images equals what the writer did, over kills of the
//! server, restarts of the pipeline and of the consumer, splits and merges. And every type, as a consumer sees it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../../stream/tests/support/mod.rs"]
mod support;

mod in_process;
mod row_writer;
mod wait;

use in_process::{start, stop};
use pipeline::control::{self, Request};
use row_writer::write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stream::{CellValue, ReadFrom, ReadLimits, ShardId, StreamStatus, Streams};
use support::walker::Walker;
use support::{Rng, TempDir, seed};
use testkit::{Flavour, MysqlServer, one_at_a_time};

const LIMIT: Duration = Duration::from_secs(90);
const STREAMS: &str = "streams:\n  - {table: shop.t, name: t, shards: {initial: 2}}\n";

fn wait<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait::wait_within(LIMIT, what, look)
}

fn enabled(streams: &Streams, name: &str) -> String {
    wait("the stream", || {
        let info = streams.resolve(name).ok()?;
        (info.status == StreamStatus::Enabled).then(|| info.arn.clone())
    })
}

fn reshard(streams: &Streams, arn: &str, random: &mut Rng) {
    let shards = streams.shards(arn, None, None, 10_000).unwrap().shards;
    let mut open: Vec<(u64, ShardId)> = shards
        .iter()
        .filter(|s| s.ending.is_none())
        .map(|s| (s.from_hash, s.id))
        .collect();
    open.sort_unstable();
    let at = random.below(open.len() as u64) as usize;
    if random.chance(55) && open.len() < 12 {
        streams
            .split(arn, open[at].1, 2 + random.below(2) as u32)
            .unwrap();
    } else if at + 1 < open.len() {
        streams.merge(arn, &[open[at].1, open[at + 1].1]).unwrap();
    }
}

fn history(flavour: Flavour) {
    let _turn = one_at_a_time();
    let seed = seed(flavour.name());
    let mut random = Rng(seed);
    // What was committed survives a crash of the server.
    let server = MysqlServer::start(flavour, &["--innodb-flush-log-at-trx-commit=2"]);
    server.sql().exec(row_writer::TABLES);
    let dir = TempDir::new();
    let text = server.source_yaml("\"shop.*\"", &[]) + STREAMS;
    let mut running = start(&text, &dir.0);
    let arn = enabled(running.streams(), "t");
    let ends = Arc::new(AtomicBool::new(false));
    let writing = {
        let (port, ends) = (server.port(), Arc::clone(&ends));
        std::thread::spawn(move || write(port, seed, &ends))
    };
    let mut walker = Walker::default();
    let (mut kills, mut restarts) = (0, 0);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(20) || kills < 2 || restarts < 2 {
        walker.step(running.streams(), &arn, &mut random);
        std::thread::sleep(Duration::from_millis(30));
        if random.chance(10) {
            reshard(running.streams(), &arn, &mut random);
        }
        if random.chance(1) {
            kills += 1;
            server.kill();
            server.restart(&[]);
        }
        if random.chance(1) {
            restarts += 1;
            stop(running);
            running = start(&text, &dir.0);
        }
        if random.chance(5) {
            // The consumer dies: it keeps the sequences of what it took, not its iterators.
            walker.forget_iterators();
        }
    }
    ends.store(true, Ordering::Relaxed);
    let (expected, transactions) = writing.join().unwrap();
    // A row of another table, after everything: once it is captured, all before it is.
    server
        .sql()
        .exec("CREATE TABLE shop.fence (id INT PRIMARY KEY); INSERT INTO shop.fence VALUES (1)");
    wait("the fence", || {
        running.streams().table("shop", "fence").ok()
    });
    running.streams().disable(&arn).unwrap();
    walker.drain(running.streams(), &arn, &mut random);
    stop(running);
    assert!(transactions > 100 && kills >= 2 && restarts >= 2);
    assert_eq!(walker.seen, expected);
}

#[test]
fn history_of_mysql_9_7() {
    history(Flavour::Mysql97);
}

#[test]
fn history_of_mariadb_11_4() {
    history(Flavour::Mariadb11);
}

/// What a column's values look like: `member text`.
fn shown(value: CellValue<'_>) -> String {
    let member = value.member();
    let mut text = Vec::new();
    match value {
        CellValue::Blob(bytes) => {
            text.extend(bytes.iter().flat_map(|b| format!("{b:02x}").into_bytes()))
        }
        CellValue::Bool(v) => text.extend(v.to_string().into_bytes()),
        CellValue::Set(elements) | CellValue::List(elements) => {
            for cell in elements {
                cell.value.unwrap().put_text(&mut text);
                text.push(b'|');
            }
        }
        other => other.put_text(&mut text),
    }
    format!("{member} {}", String::from_utf8(text).unwrap())
}

fn types(flavour: Flavour, columns: &[(&str, &str, &str)]) {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(flavour, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; SET GLOBAL sql_mode = 'ALLOW_INVALID_DATES'; SET sql_mode = 'ALLOW_INVALID_DATES'");
    let declared: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(n, (kind, _, _))| format!("c{n} {kind}"))
        .collect();
    sql.exec(&format!(
        "CREATE TABLE shop.t (id BIGINT PRIMARY KEY, {}) CHARACTER SET utf8mb4",
        declared.join(", ")
    ));
    let dir = TempDir::new();
    let text = server.source_yaml("\"shop.*\"", &[]) + STREAMS;
    let running = start(&text, &dir.0);
    let arn = enabled(running.streams(), "shop.t");
    let values: Vec<&str> = columns.iter().map(|(_, value, _)| *value).collect();
    sql.exec(&format!(
        "INSERT INTO shop.t VALUES (1, {})",
        values.join(", ")
    ));
    let nulls = vec!["NULL"; columns.len()];
    sql.exec(&format!(
        "INSERT INTO shop.t VALUES (1000000000000, {})",
        nulls.join(", ")
    ));
    let mut rows = Vec::new();
    wait("two rows", || {
        rows.clear();
        for shard in running
            .streams()
            .shards(&arn, None, None, 10)
            .unwrap()
            .shards
        {
            let page = running
                .streams()
                .read(&arn, shard.id, ReadFrom::Horizon, ReadLimits::default())
                .unwrap();
            for record in page.records() {
                let row = record.new_image().unwrap();
                rows.push(
                    row.value_cells()
                        .map(|c| (c.name.to_owned(), shown(c.value)))
                        .collect::<Vec<_>>(),
                );
            }
        }
        (rows.len() == 2).then_some(())
    });
    rows.sort_by_key(Vec::len);
    assert_eq!(
        rows[0],
        [("id".to_owned(), "bigintT 1000000000000".to_owned())],
        "nulls are left out"
    );
    assert_eq!(rows[1][0], ("id".to_owned(), "bigintT 1".to_owned()));
    for (n, (kind, value, expected)) in columns.iter().enumerate() {
        assert_eq!(rows[1][n + 1].1, *expected, "{kind} {value}");
    }
    assert_eq!(rows[1].len(), columns.len() + 1);
    stop(running);
}

const COMMON: &[(&str, &str, &str)] = &[
    ("TINYINT", "-128", "tinyintT -128"),
    ("TINYINT UNSIGNED", "255", "smallintT 255"),
    ("SMALLINT", "-32768", "smallintT -32768"),
    ("SMALLINT UNSIGNED", "65535", "intT 65535"),
    ("MEDIUMINT", "-8388608", "intT -8388608"),
    ("MEDIUMINT UNSIGNED", "16777215", "intT 16777215"),
    ("INT", "-2147483648", "intT -2147483648"),
    ("INT UNSIGNED", "4294967295", "bigintT 4294967295"),
    (
        "BIGINT",
        "-9223372036854775808",
        "bigintT -9223372036854775808",
    ),
    (
        "BIGINT UNSIGNED",
        "18446744073709551615",
        "varintT 18446744073709551615",
    ),
    ("DECIMAL(20,4)", "-1234.5", "decimalT -1234.5000"),
    ("FLOAT", "1.5", "floatT 1.5"),
    ("DOUBLE", "-1e300", "doubleT -1E300"),
    ("BIT(1)", "b'1'", "boolT true"),
    ("BIT(12)", "b'101'", "bigintT 5"),
    (
        "BIT(64)",
        "x'ffffffffffffffff'",
        "varintT 18446744073709551615",
    ),
    ("YEAR", "2026", "smallintT 2026"),
    ("DATE", "'2026-11-30'", "dateT 2026-11-30"),
    ("DATE", "'2026-02-31'", "textT 2026-02-31"),
    ("DATE", "'0000-00-00'", "textT 0000-00-00"),
    ("TIME(3)", "'12:34:56.789'", "timeT 12:34:56.789"),
    ("TIME", "'-00:00:01'", "textT -00:00:01"),
    ("TIME", "'838:59:59'", "textT 838:59:59"),
    (
        "DATETIME",
        "'2026-11-30 01:02:03'",
        "timestampT 2026-11-30T01:02:03.000Z",
    ),
    (
        "DATETIME(6)",
        "'2026-11-30 01:02:03.123456'",
        "timestampT 2026-11-30T01:02:03.123456Z",
    ),
    (
        "DATETIME",
        "'0000-00-00 00:00:00'",
        "textT 0000-00-00 00:00:00",
    ),
    (
        "TIMESTAMP(3) NULL",
        "'2026-11-30 01:02:03.5'",
        "timestampT 2026-11-30T01:02:03.500Z",
    ),
    ("CHAR(5)", "'ab'", "textT ab"),
    ("VARCHAR(20) CHARACTER SET latin1", "'žlu'", "textT žlu"),
    ("VARCHAR(20)", "'žluť 🐎'", "textT žluť 🐎"),
    ("VARCHAR(20) CHARACTER SET ascii", "'plain'", "asciiT plain"),
    ("TEXT", "''", "textT "),
    ("BINARY(3)", "'a'", "blobT 610000"),
    ("VARBINARY(9)", "x'00ff'", "blobT 00ff"),
    ("BLOB", "''", "blobT "),
    ("ENUM('a','b')", "'b'", "textT b"),
    ("SET('a','b','c')", "'a,c'", "setT a|c|"),
    ("SET('a','b','c')", "''", "setT "),
    (
        "GEOMETRY",
        "ST_GeomFromText('POINT(1 2)')",
        "blobT 000000000101000000000000000000f03f0000000000000040",
    ),
];

#[test]
fn types_of_mysql_9_7() {
    let mut columns = COMMON.to_vec();
    columns.push(("JSON", "'{\"a\": 1}'", "textT {\"a\": 1}"));
    columns.push(("VECTOR(2)", "TO_VECTOR('[1.5, -2]')", "listT 1.5|-2.0|"));
    types(Flavour::Mysql97, &columns);
}

#[test]
fn types_of_mariadb_11_4() {
    let mut columns = COMMON.to_vec();
    let uuid = "123e4567-e89b-12d3-a456-426655440000";
    let (value, expected) = (format!("'{uuid}'"), format!("uuidT {uuid}"));
    columns.push(("JSON", "'{\"a\": 1}'", "textT {\"a\": 1}"));
    columns.push(("UUID", &value, &expected));
    columns.push(("INET4", "'127.0.0.1'", "inetT 127.0.0.1"));
    columns.push(("INET6", "'2001:db8::1'", "inetT 2001:db8::1"));
    types(Flavour::Mariadb11, &columns);
}

#[test]
fn partial_rows_a_missing_key_and_a_dropped_table() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &["--binlog-row-image=MINIMAL"]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id BIGINT PRIMARY KEY, v INT); CREATE TABLE shop.free (v INT)");
    let dir = TempDir::new();
    let running = start(
        &server.source_yaml("\"shop.*\"", &["snapshot: never"]),
        &dir.0,
    );
    let streams = running.streams().clone();
    sql.exec("INSERT INTO shop.t VALUES (1, 1); INSERT INTO shop.free VALUES (1)");
    let request = |table: &str, view| stream::EnableStream {
        keyspace: "shop".into(),
        table: table.into(),
        view: Some(view),
        ..stream::EnableStream::default()
    };
    wait("the tables", || streams.table("shop", "free").ok());
    let refused = streams
        .enable(request("t", stream::ViewType::NewImage))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("binlog_row_image is MINIMAL") && refused.contains("SET PERSIST"),
        "{refused}"
    );
    let keyless = streams
        .enable(request("free", stream::ViewType::KeysOnly))
        .unwrap_err()
        .to_string();
    assert!(keyless.contains("ADD PRIMARY KEY"), "{keyless}");
    let info = streams
        .enable(request("t", stream::ViewType::KeysOnly))
        .unwrap();
    sql.exec("UPDATE shop.t SET v = 2; DELETE FROM shop.t; DROP TABLE shop.t");
    let ended = wait("the end", || {
        let info = streams.describe(&info.arn).unwrap();
        (info.status == StreamStatus::Disabled).then_some(info)
    });
    assert_eq!(ended.reason, "its table was dropped");
    let shard = streams
        .shards(&info.arn, None, None, 9)
        .unwrap()
        .shards
        .remove(0);
    let page = streams
        .read(
            &info.arn,
            shard.id,
            ReadFrom::Horizon,
            ReadLimits::default(),
        )
        .unwrap();
    let keys: Vec<_> = page
        .records()
        .map(|record| record.partition_keys().count())
        .collect();
    assert_eq!(
        (keys, page.next),
        (vec![1, 1], None),
        "the key stands in a minimal row too"
    );
    stop(running);
}

#[test]
fn rows_of_another_server_or_domain_are_replication() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mariadb11, &[]);
    server.sql().exec(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id BIGINT PRIMARY KEY, v INT, s VARCHAR(100))",
    );
    let dir = TempDir::new();
    let running = start(&(server.source_yaml("\"shop.*\"", &[]) + STREAMS), &dir.0);
    let arn = enabled(running.streams(), "t");
    let mut sql = server.sql();
    // As the applier of another server's log does.
    sql.exec("INSERT INTO shop.t (id) VALUES (1); SET SESSION server_id = 4242; INSERT INTO shop.t (id) VALUES (2)");
    server
        .sql()
        .exec("SET SESSION gtid_domain_id = 77; INSERT INTO shop.t (id) VALUES (3)");
    let mut origins = Vec::new();
    wait("three rows", || {
        origins.clear();
        for shard in running
            .streams()
            .shards(&arn, None, None, 10)
            .unwrap()
            .shards
        {
            let streams = running.streams();
            let page = streams
                .read(&arn, shard.id, ReadFrom::Horizon, ReadLimits::default())
                .unwrap();
            origins.extend(
                page.records()
                    .map(|r| (support::walker::key_of(&r), r.origin().as_str())),
            );
        }
        (origins.len() == 3).then_some(())
    });
    origins.sort_unstable();
    assert_eq!(
        origins,
        [(1, "USER"), (2, "REPLICATION"), (3, "REPLICATION")]
    );
    stop(running);
}

/// Keys of every record that a stream has, in order of their sequences.
fn keys_of(streams: &Streams, arn: &str) -> Vec<i64> {
    let mut all = Vec::new();
    for shard in streams.shards(arn, None, None, 100).unwrap().shards {
        let page = streams.read(arn, shard.id, ReadFrom::Horizon, ReadLimits::default());
        for record in page.unwrap().records() {
            all.push((record.sequence(), support::walker::key_of(&record)));
        }
    }
    all.sort_unstable();
    all.into_iter().map(|(_, key)| key).collect()
}

/// Every listed stream of `shop.t`, oldest first: its state, the first words of its reason, the keys of its records.
fn all_of_t(streams: &Streams) -> Vec<(StreamStatus, String, Vec<i64>)> {
    let listed = streams.list(Some("shop"), Some("t"), None, 100).unwrap();
    let one = |info: &Arc<stream::StreamInfo>| {
        let words: Vec<&str> = info.reason.split(' ').take(4).collect();
        (info.status, words.join(" "), keys_of(streams, &info.arn))
    };
    listed.streams.iter().map(one).collect()
}

/// A row of another table, after everything: once its table is captured, all before it is.
fn fence(streams: &Streams, server: &MysqlServer, name: &str) {
    server.sql().exec(&format!(
        "CREATE TABLE shop.{name} (id INT PRIMARY KEY); INSERT INTO shop.{name} VALUES (1)"
    ));
    wait("the fence", || streams.table("shop", name).ok());
    std::thread::sleep(Duration::from_millis(1200));
}

#[test]
fn a_declared_stream_is_made_again_after_a_drop_and_a_swap_and_not_after_a_command() {
    use StreamStatus::{Disabled, Enabled};
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id BIGINT PRIMARY KEY, v INT)");
    let dir = TempDir::new();
    let running = start(&(server.source_yaml("\"shop.*\"", &[]) + STREAMS), &dir.0);
    let streams = running.streams().clone();
    enabled(&streams, "t");
    sql.exec("INSERT INTO shop.t VALUES (1, 1); DROP TABLE shop.t");
    sql.exec(
        "CREATE TABLE shop.t (id BIGINT PRIMARY KEY, v INT); INSERT INTO shop.t VALUES (2, 1)",
    );
    // As gh-ost and pt-online-schema-change end.
    sql.exec("CREATE TABLE shop.t_new (id BIGINT PRIMARY KEY, v INT, w INT); INSERT INTO shop.t_new VALUES (2, 1, 1)");
    sql.exec("RENAME TABLE shop.t TO shop.t_old, shop.t_new TO shop.t; INSERT INTO shop.t VALUES (3, 1, 1)");
    fence(&streams, &server, "fence_a");
    let expected = [
        (Disabled, "its table was dropped".to_owned(), vec![1]),
        (Disabled, "its table was renamed;".to_owned(), vec![2]),
        (Enabled, String::new(), vec![3]),
    ];
    assert_eq!(all_of_t(&streams), expected);
    let info = streams.resolve("t").unwrap();
    streams.disable(&info.arn).unwrap();
    sql.exec("ALTER TABLE shop.t ADD COLUMN x INT; DROP TABLE shop.t; CREATE TABLE shop.t (id BIGINT PRIMARY KEY)");
    sql.exec("INSERT INTO shop.t VALUES (4)");
    fence(&streams, &server, "fence_b");
    let all = all_of_t(&streams);
    assert_eq!((all.len(), all[2].0), (3, Disabled), "{all:?}");
    stop(running);
}

#[test]
fn a_table_that_is_copied_again_gets_a_new_stream_and_one_with_snapshot_rows_has_the_copy() {
    use StreamStatus::{Disabled, Enabled};
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id BIGINT PRIMARY KEY); INSERT INTO shop.t VALUES (1), (2)");
    sql.exec("CREATE TABLE shop.all_of_it (id BIGINT PRIMARY KEY); INSERT INTO shop.all_of_it VALUES (1), (2)");
    let dir = TempDir::new();
    let text = server.source_yaml("\"shop.*\"", &[])
        + STREAMS
        + "  - {table: shop.all_of_it, name: all, include_snapshot: true}\n";
    let running = start(&text, &dir.0);
    let streams = running.streams().clone();
    let first = enabled(&streams, "t");
    sql.exec("INSERT INTO shop.t VALUES (3); INSERT INTO shop.all_of_it VALUES (3)");
    let all = enabled(&streams, "all");
    wait("the rows", || {
        let is_there = keys_of(&streams, &first) == [3] && keys_of(&streams, &all).contains(&3);
        is_there.then_some(())
    });
    let seen = keys_of(&streams, &all);
    assert_eq!(seen, [1, 2, 3], "the initial copy is in it");
    let socket = control::connect(&dir.0.join("shop.journal")).unwrap();
    let heal = Request::Heal {
        table: "shop.t".into(),
        resnapshot: true,
    };
    let answer = control::call(&socket, &heal).unwrap();
    assert!(answer.ok, "{}", answer.text);
    let second = wait("the next stream", || {
        let info = streams.resolve("t").ok()?;
        let is_next = info.status == Enabled && info.arn != first;
        is_next.then(|| info.arn.clone())
    });
    sql.exec("INSERT INTO shop.t VALUES (4)");
    wait("the row", || {
        (keys_of(&streams, &second) == [4]).then_some(())
    });
    let expected = [
        (Disabled, "its table is copied".to_owned(), vec![3]),
        (Enabled, String::new(), vec![4]),
    ];
    assert_eq!(all_of_t(&streams), expected);
    stop(running);
}

#[test]
fn a_session_that_writes_partial_rows_ends_the_stream_with_images_there() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id BIGINT PRIMARY KEY, v INT, s VARCHAR(9)); CREATE TABLE shop.k LIKE shop.t");
    let dir = TempDir::new();
    let text = server.source_yaml("\"shop.*\"", &[])
        + STREAMS
        + "  - {table: shop.k, name: k, view: keys_only}\n";
    let running = start(&text, &dir.0);
    let streams = running.streams().clone();
    let (with_images, keys_only) = (enabled(&streams, "t"), enabled(&streams, "k"));
    sql.exec("INSERT INTO shop.t VALUES (1, 1, 'a'); INSERT INTO shop.k VALUES (1, 1, 'a')");
    sql.exec("SET SESSION binlog_row_image = 'MINIMAL'; UPDATE shop.t SET v = 2; UPDATE shop.k SET v = 2");
    sql.exec("SET SESSION binlog_row_image = 'FULL'; INSERT INTO shop.t VALUES (2, 1, 'a'); INSERT INTO shop.k VALUES (2, 1, 'a')");
    wait("the rows of keys", || {
        (keys_of(&streams, &keys_only) == [1, 1, 2]).then_some(())
    });
    let ended = wait("the end", || {
        let info = streams.describe(&with_images).unwrap();
        (info.status == StreamStatus::Disabled).then_some(info)
    });
    assert!(
        ended.reason.contains("binlog_row_image"),
        "{}",
        ended.reason
    );
    assert_eq!(keys_of(&streams, &with_images), [1]);
    let still = streams.describe(&keys_only).unwrap();
    assert_eq!(still.status, StreamStatus::Enabled);
    stop(running);
}
