//! Dates and times as integers that also hold what a calendar cannot: zero and partly-zero dates.

/// Year, month and day; each may be zero.
///
/// Shape: `year << 9 | month << 5 | day`, so that order of bits is order of dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatePacked(u32);

impl DatePacked {
    /// Packs the fields as they are; nothing is checked against a calendar.
    pub const fn new(year: u32, month: u32, day: u32) -> Self {
        Self(year << 9 | (month & 15) << 5 | (day & 31))
    }
    /// The packed bits.
    pub const fn bits(self) -> u32 {
        self.0
    }
    /// From packed bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
    /// The year, 0 to 9999 in MySQL.
    pub const fn year(self) -> u32 {
        self.0 >> 9
    }
    /// The month, 0 to 12.
    pub const fn month(self) -> u32 {
        self.0 >> 5 & 15
    }
    /// The day, 0 to 31.
    pub const fn day(self) -> u32 {
        self.0 & 31
    }
    /// Whether all three fields are zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The date of a number of days since 1970-01-01 (proleptic Gregorian).
    pub const fn from_days(days: i64) -> Self {
        let (year, month, day) = civil(days);
        Self::new(year as u32, month, day)
    }
    /// Days since 1970-01-01, or nothing when a field is zero.
    pub const fn to_days(self) -> Option<i64> {
        if self.month() == 0 || self.day() == 0 {
            return None;
        }
        let year = self.year() as i64 - if self.month() <= 2 { 1 } else { 0 };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month = self.month() as i64;
        let month_shifted = if month > 2 { month - 3 } else { month + 9 };
        let day_of_year = (153 * month_shifted + 2) / 5 + self.day() as i64 - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Some(era * 146_097 + day_of_era - 719_468)
    }
}

/// Year, month and day of a number of days since 1970-01-01 (proleptic Gregorian).
const fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 {
        month_shifted + 3
    } else {
        month_shifted - 9
    };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month as u32, day as u32)
}

/// A date and the microseconds of its day, without a zone.
///
/// Shape: `date bits << 37 | microseconds of the day` (below 86,400,000,000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTimePacked(u64);

impl DateTimePacked {
    /// Packs a date and the microseconds of its day.
    pub const fn new(date: DatePacked, micros_of_day: u64) -> Self {
        Self((date.bits() as u64) << 37 | micros_of_day)
    }
    /// The packed bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// From packed bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    /// The date.
    pub const fn date(self) -> DatePacked {
        DatePacked((self.0 >> 37) as u32)
    }
    /// Microseconds since midnight.
    pub const fn micros_of_day(self) -> u64 {
        self.0 & ((1 << 37) - 1)
    }
    /// The date and time of an instant, in UTC.
    pub const fn from_epoch_micros(micros: i64) -> Self {
        const DAY: i64 = 86_400_000_000;
        Self::new(
            DatePacked::from_days(micros.div_euclid(DAY)),
            micros.rem_euclid(DAY) as u64,
        )
    }
}

fn put_digits(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    while value > 0 {
        at -= 1;
        text[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    let from = at.min(text.len() - width.min(text.len()));
    out.extend_from_slice(&text[from..]);
}

fn put_fraction(out: &mut Vec<u8>, micros: u64, digits: u8) {
    let digits = digits.min(6);
    if digits > 0 {
        out.push(b'.');
        put_digits(
            out,
            micros / 10u64.pow(6 - u32::from(digits)),
            usize::from(digits),
        );
    }
}

fn put_clock(out: &mut Vec<u8>, micros: u64, digits: u8) {
    let seconds = micros / 1_000_000;
    put_digits(out, seconds / 3600, 2);
    out.push(b':');
    put_digits(out, seconds / 60 % 60, 2);
    out.push(b':');
    put_digits(out, seconds % 60, 2);
    put_fraction(out, micros % 1_000_000, digits);
}

/// Appends `YYYY-MM-DD`.
pub fn put_date(out: &mut Vec<u8>, date: DatePacked) {
    put_digits(out, u64::from(date.year()), 4);
    out.push(b'-');
    put_digits(out, u64::from(date.month()), 2);
    out.push(b'-');
    put_digits(out, u64::from(date.day()), 2);
}

/// Appends `YYYY-MM-DD HH:MM:SS` and the fraction digits.
pub fn put_datetime(out: &mut Vec<u8>, at: DateTimePacked, digits: u8) {
    put_date(out, at.date());
    out.push(b' ');
    put_clock(out, at.micros_of_day(), digits);
}

/// Appends `[-]HH:MM:SS` and the fraction digits; hours may have three digits.
pub fn put_time(out: &mut Vec<u8>, micros: i64, digits: u8) {
    if micros < 0 {
        out.push(b'-');
    }
    put_clock(out, micros.unsigned_abs(), digits);
}

/// Appends an instant as date and time at an offset of `offset_seconds` from UTC.
pub fn put_timestamp(out: &mut Vec<u8>, micros: i64, digits: u8, offset_seconds: i32) {
    let local = micros.saturating_add(i64::from(offset_seconds) * 1_000_000);
    put_datetime(out, DateTimePacked::from_epoch_micros(local), digits);
}

/// Appends `0000-00-00 00:00:00` and the fraction digits.
pub fn put_zero_timestamp(out: &mut Vec<u8>, digits: u8) {
    put_datetime(out, DateTimePacked::from_bits(0), digits);
}

/// Appends the date of a number of days since 1970-01-01 as ISO 8601 has it: `YYYY-MM-DD`, with a sign for years that
/// have no four digits, as Java's `LocalDate` prints them.
pub fn put_iso_date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil(days);
    match year {
        i64::MIN..0 => out.push(b'-'),
        0..=9999 => {}
        _ => out.push(b'+'),
    }
    put_digits(out, year.unsigned_abs(), 4);
    out.push(b'-');
    put_digits(out, u64::from(month), 2);
    out.push(b'-');
    put_digits(out, u64::from(day), 2);
}

/// Appends an instant of milliseconds since 1970 as `YYYY-MM-DDTHH:MM:SS.mmmZ`; years as [`put_iso_date`].
pub fn put_iso_millis(out: &mut Vec<u8>, millis: i64) {
    const DAY: i64 = 86_400_000;
    put_iso_date(out, millis.div_euclid(DAY));
    out.push(b'T');
    put_clock(out, millis.rem_euclid(DAY) as u64 * 1000, 3);
    out.push(b'Z');
}

/// Appends nanoseconds of a day as `HH:MM:SS` and 0 to 9 fraction digits.
pub fn put_time_nanos(out: &mut Vec<u8>, nanos: i64, digits: u8) {
    let nanos = nanos.unsigned_abs();
    put_clock(out, nanos / 1000, 0);
    let digits = digits.min(9);
    if digits > 0 {
        out.push(b'.');
        let fraction = nanos % 1_000_000_000 / 10u64.pow(9 - u32::from(digits));
        put_digits(out, fraction, usize::from(digits));
    }
}

/// Appends a duration as CQL writes it: `1y2mo3d4h5m6s7ms8us9ns`, one sign before all of it; `0s` for none.
pub fn put_duration(out: &mut Vec<u8>, months: i32, days: i32, nanos: i64) {
    let start = out.len();
    if months < 0 || days < 0 || nanos < 0 {
        out.push(b'-');
    }
    let (months, days) = (
        u64::from(months.unsigned_abs()),
        u64::from(days.unsigned_abs()),
    );
    let nanos = nanos.unsigned_abs();
    let units: [(u64, &str); 9] = [
        (months / 12, "y"),
        (months % 12, "mo"),
        (days, "d"),
        (nanos / 3_600_000_000_000, "h"),
        (nanos / 60_000_000_000 % 60, "m"),
        (nanos / 1_000_000_000 % 60, "s"),
        (nanos / 1_000_000 % 1000, "ms"),
        (nanos / 1000 % 1000, "us"),
        (nanos % 1000, "ns"),
    ];
    for (amount, unit) in units.iter().filter(|(amount, _)| *amount > 0) {
        put_digits(out, *amount, 1);
        out.extend_from_slice(unit.as_bytes());
    }
    if out.len() == start {
        out.extend_from_slice(b"0s");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_round_trip_through_days() {
        for days in (-719_000..3_000_000).step_by(97) {
            assert_eq!(DatePacked::from_days(days).to_days(), Some(days));
        }
        assert_eq!(DatePacked::from_days(0), DatePacked::new(1970, 1, 1));
        assert_eq!(DatePacked::new(2024, 2, 29).to_days(), Some(19_782));
    }

    #[test]
    fn dates_and_instants_of_all_of_cql_have_an_iso_text() {
        let date = |days| text(|o| put_iso_date(o, days));
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(-719_528), "0000-01-01");
        assert_eq!(date(-719_529), "-0001-12-31");
        assert_eq!(date(2_932_897), "+10000-01-01");
        // The ends of CQL's date, as java.time.LocalDate.ofEpochDay prints them.
        assert_eq!(date(i32::MIN.into()), "-5877641-06-23");
        assert_eq!(date(i32::MAX.into()), "+5881580-07-11");
        let at = |millis| text(|o| put_iso_millis(o, millis));
        assert_eq!(at(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(at(1_741_383_893_783), "2025-03-07T21:44:53.783Z");
        // As java.time.Instant.ofEpochMilli prints them.
        assert_eq!(at(i64::MIN), "-292275055-05-16T16:47:04.192Z");
        assert_eq!(at(i64::MAX), "+292278994-08-17T07:12:55.807Z");
        let clock = |nanos, digits| text(|o| put_time_nanos(o, nanos, digits));
        assert_eq!(clock(45_296_789_000_000, 3), "12:34:56.789");
        assert_eq!(clock(86_399_999_999_999, 9), "23:59:59.999999999");
        assert_eq!(clock(0, 0), "00:00:00");
    }

    #[test]
    fn texts_are_those_of_the_server() {
        assert_eq!(
            text(|o| put_date(o, DatePacked::new(2024, 0, 0))),
            "2024-00-00"
        );
        assert_eq!(text(|o| put_time(o, -120_000, 3)), "-00:00:00.120");
        assert_eq!(text(|o| put_time(o, 3_020_399_000_000, 0)), "838:59:59");
        assert_eq!(
            text(|o| put_zero_timestamp(o, 6)),
            "0000-00-00 00:00:00.000000"
        );
        assert_eq!(
            text(|o| put_timestamp(o, 1_000_001, 6, 0)),
            "1970-01-01 00:00:01.000001"
        );
        assert_eq!(
            text(|o| put_timestamp(o, 0, 0, -3600)),
            "1969-12-31 23:00:00"
        );
    }
}
