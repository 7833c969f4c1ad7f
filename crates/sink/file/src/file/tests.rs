use super::*;
use change::{Ddl, DdlKind, TransactionHeader};
use format::FormatError;

/// Writes each statement's text as one message.
struct Plain;

impl Encoder for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }
    fn encode(&mut self, event: &Event<'_>, out: &mut Messages) -> Result<(), FormatError> {
        if let Event::Ddl(change) = event {
            out.buffer().extend_from_slice(change.ddl.sql.as_bytes());
            out.end();
        }
        Ok(())
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("hw-sink-file-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn sink(folder: &Path, rotate_bytes: Option<u64>) -> FileSink {
    let config = FileConfig {
        path: folder.join("out.jsonl"),
        rotate_bytes,
        fsync: Fsync::Flush,
    };
    FileSink::new(config, Box::new(Plain))
}

fn put(sink: &mut FileSink, sql: &str) {
    let header = TransactionHeader::default();
    let kind = DdlKind::Other;
    let ddl = Ddl {
        kind,
        database: "",
        table: "",
        renamed_from: "",
        sql,
        charset: "",
        sql_mode: 0,
    };
    let change = change::event::DdlChange {
        sequence: 1,
        ddl,
        header: &header,
    };
    sink.write(&Event::Ddl(change)).unwrap();
}

fn cursor(sequence: u64) -> Cursor {
    Cursor {
        journal: [1; 16],
        sequence,
        position: vec![],
        parked: vec![],
    }
}

#[test]
fn what_the_cursor_does_not_cover_is_cut_on_open() {
    let folder = folder("cut");
    let mut first = sink(&folder, None);
    assert_eq!(first.open().unwrap(), None);
    put(&mut first, "a");
    first.flush(&cursor(10)).unwrap();
    put(&mut first, "lost");
    first.write_out().unwrap();
    drop(first);
    let mut second = sink(&folder, None);
    assert_eq!(second.open().unwrap(), Some(cursor(10)));
    put(&mut second, "b");
    second.flush(&cursor(20)).unwrap();
    put(&mut second, "taken back");
    second.abort().unwrap();
    put(&mut second, "c");
    second.flush(&cursor(30)).unwrap();
    assert_eq!(
        fs::read_to_string(folder.join("out.jsonl")).unwrap(),
        "a\nb\nc\n"
    );
}

#[test]
fn rotation_begins_new_files_and_later_ones_go_on_open() {
    let folder = folder("rotate");
    let mut first = sink(&folder, Some(3));
    first.open().unwrap();
    for (index, text) in ["one", "two", "x"].iter().enumerate() {
        put(&mut first, text);
        first.flush(&cursor(index as u64 + 1)).unwrap();
    }
    drop(first);
    fs::write(folder.join("out.jsonl.000004"), "stray").unwrap();
    let mut second = sink(&folder, Some(3));
    assert_eq!(second.open().unwrap().unwrap().sequence, 3);
    assert!(!folder.join("out.jsonl.000004").exists());
    let read = |n: u32| fs::read_to_string(folder.join(format!("out.jsonl.{n:06}"))).unwrap();
    assert_eq!(
        (read(1), read(2), read(3)),
        ("one\n".into(), "two\n".into(), "x\n".into())
    );
}

#[test]
fn a_foreign_or_shortened_file_and_a_damaged_cursor_are_refused() {
    let folder = folder("foreign");
    fs::write(folder.join("out.jsonl"), "mine\n").unwrap();
    let error = sink(&folder, None).open().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    fs::remove_file(folder.join("out.jsonl")).unwrap();

    let mut first = sink(&folder, None);
    first.open().unwrap();
    put(&mut first, "abc");
    first.flush(&cursor(1)).unwrap();
    fs::write(folder.join("out.jsonl"), "a").unwrap();
    assert_eq!(
        sink(&folder, None).open().unwrap_err().kind,
        ErrorKind::Corrupt
    );

    let path = folder.join("out.jsonl.cursor");
    let whole = fs::read(&path).unwrap();
    for index in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[index] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(
            sink(&folder, None).open().unwrap_err().kind,
            ErrorKind::Corrupt
        );
    }
}

#[test]
fn a_kill_before_the_first_flush_leaves_a_file_that_opens_again() {
    let folder = folder("early");
    let mut first = sink(&folder, None);
    first.open().unwrap();
    put(&mut first, "lost");
    first.write_out().unwrap();
    drop(first);
    let mut second = sink(&folder, None);
    assert_eq!(second.open().unwrap(), None);
    put(&mut second, "kept");
    second.flush(&cursor(1)).unwrap();
    assert_eq!(
        fs::read_to_string(folder.join("out.jsonl")).unwrap(),
        "kept\n"
    );
}
