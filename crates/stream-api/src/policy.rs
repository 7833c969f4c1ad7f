//! Who may do what: policies in IAM's JSON form.
//!
//! Promises: nothing is allowed that no statement allows; a `Deny` beats every `Allow`. What a policy says and this room
//! does not know (a condition, an effect, a version) is refused when it is loaded, never ignored.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A policy as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// `2012-10-17`, or the older `2008-10-17`.
    #[serde(rename = "Version", default = "version_default")]
    version: String,
    #[serde(rename = "Id", default)]
    _id: Option<String>,
    #[serde(rename = "Statement")]
    statements: OneOrMany<Statement>,
}

fn version_default() -> String {
    "2012-10-17".into()
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    #[serde(rename = "Sid", default)]
    _sid: Option<String>,
    #[serde(rename = "Effect")]
    effect: Effect,
    #[serde(rename = "Principal", default)]
    principal: Option<Principal>,
    #[serde(rename = "Action", default)]
    action: Option<OneOrMany<String>>,
    #[serde(rename = "NotAction", default)]
    not_action: Option<OneOrMany<String>>,
    #[serde(rename = "Resource", default)]
    resource: Option<OneOrMany<String>>,
    #[serde(rename = "NotResource", default)]
    not_resource: Option<OneOrMany<String>>,
    #[serde(rename = "Condition", default)]
    condition: BTreeMap<String, BTreeMap<String, OneOrMany<Text>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Effect {
    Allow,
    Deny,
}

/// `"*"`, or `{"AWS": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Principal {
    All(String),
    Named {
        #[serde(rename = "AWS")]
        aws: OneOrMany<String>,
    },
}

/// A text; booleans of conditions are written both ways.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Flag(bool),
            Text(String),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Flag(flag) => Text(flag.to_string()),
            Either::Text(text) => Text(text),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OneOrMany<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visit<T> {
            type Value = Vec<T>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("one, or a list")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(text.into_deserializer())?])
            }
            fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(flag.into_deserializer())?])
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
                let one = T::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(vec![one])
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<Vec<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = list.next_element()? {
                    all.push(item);
                }
                Ok(all)
            }
        }
        deserializer
            .deserialize_any(Visit(std::marker::PhantomData))
            .map(OneOrMany)
    }
}

/// What is asked, by whom, from where.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// As `cassandra:GetRecords`.
    pub action: &'a str,
    /// An ARN; `*` for actions that have none.
    pub resource: &'a str,
    /// The caller's ARN.
    pub principal: &'a str,
    /// The caller's name.
    pub user: &'a str,
    /// The caller's address; none for the local socket.
    pub address: Option<IpAddr>,
    /// Whether the call came over TLS.
    pub is_encrypted: bool,
}

/// What policies say to an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A statement allows it and none denies it.
    Allowed,
    /// A statement denies it.
    Denied,
    /// No statement speaks of it.
    Silent,
}

/// What all `policies` together say.
pub fn judge<'p>(policies: impl IntoIterator<Item = &'p Policy>, ask: &Ask<'_>) -> Verdict {
    let mut verdict = Verdict::Silent;
    for statement in policies.into_iter().flat_map(|policy| &policy.statements.0) {
        if !statement.applies(ask) {
            continue;
        }
        match statement.effect {
            Effect::Deny => return Verdict::Denied,
            Effect::Allow => verdict = Verdict::Allowed,
        }
    }
    verdict
}

impl Policy {
    /// A policy that allows everything: what a listener without one has.
    pub fn allow_all() -> Self {
        let any = || Some(OneOrMany(vec!["*".to_owned()]));
        Self {
            version: version_default(),
            _id: None,
            statements: OneOrMany(vec![Statement {
                _sid: None,
                effect: Effect::Allow,
                principal: None,
                action: any(),
                not_action: None,
                resource: any(),
                not_resource: None,
                condition: BTreeMap::new(),
            }]),
        }
    }

    /// Reads a policy's JSON.
    ///
    /// Errors: what is wrong, as a text.
    pub fn parse(json: &str) -> Result<Self, String> {
        let policy: Policy = serde_json::from_str(json).map_err(|error| error.to_string())?;
        policy.check()?;
        Ok(policy)
    }

    /// Whether all that it says is understood.
    ///
    /// Errors: what is not, as a text.
    pub fn check(&self) -> Result<(), String> {
        if self.version != "2012-10-17" && self.version != "2008-10-17" {
            return Err(format!("policy version `{}` is not known", self.version));
        }
        for (index, statement) in self.statements.0.iter().enumerate() {
            statement
                .check()
                .map_err(|text| format!("statement {}: {text}", index + 1))?;
        }
        Ok(())
    }
}

impl Statement {
    fn check(&self) -> Result<(), String> {
        if self.action.is_some() == self.not_action.is_some() {
            return Err("it needs either Action or NotAction".into());
        }
        if self.resource.is_some() == self.not_resource.is_some() {
            return Err("it needs either Resource or NotResource".into());
        }
        if let Some(Principal::All(text)) = &self.principal
            && text != "*"
        {
            return Err("Principal is \"*\" or {\"AWS\": …}".into());
        }
        self.check_variables()?;
        let actions = [&self.action, &self.not_action];
        for action in actions.into_iter().flatten().flat_map(|list| &list.0) {
            if action != "*" && !action.contains(':') {
                return Err(format!("action `{action}` is not SERVICE:ACTION"));
            }
        }
        for (operator, keys) in &self.condition {
            for (key, values) in keys {
                condition_check(operator, key, &values.0)?;
            }
        }
        Ok(())
    }

    /// Policy variables would be taken by the letter, and match what nobody meant.
    fn check_variables(&self) -> Result<(), String> {
        let named = match &self.principal {
            Some(Principal::Named { aws }) => aws.0.as_slice(),
            _ => &[],
        };
        let lists = [
            &self.action,
            &self.not_action,
            &self.resource,
            &self.not_resource,
        ];
        let patterns = lists.into_iter().flatten().flat_map(|list| &list.0);
        let values = self.condition.values().flat_map(BTreeMap::values);
        let values = values.flat_map(|values| &values.0).map(|value| &value.0);
        match patterns
            .chain(named)
            .chain(values)
            .find(|text| text.contains("${"))
        {
            Some(text) => Err(format!(
                "`{text}` has a policy variable, and those are not supported; write the name itself, in a policy of each user"
            )),
            None => Ok(()),
        }
    }

    fn applies(&self, ask: &Ask<'_>) -> bool {
        let is_one_of = |list: &OneOrMany<String>, text: &str, fold: bool| {
            list.0.iter().any(|pattern| matches(pattern, text, fold))
        };
        let by_action = match (&self.action, &self.not_action) {
            (Some(list), _) => is_one_of(list, ask.action, true),
            (_, Some(list)) => !is_one_of(list, ask.action, true),
            _ => false,
        };
        let by_resource = match (&self.resource, &self.not_resource) {
            (Some(list), _) => is_one_of(list, ask.resource, false),
            (_, Some(list)) => !is_one_of(list, ask.resource, false),
            _ => false,
        };
        let by_principal = match &self.principal {
            None | Some(Principal::All(_)) => true,
            Some(Principal::Named { aws }) => is_one_of(aws, ask.principal, false),
        };
        let by_condition = self.condition.iter().all(|(operator, keys)| {
            keys.iter()
                .all(|(key, values)| condition_holds(operator, key, &values.0, ask))
        });
        by_action && by_resource && by_principal && by_condition
    }
}

fn condition_check(operator: &str, key: &str, values: &[Text]) -> Result<(), String> {
    let key = key.to_ascii_lowercase();
    match (operator, key.as_str()) {
        ("IpAddress" | "NotIpAddress", "aws:sourceip") => {
            match values
                .iter()
                .find(|value| Network::parse(&value.0).is_none())
            {
                Some(wrong) => Err(format!("`{}` is no address or network", wrong.0)),
                None => Ok(()),
            }
        }
        ("Bool", "aws:securetransport") => {
            match values.iter().find(|value| value.0.parse::<bool>().is_err()) {
                Some(wrong) => Err(format!("`{}` is neither true nor false", wrong.0)),
                None => Ok(()),
            }
        }
        (
            "StringEquals" | "StringNotEquals" | "StringLike" | "StringNotLike",
            "aws:username" | "aws:principalarn",
        ) => Ok(()),
        _ => Err(format!(
            "condition {operator} on {key} is not supported; there are IpAddress and NotIpAddress on aws:SourceIp, \
             Bool on aws:SecureTransport, StringEquals, StringNotEquals, StringLike and StringNotLike on aws:username \
             and aws:PrincipalArn"
        )),
    }
}

fn condition_holds(operator: &str, key: &str, values: &[Text], ask: &Ask<'_>) -> bool {
    let text = match key.to_ascii_lowercase().as_str() {
        "aws:username" => ask.user,
        _ => ask.principal,
    };
    let any = |test: &dyn Fn(&str) -> bool| values.iter().any(|value| test(&value.0));
    let in_network = |value: &str| {
        Network::parse(value)
            .zip(ask.address)
            .is_some_and(|(network, address)| network.holds(address))
    };
    match operator {
        "IpAddress" => any(&in_network),
        "NotIpAddress" => !any(&in_network),
        "Bool" => any(&|value| value.parse() == Ok(ask.is_encrypted)),
        "StringEquals" => any(&|value| value == text),
        "StringNotEquals" => !any(&|value| value == text),
        "StringLike" => any(&|value| matches(value, text, false)),
        "StringNotLike" => !any(&|value| matches(value, text, false)),
        _ => false,
    }
}

/// An address, or a network in CIDR form.
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits)),
            None => (text.parse::<IpAddr>().ok()?, None),
        };
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= bits_max)?,
            None => bits_max,
        };
        Some(Self { address, bits })
    }

    fn holds(&self, other: IpAddr) -> bool {
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                u32::from(net) & mask == u32::from(other) & mask
            }
            (IpAddr::V6(net), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                u128::from(net) & mask == u128::from(other) & mask
            }
            _ => false,
        }
    }
}

/// Whether `text` is what `pattern` says: `*` is any run of characters, `?` any one. Linear in both, whatever they are.
pub(crate) fn matches(pattern: &str, text: &str, fold_case: bool) -> bool {
    let same = |a: u8, b: u8| match fold_case {
        true => a.eq_ignore_ascii_case(&b),
        false => a == b,
    };
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and the text up to which it reaches.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&wanted) if wanted == b'?' || same(wanted, text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                None => return false,
                Some((at, reach)) => {
                    *reach += 1;
                    (p, t) = (*at + 1, *reach);
                }
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask<'a>(action: &'a str, resource: &'a str) -> Ask<'a> {
        Ask {
            action,
            resource,
            principal: "arn:aws:iam::000000000000:user/ann",
            user: "ann",
            address: Some(IpAddr::from([10, 1, 2, 3])),
            is_encrypted: true,
        }
    }

    const ORDERS: &str = "arn:aws:cassandra:us-east-1:000000000000:/keyspace/shop/table/orders/stream/2026-01-01T00:00:00.000";

    fn verdict(statements: &str, action: &str) -> Verdict {
        let text = format!("{{\"Version\":\"2012-10-17\",\"Statement\":{statements}}}");
        judge([&Policy::parse(&text).unwrap()], &ask(action, ORDERS))
    }

    #[test]
    fn nothing_is_allowed_that_no_statement_allows() {
        assert_eq!(
            judge([], &ask("cassandra:GetRecords", ORDERS)),
            Verdict::Silent
        );
        let read = r#"{"Effect":"Allow","Action":"cassandra:Get*","Resource":"arn:aws:cassandra:*:*:/keyspace/shop/table/orders/stream/*"}"#;
        assert_eq!(verdict(read, "cassandra:GetRecords"), Verdict::Allowed);
        assert_eq!(verdict(read, "cassandra:getrecords"), Verdict::Allowed);
        assert_eq!(verdict(read, "cassandra:Alter"), Verdict::Silent);
        let other = r#"[{"Effect":"Allow","Action":["cassandra:*"],"Resource":["arn:aws:cassandra:*:*:/keyspace/shop/table/other/*"]}]"#;
        assert_eq!(verdict(other, "cassandra:GetRecords"), Verdict::Silent);
    }

    #[test]
    fn a_denial_beats_every_allowance() {
        let both = r#"[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"cassandra:GetRecords","Resource":"*"}]"#;
        assert_eq!(verdict(both, "cassandra:GetRecords"), Verdict::Denied);
        assert_eq!(verdict(both, "cassandra:GetStream"), Verdict::Allowed);
        let except = r#"{"Effect":"Deny","NotAction":"cassandra:Get*","NotResource":"arn:aws:cassandra:*:*:/keyspace/logs/*"}"#;
        assert_eq!(verdict(except, "cassandra:Alter"), Verdict::Denied);
        assert_eq!(verdict(except, "cassandra:GetStream"), Verdict::Silent);
    }

    #[test]
    fn conditions_hold_or_the_statement_does_not_apply() {
        let from = |net: &str| {
            format!(
                r#"{{"Effect":"Allow","Action":"*","Resource":"*","Condition":{{"IpAddress":{{"aws:SourceIp":["192.168.0.0/16","{net}"]}},"Bool":{{"aws:SecureTransport":"true"}}}}}}"#
            )
        };
        assert_eq!(
            verdict(&from("10.0.0.0/8"), "cassandra:GetStream"),
            Verdict::Allowed
        );
        assert_eq!(
            verdict(&from("10.2.0.0/16"), "cassandra:GetStream"),
            Verdict::Silent
        );
        assert_eq!(
            verdict(&from("0.0.0.0/0"), "cassandra:GetStream"),
            Verdict::Allowed
        );
        let plain = r#"{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":false}}}"#;
        assert_eq!(verdict(plain, "cassandra:GetStream"), Verdict::Silent);
        let named = r#"{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::*:user/a??"},"Action":"*","Resource":"*"}"#;
        assert_eq!(verdict(named, "cassandra:GetStream"), Verdict::Allowed);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (bad, why) in [
            (r#"{"Effect":"Maybe","Action":"*","Resource":"*"}"#, "Maybe"),
            (r#"{"Effect":"Allow","Resource":"*"}"#, "Action"),
            (r#"{"Effect":"Allow","Action":"*"}"#, "Resource"),
            (
                r#"{"Effect":"Allow","Action":"GetRecords","Resource":"*"}"#,
                "GetRecords",
            ),
            (
                r#"{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"DateLessThan":{"aws:CurrentTime":"x"}}}"#,
                "DateLessThan",
            ),
            (
                r#"{"Effect":"Allow","Action":"*","Resource":"*","Extra":1}"#,
                "Extra",
            ),
            (
                r#"{"Effect":"Allow","Action":"*","Resource":"arn:aws:cassandra:*:*:/keyspace/${aws:username}/*"}"#,
                "variable",
            ),
            (
                r#"{"Effect":"Deny","Action":"*","NotResource":["*","${*}"]}"#,
                "variable",
            ),
            (
                r#"{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"aws:username":"${aws:x}"}}}"#,
                "variable",
            ),
        ] {
            let text = format!("{{\"Statement\":{bad}}}");
            let error = Policy::parse(&text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn wildcards_match_in_linear_time() {
        assert!(matches("a*b*c", "aXbYbZc", false));
        assert!(!matches("a*b*c", "aXbYbZ", false));
        assert!(matches("*", "", false) && matches("", "", false) && !matches("?", "", false));
        let long = "a".repeat(50_000);
        assert!(!matches("*a*a*a*a*a*a*a*b", &long, false));
    }
}
