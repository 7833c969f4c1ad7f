//! UntagResource: takes whole tags; one whose value differs stays.

use super::required;
use super::shapes::{self, Nothing, Tag};
use crate::call::Call;
use crate::error::ApiError;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    pub resource_arn: Option<String>,
    pub tags: Option<Vec<Tag>>,
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Nothing, ApiError> {
    let arn = required("resourceArn", request.resource_arn.as_deref())?;
    call.note("resourceArn", Some(arn));
    let tags = shapes::tags(required("tags", request.tags.as_deref())?)?;
    if tags.is_empty() {
        return Err(ApiError::invalid("member `tags` has 1 to 60 items"));
    }
    let resource = call.resource(arn)?;
    call.authorize(arn)?;
    call.check_identity(arn)?;
    let has = call
        .streams()
        .tags(&resource)
        .map_err(|error| call.refusal(&error))?;
    let keys: Vec<String> = tags
        .iter()
        .filter(|(key, value)| has.get(*key) == Some(*value))
        .map(|(key, _)| key.clone())
        .collect();
    call.streams()
        .untag(&resource, &keys)
        .map_err(|error| call.refusal(&error))?;
    Ok(Nothing {})
}
