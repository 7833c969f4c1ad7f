//! Names of resources as the API writes them.

use crate::error::{Error, ErrorKind};
use crate::name;
use change::temporal::{DatePacked, DateTimePacked, put_date};
use std::fmt;

/// Whose streams these are: the first fields of every ARN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `aws` or `aws-cn`; the Java adapter refuses others.
    pub partition: String,
    /// As `us-east-1`.
    pub region: String,
    /// Twelve digits.
    pub account: String,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            partition: "aws".into(),
            region: "us-east-1".into(),
            account: "000000000000".into(),
        }
    }
}

impl Identity {
    /// Whether all three fields can stand in an ARN that stock clients accept; else what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let plain = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if self.partition != "aws" && self.partition != "aws-cn" {
            return Err(format!(
                "partition `{}` is neither aws nor aws-cn, which are all that clients accept",
                self.partition
            ));
        }
        if !plain(&self.region) {
            return Err(format!("region `{}` is no region name", self.region));
        }
        if self.account.len() != 12 || !self.account.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("account `{}` is not 12 digits", self.account));
        }
        Ok(())
    }

    /// The ARN of a keyspace.
    pub fn keyspace_arn(&self, keyspace: &str) -> String {
        format!("{self}:/keyspace/{keyspace}/")
    }

    /// The ARN of a table.
    pub fn table_arn(&self, keyspace: &str, table: &str) -> String {
        format!("{self}:/keyspace/{keyspace}/table/{table}")
    }

    /// The ARN of a stream.
    pub fn stream_arn(&self, keyspace: &str, table: &str, label: Label) -> String {
        format!("{self}:/keyspace/{keyspace}/table/{table}/stream/{label}")
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity {
            partition,
            region,
            account,
        } = self;
        write!(f, "arn:{partition}:cassandra:{region}:{account}")
    }
}

/// When a stream was asked for, which also names it: milliseconds since 1970, unique per table.
///
/// Shown as `2025-03-07T21:44:53.783`, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub i64);

impl Label {
    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Label> {
        let bytes = text.as_bytes();
        let shape = b"dddd-dd-ddTdd:dd:dd.ddd";
        let fits = |(byte, want): (&u8, &u8)| match want {
            b'd' => byte.is_ascii_digit(),
            other => byte == other,
        };
        if bytes.len() != shape.len() || !bytes.iter().zip(shape).all(fits) {
            return None;
        }
        let number = |from: usize, to: usize| text[from..to].parse::<i64>().ok();
        let date = DatePacked::new(
            number(0, 4)? as u32,
            number(5, 7)? as u32,
            number(8, 10)? as u32,
        );
        let (hours, minutes, seconds) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let millis = ((date.to_days()? * 24 + hours) * 60 + minutes) * 60_000
            + seconds * 1000
            + number(20, 23)?;
        let label = Label(millis);
        (label.to_string() == text).then_some(label)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = DateTimePacked::from_epoch_micros(self.0.saturating_mul(1000));
        let mut date = Vec::with_capacity(10);
        put_date(&mut date, at.date());
        let millis = at.micros_of_day() / 1000;
        write!(
            f,
            "{}T{:02}:{:02}:{:02}.{:03}",
            String::from_utf8_lossy(&date),
            millis / 3_600_000,
            millis / 60_000 % 60,
            millis / 1000 % 60,
            millis % 1000
        )
    }
}

/// An ARN, taken apart. Names are as shown, see [`mod@crate::name`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arn {
    /// A keyspace.
    Keyspace {
        /// Its first fields.
        identity: Identity,
        /// Its name.
        keyspace: String,
    },
    /// A table.
    Table {
        /// Its first fields.
        identity: Identity,
        /// Its keyspace.
        keyspace: String,
        /// Its name.
        table: String,
    },
    /// A stream.
    Stream {
        /// Its first fields.
        identity: Identity,
        /// Its keyspace.
        keyspace: String,
        /// Its table.
        table: String,
        /// Its label.
        label: Label,
    },
}

impl Arn {
    /// Takes an ARN apart.
    ///
    /// Errors: `Invalid` when it is not one of a keyspace, a table or a stream.
    pub fn parse(text: &str) -> Result<Arn, Error> {
        Self::read(text).ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "read the ARN",
                "it is not the ARN of a keyspace, a table or a stream",
            )
        })
    }

    fn read(text: &str) -> Option<Arn> {
        if text.len() > 1024 {
            return None;
        }
        let mut fields = text.splitn(6, ':');
        let (arn, partition, service) = (fields.next()?, fields.next()?, fields.next()?);
        let identity = Identity {
            partition: partition.into(),
            region: fields.next()?.into(),
            account: fields.next()?.into(),
        };
        let path = fields.next()?.strip_prefix("/keyspace/")?;
        if arn != "arn" || service != "cassandra" || identity.check().is_err() {
            return None;
        }
        let valid = |name: &str| name::is_valid(name).then(|| name.to_owned());
        let mut parts = path.split('/');
        let keyspace = valid(parts.next()?)?;
        let Some(word) = parts.next().filter(|word| !word.is_empty()) else {
            return parts
                .next()
                .is_none()
                .then_some(Arn::Keyspace { identity, keyspace });
        };
        let table = (word == "table")
            .then(|| parts.next().and_then(valid))
            .flatten()?;
        let Some(word) = parts.next() else {
            return Some(Arn::Table {
                identity,
                keyspace,
                table,
            });
        };
        let label = (word == "stream")
            .then(|| parts.next().and_then(Label::parse))
            .flatten()?;
        parts.next().is_none().then_some(Arn::Stream {
            identity,
            keyspace,
            table,
            label,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_back_and_refuse_what_is_no_time() {
        let label = Label(1_741_383_893_783);
        assert_eq!(label.to_string(), "2025-03-07T21:44:53.783");
        assert_eq!(Label::parse("2025-03-07T21:44:53.783"), Some(label));
        assert_eq!(Label::parse("2025-03-07T21:44:63.783"), None);
        assert_eq!(Label::parse("2025-03-07 21:44:53.783"), None);
    }

    #[test]
    fn arns_read_back() {
        let identity = Identity::default();
        let stream = identity.stream_arn("shop", "orders", Label(1_741_383_893_783));
        assert!(matches!(Arn::parse(&stream), Ok(Arn::Stream { .. })));
        let table = identity.table_arn("shop", "orders");
        assert!(matches!(Arn::parse(&table), Ok(Arn::Table { .. })));
        let keyspace = identity.keyspace_arn("shop");
        assert!(matches!(Arn::parse(&keyspace), Ok(Arn::Keyspace { .. })));
        for bad in [
            "",
            "arn:aws:s3:::x",
            &stream[1..],
            &format!("{stream}/x"),
            &stream.replace("0000", "00"),
        ] {
            assert!(Arn::parse(bad).is_err(), "{bad}");
        }
    }
}
