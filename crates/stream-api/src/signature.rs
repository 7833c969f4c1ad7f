//! Who sent a request: AWS Signature Version 4, the verifying half.
//!
//! Shape: `Authorization: AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, SignedHeaders=a;b, Signature=HEX`.
//! The body's hash is always computed from the body; a header that claims one has to agree.
//! Source: AWS General Reference, Signature Version 4.

use crate::error::{ApiError, Code};
use crate::keys::{AccessKey, Keys};
use crate::wire::Service;
use aws_lc_rs::{constant_time, digest, hmac};
use http::{HeaderMap, Method, Uri};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// A signature is taken for this long before and after its time.
pub const SKEW_MAX_S: i64 = 15 * 60;
/// Derived keys kept: one per access key, day and service.
const DERIVED_MAX: usize = 1024;
/// Headers that decide what a request means: unsigned ones would let a stranger change it.
const MUST_BE_SIGNED: [&str; 5] = [
    "host",
    "x-amz-date",
    "x-amz-target",
    "x-amz-security-token",
    "x-amz-content-sha256",
];

/// A request as it is signed.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path and query.
    pub uri: &'a Uri,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its whole body.
    pub body: &'a [u8],
}

/// Verifies signatures. Remembers derived keys.
#[derive(Default)]
pub struct Verifier {
    derived: Mutex<HashMap<DerivedFor, hmac::Key>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct DerivedFor {
    access_key: String,
    /// Keys may be replaced under the same name.
    generation: u64,
    date: String,
    service: &'static str,
}

impl Verifier {
    /// The key that signed the request.
    ///
    /// Errors: the refusals of the signature protocol, each with what to do.
    pub fn verify(
        &self,
        request: &Signed<'_>,
        keys: &Keys,
        (service, region): (Service, &str),
        now_us: i64,
    ) -> Result<Arc<AccessKey>, ApiError> {
        let header = header(request.headers, "authorization")?.ok_or_else(|| {
            ApiError::new(
                Code::MissingAuthenticationToken,
                "the request is not signed; give the SDK an access key of this server",
            )
        })?;
        let given = Authorization::parse(&header)?;
        given.check_scope(service, region)?;
        let signed: Vec<&str> = given.signed_headers.split(';').collect();
        for name in MUST_BE_SIGNED {
            let is_there = name == "host" || request.headers.contains_key(name);
            if is_there && !signed.contains(&name) {
                return Err(incomplete(format!("header {name} has to be signed")));
            }
        }
        let time = self::header(request.headers, "x-amz-date")?
            .ok_or_else(|| incomplete("there is no X-Amz-Date header".into()))?;
        let key = keys.find(given.access_key).ok_or_else(|| {
            ApiError::new(
                Code::UnrecognizedClient,
                "the security token included in the request is invalid: its access key is not known here",
            )
        })?;
        let at_s = parse_time(&time)
            .filter(|_| time.starts_with(given.date))
            .ok_or_else(|| incomplete("X-Amz-Date is no time of the scope's day".into()))?;
        let body_hash = hex(digest::digest(&digest::SHA256, request.body).as_ref());
        check_claimed_hash(request.headers, &body_hash)?;
        let canonical = canonical_request(request, &signed, &body_hash)?;
        let scope = given.scope();
        let to_sign = format!(
            "{ALGORITHM}\n{time}\n{scope}\n{}",
            hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref())
        );
        let expected = hmac::sign(&self.signing_key(&key, &given, service), to_sign.as_bytes());
        let expected = hex(expected.as_ref());
        if constant_time::verify_slices_are_equal(expected.as_bytes(), given.signature.as_bytes())
            .is_err()
        {
            return Err(ApiError::new(
                Code::InvalidSignature,
                "the request signature we calculated does not match the signature you provided; check the \
                 secret access key, and that nothing on the way changes headers or body",
            ));
        }
        // After the signature: a stranger learns nothing about our clock.
        let skew = now_us.div_euclid(1_000_000) - at_s;
        if skew.abs() > SKEW_MAX_S {
            let detail = match skew > 0 {
                true => "signature expired",
                false => "signature not yet current",
            };
            return Err(ApiError::new(
                Code::InvalidSignature,
                format!(
                    "{detail}: {time} is more than 15 minutes from this server's time; set the clock"
                ),
            ));
        }
        check_session(&key, request.headers, now_us)?;
        Ok(key)
    }

    fn signing_key(
        &self,
        key: &AccessKey,
        given: &Authorization<'_>,
        service: Service,
    ) -> hmac::Key {
        let wanted = DerivedFor {
            access_key: key.id.clone(),
            generation: key.generation,
            date: given.date.to_owned(),
            service: service.signing_name(),
        };
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = derived.get(&wanted) {
            return key.clone();
        }
        if derived.len() >= DERIVED_MAX {
            derived.clear();
        }
        let mut chain = zeroize::Zeroizing::new(format!("AWS4{}", &**key.secret()).into_bytes());
        for part in [given.date, given.region, given.service, "aws4_request"] {
            let next = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &chain), part.as_bytes());
            *chain = next.as_ref().to_vec();
        }
        let signing = hmac::Key::new(hmac::HMAC_SHA256, &chain);
        derived.insert(wanted, signing.clone());
        signing
    }
}

/// The header, taken apart.
struct Authorization<'a> {
    access_key: &'a str,
    date: &'a str,
    region: &'a str,
    service: &'a str,
    signed_headers: &'a str,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    fn parse(header: &'a str) -> Result<Self, ApiError> {
        let rest = header
            .strip_prefix(ALGORITHM)
            .filter(|rest| rest.starts_with(' '))
            .ok_or_else(|| incomplete(format!("only {ALGORITHM} is taken")))?;
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for part in rest.split(',') {
            match part.trim().split_once('=') {
                Some(("Credential", value)) => credential = Some(value),
                Some(("SignedHeaders", value)) => signed_headers = Some(value),
                Some(("Signature", value)) => signature = Some(value),
                _ => {}
            }
        }
        let missing = |name: &str| incomplete(format!("{name} is missing in Authorization"));
        let credential = credential.ok_or_else(|| missing("Credential"))?;
        // The access key comes first and may hold anything but a slash.
        let parts: Vec<&str> = credential.split('/').collect();
        let [access_key, date, region, service, "aws4_request"] = parts[..] else {
            return Err(incomplete(
                "Credential is not KEY/DATE/REGION/SERVICE/aws4_request".into(),
            ));
        };
        Ok(Self {
            access_key,
            date,
            region,
            service,
            signed_headers: signed_headers.ok_or_else(|| missing("SignedHeaders"))?,
            signature: signature.ok_or_else(|| missing("Signature"))?,
        })
    }

    fn check_scope(&self, service: Service, region: &str) -> Result<(), ApiError> {
        let wrong = |what: &str, right: &str| {
            Err(ApiError::new(
                Code::InvalidSignature,
                format!("credential should be scoped to a valid {what}, here `{right}`"),
            ))
        };
        if self.service != service.signing_name() {
            return wrong("service", service.signing_name());
        }
        if self.region != region {
            return wrong("region", region);
        }
        Ok(())
    }

    fn scope(&self) -> String {
        format!(
            "{}/{}/{}/aws4_request",
            self.date, self.region, self.service
        )
    }
}

fn incomplete(text: String) -> ApiError {
    ApiError::new(Code::IncompleteSignature, text)
}

/// A header's value; several are joined, as they are signed.
fn header(headers: &HeaderMap, name: &str) -> Result<Option<String>, ApiError> {
    let mut joined: Option<String> = None;
    for value in headers.get_all(name) {
        let text = std::str::from_utf8(value.as_bytes())
            .map_err(|_| incomplete(format!("header {name} is no text")))?;
        match &mut joined {
            None => joined = Some(text.to_owned()),
            Some(joined) => {
                joined.push(',');
                joined.push_str(text);
            }
        }
    }
    Ok(joined)
}

fn check_claimed_hash(headers: &HeaderMap, body_hash: &str) -> Result<(), ApiError> {
    match header(headers, "x-amz-content-sha256")? {
        Some(claimed) if claimed != body_hash => Err(ApiError::new(
            Code::InvalidSignature,
            "X-Amz-Content-Sha256 is not the body's hash",
        )),
        _ => Ok(()),
    }
}

fn check_session(key: &AccessKey, headers: &HeaderMap, now_us: i64) -> Result<(), ApiError> {
    let given = header(headers, "x-amz-security-token")?;
    let fits = match (key.session_token(), &given) {
        (None, None) => true,
        (Some(token), Some(given)) => {
            constant_time::verify_slices_are_equal(token.as_bytes(), given.as_bytes()).is_ok()
        }
        _ => false,
    };
    if !fits {
        return Err(ApiError::new(
            Code::UnrecognizedClient,
            "the security token included in the request is invalid",
        ));
    }
    if key.expires_us.is_some_and(|expires| now_us >= expires) {
        return Err(ApiError::new(
            Code::ExpiredToken,
            "the access key of the request has expired",
        ));
    }
    Ok(())
}

fn canonical_request(
    request: &Signed<'_>,
    signed: &[&str],
    body_hash: &str,
) -> Result<String, ApiError> {
    let mut out = format!(
        "{}\n{}\n{}\n",
        request.method,
        encoded(request.uri.path(), true),
        canonical_query(request.uri.query().unwrap_or(""))
    );
    if !signed.windows(2).all(|pair| pair[0] < pair[1]) {
        return Err(incomplete("SignedHeaders are not in order".into()));
    }
    for name in signed {
        let value = header(request.headers, name)?
            .ok_or_else(|| incomplete(format!("signed header {name} is not there")))?;
        let words: Vec<&str> = value.split(' ').filter(|word| !word.is_empty()).collect();
        let _ = writeln!(out, "{name}:{}", words.join(" ").trim());
    }
    let _ = write!(out, "\n{}\n{body_hash}", signed.join(";"));
    Ok(out)
}

/// Percent-encodes what is not unreserved, once more where it is encoded already: paths of this API hold nothing
/// that would be.
fn encoded(text: &str, keep_slash: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if plain || (keep_slash && byte == b'/') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(&str, &str)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    pairs.sort_unstable();
    let joined: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    joined.join("&")
}

/// `YYYYMMDDTHHMMSSZ` as seconds since 1970.
fn parse_time(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let fits = bytes.len() == 16
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            8 => *byte == b'T',
            15 => *byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
    if !fits {
        return None;
    }
    let iso = format!(
        "{}-{}-{}T{}:{}:{}Z",
        &text[0..4],
        &text[4..6],
        &text[6..8],
        &text[9..11],
        &text[11..13],
        &text[13..15]
    );
    crate::time::parse(&iso).map(|micros| micros.div_euclid(1_000_000))
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Signs a request: for tests, and for our own commands that call the API.
///
/// Shape: returns the `Authorization` header's value; `headers` are those to sign, sorted, lower-case, `x-amz-date`
/// among them.
pub fn authorization(
    (access_key, secret): (&str, &str),
    (service, region): (Service, &str),
    request: &Signed<'_>,
) -> Result<String, ApiError> {
    let time = header(request.headers, "x-amz-date")?
        .ok_or_else(|| incomplete("there is no X-Amz-Date header".into()))?;
    let mut names: Vec<&str> = request.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    let body_hash = hex(digest::digest(&digest::SHA256, request.body).as_ref());
    let canonical = canonical_request(request, &names, &body_hash)?;
    let date = time.get(..8).unwrap_or_default();
    let scope = format!("{date}/{region}/{}/aws4_request", service.signing_name());
    let to_sign = format!(
        "{ALGORITHM}\n{time}\n{scope}\n{}",
        hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref())
    );
    let mut chain = format!("AWS4{secret}").into_bytes();
    for part in [date, region, service.signing_name(), "aws4_request"] {
        let next = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &chain), part.as_bytes());
        chain = next.as_ref().to_vec();
    }
    let signature = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, &chain),
        to_sign.as_bytes(),
    );
    Ok(format!(
        "{ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={}, Signature={}",
        names.join(";"),
        hex(signature.as_ref())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    fn keys() -> Keys {
        let text = format!(
            "keys: [{{access_key: AKID, secret: {SECRET}, user: u}}, \
             {{access_key: TEMP, secret: s, user: t, session_token: tok, expires: 2026-01-01T00:00:00Z}}]"
        );
        Keys::parse(&text, "keys.yaml", &stream::Identity::default()).unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                let name = http::HeaderName::from_static(name);
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    const NOON: &str = "20261130T120000Z";

    fn noon_us() -> i64 {
        parse_time(NOON).unwrap() * 1_000_000
    }

    struct Sent {
        headers: HeaderMap,
        body: &'static [u8],
    }

    fn sent(service: Service, region: &str) -> Sent {
        let mut headers = headers(&[
            ("content-type", "application/x-amz-json-1.0"),
            ("host", "localhost:8410"),
            ("x-amz-date", NOON),
            ("x-amz-target", "KeyspacesStreams.ListStreams"),
        ]);
        let body = b"{}";
        let signed = Signed {
            method: &Method::POST,
            uri: &Uri::from_static("/"),
            headers: &headers,
            body,
        };
        let value = authorization(("AKID", SECRET), (service, region), &signed).unwrap();
        headers.insert("authorization", HeaderValue::from_str(&value).unwrap());
        Sent { headers, body }
    }

    fn verify(sent: &Sent, now_us: i64) -> Result<String, Code> {
        let signed = Signed {
            method: &Method::POST,
            uri: &Uri::from_static("/"),
            headers: &sent.headers,
            body: sent.body,
        };
        let scope = (Service::Streams, "us-east-1");
        let verified = Verifier::default().verify(&signed, &keys(), scope, now_us);
        verified
            .map(|key| key.id.clone())
            .map_err(|error| error.code)
    }

    #[test]
    fn a_signed_request_is_its_keys() {
        let sent = sent(Service::Streams, "us-east-1");
        assert_eq!(verify(&sent, noon_us()), Ok("AKID".into()));
    }

    #[test]
    fn the_published_example_verifies() {
        // The worked example of the signing documentation: GET, a query, three headers.
        let headers = headers(&[
            (
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8",
            ),
            ("host", "iam.amazonaws.com"),
            ("x-amz-date", "20150830T123600Z"),
        ]);
        let uri = Uri::from_static("/?Action=ListUsers&Version=2010-05-08");
        let signed = Signed {
            method: &Method::GET,
            uri: &uri,
            headers: &headers,
            body: b"",
        };
        let names = ["content-type", "host", "x-amz-date"];
        let empty = hex(digest::digest(&digest::SHA256, b"").as_ref());
        let canonical = canonical_request(&signed, &names, &empty).unwrap();
        assert_eq!(
            hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref()),
            "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59"
        );
        let mut fewer = headers.clone();
        fewer.remove("host");
        let unsigned = Signed {
            headers: &fewer,
            ..signed
        };
        assert!(canonical_request(&unsigned, &names, &empty).is_err());
    }

    #[test]
    fn what_was_changed_is_refused() {
        let good = || sent(Service::Streams, "us-east-1");
        let mut body = good();
        body.body = b"{ }";
        assert_eq!(verify(&body, noon_us()), Err(Code::InvalidSignature));
        let mut target = good();
        let other = HeaderValue::from_static("KeyspacesStreams.GetRecords");
        target.headers.insert("x-amz-target", other);
        assert_eq!(verify(&target, noon_us()), Err(Code::InvalidSignature));
        let mut unsigned = good();
        unsigned.headers.remove("authorization");
        assert_eq!(
            verify(&unsigned, noon_us()),
            Err(Code::MissingAuthenticationToken)
        );
        let mut claimed = good();
        claimed
            .headers
            .insert("x-amz-content-sha256", HeaderValue::from_static("00"));
        assert_eq!(verify(&claimed, noon_us()), Err(Code::IncompleteSignature));
        let mut half = good();
        half.headers.insert(
            "authorization",
            HeaderValue::from_static("AWS4-HMAC-SHA256 x"),
        );
        assert_eq!(verify(&half, noon_us()), Err(Code::IncompleteSignature));
    }

    #[test]
    fn a_replay_after_fifteen_minutes_is_refused() {
        let sent = sent(Service::Streams, "us-east-1");
        assert!(verify(&sent, noon_us() + 899_000_000).is_ok());
        assert_eq!(
            verify(&sent, noon_us() + 901_000_000),
            Err(Code::InvalidSignature)
        );
        assert_eq!(
            verify(&sent, noon_us() - 901_000_000),
            Err(Code::InvalidSignature)
        );
    }

    #[test]
    fn another_service_or_region_is_refused() {
        let other = sent(Service::CloudWatch, "us-east-1");
        assert_eq!(verify(&other, noon_us()), Err(Code::InvalidSignature));
        let other = sent(Service::Streams, "eu-west-1");
        assert_eq!(verify(&other, noon_us()), Err(Code::InvalidSignature));
    }

    #[test]
    fn a_session_needs_its_token_and_ends() {
        let mut headers = headers(&[
            ("host", "h"),
            ("x-amz-date", NOON),
            ("x-amz-security-token", "tok"),
        ]);
        let signed = Signed {
            method: &Method::POST,
            uri: &Uri::from_static("/"),
            headers: &headers,
            body: b"",
        };
        let value = authorization(("TEMP", "s"), (Service::Streams, "us-east-1"), &signed).unwrap();
        headers.insert("authorization", HeaderValue::from_str(&value).unwrap());
        let sent = Sent { headers, body: b"" };
        assert_eq!(verify(&sent, noon_us()), Err(Code::ExpiredToken));
    }
}
