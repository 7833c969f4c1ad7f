//! Real servers, and the state that a stream of batches adds up to.
#![allow(dead_code)]

use change::batch::{FLAG_PAIR_FIRST, RowBody};
use change::{Batch, Ddl, DdlKind, Entry, Operation, Position, Progress, Source, TableSchema};
use source_mysql::{MysqlConfig, Resume};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub fn testkit(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testkit")
        .join(path)
}

/// A server of its own, stopped when dropped.
pub struct Server {
    pub dir: PathBuf,
    pub port: u16,
    pub flavour: String,
}

impl Server {
    pub fn start(flavour: &str, port: u16, options: &[&str]) -> Self {
        let dir = PathBuf::from(format!("/tmp/hw-source-{flavour}-{port}"));
        let server = Self {
            dir,
            port,
            flavour: flavour.to_owned(),
        };
        server.script(&["kill"], &[]);
        let _ = std::fs::remove_dir_all(&server.dir);
        let dir = server.dir.display().to_string();
        let port = port.to_string();
        let mut call = Command::new(testkit("servers/mysql.sh"));
        call.args(["start", flavour, &dir, &port]).args(options);
        assert!(call.stdout(Stdio::null()).status().unwrap().success());
        server
    }

    pub fn script(&self, words: &[&str], options: &[&str]) {
        let mut call = Command::new(testkit("servers/mysql.sh"));
        call.args(words).arg(&self.dir).args(options);
        let _ = call.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }

    pub fn sql(&self, sql: &str) -> String {
        let mut child = Command::new(testkit("servers/mysql.sh"))
            .arg("sql")
            .arg(&self.dir)
            .args(["-N", "-r", "--force"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(sql.as_bytes())
            .unwrap();
        let out = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    pub fn config(&self, tables: &[&str]) -> MysqlConfig {
        let text = format!("mysql://root@127.0.0.1:{}", self.port);
        config(&text, tables)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.script(&["kill"], &[]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn config(url: &str, tables: &[&str]) -> MysqlConfig {
    MysqlConfig {
        url: url.into(),
        tls: Default::default(),
        tables: tables.iter().map(|t| (*t).to_owned()).collect(),
        columns: Default::default(),
        mask_key: Default::default(),
        snapshot: Default::default(),
        start: None,
        server_id: None,
        heartbeat_seconds: 1,
        snapshot_options: Default::default(),
    }
}

/// The sections of an SQL file that are for this server.
pub fn sections(file: &str, flavour: &str) -> String {
    let family = if flavour.starts_with("mysql") {
        "mysql"
    } else {
        "mariadb"
    };
    let mut on = true;
    let mut out = String::new();
    for line in std::fs::read_to_string(testkit(file)).unwrap().lines() {
        if let Some(words) = line.strip_prefix("-- [").and_then(|l| l.strip_suffix(']')) {
            let words: Vec<&str> = words.split(' ').collect();
            on = ["all", family, flavour]
                .iter()
                .any(|word| words.contains(word));
        } else if on {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// What a journal would hold, applied to nothing.
#[derive(Default)]
pub struct World {
    pub schemas: HashMap<(u32, u32), TableSchema>,
    /// By table name: key token to the stored cells of the row.
    pub rows: BTreeMap<String, HashMap<u64, Vec<u8>>>,
    pub control: BTreeMap<Vec<u8>, Vec<u8>>,
    pub position: Option<Position>,
    pub faults: Vec<String>,
    pub opaque: Vec<String>,
    pub reads: u64,
    pub changes: u64,
    pub commits: u64,
    pub rollbacks: u64,
    pending: Vec<Step>,
}

enum Step {
    Row(String, Operation, u64, Option<Vec<u8>>),
    Clear(String),
    Control(Vec<u8>, Option<Vec<u8>>),
    Opaque(String),
}

impl World {
    pub fn apply(&mut self, batch: &Batch) {
        for entry in batch.entries() {
            match entry {
                Entry::Begin { .. } => {
                    assert!(self.pending.is_empty(), "Begin inside a transaction")
                }
                Entry::Control { key, value } => {
                    let key = batch.bytes(*key).to_vec();
                    let value = value.map(|value| batch.bytes(value).to_vec());
                    if key.starts_with(b"schema/") {
                        let schema = TableSchema::decode(value.as_ref().unwrap()).unwrap();
                        self.schemas
                            .insert((schema.table.0, schema.version.0), schema);
                    }
                    self.pending.push(Step::Control(key, value));
                }
                Entry::Record(record) => self.record(batch, record),
                Entry::Commit { position, .. } => {
                    self.commits += 1;
                    let step = change::PositionStep::decode(batch.bytes(*position)).unwrap();
                    let mut position = self.position.take().unwrap_or_default();
                    position.advance(&step);
                    self.position = Some(position);
                    self.settle();
                }
                Entry::Rollback => {
                    self.rollbacks += 1;
                    self.pending.clear();
                }
            }
        }
    }

    fn record(&mut self, batch: &Batch, record: &change::batch::RecordEntry) {
        let bytes = batch.bytes(record.body);
        match record.operation {
            Operation::Statement => {}
            Operation::Opaque => {
                let opaque = change::batch::OpaqueEvent::decode(bytes).unwrap();
                self.pending.push(Step::Opaque(opaque.reason.to_owned()));
            }
            Operation::Ddl => {
                let ddl = Ddl::decode(bytes).unwrap();
                if matches!(ddl.kind, DdlKind::DropTable | DdlKind::TruncateTable) {
                    let name = format!("{}.{}", ddl.database, ddl.table);
                    self.pending.push(Step::Clear(name));
                }
            }
            operation => {
                let schema = self
                    .schemas
                    .get(&(record.table.0, record.schema.0))
                    .unwrap_or_else(|| panic!("no schema {}/{}", record.table.0, record.schema.0));
                let body = RowBody::read(bytes).unwrap();
                let name = format!("{}.{}", schema.database, schema.name);
                let after = body.after.map(|image| {
                    assert_eq!(image.column_count(), schema.columns.len());
                    image.cell_bytes().to_vec()
                });
                assert!(record.flags != FLAG_PAIR_FIRST || operation == Operation::Delete);
                let row = Step::Row(name, operation, record.key_token, after);
                self.pending.push(row);
            }
        }
    }

    fn settle(&mut self) {
        for step in std::mem::take(&mut self.pending) {
            match step {
                Step::Clear(name) => {
                    self.rows.remove(&name);
                }
                Step::Control(key, Some(value)) => {
                    self.control.insert(key, value);
                }
                Step::Control(key, None) => {
                    self.control.remove(&key);
                }
                Step::Opaque(reason) => self.opaque.push(reason),
                Step::Row(name, operation, token, after) => {
                    let rows = self.rows.entry(name.clone()).or_default();
                    let fault = match operation {
                        Operation::Read => {
                            self.reads += 1;
                            rows.insert(token, after.unwrap()).is_some()
                        }
                        Operation::Insert => {
                            self.changes += 1;
                            rows.insert(token, after.unwrap()).is_some()
                        }
                        Operation::Update => {
                            self.changes += 1;
                            rows.insert(token, after.unwrap()).is_none()
                        }
                        _ => {
                            self.changes += 1;
                            rows.remove(&token).is_none()
                        }
                    };
                    if fault && self.faults.len() < 20 {
                        self.faults
                            .push(format!("{operation:?} of {name} {token:016x} does not fit"));
                    }
                }
            }
        }
    }

    pub fn resume(&self) -> Resume {
        Resume {
            position: self.position.clone(),
            control: self.control.clone().into_iter().collect(),
            spool: None,
            anew: false,
        }
    }

    /// A crash: what has no commit yet is not in the journal.
    pub fn drop_pending(&mut self) {
        self.pending.clear();
    }

    pub fn row_count(&self) -> usize {
        self.rows.values().map(HashMap::len).sum()
    }
}

/// Polls until `done` says so or `limit` has passed.
pub fn run(
    source: &mut dyn Source,
    world: &mut World,
    limit: Duration,
    mut done: impl FnMut(&mut dyn Source, &World) -> bool,
) -> bool {
    let end = Instant::now() + limit;
    let mut batch = Batch::default();
    while Instant::now() < end {
        batch.clear();
        let progress = source
            .poll(&mut batch, Duration::from_millis(100))
            .unwrap_or_else(|error| panic!("{error}"));
        world.apply(&batch);
        if progress == Progress::End || done(source, world) {
            return true;
        }
    }
    false
}

/// Polls until everything that the server has now is read and the copy is whole.
pub fn run_to_head(source: &mut dyn Source, world: &mut World, server: &Server, limit: Duration) {
    let statement = if server.flavour == "mysql97" {
        "SHOW BINARY LOG STATUS"
    } else {
        "SHOW MASTER STATUS"
    };
    let head = server.sql(statement);
    let mut fields = head.split('\t');
    let file = fields.next().unwrap().trim().to_owned();
    let offset: u64 = fields.next().unwrap().trim().parse().unwrap();
    let wanted = (change::position::file_number(&file), offset);
    let arrived = run(source, world, limit, |source, _| {
        let place = source.position().unwrap().place();
        // The head may lie behind events that are no transactions.
        let near = place >= wanted || (place.0 == wanted.0 && wanted.1 - place.1 < 300);
        near && source.status().phase != "snapshot"
    });
    let status = source.status();
    assert!(arrived, "not at {file}:{offset} in time: {status:?}");
}

pub fn compare(ours: &World, theirs: &World) -> Vec<String> {
    let mut differences = Vec::new();
    let names: std::collections::BTreeSet<&String> =
        ours.rows.keys().chain(theirs.rows.keys()).collect();
    let none = HashMap::new();
    for name in names {
        let a = ours.rows.get(name).unwrap_or(&none);
        let b = theirs.rows.get(name).unwrap_or(&none);
        let schema = theirs
            .schemas
            .values()
            .chain(ours.schemas.values())
            .filter(|s| format!("{}.{}", s.database, s.name) == *name)
            .max_by_key(|s| s.version);
        for (token, cells) in a {
            match b.get(token) {
                None => differences.push(format!("{name} {token:016x}: only ours")),
                Some(other) if other != cells => {
                    differences.push(format!(
                        "{name}: {}",
                        first_difference(cells, other, schema)
                    ));
                }
                _ => {}
            }
        }
        for token in b.keys().filter(|token| !a.contains_key(token)) {
            differences.push(format!("{name} {token:016x}: only theirs"));
        }
    }
    differences
}

fn first_difference(a: &[u8], b: &[u8], schema: Option<&TableSchema>) -> String {
    let (mut x, mut y) = (
        change::wire::WireReader::new(a),
        change::wire::WireReader::new(b),
    );
    for index in 0.. {
        let (Ok(p), Ok(q)) = (
            change::value::read_cell(&mut x),
            change::value::read_cell(&mut y),
        ) else {
            break;
        };
        if p != q {
            let column = schema.and_then(|s| s.columns.get(index));
            let name = column.map(|c| format!("{} {}", c.name, c.declared));
            let mut text = format!("{name:?}: {p:?} against {q:?}");
            text.truncate(400);
            return text;
        }
    }
    "another count of cells".into()
}
