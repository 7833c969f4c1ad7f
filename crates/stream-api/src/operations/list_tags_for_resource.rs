//! ListTagsForResource.

use super::shapes::{Tag, tag_list};
use super::{check_token, page_size, required};
use crate::call::Call;
use crate::error::ApiError;
use crate::seal::Kind;
use crate::tokens::{PageToken, open_page};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    resource_arn: Option<String>,
    max_results: Option<i64>,
    next_token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    tags: Vec<Tag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let arn = required("resourceArn", request.resource_arn.as_deref())?;
    call.note("resourceArn", Some(arn));
    let limit = page_size(request.max_results, 1000, 1000)?;
    let token = check_token(request.next_token.as_ref())?;
    let after = open_page(&call.api.sealer, Kind::Tags, token, &[arn], call.now_us)?;
    let resource = call.resource(arn)?;
    call.authorize(arn)?;
    call.check_identity(arn)?;
    let all = call
        .streams()
        .tags(&resource)
        .map_err(|error| call.refusal(&error))?;
    let mut rest = tag_list(&all).filter(|tag| after.as_ref().is_none_or(|after| tag.key > *after));
    let tags: Vec<Tag> = rest.by_ref().take(limit).collect();
    let more = rest.next().is_some();
    let next_token = tags.last().filter(|_| more).map(|last| {
        PageToken {
            of: &[arn],
            after: &last.key,
        }
        .seal(&call.api.sealer, Kind::Tags, call.now_us)
    });
    Ok(Answer { tags, next_token })
}
