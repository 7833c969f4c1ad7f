//! The types of CQL.

use super::DEPTH_MAX;
use crate::wire::{WireError, WireReader, put_bytes, put_u64};
use std::fmt;

/// A type of CQL, as deep as it nests.
///
/// Shape: `Display` writes it as `system_schema.columns` does: `frozen<map<int, text>>`.
/// Source: `type` of `system_schema.columns` and `field_types` of `system_schema.types`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CqlType {
    /// US-ASCII text.
    Ascii,
    /// Eight bytes.
    Bigint,
    /// Bytes.
    Blob,
    /// True or false.
    Boolean,
    /// A counter; its value is the total after the update.
    Counter,
    /// A day, five million years either way.
    Date,
    /// A decimal of any length.
    Decimal,
    /// An eight-byte float.
    Double,
    /// Months, days and nanoseconds.
    Duration,
    /// A four-byte float.
    Float,
    /// An IPv4 or IPv6 address.
    Inet,
    /// Four bytes.
    Int,
    /// Two bytes.
    Smallint,
    /// UTF-8 text.
    Text,
    /// Nanoseconds of a day.
    Time,
    /// Milliseconds since 1970 UTC.
    Timestamp,
    /// A UUID of version 1.
    Timeuuid,
    /// One byte.
    Tinyint,
    /// A UUID.
    Uuid,
    /// Text, where a schema says so; Cassandra's own says `text`.
    Varchar,
    /// An integer of any length.
    Varint,
    /// Elements in order.
    List(Box<CqlType>),
    /// Different elements in the order of their type.
    Set(Box<CqlType>),
    /// Keys and values, in the order of the keys' type.
    Map(Box<(CqlType, CqlType)>),
    /// Places, each with its type.
    Tuple(Vec<CqlType>),
    /// Named fields.
    Udt(Box<UserType>),
    /// So many elements of one type (Cassandra 5.0).
    Vector(Box<CqlType>, u32),
    /// Written and timed as one value.
    Frozen(Box<CqlType>),
}

/// A type that a user made, of the table's own keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserType {
    /// Its name.
    pub name: String,
    /// Its fields in order.
    pub fields: Vec<(String, CqlType)>,
}

use CqlType as T;

static SCALARS: [(CqlType, &str); 21] = [
    (T::Ascii, "ascii"),
    (T::Bigint, "bigint"),
    (T::Blob, "blob"),
    (T::Boolean, "boolean"),
    (T::Counter, "counter"),
    (T::Date, "date"),
    (T::Decimal, "decimal"),
    (T::Double, "double"),
    (T::Duration, "duration"),
    (T::Float, "float"),
    (T::Inet, "inet"),
    (T::Int, "int"),
    (T::Smallint, "smallint"),
    (T::Text, "text"),
    (T::Time, "time"),
    (T::Timestamp, "timestamp"),
    (T::Timeuuid, "timeuuid"),
    (T::Tinyint, "tinyint"),
    (T::Uuid, "uuid"),
    (T::Varchar, "varchar"),
    (T::Varint, "varint"),
];

/// How deep a type may nest: each container of a value as deep as may be, and `frozen` around each.
const LEVELS_MAX: u32 = 2 * DEPTH_MAX;

/// Tags of stored types: a scalar's is its place in [`SCALARS`] + 1; they never change meaning.
mod tag {
    pub const LIST: u8 = 64;
    pub const SET: u8 = 65;
    pub const MAP: u8 = 66;
    pub const TUPLE: u8 = 67;
    pub const UDT: u8 = 68;
    pub const VECTOR: u8 = 69;
    pub const FROZEN: u8 = 70;
}

impl CqlType {
    /// The type without `frozen<…>` around it: how its values look.
    pub fn bare(&self) -> &CqlType {
        let mut kind = self;
        while let T::Frozen(inner) = kind {
            kind = inner;
        }
        kind
    }

    fn scalar(&self) -> Option<(usize, &'static str)> {
        let place = SCALARS.iter().position(|(kind, _)| kind == self)?;
        Some((place, SCALARS[place].1))
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Some((place, _)) = self.scalar() {
            return out.push(place as u8 + 1);
        }
        match self {
            T::List(of) => of.encode_after(out, tag::LIST),
            T::Set(of) => of.encode_after(out, tag::SET),
            T::Frozen(of) => of.encode_after(out, tag::FROZEN),
            T::Map(of) => {
                of.0.encode_after(out, tag::MAP);
                of.1.encode(out);
            }
            T::Vector(of, dimension) => {
                of.encode_after(out, tag::VECTOR);
                put_u64(out, u64::from(*dimension));
            }
            T::Tuple(places) => {
                out.push(tag::TUPLE);
                put_u64(out, places.len() as u64);
                places.iter().for_each(|place| place.encode(out));
            }
            T::Udt(of) => {
                out.push(tag::UDT);
                put_bytes(out, of.name.as_bytes());
                put_u64(out, of.fields.len() as u64);
                for (name, kind) in &of.fields {
                    put_bytes(out, name.as_bytes());
                    kind.encode(out);
                }
            }
            // Written above.
            _ => {}
        }
    }

    fn encode_after(&self, out: &mut Vec<u8>, tag: u8) {
        out.push(tag);
        self.encode(out);
    }

    /// Reads the stored form.
    ///
    /// Errors: [`WireError`] where the bytes are damaged, or nest too deep.
    pub fn decode(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Self::decode_within(reader, LEVELS_MAX)
    }

    fn decode_within(r: &mut WireReader<'_>, depth_left: u32) -> Result<Self, WireError> {
        let offset = r.offset();
        let fail = |what| Err(WireError { offset, what });
        let tag = r.u8()?;
        let place = usize::from(tag).wrapping_sub(1);
        if let Some((kind, _)) = SCALARS.get(place) {
            return Ok(kind.clone());
        }
        let Some(left) = depth_left.checked_sub(1) else {
            return fail("a type that nests less deep");
        };
        let inner = |r: &mut WireReader<'_>| Self::decode_within(r, left);
        Ok(match tag {
            tag::LIST => T::List(Box::new(inner(r)?)),
            tag::SET => T::Set(Box::new(inner(r)?)),
            tag::FROZEN => T::Frozen(Box::new(inner(r)?)),
            tag::MAP => T::Map(Box::new((inner(r)?, inner(r)?))),
            tag::VECTOR => T::Vector(Box::new(inner(r)?), r.u32()?),
            tag::TUPLE => T::Tuple((0..r.u64()?).map(|_| inner(r)).collect::<Result<_, _>>()?),
            tag::UDT => {
                let name = r.text()?.to_owned();
                let fields = (0..r.u64()?)
                    .map(|_| Ok((r.text()?.to_owned(), inner(r)?)))
                    .collect::<Result<_, WireError>>()?;
                T::Udt(Box::new(UserType { name, fields }))
            }
            _ => return fail("a known type of CQL"),
        })
    }
}

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, name)) = self.scalar() {
            return f.write_str(name);
        }
        match self {
            T::List(of) => write!(f, "list<{of}>"),
            T::Set(of) => write!(f, "set<{of}>"),
            T::Frozen(of) => write!(f, "frozen<{of}>"),
            T::Map(of) => write!(f, "map<{}, {}>", of.0, of.1),
            T::Vector(of, dimension) => write!(f, "vector<{of}, {dimension}>"),
            T::Tuple(places) => {
                f.write_str("tuple<")?;
                for (index, place) in places.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{place}")?;
                }
                f.write_str(">")
            }
            T::Udt(of) => put_name(f, &of.name),
            // Written above.
            _ => Ok(()),
        }
    }
}

/// A name that CQL would read otherwise stands in quotes.
fn put_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    let is_plain = |(index, c): (usize, char)| {
        c.is_ascii_lowercase() || index > 0 && (c.is_ascii_digit() || c == '_')
    };
    match !name.is_empty() && name.chars().enumerate().all(is_plain) {
        true => f.write_str(name),
        false => write!(f, "\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frozen(kind: CqlType) -> CqlType {
        T::Frozen(Box::new(kind))
    }

    #[test]
    fn types_come_back_and_read_as_cql_writes_them() {
        let address = T::Udt(Box::new(UserType {
            name: "address".into(),
            fields: vec![("street".into(), T::Text), ("zip".into(), T::Int)],
        }));
        let odd = T::Udt(Box::new(UserType {
            name: "Odd \"one".into(),
            fields: vec![],
        }));
        let mut kinds: Vec<(CqlType, String)> = SCALARS
            .iter()
            .map(|(kind, name)| (kind.clone(), (*name).to_owned()))
            .collect();
        kinds.extend([
            (T::List(Box::new(T::Int)), "list<int>".into()),
            (T::Set(Box::new(T::Uuid)), "set<uuid>".into()),
            (
                T::Map(Box::new((T::Int, frozen(T::Tuple(vec![T::Int, T::Text]))))),
                "map<int, frozen<tuple<int, text>>>".into(),
            ),
            (T::Tuple(vec![]), "tuple<>".into()),
            (
                T::Vector(Box::new(T::Float), 3),
                "vector<float, 3>".to_owned(),
            ),
            (frozen(address), "frozen<address>".into()),
            (odd, "\"Odd \"\"one\"".into()),
        ]);
        for (kind, text) in kinds {
            assert_eq!(kind.to_string(), text);
            let mut bytes = Vec::new();
            kind.encode(&mut bytes);
            let mut reader = WireReader::new(&bytes);
            assert_eq!(CqlType::decode(&mut reader), Ok(kind));
            assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                assert!(CqlType::decode(&mut WireReader::new(&bytes[..cut])).is_err());
            }
        }
    }

    #[test]
    fn the_stored_form_is_what_journals_hold() {
        let stored = |kind: &CqlType| {
            let mut bytes = Vec::new();
            kind.encode(&mut bytes);
            bytes
        };
        for (place, (kind, _)) in SCALARS.iter().enumerate() {
            assert_eq!(stored(kind), [place as u8 + 1]);
        }
        assert_eq!(stored(&T::Ascii), [1]);
        assert_eq!(stored(&T::Int), [12]);
        assert_eq!(stored(&T::Varint), [21]);
        let map = T::Map(Box::new((T::Int, frozen(T::Set(Box::new(T::Text))))));
        assert_eq!(stored(&map), [66, 12, 70, 65, 14]);
        let tuple = T::Tuple(vec![
            T::List(Box::new(T::Uuid)),
            T::Vector(Box::new(T::Float), 3),
        ]);
        assert_eq!(stored(&tuple), [67, 2, 64, 19, 69, 10, 3]);
        let udt = T::Udt(Box::new(UserType {
            name: "u".into(),
            fields: vec![("f".into(), T::Int)],
        }));
        assert_eq!(stored(&udt), [68, 1, b'u', 1, 1, b'f', 12]);
    }

    #[test]
    fn a_type_that_nests_without_end_is_refused() {
        let deep = |levels: usize| {
            let mut bytes = vec![tag::LIST; levels];
            bytes.push(1);
            CqlType::decode(&mut WireReader::new(&bytes)).is_ok()
        };
        assert!(deep(LEVELS_MAX as usize));
        assert!(!deep(LEVELS_MAX as usize + 1));
        assert!(!deep(1_000_000));
    }

    #[test]
    fn frozen_is_about_storage_not_about_values() {
        assert_eq!(frozen(frozen(T::Int)).bare(), &T::Int);
    }
}
