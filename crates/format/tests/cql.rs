//! No format carries a table of CQL: each refuses its rows, whatever they hold, and names what stands in the way.

use change::{Cell, ColumnType};
use change::{CqlColumn, CqlRole, CqlType, CqlValue, Event, Operation, TransactionHeader, Value};
use format::Messages;
use format::settings::{FormatName, FormatOptions};

mod support;
use support::{Change, Stored, column, table};

#[test]
fn every_format_refuses_the_whole_table() {
    let of = |name: &str, role, kind: CqlType| {
        let declared = kind.to_string();
        column(name, &declared, ColumnType::Cql(CqlColumn { role, kind }))
    };
    let columns = vec![
        of("id", CqlRole::Partition, CqlType::Int),
        of("seen", CqlRole::Static, CqlType::Boolean),
        of(
            "tags",
            CqlRole::Regular,
            CqlType::Set(Box::new(CqlType::Text)),
        ),
    ];
    let table = table("lines", columns, vec![0]);
    let header = TransactionHeader::default();
    // Also one whose values would pass as those of MySQL.
    let plain = [Cell::Value(Value::Int(1)), Cell::Null, Cell::Null];
    let seen = Value::Cql(CqlValue::Boolean(true));
    let own = [Cell::Value(Value::Int(1)), Cell::Value(seen), Cell::Unknown];
    for name in FormatName::ALL {
        let options = FormatOptions::default();
        let mut encoder = name.encoder_that_may_hold(&options).unwrap();
        for cells in [&plain, &own] {
            for operation in [Operation::Insert, Operation::Update, Operation::Delete] {
                let image = || Some(cells.to_vec());
                let change = Change {
                    operation,
                    before: image(),
                    after: image(),
                };
                let stored = Stored::new(&table, &change, (7, 0));
                let event = stored.event(&table, &header);
                let mut messages = Messages::default();
                let refused = encoder.encode(&event, &mut messages).unwrap_err();
                assert!(messages.is_empty());
                assert!(refused.what.contains("`tags` is set<text>"), "{refused}");
                let Event::Row(row) = event else {
                    unreachable!("a row")
                };
                let rejection = refused.rejection(&row, Vec::new());
                assert_eq!(
                    rejection.key_token, None,
                    "the table is set aside, not a key"
                );
                assert_eq!(rejection.table, "shop.lines");
            }
        }
    }
}
