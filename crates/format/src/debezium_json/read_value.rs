//! One value back from JSON, by its schema or by what it looks like.

use crate::canal_json::read_value::{bitmask, is_decimal, labels_mask, ordinal};
use crate::decode::Fault;
use crate::json_reader::Json;
use crate::{base64, temporal_reader, unscaled};
use change::temporal::{DatePacked, DateTimePacked};
use change::value::put_value;
use change::{ColumnType, Value};

/// How the numbers of a time count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Millis,
    Micros,
    Nanos,
}

/// How a column's values are read.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The column's type.
    pub kind: ColumnType,
    unit: Unit,
    /// No schema: each value is read by what it looks like.
    by_value: bool,
    /// No schema, and only nulls so far: the next value tells the type.
    pub is_open: bool,
}

const TEXT: ColumnType = ColumnType::Text { length_bytes: 4 };

impl Plan {
    fn new(kind: ColumnType) -> Self {
        Self {
            kind,
            unit: Unit::Micros,
            by_value: false,
            is_open: false,
        }
    }

    fn counted(kind: ColumnType, unit: Unit) -> Self {
        Self {
            unit,
            ..Self::new(kind)
        }
    }

    /// By a field's schema.
    pub fn of_schema(field: &Json<'_>) -> Result<Self, Fault> {
        use ColumnType as T;
        let kind = (field.get("type").and_then(|kind| kind.text()))
            .ok_or_else(|| field.fault("there is no member `type`"))?;
        let name = field
            .get("name")
            .and_then(|name| name.text())
            .unwrap_or_default();
        let parameter = |name: &str| {
            let value = field.get("parameters").and_then(|all| all.get(name));
            value.and_then(|value| value.text()).unwrap_or_default()
        };
        let number = |name: &str| parameter(name).parse::<u8>().unwrap_or(0);
        let labels = || match &*parameter("allowed") {
            "" => vec![],
            allowed => allowed.split(',').map(str::to_owned).collect(),
        };
        Ok(match &*name {
            "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date" => Self::new(T::Date),
            "io.debezium.time.Time" | "org.apache.kafka.connect.data.Time" => {
                Self::counted(T::Time { digits: 3 }, Unit::Millis)
            }
            "io.debezium.time.MicroTime" => Self::new(T::Time { digits: 6 }),
            "io.debezium.time.NanoTime" => Self::counted(T::Time { digits: 6 }, Unit::Nanos),
            "io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp" => {
                Self::counted(T::DateTime { digits: 3 }, Unit::Millis)
            }
            "io.debezium.time.MicroTimestamp" => Self::new(T::DateTime { digits: 6 }),
            "io.debezium.time.NanoTimestamp" => {
                Self::counted(T::DateTime { digits: 6 }, Unit::Nanos)
            }
            "io.debezium.time.ZonedTimestamp" => Self::new(T::Timestamp { digits: 6 }),
            "io.debezium.time.Year" => Self::new(T::Year),
            "io.debezium.data.Bits" => Self::new(T::Bit {
                width: number("length").clamp(1, 64),
            }),
            "io.debezium.data.Enum" => Self::new(T::Enum { members: labels() }),
            "io.debezium.data.EnumSet" => Self::new(T::Set { members: labels() }),
            "io.debezium.data.Json" => Self::new(T::Json),
            "io.debezium.data.FloatVector" => Self::new(T::Vector),
            "io.debezium.data.geometry.Geometry" | "io.debezium.data.geometry.Point" => {
                Self::new(T::Geometry)
            }
            "org.apache.kafka.connect.data.Decimal" => Self::new(T::Decimal {
                precision: number("connect.decimal.precision"),
                scale: number("scale"),
                unsigned: false,
            }),
            _ => Self::of_type(&kind),
        })
    }

    fn of_type(kind: &str) -> Self {
        let int = |bytes| ColumnType::Int {
            bytes,
            unsigned: false,
        };
        match kind {
            "int8" => Self::new(int(1)),
            "int16" => Self::new(int(2)),
            "int32" => Self::new(int(4)),
            "int64" => Self::new(int(8)),
            "float" => Self::new(ColumnType::Float),
            "double" => Self::new(ColumnType::Double),
            "boolean" => Self::new(ColumnType::Bit { width: 1 }),
            "string" => Self::new(TEXT),
            "bytes" => Self::new(ColumnType::Blob { length_bytes: 4 }),
            _ => Self::new(ColumnType::Json),
        }
    }

    /// By a value, without a schema.
    pub fn of_value(value: &Json<'_>) -> Self {
        let plan = if value.is_object() || value.is_array() {
            Self::new(ColumnType::Json)
        } else if value.boolean().is_some() {
            Self::of_type("boolean")
        } else {
            match value.number() {
                Some(number) if number.parse::<i64>().is_ok() => Self::of_type("int64"),
                Some(_) => Self::of_type("double"),
                None => Self::new(TEXT),
            }
        };
        Self {
            by_value: true,
            is_open: value.is_null(),
            ..plan
        }
    }

    /// The type as MySQL would print it.
    pub fn declared(&self) -> String {
        use ColumnType as T;
        let labels = |word: &str, members: &[String]| {
            let quoted: Vec<String> = (members.iter())
                .map(|label| format!("'{}'", label.replace('\'', "''")))
                .collect();
            format!("{word}({})", quoted.join(","))
        };
        let plain = match &self.kind {
            T::Int { bytes: 1, .. } => "tinyint",
            T::Int { bytes: 2, .. } => "smallint",
            T::Int { bytes: 4, .. } => "int",
            T::Int { .. } => "bigint",
            T::Float => "float",
            T::Double => "double",
            T::Date => "date",
            T::Year => "year",
            T::Json => "json",
            T::Vector => "vector",
            T::Geometry => "geometry",
            T::Blob { .. } => "longblob",
            T::Bit { width } => return format!("bit({width})"),
            T::Time { digits } => return format!("time({digits})"),
            T::DateTime { digits } => return format!("datetime({digits})"),
            T::Timestamp { digits } => return format!("timestamp({digits})"),
            T::Decimal {
                precision, scale, ..
            } => return format!("decimal({precision},{scale})"),
            T::Enum { members } => return labels("enum", members),
            T::Set { members } => return labels("set", members),
            _ => "longtext",
        };
        plain.into()
    }
}

/// Appends the stored form of a value that is not null.
///
/// Errors: what the value should have been.
pub(super) fn put(out: &mut Vec<u8>, plan: &Plan, json: &Json<'_>) -> Result<(), &'static str> {
    if plan.by_value {
        return put_by_value(out, json);
    }
    let text = json.text();
    match &plan.kind {
        ColumnType::Geometry => return put_geometry(out, json),
        ColumnType::Vector => return put_vector(out, json),
        ColumnType::Json if text.is_none() => {
            put_value(out, Value::Json(json.raw()));
            return Ok(());
        }
        ColumnType::Decimal { scale, .. } => {
            let text = text.ok_or("base64 is expected")?;
            let bytes = base64::decode(&text).ok_or("base64 is expected")?;
            let decimal = unscaled::text_of(&bytes, usize::from(*scale));
            put_value(
                out,
                Value::Decimal(&decimal.ok_or("a decimal of at most 32 bytes is expected")?),
            );
            return Ok(());
        }
        ColumnType::Blob { .. } => {
            let bytes = text.and_then(|text| base64::decode(&text));
            put_value(out, Value::Bytes(&bytes.ok_or("base64 is expected")?));
            return Ok(());
        }
        _ => {}
    }
    let value = match text {
        Some(text) => return put_text(out, &plan.kind, &text),
        None => number(plan, json).ok_or("a value of the schema's type is expected")?,
    };
    put_value(out, value);
    Ok(())
}

fn put_text(out: &mut Vec<u8>, kind: &ColumnType, text: &str) -> Result<(), &'static str> {
    use ColumnType as T;
    let value = match kind {
        T::Text { .. } => Value::Text(text),
        T::Json => Value::Json(text),
        T::Enum { members } => {
            // A label may look like a number.
            let label = members.iter().position(|member| member == text);
            let index = label.and_then(|index| u16::try_from(index + 1).ok());
            let ordinal = index.or_else(|| ordinal(members, text));
            Value::Enum(ordinal.ok_or("a label is expected")?)
        }
        T::Set { members } => {
            let mask = labels_mask(members, text).or_else(|| bitmask(members, text));
            Value::Set(mask.ok_or("labels are expected")?)
        }
        T::Timestamp { .. } => {
            let (micros, digits) = temporal_reader::instant(text).ok_or("a time is expected")?;
            Value::Timestamp { micros, digits }
        }
        T::Bit { .. } => {
            let bytes = base64::decode(text).filter(|bytes| bytes.len() <= 8);
            let mut bits = [0u8; 8];
            let bytes = bytes.ok_or("base64 of at most 8 bytes is expected")?;
            bits[..bytes.len()].copy_from_slice(&bytes);
            Value::Bit(u64::from_le_bytes(bits))
        }
        _ => return Err("a value of the schema's type is expected"),
    };
    put_value(out, value);
    Ok(())
}

fn number<'v>(plan: &Plan, json: &Json<'_>) -> Option<Value<'v>> {
    use ColumnType as T;
    if let (T::Bit { .. }, Some(bit)) = (&plan.kind, json.boolean()) {
        return Some(Value::Bit(bit.into()));
    }
    let text = json.number()?;
    if let T::Float = plan.kind {
        return Some(Value::Float(text.parse().ok()?));
    }
    if let T::Double = plan.kind {
        return Some(Value::Double(text.parse().ok()?));
    }
    let number: i64 = text.parse().ok()?;
    let micros = match plan.unit {
        Unit::Millis => number.checked_mul(1000)?,
        Unit::Micros => number,
        Unit::Nanos => number.div_euclid(1000),
    };
    Some(match &plan.kind {
        T::Int { .. } => Value::Int(number),
        T::Year => Value::Year(number.try_into().ok()?),
        T::Date => Value::Date(date(number)?),
        T::Time { digits } => Value::Time {
            micros,
            digits: *digits,
        },
        T::DateTime { digits } => Value::DateTime {
            at: datetime(micros)?,
            digits: *digits,
        },
        _ => return None,
    })
}

/// Days since the epoch within the years that a stored date has room for.
fn date(days: i64) -> Option<DatePacked> {
    const YEAR_0: i64 = -719_528;
    const YEAR_9999: i64 = 2_932_896;
    (YEAR_0..=YEAR_9999)
        .contains(&days)
        .then(|| DatePacked::from_days(days))
}

fn datetime(micros: i64) -> Option<DateTimePacked> {
    date(micros.div_euclid(86_400_000_000))?;
    Some(DateTimePacked::from_epoch_micros(micros))
}

fn put_by_value(out: &mut Vec<u8>, json: &Json<'_>) -> Result<(), &'static str> {
    let text = json.text();
    let value = match (&text, json.number(), json.boolean()) {
        (Some(text), _, _) => Value::Text(text),
        (_, Some(number), _) => match (number.parse(), number.parse()) {
            (Ok(signed), _) => Value::Int(signed),
            (_, Ok(unsigned)) => Value::UInt(unsigned),
            _ if is_decimal(number) && !number.contains('.') => Value::Decimal(number),
            _ => Value::Double(number.parse().map_err(|_| "a number is expected")?),
        },
        (_, _, Some(bit)) => Value::Bit(bit.into()),
        _ => Value::Json(json.raw()),
    };
    put_value(out, value);
    Ok(())
}

fn put_geometry(out: &mut Vec<u8>, json: &Json<'_>) -> Result<(), &'static str> {
    let wkb = (json.get("wkb").and_then(|wkb| wkb.text()))
        .and_then(|text| base64::decode(&text))
        .ok_or("an object with base64 in `wkb` is expected")?;
    let srid = match json.get("srid").and_then(|srid| srid.number()) {
        None => 0,
        Some(number) => number
            .parse::<i32>()
            .map_err(|_| "a number in `srid` is expected")?,
    };
    let mut bytes = srid.to_le_bytes().to_vec();
    bytes.extend_from_slice(&wkb);
    put_value(out, Value::Geometry(&bytes));
    Ok(())
}

fn put_vector(out: &mut Vec<u8>, json: &Json<'_>) -> Result<(), &'static str> {
    let mut bytes = Vec::new();
    for item in json.items() {
        let float: f32 = (item.number().and_then(|number| number.parse().ok()))
            .ok_or("an array of numbers is expected")?;
        bytes.extend_from_slice(&float.to_le_bytes());
    }
    if !json.is_array() {
        return Err("an array of numbers is expected");
    }
    put_value(out, Value::Vector(&bytes));
    Ok(())
}
