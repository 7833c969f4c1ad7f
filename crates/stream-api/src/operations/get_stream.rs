//! GetStream.

use super::{check_length, check_token, page_size, required};
use crate::call::Call;
use crate::error::ApiError;
use crate::seal::Kind;
use crate::tokens::{PageToken, open_page};
use crate::wire::Time;
use serde::{Deserialize, Serialize};
use stream::{Sequence, ShardId, ShardInfo};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    stream_arn: Option<String>,
    max_results: Option<i64>,
    shard_filter: Option<Filter>,
    next_token: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    #[serde(rename = "type")]
    kind: Option<String>,
    shard_id: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Range {
    starting_sequence_number: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ending_sequence_number: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shard {
    shard_id: String,
    sequence_number_range: Range,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parent_shard_ids: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    stream_arn: String,
    stream_label: String,
    stream_status: &'static str,
    stream_view_type: &'static str,
    creation_request_date_time: Time,
    keyspace_name: String,
    table_name: String,
    shards: Vec<Shard>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

/// The parent whose children are wanted: a well-formed id that names no shard has none.
fn parent(filter: &Filter) -> Result<ShardId, ApiError> {
    match filter.kind.as_deref() {
        Some("CHILD_SHARDS") => {}
        Some(_) => {
            return Err(ApiError::invalid(
                "member `shardFilter.type` is CHILD_SHARDS",
            ));
        }
        None => return Err(ApiError::invalid("member `shardFilter.type` is missing")),
    }
    let id = required("shardFilter.shardId", filter.shard_id.as_deref())?;
    ShardId::parse(id).ok_or_else(|| {
        ApiError::invalid("member `shardFilter.shardId` is no shard id; GetStream lists them")
    })
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let arn = required("streamArn", request.stream_arn.as_deref())?;
    call.note("streamArn", Some(arn));
    check_length("streamArn", arn, 37..=1024)?;
    let limit = page_size(request.max_results, 100, 100)?;
    let children_of = request.shard_filter.as_ref().map(parent).transpose()?;
    let filtered = children_of.map(|id| id.to_string()).unwrap_or_default();
    let of = [arn, filtered.as_str()];
    let token = check_token(request.next_token.as_ref())?;
    let after = open_page(&call.api.sealer, Kind::Shards, token, &of, call.now_us)?;
    let from = after.as_deref().and_then(read_place);
    call.touch_stream(arn)?;
    call.authorize(arn)?;
    let info = call
        .streams()
        .describe(arn)
        .map_err(|error| call.refusal(&error))?;
    let page = call
        .streams()
        .shards_as_of(arn, children_of, from.unzip(), limit)
        .map_err(|error| call.refusal(&error))?;
    let next_token = page.shards.last().filter(|_| page.more).map(|last| {
        let after = format!("{} {}", last.id, page.as_of.0);
        PageToken {
            of: &of,
            after: &after,
        }
        .seal(&call.api.sealer, Kind::Shards, call.now_us)
    });
    Ok(Answer {
        stream_arn: info.arn.clone(),
        stream_label: info.label.to_string(),
        stream_status: info.status.as_str(),
        stream_view_type: info.view.as_str(),
        creation_request_date_time: Time {
            micros: info.label.0.saturating_mul(1000),
        },
        keyspace_name: info.keyspace.clone(),
        table_name: info.table.clone(),
        shards: page.shards.iter().map(shape).collect(),
        next_token,
    })
}

/// Where a listing goes on, and as of which moment: all pages show the shards of one moment, so that no
/// page has a child of a shard that an earlier page showed open.
fn read_place(after: &str) -> Option<(ShardId, Sequence)> {
    let (id, as_of) = after.split_once(' ')?;
    Some((ShardId::parse(id)?, Sequence(as_of.parse().ok()?)))
}

fn shape(shard: &ShardInfo) -> Shard {
    Shard {
        shard_id: shard.id.to_string(),
        sequence_number_range: Range {
            starting_sequence_number: shard.starting.to_string(),
            ending_sequence_number: shard.ending.map(|ending| ending.to_string()),
        },
        parent_shard_ids: shard.parents.iter().map(ToString::to_string).collect(),
    }
}
