//! Transactions whose end a broker lost.
//!
//! A transaction ends with a marker on each of its partitions. A broker that is being stopped leaves out
//! the markers of partitions that have no leader any more (its log says "couldn't find leader endpoint …
//! can be skipped"), and the coordinator still counts the transaction as complete, also towards its
//! producer. On those partitions it stays open, readers with `read_committed` stand before it, and the
//! producer's next transaction decides it along with itself: on each partition in its own way. Seen with
//! Kafka 4.4 when the only broker is stopped in order; with a partition on several brokers another leads.
//!
//! So what was confirmed shortly before a connection ended is not trusted. The sink opens again, looks for
//! partitions that are still open, and takes back everything there before it reads its cursor, which was
//! part of the same transactions. What was taken back is delivered again.

use crate::client::{CALL_TIMEOUT, Context};
use crate::config::KafkaConfig;
use crate::cursor;
use crate::error::broker_error;
use change::SinkError;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, PurgeConfig};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Markers of transactions that ended just now, also of other producers, arrive within this time.
const MARKERS_TIMEOUT: Duration = Duration::from_secs(1);

/// A topic and one of its partitions.
pub(crate) type Partition = (String, i32);

/// All partitions of the topics that were written to, and the cursor's.
pub(crate) fn partitions_of(
    metadata: &Metadata,
    written: &BTreeMap<String, i32>,
    cursor_topic: &str,
) -> Vec<Partition> {
    let mut partitions = vec![(cursor_topic.to_owned(), 0)];
    for topic in metadata.topics() {
        if written.contains_key(topic.name()) {
            let all = topic.partitions().iter();
            partitions.extend(all.map(|one| (topic.name().to_owned(), one.id())));
        }
    }
    partitions
}

/// Which of these partitions have a transaction without an end, when there was time for one.
pub(crate) fn still_open(
    config: &KafkaConfig,
    partitions: &[Partition],
) -> Result<Vec<Partition>, SinkError> {
    let topic = &partitions[0].0;
    let committed = cursor::consumer(config, topic, "read_committed")?;
    let all = cursor::consumer(config, topic, "read_uncommitted")?;
    let end = Instant::now() + MARKERS_TIMEOUT;
    loop {
        // Asked in this order, what is written between the two questions looks closed, not open.
        let written = ends(config, &all, partitions)?;
        let stable = ends(config, &committed, partitions)?;
        let open = partitions.iter().filter(|partition| {
            match (written.get(*partition), stable.get(*partition)) {
                (Some(written), Some(stable)) => stable < written,
                _ => false,
            }
        });
        let open: Vec<Partition> = open.cloned().collect();
        if open.is_empty() || Instant::now() > end {
            return Ok(open);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The end of each partition, as this consumer may read it.
fn ends(
    config: &KafkaConfig,
    consumer: &BaseConsumer<Context>,
    partitions: &[Partition],
) -> Result<BTreeMap<Partition, i64>, SinkError> {
    let failed =
        |error: KafkaError| broker_error("look for open transactions", &config.brokers, &error);
    let mut asked = TopicPartitionList::with_capacity(partitions.len());
    for (topic, partition) in partitions {
        asked
            .add_partition_offset(topic, *partition, Offset::End)
            .map_err(failed)?;
    }
    let answered = consumer
        .offsets_for_times(asked, CALL_TIMEOUT)
        .map_err(failed)?;
    let mut ends = BTreeMap::new();
    for one in answered.elements() {
        one.error().map_err(failed)?;
        if let Offset::Offset(offset) = one.offset() {
            ends.insert((one.topic().to_owned(), one.partition()), offset);
        }
    }
    Ok(ends)
}

/// Takes back whatever of this producer's is open on these partitions: a transaction with a record on
/// each of them is aborted. Nobody with `read_committed` sees those records.
pub(crate) fn take_back(
    config: &KafkaConfig,
    producer: &BaseProducer<Context>,
    context: &Context,
    partitions: &[Partition],
) -> Result<(), SinkError> {
    let timeout = Duration::from_secs(u64::from(config.timeout_s));
    let failed = |error: &KafkaError| broker_error("end open transactions", &config.brokers, error);
    producer
        .begin_transaction()
        .map_err(|error| failed(&error))?;
    for (topic, partition) in partitions {
        let record: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(topic, 0).partition(*partition);
        producer.send(record).map_err(|(error, _)| failed(&error))?;
    }
    // The records have to be there: a partition without one gets no marker.
    let end = Instant::now() + timeout;
    while producer.in_flight_count() > 0 && Instant::now() < end {
        producer.poll(Duration::from_millis(1));
    }
    producer.purge(PurgeConfig::default().queue().inflight());
    producer.poll(Duration::from_millis(1));
    let refused = context.failed.lock().ok().and_then(|mut all| all.pop());
    let aborted = producer.abort_transaction(timeout);
    if let Some((_, error)) = refused {
        return Err(failed(&error));
    }
    aborted.map_err(|error| failed(&error))
}

/// The topics of partitions, for a message.
pub(crate) fn topics_of(partitions: &[Partition]) -> String {
    let topics: BTreeSet<&str> = partitions.iter().map(|(topic, _)| topic.as_str()).collect();
    topics.into_iter().collect::<Vec<_>>().join(", ")
}
