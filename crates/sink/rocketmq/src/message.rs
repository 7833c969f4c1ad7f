//! One message: its body, its properties, and its stable id.

use bytes::Bytes;
use cheetah_string::CheetahString;
use rocketmq_client_rust::ClientError;
use rocketmq_model::common::message::message_single::Message;
use std::fmt::Write;
use std::sync::Arc;

/// The property that holds the stable id.
pub(crate) const ID_PROPERTY: &str = "headwater_id";

/// Longest key text that is sent as it is: the broker's index and consoles work best with short ones.
const KEY_BYTES_MAX: usize = 255;

/// What a message takes on the wire beside body and topic, bytes: fixed fields and short properties.
pub(crate) const OVERHEAD_BYTES: usize = 256;

/// Where a message comes from, to name it if it is refused.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// `database.table`; empty for what belongs to no table.
    pub table: Arc<str>,
    /// Hash of the row's key; none for what is no row: a refusal then means the whole table.
    pub key_token: Option<u64>,
    pub sequence: u64,
}

/// One message on its way.
#[derive(Debug)]
pub(crate) struct Record {
    pub body: Bytes,
    pub tag: CheetahString,
    /// KEYS; empty for none.
    pub key: CheetahString,
    /// The sharding key; empty for none.
    pub sharding_key: CheetahString,
    pub id: CheetahString,
    pub origin: Origin,
}

impl Record {
    /// Bytes that it takes in a batch, about.
    pub fn size(&self) -> usize {
        self.body.len() + self.key.len() + self.sharding_key.len() + OVERHEAD_BYTES
    }

    /// The client's own form of it.
    pub fn message(&self, topic: &CheetahString) -> Result<Message, ClientError> {
        let mut message = Message::builder()
            .topic(topic.clone())
            .body(self.body.clone())
            .raw_property(CheetahString::from_static_str(ID_PROPERTY), self.id.clone())?;
        if !self.tag.is_empty() {
            message = message.tags(self.tag.clone());
        }
        if !self.key.is_empty() {
            message = message.key(self.key.clone());
        }
        if !self.sharding_key.is_empty() {
            message = message.sharding_key(self.sharding_key.clone());
        }
        Ok(message.build()?)
    }
}

/// Which of the messages with one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A message of the transaction's begin, whose sequence is that of its first record.
    Begin(usize),
    /// A message of a row, a statement or a commit.
    Of(usize),
    /// A heartbeat, with the source's time.
    Heartbeat(u64),
}

/// The stable id: the same event gives the same id on each run over one journal.
pub(crate) fn id(sequence: u64, piece: Piece) -> CheetahString {
    CheetahString::from_string(match piece {
        Piece::Of(index) => format!("{sequence}-{index}"),
        Piece::Begin(index) => format!("{sequence}-b{index}"),
        Piece::Heartbeat(time_us) => format!("{sequence}-h{time_us}"),
    })
}

/// A key's text as a property: without the characters that part keys and properties, and short.
pub(crate) fn key_property(text: &str, token: u64) -> CheetahString {
    let is_plain = |byte: u8| byte > b' ' && byte != b'%' && byte != 0x7f;
    if text.len() <= KEY_BYTES_MAX && text.bytes().all(is_plain) {
        return CheetahString::from_slice(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0'..=' ' | '%' | '\x7f' => {
                write!(out, "%{:02X}", c as u32).expect("writing to a String does not fail");
            }
            _ => out.push(c),
        }
        if out.len() > KEY_BYTES_MAX {
            return CheetahString::from_string(format!("#{token:016x}"));
        }
    }
    CheetahString::from_string(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_one_word_without_control_characters() {
        assert_eq!(key_property("42^7", 1), "42^7");
        assert_eq!(key_property("价", 1), "价");
        assert_eq!(key_property("a b\u{1}c%", 1), "a%20b%01c%25");
        assert_eq!(key_property(&"x".repeat(300), 0xab), "#00000000000000ab");
        assert_eq!(key_property("", 1), "");
    }

    #[test]
    fn ids_are_the_sequence_and_the_piece() {
        assert_eq!(id(7, Piece::Of(0)), "7-0");
        assert_eq!(id(7, Piece::Begin(0)), "7-b0");
        assert_eq!(id(7, Piece::Heartbeat(12)), "7-h12");
    }
}
