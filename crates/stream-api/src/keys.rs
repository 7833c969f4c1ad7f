//! Access keys and the policies that go with them, in one file.
//!
//! ```yaml
//! keys:
//!   - {access_key: AKIDREADER, secret: …, user: reader, policies: [read]}
//! policies:
//!   read: {Version: "2012-10-17", Statement: [{Effect: Allow, Action: "cassandra:*", Resource: "*"}]}
//! ```
//!
//! Secrets are never logged, never shown by `Debug`, and wiped when they go.

use crate::policy::Policy;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;
use stream::Identity;
use zeroize::Zeroizing;

type Secret = Zeroizing<String>;

/// One access key.
pub struct AccessKey {
    /// What requests name it by.
    pub id: String,
    /// Whose it is.
    pub user: String,
    /// The user's ARN, as policies and audit records name it.
    pub arn: String,
    /// What it may do.
    pub policies: Vec<Arc<Policy>>,
    /// When it ends, microseconds since 1970.
    pub expires_us: Option<i64>,
    /// Differs between two loads of the file.
    pub(crate) generation: u64,
    secret: Secret,
    session_token: Option<Secret>,
}

impl AccessKey {
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    pub(crate) fn session_token(&self) -> Option<&Secret> {
        self.session_token.as_ref()
    }
}

impl std::fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AccessKey({} of {})", self.id, self.user)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    keys: Vec<KeyText>,
    #[serde(default)]
    policies: BTreeMap<String, Policy>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyText {
    access_key: String,
    secret: SecretText,
    user: String,
    #[serde(default)]
    session_token: Option<SecretText>,
    #[serde(default)]
    expires: Option<String>,
    #[serde(default)]
    policies: Vec<String>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct SecretText(String);

/// All access keys.
#[derive(Debug, Default)]
pub struct Keys {
    by_id: HashMap<String, Arc<AccessKey>>,
}

impl Keys {
    /// Reads a file's text. `name` stands in errors.
    ///
    /// Errors: what is wrong and where, never with a secret in it.
    pub fn parse(text: &str, name: &str, identity: &Identity) -> Result<Self, String> {
        static GENERATION: AtomicU64 = AtomicU64::new(1);
        let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
        let wrong = |what: String| format!("read access keys in {name}: {what}");
        let file: FileText = serde_saphyr::from_str(text).map_err(|error| {
            // Its own text may quote a value.
            match error.location() {
                Some(place) => wrong(format!(
                    "the text at line {} does not fit; {SHAPE}",
                    place.line()
                )),
                None => wrong(format!("the text does not fit; {SHAPE}")),
            }
        })?;
        let mut policies = BTreeMap::new();
        for (name, policy) in file.policies {
            policy
                .check()
                .map_err(|text| wrong(format!("policy {name}: {text}")))?;
            policies.insert(name, Arc::new(policy));
        }
        let mut by_id = HashMap::new();
        for key in file.keys {
            let id = key.access_key.clone();
            let of_key = |what: String| wrong(format!("access key {id}: {what}"));
            let key = build(key, &policies, generation, identity).map_err(of_key)?;
            if by_id.insert(id.clone(), Arc::new(key)).is_some() {
                return Err(wrong(format!("access key {id} stands there twice")));
            }
        }
        Ok(Self { by_id })
    }

    /// One key by the name that a request gives.
    pub fn find(&self, id: &str) -> Option<Arc<AccessKey>> {
        self.by_id.get(id).cloned()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none: then every request is refused.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

const SHAPE: &str = "it has `keys:` (access_key, secret, user, policies, and optionally session_token and expires) and \
                     `policies:` (name: an IAM policy)";

fn build(
    key: KeyText,
    policies: &BTreeMap<String, Arc<Policy>>,
    generation: u64,
    identity: &Identity,
) -> Result<AccessKey, String> {
    let plain = |text: &str| {
        !text.is_empty()
            && text.len() <= 128
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.+=@".contains(&b))
    };
    if !plain(&key.access_key) {
        return Err("its name has 1 to 128 letters, digits or -_.+=@".into());
    }
    if !plain(&key.user) {
        return Err("its user has 1 to 128 letters, digits or -_.+=@".into());
    }
    if key.secret.0.is_empty() {
        return Err("its secret is empty".into());
    }
    let mut granted = Vec::new();
    for name in &key.policies {
        let policy = policies
            .get(name)
            .ok_or_else(|| format!("there is no policy `{name}` under `policies:`"))?;
        granted.push(Arc::clone(policy));
    }
    let expires_us = match &key.expires {
        None => None,
        Some(text) => Some(
            crate::time::parse(text)
                .ok_or_else(|| format!("`expires: {text}` is not as 2027-01-31T00:00:00Z"))?,
        ),
    };
    Ok(AccessKey {
        arn: user_arn(identity, &key.user),
        id: key.access_key,
        user: key.user,
        policies: granted,
        expires_us,
        generation,
        secret: Zeroizing::new(key.secret.0),
        session_token: key.session_token.map(|token| Zeroizing::new(token.0)),
    })
}

/// The ARN of a user of the file.
pub fn user_arn(identity: &Identity, user: &str) -> String {
    format!(
        "arn:{}:iam::{}:user/{user}",
        identity.partition, identity.account
    )
}

/// The keys of a file, read again when it changes.
pub struct KeyFile {
    path: PathBuf,
    identity: Identity,
    keys: RwLock<Arc<Keys>>,
    modified: RwLock<Option<SystemTime>>,
}

impl KeyFile {
    /// Reads the file.
    ///
    /// Errors: it cannot be read, others than its owner and group can read it too, or its text is wrong.
    pub fn open(path: &Path, identity: &Identity) -> Result<Self, String> {
        let modified = modified(path);
        let keys = load(path, identity)?;
        Ok(Self {
            path: path.to_owned(),
            identity: identity.clone(),
            keys: RwLock::new(Arc::new(keys)),
            modified: RwLock::new(modified),
        })
    }

    /// Keys that are no file: of a demo or a test.
    pub fn fixed(keys: Keys) -> Self {
        Self {
            path: PathBuf::new(),
            identity: Identity::default(),
            keys: RwLock::new(Arc::new(keys)),
            modified: RwLock::new(None),
        }
    }

    /// The keys now.
    pub fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the file again if it has changed. What does not fit is logged, and the keys stay as they were.
    pub fn refresh(&self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        let now = modified(&self.path);
        let mut known = self
            .modified
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if now == *known {
            return;
        }
        *known = now;
        match load(&self.path, &self.identity) {
            Ok(keys) => {
                tracing::info!(count = keys.len(), "access keys were read again");
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
            }
            Err(text) => tracing::error!("{text}; the keys stay as they were"),
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

fn load(path: &Path, identity: &Identity) -> Result<Keys, String> {
    use std::os::unix::fs::PermissionsExt;
    let name = path.display().to_string();
    let wrong = |error: std::io::Error| format!("read access keys in {name}: {error}");
    let meta = std::fs::metadata(path).map_err(wrong)?;
    if meta.permissions().mode() & 0o007 != 0 {
        return Err(format!(
            "read access keys in {name}: everybody can read it; hint: chmod 600 {name}"
        ));
    }
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(wrong)?);
    Keys::parse(&text, &name, identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Keys, String> {
        Keys::parse(text, "k.yaml", &Identity::default())
    }

    #[test]
    fn keys_have_their_policies() {
        let keys = parse(
            "keys:\n  - {access_key: A, secret: hush, user: ann, policies: [read]}\npolicies:\n  read:\n    Version: \
             \"2012-10-17\"\n    Statement: {Effect: Allow, Action: \"cassandra:*\", Resource: \"*\"}\n",
        )
        .unwrap();
        let key = keys.find("A").unwrap();
        assert_eq!(key.arn, "arn:aws:iam::000000000000:user/ann");
        assert_eq!(key.policies.len(), 1);
        assert!(!format!("{keys:?}").contains("hush"));
    }

    #[test]
    fn what_is_wrong_is_told_without_secrets() {
        for (text, part) in [
            (
                "keys: [{access_key: A, secret: hush, user: a, policies: [none]}]",
                "none",
            ),
            ("keys: [{access_key: A, secret: hush, user: a b}]", "user"),
            (
                "keys: [{access_key: A, secret: hush, user: a}, {access_key: A, secret: hush, user: a}]",
                "twice",
            ),
            ("keys: [{access_key: A, secret: [hush], user: a}]", "line 1"),
            ("keys: [{access_key: A, secrets: hush, user: a}]", "line 1"),
            (
                "keys: [{access_key: A, secret: hush, user: a, expires: hush2}]",
                "expires",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
            assert!(
                !error.contains("hush ") && !error.contains("[hush"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_wrong_one_is_not_taken() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("stream-api-keys-{}", std::process::id()));
        let put = |text: &str, secs: u64| {
            std::fs::write(&path, text).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(secs))
                .unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        put("keys: [{access_key: A, secret: s, user: a}]", 1);
        let file = KeyFile::open(&path, &Identity::default()).unwrap();
        put("keys: [{access_key: B, secret: s, user: a}]", 2);
        file.refresh();
        assert!(file.keys().find("A").is_none() && file.keys().find("B").is_some());
        put("keys: [{access_key: C}]", 3);
        file.refresh();
        assert!(file.keys().find("B").is_some());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = KeyFile::open(&path, &Identity::default()).err().unwrap();
        assert!(refused.contains("chmod 600"), "{refused}");
        std::fs::remove_file(&path).unwrap();
    }
}
