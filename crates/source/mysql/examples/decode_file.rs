//! Decodes one binlog file again and again, without a server: CPU time per row of the decoder alone.
//!
//! `cargo run --release -p source-mysql --example decode_file -- FILE [TIMES]`

use change::{Batch, Entry, Position};
use source_mysql::binlog::header::EventHeader;
use source_mysql::capture::selection::Selection;
use source_mysql::capture::{Capture, CaptureOptions};
use std::io::Write;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let file = words.first().ok_or("usage: decode_file FILE [TIMES]")?;
    let times = words.get(1).map_or(Ok(5), |n| n.parse::<u32>())?;
    let bytes = std::fs::read(file)?;
    for _ in 0..times {
        let options = CaptureOptions {
            selection: Selection::new(&[])?,
            ..CaptureOptions::default()
        };
        let mut capture = Capture::new(options, Position::default());
        capture.start_file("log.000001", 4);
        let mut batch = Batch::default();
        let (mut rest, mut rows, mut events) = (&bytes[4..], 0, 0u64);
        let since = Instant::now();
        while !rest.is_empty() {
            let size = EventHeader::read(rest)?.event_bytes as usize;
            capture.event(&rest[..size], &mut batch)?;
            rest = &rest[size..];
            events += 1;
            if batch.byte_count() > 256 << 10 || rest.is_empty() {
                for entry in batch.entries() {
                    if let Entry::Commit { rows: count, .. } = entry {
                        rows += count;
                    }
                }
                batch.clear();
            }
        }
        let wall = since.elapsed().as_secs_f64();
        writeln!(
            std::io::stdout(),
            "{rows} rows, {events} events, {:.3} us each row, {:.0} MB/s",
            wall * 1e6 / rows.max(1) as f64,
            bytes.len() as f64 / wall / 1e6
        )?;
    }
    Ok(())
}
