//! Shapes that several operations of the control plane share.

use super::{check_length, required};
use crate::call::Call;
use crate::error::ApiError;
use serde::{Deserialize, Serialize};
use stream::{Resource, StreamInfo, Tags, ViewType};

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tag {
    pub key: String,
    pub value: String,
}

/// What TagResource and UntagResource are asked.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TagRequest {
    pub resource_arn: Option<String>,
    pub tags: Option<Vec<Tag>>,
}

impl TagRequest {
    /// What is to be changed, for a caller who may change it.
    ///
    /// Errors: `InvalidFormat`, `AccessDeniedException`, and what the resource's ARN gives.
    pub fn open(&self, call: &mut Call<'_>) -> Result<(Resource, Tags), ApiError> {
        let arn = required("resourceArn", self.resource_arn.as_deref())?;
        call.note("resourceArn", Some(arn));
        let tags = tags(required("tags", self.tags.as_deref())?)?;
        if tags.is_empty() {
            return Err(ApiError::invalid("member `tags` has 1 to 60 items"));
        }
        let resource = call.resource(arn)?;
        call.authorize(arn)?;
        call.check_identity(arn)?;
        Ok((resource, tags))
    }
}

/// Tags of a request.
///
/// Errors: `InvalidFormat` for too many, a wrong length, or the prefix that is reserved.
pub(crate) fn tags(list: &[Tag]) -> Result<Tags, ApiError> {
    if list.len() > 60 {
        return Err(ApiError::invalid("member `tags` has at most 60 items"));
    }
    let mut tags = Tags::new();
    for tag in list {
        check_length("tags.key", &tag.key, 1..=128)?;
        check_length("tags.value", &tag.value, 1..=256)?;
        if tag.key.to_ascii_lowercase().starts_with("aws:") {
            return Err(ApiError::invalid(
                "tag keys that begin with `aws:` are reserved",
            ));
        }
        tags.insert(tag.key.clone(), tag.value.clone());
    }
    Ok(tags)
}

pub(crate) fn tag_list(tags: &Tags) -> impl Iterator<Item = Tag> + '_ {
    tags.iter().map(|(key, value)| Tag {
        key: key.clone(),
        value: value.clone(),
    })
}

/// `cdcSpecification` of a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CdcSpecification {
    pub status: Option<String>,
    pub view_type: Option<String>,
    pub tags: Option<Vec<Tag>>,
    pub propagate_tags: Option<String>,
}

/// What a `cdcSpecification` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cdc {
    pub is_enabled: bool,
    pub view: Option<ViewType>,
    pub tags: Tags,
    pub propagate_tags: bool,
}

impl CdcSpecification {
    /// Errors: `InvalidFormat`.
    pub fn read(&self) -> Result<Cdc, ApiError> {
        let is_enabled = match self.status.as_deref() {
            Some("ENABLED") => true,
            Some("DISABLED") => false,
            Some(_) => {
                return Err(ApiError::invalid(
                    "member `cdcSpecification.status` is ENABLED or DISABLED",
                ));
            }
            None => {
                return Err(ApiError::invalid(
                    "member `cdcSpecification.status` is missing",
                ));
            }
        };
        let view = match self.view_type.as_deref() {
            None => None,
            // The service's words are upper case.
            Some(text) => match ViewType::parse(text).filter(|view| view.as_str() == text) {
                Some(view) => Some(view),
                None => {
                    return Err(ApiError::invalid(
                        "member `cdcSpecification.viewType` is NEW_IMAGE, OLD_IMAGE, KEYS_ONLY or NEW_AND_OLD_IMAGES",
                    ));
                }
            },
        };
        let propagate_tags = match self.propagate_tags.as_deref() {
            None | Some("NONE") => false,
            Some("TABLE") => true,
            Some(_) => {
                return Err(ApiError::invalid(
                    "member `cdcSpecification.propagateTags` is TABLE or NONE",
                ));
            }
        };
        Ok(Cdc {
            is_enabled,
            view,
            tags: tags(self.tags.as_deref().unwrap_or_default())?,
            propagate_tags,
        })
    }
}

/// `cdcSpecification` of an answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CdcSummary {
    status: &'static str,
    view_type: &'static str,
}

impl CdcSummary {
    pub fn of(info: &StreamInfo) -> Self {
        Self {
            status: info.status.as_str(),
            view_type: info.view.as_str(),
        }
    }
}

/// A table's shape.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SchemaDefinition {
    pub all_columns: Vec<ColumnDefinition>,
    pub partition_keys: Vec<Named>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clustering_keys: Vec<ClusteringKey>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub static_columns: Vec<Named>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ColumnDefinition {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusteringKey {
    pub name: String,
    pub order_by: String,
}

/// An answer that names the table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TableArn {
    pub resource_arn: String,
}

/// An answer without members.
#[derive(Debug, Serialize)]
pub(crate) struct Nothing {}
