//! Time, behind a trait so that tests own it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the journal takes the time from.
pub trait Clock: Send + Sync {
    /// Wall time in microseconds since 1970; decides ages and the first sequence of a new journal.
    fn now_us(&self) -> i64;

    /// Time that never goes back; decides when a frame is old enough to be written.
    fn monotonic(&self) -> Duration;
}

/// The time of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock {
            start: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now_us(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
