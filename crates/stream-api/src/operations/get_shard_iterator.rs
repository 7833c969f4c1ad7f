//! GetShardIterator.

use super::{check_length, required};
use crate::call::Call;
use crate::error::ApiError;
use crate::tokens::Iterator;
use serde::{Deserialize, Serialize};
use stream::{ShardId, Start, Streams};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    stream_arn: Option<String>,
    shard_id: Option<String>,
    shard_iterator_type: Option<String>,
    sequence_number: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    shard_iterator: String,
}

fn start(request: &Request) -> Result<Start, ApiError> {
    let kind = required("shardIteratorType", request.shard_iterator_type.as_deref())?;
    let sequence = || {
        let text = required("sequenceNumber", request.sequence_number.as_deref())?;
        check_length("sequenceNumber", text, 21..=48)?;
        Streams::parse_sequence(text)
            .ok_or_else(|| ApiError::invalid("member `sequenceNumber` has digits only"))
    };
    match kind {
        "TRIM_HORIZON" => Ok(Start::TrimHorizon),
        "LATEST" => Ok(Start::Latest),
        "AT_SEQUENCE_NUMBER" => Ok(Start::AtSequence(sequence()?)),
        "AFTER_SEQUENCE_NUMBER" => Ok(Start::AfterSequence(sequence()?)),
        _ => Err(ApiError::invalid(
            "member `shardIteratorType` is TRIM_HORIZON, LATEST, AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER",
        )),
    }
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let arn = required("streamArn", request.stream_arn.as_deref())?;
    let shard = required("shardId", request.shard_id.as_deref())?;
    call.note("streamArn", Some(arn));
    call.note("shardId", Some(shard));
    call.note("shardIteratorType", request.shard_iterator_type.as_deref());
    call.note("sequenceNumber", request.sequence_number.as_deref());
    check_length("streamArn", arn, 37..=1024)?;
    check_length("shardId", shard, 28..=65)?;
    let start = start(request)?;
    call.touch_stream(arn)?;
    call.authorize(arn)?;
    let streams = call.streams();
    // A well-formed stream first: an unknown shard of an unknown stream is an unknown stream.
    streams
        .describe(arn)
        .map_err(|error| call.refusal(&error))?;
    let shard =
        ShardId::parse(shard).ok_or_else(|| call.not_found("the stream has no such shard"))?;
    let from = streams
        .locate(arn, shard, start)
        .map_err(|error| call.refusal(&error))?;
    let iterator = Iterator {
        arn: arn.to_owned(),
        shard,
        from,
        issued_us: call.now_us,
        reader: call.api.new_reader(),
    };
    Ok(Answer {
        shard_iterator: iterator.seal(&call.api.sealer),
    })
}
