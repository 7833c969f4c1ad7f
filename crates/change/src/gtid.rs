//! Global transaction ids of MySQL and MariaDB, and the algebra of their sets.
//!
//! Source: MySQL manual, "GTID Format and Storage" (tags since 8.3); MariaDB manual, "GTID".

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A text that is no GTID or GTID set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read GTID {text:?}: {what}")]
pub struct GtidError {
    /// The offending text.
    pub text: String,
    /// What is wrong with it.
    pub what: &'static str,
}

fn fail<T>(text: &str, what: &'static str) -> Result<T, GtidError> {
    Err(GtidError {
        text: text.chars().take(120).collect(),
        what,
    })
}

/// The source part of a MySQL GTID: the server's UUID and an optional tag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GtidSource {
    /// The server's UUID, 16 bytes.
    pub uuid: [u8; 16],
    /// The tag, lower case, empty for none.
    pub tag: String,
}

/// One MySQL transaction id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    /// Who gave it out.
    pub source: GtidSource,
    /// Its number, from 1.
    pub number: u64,
}

fn put_uuid(f: &mut fmt::Formatter<'_>, uuid: &[u8; 16]) -> fmt::Result {
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            f.write_str("-")?;
        }
        write!(f, "{byte:02x}")?;
    }
    Ok(())
}

impl fmt::Display for GtidSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put_uuid(f, &self.uuid)?;
        if self.tag.is_empty() {
            Ok(())
        } else {
            write!(f, ":{}", self.tag)
        }
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.number)
    }
}

/// Reads a UUID with or without its dashes.
pub fn parse_uuid(text: &str) -> Result<[u8; 16], GtidError> {
    let mut uuid = [0u8; 16];
    let mut count = 0;
    for c in text.chars().filter(|c| *c != '-') {
        let Some(digit) = c.to_digit(16) else {
            return fail(text, "the UUID has a non-hex digit");
        };
        if count == 32 {
            return fail(text, "the UUID has more than 32 digits");
        }
        uuid[count / 2] = uuid[count / 2] << 4 | digit as u8;
        count += 1;
    }
    if count == 32 {
        Ok(uuid)
    } else {
        fail(text, "the UUID has fewer than 32 digits")
    }
}

/// A set of MySQL transaction ids: per source, ordered disjoint half-open intervals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GtidSet {
    sources: BTreeMap<GtidSource, Vec<(u64, u64)>>,
}

impl GtidSet {
    /// The sources and their half-open intervals `[from, to)`.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&GtidSource, &[(u64, u64)])> {
        self.sources
            .iter()
            .map(|(source, intervals)| (source, intervals.as_slice()))
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether `gtid` is in it.
    pub fn contains(&self, gtid: &Gtid) -> bool {
        self.sources.get(&gtid.source).is_some_and(|intervals| {
            let next = intervals.partition_point(|interval| interval.0 <= gtid.number);
            next > 0 && gtid.number < intervals[next - 1].1
        })
    }

    /// Adds one id.
    pub fn add(&mut self, gtid: &Gtid) {
        if let Some(intervals) = self.sources.get_mut(&gtid.source) {
            // The common case by far: the next number after the last interval.
            if let Some(last) = intervals.last_mut()
                && last.1 == gtid.number
            {
                last.1 += 1;
                return;
            }
            insert_interval(intervals, gtid.number, gtid.number + 1);
        } else {
            let one = vec![(gtid.number, gtid.number + 1)];
            self.sources.insert(gtid.source.clone(), one);
        }
    }

    /// Adds the half-open interval `[from, to)` of one source.
    pub fn add_interval(&mut self, source: GtidSource, from: u64, to: u64) {
        if from < to {
            insert_interval(self.sources.entry(source).or_default(), from, to);
        }
    }

    /// Adds all of `other`.
    pub fn union(&mut self, other: &GtidSet) {
        for (source, intervals) in &other.sources {
            for (from, to) in intervals {
                self.add_interval(source.clone(), *from, *to);
            }
        }
    }

    /// Whether every id of `self` is in `other`.
    pub fn is_subset(&self, other: &GtidSet) -> bool {
        self.sources.iter().all(|(source, intervals)| {
            let theirs = other
                .sources
                .get(source)
                .map(Vec::as_slice)
                .unwrap_or_default();
            intervals
                .iter()
                .all(|(from, to)| theirs.iter().any(|(a, b)| a <= from && to <= b))
        })
    }

    /// The ids of `self` that are not in `other`.
    pub fn subtract(&self, other: &GtidSet) -> GtidSet {
        let mut left = GtidSet::default();
        for (source, intervals) in &self.sources {
            let theirs = other
                .sources
                .get(source)
                .map(Vec::as_slice)
                .unwrap_or_default();
            for (from, to) in intervals {
                let mut at = *from;
                for (a, b) in theirs {
                    if *b <= at || *a >= *to {
                        continue;
                    }
                    left.add_interval(source.clone(), at, *a);
                    at = at.max(*b);
                }
                left.add_interval(source.clone(), at, *to);
            }
        }
        left
    }

    /// How many ids are in it.
    pub fn count(&self) -> u64 {
        self.sources
            .values()
            .flatten()
            .map(|(from, to)| to - from)
            .sum()
    }
}

fn insert_interval(intervals: &mut Vec<(u64, u64)>, from: u64, to: u64) {
    let start = intervals.partition_point(|interval| interval.1 < from);
    let end = intervals.partition_point(|interval| interval.0 <= to);
    let merged = intervals[start..end]
        .iter()
        .fold((from, to), |all, one| (all.0.min(one.0), all.1.max(one.1)));
    intervals.splice(start..end, [merged]);
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut previous: Option<&GtidSource> = None;
        for (source, intervals) in &self.sources {
            match previous {
                Some(before) if before.uuid == source.uuid => write!(f, ":{}", source.tag)?,
                Some(_) => write!(f, ",{source}")?,
                None => write!(f, "{source}")?,
            }
            for (from, to) in intervals {
                if *to == from + 1 {
                    write!(f, ":{from}")?
                } else {
                    write!(f, ":{from}-{}", to - 1)?
                }
            }
            previous = Some(source);
        }
        Ok(())
    }
}

impl FromStr for GtidSet {
    type Err = GtidError;
    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut set = GtidSet::default();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let mut items = part.split(':').map(str::trim);
            let uuid = parse_uuid(items.next().unwrap_or_default())?;
            let mut source = GtidSource {
                uuid,
                tag: String::new(),
            };
            let mut any = false;
            for item in items {
                any = true;
                if item.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                    source.tag = item.to_ascii_lowercase();
                    continue;
                }
                let (from, to) = item.split_once('-').unwrap_or((item, item));
                let number = |t: &str| t.trim().parse::<u64>().ok().filter(|n| *n > 0);
                match (number(from), number(to)) {
                    (Some(from), Some(to)) if from <= to && to < u64::MAX => {
                        set.add_interval(source.clone(), from, to + 1);
                    }
                    _ => return fail(text, "an interval is not of the form n or n-m"),
                }
            }
            if !any {
                return fail(text, "a UUID without an interval");
            }
        }
        Ok(set)
    }
}

impl FromStr for Gtid {
    type Err = GtidError;
    fn from_str(text: &str) -> Result<Self, GtidError> {
        let set = GtidSet::from_str(text)?;
        let mut all = set.iter();
        match (all.next(), all.next()) {
            (Some((source, [(from, to)])), None) if *to == from + 1 => Ok(Gtid {
                source: source.clone(),
                number: *from,
            }),
            _ => fail(text, "this is a set, not one transaction"),
        }
    }
}

/// One MariaDB transaction id: `domain-server-sequence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MariadbGtid {
    /// Replication domain.
    pub domain: u32,
    /// Server that wrote it.
    pub server: u32,
    /// Number within the domain.
    pub number: u64,
}

impl fmt::Display for MariadbGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.number)
    }
}

impl FromStr for MariadbGtid {
    type Err = GtidError;
    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut parts = text.trim().split('-');
        let all = (parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(domain), Some(server), Some(number), None) = all else {
            return fail(text, "a MariaDB GTID is domain-server-sequence");
        };
        match (domain.parse(), server.parse(), number.parse()) {
            (Ok(domain), Ok(server), Ok(number)) => Ok(Self {
                domain,
                server,
                number,
            }),
            _ => fail(text, "a MariaDB GTID is three numbers"),
        }
    }
}

/// A MariaDB position: the last id of each domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MariadbGtidSet {
    domains: BTreeMap<u32, MariadbGtid>,
}

impl MariadbGtidSet {
    /// The last id of each domain, in domain order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &MariadbGtid> {
        self.domains.values()
    }
    /// Whether it names no domain.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }
    /// Moves the id's domain to it.
    pub fn add(&mut self, gtid: MariadbGtid) {
        self.domains.insert(gtid.domain, gtid);
    }
    /// Whether the id's domain has come at least to it.
    pub fn contains(&self, gtid: &MariadbGtid) -> bool {
        self.domains
            .get(&gtid.domain)
            .is_some_and(|last| last.number >= gtid.number)
    }
    /// Whether every domain of `self` has come at most as far in `other`.
    pub fn is_subset(&self, other: &MariadbGtidSet) -> bool {
        self.domains.values().all(|gtid| other.contains(gtid))
    }
}

impl fmt::Display for MariadbGtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, gtid) in self.domains.values().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{gtid}")?;
        }
        Ok(())
    }
}

impl FromStr for MariadbGtidSet {
    type Err = GtidError;
    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut set = MariadbGtidSet::default();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            set.add(part.parse()?);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0e4b2c6a-aaaa-11ee-8c90-0242ac120002";
    const B: &str = "1e4b2c6a-aaaa-11ee-8c90-0242ac120002";

    fn set(text: &str) -> GtidSet {
        text.parse().unwrap()
    }

    #[test]
    fn sets_print_as_the_server_prints_them() {
        let text = format!("{A}:1-5:7:aux:1-2,{B}:9");
        assert_eq!(set(&text).to_string(), text);
        assert_eq!(
            set(&format!("{A}:3-5:1-2:7-8:6")).to_string(),
            format!("{A}:1-8")
        );
        assert_eq!(set("").to_string(), "");
    }

    #[test]
    fn add_fills_holes_and_contains_sees_them() {
        let mut all = set(&format!("{A}:1-5:7"));
        let six: Gtid = format!("{A}:6").parse().unwrap();
        assert!(!all.contains(&six));
        all.add(&six);
        assert!(all.contains(&six));
        assert_eq!(all.to_string(), format!("{A}:1-7"));
    }

    #[test]
    fn subset_and_subtract_agree() {
        let big = set(&format!("{A}:1-10,{B}:1-3"));
        let small = set(&format!("{A}:2-4:6,{B}:3"));
        assert!(small.is_subset(&big));
        assert!(!big.is_subset(&small));
        assert_eq!(
            big.subtract(&small).to_string(),
            format!("{A}:1:5:7-10,{B}:1-2")
        );
        assert!(small.subtract(&big).is_empty());
    }

    #[test]
    fn bad_texts_are_refused() {
        for bad in ["x:1", "0e4b", A, &format!("{A}:0"), &format!("{A}:5-3")] {
            assert!(bad.parse::<GtidSet>().is_err(), "{bad}");
        }
        assert!("0-1".parse::<MariadbGtid>().is_err());
    }

    #[test]
    fn mariadb_sets_keep_the_last_of_each_domain() {
        let mut set: MariadbGtidSet = "0-1-5,1-2-9".parse().unwrap();
        set.add("0-3-6".parse().unwrap());
        assert_eq!(set.to_string(), "0-3-6,1-2-9");
        assert!(set.contains(&"0-1-5".parse().unwrap()));
    }
}
