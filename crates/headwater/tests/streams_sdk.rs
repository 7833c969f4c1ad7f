//! Change streams through AWS's SDK for Rust, against the running binary on a real MySQL: a random history over
//! `kill -9`, splits and merges; what errors look like; and how soon a commit can be read.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail, and tells what it measured"
)]

#[path = "../../stream/tests/support/mod.rs"]
mod support;

mod row_writer;
mod sdk;
mod wait;

use aws_sdk_keyspacesstreams::error::ProvideErrorMetadata;
use aws_sdk_keyspacesstreams::types::{
    KeyspacesCellValue, OriginType, ShardIteratorType, StreamStatus, StreamViewType,
};
use sdk::{Api, Consumer, number};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{Rng, seed};
use testkit::{Flavour, MysqlServer, Pipeline, one_at_a_time, ports};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(120);
const KEYS: &str = r#"
keys:
  - {access_key: admin, secret: admin-secret, user: admin, policies: [all]}
  - {access_key: nobody, secret: nobody-secret, user: nobody}
policies:
  all: {Version: "2012-10-17", Statement: [{Effect: Allow, Action: "*", Resource: "*"}]}
"#;

/// A pipeline with the API and a stream `t` of `shop.t`.
fn pipeline(server: &MysqlServer, shards: u32) -> (Pipeline, Api) {
    let (pipeline, endpoint) = pipeline_in("us-east-1", server, shards);
    (pipeline, Api::new(&endpoint))
}

/// The same in a Region of its own, and the API's endpoint.
fn pipeline_in(region: &str, server: &MysqlServer, shards: u32) -> (Pipeline, String) {
    let address = format!("127.0.0.1:{}", ports::free(1));
    let config = server.source_yaml("\"shop.*\"", &[])
        + "journal: {retention: 24h}\n"
        + &format!(
            "api: {{listen: \"{address}\", region: {region}, credentials_file: keys.yaml}}\n"
        )
        + &format!("streams:\n  - {{table: shop.t, name: t, shards: {{initial: {shards}}}}}\n");
    let mut pipeline = Pipeline::new(BINARY, &config);
    pipeline.write_private("keys.yaml", KEYS);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    (pipeline, format!("http://{address}"))
}

/// Key and origin of each record of a stream with one shard, once there are `count`.
fn origins(api: &Api, arn: &str, count: usize) -> BTreeMap<String, Vec<OriginType>> {
    let shard = api.get_stream(arn).shards()[0]
        .shard_id()
        .unwrap()
        .to_owned();
    let since = Instant::now();
    loop {
        assert!(since.elapsed() < LIMIT, "not {count} records");
        let first = api.iterator(arn, &shard, ShardIteratorType::TrimHorizon, None);
        let page = api.records(&first.unwrap(), 1000).unwrap();
        if page.change_records().len() >= count {
            assert_eq!(page.change_records().len(), count);
            let mut found = BTreeMap::<String, Vec<OriginType>>::new();
            for record in page.change_records() {
                let key = record.partition_keys().unwrap()["id"].as_bigint_t();
                let origin = record.origin().unwrap().clone();
                found.entry(key.unwrap().clone()).or_default().push(origin);
            }
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Two servers that replicate each other, a Headwater beside each: each Region has its own stream, and a
/// record says whether its row was written there or came by replication.
fn two_regions(flavour: Flavour) {
    use OriginType::{Replication, User};
    let _turn = one_at_a_time();
    let (east, west) = (
        MysqlServer::start(flavour, &[]),
        MysqlServer::start(flavour, &[]),
    );
    west.forget();
    west.follow(&east);
    east.sql().exec(row_writer::TABLES);
    west.wait_for(&east);
    east.follow(&west);
    let (mut in_east, east_api) = pipeline_in("us-east-1", &east, 1);
    let (mut in_west, west_api) = pipeline_in("eu-west-1", &west, 1);
    let api = |region, endpoint: &str| Api::in_region(region, endpoint, "admin", "admin-secret");
    let (east_api, west_api) = (api("us-east-1", &east_api), api("eu-west-1", &west_api));
    let (east_arn, west_arn) = (east_api.enabled("shop", "t"), west_api.enabled("shop", "t"));
    assert!(east_arn.contains(":us-east-1:"), "{east_arn}");
    assert!(west_arn.contains(":eu-west-1:"), "{west_arn}");
    east.sql()
        .exec("INSERT INTO shop.t VALUES (1, 1, 'east'), (2, 2, 'east')");
    west.wait_for(&east);
    west.sql()
        .exec("INSERT INTO shop.t VALUES (3, 3, 'west'); UPDATE shop.t SET v = 20 WHERE id = 2");
    east.wait_for(&west);
    let told = |entries: [(&str, Vec<OriginType>); 3]| {
        BTreeMap::from(entries.map(|(key, origins)| (key.to_owned(), origins)))
    };
    assert_eq!(
        origins(&east_api, &east_arn, 4),
        told([
            ("1", vec![User]),
            ("2", vec![User, Replication]),
            ("3", vec![Replication])
        ])
    );
    assert_eq!(
        origins(&west_api, &west_arn, 4),
        told([
            ("1", vec![Replication]),
            ("2", vec![Replication, User]),
            ("3", vec![User])
        ])
    );
    in_east.stop();
    in_west.stop();
}

#[test]
fn two_regions_of_mysql_tell_their_own_rows_from_replicated_ones() {
    two_regions(Flavour::Mysql97);
}

#[test]
fn two_regions_of_mariadb_tell_their_own_rows_from_replicated_ones() {
    two_regions(Flavour::Mariadb10);
}

/// Splits or merges at random, as an operator does; whether it was a merge.
fn reshard(pipeline: &Pipeline, open: &[String], random: &mut Rng) -> Option<bool> {
    let at = random.below(open.len() as u64) as usize;
    if random.chance(55) && open.len() < 12 {
        let split = pipeline.command(&["streams", "split"], &["t", &open[at], "--pieces", "2"]);
        return split.status.success().then_some(false);
    }
    let other = random.below(open.len() as u64) as usize;
    let merge = pipeline.command(&["streams", "merge"], &["t", &open[at], &open[other]]);
    merge.status.success().then_some(true)
}

#[test]
fn a_random_history_over_kills_splits_and_merges() {
    let _turn = one_at_a_time();
    let seed = seed("the SDK for Rust");
    let mut random = Rng(seed);
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    server.sql().exec(row_writer::TABLES);
    let (mut pipeline, api) = pipeline(&server, 2);
    let arn = api.enabled("shop", "t");
    let ends = Arc::new(AtomicBool::new(false));
    let writing = {
        let (port, ends) = (server.port(), Arc::clone(&ends));
        std::thread::spawn(move || row_writer::write(port, seed, &ends))
    };
    let mut consumer = Consumer::default();
    let (mut kills, mut splits, mut merges) = (0, 0, 0);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(25) || kills < 8 || merges < 2 {
        assert!(
            since.elapsed() < LIMIT,
            "{kills} kills, {splits} splits, {merges} merges"
        );
        consumer.step(&api, &arn, &mut random);
        std::thread::sleep(Duration::from_millis(20));
        if random.chance(20) {
            let open = consumer.open_shards(&api, &arn);
            match reshard(&pipeline, &open, &mut random) {
                Some(true) => merges += 1,
                Some(false) => splits += 1,
                None => {}
            }
        }
        if random.chance(8) {
            kills += 1;
            pipeline.kill();
            pipeline.start();
        }
        if random.chance(8) {
            // The consumer dies: it keeps the sequence numbers of what it took, not its iterators.
            consumer.forget_iterators();
        }
    }
    ends.store(true, Ordering::Relaxed);
    let (expected, transactions) = writing.join().unwrap();
    // A row of another table, after everything: once it is captured, all before it is.
    server
        .sql()
        .exec("CREATE TABLE shop.fence (id INT PRIMARY KEY); INSERT INTO shop.fence VALUES (1)");
    let enabled = |pipeline: &Pipeline| {
        let after = &["shop.fence", "--name", "fence"];
        pipeline
            .command(&["streams", "enable"], after)
            .status
            .success()
    };
    pipeline.wait("the fence", LIMIT, enabled);
    pipeline.done(&["streams", "disable"], &["t"]);
    consumer.drain(&api, &arn, &mut random);
    println!(
        "{transactions} transactions, {} records, {kills} kills, {splits} splits, {merges} merges",
        consumer.records
    );
    assert!(transactions > 100 && splits > 0);
    assert_eq!(consumer.seen, expected);
    pipeline.stop();
}

#[test]
fn answers_and_errors_have_the_types_that_the_sdk_knows() {
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    server.sql().exec(row_writer::TABLES);
    let (mut pipeline, api) = pipeline(&server, 1);
    let arn = api.enabled("shop", "t");
    server
        .sql()
        .exec("INSERT INTO shop.t VALUES (7, NULL, 'seven'); DELETE FROM shop.t");

    let stream = api.get_stream(&arn);
    assert_eq!(stream.stream_status(), &StreamStatus::Enabled);
    assert_eq!(stream.stream_view_type(), &StreamViewType::NewAndOldImages);
    assert_eq!((stream.keyspace_name(), stream.table_name()), ("shop", "t"));
    assert!(arn.ends_with(stream.stream_label()));
    let shard = stream.shards()[0].shard_id().unwrap().to_owned();

    let mut records = Vec::new();
    let since = Instant::now();
    while records.len() < 2 {
        assert!(since.elapsed() < LIMIT);
        let first = api
            .iterator(&arn, &shard, ShardIteratorType::TrimHorizon, None)
            .unwrap();
        records = api.records(&first, 100).unwrap().change_records().to_vec();
    }
    let [put, gone] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!(put.origin(), Some(&OriginType::User));
    assert!(put.old_image().is_none() && gone.new_image().is_none());
    let row = put.new_image().unwrap().value_cells().unwrap();
    assert_eq!(
        row["s"]
            .value()
            .unwrap()
            .as_varchar_t()
            .or(row["s"].value().unwrap().as_text_t())
            .unwrap(),
        "seven"
    );
    assert!(!row.contains_key("v"), "what is NULL is left out");
    assert_eq!(
        put.partition_keys().unwrap()["id"].as_bigint_t().unwrap(),
        "7"
    );
    let age = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
        - put.created_at().unwrap().as_secs_f64();
    assert!((0.0..120.0).contains(&age), "{age}");
    assert!(number(put.sequence_number()) < number(gone.sequence_number()));

    // Errors arrive as their modelled types.
    let other = arn.replace("/t/stream/", "/unknown/stream/");
    let missing = api
        .run(api.streams.get_stream().stream_arn(&other).send())
        .unwrap_err()
        .into_service_error();
    assert!(missing.is_resource_not_found_exception(), "{missing:?}");
    let broken = api
        .records("not-an-iterator", 10)
        .unwrap_err()
        .into_service_error();
    assert!(broken.is_validation_exception(), "{broken:?}");
    let refused = Api::with_key(&api.endpoint, "nobody", "nobody-secret");
    let denied = refused
        .run(refused.streams.get_stream().stream_arn(&arn).send())
        .unwrap_err()
        .into_service_error();
    assert!(denied.is_access_denied_exception(), "{denied:?}");
    let forged = Api::with_key(&api.endpoint, "admin", "another");
    let unsigned = forged
        .run(forged.streams.get_stream().stream_arn(&arn).send())
        .unwrap_err()
        .into_service_error();
    assert!(unsigned.code().is_some(), "{unsigned:?}");

    // The control plane, by its own client.
    let table = api
        .run(
            api.tables
                .get_table()
                .keyspace_name("shop")
                .table_name("t")
                .send(),
        )
        .unwrap();
    assert_eq!(table.latest_stream_arn(), Some(arn.as_str()));
    let tag = aws_sdk_keyspaces::types::Tag::builder()
        .key("team")
        .value("orders")
        .build()
        .unwrap();
    api.run(
        api.tables
            .tag_resource()
            .resource_arn(&arn)
            .tags(tag)
            .send(),
    )
    .unwrap();
    let tags = api
        .run(
            api.tables
                .list_tags_for_resource()
                .resource_arn(&arn)
                .send(),
        )
        .unwrap();
    assert_eq!(
        (tags.tags()[0].key(), tags.tags()[0].value()),
        ("team", "orders")
    );
    let unknown = api
        .run(
            api.tables
                .get_table()
                .keyspace_name("shop")
                .table_name("none")
                .send(),
        )
        .unwrap_err();
    assert!(
        unknown
            .into_service_error()
            .is_resource_not_found_exception()
    );
    pipeline.stop();
}

fn now_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_micros() as u64
}

/// Inserts `per_second` rows a second, ten in a transaction, each with the moment before its commit.
fn write_steadily(port: u16, per_second: u64, seconds: u64) -> u64 {
    use mysql::prelude::Queryable;
    let mut sql = row_writer::connect(port).unwrap();
    let begin = Instant::now();
    let transactions = per_second * seconds / 10;
    for transaction in 0..transactions {
        let due = Duration::from_micros(transaction * 10_000_000 / per_second);
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        let now = now_us();
        let rows: Vec<String> = (0..10)
            .map(|n| format!("({}, 0, '{now}')", transaction * 10 + n))
            .collect();
        sql.query_drop(format!("INSERT INTO shop.t VALUES {}", rows.join(",")))
            .unwrap();
    }
    transactions * 10
}

/// The target is 100 ms on a machine with nothing else to do; here MySQL, the writer, the pipeline and the reader share
/// it, and perhaps other tests.
#[test]
fn commits_are_soon_visible_at_5_000_rows_a_second() {
    const SECONDS: u64 = 15;
    let _turn = one_at_a_time();
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    server.sql().exec(row_writer::TABLES);
    let (mut pipeline, api) = pipeline(&server, 1);
    let arn = api.enabled("shop", "t");
    let shard = api.get_stream(&arn).shards()[0]
        .shard_id()
        .unwrap()
        .to_owned();
    let port = server.port();
    let writing = std::thread::spawn(move || write_steadily(port, 5_000, SECONDS));
    let mut iterator = api
        .iterator(&arn, &shard, ShardIteratorType::TrimHorizon, None)
        .unwrap();
    let mut delays: Vec<u64> = Vec::new();
    let since = Instant::now();
    while delays.len() < (5_000 * SECONDS) as usize {
        assert!(since.elapsed() < LIMIT, "{} records", delays.len());
        let page = api.records(&iterator, 1000).unwrap();
        let now = now_us();
        for record in page.change_records() {
            let row = record.new_image().unwrap().value_cells().unwrap();
            let value = row["s"].value().unwrap();
            let sent: u64 = value
                .as_varchar_t()
                .or(value.as_text_t())
                .unwrap()
                .parse()
                .unwrap();
            delays.push(now.saturating_sub(sent));
        }
        if page.change_records().len() < 100 {
            std::thread::sleep(Duration::from_millis(10));
        }
        iterator = page.next_shard_iterator().unwrap().to_owned();
    }
    assert_eq!(writing.join().unwrap() as usize, delays.len());
    delays.sort_unstable();
    let at = |percent: usize| delays[delays.len() * percent / 100] as f64 / 1000.0;
    println!(
        "from before the commit until GetRecords gave it, 5,000 rows/s: p50 {:.1} ms, p99 {:.1} ms, last {:.1} ms",
        at(50),
        at(99),
        delays[delays.len() - 1] as f64 / 1000.0
    );
    assert!(
        at(50) < 250.0 && at(99) < 2_000.0,
        "p50 {} ms, p99 {} ms",
        at(50),
        at(99)
    );
    pipeline.stop();
}

/// The endpoint of a journal that no pipeline writes, served in this process.
fn serve(streams: &stream::Streams) -> (stream_api::Server, Api) {
    let keys = "keys: [{access_key: A, secret: s, user: u, policies: [all]}]\npolicies:\n  all: {Statement: {Effect: \
                Allow, Action: '*', Resource: '*'}}\n";
    let api = stream_api::Api::new(stream_api::ApiParts {
        streams: streams.clone(),
        settings: stream_api::ApiConfig {
            listen: "127.0.0.1:0".into(),
            ..stream_api::ApiConfig::default()
        },
        keys: stream_api::KeyFile::fixed(
            stream_api::Keys::parse(keys, "keys", streams.identity()).unwrap(),
        ),
        sealer: stream_api::Sealer::new(&[7; 32]),
        audit: None,
    });
    let server = stream_api::Server::start(Arc::new(api)).unwrap();
    let endpoint = format!("http://{}", server.addresses()[0]);
    (server, Api::with_key(&endpoint, "A", "s"))
}

#[test]
fn values_of_cql_decode_as_deep_as_they_may_nest() {
    use support::cql;
    let dir = support::TempDir::new();
    let mut world = support::World::open(&dir.0.join("j"), support::TestClock::new());
    let depth = change::cql::DEPTH_MAX as usize;
    let (mut schema, rows) = cql::kinds(1);
    let place = schema
        .columns
        .iter()
        .position(|column| column.name == "c_deep");
    let place = place.unwrap();
    schema.columns[place].kind = change::ColumnType::Cql(change::CqlColumn {
        role: change::CqlRole::Regular,
        kind: cql::deep_type(depth),
    });
    world.schemas(&[&schema]);
    let arn = cql::enable(&mut world, "kinds", stream::ViewType::NewImage, 1);
    for (times, mut cells) in rows {
        cells[place] = cql::deep_value(depth);
        let record = cql::Record {
            after: Some((times, cells)),
            ..cql::Record::default()
        };
        cql::write(&mut world, &schema, &[record], false);
    }
    world.settle();
    let (_server, api) = serve(&world.streams);
    let shard = api.get_stream(&arn).shards()[0]
        .shard_id()
        .unwrap()
        .to_owned();
    let first = api.iterator(&arn, &shard, ShardIteratorType::TrimHorizon, None);
    let page = api.records(&first.unwrap(), 100).unwrap();
    assert_eq!(page.change_records().len(), 3);
    for record in page.change_records() {
        let cells = record.new_image().unwrap().value_cells().unwrap();
        assert!(
            cells
                .values()
                .all(|cell| !cell.value().unwrap().is_unknown()),
            "the SDK knows each member"
        );
        let mut at = cells["c_deep"].value().unwrap();
        for _ in 0..depth {
            at = at.as_list_t().unwrap()[0].value().unwrap();
        }
        assert_eq!(at, &KeyspacesCellValue::IntT("8".into()));
    }
    let cells = |row: usize| {
        page.change_records()[row]
            .new_image()
            .unwrap()
            .value_cells()
            .unwrap()
    };
    let udt = cells(0)["c_udt"].value().unwrap().as_udt_t().unwrap();
    assert_eq!(
        udt["zip"].value(),
        Some(&KeyspacesCellValue::IntT("12".into()))
    );
    assert_eq!(udt["late"].value(), None);
    let map = cells(0)["c_map"].value().unwrap().as_map_t().unwrap();
    assert_eq!(map[1].key(), Some(&KeyspacesCellValue::IntT("2".into())));
    let times = map[1].metadata().unwrap();
    assert_eq!(
        times.expiration_time(),
        Some(cql::EXPIRES_S.to_string().as_str())
    );
    assert!(
        cells(2)["c_e_set"]
            .value()
            .unwrap()
            .as_set_t()
            .unwrap()
            .is_empty()
    );
}
