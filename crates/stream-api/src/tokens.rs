//! What iterators and page tokens hold.

use crate::error::{ApiError, Code, Fault};
use crate::seal::{Kind, Sealer};
use stream::{ReadFrom, Sequence, ShardId};

/// Iterators and page tokens are good for this long.
pub const VALID_US: i64 = 15 * 60 * 1_000_000;
/// A page token's text has at least 80 characters: boto3 refuses shorter ones itself.
const TOKEN_FIELDS_MIN: usize = 64;

/// A shard iterator: where a read begins, whose it is, and when it was given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Iterator {
    pub arn: String,
    pub shard: ShardId,
    pub from: ReadFrom,
    pub issued_us: i64,
    /// The same in all iterators that follow one another: one reader.
    pub reader: u64,
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn text(&mut self) -> Option<&'a str> {
        let count = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
        std::str::from_utf8(self.take(usize::from(count))?).ok()
    }
}

impl Iterator {
    pub fn seal(&self, sealer: &Sealer) -> String {
        let mut out = Vec::with_capacity(64 + self.arn.len() + 37);
        out.extend_from_slice(&self.issued_us.to_le_bytes());
        out.extend_from_slice(&self.reader.to_le_bytes());
        match self.from {
            ReadFrom::Horizon => out.push(0),
            ReadFrom::Sequence(sequence) => {
                out.push(1);
                out.extend_from_slice(&sequence.0.to_le_bytes());
            }
        }
        put_text(&mut out, &self.shard.to_string());
        put_text(&mut out, &self.arn);
        sealer.seal(Kind::Iterator, &out)
    }

    /// Errors: `InvalidFormat` for a text that was not made here.
    pub fn open(sealer: &Sealer, text: &str) -> Result<Self, ApiError> {
        sealer
            .open(Kind::Iterator, text)
            .and_then(|fields| Self::read(&mut Fields(&fields)))
            .ok_or_else(|| {
                ApiError::invalid(
                    "the shard iterator is none that this server gave out; get one with GetShardIterator",
                )
            })
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let issued_us = fields.u64()? as i64;
        let reader = fields.u64()?;
        let from = match fields.byte()? {
            0 => ReadFrom::Horizon,
            _ => ReadFrom::Sequence(Sequence(fields.u64()?)),
        };
        Some(Self {
            shard: ShardId::parse(fields.text()?)?,
            arn: fields.text()?.to_owned(),
            from,
            issued_us,
            reader,
        })
    }

    /// Errors: `ExpiredIterator`.
    pub fn check_age(&self, now_us: i64) -> Result<(), ApiError> {
        match now_us - self.issued_us > VALID_US {
            true => Err(ApiError::new(
                Code::Validation(Fault::ExpiredIterator),
                "the shard iterator is older than 15 minutes; get one with AFTER_SEQUENCE_NUMBER and the last number read",
            )),
            false => Ok(()),
        }
    }
}

/// Where a listing goes on: the filters it was made with, and the last item of the page before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageToken<'a> {
    /// What was asked for besides the page: a token counts only for the same listing.
    pub of: &'a [&'a str],
    pub after: &'a str,
}

impl PageToken<'_> {
    pub fn seal(&self, sealer: &Sealer, kind: Kind, now_us: i64) -> String {
        let mut out = now_us.to_le_bytes().to_vec();
        put_text(&mut out, self.after);
        for part in self.of {
            put_text(&mut out, part);
        }
        out.resize(out.len().max(TOKEN_FIELDS_MIN), 0);
        sealer.seal(kind, &out)
    }
}

/// The place after which a listing goes on; none without a token.
///
/// Errors: `InvalidFormat` for a token that was not made here or for another listing, `ExpiredNextToken`.
pub(crate) fn open_page(
    sealer: &Sealer,
    kind: Kind,
    token: Option<&str>,
    of: &[&str],
    now_us: i64,
) -> Result<Option<String>, ApiError> {
    let Some(token) = token else { return Ok(None) };
    let read = |bytes: Vec<u8>| {
        let mut fields = Fields(&bytes);
        let issued_us = fields.u64()? as i64;
        let after = fields.text()?.to_owned();
        let same = of.iter().all(|part| fields.text() == Some(part));
        same.then_some((issued_us, after))
    };
    let (issued_us, after) = sealer.open(kind, token).and_then(read).ok_or_else(|| {
        ApiError::invalid(
            "nextToken is none that this server gave out for this listing; begin again without it",
        )
    })?;
    if now_us - issued_us > VALID_US {
        return Err(ApiError::new(
            Code::Validation(Fault::ExpiredNextToken),
            "nextToken is older than 15 minutes; begin again without it",
        ));
    }
    Ok(Some(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iterator() -> Iterator {
        Iterator {
            arn: "arn:aws:cassandra:us-east-1:000000000000:/keyspace/k/table/t/stream/x".into(),
            shard: ShardId::parse("shardId-00000001796000000123-0a0b0c0d").unwrap(),
            from: ReadFrom::Sequence(Sequence(42)),
            issued_us: 1_000,
            reader: 9,
        }
    }

    #[test]
    fn iterators_read_back_and_grow_old() {
        let sealer = Sealer::new(&[1; 32]);
        for from in [ReadFrom::Horizon, ReadFrom::Sequence(Sequence(u64::MAX))] {
            let iterator = Iterator { from, ..iterator() };
            let text = iterator.seal(&sealer);
            assert!(text.len() <= 4096);
            assert_eq!(Iterator::open(&sealer, &text), Ok(iterator));
        }
        assert!(iterator().check_age(1_000 + VALID_US).is_ok());
        let old = iterator().check_age(1_001 + VALID_US).unwrap_err();
        assert_eq!(old.code, Code::Validation(Fault::ExpiredIterator));
    }

    #[test]
    fn page_tokens_are_long_enough_and_count_for_their_listing() {
        let sealer = Sealer::new(&[1; 32]);
        let token = PageToken {
            of: &["shop", ""],
            after: "a",
        }
        .seal(&sealer, Kind::Streams, 5);
        assert!(token.len() >= 80);
        let open = |kind, of: &[&str], now| open_page(&sealer, kind, Some(&token), of, now);
        assert_eq!(open(Kind::Streams, &["shop", ""], 6), Ok(Some("a".into())));
        let code = |result: Result<_, ApiError>| result.unwrap_err().code;
        let invalid = Code::Validation(Fault::InvalidFormat);
        assert_eq!(code(open(Kind::Streams, &["shop", "t"], 6)), invalid);
        assert_eq!(code(open(Kind::Shards, &["shop", ""], 6)), invalid);
        let expired = Code::Validation(Fault::ExpiredNextToken);
        assert_eq!(
            code(open(Kind::Streams, &["shop", ""], 6 + VALID_US)),
            expired
        );
    }
}
