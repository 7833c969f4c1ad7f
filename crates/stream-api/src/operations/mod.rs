//! The operations: one file each, and one table of what they are.
//!
//! **To add one:** its variant and its row in [`Operation::facts`], a file with `Request`, the answer and `run`, and its
//! arm in `dispatch`.

mod create_table;
mod get_keyspace;
mod get_metric_data;
mod get_metric_statistics;
mod get_records;
mod get_shard_iterator;
mod get_stream;
mod get_table;
mod list_keyspaces;
mod list_metrics;
mod list_streams;
mod list_tables;
mod list_tags_for_resource;
mod shapes;
pub(crate) mod tag_resource;
pub(crate) mod untag_resource;
pub(crate) mod update_table;

use crate::call::Call;
use crate::error::ApiError;
use crate::wire::Service;

pub(crate) use shapes::{CdcSpecification, Tag, TagRequest};

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Streams, by keyspace and table.
    ListStreams,
    /// One stream and its shards.
    GetStream,
    /// A place in a shard.
    GetShardIterator,
    /// Records from a place on.
    GetRecords,
    /// Adopts a table of the source, and enables its stream.
    CreateTable,
    /// One keyspace.
    GetKeyspace,
    /// One table and its stream.
    GetTable,
    /// Keyspaces.
    ListKeyspaces,
    /// Tables of a keyspace.
    ListTables,
    /// Tags of a keyspace, table or stream.
    ListTagsForResource,
    /// Sets tags.
    TagResource,
    /// Removes tags.
    UntagResource,
    /// Enables or disables a table's stream.
    UpdateTable,
    /// Metrics over time, several at once.
    GetMetricData,
    /// One metric over time.
    GetMetricStatistics,
    /// Which metrics there are.
    ListMetrics,
}

/// What an operation is to policies and to the audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its service.
    pub service: Service,
    /// Its name on the wire.
    pub name: &'static str,
    /// The action that a policy has to allow.
    pub action: &'static str,
    /// The name in audit records.
    pub event: &'static str,
    /// A management event; else a data event.
    pub is_management: bool,
    /// Whether it changes nothing.
    pub is_read_only: bool,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 16] = [
        Operation::ListStreams,
        Operation::GetStream,
        Operation::GetShardIterator,
        Operation::GetRecords,
        Operation::CreateTable,
        Operation::GetKeyspace,
        Operation::GetTable,
        Operation::ListKeyspaces,
        Operation::ListTables,
        Operation::ListTagsForResource,
        Operation::TagResource,
        Operation::UntagResource,
        Operation::UpdateTable,
        Operation::GetMetricData,
        Operation::GetMetricStatistics,
        Operation::ListMetrics,
    ];

    /// What it is.
    pub fn facts(self) -> Facts {
        use Operation as O;
        use Service::{CloudWatch, Keyspaces, Streams};
        let (service, name, action, event, is_management, is_read_only) = match self {
            O::ListStreams => (
                Streams,
                "ListStreams",
                "cassandra:ListStreams",
                "ListStreams",
                true,
                true,
            ),
            O::GetStream => (
                Streams,
                "GetStream",
                "cassandra:GetStream",
                "GetStream",
                true,
                true,
            ),
            O::GetShardIterator => (
                Streams,
                "GetShardIterator",
                "cassandra:GetShardIterator",
                "GetShardIterator",
                false,
                true,
            ),
            O::GetRecords => (
                Streams,
                "GetRecords",
                "cassandra:GetRecords",
                "GetRecords",
                false,
                true,
            ),
            O::CreateTable => (
                Keyspaces,
                "CreateTable",
                "cassandra:Create",
                "CreateTable",
                true,
                false,
            ),
            O::GetKeyspace => (
                Keyspaces,
                "GetKeyspace",
                "cassandra:Select",
                "Select",
                false,
                true,
            ),
            O::GetTable => (
                Keyspaces,
                "GetTable",
                "cassandra:Select",
                "Select",
                false,
                true,
            ),
            O::ListKeyspaces => (
                Keyspaces,
                "ListKeyspaces",
                "cassandra:Select",
                "Select",
                false,
                true,
            ),
            O::ListTables => (
                Keyspaces,
                "ListTables",
                "cassandra:Select",
                "Select",
                false,
                true,
            ),
            O::ListTagsForResource => (
                Keyspaces,
                "ListTagsForResource",
                "cassandra:Select",
                "Select",
                false,
                true,
            ),
            O::TagResource => (
                Keyspaces,
                "TagResource",
                "cassandra:Alter",
                "AlterTable",
                true,
                false,
            ),
            O::UntagResource => (
                Keyspaces,
                "UntagResource",
                "cassandra:Alter",
                "AlterTable",
                true,
                false,
            ),
            O::UpdateTable => (
                Keyspaces,
                "UpdateTable",
                "cassandra:Alter",
                "AlterTable",
                true,
                false,
            ),
            O::GetMetricData => (
                CloudWatch,
                "GetMetricData",
                "cloudwatch:GetMetricData",
                "GetMetricData",
                false,
                true,
            ),
            O::GetMetricStatistics => (
                CloudWatch,
                "GetMetricStatistics",
                "cloudwatch:GetMetricStatistics",
                "GetMetricStatistics",
                false,
                true,
            ),
            O::ListMetrics => (
                CloudWatch,
                "ListMetrics",
                "cloudwatch:ListMetrics",
                "ListMetrics",
                false,
                true,
            ),
        };
        Facts {
            service,
            name,
            action,
            event,
            is_management,
            is_read_only,
        }
    }

    /// Its service.
    pub fn service(self) -> Service {
        self.facts().service
    }

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The operation of a service with this name.
    pub fn named(service: Service, name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.service() == service && operation.name() == name)
    }
}

/// Reads the request, does what it asks, and writes the answer.
pub(crate) fn dispatch(call: &mut Call<'_>, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let encoding = call.encoding;
    macro_rules! run {
        ($operation:ident) => {{
            let request = encoding.read(body)?;
            let answer = $operation::run(call, &request)?;
            encoding.write(&answer)
        }};
    }
    match call.operation {
        Operation::ListStreams => run!(list_streams),
        Operation::GetStream => run!(get_stream),
        Operation::GetShardIterator => run!(get_shard_iterator),
        Operation::GetRecords => get_records::run(call, &encoding.read(body)?),
        Operation::CreateTable => run!(create_table),
        Operation::GetKeyspace => run!(get_keyspace),
        Operation::GetTable => run!(get_table),
        Operation::ListKeyspaces => run!(list_keyspaces),
        Operation::ListTables => run!(list_tables),
        Operation::ListTagsForResource => run!(list_tags_for_resource),
        Operation::TagResource => run!(tag_resource),
        Operation::UntagResource => run!(untag_resource),
        Operation::UpdateTable => run!(update_table),
        Operation::GetMetricData => run!(get_metric_data),
        Operation::GetMetricStatistics => run!(get_metric_statistics),
        Operation::ListMetrics => run!(list_metrics),
    }
}

/// A member that has to be there.
pub(crate) fn required<'a, T: ?Sized>(
    name: &str,
    member: Option<&'a T>,
) -> Result<&'a T, ApiError> {
    member.ok_or_else(|| ApiError::invalid(format!("member `{name}` is missing")))
}

/// A text of so many characters.
pub(crate) fn check_length(
    name: &str,
    text: &str,
    range: std::ops::RangeInclusive<usize>,
) -> Result<(), ApiError> {
    match range.contains(&text.chars().count()) {
        true => Ok(()),
        false => Err(ApiError::invalid(format!(
            "member `{name}` has {} to {} characters",
            range.start(),
            range.end()
        ))),
    }
}

/// The number of items of a page.
pub(crate) fn page_size(
    asked: Option<i64>,
    default: usize,
    most: usize,
) -> Result<usize, ApiError> {
    match asked {
        None => Ok(default),
        Some(count) => usize::try_from(count)
            .ok()
            .filter(|count| (1..=most).contains(count))
            .ok_or_else(|| ApiError::invalid(format!("member `maxResults` is 1 to {most}"))),
    }
}

/// A keyspace's or table's name.
pub(crate) fn check_name(member: &str, name: &str) -> Result<(), ApiError> {
    match stream::name::is_valid(name) {
        true => Ok(()),
        false => Err(ApiError::invalid(format!(
            "member `{member}` is 1 to 48 letters, digits or _, and begins with a letter or digit"
        ))),
    }
}

/// A page token's bounds.
pub(crate) fn check_token(token: Option<&String>) -> Result<Option<&str>, ApiError> {
    match token {
        Some(token) if token.is_empty() || token.len() > 3000 => Err(ApiError::invalid(
            "member `nextToken` has 1 to 3000 characters",
        )),
        token => Ok(token.map(String::as_str)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_name() {
        for operation in Operation::ALL {
            let facts = operation.facts();
            assert_eq!(Operation::named(facts.service, facts.name), Some(operation));
        }
        assert_eq!(Operation::named(Service::Streams, "GetTable"), None);
    }
}
