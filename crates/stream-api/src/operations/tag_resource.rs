//! TagResource.

use super::shapes::{Nothing, TagRequest};
use crate::call::Call;
use crate::error::ApiError;

pub(crate) fn run(call: &mut Call<'_>, request: &TagRequest) -> Result<Nothing, ApiError> {
    let (resource, tags) = request.open(call)?;
    call.streams()
        .tag(&resource, &tags)
        .map_err(|error| call.refusal(&error))?;
    Ok(Nothing {})
}
