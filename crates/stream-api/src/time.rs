//! Times as texts: `YYYY-MM-DDTHH:MM:SS[.mmm]Z`.

use stream::Label;

/// Microseconds since 1970 of an ISO time in UTC, to the second or the millisecond.
pub fn parse(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z')?;
    let label = match text.len() {
        19 => Label::parse(&format!("{text}.000")),
        _ => Label::parse(text),
    };
    Some(label?.0.saturating_mul(1000))
}

/// `YYYY-MM-DDTHH:MM:SSZ`.
pub fn seconds(micros: i64) -> String {
    let text = Label(micros.div_euclid(1000)).to_string();
    format!("{}Z", text.get(..19).unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back() {
        assert_eq!(parse("1970-01-01T00:00:01Z"), Some(1_000_000));
        assert_eq!(
            parse("2025-03-07T21:44:53.783Z"),
            Some(1_741_383_893_783_000)
        );
        assert_eq!(seconds(1_741_383_893_783_000), "2025-03-07T21:44:53Z");
        assert_eq!(parse("2025-02-30T21:44:53Z"), None);
        assert_eq!(parse("yesterday"), None);
    }
}
