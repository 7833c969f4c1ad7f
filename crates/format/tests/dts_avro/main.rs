//! DTS Avro against fixed messages, another Avro library, every type, and damage.

#[path = "../events/mod.rs"]
mod events;

mod damage;
mod golden;
mod properties;
mod shapes;

use change::{Event, TransactionHeader};
use format::canal_json::Clock;
use format::decode::{Decoded, Decoder, Fault};
use format::dts_avro::{DtsAvro, DtsAvroDecoder, Options};
use format::{Encoder, Messages};

/// Where the fixed messages stand in the log.
fn header() -> TransactionHeader {
    TransactionHeader {
        file: "mysql-bin.000078".into(),
        begin_offset: 72_347,
        time_s: 1_696_984_408,
        ..TransactionHeader::default()
    }
}

/// Settings under which the same event gives the same bytes.
fn options(version: &str) -> Options {
    Options {
        source_version: version.into(),
        clock: Clock::Commit,
        transactions: true,
        heartbeats: true,
        ..Options::default()
    }
}

fn encode(options: Options, event: &Event<'_>) -> Vec<u8> {
    let mut messages = Messages::default();
    DtsAvro::new(options)
        .encode(event, &mut messages)
        .expect("the format carries it");
    let all: Vec<&[u8]> = messages.iter().collect();
    assert_eq!(all.len(), 1);
    all[0].to_vec()
}

fn decode(message: &[u8]) -> Result<Vec<Decoded>, Fault> {
    let mut out = Vec::new();
    DtsAvroDecoder.decode(message, &mut out).map(|()| out)
}

fn one(message: &[u8]) -> Decoded {
    let mut all = decode(message).expect("the message is whole");
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// The fixed messages by name.
fn vectors() -> Vec<(&'static str, Vec<u8>)> {
    let lines = include_str!("vectors.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, hex) = line.split_once(' ').expect("a name and bytes");
            let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            (name, (0..hex.len()).step_by(2).map(digit).collect())
        })
        .collect()
}

fn vector(name: &str) -> Vec<u8> {
    let found = vectors().into_iter().find(|(known, _)| *known == name);
    found.expect("a known name").1
}
