//! TLS: a certificate chain and its private key from two files, which can be reloaded while the server runs.
//! Connections keep the pair with which they began.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::{CryptoProvider, ring},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
};

use super::certificate;
use crate::{
    clock::{Clock, SystemClock},
    metrics::ConnectionMetrics,
    small_file,
};

/// The server's side of TLS 1.2 and 1.3. Cheap to clone.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    pair: Arc<CurrentPair>,
    certificate: PathBuf,
    key: PathBuf,
}

/// The certificate and key for new connections.
#[derive(Debug)]
struct CurrentPair(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentPair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// One of the two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFile {
    /// The certificate chain.
    Certificate,
    /// Its private key.
    Key,
}

/// Which file cannot be used and why. Shows nothing of its content.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct UnusableTlsFile {
    /// The file at fault.
    pub which: TlsFile,
    /// Its path, and what is wrong.
    pub problem: String,
}

impl ServerTls {
    /// Reads a certificate chain, the server's own certificate first, and its private key, both in PEM.
    ///
    /// # Errors
    /// At least one file that cannot be used.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, Vec<UnusableTlsFile>> {
        let provider = Arc::new(ring::default_provider());
        let pair = Arc::new(CurrentPair(RwLock::new(read_pair(&provider, certificate, key)?)));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has the cipher suites of TLS 1.2 and 1.3");
        let mut config = config.with_no_client_auth().with_cert_resolver(pair.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), pair, certificate: certificate.into(), key: key.into() })
    }

    /// Reads both files again. New connections use the new pair.
    ///
    /// # Errors
    /// As [`read`](Self::read); the old pair then stays in use.
    pub fn reload(&self) -> Result<(), Vec<UnusableTlsFile>> {
        let pair = read_pair(self.config.crypto_provider(), &self.certificate, &self.key)?;
        *self.pair.0.write().unwrap_or_else(PoisonError::into_inner) = pair;
        Ok(())
    }

    /// Publishes until when the server's own certificate is valid, and warns if that moment has passed. Clients may ignore
    /// the others of the chain.
    pub fn publish(&self, metrics: &ConnectionMetrics) {
        let pair = self.pair.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let not_after = pair.end_entity_cert().ok().and_then(|der| certificate::not_after(der));
        metrics.set_certificate_end(not_after);
        if not_after.is_some_and(|end| end <= SystemClock::new().now_micros() / 1_000_000) {
            let file = self.certificate.display();
            tracing::warn!(%file, "the certificate has expired, so clients refuse to connect");
        }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.config.clone().into()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

fn read_pair(
    provider: &CryptoProvider,
    certificate: &Path,
    key: &Path,
) -> Result<Arc<CertifiedKey>, Vec<UnusableTlsFile>> {
    let unusable = |which, problem: String| UnusableTlsFile { which, problem };
    let chain = read_chain(certificate).map_err(|problem| unusable(TlsFile::Certificate, problem));
    let private = read_key(key).map_err(|problem| unusable(TlsFile::Key, problem));
    let (chain, private) = match (chain, private) {
        (Ok(chain), Ok(private)) => (chain, private),
        (chain, private) => return Err(chain.err().into_iter().chain(private.err()).collect()),
    };
    let pair = CertifiedKey::from_der(chain, private, provider).map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        vec![match error {
            rustls::Error::InconsistentKeys(_) => {
                unusable(TlsFile::Key, format!("{key} is not the key of {certificate}"))
            }
            rustls::Error::InvalidCertificate(_) => unusable(
                TlsFile::Certificate,
                format!("{certificate} holds something other than a certificate"),
            ),
            _ => {
                let kinds = "RSA, ECDSA (P-256, P-384) and Ed25519";
                unusable(
                    TlsFile::Key,
                    format!("{key} holds a key of a kind that is not supported; {kinds} are"),
                )
            }
        }]
    })?;
    Ok(Arc::new(pair))
}

fn read_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read_file(file)?).collect();
    let chain = chain.map_err(|_| format!("{} is not PEM", file.display()))?;
    if chain.is_empty() { Err(format!("{} holds no certificate", file.display())) } else { Ok(chain) }
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(&read_file(file)?)
        .map_err(|_| format!("{} holds no private key in PEM", file.display()))
}

fn read_file(file: &Path) -> Result<Vec<u8>, String> {
    small_file::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestFiles {
        directory: tempfile::TempDir,
    }

    impl TestFiles {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().expect("a temporary directory") }
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.directory.path().join(name);
            std::fs::write(&path, text).expect("can be written");
            path
        }
    }

    #[test]
    fn an_unusable_file_is_named_and_the_old_pair_stays() {
        let files = TestFiles::new();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let certificate = files.write("cert.pem", &made.cert.pem());
        let key = files.write("key.pem", &made.signing_key.serialize_pem());
        let tls = ServerTls::read(&certificate, &key).expect("a valid pair");
        let before = tls.pair.0.read().expect("not poisoned").clone();
        let broken = made.cert.pem().replace("MII", "MI!");
        let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (name, text, part) in [
            ("cert.pem", "", "cert.pem holds no certificate"),
            ("cert.pem", made.signing_key.serialize_pem().as_str(), "cert.pem holds no certificate"),
            ("cert.pem", broken.as_str(), "cert.pem is not PEM"),
            ("cert.pem", no_der, "cert.pem"),
            ("cert.pem", other.cert.pem().as_str(), "is not the key of"),
            ("key.pem", "", "key.pem holds no private key"),
            ("key.pem", made.cert.pem().as_str(), "key.pem holds no private key"),
            ("key.pem", other.signing_key.serialize_pem().as_str(), "is not the key of"),
        ] {
            files.write("cert.pem", &made.cert.pem());
            files.write("key.pem", &made.signing_key.serialize_pem());
            files.write(name, text);
            let problems = tls.reload().expect_err("an unusable file");
            assert!(
                matches!(&problems[..], [one] if one.problem.contains(part)),
                "{name} {text}: {problems:?}"
            );
            assert!(Arc::ptr_eq(&before, &tls.pair.0.read().expect("not poisoned")), "the old pair stays");
        }
        files.write("cert.pem", &other.cert.pem());
        files.write("key.pem", &other.signing_key.serialize_pem());
        tls.reload().expect("a valid pair");
        assert!(!Arc::ptr_eq(&before, &tls.pair.0.read().expect("not poisoned")));
        let none = files.directory.path().join("none.pem");
        let missing = ServerTls::read(&none, &none).expect_err("missing files");
        assert_eq!(
            missing.iter().map(|fault| fault.which).collect::<Vec<_>>(),
            [TlsFile::Certificate, TlsFile::Key]
        );
        assert!(missing[0].problem.contains("none.pem cannot be read"), "{missing:?}");
    }
}
