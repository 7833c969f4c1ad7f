//! A stream API over an empty journal, and requests made of any bytes.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use std::sync::Arc;
use stream::{Streams, StreamsOptions};
use stream_api::api::Incoming;
use stream_api::call::Caller;
use stream_api::operations::Operation;
use stream_api::signature::{Signed, authorization};
use stream_api::wire::{Encoding, Service};
use stream_api::{Api, ApiConfig, ApiParts, KeyFile, Keys, Sealer};

const KEYS: &str = "keys: [{access_key: A, secret: s, user: u, policies: [all]}]\npolicies:\n  all: {Statement: {Effect: \
                    Allow, Action: '*', Resource: '*'}}\n";

/// What is fuzzed.
pub struct Fuzzed {
    api: Api,
}

impl Fuzzed {
    /// Over a fresh journal among the temporary files.
    pub fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("headwater-fuzz-api-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("temporary files can be made");
        let keys = journal::FileKeys::open_or_create(&dir.join("key")).expect("keys can be made");
        let options = journal::Options::new(dir.join("j"), Arc::new(keys));
        let (journal, writer) = journal::open(options).expect("a journal can be made");
        let (streams, _) = Streams::open(journal, StreamsOptions::default()).expect("it is empty");
        writer.close().expect("it can be closed");
        let keys = Keys::parse(KEYS, "keys", streams.identity()).expect("the keys are right");
        let api = Api::new(ApiParts {
            streams,
            settings: ApiConfig::default(),
            keys: KeyFile::fixed(keys),
            sealer: Sealer::new(&[7; 32]),
            audit: None,
        });
        Self { api }
    }

    /// One request. First byte: its lowest bit says whether it is signed rightly, the next one the encoding, the rest the
    /// operation. Unsigned: header lines up to an empty one, then the body.
    pub fn request(&self, input: &[u8]) {
        let Some((choice, rest)) = input.split_first() else {
            return;
        };
        let answer = match choice & 1 {
            1 => self.signed(*choice, rest),
            _ => self.raw(rest),
        };
        let Some((status, encoding, body)) = answer else {
            return;
        };
        assert!([200, 400, 402, 403, 404, 409, 413, 500].contains(&status));
        if encoding == Encoding::Json {
            let document: serde_json::Value =
                serde_json::from_slice(&body).expect("answers are documents");
            assert_eq!(status != 200, document.get("__type").is_some());
        }
    }

    fn answer(&self, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> (u16, Encoding, Vec<u8>) {
        let outgoing = self.api.answer(&Incoming {
            method: &Method::POST,
            uri,
            headers,
            body,
            caller: &Caller::default(),
        });
        (outgoing.status, outgoing.encoding, outgoing.body)
    }

    fn signed(&self, choice: u8, body: &[u8]) -> Option<(u16, Encoding, Vec<u8>)> {
        let operation = Operation::ALL[usize::from(choice >> 2) % Operation::ALL.len()];
        let facts = operation.facts();
        let prefix = facts.service.target_prefix();
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("localhost"));
        headers.insert("x-amz-date", HeaderValue::from_str(&self.now()).ok()?);
        let uri = match choice & 2 {
            0 => {
                let target = format!("{prefix}.{}", facts.name);
                headers.insert("x-amz-target", HeaderValue::from_str(&target).ok()?);
                Uri::from_static("/")
            }
            _ => {
                headers.insert("smithy-protocol", HeaderValue::from_static("rpc-v2-cbor"));
                format!("/service/{prefix}/operation/{}", facts.name)
                    .parse()
                    .ok()?
            }
        };
        let signed = Signed {
            method: &Method::POST,
            uri: &uri,
            headers: &headers,
            body,
        };
        let scope = (service_of(operation, choice), "us-east-1");
        let value = authorization(("A", "s"), scope, &signed).ok()?;
        headers.insert("authorization", HeaderValue::from_str(&value).ok()?);
        Some(self.answer(&uri, &headers, body))
    }

    fn raw(&self, input: &[u8]) -> Option<(u16, Encoding, Vec<u8>)> {
        let end = input.windows(2).position(|pair| pair == b"\n\n");
        let (head, body) = end.map_or((input, &[][..]), |at| (&input[..at], &input[at + 2..]));
        let mut lines = head.split(|byte| *byte == b'\n');
        let path = std::str::from_utf8(lines.next()?).ok()?;
        let uri: Uri = path.parse().ok()?;
        let mut headers = HeaderMap::new();
        for line in lines {
            let at = line.iter().position(|byte| *byte == b':')?;
            let name = HeaderName::from_bytes(&line[..at]).ok()?;
            headers.append(name, HeaderValue::from_bytes(&line[at + 1..]).ok()?);
        }
        Some(self.answer(&uri, &headers, body))
    }

    fn now(&self) -> String {
        let label = stream::Label(self.api.streams().now_us() / 1000).to_string();
        let digits: String = label
            .chars()
            .filter(|c| c.is_ascii_digit() || *c == 'T')
            .collect();
        format!("{}Z", &digits[..15])
    }
}

impl Default for Fuzzed {
    fn default() -> Self {
        Self::new()
    }
}

fn service_of(operation: Operation, choice: u8) -> Service {
    // Now and then the wrong one.
    match choice {
        255 => Service::CloudWatch,
        _ => operation.service(),
    }
}
