//! The source's own SELECT, in the form in which rebuilt rows are kept.
//!
//! Shape of a row: per cell its name, [`NAME`], then [`NULL`] or [`VALUE`] and the text, then [`END`].
//! The server renders every value; only two things are Canal's own way: bytes stand as ISO 8859-1,
//! and enum and set columns as numbers.

use crate::sql::Sql;
use mysql::consts::{ColumnFlags, ColumnType};
use mysql::prelude::Queryable;

/// Stands for a null.
pub const NULL: u8 = 1;
/// Stands before a value.
pub const VALUE: u8 = 2;
/// Ends a name.
pub const NAME: u8 = 3;
/// Ends a cell.
pub const END: u8 = 4;

/// Appends one cell.
pub fn put_cell(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    out.extend_from_slice(name.as_bytes());
    out.push(NAME);
    put_value(out, value);
}

/// Appends one value: what a key is made of.
pub fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.push(NULL),
        Some(bytes) => {
            out.push(VALUE);
            out.extend_from_slice(bytes);
        }
    }
    out.push(END);
}

/// Names and values of a row's text. Values with marks inside are not told apart; tests do not write
/// them into tables that change.
pub fn cells(row: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    row.split(|byte| *byte == END).filter_map(|cell| {
        let at = cell.iter().position(|byte| *byte == NAME)?;
        Some((&cell[..at], &cell[at + 1..]))
    })
}

struct Column {
    name: String,
    expression: String,
    is_bytes: bool,
    is_key: bool,
}

fn columns(sql: &mut Sql, table: &str, keys: &[String]) -> Vec<Column> {
    let result = sql
        .conn()
        .query_iter(format!("SELECT * FROM {table} LIMIT 0"));
    let result = result.expect("the table can be read");
    let columns = result.columns();
    let one = |column: &mysql::Column| {
        let name = column.name_str().into_owned();
        let flags = column.flags();
        let is_number =
            flags.contains(ColumnFlags::ENUM_FLAG) || flags.contains(ColumnFlags::SET_FLAG);
        let blob = matches!(
            column.column_type(),
            ColumnType::MYSQL_TYPE_BLOB
                | ColumnType::MYSQL_TYPE_STRING
                | ColumnType::MYSQL_TYPE_VAR_STRING
        );
        Column {
            expression: match is_number {
                true => format!("`{name}`+0"),
                false => format!("`{name}`"),
            },
            // 63 is the character set of bytes.
            is_bytes: blob && !is_number && column.character_set() == 63,
            is_key: keys.is_empty() || keys.contains(&name),
            name,
        }
    };
    columns.as_ref().iter().map(one).collect()
}

/// Calls `each` with key and text of every row of `database.table`. `keys` are the key columns; none
/// for the whole row.
pub fn each_row(sql: &mut Sql, table: &str, keys: &[String], mut each: impl FnMut(&[u8], &[u8])) {
    let columns = columns(sql, table, keys);
    let list: Vec<&str> = columns
        .iter()
        .map(|column| column.expression.as_str())
        .collect();
    let query = format!("SELECT {} FROM {table}", list.join(", "));
    let result = sql.conn().query_iter(query).expect("the table can be read");
    let (mut key, mut text, mut wide) = (Vec::new(), Vec::new(), Vec::new());
    for row in result {
        let row = row.expect("the row can be read");
        key.clear();
        text.clear();
        for (index, column) in columns.iter().enumerate() {
            let value = match row.as_ref(index) {
                Some(mysql::Value::Bytes(bytes)) if column.is_bytes => {
                    wide.clear();
                    wide.extend_from_slice(latin1(bytes).as_bytes());
                    Some(wide.as_slice())
                }
                Some(mysql::Value::Bytes(bytes)) => Some(bytes.as_slice()),
                Some(mysql::Value::NULL) => None,
                other => panic!("{table}.{}: {other:?} in the text protocol", column.name),
            };
            put_cell(&mut text, &column.name, value);
            if column.is_key {
                put_value(&mut key, value);
            }
        }
        each(&key, &text);
    }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}
