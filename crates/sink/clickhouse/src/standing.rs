//! How one table stands, for `status`.

use crate::fold::lock;
use crate::table::Table;
use std::time::{SystemTime, UNIX_EPOCH};

/// A table's name, and its pending changes, the age of its base and its last fold.
pub(crate) fn of(table: &Table) -> (String, String) {
    let standing = lock(&table.fold);
    let waiting = table
        .pending
        .iter()
        .filter(|pending| pending.epoch > standing.folded);
    let (mut rows, mut oldest_us) = (0, 0);
    for pending in waiting {
        if rows == 0 {
            oldest_us = pending.commit_us;
        }
        rows += pending.rows;
    }
    let mut text = match rows {
        0 => "nothing pending, the base is up to date".to_owned(),
        rows => format!(
            "{rows} changes pending, the base is {:.1} s old",
            age(oldest_us)
        ),
    };
    match standing.last_end {
        None => text.push_str(", no fold since the start"),
        Some(end) => text.push_str(&format!(
            ", last fold {:.1} s ago took {} ms ({} since the start)",
            end.elapsed().as_secs_f64(),
            standing.last_took_ms,
            standing.folds
        )),
    }
    if standing.is_running {
        text.push_str(", folding");
    }
    if table.note.is_loading {
        text.push_str(", being copied");
    }
    if !table.note.stale.is_empty() {
        text.push_str(", set aside: ");
        text.push_str(&table.note.stale);
    }
    if !standing.trouble.is_empty() {
        text.push_str(", trouble: ");
        text.push_str(&standing.trouble);
    }
    (table.source.clone(), text)
}

/// Seconds since a commit.
fn age(commit_us: u64) -> f64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    match commit_us {
        0 => 0.0,
        then => (now.as_micros() as f64 - then as f64).max(0.0) / 1e6,
    }
}
