//! Making pieces of a frame smaller and secret, and back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::format::{TAG_BYTES, flag};
use crate::id::{JournalId, KeyGroupId};
use crate::keys::{DataKey, KeyError, KeyProvider};
use crate::options::Compression;
use crate::state::locked;

/// The block number of the spine.
pub(crate) const SPINE: u32 = u32::MAX;
/// Opened data keys kept for all readers together; more are asked for again.
const KEYS_MAX: usize = 256;

/// Where a piece lies: its nonce, and what it is bound to.
#[derive(Clone, Copy)]
pub(crate) struct PiecePlace {
    pub journal: JournalId,
    pub segment: u32,
    pub ordinal: u32,
    pub block: u32,
    pub base: u64,
}

impl PiecePlace {
    fn nonce(&self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.segment.to_le_bytes());
        nonce[4..8].copy_from_slice(&self.ordinal.to_le_bytes());
        nonce[8..].copy_from_slice(&self.block.to_le_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    fn context(&self) -> Aad<[u8; 24]> {
        let mut context = [0; 24];
        context[..16].copy_from_slice(&self.journal.0);
        context[16..].copy_from_slice(&self.base.to_le_bytes());
        Aad::from(context)
    }
}

/// A data key ready for use.
pub(crate) struct CipherKey(LessSafeKey);

impl CipherKey {
    pub fn new(key: &DataKey) -> Result<CipherKey> {
        let unbound = UnboundKey::new(&AES_256_GCM, key.bytes())
            .map_err(|_| Error::new(ErrorKind::Internal, "set up a data key", "refused"))?;
        Ok(CipherKey(LessSafeKey::new(unbound)))
    }

    /// Seals `bytes` in place and appends the tag.
    pub fn seal<const N: usize>(
        &self,
        nonce: Nonce,
        context: Aad<[u8; N]>,
        bytes: &mut Vec<u8>,
    ) -> std::result::Result<(), ()> {
        self.0
            .seal_in_place_append_tag(nonce, context, bytes)
            .map_err(|_| ())
    }

    /// Opens what `seal` made, in place; the length of the clear text, or none when it is not that.
    pub fn open<const N: usize>(
        &self,
        nonce: Nonce,
        context: Aad<[u8; N]>,
        bytes: &mut [u8],
    ) -> Option<usize> {
        self.0
            .open_in_place(nonce, context, bytes)
            .ok()
            .map(|clear| clear.len())
    }
}

/// A data key that the writer seals with.
pub(crate) struct SealKey {
    /// Names it within one epoch.
    pub number: u32,
    pub group: KeyGroupId,
    pub wrapped: Vec<u8>,
    pub cipher: Arc<CipherKey>,
}

/// Compresses `raw` and seals it to `buffer[at..]`, growing the buffer as needed; returns the sealed length.
pub(crate) fn seal_piece(
    raw: &[u8],
    place: &PiecePlace,
    (cipher, compression): (&CipherKey, Compression),
    buffer: &mut Vec<u8>,
    at: usize,
) -> Result<usize> {
    let room = compress_bound(raw.len(), compression) + TAG_BYTES;
    if buffer.len() < at + room {
        buffer.resize(at + room, 0);
    }
    let packed = match compress(raw, compression, &mut buffer[at..at + room]) {
        Some(len) if len < raw.len() => len,
        _ => {
            buffer[at..at + raw.len()].copy_from_slice(raw);
            raw.len()
        }
    };
    let body = &mut buffer[at..at + packed];
    let tag = cipher
        .0
        .seal_in_place_separate_tag(place.nonce(), place.context(), body)
        .map_err(|_| Error::new(ErrorKind::Internal, "seal frame", "the cipher refused"))?;
    buffer[at + packed..at + packed + TAG_BYTES].copy_from_slice(tag.as_ref());
    Ok(packed + TAG_BYTES)
}

fn compress_bound(len: usize, compression: Compression) -> usize {
    match compression {
        Compression::Lz4 => lz4_flex::block::get_maximum_output_size(len),
        Compression::Zstd1 => zstd::zstd_safe::compress_bound(len),
        Compression::None => len,
    }
}

fn compress(raw: &[u8], compression: Compression, out: &mut [u8]) -> Option<usize> {
    match compression {
        Compression::Lz4 => lz4_flex::block::compress_into(raw, out).ok(),
        Compression::Zstd1 => zstd::bulk::compress_to_buffer(raw, out, 1).ok(),
        Compression::None => None,
    }
}

/// What opening a piece needs to know about it.
pub(crate) struct Unsealing<'a> {
    pub cipher: &'a CipherKey,
    /// The frame's flags.
    pub flags: u16,
    pub raw_len: usize,
}

/// Opens `sealed` in place and unpacks it into `out`. `None` when it is not what was sealed there.
pub(crate) fn open_piece(
    sealed: &mut [u8],
    place: &PiecePlace,
    unsealing: &Unsealing<'_>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let Unsealing {
        cipher,
        flags,
        raw_len,
    } = *unsealing;
    let plain = cipher
        .0
        .open_in_place(place.nonce(), place.context(), sealed)
        .ok()?;
    if plain.len() == raw_len {
        out.clear();
        out.extend_from_slice(plain);
        return Some(());
    }
    out.resize(raw_len, 0);
    let count = match flags & (flag::LZ4 | flag::ZSTD) {
        flag::LZ4 => lz4_flex::block::decompress_into(plain, out).ok()?,
        flag::ZSTD => zstd::bulk::decompress_to_buffer(plain, &mut out[..]).ok()?,
        _ => return None,
    };
    (count == raw_len).then_some(())
}

/// An opened data key and whose it is.
type GroupKey = (KeyGroupId, Arc<CipherKey>);

/// Data keys opened so far, shared by all readers of a journal.
pub(crate) struct OpenKeys {
    pub provider: Arc<dyn KeyProvider>,
    opened: Mutex<HashMap<Vec<u8>, GroupKey>>,
    /// How often a group's keys were forgotten; none yet for those not in it.
    generations: Mutex<HashMap<KeyGroupId, u64>>,
}

impl OpenKeys {
    pub fn new(provider: Arc<dyn KeyProvider>) -> Self {
        OpenKeys {
            provider,
            opened: Mutex::default(),
            generations: Mutex::default(),
        }
    }

    /// Changes whenever the data keys of `group` have to be made and opened anew.
    pub fn generation(&self, group: KeyGroupId) -> u64 {
        locked(&self.generations).get(&group).copied().unwrap_or(0)
    }

    /// Forgets what was opened for `group`: the provider is asked again, and the writer takes a new data key.
    pub fn forget(&self, group: KeyGroupId) {
        *locked(&self.generations).entry(group).or_default() += 1;
        locked(&self.opened).retain(|_, (owner, _)| *owner != group);
    }

    /// The key that `wrapped` holds, asking the provider only once.
    pub fn open(&self, group: KeyGroupId, wrapped: &[u8]) -> Result<Arc<CipherKey>, KeyError> {
        if let Some((owner, cipher)) = locked(&self.opened).get(wrapped)
            && *owner == group
        {
            return Ok(cipher.clone());
        }
        let key = self.provider.unwrap(group, wrapped)?;
        let cipher = CipherKey::new(&key).map_err(|error| KeyError::Locked(error.to_string()))?;
        let cipher = Arc::new(cipher);
        self.remember(wrapped, (group, cipher.clone()));
        Ok(cipher)
    }

    fn remember(&self, wrapped: &[u8], cipher: GroupKey) {
        let mut opened = locked(&self.opened);
        if opened.len() >= KEYS_MAX {
            opened.clear();
        }
        opened.insert(wrapped.to_vec(), cipher);
    }

    /// A fresh data key for `group`, wrapped.
    pub fn create(&self, group: KeyGroupId, number: u32) -> Result<SealKey> {
        let key = DataKey::random()?;
        let wrapped = self.provider.wrap(group, &key).map_err(|source| {
            Error::new(
                ErrorKind::Unavailable,
                "wrap a data key",
                source.to_string(),
            )
            .at(format!("key group {group}"))
            .hint("give the writer the key of this group, or move the table to another")
            .caused_by(source)
        })?;
        let cipher = Arc::new(CipherKey::new(&key)?);
        self.remember(&wrapped, (group, cipher.clone()));
        Ok(SealKey {
            number,
            group,
            wrapped,
            cipher,
        })
    }
}
