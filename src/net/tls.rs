//! TLS: a certificate chain and its private key from two files, which can be reloaded while the server runs.
//! Connections keep the pair with which they began.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
};

use crate::tls::{UnusableTlsFile, not_after, read_pair};

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

impl ServerTls {
    /// Reads a certificate chain, the server's own certificate first, and its private key, both in PEM.
    ///
    /// # Errors
    /// At least one file that cannot be used.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, Vec<UnusableTlsFile>> {
        let provider = Arc::new(ring::default_provider());
        let pair = Arc::new(CurrentPair(RwLock::new(Arc::new(read_pair(&provider, certificate, key)?))));
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
        *self.pair.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
        Ok(())
    }

    /// Until when the server's own certificate is valid, in seconds since the Unix epoch, if that is known. Clients may
    /// ignore the others of the chain.
    #[must_use]
    pub fn certificate_end(&self) -> Option<i64> {
        let pair = self.pair.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        pair.end_entity_cert().ok().and_then(|der| not_after(der))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::TlsFile;

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
