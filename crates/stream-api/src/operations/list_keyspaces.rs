//! ListKeyspaces.

use super::{check_token, page_size};
use crate::call::Call;
use crate::error::ApiError;
use crate::seal::Kind;
use crate::tokens::{PageToken, open_page};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    max_results: Option<i64>,
    next_token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Keyspace {
    keyspace_name: String,
    resource_arn: String,
    replication_strategy: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    keyspaces: Vec<Keyspace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let limit = page_size(request.max_results, 1000, 1000)?;
    let token = check_token(request.next_token.as_ref())?;
    let after = open_page(&call.api.sealer, Kind::Keyspaces, token, &[], call.now_us)?;
    let streams = call.streams();
    call.authorize(&format!("{}:/keyspace/*", streams.identity()))?;
    let mut all = streams.keyspaces();
    all.retain(|known| after.as_ref().is_none_or(|after| known.keyspace > *after));
    let more = all.len() > limit;
    all.truncate(limit);
    let next_token = all.last().filter(|_| more).map(|last| {
        PageToken {
            of: &[],
            after: &last.keyspace,
        }
        .seal(&call.api.sealer, Kind::Keyspaces, call.now_us)
    });
    let keyspaces = all
        .into_iter()
        .map(|known| Keyspace {
            keyspace_name: known.keyspace,
            resource_arn: known.arn,
            replication_strategy: "SINGLE_REGION",
        })
        .collect();
    Ok(Answer {
        keyspaces,
        next_token,
    })
}
