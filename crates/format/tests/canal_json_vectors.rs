//! Golden vectors of Canal JSON in all its variants, byte by byte.

mod support;

use change::TransactionHeader;
use format::canal_json::{CanalJson, Clock, Flavour, Grouping, OldData, Options, SqlTypeCodes};
use format::{Encoder, Messages};
use support::steps::{check, lines};
use support::{Change, Stored, column, header, int, item, row_of, table, text};

fn open_source() -> Options {
    Options {
        clock: Clock::Commit,
        ..Options::default()
    }
}

fn dts() -> Options {
    Options {
        flavour: Flavour::Dts,
        snapshot_as_init: true,
        ..open_source()
    }
}

/// The lines of `steps` without the snapshot row, which Canal does not know.
fn without_snapshot(lines: Vec<String>) -> Vec<String> {
    lines
        .into_iter()
        .filter(|line| !line.starts_with("V13"))
        .collect()
}

#[test]
fn open_source_messages_with_the_rows_of_an_event() {
    let mut encoder = CanalJson::new(Options {
        grouping: Grouping::Event,
        ..open_source()
    });
    let lines = lines(&mut encoder, &header(), |_| 7);
    check("canal_open_source.txt", &without_snapshot(lines));
}

#[test]
fn open_source_messages_of_one_row() {
    let mut encoder = CanalJson::new(open_source());
    let lines = lines(&mut encoder, &header(), |_| 7);
    check("canal_one_row.txt", &without_snapshot(lines));
}

#[test]
fn open_source_messages_exactly_as_canal_writes_them() {
    let mut encoder = CanalJson::new(Options {
        grouping: Grouping::Event,
        exact: true,
        ..open_source()
    });
    check(
        "canal_exact.txt",
        &without_snapshot(lines(&mut encoder, &header(), |n| 900 + n)),
    );
}

#[test]
fn dts_messages() {
    let mut encoder = CanalJson::new(dts());
    check("canal_dts.txt", &lines(&mut encoder, &header(), |n| 58 + n));
}

#[test]
fn dts_messages_before_2022() {
    let mut encoder = CanalJson::new(Options {
        old_data: OldData::Before2022,
        ..dts()
    });
    check(
        "canal_dts_before_2022.txt",
        &lines(&mut encoder, &header(), |n| 58 + n),
    );
}

#[test]
fn dts_messages_with_gtids_and_type_numbers() {
    let gtid = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23";
    let header = TransactionHeader {
        id: Some(support::gtid(gtid)),
        ..header()
    };
    let mut encoder = CanalJson::new(Options {
        gtid: true,
        sql_type: SqlTypeCodes::DataTypeNumber,
        ..dts()
    });
    check(
        "canal_dts_gtid.txt",
        &lines(&mut encoder, &header, |n| 58 + n),
    );
}

#[test]
fn rows_that_wait_are_told_and_come_with_the_next_event() {
    let mut encoder = CanalJson::new(Options {
        grouping: Grouping::Event,
        ..open_source()
    });
    let (item, header) = (item(), header());
    let row = |id| row_of(id, text("pen"), 1, "1.00", change::Cell::Null);
    let mut out = Messages::default();
    let mut encode = |sequence, group, change: &Change<'_>, out: &mut Messages| {
        let stored = Stored::new(&item, change, (sequence, group));
        (encoder.encode(&stored.event(&item, &header), out)).unwrap();
        encoder.held_from()
    };
    assert_eq!(encode(10, 0, &Change::insert(row(1)), &mut out), Some(10));
    assert_eq!(encode(11, 0, &Change::insert(row(2)), &mut out), Some(10));
    assert!(out.is_empty());
    assert_eq!(encode(12, 1, &Change::insert(row(3)), &mut out), Some(12));
    let told: Vec<bool> = out.iter_with_origin().map(|(_, earlier)| earlier).collect();
    assert_eq!(told, [true], "the message is of the two rows before");
    assert_eq!(encode(13, 1, &Change::delete(row(3)), &mut out), Some(13));
    assert_eq!(encode(14, 2, &Change::read(row(4)), &mut out), None);
    let kinds: Vec<String> = (out.iter())
        .map(|message| String::from_utf8_lossy(message).into_owned())
        .collect();
    assert_eq!(kinds.len(), 4);
    assert!(kinds[0].contains(r#""id":"1""#) && kinds[0].contains(r#""id":"2""#));
    assert!(kinds[2].ends_with(r#""type":"DELETE"}"#));
}

#[test]
fn rows_that_come_again_are_not_sent_twice() {
    let mut encoder = CanalJson::new(Options {
        grouping: Grouping::Event,
        ..open_source()
    });
    let (item, header) = (item(), header());
    let row = row_of(1, text("pen"), 1, "1.00", change::Cell::Null);
    let stored = Stored::new(&item, &Change::insert(row), (10, 0));
    let event = stored.event(&item, &header);
    assert!(support::messages_of(&mut encoder, &event).is_empty());
    encoder.reset();
    assert_eq!(encoder.held_from(), None);
    assert!(support::messages_of(&mut encoder, &event).is_empty());
    let begin = change::Event::Begin {
        sequence: 1,
        header: &header,
    };
    let messages = support::messages_of(&mut encoder, &begin);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].matches(r#""name":"pen""#).count(), 1);
}

#[test]
fn exact_mode_numbers_transactions_and_cuts_padding() {
    use change::{Cell, ColumnType as T, Value};
    let mut bits = table(
        "bits",
        vec![
            column(
                "id",
                "int",
                T::Int {
                    bytes: 4,
                    unsigned: false,
                },
            ),
            column("pad", "binary(4)", T::Binary { length: 4 }),
            column(
                "tags",
                "set('a')",
                T::Set {
                    members: vec!["a".into()],
                },
            ),
            column("doc", "json", T::Json),
        ],
        vec![0],
    );
    bits.table = change::TableId(5);
    let row = vec![
        int(1),
        Cell::Value(Value::Bytes(&[1, 0, 0xff, 0])),
        Cell::Null,
        Cell::Null,
    ];
    let mut encoder = CanalJson::new(Options {
        exact: true,
        ..open_source()
    });
    for transaction in 1..3u64 {
        let header = TransactionHeader {
            begin_offset: transaction,
            ..header()
        };
        for sequence in 0..2 {
            let stored = Stored::new(&bits, &Change::insert(row.clone()), (sequence, 0));
            let message = &support::messages_of(&mut encoder, &stored.event(&bits, &header))[0];
            assert!(
                message.contains(&format!(r#""id":{transaction},"isDdl""#)),
                "{message}"
            );
            assert!(message.contains("\"pad\":\"\\u0001\\u0000ÿ\""), "{message}");
            assert!(message.contains(r#""tags":2004,"doc":1111"#), "{message}");
        }
    }
}
