//! The Avro schema that every message is written with.
//!
//! Shape: a JSON array of named types, in an order in which each is declared before it is used. The
//! last, `Record`, is what a message holds. No schema and no number of one travels with the messages:
//! a consumer has to have it.

/// Where `Record` stands in the array of [`avro_schema`].
pub const RECORD_INDEX: usize = 13;

/// The schema as text: a JSON array of named types, whose last is the message's.
pub fn avro_schema() -> &'static str {
    SCHEMA
}

const SCHEMA: &str = r#"[
  {
    "type": "record", "name": "Field", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "A column: its name, and the number of its type at the source",
    "fields": [
      {"name": "name", "type": "string"},
      {"name": "dataTypeNumber", "type": "int"}
    ]
  },
  {
    "type": "record", "name": "Integer", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "A whole number in decimal digits; precision is its width in bytes",
    "fields": [
      {"name": "precision", "type": "int"},
      {"name": "value", "type": "string"}
    ]
  },
  {
    "type": "record", "name": "Character", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "Text as bytes of a charset, named as the source names it",
    "fields": [
      {"name": "charset", "type": "string"},
      {"name": "value", "type": "bytes"}
    ]
  },
  {
    "type": "record", "name": "Float", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "A floating-point number",
    "fields": [
      {"name": "value", "type": "double"},
      {"name": "precision", "type": "int"},
      {"name": "scale", "type": "int"}
    ]
  },
  {
    "type": "record", "name": "Decimal", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "A decimal as text; precision and scale are those of this value",
    "fields": [
      {"name": "value", "type": "string"},
      {"name": "precision", "type": "int"},
      {"name": "scale", "type": "int"}
    ]
  },
  {
    "type": "record", "name": "Timestamp", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "An instant: seconds since 1970-01-01 UTC, and microseconds, whatever the name says",
    "fields": [
      {"name": "timestamp", "type": "long"},
      {"name": "millis", "type": "int"}
    ]
  },
  {
    "type": "record", "name": "DateTime", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "Calendar and clock fields without a zone; null for those that the type does not have. millis counts microseconds for MySQL and PostgreSQL",
    "fields": [
      {"name": "year", "type": ["null", "int"], "default": null},
      {"name": "month", "type": ["null", "int"], "default": null},
      {"name": "day", "type": ["null", "int"], "default": null},
      {"name": "hour", "type": ["null", "int"], "default": null},
      {"name": "minute", "type": ["null", "int"], "default": null},
      {"name": "second", "type": ["null", "int"], "default": null},
      {"name": "millis", "type": ["null", "int"], "default": null}
    ]
  },
  {
    "type": "record", "name": "TimestampWithTimeZone", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "Local fields and the zone in which they are local",
    "fields": [
      {"name": "value", "type": "com.alibaba.dts.formats.avro.DateTime"},
      {"name": "timezone", "type": "string"}
    ]
  },
  {
    "type": "record", "name": "BinaryGeometry", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "A geometry in a binary form that type names",
    "fields": [
      {"name": "type", "type": "string"},
      {"name": "value", "type": "bytes"}
    ]
  },
  {
    "type": "record", "name": "TextGeometry", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "A geometry in a text form that type names",
    "fields": [
      {"name": "type", "type": "string"},
      {"name": "value", "type": "string"}
    ]
  },
  {
    "type": "record", "name": "BinaryObject", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "Binary data of a kind that type names",
    "fields": [
      {"name": "type", "type": "string"},
      {"name": "value", "type": "bytes"}
    ]
  },
  {
    "type": "record", "name": "TextObject", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "Text of a kind that type names",
    "fields": [
      {"name": "type", "type": "string"},
      {"name": "value", "type": "string"}
    ]
  },
  {
    "type": "enum", "name": "EmptyObject", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "NONE: the source's log does not have the value. It is not the NULL of SQL",
    "symbols": ["NULL", "NONE"]
  },
  {
    "type": "record", "name": "Record", "namespace": "com.alibaba.dts.formats.avro",
    "doc": "One message: one row's change, a statement, or a mark between them",
    "fields": [
      {"name": "version", "type": "int"},
      {"name": "id", "type": "long"},
      {"name": "sourceTimestamp", "type": "long"},
      {"name": "sourcePosition", "type": "string"},
      {"name": "safeSourcePosition", "type": "string", "default": ""},
      {"name": "sourceTxid", "type": "string", "default": ""},
      {"name": "source", "type": {
        "type": "record", "name": "Source", "namespace": "com.alibaba.dts.formats.avro",
        "fields": [
          {"name": "sourceType", "type": {
            "type": "enum", "name": "SourceType", "namespace": "com.alibaba.dts.formats.avro",
            "symbols": ["MySQL", "Oracle", "SQLServer", "PostgreSQL", "MongoDB", "Redis", "DB2", "PPAS", "DRDS", "HBASE", "HDFS", "FILE", "OTHER"]
          }},
          {"name": "version", "type": "string"}
        ]
      }},
      {"name": "operation", "type": {
        "type": "enum", "name": "Operation", "namespace": "com.alibaba.dts.formats.avro",
        "symbols": ["INSERT", "UPDATE", "DELETE", "DDL", "BEGIN", "COMMIT", "ROLLBACK", "ABORT", "HEARTBEAT", "CHECKPOINT", "COMMAND", "FILL", "FINISH", "CONTROL", "RDB", "NOOP", "INIT"]
      }},
      {"name": "objectName", "type": ["null", "string"], "default": null},
      {"name": "processTimestamps", "type": ["null", {"type": "array", "items": "long"}], "default": null},
      {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
      {"name": "fields", "type": ["null", "string", {"type": "array", "items": "com.alibaba.dts.formats.avro.Field"}], "default": null},
      {"name": "beforeImages", "type": ["null", "string", {"type": "array", "items": [
        "null",
        "com.alibaba.dts.formats.avro.Integer",
        "com.alibaba.dts.formats.avro.Character",
        "com.alibaba.dts.formats.avro.Decimal",
        "com.alibaba.dts.formats.avro.Float",
        "com.alibaba.dts.formats.avro.Timestamp",
        "com.alibaba.dts.formats.avro.DateTime",
        "com.alibaba.dts.formats.avro.TimestampWithTimeZone",
        "com.alibaba.dts.formats.avro.BinaryGeometry",
        "com.alibaba.dts.formats.avro.TextGeometry",
        "com.alibaba.dts.formats.avro.BinaryObject",
        "com.alibaba.dts.formats.avro.TextObject",
        "com.alibaba.dts.formats.avro.EmptyObject"
      ]}], "default": null},
      {"name": "afterImages", "type": ["null", "string", {"type": "array", "items": [
        "null",
        "com.alibaba.dts.formats.avro.Integer",
        "com.alibaba.dts.formats.avro.Character",
        "com.alibaba.dts.formats.avro.Decimal",
        "com.alibaba.dts.formats.avro.Float",
        "com.alibaba.dts.formats.avro.Timestamp",
        "com.alibaba.dts.formats.avro.DateTime",
        "com.alibaba.dts.formats.avro.TimestampWithTimeZone",
        "com.alibaba.dts.formats.avro.BinaryGeometry",
        "com.alibaba.dts.formats.avro.TextGeometry",
        "com.alibaba.dts.formats.avro.BinaryObject",
        "com.alibaba.dts.formats.avro.TextObject",
        "com.alibaba.dts.formats.avro.EmptyObject"
      ]}], "default": null},
      {"name": "bornTimestamp", "type": "long", "default": 0}
    ]
  }
]
"#;
