//! Golden vectors of SharePlex JSON, byte by byte, and what they do not show.

mod support;

use change::event::DdlChange;
use change::{Cell, DdlKind, Event, TransactionHeader};
use format::canal_json::Clock;
use format::shareplex_json::{
    OpWords, Options, RowId, SharePlexJson, TimeSuffix, UpdateShape, Variant,
};
use format::{Ahead, Encoder};
use support::steps::{check, lines};
use support::{Change, Stored, ddl, header, item, messages_of, row_of, text};

fn dts() -> Options {
    Options {
        clock: Clock::Commit,
        ..Options::default()
    }
}

fn with_gtid() -> TransactionHeader {
    TransactionHeader {
        id: Some(support::gtid("3e11fa47-71ca-11e1-9e33-c80aa9429562:23")),
        ..header()
    }
}

fn lines_of(options: Options) -> Vec<String> {
    lines(&mut SharePlexJson::new(options), &with_gtid(), |n| 58 + n)
}

#[test]
fn dts_messages() {
    let lines: Vec<String> = (lines_of(dts()).into_iter())
        .filter(|line| !line.starts_with("V13"))
        .collect();
    check("shareplex_dts.txt", &lines);
}

#[test]
fn quest_messages() {
    let options = Options {
        clock: Clock::Commit,
        ..Options::of(Variant::Quest)
    };
    let lines = lines_of(options);
    let shown = ["V1 ", "V2 ", "V3 ", "V6 ", "V8 "];
    let mut lines: Vec<String> = (lines.into_iter())
        .filter(|line| shown.iter().any(|name| line.starts_with(name)))
        .collect();
    lines.remove(1);
    check("shareplex_quest.txt", &lines);
}

#[test]
fn updates_as_two_messages_with_long_words() {
    let options = Options {
        op_words: OpWords::long(),
        update: UpdateShape::BeforeAfter,
        time_suffix: TimeSuffix::Z,
        rowid: RowId::PrimaryKey,
        ..dts()
    };
    check("shareplex_two.txt", &lines_of(options));
}

#[test]
fn a_transaction_that_was_half_sent_goes_on_counting() {
    let mut encoder = SharePlexJson::new(dts());
    let (item, header) = (item(), with_gtid());
    encoder.transaction(&Ahead {
        operations: 9,
        sent_before: 6,
        commit_sequence: 77,
    });
    let row = row_of(1, text("a"), 1, "1.00", Cell::Null);
    let stored = Stored::new(&item, &Change::insert(row), (5, 0));
    let message = &messages_of(&mut encoder, &stored.event(&item, &header))[0];
    assert!(message.contains(r#""scn":"77","#), "{message}");
    assert!(message.contains(r#""seq":7,"size":9,"#), "{message}");
}

#[test]
fn dropped_columns_are_sent_one_by_one_and_other_statements_counted() {
    let mut encoder = SharePlexJson::new(dts());
    let header = header();
    let mut send = |kind, sql| {
        let event = Event::Ddl(DdlChange {
            sequence: 9,
            ddl: ddl(kind, "item", sql),
            header: &header,
        });
        let messages = messages_of(&mut encoder, &event);
        assert_eq!(messages.len() as u64, encoder.operations(&event), "{sql}");
        messages
    };
    let messages = send(
        DdlKind::AlterTable,
        "ALTER TABLE item DROP memo, DROP COLUMN `x`",
    );
    assert!(messages[0].contains(r#""op":"dropcol""#));
    assert!(
        messages[0].ends_with(r#","data":{"memo":null}}"#),
        "{}",
        messages[0]
    );
    assert!(messages[1].ends_with(r#","data":{"x":null}}"#));
    assert!(send(DdlKind::AlterTable, "ALTER TABLE item ADD c INT").is_empty());
    assert!(send(DdlKind::DropTable, "DROP TABLE item").is_empty());
    assert_eq!(encoder.not_carried(), 2);
}

#[test]
fn what_the_log_has_only_after_an_update_counts_as_changed() {
    let mut encoder = SharePlexJson::new(dts());
    let (item, header) = (item(), header());
    let mut before = vec![Cell::Unknown; 6];
    before[0] = support::int(1);
    let mut after = vec![Cell::Unknown; 6];
    after[1] = text("new");
    let stored = Stored::new(&item, &Change::update(before, after), (1, 0));
    let message = &messages_of(&mut encoder, &stored.event(&item, &header))[0];
    assert!(
        message.ends_with(r#""data":{"name":"new"},"key":{"id":"1"}}"#),
        "{message}"
    );
}
