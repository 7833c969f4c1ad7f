//! Metrics for Prometheus, and health: `/metrics`, `/healthz` (alive), `/readyz` (caught up).

use crate::config::MetricsConfig;
use crate::status::Report;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use stream_api::Api;
use stream_api::metrics::Totals;

/// Tells the standing when it is asked for.
pub type Reporter = Arc<dyn Fn() -> Report + Send + Sync>;

/// Serves on a thread of its own.
///
/// Errors: when the address cannot be listened on.
pub fn serve(config: &MetricsConfig, report: Reporter, api: Arc<Api>) -> io::Result<()> {
    let listener = std::net::TcpListener::bind(&config.listen)?;
    listener.set_nonblocking(true)?;
    let ready_lag = config.ready_lag.0.as_secs_f64();
    let (for_metrics, for_ready) = (Arc::clone(&report), report);
    let router = Router::new()
        .route("/metrics", get(move || metrics(for_metrics, api)))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(move || ready(for_ready, ready_lag)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("metrics".into())
        .spawn(move || {
            let served = runtime.block_on(async {
                axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await
            });
            if let Err(error) = served {
                tracing::error!("serve metrics: {error}");
            }
        })?;
    Ok(())
}

async fn metrics(report: Reporter, api: Arc<Api>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (
        [(header::CONTENT_TYPE, kind)],
        render(&report(), &api.metrics().totals()),
    )
        .into_response()
}

async fn ready(report: Reporter, lag_max: f64) -> (StatusCode, String) {
    let late = not_ready(&report(), lag_max);
    match late.is_empty() {
        true => (StatusCode::OK, "ready\n".into()),
        false => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{}\n", late.join("\n")),
        ),
    }
}

/// Why the pipeline is not ready; empty when it is.
fn not_ready(report: &Report, lag_max: f64) -> Vec<String> {
    let mut late = Vec::new();
    if report.source.phase != "streaming" {
        late.push(format!("source: {}", report.source.phase));
    } else if report.source.lag_seconds.is_some_and(|lag| lag > lag_max) {
        late.push("source: behind".into());
    }
    for (name, sink) in &report.sinks {
        if sink.state != "running" {
            late.push(format!("sink {name}: {}", sink.state));
        } else if sink.lag_seconds > lag_max {
            late.push(format!("sink {name}: behind"));
        }
    }
    late
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SinkLabel {
    sink: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TableLabel {
    table: String,
}

type FloatGauge = Gauge<f64, AtomicU64>;

/// The standing in the text format of OpenMetrics.
pub fn render(report: &Report, api: &Totals) -> String {
    let mut registry = Registry::with_prefix("headwater");
    source_metrics(&mut registry, report);
    journal_metrics(&mut registry, report);
    sink_metrics(&mut registry, report);
    stream_metrics(&mut registry, report);
    api_metrics(&mut registry, api);
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("writing to a String does not fail");
    out
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: f64) {
    let gauge = FloatGauge::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

fn counter(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let counter: Counter = Counter::default();
    counter.inc_by(value);
    registry.register(name, help, counter);
}

fn source_metrics(registry: &mut Registry, report: &Report) {
    let source = &report.source;
    if let Some(bytes) = source.lag_bytes {
        gauge(
            registry,
            "source_lag_bytes",
            "Log bytes between reader and head",
            bytes as f64,
        );
    }
    if let Some(seconds) = source.lag_seconds {
        let help = "Age of what is being read; 0 when everything was read";
        gauge(registry, "source_lag_seconds", help, seconds);
    }
    let streaming = f64::from(u8::from(source.phase == "streaming"));
    gauge(
        registry,
        "source_streaming",
        "1 while changes are streamed",
        streaming,
    );
    counter(
        registry,
        "source_rows",
        "Records captured since the start",
        source.rows,
    );
    let help = "Log bytes received since the start";
    counter(
        registry,
        "source_received_bytes",
        help,
        source.bytes_received,
    );
    gauge(
        registry,
        "source_parked_tables",
        "Tables set aside",
        source.parked.len() as f64,
    );
    let family = Family::<TableLabel, FloatGauge>::default();
    for (table, rows, _, _) in &source.tables {
        family
            .get_or_create(&TableLabel {
                table: table.clone(),
            })
            .set(*rows as f64);
    }
    registry.register("snapshot_rows", "Rows copied by the snapshot", family);
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabel {
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabel {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReturnedLabel {
    keyspace: String,
    table: String,
    stream_label: String,
}

fn api_metrics(registry: &mut Registry, totals: &Totals) {
    let calls = Family::<CallLabel, Counter>::default();
    for ((operation, outcome), count) in &totals.calls {
        let label = CallLabel { operation, outcome };
        calls.get_or_create(&label).inc_by(*count);
    }
    let help = "Calls of the stream API since the start, by operation and outcome";
    registry.register("api_calls", help, calls);
    let seconds = Family::<OperationLabel, Counter<f64, AtomicU64>>::default();
    for (operation, spent) in &totals.seconds {
        seconds
            .get_or_create(&OperationLabel { operation })
            .inc_by(*spent);
    }
    let help = "Seconds spent on calls that succeeded, since the start";
    registry.register("api_call_seconds", help, seconds);
    let records = Family::<ReturnedLabel, Counter>::default();
    for ((keyspace, table, stream_label), count) in &totals.records {
        let label = ReturnedLabel {
            keyspace: keyspace.clone(),
            table: table.clone(),
            stream_label: stream_label.clone(),
        };
        records.get_or_create(&label).inc_by(*count);
    }
    let help = "Records that GetRecords returned since the start";
    registry.register("api_returned_records", help, records);
    stream_calls(registry, totals);
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StreamCallLabel {
    keyspace: String,
    table: String,
    stream_label: String,
    outcome: &'static str,
}

/// Calls about each stream.
fn stream_calls(registry: &mut Registry, totals: &Totals) {
    let calls = Family::<StreamCallLabel, Counter>::default();
    let seconds = Family::<ReturnedLabel, Counter<f64, AtomicU64>>::default();
    for ((keyspace, table, stream_label), counted) in &totals.stream_calls {
        for (outcome, count) in &counted.outcomes {
            let label = StreamCallLabel {
                keyspace: keyspace.clone(),
                table: table.clone(),
                stream_label: stream_label.clone(),
                outcome,
            };
            calls.get_or_create(&label).inc_by(*count);
        }
        let label = ReturnedLabel {
            keyspace: keyspace.clone(),
            table: table.clone(),
            stream_label: stream_label.clone(),
        };
        seconds.get_or_create(&label).inc_by(counted.seconds);
    }
    let help = "Calls about the stream since the start, by outcome";
    registry.register("api_stream_calls", help, calls);
    let help = "Seconds spent on calls about the stream that succeeded, since the start";
    registry.register("api_stream_call_seconds", help, seconds);
}

fn journal_metrics(registry: &mut Registry, report: &Report) {
    let journal = &report.journal;
    gauge(
        registry,
        "journal_bytes",
        "Bytes on disk",
        journal.bytes as f64,
    );
    gauge(
        registry,
        "journal_segments",
        "Segments on disk",
        journal.segments as f64,
    );
    if let Some(max) = journal.disk_max {
        gauge(registry, "journal_limit_bytes", "disk_max", max as f64);
    }
    let full = f64::from(u8::from(journal.state.starts_with("full")));
    gauge(
        registry,
        "journal_full",
        "1 while capture is paused for room",
        full,
    );
    counter(
        registry,
        "journal_syncs",
        "Data syncs since the start",
        journal.syncs,
    );
    let help = "Mean time of a data sync";
    gauge(
        registry,
        "journal_sync_seconds_mean",
        help,
        journal.sync_us_mean as f64 / 1e6,
    );
}

fn sink_metrics(registry: &mut Registry, report: &Report) {
    let lag_seconds = Family::<SinkLabel, FloatGauge>::default();
    let lag_rows = Family::<SinkLabel, FloatGauge>::default();
    let running = Family::<SinkLabel, FloatGauge>::default();
    let parked = Family::<SinkLabel, FloatGauge>::default();
    let rows = Family::<SinkLabel, Counter>::default();
    let bytes = Family::<SinkLabel, Counter>::default();
    let not_carried = Family::<SinkLabel, Counter>::default();
    for (name, sink) in &report.sinks {
        let label = SinkLabel { sink: name.clone() };
        lag_seconds.get_or_create(&label).set(sink.lag_seconds);
        lag_rows.get_or_create(&label).set(sink.lag_rows as f64);
        running
            .get_or_create(&label)
            .set(f64::from(u8::from(sink.state == "running")));
        parked.get_or_create(&label).set(sink.parked.len() as f64);
        rows.get_or_create(&label).inc_by(sink.rows);
        bytes.get_or_create(&label).inc_by(sink.bytes);
        not_carried.get_or_create(&label).inc_by(sink.not_carried);
    }
    registry.register(
        "sink_lag_seconds",
        "Age of the oldest undelivered change",
        lag_seconds,
    );
    registry.register("sink_lag_rows", "Records not yet delivered", lag_rows);
    registry.register("sink_running", "1 while the sink delivers", running);
    registry.register("sink_parked_tables", "Tables with parked rows", parked);
    registry.register("sink_rows", "Rows delivered since the start", rows);
    registry.register("sink_bytes", "Bytes delivered since the start", bytes);
    let help = "Events that the format cannot carry, left out since the start";
    registry.register("sink_not_carried", help, not_carried);
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StreamLabel {
    stream: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReadStreamLabel {
    keyspace: String,
    table: String,
    stream: String,
}

fn stream_metrics(registry: &mut Registry, report: &Report) {
    let enabled = Family::<StreamLabel, FloatGauge>::default();
    let open = Family::<StreamLabel, FloatGauge>::default();
    let captured = Family::<StreamLabel, Counter>::default();
    let read = Family::<StreamLabel, Counter>::default();
    let ages = Family::<ReadStreamLabel, FloatGauge>::default();
    for stream in &report.streams {
        if let Some(age_ms) = stream.iterator_age_ms {
            // Shown names have no dot.
            let (keyspace, table) = stream.table.split_once('.').unwrap_or(("", &stream.table));
            let label = ReadStreamLabel {
                keyspace: keyspace.to_owned(),
                table: table.to_owned(),
                stream: stream.arn.clone(),
            };
            ages.get_or_create(&label).set(age_ms as f64);
        }
        let label = StreamLabel {
            stream: stream.arn.clone(),
        };
        let is_enabled = f64::from(u8::from(stream.status == "ENABLED"));
        enabled.get_or_create(&label).set(is_enabled);
        open.get_or_create(&label).set(stream.shards_open as f64);
        captured
            .get_or_create(&label)
            .inc_by(stream.records_captured);
        read.get_or_create(&label).inc_by(stream.records_read);
    }
    registry.register(
        "stream_enabled",
        "1 while the stream takes records",
        enabled,
    );
    registry.register("stream_open_shards", "Shards that take records", open);
    let help = "Records captured into the stream since the start";
    registry.register("stream_records_captured", help, captured);
    let help = "Records handed to readers of the stream since the start";
    registry.register("stream_records_read", help, read);
    let help = "Age of the last record that the reader furthest behind has read; 0 at the tip";
    registry.register("stream_iterator_age_milliseconds", help, ages);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{JournalReport, SinkStatus, SourceReport};

    fn report(phase: &str, lag: f64) -> Report {
        let sink = SinkStatus {
            state: "running".into(),
            lag_seconds: lag,
            ..SinkStatus::default()
        };
        Report {
            pipeline: "shop".into(),
            pid: None,
            source: SourceReport {
                phase: phase.into(),
                lag_seconds: Some(0.0),
                lag_bytes: Some(7),
                ..SourceReport::default()
            },
            journal: JournalReport::default(),
            sinks: [("events".to_owned(), sink)].into(),
            streams: vec![crate::streams::StreamStatusReport {
                arn: "arn:x".into(),
                status: "ENABLED".into(),
                shards_open: 2,
                records_read: 5,
                table: "shop.t".into(),
                iterator_age_ms: Some(1500),
                ..Default::default()
            }],
        }
    }

    #[test]
    fn metrics_name_source_journal_and_sinks() {
        let calls = stream_api::metrics::StreamCalls {
            outcomes: [("ok", 3), ("ThrottlingException", 1)].into(),
            seconds: 0.25,
        };
        let of = |text: &str| ("shop".to_owned(), "t".to_owned(), text.to_owned());
        let totals = Totals {
            stream_calls: [(of("l"), calls)].into(),
            ..Totals::default()
        };
        let text = render(&report("streaming", 1.5), &totals);
        for line in [
            "headwater_stream_iterator_age_milliseconds{keyspace=\"shop\",table=\"t\",stream=\"arn:x\"} 1500.0",
            "headwater_api_stream_calls_total{keyspace=\"shop\",table=\"t\",stream_label=\"l\",outcome=\"ThrottlingException\"} 1",
            "headwater_api_stream_call_seconds_total{keyspace=\"shop\",table=\"t\",stream_label=\"l\"} 0.25",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("headwater_source_lag_bytes 7.0"), "{text}");
        assert!(
            text.contains("headwater_sink_lag_seconds{sink=\"events\"} 1.5"),
            "{text}"
        );
        assert!(
            text.contains("headwater_stream_open_shards{stream=\"arn:x\"} 2.0"),
            "{text}"
        );
        assert!(
            text.contains("headwater_stream_records_read_total{stream=\"arn:x\"} 5"),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn ready_means_streaming_and_every_sink_close_behind() {
        assert!(not_ready(&report("streaming", 1.0), 30.0).is_empty());
        assert_eq!(
            not_ready(&report("snapshot", 1.0), 30.0),
            ["source: snapshot"]
        );
        assert_eq!(
            not_ready(&report("streaming", 31.0), 30.0),
            ["sink events: behind"]
        );
    }
}
