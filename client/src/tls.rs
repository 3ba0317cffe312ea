//! TLS by rustls with ring: which certificates a client accepts.

use std::{path::PathBuf, sync::Arc};

use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
};

/// Which certificate of a server is accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// One that the root certificates of this system vouch for.
    #[default]
    SystemRoots,
    /// One that the root certificates in this PEM file vouch for.
    RootsFile(PathBuf),
    /// Any whose key the server proves to have. Only for calls that send and ask nothing secret, such as a
    /// health check, where the certificate may be for another name than the address in use.
    AnyCertificate,
}

/// Builds the settings of TLS connections; an error names what cannot be used.
pub(crate) fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = match trust {
        Trust::SystemRoots => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
        Trust::RootsFile(file) => builder.with_root_certificates(roots_in(file)?).with_no_client_auth(),
        Trust::AnyCertificate => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
            .with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn system_roots() -> Result<RootCertStore, String> {
    let loaded = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems carry roots that rustls cannot read; the others still work.
    let (added, _) = roots.add_parsable_certificates(loaded.certs);
    if added == 0 {
        let reasons: Vec<_> = loaded.errors.iter().map(ToString::to_string).collect();
        return Err(format!("this system has no root certificates: {}", reasons.join(", ")));
    }
    Ok(roots)
}

fn roots_in(file: &PathBuf) -> Result<RootCertStore, String> {
    let unusable = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(&error))? {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    if roots.is_empty() {
        return Err(unusable(&"holds no certificate"));
    }
    Ok(roots)
}

/// Checks that the server has the key of its certificate, and nothing else.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
