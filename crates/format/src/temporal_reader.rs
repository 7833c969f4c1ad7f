//! Dates and times back from their text.

use change::temporal::{DatePacked, DateTimePacked};

const SECOND: u64 = 1_000_000;

fn number(text: &str, digits: usize) -> Option<(u32, &str)> {
    let head = text.get(..digits)?;
    if !head.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((head.parse().ok()?, &text[digits..]))
}

fn date_part(text: &str) -> Option<(DatePacked, &str)> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    if month > 12 || day > 31 {
        return None;
    }
    Some((DatePacked::new(year, month, day), rest))
}

/// A fraction of a second: microseconds and the number of digits; digits past the sixth are dropped.
fn fraction(text: &str) -> Option<(u64, u8)> {
    let Some(digits) = text.strip_prefix('.') else {
        return text.is_empty().then_some((0, 0));
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = &digits[..digits.len().min(6)];
    let micros: u64 = kept.parse().ok()?;
    Some((micros * 10u64.pow(6 - kept.len() as u32), kept.len() as u8))
}

/// Hours, minutes and seconds after the hours' digits: microseconds and fraction digits.
fn clock(hours: u64, rest: &str) -> Option<(u64, u8)> {
    let (minutes, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (seconds, rest) = number(rest.strip_prefix(':')?, 2)?;
    if minutes > 59 || seconds > 59 {
        return None;
    }
    let (micros, digits) = fraction(rest)?;
    let seconds = hours * 3600 + u64::from(minutes) * 60 + u64::from(seconds);
    Some((seconds * SECOND + micros, digits))
}

/// `YYYY-MM-DD`; zero fields are kept.
pub(crate) fn date(text: &str) -> Option<DatePacked> {
    match date_part(text)? {
        (date, "") => Some(date),
        _ => None,
    }
}

/// `YYYY-MM-DD HH:MM:SS[.f]`, also with `T`: date, time and the number of fraction digits.
pub(crate) fn datetime(text: &str) -> Option<(DateTimePacked, u8)> {
    let (date, rest) = date_part(text)?;
    let (hours, rest) = number(rest.strip_prefix([' ', 'T'])?, 2)?;
    if hours > 23 {
        return None;
    }
    let (micros, digits) = clock(u64::from(hours), rest)?;
    Some((DateTimePacked::new(date, micros), digits))
}

/// `[-]HH:MM:SS[.f]`, hours of two or three digits: microseconds and the number of fraction digits.
pub(crate) fn time(text: &str) -> Option<(i64, u8)> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (hours, rest) = number(text, 3).or_else(|| number(text, 2))?;
    let (micros, digits) = clock(u64::from(hours), rest)?;
    let micros = i64::try_from(micros).ok()?;
    Some((if negative { -micros } else { micros }, digits))
}

/// Microseconds since the epoch of a date and time in UTC; none for one that no calendar has.
pub(crate) fn epoch_micros(at: DateTimePacked) -> Option<i64> {
    const DAY: i64 = 86_400_000_000;
    let days = at.date().to_days()?;
    Some(days * DAY + at.micros_of_day() as i64)
}

/// `YYYY-MM-DDTHH:MM:SS[.f]` and `Z`, an offset as `+08:00`, or nothing for UTC: microseconds since
/// the epoch and the number of fraction digits.
pub(crate) fn instant(text: &str) -> Option<(i64, u8)> {
    let (text, offset_minutes) = match text.strip_suffix('Z') {
        Some(text) => (text, 0),
        None => split_offset(text)?,
    };
    let (at, digits) = datetime(text)?;
    let micros = epoch_micros(at)? - offset_minutes * 60 * SECOND as i64;
    Some((micros, digits))
}

fn split_offset(text: &str) -> Option<(&str, i64)> {
    let start = text.len().saturating_sub(6);
    let Some((body, offset)) = text.split_at_checked(start) else {
        return Some((text, 0));
    };
    let sign = match offset.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') if body.len() > 10 => -1,
        _ => return Some((text, 0)),
    };
    let (hours, rest) = number(&offset[1..], 2)?;
    let (minutes, rest) = number(rest.strip_prefix(':')?, 2)?;
    rest.is_empty()
        .then_some((body, sign * i64::from(hours * 60 + minutes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        assert_eq!(date("2024-00-15"), Some(DatePacked::new(2024, 0, 15)));
        assert_eq!(time("-00:00:00.120"), Some((-120_000, 3)));
        assert_eq!(time("838:59:59"), Some((3_020_399_000_000, 0)));
        let (at, digits) = datetime("2023-11-14 22:13:20.500").unwrap();
        assert_eq!(epoch_micros(at), Some(1_700_000_000_500_000));
        assert_eq!(digits, 3);
        let same = [
            "2023-11-14T22:13:20Z",
            "2023-11-14T22:13:20",
            "2023-11-15T06:13:20+08:00",
            "2023-11-14T17:13:20-05:00",
        ];
        for text in same {
            assert_eq!(instant(text), Some((1_700_000_000_000_000, 0)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in ["", "2024", "2024-13-01", "2024-01-01x", "é024-01-01"] {
            assert_eq!(date(text), None, "{text}");
            assert_eq!(datetime(text), None, "{text}");
            assert_eq!(instant(text), None, "{text}");
        }
        for text in ["", "1:2:3", "00:60:00", "00:00:00.", "-", "ééé:00:00"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
