//! CreateTable: adopts a table that the source has, tags it, and enables its stream.

use super::get_table::schema_definition;
use super::shapes::{self, CdcSpecification, ClusteringKey, SchemaDefinition, TableArn, Tag};
use super::{check_name, required, update_table};
use crate::call::Call;
use crate::error::ApiError;
use serde::Deserialize;
use std::collections::BTreeMap;
use stream::{ErrorKind, Resource};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    keyspace_name: Option<String>,
    table_name: Option<String>,
    schema_definition: Option<SchemaDefinition>,
    cdc_specification: Option<CdcSpecification>,
    tags: Option<Vec<Tag>>,
}

/// Types are compared as CQL writes them.
fn plain(kind: &str) -> String {
    let text: String = kind.chars().filter(|c| !c.is_whitespace()).collect();
    match text.to_ascii_lowercase().as_str() {
        "varchar" => "text".into(),
        other => other.into(),
    }
}

/// What keeps the source's table from being the one that is asked for.
fn difference(asked: &SchemaDefinition, has: &SchemaDefinition) -> Option<String> {
    let columns: BTreeMap<&str, String> = has
        .all_columns
        .iter()
        .map(|column| (column.name.as_str(), plain(&column.kind)))
        .collect();
    for column in &asked.all_columns {
        match columns.get(column.name.as_str()) {
            None => {
                return Some(format!(
                    "the source's table has no column `{}`",
                    column.name
                ));
            }
            Some(kind) if *kind != plain(&column.kind) => {
                return Some(format!(
                    "column `{}` of the source's table is {kind}",
                    column.name
                ));
            }
            Some(_) => {}
        }
    }
    let is_asked = |name: &&str| asked.all_columns.iter().any(|column| column.name == **name);
    if let Some(more) = columns.keys().find(|name| !is_asked(name)) {
        return Some(format!("the source's table also has column `{more}`"));
    }
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.join(", ")
    };
    let statics = |schema: &'_ SchemaDefinition| {
        sorted(
            (schema.static_columns.iter())
                .map(|column| column.name.as_str())
                .collect(),
        )
    };
    match statics(has) {
        has if statics(asked) == has => {}
        has if has.is_empty() => return Some("the source's table has no static columns".into()),
        has => {
            return Some(format!(
                "the static columns of the source's table are {has}"
            ));
        }
    }
    let keys = |schema: &'_ SchemaDefinition| {
        let partition = schema.partition_keys.iter().map(|key| key.name.clone());
        partition
            .chain(schema.clustering_keys.iter().map(|key| key.name.clone()))
            .collect::<Vec<_>>()
    };
    let (asked, has) = (keys(asked), keys(has));
    let (asked, has) = (
        sorted(asked.iter().map(String::as_str).collect()),
        sorted(has.iter().map(String::as_str).collect()),
    );
    (asked != has).then(|| format!("the key of the source's table is ({has})"))
}

/// A clustering column of a table of CQL that has another order there.
fn other_order(asked: &SchemaDefinition, has: &SchemaDefinition) -> Option<String> {
    let differs = |key: &&ClusteringKey| {
        asked.clustering_keys.iter().any(|asked| {
            asked.name == key.name && !asked.order_by.eq_ignore_ascii_case(&key.order_by)
        })
    };
    let key = has.clustering_keys.iter().find(differs)?;
    Some(format!(
        "the source's table is ordered by `{}` {}",
        key.name, key.order_by
    ))
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<TableArn, ApiError> {
    let keyspace = required("keyspaceName", request.keyspace_name.as_deref())?;
    let name = required("tableName", request.table_name.as_deref())?;
    call.note("keyspaceName", Some(keyspace));
    call.note("tableName", Some(name));
    check_name("keyspaceName", keyspace)?;
    check_name("tableName", name)?;
    let schema = required("schemaDefinition", request.schema_definition.as_ref())?;
    let cdc = request
        .cdc_specification
        .as_ref()
        .map(CdcSpecification::read)
        .transpose()?;
    let tags = shapes::tags(request.tags.as_deref().unwrap_or_default())?;
    call.touch(keyspace, name, None);
    let arn = call.streams().identity().table_arn(keyspace, name);
    call.authorize(&arn)?;
    let table = match call.streams().table(keyspace, name) {
        Ok(table) => table,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(ApiError::invalid(format!(
                "tables are made in the source, not here, and no captured table is {keyspace}.{name}; create it \
                 there, see that source.tables covers it, and call again to adopt it"
            )));
        }
        Err(error) => return Err(call.refusal(&error)),
    };
    let has = schema_definition(&table);
    let other_order = || {
        let is_cql = table.schema.is_cql();
        is_cql.then(|| other_order(schema, &has)).flatten()
    };
    if let Some(why) = difference(schema, &has).or_else(other_order) {
        return Err(ApiError::invalid(format!(
            "the table exists in the source and is adopted only as it is: {why}"
        )));
    }
    if !tags.is_empty() {
        let resource = Resource::Table(keyspace.to_owned(), name.to_owned());
        call.streams()
            .tag(&resource, &tags)
            .map_err(|error| call.refusal(&error))?;
    }
    if let Some(cdc) = cdc.filter(|cdc| cdc.is_enabled) {
        let clustering = schema
            .clustering_keys
            .iter()
            .map(|key| key.name.clone())
            .collect();
        update_table::enable(call, &table, &cdc, clustering)?;
    }
    Ok(TableArn { resource_arn: arn })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: serde_json::Value) -> SchemaDefinition {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_table_is_adopted_only_as_it_is() {
        let has = schema(json!({
            "allColumns": [{"name": "id", "type": "bigint"}, {"name": "v", "type": "text"}],
            "partitionKeys": [{"name": "id"}],
        }));
        assert_eq!(difference(&has, &has), None);
        let alias = schema(json!({
            "allColumns": [{"name": "v", "type": "VarChar"}, {"name": "id", "type": "bigint"}],
            "partitionKeys": [{"name": "id"}],
        }));
        assert_eq!(difference(&alias, &has), None);
        for (asked, why) in [
            (
                json!({"allColumns": [{"name": "id", "type": "int"}, {"name": "v", "type": "text"}], "partitionKeys": [{"name": "id"}]}),
                "is bigint",
            ),
            (
                json!({"allColumns": [{"name": "id", "type": "bigint"}], "partitionKeys": [{"name": "id"}]}),
                "also has column `v`",
            ),
            (
                json!({"allColumns": [{"name": "x", "type": "int"}], "partitionKeys": [{"name": "x"}]}),
                "no column `x`",
            ),
            (
                json!({"allColumns": [{"name": "id", "type": "bigint"}, {"name": "v", "type": "text"}], "partitionKeys": [{"name": "v"}]}),
                "key of the source's table is (id)",
            ),
            (
                json!({"allColumns": [{"name": "id", "type": "bigint"}, {"name": "v", "type": "text"}], "partitionKeys": [{"name": "id"}], "staticColumns": [{"name": "v"}]}),
                "no static columns",
            ),
        ] {
            let text = difference(&schema(asked), &has).unwrap();
            assert!(text.contains(why), "{text}");
        }
    }
}
