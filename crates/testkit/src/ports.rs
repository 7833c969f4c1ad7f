//! Free ports on loopback.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Ports are taken from here: below the range out of which the kernel serves clients, so that a server
/// that was killed finds its port free again.
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

/// The first of `count` ports in a row that nobody listens on just now.
pub fn free(count: u16) -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if NEXT.load(Ordering::Relaxed) == 0 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seed = since.subsec_nanos() ^ std::process::id().wrapping_mul(0x9E37_79B9);
        let _ = NEXT.compare_exchange(0, 1 + seed % COUNT, Ordering::Relaxed, Ordering::Relaxed);
    }
    loop {
        let step = u32::from(count);
        let at = FIRST + NEXT.fetch_add(step, Ordering::Relaxed) % (COUNT - step);
        let ports = at as u16..at as u16 + count;
        if ports
            .clone()
            .all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        {
            return ports.start;
        }
    }
}
