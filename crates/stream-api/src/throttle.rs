//! How fast clients may call, and how many may read one shard.
//!
//! A reader is the chain of iterators that begins with one GetShardIterator. It is refused when as many as may be began
//! before it and have read again since it began: those are at work at the same time. One that began anew and left its
//! old iterators alone, as many simple clients do, stays one reader.

use crate::error::{ApiError, Code};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A reader that was not heard of for this long is none any more.
const READER_IDLE: Duration = Duration::from_secs(5);
/// Readers of one shard that are remembered.
const SHARD_READERS_MAX: usize = 64;
/// Shards and callers that are remembered; idle ones go first.
const REMEMBERED_MAX: usize = 10_000;

/// Limits on calls. A call beyond one is answered with `ThrottlingException`, which SDKs try again.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Concurrent readers of one shard. Default 2, as in Keyspaces; 0: no limit.
    pub readers_per_shard: u32,
    /// GetRecords calls per second on one shard, all readers together. Default 0: no limit.
    pub get_records_per_shard: f64,
    /// Calls per second of one access key, all operations but GetRecords together. Default 0: no limit.
    pub calls_per_key: f64,
    /// GetRecords calls per second of one access key. Default 0: no limit.
    pub get_records_per_key: f64,
    /// How many of those calls may come at once, in seconds' worth. Default 2.
    pub burst_seconds: f64,
    /// Open connections of all listeners together; more wait to be accepted. Default 1024.
    pub connections: usize,
    /// Of these, open connections of one listener; more wait. Default 0: where there are several listeners, three
    /// quarters of `connections`, so that one that is flooded leaves room for the others.
    pub connections_per_listener: usize,
    /// Open connections of one address; more are closed at once. Default 512; 0: no limit.
    pub connections_per_address: usize,
    /// Calls of `keyspacesstreams` that are worked on at the same time; more wait. Default 16.
    pub calls_at_once: usize,
    /// Calls of `keyspaces` and `cloudwatch` that are worked on at the same time; more wait. They have threads of their own:
    /// one that changes a stream waits for the capture thread, and readers do not. Default 4.
    pub control_calls_at_once: usize,
    /// Bytes of a request's body. Default 1 MiB.
    pub body_bytes: usize,
    /// Seconds that a client may take for a request's head, and again for its body. Default 10.
    pub request_seconds: u64,
    /// Seconds after which a connection on which nothing was asked is closed; before its first call with a good signature
    /// it is `request_seconds`. Default 120.
    pub idle_seconds: u64,
    /// Stored bytes of the records of one GetRecords answer; at least one record is always returned. Default 1 MiB.
    pub page_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            readers_per_shard: 2,
            get_records_per_shard: 0.0,
            calls_per_key: 0.0,
            get_records_per_key: 0.0,
            burst_seconds: 2.0,
            connections: 1024,
            connections_per_listener: 0,
            connections_per_address: 512,
            calls_at_once: 16,
            control_calls_at_once: 4,
            body_bytes: 1 << 20,
            request_seconds: 10,
            idle_seconds: 120,
            page_bytes: 1 << 20,
        }
    }
}

impl Limits {
    /// Open connections of one of `count` listeners.
    pub(crate) fn of_listener(&self, count: usize) -> usize {
        match (self.connections_per_listener, count) {
            (0, 0 | 1) => self.connections,
            (0, _) => (self.connections / 4 * 3).max(1),
            (most, _) => most,
        }
    }

    /// Whether they can be kept.
    ///
    /// Errors: which one is out of range.
    pub fn check(&self) -> Result<(), String> {
        let rates = [
            ("get_records_per_shard", self.get_records_per_shard),
            ("calls_per_key", self.calls_per_key),
            ("get_records_per_key", self.get_records_per_key),
        ];
        for (name, rate) in rates {
            if !(0.0..=1e9).contains(&rate) {
                return Err(format!("limits.{name} is 0 or more calls a second"));
            }
        }
        if !(0.01..=3600.0).contains(&self.burst_seconds) {
            return Err("limits.burst_seconds is 0.01 to 3600".into());
        }
        let counts = [
            ("connections", self.connections, 1, 100_000),
            (
                "connections_per_listener",
                self.connections_per_listener,
                0,
                self.connections,
            ),
            (
                "connections_per_address",
                self.connections_per_address,
                0,
                100_000,
            ),
            ("calls_at_once", self.calls_at_once, 1, 512),
            ("control_calls_at_once", self.control_calls_at_once, 1, 64),
            ("body_bytes", self.body_bytes, 8 << 10, 64 << 20),
            ("page_bytes", self.page_bytes, 1, 64 << 20),
            ("request_seconds", self.request_seconds as usize, 1, 600),
            ("idle_seconds", self.idle_seconds as usize, 1, 86_400),
        ];
        for (name, value, least, most) in counts {
            if !(least..=most).contains(&value) {
                return Err(format!("limits.{name} is {least} to {most}"));
            }
        }
        Ok(())
    }
}

/// A bucket that fills with time.
struct Bucket {
    tokens: f64,
    at: Instant,
}

struct Reader {
    id: u64,
    connection: u64,
    /// Its first call.
    began: Instant,
    /// Its last call.
    at: Instant,
}

#[derive(Default)]
struct Shard {
    readers: Vec<Reader>,
}

/// One call's reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderCall {
    /// Of the chain of iterators.
    pub id: u64,
    /// Of the connection.
    pub connection: u64,
}

/// Counts calls.
pub(crate) struct Throttle {
    limits: Limits,
    buckets: Mutex<HashMap<String, Bucket>>,
    shards: Mutex<HashMap<String, Shard>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn too_fast(text: String) -> ApiError {
    ApiError::new(Code::Throttling, text)
}

impl Throttle {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            buckets: Mutex::default(),
            shards: Mutex::default(),
        }
    }

    /// One call of a key. Errors: `ThrottlingException`.
    pub fn call(&self, access_key: &str, is_get_records: bool) -> Result<(), ApiError> {
        let (rate, what) = match is_get_records {
            true => (self.limits.get_records_per_key, "GetRecords calls"),
            false => (self.limits.calls_per_key, "calls"),
        };
        self.take(rate, || format!("{is_get_records} {access_key}"))
            .map_err(|()| too_fast(format!("this access key may make {rate} {what} a second")))
    }

    /// One read of a shard. Errors: `ThrottlingException` for a reader too many, or a call too early.
    pub fn read(&self, arn: &str, shard: &str, reader: &ReaderCall) -> Result<(), ApiError> {
        let place = || format!("{arn} {shard}");
        if self.limits.readers_per_shard > 0 {
            self.admit(place(), reader)?;
        }
        let rate = self.limits.get_records_per_shard;
        self.take(rate, || format!("shard {}", place()))
            .map_err(|()| too_fast(format!("one shard takes {rate} GetRecords calls a second")))
    }

    fn admit(&self, place: String, call: &ReaderCall) -> Result<(), ApiError> {
        let now = Instant::now();
        let mut shards = locked(&self.shards);
        if shards.len() > REMEMBERED_MAX {
            shards.retain(|_, shard| shard.readers.iter().any(|reader| is_live(reader, now)));
        }
        let readers = &mut shards.entry(place).or_default().readers;
        readers.retain(|reader| {
            is_live(reader, now) && (reader.id == call.id || reader.connection != call.connection)
        });
        let known = readers.iter().position(|reader| reader.id == call.id);
        let index = known.unwrap_or_else(|| {
            if readers.len() >= SHARD_READERS_MAX {
                readers.remove(0);
            }
            readers.push(Reader {
                id: call.id,
                connection: call.connection,
                began: now,
                at: now,
            });
            readers.len() - 1
        });
        (readers[index].at, readers[index].connection) = (now, call.connection);
        let began = readers[index].began;
        let at_work = |reader: &&Reader| reader.began < began && reader.at > began;
        let most = self.limits.readers_per_shard as usize;
        match readers.iter().filter(at_work).count() >= most {
            false => Ok(()),
            true => Err(too_fast(format!(
                "{most} others read this shard now, which is the most; one reader per shard is best"
            ))),
        }
    }

    fn take(&self, rate: f64, key: impl FnOnce() -> String) -> Result<(), ()> {
        if rate <= 0.0 {
            return Ok(());
        }
        let most = (rate * self.limits.burst_seconds).max(1.0);
        let now = Instant::now();
        let mut buckets = locked(&self.buckets);
        if buckets.len() > REMEMBERED_MAX {
            let full = Duration::from_secs_f64(self.limits.burst_seconds);
            buckets.retain(|_, bucket| now.duration_since(bucket.at) < full);
        }
        let bucket = buckets.entry(key()).or_insert(Bucket {
            tokens: most,
            at: now,
        });
        let gained = now.duration_since(bucket.at).as_secs_f64() * rate;
        bucket.tokens = (bucket.tokens + gained).min(most);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            return Err(());
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

fn is_live(reader: &Reader, now: Instant) -> bool {
    now.duration_since(reader.at) < READER_IDLE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: u64, connection: u64) -> ReaderCall {
        ReaderCall { id, connection }
    }

    #[test]
    fn the_third_reader_is_refused_and_two_go_on() {
        let throttle = Throttle::new(Limits::default());
        let read = |id, connection| throttle.read("arn", "shard", &call(id, connection)).is_ok();
        assert!(read(1, 1) && read(2, 2) && read(1, 1) && read(2, 2));
        assert!(
            read(3, 3),
            "nobody knows yet that the others are still there"
        );
        assert!(read(1, 1) && read(2, 2));
        assert!(!read(3, 3) && !read(3, 3));
        assert!(read(1, 1) && read(2, 2));
        assert!(throttle.read("arn", "other", &call(3, 3)).is_ok());
    }

    #[test]
    fn one_client_that_begins_again_and_again_is_one_reader() {
        let throttle = Throttle::new(Limits::default());
        for id in 0..200 {
            // Also with a connection for every call.
            for turn in 0..3 {
                assert!(
                    throttle
                        .read("arn", "shard", &call(id, 3 * id + turn))
                        .is_ok()
                );
            }
        }
    }

    #[test]
    fn no_limit_serves_everybody() {
        let throttle = Throttle::new(Limits {
            readers_per_shard: 0,
            ..Limits::default()
        });
        for id in 0..20 {
            assert!(throttle.read("arn", "shard", &call(id, id)).is_ok());
        }
    }

    #[test]
    fn rates_let_a_burst_through_and_then_refuse() {
        let limits = Limits {
            calls_per_key: 0.5,
            burst_seconds: 6.0,
            ..Limits::default()
        };
        let throttle = Throttle::new(limits);
        let allowed = (0..10)
            .filter(|_| throttle.call("A", false).is_ok())
            .count();
        assert_eq!(allowed, 3);
        assert!(throttle.call("B", false).is_ok() && throttle.call("A", true).is_ok());
    }

    #[test]
    fn limits_out_of_range_are_named() {
        assert!(Limits::default().check().is_ok());
        let none = Limits {
            connections: 0,
            ..Limits::default()
        };
        assert!(none.check().unwrap_err().contains("connections"));
        let never = Limits {
            calls_per_key: f64::NAN,
            ..Limits::default()
        };
        assert!(never.check().unwrap_err().contains("calls_per_key"));
    }
}
