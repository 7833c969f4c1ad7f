//! Types of the target's columns, read from what DESCRIBE prints.

/// A type that the encoder can write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetType {
    /// Int8 to Int64: bytes.
    Int(u8),
    /// UInt8 to UInt64: bytes.
    UInt(u8),
    /// Float32.
    Float32,
    /// Float64.
    Float64,
    /// Bool.
    Bool,
    /// Decimal: bytes of the stored number, digits, fraction digits.
    Decimal {
        /// 4, 8, 16 or 32.
        bytes: u8,
        /// Digits.
        precision: u8,
        /// Fraction digits.
        scale: u8,
    },
    /// Date.
    Date,
    /// Date32.
    Date32,
    /// DateTime.
    DateTime,
    /// DateTime64 with fraction digits.
    DateTime64(u8),
    /// Time.
    Time,
    /// Time64 with fraction digits.
    Time64(u8),
    /// String.
    String,
    /// FixedString(n).
    FixedString(usize),
    /// UUID.
    Uuid,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Enum8 or Enum16: bytes, labels with their numbers.
    Enum(u8, Vec<(String, i16)>),
    /// JSON, written as text.
    Json,
    /// Array(Float32).
    Floats,
    /// UInt128, for identities of the sink itself.
    UInt128,
}

/// A column's type and whether it takes NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The type without Nullable and LowCardinality.
    pub kind: TargetType,
    /// Nullable.
    pub nullable: bool,
}

impl Target {
    /// Reads a type's text; none for one that the sink cannot write.
    pub fn parse(text: &str) -> Option<Self> {
        let mut text = text.trim();
        if let Some(inner) = inside(text, "LowCardinality") {
            text = inner;
        }
        let mut nullable = false;
        if let Some(inner) = inside(text, "Nullable") {
            nullable = true;
            text = inner;
        }
        Some(Self {
            kind: kind(text)?,
            nullable,
        })
    }
}

/// What stands in the brackets of `name(…)`.
fn inside<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?
        .trim_start()
        .strip_prefix('(')?
        .strip_suffix(')')
        .map(str::trim)
}

fn kind(text: &str) -> Option<TargetType> {
    use TargetType as T;
    Some(match text {
        "Int8" => T::Int(1),
        "Int16" => T::Int(2),
        "Int32" => T::Int(4),
        "Int64" => T::Int(8),
        "UInt8" => T::UInt(1),
        "UInt16" => T::UInt(2),
        "UInt32" => T::UInt(4),
        "UInt64" => T::UInt(8),
        "UInt128" => T::UInt128,
        "Float32" => T::Float32,
        "Float64" => T::Float64,
        "Bool" => T::Bool,
        "Date" => T::Date,
        "Date32" => T::Date32,
        "DateTime" => T::DateTime,
        "Time" => T::Time,
        "String" => T::String,
        "UUID" => T::Uuid,
        "IPv4" => T::Ipv4,
        "IPv6" => T::Ipv6,
        "JSON" => T::Json,
        "Array(Float32)" => T::Floats,
        _ => return with_arguments(text),
    })
}

fn with_arguments(text: &str) -> Option<TargetType> {
    use TargetType as T;
    let (name, rest) = text.split_once('(')?;
    let arguments = rest.strip_suffix(')')?;
    let first = arguments.split(',').next().unwrap_or_default().trim();
    match name.trim() {
        "DateTime" => Some(T::DateTime),
        "DateTime64" => Some(T::DateTime64(first.parse().ok()?)),
        "Time64" => Some(T::Time64(first.parse().ok()?)),
        "FixedString" => Some(T::FixedString(first.parse().ok()?)),
        "Decimal" => {
            let (precision, scale) = arguments.split_once(',')?;
            let precision: u8 = precision.trim().parse().ok()?;
            Some(T::Decimal {
                bytes: match precision {
                    0..=9 => 4,
                    10..=18 => 8,
                    19..=38 => 16,
                    _ => 32,
                },
                precision,
                scale: scale.trim().parse().ok()?,
            })
        }
        "Enum8" => Some(T::Enum(1, labels(arguments)?)),
        "Enum16" => Some(T::Enum(2, labels(arguments)?)),
        "JSON" => Some(T::Json),
        _ => None,
    }
}

/// `'a' = 1, 'b\'c' = 2`.
fn labels(text: &str) -> Option<Vec<(String, i16)>> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace() || *c == ',').is_some() {}
        match chars.next() {
            None => return Some(out),
            Some('\'') => {}
            Some(_) => return None,
        }
        let mut label = String::new();
        loop {
            match chars.next()? {
                '\'' => break,
                '\\' => match chars.next()? {
                    'n' => label.push('\n'),
                    't' => label.push('\t'),
                    other => label.push(other),
                },
                c => label.push(c),
            }
        }
        while chars.next_if(|c| c.is_whitespace() || *c == '=').is_some() {}
        let mut number = String::new();
        while let Some(c) = chars.next_if(|c| c.is_ascii_digit() || *c == '-') {
            number.push(c);
        }
        out.push((label, number.parse().ok()?));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Target {
        Target::parse(text).expect("a known type")
    }

    #[test]
    fn types_are_read_as_describe_prints_them() {
        assert_eq!(
            parse("LowCardinality(Nullable(String))"),
            Target {
                kind: TargetType::String,
                nullable: true
            }
        );
        assert_eq!(
            parse("DateTime64(6, 'UTC')").kind,
            TargetType::DateTime64(6)
        );
        assert_eq!(
            parse("Decimal(20, 4)").kind,
            TargetType::Decimal {
                bytes: 16,
                precision: 20,
                scale: 4
            }
        );
        assert_eq!(
            parse("Enum8('a' = 1, 'it\\'s, = 2' = -2)").kind,
            TargetType::Enum(1, vec![("a".into(), 1), ("it's, = 2".into(), -2)])
        );
        assert_eq!(Target::parse("Map(String, String)"), None);
    }
}
