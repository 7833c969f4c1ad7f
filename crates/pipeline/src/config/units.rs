//! Durations and sizes as people write them: `24h`, `500ms`, `50GB`, `64MiB`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A duration with its unit: `ms`, `s`, `m`, `h` or `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

/// A number of bytes: plain, or with `KB`, `MB`, `GB`, `TB` (powers of 1000) or `KiB`, `MiB`, `GiB`,
/// `TiB` (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (text[..end].trim(), text[end..].trim())
}

impl std::str::FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text.trim());
        let bad =
            || format!("`{text}` is no duration; write a number and one of ms, s, m, h, d: 24h");
        let number: f64 = number.parse().map_err(|_| bad())?;
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return Err(bad()),
        };
        Duration::try_from_secs_f64(number * seconds)
            .map(Span)
            .map_err(|_| bad())
    }
}

impl std::str::FromStr for Bytes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text.trim());
        let bad = || format!("`{text}` is no size; write a number and one of KB, MB, GB, TB: 50GB");
        let number: f64 = number.parse().map_err(|_| bad())?;
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" | "k" => 1000,
            "mb" | "m" => 1000_u64.pow(2),
            "gb" | "g" => 1000_u64.pow(3),
            "tb" | "t" => 1000_u64.pow(4),
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            "tib" => 1 << 40,
            _ => return Err(bad()),
        };
        Ok(Bytes((number * factor as f64) as u64))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0 => f.write_str("0s"),
            m if m % 3_600_000 == 0 => write!(f, "{}h", m / 3_600_000),
            m if m % 60_000 == 0 => write!(f, "{}m", m / 60_000),
            m if m % 1000 == 0 => write!(f, "{}s", m / 1000),
            m => write!(f, "{m}ms"),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.iter().find(|(size, _)| self.0 >= *size) {
            Some((size, unit)) if self.0.is_multiple_of(*size) => {
                write!(f, "{}{unit}", self.0 / size)
            }
            Some((size, unit)) => write!(f, "{:.1}{unit}", self.0 as f64 / *size as f64),
            None => write!(f, "{}", self.0),
        }
    }
}

struct Text<T>(std::marker::PhantomData<T>, &'static str);

impl<T: std::str::FromStr<Err = String>> Visitor<'_> for Text<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        number.to_string().parse().map_err(E::custom)
    }
}

macro_rules! text_setting {
    ($name:ident, $expected:literal, $pattern:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Text(std::marker::PhantomData, $expected))
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": ["string", "integer"],
                    "pattern": $pattern,
                    "description": $expected,
                })
            }
        }
    };
}

text_setting!(
    Span,
    "a duration such as 500ms, 30s, 5m, 24h, 7d",
    r"^[0-9.]+ *(ms|s|m|min|h|d)$"
);
text_setting!(
    Bytes,
    "a size such as 64MiB or 50GB",
    r"^[0-9.]+ *[KMGTkmgt]?i?[Bb]?$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_read_and_print_as_written() {
        let span = |text: &str| text.parse::<Span>().map(|span| span.to_string());
        assert_eq!(span("24h"), Ok("24h".into()));
        assert_eq!(span("90 s"), Ok("90s".into()));
        assert_eq!(span("1500ms"), Ok("1500ms".into()));
        assert!(span("24").is_err() && span("h").is_err() && span("1y").is_err());
        assert_eq!("50GB".parse::<Bytes>(), Ok(Bytes(50_000_000_000)));
        assert_eq!(
            "64MiB".parse::<Bytes>().map(|b| b.to_string()),
            Ok("64MiB".into())
        );
        assert!("5 parsecs".parse::<Bytes>().is_err());
    }
}
