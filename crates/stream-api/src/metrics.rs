//! What the API counts, under CloudWatch's names and dimensions, by the minute.
//!
//! The last 24 hours are kept in memory. `IteratorAgeMilliseconds` is ours: how old the last record of a page was when it
//! was read, 0 at the tip.

use crate::error::ApiError;
use crate::operations::Operation;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The namespace of all metrics.
pub const NAMESPACE: &str = "AWS/Cassandra";
const MINUTES_KEPT: i64 = 24 * 60;
/// Series that are kept; a stream has a dozen.
const SERIES_MAX: usize = 20_000;
const MINUTE_US: i64 = 60_000_000;

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Records returned by GetRecords.
    ReturnedRecordsCount,
    /// Server time of successful calls.
    SuccessfulRequestLatency,
    /// Calls that failed by the server's doing.
    SystemErrors,
    /// Calls that were refused.
    UserErrors,
    /// Age of the last record of a page.
    IteratorAgeMilliseconds,
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 5] = [
        Metric::ReturnedRecordsCount,
        Metric::SuccessfulRequestLatency,
        Metric::SystemErrors,
        Metric::UserErrors,
        Metric::IteratorAgeMilliseconds,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Metric::ReturnedRecordsCount => "ReturnedRecordsCount",
            Metric::SuccessfulRequestLatency => "SuccessfulRequestLatency",
            Metric::SystemErrors => "SystemErrors",
            Metric::UserErrors => "UserErrors",
            Metric::IteratorAgeMilliseconds => "IteratorAgeMilliseconds",
        }
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::SuccessfulRequestLatency | Metric::IteratorAgeMilliseconds => "Milliseconds",
            _ => "Count",
        }
    }

    /// The metric of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }
}

/// Names of dimensions, sorted.
const DIMENSIONS: [&str; 4] = ["Keyspace", "Operation", "StreamLabel", "TableName"];

/// What a series is about; pairs of name and value, sorted by name.
pub type Dimensions = Vec<(&'static str, String)>;

/// What a call was about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Subject {
    pub keyspace: String,
    pub table: String,
    pub label: Option<String>,
}

/// One minute of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stats {
    pub minimum: f64,
    pub maximum: f64,
    pub sum: f64,
    pub count: f64,
}

impl Stats {
    const NONE: Stats = Stats {
        minimum: f64::INFINITY,
        maximum: f64::NEG_INFINITY,
        sum: 0.0,
        count: 0.0,
    };

    fn add(&mut self, value: f64) {
        self.merge(&Stats {
            minimum: value,
            maximum: value,
            sum: value,
            count: 1.0,
        });
    }

    fn merge(&mut self, other: &Stats) {
        self.minimum = self.minimum.min(other.minimum);
        self.maximum = self.maximum.max(other.maximum);
        self.sum += other.sum;
        self.count += other.count;
    }

    /// A statistic by its name.
    pub fn get(&self, statistic: &str) -> Option<f64> {
        match statistic {
            "Minimum" => Some(self.minimum),
            "Maximum" => Some(self.maximum),
            "Sum" => Some(self.sum),
            "SampleCount" => Some(self.count),
            "Average" => Some(self.sum / self.count),
            _ => None,
        }
    }
}

/// The statistics that [`Stats::get`] knows.
pub(crate) const STATISTICS: [&str; 5] = ["Minimum", "Maximum", "Sum", "SampleCount", "Average"];

type Series = (Metric, Dimensions);

/// Totals since the start, for scrapers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Calls by operation and outcome: `ok`, or an error's name.
    pub calls: BTreeMap<(&'static str, &'static str), u64>,
    /// Seconds spent on successful calls, by operation.
    pub seconds: BTreeMap<&'static str, f64>,
    /// Records returned, by keyspace, table and stream label.
    pub records: BTreeMap<(String, String, String), u64>,
    /// Calls about one stream, by keyspace, table, stream label and outcome.
    pub stream_calls: BTreeMap<(String, String, String), StreamCalls>,
}

/// Calls about one stream since the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamCalls {
    /// By outcome: `ok`, or an error's name.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Seconds spent on successful ones.
    pub seconds: f64,
}

impl Totals {
    /// One that was refused is counted only for a stream of which another call was served.
    fn count_of_stream(
        &mut self,
        subject: Option<&Subject>,
        is_ok: bool,
        (name, millis): (&'static str, f64),
    ) {
        let Some((subject, label)) =
            subject.and_then(|subject| Some((subject, subject.label.as_ref()?)))
        else {
            return;
        };
        let key = (
            subject.keyspace.clone(),
            subject.table.clone(),
            label.clone(),
        );
        let is_new = !self.stream_calls.contains_key(&key);
        if is_new && (!is_ok || self.stream_calls.len() >= SERIES_MAX) {
            return;
        }
        let calls = self.stream_calls.entry(key).or_default();
        *calls.outcomes.entry(name).or_default() += 1;
        if is_ok {
            calls.seconds += millis / 1000.0;
        }
    }
}

/// All counts.
#[derive(Default)]
pub struct Metrics {
    series: Mutex<HashMap<Series, VecDeque<(i64, Stats)>>>,
    totals: Mutex<Totals>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sets of dimensions that one value is counted under.
fn dimension_sets(operation: Operation, subject: Option<&Subject>) -> Vec<Dimensions> {
    let Some(subject) = subject else {
        return vec![vec![("Operation", operation.name().into())]];
    };
    let table: Dimensions = vec![
        ("Keyspace", subject.keyspace.clone()),
        ("Operation", operation.name().into()),
        ("TableName", subject.table.clone()),
    ];
    let mut sets = vec![table.clone()];
    if let Some(label) = &subject.label {
        let mut labelled = table;
        labelled.insert(2, ("StreamLabel", label.clone()));
        sets.push(labelled);
    }
    sets
}

impl Metrics {
    fn add(&self, metric: Metric, sets: Vec<Dimensions>, now_us: i64, value: f64) {
        let minute = now_us.div_euclid(MINUTE_US);
        let mut series = locked(&self.series);
        for set in sets {
            if series.len() >= SERIES_MAX && !series.contains_key(&(metric, set.clone())) {
                forget_old(&mut series, minute);
                if series.len() >= SERIES_MAX {
                    return;
                }
            }
            let minutes = series.entry((metric, set)).or_default();
            match minutes.back_mut() {
                Some((last, stats)) if *last >= minute => stats.add(value),
                _ => {
                    let mut stats = Stats::NONE;
                    stats.add(value);
                    minutes.push_back((minute, stats));
                }
            }
            while minutes
                .front()
                .is_some_and(|(first, _)| *first < minute - MINUTES_KEPT)
            {
                minutes.pop_front();
            }
        }
    }

    /// Counts one value of a call.
    pub(crate) fn measure(
        &self,
        metric: Metric,
        (operation, subject): (Operation, Option<&Subject>),
        now_us: i64,
        value: f64,
    ) {
        self.add(metric, dimension_sets(operation, subject), now_us, value);
    }

    /// Counts records that were returned.
    pub(crate) fn returned(&self, subject: &Subject, count: u64) {
        let mut totals = locked(&self.totals);
        let label = subject.label.clone().unwrap_or_default();
        let key = (subject.keyspace.clone(), subject.table.clone(), label);
        if totals.records.len() < SERIES_MAX || totals.records.contains_key(&key) {
            *totals.records.entry(key).or_default() += count;
        }
    }

    /// Counts a call that has ended. Only a call that was served tells its table: names that strangers make up are no
    /// series.
    pub(crate) fn ended(
        &self,
        (operation, subject): (Operation, Option<&Subject>),
        outcome: Result<(), &ApiError>,
        (now_us, millis): (i64, f64),
    ) {
        let name = outcome.map_or_else(|error| error.code.name(), |()| "ok");
        {
            let mut totals = locked(&self.totals);
            *totals.calls.entry((operation.name(), name)).or_default() += 1;
            if outcome.is_ok() {
                *totals.seconds.entry(operation.name()).or_default() += millis / 1000.0;
            }
            totals.count_of_stream(subject, outcome.is_ok(), (name, millis));
        }
        match outcome {
            Ok(()) => {
                let metric = Metric::SuccessfulRequestLatency;
                self.measure(metric, (operation, subject), now_us, millis);
            }
            Err(error) if error.is_server_fault() => {
                self.measure(Metric::SystemErrors, (operation, subject), now_us, 1.0);
            }
            Err(_) => {
                let sets = vec![Vec::new(), vec![("Operation", operation.name().into())]];
                self.add(Metric::UserErrors, sets, now_us, 1.0);
            }
        }
    }

    /// Totals since the start.
    pub fn totals(&self) -> Totals {
        locked(&self.totals).clone()
    }

    /// Every series.
    pub(crate) fn list(&self) -> Vec<Series> {
        let mut all: Vec<Series> = locked(&self.series).keys().cloned().collect();
        all.sort();
        all
    }

    /// One series between two times, by periods of whole minutes, oldest first.
    pub(crate) fn read(
        &self,
        metric: Metric,
        dimensions: &[(String, String)],
        (from_us, to_us): (i64, i64),
        period_s: i64,
    ) -> Vec<(i64, Stats)> {
        let named = |(name, value): &(String, String)| {
            let known = DIMENSIONS.iter().find(|known| *known == name)?;
            Some((*known, value.clone()))
        };
        let Some(mut wanted) = dimensions.iter().map(named).collect::<Option<Dimensions>>() else {
            return Vec::new();
        };
        wanted.sort_unstable();
        // Times as far off as a client likes.
        let first = from_us.div_euclid(MINUTE_US);
        let series = locked(&self.series);
        let found = series.get(&(metric, wanted));
        let mut periods: BTreeMap<i64, Stats> = BTreeMap::new();
        for (minute, stats) in found.into_iter().flatten() {
            if *minute < first || minute * MINUTE_US >= to_us {
                continue;
            }
            let start = (minute * 60).div_euclid(period_s) * period_s;
            periods.entry(start).or_insert(Stats::NONE).merge(stats);
        }
        periods.into_iter().collect()
    }
}

fn forget_old(series: &mut HashMap<Series, VecDeque<(i64, Stats)>>, minute: i64) {
    series.retain(|_, minutes| {
        minutes
            .back()
            .is_some_and(|(last, _)| *last >= minute - MINUTES_KEPT)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject {
            keyspace: "shop".into(),
            table: "orders".into(),
            label: Some("l".into()),
        }
    }

    #[test]
    fn values_are_counted_by_minute_under_both_sets_of_dimensions() {
        let metrics = Metrics::default();
        let about = subject();
        for (minute, value) in [(10, 3.0), (10, 5.0), (11, 1.0)] {
            let at = minute * MINUTE_US + 1;
            metrics.measure(
                Metric::ReturnedRecordsCount,
                (Operation::GetRecords, Some(&about)),
                at,
                value,
            );
        }
        assert_eq!(metrics.list().len(), 2);
        let named = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs
                .iter()
                .map(|(n, v)| ((*n).into(), (*v).into()))
                .collect()
        };
        let table = named(&[
            ("TableName", "orders"),
            ("Keyspace", "shop"),
            ("Operation", "GetRecords"),
        ]);
        let read = |dimensions: &[(String, String)], period| {
            metrics.read(
                Metric::ReturnedRecordsCount,
                dimensions,
                (0, 100 * MINUTE_US),
                period,
            )
        };
        let minutes = read(&table, 60);
        assert_eq!(minutes.len(), 2);
        assert_eq!(minutes[0].0, 600);
        let first = minutes[0].1;
        assert_eq!(
            (
                first.get("Sum"),
                first.get("Average"),
                first.get("SampleCount")
            ),
            (Some(8.0), Some(4.0), Some(2.0))
        );
        assert_eq!(
            read(&table, 300).iter().map(|(_, s)| s.sum).sum::<f64>(),
            9.0
        );
        let mut labelled = table.clone();
        labelled.push(("StreamLabel".into(), "l".into()));
        assert_eq!(read(&labelled, 60).len(), 2);
        assert_eq!(read(&table[..2], 60), []);
        let other = named(&[("Made", "up")]);
        assert_eq!(read(&other, 60), []);
        let metric = Metric::ReturnedRecordsCount;
        let ever = metrics.read(metric, &table, (i64::MIN, i64::MAX), 60);
        assert_eq!(ever.len(), 2, "however far off the times are");
    }

    #[test]
    fn calls_are_counted_by_stream_once_one_was_served() {
        let metrics = Metrics::default();
        let about = subject();
        let refused = ApiError::invalid("no");
        let call = (Operation::GetRecords, Some(&about));
        metrics.ended(call, Err(&refused), (1, 5.0));
        assert!(metrics.totals().stream_calls.is_empty());
        metrics.ended(call, Ok(()), (1, 500.0));
        metrics.ended(call, Err(&refused), (1, 5.0));
        let totals = metrics.totals();
        let calls = totals.stream_calls.values().next().unwrap();
        assert_eq!(calls.seconds, 0.5);
        assert_eq!(
            calls.outcomes,
            [("ValidationException", 1), ("ok", 1)].into()
        );
    }

    #[test]
    fn a_day_is_kept() {
        let metrics = Metrics::default();
        for minute in 0..MINUTES_KEPT + 100 {
            metrics.measure(
                Metric::SystemErrors,
                (Operation::GetStream, None),
                minute * MINUTE_US,
                1.0,
            );
        }
        let all = metrics.read(
            Metric::SystemErrors,
            &[("Operation".into(), "GetStream".into())],
            (0, i64::MAX),
            60,
        );
        assert_eq!(all.len() as i64, MINUTES_KEPT + 1);
    }
}
