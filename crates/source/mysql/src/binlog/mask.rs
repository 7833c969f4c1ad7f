//! Masking: a value that goes no further than its hash.

use aws_lc_rs::{digest, hmac};
use change::value::{put_value, read_cell};
use change::wire::WireReader;
use change::{Cell, Value};

/// The optional key of hashes; its bytes never appear in output.
#[derive(Clone, Default)]
pub struct MaskKey(Option<hmac::Key>);

impl MaskKey {
    /// Plain SHA-256 where `secret` is empty, else HMAC-SHA-256 with it.
    pub fn new(secret: &[u8]) -> Self {
        Self((!secret.is_empty()).then(|| hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    fn hash(&self, bytes: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        match &self.0 {
            None => out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref()),
            Some(key) => out.copy_from_slice(hmac::sign(key, bytes).as_ref()),
        }
        out
    }
}

impl std::fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
            "MaskKey(…)"
        } else {
            "MaskKey"
        })
    }
}

impl PartialEq for MaskKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_none() == other.0.is_none()
    }
}
impl Eq for MaskKey {}

/// Replaces the cell that starts at `start` (the last one in `out`) by its hash in hex; NULL and
/// unknown stay.
///
/// The hash is over the text of text, JSON, decimal and integer values, over the bytes of binary
/// ones, and over the stored cell of all others.
pub fn hash_last_cell(out: &mut Vec<u8>, start: usize, key: &MaskKey) {
    let Ok(cell) = read_cell(&mut WireReader::new(&out[start..])) else {
        return;
    };
    let hash = match cell {
        Cell::Null | Cell::Unknown => return,
        Cell::Value(Value::Text(text) | Value::Json(text) | Value::Decimal(text)) => {
            key.hash(text.as_bytes())
        }
        Cell::Value(Value::Bytes(bytes) | Value::InvalidText(bytes)) => key.hash(bytes),
        Cell::Value(Value::Int(n)) => key.hash(itoa::Buffer::new().format(n).as_bytes()),
        Cell::Value(Value::UInt(n)) => key.hash(itoa::Buffer::new().format(n).as_bytes()),
        Cell::Value(_) => key.hash(&out[start..]),
    };
    let mut hex = [0u8; 64];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(hash) {
        pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    out.truncate(start);
    let text = std::str::from_utf8(&hex).expect("hex is ASCII");
    put_value(out, Value::Text(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_becomes_its_hash_and_null_stays() {
        let mut out = vec![9];
        put_value(&mut out, Value::Text("abc"));
        hash_last_cell(&mut out, 1, &MaskKey::new(b""));
        let cell = read_cell(&mut WireReader::new(&out[1..])).unwrap();
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(cell, Cell::Value(Value::Text(sha)));
        let mut keyed = Vec::new();
        put_value(&mut keyed, Value::Text("abc"));
        hash_last_cell(&mut keyed, 0, &MaskKey::new(b"k"));
        assert_ne!(keyed, out[1..]);
    }
}
