//! Damaged messages: a fault or an operation, never a panic, never more memory than the message
//! allows.

use super::events::{Owned, Random, Row, every_type, random_value};
use super::{decode, encode, header, options, vector, vectors};
use change::{Event, Operation, RowMeta};
use format::dts_avro::datum::put_long;

fn messages() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = vectors().into_iter().map(|(_, message)| message).collect();
    let table = every_type();
    let header = header();
    let mut random = Random(99);
    for _ in 0..8 {
        let mut row = || -> Vec<Owned> {
            let kinds = table.columns.iter().map(|column| &column.kind);
            kinds.map(|kind| random_value(&mut random, kind)).collect()
        };
        let (before, after) = (row(), row());
        let before: Vec<_> = before.iter().map(Owned::cell).collect();
        let after: Vec<_> = after.iter().map(Owned::cell).collect();
        let meta = RowMeta::default();
        let row = Row::new(Operation::Update, meta, Some(&before), Some(&after));
        let event = Event::Row(row.change(&table, 7, &header));
        all.push(encode(options("8.0.28"), &event));
    }
    all
}

/// Decodes; what comes out must be no more than some hundred times the message.
fn survive(message: &[u8]) {
    match decode(message) {
        Ok(all) => {
            for decoded in all {
                let images = [&decoded.before, &decoded.after];
                let bytes: usize = images.into_iter().flatten().map(Vec::len).sum();
                assert!(bytes <= 100 * message.len() + 100);
                assert!(decoded.table.columns.len() <= message.len());
                assert!(decoded.warnings.len() <= 32);
                if let Some(image) = decoded.after() {
                    assert_eq!(image.column_count(), decoded.table.columns.len());
                }
                assert_eq!(decoded.before.is_some(), decoded.before().is_some());
            }
        }
        Err(fault) => assert!(fault.offset <= message.len(), "{fault}"),
    }
}

#[test]
fn dts_every_truncation_of_every_message_is_survived() {
    for message in messages() {
        for count in 0..message.len() {
            survive(&message[..count]);
        }
    }
}

#[test]
fn dts_every_flipped_bit_is_survived() {
    for mut message in messages() {
        for bit in 0..message.len() * 8 {
            message[bit / 8] ^= 1 << (bit % 8);
            survive(&message);
            message[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn dts_garbage_and_random_damage_are_survived() {
    let mut random = Random(4711);
    let all = messages();
    for _ in 0..20_000 {
        let mut message = all[random.below(all.len() as u64) as usize].clone();
        for _ in 0..=random.below(6) {
            if message.is_empty() {
                break;
            }
            let at = random.below(message.len() as u64) as usize;
            match random.below(4) {
                0 => message[at] = random.next() as u8,
                1 => drop(message.drain(at..(at + 3).min(message.len()))),
                2 => drop(message.splice(at..at, [0xff, 0xff, 0xff, 0x7f])),
                _ => message.truncate(at.max(1)),
            }
        }
        survive(&message);
    }
    for _ in 0..20_000 {
        let count = random.below(200);
        let message: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
        survive(&message);
    }
}

#[test]
fn dts_counts_that_the_message_cannot_hold_are_refused_before_anything_is_reserved() {
    // Everything of a row up to `fields`, then an array of 2^40 entries.
    let message = vector("init");
    let fields_at = message
        .windows(5)
        .position(|window| window == [4, 2, 2, b'a', 0x10])
        .expect("its fields");
    let mut huge = message[..=fields_at].to_vec();
    put_long(&mut huge, 1 << 40);
    huge.extend_from_slice(&message[fields_at + 2..]);
    let fault = decode(&huge).expect_err("a count past the end");
    assert_eq!((fault.offset, &*fault.path), (fields_at + 1, "fields"));
    assert_eq!(fault.what, "expected a count within the message");

    // As many fields as are refused for their number alone.
    let mut many = message[..=fields_at].to_vec();
    put_long(&mut many, 40_000);
    many.extend_from_slice(&vec![0; 100_000]);
    let fault = decode(&many).expect_err("too many columns");
    assert_eq!(fault.what, "expected at most 32768 columns");
}

#[test]
fn dts_faults_have_their_offset_and_path() {
    let mut message = vector("insert_min");
    let at = message
        .windows(9)
        .position(|window| window == b"123456789")
        .expect("its value");
    message[at] = b'x';
    let fault = decode(&message).expect_err("no digits");
    assert_eq!((fault.offset, &*fault.path), (at - 3, "afterImages[0]"));
    assert_eq!(
        fault.to_string(),
        format!(
            "decode dts-avro at byte {} (afterImages[0]): expected decimal digits",
            at - 3
        )
    );
}
