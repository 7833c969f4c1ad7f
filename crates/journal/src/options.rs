//! How a journal is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::fs::{Fs, RealFs};
use crate::keys::KeyProvider;

/// How blocks are made smaller before they are sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Fast, about half the size; the default, because it is cheaper than the disk it saves.
    #[default]
    Lz4,
    /// About a third of the size for three times the CPU.
    Zstd1,
    /// As they are.
    None,
}

/// Everything that opening a journal needs.
#[derive(Clone)]
pub struct Options {
    /// The journal's own directory; created when missing.
    pub dir: PathBuf,
    /// A segment is ended at this size. Default 128 MiB, 64 KiB to 2 GiB.
    pub segment_bytes: u64,
    /// A frame is written at this size. Default 256 KiB, 4 KiB to 4 MiB.
    pub frame_bytes: usize,
    /// A frame is written at this age, however small. Default 1 ms.
    pub frame_delay: Duration,
    /// Segments younger than this stay, also when every cursor has passed them. Default 24 h.
    pub retention: Duration,
    /// Bytes that all segments together may take. Default none.
    pub disk_max: Option<u64>,
    /// Default lz4.
    pub compression: Compression,
    /// Wraps and unwraps data keys.
    pub keys: Arc<dyn KeyProvider>,
    /// Recent frames kept in memory, opened, for readers that follow. Default 6 MiB of buffers; 0 turns it off.
    pub tail_bytes: usize,
    /// Data keys are renewed at this age. Default 1 h.
    pub key_age: Duration,
    /// The time of the machine unless a test says otherwise.
    pub clock: Arc<dyn Clock>,
    /// The file system of the machine unless a test says otherwise.
    pub fs: Arc<dyn Fs>,
}

impl Options {
    /// The defaults for a journal in `dir`.
    pub fn new(dir: impl Into<PathBuf>, keys: Arc<dyn KeyProvider>) -> Self {
        Options {
            dir: dir.into(),
            segment_bytes: 128 << 20,
            frame_bytes: 256 << 10,
            frame_delay: Duration::from_millis(1),
            retention: Duration::from_secs(24 * 3600),
            disk_max: None,
            compression: Compression::Lz4,
            keys,
            tail_bytes: 6 << 20,
            key_age: Duration::from_secs(3600),
            clock: Arc::new(SystemClock::default()),
            fs: Arc::new(RealFs),
        }
    }
}
