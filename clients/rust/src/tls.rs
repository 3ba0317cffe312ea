//! TLS by rustls with ring: which certificates a client accepts. A server may use one of the trusted root
//! certificates itself, which webpki refuses and curl allows.

use std::{path::PathBuf, sync::Arc};

use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    server::ParsedCertificate,
};

use crate::error;

/// Which certificate of a server is accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// One that the root certificates of this system, or of `SSL_CERT_FILE`, vouch for.
    #[default]
    SystemRoots,
    /// One that the root certificates in this PEM file vouch for, or that is one of them.
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
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::SystemRoots => Arc::new(VerifyByRoots::new(system_roots()?, provider)?),
        Trust::RootsFile(file) => Arc::new(VerifyByRoots::new(roots_in(file)?, provider)?),
        Trust::AnyCertificate => Arc::new(AcceptAny(provider)),
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

type Certificates = Vec<CertificateDer<'static>>;

fn system_roots() -> Result<(RootCertStore, Certificates), String> {
    let loaded = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems carry roots that rustls cannot read; the others still work.
    let (added, _) = roots.add_parsable_certificates(loaded.certs.iter().cloned());
    if added == 0 {
        let reasons: Vec<_> = loaded.errors.iter().map(ToString::to_string).collect();
        return Err(format!("this system has no root certificates: {}", reasons.join(", ")));
    }
    Ok((roots, loaded.certs))
}

fn roots_in(file: &PathBuf) -> Result<(RootCertStore, Certificates), String> {
    let unusable = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let (mut roots, mut certificates) = (RootCertStore::empty(), Vec::new());
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(&error))? {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate.clone()).map_err(|error| unusable(&error))?;
        certificates.push(certificate);
    }
    if roots.is_empty() {
        return Err(unusable(&"holds no certificate"));
    }
    Ok((roots, certificates))
}

/// The failure of a call because of the server's certificate; none if something else is wrong with the connection.
pub(crate) fn refused_certificate(call: &'static str, error: &Error) -> Option<error::Error> {
    let Error::InvalidCertificate(error) = error else { return None };
    let untrusted = |reason: &str| error::Error::Untrusted { call, reason: reason.to_owned() };
    let moment = |time: &UnixTime| {
        let second = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        jiff::Timestamp::from_second(second).map_or("a far day".to_owned(), |moment| moment.to_string())
    };
    let reason = match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            return Some(untrusted("no root certificate that is trusted here issued it"));
        }
        error if is_ca_as_server(error) => {
            return Some(untrusted("it is that of an authority (CA:TRUE), and not one that is trusted here"));
        }
        CertificateError::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            format!("it is for no host (it has no subjectAltName), and not for {}", expected.to_str())
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            // Each is shown as `DnsName("localhost")`.
            let names = presented.iter().map(|name| name.split('"').nth(1).unwrap_or(name));
            format!("it is for {}, and not for {}", names.collect::<Vec<_>>().join(", "), expected.to_str())
        }
        CertificateError::ExpiredContext { not_after, .. } => format!("it expired at {}", moment(not_after)),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("it is not valid before {}", moment(not_before))
        }
        other => other.to_string(),
    };
    let reason = format!("the certificate of the server is refused: {reason}");
    Some(error::Error::NotConnected { call, reason, is_permanent: true })
}

/// Whether a server uses the certificate of an authority for itself. The error is one of webpki's, which this crate does not
/// know by type.
fn is_ca_as_server(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(error) if error.to_string().contains("CaUsedAsEndEntity"))
}

/// Verifies certificates by the root certificates. A server may use one of these itself, as curl, Go and Python allow it:
/// that is what `openssl req -x509` makes.
#[derive(Debug)]
struct VerifyByRoots {
    roots: Certificates,
    verifier: Arc<WebPkiServerVerifier>,
}

impl VerifyByRoots {
    fn new(
        (store, roots): (RootCertStore, Certificates),
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build();
        Ok(Self { roots, verifier: verifier.map_err(|error| error.to_string())? })
    }
}

impl ServerCertVerifier for VerifyByRoots {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.verifier.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // Its dates are checked before this error, and its name after it.
            Err(Error::InvalidCertificate(error))
                if is_ca_as_server(&error) && self.roots.iter().any(|root| root == certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
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
