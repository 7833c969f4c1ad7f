//! The cursor: the last record of a compacted topic with one partition, which only this sink writes.

use crate::client::{self, CALL_TIMEOUT, Context};
use crate::config::KafkaConfig;
use crate::error::broker_error;
use change::contract::ErrorKind;
use change::{Cursor, SinkError};
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long an undecided transaction is waited for before the caller tries again.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Key of the cursor's record.
pub(crate) const KEY: &[u8] = b"cursor";
/// Key of the record that says over how many partitions each topic's keys were spread.
pub(crate) const PARTITIONS_KEY: &[u8] = b"partitions";

/// How far back from the topic's end is looked first, and at most by how much more each time.
const WINDOW: i64 = 4096;
const WINDOW_GROWTH: i64 = 16;

/// What a sink left in its cursor topic.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub cursor: Option<Cursor>,
    /// Where the cursor's record stands.
    pub offset: Option<i64>,
    /// Topics that were written to: over how many partitions the keys were spread, or 0.
    pub partitions: BTreeMap<String, i32>,
}

/// Stored form: a topic and a number on each line.
pub(crate) fn encode_partitions(partitions: &BTreeMap<String, i32>, out: &mut Vec<u8>) {
    for (topic, count) in partitions {
        out.extend_from_slice(format!("{topic} {count}\n").as_bytes());
    }
}

fn decode_partitions(bytes: &[u8]) -> BTreeMap<String, i32> {
    let text = String::from_utf8_lossy(bytes);
    let pair = |line: &str| {
        let (topic, count) = line.split_once(' ')?;
        Some((topic.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// Reads what was last committed. Call it after the writer has fenced its predecessors, so that no
/// transaction on the topic is open.
pub(crate) fn read(config: &KafkaConfig, topic: &str) -> Result<Kept, SinkError> {
    let consumer = consumer(config, topic, "read_committed")?;
    let (low, high) = settled(&consumer, topic, config)?;
    tail(&consumer, topic, config, low, high)
}

/// Reads what stands at the topic's end now, as a reader of this isolation sees it: with
/// `read_uncommitted` what was last written, whether it was committed, taken back, or neither.
pub(crate) fn read_now(
    config: &KafkaConfig,
    topic: &str,
    isolation: &str,
) -> Result<Kept, SinkError> {
    let consumer = consumer(config, topic, isolation)?;
    let (low, high) = consumer
        .fetch_watermarks(topic, 0, CALL_TIMEOUT)
        .map_err(|error| broker_error("read cursor", &config.brokers, &error))?;
    tail(&consumer, topic, config, low, high)
}

/// The last records before `high`. The topic is compacted only where it is old: its end is looked at
/// first, and the rest only for what is not there.
fn tail(
    consumer: &BaseConsumer<Context>,
    topic: &str,
    config: &KafkaConfig,
    low: i64,
    high: i64,
) -> Result<Kept, SinkError> {
    let failed = |error: KafkaError| broker_error("read cursor", &config.brokers, &error);
    if high <= low {
        return Ok(Kept::default());
    }
    let mut window = WINDOW;
    loop {
        let start = low.max(high.saturating_sub(window));
        let mut assignment = TopicPartitionList::new();
        assignment
            .add_partition_offset(topic, 0, Offset::Offset(start))
            .map_err(failed)?;
        consumer.assign(&assignment).map_err(failed)?;
        let kept = last_records(consumer, topic, config)?;
        if start == low || (kept.cursor.is_some() && !kept.partitions.is_empty()) {
            return Ok(kept);
        }
        window = window.saturating_mul(WINDOW_GROWTH);
    }
}

pub(crate) fn consumer(
    config: &KafkaConfig,
    topic: &str,
    isolation: &str,
) -> Result<BaseConsumer<Context>, SinkError> {
    let mut client = client::base(config)?;
    client.set("group.id", format!("{topic}-reader"));
    client.set("enable.auto.commit", "false");
    client.set("isolation.level", isolation);
    client.set("enable.partition.eof", "true");
    let consumer: BaseConsumer<Context> = client
        .create_with_context(client::context(config))
        .map_err(|error| broker_error("read cursor", &config.brokers, &error))?;
    client::ready(consumer.client(), config)?;
    Ok(consumer)
}

/// Where the topic begins and ends, once nothing on it is undecided. After a broker's crash a decided
/// transaction may still lack its marker, and what `read_committed` shows ends before it: a cursor from
/// there would be an old one, and rows would come twice.
fn settled(
    committed: &BaseConsumer<Context>,
    topic: &str,
    config: &KafkaConfig,
) -> Result<(i64, i64), SinkError> {
    let failed = |error: KafkaError| broker_error("read cursor", &config.brokers, &error);
    let all = consumer(config, topic, "read_uncommitted")?;
    let end = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let (_, written) = all
            .fetch_watermarks(topic, 0, CALL_TIMEOUT)
            .map_err(failed)?;
        let (low, stable) = committed
            .fetch_watermarks(topic, 0, CALL_TIMEOUT)
            .map_err(failed)?;
        if stable >= written {
            return Ok((low, stable));
        }
        if Instant::now() > end {
            let detail = format!(
                "a transaction on {topic} is undecided since {} s (offsets {stable} to {written})",
                SETTLE_TIMEOUT.as_secs()
            );
            return Err(SinkError::new(ErrorKind::Unavailable, "read cursor", detail)
                .at(format!("topic {topic}"))
                .hint("the broker ends it after the producer's transaction.timeout.ms; see `kafka-transactions.sh find-hanging`"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn last_records(
    consumer: &BaseConsumer<Context>,
    topic: &str,
    config: &KafkaConfig,
) -> Result<Kept, SinkError> {
    let (mut last, mut offset) = (None, None);
    let mut partitions = BTreeMap::new();
    let end = Instant::now() + Duration::from_secs(u64::from(config.timeout_s));
    loop {
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(message)) if message.key() == Some(KEY) => {
                last = message.payload().map(<[u8]>::to_vec);
                offset = Some(message.offset());
            }
            Some(Ok(message)) if message.key() == Some(PARTITIONS_KEY) => {
                partitions = decode_partitions(message.payload().unwrap_or_default());
            }
            Some(Ok(_)) => {}
            Some(Err(KafkaError::PartitionEOF(_))) => break,
            Some(Err(error)) => return Err(broker_error("read cursor", &config.brokers, &error)),
            None if Instant::now() > end => {
                let detail = format!("no answer from {} in {} s", topic, config.timeout_s);
                return Err(SinkError::new(
                    ErrorKind::Unavailable,
                    "read cursor",
                    detail,
                ));
            }
            None => {}
        }
    }
    let decoded = last.map(|bytes| Cursor::decode(&bytes)).transpose();
    let cursor = decoded.map_err(|error| {
        SinkError::new(ErrorKind::Corrupt, "read cursor", error.to_string())
            .at(format!("topic {topic}"))
            .hint(
                "name another cursor_topic: the sink then starts from the journal's oldest change",
            )
    })?;
    Ok(Kept {
        cursor,
        offset,
        partitions,
    })
}
