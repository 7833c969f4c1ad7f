//! Reading the log: registering as a replica and the stream of events.

use super::connection::Connection;
use super::error::WireFailure;
use super::handshake::server_error;
use super::transport::is_timeout;
use crate::binlog::header::Checksum;
use change::GtidSet;
use std::time::{Duration, Instant};

const REGISTER_SLAVE: u8 = 0x15;
const BINLOG_DUMP: u8 = 0x12;
const BINLOG_DUMP_GTID: u8 = 0x1e;
/// The flag that says GTIDs follow.
const THROUGH_GTID: u16 = 4;

/// Where the stream starts.
#[derive(Debug, Clone, PartialEq)]
pub enum DumpStart {
    /// At an offset of a file.
    Place {
        /// File name.
        file: String,
        /// Offset.
        offset: u64,
    },
    /// After a set of MySQL transactions.
    Mysql(GtidSet),
    /// After MariaDB's last GTID of each domain.
    Mariadb(String),
}

/// A stream of events.
#[derive(Debug)]
pub struct Dump {
    connection: Connection,
    /// Checksums as the server says, until the first format description.
    pub checksum: Checksum,
    last_bytes: Instant,
    silence_max: Duration,
}

impl Dump {
    /// Registers under `server_id` and starts the stream. Never as a semi-synchronous replica.
    pub fn start(
        mut connection: Connection,
        server_id: u32,
        heartbeat: Duration,
        start: &DumpStart,
    ) -> Result<Self, WireFailure> {
        let checksum = connection.text("SELECT @@global.binlog_checksum")?;
        let checksum = match checksum.as_deref() {
            Some("CRC32") => Checksum::Crc32,
            _ => Checksum::Off,
        };
        let nanos = heartbeat.as_nanos();
        connection.execute(
            "SET @master_binlog_checksum = @@global.binlog_checksum, \
             @source_binlog_checksum = @@global.binlog_checksum",
        )?;
        connection.execute(&format!(
            "SET @master_heartbeat_period = {nanos}, @source_heartbeat_period = {nanos}"
        ))?;
        let uuid = format!("4865adbe-0000-4000-8000-{server_id:012x}");
        connection.execute(&format!(
            "SET @slave_uuid = '{uuid}', @replica_uuid = '{uuid}'"
        ))?;
        // The server gives up a stream that cannot be written to for this long.
        connection.execute("SET SESSION net_write_timeout = 600")?;
        if connection.mariadb {
            connection.execute("SET @mariadb_slave_capability = 4")?;
            if let DumpStart::Mariadb(state) = start {
                connection.execute(&format!("SET @slave_connect_state = '{state}'"))?;
                connection.execute("SET @slave_gtid_strict_mode = 1")?;
                connection.execute("SET @slave_gtid_ignore_duplicates = 0")?;
            }
        }
        register(&mut connection, server_id)?;
        let message = dump_message(server_id, start);
        connection.transport.send(true, &message)?;
        connection.transport.enlarge();
        Ok(Self {
            connection,
            checksum,
            last_bytes: Instant::now(),
            silence_max: heartbeat * 3 + Duration::from_secs(10),
        })
    }

    /// The next event if it is here already.
    #[inline]
    pub fn buffered(&mut self) -> Result<Option<&[u8]>, WireFailure> {
        match self.connection.transport.buffered() {
            None => Ok(None),
            Some([0, event @ ..]) => Ok(Some(event)),
            Some(other) => Err(end_of_stream(other)),
        }
    }

    /// Reads once from the socket, for at most `wait`; `false` if nothing came.
    ///
    /// Errors: an I/O error also when the server has not even sent a heartbeat for three periods:
    /// bytes count, not events, so that a long search for a GTID is not taken for death.
    pub fn fill(&mut self, wait: Duration) -> Result<bool, WireFailure> {
        self.connection.transport.set_timeout(Some(wait))?;
        match self.connection.transport.fill() {
            Ok(()) => {
                self.last_bytes = Instant::now();
                Ok(true)
            }
            Err(failure) if is_timeout(&failure) => {
                if self.last_bytes.elapsed() > self.silence_max {
                    return Err(WireFailure::Io(std::io::Error::new(
                        std::io::ErrorKind::TimedOut,
                        "the server is silent, not even a heartbeat came",
                    )));
                }
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Bytes received on this connection.
    pub fn bytes_received(&self) -> u64 {
        self.connection.transport.bytes_received
    }

    /// Bytes of the last read.
    pub fn last_read_bytes(&self) -> usize {
        self.connection.transport.last_read_bytes
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        self.connection.shutdown();
    }
}

fn end_of_stream(message: &[u8]) -> WireFailure {
    match message.first() {
        Some(0xff) => server_error(message),
        Some(0xfe) => WireFailure::Io(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "the server ended the stream",
        )),
        _ => WireFailure::Protocol("something that is no event"),
    }
}

fn register(connection: &mut Connection, server_id: u32) -> Result<(), WireFailure> {
    let mut message = vec![REGISTER_SLAVE];
    message.extend_from_slice(&server_id.to_le_bytes());
    // Host, user and password to show: all empty.
    message.extend_from_slice(&[0, 0, 0]);
    message.extend_from_slice(&[0; 2 + 4 + 4]);
    connection.transport.send(true, &message)?;
    let reply = connection.transport.receive()?;
    match reply.first() {
        Some(0) => Ok(()),
        Some(0xff) => Err(server_error(reply)),
        _ => Err(WireFailure::Protocol("no answer to the registration")),
    }
}

fn dump_message(server_id: u32, start: &DumpStart) -> Vec<u8> {
    match start {
        DumpStart::Place { file, offset } => {
            let mut message = vec![BINLOG_DUMP];
            message.extend_from_slice(&(*offset as u32).to_le_bytes());
            message.extend_from_slice(&0u16.to_le_bytes());
            message.extend_from_slice(&server_id.to_le_bytes());
            message.extend_from_slice(file.as_bytes());
            message
        }
        DumpStart::Mariadb(_) => {
            let mut message = vec![BINLOG_DUMP];
            message.extend_from_slice(&4u32.to_le_bytes());
            message.extend_from_slice(&0u16.to_le_bytes());
            message.extend_from_slice(&server_id.to_le_bytes());
            message
        }
        DumpStart::Mysql(set) => {
            let data = encode_gtids(set);
            let mut message = vec![BINLOG_DUMP_GTID];
            message.extend_from_slice(&THROUGH_GTID.to_le_bytes());
            message.extend_from_slice(&server_id.to_le_bytes());
            message.extend_from_slice(&0u32.to_le_bytes());
            message.extend_from_slice(&4u64.to_le_bytes());
            message.extend_from_slice(&(data.len() as u32).to_le_bytes());
            message.extend_from_slice(&data);
            message
        }
    }
}

/// The set as the server stores it; the tagged form only where there are tags.
fn encode_gtids(set: &GtidSet) -> Vec<u8> {
    let tagged = set.iter().any(|(source, _)| !source.tag.is_empty());
    let count = set.iter().len() as u64;
    let head = if tagged {
        1 << 56 | count << 8 | 1
    } else {
        count
    };
    let mut data = head.to_le_bytes().to_vec();
    for (source, intervals) in set.iter() {
        data.extend_from_slice(&source.uuid);
        if tagged {
            // A variable-length number below 128 is twice itself in one byte.
            data.push((source.tag.len() as u8) << 1);
            data.extend_from_slice(source.tag.as_bytes());
        }
        data.extend_from_slice(&(intervals.len() as u64).to_le_bytes());
        for (from, to) in intervals {
            data.extend_from_slice(&from.to_le_bytes());
            data.extend_from_slice(&to.to_le_bytes());
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binlog::control::read_previous_gtids;

    #[test]
    fn gtid_sets_are_written_as_they_are_read() {
        for text in [
            "0e4b2c6a-aaaa-11ee-8c90-0242ac120002:1-5:7",
            "0e4b2c6a-aaaa-11ee-8c90-0242ac120002:1-5:aux:1-2",
        ] {
            let set: GtidSet = text.parse().unwrap();
            assert_eq!(read_previous_gtids(&encode_gtids(&set)).unwrap(), set);
        }
    }
}
