//! The class of a statement, from its first words: the message does not tell it.

use change::DdlKind;

/// The class as far as the first words tell; an ALTER TABLE that only adds a key is an ALTER TABLE.
pub(super) fn kind(sql: &str) -> DdlKind {
    let mut words = words(sql);
    let mut next = || words.next().unwrap_or_default();
    let verb = next();
    let mut object = next();
    // CREATE OR REPLACE TEMPORARY TABLE, CREATE UNIQUE INDEX, ALTER ONLINE TABLE: a few words at most.
    for _ in 0..4 {
        let skipped = [
            "OR",
            "REPLACE",
            "TEMPORARY",
            "UNIQUE",
            "FULLTEXT",
            "SPATIAL",
            "ONLINE",
            "OFFLINE",
            "IGNORE",
        ];
        if skipped.iter().any(|word| word.eq_ignore_ascii_case(object)) {
            object = next();
        }
    }
    let is = |word: &str, a: &str| word.eq_ignore_ascii_case(a);
    if is(verb, "TRUNCATE") {
        return DdlKind::TruncateTable;
    }
    if is(object, "DATABASE") || is(object, "SCHEMA") {
        return DdlKind::Database;
    }
    match (is(object, "TABLE"), is(object, "INDEX")) {
        (true, _) if is(verb, "CREATE") => DdlKind::CreateTable,
        (true, _) if is(verb, "ALTER") => DdlKind::AlterTable,
        (true, _) if is(verb, "DROP") => DdlKind::DropTable,
        (true, _) if is(verb, "RENAME") => DdlKind::RenameTable,
        (_, true) if is(verb, "CREATE") => DdlKind::CreateIndex,
        (_, true) if is(verb, "DROP") => DdlKind::DropIndex,
        _ => DdlKind::Other,
    }
}

/// The words of a statement, without its comments.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            // The end of a conditional comment whose words were taken.
            rest = rest.strip_prefix("*/").unwrap_or(rest).trim_start();
            let end = if let Some(comment) = rest.strip_prefix("/*") {
                // The words of a conditional comment are the statement's own.
                match comment.strip_prefix('!') {
                    Some(own) => {
                        rest = own.trim_start_matches(|c: char| c.is_ascii_digit());
                        continue;
                    }
                    None => comment.find("*/").map(|at| at + 4),
                }
            } else if rest.starts_with("--") || rest.starts_with('#') {
                rest.find('\n')
            } else {
                break;
            };
            rest = rest.get(end?..)?;
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end)?;
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_their_class() {
        for (sql, expected) in [
            ("create table t1(a int)", DdlKind::CreateTable),
            (
                "/* a */ CREATE OR REPLACE TEMPORARY TABLE t",
                DdlKind::CreateTable,
            ),
            ("-- x\nALTER TABLE t ADD c int", DdlKind::AlterTable),
            ("ALTER /*!50000 IGNORE */ TABLE t", DdlKind::AlterTable),
            ("drop table `t`", DdlKind::DropTable),
            ("TRUNCATE t", DdlKind::TruncateTable),
            ("rename table a to b", DdlKind::RenameTable),
            ("create unique index i on t(a)", DdlKind::CreateIndex),
            ("drop index i on t", DdlKind::DropIndex),
            ("create database d", DdlKind::Database),
            ("/* open", DdlKind::Other),
            ("", DdlKind::Other),
            ("grant all", DdlKind::Other),
        ] {
            assert_eq!(kind(sql), expected, "{sql}");
        }
    }
}
