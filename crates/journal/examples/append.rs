//! Measures appending: `append [records] [body bytes] [records per transaction] [dir] [lz4|zstd|none]`.
//!
//! Rows look like those of a small OLTP table: a few numbers and some text. The figures go to standard error.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{
    Commit, Compression, FileKeys, KeyGroupId, Options, ReadOptions, RecordDescriptor, SchemaId,
    Sequence, TableId, TransactionStart,
};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| -> Result<u64, Failure> {
        Ok(arguments.next().map_or(Ok(default), |text| text.parse())?)
    };
    let (records, body_bytes, per_transaction) = (number(4_000_000)?, number(100)?, number(1)?);
    let dir = arguments.next().map_or_else(
        || std::env::temp_dir().join("journal-append"),
        PathBuf::from,
    );
    let compression = match arguments.next().as_deref() {
        Some("zstd") => Compression::Zstd1,
        Some("none") => Compression::None,
        _ => Compression::Lz4,
    };
    let _ = std::fs::remove_dir_all(&dir);
    let keys = FileKeys::open_or_create(&dir.with_extension("keys"))?;
    let (journal, mut writer) = journal::open(Options {
        compression,
        ..Options::new(&dir, Arc::new(keys))
    })?;
    let first = journal.end();
    let mut body = row(body_bytes as usize);
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut done = 0u64;
    while done < records {
        writer.begin(TransactionStart {
            header: &done.to_le_bytes(),
            snapshot: false,
        })?;
        for _ in 0..per_transaction {
            change(&mut body, done);
            let descriptor = RecordDescriptor {
                table: TableId(7),
                schema: SchemaId(1),
                operation: 1,
                flags: 0,
                key_token: done.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                key_group: KeyGroupId::DEFAULT,
            };
            writer.record(&descriptor, &body)?;
            done += 1;
        }
        let (position, time_us) = (done.to_be_bytes(), done as i64);
        writer.commit(Commit {
            trailer: b"",
            position: &position,
            time_us,
            rows: per_transaction,
        })?;
    }
    writer.flush()?;
    let last = Sequence(writer.next_sequence().0 - 1);
    journal.wait(last, Duration::from_secs(60));
    report("append", done, start.elapsed(), cpu_time() - cpu);
    let metrics = journal.metrics();
    eprintln!("{metrics:?}");
    eprintln!(
        "resident {} MB, peak {} MB",
        memory("VmRSS"),
        memory("VmHWM")
    );

    let (start, cpu) = (Instant::now(), cpu_time());
    let mut reader = journal.reader(ReadOptions::from(first))?;
    let mut items = 0u64;
    while let Some(frame) = reader.next()? {
        items += frame.items().count() as u64;
    }
    report("read items", items, start.elapsed(), cpu_time() - cpu);
    eprintln!(
        "resident {} MB, peak {} MB",
        memory("VmRSS"),
        memory("VmHWM")
    );
    writer.close()?;
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}

fn row(len: usize) -> Vec<u8> {
    let text = b"id=00000000 name=carol-wilson city=lisbon status=active balance=1024.50 note=";
    text.iter().copied().cycle().take(len).collect()
}

/// Makes a fifth of the row new.
fn change(body: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for chunk in body.chunks_mut(5) {
        state = state.rotate_left(13).wrapping_mul(5);
        chunk[0] = b'0' + (state >> 60) as u8;
    }
}

fn report(what: &str, count: u64, wall: Duration, cpu: Duration) {
    let (wall, cpu) = (wall.as_secs_f64(), cpu.as_secs_f64());
    let (count, rate) = (count as f64, count as f64 / wall / 1e6);
    eprintln!(
        "{what}: {wall:.2} s, {rate:.2} M/s, CPU {:.3} us each",
        cpu / count * 1e6
    );
}

/// User and system time of the process.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<u64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse().ok())
        .collect();
    Duration::from_millis(fields.iter().sum::<u64>() * 10)
}

fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with(field))
        .unwrap_or_default();
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u64>().unwrap_or(0) / 1024
}
