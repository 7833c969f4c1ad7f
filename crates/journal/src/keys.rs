//! Data keys and the keys that wrap them.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::rand;
use zeroize::{Zeroize, Zeroizing};

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::id::KeyGroupId;

/// Bytes of an AES-256 key.
const KEY_BYTES: usize = 32;
/// Bytes of a GCM nonce.
const NONCE_BYTES: usize = 12;
/// Binds a wrapped key to its purpose.
const WRAP_PURPOSE: &[u8] = b"headwater data key 1";

/// A data key in the clear; wiped when dropped, never shown.
pub struct DataKey(Zeroizing<[u8; KEY_BYTES]>);

impl DataKey {
    /// A fresh random key.
    pub fn random() -> Result<DataKey> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        rand::fill(&mut *bytes).map_err(|_| random_failed())?;
        Ok(DataKey(bytes))
    }

    /// The key that a provider unwrapped.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> DataKey {
        DataKey(Zeroizing::new(bytes))
    }

    /// The secret itself, for a provider to wrap.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey(..)")
    }
}

pub(crate) fn random_failed() -> Error {
    Error::new(
        ErrorKind::Internal,
        "draw random bytes",
        "the random generator failed",
    )
}

/// Why a key could not be wrapped or unwrapped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// The key is disabled, deleted, not granted, or not known here.
    #[error("locked: {0}")]
    Locked(String),
    /// The key service did not answer.
    #[error("unreachable: {0}")]
    Unavailable(String),
}

/// Wraps data keys under key-encryption keys that never leave it.
///
/// Order: none; calls may come from any thread at once. Called rarely: once per key group and hour by the writer, once
/// per data key by each reader. `unwrap` of what `wrap` returned for the same group gives the same key for as long as
/// the journal is retained, also after the group's key was rotated.
pub trait KeyProvider: Send + Sync {
    /// Wraps `key` under the newest key of `group`.
    fn wrap(&self, group: KeyGroupId, key: &DataKey) -> Result<Vec<u8>, KeyError>;
    /// Opens what `wrap` returned.
    fn unwrap(&self, group: KeyGroupId, wrapped: &[u8]) -> Result<DataKey, KeyError>;

    /// Makes sure that `group` has a key to wrap with. A service whose keys are made elsewhere does nothing.
    fn ensure(&self, _group: KeyGroupId) -> Result<(), KeyError> {
        Ok(())
    }

    /// Gives `group` a new key to wrap with; `unwrap` keeps opening what older ones wrapped.
    fn rotate(&self, group: KeyGroupId) -> Result<(), KeyError> {
        Err(elsewhere(group))
    }

    /// Destroys every key of `group`.
    fn erase(&self, group: KeyGroupId) -> Result<(), KeyError> {
        Err(elsewhere(group))
    }
}

fn elsewhere(group: KeyGroupId) -> KeyError {
    KeyError::Unavailable(format!(
        "the key of group {group} is managed in the key service itself"
    ))
}

/// Key-encryption keys in a local file that only its owner can read.
///
/// Shape: one key a line, `default <64 hex digits>` or `<group number> <64 hex digits>`; `#` begins a comment. Of
/// several lines for one group the last wraps and all unwrap, so a key is rotated by adding a line. The file is read
/// again when a group has no key in memory, so that a line that was put back is found.
pub struct FileKeys {
    path: PathBuf,
    keys: RwLock<Keys>,
    /// One change of the file at a time.
    changing: Mutex<()>,
}

type Keys = Vec<(KeyGroupId, LessSafeKey)>;

impl FileKeys {
    /// Reads the key file at `path`; makes one with a random default key, mode 0600, when there is none.
    pub fn open_or_create(path: &Path) -> Result<FileKeys> {
        if !path.exists() {
            create_file(path)?;
        }
        Self::open(path)
    }

    /// Reads the key file at `path`.
    ///
    /// Errors: `Unavailable` when it cannot be read, `Invalid` when a line is not `group hexkey`.
    pub fn open(path: &Path) -> Result<FileKeys> {
        let keys = read_file(path)?;
        Ok(FileKeys {
            path: path.to_owned(),
            keys: RwLock::new(keys),
            changing: Mutex::default(),
        })
    }

    fn keys(&self) -> RwLockReadGuard<'_, Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again.
    fn reload(&self) -> Result<(), KeyError> {
        let keys =
            read_file(&self.path).map_err(|error| KeyError::Unavailable(error.to_string()))?;
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// Reads the file again if `group` has no key in memory; whether it has one then.
    fn has(&self, group: KeyGroupId) -> bool {
        let known = || self.keys().iter().any(|(owner, _)| *owner == group);
        known() || (self.reload().is_ok() && known())
    }

    /// Adds a line with a fresh key.
    fn add(&self, group: KeyGroupId) -> Result<(), KeyError> {
        let write = || -> Result<()> {
            let line = line_of(group, &DataKey::random()?);
            let fail = |source| Error::io("write key file", &self.path, source);
            let mut file = OpenOptions::new()
                .append(true)
                .open(&self.path)
                .map_err(fail)?;
            file.write_all(line.as_bytes())
                .and_then(|()| file.sync_all())
                .map_err(fail)
        };
        write().map_err(|error| KeyError::Unavailable(error.to_string()))?;
        self.reload()
    }
}

fn read_file(path: &Path) -> Result<Keys> {
    let text = fs::read_to_string(path)
        .map(Zeroizing::new)
        .map_err(|source| Error::io("read key file", path, source))?;
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let place = format!("{}:{}", path.display(), index + 1);
        keys.push(parse_line(line).ok_or_else(|| invalid_line(place))?);
    }
    Ok(keys)
}

/// The keys of one group, the newest first.
fn of_group(keys: &Keys, group: KeyGroupId) -> impl Iterator<Item = &LessSafeKey> {
    let owned = move |(owner, _): &&(KeyGroupId, LessSafeKey)| *owner == group;
    keys.iter().rev().filter(owned).map(|(_, key)| key)
}

fn line_of(group: KeyGroupId, key: &DataKey) -> Zeroizing<String> {
    let mut text = Zeroizing::new(format!("{group} "));
    for byte in key.bytes() {
        text.push_str(&format!("{byte:02x}"));
    }
    text.push('\n');
    text
}

impl fmt::Debug for FileKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileKeys({} keys)", self.keys().len())
    }
}

impl KeyProvider for FileKeys {
    fn wrap(&self, group: KeyGroupId, key: &DataKey) -> Result<Vec<u8>, KeyError> {
        if !self.has(group) {
            return Err(no_key(group));
        }
        let keys = self.keys();
        let master = of_group(&keys, group).next().ok_or_else(|| no_key(group))?;
        let mut nonce = [0; NONCE_BYTES];
        rand::fill(&mut nonce).map_err(|_| KeyError::Unavailable("no random bytes".into()))?;
        let mut secret = Zeroizing::new(key.bytes().to_vec());
        secret.reserve(AES_256_GCM.tag_len());
        master
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                wrap_context(group),
                &mut *secret,
            )
            .map_err(|_| KeyError::Unavailable("sealing failed".into()))?;
        Ok([&nonce, &secret[..]].concat())
    }

    fn unwrap(&self, group: KeyGroupId, wrapped: &[u8]) -> Result<DataKey, KeyError> {
        let (nonce, sealed) = wrapped
            .split_at_checked(NONCE_BYTES)
            .ok_or_else(|| KeyError::Locked("the wrapped key is too short".into()))?;
        if !self.has(group) {
            return Err(no_key(group));
        }
        let keys = self.keys();
        let mut found_any = false;
        for master in of_group(&keys, group) {
            found_any = true;
            let mut secret = Zeroizing::new(sealed.to_vec());
            let nonce = Nonce::try_assume_unique_for_key(nonce)
                .map_err(|_| KeyError::Locked("the wrapped key is malformed".into()))?;
            if let Ok(plain) = master.open_in_place(nonce, wrap_context(group), &mut secret)
                && let Ok(bytes) = <[u8; KEY_BYTES]>::try_from(&*plain)
            {
                return Ok(DataKey::from_bytes(bytes));
            }
        }
        match found_any {
            true => Err(KeyError::Locked(format!(
                "no key of group {group} opens it"
            ))),
            false => Err(no_key(group)),
        }
    }

    fn ensure(&self, group: KeyGroupId) -> Result<(), KeyError> {
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.has(group) {
            true => Ok(()),
            false => self.add(group),
        }
    }

    fn rotate(&self, group: KeyGroupId) -> Result<(), KeyError> {
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.add(group)
    }

    fn erase(&self, group: KeyGroupId) -> Result<(), KeyError> {
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let write = || -> std::io::Result<()> {
            let text = fs::read_to_string(&self.path).map(Zeroizing::new)?;
            let kept = |line: &&str| {
                let line = line.split('#').next().unwrap_or_default().trim();
                parse_line(line).is_none_or(|(owner, _)| owner != group)
            };
            let mut left = Zeroizing::new(String::new());
            for line in text.lines().filter(kept) {
                left.push_str(line);
                left.push('\n');
            }
            let fresh = self.path.with_extension("key.new");
            let _ = fs::remove_file(&fresh);
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&fresh)?;
            file.write_all(left.as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)?;
            let folder = self
                .path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|error| KeyError::Unavailable(format!("write the key file: {error}")))?;
        self.reload()
    }
}

fn wrap_context(group: KeyGroupId) -> Aad<Vec<u8>> {
    Aad::from([WRAP_PURPOSE, &group.0.to_le_bytes()].concat())
}

fn no_key(group: KeyGroupId) -> KeyError {
    KeyError::Locked(format!("the key file has no key for group {group}"))
}

fn invalid_line(place: String) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "read key file",
        "the line is not `group hexkey`",
    )
    .at(place)
    .hint("write `default` or a group number, a space, and 64 hex digits")
}

fn parse_line(line: &str) -> Option<(KeyGroupId, LessSafeKey)> {
    let (group, hex) = line.split_once(char::is_whitespace)?;
    let group = match group {
        "default" => KeyGroupId::DEFAULT,
        number => KeyGroupId(number.parse().ok()?),
    };
    let mut bytes = parse_hex(hex.trim())?;
    let key = UnboundKey::new(&AES_256_GCM, &*bytes).ok()?;
    bytes.zeroize();
    Some((group, LessSafeKey::new(key)))
}

fn parse_hex(hex: &str) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    if hex.len() != 2 * KEY_BYTES || !hex.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

fn create_file(path: &Path) -> Result<()> {
    let key = DataKey::random()?;
    let text = line_of(KeyGroupId::DEFAULT, &key);
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|source| Error::io("create key file", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[&str]) -> FileKeys {
        let keys = lines.iter().map(|line| parse_line(line).unwrap()).collect();
        FileKeys {
            path: PathBuf::from("/nonexistent/keys"),
            keys: RwLock::new(keys),
            changing: Mutex::default(),
        }
    }

    #[test]
    fn a_group_gets_a_key_of_its_own_that_is_rotated_and_erased() {
        let path = std::env::temp_dir().join(format!("journal-keys-{}.key", std::process::id()));
        let _ = fs::remove_file(&path);
        let keys = FileKeys::open_or_create(&path).unwrap();
        let (own, data) = (KeyGroupId(5), DataKey::random().unwrap());
        assert!(keys.wrap(own, &data).is_err());
        keys.ensure(own).unwrap();
        keys.ensure(own).unwrap();
        let first = keys.wrap(own, &data).unwrap();
        keys.rotate(own).unwrap();
        let second = keys.wrap(own, &data).unwrap();
        let reopened = FileKeys::open(&path).unwrap();
        for wrapped in [&first, &second] {
            assert_eq!(reopened.unwrap(own, wrapped).unwrap().bytes(), data.bytes());
        }
        let shared = keys.wrap(KeyGroupId::DEFAULT, &data).unwrap();
        keys.erase(own).unwrap();
        assert!(keys.unwrap(own, &first).is_err() && keys.unwrap(own, &second).is_err());
        assert!(keys.unwrap(KeyGroupId::DEFAULT, &shared).is_ok());
        keys.ensure(own).unwrap();
        assert!(
            keys.unwrap(own, &first).is_err(),
            "a new key opens nothing old"
        );
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn rotated_key_wraps_with_the_new_line_and_unwraps_with_the_old() {
        let (old, new) = (
            "0 ".to_owned() + &"11".repeat(32),
            "0 ".to_owned() + &"22".repeat(32),
        );
        let data = DataKey::random().unwrap();
        let wrapped = keys(&[&old]).wrap(KeyGroupId(0), &data).unwrap();
        let rotated = keys(&[&old, &new]);
        assert_eq!(
            rotated.unwrap(KeyGroupId(0), &wrapped).unwrap().bytes(),
            data.bytes()
        );
        let again = rotated.wrap(KeyGroupId(0), &data).unwrap();
        assert!(keys(&[&old]).unwrap(KeyGroupId(0), &again).is_err());
        assert!(rotated.unwrap(KeyGroupId(3), &wrapped).is_err());
    }

    #[test]
    fn bad_line_names_its_place() {
        assert!(parse_line("default 12").is_none());
        assert!(parse_line(&format!("x {}", "11".repeat(32))).is_none());
    }
}
