//! Packets over a socket, parsed in place in one large buffer.

use super::error::WireFailure;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Bytes read from the socket at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes of a packet at which another follows.
const PACKET_BYTES_MAX: usize = 0xff_ffff;

/// A socket whose reads are buffered, for TLS to stand on.
pub struct BufferedSocket {
    reader: BufReader<TcpStream>,
}

impl BufferedSocket {
    pub fn new(socket: TcpStream) -> Self {
        Self {
            reader: BufReader::with_capacity(256 << 10, socket),
        }
    }
}

impl Read for BufferedSocket {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(to)
    }
}

impl Write for BufferedSocket {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        self.reader.get_mut().write(from)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.reader.get_mut().flush()
    }
}

pub type TlsStream = rustls::StreamOwned<rustls::ClientConnection, BufferedSocket>;

pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
    /// Between the two, while TLS is being set up.
    None,
}

impl Stream {
    fn socket(&self) -> Option<&TcpStream> {
        match self {
            Stream::Plain(socket) => Some(socket),
            Stream::Tls(tls) => Some(tls.sock.reader.get_ref()),
            Stream::None => None,
        }
    }

    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(to),
            Stream::Tls(tls) => tls.read(to),
            Stream::None => Err(ErrorKind::NotConnected.into()),
        }
    }

    fn write_all(&mut self, from: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.write_all(from),
            Stream::Tls(tls) => {
                tls.write_all(from)?;
                tls.flush()
            }
            Stream::None => Err(ErrorKind::NotConnected.into()),
        }
    }
}

/// One connection's packets.
pub struct Transport {
    stream: Stream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// A message of more than one packet, joined.
    joined: Vec<u8>,
    is_joining: bool,
    sequence: u8,
    timeout: Option<Duration>,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes of the last read.
    pub last_read_bytes: usize,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

/// Where a message lies.
enum Place {
    Buffer(usize, usize),
    Joined,
}

impl Transport {
    pub fn new(socket: TcpStream) -> Self {
        Self {
            stream: Stream::Plain(socket),
            buffer: vec![0; 16 << 10],
            start: 0,
            end: 0,
            joined: Vec::new(),
            is_joining: false,
            sequence: 0,
            timeout: None,
            bytes_received: 0,
            last_read_bytes: 0,
        }
    }

    /// Takes the plain socket out and puts a TLS stream in its place.
    pub fn upgrade(
        &mut self,
        wrap: impl FnOnce(TcpStream) -> Result<Box<TlsStream>, WireFailure>,
    ) -> Result<(), WireFailure> {
        match std::mem::replace(&mut self.stream, Stream::None) {
            Stream::Plain(socket) => {
                self.stream = Stream::Tls(wrap(socket)?);
                Ok(())
            }
            other => {
                self.stream = other;
                Ok(())
            }
        }
    }

    pub fn is_tls(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Reads many packets at once from now on.
    pub fn enlarge(&mut self) {
        if self.buffer.len() < BUFFER_BYTES {
            self.buffer.resize(BUFFER_BYTES, 0);
        }
    }

    /// How long a read waits; none for ever.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<(), WireFailure> {
        // Zero would mean for ever.
        let timeout = timeout.map(|t| t.max(Duration::from_millis(1)));
        if timeout != self.timeout
            && let Some(socket) = self.stream.socket()
        {
            socket.set_read_timeout(timeout)?;
            self.timeout = timeout;
        }
        Ok(())
    }

    /// Ends both directions, so that a blocked read returns.
    pub fn shutdown(&self) {
        if let Some(socket) = self.stream.socket() {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Sends one message, a new one of a conversation when `first`.
    pub fn send(&mut self, first: bool, message: &[u8]) -> Result<(), WireFailure> {
        if first {
            self.sequence = 0;
        }
        let mut packets = Vec::with_capacity(message.len() + 8);
        let mut rest = message;
        loop {
            let count = rest.len().min(PACKET_BYTES_MAX);
            packets.extend_from_slice(&(count as u32).to_le_bytes()[..3]);
            packets.push(self.sequence);
            packets.extend_from_slice(&rest[..count]);
            self.sequence = self.sequence.wrapping_add(1);
            rest = &rest[count..];
            if count < PACKET_BYTES_MAX {
                break;
            }
        }
        self.stream.write_all(&packets)?;
        Ok(())
    }

    /// The next message, waiting for it as long as the time-out says.
    ///
    /// Errors: a time-out is an I/O error; what was received so far stays.
    pub fn receive(&mut self) -> Result<&[u8], WireFailure> {
        loop {
            if let Some(place) = self.take() {
                return Ok(self.at(place));
            }
            self.fill()?;
        }
    }

    /// The next message if it is here already.
    #[inline]
    pub fn buffered(&mut self) -> Option<&[u8]> {
        let place = self.take()?;
        Some(self.at(place))
    }

    #[inline]
    fn at(&self, place: Place) -> &[u8] {
        match place {
            Place::Buffer(from, to) => &self.buffer[from..to],
            Place::Joined => &self.joined,
        }
    }

    #[inline]
    fn take(&mut self) -> Option<Place> {
        loop {
            if !self.is_joining && self.joined.capacity() > 32 << 20 {
                self.joined = Vec::new();
            }
            let head = self.buffer[self.start..self.end].get(..4)?;
            let count =
                usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            let from = self.start + 4;
            let to = from + count;
            if to > self.end {
                return None;
            }
            self.sequence = head[3].wrapping_add(1);
            self.start = to;
            if count == PACKET_BYTES_MAX || self.is_joining {
                if !self.is_joining {
                    self.joined.clear();
                }
                self.joined.extend_from_slice(&self.buffer[from..to]);
                self.is_joining = count == PACKET_BYTES_MAX;
                if self.is_joining {
                    continue;
                }
                return Some(Place::Joined);
            }
            return Some(Place::Buffer(from, to));
        }
    }

    /// Reads once from the socket.
    pub fn fill(&mut self) -> Result<(), WireFailure> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.end == self.buffer.len() || self.start > self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            // A packet larger than the buffer: it grows to it, 16 MB at most.
            let size = (self.buffer.len() * 2).min(PACKET_BYTES_MAX + 4 + BUFFER_BYTES);
            self.buffer.resize(size, 0);
        }
        let count = self.stream.read(&mut self.buffer[self.end..])?;
        if count == 0 {
            return Err(WireFailure::Io(ErrorKind::UnexpectedEof.into()));
        }
        self.end += count;
        self.bytes_received += count as u64;
        self.last_read_bytes = count;
        Ok(())
    }
}

/// Whether an error is a read's time-out.
pub fn is_timeout(failure: &WireFailure) -> bool {
    matches!(failure, WireFailure::Io(error)
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted))
}
