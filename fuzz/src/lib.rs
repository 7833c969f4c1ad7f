//! What every decoder has to hold, whatever bytes it is given.

pub mod stream_api;

use format::settings::{FormatName, FormatOptions};

/// An error with a place, or operations whose images can be read.
pub fn decode(format: FormatName, message: &[u8]) {
    let mut decoder = format
        .decoder(&FormatOptions::default())
        .expect("the defaults are right");
    let mut out = Vec::new();
    match decoder.decode(message, &mut out) {
        Ok(()) => {
            for one in &out {
                assert_eq!(one.before.is_some(), one.before().is_some());
                assert_eq!(one.after.is_some(), one.after().is_some());
            }
        }
        Err(fault) => assert!(out.is_empty() && fault.offset <= message.len()),
    }
}
