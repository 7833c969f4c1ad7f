//! Statements in the log: transaction control, DDL, and statement-based changes.

use super::bytes::{Bytes, Decoded};

/// A query event, in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// The session that executed it.
    pub thread_id: u32,
    /// The session's default database.
    pub database: &'a [u8],
    /// The statement as the client sent it, in `client_charset`.
    pub sql: &'a [u8],
    /// The session's SQL mode bits; 0 when the log does not tell.
    pub sql_mode: u64,
    /// Collation number of the client's charset; 0 when the log does not tell.
    pub client_charset: u16,
    /// Microseconds to add to the header's second, where the log tells.
    pub micros: u32,
}

/// Reads a query event.
///
/// Shape: fixed fields, status variables, database and NUL, statement. A status variable that is not
/// known ends their reading (they do not tell their length), never the event.
pub fn read(body: &[u8]) -> Decoded<Query<'_>> {
    let mut b = Bytes::new(body);
    let thread_id = b.u32("the session")?;
    b.u32("the execution time")?;
    let database_bytes = usize::from(b.u8("the database's length")?);
    b.u16("the error code")?;
    let status_bytes = usize::from(b.u16("the status variables' length")?);
    let status = b.take(status_bytes, "the status variables")?;
    let database = b.take(database_bytes, "the database")?;
    b.u8("the database's end")?;
    let mut query = Query {
        thread_id,
        database,
        sql: b.rest(),
        sql_mode: 0,
        client_charset: 0,
        micros: 0,
    };
    // A damaged variable ends the reading as an unknown one does.
    let _ = read_status(&mut Bytes::new(status), &mut query);
    Ok(query)
}

fn read_status(b: &mut Bytes<'_>, query: &mut Query<'_>) -> Decoded<()> {
    let what = "a status variable";
    while !b.is_empty() {
        let fixed = match b.u8(what)? {
            0 => 4,
            1 => {
                query.sql_mode = b.u64(what)?;
                0
            }
            2 => {
                let count = usize::from(b.u8(what)?);
                count + 1
            }
            3 => 4,
            4 => {
                query.client_charset = b.u16(what)?;
                4
            }
            5 | 6 => usize::from(b.u8(what)?),
            7 | 8 | 18 => 2,
            9 | 17 | 129 => 8,
            10 => 4,
            11 => {
                let user = usize::from(b.u8(what)?);
                b.take(user, what)?;
                usize::from(b.u8(what)?)
            }
            12 => {
                let count = b.u8(what)?;
                if count < 254 {
                    for _ in 0..count {
                        b.until_nul(what)?;
                    }
                }
                0
            }
            13 | 128 => {
                query.micros = b.u24(what)?;
                0
            }
            16 | 19 | 20 => 1,
            _ => return Ok(()),
        };
        b.take(fixed, what)?;
    }
    Ok(())
}

/// What a statement in the log means for the transaction it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning<'a> {
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK of the whole transaction.
    Rollback,
    /// SAVEPOINT.
    Savepoint,
    /// ROLLBACK TO a savepoint.
    RollbackTo,
    /// XA START with its XID.
    XaStart(&'a str),
    /// XA END.
    XaEnd,
    /// XA COMMIT with its XID.
    XaCommit(&'a str),
    /// XA ROLLBACK with its XID.
    XaRollback(&'a str),
    /// INSERT, UPDATE, DELETE …: a statement-based change, whose rows the log does not hold.
    StatementBased,
    /// Anything else: DDL, account management.
    Other,
}

fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    let rest = &text[word.len()..];
    let ends = rest
        .chars()
        .next()
        .is_none_or(|c| !c.is_alphanumeric() && c != '_');
    (head.eq_ignore_ascii_case(word) && ends).then(|| rest.trim_start())
}

/// Skips white space and comments before a statement.
pub fn skip_comments(mut sql: &str) -> &str {
    loop {
        sql = sql.trim_start();
        // `/*!` and `/*M!` hold code, so they are no comments.
        let plain = sql.starts_with("/*") && !sql.starts_with("/*!") && !sql.starts_with("/*M!");
        let end = if plain {
            sql.find("*/").map(|at| at + 2)
        } else if sql.starts_with("-- ") || sql.starts_with('#') {
            Some(sql.find('\n').unwrap_or(sql.len()))
        } else {
            None
        };
        match end {
            Some(end) => sql = &sql[end..],
            None => return sql,
        }
    }
}

/// Without MariaDB's `SET STATEMENT variable = value, … FOR`: what is done under these settings.
pub fn without_settings(sql: &str) -> &str {
    let rest = strip_word(skip_comments(sql), "SET").and_then(|rest| strip_word(rest, "STATEMENT"));
    let Some(rest) = rest else { return sql };
    // Values are numbers, names and texts; a text that holds the word is not worth a grammar.
    let mut at = 0;
    while let Some(found) = rest[at..].find(|c: char| c.is_ascii_whitespace()) {
        at += found + 1;
        if let Some(done) = strip_word(&rest[at..], "FOR") {
            return done;
        }
    }
    sql
}

/// Classifies a statement.
pub fn meaning(sql: &str) -> Meaning<'_> {
    let sql = skip_comments(sql).trim_end_matches([';', ' ', '\n', '\0']);
    let is = |word: &str| strip_word(sql, word);
    if is("BEGIN").is_some_and(str::is_empty)
        || is("START").is_some_and(|r| strip_word(r, "TRANSACTION").is_some())
    {
        return Meaning::Begin;
    }
    if is("COMMIT").is_some() {
        return Meaning::Commit;
    }
    if let Some(rest) = is("ROLLBACK") {
        let rest = strip_word(rest, "WORK").unwrap_or(rest);
        return match strip_word(rest, "TO") {
            Some(_) => Meaning::RollbackTo,
            None => Meaning::Rollback,
        };
    }
    if is("SAVEPOINT").is_some() || is("RELEASE").is_some() {
        return Meaning::Savepoint;
    }
    if let Some(rest) = is("XA") {
        return xa(rest);
    }
    // A SELECT is logged where it calls a function that writes.
    let changes = [
        "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "SELECT",
    ];
    if changes.iter().any(|word| is(word).is_some()) {
        return Meaning::StatementBased;
    }
    Meaning::Other
}

fn xa(rest: &str) -> Meaning<'_> {
    let with_xid = |word| strip_word(rest, word);
    if let Some(xid) = with_xid("START").or_else(|| with_xid("BEGIN")) {
        Meaning::XaStart(xid)
    } else if with_xid("END").is_some() {
        Meaning::XaEnd
    } else if let Some(xid) = with_xid("COMMIT") {
        Meaning::XaCommit(xid)
    } else if let Some(xid) = with_xid("ROLLBACK") {
        Meaning::XaRollback(xid)
    } else {
        Meaning::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_apart() {
        assert_eq!(meaning("BEGIN"), Meaning::Begin);
        let under = "SET STATEMENT max_statement_time=1, sql_mode='' FOR UPDATE t SET a = 1";
        assert_eq!(without_settings(under), "UPDATE t SET a = 1");
        assert_eq!(without_settings("SET @a = 1"), "SET @a = 1");
        assert_eq!(meaning("SELECT shop.f(1)"), Meaning::StatementBased);
        assert_eq!(meaning("/* app */ rollback to `sp`"), Meaning::RollbackTo);
        assert_eq!(meaning("ROLLBACK"), Meaning::Rollback);
        assert_eq!(
            meaning("XA COMMIT X'61',X'',1"),
            Meaning::XaCommit("X'61',X'',1")
        );
        assert_eq!(meaning("insert into t values (1)"), Meaning::StatementBased);
        assert_eq!(meaning("CREATE TABLE begin_x (a INT)"), Meaning::Other);
        assert_eq!(meaning("BEGINNING"), Meaning::Other);
        assert_eq!(meaning("é"), Meaning::Other);
    }

    #[test]
    fn an_unknown_status_variable_does_not_stop_the_event() {
        let mut body = vec![9, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 12, 0];
        body.extend([1, 8, 0, 0, 0, 0, 0, 0, 0, 200, 7, 7]);
        body.extend(b"shop\0DROP TABLE t");
        let query = read(&body).unwrap();
        assert_eq!((query.thread_id, query.sql_mode), (9, 8));
        assert_eq!(query.database, b"shop");
        assert_eq!(query.sql, b"DROP TABLE t");
        for cut in 0..30 {
            assert!(read(&body[..cut.min(body.len())]).is_err() || cut >= 30);
        }
    }
}
