//! GetTable.

use super::shapes::{CdcSummary, ClusteringKey, ColumnDefinition, Named, SchemaDefinition};
use super::{check_name, required};
use crate::call::Call;
use crate::error::ApiError;
use crate::wire::Time;
use serde::{Deserialize, Serialize};
use stream::{CqlRole, TableInfo, TableStatus, columns};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    keyspace_name: Option<String>,
    table_name: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThroughputMode {
    throughput_mode: &'static str,
}

#[derive(Debug, Serialize)]
struct Comment {
    message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    keyspace_name: String,
    table_name: String,
    resource_arn: String,
    creation_timestamp: Time,
    status: &'static str,
    schema_definition: SchemaDefinition,
    capacity_specification: ThroughputMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<Comment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_stream_arn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cdc_specification: Option<CdcSummary>,
}

/// A table's columns and keys as CQL has them; clustering columns are the table's own where it is one of CQL, else those of
/// its newest stream.
pub(super) fn schema_definition(table: &TableInfo) -> SchemaDefinition {
    let schema = &table.schema;
    let clustering: &[String] = table
        .stream
        .as_ref()
        .map_or(&[], |stream| &stream.clustering);
    let name = |index: &u32| schema.columns[*index as usize].name.clone();
    let role = |index: &u32| schema.cql_role(*index as usize);
    let is_clustering = |index: &u32| match role(index) {
        Some(role) => matches!(role, CqlRole::Clustering { .. }),
        None => clustering.contains(&schema.columns[*index as usize].name),
    };
    let order_by = |index: &u32| match role(index) {
        Some(CqlRole::Clustering { descending: true }) => "DESC",
        _ => "ASC",
    };
    let (in_clustering, in_partition): (Vec<u32>, Vec<u32>) =
        schema.key().iter().copied().partition(is_clustering);
    let statics =
        (0..schema.columns.len() as u32).filter(|index| role(index) == Some(CqlRole::Static));
    SchemaDefinition {
        all_columns: schema
            .columns
            .iter()
            .map(|column| ColumnDefinition {
                name: column.name.clone(),
                kind: columns::cql_type(column).into_owned(),
            })
            .collect(),
        partition_keys: in_partition
            .iter()
            .map(|index| Named { name: name(index) })
            .collect(),
        clustering_keys: in_clustering
            .iter()
            .map(|index| ClusteringKey {
                name: name(index),
                order_by: order_by(index).into(),
            })
            .collect(),
        static_columns: statics.map(|index| Named { name: name(&index) }).collect(),
    }
}

pub(crate) fn status(table: &TableInfo) -> &'static str {
    match table.status {
        TableStatus::Active => "ACTIVE",
        TableStatus::KeyUnavailable => "INACCESSIBLE_ENCRYPTION_CREDENTIALS",
    }
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let keyspace = required("keyspaceName", request.keyspace_name.as_deref())?;
    let table = required("tableName", request.table_name.as_deref())?;
    call.note("keyspaceName", Some(keyspace));
    call.note("tableName", Some(table));
    check_name("keyspaceName", keyspace)?;
    check_name("tableName", table)?;
    call.touch(keyspace, table, None);
    let arn = call.streams().identity().table_arn(keyspace, table);
    call.authorize(&arn)?;
    let table = call.table(keyspace, table)?;
    Ok(Answer {
        schema_definition: schema_definition(&table),
        keyspace_name: table.keyspace.clone(),
        table_name: table.table.clone(),
        resource_arn: table.arn.clone(),
        creation_timestamp: Time {
            micros: table.created_us,
        },
        status: status(&table),
        capacity_specification: ThroughputMode {
            throughput_mode: "PAY_PER_REQUEST",
        },
        comment: Some(table.schema.comment.clone())
            .filter(|comment| !comment.is_empty())
            .map(|message| Comment { message }),
        latest_stream_arn: table.stream.as_ref().map(|stream| stream.arn.clone()),
        cdc_specification: table.stream.as_ref().map(|stream| CdcSummary::of(stream)),
    })
}
