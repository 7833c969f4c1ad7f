//! The event that says which table, and in which wire types, the rows after it are.
//!
//! Shape: table number, flags, database, name, column types, per-type metadata, NULL bitmap, then
//! optional fields as (type, length, value): a few with `binlog_row_metadata=MINIMAL`, names, keys,
//! labels and charsets too with `FULL`. Unknown optional fields are skipped.
//! Source: MySQL source, rows_event.h, Table_map_event; MariaDB writes the same.

use super::bytes::{Bytes, Decoded, bit};

/// Column types, by their number in the log.
#[allow(missing_docs)]
pub mod wire {
    pub const DECIMAL: u8 = 0;
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const NEWDATE: u8 = 14;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP2: u8 = 17;
    pub const DATETIME2: u8 = 18;
    pub const TIME2: u8 = 19;
    pub const MARIADB_BLOB_COMPRESSED: u8 = 140;
    pub const MARIADB_VARCHAR_COMPRESSED: u8 = 141;
    pub const VECTOR: u8 = 242;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const TINY_BLOB: u8 = 249;
    pub const MEDIUM_BLOB: u8 = 250;
    pub const LONG_BLOB: u8 = 251;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// One column as the table map describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapColumn {
    /// See [`wire`]; ENUM and SET (which travel as STRING) are resolved.
    pub wire: u8,
    /// Metadata: byte length of CHAR and VARCHAR, length bytes of BLOB, precision and scale of
    /// DECIMAL (high and low byte), fraction digits, bits of BIT, pack length of ENUM and SET.
    pub meta: u16,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Whether the number is unsigned, where the map tells.
    pub unsigned: Option<bool>,
    /// Collation number, where the map tells.
    pub collation: Option<u32>,
    /// Name, with FULL metadata.
    pub name: Option<String>,
    /// Labels of an ENUM or SET as stored (in the column's charset), with FULL metadata.
    pub labels: Option<Vec<Vec<u8>>>,
    /// Whether it is visible, with FULL metadata.
    pub visible: Option<bool>,
}

/// A table map, decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableMap {
    /// The server's number for it, used by the rows that follow.
    pub table_id: u64,
    /// Database.
    pub database: String,
    /// Table.
    pub name: String,
    /// Columns in table order.
    pub columns: Vec<MapColumn>,
    /// Primary key columns, with FULL metadata.
    pub primary_key: Option<Vec<u32>>,
}

impl TableMap {
    /// Whether names and all the rest came along.
    pub fn is_full(&self) -> bool {
        !self.columns.is_empty() && self.columns.iter().all(|column| column.name.is_some())
    }
}

/// The server's number for the table, from the first six bytes of a map or rows event.
#[inline]
pub fn table_id(body: &[u8]) -> Decoded<u64> {
    Bytes::new(body).u48("the table's number")
}

/// Database and table name, in place, without decoding the rest.
pub fn names(body: &[u8]) -> Decoded<(&[u8], &[u8])> {
    let mut b = Bytes::new(body);
    b.take(8, "the table's number")?;
    read_names(&mut b)
}

fn read_names<'a>(b: &mut Bytes<'a>) -> Decoded<(&'a [u8], &'a [u8])> {
    let count = b.count("the database's length")?;
    let database = b.take(count, "the database")?;
    b.u8("the database's end")?;
    let count = b.count("the table's length")?;
    let name = b.take(count, "the table")?;
    b.u8("the table's end")?;
    Ok((database, name))
}

/// Reads a table map's body. `mariadb`: whose log it is.
pub fn read(body: &[u8], mariadb: bool) -> Decoded<TableMap> {
    let mut b = Bytes::new(body);
    let table_id = b.u48("the table's number")?;
    b.u16("the table's flags")?;
    let (database, name) = read_names(&mut b)?;
    let count = b.count("the count of columns")?;
    let types = b.take(count, "the column types")?;
    let mut metadata = Bytes::new(b.lenenc_bytes("the column metadata")?);
    let mut columns = Vec::with_capacity(count);
    for wire in types {
        columns.push(read_column(*wire, &mut metadata)?);
    }
    let nulls = b.take(count.div_ceil(8), "the NULL bitmap")?;
    for (index, column) in columns.iter_mut().enumerate() {
        column.nullable = bit(nulls, index);
    }
    let mut map = TableMap {
        table_id,
        database: String::from_utf8_lossy(database).into_owned(),
        name: String::from_utf8_lossy(name).into_owned(),
        columns,
        primary_key: None,
    };
    while !b.is_empty() {
        let field = b.u8("an optional field")?;
        let value = Bytes::new(b.lenenc_bytes("an optional field")?);
        read_optional(&mut map, field, value, mariadb)?;
    }
    Ok(map)
}

fn read_column(mut kind: u8, metadata: &mut Bytes<'_>) -> Decoded<MapColumn> {
    let what = "a column's metadata";
    let meta = match kind {
        wire::VARCHAR | wire::VAR_STRING | wire::BIT | wire::MARIADB_VARCHAR_COMPRESSED => {
            metadata.u16(what)?
        }
        wire::NEWDECIMAL => u16::from_be_bytes(metadata.array(what)?),
        wire::STRING | wire::ENUM | wire::SET => {
            let [real, length] = metadata.array(what)?;
            if matches!(real, wire::ENUM | wire::SET) {
                kind = real;
                u16::from(length)
            } else {
                // A length above 255 hides its two high bits, inverted, in the real type's byte.
                u16::from(length) | (u16::from(real & 0x30) ^ 0x30) << 4
            }
        }
        wire::FLOAT
        | wire::DOUBLE
        | wire::TINY_BLOB
        | wire::BLOB
        | wire::MEDIUM_BLOB
        | wire::LONG_BLOB
        | wire::GEOMETRY
        | wire::JSON
        | wire::VECTOR
        | wire::TIME2
        | wire::DATETIME2
        | wire::TIMESTAMP2
        | wire::MARIADB_BLOB_COMPRESSED => u16::from(metadata.u8(what)?),
        _ => 0,
    };
    Ok(MapColumn {
        wire: kind,
        meta,
        ..MapColumn::default()
    })
}

fn is_numeric(kind: u8) -> bool {
    matches!(
        kind,
        wire::TINY
            | wire::SHORT
            | wire::INT24
            | wire::LONG
            | wire::LONGLONG
            | wire::NEWDECIMAL
            | wire::FLOAT
            | wire::DOUBLE
    )
}

fn is_character(kind: u8) -> bool {
    matches!(
        kind,
        wire::STRING
            | wire::VAR_STRING
            | wire::VARCHAR
            | wire::BLOB
            | wire::TINY_BLOB
            | wire::MEDIUM_BLOB
            | wire::LONG_BLOB
            | wire::MARIADB_BLOB_COMPRESSED
            | wire::MARIADB_VARCHAR_COMPRESSED
    )
}

fn is_labelled(kind: u8) -> bool {
    matches!(kind, wire::ENUM | wire::SET)
}

fn read_optional(map: &mut TableMap, field: u8, mut b: Bytes<'_>, mariadb: bool) -> Decoded<()> {
    match field {
        1 => read_signedness(map, b.rest(), mariadb),
        2 => read_default_collation(map, &mut b, is_character)?,
        3 => read_collations(map, &mut b, is_character)?,
        4 => {
            for column in &mut map.columns {
                let name = b.lenenc_bytes("a column's name")?;
                column.name = Some(String::from_utf8_lossy(name).into_owned());
            }
        }
        5 => read_labels(map, &mut b, wire::SET)?,
        6 => read_labels(map, &mut b, wire::ENUM)?,
        8 | 9 => {
            let mut key = Vec::new();
            while !b.is_empty() {
                key.push(b.count("a key column")? as u32);
                if field == 9 {
                    b.lenenc("a key column's prefix")?;
                }
            }
            if key.iter().any(|index| *index as usize >= map.columns.len()) {
                return b.fail("a key column within the table");
            }
            map.primary_key = Some(key);
        }
        10 => read_default_collation(map, &mut b, is_labelled)?,
        11 => read_collations(map, &mut b, is_labelled)?,
        12 => {
            for (index, column) in map.columns.iter_mut().enumerate() {
                column.visible = Some(high_bit(b.rest(), index));
            }
        }
        // Geometry types, vector dimensions, and whatever comes later describe more than is needed.
        _ => {}
    }
    Ok(())
}

/// Bit `index`, high bit of each byte first.
fn high_bit(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8)
        .is_some_and(|byte| byte >> (7 - index % 8) & 1 == 1)
}

fn read_signedness(map: &mut TableMap, bits: &[u8], _mariadb: bool) {
    let numeric = map
        .columns
        .iter_mut()
        .filter(|column| is_numeric(column.wire));
    for (index, column) in numeric.enumerate() {
        column.unsigned = Some(high_bit(bits, index));
    }
}

fn read_default_collation(
    map: &mut TableMap,
    b: &mut Bytes<'_>,
    of: fn(u8) -> bool,
) -> Decoded<()> {
    let what = "a column's collation";
    let default = b.lenenc(what)? as u32;
    let mut indexes = Vec::new();
    for (index, column) in map.columns.iter_mut().enumerate() {
        if of(column.wire) {
            column.collation = Some(default);
            indexes.push(index);
        }
    }
    while !b.is_empty() {
        let index = b.count(what)?;
        let collation = b.lenenc(what)? as u32;
        match indexes.get(index) {
            Some(index) => map.columns[*index].collation = Some(collation),
            None => return b.fail("a character column within the table"),
        }
    }
    Ok(())
}

fn read_collations(map: &mut TableMap, b: &mut Bytes<'_>, of: fn(u8) -> bool) -> Decoded<()> {
    for column in map.columns.iter_mut().filter(|column| of(column.wire)) {
        if b.is_empty() {
            break;
        }
        column.collation = Some(b.lenenc("a column's collation")? as u32);
    }
    Ok(())
}

fn read_labels(map: &mut TableMap, b: &mut Bytes<'_>, of: u8) -> Decoded<()> {
    let what = "an ENUM or SET label";
    for column in map.columns.iter_mut().filter(|column| column.wire == of) {
        let count = b.count(what)?;
        // Each label takes a byte or more, so a count beyond that is a lie.
        if count > b.rest().len() {
            return b.fail(what);
        }
        let mut labels = Vec::with_capacity(count);
        for _ in 0..count {
            labels.push(b.lenenc_bytes(what)?.to_vec());
        }
        column.labels = Some(labels);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map_of(types: &[u8], metadata: &[u8], optional: &[u8]) -> Vec<u8> {
        let mut body = vec![9, 0, 0, 0, 0, 0, 1, 0, 4];
        body.extend(b"shop\0\x01t\0");
        body.push(types.len() as u8);
        body.extend(types);
        body.push(metadata.len() as u8);
        body.extend(metadata);
        body.extend(vec![0; types.len().div_ceil(8)]);
        body.extend(optional);
        body
    }

    #[test]
    fn signedness_and_names_come_in_order_and_unknown_fields_are_skipped() {
        let body = map_of(
            &[wire::LONG, wire::VARCHAR, wire::TINY],
            &[20, 0],
            &[
                1,
                1,
                0b0100_0000,
                99,
                2,
                1,
                1,
                4,
                6,
                1,
                b'a',
                1,
                b'b',
                1,
                b'c',
                2,
                1,
                45,
                8,
                1,
                0,
            ],
        );
        let map = read(&body, false).unwrap();
        assert_eq!(map.table_id, 9);
        assert_eq!(map.columns[0].unsigned, Some(false));
        assert_eq!(map.columns[2].unsigned, Some(true));
        assert_eq!(map.columns[1].collation, Some(45));
        assert_eq!(map.columns[1].meta, 20);
        assert_eq!(map.primary_key, Some(vec![0]));
        assert!(map.is_full());
        for cut in 0..body.len() {
            let _ = read(&body[..cut], false);
        }
    }

    #[test]
    fn a_long_char_hides_its_length_in_the_type() {
        // CHAR(255) CHARACTER SET utf8mb4 is 1020 bytes: 0xfe with both high bits cleared.
        let body = map_of(&[wire::STRING, wire::STRING], &[0xce, 0xfc, 0xf7, 1], &[]);
        let map = read(&body, false).unwrap();
        assert_eq!(map.columns[0].meta, 1020);
        assert_eq!((map.columns[1].wire, map.columns[1].meta), (wire::ENUM, 1));
    }
}
