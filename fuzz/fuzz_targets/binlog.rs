//! Any bytes as the events of a binlog: decoded, journaled as opaque, or refused with a place.
#![no_main]

use change::{Batch, Position};
use libfuzzer_sys::fuzz_target;
use source_mysql::capture::{Capture, CaptureOptions};

fuzz_target!(|bytes: &[u8]| {
    let mut capture = Capture::new(CaptureOptions::default(), Position::default());
    let mut batch = Batch::default();
    // Each event after its length, two bytes: the fuzzer finds out where events begin.
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (event, next) = after.split_at(length);
        if capture.event(event, &mut batch).is_err() {
            return;
        }
        rest = next;
    }
});
