//! Against a real Kafka: what each setting of the routing does to records.

mod feed;

use change::contract::{ErrorKind, Rejection};
use change::event::Heartbeat;
use change::{Operation, Sink, SinkError};
use feed::{Record, begin, commit, cursor, insert, records, statement, table, token_of, write};
use rdkafka::admin::{AdminOptions, NewPartitions};
use serde_json::{Value, json};
use sink_kafka::{Identity, KafkaConfig, KafkaSink};
use std::collections::BTreeSet;
use testkit::topics::Topics;
use testkit::{Kafka, TempDir, one_at_a_time};

fn made(brokers: &str, name: &str, more: Value) -> Result<KafkaSink, SinkError> {
    let mut fields = json!({
        "brokers": [brokers],
        "create_topics": {"partitions": 4, "replication": 1},
        "timeout_s": 20,
    });
    for (key, value) in more.as_object().expect("settings") {
        fields[key] = value.clone();
    }
    let config: KafkaConfig = serde_json::from_value(fields).expect("the settings are right");
    let identity = Identity {
        pipeline: "test".into(),
        sink: name.into(),
    };
    KafkaSink::new(config, &identity)
}

fn opened(kafka: &Kafka, name: &str, more: Value) -> KafkaSink {
    let mut sink = made(&kafka.bootstrap(), name, more).expect("the settings fit each other");
    sink.open().expect("it opens");
    sink
}

fn partitions(records: &[Record]) -> BTreeSet<i32> {
    records.iter().map(|record| record.partition).collect()
}

fn keys(records: &[Record]) -> Vec<Option<&str>> {
    records.iter().map(|record| record.key.as_deref()).collect()
}

fn rejection(outcome: Result<(), SinkError>) -> Rejection {
    let error = outcome.expect_err("it is refused");
    *error
        .rejection
        .unwrap_or_else(|| panic!("{error} is no rejection", error = error.detail))
}

#[test]
#[ignore = "starts a broker"]
fn topics_partitions_headers_and_keys_are_as_the_config_says() {
    let _turn = one_at_a_time();
    let kafka = Kafka::start(&[]);
    let at = kafka.bootstrap();
    let (orders, items) = (table(1, "orders"), table(2, "items"));

    // Topics of single tables, of a snapshot's rows, of statements.
    let more = json!({
        "topic": "a.{database}.{table}",
        "topics": {"shop.items": "a-items"},
        "snapshot_topic": "a.{table}.initial",
        "ddl_topic": "a.ddl",
        "headers": true,
    });
    let mut sink = opened(&kafka, "a", more);
    let read = (None, Some(("r", 1, "x")));
    write(&mut sink, &orders, 1, Operation::Read, read).expect("it is taken");
    insert(&mut sink, &orders, 2, ("o", 1, "x"));
    insert(&mut sink, &items, 3, ("i", 1, "x"));
    statement(&mut sink, 4, ("shop", "orders"), "ALTER TABLE orders").expect("it is taken");
    statement(&mut sink, 5, ("shop", ""), "CREATE DATABASE shop").expect("it is taken");
    sink.flush(&cursor(6)).expect("it flushes");
    let only = |topic: &str| {
        let found = records(&at, topic);
        assert_eq!(found.len(), 1, "{topic}");
        found[0].clone()
    };
    for (topic, key, sequence, op, table) in [
        ("a.orders.initial", "r", "1", "read", "shop.orders"),
        ("a.shop.orders", "o", "2", "insert", "shop.orders"),
        ("a-items", "i", "3", "insert", "shop.items"),
    ] {
        let found = only(topic);
        assert_eq!(found.key.as_deref(), Some(key));
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [
            header("sequence", sequence),
            header("table", table),
            header("op", op),
        ];
        assert_eq!(found.headers, expected);
    }
    let ddl = records(&at, "a.ddl");
    assert_eq!(partitions(&ddl), BTreeSet::from([0]));
    assert_eq!(ddl[0].json()["sql"], "ALTER TABLE orders");
    assert_eq!(ddl[1].json()["sql"], "CREATE DATABASE shop");
    assert_eq!(keys(&ddl), [None, None]);

    // One partition for each table, and its statements with it.
    let more = json!({"topic": "b", "partition_by": "table"});
    let mut sink = opened(&kafka, "b", more);
    for number in 0..20 {
        let id = number.to_string();
        insert(&mut sink, &orders, 10 + number, (&id, 1, "x"));
    }
    statement(&mut sink, 40, ("shop", "orders"), "ALTER TABLE orders").expect("it is taken");
    sink.flush(&cursor(41)).expect("it flushes");
    let found = records(&at, "b");
    assert_eq!((found.len(), partitions(&found).len()), (21, 1));
    assert_eq!(found[20].json()["isDdl"], true);

    // Everything to the first; no key.
    let more = json!({"topic": "c", "partition_by": "first", "key": "none"});
    let mut sink = opened(&kafka, "c", more);
    for number in 0..20 {
        let id = number.to_string();
        insert(&mut sink, &orders, 10 + number, (&id, 1, "x"));
    }
    sink.flush(&cursor(41)).expect("it flushes");
    let found = records(&at, "c");
    assert_eq!(partitions(&found), BTreeSet::from([0]));
    assert!(keys(&found).iter().all(Option::is_none) && found.len() == 20);

    // By columns: of all tables, and of one. The key stays the table's.
    let more = json!({
        "topic": "{table}.d",
        "partition_by": {"columns": ["name"]},
        "partition_columns": {"shop.orders": ["customer"]},
        "ddl_partitions": "all",
    });
    let mut sink = opened(&kafka, "d", more);
    for number in 0..40u64 {
        let (id, name) = (number.to_string(), format!("n{}", number % 5));
        let customer = number as i64 % 7;
        insert(&mut sink, &orders, 100 + number, (&id, customer, &name));
        insert(&mut sink, &items, 200 + number, (&id, customer, &name));
    }
    statement(&mut sink, 300, ("shop", "orders"), "ALTER TABLE orders").expect("it is taken");
    sink.flush(&cursor(301)).expect("it flushes");
    for (topic, column, statements) in [("orders.d", "customer", 4), ("items.d", "name", 0)] {
        let found = records(&at, topic);
        let (ddl, rows): (Vec<Record>, Vec<Record>) = found
            .into_iter()
            .partition(|record| record.json()["isDdl"] == true);
        assert_eq!((rows.len(), ddl.len()), (40, statements));
        assert_eq!(partitions(&ddl).len(), statements);
        let value = |record: &Record| record.json()["data"][0][column].to_string();
        let places: BTreeSet<(String, i32)> = rows
            .iter()
            .map(|record| (value(record), record.partition))
            .collect();
        let values: BTreeSet<String> = rows.iter().map(value).collect();
        assert_eq!(places.len(), values.len(), "one partition for each value");
        assert!(partitions(&rows).len() > 1);
        for record in &rows {
            let id = record.json()["data"][0]["id"].clone();
            assert_eq!(record.key.as_deref(), id.as_str());
        }
    }

    // A table without a key: by the whole row, or in the order of its changes where that is asked for.
    let mut log = table(3, "log");
    log.primary_key.clear();
    for (name, keyless, count) in [("e", "spread", 22), ("f", "first", 21)] {
        let more = json!({"topic": format!("{{table}}.{name}"), "keyless": keyless});
        let mut sink = opened(&kafka, name, more);
        for number in 0..20u64 {
            let id = number.to_string();
            insert(&mut sink, &log, 100 + number, (&id, 1, "x"));
            insert(&mut sink, &orders, 200 + number, (&id, 1, "x"));
        }
        let changed = (Some(("19", 1, "x")), Some(("20", 1, "x")));
        write(&mut sink, &log, 301, Operation::Update, changed).expect("it is taken");
        sink.flush(&cursor(302)).expect("it flushes");
        let found = records(&at, &format!("log.{name}"));
        assert_eq!(found.len(), count, "{keyless}");
        assert_eq!(partitions(&found).len() > 1, keyless == "spread");
        if keyless == "first" {
            assert_eq!(partitions(&found), BTreeSet::from([0]));
            assert_eq!(found[20].json()["type"], "UPDATE");
            assert_eq!(found[20].json()["old"][0]["id"], "19");
        }
        assert!(partitions(&records(&at, &format!("orders.{name}"))).len() > 1);
    }
}

#[test]
#[ignore = "starts a broker"]
fn what_is_gone_is_buried_under_its_key() {
    let _turn = one_at_a_time();
    let kafka = Kafka::start(&[]);
    let at = kafka.bootstrap();
    let orders = table(1, "orders");
    let history = |sink: &mut KafkaSink| {
        insert(sink, &orders, 1, ("", 1, "x"));
        insert(sink, &orders, 2, ("a", 1, "x"));
        let moved = (Some(("a", 1, "x")), Some(("b", 1, "x")));
        write(sink, &orders, 4, Operation::Update, moved).expect("it is taken");
        let gone = (Some(("", 1, "x")), None);
        write(sink, &orders, 5, Operation::Delete, gone).expect("it is taken");
        sink.flush(&cursor(6)).expect("it flushes");
    };
    // What a compacted topic keeps.
    let kept = |records: &[Record]| -> BTreeSet<String> {
        let mut kept = BTreeSet::new();
        for record in records {
            let key = record.key.clone().expect("each has a key");
            match record.value {
                Some(_) => kept.insert(key),
                None => kept.remove(&key),
            };
        }
        kept
    };
    for (name, partition_by, count) in [
        ("key", json!("primary_key"), 7),
        ("table", json!("table"), 6),
        ("first", json!("first"), 6),
        ("columns", json!({"columns": ["customer"]}), 6),
    ] {
        let more = json!({"topic": name, "partition_by": partition_by, "tombstones": true});
        history(&mut opened(&kafka, name, more));
        let found = records(&at, name);
        assert_eq!(found.len(), count, "{name}: {found:?}");
        assert_eq!(kept(&found), BTreeSet::from(["b".to_owned()]), "{name}");
        // An empty text is a key.
        assert!(keys(&found).contains(&Some("")), "{name}");
    }
    // Debezium's consumers want its own form of the key.
    let more = json!({"topic": "dbz", "format": "debezium-json", "tombstones": true});
    history(&mut opened(&kafka, "dbz", more));
    let found = records(&at, "dbz");
    assert_eq!(kept(&found), BTreeSet::from([r#"{"id":"b"}"#.to_owned()]));
    let ops: Vec<String> = found
        .iter()
        .filter(|record| record.key.as_deref() == Some(r#"{"id":"a"}"#))
        .map(|record| match record.value {
            Some(_) => record.json()["op"].as_str().unwrap_or_default().to_owned(),
            None => "tombstone".to_owned(),
        })
        .collect();
    assert_eq!(ops, ["c", "d", "tombstone"]);
    // Without a key there is nothing to bury, and a compacted topic would refuse it.
    let mut log = orders.clone();
    log.primary_key.clear();
    let more = json!({"topic": "log", "format": "debezium-json", "tombstones": true});
    let mut sink = opened(&kafka, "log", more);
    let gone = (Some(("", 1, "x")), None);
    write(&mut sink, &log, 1, Operation::Delete, gone).expect("it is taken");
    sink.flush(&cursor(2)).expect("it flushes");
    assert_eq!(keys(&records(&at, "log")), [None]);
}

#[test]
#[ignore = "starts a broker"]
fn a_topic_that_grew_partitions_is_noticed_and_parks() {
    let _turn = one_at_a_time();
    let kafka = Kafka::start(&[]);
    let topics = Topics::new(&kafka.bootstrap());
    let orders = table(1, "orders");
    let more = json!({"topic": "grown"});
    let mut sink = opened(&kafka, "grown", more.clone());
    insert(&mut sink, &orders, 1, ("a", 1, "x"));
    sink.flush(&cursor(2)).expect("it flushes");
    let admin = topics.admin();
    let grown = NewPartitions::new("grown", 6);
    let done = admin.create_partitions([&grown], &AdminOptions::new());
    pollster::block_on(done).expect("it grows");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while topics.partitions("grown").len() < 6 {
        assert!(std::time::Instant::now() < end, "it does not grow");
    }
    // Also another process remembers over how many the keys were spread.
    drop(sink);
    let mut sink = opened(&kafka, "grown", more);
    let row = (None, Some(("a", 1, "y")));
    let refused = rejection(write(&mut sink, &orders, 2, Operation::Insert, row));
    assert_eq!(
        (refused.table.as_str(), refused.key_token),
        ("shop.orders", None)
    );
    assert_eq!(refused.sequence, 2);
    assert!(
        refused.reason.contains("6 partitions"),
        "{}",
        refused.reason
    );
    sink.abort().expect("it aborts");
    drop(sink);
    // A person decided.
    let more = json!({"topic": "grown", "on_partition_change": "rehash"});
    let mut sink = opened(&kafka, "grown", more);
    insert(&mut sink, &orders, 2, ("a", 1, "y"));
    sink.flush(&cursor(3)).expect("it flushes");
    assert_eq!(records(&kafka.bootstrap(), "grown").len(), 2);
}

#[test]
#[ignore = "starts a broker"]
fn marks_heartbeats_and_rows_that_wait_go_where_they_belong() {
    let _turn = one_at_a_time();
    let kafka = Kafka::start(&[]);
    let at = kafka.bootstrap();
    let orders = table(1, "orders");

    // Begin and commit stand around their rows.
    let more = json!({
        "topic": "marks", "partition_by": "first", "format": "dts-avro",
        "format_options": {"transactions": true, "heartbeats": true, "ts": "commit"},
    });
    let mut sink = opened(&kafka, "marks", more);
    begin(&mut sink, 1);
    insert(&mut sink, &orders, 1, ("a", 1, "x"));
    commit(&mut sink, 2).expect("it is taken");
    let beat = Heartbeat {
        sequence: 3,
        time_us: 1_700_000_000_000_000,
        file: "mysql-bin.000001",
        offset: 4,
    };
    sink.heartbeat(&beat).expect("it is taken");
    sink.flush(&cursor(3)).expect("it flushes");
    let found = records(&at, "marks");
    let mut decoder = format::settings::FormatName::DtsAvro
        .decoder(&format::settings::FormatOptions::default())
        .expect("the options are right");
    let mut kinds = Vec::new();
    for record in &found {
        let mut decoded = Vec::new();
        let value = record.value.as_deref().expect("no tombstone");
        decoder
            .decode(value, &mut decoded)
            .expect("it is a message");
        kinds.push((record.partition, format!("{:?}", decoded[0].kind)));
    }
    let expected = [
        (0, "Begin"),
        (0, "Row(Insert)"),
        (0, "Commit"),
        (0, "Heartbeat"),
        (1, "Heartbeat"),
        (2, "Heartbeat"),
        (3, "Heartbeat"),
    ];
    assert_eq!(
        kinds,
        expected.map(|(place, kind)| (place, kind.to_owned()))
    );

    // What waits goes to its own topic, also when something of another topic completes it.
    let grouped = |topic: &str| {
        json!({
            "topic": topic, "snapshot_topic": "first.initial", "ddl_topic": "first.ddl",
            "ddl_partitions": "all", "partition_by": "first", "key": "none", "headers": true,
            "message_bytes_max": 2000, "format_options": {"grouping": "event"},
        })
    };
    let mut sink = opened(&kafka, "grouped", grouped("grouped"));
    insert(&mut sink, &orders, 10, ("a", 1, "x"));
    insert(&mut sink, &orders, 11, ("b", 1, "x"));
    assert_eq!(sink.held_from(), Some(10));
    let read = (None, Some(("r", 1, "x")));
    write(&mut sink, &orders, 12, Operation::Read, read).expect("it is taken");
    insert(&mut sink, &orders, 13, ("c", 1, "x"));
    statement(&mut sink, 14, ("shop", "orders"), "ALTER TABLE orders").expect("it is taken");
    insert(&mut sink, &orders, 15, ("d", 1, "x"));
    commit(&mut sink, 16).expect("it is taken");
    sink.flush(&cursor(17)).expect("it flushes");
    let found = records(&at, "grouped");
    let rows: Vec<usize> = found
        .iter()
        .map(|record| record.json()["data"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(rows, [2, 1, 1]);
    // A message is named for its last row.
    let sequences: Vec<&str> = found.iter().map(|r| r.headers[0].1.as_str()).collect();
    assert_eq!(sequences, ["11", "13", "15"]);
    assert_eq!(records(&at, "first.initial").len(), 1);
    assert_eq!(records(&at, "first.ddl").len(), 4);

    // A message of rows that is too large parks the key of its last row, whatever completed it.
    let long = "x".repeat(3000);
    insert(&mut sink, &orders, 20, ("e", 1, "x"));
    insert(&mut sink, &orders, 21, ("f", 1, &long));
    let refused = rejection(commit(&mut sink, 22).and_then(|()| sink.flush(&cursor(23))));
    assert_eq!(refused.table, "shop.orders");
    assert_eq!(
        (refused.key_token, refused.sequence),
        (Some(token_of("f")), 21)
    );
    sink.abort().expect("it aborts");
    sink.open().expect("it opens");
    assert_eq!(sink.held_from(), None);
    // A statement that is refused is of its whole table.
    let outcome = statement(&mut sink, 30, ("shop", "orders"), &long);
    let refused = rejection(outcome.and_then(|()| sink.flush(&cursor(31))));
    assert_eq!(
        (refused.table.as_str(), refused.key_token, refused.sequence),
        ("shop.orders", None, 30)
    );
    sink.abort().expect("it aborts");
}

/// `{"alg":"none"}`, the claims, and no signature.
fn unsigned_token() -> String {
    let base64url = |text: &str| {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut out = String::new();
        for three in text.as_bytes().chunks(3) {
            let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for digit in 0..=three.len() {
                let index = bits >> (18 - 6 * digit) & 63;
                out.push(char::from(DIGITS[index as usize]));
            }
        }
        out
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("a clock after 1970").as_secs();
    let claims = json!({"sub": "alice", "iat": now - 5, "exp": now + 3600}).to_string();
    format!("{}.{}.", base64url(r#"{"alg":"none"}"#), base64url(&claims))
}

#[test]
#[ignore = "starts a broker"]
fn logins_are_those_that_the_broker_takes() {
    let _turn = one_at_a_time();
    let kafka = Kafka::start(&["--sasl"]);
    let dir = TempDir::new("token");
    let token = dir.path().join("token");
    std::fs::write(&token, unsigned_token() + "\n").expect("it is written");
    let orders = table(1, "orders");
    let oauth = json!({
        "protocol": "sasl_plaintext", "mechanism": "OAUTHBEARER",
        "token_file": token, "token_principal": "alice",
    });
    let plain = |password: &str| {
        json!({
            "protocol": "sasl_plaintext", "mechanism": "PLAIN",
            "username": "alice", "password": password,
        })
    };
    for (name, security) in [("oauth", oauth.clone()), ("plain", plain("alice-secret"))] {
        let more = json!({"topic": name, "security": security});
        let fields = json!({"brokers": [kafka.bootstrap_sasl()], "security": security});
        let config: KafkaConfig = serde_json::from_value(fields).expect("the settings are right");
        let lines = sink_kafka::check(&config, &[]).expect("it connects");
        assert!(lines[0].contains("1 broker"), "{lines:?}");
        let since = std::time::Instant::now();
        // Twice: with the cursor's topic to make, and with a cursor to read.
        for sequence in [1, 2] {
            let mut sink = made(&kafka.bootstrap_sasl(), name, more.clone()).expect("it is right");
            let found = sink.open().expect("it opens");
            assert_eq!(
                found.map(|cursor| cursor.sequence),
                (sequence > 1).then_some(sequence)
            );
            insert(&mut sink, &orders, sequence, ("a", 1, "x"));
            sink.flush(&cursor(sequence + 1)).expect("it flushes");
        }
        eprintln!("{name}: {:?}", since.elapsed());
        assert_eq!(records(&kafka.bootstrap(), name).len(), 2);
    }
    let refused = |security: Value| {
        let more = json!({"topic": "t", "security": security});
        let mut sink = made(&kafka.bootstrap_sasl(), "refused", more).expect("it is right");
        sink.open().expect_err("it does not open")
    };
    assert_eq!(refused(plain("wrong")).kind, ErrorKind::Invalid);
    std::fs::remove_file(&token).expect("it is removed");
    let error = refused(oauth);
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.detail.contains("read token file"), "{error}");
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |more| {
        let error = made("k:9092", "x", more)
            .map(|_| ())
            .expect_err("it is refused");
        assert_eq!(error.kind, ErrorKind::Invalid);
        error.detail
    };
    let beats = json!({"format": "dts-avro", "format_options": {"heartbeats": true}});
    assert!(refused(beats).contains("heartbeats"));
    let columns = json!({
        "topic": "t", "partition_by": "first", "key": "none",
        "partition_columns": {"shop.orders": ["customer"]},
        "format_options": {"grouping": "event"},
    });
    assert!(refused(columns).contains("order of all"));
    let buried = json!({"tombstones": true, "key": "none"});
    assert!(refused(buried).contains("key"));
}
