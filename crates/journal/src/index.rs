//! The index of one segment: which stretches of it hold a table, control records, a time.
//!
//! A stretch (granule) is a run of frames of about 64 KiB, or one larger frame, so that the index stays small however
//! small the frames are. It holds no row and no key bytes: positions are asked of the frames themselves.
//!
//! On disk: magic, journal id, segment number u32, segment length u64, then the fields in order as varints, then
//! CRC32C of all that. Anything wrong with it means: build it again.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::{FrameHeader, flag};
use crate::id::{JournalId, TableId};
use crate::wire::{Input, put_varint};

/// Frames share a granule up to this length: one read of a small table costs about this much.
const GRANULE_BYTES: u64 = 64 << 10;
const MAGIC: &[u8; 8] = b"HWIDX\r\n\x01";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Granule {
    pub offset: u64,
    pub base: u64,
    /// Highest commit time in this granule and those before it in the segment.
    pub time_max: i64,
}

/// One bit per granule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, index: usize) {
        if self.0.len() <= index / 64 {
            self.0.resize(index / 64 + 1, 0);
        }
        self.0[index / 64] |= 1 << (index % 64);
    }

    /// The first set bit at or after `index`.
    fn next(&self, index: usize) -> Option<usize> {
        let mut word = index / 64;
        let mut bits = self.0.get(word)? & (u64::MAX << (index % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        self.0
            .iter()
            .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    fn decode(input: &mut Input<'_>) -> Option<Bits> {
        let len = input.varint()?;
        (0..len)
            .map(|_| input.u64())
            .collect::<Option<Vec<_>>>()
            .map(Bits)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SegmentIndex {
    granules: Vec<Granule>,
    granule_bytes: u64,
    tables: BTreeMap<TableId, Bits>,
    control: Bits,
    /// Granules in which a transaction ends that an earlier frame opened.
    span_ends: Bits,
    /// Data keys, and the frames that introduce them.
    keys: Vec<(u32, u64)>,
}

impl SegmentIndex {
    pub fn add_keys(&mut self, keys: &[u32], offset: u64) {
        self.keys.extend(keys.iter().map(|key| (*key, offset)));
    }

    pub fn knows_key(&self, key: u32) -> bool {
        self.keys.iter().any(|(known, _)| *known == key)
    }

    pub fn keys(&self) -> &[(u32, u64)] {
        &self.keys
    }

    /// Adds the next frame, which is no part of the checkpoint.
    pub fn add(&mut self, header: &FrameHeader, offset: u64, tables: &[TableId]) {
        let len = u64::from(header.len);
        if self.granules.is_empty() || self.granule_bytes + len > GRANULE_BYTES {
            let time_max = self
                .granules
                .last()
                .map_or(i64::MIN, |granule| granule.time_max);
            self.granules.push(Granule {
                offset,
                base: header.base,
                time_max,
            });
            self.granule_bytes = 0;
        }
        self.granule_bytes += len;
        let at = self.granules.len() - 1;
        let granule = &mut self.granules[at];
        granule.time_max = granule.time_max.max(header.time_max);
        for table in tables {
            self.tables.entry(*table).or_default().set(at);
        }
        if header.has(flag::CONTROL) {
            self.control.set(at);
        }
        if header.has(flag::OPEN_IN) && (header.commits > 0 || header.has(flag::ABORT_IN)) {
            self.span_ends.set(at);
        }
    }

    pub fn granules(&self) -> &[Granule] {
        &self.granules
    }

    /// The granule that holds `sequence`, if this segment does.
    pub fn granule_of(&self, sequence: u64) -> Option<usize> {
        self.granules
            .partition_point(|granule| granule.base <= sequence)
            .checked_sub(1)
    }

    /// The granule that begins at `offset`, if one does.
    pub fn granule_at(&self, offset: u64) -> Option<usize> {
        self.granules
            .binary_search_by_key(&offset, |granule| granule.offset)
            .ok()
    }

    /// The first granule from `index` on that a reader of `tables` must see.
    pub fn next_wanted(
        &self,
        index: usize,
        tables: &BTreeSet<TableId>,
        inside: bool,
    ) -> Option<usize> {
        let tables = tables
            .iter()
            .filter_map(|table| self.tables.get(table)?.next(index))
            .min();
        let control = self.control.next(index);
        let span_end = if inside {
            self.span_ends.next(index)
        } else {
            None
        };
        [tables, control, span_end].into_iter().flatten().min()
    }

    /// The first granule from `index` on that holds control records.
    pub fn next_control(&self, index: usize) -> Option<usize> {
        self.control.next(index)
    }

    pub fn encode(&self, journal: JournalId, number: u32, len: u64) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&journal.0);
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        put_varint(&mut out, self.granules.len() as u64);
        let mut last = Granule {
            offset: 0,
            base: 0,
            time_max: 0,
        };
        for granule in &self.granules {
            put_varint(&mut out, granule.offset - last.offset);
            put_varint(&mut out, granule.base - last.base);
            out.extend_from_slice(&granule.time_max.to_le_bytes());
            last = *granule;
        }
        put_varint(&mut out, self.tables.len() as u64);
        for (table, bits) in &self.tables {
            put_varint(&mut out, u64::from(table.0));
            bits.encode(&mut out);
        }
        self.control.encode(&mut out);
        self.span_ends.encode(&mut out);
        put_varint(&mut out, self.keys.len() as u64);
        for (key, offset) in &self.keys {
            put_varint(&mut out, u64::from(*key));
            put_varint(&mut out, *offset);
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` when the bytes are not the whole index of exactly that segment.
    pub fn decode(bytes: &[u8], journal: JournalId, number: u32, len: u64) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        let mut input = Input::new(body);
        let ours = input.take(8)? == MAGIC
            && input.take(16)? == journal.0
            && input.u32()? == number
            && input.u64()? == len;
        if !ours || u32::from_le_bytes(*crc) != crc32c::crc32c(body) {
            return None;
        }
        let mut index = SegmentIndex::default();
        let mut last = Granule {
            offset: 0,
            base: 0,
            time_max: 0,
        };
        for _ in 0..input.varint()? {
            last = Granule {
                offset: last.offset.checked_add(input.varint()?)?,
                base: last.base.checked_add(input.varint()?)?,
                time_max: input.i64()?,
            };
            index.granules.push(last);
        }
        for _ in 0..input.varint()? {
            index
                .tables
                .insert(TableId(input.varint_u32()?), Bits::decode(&mut input)?);
        }
        index.control = Bits::decode(&mut input)?;
        index.span_ends = Bits::decode(&mut input)?;
        for _ in 0..input.varint()? {
            index.keys.push((input.varint_u32()?, input.varint()?));
        }
        input.is_empty().then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SegmentIndex {
        let mut index = SegmentIndex::default();
        index.add_keys(&[0, 3], 128);
        for number in 0..300u64 {
            let flags = if number == 200 { flag::CONTROL } else { 0 };
            let (len, base) = (50_000, number * 10);
            let header = FrameHeader {
                len,
                base,
                next: base + 10,
                flags,
                ..Default::default()
            };
            let tables = [TableId(1), TableId(2)];
            let tables = if number % 100 == 7 {
                &tables[..]
            } else {
                &tables[..1]
            };
            index.add(&header, 1000 + number * 50_000, tables);
        }
        index
    }

    #[test]
    fn index_reads_back_and_refuses_every_other_segment_and_flipped_byte() {
        let index = sample();
        let id = JournalId([1; 16]);
        let bytes = index.encode(id, 4, 99);
        let read = SegmentIndex::decode(&bytes, id, 4, 99).unwrap();
        assert_eq!(read.encode(id, 4, 99), bytes);
        assert!(SegmentIndex::decode(&bytes, id, 5, 99).is_none());
        assert!(SegmentIndex::decode(&bytes, id, 4, 98).is_none());
        for at in 0..bytes.len() {
            let mut bent = bytes.clone();
            bent[at] ^= 0x10;
            assert!(
                SegmentIndex::decode(&bent, id, 4, 99).is_none(),
                "byte {at}"
            );
        }
    }

    #[test]
    fn rare_table_skips_to_its_granules_and_control_is_never_skipped() {
        let index = sample();
        let rare = BTreeSet::from([TableId(2)]);
        let wanted = |from| index.next_wanted(from, &rare, false);
        assert_eq!(wanted(0), Some(7));
        assert_eq!(wanted(8), Some(107));
        assert_eq!(wanted(108), Some(200));
        assert_eq!(wanted(201), Some(207));
        assert_eq!(wanted(208), None);
    }
}
