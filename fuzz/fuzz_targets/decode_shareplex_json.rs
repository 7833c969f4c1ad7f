//! Any bytes into the decoder: an error with a place, or operations whose images can be read.
#![no_main]

use format::settings::{FormatName, FormatOptions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    let mut decoder = FormatName::SharePlexJson
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
});
