//! The event that opens a transaction: GTID, anonymous, tagged, and MariaDB's.

use super::bytes::{Bytes, Decoded};
use change::gtid::GtidSource;
use change::{Gtid, MariadbGtid};

/// What MySQL's opening event tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MysqlGtid {
    /// The id; none for an anonymous transaction.
    pub id: Option<Gtid>,
    /// Commit time on the server that first executed it, microseconds; 0 when the log is older.
    pub original_commit_us: u64,
    /// Commit time on the server that wrote this log, microseconds; 0 when the log is older.
    pub immediate_commit_us: u64,
}

/// What MariaDB's opening event tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MariadbOpening {
    /// Domain and number; the server is the header's.
    pub id: MariadbGtid,
    /// One event follows that is its own transaction (DDL).
    pub standalone: bool,
    /// The rows that follow belong to a prepared XA transaction.
    pub prepared_xa: bool,
    /// This ends a prepared XA transaction.
    pub completed_xa: bool,
    /// The XID of the prepared transaction as `X'..',X'..',n`; empty for none.
    pub xid: String,
}

const ENCODED_FLAG_COMMIT_ORIGINAL: u64 = 1 << 55;

/// Reads a GTID or anonymous event.
///
/// Source: MySQL source, libbinlogevents control_events, Gtid_event.
pub fn read_mysql(body: &[u8], anonymous: bool) -> Decoded<MysqlGtid> {
    let mut b = Bytes::new(body);
    b.u8("the GTID's flags")?;
    let uuid = b.array("the GTID's UUID")?;
    let number = b.u64("the GTID's number")?;
    let mut opening = MysqlGtid {
        id: (!anonymous).then(|| Gtid {
            source: GtidSource {
                uuid,
                tag: String::new(),
            },
            number,
        }),
        original_commit_us: 0,
        immediate_commit_us: 0,
    };
    // A type code of 2 announces the two logical timestamps; the commit times come after them.
    if b.rest().first() == Some(&2) && b.rest().len() >= 1 + 16 + 7 {
        b.take(17, "the logical timestamps")?;
        let coded = b.u56("the commit time")?;
        opening.immediate_commit_us = coded & !ENCODED_FLAG_COMMIT_ORIGINAL;
        opening.original_commit_us = if coded & ENCODED_FLAG_COMMIT_ORIGINAL != 0 {
            b.u56("the original commit time")?
        } else {
            opening.immediate_commit_us
        };
    }
    Ok(opening)
}

/// Reads MySQL's variable-length integer: the count of low one-bits in the first byte is the count
/// of bytes that follow it.
pub fn read_varlen(b: &mut Bytes<'_>) -> Decoded<u64> {
    let what = "a variable-length number";
    let first = b.u8(what)?;
    let more = first.trailing_ones() as usize;
    let low = u64::from(first);
    Ok(match more {
        0..=6 => {
            let high = b.uint(more, what)?;
            low >> (more + 1) | high << (7 - more)
        }
        7 => b.u56(what)?,
        _ => b.u64(what)?,
    })
}

fn read_varlen_signed(b: &mut Bytes<'_>) -> Decoded<i64> {
    let coded = read_varlen(b)?;
    Ok((coded >> 1) as i64 ^ -((coded & 1) as i64))
}

/// Reads a tagged GTID event: MySQL's self-describing serialisation.
///
/// Shape: version, size, last non-ignorable field id, then fields as (id, value), all numbers
/// variable-length. Ids: 0 flags, 1 UUID (16 numbers), 2 number, 3 tag, 4 and 5 logical timestamps,
/// 6 immediate and 7 original commit time, 8 transaction length, 9 and 10 server versions, 11 commit
/// group ticket.
pub fn read_mysql_tagged(body: &[u8]) -> Decoded<MysqlGtid> {
    let mut b = Bytes::new(body);
    if read_varlen(&mut b)? != 1 {
        return b.fail("version 1 of the GTID's serialisation");
    }
    read_varlen(&mut b)?;
    read_varlen(&mut b)?;
    let (mut uuid, mut tag, mut number) = ([0u8; 16], String::new(), 0);
    let (mut immediate, mut original) = (0, None);
    while !b.is_empty() {
        match read_varlen(&mut b)? {
            1 => {
                for byte in &mut uuid {
                    *byte = read_varlen(&mut b)? as u8;
                }
            }
            2 => number = read_varlen_signed(&mut b)?,
            3 => tag = read_tag(&mut b)?,
            4 | 5 => {
                read_varlen_signed(&mut b)?;
            }
            6 => immediate = read_varlen(&mut b)?,
            7 => original = Some(read_varlen(&mut b)?),
            0 | 8..=11 => {
                read_varlen(&mut b)?;
            }
            // Later fields are ignorable; they say nothing that is needed here.
            _ => break,
        }
    }
    if number <= 0 {
        return b.fail("the GTID's number");
    }
    Ok(MysqlGtid {
        id: Some(Gtid {
            source: GtidSource { uuid, tag },
            number: number as u64,
        }),
        immediate_commit_us: immediate,
        original_commit_us: original.unwrap_or(immediate),
    })
}

fn read_tag(b: &mut Bytes<'_>) -> Decoded<String> {
    let count = read_varlen(b)?;
    if count > 32 {
        return b.fail("a GTID's tag");
    }
    let bytes = b.take(count as usize, "a GTID's tag")?;
    match std::str::from_utf8(bytes) {
        Ok(tag) => Ok(tag.to_owned()),
        Err(_) => b.fail("a GTID's tag"),
    }
}

const MARIADB_STANDALONE: u8 = 1;
const MARIADB_GROUP_COMMIT: u8 = 2;
const MARIADB_PREPARED_XA: u8 = 64;
const MARIADB_COMPLETED_XA: u8 = 128;

/// Reads MariaDB's GTID event.
pub fn read_mariadb(body: &[u8], server: u32) -> Decoded<MariadbOpening> {
    let mut b = Bytes::new(body);
    let number = b.u64("the GTID's number")?;
    let domain = b.u32("the GTID's domain")?;
    let flags = b.u8("the GTID's flags")?;
    let mut xid = String::new();
    if flags & MARIADB_GROUP_COMMIT != 0 {
        b.u64("the commit group")?;
    }
    if flags & (MARIADB_PREPARED_XA | MARIADB_COMPLETED_XA) != 0 {
        let format = b.u32("the XID's format")?;
        let gtrid = usize::from(b.u8("the XID's length")?);
        let bqual = usize::from(b.u8("the XID's length")?);
        let data = b.take(gtrid + bqual, "the XID")?;
        xid = xid_text(&data[..gtrid], &data[gtrid..], format);
    }
    Ok(MariadbOpening {
        id: MariadbGtid {
            domain,
            server,
            number,
        },
        standalone: flags & MARIADB_STANDALONE != 0,
        prepared_xa: flags & MARIADB_PREPARED_XA != 0,
        completed_xa: flags & MARIADB_COMPLETED_XA != 0,
        xid,
    })
}

/// An XID as both servers write it in statements: `X'67',X'62',1`.
pub fn xid_text(gtrid: &[u8], bqual: &[u8], format: u32) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    format!("X'{}',X'{}',{format}", hex(gtrid), hex(bqual))
}

/// An XA prepare event's XID, and whether it is `COMMIT ONE PHASE` (then it is the commit).
pub fn read_xa_prepare(body: &[u8]) -> Decoded<(bool, String)> {
    let mut b = Bytes::new(body);
    let one_phase = b.u8("the one-phase flag")? != 0;
    let format = b.u32("the XID's format")?;
    let gtrid = b.u32("the XID's length")? as usize;
    let bqual = b.u32("the XID's length")? as usize;
    if gtrid > 64 || bqual > 64 {
        return b.fail("an XID of at most 128 bytes");
    }
    let data = b.take(gtrid + bqual, "the XID")?;
    Ok((one_phase, xid_text(&data[..gtrid], &data[gtrid..], format)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_length_numbers_of_every_width() {
        assert_eq!(read_varlen(&mut Bytes::new(&[0b1010])).unwrap(), 5);
        // One following byte: 14 bits.
        let coded = 300u16 << 2 | 1;
        assert_eq!(
            read_varlen(&mut Bytes::new(&coded.to_le_bytes())).unwrap(),
            300
        );
        let mut nine = vec![0xff];
        nine.extend(u64::MAX.to_le_bytes());
        assert_eq!(read_varlen(&mut Bytes::new(&nine)).unwrap(), u64::MAX);
    }

    #[test]
    fn commit_times_come_in_two_forms() {
        let mut body = vec![0];
        body.extend([1; 16]);
        body.extend(7u64.to_le_bytes());
        body.push(2);
        body.extend([0; 16]);
        let time = 1_700_000_000_000_000u64;
        body.extend(&(time | ENCODED_FLAG_COMMIT_ORIGINAL).to_le_bytes()[..7]);
        body.extend(&(time - 5).to_le_bytes()[..7]);
        let opening = read_mysql(&body, false).unwrap();
        assert_eq!(opening.immediate_commit_us, time);
        assert_eq!(opening.original_commit_us, time - 5);
        assert_eq!(opening.id.unwrap().number, 7);
        assert!(read_mysql(&body, true).unwrap().id.is_none());
    }
}
