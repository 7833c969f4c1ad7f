//! The reference page of operations and errors, written from the code: `UPDATE_EXPECT=1` writes it anew.

use std::fmt::Write;
use stream_api::error::Code;
use stream_api::metrics::Metric;
use stream_api::operations::Operation;
use stream_api::wire::Service;

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/reference/streams-api.md"
);

fn boto3(service: Service) -> &'static str {
    match service {
        Service::Streams => "keyspacesstreams",
        Service::Keyspaces => "keyspaces",
        Service::CloudWatch => "cloudwatch",
    }
}

fn page() -> String {
    let mut out = String::from(
        "# Stream API: operations and errors\n\nWritten by a test from the code (`cargo xtask gen`). How to use it: \
         [the guide](../guides/streams-api.md).\n\n## Operations\n\n| Operation | boto3 client | Action in policies | Audit \
         record | Event |\n|---|---|---|---|---|\n",
    );
    for operation in Operation::ALL {
        let facts = operation.facts();
        let class = if facts.is_management {
            "management"
        } else {
            "data"
        };
        let _ = writeln!(
            out,
            "| `{}` | `{}` | `{}` | `{}` | {class} |",
            facts.name,
            boto3(facts.service),
            facts.action,
            facts.event
        );
    }
    out.push_str(
        "\n`keyspacesstreams` and `cloudwatch` are answered in AWS JSON 1.0, `keyspaces` also in Smithy RPC v2 CBOR, which the \
         Rust SDK sends. Members that a request has and this server does not know are ignored.\n\n## Errors\n\nThe status is \
         that of `keyspacesstreams`, then that of `keyspaces` and `cloudwatch`. SDKs try again after \
         `InternalServerException` and `ThrottlingException`.\n\n| `__type` | `errorCode` | Status |\n|---|---|---|\n",
    );
    for code in Code::ALL {
        let fault = match code {
            Code::Validation(fault) => format!("`{}`", fault.as_str()),
            _ => String::new(),
        };
        let (one, other) = (
            code.status(Service::Streams),
            code.status(Service::Keyspaces),
        );
        let status = if one == other {
            one.to_string()
        } else {
            format!("{one}, {other}")
        };
        let _ = writeln!(out, "| `{}` | {fault} | {status} |", code.name());
    }
    out.push_str("\n## Metrics\n\nNamespace `AWS/Cassandra`, by the minute, for 24 hours.\n\n| Metric | Unit |\n|---|---|\n");
    for metric in Metric::ALL {
        let _ = writeln!(out, "| `{}` | {} |", metric.name(), metric.unit());
    }
    out.push_str(
        "\nDimensions: `Keyspace`, `TableName`, `Operation`, and the same with `StreamLabel`; `Operation` alone for calls that \
         name no table; none for `UserErrors` of the whole server.\n",
    );
    out
}

#[test]
fn the_page_is_what_the_code_says() {
    let page = page();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/streams-api.md is old; UPDATE_EXPECT=1 writes it anew"
    );
}
