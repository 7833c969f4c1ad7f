//! Where a source's own log stands.
//!
//! A full [`Position`] is kept rarely (it may hold a large GTID set); every transaction carries a
//! small [`PositionStep`], and the full position is the last kept one with the later steps applied.

use crate::gtid::{Gtid, GtidError, GtidSet, GtidSource, MariadbGtid, MariadbGtidSet};
use crate::wire::{WireError, WireReader, put_bytes, put_u64};
use std::fmt;

/// The executed transactions of a source, as far as it numbers them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Gtids {
    /// The source gives out no GTIDs.
    #[default]
    None,
    /// A MySQL GTID set.
    Mysql(GtidSet),
    /// MariaDB's last GTID per domain.
    Mariadb(MariadbGtidSet),
}

/// One transaction's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionId {
    /// MySQL.
    Mysql(Gtid),
    /// MariaDB.
    Mariadb(MariadbGtid),
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransactionId::Mysql(gtid) => gtid.fmt(f),
            TransactionId::Mariadb(gtid) => gtid.fmt(f),
        }
    }
}

/// A place in a MySQL or MariaDB binlog from which reading can go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// Binlog file name as the server names it.
    pub file: String,
    /// Offset of the next event in that file.
    pub offset: u64,
    /// Everything executed up to here.
    pub gtids: Gtids,
}

/// How one transaction moves the position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PositionStep {
    /// Binlog file name.
    pub file: String,
    /// Offset after the transaction's last event.
    pub offset: u64,
    /// The transaction's own id.
    pub id: Option<TransactionId>,
}

/// The number after the last dot of a binlog file name: `bin.1000000` comes after `bin.999999`.
pub fn file_number(file: &str) -> u64 {
    file.rsplit('.')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

impl Position {
    /// Moves past one transaction.
    pub fn advance(&mut self, step: &PositionStep) {
        if self.file != step.file {
            self.file.clear();
            self.file.push_str(&step.file);
        }
        self.offset = step.offset;
        match (&mut self.gtids, &step.id) {
            (Gtids::Mysql(set), Some(TransactionId::Mysql(gtid))) => set.add(gtid),
            (Gtids::Mariadb(set), Some(TransactionId::Mariadb(gtid))) => set.add(*gtid),
            (gtids @ Gtids::None, Some(TransactionId::Mysql(gtid))) => {
                let mut set = GtidSet::default();
                set.add(gtid);
                *gtids = Gtids::Mysql(set);
            }
            (gtids @ Gtids::None, Some(TransactionId::Mariadb(gtid))) => {
                let mut set = MariadbGtidSet::default();
                set.add(*gtid);
                *gtids = Gtids::Mariadb(set);
            }
            _ => {}
        }
    }

    /// The file's number and the offset: comparable within one server.
    pub fn place(&self) -> (u64, u64) {
        (file_number(&self.file), self.offset)
    }

    /// Stored form; see [`Position::decode`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.file.as_bytes());
        put_u64(out, self.offset);
        match &self.gtids {
            Gtids::None => out.push(0),
            Gtids::Mysql(set) => {
                out.push(1);
                put_bytes(out, set.to_string().as_bytes());
            }
            Gtids::Mariadb(set) => {
                out.push(2);
                put_bytes(out, set.to_string().as_bytes());
            }
        }
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(bytes);
        let file = reader.text()?.to_owned();
        let offset = reader.u64()?;
        let at = reader.offset();
        let bad = |_: GtidError| WireError {
            offset: at,
            what: "a GTID set",
        };
        let gtids = match reader.u8()? {
            0 => Gtids::None,
            1 => Gtids::Mysql(reader.text()?.parse().map_err(bad)?),
            2 => Gtids::Mariadb(reader.text()?.parse().map_err(bad)?),
            _ => {
                return Err(WireError {
                    offset: at,
                    what: "a known kind of GTID set",
                });
            }
        };
        Ok(Self {
            file,
            offset,
            gtids,
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)?;
        match &self.gtids {
            Gtids::None => Ok(()),
            Gtids::Mysql(set) => write!(f, " gtid {set}"),
            Gtids::Mariadb(set) => write!(f, " gtid {set}"),
        }
    }
}

impl PositionStep {
    /// Stored form; see [`PositionStep::decode`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.file.as_bytes());
        put_u64(out, self.offset);
        put_transaction_id(out, self.id.as_ref());
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(bytes);
        let file = reader.text()?.to_owned();
        let offset = reader.u64()?;
        Ok(Self {
            file,
            offset,
            id: read_transaction_id(&mut reader)?,
        })
    }
}

/// Appends an optional transaction id.
pub fn put_transaction_id(out: &mut Vec<u8>, id: Option<&TransactionId>) {
    match id {
        None => out.push(0),
        Some(TransactionId::Mysql(gtid)) => {
            out.push(1);
            out.extend_from_slice(&gtid.source.uuid);
            put_bytes(out, gtid.source.tag.as_bytes());
            put_u64(out, gtid.number);
        }
        Some(TransactionId::Mariadb(gtid)) => {
            out.push(2);
            put_u64(out, u64::from(gtid.domain));
            put_u64(out, u64::from(gtid.server));
            put_u64(out, gtid.number);
        }
    }
}

/// Reads what [`put_transaction_id`] wrote.
pub fn read_transaction_id(
    reader: &mut WireReader<'_>,
) -> Result<Option<TransactionId>, WireError> {
    let offset = reader.offset();
    Ok(match reader.u8()? {
        0 => None,
        1 => {
            let uuid = reader.array()?;
            let tag = reader.text()?.to_owned();
            let number = reader.u64()?;
            Some(TransactionId::Mysql(Gtid {
                source: GtidSource { uuid, tag },
                number,
            }))
        }
        2 => Some(TransactionId::Mariadb(MariadbGtid {
            domain: reader.u32()?,
            server: reader.u32()?,
            number: reader.u64()?,
        })),
        _ => {
            return Err(WireError {
                offset,
                what: "a known kind of transaction id",
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_with_steps_applied_comes_back_from_its_stored_form() {
        let mut position = Position {
            file: "bin.999999".into(),
            offset: 4,
            gtids: Gtids::Mysql("0e4b2c6a-aaaa-11ee-8c90-0242ac120002:1-5".parse().unwrap()),
        };
        let step = PositionStep {
            file: "bin.1000000".into(),
            offset: 5_000_000_000,
            id: Some(TransactionId::Mysql(
                "0e4b2c6a-aaaa-11ee-8c90-0242ac120002:6".parse().unwrap(),
            )),
        };
        let before = position.place();
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        position.advance(&PositionStep::decode(&bytes).unwrap());
        assert!(position.place() > before);
        bytes.clear();
        position.encode(&mut bytes);
        assert_eq!(Position::decode(&bytes).unwrap(), position);
        assert!(position.to_string().ends_with(":1-6"));
    }
}
