//! TLS in the servers' own five modes.

use super::error::WireFailure;
use super::transport::{BufferedSocket, TlsStream};
use crate::config::{TlsConfig, TlsMode};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// Where systems keep their authorities.
const SYSTEM_ROOTS: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

fn failed(what: &str, detail: impl ToString) -> WireFailure {
    WireFailure::Tls(format!("{what}: {}", detail.to_string()))
}

fn misconfigured(what: &str, detail: impl ToString) -> WireFailure {
    WireFailure::TlsConfig(format!("{what}: {}", detail.to_string()))
}

/// Wraps a socket; the handshake runs with the first bytes.
pub fn wrap(
    socket: TcpStream,
    host: &str,
    config: &TlsConfig,
) -> Result<Box<TlsStream>, WireFailure> {
    let client = client_config(config)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|e| failed("server name", e))?;
    let connection = rustls::ClientConnection::new(Arc::new(client), name)
        .map_err(|error| failed("set up TLS", error))?;
    let mut stream = Box::new(rustls::StreamOwned::new(
        connection,
        BufferedSocket::new(socket),
    ));
    while stream.conn.is_handshaking() {
        let tls = &mut *stream;
        tls.conn
            .complete_io(&mut tls.sock)
            .map_err(|error| failed("TLS handshake", error))?;
    }
    Ok(stream)
}

fn client_config(config: &TlsConfig) -> Result<ClientConfig, WireFailure> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed("set up TLS", error))?;
    let verifier: Arc<dyn ServerCertVerifier> = match config.mode {
        TlsMode::Disabled | TlsMode::Preferred | TlsMode::Required => {
            Arc::new(Unverified(provider))
        }
        TlsMode::VerifyCa => Arc::new(AnyName(authorities(config, provider)?)),
        TlsMode::VerifyFull => authorities(config, provider)?,
    };
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match (&config.cert, &config.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates(cert)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| misconfigured("tls.key", error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| misconfigured("tls.cert", error))
        }
        (None, None) => Ok(builder.with_no_client_auth()),
        _ => Err(misconfigured("tls", "cert and key go together")),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, WireFailure> {
    let name = path.display().to_string();
    let found = CertificateDer::pem_file_iter(path)
        .map_err(|error| misconfigured(&name, error))?
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| misconfigured(&name, error))?;
    match found.is_empty() {
        true => Err(misconfigured(&name, "it holds no certificate")),
        false => Ok(found),
    }
}

fn authorities(
    config: &TlsConfig,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, WireFailure> {
    let mut roots = RootCertStore::empty();
    let system = SYSTEM_ROOTS
        .iter()
        .map(Path::new)
        .find(|path| path.exists());
    let Some(path) = config.ca.as_deref().or(system) else {
        return Err(misconfigured("tls.ca", "no authorities: name a PEM file"));
    };
    for certificate in certificates(path)? {
        let added = roots.add(certificate);
        if config.ca.is_some() {
            added.map_err(|error| misconfigured("tls.ca", error))?;
        }
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| misconfigured("tls.ca", error))
}

/// `preferred` and `required`: encrypted against eavesdroppers, the server is not checked.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// `verify-ca`: signed by an authority, whatever name it is for.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.0
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
