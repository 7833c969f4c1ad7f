//! GetMetricStatistics: one series.

use super::get_metric_data::{Dimension, between, period, statistic};
use super::required;
use crate::call::Call;
use crate::error::ApiError;
use crate::metrics::{Metric, NAMESPACE};
use crate::wire::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Request {
    namespace: Option<String>,
    metric_name: Option<String>,
    dimensions: Vec<Dimension>,
    start_time: Option<f64>,
    end_time: Option<f64>,
    period: Option<i64>,
    statistics: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Point {
    timestamp: Time,
    unit: &'static str,
    #[serde(flatten)]
    values: BTreeMap<String, f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Answer {
    label: String,
    datapoints: Vec<Point>,
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let name = required("MetricName", request.metric_name.as_deref())?;
    let times = between(request.start_time, request.end_time)?;
    let period = period(request.period)?;
    request
        .statistics
        .iter()
        .try_for_each(|name| statistic(name))?;
    call.authorize("*")?;
    let is_ours = request.namespace.as_deref() == Some(NAMESPACE);
    let dimensions: Vec<(String, String)> = request
        .dimensions
        .iter()
        .map(|one| (one.name.clone(), one.value.clone()))
        .collect();
    let Some(metric) = Metric::named(name).filter(|_| is_ours) else {
        return Ok(Answer {
            label: name.to_owned(),
            datapoints: Vec::new(),
        });
    };
    let points = call.api.metrics.read(metric, &dimensions, times, period);
    let values = |stats: &crate::metrics::Stats| {
        let asked = request.statistics.iter();
        asked
            .filter_map(|name| Some((name.clone(), stats.get(name)?)))
            .collect()
    };
    let datapoints = points
        .iter()
        .map(|(at_s, stats)| Point {
            timestamp: Time {
                micros: at_s * 1_000_000,
            },
            unit: metric.unit(),
            values: values(stats),
        })
        .collect();
    Ok(Answer {
        label: name.to_owned(),
        datapoints,
    })
}
