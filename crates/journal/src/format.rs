//! Every byte on disk.
//!
//! # Files
//!
//! | Name | Holds |
//! |---|---|
//! | `000001.seg` | one segment: header, checkpoint, frames |
//! | `000001.idx` | its index, rebuilt by scan when missing |
//! | `000001.torn` | the tail that a recovery cut off, kept until the segment leaves |
//! | `cursors` | how far each cursor had come a second ago or less |
//! | `lock` | the writer's process id; locked while it lives |
//!
//! All numbers are little-endian; `varint` is seven bits a byte, low first; `bytes` is a varint length and the bytes.
//!
//! # Segment
//!
//! A header of 128 bytes, then frames without gaps. The first frames are the checkpoint; the last of them has the
//! flag `CHECKPOINT_END`. Header and checkpoint are durable before anything else is written to the file, and the
//! whole segment before it is durable before that. A segment is written by one opening (epoch) only.
//!
//! | At | Field |
//! |---|---|
//! | 0 | magic, 8 bytes |
//! | 8 | version u16, flags u16 (1: begins inside a transaction; 2: the previous segment holds snapshot rows only) |
//! | 12 | number u32 |
//! | 16 | journal id, 16 bytes |
//! | 32 | epoch u64: rises with each opening |
//! | 40 | base u64: first sequence |
//! | 48 | created, µs i64 |
//! | 56 | previous segment's number u32 (0: none), zero u32 |
//! | 64 | previous segment's length u64: what is longer was cut, what is shorter was lost |
//! | 72 | when the previous segment was last written, µs i64 |
//! | 80 | highest commit time before this segment, µs i64 |
//! | 88 | first sequence of the transaction that the segment begins inside u64 |
//! | 124 | CRC32C of bytes 0..124 |
//!
//! # Frame
//!
//! Header (112 bytes, plain), directory (plain), spine (sealed), blocks (sealed).
//!
//! | At | Field |
//! |---|---|
//! | 0 | magic u32 |
//! | 4 | version u16, flags u16 |
//! | 8 | ordinal u32: place in the segment, from 0 |
//! | 12 | length u32: the whole frame |
//! | 16 | directory length u32, sealed spine length u32 |
//! | 24 | base u64, next u64: the sequences in the frame |
//! | 40 | visible end u64: what readers may see up to once this frame is durable |
//! | 48 | first sequence of the transaction open at the start u64, and of the one open at the end u64 |
//! | 64 | highest commit time in the frame, µs i64 |
//! | 72 | commits u32, opened spine length u32, key of the spine u32 |
//! | 84 | CRC32C u32 of everything after the header, as sealed |
//! | 88 | written, µs i64 |
//! | 96 | synced through u64: the offset up to which this file was known durable when the frame was written |
//! | 104 | zero u32 |
//! | 108 | CRC32C of bytes 0..108 |
//!
//! *Directory:* varint count of data keys that appear first here in this segment, each varint key, varint group,
//! bytes wrapped key; then varint count of blocks, each group u16, key u32, sealed length u32, opened length u32.
//!
//! *Sealed piece:* AES-256-GCM, tag last. Nonce: segment u32, ordinal u32, block u32 (the spine is block 2³²−1). Bound to: journal id, base.
//! A data key belongs to one epoch and one key group, and an epoch never writes the same (segment, ordinal, block)
//! twice, so no nonce comes back under one key. A piece whose sealed length is 16 above its opened length is not compressed.
//!
//! *Spine:* see `spine`. Recovery needs headers and checksums only, no key, to find the end; it needs the default
//! key for the control state and the last position.
//!
//! *Flags of a frame:* 1 begins inside a transaction, 2 ends inside one, 4 aborts the one it begins inside, 8 holds control
//! records, 16 snapshot rows only, 32 checkpoint, 64 end of the checkpoint, 128 orderly close, 256 lz4, 512 zstd, 1024
//! introduces data keys.
//!
//! # Version
//!
//! 1. A reader refuses a newer one as `Unsupported` and reads every older one.

use crate::id::JournalId;
use crate::wire::{Input, put_bytes, put_varint};

/// The version written.
pub(crate) const VERSION: u16 = 1;
pub(crate) const SEGMENT_HEADER_BYTES: usize = 128;
pub(crate) const FRAME_HEADER_BYTES: usize = 112;
/// Bytes of one block in a directory.
pub(crate) const BLOCK_ENTRY_BYTES: usize = 14;
/// Bytes that sealing adds to a piece.
pub(crate) const TAG_BYTES: usize = 16;
/// The longest frame, below `i32::MAX` so that offsets in it fit everywhere.
pub(crate) const FRAME_BYTES_MAX: usize = 1 << 31;

const SEGMENT_MAGIC: &[u8; 8] = b"HWSEG\r\n\x1a";
pub(crate) const FRAME_MAGIC: [u8; 4] = *b"HWF\xa7";
const SYNCED_AT: usize = 96;
const CRC_AT: usize = 108;

/// What the plain header says about a frame.
pub(crate) mod flag {
    /// Begins inside a transaction that an earlier frame opened.
    pub const OPEN_IN: u16 = 1;
    /// Ends inside a transaction.
    pub const OPEN_OUT: u16 = 2;
    /// The transaction open at the start is aborted before anything else.
    pub const ABORT_IN: u16 = 4;
    /// Holds control records.
    pub const CONTROL: u16 = 8;
    /// Holds snapshot transactions only.
    pub const SNAPSHOT: u16 = 16;
    /// Part of the checkpoint.
    pub const CHECKPOINT: u16 = 32;
    /// Its last part.
    pub const CHECKPOINT_END: u16 = 64;
    /// Written by an orderly close: nothing follows.
    pub const CLOSE: u16 = 128;
    /// Pieces are lz4.
    pub const LZ4: u16 = 256;
    /// Pieces are zstd.
    pub const ZSTD: u16 = 512;
    /// The directory introduces data keys.
    pub const KEYS: u16 = 1024;
}

/// Why bytes are not a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeaderError {
    Damaged,
    Newer(u16),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    pub number: u32,
    pub journal: JournalId,
    pub epoch: u64,
    pub base: u64,
    pub created_us: i64,
    pub previous: u32,
    pub previous_len: u64,
    pub previous_written_us: i64,
    pub previous_snapshot: bool,
    pub time_max: i64,
    /// First sequence of the transaction that the segment begins inside.
    pub first_in: Option<u64>,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        let flags = u16::from(self.first_in.is_some()) | u16::from(self.previous_snapshot) << 1;
        out.extend_from_slice(SEGMENT_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.journal.0);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&self.created_us.to_le_bytes());
        out.extend_from_slice(&u64::from(self.previous).to_le_bytes());
        out.extend_from_slice(&self.previous_len.to_le_bytes());
        out.extend_from_slice(&self.previous_written_us.to_le_bytes());
        out.extend_from_slice(&self.time_max.to_le_bytes());
        out.extend_from_slice(&self.first_in.unwrap_or(0).to_le_bytes());
        let mut header = [0; SEGMENT_HEADER_BYTES];
        header[..out.len()].copy_from_slice(&out);
        let crc = crc32c::crc32c(&header[..SEGMENT_HEADER_BYTES - 4]);
        header[SEGMENT_HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderError> {
        let header = bytes
            .first_chunk::<SEGMENT_HEADER_BYTES>()
            .ok_or(HeaderError::Damaged)?;
        let mut input = Input::new(header);
        let stored = Input::new(&header[SEGMENT_HEADER_BYTES - 4..]).u32();
        let computed = crc32c::crc32c(&header[..SEGMENT_HEADER_BYTES - 4]);
        if input.take(8) != Some(SEGMENT_MAGIC) || stored != Some(computed) {
            return Err(HeaderError::Damaged);
        }
        match input.u16() {
            Some(VERSION) => Self::fields(input).ok_or(HeaderError::Damaged),
            Some(newer) => Err(HeaderError::Newer(newer)),
            None => Err(HeaderError::Damaged),
        }
    }

    fn fields(mut input: Input<'_>) -> Option<SegmentHeader> {
        let flags = input.u16()?;
        let mut header = SegmentHeader {
            number: input.u32()?,
            journal: JournalId(input.take(16)?.try_into().ok()?),
            epoch: input.u64()?,
            base: input.u64()?,
            created_us: input.i64()?,
            previous: input.u64()?.try_into().ok()?,
            previous_len: input.u64()?,
            previous_written_us: input.i64()?,
            previous_snapshot: flags & 2 != 0,
            time_max: input.i64()?,
            first_in: None,
        };
        let first_in = input.u64()?;
        header.first_in = (flags & 1 != 0).then_some(first_in);
        Some(header)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FrameHeader {
    pub flags: u16,
    pub ordinal: u32,
    pub len: u32,
    pub directory_len: u32,
    pub spine_len: u32,
    pub base: u64,
    pub next: u64,
    pub visible_end: u64,
    pub first_in: u64,
    pub first_out: u64,
    pub time_max: i64,
    pub commits: u32,
    pub spine_raw: u32,
    pub spine_key: u32,
    pub body_crc: u32,
    pub written_us: i64,
    pub synced_through: u64,
}

impl FrameHeader {
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The sequences that an abort mark in this frame takes back.
    pub fn aborted(&self) -> Option<(u64, u64)> {
        self.has(flag::ABORT_IN)
            .then_some((self.first_in, self.base))
    }

    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = [0; FRAME_HEADER_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&FRAME_MAGIC);
        put(&VERSION.to_le_bytes());
        put(&self.flags.to_le_bytes());
        for number in [self.ordinal, self.len, self.directory_len, self.spine_len] {
            put(&number.to_le_bytes());
        }
        for number in [
            self.base,
            self.next,
            self.visible_end,
            self.first_in,
            self.first_out,
        ] {
            put(&number.to_le_bytes());
        }
        put(&self.time_max.to_le_bytes());
        for number in [self.commits, self.spine_raw, self.spine_key, self.body_crc] {
            put(&number.to_le_bytes());
        }
        put(&self.written_us.to_le_bytes());
        set_synced_through(&mut out, self.synced_through);
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<FrameHeader, HeaderError> {
        let header = bytes
            .first_chunk::<FRAME_HEADER_BYTES>()
            .ok_or(HeaderError::Damaged)?;
        let mut input = Input::new(header);
        let stored = Input::new(&header[CRC_AT..]).u32();
        if input.take(4) != Some(&FRAME_MAGIC) || stored != Some(crc32c::crc32c(&header[..CRC_AT]))
        {
            return Err(HeaderError::Damaged);
        }
        match input.u16() {
            Some(VERSION) => Self::fields(input).ok_or(HeaderError::Damaged),
            Some(newer) => Err(HeaderError::Newer(newer)),
            None => Err(HeaderError::Damaged),
        }
    }

    fn fields(mut input: Input<'_>) -> Option<FrameHeader> {
        let header = FrameHeader {
            flags: input.u16()?,
            ordinal: input.u32()?,
            len: input.u32()?,
            directory_len: input.u32()?,
            spine_len: input.u32()?,
            base: input.u64()?,
            next: input.u64()?,
            visible_end: input.u64()?,
            first_in: input.u64()?,
            first_out: input.u64()?,
            time_max: input.i64()?,
            commits: input.u32()?,
            spine_raw: input.u32()?,
            spine_key: input.u32()?,
            body_crc: input.u32()?,
            written_us: input.i64()?,
            synced_through: input.u64()?,
        };
        let pieces = FRAME_HEADER_BYTES as u64
            + u64::from(header.directory_len)
            + u64::from(header.spine_len);
        let sane = pieces <= u64::from(header.len) && header.base <= header.next;
        sane.then_some(header)
    }

    pub fn directory_end(&self) -> usize {
        FRAME_HEADER_BYTES + self.directory_len as usize
    }

    pub fn spine_end(&self) -> usize {
        self.directory_end() + self.spine_len as usize
    }
}

/// Writes `synced_through` and the header's checksum into an encoded frame.
pub(crate) fn set_synced_through(frame: &mut [u8], offset: u64) {
    frame[SYNCED_AT..SYNCED_AT + 8].copy_from_slice(&offset.to_le_bytes());
    let crc = crc32c::crc32c(&frame[..CRC_AT]);
    frame[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// One data key as a directory introduces it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyEntry<'a> {
    pub key: u32,
    pub group: u16,
    pub wrapped: &'a [u8],
}

/// One block as a directory lists it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockEntry {
    pub group: u16,
    pub key: u32,
    pub sealed_len: u32,
    pub raw_len: u32,
}

pub(crate) fn put_key_entry(out: &mut Vec<u8>, entry: KeyEntry<'_>) {
    put_varint(out, u64::from(entry.key));
    put_varint(out, u64::from(entry.group));
    put_bytes(out, entry.wrapped);
}

pub(crate) fn put_block_entry(out: &mut Vec<u8>, entry: BlockEntry) {
    out.extend_from_slice(&entry.group.to_le_bytes());
    for number in [entry.key, entry.sealed_len, entry.raw_len] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Reads a directory: each key to `on_key`, then the blocks into `blocks`.
pub(crate) fn read_directory<'a>(
    bytes: &'a [u8],
    blocks: &mut Vec<BlockEntry>,
    mut on_key: impl FnMut(KeyEntry<'a>),
) -> Option<()> {
    let mut input = Input::new(bytes);
    for _ in 0..input.varint()? {
        on_key(KeyEntry {
            key: input.varint_u32()?,
            group: input.varint()?.try_into().ok()?,
            wrapped: input.bytes()?,
        });
    }
    blocks.clear();
    for _ in 0..input.varint()? {
        blocks.push(BlockEntry {
            group: input.u16()?,
            key: input.u32()?,
            sealed_len: input.u32()?,
            raw_len: input.u32()?,
        });
    }
    input.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_header_refuses_every_flipped_bit() {
        let header = FrameHeader {
            len: 500,
            base: 3,
            next: 9,
            ..FrameHeader::default()
        };
        let bytes = header.encode();
        assert_eq!(FrameHeader::decode(&bytes), Ok(header));
        for bit in 0..bytes.len() * 8 {
            let mut bent = bytes;
            bent[bit / 8] ^= 1 << (bit % 8);
            assert!(FrameHeader::decode(&bent).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn segment_header_reads_back_and_names_a_newer_version() {
        let header = SegmentHeader {
            number: 7,
            journal: JournalId([9; 16]),
            epoch: 3,
            base: 100,
            created_us: -5,
            previous: 6,
            previous_len: 1 << 40,
            previous_written_us: 8,
            previous_snapshot: true,
            time_max: i64::MIN,
            first_in: Some(90),
        };
        let mut bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..124]).to_le_bytes();
        bytes[124..].copy_from_slice(&crc);
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderError::Newer(2)));
    }
}
