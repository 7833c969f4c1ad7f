//! The 19 bytes before every event, the event types, and the checksum after it.
//!
//! Source: MySQL manual "Binlog Event Header"; MariaDB knowledge base "Event Header".

use super::bytes::{Bytes, DecodeError, Decoded};

/// Bytes of an event's header.
pub const HEADER_BYTES: usize = 19;
/// Bytes of a CRC32.
pub const CRC_BYTES: usize = 4;

/// The header flag of an event that may be skipped by who does not know its type.
pub const FLAG_IGNORABLE: u16 = 0x80;
/// The header flag of an event that is not in the file (made by the server while sending).
pub const FLAG_ARTIFICIAL: u16 = 0x20;
/// The header flag of a format description whose file is still written to.
pub const FLAG_IN_USE: u16 = 0x1;

/// Event types, by their number in the log.
#[allow(missing_docs)]
pub mod kind {
    pub const START_V3: u8 = 1;
    pub const QUERY: u8 = 2;
    pub const STOP: u8 = 3;
    pub const ROTATE: u8 = 4;
    pub const INTVAR: u8 = 5;
    pub const SLAVE: u8 = 7;
    pub const APPEND_BLOCK: u8 = 9;
    pub const DELETE_FILE: u8 = 11;
    pub const RAND: u8 = 13;
    pub const USER_VAR: u8 = 14;
    pub const FORMAT_DESCRIPTION: u8 = 15;
    pub const XID: u8 = 16;
    pub const BEGIN_LOAD_QUERY: u8 = 17;
    pub const EXECUTE_LOAD_QUERY: u8 = 18;
    pub const TABLE_MAP: u8 = 19;
    pub const WRITE_ROWS_V1: u8 = 23;
    pub const UPDATE_ROWS_V1: u8 = 24;
    pub const DELETE_ROWS_V1: u8 = 25;
    pub const INCIDENT: u8 = 26;
    pub const HEARTBEAT: u8 = 27;
    pub const IGNORABLE: u8 = 28;
    pub const ROWS_QUERY: u8 = 29;
    pub const WRITE_ROWS: u8 = 30;
    pub const UPDATE_ROWS: u8 = 31;
    pub const DELETE_ROWS: u8 = 32;
    pub const GTID: u8 = 33;
    pub const ANONYMOUS_GTID: u8 = 34;
    pub const PREVIOUS_GTIDS: u8 = 35;
    pub const TRANSACTION_CONTEXT: u8 = 36;
    pub const VIEW_CHANGE: u8 = 37;
    pub const XA_PREPARE: u8 = 38;
    pub const PARTIAL_UPDATE_ROWS: u8 = 39;
    pub const TRANSACTION_PAYLOAD: u8 = 40;
    pub const HEARTBEAT_V2: u8 = 41;
    pub const GTID_TAGGED: u8 = 42;
    pub const MARIADB_ANNOTATE_ROWS: u8 = 160;
    pub const MARIADB_CHECKPOINT: u8 = 161;
    pub const MARIADB_GTID: u8 = 162;
    pub const MARIADB_GTID_LIST: u8 = 163;
    pub const MARIADB_START_ENCRYPTION: u8 = 164;
    pub const MARIADB_QUERY_COMPRESSED: u8 = 165;
    pub const MARIADB_WRITE_ROWS_COMPRESSED_V1: u8 = 166;
    pub const MARIADB_UPDATE_ROWS_COMPRESSED_V1: u8 = 167;
    pub const MARIADB_DELETE_ROWS_COMPRESSED_V1: u8 = 168;
    pub const MARIADB_WRITE_ROWS_COMPRESSED: u8 = 169;
    pub const MARIADB_UPDATE_ROWS_COMPRESSED: u8 = 170;
    pub const MARIADB_DELETE_ROWS_COMPRESSED: u8 = 171;
    /// MariaDB 12's row event in pieces; not understood, so it stops the stream.
    pub const MARIADB_PARTIAL_ROW_DATA: u8 = 172;
}

/// An event's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventHeader {
    /// Seconds since the epoch when the statement began.
    pub time_s: u32,
    /// Its type, see [`kind`].
    pub kind: u8,
    /// The server that first wrote it.
    pub server_id: u32,
    /// Bytes of the whole event, with header and checksum.
    pub event_bytes: u32,
    /// Offset after it in its file, modulo 2^32; 0 for an artificial event.
    pub end_offset: u32,
    /// See the flag constants.
    pub flags: u16,
}

impl EventHeader {
    /// Reads the header off the start of an event.
    #[inline]
    pub fn read(event: &[u8]) -> Decoded<Self> {
        let mut b = Bytes::new(match event.first_chunk::<HEADER_BYTES>() {
            Some(header) => header,
            None => event,
        });
        Ok(Self {
            time_s: b.u32("the event's time")?,
            kind: b.u8("the event's type")?,
            server_id: b.u32("the event's server id")?,
            event_bytes: b.u32("the event's size")?,
            end_offset: b.u32("the event's end")?,
            flags: b.u16("the event's flags")?,
        })
    }

    /// Whether the server made it while sending.
    pub fn is_artificial(&self) -> bool {
        self.flags & FLAG_ARTIFICIAL != 0 || self.end_offset == 0
    }
}

/// Whether a log has a CRC32 after every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// No checksums.
    #[default]
    Off,
    /// CRC32 of everything before it.
    Crc32,
}

/// Takes the checksum off an event and compares it; returns the event without it.
///
/// Errors: [`DecodeError::Checksum`].
#[inline]
pub fn verify(event: &[u8], checksum: Checksum) -> Decoded<&[u8]> {
    if checksum == Checksum::Off {
        return Ok(event);
    }
    let Some(split) = event
        .len()
        .checked_sub(CRC_BYTES)
        .filter(|n| *n >= HEADER_BYTES)
    else {
        return Err(DecodeError::Damaged {
            what: "the checksum",
            offset: event.len(),
        });
    };
    let (body, crc) = event.split_at(split);
    let stored = u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]);
    let computed = crc_of(body);
    if stored == computed {
        Ok(body)
    } else {
        Err(DecodeError::Checksum { stored, computed })
    }
}

/// CRC32 of an event; the in-use flag of a format description counts as unset, because the server
/// sets it in place.
fn crc_of(body: &[u8]) -> u32 {
    if body[4] != kind::FORMAT_DESCRIPTION || body[17] & FLAG_IN_USE as u8 == 0 {
        return crc32fast::hash(body);
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&body[..17]);
    hasher.update(&[body[17] & !(FLAG_IN_USE as u8)]);
    hasher.update(&body[18..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_caught() {
        let mut event = vec![7u8; 40];
        let crc = crc32fast::hash(&event);
        event.extend_from_slice(&crc.to_le_bytes());
        assert_eq!(verify(&event, Checksum::Crc32).unwrap().len(), 40);
        event[21] ^= 4;
        assert!(verify(&event, Checksum::Crc32).is_err());
        assert!(verify(&event[..20], Checksum::Crc32).is_err());
        assert_eq!(verify(&event, Checksum::Off).unwrap().len(), 44);
    }
}
