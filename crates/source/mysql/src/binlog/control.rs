//! Events about the log itself: format description, rotate, heartbeat, incident, previous GTIDs.

use super::bytes::{Bytes, DecodeError, Decoded};
use super::header::Checksum;
use change::gtid::GtidSource;
use change::{GtidSet, MariadbGtid, MariadbGtidSet};

/// What a format description says about the events after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatDescription {
    /// The server's version: `9.7.4`, `10.11.19-MariaDB-log`.
    pub server_version: String,
    /// Whether MariaDB wrote it.
    pub mariadb: bool,
    /// When the server that wrote it started, seconds; 0 unless its first file.
    pub created_s: u32,
    /// Checksums of all events of the file.
    pub checksum: Checksum,
}

impl FormatDescription {
    /// Reads the body; the last four bytes are a checksum in any case and are not in `body`.
    ///
    /// Source: MySQL manual, Format_description_event version 4.
    pub fn read(body: &[u8]) -> Decoded<Self> {
        let mut b = Bytes::new(body);
        let version = b.u16("the log's version")?;
        if version != 4 {
            return Err(DecodeError::Unsupported(format!(
                "binlog version {version} is not 4"
            )));
        }
        let name = b.take(50, "the server's version")?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let server_version = String::from_utf8_lossy(name).into_owned();
        let created_s = b.u32("the creation time")?;
        if b.u8("the header's length")? != super::header::HEADER_BYTES as u8 {
            return Err(DecodeError::Unsupported(
                "event headers are not 19 bytes".into(),
            ));
        }
        let checksum = match b.rest().last() {
            Some(0) => Checksum::Off,
            Some(1) => Checksum::Crc32,
            Some(other) => {
                return Err(DecodeError::Unsupported(format!(
                    "checksum algorithm {other}"
                )));
            }
            None => return b.fail("the checksum algorithm"),
        };
        Ok(Self {
            mariadb: server_version.contains("MariaDB") || server_version.contains("mariadb"),
            server_version,
            created_s,
            checksum,
        })
    }
}

/// A rotate event's target: file name and offset of its first event.
pub fn read_rotate(body: &[u8]) -> Decoded<(&str, u64)> {
    let mut b = Bytes::new(body);
    let offset = b.u64("the next file's offset")?;
    match std::str::from_utf8(b.rest()) {
        Ok(name) if !name.is_empty() => Ok((name.trim_end_matches('\0'), offset)),
        _ => b.fail("the next file's name"),
    }
}

/// A heartbeat's place: file name and offset, where it tells them.
///
/// Shape: version 1 carries only the file name (its offset is the header's end); version 2 carries
/// tagged fields.
pub fn read_heartbeat(body: &[u8], v2: bool, end_offset: u32) -> Decoded<(&str, u64)> {
    let text = |b: &Bytes<'_>, bytes| match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => b.fail("the heartbeat's file name"),
    };
    let mut b = Bytes::new(body);
    if !v2 {
        return Ok((text(&b, body)?, u64::from(end_offset)));
    }
    let (mut name, mut offset) = ("", 0);
    while !b.is_empty() {
        match b.u8("the heartbeat's field")? {
            0 => break,
            1 => {
                let bytes = b.lenenc_bytes("the heartbeat's file name")?;
                name = text(&b, bytes)?;
            }
            2 => {
                let mut field = Bytes::new(b.lenenc_bytes("the heartbeat's offset")?);
                offset = field.lenenc("the heartbeat's offset")?;
            }
            _ => {
                b.lenenc_bytes("a heartbeat's field")?;
            }
        }
    }
    Ok((name, offset))
}

/// An incident's text.
pub fn read_incident(body: &[u8]) -> Decoded<String> {
    let mut b = Bytes::new(body);
    let number = b.u16("the incident's number")?;
    let count = usize::from(b.u8("the incident's text")?);
    let text = String::from_utf8_lossy(b.take(count, "the incident's text")?).into_owned();
    Ok(format!("{number} {text}"))
}

/// The GTIDs of all earlier files.
///
/// Shape: a count of sources, then per source UUID, (tag,) count of intervals, half-open intervals.
/// The tagged form (8.3+) marks itself by its first and last byte being 1 and keeps the count in
/// between.
pub fn read_previous_gtids(body: &[u8]) -> Decoded<GtidSet> {
    let mut b = Bytes::new(body);
    let head = b.u64("the count of sources")?;
    let tagged = head >> 56 == 1 && head & 0xff == 1;
    let sources = if tagged { head << 8 >> 16 } else { head };
    let mut set = GtidSet::default();
    for _ in 0..sources {
        let uuid = b.array("a source's UUID")?;
        let tag = if tagged {
            read_tag(&mut b)?
        } else {
            String::new()
        };
        let source = GtidSource { uuid, tag };
        for _ in 0..b.u64("the count of intervals")? {
            let from = b.u64("an interval's start")?;
            let to = b.u64("an interval's end")?;
            set.add_interval(source.clone(), from, to);
        }
    }
    Ok(set)
}

fn read_tag(b: &mut Bytes<'_>) -> Decoded<String> {
    // The length is in the variable-length code of the serialisation library.
    let count = super::gtid::read_varlen(b)? as usize;
    let bytes = b.take(count.min(33), "a GTID's tag")?;
    match std::str::from_utf8(bytes) {
        Ok(tag) if count <= 32 => Ok(tag.to_owned()),
        _ => b.fail("a GTID's tag"),
    }
}

/// MariaDB's list of the last GTIDs per domain (and server) of all earlier files.
pub fn read_mariadb_gtid_list(body: &[u8]) -> Decoded<MariadbGtidSet> {
    let mut b = Bytes::new(body);
    let count = b.u32("the count of GTIDs")? & 0x0fff_ffff;
    let mut set = MariadbGtidSet::default();
    for _ in 0..count {
        // The last entry of a domain is the one that counts.
        set.add(MariadbGtid {
            domain: b.u32("a domain")?,
            server: b.u32("a server id")?,
            number: b.u64("a sequence number")?,
        });
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previous_gtids_read_both_forms() {
        let mut plain = 1u64.to_le_bytes().to_vec();
        plain.extend([0xaa; 16]);
        plain.extend(1u64.to_le_bytes());
        plain.extend(1u64.to_le_bytes());
        plain.extend(6u64.to_le_bytes());
        let set = read_previous_gtids(&plain).unwrap();
        assert_eq!(set.count(), 5);
        for cut in 0..plain.len() {
            assert!(read_previous_gtids(&plain[..cut]).is_err());
        }
    }

    #[test]
    fn a_rotate_names_its_file() {
        let mut body = 4u64.to_le_bytes().to_vec();
        body.extend(b"bin.000002");
        assert_eq!(read_rotate(&body), Ok(("bin.000002", 4)));
        assert!(read_rotate(&body[..8]).is_err());
    }
}
