//! The embedded default: the recording comes out, the same bytes on every run.

use std::process::Command;
use testkit::TempDir;

fn demo(dir: &TempDir) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args([
            "demo",
            "--once",
            "--format",
            "canal-json",
            "--out",
            "-",
            "--dir",
        ])
        .arg(dir.path().join("demo"))
        .output()
        .expect("the binary runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[test]
fn the_demo_writes_the_same_bytes_on_every_run_and_every_row_of_the_recording() {
    let dir = TempDir::new("demo");
    let first = demo(&dir);
    assert_eq!(first, demo(&dir));
    let text = String::from_utf8(first).expect("JSON is UTF-8");
    let count = |table: &str, kind: &str| {
        let end = format!("\"type\":\"{kind}\"}}");
        let table = format!("\"table\":\"{table}\"");
        text.lines()
            .filter(|line| line.contains(&table) && line.ends_with(&end))
            .count()
    };
    // crates/testkit/recording/README.md has these counts.
    let expected = [
        ("customers", [1504, 639, 18]),
        ("products", [49, 206, 1]),
        ("orders", [5923, 313, 32]),
        ("order_items", [17_270, 6, 236]),
    ];
    for (table, counts) in expected {
        let found = ["INSERT", "UPDATE", "DELETE"].map(|kind| count(table, kind));
        assert_eq!(found, counts, "{table}");
    }
}
