//! Names that Keyspaces could have, for names that it could not: reversible, and the same every time.
//!
//! Shape: a name of 1 to 48 letters, digits and `_` that begins with a letter or digit stays as it is, unless it begins
//! with `x0_` or `x1_`. Any other becomes `x0_` and its bytes, where `_` is `__` and every other byte outside letters
//! and digits is `_` and two lower-case hex digits: `order-items` is `x0_order_2ditems`. What is then longer than 48 is
//! cut and ends in a hash, `x1_…_HHHHHHHHHHHHHHHH`; it is resolved by the list of tables, not by its text.

use std::borrow::Cow;

/// Longest keyspace or table name.
pub const NAME_CHARS_MAX: usize = 48;

const ESCAPED: &str = "x0_";
const HASHED: &str = "x1_";

/// Whether `name` is one that a request may hold.
pub fn is_valid(name: &str) -> bool {
    let bytes = name.as_bytes();
    matches!(bytes.first(), Some(first) if first.is_ascii_alphanumeric())
        && bytes.len() <= NAME_CHARS_MAX
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// The name that the API shows for a database or table.
pub fn mapped(name: &str) -> Cow<'_, str> {
    if is_valid(name) && !name.starts_with(ESCAPED) && !name.starts_with(HASHED) {
        return Cow::Borrowed(name);
    }
    let mut out = String::from(ESCAPED);
    for byte in name.bytes() {
        match byte {
            b'_' => out.push_str("__"),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => out.push_str(&format!("_{byte:02x}")),
        }
    }
    if out.len() > NAME_CHARS_MAX {
        out.truncate(NAME_CHARS_MAX - 17);
        out.replace_range(..HASHED.len(), HASHED);
        let hash = change::batch::key_token_of_bytes(name.as_bytes());
        out.push_str(&format!("_{hash:016x}"));
    }
    Cow::Owned(out)
}

/// The database or table that a shown name stands for; none for a hashed or impossible one.
pub fn original(shown: &str) -> Option<Cow<'_, str>> {
    let Some(body) = shown.strip_prefix(ESCAPED) else {
        return (!shown.starts_with(HASHED)).then_some(Cow::Borrowed(shown));
    };
    let mut out = Vec::with_capacity(body.len());
    let mut bytes = body.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'_' {
            out.push(byte);
            continue;
        }
        match bytes.next()? {
            b'_' => out.push(b'_'),
            high => {
                let digit = |b: u8| char::from(b).to_digit(16);
                let (high, low) = (digit(high)?, digit(bytes.next()?)?);
                out.push((high << 4 | low) as u8);
            }
        }
    }
    String::from_utf8(out).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_valid_name_that_leads_back() {
        let names = [
            "orders",
            "Orders_2",
            "_tmp",
            "order-items",
            "x0_a",
            "x1_b",
            "žluť",
            "a b",
            "x0",
            "_",
            "__x",
        ];
        let mut seen = std::collections::BTreeSet::new();
        for name in names {
            let shown = mapped(name);
            assert!(is_valid(&shown), "{name} became {shown}");
            assert_eq!(original(&shown).as_deref(), Some(name));
            assert!(seen.insert(shown.into_owned()));
        }
        assert_eq!(mapped("order-items"), "x0_order_2ditems");
        assert_eq!(mapped("orders"), "orders");
    }

    #[test]
    fn long_names_are_hashed_and_differ() {
        let (a, b) = ("a".repeat(60), format!("{}b", "a".repeat(59)));
        assert!(is_valid(&mapped(&a)) && is_valid(&mapped(&b)));
        assert_eq!(mapped(&a).len(), NAME_CHARS_MAX);
        assert_ne!(mapped(&a), mapped(&b));
        assert_eq!(original(&mapped(&a)), None);
    }
}
