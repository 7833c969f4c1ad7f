//! ListMetrics.

use super::get_metric_data::Dimension;
use crate::call::Call;
use crate::error::ApiError;
use crate::metrics::NAMESPACE;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Request {
    namespace: Option<String>,
    metric_name: Option<String>,
    dimensions: Vec<Wanted>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Wanted {
    name: String,
    value: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    namespace: &'static str,
    metric_name: &'static str,
    dimensions: Vec<Dimension>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Answer {
    metrics: Vec<Listed>,
}

/// The service answers 500 series a call; more than that are narrowed by name or dimension.
const LISTED_MAX: usize = 500;

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    call.authorize("*")?;
    let is_ours = request
        .namespace
        .as_deref()
        .is_none_or(|name| name == NAMESPACE);
    let wanted = |dimensions: &crate::metrics::Dimensions| {
        request.dimensions.iter().all(|filter| {
            dimensions.iter().any(|(name, value)| {
                *name == filter.name && filter.value.as_ref().is_none_or(|wanted| value == wanted)
            })
        })
    };
    let metrics = call
        .api
        .metrics
        .list()
        .into_iter()
        .filter(|(metric, dimensions)| {
            is_ours
                && request
                    .metric_name
                    .as_deref()
                    .is_none_or(|name| name == metric.name())
                && wanted(dimensions)
        })
        .take(LISTED_MAX)
        .map(|(metric, dimensions)| Listed {
            namespace: NAMESPACE,
            metric_name: metric.name(),
            dimensions: dimensions
                .into_iter()
                .map(|(name, value)| Dimension {
                    name: name.into(),
                    value,
                })
                .collect(),
        })
        .collect();
    Ok(Answer { metrics })
}
