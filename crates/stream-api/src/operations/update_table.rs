//! UpdateTable: enables and disables a table's stream. Anything else of a table is the source's.

use super::shapes::{Cdc, CdcSpecification, TableArn};
use super::{check_name, required};
use crate::call::Call;
use crate::error::ApiError;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use stream::{EnableStream, StreamStatus, TableInfo};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    pub keyspace_name: Option<String>,
    pub table_name: Option<String>,
    pub cdc_specification: Option<CdcSpecification>,
    #[serde(flatten)]
    pub others: BTreeMap<String, IgnoredAny>,
}

/// Settings of the service that are not kept here.
const SETTINGS: [&str; 9] = [
    "addColumns",
    "capacitySpecification",
    "encryptionSpecification",
    "pointInTimeRecovery",
    "ttl",
    "defaultTimeToLive",
    "clientSideTimestamps",
    "autoScalingSpecification",
    "replicaSpecifications",
];

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<TableArn, ApiError> {
    let keyspace = required("keyspaceName", request.keyspace_name.as_deref())?;
    let table = required("tableName", request.table_name.as_deref())?;
    call.note("keyspaceName", Some(keyspace));
    call.note("tableName", Some(table));
    check_name("keyspaceName", keyspace)?;
    check_name("tableName", table)?;
    let foreign = SETTINGS
        .iter()
        .find(|name| request.others.contains_key(**name));
    let cdc = match (&request.cdc_specification, foreign) {
        (Some(_), Some(name)) => {
            return Err(ApiError::invalid(format!(
                "a call changes one setting: `cdcSpecification` and `{name}` cannot share one"
            )));
        }
        (None, Some(name)) => {
            return Err(ApiError::invalid(format!(
                "`{name}` is not kept here: the table is the source's; `cdcSpecification` can be changed"
            )));
        }
        (None, None) => return Err(ApiError::invalid("member `cdcSpecification` is missing")),
        (Some(cdc), None) => cdc.read()?,
    };
    call.note(
        "cdcStatus",
        Some(if cdc.is_enabled {
            "ENABLED"
        } else {
            "DISABLED"
        }),
    );
    call.note("cdcViewType", cdc.view.map(|view| view.as_str()));
    call.touch(keyspace, table, None);
    let arn = call.streams().identity().table_arn(keyspace, table);
    call.authorize(&arn)?;
    let found = call.table(keyspace, table)?;
    match cdc.is_enabled {
        true => enable(call, &found, &cdc, Vec::new())?,
        false => disable(call, &found)?,
    }
    Ok(TableArn { resource_arn: arn })
}

/// Enables the table's stream. Once more with the same view changes nothing.
pub(super) fn enable(
    call: &Call<'_>,
    table: &TableInfo,
    cdc: &Cdc,
    clustering: Vec<String>,
) -> Result<(), ApiError> {
    let wanted = cdc.view.unwrap_or_default();
    let live = table
        .stream
        .as_ref()
        .filter(|stream| stream.status.is_live());
    if live.is_some_and(|live| live.view == wanted && cdc.tags.is_empty()) {
        return Ok(());
    }
    let request = EnableStream {
        keyspace: table.keyspace.clone(),
        table: table.table.clone(),
        view: Some(wanted),
        clustering,
        tags: cdc.tags.clone(),
        propagate_tags: cdc.propagate_tags,
        ..EnableStream::default()
    };
    call.streams()
        .enable(request)
        .map(|_| ())
        .map_err(|error| call.refusal(&error))
}

/// Disables the table's stream; without one there is nothing to do.
fn disable(call: &Call<'_>, table: &TableInfo) -> Result<(), ApiError> {
    match &table.stream {
        Some(stream) if stream.status != StreamStatus::Disabled => call
            .streams()
            .disable(&stream.arn)
            .map(|_| ())
            .map_err(|error| call.refusal(&error)),
        _ => Ok(()),
    }
}
