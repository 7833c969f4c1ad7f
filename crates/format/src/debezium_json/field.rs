//! The schema of one column: a Kafka Connect type, and Debezium's name for what it means.

use super::options::{BigintUnsigned, DecimalMode, Options};
use crate::json;
use change::{Column, ColumnType};

/// The schema that Debezium gives a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// `int32`, `string`, …
    pub kind: &'static str,
    /// What it means; empty for nothing beyond its type.
    pub name: &'static str,
    /// What the name needs to know.
    pub parameters: Vec<(&'static str, String)>,
}

impl Field {
    /// By Debezium's defaults: time precision adaptive, binary as bytes, and the options.
    pub fn of(column: &Column, options: &Options) -> Self {
        use ColumnType as T;
        let named = |kind, name| Self {
            kind,
            name,
            parameters: vec![],
        };
        let plain = |kind| named(kind, "");
        match &column.kind {
            T::Int { bytes: 1, .. } => plain("int16"),
            T::Int {
                bytes: 2,
                unsigned: false,
            } => plain("int16"),
            T::Int { bytes: 2 | 3, .. } => plain("int32"),
            T::Int {
                bytes: 4,
                unsigned: false,
            } => plain("int32"),
            T::Int {
                bytes: 8,
                unsigned: true,
            } if options.bigint_unsigned == BigintUnsigned::Precise => decimal(20, 0),
            T::Int { .. } => plain("int64"),
            T::Decimal {
                precision, scale, ..
            } => match options.decimal {
                DecimalMode::Precise => decimal(*precision, *scale),
                DecimalMode::String => plain("string"),
                DecimalMode::Double => plain("double"),
            },
            T::Float if !column.declared.contains(',') => plain("float"),
            T::Float | T::Double => plain("double"),
            T::Bit { width: 1 } => plain("boolean"),
            T::Bit { width } => Self {
                parameters: vec![("length", width.to_string())],
                ..named("bytes", "io.debezium.data.Bits")
            },
            T::Year => named("int32", "io.debezium.time.Year"),
            T::Date => named("int32", "io.debezium.time.Date"),
            T::Time { .. } => named("int64", "io.debezium.time.MicroTime"),
            T::DateTime { digits: 0..=3 } => named("int64", "io.debezium.time.Timestamp"),
            T::DateTime { .. } => named("int64", "io.debezium.time.MicroTimestamp"),
            T::Timestamp { .. } => named("string", "io.debezium.time.ZonedTimestamp"),
            T::Char { .. } | T::Varchar { .. } | T::Text { .. } => plain("string"),
            T::Uuid | T::Inet4 | T::Inet6 => plain("string"),
            T::Binary { .. } | T::Varbinary { .. } | T::Blob { .. } => plain("bytes"),
            T::Enum { members } => labelled("io.debezium.data.Enum", members),
            T::Set { members } => labelled("io.debezium.data.EnumSet", members),
            T::Json => named("string", "io.debezium.data.Json"),
            T::Geometry if is_point(column) => named("struct", "io.debezium.data.geometry.Point"),
            T::Geometry => named("struct", "io.debezium.data.geometry.Geometry"),
            T::Vector => named("array", "io.debezium.data.FloatVector"),
            // Refused before.
            T::Cql(_) => plain("string"),
        }
    }

    /// Appends the schema as JsonConverter writes it, for a member `member`.
    pub fn put(&self, out: &mut Vec<u8>, optional: bool, member: &str) {
        put!(out, "{{\"type\":\"{}\"", self.kind);
        match self.name {
            "io.debezium.data.FloatVector" => {
                out.extend_from_slice(b",\"items\":{\"type\":\"float\",\"optional\":false}");
            }
            "io.debezium.data.geometry.Point" => put_struct(
                out,
                &[
                    ("double", "x", false),
                    ("double", "y", false),
                    ("bytes", "wkb", true),
                    SRID,
                ],
            ),
            "io.debezium.data.geometry.Geometry" => {
                put_struct(out, &[("bytes", "wkb", false), SRID]);
            }
            _ => {}
        }
        put!(out, ",\"optional\":{optional}");
        if !self.name.is_empty() {
            put!(out, ",\"name\":\"{}\",\"version\":1", self.name);
        }
        match self.name {
            "io.debezium.data.geometry.Point" => {
                out.extend_from_slice(b",\"doc\":\"Geometry (POINT)\"");
            }
            "io.debezium.data.geometry.Geometry" => {
                out.extend_from_slice(b",\"doc\":\"Geometry\"");
            }
            _ => {}
        }
        self.put_parameters(out);
        out.extend_from_slice(b",\"field\":");
        json::put_string(out, member);
        out.push(b'}');
    }

    fn put_parameters(&self, out: &mut Vec<u8>) {
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            let before: &[u8] = if index == 0 {
                b",\"parameters\":{"
            } else {
                b","
            };
            out.extend_from_slice(before);
            json::put_string(out, name);
            out.push(b':');
            json::put_string(out, value);
        }
        if !self.parameters.is_empty() {
            out.push(b'}');
        }
    }
}

const SRID: (&str, &str, bool) = ("int32", "srid", true);

/// Whether a geometry column is a POINT, which has a schema of its own.
pub(super) fn is_point(column: &Column) -> bool {
    column.declared.eq_ignore_ascii_case("point")
}

fn decimal(precision: u8, scale: u8) -> Field {
    Field {
        kind: "bytes",
        name: "org.apache.kafka.connect.data.Decimal",
        parameters: vec![
            ("scale", scale.to_string()),
            ("connect.decimal.precision", precision.to_string()),
        ],
    }
}

fn labelled(name: &'static str, members: &[String]) -> Field {
    Field {
        kind: "string",
        name,
        parameters: vec![("allowed", members.join(","))],
    }
}

/// Appends `,"fields":[…]` of (type, name, optional).
pub(super) fn put_struct(out: &mut Vec<u8>, fields: &[(&str, &str, bool)]) {
    for (index, (kind, field, optional)) in fields.iter().enumerate() {
        let before: &[u8] = if index == 0 { b",\"fields\":[" } else { b"," };
        out.extend_from_slice(before);
        put!(
            out,
            "{{\"type\":\"{kind}\",\"optional\":{optional},\"field\":\"{field}\"}}"
        );
    }
    out.push(b']');
}
