//! Typed values: the 26 members of the API's cell union, borrowed from the page that was read.
//!
//! An encoder matches on [`CellValue`]. Scalars other than text, bytes and booleans give their text by
//! [`CellValue::put_text`]: ASCII without quotes or backslashes, so it may go between quotes as it is. Containers are
//! iterated. Nothing here allocates.

use change::cql::{Nested, NestedCells, Times};
use change::temporal::{
    DatePacked, DateTimePacked, put_date, put_duration, put_iso_date, put_iso_millis, put_time,
    put_time_nanos,
};
use change::{Cell, CqlType};
use std::net::{Ipv4Addr, Ipv6Addr};

/// When a value was written and when it expires; either may be unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metadata {
    /// Microseconds since 1970 (CQL's WRITETIME).
    pub write_time_us: Option<i64>,
    /// Seconds since 1970.
    pub expires_s: Option<i64>,
}

impl Metadata {
    /// Whether nothing is known: the member is then left out.
    pub fn is_empty(&self) -> bool {
        self.write_time_us.is_none() && self.expires_s.is_none()
    }
}

impl From<Times> for Metadata {
    fn from(times: Times) -> Self {
        Self {
            write_time_us: times.write_us,
            expires_s: times.expires_s,
        }
    }
}

/// One cell: a column's value or an element of a collection. `None` is null.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellView<'a> {
    /// Its value.
    pub value: Option<CellValue<'a>>,
    /// Its own times, where they differ from its row's.
    pub metadata: Metadata,
}

/// An integer of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integer<'a> {
    /// One that fits.
    Small(i128),
    /// Decimal digits with an optional sign.
    Digits(&'a str),
}

/// One value; exactly one member of the union.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CellValue<'a> {
    /// `asciiT`
    Ascii(&'a str),
    /// `bigintT`
    Bigint(i64),
    /// `blobT`
    Blob(&'a [u8]),
    /// `boolT`
    Bool(bool),
    /// `counterT`
    Counter(i64),
    /// `dateT`, a date of the calendar.
    Date(DatePacked),
    /// `dateT`, days since 1970: CQL's dates reach further than the calendar's four digits.
    Days(i32),
    /// `decimalT`, plain decimal text with its scale.
    Decimal(&'a str),
    /// `doubleT`
    Double(f64),
    /// `durationT`
    Duration {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanos: i64,
    },
    /// `floatT`
    Float(f32),
    /// `inetT`, IPv4.
    Inet4([u8; 4]),
    /// `inetT`, IPv6.
    Inet6([u8; 16]),
    /// `intT`
    Int(i32),
    /// `listT`
    List(Elements<'a>),
    /// `mapT`
    Map(Entries<'a>),
    /// `setT`
    Set(Elements<'a>),
    /// `smallintT`
    Smallint(i16),
    /// `textT`
    Text(&'a str),
    /// `textT` for what its own type cannot hold, such as a zero date: see [`Unfit`].
    Unfit(Unfit),
    /// `timeT`
    Time {
        /// Nanoseconds of the day.
        nanos: i64,
        /// Fraction digits shown, 0 to 9.
        digits: u8,
    },
    /// `timestampT`
    Timestamp {
        /// Microseconds since 1970 UTC.
        micros: i64,
        /// Fraction digits of the column; 3 are shown at least, 6 when it has more.
        digits: u8,
    },
    /// `timestampT`, milliseconds since 1970 UTC, as far as CQL reaches.
    Millis(i64),
    /// `timeuuidT`
    Timeuuid([u8; 16]),
    /// `tinyintT`
    Tinyint(i8),
    /// `tupleT`
    Tuple(Elements<'a>),
    /// `udtT`
    Udt(Fields<'a>),
    /// `uuidT`
    Uuid([u8; 16]),
    /// `varcharT`
    Varchar(&'a str),
    /// `varintT`
    Varint(Integer<'a>),
}

/// Values that the CQL type of their column cannot hold; they go out as `textT`, in the source's own text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// A date with a zero part.
    Date(DatePacked),
    /// A date and time whose date has a zero part.
    DateTime {
        /// Its fields.
        at: DateTimePacked,
        /// Fraction digits.
        digits: u8,
    },
    /// A span of time below zero or of a day and more.
    Time {
        /// Microseconds.
        micros: i64,
        /// Fraction digits.
        digits: u8,
    },
}

impl CellValue<'_> {
    /// The union's member.
    pub fn member(&self) -> &'static str {
        match self {
            CellValue::Ascii(_) => "asciiT",
            CellValue::Bigint(_) => "bigintT",
            CellValue::Blob(_) => "blobT",
            CellValue::Bool(_) => "boolT",
            CellValue::Counter(_) => "counterT",
            CellValue::Date(_) | CellValue::Days(_) => "dateT",
            CellValue::Decimal(_) => "decimalT",
            CellValue::Double(_) => "doubleT",
            CellValue::Duration { .. } => "durationT",
            CellValue::Float(_) => "floatT",
            CellValue::Inet4(_) | CellValue::Inet6(_) => "inetT",
            CellValue::Int(_) => "intT",
            CellValue::List(_) => "listT",
            CellValue::Map(_) => "mapT",
            CellValue::Set(_) => "setT",
            CellValue::Smallint(_) => "smallintT",
            CellValue::Text(_) | CellValue::Unfit(_) => "textT",
            CellValue::Time { .. } => "timeT",
            CellValue::Timestamp { .. } | CellValue::Millis(_) => "timestampT",
            CellValue::Timeuuid(_) => "timeuuidT",
            CellValue::Tinyint(_) => "tinyintT",
            CellValue::Tuple(_) => "tupleT",
            CellValue::Udt(_) => "udtT",
            CellValue::Uuid(_) => "uuidT",
            CellValue::Varchar(_) => "varcharT",
            CellValue::Varint(_) => "varintT",
        }
    }

    /// Appends the text of a scalar. Text and decimals go as they are; blobs, booleans and containers, which have no
    /// text, append nothing.
    pub fn put_text(&self, out: &mut Vec<u8>) {
        match *self {
            CellValue::Ascii(text)
            | CellValue::Text(text)
            | CellValue::Varchar(text)
            | CellValue::Decimal(text)
            | CellValue::Varint(Integer::Digits(text)) => out.extend_from_slice(text.as_bytes()),
            CellValue::Bigint(v) | CellValue::Counter(v) => put_integer(out, v),
            CellValue::Int(v) => put_integer(out, v),
            CellValue::Smallint(v) => put_integer(out, v),
            CellValue::Tinyint(v) => put_integer(out, v),
            CellValue::Varint(Integer::Small(v)) => put_integer(out, v),
            CellValue::Double(v) => match v.is_finite() {
                true => put_float(out, zmij::Buffer::new().format_finite(v)),
                false => put_infinite(out, v.is_nan(), v.is_sign_negative()),
            },
            CellValue::Float(v) => match v.is_finite() {
                true => put_float(out, zmij::Buffer::new().format_finite(v)),
                false => put_infinite(out, v.is_nan(), v.is_sign_negative()),
            },
            CellValue::Date(date) => put_date(out, date),
            CellValue::Days(days) => put_iso_date(out, i64::from(days)),
            CellValue::Millis(millis) => put_iso_millis(out, millis),
            CellValue::Time { nanos, digits } => put_time_nanos(out, nanos, digits),
            CellValue::Timestamp { micros, digits } => put_timestamp(out, micros, digits),
            CellValue::Duration {
                months,
                days,
                nanos,
            } => put_duration(out, months, days, nanos),
            CellValue::Inet4(bytes) => put_display(out, Ipv4Addr::from(bytes)),
            CellValue::Inet6(bytes) => put_display(out, Ipv6Addr::from(bytes)),
            CellValue::Uuid(bytes) | CellValue::Timeuuid(bytes) => put_uuid(out, &bytes),
            CellValue::Unfit(unfit) => unfit.put_text(out),
            CellValue::Blob(_)
            | CellValue::Bool(_)
            | CellValue::List(_)
            | CellValue::Map(_)
            | CellValue::Set(_)
            | CellValue::Tuple(_)
            | CellValue::Udt(_) => {}
        }
    }
}

impl Unfit {
    fn put_text(&self, out: &mut Vec<u8>) {
        match *self {
            Unfit::Date(date) => put_date(out, date),
            Unfit::DateTime { at, digits } => change::temporal::put_datetime(out, at, digits),
            Unfit::Time { micros, digits } => put_time(out, micros, digits),
        }
    }
}

fn put_integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// As Java writes it: `3.4028235E38`.
fn put_float(out: &mut Vec<u8>, text: &str) {
    let kept = text.bytes().filter(|byte| *byte != b'+');
    out.extend(kept.map(|byte| byte.to_ascii_uppercase()));
}

fn put_infinite(out: &mut Vec<u8>, nan: bool, negative: bool) {
    let text: &[u8] = match (nan, negative) {
        (true, _) => b"NaN",
        (false, true) => b"-Infinity",
        (false, false) => b"Infinity",
    };
    out.extend_from_slice(text);
}

fn put_timestamp(out: &mut Vec<u8>, micros: i64, digits: u8) {
    let at = DateTimePacked::from_epoch_micros(micros);
    put_date(out, at.date());
    out.push(b'T');
    let shown = if digits > 3 { 6 } else { 3 };
    put_time_nanos(out, at.micros_of_day() as i64 * 1000, shown);
    out.push(b'Z');
}

/// Writes into bytes without an allocation of its own.
fn put_display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    use std::io::Write;
    // A vector takes everything.
    let _ = write!(out, "{value}");
}

fn put_uuid(out: &mut Vec<u8>, bytes: &[u8; 16]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

/// The elements of a list, set or tuple.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Elements<'a>(pub(crate) ElementsOf<'a>);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ElementsOf<'a> {
    /// Labels of a MySQL SET whose bit is set.
    Labels { members: &'a [String], bits: u64 },
    /// Four-byte little-endian floats.
    Floats(&'a [u8]),
    /// Cells as the journal stores them.
    Stored(Kinds<'a>, Nested<'a>),
    /// Cells laid out by whoever has them so.
    Cells(&'a [CellView<'a>]),
}

/// The types of nested cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kinds<'a> {
    /// Not known: each shows as its own kind.
    Unknown,
    /// One for all.
    All(&'a CqlType),
    /// One a place.
    Each(&'a [CqlType]),
}

/// A stored cell as one of its type.
fn cell_view<'a>(kind: Option<&'a CqlType>, (cell, times): (Cell<'a>, Times)) -> CellView<'a> {
    let value = match cell {
        Cell::Value(value) => Some(crate::cql::cql_value(kind, value)),
        Cell::Null | Cell::Unknown => None,
    };
    CellView {
        value,
        metadata: times.into(),
    }
}

impl<'a> Elements<'a> {
    /// Of cells.
    pub fn of(cells: &'a [CellView<'a>]) -> Self {
        Elements(ElementsOf::Cells(cells))
    }

    /// The cells in order.
    pub fn iter(&self) -> ElementsIter<'a> {
        ElementsIter(match self.0 {
            ElementsOf::Labels { members, bits } => Left::Labels { members, bits },
            ElementsOf::Floats(bytes) => Left::Floats(bytes),
            // An empty tuple is empty; one that lacks its last places has them null.
            ElementsOf::Stored(_, nested) if nested.cell_count() == 0 => Left::Cells(&[]),
            ElementsOf::Stored(kinds, nested) => Left::Stored(kinds, nested.cells()),
            ElementsOf::Cells(cells) => Left::Cells(cells),
        })
    }
}

impl<'a> IntoIterator for Elements<'a> {
    type Item = CellView<'a>;
    type IntoIter = ElementsIter<'a>;
    fn into_iter(self) -> ElementsIter<'a> {
        self.iter()
    }
}

/// Iterates [`Elements`].
#[derive(Debug, Clone)]
pub struct ElementsIter<'a>(Left<'a>);

/// What is left of [`ElementsOf`].
#[derive(Debug, Clone)]
enum Left<'a> {
    Labels { members: &'a [String], bits: u64 },
    Floats(&'a [u8]),
    Stored(Kinds<'a>, NestedCells<'a>),
    Cells(&'a [CellView<'a>]),
}

impl<'a> Iterator for ElementsIter<'a> {
    type Item = CellView<'a>;

    fn next(&mut self) -> Option<CellView<'a>> {
        let value = match &mut self.0 {
            Left::Labels { members, bits } => {
                if *bits == 0 {
                    return None;
                }
                let label = members.get(bits.trailing_zeros() as usize);
                *bits &= *bits - 1;
                CellValue::Text(label.map_or("", String::as_str))
            }
            Left::Floats(bytes) => {
                let (first, rest) = bytes.split_first_chunk::<4>()?;
                *bytes = rest;
                CellValue::Float(f32::from_le_bytes(*first))
            }
            Left::Stored(kinds, cells) => return stored_element(kinds, cells),
            Left::Cells(cells) => {
                let (first, rest) = cells.split_first()?;
                *cells = rest;
                return Some(*first);
            }
        };
        Some(CellView {
            value: Some(value),
            metadata: Metadata::default(),
        })
    }
}

/// The next cell; of a tuple also the places that are not stored, which are null.
fn stored_element<'a>(kinds: &mut Kinds<'a>, cells: &mut NestedCells<'a>) -> Option<CellView<'a>> {
    let kind = match kinds {
        Kinds::Unknown => None,
        Kinds::All(kind) => Some(*kind),
        Kinds::Each(places) => {
            let kind = places.split_first().map(|(kind, _)| kind);
            *places = places.get(1..).unwrap_or_default();
            kind
        }
    };
    match cells.next() {
        Some(cell) => Some(cell_view(kind, cell)),
        None if matches!(kinds, Kinds::Each(_)) => kind.map(|_| cell_view(None, NULL)),
        None => None,
    }
}

const NULL: (Cell<'static>, Times) = (
    Cell::Null,
    Times {
        write_us: None,
        expires_s: None,
    },
);

/// One entry of a map: key, value (a bare union, not a cell) and metadata.
pub type Entry<'a> = (CellValue<'a>, Option<CellValue<'a>>, Metadata);

/// The entries of a map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entries<'a>(EntriesOf<'a>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum EntriesOf<'a> {
    Stored(&'a (CqlType, CqlType), Nested<'a>),
    Laid(&'a [Entry<'a>]),
}

impl<'a> Entries<'a> {
    /// Of entries.
    pub fn of(entries: &'a [Entry<'a>]) -> Self {
        Entries(EntriesOf::Laid(entries))
    }

    pub(crate) fn stored(kinds: &'a (CqlType, CqlType), nested: Nested<'a>) -> Self {
        Entries(EntriesOf::Stored(kinds, nested))
    }

    /// The entries in order; their times stand with their values. A map of CQL has no null key.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let (laid, stored) = match self.0 {
            EntriesOf::Laid(entries) => (entries, None),
            EntriesOf::Stored(kinds, nested) => (&[][..], Some((kinds, nested.cells()))),
        };
        let stored = stored.into_iter().flat_map(|(kinds, mut cells)| {
            std::iter::from_fn(move || {
                let key = cell_view(Some(&kinds.0), cells.next()?);
                let value = cell_view(Some(&kinds.1), cells.next().unwrap_or(NULL));
                Some((key, value))
            })
            .filter_map(|(key, value)| Some((key.value?, value.value, value.metadata)))
        });
        laid.iter().copied().chain(stored)
    }
}

/// The fields of a user-defined type, by name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fields<'a>(FieldsOf<'a>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum FieldsOf<'a> {
    Stored(&'a [(String, CqlType)], Nested<'a>),
    Laid(&'a [(&'a str, CellView<'a>)]),
}

impl<'a> Fields<'a> {
    /// Of fields.
    pub fn of(fields: &'a [(&'a str, CellView<'a>)]) -> Self {
        Fields(FieldsOf::Laid(fields))
    }

    pub(crate) fn stored(fields: &'a [(String, CqlType)], nested: Nested<'a>) -> Self {
        Fields(FieldsOf::Stored(fields, nested))
    }

    /// The fields in the type's order. Where no field is stored there is none: an empty value; else those that are not
    /// stored, as they came later to the type, are null.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, CellView<'a>)> + use<'a> {
        let (laid, stored) = match self.0 {
            FieldsOf::Laid(fields) => (fields, None),
            FieldsOf::Stored(_, nested) if nested.cell_count() == 0 => (&[][..], None),
            FieldsOf::Stored(fields, nested) => (&[][..], Some((fields, nested.cells()))),
        };
        let stored = stored.into_iter().flat_map(|(fields, mut cells)| {
            fields.iter().map(move |(name, kind)| {
                let cell = cells.next().unwrap_or(NULL);
                (name.as_str(), cell_view(Some(kind), cell))
            })
        });
        laid.iter().copied().chain(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: CellValue<'_>) -> String {
        let mut out = Vec::new();
        value.put_text(&mut out);
        String::from_utf8(out).expect("texts are UTF-8")
    }

    #[test]
    fn scalars_have_the_forms_that_clients_read() {
        assert_eq!(text(CellValue::Float(f32::MAX)), "3.4028235E38");
        assert_eq!(text(CellValue::Double(1.7976)), "1.7976");
        assert_eq!(text(CellValue::Double(f64::NEG_INFINITY)), "-Infinity");
        assert_eq!(text(CellValue::Double(f64::NAN)), "NaN");
        assert_eq!(
            text(CellValue::Date(DatePacked::new(2026, 11, 29))),
            "2026-11-29"
        );
        let noon = CellValue::Time {
            nanos: 45_296_789_000_000,
            digits: 3,
        };
        assert_eq!(text(noon), "12:34:56.789");
        let time = |micros, digits| text(CellValue::Timestamp { micros, digits });
        assert_eq!(time(1_741_383_893_783_000, 0), "2025-03-07T21:44:53.783Z");
        assert_eq!(time(-1, 6), "1969-12-31T23:59:59.999999Z");
        let span = |months, days, nanos| {
            text(CellValue::Duration {
                months,
                days,
                nanos,
            })
        };
        assert_eq!(span(14, 3, 14_706_007_008_009), "1y2mo3d4h5m6s7ms8us9ns");
        assert_eq!(span(0, 0, 0), "0s");
        assert_eq!(span(0, -1, 0), "-1d");
        assert_eq!(text(CellValue::Inet4([127, 0, 0, 1])), "127.0.0.1");
        assert_eq!(
            text(CellValue::Uuid([0xab; 16])),
            "abababab-abab-abab-abab-abababababab"
        );
        assert_eq!(
            text(CellValue::Varint(Integer::Small(i128::from(u64::MAX)))),
            "18446744073709551615"
        );
        assert_eq!(text(CellValue::Tinyint(-128)), "-128");
    }

    #[test]
    fn a_set_lists_the_labels_of_its_bits() {
        let members = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let set = Elements(ElementsOf::Labels {
            members: &members,
            bits: 0b101,
        });
        let labels: Vec<_> = set.iter().map(|cell| cell.value).collect();
        assert_eq!(
            labels,
            [Some(CellValue::Text("a")), Some(CellValue::Text("c"))]
        );
        let none = Elements(ElementsOf::Labels {
            members: &members,
            bits: 0,
        });
        assert_eq!(none.iter().count(), 0);
    }
}
