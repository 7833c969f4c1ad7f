//! GetMetricData: several series at once.

use super::required;
use crate::call::Call;
use crate::error::ApiError;
use crate::metrics::{Metric, NAMESPACE, STATISTICS};
use crate::wire::Time;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Request {
    metric_data_queries: Option<Vec<Query>>,
    start_time: Option<f64>,
    end_time: Option<f64>,
    scan_by: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Query {
    id: Option<String>,
    metric_stat: Option<MetricStat>,
    expression: Option<String>,
    label: Option<String>,
    return_data: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct MetricStat {
    metric: Option<MetricName>,
    period: Option<i64>,
    stat: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct MetricName {
    namespace: Option<String>,
    metric_name: Option<String>,
    dimensions: Vec<Dimension>,
}

#[derive(Debug, Default, Clone, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Dimension {
    pub name: String,
    pub value: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    id: String,
    label: String,
    timestamps: Vec<Time>,
    values: Vec<f64>,
    status_code: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Answer {
    metric_data_results: Vec<Found>,
    messages: Vec<String>,
}

/// Between two times, microseconds; both are given.
pub(super) fn between(start: Option<f64>, end: Option<f64>) -> Result<(i64, i64), ApiError> {
    let (start, end) = (
        required("StartTime", start.as_ref())?,
        required("EndTime", end.as_ref())?,
    );
    match start < end {
        true => Ok(((start * 1e6) as i64, (end * 1e6) as i64)),
        false => Err(ApiError::invalid("`StartTime` is before `EndTime`")),
    }
}

/// A period of whole minutes.
pub(super) fn period(asked: Option<i64>) -> Result<i64, ApiError> {
    asked
        .filter(|period| (60..=86_400).contains(period) && period % 60 == 0)
        .ok_or_else(|| ApiError::invalid("`Period` is a multiple of 60, up to 86400"))
}

pub(super) fn statistic(name: &str) -> Result<(), ApiError> {
    match STATISTICS.contains(&name) {
        true => Ok(()),
        false => Err(ApiError::invalid(
            "statistics are Minimum, Maximum, Sum, SampleCount and Average",
        )),
    }
}

fn series(
    call: &Call<'_>,
    query: &Query,
    times: (i64, i64),
    ascending: bool,
) -> Result<Found, ApiError> {
    let id = required("Id", query.id.as_deref())?;
    if query.expression.is_some() {
        return Err(ApiError::invalid(
            "`Expression` is not supported; ask for the metrics themselves",
        ));
    }
    let stat = required("MetricStat", query.metric_stat.as_ref())?;
    let metric = required("MetricStat.Metric", stat.metric.as_ref())?;
    let name = required("MetricName", metric.metric_name.as_deref())?;
    let wanted = required("Stat", stat.stat.as_deref())?;
    statistic(wanted)?;
    let period = period(stat.period)?;
    let is_ours = metric.namespace.as_deref() == Some(NAMESPACE);
    let dimensions: Vec<(String, String)> = metric
        .dimensions
        .iter()
        .map(|one| (one.name.clone(), one.value.clone()))
        .collect();
    let mut points = match Metric::named(name).filter(|_| is_ours) {
        Some(metric) => call.api.metrics.read(metric, &dimensions, times, period),
        // As the real service: what does not exist has no values.
        None => Vec::new(),
    };
    if !ascending {
        points.reverse();
    }
    let value = |stats: &crate::metrics::Stats| stats.get(wanted).unwrap_or(0.0);
    Ok(Found {
        id: id.to_owned(),
        label: query.label.clone().unwrap_or_else(|| name.to_owned()),
        timestamps: points
            .iter()
            .map(|(at_s, _)| Time {
                micros: at_s * 1_000_000,
            })
            .collect(),
        values: points.iter().map(|(_, stats)| value(stats)).collect(),
        status_code: "Complete",
    })
}

pub(crate) fn run(call: &mut Call<'_>, request: &Request) -> Result<Answer, ApiError> {
    let queries = required("MetricDataQueries", request.metric_data_queries.as_deref())?;
    if queries.len() > 500 {
        return Err(ApiError::invalid(
            "`MetricDataQueries` has at most 500 items",
        ));
    }
    let times = between(request.start_time, request.end_time)?;
    call.authorize("*")?;
    let ascending = request.scan_by.as_deref() == Some("TimestampAscending");
    let wanted = queries
        .iter()
        .filter(|query| query.return_data != Some(false));
    let metric_data_results = wanted
        .map(|query| series(call, query, times, ascending))
        .collect::<Result<_, _>>()?;
    Ok(Answer {
        metric_data_results,
        messages: Vec::new(),
    })
}
