//! Against a real RocketMQ: `cargo test --release -p sink-rocketmq -- --ignored`.

mod feed;

use change::contract::ErrorKind;
use change::event::DdlChange;
use change::{
    Ddl, DdlKind, Event, Operation, RowChange, Sink, SinkError, TableId, TransactionHeader,
};
use feed::{FIRST, Feed, cursor};
use sink_rocketmq::{Identity, RocketMqConfig, RocketMqSink};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::RocketMq;
use testkit::rocketmq::{Part, RocketMessage};

fn config(namesrv: &str, more: &[(&str, serde_json::Value)]) -> RocketMqConfig {
    let mut fields = serde_json::json!({
        "name_servers": [namesrv],
        "create_topics": {"queues": 4},
    });
    for (key, value) in more {
        fields[*key] = value.clone();
    }
    serde_json::from_value(fields).expect("the settings are right")
}

fn sink(namesrv: &str, more: &[(&str, serde_json::Value)]) -> RocketMqSink {
    let identity = Identity {
        pipeline: "test".into(),
        sink: "out".into(),
    };
    RocketMqSink::new(config(namesrv, more), &identity).expect("the settings are right")
}

/// Ends the delivery of a scope with the scope's own thread, also when that fails: it waits for it.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn id_of(message: &RocketMessage) -> String {
    message.properties["headwater_id"].clone()
}

fn number_of(message: &RocketMessage) -> u64 {
    let body: serde_json::Value = serde_json::from_str(message.text()).expect("the body is JSON");
    let text = body["data"][0]["n"].as_str().expect("a number");
    text.parse().expect("a number")
}

/// Checks that nothing is lost, that what comes twice has the same id and body, that each key has one
/// queue, and that each key's numbers rise once repeats are dropped. Returns the number of repeats.
fn check_history(feed: &Feed, messages: &[RocketMessage], count: u64) -> usize {
    let mut numbers = BTreeSet::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut queues: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    let mut repeats = 0;
    for message in messages {
        let number = number_of(message);
        assert_eq!(id_of(message), format!("{}-0", FIRST + number));
        let key = feed.key(number);
        queues.entry(key).or_default().insert(message.queue);
        if !numbers.insert(number) {
            repeats += 1;
            continue;
        }
        if let Some(before) = last.insert(key, number) {
            assert!(before < number, "key {key}: {number} comes after {before}");
        }
    }
    let missing = (0..count).filter(|number| !numbers.contains(number));
    let missing: Vec<u64> = missing.collect();
    assert!(
        missing.is_empty(),
        "{} of {count} messages are missing, the first {:?}, the last {:?}",
        missing.len(),
        missing.first(),
        missing.last()
    );
    assert!(queues.values().all(|queues| queues.len() == 1));
    repeats
}

#[test]
#[ignore = "needs RocketMQ"]
fn each_key_keeps_its_order_over_many_queues() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    let feed = Feed::new("orders", 50, 100);
    let mut sink = sink(&server.namesrv(), &[]);
    feed.deliver(&mut sink, 5000, 500).expect("it delivers");
    let messages = server.messages("shop-orders");
    assert_eq!(check_history(&feed, &messages, 5000), 0);
    let used: BTreeSet<_> = messages.iter().map(|message| message.queue).collect();
    assert_eq!(used.len(), 4);
    for message in &messages {
        let key = feed.key(number_of(message)).to_string();
        assert_eq!(message.keys.as_deref(), Some(key.as_str()));
        assert_eq!(message.tags.as_deref(), Some("orders"));
        assert_eq!(message.properties["__SHARDINGKEY"], key);
    }
    // The cursor is read back, also by another process's sink.
    drop(sink);
    let mut again = self::sink(&server.namesrv(), &[]);
    let found = again.open().expect("it opens").expect("a cursor");
    assert_eq!(found, cursor(5000));
}

#[test]
#[ignore = "needs RocketMQ"]
fn a_broker_that_crashes_loses_and_disorders_nothing() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    let feed = Feed::new("orders", 200, 200);
    let mut sink = sink(&server.namesrv(), &[("timeout_s", serde_json::json!(3))]);
    // A batch is tried again for 3 s only: now and then the sink starts over from its cursor.
    let (ended, delivered) = (AtomicBool::new(false), AtomicU64::new(0));
    let more = |done| {
        delivered.store(done, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
        !ended.load(Ordering::Relaxed)
    };
    let mut seen = Vec::new();
    let faults = std::thread::scope(|scope| {
        let delivery = scope.spawn(|| feed.deliver_while(&mut sink, 200, &more));
        let ends = Ends(&ended);
        for round in 0..4 {
            let before = delivered.load(Ordering::Relaxed);
            let back = Instant::now();
            while delivered.load(Ordering::Relaxed) == before {
                assert!(
                    back.elapsed() < Duration::from_secs(60),
                    "delivery does not go on"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
            eprintln!("went on after {:?}", back.elapsed());
            std::thread::sleep(Duration::from_millis(1200 + 37 * round));
            server.kill_part(Part::Broker);
            seen.push(delivered.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(500 + 3000 * (round % 2)));
            server.restart_part(Part::Broker);
        }
        std::thread::sleep(Duration::from_millis(1000));
        drop(ends);
        delivery.join().expect("no panic")
    });
    let faults = faults.expect("it delivers");
    let count = delivered.load(Ordering::Relaxed);
    seen.push(count);
    assert!(
        seen.is_sorted_by(|a, b| a < b),
        "no delivery between crashes: {seen:?}"
    );
    let repeats = check_history(&feed, &server.messages("shop-orders"), count);
    eprintln!("delivered by each crash: {seen:?}");
    eprintln!("opened again {faults} times, {repeats} messages came twice");
}

#[test]
#[ignore = "needs RocketMQ"]
fn a_process_that_is_killed_repeats_only_the_same_ids() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    let feed = Feed::new("orders", 200, 200);
    let program = std::env::current_exe().expect("the test's own program");
    for _ in 0..3 {
        let mut child = Command::new(&program)
            .args(["--ignored", "--exact", "deliver_until_killed"])
            .env("HEADWATER_TEST_NAMESRV", server.namesrv())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        std::thread::sleep(Duration::from_millis(1500));
        child.kill().expect("the child is killed");
        child.wait().expect("the child is gone");
    }
    let mut sink = sink(&server.namesrv(), &[]);
    let stood = sink.open().expect("it opens").expect("a cursor").sequence - FIRST;
    assert!(stood > 0 && stood < KILLED_ROWS, "{stood}");
    feed.deliver(&mut sink, KILLED_ROWS, 500)
        .expect("it delivers");
    let repeats = check_history(&feed, &server.messages("shop-orders"), KILLED_ROWS);
    eprintln!("the cursor stood at {stood}, {repeats} messages came twice");
}

const KILLED_ROWS: u64 = 300_000;

#[test]
#[ignore = "is started by another test"]
fn deliver_until_killed() {
    let Ok(namesrv) = std::env::var("HEADWATER_TEST_NAMESRV") else {
        return;
    };
    let feed = Feed::new("orders", 200, 200);
    // Slower than it could: it is to be killed at work, not when it is done.
    let more = |done: u64| {
        std::thread::sleep(Duration::from_millis(10));
        done < KILLED_ROWS
    };
    let _ = feed.deliver_while(&mut sink(&namesrv, &[]), 500, &more);
}

#[test]
#[ignore = "needs RocketMQ"]
fn a_missing_topic_parks_its_table_and_a_large_message_its_key() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&["--set", "maxMessageSize=100000"]);
    let mut bare = sink(
        &server.namesrv(),
        &[("create_topics", serde_json::Value::Null)],
    );
    assert_eq!(bare.open().expect("it opens"), None);
    let feed = Feed::new("orders", 10, 10);
    let refused = feed.write(&mut bare, 0).expect_err("there is no topic");
    let rejection = refused.rejection.expect("the table is parked");
    assert_eq!(rejection.table, "shop.orders");
    assert_eq!(rejection.key_token, None);
    drop(bare);

    // Larger than the broker takes, though not than the sink's own bound.
    let mut sink = sink(&server.namesrv(), &[]);
    sink.open().expect("it opens");
    let large = Feed::new("orders", 10, 150_000);
    feed.write(&mut sink, 0).expect("it is taken");
    large.write(&mut sink, 1).expect("it is taken");
    feed.write(&mut sink, 2).expect("it is taken");
    let refused = sink.flush(&cursor(3)).expect_err("it is too large");
    let rejection = refused.rejection.expect("the key is parked");
    assert_eq!(rejection.key_token, Some(large.key(1) + 1));
    assert_eq!(rejection.sequence, FIRST + 1);
    assert_eq!(rejection.key_columns, ["id"]);
    assert!(!rejection.reason.is_empty());
    sink.abort().expect("it aborts");

    let bound = serde_json::json!(1024);
    let mut sink = self::sink(&server.namesrv(), &[("message_bytes_max", bound)]);
    sink.open().expect("it opens");
    let refused = large.write(&mut sink, 1).expect_err("it is too large");
    assert!(refused.rejection.is_some(), "{refused}");
}

fn statement(sink: &mut dyn Sink, sequence: u64, sql: &str) -> Result<(), SinkError> {
    let header = TransactionHeader::default();
    sink.write(&Event::Ddl(DdlChange {
        sequence,
        ddl: Ddl {
            kind: DdlKind::AlterTable,
            database: "shop",
            table: "orders",
            renamed_from: "",
            sql,
            charset: "",
            sql_mode: 0,
        },
        header: &header,
    }))
}

#[test]
#[ignore = "needs RocketMQ"]
fn a_table_s_statements_stand_among_its_rows_and_a_refused_one_parks_it() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    let feed = Feed::new("orders", 10, 10);
    let settings = [
        ("partition_by", serde_json::json!("table")),
        ("message_bytes_max", serde_json::json!(2000)),
    ];
    let mut sink = sink(&server.namesrv(), &settings);
    sink.open().expect("it opens");
    feed.write(&mut sink, 0).expect("it is taken");
    statement(&mut sink, FIRST + 1, "ALTER TABLE orders ADD x INT").expect("it is taken");
    feed.write(&mut sink, 2).expect("it is taken");
    sink.flush(&cursor(3)).expect("it is stored");
    let messages = server.messages("shop-orders");
    let ids: Vec<String> = messages.iter().map(id_of).collect();
    assert_eq!(ids, ["1000-0", "1001-0", "1002-0"]);
    let queues: BTreeSet<u32> = messages.iter().map(|message| message.queue).collect();
    assert_eq!(queues.len(), 1);

    let long = "x".repeat(3000);
    let refused = statement(&mut sink, FIRST + 3, &long).expect_err("it is too large");
    let rejection = refused.rejection.expect("its table is parked");
    assert_eq!(
        (rejection.table.as_str(), rejection.key_token),
        ("shop.orders", None)
    );
}

#[test]
#[ignore = "needs RocketMQ"]
fn topics_are_as_the_config_says_and_a_table_without_a_key_stays_in_one_queue() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    let settings = [
        ("topic", serde_json::json!("all")),
        ("topics", serde_json::json!({"shop.orders": "orders"})),
        ("snapshot_topic", serde_json::json!("{table}-initial")),
        ("ddl_topic", serde_json::json!("statements")),
        ("keyless", serde_json::json!("first")),
    ];
    let (orders, mut log) = (Feed::new("orders", 50, 10), Feed::new("log", 50, 10));
    log.table.table = TableId(2);
    log.table.primary_key.clear();
    let mut sink = sink(&server.namesrv(), &settings);
    sink.open().expect("it opens");
    for number in 0..20 {
        orders.write(&mut sink, number).expect("it is taken");
        log.write(&mut sink, number).expect("it is taken");
    }
    // What changes is one update: its parts have no queues of their own.
    log.with_row(20, Some(777), |event| sink.write(event))
        .expect("it is taken");
    orders
        .with_row(21, None, |event| {
            let Event::Row(row) = event else {
                unreachable!("a row was asked for")
            };
            let operation = Operation::Read;
            sink.write(&Event::Row(RowChange { operation, ..*row }))
        })
        .expect("it is taken");
    statement(&mut sink, FIRST + 22, "ALTER TABLE orders ADD x INT").expect("it is taken");
    sink.flush(&cursor(23)).expect("it is stored");

    let queues = |messages: &[RocketMessage]| -> BTreeSet<u32> {
        messages.iter().map(|message| message.queue).collect()
    };
    let messages = server.messages("orders");
    assert_eq!(messages.len(), 20);
    assert!(queues(&messages).len() > 1);
    let messages = server.messages("all");
    assert_eq!(messages.len(), 21);
    assert_eq!(queues(&messages), BTreeSet::from([0]));
    let numbers: Vec<u64> = messages.iter().map(number_of).collect();
    assert_eq!(numbers, (0..21).collect::<Vec<u64>>());
    assert!(messages[20].text().contains("\"type\":\"UPDATE\""));
    // The key's text is still told, but none that chose the queue.
    assert!(messages[20].keys.is_some());
    assert!(!messages[20].properties.contains_key("__SHARDINGKEY"));
    assert_eq!(server.messages("orders-initial").len(), 1);
    assert_eq!(server.messages("statements").len(), 1);
}

#[test]
#[ignore = "needs RocketMQ"]
fn queues_that_are_added_park_the_table_until_keys_may_move() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    server.create_topic("shop-orders", 2);
    let feed = Feed::new("orders", 50, 10);
    let mut sink = sink(&server.namesrv(), &[]);
    feed.deliver(&mut sink, 100, 100).expect("it delivers");
    server.create_topic("shop-orders", 6);

    // In a running sink it is noticed after a while; until then keys stay where they are.
    let end = Instant::now() + Duration::from_secs(60);
    let mut count = 100;
    let refused = loop {
        assert!(Instant::now() < end, "the new queues are not noticed");
        if let Err(error) = feed.write(&mut sink, count) {
            break error;
        }
        count += 1;
        sink.flush(&cursor(count)).expect("it is stored");
        std::thread::sleep(Duration::from_millis(200));
    };
    let rejection = refused.rejection.expect("the table is parked");
    assert_eq!(rejection.key_token, None);
    check_history(&feed, &server.messages("shop-orders"), count);

    // Also after a restart.
    drop(sink);
    let mut sink = self::sink(&server.namesrv(), &[]);
    sink.open().expect("it opens");
    let refused = feed.write(&mut sink, count).expect_err("still parked");
    assert!(refused.rejection.is_some(), "{refused}");

    drop(sink);
    let rehash = serde_json::json!("rehash");
    let mut sink = self::sink(&server.namesrv(), &[("queues_changed", rehash)]);
    feed.deliver(&mut sink, count + 100, 50)
        .expect("keys may move");
    let queues: BTreeSet<_> = server
        .messages("shop-orders")
        .iter()
        .map(|message| message.queue)
        .collect();
    assert!(queues.len() > 2, "{queues:?}");
}

#[test]
#[ignore = "needs RocketMQ"]
fn a_second_writer_fences_the_first() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    let feed = Feed::new("orders", 50, 10);
    let mut first = sink(&server.namesrv(), &[]);
    first.open().expect("it opens");
    feed.write(&mut first, 0).expect("it is taken");
    first.flush(&cursor(1)).expect("it is stored");
    let mut second = sink(&server.namesrv(), &[]);
    assert_eq!(second.open().expect("it opens"), Some(cursor(1)));
    feed.write(&mut first, 1).expect("it is taken");
    let fenced = first.flush(&cursor(2)).expect_err("another one writes");
    assert_eq!(fenced.kind, ErrorKind::Fenced, "{fenced}");
    feed.write(&mut second, 1).expect("it is taken");
    second.flush(&cursor(2)).expect("it is stored");
    let mut third = sink(&server.namesrv(), &[]);
    assert_eq!(third.open().expect("it opens"), Some(cursor(2)));
}

#[test]
#[ignore = "needs RocketMQ"]
fn names_that_are_not_allowed_are_written_so_that_they_can_be_read_back() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    let feed = Feed::new("价 list", 5, 10);
    let mut sink = sink(
        &server.namesrv(),
        &[("topic", serde_json::json!("{database}.{table}"))],
    );
    feed.deliver(&mut sink, 20, 20).expect("it delivers");
    let messages = server.messages("shop%2E%E4%BB%B7%20list");
    check_history(&feed, &messages, 20);
    assert_eq!(messages[0].tags.as_deref(), Some("%E4%BB%B7%20list"));
}

#[test]
#[ignore = "needs RocketMQ"]
fn a_key_that_changes_is_a_delete_and_an_insert_each_in_its_queue() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    let feed = Feed::new("orders", 50, 10);
    let mut sink = sink(&server.namesrv(), &[]);
    sink.open().expect("it opens");
    feed.with_row(9, Some(777), |event: &Event<'_>| sink.write(event))
        .expect("it is taken");
    sink.flush(&cursor(10)).expect("it is stored");
    let messages = server.messages("shop-orders");
    let kinds: BTreeMap<_, _> = messages
        .iter()
        .map(|message| {
            let body: serde_json::Value = serde_json::from_str(message.text()).expect("JSON");
            (id_of(message), (body["type"].clone(), message.keys.clone()))
        })
        .collect();
    let delete = (serde_json::json!("DELETE"), Some("777".to_owned()));
    let insert = (serde_json::json!("INSERT"), Some(feed.key(9).to_string()));
    assert_eq!(kinds[&format!("{}-0", FIRST + 8)], delete);
    assert_eq!(kinds[&format!("{}-0", FIRST + 9)], insert);
}

#[test]
#[ignore = "needs RocketMQ"]
fn a_broker_that_is_away_is_told_with_place_and_hint() {
    let started = Instant::now();
    let port = testkit::ports::free(1);
    let told = sink(&format!("127.0.0.1:{port}"), &[])
        .open()
        .expect_err("nobody is there");
    assert_eq!(told.kind, ErrorKind::Unavailable, "{told}");
    assert!(!told.place.is_empty() && !told.hint.is_empty() && !told.detail.is_empty());
    assert!(started.elapsed() < Duration::from_secs(30));
    eprintln!("{told} ({:?})", started.elapsed());
    let told = sink_rocketmq::check(&config(&format!("127.0.0.1:{port}"), &[]), &[]);
    assert_eq!(
        told.expect_err("nobody is there").kind,
        ErrorKind::Unavailable
    );
}

#[test]
#[ignore = "needs RocketMQ"]
fn a_check_tells_which_topics_there_are() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    server.create_topic("shop-orders", 3);
    let topics = ["shop-orders".to_owned(), "shop-more".to_owned()];
    let lines = sink_rocketmq::check(&config(&server.namesrv(), &[]), &topics).expect("it is up");
    assert!(lines[0].contains("1 broker(s)"), "{lines:?}");
    assert_eq!(lines[1], "topic shop-orders exists, 3 queues");
    assert_eq!(lines[2], "topic shop-more will be made");
}

#[test]
#[ignore = "needs RocketMQ"]
fn messages_go_over_tls() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&["--tls"]);
    let feed = Feed::new("orders", 50, 10);
    let open = serde_json::json!({"tls": true, "verify_certificate": false});
    let mut sink = sink(&server.namesrv(), &[("security", open)]);
    feed.deliver(&mut sink, 100, 50).expect("it delivers");
    check_history(&feed, &server.messages("shop-orders"), 100);
    // The broker's certificate is of its own making.
    let strict = serde_json::json!({"tls": true});
    let refused: Result<_, SinkError> =
        self::sink(&server.namesrv(), &[("security", strict)]).open();
    let refused = refused.expect_err("nobody vouches for it");
    assert_eq!(refused.kind, ErrorKind::Invalid, "{refused}");
}

#[test]
#[ignore = "needs RocketMQ"]
fn a_user_signs_in_with_keys() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&RocketMq::SIGN_IN);
    let keys = serde_json::json!({"access_key": "hw", "secret_key": "12345678"});
    let feed = Feed::new("orders", 50, 10);
    let mut sink = sink(&server.namesrv(), &[("security", keys.clone())]);
    feed.deliver(&mut sink, 100, 50).expect("it delivers");
    drop(sink);
    let mut again = self::sink(&server.namesrv(), &[("security", keys)]);
    assert_eq!(again.open().expect("it opens"), Some(cursor(100)));
    let wrong = serde_json::json!({"access_key": "hw", "secret_key": "wrong"});
    for security in [wrong, serde_json::json!({})] {
        let mut sink = self::sink(&server.namesrv(), &[("security", security)]);
        let refused = sink.open().expect_err("it does not know the key");
        assert_eq!(refused.kind, ErrorKind::Invalid, "{refused}");
    }
}

#[test]
#[ignore = "needs RocketMQ; prints a rate"]
fn how_fast_it_is() {
    let _guard = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    for (pad, count) in [(20, 400_000), (1000, 100_000)] {
        for batch in [true, false] {
            let count = if batch { count } else { count / 20 };
            let name = format!("t{pad}_{batch}");
            let feed = Feed::new(&name, 10_000, pad);
            let more = [
                ("batch", serde_json::json!(batch)),
                ("cursor_topic", serde_json::json!(format!("cursor_{name}"))),
            ];
            let mut sink = sink(&server.namesrv(), &more);
            feed.deliver(&mut sink, 1, 1).expect("it delivers");
            let started = Instant::now();
            feed.deliver(&mut sink, count, 20_000).expect("it delivers");
            let rate = count as f64 / started.elapsed().as_secs_f64();
            eprintln!("pad {pad}, batch {batch}: {rate:.0} messages/s");
        }
    }
}
