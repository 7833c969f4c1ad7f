//! How messages stand one after another in a file.

use crate::Messages;

/// Appends messages. Text formats: a line each. Binary formats: each after its length, 4 bytes, big-endian.
pub fn put_messages(out: &mut Vec<u8>, messages: &Messages, is_binary: bool) {
    for message in messages.iter() {
        if is_binary {
            out.extend_from_slice(&(message.len() as u32).to_be_bytes());
            out.extend_from_slice(message);
        } else {
            out.extend_from_slice(message);
            out.push(b'\n');
        }
    }
}
