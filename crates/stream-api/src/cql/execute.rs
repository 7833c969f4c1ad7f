//! Does what a statement asks, through the API's own operations.

use super::Rows;
use super::statement::{Statement, TableName};
use super::tables;
use crate::api::Api;
use crate::call::{Call, LocalUser};
use crate::error::ApiError;
use crate::operations::{
    CdcSpecification, Operation, Tag, TagRequest, tag_resource, untag_resource, update_table,
};
use std::collections::BTreeMap;

fn tag_list(tags: BTreeMap<String, String>) -> Vec<Tag> {
    tags.into_iter()
        .map(|(key, value)| Tag { key, value })
        .collect()
}

pub(super) fn run(api: &Api, user: &LocalUser, statement: Statement) -> Result<Rows, ApiError> {
    match statement {
        Statement::Select {
            columns,
            table,
            conditions,
            limit,
        } => api.locally(Operation::GetTable, user, |call| {
            call.note("table", Some(&format!("system_schema_mcs.{table}")));
            tables::select(api, columns, &table, &conditions, limit)
        }),
        Statement::Cdc {
            table,
            is_enabled,
            specification,
        } => {
            let status = if is_enabled { "ENABLED" } else { "DISABLED" };
            let tags = Some(tag_list(specification.tags)).filter(|tags| !tags.is_empty());
            let request = update_table::Request {
                keyspace_name: Some(table.keyspace),
                table_name: Some(table.table),
                cdc_specification: Some(CdcSpecification {
                    status: Some(status.into()),
                    view_type: specification.view_type,
                    tags,
                    propagate_tags: specification.propagate_tags,
                }),
                others: BTreeMap::new(),
            };
            api.locally(Operation::UpdateTable, user, |call| {
                update_table::run(call, &request)
            })?;
            Ok(Rows::default())
        }
        Statement::Tags {
            table,
            of_stream,
            is_add,
            tags,
        } => {
            let arn = arn(api, &table, of_stream)?;
            let request = TagRequest {
                resource_arn: Some(arn),
                tags: Some(tag_list(tags)),
            };
            let (operation, run): (_, fn(&mut Call<'_>, &TagRequest) -> _) = match is_add {
                true => (Operation::TagResource, tag_resource::run),
                false => (Operation::UntagResource, untag_resource::run),
            };
            api.locally(operation, user, |call| run(call, &request))?;
            Ok(Rows::default())
        }
    }
}

/// The ARN of a table, or of its latest stream.
fn arn(api: &Api, table: &TableName, of_stream: bool) -> Result<String, ApiError> {
    let found = api
        .streams()
        .table(&table.keyspace, &table.table)
        .map_err(|error| ApiError::from_stream(&error, crate::wire::Service::Keyspaces))?;
    match (of_stream, found.stream) {
        (false, _) => Ok(found.arn),
        (true, Some(stream)) => Ok(stream.arn.clone()),
        (true, None) => Err(ApiError::invalid(format!(
            "{}.{} has no stream; enable it with ALTER TABLE … WITH cdc = TRUE",
            table.keyspace, table.table
        ))),
    }
}
