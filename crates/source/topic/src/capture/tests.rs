use super::*;
use change::batch::{Operation, RowBody};
use change::{Cell, Entry, Image, TableSchema, Value};
use std::collections::HashMap;

/// A capture fed by hand, and what it wrote as lines.
struct Bench {
    capture: Capture,
    batch: Batch,
    schemas: HashMap<(u32, u32), TableSchema>,
    next: [i64; 2],
}

fn config(format: &str) -> TopicConfig {
    let text = format!(
        r#"{{"kafka":{{"brokers":["k:9092"]}},"topics":["t"],"format":"{format}","format_options":{{}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

impl Bench {
    fn new(config: &TopicConfig) -> Self {
        let mut capture = Capture::new(config).unwrap();
        for part in ["0", "1"] {
            let partition = Partition::new("t", part, 0, Some(0));
            capture.partitions.push(partition);
        }
        Self {
            capture,
            batch: Batch::default(),
            schemas: HashMap::new(),
            next: [0; 2],
        }
    }

    fn try_send(&mut self, partition: usize, key: &str, text: &str) -> Result<(), SourceError> {
        self.try_send_bytes(partition, key, text.as_bytes())
    }

    fn try_send_bytes(
        &mut self,
        partition: usize,
        key: &str,
        payload: &[u8],
    ) -> Result<(), SourceError> {
        let offset = self.next[partition];
        self.next[partition] += 1;
        let message = Message {
            partition,
            offset,
            time_ms: 1_700_000_000_000,
            key: (!key.is_empty()).then_some(key.as_bytes()),
            payload: (payload != b"-").then_some(payload),
            fault: None,
        };
        self.capture.take(message, &mut self.batch)
    }

    fn send(&mut self, partition: usize, text: &str) {
        self.try_send(partition, "", text).unwrap();
    }

    fn lines(&mut self) -> Vec<String> {
        let batch = std::mem::take(&mut self.batch);
        let mut lines = Vec::new();
        for entry in batch.entries() {
            lines.push(match entry {
                Entry::Begin { header, snapshot } => {
                    let mut decoded = TransactionHeader::default();
                    decoded.decode_into(batch.bytes(*header)).unwrap();
                    let place = format!("{}:{}", decoded.file, decoded.begin_offset);
                    format!("begin {place}{}", if *snapshot { " snapshot" } else { "" })
                }
                Entry::Control { key, value } => {
                    let key = String::from_utf8_lossy(batch.bytes(*key)).into_owned();
                    let value = value.map(|v| batch.bytes(v));
                    if key.starts_with("schema/") {
                        let schema = TableSchema::decode(value.unwrap()).unwrap();
                        let names: Vec<_> = schema.columns.iter().map(|c| &*c.name).collect();
                        let line = format!("{key} {} {:?}", names.join(","), schema.primary_key);
                        self.schemas
                            .insert((schema.table.0, schema.version.0), schema);
                        line
                    } else if key.starts_with(crate::partition::PREFIX) {
                        format!("{key} = {}", value.unwrap()[0])
                    } else {
                        key
                    }
                }
                Entry::Record(record) => self.record(&batch, record),
                Entry::Commit { rows, position, .. } => {
                    let step = PositionStep::decode(batch.bytes(*position)).unwrap();
                    format!("commit {}:{} rows {rows}", step.file, step.offset)
                }
                Entry::Rollback => "rollback".into(),
            });
        }
        lines
    }

    fn record(&self, batch: &Batch, record: &change::batch::RecordEntry) -> String {
        let bytes = batch.bytes(record.body);
        let name = match record.operation {
            Operation::Ddl => {
                let ddl = Ddl::decode(bytes).unwrap();
                return format!("ddl {:?} {} {}", ddl.kind, record.table.0, ddl.sql);
            }
            Operation::Opaque => {
                let event = OpaqueEvent::decode(bytes).unwrap();
                let place = String::from_utf8_lossy(event.description);
                return format!("opaque {place} {} bytes", event.event.len());
            }
            Operation::Insert => "insert",
            Operation::Update => "update",
            Operation::Delete => "delete",
            Operation::Read => "read",
            other => panic!("{other:?}"),
        };
        let schema = &self.schemas[&(record.table.0, record.schema.0)];
        let body = RowBody::read(bytes).unwrap();
        let image = |image: Option<Image<'_>>| {
            image.map_or("-".to_owned(), |image| {
                assert_eq!(image.column_count(), schema.columns.len());
                image.cells().map(text).collect::<Vec<_>>().join("|")
            })
        };
        let flag = ["", " first", " second"][usize::from(record.flags)];
        format!(
            "{name}{flag} {} {} > {}",
            schema.name,
            image(body.before),
            image(body.after)
        )
    }
}

fn text(cell: Cell<'_>) -> String {
    match cell {
        Cell::Unknown => "?".into(),
        Cell::Null => "NULL".into(),
        Cell::Value(Value::Int(number)) => number.to_string(),
        Cell::Value(Value::Text(text)) => format!("'{text}'"),
        Cell::Value(other) => format!("{other:?}"),
    }
}

fn canal(kind: &str, es: u64, gtid: &str, data: &str, old: &str) -> String {
    format!(
        r#"{{"data":[{data}],"database":"shop","es":{es},"gtid":"{gtid}","id":1,"isDdl":false,"mysqlType":{{"id":"int","name":"varchar(20)"}},"old":{old},"pkNames":["id"],"sql":"","table":"orders","ts":1,"type":"{kind}"}}"#
    )
}

#[test]
fn rows_of_one_commit_are_one_transaction_with_its_offset() {
    let mut bench = Bench::new(&config("canal-json"));
    bench.send(
        0,
        &canal("INSERT", 1000, "", r#"{"id":"1","name":"a"}"#, "null"),
    );
    bench.send(
        0,
        &canal("INSERT", 1000, "", r#"{"id":"2","name":null}"#, "null"),
    );
    bench.send(
        0,
        &canal(
            "UPDATE",
            2000,
            "",
            r#"{"id":"1","name":"b"}"#,
            r#"[{"name":"a"}]"#,
        ),
    );
    bench.send(0, "-");
    bench.send(
        1,
        &canal(
            "UPDATE",
            2000,
            "",
            r#"{"id":"3","name":"b"}"#,
            r#"[{"id":"1"}]"#,
        ),
    );
    bench.send(
        1,
        &canal("DELETE", 2000, "", r#"{"id":"3","name":"b"}"#, "null"),
    );
    bench.send(
        1,
        &canal("INIT", 2000, "", r#"{"id":"9","name":"b"}"#, "null"),
    );
    bench.capture.commit(&mut bench.batch);
    let expected = [
        "begin t/0:0",
        "schema/1/1 id,name [0]",
        "insert orders - > 1|'a'",
        "insert orders - > 2|NULL",
        "source/topic/t/0 = 2",
        "commit t/0:2 rows 2",
        "begin t/0:2",
        "update orders 1|'a' > 1|'b'",
        "source/topic/t/0 = 4",
        "commit t/0:4 rows 1",
        "begin t/1:0",
        "delete first orders 1|'b' > -",
        "insert second orders - > 3|'b'",
        "delete orders 3|'b' > -",
        "source/topic/t/1 = 2",
        "commit t/1:2 rows 2",
        "begin t/1:2 snapshot",
        "read orders - > 9|'b'",
        "source/topic/t/1 = 3",
        "commit t/1:3 rows 1",
    ];
    assert_eq!(bench.lines(), expected);
}

#[test]
fn messages_that_name_their_transaction_stay_together() {
    let mut bench = Bench::new(&config("canal-json"));
    let gtid = |n| format!("0e4b2c6a-aaaa-11ee-8c90-0242ac120002:{n}");
    let row = r#"{"id":"1","name":"a"}"#;
    for (es, n) in [(1000, 1), (2000, 1), (2000, 2)] {
        bench.send(0, &canal("INSERT", es, &gtid(n), row, "null"));
    }
    assert!(matches!(
        bench.capture.open(),
        Open::Differs { is_named: true, .. }
    ));
    let lines = bench.lines();
    let commits = lines.iter().filter(|line| line.starts_with("commit"));
    assert_eq!(commits.collect::<Vec<_>>(), ["commit t/0:2 rows 2"]);
}

#[test]
fn a_bad_message_is_journaled_as_it_came_and_the_next_one_follows() {
    let mut bench = Bench::new(&config("canal-json"));
    let row = r#"{"id":"1","name":"a"}"#;
    bench.send(0, &canal("INSERT", 1000, "", row, "null"));
    bench.send(0, "{\"type\":7}");
    bench.send(0, "nonsense");
    bench.send(0, &canal("INSERT", 1000, "", row, "null"));
    bench.capture.commit(&mut bench.batch);
    let lines = bench.lines();
    let expected = [
        "insert orders - > 1|'a'",
        "source/parked/t",
        "opaque t/0:1 10 bytes",
        "source/parked/t",
        "opaque t/0:2 8 bytes",
        "insert orders - > 1|'a'",
        "source/topic/t/0 = 4",
        "commit t/0:4 rows 2",
    ];
    assert_eq!(lines[2..], expected);
    let parked = bench.capture.parked();
    assert_eq!((&*parked[0].table, &*parked[0].since), ("t", "t/0:1"));
    assert!(
        parked[0]
            .reason
            .starts_with("2 messages were set aside, the last at t/0:2: decode canal-json at byte")
    );

    let mut stopping = config("canal-json");
    stopping.on_bad_message = OnBadMessage::Stop;
    let mut bench = Bench::new(&stopping);
    bench.send(0, &canal("INSERT", 1000, "", row, "null"));
    let error = bench.try_send(0, "", "{\"type\":7}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "read message at t/0:1: decode canal-json at byte 8 (type): a string is expected; hint: set on_bad_message: park to go on without it"
    );
    let lines = bench.lines();
    assert_eq!(lines[lines.len() - 1], "commit t/0:1 rows 1");
}

#[test]
fn a_statement_in_place_of_rows_is_set_aside_and_other_queries_are_passed_over() {
    let mut bench = Bench::new(&config("canal-json"));
    let statement = |kind: &str, is_ddl: bool| {
        format!(
            r#"{{"data":null,"database":"shop","es":1000,"id":2,"isDdl":{is_ddl},"sql":"INSERT INTO orders SELECT 1","table":"","type":"{kind}"}}"#
        )
    };
    let row = r#"{"id":"1","name":"a"}"#;
    bench.send(0, &canal("INSERT", 1000, "", row, "null"));
    let insert = statement("INSERT", false);
    bench.send(0, &insert);
    bench.send(0, &statement("QUERY", false));
    bench.send(0, &canal("INSERT", 1000, "", row, "null"));
    bench.capture.commit(&mut bench.batch);
    let lines = bench.lines();
    let opaque = format!("opaque t/0:1 {} bytes", insert.len());
    let expected = [
        "insert orders - > 1|'a'",
        "source/parked/t",
        &opaque,
        // No statement of the schema, and so no table that was altered.
        "insert orders - > 1|'a'",
        "source/topic/t/0 = 4",
        "commit t/0:4 rows 2",
    ];
    assert_eq!(lines[2..], expected);
    let reason = &bench.capture.parked()[0].reason;
    assert!(reason.ends_with("a statement without its rows"), "{reason}");
}

#[test]
fn nulls_that_shareplex_leaves_out_of_an_insert_are_nulls() {
    let mut config = config("shareplex-json");
    config.keys = [("shop.orders".to_owned(), vec!["id".to_owned()])].into();
    let mut bench = Bench::new(&config);
    let message = |op: &str, rest: &str| {
        format!(r#"{{"meta":{{"op":"{op}","table":"shop.orders"}},{rest}}}"#)
    };
    bench.send(0, &message("ins", r#""data":{"id":"1","name":"a"}"#));
    bench.send(0, &message("ins", r#""data":{"id":"2"}"#));
    bench.send(0, &message("upd", r#""data":{"id":"3"},"key":{"id":"2"}"#));
    bench.capture.commit(&mut bench.batch);
    let rows: Vec<String> = bench.lines();
    let rows: Vec<&str> = rows
        .iter()
        .filter(|line| line.contains(" orders "))
        .map(String::as_str)
        .collect();
    let expected = [
        "insert orders - > '1'|'a'",
        "insert orders - > '2'|NULL",
        "delete first orders '2'|? > -",
        "insert second orders - > '3'|?",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn statements_are_records_and_let_columns_go() {
    let mut bench = Bench::new(&config("canal-json"));
    bench.send(
        0,
        &canal("INSERT", 1000, "", r#"{"id":"1","name":"a"}"#, "null"),
    );
    let alter = r#"{"data":null,"database":"shop","es":2000,"id":2,"isDdl":true,"sql":"ALTER TABLE orders DROP name","table":"orders","type":"ALTER"}"#;
    bench.send(0, alter);
    bench.send(0, r#"{"data":[{"id":"2"}],"database":"shop","es":3000,"isDdl":false,"mysqlType":{"id":"int"},"pkNames":["id"],"table":"orders","type":"INSERT"}"#);
    bench.capture.commit(&mut bench.batch);
    let lines = bench.lines();
    let expected = [
        "begin t/0:1",
        "ddl AlterTable 1 ALTER TABLE orders DROP name",
        "source/altered/1",
        "source/topic/t/0 = 2",
        "commit t/0:2 rows 0",
        "begin t/0:2",
        "source/altered/1",
        "schema/1/2 id [0]",
        "insert orders - > 2",
    ];
    assert_eq!(lines[5..14], expected);
}

#[test]
fn tables_that_are_left_out_leave_only_their_offset() {
    let mut config = config("canal-json");
    config.tables = vec!["shop.*".into(), "!shop.orders".into()];
    let mut bench = Bench::new(&config);
    bench.send(
        0,
        &canal("INSERT", 1000, "", r#"{"id":"1","name":"a"}"#, "null"),
    );
    bench.capture.commit(&mut bench.batch);
    assert!(bench.batch.is_empty());
    bench
        .capture
        .save_offsets(Some("kafka x"), &mut bench.batch);
    let expected = [
        "begin t/0:1",
        "source/identity",
        "source/topic/t/0 = 1",
        "commit t/0:1 rows 0",
    ];
    assert_eq!(bench.lines(), expected);
    bench.capture.save_offsets(None, &mut bench.batch);
    assert!(bench.batch.is_empty());
}

#[test]
fn two_messages_of_an_update_are_one() {
    let mut bench = Bench::new(&config("shareplex-json"));
    let half = |op: &str, data: &str| {
        format!(
            r#"{{"meta":{{"op":"{op}","table":"shop.t","trans":"7","time":"2023-11-14T22:13:20"}},"data":{{{data}}}}}"#
        )
    };
    // Words that the decoder knows for the two messages of an update.
    let words = format::shareplex_json::OpWords::short();
    bench.send(0, &half(&words.insert, r#""A":"1","B":2"#));
    bench.send(0, &half(&words.update_before, r#""A":"1","B":2"#));
    bench.capture.commit(&mut bench.batch);
    bench.send(0, &half(&words.update_after, r#""A":"1","B":3.50"#));
    // Without its other half.
    bench.send(0, &half(&words.update_before, r#""A":"1","B":2"#));
    bench.send(0, &half(&words.insert, r#""A":"2","B":null"#));
    bench.capture.commit(&mut bench.batch);
    let expected = [
        "begin t/0:0",
        "schema/1/1 A,B []",
        "insert t - > '1'|'2'",
        "source/topic/t/0 = 1",
        "commit t/0:1 rows 1",
        "begin t/0:2",
        "delete first t '1'|'2' > -",
        "insert second t - > '1'|'3.50'",
        "source/parked/t",
        "opaque t/0:3 89 bytes",
        "insert t - > '2'|NULL",
        "source/topic/t/0 = 5",
        "commit t/0:5 rows 2",
    ];
    let lines = bench.lines();
    let shape = |line: &String| match line.split_once(" bytes") {
        Some(_) => "opaque t/0:3 89 bytes".to_owned(),
        None => line.clone(),
    };
    assert_eq!(lines.iter().map(shape).collect::<Vec<_>>(), expected);
}

#[test]
fn debezium_tells_its_key_beside_and_its_transactions_around() {
    let mut bench = Bench::new(&config("debezium-json"));
    let row = |op: &str, before: &str, after: &str| {
        format!(
            r#"{{"before":{before},"after":{after},"source":{{"db":"shop","table":"t","ts_ms":1000}},"op":"{op}","ts_ms":1001}}"#
        )
    };
    let begin = r#"{"status":"BEGIN","id":"x","ts_ms":1000}"#;
    let end = r#"{"status":"END","id":"x","ts_ms":1000}"#;
    bench.send(0, begin);
    bench
        .try_send(0, r#"{"id":1}"#, &row("c", "null", r#"{"id":1,"ok":true}"#))
        .unwrap();
    assert!(matches!(
        bench.capture.open(),
        Open::Told { partition: 0, .. }
    ));
    bench
        .try_send(
            0,
            r#"{"id":2}"#,
            &row("u", r#"{"id":1,"ok":true}"#, r#"{"id":2,"ok":null}"#),
        )
        .unwrap();
    bench.try_send(0, r#"{"id":1}"#, "-").unwrap();
    bench.send(0, end);
    let expected = [
        "begin t/0:0",
        "schema/1/1 id,ok [0]",
        "insert t - > '1'|'true'",
        "delete first t '1'|'true' > -",
        "insert second t - > '2'|NULL",
        "source/topic/t/0 = 5",
        "commit t/0:5 rows 2",
    ];
    assert_eq!(bench.lines(), expected);
}

#[test]
fn what_is_taken_back_leaves_schemas_and_offsets() {
    let mut bench = Bench::new(&config("canal-json"));
    // A transaction that a message opened; the format of these messages has no such message.
    let header = TransactionHeader::default();
    bench.capture.tx = Some(Tx {
        partition: 0,
        end: End::Told,
        begun: false,
        header,
        group: 0,
        rows: 0,
        last: Instant::now(),
    });
    bench.send(
        0,
        &canal("INSERT", 1000, "", r#"{"id":"1","name":"a"}"#, "null"),
    );
    bench.send(0, r#"{"type":"XAROLLBACK","database":"","table":""}"#);
    let lines = bench.lines();
    let expected = [
        "rollback",
        "begin :0",
        "schema/1/1 id,name [0]",
        "source/topic/t/0 = 2",
        "commit t/0:2 rows 0",
    ];
    assert_eq!(lines[3..], expected);
    // Rows that the journal has already cannot be taken back.
    bench.send(0, r#"{"type":"XAROLLBACK","database":"","table":""}"#);
    assert_eq!(bench.capture.parked().len(), 1);
}

#[test]
fn the_journal_gives_back_what_it_was_told() {
    let mut bench = Bench::new(&config("canal-json"));
    bench.send(
        0,
        &canal("INSERT", 1000, "", r#"{"id":"1","name":"a"}"#, "null"),
    );
    bench.send(0, "nonsense");
    bench.capture.commit(&mut bench.batch);
    let batch = &bench.batch;
    let control = batch.entries().iter().filter_map(|entry| match entry {
        Entry::Control { key, value } => {
            Some((batch.bytes(*key).to_vec(), batch.bytes((*value)?).to_vec()))
        }
        _ => None,
    });
    let resume = crate::Resume {
        position: bench.capture.position().cloned(),
        control: control.collect(),
    };
    let mut again = Bench::new(&config("canal-json"));
    again.capture.restore(&resume).unwrap();
    assert_eq!(again.capture.parked(), bench.capture.parked());
    again.schemas.insert(
        (1, 1),
        TableSchema::decode(resume.value(b"schema/1/1").unwrap()).unwrap(),
    );
    again.send(
        0,
        &canal("INSERT", 1000, "", r#"{"id":"1","name":"a"}"#, "null"),
    );
    assert_eq!(again.lines(), ["begin t/0:0", "insert orders - > 1|'a'"]);
    for (key, value) in &resume.control {
        if key.starts_with(b"schema/") || key.starts_with(b"source/parked") {
            let broken = crate::Resume {
                position: None,
                control: vec![(key.clone(), value[..value.len() / 2].to_vec())],
            };
            let error = again.capture.restore(&broken).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Corrupt);
        }
    }
}

/// A change as a journal gives it to an encoder.
fn encoded(
    format: &str,
    options: &str,
    steps: &[(Operation, [Option<[Cell<'_>; 2]>; 2])],
) -> Vec<Vec<u8>> {
    let format: FormatName = serde_json::from_str(&format!("\"{format}\"")).unwrap();
    let options = serde_json::from_str(options).unwrap();
    let mut encoder = format.encoder(&options).unwrap();
    let mut seed = Bench::new(&config("canal-json"));
    seed.send(
        0,
        &canal("INSERT", 1000, "", r#"{"id":"1","name":"a"}"#, "null"),
    );
    seed.lines();
    let table = &seed.schemas[&(1, 1)];
    let header = TransactionHeader {
        file: "bin.000001".into(),
        commit_time_us: 1_700_000_000_000_000,
        time_s: 1_700_000_000,
        ..TransactionHeader::default()
    };
    let trailer = TransactionTrailer::default();
    let ahead = change::event::Ahead {
        operations: steps.len() as u64,
        sent_before: 0,
        commit_sequence: 99,
    };
    let mut messages = format::Messages::default();
    let begin = change::Event::Begin {
        sequence: 1,
        header: &header,
    };
    let commit = change::Event::Commit {
        sequence: 99,
        header: &header,
        trailer: &trailer,
    };
    if encoder.looks_ahead() {
        encoder.transaction(&ahead);
    }
    encoder.encode(&begin, &mut messages).unwrap();
    for (at, (operation, images)) in steps.iter().enumerate() {
        let stored = images.map(|image| image.map(|cells| stored(&cells)));
        let [before, after] = &stored;
        let row = change::RowChange {
            sequence: 2 + at as u64,
            table,
            operation: *operation,
            before: before
                .as_deref()
                .map(|b| Image::read(&mut WireReader::new(b), b).unwrap()),
            after: after
                .as_deref()
                .map(|b| Image::read(&mut WireReader::new(b), b).unwrap()),
            key_token: 1,
            old_key_token: None,
            flags: 0,
            meta: RowMeta {
                group: at as u32,
                end_offset: 100,
                time_s: 1_700_000_000,
            },
            header: &header,
            statement: None,
        };
        encoder
            .encode(&change::Event::Row(row), &mut messages)
            .unwrap();
    }
    encoder.encode(&commit, &mut messages).unwrap();
    messages.iter().map(<[u8]>::to_vec).collect()
}

fn stored(cells: &[Cell<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    put_u64(&mut out, cells.len() as u64);
    cells
        .iter()
        .for_each(|cell| change::value::put_cell(&mut out, *cell));
    out
}

#[test]
fn what_our_own_encoders_write_is_one_transaction_in_every_format() {
    let row = |id, name| [Cell::Value(Value::Int(id)), Cell::Value(Value::Text(name))];
    let steps = [
        (Operation::Insert, [None, Some(row(1, "a"))]),
        (Operation::Update, [Some(row(1, "a")), Some(row(1, "b"))]),
        (Operation::Delete, [Some(row(1, "b")), None]),
    ];
    for (format, options) in [
        ("canal-json", "{}"),
        ("canal-json", r#"{"flavour":"dts"}"#),
        ("shareplex-json", "{}"),
        ("shareplex-json", r#"{"update":"before_after"}"#),
        ("debezium-json", "{}"),
        ("debezium-json", r#"{"schema":"inline"}"#),
        ("dts-avro", "{}"),
        ("dts-avro", r#"{"transactions":true}"#),
    ] {
        let mut bench = Bench::new(&config(format));
        for message in encoded(format, options, &steps) {
            bench.try_send_bytes(0, r#"{"id":1}"#, &message).unwrap();
        }
        let is_marked = options.contains("transactions");
        let is_closed = bench.capture.open() == Open::Nothing;
        assert_eq!(is_closed, is_marked, "{format} {options}");
        bench.capture.commit(&mut bench.batch);
        let is_typed = match format {
            "canal-json" | "dts-avro" => true,
            _ => options.contains("inline"),
        };
        let (id, key) = match (is_typed, format) {
            (true, _) => ("1", "[0]"),
            // No message of this format tells a key.
            (false, "shareplex-json") => ("'1'", "[]"),
            (false, _) => ("'1'", "[0]"),
        };
        let update = match key {
            "[]" => vec![
                format!("delete first orders {id}|'a' > -"),
                format!("insert second orders - > {id}|'b'"),
            ],
            _ => vec![format!("update orders {id}|'a' > {id}|'b'")],
        };
        let lines = bench.lines();
        let mut expected = vec![
            format!("schema/1/1 id,name {key}"),
            format!("insert orders - > {id}|'a'"),
        ];
        expected.extend(update);
        expected.push(format!("delete orders {id}|'b' > -"));
        let rows = lines[1..lines.len() - 2].to_vec();
        assert_eq!(rows, expected, "{format} {options}");
        assert!(lines[lines.len() - 1].ends_with("rows 3"), "{lines:?}");
    }
}
