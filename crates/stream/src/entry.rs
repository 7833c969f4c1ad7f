//! Stored forms: what the journal's control state holds about streams.
//!
//! | Key | Value |
//! |---|---|
//! | `stream/s/NNNNNNNN` | one stream, by its number in hex |
//! | `stream/h/NNNNNNNN/HHHHHHHH` | one shard of it |
//! | `stream/t/RESOURCE` | tags of a table or keyspace: its shown names, `keyspace` or `keyspace/table` |
//! | `stream/d/TABLE` | set when the table was dropped or renamed, by its number in the journal |
//! | `stream/next` | the next stream's number |
//!
//! Values begin with a version byte. Numbers are varints.

use crate::arn::Label;
use crate::info::{StreamStatus, Tags};
use crate::load::ShardLimits;
use crate::record::ViewType;
use change::TableId;
use change::wire::{WireError, WireReader, put_bytes, put_i64, put_option, put_u64};

pub(crate) const STREAM_PREFIX: &[u8] = b"stream/s/";
pub(crate) const SHARD_PREFIX: &[u8] = b"stream/h/";
pub(crate) const TAG_PREFIX: &[u8] = b"stream/t/";
pub(crate) const GONE_PREFIX: &[u8] = b"stream/d/";
pub(crate) const NEXT_KEY: &[u8] = b"stream/next";
pub(crate) const SCHEMA_PREFIX: &[u8] = b"schema/";

const VERSION: u8 = 1;

pub(crate) fn stream_key(number: u32) -> Vec<u8> {
    format!("stream/s/{number:08x}").into_bytes()
}

pub(crate) fn shard_key(stream: u32, shard: u32) -> Vec<u8> {
    format!("stream/h/{stream:08x}/{shard:08x}").into_bytes()
}

pub(crate) fn gone_key(table: u32) -> Vec<u8> {
    [GONE_PREFIX, table.to_string().as_bytes()].concat()
}

pub(crate) fn tag_key(resource: &str) -> Vec<u8> {
    format!("stream/t/{resource}").into_bytes()
}

/// The number of the stream that a stream's or shard's key names.
pub(crate) fn stream_of_key(key: &[u8]) -> Option<u32> {
    let digits =
        std::str::from_utf8(key.get(STREAM_PREFIX.len()..STREAM_PREFIX.len() + 8)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

/// The number of the shard that a shard's key names.
pub(crate) fn shard_of_key(key: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(key.get(SHARD_PREFIX.len() + 9..)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

/// One stream as stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamEntry {
    pub label: Label,
    /// The source's own names.
    pub database: String,
    pub table: String,
    pub table_id: TableId,
    pub status: StreamStatus,
    pub view: ViewType,
    pub name: Option<String>,
    pub clustering: Vec<String>,
    pub include_snapshot: bool,
    pub propagate_tags: bool,
    /// 0 until it is enabled.
    pub enabled_at: u64,
    /// 0 until it is disabled.
    pub disabled_at: u64,
    pub reason: String,
    pub tags: Tags,
    pub limits: ShardLimits,
    /// Shards made so far.
    pub shards_made: u32,
}

/// One shard as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShardEntry {
    pub created_ms: u64,
    /// Numbers of its parents.
    pub parents: Vec<u32>,
    pub from_hash: u64,
    pub to_hash: u64,
    pub starting: u64,
    /// 0 while it is open.
    pub ending: u64,
}

const STATUSES: [StreamStatus; 4] = [
    StreamStatus::Enabling,
    StreamStatus::Enabled,
    StreamStatus::Disabling,
    StreamStatus::Disabled,
];
const VIEWS: [ViewType; 4] = [
    ViewType::KeysOnly,
    ViewType::NewImage,
    ViewType::OldImage,
    ViewType::NewAndOldImages,
];

fn place<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|other| other == one).unwrap_or(0) as u8
}

fn pick<T: Copy>(all: &[T], r: &mut WireReader<'_>, what: &'static str) -> Result<T, WireError> {
    let offset = r.offset();
    let index = usize::from(r.u8()?);
    all.get(index).copied().ok_or(WireError { offset, what })
}

fn version(r: &mut WireReader<'_>) -> Result<(), WireError> {
    match r.u8()? {
        VERSION => Ok(()),
        _ => Err(WireError {
            offset: 0,
            what: "a known version of a stream's entry",
        }),
    }
}

pub(crate) fn encode_tags(tags: &Tags) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_tags(&mut out, tags);
    out
}

pub(crate) fn decode_tags(bytes: &[u8]) -> Result<Tags, WireError> {
    let mut r = WireReader::new(bytes);
    version(&mut r)?;
    read_tags(&mut r)
}

fn put_tags(out: &mut Vec<u8>, tags: &Tags) {
    put_u64(out, tags.len() as u64);
    for (key, value) in tags {
        put_bytes(out, key.as_bytes());
        put_bytes(out, value.as_bytes());
    }
}

fn read_tags(r: &mut WireReader<'_>) -> Result<Tags, WireError> {
    let count = r.u64()?;
    (0..count)
        .map(|_| Ok((r.text()?.to_owned(), r.text()?.to_owned())))
        .collect()
}

impl StreamEntry {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_i64(&mut out, self.label.0);
        put_bytes(&mut out, self.database.as_bytes());
        put_bytes(&mut out, self.table.as_bytes());
        put_u64(&mut out, u64::from(self.table_id.0));
        out.push(place(&STATUSES, &self.status));
        out.push(place(&VIEWS, &self.view));
        put_option(&mut out, self.name.as_deref());
        put_u64(&mut out, self.clustering.len() as u64);
        for column in &self.clustering {
            put_bytes(&mut out, column.as_bytes());
        }
        out.push(u8::from(self.include_snapshot) | u8::from(self.propagate_tags) << 1);
        put_u64(&mut out, self.enabled_at);
        put_u64(&mut out, self.disabled_at);
        put_bytes(&mut out, self.reason.as_bytes());
        put_tags(&mut out, &self.tags);
        self.limits.encode(&mut out);
        put_u64(&mut out, u64::from(self.shards_made));
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let r = &mut WireReader::new(bytes);
        version(r)?;
        let label = Label(r.i64()?);
        let (database, table) = (r.text()?.to_owned(), r.text()?.to_owned());
        let table_id = TableId(r.u32()?);
        let status = pick(&STATUSES, r, "a stream's state")?;
        let view = pick(&VIEWS, r, "a view type")?;
        let name = r.option()?.map(str::to_owned);
        let clustering = (0..r.u64()?)
            .map(|_| r.text().map(str::to_owned))
            .collect::<Result<_, _>>()?;
        let flags = r.u8()?;
        Ok(Self {
            label,
            database,
            table,
            table_id,
            status,
            view,
            name,
            clustering,
            include_snapshot: flags & 1 != 0,
            propagate_tags: flags & 2 != 0,
            enabled_at: r.u64()?,
            disabled_at: r.u64()?,
            reason: r.text()?.to_owned(),
            tags: read_tags(r)?,
            limits: ShardLimits::decode(r)?,
            shards_made: r.u32()?,
        })
    }
}

impl ShardEntry {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_u64(&mut out, self.created_ms);
        put_u64(&mut out, self.parents.len() as u64);
        for parent in &self.parents {
            put_u64(&mut out, u64::from(*parent));
        }
        for number in [self.from_hash, self.to_hash, self.starting, self.ending] {
            put_u64(&mut out, number);
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let r = &mut WireReader::new(bytes);
        version(r)?;
        let created_ms = r.u64()?;
        let parents = (0..r.u64()?).map(|_| r.u32()).collect::<Result<_, _>>()?;
        Ok(Self {
            created_ms,
            parents,
            from_hash: r.u64()?,
            to_hash: r.u64()?,
            starting: r.u64()?,
            ending: r.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_cut_ones_are_refused() {
        let stream = StreamEntry {
            label: Label(1_741_383_893_783),
            database: "shop".into(),
            table: "orders".into(),
            table_id: TableId(7),
            status: StreamStatus::Disabling,
            view: ViewType::OldImage,
            name: Some("o".into()),
            clustering: vec!["at".into()],
            include_snapshot: true,
            propagate_tags: false,
            enabled_at: 1 << 60,
            disabled_at: 0,
            reason: "x".into(),
            tags: Tags::from([("a".into(), "b".into())]),
            limits: ShardLimits::default(),
            shards_made: 3,
        };
        let bytes = stream.encode();
        assert_eq!(StreamEntry::decode(&bytes), Ok(stream));
        for cut in 0..bytes.len() {
            assert!(StreamEntry::decode(&bytes[..cut]).is_err());
        }
        let shard = ShardEntry {
            created_ms: 9,
            parents: vec![0, 4],
            from_hash: 0,
            to_hash: u64::MAX,
            starting: 1,
            ending: 2,
        };
        let bytes = shard.encode();
        assert_eq!(ShardEntry::decode(&bytes), Ok(shard));
        for cut in 0..bytes.len() {
            assert!(ShardEntry::decode(&bytes[..cut]).is_err());
        }
        let key = shard_key(0x1f, 0xab);
        assert_eq!(
            (stream_of_key(&key), shard_of_key(&key)),
            (Some(0x1f), Some(0xab))
        );
        assert_eq!(stream_of_key(&stream_key(7)), Some(7));
    }
}
