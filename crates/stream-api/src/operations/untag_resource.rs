//! UntagResource: takes whole tags; one whose value differs stays.

use super::shapes::{Nothing, TagRequest};
use crate::call::Call;
use crate::error::ApiError;

pub(crate) fn run(call: &mut Call<'_>, request: &TagRequest) -> Result<Nothing, ApiError> {
    let (resource, tags) = request.open(call)?;
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
