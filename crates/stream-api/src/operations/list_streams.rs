//! ListStreams.

use super::{check_name, check_token, page_size};
use crate::call::Call;
use crate::error::ApiError;
use crate::seal::Kind;
use crate::tokens::{PageToken, open_page};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    pub keyspace_name: Option<String>,
    pub table_name: Option<String>,
    pub max_results: Option<i64>,
    pub next_token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stream {
    stream_arn: String,
    keyspace_name: String,
    table_name: String,
    stream_label: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    streams: Vec<Stream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let (keyspace, table) = (
        request.keyspace_name.as_deref(),
        request.table_name.as_deref(),
    );
    call.note("keyspaceName", keyspace);
    call.note("tableName", table);
    let limit = page_size(request.max_results, 100, 100)?;
    for (member, name) in [("keyspaceName", keyspace), ("tableName", table)] {
        name.map(|name| check_name(member, name)).transpose()?;
    }
    let of = [keyspace.unwrap_or(""), table.unwrap_or("")];
    let resource = match (keyspace, table) {
        (None, Some(_)) => {
            return Err(ApiError::invalid(
                "member `tableName` needs `keyspaceName` with it",
            ));
        }
        (Some(keyspace), Some(table)) => {
            format!(
                "{}/stream/*",
                call.streams().identity().table_arn(keyspace, table)
            )
        }
        (Some(keyspace), None) => call.streams().identity().keyspace_arn(keyspace) + "*",
        (None, None) => format!("{}:/keyspace/*", call.streams().identity()),
    };
    let token = check_token(request.next_token.as_ref())?;
    let sealer = &call.api.sealer;
    let after = open_page(sealer, Kind::Streams, token, &of, call.now_us)?;
    call.authorize(&resource)?;
    let page = call
        .streams()
        .list(keyspace, table, after.as_deref(), limit)
        .map_err(|error| call.refusal(&error))?;
    // Only of a table that has one: names that strangers make up are no series.
    if let (Some(keyspace), Some(table), false) = (keyspace, table, page.streams.is_empty()) {
        call.touch(keyspace, table, None);
    }
    let next_token = page.streams.last().filter(|_| page.more).map(|last| {
        PageToken {
            of: &of,
            after: &last.arn,
        }
        .seal(sealer, Kind::Streams, call.now_us)
    });
    let streams = page
        .streams
        .iter()
        .map(|info| Stream {
            stream_arn: info.arn.clone(),
            keyspace_name: info.keyspace.clone(),
            table_name: info.table.clone(),
            stream_label: info.label.to_string(),
        })
        .collect();
    Ok(Answer {
        streams,
        next_token,
    })
}
