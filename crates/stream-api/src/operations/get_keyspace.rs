//! GetKeyspace.

use super::{check_name, required};
use crate::call::Call;
use crate::error::ApiError;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    keyspace_name: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    keyspace_name: String,
    resource_arn: String,
    replication_strategy: &'static str,
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let keyspace = required("keyspaceName", request.keyspace_name.as_deref())?;
    call.note("keyspaceName", Some(keyspace));
    check_name("keyspaceName", keyspace)?;
    let streams = call.streams();
    call.authorize(&streams.identity().keyspace_arn(keyspace))?;
    let found = streams
        .keyspaces()
        .into_iter()
        .find(|known| known.keyspace == keyspace)
        .ok_or_else(|| call.not_found("no captured table is in this keyspace"))?;
    Ok(Answer {
        keyspace_name: found.keyspace,
        resource_arn: found.arn,
        replication_strategy: "SINGLE_REGION",
    })
}
