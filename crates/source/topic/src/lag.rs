//! How far the brokers are ahead; Kafka's client itself counts it once a second.

use rdkafka::Statistics;
use std::collections::HashMap;
use std::time::Instant;

/// Where a partition ends, as the last answer of its broker says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// The offset after the last message that may be read; below 0 when not known.
    pub end: i64,
    /// Where the end was seen with nothing more to read; below 0 for never.
    pub reached: i64,
}

impl End {
    /// Whether everything is read. What lies between the last message and the end is the brokers' own
    /// records.
    pub fn is_reached(&self) -> bool {
        self.end >= 0 && self.reached >= self.end
    }

    /// Messages after `next`, at most; none when not known.
    pub fn behind(&self, next: i64) -> Option<u64> {
        match self.end {
            ..0 => None,
            _ if self.is_reached() => Some(0),
            end => Some(u64::try_from(end - next).unwrap_or(0)),
        }
    }
}

/// What the client last told.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// When.
    pub at: Option<Instant>,
    /// Whether the leaders of all partitions are connected.
    pub is_connected: bool,
    /// By topic and partition.
    pub ends: HashMap<(String, i32), End>,
    /// Nothing waited in the client's queue.
    pub is_drained: bool,
}

impl Seen {
    pub fn take(&mut self, statistics: &Statistics) {
        self.at = Some(Instant::now());
        self.is_connected = true;
        self.is_drained = true;
        let up: Vec<i32> = (statistics.brokers.values())
            .filter(|broker| broker.state == "UP")
            .map(|broker| broker.nodeid)
            .collect();
        for (topic, told) in &statistics.topics {
            for (number, partition) in &told.partitions {
                // Minus one stands for messages without a partition.
                if *number < 0 || partition.fetch_state == "none" {
                    continue;
                }
                self.is_connected &= up.contains(&partition.leader);
                self.is_drained &= partition.fetchq_cnt == 0;
                let end = End {
                    end: match partition.ls_offset {
                        ..0 => partition.hi_offset,
                        stable => stable,
                    },
                    reached: partition.eof_offset,
                };
                self.ends.insert((topic.clone(), *number), end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::End;

    #[test]
    fn brokers_own_records_at_the_end_are_no_lag() {
        let end = |end, reached| End { end, reached };
        assert_eq!(end(-1001, -1001).behind(0), None);
        assert_eq!(end(12, -1001).behind(5), Some(7));
        assert_eq!(end(12, 12).behind(11), Some(0));
        assert_eq!(end(15, 12).behind(11), Some(4));
    }
}
