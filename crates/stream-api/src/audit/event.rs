//! One record, as CloudTrail shapes it.

use super::Happened;
use crate::call::Principal;
use crate::time;
use serde_json::{Map, Value, json};
use stream::Identity;

pub(super) fn render(happened: &Happened<'_>, identity: &Identity) -> Map<String, Value> {
    let facts = &happened.facts;
    let caller = happened.caller;
    let mut event = Map::new();
    let mut put = |name: &str, value: Value| {
        event.insert(name.to_owned(), value);
    };
    put("eventVersion", "1.09".into());
    put("userIdentity", user(happened.principal, identity));
    put("eventTime", time::seconds(happened.at_us).into());
    put("eventSource", facts.service.event_source().into());
    put("eventName", facts.event.into());
    put("awsRegion", identity.region.clone().into());
    let address = caller
        .address
        .map(|address| address.ip().to_canonical().to_string());
    put(
        "sourceIPAddress",
        address.unwrap_or_else(|| "local".into()).into(),
    );
    put("userAgent", short(&caller.user_agent).into());
    if let Some(error) = happened.error {
        put(
            "errorCode",
            error.code.name().trim_end_matches("Exception").into(),
        );
        put("errorMessage", short(&error.message).into());
    }
    put("requestParameters", parameters(happened));
    put("responseElements", Value::Null);
    put("requestID", happened.request_id.into());
    put("eventID", happened.event_id.into());
    put("readOnly", facts.is_read_only.into());
    put("resources", resources(happened, identity));
    put("eventType", "AwsApiCall".into());
    put("apiVersion", api_version(facts.service).into());
    put("managementEvent", facts.is_management.into());
    put("recipientAccountId", identity.account.clone().into());
    let category = if facts.is_management {
        "Management"
    } else {
        "Data"
    };
    put("eventCategory", category.into());
    // What was called, where the record's name is another: UpdateTable is AlterTable.
    if facts.event != facts.name {
        put("additionalEventData", json!({"operation": facts.name}));
    }
    if let Some(tls) = &caller.tls {
        put(
            "tlsDetails",
            json!({
                "tlsVersion": tls.version,
                "cipherSuite": tls.cipher_suite,
                "clientProvidedHostHeader": short(&caller.host),
            }),
        );
    }
    event
}

fn short(text: &str) -> String {
    text.chars().take(512).collect()
}

fn api_version(service: crate::wire::Service) -> &'static str {
    use crate::wire::Service;
    match service {
        Service::Streams => "2024-09-09",
        Service::Keyspaces => "2022-02-10",
        Service::CloudWatch => "2010-08-01",
    }
}

fn user(principal: Option<&Principal>, identity: &Identity) -> Value {
    match principal {
        None => json!({"type": "Unknown"}),
        Some(Principal::Key(key)) => json!({
            "type": "IAMUser",
            "principalId": key.id,
            "arn": key.arn,
            "accountId": identity.account,
            "accessKeyId": key.id,
            "userName": key.user,
        }),
        Some(Principal::Local(user)) => json!({
            "type": "LocalUser",
            "principalId": format!("uid:{}", user.uid),
            "arn": format!("arn:{}:iam::{}:user/local/{}", identity.partition, identity.account, user.name),
            "accountId": identity.account,
            "userName": user.name,
        }),
    }
}

fn parameters(happened: &Happened<'_>) -> Value {
    match happened.parameters.is_empty() {
        true => Value::Null,
        false => Value::Object(happened.parameters.clone()),
    }
}

fn resources(happened: &Happened<'_>, identity: &Identity) -> Value {
    let one = |arn: &String| {
        json!({
            "accountId": identity.account,
            "type": "AWS::Cassandra::Table",
            "ARN": short(arn),
        })
    };
    Value::Array(
        happened
            .resources
            .iter()
            .filter(|arn| *arn != "*")
            .map(one)
            .collect(),
    )
}
