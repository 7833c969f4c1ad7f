//! Files that wait beside the journal: sealed, whole or refused, counted.

use journal::{ErrorKind, FileKeys, Journal, Options, Writer};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("headwater-spool-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the folder is made");
    dir
}

fn open(dir: &Path, disk_max: Option<u64>) -> (Journal, Writer) {
    let keys = FileKeys::open_or_create(&dir.join("key")).expect("the key is made");
    let mut options = Options::new(dir.join("journal"), Arc::new(keys));
    options.disk_max = disk_max;
    journal::open(options).expect("the journal opens")
}

fn secret(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| b"a row that nobody may read"[at % 26])
        .collect()
}

#[test]
fn bytes_come_back_and_are_sealed_and_counted() {
    let dir = folder("back");
    for len in [0, 1, 65_535, 65_536, 65_537, 1_000_000] {
        let (journal, _writer) = open(&dir, None);
        let spool = journal.spool();
        let before = journal.usage().bytes;
        let mut file = spool.create("waiting").unwrap();
        file.write_all(&secret(len)).unwrap();
        file.finish().unwrap();
        assert!(journal.usage().bytes >= before + len as u64);
        let on_disk = std::fs::read(dir.join("journal/waiting.spool")).unwrap();
        assert!(!on_disk.windows(12).any(|bytes| bytes == b"nobody may r"));
        let mut back = Vec::new();
        spool
            .open("waiting")
            .unwrap()
            .read_to_end(&mut back)
            .unwrap();
        assert_eq!(back, secret(len));
    }
    let (journal, _writer) = open(&dir, None);
    let spool = journal.spool();
    let before = journal.usage().bytes;
    spool.keep_only(&["waiting"]).unwrap();
    assert!(journal.usage().bytes > before + 1_000_000);
    spool.keep_only(&[]).unwrap();
    assert_eq!(journal.usage().bytes, before);
    assert!(spool.open("waiting").is_err());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_was_cut_changed_or_moved_is_refused() {
    let dir = folder("cut");
    let (journal, _writer) = open(&dir, None);
    let spool = journal.spool();
    let mut file = spool.create("waiting").unwrap();
    file.write_all(&secret(200_000)).unwrap();
    file.finish().unwrap();
    let path = dir.join("journal/waiting.spool");
    let whole = std::fs::read(&path).unwrap();
    let read = |bytes: &[u8]| -> std::io::Result<usize> {
        std::fs::write(&path, bytes).unwrap();
        let mut back = Vec::new();
        match spool.open("waiting") {
            Ok(mut reader) => reader.read_to_end(&mut back),
            Err(error) => Err(std::io::Error::other(error)),
        }
    };
    assert_eq!(read(&whole).unwrap(), 200_000);
    for cut in (0..whole.len()).step_by(997) {
        assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        let mut changed = whole.clone();
        changed[cut] ^= 0x10;
        assert!(read(&changed).is_err(), "changed at {cut}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_disk_limit_holds() {
    let dir = folder("limit");
    let (journal, _writer) = open(&dir, Some(4 << 20));
    let spool = journal.spool();
    let mut file = spool.create("waiting").unwrap();
    let refused = file.write_all(&secret(8 << 20)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    assert!(journal.usage().bytes <= 5 << 20);
    spool.remove("waiting").unwrap();
    assert!(journal.usage().bytes < 1 << 20);
    let torn = spool.open("waiting").err().map(|error| error.kind());
    assert_eq!(torn, Some(ErrorKind::Unavailable));
    std::fs::remove_dir_all(dir).unwrap();
}
