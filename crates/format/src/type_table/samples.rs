//! A value of every column type.

use change::temporal::{DatePacked, DateTimePacked};
use change::{Column, ColumnType, SchemaVersion, TableId, TableSchema, Value};

/// A type and a value of it.
pub(super) struct Sample {
    /// The type, as the page names it.
    pub name: &'static str,
    /// A table with one column of this type.
    pub table: TableSchema,
    pub value: Value<'static>,
}

impl Sample {
    pub fn column(&self) -> &Column {
        &self.table.columns[0]
    }
}

fn sample(name: &'static str, declared: &str, kind: ColumnType, value: Value<'static>) -> Sample {
    let column = Column {
        name: "c".into(),
        declared: declared.into(),
        kind,
        charset: None,
        collation: None,
        nullable: true,
        default: None,
        comment: String::new(),
        generated: false,
        invisible: false,
        masked: false,
    };
    Sample {
        name,
        table: TableSchema {
            table: TableId(1),
            version: SchemaVersion(1),
            database: "d".into(),
            name: "t".into(),
            columns: vec![column],
            primary_key: vec![],
            unique_keys: vec![],
            charset: None,
            comment: String::new(),
        },
        value,
    }
}

const DATE: DatePacked = DatePacked::new(2023, 11, 14);
const CLOCK_US: u64 = (22 * 3600 + 13 * 60 + 20) * 1_000_000 + 500_000;
const EPOCH_US: i64 = 1_700_000_000_500_000;
const POINT: [u8; 25] = [
    0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40,
];

/// Whole seconds for a column without fraction digits.
fn cut(micros: i64, digits: u8) -> i64 {
    let unit = 10i64.pow(6 - u32::from(digits));
    micros / unit * unit
}

fn integers() -> Vec<Sample> {
    use ColumnType as T;
    let signed = |name, declared: &str, bytes, value| {
        let unsigned = false;
        sample(
            name,
            declared,
            T::Int { bytes, unsigned },
            Value::Int(value),
        )
    };
    let unsigned = |name, declared: &str, bytes, value| {
        let unsigned = true;
        sample(
            name,
            declared,
            T::Int { bytes, unsigned },
            Value::UInt(value),
        )
    };
    vec![
        signed("TINYINT, BOOL", "tinyint", 1, -128),
        unsigned("TINYINT UNSIGNED", "tinyint unsigned", 1, 255),
        signed("SMALLINT", "smallint", 2, -32768),
        unsigned("SMALLINT UNSIGNED", "smallint unsigned", 2, 65535),
        signed("MEDIUMINT", "mediumint", 3, -8_388_608),
        unsigned("MEDIUMINT UNSIGNED", "mediumint unsigned", 3, 16_777_215),
        signed("INT", "int", 4, -2_147_483_648),
        unsigned("INT UNSIGNED", "int unsigned", 4, 4_294_967_295),
        signed("BIGINT", "bigint", 8, i64::MIN),
        unsigned("BIGINT UNSIGNED", "bigint unsigned", 8, u64::MAX),
    ]
}

fn numbers() -> Vec<Sample> {
    use ColumnType as T;
    let decimal = T::Decimal {
        precision: 10,
        scale: 2,
        unsigned: false,
    };
    vec![
        sample(
            "DECIMAL(10,2)",
            "decimal(10,2)",
            decimal,
            Value::Decimal("-500.00"),
        ),
        sample("FLOAT", "float", T::Float, Value::Float(1.5e10)),
        sample("DOUBLE", "double", T::Double, Value::Double(0.1)),
        sample("BIT(1)", "bit(1)", T::Bit { width: 1 }, Value::Bit(1)),
        sample("BIT(10)", "bit(10)", T::Bit { width: 10 }, Value::Bit(513)),
    ]
}

fn times() -> Vec<Sample> {
    use ColumnType as T;
    let time = |name, declared: &str, digits| {
        let micros = cut(-45_296_500_000, digits);
        sample(
            name,
            declared,
            T::Time { digits },
            Value::Time { micros, digits },
        )
    };
    let datetime = |name, declared: &str, digits| {
        let at = DateTimePacked::new(DATE, cut(CLOCK_US as i64, digits) as u64);
        sample(
            name,
            declared,
            T::DateTime { digits },
            Value::DateTime { at, digits },
        )
    };
    let timestamp = |name, declared: &str, digits| {
        let micros = cut(EPOCH_US, digits);
        sample(
            name,
            declared,
            T::Timestamp { digits },
            Value::Timestamp { micros, digits },
        )
    };
    let zero_date = Value::Date(DatePacked::new(0, 0, 0));
    let zero_timestamp = Value::ZeroTimestamp { digits: 0 };
    vec![
        sample("YEAR", "year", T::Year, Value::Year(2023)),
        sample("DATE", "date", T::Date, Value::Date(DATE)),
        sample("DATE, zero", "date", T::Date, zero_date),
        time("TIME", "time", 0),
        time("TIME(6)", "time(6)", 6),
        datetime("DATETIME", "datetime", 0),
        datetime("DATETIME(3)", "datetime(3)", 3),
        datetime("DATETIME(6)", "datetime(6)", 6),
        timestamp("TIMESTAMP", "timestamp", 0),
        timestamp("TIMESTAMP(6)", "timestamp(6)", 6),
        sample(
            "TIMESTAMP, zero",
            "timestamp",
            T::Timestamp { digits: 0 },
            zero_timestamp,
        ),
    ]
}

fn texts_and_bytes() -> Vec<Sample> {
    use ColumnType as T;
    const BYTES: Value<'static> = Value::Bytes(&[0x01, 0xff]);
    let text = Value::Text("é\t");
    vec![
        sample("CHAR(n)", "char(4)", T::Char { length: 4 }, text),
        sample("VARCHAR(n)", "varchar(4)", T::Varchar { length: 4 }, text),
        sample(
            "TEXT and its sizes",
            "text",
            T::Text { length_bytes: 2 },
            text,
        ),
        sample("BINARY(n)", "binary(2)", T::Binary { length: 2 }, BYTES),
        sample(
            "VARBINARY(n)",
            "varbinary(4)",
            T::Varbinary { length: 4 },
            BYTES,
        ),
        sample("TINYBLOB", "tinyblob", T::Blob { length_bytes: 1 }, BYTES),
        sample("BLOB", "blob", T::Blob { length_bytes: 2 }, BYTES),
        sample(
            "MEDIUMBLOB",
            "mediumblob",
            T::Blob { length_bytes: 3 },
            BYTES,
        ),
        sample("LONGBLOB", "longblob", T::Blob { length_bytes: 4 }, BYTES),
    ]
}

fn others() -> Vec<Sample> {
    use ColumnType as T;
    let members = || ["x", "y", "z"].map(String::from).to_vec();
    let kinds = |members| T::Enum { members };
    let vector = Value::Vector(&[0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0]);
    let line = Value::Geometry(&POINT);
    let uuid = Value::Uuid([
        0x3e, 0x11, 0xfa, 0x47, 0x71, 0xca, 0x11, 0xe1, 0x9e, 0x33, 0xc8, 0x0a, 0xa9, 0x42, 0x95,
        0x62,
    ]);
    let mut inet6 = [0; 16];
    (inet6[0], inet6[1], inet6[2], inet6[3], inet6[15]) = (0x20, 0x01, 0x0d, 0xb8, 1);
    let set = T::Set { members: members() };
    vec![
        sample(
            "ENUM('x','y','z')",
            "enum('x','y','z')",
            kinds(members()),
            Value::Enum(2),
        ),
        sample("SET('x','y','z')", "set('x','y','z')", set, Value::Set(5)),
        sample("JSON (MySQL)", "json", T::Json, Value::Json("{\"a\": 1}")),
        sample("GEOMETRY and its kinds", "geometry", T::Geometry, line),
        sample("POINT", "point", T::Geometry, line),
        sample("VECTOR(n)", "vector(2)", T::Vector, vector),
        sample("UUID (MariaDB)", "uuid", T::Uuid, uuid),
        sample(
            "INET4 (MariaDB)",
            "inet4",
            T::Inet4,
            Value::Inet4([127, 0, 0, 1]),
        ),
        sample("INET6 (MariaDB)", "inet6", T::Inet6, Value::Inet6(inet6)),
    ]
}

/// All types, in the order of the page.
pub(super) fn samples() -> Vec<Sample> {
    [integers(), numbers(), times(), texts_and_bytes(), others()]
        .into_iter()
        .flatten()
        .collect()
}
