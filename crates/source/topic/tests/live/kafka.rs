//! On a real Kafka.

use crate::support::{
    Journal, LIMIT, Writer, canal, config, offsets, one_commit_a_life, poll_to_error, run, sorted,
};
use change::contract::ErrorKind;
use change::{Batch, Source};
use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::topic_partition_list::Offset;
use source_topic::config::{OnBadMessage, Start};
use source_topic::{Resume, TopicSource};
use std::time::{Duration, Instant};
use testkit::{kafka::Kafka, topics::Topics};

/// Removes what is before `offset` of partition 0.
fn forget(topics: &Topics, topic: &str, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset))
        .unwrap();
    let admin = topics.admin();
    let done = pollster::block_on(admin.delete_records(&list, &AdminOptions::new()));
    done.unwrap();
}

#[test]
#[ignore = "starts a broker"]
fn nothing_is_lost_or_doubled_when_it_ends_after_every_transaction() {
    let kafka = Kafka::start(&[]);
    let topics = Topics::new(&kafka.bootstrap());
    topics.create("t", 2, &[]);
    let writer = Writer::new(&kafka.bootstrap(), Some("writer"));
    for es in 0..6u64 {
        writer.begin();
        let send = |partition, text: &str| writer.send("t", partition, Some(text.as_bytes()));
        let (a, b) = (es * 10 + 1, es * 10 + 2);
        send(0, &canal("INSERT", es * 1000 + 1000, a, "a", "null"));
        send(
            0,
            &canal("UPDATE", es * 1000 + 1500, a, "b", r#"[{"name":"a"}]"#),
        );
        writer.send("t", 0, None);
        send(1, &canal("INSERT", es * 1000 + 1000, b, "a", "null"));
        // The row moves to another key.
        send(
            1,
            &canal(
                "UPDATE",
                es * 1000 + 1000,
                b + 1,
                "a",
                &format!(r#"[{{"id":"{b}"}}]"#),
            ),
        );
        if es == 2 {
            send(0, "no message at all");
        }
        if es % 2 == 0 {
            writer.commit();
        } else {
            writer.abort();
        }
    }
    let config = config(&kafka.bootstrap(), "t", "canal-json");
    let caught_up = |source: &mut TopicSource, journal: &Journal| {
        journal.lines.len() >= 16 && source.status().lag_bytes == Some(0)
    };
    let mut whole = Journal::default();
    let mut source = TopicSource::open(config.clone(), Resume::default()).unwrap();
    run(&mut source, &mut whole, caught_up);
    assert_eq!(whole.lines.len(), 16, "{:?}", whole.lines);
    let status = source.status();
    assert_eq!(status.phase, "streaming");
    assert_eq!(status.lag_seconds, Some(0.0));
    assert_eq!(status.parked[0].table, "t");
    assert!(status.parked[0].since.starts_with("t/0:"));
    // The brokers' own records at the end are passed too.
    let ends = topics.partitions("t").len();
    assert_eq!(ends, 2);
    let passed = |_: &mut TopicSource, journal: &Journal| {
        offsets(journal).iter().all(|(_, next)| *next >= 18)
    };
    run(&mut source, &mut whole, passed);
    drop(source);

    let mut parts = one_commit_a_life(&config, 16);
    assert_eq!(sorted(&parts), sorted(&whole));
    // Nothing more comes.
    let mut source = TopicSource::open(config, parts.resume()).unwrap();
    run(&mut source, &mut parts, caught_up);
    assert_eq!(parts.lines.len(), 16);
}

#[test]
#[ignore = "starts a broker"]
fn what_is_gone_is_said_and_bad_messages_stop_where_that_is_wanted() {
    let kafka = Kafka::start(&[]);
    let topics = Topics::new(&kafka.bootstrap());
    let writer = Writer::new(&kafka.bootstrap(), None);
    let mut config = config(&kafka.bootstrap(), "bad", "canal-json");

    let missing = TopicSource::open(config.clone(), Resume::default()).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::Invalid);
    assert!(missing.to_string().contains("topic bad"), "{missing}");

    topics.create("bad", 1, &[]);
    let row = |es| canal("INSERT", es, es, "a", "null");
    writer.send("bad", 0, Some(row(1).as_bytes()));
    writer.send("bad", 0, Some(b"{\"type\":\"INSERT\",\"data\":3}"));
    writer.send("bad", 0, Some(row(2).as_bytes()));
    writer.flush();
    let lines = source_topic::check(&config).unwrap();
    assert_eq!(lines[1], "topic bad: 1 partitions, at most 3 messages");
    config.on_bad_message = OnBadMessage::Stop;
    let mut journal = Journal::default();
    let mut source = TopicSource::open(config.clone(), Resume::default()).unwrap();
    let error = poll_to_error(&mut source, &mut journal);
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert_eq!(error.place, "bad/0:1");
    assert!(error.detail.contains("at byte 24 (data)"), "{error}");
    assert_eq!(journal.lines.len(), 1);

    // With the other setting it goes on from there.
    config.on_bad_message = OnBadMessage::Park;
    let mut source = TopicSource::open(config.clone(), journal.resume()).unwrap();
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 3
    });
    assert_eq!(journal.lines[1], "aside bad/0:1");
    drop(source);

    // Retention overtook what the journal wants next.
    for es in 3..10 {
        writer.send("bad", 0, Some(row(es).as_bytes()));
    }
    writer.flush();
    forget(&topics, "bad", 8);
    let gap = TopicSource::open(config.clone(), journal.resume()).unwrap_err();
    assert_eq!(gap.kind, ErrorKind::Lost);
    assert_eq!(gap.place, "bad/0:3");
    assert!(gap.detail.contains("begins at offset 8"), "{gap}");

    // A topic that ends before.
    for (_, value) in (journal.control.iter_mut()).filter(|(k, _)| k.starts_with(b"source/topic/"))
    {
        *value = vec![99];
    }
    let short = TopicSource::open(config.clone(), journal.resume()).unwrap_err();
    assert_eq!(short.kind, ErrorKind::Lost);
    assert!(short.detail.contains("ends at offset 10"), "{short}");

    // A journal of another cluster.
    let other = Resume {
        control: vec![(b"source/identity".to_vec(), b"kafka other".to_vec())],
        position: None,
    };
    let stranger = TopicSource::open(config, other).unwrap_err();
    assert_eq!(stranger.kind, ErrorKind::Invalid);
}

#[test]
#[ignore = "starts a broker"]
fn retention_that_overtakes_the_reader_is_no_silent_reset() {
    let kafka = Kafka::start(&[]);
    let topics = Topics::new(&kafka.bootstrap());
    topics.create("slow", 1, &[]);
    let writer = Writer::new(&kafka.bootstrap(), None);
    let name = "x".repeat(800);
    for es in 0..3000 {
        let row = canal("INSERT", 1000, es, &name, "null");
        writer.send("slow", 0, Some(row.as_bytes()));
        if es % 10 == 9 {
            // Small batches: the client fetches whole ones.
            writer.flush();
        }
    }
    let mut config = config(&kafka.bootstrap(), "slow", "canal-json");
    for (name, value) in [
        ("queued.max.messages.kbytes", "16"),
        ("queued.min.messages", "10"),
        ("fetch.message.max.bytes", "20000"),
    ] {
        let kafka = config.kafka.as_mut().unwrap();
        kafka.properties.insert(name.into(), value.into());
    }
    let mut journal = Journal::default();
    let mut source = TopicSource::open(config, Resume::default()).unwrap();
    run(&mut source, &mut journal, |_, journal| {
        !journal.lines.is_empty()
    });
    let status = source.status();
    assert_eq!(status.position.split(':').next(), Some("slow/0"));
    forget(&topics, "slow", 2990);
    let end = Instant::now() + LIMIT;
    let mut batch = Batch::default();
    let error = loop {
        assert!(
            Instant::now() < end,
            "{} {:?}",
            journal.lines.len(),
            source.status()
        );
        batch.clear();
        let polled = source.poll(&mut batch, Duration::from_millis(50));
        journal.apply(&batch, usize::MAX);
        if let Err(error) = polled {
            break error;
        }
        assert!(journal.lines.len() < 2990, "{}", journal.lines.len());
    };
    assert_eq!(error.kind, ErrorKind::Lost);
    assert!(error.detail.contains("begins at offset 2990"), "{error}");
    let place = format!("slow/0:{}", journal.lines.len());
    assert_eq!(error.place, place);
}

#[test]
#[ignore = "starts a broker"]
fn brokers_that_are_away_and_partitions_that_are_added() {
    let kafka = Kafka::start(&[]);
    let topics = Topics::new(&kafka.bootstrap());
    topics.create("grows", 1, &[]);
    let writer = Writer::new(&kafka.bootstrap(), None);
    let row = |id| canal("INSERT", 1000 * id, id, "a", "null");
    writer.send("grows", 0, Some(row(1).as_bytes()));
    writer.flush();
    let mut config = config(&kafka.bootstrap(), "grows", "canal-json");
    config.start = Start::Latest;
    let mut journal = Journal::default();
    let mut source = TopicSource::open(config.clone(), Resume::default()).unwrap();
    // Where it starts is in the journal before any row is.
    run(&mut source, &mut journal, |_, _| true);
    run(&mut source, &mut journal, |_, journal| {
        !offsets(journal).is_empty()
    });
    assert_eq!(offsets(&journal), [("source/topic/grows/0".to_owned(), 1)]);
    drop(source);
    writer.send("grows", 0, Some(row(2).as_bytes()));
    writer.flush();
    let mut source = TopicSource::open(config.clone(), journal.resume()).unwrap();
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 1
    });

    let admin = topics.admin();
    let wanted = NewPartitions::new("grows", 3);
    let grown = pollster::block_on(admin.create_partitions([&wanted], &AdminOptions::new()));
    assert!(grown.unwrap().iter().all(Result::is_ok));
    let late = Writer::new(&kafka.bootstrap(), None);
    late.send("grows", 2, Some(row(3).as_bytes()));
    late.send("grows", 0, Some(row(4).as_bytes()));
    late.flush();
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 3
    });
    run(&mut source, &mut journal, |_, journal| {
        offsets(journal).len() == 3
    });

    kafka.kill();
    run(&mut source, &mut journal, |source, _| {
        source.status().phase == "retrying"
    });
    let trouble = source.status().trouble;
    assert!(
        trouble.contains("read topics at kafka 127.0.0.1"),
        "{trouble}"
    );
    let away = TopicSource::open(config, journal.resume()).unwrap_err();
    assert_eq!(away.kind, ErrorKind::Unavailable, "{away}");
    kafka.restart();
    run(&mut source, &mut journal, |source, _| {
        source.status().phase == "streaming"
    });
    let late = Writer::new(&kafka.bootstrap(), None);
    late.send("grows", 1, Some(row(5).as_bytes()));
    late.flush();
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 4
    });
    assert_eq!(source.status().trouble, "");
}

#[test]
#[ignore = "starts a broker"]
fn a_transaction_with_an_end_is_whole_while_other_partitions_wait() {
    let kafka = Kafka::start(&[]);
    let topics = Topics::new(&kafka.bootstrap());
    topics.create("marked", 2, &[]);
    let writer = Writer::new(&kafka.bootstrap(), None);
    let send = |partition, text: &str| {
        writer.send("marked", partition, Some(text.as_bytes()));
        writer.flush();
    };
    let row = |id: u64| {
        format!(
            r#"{{"before":null,"after":{{"id":{id}}},"source":{{"db":"shop","table":"t","ts_ms":{id}}},"op":"c"}}"#
        )
    };
    let mark = |status: &str| format!(r#"{{"status":"{status}","id":"x","ts_ms":1}}"#);
    let config = config(&kafka.bootstrap(), "marked", "debezium-json");
    let mut journal = Journal::default();
    let mut source = TopicSource::open(config.clone(), Resume::default()).unwrap();
    // Both partitions are read before the marks come: until then either may be the first.
    send(0, &row(100));
    send(1, &row(100));
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 2
    });
    journal.lines.clear();
    let commits = journal.commits;
    send(0, &mark("BEGIN"));
    send(0, &row(1));
    send(1, &row(2));
    let until = Instant::now() + Duration::from_secs(1);
    run(&mut source, &mut journal, |_, _| Instant::now() > until);
    assert_eq!(journal.commits, commits, "{:?}", journal.lines);
    send(0, &row(3));
    send(0, &mark("END"));
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 3
    });
    assert_eq!(journal.commits, commits + 2);
    let rows = ["Insert0 t  > 1", "Insert0 t  > 3", "Insert0 t  > 2"];
    assert_eq!(journal.lines, rows);

    // An end that does not come is not waited for without limit.
    send(0, &mark("BEGIN"));
    send(0, &row(4));
    send(1, &row(5));
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 5
    });
    drop(source);
    let mut source = TopicSource::open(config, journal.resume()).unwrap();
    send(0, &row(6));
    send(0, &mark("END"));
    run(&mut source, &mut journal, |_, journal| {
        journal.lines.len() == 6
    });
    assert_eq!(
        journal.lines[3..],
        ["Insert0 t  > 4", "Insert0 t  > 5", "Insert0 t  > 6"]
    );
}
