//! The tag `pk_uk_info`: an object of key name to an array of column names.

use change::{TableSchema, UniqueKey};
use std::collections::HashMap;

/// More columns in keys than any table has.
const KEY_COLUMNS_MAX: usize = 4096;

/// Puts the keys into the table.
///
/// Errors: what is odd; the keys before it are there.
pub(super) fn put(table: &mut TableSchema, text: &str) -> Result<(), &'static str> {
    let places: HashMap<&str, u32> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| (column.name.as_str(), index as u32))
        .collect();
    let mut keys = Vec::new();
    let result = read(text, |name, columns| {
        let indexes = columns
            .iter()
            .map(|column| places.get(column.as_str()).copied());
        let indexes = indexes
            .collect::<Option<Vec<u32>>>()
            .ok_or("a key over a column that the row does not have")?;
        keys.push((name, indexes));
        Ok(())
    });
    drop(places);
    for (name, columns) in keys {
        if name == "PRIMARY" {
            for index in &columns {
                table.columns[*index as usize].nullable = false;
            }
            table.primary_key = columns;
        } else {
            table.unique_keys.push(UniqueKey { name, columns });
        }
    }
    result
}

const NOT_JSON: &str = "no object of arrays of names";

fn read(
    text: &str,
    mut key: impl FnMut(String, Vec<String>) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let mut json = Json(text);
    let mut left = KEY_COLUMNS_MAX;
    json.expect('{')?;
    if json.take('}') {
        return Ok(());
    }
    loop {
        let name = json.string()?;
        json.expect(':')?;
        json.expect('[')?;
        let mut columns = Vec::new();
        if !json.take(']') {
            loop {
                columns.push(json.string()?);
                left = left.checked_sub(1).ok_or("more key columns than can be")?;
                if !json.take(',') {
                    break;
                }
            }
            json.expect(']')?;
        }
        if !columns.is_empty() {
            key(name, columns)?;
        }
        if !json.take(',') {
            return json.expect('}');
        }
    }
}

/// What is left of a JSON text.
struct Json<'a>(&'a str);

impl Json<'_> {
    fn take(&mut self, wanted: char) -> bool {
        self.0 = self.0.trim_start();
        match self.0.strip_prefix(wanted) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), &'static str> {
        self.take(wanted).then_some(()).ok_or(NOT_JSON)
    }

    fn string(&mut self) -> Result<String, &'static str> {
        self.expect('"')?;
        let mut text = String::new();
        loop {
            let end = self.0.find(['"', '\\']).ok_or(NOT_JSON)?;
            text.push_str(&self.0[..end]);
            let is_end = self.0[end..].starts_with('"');
            self.0 = &self.0[end + 1..];
            if is_end {
                return Ok(text);
            }
            text.push(self.escaped()?);
        }
    }

    fn escaped(&mut self) -> Result<char, &'static str> {
        let escape = self.0.chars().next().ok_or(NOT_JSON)?;
        self.0 = &self.0[escape.len_utf8()..];
        Ok(match escape {
            '"' | '\\' | '/' => escape,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let unit = self.unit()?;
                if !(0xd800..0xdc00).contains(&unit) {
                    return char::from_u32(unit).ok_or(NOT_JSON);
                }
                self.0 = self.0.strip_prefix("\\u").ok_or(NOT_JSON)?;
                let low = self.unit()?;
                let is_low = (0xdc00..0xe000).contains(&low);
                let code = 0x10000 + ((unit - 0xd800) << 10) + low.wrapping_sub(0xdc00);
                char::from_u32(code).filter(|_| is_low).ok_or(NOT_JSON)?
            }
            _ => return Err(NOT_JSON),
        })
    }

    fn unit(&mut self) -> Result<u32, &'static str> {
        let (digits, rest) = self.0.split_at_checked(4).ok_or(NOT_JSON)?;
        self.0 = rest;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(NOT_JSON);
        }
        u32::from_str_radix(digits, 16).map_err(|_| NOT_JSON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<(String, Vec<String>)>, &'static str> {
        let mut keys = Vec::new();
        read(text, |name, columns| {
            keys.push((name, columns));
            Ok(())
        })?;
        Ok(keys)
    }

    #[test]
    fn keys_are_read_and_damage_is_named() {
        let keys = all(r#"{"PRIMARY":["a"], "u\"k":["b","c\ud83d\ude00"]}"#).unwrap();
        assert_eq!(keys[0], ("PRIMARY".to_owned(), vec!["a".to_owned()]));
        assert_eq!(keys[1].0, "u\"k");
        assert_eq!(keys[1].1[1], "c😀");
        assert_eq!(all("{}"), Ok(vec![]));
        for damaged in [
            "",
            "{",
            r#"{"a"}"#,
            r#"{"a":["b}"#,
            r#"{"a":["\ud83d"]}"#,
            "[]",
        ] {
            assert!(all(damaged).is_err(), "{damaged}");
        }
    }
}
