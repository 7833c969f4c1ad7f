//! The journal's disk is really full: the process ends and says so, and once there is room it goes on, with
//! nothing lost and nothing doubled.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testkit::{Flavour, MysqlServer, Pipeline, TempDir};

const BINARY: &str = env!("CARGO_BIN_EXE_headwater");
const LIMIT: Duration = Duration::from_secs(90);

/// A file system of its own in memory.
struct Small(PathBuf);

impl Small {
    /// None where this user may mount nothing.
    fn mount(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).expect("the folder can be made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        let done = mount.arg(at).output().ok()?;
        done.status.success().then(|| Self(at.to_owned()))
    }

    fn fill(&self, mib: usize) {
        std::fs::write(self.0.join("filler"), vec![0; mib << 20]).expect("there is room for it");
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).expect("it is there");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_process_and_loses_nothing() {
    let dir = TempDir::new("small");
    let Some(disk) = Small::mount(&dir.path().join("disk"), "24m") else {
        // A simulated disk without room: crates/journal/tests/damage.rs.
        eprintln!("this user may not mount a file system: not tried");
        return;
    };
    let server = MysqlServer::start(Flavour::Mysql97, &[]);
    let mut sql = server.sql();
    sql.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARBINARY(1000))");
    let config = server.source_yaml("\"shop.*\"", &[])
        + &format!("journal: {{dir: {}}}\n", disk.0.join("journal").display())
        + "sinks:\n  - {name: lines, file: {path: lines.jsonl}}\n";
    let mut pipeline = Pipeline::new(BINARY, &config);
    disk.fill(12);
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    let write = |sql: &mut testkit::sql::Sql| {
        for _ in 0..60 {
            let row = "(RANDOM_BYTES(1000))";
            let rows = vec![row; 300].join(",");
            sql.exec(&format!("INSERT INTO shop.t (v) VALUES {rows}"));
        }
    };
    write(&mut sql);
    let ended = pipeline.wait_end(LIMIT);
    ended.assert(
        5,
        &[
            "No space left on device",
            "free space",
            "nothing that was durable is lost",
        ],
    );
    // Still no room: the same again, however far it comes.
    let ended = pipeline.run_to_end(LIMIT);
    ended.assert(5, &["No space left on device", "free space"]);
    disk.free();
    pipeline.start();
    pipeline.wait_streaming(LIMIT);
    sql.exec("INSERT INTO shop.t (id, v) VALUES (1000000, 'last')");
    pipeline.wait_file("lines.jsonl", "\"1000000\"", LIMIT);
    let text = std::fs::read_to_string(pipeline.folder().join("lines.jsonl")).expect("the file");
    let mut ids = BTreeSet::new();
    for line in text.lines() {
        let message: serde_json::Value = serde_json::from_str(line).expect("whole lines");
        for row in message["data"].as_array().into_iter().flatten() {
            assert!(ids.insert(row["id"].to_string()), "doubled: {}", row["id"]);
        }
    }
    assert_eq!(ids.len(), 60 * 300 + 1);
    pipeline.stop();
}
