//! Waiting for what a server or a pipeline does in its own time.

use std::time::{Duration, Instant};

/// Looks until there is something; panics after `limit`.
pub fn wait_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < limit, "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
