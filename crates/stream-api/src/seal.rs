//! Opaque texts that only this server can make: iterators and page tokens.
//!
//! Shape: URL-safe base64 of kind, fields, and a truncated HMAC-SHA256 over both. They hold no secret; what protects is
//! that nobody else can make one.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::io;
use std::path::Path;

const MAC_BYTES: usize = 16;

/// What a sealed text is for; one kind never passes for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Iterator = 1,
    Streams = 2,
    Shards = 3,
    Tables = 4,
    Tags = 5,
    Keyspaces = 6,
}

/// Makes and checks sealed texts, and chains audit records.
#[derive(Clone)]
pub struct Sealer {
    key: hmac::Key,
}

impl Sealer {
    /// Of a secret.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    /// Of the secret in a file that is made when it is missing, readable by its owner only: iterators then stay good
    /// over a restart.
    pub fn open_or_create(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut secret = [0; 32];
        match std::fs::read(path) {
            Ok(bytes) => {
                secret = bytes.as_slice().try_into().map_err(|_| {
                    let text = format!(
                        "{} does not hold 32 bytes; hint: remove it, iterators are then made anew",
                        path.display()
                    );
                    io::Error::new(io::ErrorKind::InvalidData, text)
                })?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                use io::Write;
                aws_lc_rs::rand::fill(&mut secret)
                    .map_err(|_| io::Error::other("the system gives no random bytes"))?;
                let mut options = std::fs::File::options();
                let mut file = options
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(path)?;
                file.write_all(&secret)?;
                file.sync_all()?;
            }
            Err(error) => return Err(error),
        }
        let sealer = Self::new(&secret);
        zeroize::Zeroize::zeroize(&mut secret);
        Ok(sealer)
    }

    /// The MAC of some bytes.
    pub(crate) fn mac(&self, bytes: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        out.copy_from_slice(hmac::sign(&self.key, bytes).as_ref());
        out
    }

    pub(crate) fn seal(&self, kind: Kind, fields: &[u8]) -> String {
        let mut bytes = Vec::with_capacity(1 + fields.len() + MAC_BYTES);
        bytes.push(kind as u8);
        bytes.extend_from_slice(fields);
        let mac = self.mac(&bytes);
        bytes.extend_from_slice(&mac[..MAC_BYTES]);
        URL_SAFE_NO_PAD.encode(&bytes)
    }

    /// The fields of a text that this server made.
    pub(crate) fn open(&self, kind: Kind, text: &str) -> Option<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let at = bytes.len().checked_sub(MAC_BYTES)?;
        let mac = self.mac(&bytes[..at]);
        aws_lc_rs::constant_time::verify_slices_are_equal(&mac[..MAC_BYTES], &bytes[at..]).ok()?;
        bytes.truncate(at);
        let first = *bytes.first()?;
        (first == kind as u8).then(|| bytes.split_off(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_here_opens() {
        let ours = Sealer::new(&[7; 32]);
        let text = ours.seal(Kind::Iterator, b"fields");
        assert_eq!(
            ours.open(Kind::Iterator, &text).as_deref(),
            Some(&b"fields"[..])
        );
        assert_eq!(ours.open(Kind::Streams, &text), None);
        assert_eq!(Sealer::new(&[8; 32]).open(Kind::Iterator, &text), None);
        for at in 0..text.len() {
            let mut forged = text.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(ours.open(Kind::Iterator, &forged), None, "{at}");
        }
        for bad in ["", "AAAA", "!", &text[1..], &text[..text.len() - 1]] {
            assert_eq!(ours.open(Kind::Iterator, bad), None);
        }
    }
}
