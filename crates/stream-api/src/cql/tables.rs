//! The tables of `system_schema_mcs`.

use super::Rows;
use crate::api::Api;
use crate::error::ApiError;
use crate::wire::Service;
use serde_json::{Map, Value, json};
use stream::{Resource, StreamInfo, TableInfo, Tags};

const TABLES: [&str; 9] = [
    "keyspace_name",
    "table_name",
    "cdc",
    "comment",
    "custom_properties",
    "cdc_specification",
    "latest_stream_arn",
    "status",
    "creation_time",
];
const STREAMS: [&str; 7] = [
    "keyspace_name",
    "table_name",
    "stream_label",
    "stream_arn",
    "status",
    "view_type",
    "creation_time",
];
const TAGS: [&str; 5] = [
    "resource_id",
    "keyspace_name",
    "resource_name",
    "resource_type",
    "tags",
];
const KEYSPACES: [&str; 3] = ["keyspace_name", "durable_writes", "replication"];

pub(super) fn select(
    api: &Api,
    columns: Option<Vec<String>>,
    table: &str,
    conditions: &[(String, String)],
    limit: Option<usize>,
) -> Result<Rows, ApiError> {
    let (known, all): (&[&str], Vec<Vec<Value>>) = match table {
        "tables" => (&TABLES, captured(api).iter().map(table_row).collect()),
        "streams" => (
            &STREAMS,
            streams(api)?.iter().map(|info| stream_row(info)).collect(),
        ),
        "tags" => (&TAGS, tags(api)?),
        "keyspaces" => (&KEYSPACES, keyspaces(api)),
        other => {
            return Err(ApiError::invalid(format!(
                "there is no table system_schema_mcs.{other}; there are keyspaces, tables, streams and tags"
            )));
        }
    };
    let find = |name: &str| {
        known
            .iter()
            .position(|known| *known == name)
            .ok_or_else(|| {
                ApiError::invalid(format!(
                    "system_schema_mcs.{table} has no column {name}; it has {}",
                    known.join(", ")
                ))
            })
    };
    let shown: Vec<usize> = match &columns {
        None => (0..known.len()).collect(),
        Some(names) => names
            .iter()
            .map(|name| find(name))
            .collect::<Result<_, _>>()?,
    };
    let wanted: Vec<(usize, &str)> = conditions
        .iter()
        .map(|(name, value)| Ok((find(name)?, value.as_str())))
        .collect::<Result<_, ApiError>>()?;
    let rows = all
        .into_iter()
        .filter(|row| wanted.iter().all(|(index, value)| row[*index] == *value))
        .take(limit.unwrap_or(usize::MAX))
        .map(|row| shown.iter().map(|index| row[*index].clone()).collect())
        .collect();
    Ok(Rows {
        columns: shown.iter().map(|index| known[*index].to_owned()).collect(),
        rows,
    })
}

fn captured(api: &Api) -> Vec<TableInfo> {
    api.streams().tables(None, None, usize::MAX).tables
}

fn streams(api: &Api) -> Result<Vec<std::sync::Arc<StreamInfo>>, ApiError> {
    let page = api.streams().list(None, None, None, usize::MAX);
    page.map(|page| page.streams)
        .map_err(|error| ApiError::from_stream(&error, Service::Keyspaces))
}

fn table_row(table: &TableInfo) -> Vec<Value> {
    let live = table
        .stream
        .as_ref()
        .filter(|stream| stream.status.is_live());
    let specification = live.map(|stream| {
        json!({
            "latest_stream_arn": stream.arn,
            "status": stream.status.as_str(),
            "view_type": stream.view.as_str(),
        })
    });
    let mut properties = Map::new();
    if let Some(specification) = &specification {
        properties.insert("cdc_specification".into(), specification.clone());
    }
    vec![
        table.keyspace.clone().into(),
        table.table.clone().into(),
        live.is_some().into(),
        table.schema.comment.clone().into(),
        Value::Object(properties),
        specification.unwrap_or(Value::Null),
        live.map_or(Value::Null, |stream| stream.arn.clone().into()),
        status(table).into(),
        crate::time::seconds(table.created_us).into(),
    ]
}

fn status(table: &TableInfo) -> &'static str {
    match table.status {
        stream::TableStatus::Active => "ACTIVE",
        stream::TableStatus::KeyUnavailable => "INACCESSIBLE_ENCRYPTION_CREDENTIALS",
    }
}

fn stream_row(info: &StreamInfo) -> Vec<Value> {
    vec![
        info.keyspace.clone().into(),
        info.table.clone().into(),
        info.label.to_string().into(),
        info.arn.clone().into(),
        info.status.as_str().into(),
        info.view.as_str().into(),
        crate::time::seconds(info.label.0.saturating_mul(1000)).into(),
    ]
}

fn tags(api: &Api) -> Result<Vec<Vec<Value>>, ApiError> {
    let mut rows = Vec::new();
    let mut add = |arn: &str, keyspace: &str, name: &str, kind: &str, tags: &Tags| {
        if !tags.is_empty() {
            rows.push(vec![
                arn.into(),
                keyspace.into(),
                name.into(),
                kind.into(),
                json!(tags),
            ]);
        }
    };
    for keyspace in api.streams().keyspaces() {
        let resource = Resource::Keyspace(keyspace.keyspace.clone());
        let tags = api
            .streams()
            .tags(&resource)
            .map_err(|error| ApiError::from_stream(&error, Service::Keyspaces))?;
        add(
            &keyspace.arn,
            &keyspace.keyspace,
            &keyspace.keyspace,
            "keyspace",
            &tags,
        );
    }
    for table in captured(api) {
        add(
            &table.arn,
            &table.keyspace,
            &table.table,
            "table",
            &table.tags,
        );
    }
    for stream in streams(api)? {
        add(
            &stream.arn,
            &stream.keyspace,
            &stream.label.to_string(),
            "stream",
            &stream.tags,
        );
    }
    Ok(rows)
}

fn keyspaces(api: &Api) -> Vec<Vec<Value>> {
    let row = |keyspace: stream::KeyspaceInfo| {
        vec![
            keyspace.keyspace.into(),
            true.into(),
            json!({"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "1"}),
        ]
    };
    api.streams().keyspaces().into_iter().map(row).collect()
}
