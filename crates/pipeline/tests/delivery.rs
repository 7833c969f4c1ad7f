//! Delivery against a real journal and a sink in memory that fails on demand.

use change::contract::{Aside, ErrorKind, Rejection};
use change::event::Ahead;
use change::{
    Batch, Cell, Column, ColumnType, Cursor, Ddl, DdlKind, Entry, Event, Operation, RowMeta,
    SchemaVersion, Sink, SinkError, TableId, TableSchema, TransactionHeader, TransactionTrailer,
    Value,
};
use journal::{FileKeys, Journal, KeyGroupId, RecordDescriptor, TransactionStart, Writer};
use pipeline::delivery::{Command, Delivery, DeliveryConfig, Request};
use pipeline::event_reader::{journal_schema, journal_table};
use pipeline::pattern::Patterns;
use pipeline::status::Shared;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the sink in memory holds, and how it misbehaves.
#[derive(Default)]
struct Target {
    durable: Vec<String>,
    written: Vec<String>,
    cursor: Option<Cursor>,
    refused_key: Option<u64>,
    /// Keys from this on are refused too.
    refused_from: Option<u64>,
    /// A refused record leaves the sink as it was.
    refuses_alone: bool,
    /// Statements end or move what is set aside.
    is_table_target: bool,
    failing_flushes: u32,
    opens: u32,
    flush_takes: Duration,
    /// Counts transactions before they begin; what it was told of each.
    looks_ahead: bool,
    aheads: Vec<Ahead>,
    /// When flushes began and ended.
    begun: Vec<Instant>,
    ended: Vec<Instant>,
}

#[derive(Clone, Default)]
struct MemorySink(Arc<Mutex<Target>>);

fn text(event: &Event<'_>) -> Option<String> {
    let row = match event {
        Event::Row(row) => row,
        Event::Ddl(change) => return Some(change.ddl.sql.to_owned()),
        _ => return None,
    };
    let image = row.after.or(row.before).expect("a row has an image");
    let Cell::Value(Value::Int(id)) = image.cell(0) else {
        panic!("an integer key")
    };
    let old = match (row.old_key_token, row.before) {
        (Some(_), Some(before)) => match before.cell(0) {
            Cell::Value(Value::Int(old)) => format!("{old}>"),
            _ => panic!("an integer key"),
        },
        _ => String::new(),
    };
    let marks = [(row.is_static(), " static"), (row.is_expired(), " expired")];
    let marks: String = marks
        .iter()
        .filter(|mark| mark.0)
        .map(|mark| mark.1)
        .collect();
    Some(format!("{:?} {old}{id}{marks}", row.operation))
}

impl Sink for MemorySink {
    fn open(&mut self) -> Result<Option<Cursor>, SinkError> {
        let mut target = self.0.lock().expect("no thread panicked");
        target.written.clear();
        target.opens += 1;
        Ok(target.cursor.clone())
    }
    fn write(&mut self, event: &Event<'_>) -> Result<(), SinkError> {
        let mut target = self.0.lock().expect("no thread panicked");
        if let Event::Row(row) = event
            && (target.refused_key == Some(row.key_token)
                || target
                    .refused_from
                    .is_some_and(|from| row.key_token >= from))
        {
            let rejection = Rejection {
                table: format!("{}.{}", row.table.database, row.table.name),
                key_token: Some(row.key_token),
                sequence: row.sequence,
                target: "memory".into(),
                key_columns: vec!["id".into()],
                reason: "too large".into(),
            };
            return Err(SinkError {
                rejection: Some(Box::new(rejection)),
                ..SinkError::new(ErrorKind::Invalid, "write", "too large")
            });
        }
        target.written.extend(text(event));
        Ok(())
    }
    fn flush(&mut self, cursor: &Cursor) -> Result<(), SinkError> {
        let mut target = self.0.lock().expect("no thread panicked");
        target.begun.push(Instant::now());
        if !target.flush_takes.is_zero() {
            let takes = target.flush_takes;
            drop(target);
            std::thread::sleep(takes);
            target = self.0.lock().expect("no thread panicked");
        }
        target.ended.push(Instant::now());
        if target.failing_flushes > 0 {
            target.failing_flushes -= 1;
            return Err(SinkError::new(ErrorKind::Unavailable, "flush", "away"));
        }
        let written = std::mem::take(&mut target.written);
        target.durable.extend(written);
        target.cursor = Some(cursor.clone());
        Ok(())
    }
    fn abort(&mut self) -> Result<(), SinkError> {
        self.0.lock().expect("no thread panicked").written.clear();
        Ok(())
    }
    fn refuses_alone(&self, _: &Event<'_>) -> bool {
        self.0.lock().expect("no thread panicked").refuses_alone
    }
    fn aside(&self, event: &Event<'_>) -> Aside {
        let target = self.0.lock().expect("no thread panicked");
        match event {
            Event::Ddl(change) if target.is_table_target => match change.ddl.kind {
                DdlKind::DropTable | DdlKind::Database => Aside::Ends,
                DdlKind::RenameTable => Aside::Moves,
                _ => Aside::Stays,
            },
            _ => Aside::Stays,
        }
    }
    fn looks_ahead(&self) -> bool {
        self.0.lock().expect("no thread panicked").looks_ahead
    }
    fn operations(&self, event: &Event<'_>) -> u64 {
        u64::from(matches!(event, Event::Row(_)))
    }
    fn transaction(&mut self, ahead: &Ahead) {
        let mut target = self.0.lock().expect("no thread panicked");
        target.aheads.push(*ahead);
    }
    fn pending_bytes(&self) -> usize {
        self.0.lock().expect("no thread panicked").written.len() * 10
    }
}

fn schema(version: u32, name: &str) -> TableSchema {
    TableSchema {
        table: TableId(1),
        version: SchemaVersion(version),
        database: "shop".into(),
        name: name.into(),
        columns: vec![Column {
            name: "id".into(),
            declared: "int".into(),
            kind: ColumnType::Int {
                bytes: 4,
                unsigned: false,
            },
            charset: None,
            collation: None,
            nullable: false,
            default: None,
            comment: String::new(),
            generated: false,
            invisible: false,
            masked: false,
        }],
        primary_key: vec![0],
        unique_keys: vec![],
        charset: None,
        comment: String::new(),
    }
}

/// A journal in a folder of its own, and one running delivery.
struct Rig {
    folder: PathBuf,
    journal: Journal,
    writer: Option<Writer>,
    sink: MemorySink,
    shared: Arc<Shared>,
    requests: Sender<Request>,
    thread: Option<std::thread::JoinHandle<Result<(), String>>>,
}

impl Rig {
    fn new(name: &str, setup: impl FnOnce(&mut Target)) -> Self {
        Self::with_delay(name, Duration::from_millis(5), setup)
    }

    fn with_delay(name: &str, batch_delay: Duration, setup: impl FnOnce(&mut Target)) -> Self {
        let folder =
            std::env::temp_dir().join(format!("hw-delivery-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the folder is made");
        let keys = FileKeys::open_or_create(&folder.join("key")).expect("the key is made");
        let options = journal::Options::new(folder.join("journal"), Arc::new(keys));
        let (journal, mut writer) = journal::open(options).expect("the journal opens");
        put_schema(&mut writer, 1, "t");
        let sink = MemorySink::default();
        setup(&mut sink.0.lock().expect("no thread panicked"));
        let (requests, receiver) = channel();
        let shared = Arc::new(Shared::default());
        let config = DeliveryConfig {
            name: "memory".into(),
            tables: Patterns::default(),
            on_full: journal::OnFull::Pause,
            start_now: false,
            batch_delay,
            batch_bytes: 1 << 20,
            parked_keys_max: 10,
            accept_foreign_cursor: false,
            ends_with_reader: false,
        };
        let delivery = Delivery::new(
            config,
            journal.clone(),
            Arc::clone(&shared),
            Box::new(sink.clone()),
            receiver,
        );
        let thread = Some(std::thread::spawn(move || {
            delivery.run(Duration::from_secs(5))
        }));
        Self {
            folder,
            journal,
            writer: Some(writer),
            sink,
            shared,
            requests,
            thread,
        }
    }

    /// Into tables that follow statements; of rows 1 and 2 the second is refused.
    fn with_a_parked_key(name: &str) -> Self {
        let mut rig = Self::new(name, |target| {
            target.refused_key = Some(2);
            target.is_table_target = true;
        });
        rig.put(|batch| {
            insert(batch, 1);
            insert(batch, 2);
        });
        rig.wait_durable(&["Insert 1"]);
        rig
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer
            .as_mut()
            .expect("the writer is open until the end")
    }

    fn put(&mut self, fill: impl FnOnce(&mut Batch)) {
        let mut batch = Batch::default();
        fill(&mut batch);
        let writer = self.writer();
        begin(writer);
        for entry in batch.entries() {
            let Entry::Record(record) = entry else {
                panic!("rows only")
            };
            let descriptor = RecordDescriptor {
                table: journal_table(record.table),
                schema: journal_schema(record.schema),
                operation: record.operation as u8,
                flags: record.flags,
                key_token: record.key_token,
                key_group: KeyGroupId(0),
            };
            writer
                .record(&descriptor, batch.bytes(record.body))
                .expect("the journal takes it");
        }
        commit(writer);
    }

    fn wait(&self, what: &str, done: impl Fn(&Target) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !done(&self.sink.0.lock().expect("no thread panicked")) {
            assert!(Instant::now() < end, "{what} did not happen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_durable(&self, lines: &[&str]) {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let durable = self
                .sink
                .0
                .lock()
                .expect("no thread panicked")
                .durable
                .clone();
            if durable == lines || Instant::now() > end {
                assert_eq!(durable, lines);
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn ask(&self, command: Command) -> Result<String, String> {
        let (answer, answered) = channel();
        self.requests
            .send((command, answer))
            .expect("the delivery listens");
        answered
            .recv_timeout(Duration::from_secs(10))
            .expect("the delivery answers")
    }

    fn finish(mut self) -> Result<(), String> {
        self.shared.source_ended.store(true, Ordering::SeqCst);
        let outcome = self
            .thread
            .take()
            .expect("it runs")
            .join()
            .expect("it did not panic");
        self.writer
            .take()
            .expect("it is open")
            .close()
            .expect("the journal closes");
        let _ = std::fs::remove_dir_all(&self.folder);
        outcome
    }
}

fn begin(writer: &mut Writer) {
    let mut header = Vec::new();
    TransactionHeader {
        time_s: 1_700_000_000,
        ..TransactionHeader::default()
    }
    .encode(&mut header);
    let start = TransactionStart {
        header: &header,
        snapshot: false,
    };
    writer.begin(start).expect("the journal takes it");
}

fn commit(writer: &mut Writer) {
    let (mut trailer, mut position) = (Vec::new(), Vec::new());
    let end = TransactionTrailer::default();
    end.encode(&mut trailer);
    end.step.encode(&mut position);
    let commit = journal::Commit {
        trailer: &trailer,
        position: &position,
        time_us: 0,
        rows: 1,
    };
    writer.commit(commit).expect("the journal takes it");
    writer.flush().expect("the journal takes it");
}

fn put_control(writer: &mut Writer, key: &[u8], value: &[u8]) {
    begin(writer);
    writer
        .control(key, Some(value))
        .expect("the journal takes it");
    commit(writer);
}

fn put_schema(writer: &mut Writer, version: u32, name: &str) {
    let mut bytes = Vec::new();
    schema(version, name).encode(&mut bytes);
    put_control(writer, format!("schema/1/{version}").as_bytes(), &bytes);
}

fn put_row(batch: &mut Batch, operation: Operation, flags: u8, id: i64) {
    put_row_of(batch, 1, (operation, flags), id);
}

fn put_row_of(batch: &mut Batch, version: u32, (operation, flags): (Operation, u8), id: i64) {
    let mut row = batch.row(TableId(1), SchemaVersion(version), RowMeta::default());
    let mut image = match operation {
        Operation::Delete => row.before(1),
        _ => row.after(1),
    };
    image.value(Value::Int(id));
    row.finish(operation, flags, id as u64);
}

fn insert(batch: &mut Batch, id: i64) {
    put_row(batch, Operation::Insert, 0, id);
}

fn statement(batch: &mut Batch, kind: DdlKind, table: &str, renamed_from: &str) {
    let ddl = Ddl {
        kind,
        database: "shop",
        table,
        renamed_from,
        sql: &format!("{kind:?}"),
        charset: "",
        sql_mode: 0,
    };
    batch.ddl(TableId(1), SchemaVersion(1), &ddl);
}

fn move_key(batch: &mut Batch, from: i64, to: i64) {
    put_row(
        batch,
        Operation::Delete,
        change::batch::FLAG_PAIR_FIRST,
        from,
    );
    put_row(
        batch,
        Operation::Insert,
        change::batch::FLAG_PAIR_SECOND,
        to,
    );
}

#[test]
fn changes_arrive_once_in_order_and_a_key_change_is_one_update() {
    let mut rig = Rig::new("order", |_| {});
    rig.put(|batch| {
        insert(batch, 1);
        insert(batch, 2);
    });
    rig.put(|batch| move_key(batch, 2, 3));
    rig.wait_durable(&["Insert 1", "Insert 2", "Update 2>3"]);
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn static_rows_and_what_expired_arrive_as_such() {
    let mut rig = Rig::new("static", |_| {});
    rig.put(|batch| {
        put_row(batch, Operation::Insert, change::batch::FLAG_STATIC, 1);
        put_row(batch, Operation::Delete, change::batch::FLAG_EXPIRED, 1);
    });
    rig.wait_durable(&["Insert 1 static", "Delete 1 expired"]);
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn what_came_during_a_flush_has_waited_already() {
    let delay = Duration::from_millis(400);
    let mut rig = Rig::with_delay("waited", delay, |target| {
        target.flush_takes = Duration::from_millis(500);
    });
    rig.put(|batch| insert(batch, 1));
    rig.writer().flush().expect("the journal takes it");
    rig.wait("the first flush", |target| target.begun.len() == 1);
    rig.put(|batch| insert(batch, 2));
    rig.writer().flush().expect("the journal takes it");
    rig.wait_durable(&["Insert 1", "Insert 2"]);
    let between = {
        let target = rig.sink.0.lock().unwrap();
        target.begun[1] - target.ended[0]
    };
    assert!(between < delay / 2, "{between:?}");
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn a_flush_that_fails_is_tried_again_from_the_cursor_without_doubles() {
    let mut rig = Rig::new("retry", |target| target.failing_flushes = 2);
    rig.put(|batch| insert(batch, 1));
    rig.wait_durable(&["Insert 1"]);
    rig.put(|batch| insert(batch, 2));
    rig.wait_durable(&["Insert 1", "Insert 2"]);
    assert!(rig.sink.0.lock().unwrap().opens >= 3);
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn a_refused_record_parks_its_key_the_rest_goes_on_and_heal_brings_it_back() {
    let mut rig = Rig::new("park", |target| target.refused_key = Some(2));
    rig.put(|batch| {
        insert(batch, 1);
        insert(batch, 2);
        insert(batch, 3);
    });
    rig.put(|batch| put_row(batch, Operation::Delete, 0, 2));
    rig.put(|batch| insert(batch, 4));
    rig.wait_durable(&["Insert 1", "Insert 3", "Insert 4"]);
    rig.wait("the cursor with the parked key", |target| {
        target
            .cursor
            .as_ref()
            .is_some_and(|cursor| cursor.parked.len() == 1)
    });
    assert!(rig.ask(Command::Heal("shop.other".into())).is_err());
    rig.sink.0.lock().unwrap().refused_key = None;
    let healed = rig.ask(Command::Heal("shop.t".into())).expect("it heals");
    assert!(healed.contains("2 changes"), "{healed}");
    rig.put(|batch| insert(batch, 2));
    rig.wait_durable(&[
        "Insert 1", "Insert 3", "Insert 4", "Insert 2", "Delete 2", "Insert 2",
    ]);
    assert!(
        rig.sink
            .0
            .lock()
            .unwrap()
            .cursor
            .as_ref()
            .unwrap()
            .parked
            .is_empty()
    );
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn many_refused_keys_cost_one_connection_and_no_second_reading() {
    let mut rig = Rig::new("many", |target| {
        target.refused_from = Some(1000);
        target.refuses_alone = true;
    });
    rig.put(|batch| {
        for id in 0..9 {
            insert(batch, 1000 + id);
            insert(batch, id);
        }
        // A key change to a refused key parks the other one too.
        move_key(batch, 8, 1000);
        insert(batch, 8);
    });
    let written: Vec<String> = (0..9).map(|id| format!("Insert {id}")).collect();
    let written: Vec<&str> = written.iter().map(String::as_str).collect();
    rig.wait_durable(&written);
    rig.wait("the cursor with the parked keys", |target| {
        target
            .cursor
            .as_ref()
            .is_some_and(|cursor| cursor.parked.len() == 10)
    });
    assert_eq!(rig.sink.0.lock().unwrap().opens, 1);
    // One more key than is allowed: the table waits from there on.
    rig.put(|batch| {
        insert(batch, 2000);
        insert(batch, 20);
    });
    rig.wait("the table is parked", |target| {
        let parked = target.cursor.iter().flat_map(|cursor| &cursor.parked);
        parked.into_iter().any(|one| one.key_token.is_none())
    });
    rig.wait_durable(&written);
    // Healing, while some of it is still refused: what follows a refused key waits as before.
    rig.sink.0.lock().unwrap().refused_from = Some(1005);
    let said = rig.ask(Command::Heal("shop.t".into())).unwrap_err();
    assert!(said.contains("refused again"), "{said}");
    let durable = rig.sink.0.lock().unwrap().durable.clone();
    assert!(
        durable.contains(&"Insert 1004".to_owned()) && durable.contains(&"Insert 20".to_owned())
    );
    assert!(!durable.contains(&"Insert 1005".to_owned()));
    assert_eq!(rig.sink.0.lock().unwrap().opens, 1);
    rig.sink.0.lock().unwrap().refused_from = None;
    rig.ask(Command::Heal("shop.t".into())).expect("it heals");
    assert_eq!(rig.sink.0.lock().unwrap().durable.len(), 9 + 9 + 2 + 2);
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn a_dropped_table_is_not_parked_any_more_where_the_target_drops_it_too() {
    let mut rig = Rig::with_a_parked_key("drop");
    rig.put(|batch| statement(batch, DdlKind::AlterTable, "t", ""));
    rig.put(|batch| statement(batch, DdlKind::DropTable, "t", ""));
    rig.sink.0.lock().unwrap().refused_key = None;
    rig.put(|batch| insert(batch, 2));
    rig.wait_durable(&["Insert 1", "AlterTable", "DropTable", "Insert 2"]);
    let parked = |target: &Target| target.cursor.as_ref().map(|cursor| cursor.parked.len());
    rig.wait("nothing is parked", |target| parked(target) == Some(0));
    // DROP DATABASE takes all its tables.
    rig.sink.0.lock().unwrap().refused_key = Some(3);
    rig.put(|batch| {
        insert(batch, 3);
        insert(batch, 4);
    });
    rig.wait("it is parked", |target| parked(target) == Some(1));
    rig.put(|batch| statement(batch, DdlKind::Database, "", ""));
    rig.wait("nothing is parked", |target| parked(target) == Some(0));
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn a_renamed_table_stays_parked_under_its_new_name_and_needs_a_new_copy() {
    let mut rig = Rig::with_a_parked_key("rename");
    put_schema(rig.writer(), 2, "u");
    rig.put(|batch| statement(batch, DdlKind::RenameTable, "u", "shop.t"));
    rig.put(|batch| {
        put_row_of(batch, 2, (Operation::Delete, 0), 2);
        put_row_of(batch, 2, (Operation::Insert, 0), 4);
    });
    rig.wait_durable(&["Insert 1", "RenameTable", "Insert 4"]);
    rig.wait("the cursor has it under its new name", |target| {
        let parked = target.cursor.iter().flat_map(|cursor| &cursor.parked);
        parked.into_iter().all(|one| {
            one.table == "shop.u"
                && one.reason.contains("it was shop.t")
                && one.key_token == Some(2)
        })
    });
    let said = rig.ask(Command::Heal("shop.u".into())).unwrap_err();
    assert!(said.contains("--resnapshot"), "{said}");
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn a_table_that_is_gone_is_healed_under_the_name_that_it_had() {
    let mut rig = Rig::new("gone", |target| target.refused_key = Some(2));
    rig.put(|batch| insert(batch, 2));
    rig.put(|batch| insert(batch, 3));
    rig.wait_durable(&["Insert 3"]);
    put_schema(rig.writer(), 2, "u");
    rig.put(|batch| statement(batch, DdlKind::RenameTable, "u", "shop.t"));
    rig.wait_durable(&["Insert 3", "RenameTable"]);
    rig.sink.0.lock().unwrap().refused_key = None;
    let healed = rig.ask(Command::Heal("shop.t".into())).expect("it heals");
    assert!(healed.contains("1 changes"), "{healed}");
    rig.wait_durable(&["Insert 3", "RenameTable", "Insert 2"]);
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn a_table_set_aside_at_capture_goes_on_where_it_is_decoded_again() {
    let mut rig = Rig::new("again", |_| {});
    rig.put(|batch| {
        insert(batch, 1);
        let event = change::batch::OpaqueEvent {
            reason: "not understood",
            meta: RowMeta::default(),
            description: &[],
            event: &[],
        };
        batch.opaque(TableId(1), SchemaVersion(1), &event);
        insert(batch, 2);
    });
    rig.wait_durable(&["Insert 1"]);
    // What a source keeps of messages that it set aside is no such mark.
    put_control(
        rig.writer(),
        b"source/parked/shop.t",
        &[1, b'a', 1, b'b', 7],
    );
    rig.put(|batch| insert(batch, 3));
    let parked = |target: &Target| target.cursor.as_ref().map(|cursor| cursor.parked.len());
    rig.wait("it is parked", |target| parked(target) == Some(1));
    put_control(rig.writer(), b"source/replay/shop.t", &[0; 8]);
    rig.put(|batch| insert(batch, 4));
    rig.wait_durable(&["Insert 1", "Insert 4"]);
    rig.wait("it is not parked", |target| parked(target) == Some(0));
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn a_paused_sink_waits_and_a_rewound_one_delivers_again() {
    let mut rig = Rig::new("pause", |_| {});
    rig.put(|batch| insert(batch, 1));
    rig.wait_durable(&["Insert 1"]);
    rig.ask(Command::Pause).expect("it pauses");
    rig.put(|batch| insert(batch, 2));
    std::thread::sleep(Duration::from_millis(100));
    rig.wait_durable(&["Insert 1"]);
    rig.ask(Command::Resume).expect("it goes on");
    rig.wait_durable(&["Insert 1", "Insert 2"]);
    rig.ask(Command::Rewind(rig.journal.first()))
        .expect("it rewinds");
    rig.wait_durable(&["Insert 1", "Insert 2", "Insert 1", "Insert 2"]);
    let past = journal::Sequence(rig.journal.end().0 + 1);
    assert!(rig.ask(Command::Rewind(past)).is_err());
    assert_eq!(rig.finish(), Ok(()));
}

#[test]
fn a_cursor_of_another_journal_is_refused_with_a_hint() {
    let rig = Rig::new("foreign", |target| {
        target.cursor = Some(Cursor {
            journal: [9; 16],
            sequence: 1,
            position: vec![],
            parked: vec![],
        });
    });
    let error = rig.finish().unwrap_err();
    assert!(
        error.contains("another journal") && error.contains("--recover"),
        "{error}"
    );
}

/// A transaction that is larger than a frame of the journal was counted from its last frame on.
#[test]
fn a_large_transaction_is_counted_whole_before_it_begins() {
    const ROWS: i64 = 300_000;
    let mut rig = Rig::new("ahead", |target| target.looks_ahead = true);
    rig.put(|batch| (0..ROWS).for_each(|id| insert(batch, id)));
    rig.put(|batch| insert(batch, ROWS));
    rig.wait("everything is delivered", |target| {
        target.durable.len() as i64 == ROWS + 1
    });
    let target = rig.sink.0.lock().expect("no thread panicked");
    let counted: Vec<(u64, u64)> = target
        .aheads
        .iter()
        .filter(|ahead| ahead.operations > 0)
        .map(|ahead| (ahead.operations, ahead.sent_before))
        .collect();
    assert_eq!(counted, [(ROWS as u64, 0), (1, 0)]);
    let commits: Vec<u64> = target.aheads.iter().map(|a| a.commit_sequence).collect();
    assert!(commits.is_sorted_by(|a, b| a < b), "{commits:?}");
}
