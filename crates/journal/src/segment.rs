//! One segment file, read frame by frame.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::format::{
    BlockEntry, FRAME_HEADER_BYTES, FrameHeader, HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader,
    flag, read_directory,
};
use crate::frame::{BlockState, Frame};
use crate::fs::{Fs, FsFile};
use crate::id::{JournalId, KeyGroupId};
use crate::index::SegmentIndex;
use crate::seal::{CipherKey, OpenKeys, PiecePlace, SPINE, Unsealing, open_piece};

/// A window that grew past this gives its memory back.
const WINDOW_KEEP_BYTES: usize = 1 << 20;

const DAMAGE_HINT: &str = "the disk returned other bytes than were written; restore the file from a copy, or start with a fresh journal directory and `run --recover`";

pub(crate) fn path(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:06}.seg"))
}

pub(crate) fn index_path(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:06}.idx"))
}

pub(crate) fn torn_path(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:06}.torn"))
}

pub(crate) fn number_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".seg")?.parse().ok()
}

/// Removes a segment and what belongs to it. The caller makes that durable.
pub(crate) fn unlink(fs: &dyn Fs, dir: &Path, number: u32) -> Result<()> {
    let segment = path(dir, number);
    fs.unlink(&segment)
        .map_err(|source| Error::io("remove segment", &segment, source))?;
    for beside in [index_path(dir, number), torn_path(dir, number)] {
        match fs.unlink(&beside) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove index", &beside, source));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a segment is called in errors: `000001.seg:offset`.
pub(crate) fn place(number: u32, offset: u64) -> String {
    format!("{number:06}.seg:{offset}")
}

pub(crate) fn corrupt(number: u32, offset: u64, detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, "read segment", detail)
        .at(place(number, offset))
        .hint(DAMAGE_HINT)
}

pub(crate) fn newer(number: u32, offset: u64, version: u16) -> Error {
    let detail = format!("format version {version} is newer than this program");
    Error::new(ErrorKind::Unsupported, "read segment", detail)
        .at(place(number, offset))
        .hint("use the version that wrote it, or a later one")
}

enum KeyState {
    Wrapped { group: KeyGroupId, wrapped: Vec<u8> },
    Open(Arc<CipherKey>),
    Locked(KeyGroupId),
}

/// Reads one segment. Keeps a window of the file and the data keys it has met.
pub(crate) struct SegmentReader {
    pub number: u32,
    pub header: SegmentHeader,
    journal: JournalId,
    opener: Arc<OpenKeys>,
    file: Arc<dyn FsFile>,
    path: PathBuf,
    keys: HashMap<u32, KeyState>,
    window: Vec<u8>,
    /// `window[window_from..window_len]` are the file's bytes from `window_at + window_from` on.
    window_at: u64,
    window_from: usize,
    window_len: usize,
    read_ahead: usize,
    /// Nothing is read past this offset unless asked for: what follows may be half written.
    pub limit: u64,
    blocks: Vec<BlockEntry>,
    pub bytes_read: u64,
}

impl SegmentReader {
    pub fn open(
        fs: &dyn Fs,
        dir: &Path,
        number: u32,
        opener: Arc<OpenKeys>,
        read_ahead: usize,
    ) -> Result<SegmentReader> {
        let path = path(dir, number);
        let fail = |source| Error::io("open segment", &path, source);
        let file = fs.open(&path).map_err(fail)?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let count = file.read_at(0, &mut bytes).map_err(fail)?;
        let header = match SegmentHeader::decode(&bytes[..count]) {
            Ok(header) if header.number == number => header,
            Ok(_) => return Err(corrupt(number, 0, "the header belongs to another segment")),
            Err(HeaderError::Newer(version)) => return Err(newer(number, 0, version)),
            Err(HeaderError::Damaged) => {
                return Err(corrupt(number, 0, "the segment header is damaged"));
            }
        };
        Ok(SegmentReader {
            number,
            header,
            journal: header.journal,
            opener,
            file,
            path,
            keys: HashMap::new(),
            window: Vec::new(),
            window_at: 0,
            window_from: 0,
            window_len: 0,
            read_ahead,
            limit: u64::MAX,
            blocks: Vec::new(),
            bytes_read: SEGMENT_HEADER_BYTES as u64,
        })
    }

    /// Brings `len` bytes from `offset` into the window; returns where in it they begin.
    fn load(&mut self, offset: u64, len: usize) -> Result<usize> {
        let usable =
            self.window_at + self.window_from as u64..=self.window_at + self.window_len as u64;
        if usable.contains(&offset) && usable.contains(&(offset + len as u64)) {
            return Ok((offset - self.window_at) as usize);
        }
        let durable = usize::try_from(self.limit.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = len.max(self.read_ahead.min(durable));
        if self.window.len() > WINDOW_KEEP_BYTES && wanted <= WINDOW_KEEP_BYTES {
            self.window = Vec::new();
        }
        if self.window.len() < wanted {
            self.window.resize(wanted, 0);
        }
        let count = self
            .file
            .read_at(offset, &mut self.window[..wanted])
            .map_err(|source| Error::io("read segment", &self.path, source))?;
        self.bytes_read += count as u64;
        (self.window_at, self.window_from, self.window_len) = (offset, 0, count);
        if count < len {
            return Err(corrupt(self.number, offset, "the file ends inside a frame"));
        }
        Ok(0)
    }

    /// The header of the frame at `offset`.
    pub fn frame_header(&mut self, offset: u64) -> Result<FrameHeader> {
        let at = self.load(offset, FRAME_HEADER_BYTES)?;
        match FrameHeader::decode(&self.window[at..]) {
            Ok(header) => Ok(header),
            Err(HeaderError::Newer(version)) => Err(newer(self.number, offset, version)),
            Err(HeaderError::Damaged) => {
                Err(corrupt(self.number, offset, "the frame header is damaged"))
            }
        }
    }

    /// Reads the directory of a frame: learns its data keys and its blocks.
    fn directory(&mut self, offset: u64, header: &FrameHeader) -> Result<()> {
        let len = header.directory_end();
        let at = self.load(offset, len)?;
        let bytes = &self.window[at + FRAME_HEADER_BYTES..at + len];
        let keys = &mut self.keys;
        read_directory(bytes, &mut self.blocks, |entry| {
            keys.entry(entry.key).or_insert_with(|| KeyState::Wrapped {
                group: KeyGroupId(entry.group),
                wrapped: entry.wrapped.to_vec(),
            });
        })
        .ok_or_else(|| corrupt(self.number, offset, "the frame's directory is damaged"))?;
        let sealed: u64 = self
            .blocks
            .iter()
            .map(|block| u64::from(block.sealed_len))
            .sum();
        if header.spine_end() as u64 + sealed != u64::from(header.len) {
            return Err(corrupt(
                self.number,
                offset,
                "the frame's directory is damaged",
            ));
        }
        Ok(())
    }

    /// Learns the keys that frames before `offset` introduced, when those frames are skipped.
    pub fn learn_keys(&mut self, keys: &[(u32, u64)], offset: u64) -> Result<()> {
        for (key, at) in keys {
            if *at < offset && !self.keys.contains_key(key) {
                let header = self.frame_header(*at)?;
                self.directory(*at, &header)?;
            }
        }
        Ok(())
    }

    /// Passes a frame whose content is not wanted, learning the data keys it introduces.
    pub fn pass(&mut self, offset: u64, header: &FrameHeader) -> Result<()> {
        match header.has(flag::KEYS) {
            true => self.directory(offset, header),
            false => Ok(()),
        }
    }

    /// The cipher of a data key; `Err(group)` when it is locked.
    fn cipher(&mut self, key: u32) -> Option<Result<Arc<CipherKey>, KeyGroupId>> {
        let state = self.keys.get_mut(&key)?;
        if let KeyState::Wrapped { group, wrapped } = state {
            *state = match self.opener.open(*group, wrapped) {
                Ok(cipher) => KeyState::Open(cipher),
                Err(_) => KeyState::Locked(*group),
            };
        }
        match state {
            KeyState::Open(cipher) => Some(Ok(cipher.clone())),
            KeyState::Locked(group) => Some(Err(*group)),
            KeyState::Wrapped { .. } => None,
        }
    }

    fn piece_place(&self, header: &FrameHeader, block: u32) -> PiecePlace {
        PiecePlace {
            journal: self.journal,
            segment: self.number,
            ordinal: header.ordinal,
            block,
            base: header.base,
        }
    }

    /// Opens the piece at `offset` of the file. Opening happens in the window, so what lies before its end is dropped.
    fn open_at(
        &mut self,
        (offset, len): (u64, usize),
        place: &PiecePlace,
        unsealing: &Unsealing<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<()>> {
        let at = self.load(offset, len)?;
        let opened = open_piece(&mut self.window[at..at + len], place, unsealing, out);
        self.window_from = at + len;
        Ok(opened)
    }

    /// Opens the spine of the frame at `offset` into `out`, whose blocks are then listed but not read.
    pub fn spine(&mut self, offset: u64, header: &FrameHeader, out: &mut Frame) -> Result<()> {
        self.directory(offset, header)?;
        let cipher = match self.cipher(header.spine_key) {
            Some(Ok(cipher)) => cipher,
            Some(Err(group)) => return Err(self.locked(offset, group)),
            None => {
                return Err(corrupt(
                    self.number,
                    offset,
                    "the frame names an unknown key",
                ));
            }
        };
        out.reset(header.base, WINDOW_KEEP_BYTES);
        (out.next, out.visible_end) = (header.next, header.visible_end);
        let at = offset + header.directory_end() as u64;
        let place = self.piece_place(header, SPINE);
        let raw_len = header.spine_raw as usize;
        let unsealing = Unsealing {
            cipher: &cipher,
            flags: header.flags,
            raw_len,
        };
        self.open_at(
            (at, header.spine_len as usize),
            &place,
            &unsealing,
            &mut out.spine,
        )?
        .ok_or_else(|| corrupt(self.number, at, "the frame's spine does not open"))?;
        for block in &self.blocks {
            let index = out.add_block(KeyGroupId(block.group), None);
            out.blocks_mut()[index].state = BlockState::Skipped;
        }
        Ok(())
    }

    /// Opens the blocks that `wanted` names, after `spine` of the same frame.
    pub fn read_blocks(
        &mut self,
        offset: u64,
        header: &FrameHeader,
        out: &mut Frame,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let mut at = offset + header.spine_end() as u64;
        for index in 0..self.blocks.len() {
            let entry = self.blocks[index];
            let len = entry.sealed_len as usize;
            if wanted(index) {
                let state = match self.cipher(entry.key) {
                    Some(Ok(cipher)) => {
                        let place = self.piece_place(header, index as u32);
                        let raw_len = entry.raw_len as usize;
                        let unsealing = Unsealing {
                            cipher: &cipher,
                            flags: header.flags,
                            raw_len,
                        };
                        let bytes = &mut out.blocks_mut()[index].bytes;
                        self.open_at((at, len), &place, &unsealing, bytes)?
                            .ok_or_else(|| {
                                corrupt(self.number, at, "a block of the frame does not open")
                            })?;
                        BlockState::Open
                    }
                    Some(Err(_)) => BlockState::Locked,
                    None => return Err(corrupt(self.number, at, "a block names an unknown key")),
                };
                out.blocks_mut()[index].state = state;
            }
            at += len as u64;
        }
        Ok(())
    }

    /// Opens a whole frame, with as few reads as possible.
    pub fn whole(&mut self, offset: u64, header: &FrameHeader, out: &mut Frame) -> Result<()> {
        self.load(offset, header.len as usize)?;
        self.spine(offset, header, out)?;
        self.read_blocks(offset, header, out, |_| true)
    }

    fn locked(&self, offset: u64, group: KeyGroupId) -> Error {
        let detail = format!("the key of group {group} is not to be had");
        Error::new(ErrorKind::Unavailable, "read segment", detail)
            .at(place(self.number, offset))
            .hint("every spine needs the default key: make its key-encryption key usable again")
    }

    /// Builds the index of `bytes[..len]` by looking at every frame.
    pub fn build_index(&mut self, len: u64) -> Result<SegmentIndex> {
        let mut index = SegmentIndex::default();
        let mut frame = Frame::default();
        let mut offset = SEGMENT_HEADER_BYTES as u64;
        while offset < len {
            let header = self.frame_header(offset)?;
            let known = self.keys.len();
            self.directory(offset, &header)?;
            if self.keys.len() > known {
                let fresh = self
                    .keys
                    .keys()
                    .filter(|key| !index.knows_key(**key))
                    .copied();
                let fresh: Vec<u32> = fresh.collect();
                index.add_keys(&fresh, offset);
            }
            if !header.has(flag::CHECKPOINT) {
                self.spine(offset, &header, &mut frame)?;
                frame.collect_tables();
                index.add(&header, offset, &frame.tables);
            }
            offset += u64::from(header.len);
        }
        Ok(index)
    }
}
