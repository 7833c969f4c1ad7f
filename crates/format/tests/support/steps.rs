//! The statements of the golden vectors, as changes.

use super::*;

/// What one statement did.
pub enum Step {
    /// Rows of one table, in one rows event.
    Rows(TableSchema, Vec<Change<'static>>),
    /// A statement that changed a schema.
    Ddl(DdlKind, &'static str, &'static str),
}

pub fn log() -> TableSchema {
    use ColumnType as T;
    let mut log = table(
        "log",
        vec![
            column("msg", "text", T::Text { length_bytes: 2 }),
            column("at", "timestamp", T::Timestamp { digits: 0 }),
        ],
        vec![],
    );
    log.table = TableId(2);
    log
}

fn raw(bytes: &'static [u8]) -> Cell<'static> {
    Cell::Value(Value::Bytes(bytes))
}

fn item_row(
    id: i64,
    name: Cell<'static>,
    qty: u64,
    price: &'static str,
    (raw, at): (Cell<'static>, Cell<'static>),
) -> Vec<Cell<'static>> {
    let qty = Cell::Value(Value::UInt(qty));
    vec![
        int(id),
        name,
        qty,
        Cell::Value(Value::Decimal(price)),
        raw,
        at,
    ]
}

/// The steps V1 to V13, each a transaction of its own.
pub fn steps() -> Vec<(&'static str, Step)> {
    let blob = (raw(&[0, 0xff, 0x0a, 0x22]), at(500));
    let none = (Cell::Null, Cell::Null);
    let empty = (raw(&[]), at(0));
    let gone = (Cell::Null, at(500));
    let one = |name, raw| item_row(1, text(name), 3, "19.90", raw);
    let two = |qty| item_row(2, text("a"), qty, "500.00", none);
    let three = |name, price| item_row(3, name, 0, price, empty);
    let rows = |changes| Step::Rows(item(), changes);
    vec![
        ("V1", rows(vec![Change::insert(one("é中😀", blob))])),
        (
            "V2",
            rows(vec![
                Change::insert(two(4_294_967_295)),
                Change::insert(three(Cell::Null, "-0.50")),
            ]),
        ),
        (
            "V3",
            rows(vec![Change::update(one("é中😀", blob), one("pen", blob))]),
        ),
        (
            "V4",
            rows(vec![Change::update(
                three(Cell::Null, "-0.50"),
                three(text("cup"), "-0.50"),
            )]),
        ),
        (
            "V5",
            rows(vec![Change::update(one("pen", blob), one("pen", gone))]),
        ),
        (
            "V6",
            rows(vec![Change::update(
                one("pen", gone),
                item_row(10, text("pen"), 3, "19.90", gone),
            )]),
        ),
        (
            "V7",
            rows(vec![
                Change::update(two(4_294_967_295), two(5)),
                Change::update(three(text("cup"), "-0.50"), three(text("cup"), "0.75")),
            ]),
        ),
        ("V8", rows(vec![Change::delete(two(5))])),
        (
            "V9",
            Step::Rows(
                log(),
                vec![Change::insert(vec![
                    text("tab\tq\""),
                    Cell::Value(Value::Timestamp {
                        micros: 1_700_000_000_000_000,
                        digits: 0,
                    }),
                ])],
            ),
        ),
        (
            "V10",
            Step::Ddl(
                DdlKind::CreateTable,
                "log",
                "CREATE TABLE log (msg text, at timestamp NULL)",
            ),
        ),
        (
            "V11",
            Step::Ddl(
                DdlKind::AlterTable,
                "item",
                "ALTER TABLE item ADD COLUMN memo varchar(8)",
            ),
        ),
        (
            "V12",
            Step::Ddl(DdlKind::TruncateTable, "log", "TRUNCATE TABLE log"),
        ),
        ("V13", rows(vec![Change::read(one("é中😀", blob))])),
    ]
}

/// Encodes the steps as a sink would: a transaction each, with what is known of it ahead. `sequence`
/// gives the n-th event's journal sequence.
pub fn lines(
    encoder: &mut dyn Encoder,
    header: &TransactionHeader,
    sequence: impl Fn(u64) -> u64,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut count = 0;
    for (index, (name, step)) in steps().into_iter().enumerate() {
        let header = TransactionHeader {
            begin_offset: index as u64 * 1000,
            ..header.clone()
        };
        let mut put = |messages: Vec<String>| {
            lines.extend(messages.iter().map(|message| format!("{name} {message}")));
        };
        let mut number = || {
            count += 1;
            sequence(count - 1)
        };
        match &step {
            Step::Rows(table, changes) => {
                let stored: Vec<Stored> = changes
                    .iter()
                    .map(|change| Stored::new(table, change, (number(), 0)))
                    .collect();
                let events: Vec<Event<'_>> =
                    stored.iter().map(|row| row.event(table, &header)).collect();
                transaction(encoder, &events, &header, &mut put);
            }
            Step::Ddl(kind, table, sql) => {
                let event = Event::Ddl(DdlChange {
                    sequence: number(),
                    ddl: ddl(*kind, table, sql),
                    header: &header,
                });
                transaction(encoder, &[event], &header, &mut put);
            }
        }
    }
    lines
}

/// The commit's sequence in all vectors.
pub const COMMIT_SEQUENCE: u64 = 12_884_903_122;

fn transaction(
    encoder: &mut dyn Encoder,
    events: &[Event<'_>],
    header: &TransactionHeader,
    put: &mut dyn FnMut(Vec<String>),
) {
    if encoder.looks_ahead() {
        encoder.transaction(&format::Ahead {
            operations: events.iter().map(|event| encoder.operations(event)).sum(),
            sent_before: 0,
            commit_sequence: COMMIT_SEQUENCE,
        });
    }
    put(messages_of(
        encoder,
        &Event::Begin {
            sequence: 1,
            header,
        },
    ));
    events
        .iter()
        .for_each(|event| put(messages_of(encoder, event)));
    let trailer = change::TransactionTrailer::default();
    put(messages_of(
        encoder,
        &Event::Commit {
            sequence: COMMIT_SEQUENCE,
            header,
            trailer: &trailer,
        },
    ));
}

/// Compares lines with a file of vectors; `UPDATE_EXPECT=1` writes it.
pub fn check(file: &str, lines: &[String]) {
    let path = format!("{}/tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, lines.join("\n") + "\n").expect("vectors can be written");
    }
    let expected = std::fs::read_to_string(&path).expect("vectors can be read");
    for (line, expected) in lines.iter().zip(expected.lines()) {
        assert_eq!(line, expected, "{file}");
    }
    assert_eq!(lines.len(), expected.lines().count(), "{file}");
}
