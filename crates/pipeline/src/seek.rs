//! Places in the journal as people name them: `earliest`, `now`, a time, a GTID, a sequence.

use crate::event_reader::{EventReader, EventSink, OpaqueRecord, ReadError};
use change::position::TransactionId;
use change::{Event, Position};
use journal::{Journal, Sequence};

/// A place as a person names it.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// The oldest change that the journal holds.
    Earliest,
    /// Only what comes from now on.
    Now,
    /// A journal sequence.
    Sequence(u64),
    /// The first transaction at or after this time, microseconds since the epoch.
    Time(i64),
    /// The transaction with this id.
    Transaction(TransactionId),
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text {
            "earliest" => return Ok(Place::Earliest),
            "now" | "latest" => return Ok(Place::Now),
            _ => {}
        }
        if let Some(sequence) = Sequence::parse(text) {
            return Ok(Place::Sequence(sequence.0));
        }
        if let Some(age) = text.strip_prefix('-')
            && let Ok(span) = age.parse::<crate::config::Span>()
        {
            return Ok(Place::Time(
                crate::status::now_us() - span.0.as_micros() as i64,
            ));
        }
        if let Some(micros) = parse_time(text) {
            return Ok(Place::Time(micros));
        }
        if let Ok(gtid) = text.parse() {
            return Ok(Place::Transaction(TransactionId::Mysql(gtid)));
        }
        if let Ok(gtid) = text.parse() {
            return Ok(Place::Transaction(TransactionId::Mariadb(gtid)));
        }
        Err(format!(
            "`{text}` is no place; write earliest, now, a sequence of 21 digits, a UTC time such as \
             2026-11-30T04:00:00Z, an age such as -15m, or a GTID"
        ))
    }
}

/// `YYYY-MM-DD[T ]HH:MM[:SS[.fraction]][Z]`, UTC.
fn parse_time(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let numbers: Vec<u32> = date
        .split('-')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [year, month, day] = numbers[..] else {
        return None;
    };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || date.len() < 8 {
        return None;
    }
    let days = change::temporal::DatePacked::new(year, month, day).to_days()?;
    let mut parts = clock.split(':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next().unwrap_or("0").parse().ok()?;
    if parts.next().is_some() || hours > 23 || minutes > 59 || !(0.0..61.0).contains(&seconds) {
        return None;
    }
    Some(((days * 24 + hours) * 60 + minutes) * 60_000_000 + (seconds * 1e6) as i64)
}

/// Finds the place.
///
/// Errors: text that says what is not in the journal.
pub fn find(journal: &Journal, place: &Place) -> Result<Sequence, String> {
    match place {
        Place::Earliest => Ok(journal.first()),
        Place::Now => Ok(journal.end()),
        Place::Sequence(sequence) => {
            let (first, end) = (journal.first(), journal.end());
            match (first.0..=end.0).contains(sequence) {
                true => Ok(Sequence(*sequence)),
                false => {
                    let wanted = Sequence(*sequence);
                    Err(format!(
                        "{wanted} is not in the journal, which holds {first} to {end}"
                    ))
                }
            }
        }
        Place::Time(micros) => journal
            .seek_time(*micros)
            .map_err(|error| error.to_string()),
        Place::Transaction(id) => find_transaction(journal, id),
    }
}

fn find_transaction(journal: &Journal, id: &TransactionId) -> Result<Sequence, String> {
    let mut search = Search {
        id,
        begin: 0,
        found: None,
    };
    let first = journal.first();
    let mut reader = EventReader::open(journal, first, None).map_err(|error| error.to_string())?;
    loop {
        match reader.read_frame(&mut search) {
            Ok(_) if search.found.is_some() => break,
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    let missing = || format!("transaction {id} is not in the journal, which begins at {first}");
    search.found.map(Sequence).ok_or_else(missing)
}

/// Looks for the begin of one transaction.
struct Search<'a> {
    id: &'a TransactionId,
    begin: u64,
    found: Option<u64>,
}

impl EventSink for Search<'_> {
    type Error = ReadError;

    fn event(&mut self, event: &Event<'_>, next: u64, _: &Position) -> Result<(), ReadError> {
        if let Event::Begin { header, .. } = event {
            self.begin = next;
            if header.id.as_ref() == Some(self.id) && self.found.is_none() {
                self.found = Some(self.begin);
            }
        }
        Ok(())
    }

    fn opaque(&mut self, _: &OpaqueRecord<'_>, _: u64) -> Result<(), ReadError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_people_write_them() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("earliest"), Ok(Place::Earliest));
        assert_eq!(
            place("2026-11-30T04:00:00Z"),
            Ok(Place::Time(1_796_011_200_000_000))
        );
        assert_eq!(
            place("2026-11-30 04:00"),
            Ok(Place::Time(1_796_011_200_000_000))
        );
        assert_eq!(place(&Sequence(42).to_string()), Ok(Place::Sequence(42)));
        assert!(matches!(place("-15m"), Ok(Place::Time(_))));
        assert!(matches!(
            place("0-1-5"),
            Ok(Place::Transaction(TransactionId::Mariadb(_)))
        ));
        let gtid = "0e4b2c6a-aaaa-11ee-8c90-0242ac120002:7";
        assert!(matches!(
            place(gtid),
            Ok(Place::Transaction(TransactionId::Mysql(_)))
        ));
        assert!(place("yesterday").is_err());
    }
}
