//! Any bytes into the decoder.
#![no_main]

use format::settings::FormatName;

libfuzzer_sys::fuzz_target!(|message: &[u8]| headwater_fuzz::decode(FormatName::DtsAvro, message));
