//! The page that shows how every format writes every column type, made by the code that writes them.
//!
//! Recipe, to add a format's table: a [`FormatTable`] in `formats.rs`.

mod formats;
mod samples;

use samples::{Sample, samples};

/// One format's table.
struct FormatTable {
    title: &'static str,
    /// What a reader has to know beside the cells.
    note: &'static str,
    columns: &'static [TypeColumn],
}

/// One column of it.
struct TypeColumn {
    heading: &'static str,
    /// The cell of a type, as Markdown.
    cell: fn(&Sample) -> String,
}

const HEAD: &str = "# Formats and types

How each format writes a value of each column type. This page is generated: `cargo run -p format --example type_table`.
What is around the values: [Canal JSON](canal-json.md), [SharePlex JSON](shareplex-json.md), [Debezium JSON](debezium-json.md), [DTS Avro](dts-avro.md).
What the journal keeps: [types](types.md).

NULL is null in every format, unless its page says otherwise. A cell that the log did not carry is left out, never null.
";

/// The page, as Markdown.
pub fn type_table() -> String {
    let mut page = HEAD.to_owned();
    let samples = samples();
    for table in formats::TABLES {
        page.push_str(&format!(
            "\n## {}\n\n{}\n\n| Type |",
            table.title, table.note
        ));
        for column in table.columns {
            page.push_str(&format!(" {} |", column.heading));
        }
        page.push_str("\n|---|");
        page.push_str(&"---|".repeat(table.columns.len()));
        page.push('\n');
        for sample in &samples {
            page.push_str(&format!("| {} |", sample.name));
            for column in table.columns {
                page.push_str(&format!(" {} |", (column.cell)(sample)));
            }
            page.push('\n');
        }
    }
    page
}
