//! Applies parsed statements to the catalog.

use crate::DdlError;
use crate::alter::AlterAction;
use crate::catalog::{Catalog, Effect};
use crate::column::{ColumnDefinition, KeyDefinition, Place, charset_of_collation};
use crate::column_type;
use crate::statement::{CreateTable, Statement, TableName, TableOptions};
use change::{Column, ColumnType, DdlKind, SchemaVersion, TableId, TableSchema, UniqueKey};
use std::sync::Arc;

fn effect(kind: DdlKind, name: &TableName) -> Effect {
    Effect {
        kind,
        database: name.database.clone(),
        table: name.table.clone(),
        renamed_from: String::new(),
        schema: None,
        gone: false,
        unknown_table: false,
    }
}

fn misfit<T>(name: &TableName, what: impl Into<String>) -> Result<T, DdlError> {
    let table = Some((name.database.clone(), name.table.clone()));
    Err(DdlError {
        offset: 0,
        what: what.into(),
        table,
    })
}

pub(crate) fn statement(
    catalog: &mut Catalog,
    statement: Statement,
) -> Result<Vec<Effect>, DdlError> {
    Ok(match statement {
        Statement::CreateTable(create) => vec![create_table(catalog, &create)?],
        Statement::CreateTableLike {
            name,
            like,
            if_not_exists,
        } => {
            vec![create_like(catalog, &name, &like, if_not_exists)]
        }
        Statement::AlterTable { name, actions } => vec![alter_table(catalog, &name, actions)?],
        Statement::DropTables { names } => names.iter().map(|name| drop(catalog, name)).collect(),
        Statement::Truncate { name } => vec![effect(DdlKind::TruncateTable, &name)],
        Statement::Rename { pairs } => rename(catalog, pairs),
        Statement::CreateIndex { name, key } => {
            let actions = vec![AlterAction::AddKey(key)];
            let mut effect = alter_table(catalog, &name, actions)?;
            effect.kind = DdlKind::CreateIndex;
            vec![effect]
        }
        Statement::DropIndex { name, index } => {
            let action = match index.eq_ignore_ascii_case("primary") {
                true => AlterAction::DropPrimaryKey,
                false => AlterAction::DropIndex { name: index },
            };
            let mut effect = alter_table(catalog, &name, vec![action])?;
            effect.kind = DdlKind::DropIndex;
            vec![effect]
        }
        Statement::Database {
            name,
            charset,
            dropped,
        } => database(catalog, name, charset, dropped),
        Statement::Other => {
            let name = TableName {
                database: String::new(),
                table: String::new(),
            };
            vec![effect(DdlKind::Other, &name)]
        }
    })
}

fn database(
    catalog: &mut Catalog,
    name: String,
    charset: Option<String>,
    dropped: bool,
) -> Vec<Effect> {
    if let Some(charset) = charset {
        catalog.set_database_charset(&name, &charset);
    }
    let of_database = TableName {
        database: name,
        table: String::new(),
    };
    let mut effects = vec![effect(DdlKind::Database, &of_database)];
    if dropped {
        let lower = catalog.key(&of_database.database, "").0;
        let mut gone: Vec<_> = catalog
            .tables
            .iter()
            .filter(|((database, _), _)| *database == lower)
            .map(|(_, schema)| (schema.database.clone(), schema.name.clone()))
            .collect();
        gone.sort();
        for (database, table) in gone {
            effects.push(drop(catalog, &TableName { database, table }));
        }
    }
    effects
}

fn drop(catalog: &mut Catalog, name: &TableName) -> Effect {
    let known = catalog.remove(&name.database, &name.table);
    Effect {
        gone: true,
        unknown_table: known.is_none(),
        ..effect(DdlKind::DropTable, name)
    }
}

fn create_table(catalog: &mut Catalog, create: &CreateTable) -> Result<Effect, DdlError> {
    let mut out = effect(DdlKind::CreateTable, &create.name);
    if create.if_not_exists && catalog.lookup(&create.name).is_some() {
        return Ok(out);
    }
    if create.from_select {
        out.unknown_table = true;
        return Ok(out);
    }
    let schema = created(catalog, create)?;
    out.schema = Some(catalog.put(schema));
    Ok(out)
}

fn create_like(
    catalog: &mut Catalog,
    name: &TableName,
    like: &TableName,
    if_not_exists: bool,
) -> Effect {
    let mut out = effect(DdlKind::CreateTable, name);
    if if_not_exists && catalog.lookup(name).is_some() {
        return out;
    }
    match catalog.lookup(like) {
        Some(model) => out.schema = Some(put_as(catalog, &model, name)),
        None => out.unknown_table = true,
    }
    out
}

fn put_as(catalog: &mut Catalog, model: &TableSchema, name: &TableName) -> Arc<TableSchema> {
    catalog.put(TableSchema {
        database: name.database.clone(),
        name: name.table.clone(),
        ..model.clone()
    })
}

fn rename(catalog: &mut Catalog, pairs: Vec<(TableName, TableName)>) -> Vec<Effect> {
    pairs
        .iter()
        .map(|(from, to)| rename_one(catalog, from, to))
        .collect()
}

fn rename_one(catalog: &mut Catalog, from: &TableName, to: &TableName) -> Effect {
    let mut out = effect(DdlKind::RenameTable, to);
    out.renamed_from = format!("{}.{}", from.database, from.table);
    match catalog.remove(&from.database, &from.table) {
        Some(model) => out.schema = Some(put_as(catalog, &model, to)),
        None => {
            catalog.remove(&to.database, &to.table);
            out.unknown_table = true;
        }
    }
    out
}

/// The schema that a CREATE TABLE makes; id and version are given by the catalog.
pub(crate) fn created(catalog: &Catalog, create: &CreateTable) -> Result<TableSchema, DdlError> {
    let charset = create
        .options
        .charset
        .clone()
        .unwrap_or_else(|| catalog.database_charset(&create.name.database));
    let mut schema = TableSchema {
        table: TableId(0),
        version: SchemaVersion(0),
        database: create.name.database.clone(),
        name: create.name.table.clone(),
        columns: Vec::with_capacity(create.columns.len()),
        primary_key: Vec::new(),
        unique_keys: Vec::new(),
        charset: Some(charset),
        comment: create.options.comment.clone().unwrap_or_default(),
    };
    for column in &create.columns {
        schema.columns.push(column_of(
            column.clone(),
            &schema,
            create.options.collation.as_deref(),
        ));
        inline_keys(&mut schema, column);
    }
    for key in &create.keys {
        add_key(&mut schema, key).or_else(|what| misfit(&create.name, what))?;
    }
    if create.options.system_versioning {
        add_row_period(&mut schema);
    }
    Ok(schema)
}

fn column_of(
    mut definition: ColumnDefinition,
    schema: &TableSchema,
    table_collation: Option<&str>,
) -> Column {
    let table_charset = schema.charset.clone().unwrap_or_default();
    let charset = definition
        .charset
        .clone()
        .unwrap_or_else(|| table_charset.clone());
    column_type::settle(&mut definition.kind, &charset);
    use ColumnType as T;
    let has_charset = matches!(
        definition.kind.kind,
        T::Char { .. } | T::Varchar { .. } | T::Text { .. } | T::Enum { .. } | T::Set { .. }
    );
    let collation = if definition.binary_collation {
        Some(format!("{charset}_bin"))
    } else if definition.collation.is_none() && charset == table_charset {
        table_collation.map(str::to_owned)
    } else {
        definition.collation.clone()
    };
    Column {
        name: definition.name,
        declared: definition.kind.declared,
        kind: definition.kind.kind,
        charset: has_charset.then_some(charset),
        collation: collation.filter(|_| has_charset),
        nullable: definition.nullable.unwrap_or(!definition.primary),
        default: definition.default,
        comment: definition.comment,
        generated: definition.generated,
        invisible: definition.invisible,
        masked: false,
    }
}

fn inline_keys(schema: &mut TableSchema, column: &ColumnDefinition) {
    let index = schema.columns.len() as u32 - 1;
    if column.primary {
        schema.primary_key = vec![index];
    }
    if column.unique {
        push_unique(schema, None, vec![index]);
    }
}

/// Source: MySQL manual, CREATE TABLE: an unnamed index takes its first column's name, then `_2`, ….
fn push_unique(schema: &mut TableSchema, name: Option<&str>, columns: Vec<u32>) {
    let name = name.map(str::to_owned).unwrap_or_else(|| {
        let first = columns
            .first()
            .and_then(|i| schema.columns.get(*i as usize));
        let first = first.map(|column| column.name.clone()).unwrap_or_default();
        let taken = |name: &str| schema.unique_keys.iter().any(|key| same(&key.name, name));
        std::iter::once(first.clone())
            .chain((2..).map(|n| format!("{first}_{n}")))
            .find(|name| !taken(name))
            .expect("some number is free")
    });
    schema.unique_keys.push(UniqueKey { name, columns });
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

fn index_of(schema: &TableSchema, name: &str) -> Option<usize> {
    schema
        .columns
        .iter()
        .position(|column| same(&column.name, name))
}

fn add_key(schema: &mut TableSchema, key: &KeyDefinition) -> Result<(), String> {
    let Some(names) = &key.columns else {
        return Ok(());
    };
    let mut columns = Vec::new();
    for name in names {
        match index_of(schema, name) {
            Some(index) => columns.push(index as u32),
            None => return Err(format!("the key names an unknown column `{name}`")),
        }
    }
    if !key.primary {
        push_unique(schema, key.name.as_deref(), columns);
        return Ok(());
    }
    for index in &columns {
        schema.columns[*index as usize].nullable = false;
    }
    schema.primary_key = columns;
    Ok(())
}

/// The implicit columns of a system-versioned MariaDB table.
fn add_row_period(schema: &mut TableSchema) {
    let explicit = schema
        .columns
        .iter()
        .filter(|c| c.generated && c.declared == "timestamp(6)")
        .count()
        >= 2;
    if explicit || index_of(schema, "row_start").is_some() {
        return;
    }
    for name in ["row_start", "row_end"] {
        schema.columns.push(Column {
            name: name.into(),
            declared: "timestamp(6)".into(),
            kind: ColumnType::Timestamp { digits: 6 },
            charset: None,
            collation: None,
            nullable: false,
            default: None,
            comment: String::new(),
            generated: true,
            invisible: true,
            masked: false,
        });
    }
}

fn alter_table(
    catalog: &mut Catalog,
    name: &TableName,
    actions: Vec<AlterAction>,
) -> Result<Effect, DdlError> {
    let kind = kind_of(&actions);
    let mut out = effect(kind, name);
    let renamed = actions.iter().rev().find_map(|action| match action {
        AlterAction::RenameTable(to) => Some(to.clone()),
        _ => None,
    });
    let Some(now) = catalog.lookup(name) else {
        out.unknown_table = true;
        if let Some(to) = renamed {
            catalog.remove(&to.database, &to.table);
            (out.database, out.table) = (to.database, to.table);
            out.renamed_from = format!("{}.{}", name.database, name.table);
        }
        return Ok(out);
    };
    let mut schema = (*now).clone();
    for action in actions {
        alter_one(&mut schema, action).or_else(|what| misfit(name, what))?;
    }
    if let Some(to) = renamed {
        catalog.remove(&name.database, &name.table);
        (schema.database, schema.name) = (to.database.clone(), to.table.clone());
        (out.database, out.table) = (to.database, to.table);
        out.renamed_from = format!("{}.{}", name.database, name.table);
    }
    let changed = *now != schema;
    let schema = catalog.put(schema);
    out.schema = changed.then_some(schema);
    Ok(out)
}

/// The class that message formats give an ALTER: by its first action that has one.
fn kind_of(actions: &[AlterAction]) -> DdlKind {
    actions
        .iter()
        .map(|action| match action {
            AlterAction::RenameTable(_) => DdlKind::RenameTable,
            AlterAction::AddKey(_) => DdlKind::CreateIndex,
            AlterAction::DropIndex { .. } | AlterAction::DropPrimaryKey => DdlKind::DropIndex,
            _ => DdlKind::AlterTable,
        })
        .next()
        .unwrap_or(DdlKind::AlterTable)
}

fn alter_one(schema: &mut TableSchema, action: AlterAction) -> Result<(), String> {
    match action {
        AlterAction::AddColumn {
            column,
            place,
            if_not_exists,
        } => add_column(schema, column, place, if_not_exists),
        AlterAction::ChangeColumn {
            old,
            column,
            place,
            if_exists,
        } => change_column(schema, &old, column, place, if_exists),
        AlterAction::DropColumn { name, if_exists } => drop_column(schema, &name, if_exists),
        AlterAction::RenameColumn { old, new } => on_column(schema, &old, |c| c.name = new),
        AlterAction::SetDefault { name, default } => {
            on_column(schema, &name, |c| c.default = default)
        }
        AlterAction::SetInvisible { name, invisible } => {
            on_column(schema, &name, |c| c.invisible = invisible)
        }
        AlterAction::AddKey(None) => Ok(()),
        AlterAction::AddKey(Some(key)) => add_key(schema, &key),
        AlterAction::DropPrimaryKey => {
            schema.primary_key.clear();
            Ok(())
        }
        AlterAction::DropIndex { name } => {
            schema.unique_keys.retain(|key| !same(&key.name, &name));
            Ok(())
        }
        AlterAction::RenameIndex { old, new } => {
            for key in schema
                .unique_keys
                .iter_mut()
                .filter(|key| same(&key.name, &old))
            {
                key.name.clone_from(&new);
            }
            Ok(())
        }
        AlterAction::Convert { charset, collation } => {
            convert(schema, &charset, collation.as_deref());
            Ok(())
        }
        AlterAction::Options(options) => {
            apply_options(schema, options);
            Ok(())
        }
        AlterAction::DropSystemVersioning => {
            for name in ["row_start", "row_end"] {
                drop_column(schema, name, true)?;
            }
            Ok(())
        }
        AlterAction::RenameTable(_) | AlterAction::Other => Ok(()),
    }
}

fn on_column(
    schema: &mut TableSchema,
    name: &str,
    change: impl FnOnce(&mut Column),
) -> Result<(), String> {
    match index_of(schema, name) {
        Some(index) => {
            change(&mut schema.columns[index]);
            Ok(())
        }
        None => Err(format!("the table has no column `{name}`")),
    }
}

/// Inserts at `index` and moves the keys' column numbers along.
fn insert_at(schema: &mut TableSchema, index: usize, column: Column) {
    schema.columns.insert(index, column);
    remap(schema, |at| {
        if at as usize >= index {
            Some(at + 1)
        } else {
            Some(at)
        }
    });
}

fn remove_at(schema: &mut TableSchema, index: usize) -> Column {
    let column = schema.columns.remove(index);
    remap(schema, |at| match (at as usize).cmp(&index) {
        std::cmp::Ordering::Less => Some(at),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(at - 1),
    });
    column
}

fn remap(schema: &mut TableSchema, map: impl Fn(u32) -> Option<u32>) {
    schema.primary_key = schema
        .primary_key
        .iter()
        .filter_map(|at| map(*at))
        .collect();
    for key in &mut schema.unique_keys {
        key.columns = key.columns.iter().filter_map(|at| map(*at)).collect();
    }
    // The server drops a key when its last column goes.
    schema.unique_keys.retain(|key| !key.columns.is_empty());
}

fn target(schema: &TableSchema, place: &Place, unsaid: usize) -> Result<usize, String> {
    match place {
        Place::Unsaid => Ok(unsaid),
        Place::First => Ok(0),
        Place::After(name) => index_of(schema, name)
            .map(|index| index + 1)
            .ok_or_else(|| format!("AFTER names an unknown column `{name}`")),
    }
}

fn add_column(
    schema: &mut TableSchema,
    definition: ColumnDefinition,
    place: Place,
    if_not_exists: bool,
) -> Result<(), String> {
    if index_of(schema, &definition.name).is_some() {
        return match if_not_exists {
            true => Ok(()),
            false => Err(format!(
                "the table already has a column `{}`",
                definition.name
            )),
        };
    }
    let end = end_of_columns(schema);
    let index = target(schema, &place, end)?;
    let column = column_of(definition.clone(), schema, None);
    insert_at(schema, index, column);
    if definition.primary {
        schema.primary_key = vec![index as u32];
    }
    if definition.unique {
        push_unique(schema, None, vec![index as u32]);
    }
    Ok(())
}

/// New columns go before the implicit period columns of a system-versioned table.
fn end_of_columns(schema: &TableSchema) -> usize {
    let implicit = |column: &Column| {
        column.invisible && column.generated && matches!(&*column.name, "row_start" | "row_end")
    };
    schema.columns.len()
        - schema
            .columns
            .iter()
            .rev()
            .take_while(|c| implicit(c))
            .count()
}

fn change_column(
    schema: &mut TableSchema,
    old: &str,
    definition: ColumnDefinition,
    place: Place,
    if_exists: bool,
) -> Result<(), String> {
    let Some(index) = index_of(schema, old) else {
        return if if_exists {
            Ok(())
        } else {
            Err(format!("the table has no column `{old}`"))
        };
    };
    let (primary, unique) = (definition.primary, definition.unique);
    let mut column = column_of(definition, schema, None);
    if schema.primary_key.contains(&(index as u32)) {
        column.nullable = false;
    }
    schema.columns[index] = column;
    let mut now = index;
    if place != Place::Unsaid {
        now = move_column(schema, index, &place)?;
    }
    if primary {
        schema.primary_key = vec![now as u32];
    }
    if unique {
        push_unique(schema, None, vec![now as u32]);
    }
    Ok(())
}

fn move_column(schema: &mut TableSchema, from: usize, place: &Place) -> Result<usize, String> {
    let before = target(schema, place, from)?;
    let to = if before > from { before - 1 } else { before };
    let column = schema.columns.remove(from);
    schema.columns.insert(to, column);
    remap(schema, |at| {
        let at = at as usize;
        let without = if at > from { at - 1 } else { at };
        let now = if at == from {
            to
        } else if without >= to {
            without + 1
        } else {
            without
        };
        Some(now as u32)
    });
    Ok(to)
}

fn drop_column(schema: &mut TableSchema, name: &str, if_exists: bool) -> Result<(), String> {
    match index_of(schema, name) {
        Some(index) => {
            remove_at(schema, index);
            Ok(())
        }
        None if if_exists => Ok(()),
        None => Err(format!("the table has no column `{name}`")),
    }
}

fn convert(schema: &mut TableSchema, charset: &str, collation: Option<&str>) {
    schema.charset = Some(charset.to_owned());
    for column in schema
        .columns
        .iter_mut()
        .filter(|column| column.charset.is_some())
    {
        column.charset = Some(charset.to_owned());
        column.collation = collation.map(str::to_owned);
    }
}

fn apply_options(schema: &mut TableSchema, options: TableOptions) {
    if let Some(charset) = options.charset {
        schema.charset = Some(charset);
    } else if let Some(collation) = &options.collation {
        schema.charset = Some(charset_of_collation(collation));
    }
    if let Some(comment) = options.comment {
        schema.comment = comment;
    }
    if options.system_versioning {
        add_row_period(schema);
    }
}
