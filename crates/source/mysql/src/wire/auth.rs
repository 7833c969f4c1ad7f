//! Proving who we are: the authentication plugins of both servers.

use super::error::WireFailure;
use super::transport::Transport;
use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use aws_lc_rs::signature::Ed25519KeyPair;
use aws_lc_rs::{digest, pbkdf2};
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use std::num::NonZeroU32;

fn refused(text: impl Into<String>) -> WireFailure {
    WireFailure::Auth(text.into())
}

fn hash(algorithm: &'static digest::Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    let mut context = digest::Context::new(algorithm);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().to_vec()
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b.iter().cycle()).map(|(a, b)| a ^ b).collect()
}

/// The first answer of a plugin to the server's nonce.
pub fn respond(
    plugin: &str,
    password: &str,
    nonce: &[u8],
    is_tls: bool,
) -> Result<Vec<u8>, WireFailure> {
    let password = password.as_bytes();
    let nonce20 = nonce.get(..20).unwrap_or(nonce);
    Ok(match plugin {
        "mysql_native_password" if password.is_empty() => Vec::new(),
        "mysql_native_password" => {
            let sha1 = &digest::SHA1_FOR_LEGACY_USE_ONLY;
            let once = hash(sha1, &[password]);
            let twice = hash(sha1, &[&once]);
            xor(&once, &hash(sha1, &[nonce20, &twice]))
        }
        "caching_sha2_password" if password.is_empty() => Vec::new(),
        "caching_sha2_password" => {
            let once = hash(&digest::SHA256, &[password]);
            let twice = hash(&digest::SHA256, &[&once]);
            xor(&once, &hash(&digest::SHA256, &[&twice, nonce20]))
        }
        "sha256_password" if password.is_empty() => vec![0],
        "sha256_password" if is_tls => [password, &[0]].concat(),
        // Asks for the server's RSA key.
        "sha256_password" => vec![1],
        "client_ed25519" => sign_ed25519(password, nonce.get(..32).unwrap_or(nonce)),
        // Asks for the account's salt.
        "parsec" => Vec::new(),
        "mysql_clear_password" if is_tls => [password, &[0]].concat(),
        "mysql_old_password" => {
            return Err(refused(
                "the account uses mysql_old_password, which is broken; change its plugin",
            ));
        }
        other => {
            return Err(refused(format!(
                "the account's authentication plugin {other} is not supported on this connection"
            )));
        }
    })
}

/// Carries on after the server's reply `data` (its first byte, 1, cut off); `true` if an answer went
/// out and the next message decides.
pub fn go_on(
    transport: &mut Transport,
    plugin: &str,
    password: &str,
    nonce: &[u8],
    data: &[u8],
) -> Result<(), WireFailure> {
    match (plugin, data) {
        // The server knows the password already.
        ("caching_sha2_password", [3]) => Ok(()),
        ("caching_sha2_password", [4]) if transport.is_tls() => {
            transport.send(false, &[password.as_bytes(), &[0]].concat())
        }
        ("caching_sha2_password", [4]) => {
            transport.send(false, &[2])?;
            let reply = transport.receive()?.to_vec();
            let pem = reply.strip_prefix(&[1]).unwrap_or(&reply);
            let sealed = seal_password(password, nonce, pem)?;
            transport.send(false, &sealed)
        }
        ("sha256_password", pem) => {
            let sealed = seal_password(password, nonce, pem)?;
            transport.send(false, &sealed)
        }
        ("parsec", salt) => {
            let answer = answer_parsec(password.as_bytes(), nonce, salt)?;
            transport.send(false, &answer)
        }
        _ => Err(WireFailure::Protocol("more authentication data")),
    }
}

/// The password, mixed with the nonce, under the server's RSA key.
fn seal_password(password: &str, nonce: &[u8], pem: &[u8]) -> Result<Vec<u8>, WireFailure> {
    let bad = |_| refused("the server's RSA key cannot be used; use TLS");
    let der = SubjectPublicKeyInfoDer::from_pem_slice(pem)
        .map_err(|_| refused("the server's RSA key cannot be read; use TLS"))?;
    let key = PublicEncryptingKey::from_der(der.as_ref())
        .map_err(|_| refused("the server's RSA key cannot be read; use TLS"))?;
    let key = OaepPublicEncryptingKey::new(key).map_err(bad)?;
    let plain = xor(
        &[password.as_bytes(), &[0]].concat(),
        nonce.get(..20).unwrap_or(nonce),
    );
    let mut sealed = vec![0; key.ciphertext_size()];
    let count = key
        .encrypt(&OAEP_SHA1_MGF1SHA1, &plain, &mut sealed, None)
        .map_err(bad)?
        .len();
    sealed.truncate(count);
    Ok(sealed)
}

/// MariaDB's `ed25519`: Ed25519 whose secret is the SHA-512 of the password itself.
fn sign_ed25519(password: &[u8], message: &[u8]) -> Vec<u8> {
    let secret = hash(&digest::SHA512, &[password]);
    let mut low = [0u8; 32];
    low.copy_from_slice(&secret[..32]);
    let wide = |bytes: Vec<u8>| {
        let mut wide = [0u8; 64];
        wide.copy_from_slice(&bytes);
        Scalar::from_bytes_mod_order_wide(&wide)
    };
    let scalar = Scalar::from_bytes_mod_order(clamp_integer(low));
    let public = EdwardsPoint::mul_base(&scalar).compress();
    let r = wide(hash(&digest::SHA512, &[&secret[32..], message]));
    let commitment = EdwardsPoint::mul_base(&r).compress();
    let k = wide(hash(
        &digest::SHA512,
        &[commitment.as_bytes(), public.as_bytes(), message],
    ));
    let s = k * scalar + r;
    [&commitment.as_bytes()[..], &s.as_bytes()[..]].concat()
}

/// MariaDB's `parsec`: an Ed25519 key from PBKDF2 over the password signs both nonces.
///
/// Shape of `salt`: `P`, the exponent of the iterations (1024 << it), then the salt.
fn answer_parsec(password: &[u8], nonce: &[u8], salt: &[u8]) -> Result<Vec<u8>, WireFailure> {
    let (b'P', exponent, salt) = (match salt {
        [kind, exponent @ 0..=10, salt @ ..] => (*kind, *exponent, salt),
        _ => return Err(WireFailure::Protocol("a salt of another kind")),
    }) else {
        return Err(WireFailure::Protocol("a salt of another kind"));
    };
    let iterations = NonZeroU32::new(1024 << exponent).expect("1024 shifted by at most 10");
    let mut seed = [0u8; 32];
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA512,
        iterations,
        salt,
        password,
        &mut seed,
    );
    let key = Ed25519KeyPair::from_seed_unchecked(&seed)
        .map_err(|_| refused("no key could be made of the password"))?;
    let mut own = [0u8; 32];
    aws_lc_rs::rand::fill(&mut own).map_err(|_| refused("no random numbers"))?;
    let nonce = nonce.get(..32).unwrap_or(nonce);
    let signature = key.sign(&[nonce, &own].concat());
    Ok([&own[..], signature.as_ref()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ed25519_of_an_empty_message_verifies() {
        // A password of 32 bytes is a plain Ed25519 seed, so any verifier can check the signature.
        let seed = [7u8; 32];
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        let message = [9u8; 32];
        assert_eq!(sign_ed25519(&seed, &message), key.sign(&message).as_ref());
    }

    #[test]
    fn old_passwords_are_refused() {
        let error = respond("mysql_old_password", "x", &[0; 20], true).unwrap_err();
        assert!(error.to_string().contains("mysql_old_password"));
        assert!(respond("mysql_clear_password", "x", &[0; 20], false).is_err());
    }
}
