//! TLS of a listener.

use crate::call::TlsDetails;
use crate::settings::TlsConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::path::Path;
use std::sync::Arc;

/// A listener's TLS.
///
/// Errors: which file is wrong, and how.
pub(crate) fn server_config(config: &TlsConfig) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates(&config.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&config.key)
        .map_err(|error| format!("read the private key in {}: {error}", config.key.display()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("set up TLS: {error}"))?;
    let builder = match &config.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| format!("read {}: {error}", path.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| format!("read {}: {error}", path.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut server = builder.with_single_cert(chain, key).map_err(|error| {
        format!(
            "use the certificate in {} with the key in {}: {error}",
            config.certificate.display(),
            config.key.display()
        )
    })?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(server))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("read certificates in {}: {error}", path.display());
    let all: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(|error| failed(&error))?
        .collect::<Result<_, _>>()
        .map_err(|error| failed(&error))?;
    match all.is_empty() {
        true => Err(failed(&"there is none")),
        false => Ok(all),
    }
}

/// What a connection agreed on.
pub(crate) fn details(connection: &ServerConnection) -> TlsDetails {
    let version = match connection.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "",
    };
    let cipher_suite = connection
        .negotiated_cipher_suite()
        .map(|suite| format!("{:?}", suite.suite()))
        .unwrap_or_default();
    TlsDetails {
        version: version.into(),
        cipher_suite,
    }
}
