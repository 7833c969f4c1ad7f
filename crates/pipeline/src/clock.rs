//! A clock that a test moves: the machine's, plus an offset that a file holds.

use journal::{Clock, SystemClock};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Environment variable with the path of the file that holds the offset, in seconds.
pub const OFFSET_FILE_VARIABLE: &str = "HEADWATER_CLOCK_OFFSET_FILE";
/// The file is read again after this.
const READ_INTERVAL: Duration = Duration::from_millis(20);

/// The machine's time plus the seconds in a file, which is read again as it changes. For tests of what takes a day.
pub struct OffsetClock {
    machine: SystemClock,
    file: PathBuf,
    read: Mutex<(Option<Instant>, i64)>,
}

impl OffsetClock {
    /// With the file that [`OFFSET_FILE_VARIABLE`] names; none when it is not set.
    pub fn from_environment() -> Option<Self> {
        let file = std::env::var_os(OFFSET_FILE_VARIABLE)?;
        Some(Self {
            machine: SystemClock::default(),
            file: file.into(),
            read: Mutex::default(),
        })
    }

    fn offset_us(&self) -> i64 {
        let mut read = self
            .read
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if read.0.is_none_or(|at| at.elapsed() >= READ_INTERVAL) {
            read.0 = Some(Instant::now());
            // While it is being written it may be empty: then the last offset holds.
            let text = std::fs::read_to_string(&self.file).unwrap_or_default();
            if let Ok(seconds) = text.trim().parse::<i64>() {
                read.1 = seconds.saturating_mul(1_000_000);
            }
        }
        read.1
    }
}

impl Clock for OffsetClock {
    fn now_us(&self) -> i64 {
        self.machine.now_us().saturating_add(self.offset_us())
    }

    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }
}
