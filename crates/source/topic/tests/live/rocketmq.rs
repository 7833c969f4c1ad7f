//! On a real RocketMQ.

use crate::support::{Journal, canal, offsets, one_commit_a_life, poll_to_error, run, sorted};
use change::contract::ErrorKind;
use change::{Batch, Source};
use source_topic::config::{OnBadMessage, Start};
use source_topic::{Resume, TopicConfig, TopicSource};
use std::time::{Duration, Instant};
use testkit::RocketMq;
use testkit::rocketmq::{Part, RocketSend};

fn config(namesrv: &str, topic: &str) -> TopicConfig {
    config_with(namesrv, topic, &serde_json::json!({}))
}

fn config_with(namesrv: &str, topic: &str, security: &serde_json::Value) -> TopicConfig {
    let fields = serde_json::json!({
        "rocketmq": {"name_servers": [namesrv], "security": security},
        "topics": [topic],
    });
    serde_json::from_value(fields).unwrap()
}

fn send(server: &RocketMq, topic: &str, queue: u32, texts: &[String]) {
    let messages: Vec<RocketSend<'_>> = texts
        .iter()
        .map(|text| RocketSend {
            topic,
            queue,
            body: text.as_bytes(),
            ..RocketSend::default()
        })
        .collect();
    server.send(&messages);
}

fn row(id: u64) -> String {
    canal("INSERT", 1000 * id, id, "a", "null")
}

#[test]
#[ignore = "starts a broker"]
fn nothing_is_lost_or_doubled_when_it_ends_after_every_transaction() {
    let _turn = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    server.create_topic("t", 2);
    for es in 0..6u64 {
        let (a, b) = (es * 10 + 1, es * 10 + 2);
        let mut first = vec![
            canal("INSERT", es * 1000 + 1000, a, "a", "null"),
            canal("UPDATE", es * 1000 + 1500, a, "b", r#"[{"name":"a"}]"#),
        ];
        if es == 2 {
            first.push("no message at all".into());
        }
        let moved = format!(r#"[{{"id":"{b}"}}]"#);
        // The second is large enough for the client to deflate it.
        let second = [
            canal("INSERT", es * 1000 + 1000, b, "a", "null"),
            canal("UPDATE", es * 1000 + 1000, b + 1, "a", &moved),
            canal("INSERT", es * 1000 + 2000, b + 5, &"x".repeat(6000), "null"),
        ];
        send(&server, "t", 0, &first);
        send(&server, "t", 1, &second);
    }
    // Two rows and one, two (the key moves) and one, each time; and one that is set aside.
    let rows = 6 * 6 + 1;
    let config = config(&server.namesrv(), "t");
    let caught_up = |source: &mut TopicSource, journal: &Journal| {
        journal.lines.len() >= rows && source.status().lag_bytes == Some(0)
    };
    let mut whole = Journal::default();
    let mut source = TopicSource::open(config.clone(), Resume::default()).unwrap();
    run(&mut source, &mut whole, caught_up);
    assert_eq!(whole.lines.len(), rows, "{:?}", whole.lines);
    let status = source.status();
    assert_eq!(status.phase, "streaming");
    assert_eq!(status.server, "rocketmq");
    assert_eq!(status.lag_seconds, Some(0.0));
    assert_eq!(status.parked[0].table, "t");
    assert_eq!(status.parked[0].since, "t/broker-a/0:6");
    assert_eq!(status.position, "t/broker-a/0:13 t/broker-a/1:18");
    assert_eq!(
        offsets(&whole),
        [
            ("source/topic/t/broker-a/0".to_owned(), 13),
            ("source/topic/t/broker-a/1".to_owned(), 18)
        ]
    );
    drop(source);

    let mut parts = one_commit_a_life(&config, rows);
    assert_eq!(sorted(&parts), sorted(&whole));
    // Nothing more comes.
    let mut source = TopicSource::open(config, parts.resume()).unwrap();
    run(&mut source, &mut parts, caught_up);
    assert_eq!(parts.lines.len(), rows);
}

#[test]
#[ignore = "starts a broker"]
fn what_is_gone_is_said_and_bad_messages_stop_where_that_is_wanted() {
    let _turn = testkit::one_at_a_time();
    // A broker without it fails to remove topics.
    let server = RocketMq::start(&["--set", "timerWheelEnable=true"]);
    let mut config = config(&server.namesrv(), "bad");

    let missing = TopicSource::open(config.clone(), Resume::default()).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::Invalid, "{missing}");
    assert!(missing.to_string().contains("topic bad"), "{missing}");

    server.create_topic("bad", 1);
    let broken = "{\"type\":\"INSERT\",\"data\":3}".to_owned();
    send(&server, "bad", 0, &[row(1), broken, row(2)]);
    let lines = source_topic::check(&config).unwrap();
    assert_eq!(lines[1], "topic bad: 1 queues, at most 3 messages");
    config.on_bad_message = OnBadMessage::Stop;
    let mut journal = Journal::default();
    let mut source = TopicSource::open(config.clone(), Resume::default()).unwrap();
    let error = poll_to_error(&mut source, &mut journal);
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert_eq!(error.place, "bad/broker-a/0:1");
    assert!(error.detail.contains("at byte 24 (data)"), "{error}");
    assert_eq!(journal.lines.len(), 1);
    drop(source);

    // With the other setting it goes on from there.
    config.on_bad_message = OnBadMessage::Park;
    let mut source = TopicSource::open(config.clone(), journal.resume()).unwrap();
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 3
    });
    assert_eq!(journal.lines[1], "aside bad/broker-a/0:1");
    drop(source);

    // A topic that ends before.
    let mut shorter = journal.resume();
    for (_, value) in (shorter.control.iter_mut()).filter(|(k, _)| k.starts_with(b"source/topic/"))
    {
        *value = vec![99];
    }
    let short = TopicSource::open(config.clone(), shorter).unwrap_err();
    assert_eq!(short.kind, ErrorKind::Lost);
    assert!(short.detail.contains("ends at offset 3"), "{short}");

    // A journal of Kafka, with and without a known cluster.
    let of_kafka = |key: &[u8], value: &[u8]| Resume {
        control: vec![(key.to_vec(), value.to_vec())],
        position: None,
    };
    let other = of_kafka(b"source/identity", b"kafka other");
    let stranger = TopicSource::open(config.clone(), other).unwrap_err();
    assert_eq!(stranger.kind, ErrorKind::Invalid);
    let other = of_kafka(b"source/topic/bad/7", &[0]);
    let stranger = TopicSource::open(config.clone(), other).unwrap_err();
    assert_eq!(stranger.kind, ErrorKind::Lost, "{stranger}");

    // The topic goes while it is read.
    let mut source = TopicSource::open(config, journal.resume()).unwrap();
    run(&mut source, &mut journal, |source, _| {
        source.status().lag_bytes == Some(0)
    });
    server.drop_topic("bad");
    let gone = poll_to_error(&mut source, &mut journal);
    assert_eq!(gone.kind, ErrorKind::Lost, "{gone}");
    assert!(gone.to_string().contains("the topic is gone"), "{gone}");
}

#[test]
#[ignore = "starts a broker"]
fn messages_that_the_broker_removed_are_no_silent_reset() {
    let _turn = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    server.create_topic("slow", 1);
    let config = config(&server.namesrv(), "slow");
    send(&server, "slow", 0, &[row(1), row(2)]);
    let mut journal = Journal::default();
    let mut source = TopicSource::open(config.clone(), Resume::default()).unwrap();
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 2
    });
    run(&mut source, &mut journal, |_, journal| {
        !offsets(journal).is_empty()
    });
    drop(source);
    // More than one file of its log; the client deflates what is alike.
    let mut rng = testkit::rng::Rng::new(7);
    let noise: String = std::iter::repeat_with(|| char::from(b'a' + rng.below(26) as u8))
        .take(2 << 20)
        .collect();
    for id in 3..20 {
        send(
            &server,
            "slow",
            0,
            &[canal("INSERT", id, id, &noise, "null")],
        );
    }
    server.kill();
    server.forget_oldest();
    server.restart();
    let gap = TopicSource::open(config.clone(), journal.resume()).unwrap_err();
    assert_eq!(gap.kind, ErrorKind::Lost, "{gap}");
    assert_eq!(gap.place, "slow/broker-a/0:2");
    assert!(gap.detail.contains("begins at offset"), "{gap}");
    assert!(gap.hint.contains("fileReservedTime"), "{gap}");

    // Who begins now begins with what there is.
    let mut later = Journal::default();
    let mut source = TopicSource::open(config, Resume::default()).unwrap();
    run(&mut source, &mut later, |source, _| {
        source.status().lag_bytes == Some(0)
    });
    assert!(
        (1..17).contains(&later.lines.len()),
        "{}",
        later.lines.len()
    );
}

#[test]
#[ignore = "starts a broker"]
fn brokers_that_are_away_and_queues_that_are_added() {
    let _turn = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    server.create_topic("grows", 1);
    send(&server, "grows", 0, &[row(1)]);
    let mut config = config(&server.namesrv(), "grows");
    config.start = Start::Latest;
    let mut journal = Journal::default();
    let mut source = TopicSource::open(config.clone(), Resume::default()).unwrap();
    // Where it starts is in the journal before any row is.
    run(&mut source, &mut journal, |_, journal| {
        !offsets(journal).is_empty()
    });
    let start = ("source/topic/grows/broker-a/0".to_owned(), 1);
    assert_eq!(offsets(&journal), [start]);
    drop(source);
    send(&server, "grows", 0, &[row(2)]);
    let mut source = TopicSource::open(config.clone(), journal.resume()).unwrap();
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 1
    });

    server.create_topic("grows", 3);
    send(&server, "grows", 2, &[row(3)]);
    send(&server, "grows", 0, &[row(4)]);
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 3
    });
    run(&mut source, &mut journal, |_, journal| {
        offsets(journal).len() == 3
    });

    server.kill_part(Part::Broker);
    run(&mut source, &mut journal, |source, _| {
        source.status().phase == "retrying"
    });
    let trouble = source.status().trouble;
    assert!(
        trouble.contains("read topics at rocketmq 127.0.0.1"),
        "{trouble}"
    );
    let away = TopicSource::open(config.clone(), journal.resume()).unwrap_err();
    assert_eq!(away.kind, ErrorKind::Unavailable, "{away}");
    server.kill_part(Part::Namesrv);
    let away = TopicSource::open(config, journal.resume()).unwrap_err();
    assert_eq!(away.kind, ErrorKind::Unavailable, "{away}");
    server.restart();
    run(&mut source, &mut journal, |source, _| {
        source.status().phase == "streaming"
    });
    send(&server, "grows", 1, &[row(5)]);
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 4
    });
    assert_eq!(source.status().trouble, "");
    assert_eq!(source.status().lag_bytes, Some(0));
}

#[test]
#[ignore = "starts a broker"]
fn lag_is_told_while_nobody_takes_what_comes() {
    let _turn = testkit::one_at_a_time();
    let server = RocketMq::start(&[]);
    server.create_topic("deep", 1);
    let rows: Vec<String> = (1..2000).map(row).collect();
    send(&server, "deep", 0, &rows);
    let config = config(&server.namesrv(), "deep");
    let mut source = TopicSource::open(config, Resume::default()).unwrap();
    let mut journal = Journal::default();
    let mut batch = Batch::default();
    let end = Instant::now() + Duration::from_secs(30);
    while journal.lines.is_empty() {
        assert!(Instant::now() < end, "{:?}", source.status());
        source.poll(&mut batch, Duration::from_millis(50)).unwrap();
        journal.apply(&batch, 1);
        batch.clear();
    }
    // The buffer is full; more comes meanwhile.
    send(&server, "deep", 0, &[row(2000)]);
    let told = |source: &mut TopicSource| source.status().head.contains(":2000 (");
    while !told(&mut source) {
        assert!(Instant::now() < end, "{:?}", source.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(source.status().lag_bytes > Some(0));
}

#[test]
#[ignore = "starts a broker"]
fn it_reads_over_tls_and_signs_in_with_keys() {
    let _turn = testkit::one_at_a_time();
    let options = [&["--tls"], RocketMq::SIGN_IN.as_slice()].concat();
    let server = RocketMq::start(&options);
    let good = serde_json::json!({
        "tls": true, "verify_certificate": false, "access_key": "hw", "secret_key": "12345678",
    });
    // A topic that every broker has.
    let topic = "SELF_TEST_TOPIC";
    let lines = source_topic::check(&config_with(&server.namesrv(), topic, &good)).unwrap();
    assert!(lines[1].contains("at most 0 messages"), "{lines:?}");
    let config = config_with(&server.namesrv(), topic, &good);
    let mut source = TopicSource::open(config, Resume::default()).unwrap();
    run(&mut source, &mut Journal::default(), |source, _| {
        source.status().lag_bytes == Some(0)
    });
    for (name, value) in [
        ("secret_key", serde_json::json!("wrong")),
        // The brokers' certificates are of their own making.
        ("verify_certificate", serde_json::json!(true)),
    ] {
        let mut bad = good.clone();
        bad[name] = value;
        let config = config_with(&server.namesrv(), topic, &bad);
        let refused = TopicSource::open(config, Resume::default()).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{name}: {refused}");
    }
}
