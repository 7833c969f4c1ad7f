//! The SDK's clients without their futures, and a consumer that reads a stream by lineage.
#![allow(
    clippy::unwrap_used,
    clippy::result_large_err,
    reason = "a test may fail, with the SDK's own errors"
)]

use crate::support::{History, Rng};
use aws_sdk_keyspacesstreams as streams;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};
use streams::config::{BehaviorVersion, Credentials, Region, retry::RetryConfig};
use streams::error::SdkError;
use streams::operation::get_records::{GetRecordsError, GetRecordsOutput};
use streams::operation::get_shard_iterator::GetShardIteratorError;
use streams::operation::get_stream::GetStreamOutput;
use streams::types::{KeyspacesCellValue, KeyspacesRow, Record, ShardIteratorType, StreamStatus};

/// How long the endpoint may be away: it is killed and starts again.
const AWAY: Duration = Duration::from_secs(60);

/// Both clients of one endpoint.
pub struct Api {
    pub endpoint: String,
    pub streams: streams::Client,
    pub tables: aws_sdk_keyspaces::Client,
    runtime: tokio::runtime::Runtime,
}

impl Api {
    pub fn new(endpoint: &str) -> Self {
        Self::with_key(endpoint, "admin", "admin-secret")
    }

    pub fn with_key(endpoint: &str, key: &str, secret: &str) -> Self {
        Self::in_region("us-east-1", endpoint, key, secret)
    }

    pub fn in_region(region: &'static str, endpoint: &str, key: &str, secret: &str) -> Self {
        let http = aws_smithy_http_client::Builder::new().build_http();
        let credentials = Credentials::new(key, secret, None, None, "test");
        let config = streams::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(region))
            .endpoint_url(endpoint)
            .credentials_provider(credentials.clone())
            .retry_config(RetryConfig::standard().with_max_attempts(8))
            .http_client(http.clone())
            .build();
        let tables = aws_sdk_keyspaces::Config::builder()
            .behavior_version(aws_sdk_keyspaces::config::BehaviorVersion::latest())
            .region(aws_sdk_keyspaces::config::Region::new(region))
            .endpoint_url(endpoint)
            .credentials_provider(credentials)
            .http_client(http)
            .build();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Self {
            endpoint: endpoint.to_owned(),
            streams: streams::Client::from_conf(config),
            tables: aws_sdk_keyspaces::Client::from_conf(tables),
            runtime: runtime.unwrap(),
        }
    }

    pub fn run<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// Asks again while nobody listens.
    fn ask<T, E: std::fmt::Debug, F: Future<Output = Result<T, SdkError<E>>>>(
        &self,
        call: impl Fn() -> F,
    ) -> Result<T, SdkError<E>> {
        let since = Instant::now();
        loop {
            match self.run(call()) {
                Err(
                    SdkError::DispatchFailure(_)
                    | SdkError::TimeoutError(_)
                    | SdkError::ResponseError(_),
                ) if since.elapsed() < AWAY => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                answered => return answered,
            }
        }
    }

    /// The ARN of a table's stream, once it is enabled.
    pub fn enabled(&self, keyspace: &str, table: &str) -> String {
        let since = Instant::now();
        loop {
            let list = self
                .ask(|| {
                    self.streams
                        .list_streams()
                        .keyspace_name(keyspace)
                        .table_name(table)
                        .send()
                })
                .unwrap();
            if let Some(found) = list.streams().first()
                && self.get_stream(found.stream_arn()).stream_status() == &StreamStatus::Enabled
            {
                return found.stream_arn().to_owned();
            }
            assert!(since.elapsed() < AWAY, "no stream of {keyspace}.{table}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A stream with all its shards.
    pub fn get_stream(&self, arn: &str) -> GetStreamOutput {
        self.pages(arn, 100).pop().unwrap()
    }

    /// Its pages.
    fn pages(&self, arn: &str, size: i32) -> Vec<GetStreamOutput> {
        let mut pages: Vec<GetStreamOutput> = Vec::new();
        loop {
            let token = pages
                .last()
                .and_then(|page| page.next_token().map(str::to_owned));
            if token.is_none() && !pages.is_empty() {
                return pages;
            }
            let call = || {
                self.streams
                    .get_stream()
                    .stream_arn(arn)
                    .max_results(size)
                    .set_next_token(token.clone())
                    .send()
            };
            pages.push(self.ask(call).unwrap());
        }
    }

    pub fn iterator(
        &self,
        arn: &str,
        shard: &str,
        kind: ShardIteratorType,
        number: Option<String>,
    ) -> Result<String, SdkError<GetShardIteratorError>> {
        let call = || {
            let request = self
                .streams
                .get_shard_iterator()
                .stream_arn(arn)
                .shard_id(shard);
            request
                .shard_iterator_type(kind.clone())
                .set_sequence_number(number.clone())
                .send()
        };
        Ok(self.ask(call)?.shard_iterator().unwrap().to_owned())
    }

    pub fn records(
        &self,
        iterator: &str,
        count: i32,
    ) -> Result<GetRecordsOutput, SdkError<GetRecordsError>> {
        self.ask(|| {
            self.streams
                .get_records()
                .shard_iterator(iterator)
                .max_results(count)
                .send()
        })
    }
}

/// A sequence number.
pub fn number(text: Option<&str>) -> u128 {
    text.unwrap().parse().unwrap()
}

fn value_text(value: &KeyspacesCellValue) -> &str {
    match value {
        KeyspacesCellValue::BigintT(text)
        | KeyspacesCellValue::IntT(text)
        | KeyspacesCellValue::TextT(text)
        | KeyspacesCellValue::VarcharT(text) => text,
        other => panic!("{other:?}"),
    }
}

/// As the writer remembers rows.
fn row_text(row: &KeyspacesRow) -> String {
    let cells = row.value_cells().unwrap();
    let mut text = String::new();
    for name in ["id", "v", "s"] {
        let value = cells.get(name).and_then(|cell| cell.value());
        let Some(value) = value else { continue };
        let space = if text.is_empty() { "" } else { " " };
        text += &format!("{space}{name}={}", value_text(value));
    }
    text
}

#[derive(Default)]
struct ShardState {
    starting: String,
    parents: Vec<String>,
    is_closed: bool,
    is_finished: bool,
    last: Option<String>,
    next: Option<String>,
}

/// Reads a whole stream and remembers what it saw.
#[derive(Default)]
pub struct Consumer {
    shards: BTreeMap<String, ShardState>,
    pub seen: History,
    pub records: u64,
}

impl Consumer {
    /// Looks at the stream's shards.
    fn look(&mut self, api: &Api, arn: &str, page_size: i32) {
        for page in api.pages(arn, page_size) {
            for shard in page.shards() {
                let range = shard.sequence_number_range().unwrap();
                let state = self
                    .shards
                    .entry(shard.shard_id().unwrap().to_owned())
                    .or_default();
                state.starting = range.starting_sequence_number().unwrap().to_owned();
                state.parents = shard.parent_shard_ids().to_vec();
                state.is_closed = range.ending_sequence_number().is_some();
            }
        }
    }

    pub fn open_shards(&mut self, api: &Api, arn: &str) -> Vec<String> {
        self.look(api, arn, 100);
        let open = self.shards.iter().filter(|(_, state)| !state.is_closed);
        open.map(|(id, _)| id.clone()).collect()
    }

    /// One round over all shards whose parents are finished; whether all are.
    pub fn step(&mut self, api: &Api, arn: &str, random: &mut Rng) -> bool {
        self.look(api, arn, 1 + random.below(7) as i32);
        let ids: Vec<String> = self.shards.keys().cloned().collect();
        for id in &ids {
            let state = &self.shards[id];
            let waits = |parent: &String| {
                self.shards
                    .get(parent)
                    .is_some_and(|state| !state.is_finished)
            };
            if !state.is_finished && !state.parents.iter().any(waits) {
                self.read(api, arn, id, random);
            }
        }
        self.shards.values().all(|state| state.is_finished)
    }

    /// Where to go on, by an iterator type chosen at random among those that lead to the same place.
    fn start(&self, api: &Api, arn: &str, id: &str, random: &mut Rng) -> String {
        let state = &self.shards[id];
        if let Some(next) = &state.next
            && random.chance(70)
        {
            return next.clone();
        }
        let (kind, number) = match (&state.last, random.below(2)) {
            (Some(last), _) => (ShardIteratorType::AfterSequenceNumber, Some(last.clone())),
            (None, 0) => (ShardIteratorType::TrimHorizon, None),
            (None, _) => (
                ShardIteratorType::AtSequenceNumber,
                Some(state.starting.clone()),
            ),
        };
        api.iterator(arn, id, kind, number).unwrap()
    }

    fn read(&mut self, api: &Api, arn: &str, id: &str, random: &mut Rng) {
        for _ in 0..1 + random.below(3) {
            let from = self.start(api, arn, id, random);
            let page = api.records(&from, 1 + random.below(300) as i32).unwrap();
            for record in page.change_records() {
                self.take(id, record);
            }
            let state = self.shards.get_mut(id).unwrap();
            state.next = page.next_shard_iterator().map(str::to_owned);
            if state.next.is_none() {
                state.is_finished = true;
                return;
            }
            if page.change_records().is_empty() {
                return;
            }
        }
    }

    fn take(&mut self, id: &str, record: &Record) {
        let state = self.shards.get_mut(id).unwrap();
        let at = number(record.sequence_number());
        assert!(at >= number(Some(&state.starting)));
        if let Some(last) = &state.last {
            assert!(at > number(Some(last)), "numbers rise");
        }
        state.last = record.sequence_number().map(str::to_owned);
        let key = value_text(&record.partition_keys().unwrap()["id"])
            .parse()
            .unwrap();
        let images = (
            record.old_image().map(row_text),
            record.new_image().map(row_text),
        );
        self.seen.entry(key).or_default().push(images);
        self.records += 1;
    }

    /// As a consumer that was killed.
    pub fn forget_iterators(&mut self) {
        self.shards.values_mut().for_each(|state| state.next = None);
    }

    /// Everything, of a stream that is disabled.
    pub fn drain(&mut self, api: &Api, arn: &str, random: &mut Rng) {
        let since = Instant::now();
        while !self.step(api, arn, random) {
            assert!(
                since.elapsed() < 2 * AWAY,
                "the stream does not come to its end"
            );
        }
    }
}
