//! Bounded decompression: MySQL's zstd payloads, MariaDB's zlib events and columns.

use super::bytes::{Bytes, DecodeError, Decoded};
use flate2::{Decompress, FlushDecompress, Status};
use std::io::Read;

fn failed(what: &'static str, detail: impl ToString) -> DecodeError {
    DecodeError::Compression {
        what,
        detail: detail.to_string(),
    }
}

/// Inflates one of MariaDB's compressed event parts into `out`.
///
/// Shape: a byte (bit 7 set, algorithm in bits 4 to 6, count of length bytes in bits 0 to 2), the
/// length big endian, then zlib. `bytes_max` bounds the length.
pub fn mariadb_event(body: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Decoded<()> {
    let what = "a compressed event";
    let mut b = Bytes::new(body);
    let head = b.u8(what)?;
    if head & 0x80 == 0 || head & 0x70 != 0 {
        return Err(DecodeError::Unsupported(format!(
            "compression {head:#04x} of an event"
        )));
    }
    let size = b.uint_be(usize::from(head & 7), what)?;
    let size = bounded(size, bytes_max, what)?;
    zlib(b.rest(), true, size, out, what)
}

/// Inflates one of MariaDB's compressed column values into `out`.
///
/// Shape: a byte (0 for stored plain; else 8 in the high half, bit 3 for no zlib header, count of
/// length bytes below), the length big endian, then deflate.
pub fn mariadb_column(value: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Decoded<()> {
    let what = "a compressed column";
    let Some((head, rest)) = value.split_first() else {
        return Ok(());
    };
    match head >> 4 {
        0 => {
            out.extend_from_slice(rest);
            Ok(())
        }
        8 => {
            let mut b = Bytes::new(rest);
            let size = b.uint_be(usize::from(head & 7), what)?;
            let size = bounded(size, bytes_max, what)?;
            zlib(b.rest(), head & 8 == 0, size, out, what)
        }
        method => Err(failed(what, format!("method {method}"))),
    }
}

fn bounded(size: u64, bytes_max: usize, what: &'static str) -> Decoded<usize> {
    match usize::try_from(size) {
        Ok(size) if size <= bytes_max => Ok(size),
        _ => Err(failed(
            what,
            format!("{size} bytes are more than the limit of {bytes_max}"),
        )),
    }
}

fn zlib(
    input: &[u8],
    header: bool,
    size: usize,
    out: &mut Vec<u8>,
    what: &'static str,
) -> Decoded<()> {
    let mut inflater = Decompress::new(header);
    let start = out.len();
    // The stated size is believed only as far as bytes come: growth is by steps.
    let mut step = size.min(input.len().saturating_mul(8).max(4096));
    loop {
        let used = inflater.total_in() as usize;
        out.reserve(step.max(64));
        let before = out.len();
        let status = inflater
            .decompress_vec(&input[used..], out, FlushDecompress::None)
            .map_err(|error| failed(what, error))?;
        if out.len() - start > size {
            break;
        }
        match status {
            Status::StreamEnd => break,
            _ if out.len() == before && inflater.total_in() as usize == used => break,
            _ => step = (step * 2).min(size - (out.len() - start) + 64),
        }
    }
    let got = out.len() - start;
    if got == size {
        Ok(())
    } else {
        Err(failed(what, format!("{got} bytes instead of {size}")))
    }
}

/// A transaction payload's outer fields.
#[derive(Debug, Clone, Copy)]
pub struct Payload<'a> {
    /// 0 zstd, 255 none.
    pub compression: u64,
    /// Bytes of the events in it.
    pub size: u64,
    /// The events, compressed.
    pub data: &'a [u8],
}

/// Reads a TRANSACTION_PAYLOAD event's body.
///
/// Shape: (type, length, value) fields up to type 0, then the payload.
pub fn read_payload(body: &[u8]) -> Decoded<Payload<'_>> {
    let mut b = Bytes::new(body);
    let (mut compression, mut size, mut bytes) = (255, 0, None);
    loop {
        let field = b.lenenc("a payload's field")?;
        if field == 0 {
            break;
        }
        let mut value = Bytes::new(b.lenenc_bytes("a payload's field")?);
        match field {
            1 => bytes = Some(value.lenenc("a payload's size")?),
            2 => compression = value.lenenc("a payload's compression")?,
            3 => size = value.lenenc("a payload's inflated size")?,
            _ => {}
        }
    }
    let data = b.rest();
    if bytes.is_some_and(|bytes| bytes != data.len() as u64) {
        return b.fail("a payload of the stated size");
    }
    Ok(Payload {
        compression,
        size,
        data,
    })
}

/// Reads the events out of a payload one by one, in bounded memory.
pub struct PayloadReader<'a> {
    source: Box<dyn Read + Send + 'a>,
    left: u64,
}

impl std::fmt::Debug for PayloadReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PayloadReader")
            .field("left", &self.left)
            .finish()
    }
}

impl<'a> PayloadReader<'a> {
    /// Opens a payload.
    pub fn new(payload: Payload<'a>) -> Decoded<Self> {
        let what = "a transaction payload";
        let source: Box<dyn Read + Send + 'a> = match payload.compression {
            0 => {
                let decoder = zstd::stream::read::Decoder::with_buffer(payload.data);
                Box::new(decoder.map_err(|error| failed(what, error))?)
            }
            255 => Box::new(payload.data),
            other => {
                return Err(DecodeError::Unsupported(format!(
                    "compression {other} of a transaction payload"
                )));
            }
        };
        Ok(Self {
            source,
            left: if payload.compression == 255 {
                payload.data.len() as u64
            } else {
                payload.size
            },
        })
    }

    /// Reads the next event, header and all, into `event`; `false` at the end.
    ///
    /// Errors: damaged compressed bytes, an event longer than `bytes_max`, fewer bytes than stated.
    pub fn next(&mut self, event: &mut Vec<u8>, bytes_max: usize) -> Decoded<bool> {
        let what = "a transaction payload";
        if self.left == 0 {
            let mut more = [0u8; 1];
            return match self.source.read(&mut more) {
                Ok(0) => Ok(false),
                Ok(_) => Err(failed(what, "more bytes than stated")),
                Err(error) => Err(failed(what, error)),
            };
        }
        event.clear();
        event.resize(super::header::HEADER_BYTES, 0);
        let read = |source: &mut Box<dyn Read + Send + 'a>, to: &mut [u8]| {
            source.read_exact(to).map_err(|error| failed(what, error))
        };
        read(&mut self.source, event)?;
        let size = u64::from(super::header::EventHeader::read(event)?.event_bytes);
        let whole = bounded(size, bytes_max, what)?;
        if whole < super::header::HEADER_BYTES || size > self.left {
            return Err(failed(what, "an event does not fit"));
        }
        let mut at = event.len();
        while at < whole {
            let next = whole.min(at + (1 << 20));
            event.resize(next, 0);
            read(&mut self.source, &mut event[at..next])?;
            at = next;
        }
        self.left -= size;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn compressed(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_lie_about_the_size_is_an_error() {
        let plain = vec![7u8; 300_000];
        let with_size = |size: u32| {
            let mut body = vec![0x84];
            body.extend(size.to_be_bytes());
            body.extend(compressed(&plain));
            body
        };
        let mut out = Vec::new();
        mariadb_event(&with_size(300_000), &mut out, 1 << 20).unwrap();
        assert_eq!(out, plain);
        for size in [0, 299_999, 300_001, 2_000_000] {
            assert!(mariadb_event(&with_size(size), &mut Vec::new(), 1 << 20).is_err());
        }
    }

    #[test]
    fn a_damaged_payload_is_never_silent() {
        let mut event = [0u8; 100];
        event[9..13].copy_from_slice(&100u32.to_le_bytes());
        let plain: Vec<u8> = event.iter().copied().cycle().take(1000).collect();
        let data = zstd::bulk::compress(&plain, 1).unwrap();
        let count = |data: &[u8], size| {
            let payload = Payload {
                compression: 0,
                size,
                data,
            };
            let mut reader = PayloadReader::new(payload)?;
            let mut event = Vec::new();
            let mut count = 0;
            while reader.next(&mut event, 1 << 20)? {
                count += 1;
            }
            Decoded::Ok(count)
        };
        assert_eq!(count(&data, 1000).unwrap(), 10);
        assert!(count(&data[..data.len() - 3], 1000).is_err());
        assert!(count(&data, 1100).is_err());
        assert!(count(&data, 900).is_err());
    }
}
