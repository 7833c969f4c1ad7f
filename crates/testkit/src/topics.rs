//! What is in Kafka, as a read_committed consumer sees it.

use crate::rebuild::Rebuilt;
use rdkafka::Message;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::HashSet;
use std::time::{Duration, Instant};

const CALL: Duration = Duration::from_secs(20);

/// A reader of all partitions of topics.
pub struct Topics {
    settings: ClientConfig,
}

/// One record.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Vec<u8>,
}

impl Topics {
    /// Of the broker at `bootstrap`.
    pub fn new(bootstrap: &str) -> Self {
        let mut settings = ClientConfig::new();
        settings
            .set("bootstrap.servers", bootstrap)
            .set("group.id", "testkit")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", "read_committed")
            .set("check.crcs", "true")
            .set("fetch.wait.max.ms", "50")
            .set("queued.max.messages.kbytes", "65536");
        Self { settings }
    }

    fn consumer(&self, isolation: &str) -> BaseConsumer {
        let mut settings = self.settings.clone();
        settings.set("isolation.level", isolation);
        settings.create().expect("the settings are right")
    }

    /// An administrator's client.
    pub fn admin(&self) -> AdminClient<DefaultClientContext> {
        let mut settings = ClientConfig::new();
        let bootstrap = self.settings.get("bootstrap.servers").unwrap_or_default();
        settings.set("bootstrap.servers", bootstrap);
        settings.create().expect("the settings are right")
    }

    /// Makes a topic.
    pub fn create(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) {
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        for (name, value) in settings {
            new = new.set(name, value);
        }
        // The client has to live until the answer is there: its thread brings it.
        let admin = self.admin();
        let made = admin.create_topics([&new], &AdminOptions::new());
        let made = pollster::block_on(made).expect("the broker answers");
        assert!(made.iter().all(Result::is_ok), "{made:?}");
    }

    /// Changes a topic's settings.
    pub fn configure(&self, topic: &str, settings: &[(&str, &str)]) {
        let mut config = AlterConfig::new(ResourceSpecifier::Topic(topic));
        for (name, value) in settings {
            config = config.set(name, value);
        }
        let admin = self.admin();
        let done = admin.alter_configs([&config], &AdminOptions::new());
        let done = pollster::block_on(done).expect("the broker answers");
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    }

    /// Topics whose names begin with `prefix`, and their partitions.
    pub fn partitions(&self, prefix: &str) -> Vec<(String, i32)> {
        let consumer = self.consumer("read_committed");
        let metadata = consumer
            .fetch_metadata(None, CALL)
            .expect("the broker answers");
        let topics = metadata
            .topics()
            .iter()
            .filter(|topic| topic.name().starts_with(prefix));
        topics
            .flat_map(|topic| {
                topic
                    .partitions()
                    .iter()
                    .map(|p| (topic.name().to_owned(), p.id()))
            })
            .collect()
    }

    /// Waits until no transaction is open on these partitions.
    fn wait_committed(&self, partitions: &[(String, i32)]) {
        let (stable, all) = (
            self.consumer("read_committed"),
            self.consumer("read_uncommitted"),
        );
        let end = Instant::now() + Duration::from_secs(90);
        for (topic, partition) in partitions {
            loop {
                let high = |consumer: &BaseConsumer| {
                    consumer
                        .fetch_watermarks(topic, *partition, CALL)
                        .map(|(_, high)| high)
                };
                let (first, second) = (high(&all), high(&stable));
                if let (Ok(first), Ok(second)) = (&first, &second)
                    && first == second
                {
                    break;
                }
                assert!(
                    Instant::now() < end,
                    "{topic}/{partition}: a transaction stays open: {first:?}, {second:?}"
                );
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Calls `each` with all committed records of topics that begin with `prefix`, in order within each
    /// partition; ends at the ends that the partitions have when nothing is open on them.
    pub fn each(&self, prefix: &str, mut each: impl FnMut(&str, i32, Option<&[u8]>, &[u8])) {
        let partitions = self.partitions(prefix);
        let since = Instant::now();
        self.wait_committed(&partitions);
        if since.elapsed() > Duration::from_secs(5) {
            eprintln!(
                "{prefix}: transactions were decided after {:?}",
                since.elapsed()
            );
        }
        // One topic after the other, each with a client of its own: the end of a partition is told by its
        // number alone, and a late word of another topic's would end this one's too soon.
        let mut rest = partitions.as_slice();
        while let Some((topic, _)) = rest.first() {
            let count = rest.iter().take_while(|(name, _)| name == topic).count();
            let (these, others) = rest.split_at(count);
            read_topic(&self.consumer("read_committed"), these, &mut each);
            rest = others;
        }
    }

    /// All records of topics that begin with `prefix`; for small ones.
    pub fn records(&self, prefix: &str) -> Vec<Record> {
        let mut records = Vec::new();
        self.each(prefix, |topic, partition, key, value| {
            records.push(Record {
                topic: topic.to_owned(),
                partition,
                key: key.map(<[u8]>::to_vec),
                value: value.to_vec(),
            });
        });
        records
    }

    /// Tables as the topics tell them.
    pub fn rebuild(&self, prefix: &str) -> Rebuilt {
        let mut rebuilt = Rebuilt::from_partitions();
        self.each(prefix, |_, _, _, value| rebuilt.take(value));
        rebuilt
    }

    /// Waits until a record with `text` in it is committed.
    pub fn wait_for(&self, topic: &str, text: &str, limit: Duration) {
        let end = Instant::now() + limit;
        let mut seen: Option<String> = None;
        loop {
            let known = self.partitions(topic).iter().any(|(name, _)| name == topic);
            if known {
                let found = self.records(topic).into_iter().rev();
                let found = found.map(|record| String::from_utf8_lossy(&record.value).into_owned());
                let mut found = found.peekable();
                seen = found.peek().cloned().or(seen);
                if found.any(|value| value.contains(text)) {
                    return;
                }
            }
            let last = || seen.clone().unwrap_or_default();
            assert!(
                Instant::now() < end,
                "no {text} in {topic}; the last there: {}",
                last()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn read_topic(
    consumer: &BaseConsumer,
    partitions: &[(String, i32)],
    each: &mut impl FnMut(&str, i32, Option<&[u8]>, &[u8]),
) {
    let mut assignment = TopicPartitionList::new();
    for (topic, partition) in partitions {
        assignment
            .add_partition_offset(topic, *partition, Offset::Beginning)
            .expect("the offset is right");
    }
    consumer
        .assign(&assignment)
        .expect("the partitions are there");
    let mut ended = HashSet::new();
    let mut since = Instant::now();
    while ended.len() < partitions.len() {
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(message)) => {
                since = Instant::now();
                let value = message.payload().unwrap_or_default();
                each(message.topic(), message.partition(), message.key(), value);
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            Some(Err(error)) => panic!("read {}: {error}", partitions[0].0),
            None => {}
        }
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "no progress in {}",
            partitions[0].0
        );
    }
}
