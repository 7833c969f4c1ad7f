use super::*;
use change::Entry;

fn schema(columns: &[(&str, ColumnType)], key: &[u32]) -> TableSchema {
    let column = |(name, kind): &(&str, ColumnType)| Column {
        name: (*name).to_owned(),
        declared: "x".into(),
        kind: kind.clone(),
        charset: None,
        collation: None,
        nullable: true,
        default: None,
        comment: String::new(),
        generated: false,
        invisible: false,
        masked: false,
    };
    TableSchema {
        table: TableId(0),
        version: SchemaVersion(0),
        database: "shop".into(),
        name: "orders".into(),
        columns: columns.iter().map(column).collect(),
        primary_key: key.to_vec(),
        unique_keys: vec![],
        charset: None,
        comment: String::new(),
    }
}

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
const VARCHAR: ColumnType = ColumnType::Varchar { length: 10 };

fn image(cells: &[Cell<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    put_u64(&mut out, cells.len() as u64);
    cells.iter().for_each(|cell| put_cell(&mut out, *cell));
    out
}

fn told(schema: &TableSchema, types: Types, is_whole: bool) -> Told<'_> {
    Told {
        schema,
        types,
        is_whole,
        leaves_nulls_out: false,
        key: &[],
        images: [None, None],
    }
}

fn names(schema: &TableSchema) -> Vec<&str> {
    schema.columns.iter().map(|c| c.name.as_str()).collect()
}

fn schemas_in(batch: &Batch) -> usize {
    let is_schema = |entry: &&Entry| match entry {
        Entry::Control { key, .. } => batch.bytes(*key).starts_with(b"schema/"),
        _ => false,
    };
    batch.entries().iter().filter(is_schema).count()
}

#[test]
fn columns_are_joined_by_name_and_go_only_after_a_statement() {
    let mut tables = Tables::default();
    let mut batch = Batch::default();
    let whole = schema(&[("id", INT), ("name", VARCHAR), ("old", INT)], &[0]);
    let fit = tables.fit(&told(&whole, Types::Exact, true), &mut batch);
    assert_eq!(tables.schema(&fit).version, SchemaVersion(1));
    assert_eq!(schemas_in(&batch), 1);

    // An update that has two of the columns, in another order.
    let part = schema(&[("name", VARCHAR), ("id", INT)], &[1]);
    let fit = tables.fit(&told(&part, Types::Exact, false), &mut batch);
    let mut out = Vec::new();
    let row = [Cell::Value(Value::Text("x")), Cell::Value(Value::Int(7))];
    fit.put(&image(&row), &mut out);
    assert_eq!(out, image(&[row[1], row[0], Cell::Unknown]));
    assert_eq!(schemas_in(&batch), 1);

    // A column is added.
    let wide = schema(
        &[("id", INT), ("name", VARCHAR), ("old", INT), ("new", INT)],
        &[0],
    );
    let fit = tables.fit(&told(&wide, Types::Exact, true), &mut batch);
    assert_eq!(tables.schema(&fit).version, SchemaVersion(2));

    // A row that lacks one says nothing until a statement changed the table.
    let narrow = schema(&[("id", INT), ("new", INT)], &[0]);
    let fit = tables.fit(&told(&narrow, Types::Exact, true), &mut batch);
    assert_eq!(tables.schema(&fit).version, SchemaVersion(2));
    tables.altered("shop", "", &mut batch);
    let fit = tables.fit(&told(&narrow, Types::Exact, false), &mut batch);
    assert_eq!(tables.schema(&fit).version, SchemaVersion(2));
    let fit = tables.fit(&told(&narrow, Types::Exact, true), &mut batch);
    assert_eq!(names(tables.schema(&fit)), ["id", "new"]);
    assert_eq!(tables.schema(&fit).version, SchemaVersion(3));
    assert_eq!(tables.schema(&fit).primary_key, [0]);
}

#[test]
fn what_no_one_tells_is_text_and_null_tells_nothing() {
    let mut tables = Tables::default();
    let mut batch = Batch::default();
    let first = schema(&[("id", INT), ("n", VARCHAR)], &[]);
    let fit = tables.fit(&told(&first, Types::Text, true), &mut batch);
    let text = ColumnType::Text { length_bytes: 4 };
    assert!(tables.schema(&fit).columns.iter().all(|c| c.kind == text));
    let mut out = Vec::new();
    let row = [Cell::Value(Value::Double(1.5)), Cell::Null];
    fit.put(&image(&row), &mut out);
    let expected = [Cell::Value(Value::Text("1.5")), Cell::Null];
    assert_eq!(out, image(&expected));
    // Another guess changes nothing.
    let second = schema(&[("id", VARCHAR), ("n", INT)], &[]);
    tables.fit(&told(&second, Types::Text, true), &mut batch);
    assert_eq!(schemas_in(&batch), 1);
}

#[test]
fn a_column_that_an_inserted_row_leaves_out_is_null_where_nulls_are_left_out() {
    let mut tables = Tables::default();
    let mut batch = Batch::default();
    let whole = schema(&[("id", VARCHAR), ("name", VARCHAR)], &[]);
    tables.fit(&told(&whole, Types::Text, true), &mut batch);
    let short = schema(&[("id", VARCHAR)], &[]);
    let id = Cell::Value(Value::Text("7"));
    for (is_whole, leaves_nulls_out, absent) in [
        (true, true, Cell::Null),
        (true, false, Cell::Unknown),
        // What an update does not name stays as it was.
        (false, true, Cell::Unknown),
    ] {
        let mut told = told(&short, Types::Text, is_whole);
        told.leaves_nulls_out = leaves_nulls_out;
        let fit = tables.fit(&told, &mut batch);
        let mut out = Vec::new();
        fit.put(&image(&[id]), &mut out);
        assert_eq!(out, image(&[id, absent]));
    }
}

#[test]
fn types_from_values_only_widen() {
    let mut tables = Tables::default();
    let mut batch = Batch::default();
    let decimal = |precision, scale| ColumnType::Decimal {
        precision,
        scale,
        unsigned: false,
    };
    let value = image(&[Cell::Value(Value::Decimal("1"))]);
    for (kind, version) in [
        (decimal(5, 2), 1),
        (decimal(3, 2), 1),
        (decimal(4, 3), 2),
        (decimal(5, 3), 2),
    ] {
        let schema = schema(&[("d", kind)], &[]);
        let mut told = told(&schema, Types::Widest, true);
        told.images = [None, Some(&value)];
        let fit = tables.fit(&told, &mut batch);
        assert_eq!(tables.schema(&fit).version, SchemaVersion(version));
    }
    // A null's type is a guess.
    let null = image(&[Cell::Null]);
    let schema = schema(&[("d", VARCHAR)], &[]);
    let mut told = told(&schema, Types::Widest, true);
    told.images = [None, Some(&null)];
    let fit = tables.fit(&told, &mut batch);
    assert_eq!(tables.schema(&fit).columns[0].kind, decimal(5, 3));
}

#[test]
fn keys_come_from_the_config_else_from_beside_the_columns() {
    let named = BTreeMap::from([("shop.orders".to_owned(), vec!["b".to_owned()])]);
    let schema = schema(&[("a", INT), ("b", INT)], &[]);
    let beside = ["a".to_owned()];
    for (keys, expected) in [(named, 1), (BTreeMap::new(), 0)] {
        let mut tables = Tables::new(keys);
        let mut batch = Batch::default();
        let mut told = told(&schema, Types::Exact, true);
        told.key = &beside;
        let fit = tables.fit(&told, &mut batch);
        assert_eq!(tables.schema(&fit).primary_key, [expected]);
        tables.fit(&told, &mut batch);
        assert_eq!(schemas_in(&batch), 1);
    }
}

#[test]
fn versions_come_back_from_the_journal() {
    let mut tables = Tables::default();
    let mut two = schema(&[("a", INT)], &[0]);
    (two.table, two.version) = (TableId(4), SchemaVersion(2));
    let mut ten = two.clone();
    ten.version = SchemaVersion(10);
    for schema in [&ten, &two] {
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        tables.restore(&bytes).unwrap();
    }
    tables.restore_altered(4);
    assert_eq!(
        tables.known("shop", "orders"),
        Some((TableId(4), SchemaVersion(10)))
    );
    assert!(tables.wants_key("shop", "orders"));
    let mut batch = Batch::default();
    let mut other = schema(&[("a", INT)], &[0]);
    other.name = "items".into();
    let fit = tables.fit(&told(&other, Types::Exact, true), &mut batch);
    assert_eq!(tables.schema(&fit).table, TableId(5));
}
