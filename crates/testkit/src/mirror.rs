//! Whether a table in ClickHouse is the table in the source: every row, every cell, by both servers' own
//! words.

use crate::clickhouse::Http;
use crate::sql::Sql;

/// One column, as each side is asked for it.
struct Compared {
    name: String,
    source: String,
    target: String,
    is_float: bool,
}

fn columns(sql: &mut Sql, database: &str, table: &str) -> Vec<Compared> {
    let query = format!(
        "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{database}' \
         AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
    );
    let text =
        |cell: Option<Vec<u8>>| String::from_utf8_lossy(&cell.unwrap_or_default()).into_owned();
    let rows = sql.select(&query);
    let one = |row: Vec<Option<Vec<u8>>>| {
        let mut cells = row.into_iter().map(text);
        let (name, kind) = (
            cells.next().unwrap_or_default(),
            cells.next().unwrap_or_default(),
        );
        let quoted = format!("`{name}`");
        let (source, target) = match kind.as_str() {
            "blob" | "tinyblob" | "mediumblob" | "longblob" | "binary" | "varbinary" => {
                (format!("HEX({quoted})"), format!("hex({quoted})"))
            }
            "point" | "geometry" | "polygon" | "linestring" => {
                (format!("HEX({quoted})"), format!("hex({quoted})"))
            }
            "bit" | "year" => (format!("{quoted} + 0"), quoted.clone()),
            "json" | "enum" | "set" => (format!("CAST({quoted} AS CHAR)"), quoted.clone()),
            _ => (quoted.clone(), quoted.clone()),
        };
        Compared {
            name,
            source,
            target,
            is_float: matches!(kind.as_str(), "float" | "double"),
        }
    };
    rows.into_iter().map(one).collect()
}

fn source_rows(sql: &mut Sql, name: &str, columns: &[Compared]) -> Vec<Vec<Option<String>>> {
    let list: Vec<&str> = columns.iter().map(|c| c.source.as_str()).collect();
    let rows = sql.select(&format!("SELECT {} FROM {name}", list.join(", ")));
    let cell = |(column, cell): (&Compared, Option<Vec<u8>>)| {
        let text = cell.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        text.map(|text| plain(column, text))
    };
    rows.into_iter()
        .map(|row| columns.iter().zip(row).map(cell).collect())
        .collect()
}

fn target_rows(http: &mut Http, name: &str, columns: &[Compared]) -> Vec<Vec<Option<String>>> {
    let list: Vec<&str> = columns.iter().map(|c| c.target.as_str()).collect();
    let sql = format!(
        "SELECT {} FROM {name} SETTINGS output_format_decimal_trailing_zeros = 1",
        list.join(", ")
    );
    let text = http.query(&sql);
    let cell = |(column, cell): (&Compared, &str)| match cell {
        "\\N" => None,
        text => Some(plain(column, unescape(text))),
    };
    text.split('\n')
        .filter(|line| !line.is_empty())
        .map(|line| columns.iter().zip(line.split('\t')).map(cell).collect())
        .collect()
}

/// Numbers whose spelling differs.
fn plain(column: &Compared, text: String) -> String {
    match column.is_float {
        true => text.parse::<f64>().map_or(text, |value| value.to_string()),
        false => text,
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// What differs between `database.table` of the source and a table or view of the target; none for
/// nothing. Zero dates are NULL in the target.
pub fn difference(sql: &mut Sql, http: &mut Http, table: &str, target: &str) -> Option<String> {
    let (database, name) = table.split_once('.').expect("a name with its database");
    let columns = columns(sql, database, name);
    let mut source = source_rows(sql, table, &columns);
    for row in &mut source {
        for cell in row {
            if cell
                .as_deref()
                .is_some_and(|text| text.starts_with("0000-00-00"))
            {
                *cell = None;
            }
        }
    }
    let mut found = target_rows(http, target, &columns);
    source.sort();
    found.sort();
    if source == found {
        return None;
    }
    let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    let only = |a: &[Vec<Option<String>>], b: &[Vec<Option<String>>]| {
        let rows: Vec<String> = a
            .iter()
            .filter(|row| b.binary_search(row).is_err())
            .take(3)
            .map(|row| format!("{row:.200?}"))
            .collect();
        rows.join("\n    ")
    };
    Some(format!(
        "{table} has {} rows, {target} has {}; columns {names:?}\n  only in the source:\n    {}\n  only in the \
         target:\n    {}",
        source.len(),
        found.len(),
        only(&source, &found),
        only(&found, &source)
    ))
}

/// Panics where `target` is not the source's table.
pub fn assert_same(sql: &mut Sql, http: &mut Http, table: &str, target: &str) {
    if let Some(difference) = difference(sql, http, table, target) {
        panic!("{difference}");
    }
}
