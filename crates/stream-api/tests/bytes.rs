//! Requests made of damaged and random bytes: whatever they hold, there is an answer, and it is a refusal that an SDK reads.
//! The fuzz target of the same name goes on where this ends.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../../../fuzz/src/stream_api.rs"]
mod fuzzed;

use fuzzed::Fuzzed;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) as usize % end.max(1)
    }
}

const BODIES: [&str; 6] = [
    r#"{"streamArn":"arn:aws:cassandra:us-east-1:000000000000:/keyspace/shop/table/orders/stream/2026-01-01T00:00:00.000","shardId":"shardId-00000001796000000123-0a0b0c0d","shardIteratorType":"AT_SEQUENCE_NUMBER","sequenceNumber":"101796000000000000000"}"#,
    r#"{"keyspaceName":"shop","tableName":"orders","cdcSpecification":{"status":"ENABLED","viewType":"NEW_IMAGE","tags":[{"key":"a","value":"b"}]}}"#,
    r#"{"resourceArn":"arn:aws:cassandra:us-east-1:000000000000:/keyspace/shop/","tags":[{"key":"a","value":"b"}],"maxResults":5,"nextToken":"AAAA"}"#,
    r#"{"MetricDataQueries":[{"Id":"a","MetricStat":{"Metric":{"Namespace":"AWS/Cassandra","MetricName":"UserErrors"},"Period":60,"Stat":"Sum"}}],"StartTime":1,"EndTime":2e9}"#,
    r#"{"shardIterator":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","maxResults":1000}"#,
    "{\u{0}}",
];
const HEADS: [&str; 3] = [
    "/\nhost:x\nx-amz-target:KeyspacesStreams.ListStreams\nx-amz-date:20261130T120000Z\nauthorization:AWS4-HMAC-SHA256 Credential=A/20261130/us-east-1/cassandra/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, Signature=00\n\n{}",
    "/service/KeyspacesService/operation/GetTable\nhost:x\nsmithy-protocol:rpc-v2-cbor\n\n\u{0}",
    "/?a=b&c\nauthorization:AWS4-HMAC-SHA256 Credential=////, SignedHeaders=;;, Signature=\n\n",
];

#[test]
fn damaged_requests_have_answers() {
    let seed = std::env::var("HEADWATER_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| std::process::id().into());
    eprintln!("HEADWATER_SEED={seed}");
    let mut random = Rng(seed);
    let fuzzed = Fuzzed::new();
    for choice in 0..=255u8 {
        for body in BODIES {
            let mut input = vec![choice];
            input.extend_from_slice(body.as_bytes());
            fuzzed.request(&input);
        }
    }
    for _ in 0..60_000 {
        let is_signed = random.below(4) > 0;
        let mut input = vec![(random.below(128) as u8) << 1 | u8::from(is_signed)];
        let text = match is_signed {
            true => BODIES[random.below(BODIES.len())],
            false => HEADS[random.below(HEADS.len())],
        };
        input.extend_from_slice(text.as_bytes());
        for _ in 0..random.below(6) {
            let at = 1 + random.below(input.len() - 1);
            match random.below(3) {
                0 => input[at] = random.below(256) as u8,
                1 => input.truncate(at + 1),
                _ => input.insert(at, b"\"{}[]:,\0\xff9"[random.below(10)]),
            }
        }
        fuzzed.request(&input);
    }
}
