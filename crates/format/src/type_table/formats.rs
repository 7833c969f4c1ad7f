//! What each format's table shows.

use super::samples::Sample;
use super::{FormatTable, TypeColumn};
use crate::canal_json::{self, Flavour, SqlTypeCodes};
use crate::declared::without_parameters;
use crate::dts_avro::types::{SourceKind, wire};
use crate::shareplex_json::{self, Variant};
use crate::{debezium_json, debezium_json::BigintUnsigned, debezium_json::DecimalMode};
use change::Cell;

/// The tables, in the order of the page.
pub(super) const TABLES: &[FormatTable] = &[
    FormatTable {
        title: "canal-json",
        note: "`mysqlType` is the declared type; with `flavour: dts` without what stands in parentheses. \
               `sqlType`: by value with `open_source`, by column with `dts`, and with \
               `sql_type: data_type_number`.",
        columns: &[
            column("Value", canal_value),
            column("`sqlType`, open_source", |sample| {
                canal_code(sample, Flavour::OpenSource, SqlTypeCodes::Jdbc)
            }),
            column("`sqlType`, dts", |sample| {
                canal_code(sample, Flavour::Dts, SqlTypeCodes::Jdbc)
            }),
            column("`sqlType`, data_type_number", |sample| {
                canal_code(sample, Flavour::Dts, SqlTypeCodes::DataTypeNumber)
            }),
            column("`mysqlType`, dts", |sample| {
                format!("`{}`", without_parameters(&sample.column().declared))
            }),
        ],
    },
    FormatTable {
        title: "shareplex-json",
        note: "The format does not tell a column's type.",
        columns: &[
            column("`variant: dts`", |sample| {
                shareplex_value(sample, Variant::Dts)
            }),
            column("`variant: quest`", |sample| {
                shareplex_value(sample, Variant::Quest)
            }),
        ],
    },
    FormatTable {
        title: "debezium-json",
        note: "The type is Kafka Connect's, and Debezium's name for what it means. With \
               `decimal: string` a DECIMAL is a string, with `double` a double; with \
               `bigint_unsigned: precise` a BIGINT UNSIGNED is a Decimal. What no calendar has is null, \
               in a NOT NULL column the epoch.",
        columns: &[
            column("Connect", debezium_type),
            column("Value", |sample| {
                debezium_value(sample, &debezium_json::Options::default())
            }),
            column("Value, other options", debezium_other),
        ],
    },
    FormatTable {
        title: "dts-avro",
        note: "The number is `dataTypeNumber` in `fields`; the object is the branch of the union that a \
               value stands in. PostgreSQL's numbers are for sources that are PostgreSQL.",
        columns: &[
            column("Number", |sample| dts_number(sample, SourceKind::MySql)),
            column("Object", |sample| dts_object(sample, SourceKind::MySql)),
            column("Number, PostgreSQL", |sample| {
                dts_number(sample, SourceKind::PostgreSql)
            }),
            column("Object, PostgreSQL", |sample| {
                dts_object(sample, SourceKind::PostgreSql)
            }),
        ],
    },
];

const fn column(heading: &'static str, cell: fn(&Sample) -> String) -> TypeColumn {
    TypeColumn { heading, cell }
}

/// Markdown code of a message's bytes.
fn code(bytes: Vec<u8>) -> String {
    let text = String::from_utf8(bytes).expect("JSON is UTF-8");
    format!("`{}`", text.replace('|', "\\|"))
}

fn canal_value(sample: &Sample) -> String {
    let mut out = b"\"".to_vec();
    canal_json::values::put_value(&mut out, sample.value, 0);
    out.push(b'"');
    code(out)
}

fn canal_code(sample: &Sample, flavour: Flavour, sql_type: SqlTypeCodes) -> String {
    let options = canal_json::Options {
        flavour,
        sql_type,
        ..canal_json::Options::default()
    };
    canal_json::values::SqlKind::of(&sample.column().kind, &options).to_string()
}

fn shareplex_value(sample: &Sample, variant: Variant) -> String {
    let options = shareplex_json::Options::of(variant);
    let table = shareplex_json::table::TableText::new(&sample.table, &options);
    let print = shareplex_json::values::Print {
        variant,
        offset_seconds: 0,
    };
    let mut out = Vec::new();
    print.cell(&mut out, &table.columns[0], Cell::Value(sample.value));
    code(out)
}

fn debezium_type(sample: &Sample) -> String {
    let options = debezium_json::Options::default();
    let field = debezium_json::field::Field::of(sample.column(), &options);
    match field.name {
        "" => field.kind.into(),
        name => format!("{}, {name}", field.kind),
    }
}

fn debezium_value(sample: &Sample, options: &debezium_json::Options) -> String {
    let connector = debezium_json::Connector::Mysql;
    let table = debezium_json::table::TableText::new(&sample.table, options, connector);
    let mut out = Vec::new();
    let cell = Cell::Value(sample.value);
    if let Err(what) = debezium_json::values::put_cell(&mut out, &table.columns[0], cell, options) {
        return what.to_owned();
    }
    code(out)
}

fn debezium_other(sample: &Sample) -> String {
    let options = |decimal| debezium_json::Options {
        decimal,
        bigint_unsigned: BigintUnsigned::Precise,
        ..debezium_json::Options::default()
    };
    let usual = debezium_value(sample, &debezium_json::Options::default());
    let mut others = [DecimalMode::String, DecimalMode::Double]
        .map(|decimal| debezium_value(sample, &options(decimal)))
        .to_vec();
    others.dedup();
    others.retain(|other| *other != usual);
    others.join(", ")
}

fn dts_number(sample: &Sample, source: SourceKind) -> String {
    wire(source, &sample.column().kind).0.to_string()
}

fn dts_object(sample: &Sample, source: SourceKind) -> String {
    format!("`{}`", wire(source, &sample.column().kind).1)
}
