//! Folders that go away with their owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new folder among the temporary files; removed on drop, kept when `HEADWATER_KEEP` is set.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// A new folder; `what` becomes a part of its name.
    pub fn new(what: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hw-{what}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if std::env::var_os("HEADWATER_KEEP").is_none() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
