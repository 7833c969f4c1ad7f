//! Checks a trail: whether every line is as it was written, and none is missing.

use super::file::{NO_HASH, SEALED_MEMBER, files, hash, read_head, split};
use crate::seal::Sealer;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A trail that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Files.
    pub files: usize,
    /// Records.
    pub records: u64,
    /// Number of the first record that is kept; older files may have been removed.
    pub first: u64,
    /// Whether its end is proven: `head` is sealed. An older version did not do that.
    pub is_sealed: bool,
}

/// Checks the trail in `dir`.
///
/// Errors: the first place that is not as it was written, as a text.
pub fn verify(dir: &Path, sealer: &Sealer) -> Result<Verified, String> {
    let failed =
        |error: std::io::Error| format!("read the audit trail in {}: {error}", dir.display());
    // Before the files: who writes meanwhile writes lines first.
    let head = read_head(dir, sealer)?;
    let all = files(dir).map_err(failed)?;
    let mut walk = Walk {
        sealer,
        next: None,
        previous: NO_HASH.into(),
        records: 0,
        first: 0,
        is_sealed: false,
    };
    for path in &all {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let file = std::fs::File::open(path).map_err(failed)?;
        for (index, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(failed)?;
            let at = format!("{name}:{}", index + 1);
            walk.line(&line, index == 0)
                .map_err(|what| format!("{at}: {what}"))?;
            if let Some(head) = &head
                && walk.next == Some(head.next)
                && head.hash != walk.previous
            {
                return Err(format!(
                    "{at}: it is not the record that `head` names: the trail was written anew"
                ));
            }
        }
    }
    let end = walk.next.unwrap_or(0);
    match &head {
        None if walk.is_sealed => {
            return Err("`head` is missing: how far the trail went is not known".into());
        }
        None if walk.records == 0 => {
            return Err("nothing is there, neither a record nor `head`".into());
        }
        Some(head) if walk.is_sealed && !head.is_sealed => {
            return Err("`head` is not as it was written".into());
        }
        Some(head) if end < head.next => {
            return Err(format!(
                "the trail has {end} records, but it went to {}: its end was cut off",
                head.next
            ));
        }
        _ => {}
    }
    Ok(Verified {
        files: all.len(),
        records: walk.records,
        first: walk.first,
        is_sealed: head.is_some_and(|head| head.is_sealed),
    })
}

struct Walk<'s> {
    sealer: &'s Sealer,
    next: Option<u64>,
    previous: String,
    records: u64,
    first: u64,
    /// A file said that `head` is sealed.
    is_sealed: bool,
}

impl Walk<'_> {
    fn line(&mut self, line: &str, begins_file: bool) -> Result<(), String> {
        let (body, told) = split(line).ok_or("this is no audit record")?;
        let event: Map<String, Value> =
            serde_json::from_str(&format!("{body}}}")).map_err(|_| "this is no audit record")?;
        let index = event
            .get("auditIndex")
            .and_then(Value::as_u64)
            .ok_or("the record has no number")?;
        let link = event.get("auditPrevious").and_then(Value::as_str);
        match (self.next, link) {
            // Older files may be gone: then the first one that is left tells what came before it.
            (None, Some(link)) => (self.first, self.previous) = (index, link.to_owned()),
            (None, None) => return Err("the first record does not tell what came before it".into()),
            (Some(next), _) if next != index => {
                return Err(format!("record {next} is missing: this is record {index}"));
            }
            (Some(_), Some(link)) if link != self.previous => {
                return Err("the file does not go on from the one before it".into());
            }
            (Some(_), None) if begins_file => {
                return Err("the file does not tell what came before it".into());
            }
            _ => {}
        }
        if index == 0 && self.previous != NO_HASH {
            return Err("the first record of all follows something".into());
        }
        if index > 0 && self.previous == NO_HASH {
            return Err(format!("what came before record {index} was taken away"));
        }
        let found = hash(self.sealer, &self.previous, body);
        if found != told {
            return Err(format!("record {index} was changed after it was written"));
        }
        self.is_sealed |= event.contains_key(SEALED_MEMBER);
        self.previous = found;
        self.next = Some(index + 1);
        self.records += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::{HEAD, Trail};
    use super::*;
    use crate::settings::AuditConfig;
    use serde_json::json;
    use std::path::PathBuf;
    use std::time::Duration;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir()
                .join(format!("stream-api-audit-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn sealer() -> Sealer {
        Sealer::new(&[3; 32])
    }

    fn write(dir: &Path, count: u64, config: &AuditConfig) {
        let mut trail = Trail::open(dir, config, sealer()).unwrap();
        for number in 0..count {
            let mut event = Map::new();
            event.insert("eventName".into(), json!(format!("Call{number}")));
            trail.append(event);
        }
        trail.sync_if_due(Duration::ZERO);
    }

    fn small() -> AuditConfig {
        AuditConfig {
            file_bytes: 1000,
            ..AuditConfig::default()
        }
    }

    #[test]
    fn a_trail_goes_on_over_files_and_restarts() {
        let dir = Dir::new("whole");
        for _ in 0..3 {
            write(&dir.0, 20, &small());
        }
        let verified = verify(&dir.0, &sealer()).unwrap();
        assert_eq!((verified.records, verified.first), (60, 0));
        assert!(verified.files > 3);
        write(
            &dir.0,
            20,
            &AuditConfig {
                files_max: 2,
                ..small()
            },
        );
        let verified = verify(&dir.0, &sealer()).unwrap();
        assert_eq!(verified.files, 2);
        assert!(verified.first > 0);
    }

    #[test]
    fn what_a_crash_cut_off_is_removed_and_the_trail_goes_on() {
        let dir = Dir::new("torn");
        write(&dir.0, 5, &AuditConfig::default());
        let path = files(&dir.0).unwrap().pop().unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"eventName\":\"Ca");
        std::fs::write(&path, text).unwrap();
        write(&dir.0, 5, &AuditConfig::default());
        assert_eq!(verify(&dir.0, &sealer()).unwrap().records, 10);
    }

    #[test]
    fn every_forgery_is_found() {
        let tamper = |name: &str, change: &dyn Fn(&mut Vec<String>)| {
            let dir = Dir::new(name);
            write(&dir.0, 30, &small());
            let path = files(&dir.0).unwrap().remove(1);
            let text = std::fs::read_to_string(&path).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            change(&mut lines);
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
            verify(&dir.0, &sealer()).unwrap_err()
        };
        assert!(
            tamper("changed", &|lines| lines[1] =
                lines[1].replace("Call", "Kall"))
            .contains("was changed")
        );
        assert!(tamper("removed", &|lines| drop(lines.remove(1))).contains("is missing"));
        assert!(
            tamper("doubled", &|lines| lines.insert(1, lines[1].clone())).contains("is missing")
        );
        assert!(tamper("swapped", &|lines| lines.swap(1, 2)).contains("is missing"));
        assert!(tamper("nonsense", &|lines| lines[1] = "{}".into()).contains("no audit record"));
        let dir = Dir::new("cut");
        write(&dir.0, 30, &small());
        std::fs::remove_file(files(&dir.0).unwrap().pop().unwrap()).unwrap();
        assert!(verify(&dir.0, &sealer()).unwrap_err().contains("cut off"));
        let dir = Dir::new("otherkey");
        write(&dir.0, 3, &small());
        let other = Sealer::new(&[4; 32]);
        assert!(verify(&dir.0, &other).is_err());
        let rewrite = |text: &str| std::fs::write(dir.0.join(HEAD), text).unwrap();
        let before = std::fs::read_to_string(dir.0.join(HEAD)).unwrap();
        rewrite("99 x");
        assert!(verify(&dir.0, &other).unwrap_err().contains("was changed"));
        rewrite(&before);
        assert!(verify(&dir.0, &sealer()).unwrap().is_sealed);
    }

    /// Takes the last file away, and does `forge` to `head`.
    fn cut(name: &str, forge: &dyn Fn(&Path)) -> Dir {
        let dir = Dir::new(name);
        write(&dir.0, 30, &small());
        std::fs::remove_file(files(&dir.0).unwrap().pop().unwrap()).unwrap();
        forge(&dir.0.join(HEAD));
        dir
    }

    #[test]
    fn a_cut_end_is_found_whatever_became_of_the_head_and_whoever_writes_on() {
        let last = |head: &Path| {
            let dir = head.parent().unwrap();
            let text = std::fs::read_to_string(files(dir).unwrap().pop().unwrap()).unwrap();
            let line = text.lines().next_back().map(str::to_owned).unwrap();
            super::super::file::place(&line).unwrap()
        };
        type Forge<'a> = &'a dyn Fn(&Path);
        let forgeries: [(&str, Forge<'_>); 4] = [
            ("left", &|_| {}),
            ("gone", &|head| std::fs::remove_file(head).unwrap()),
            ("older", &|head| {
                let (index, hash) = last(head);
                std::fs::write(head, format!("{index} {hash}\n")).unwrap();
            }),
            ("forged", &|head| {
                let (index, hash) = last(head);
                let text = format!("{} {hash} {}\n", index + 1, "0".repeat(64));
                std::fs::write(head, text).unwrap();
            }),
        ];
        for (name, forge) in forgeries {
            let dir = cut(name, forge);
            assert!(verify(&dir.0, &sealer()).is_err(), "{name}");
            write(&dir.0, 5, &small());
            let found = verify(&dir.0, &sealer()).unwrap_err();
            assert!(found.contains("is missing"), "{name}: {found}");
        }
    }

    #[test]
    fn a_trail_that_was_taken_away_whole_is_missed() {
        let dir = Dir::new("emptied");
        write(&dir.0, 30, &small());
        for path in files(&dir.0).unwrap() {
            std::fs::remove_file(path).unwrap();
        }
        assert!(verify(&dir.0, &sealer()).unwrap_err().contains("cut off"));
        write(&dir.0, 5, &small());
        let found = verify(&dir.0, &sealer()).unwrap_err();
        assert!(found.contains("taken away"), "{found}");
        std::fs::remove_dir_all(&dir.0).unwrap();
        std::fs::create_dir_all(&dir.0).unwrap();
        assert!(verify(&dir.0, &sealer()).is_err());
    }

    #[test]
    fn a_trail_of_an_older_version_is_verified_with_a_word_and_goes_on_sealed() {
        let dir = Dir::new("legacy");
        write(&dir.0, 5, &AuditConfig::default());
        // As it was written then: nothing says that `head` is sealed, and it is not.
        let path = files(&dir.0).unwrap().pop().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let (mut previous, mut old) = (NO_HASH.to_owned(), String::new());
        for line in text.lines() {
            let (body, _) = split(line).unwrap();
            let body = body
                .replace(",\"auditHead\":\"sealed\"", "")
                .replace("\"auditHead\":\"sealed\",", "");
            previous = hash(&sealer(), &previous, &body);
            old.push_str(&format!("{body},\"auditHash\":\"{previous}\"}}\n"));
        }
        std::fs::write(&path, old).unwrap();
        std::fs::write(dir.0.join(HEAD), format!("4 {previous}\n")).unwrap();
        let verified = verify(&dir.0, &sealer()).unwrap();
        assert_eq!((verified.records, verified.is_sealed), (5, false));
        write(&dir.0, 5, &AuditConfig::default());
        let verified = verify(&dir.0, &sealer()).unwrap();
        assert_eq!(
            (verified.records, verified.files, verified.is_sealed),
            (10, 2, true)
        );
        std::fs::remove_file(dir.0.join(HEAD)).unwrap();
        assert!(verify(&dir.0, &sealer()).is_err());
    }
}
