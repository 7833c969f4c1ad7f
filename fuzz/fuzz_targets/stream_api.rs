//! Any request to the stream API: routing, signature, documents, iterators. Whatever it holds, there is an answer.
#![no_main]

use headwater_fuzz::stream_api::Fuzzed;
use std::sync::OnceLock;

static FUZZED: OnceLock<Fuzzed> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|input: &[u8]| FUZZED.get_or_init(Fuzzed::new).request(input));
