//! Keys that live in a key service with the shape of AWS KMS: encrypt and decrypt under a named key, bound to a context.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use crate::id::KeyGroupId;
use crate::keys::{DataKey, KeyError, KeyProvider};

/// What binds a ciphertext to its purpose: the same pairs must be given to open it.
pub type EncryptionContext = [(&'static str, String); 2];

/// The two calls of a key service that Headwater needs; how they travel is the implementation's.
///
/// Order: none; calls may come from any thread. Errors: `Locked` when the key is disabled, pending deletion, unknown or
/// not granted (KMS: `DisabledException`, `KMSInvalidStateException`, `NotFoundException`, `AccessDeniedException`,
/// `InvalidCiphertextException`); `Unavailable` for everything that may pass.
pub trait KmsClient: Send + Sync {
    /// KMS's Encrypt.
    fn encrypt(
        &self,
        key_id: &str,
        plaintext: &[u8],
        context: &EncryptionContext,
    ) -> Result<Vec<u8>, KeyError>;

    /// KMS's Decrypt.
    fn decrypt(
        &self,
        key_id: &str,
        ciphertext: &[u8],
        context: &EncryptionContext,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError>;
}

/// Wraps data keys in a key service. Rotation and deletion are done there.
#[derive(Debug)]
pub struct KmsKeys<C> {
    client: C,
    default_key: String,
    key_ids: BTreeMap<KeyGroupId, String>,
}

impl<C: KmsClient> KmsKeys<C> {
    /// `default_key` and `key_ids` are ids, ARNs or aliases as the service knows them.
    pub fn new(client: C, default_key: String, key_ids: BTreeMap<KeyGroupId, String>) -> Self {
        Self {
            client,
            default_key,
            key_ids,
        }
    }

    fn key_id(&self, group: KeyGroupId) -> Result<&str, KeyError> {
        if group == KeyGroupId::DEFAULT {
            return Ok(&self.default_key);
        }
        let missing = || KeyError::Locked(format!("no key is configured for group {group}"));
        self.key_ids
            .get(&group)
            .map(String::as_str)
            .ok_or_else(missing)
    }
}

fn context(group: KeyGroupId) -> EncryptionContext {
    [
        ("headwater:purpose", "data key 1".to_owned()),
        ("headwater:group", group.to_string()),
    ]
}

impl<C: KmsClient> KeyProvider for KmsKeys<C> {
    fn wrap(&self, group: KeyGroupId, key: &DataKey) -> Result<Vec<u8>, KeyError> {
        self.client
            .encrypt(self.key_id(group)?, key.bytes(), &context(group))
    }

    fn unwrap(&self, group: KeyGroupId, wrapped: &[u8]) -> Result<DataKey, KeyError> {
        let plain = self
            .client
            .decrypt(self.key_id(group)?, wrapped, &context(group))?;
        let bytes = <[u8; 32]>::try_from(&plain[..])
            .map_err(|_| KeyError::Locked("it is no data key of ours".into()))?;
        Ok(DataKey::from_bytes(bytes))
    }

    fn ensure(&self, group: KeyGroupId) -> Result<(), KeyError> {
        self.key_id(group).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Keeps what it is given, and gives it back to who has the same key and context.
    #[derive(Default)]
    struct Kept {
        sealed: Mutex<Vec<(String, EncryptionContext, Vec<u8>)>>,
        disabled: Mutex<Option<String>>,
    }

    impl KmsClient for Kept {
        fn encrypt(
            &self,
            key_id: &str,
            plaintext: &[u8],
            context: &EncryptionContext,
        ) -> Result<Vec<u8>, KeyError> {
            let mut sealed = self.sealed.lock().unwrap();
            sealed.push((key_id.to_owned(), context.clone(), plaintext.to_vec()));
            Ok((sealed.len() as u64 - 1).to_le_bytes().to_vec())
        }

        fn decrypt(
            &self,
            key_id: &str,
            ciphertext: &[u8],
            context: &EncryptionContext,
        ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
            let locked = |why: &str| KeyError::Locked(why.to_owned());
            if self.disabled.lock().unwrap().as_deref() == Some(key_id) {
                return Err(locked("disabled"));
            }
            let number = u64::from_le_bytes(ciphertext.try_into().map_err(|_| locked("foreign"))?);
            let sealed = self.sealed.lock().unwrap();
            let (key, bound, plain) = sealed.get(number as usize).ok_or(locked("foreign"))?;
            match key == key_id && bound == context {
                true => Ok(Zeroizing::new(plain.clone())),
                false => Err(locked("another key or context")),
            }
        }
    }

    #[test]
    fn a_data_key_opens_only_under_its_own_key_and_group() {
        let (one, two) = (KeyGroupId(1), KeyGroupId(2));
        let ids = BTreeMap::from([(one, "alias/a".to_owned()), (two, "alias/a".to_owned())]);
        let keys = KmsKeys::new(Kept::default(), "alias/default".into(), ids);
        let data = DataKey::random().unwrap();
        let wrapped = keys.wrap(one, &data).unwrap();
        assert_eq!(keys.unwrap(one, &wrapped).unwrap().bytes(), data.bytes());
        assert!(keys.unwrap(two, &wrapped).is_err(), "the group is bound");
        assert!(keys.unwrap(KeyGroupId::DEFAULT, &wrapped).is_err());
        assert!(keys.ensure(KeyGroupId(9)).is_err());
        *keys.client.disabled.lock().unwrap() = Some("alias/a".into());
        assert!(matches!(
            keys.unwrap(one, &wrapped),
            Err(KeyError::Locked(_))
        ));
    }
}
