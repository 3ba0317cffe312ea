//! TLS to the servers: whose certificates are trusted, and the certificate that Linger shows. Both come from files, which
//! can be read again while the engine runs. Connections keep what they began with. Opens no connection.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use rustls_pki_types::ServerName;
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, client::ResolvesClientCert, crypto::ring, sign::SingleCertAndKey},
};

use super::options::{TlsOptions, bare_host};
use crate::{
    config::FileFault,
    tls::{TlsFile, client_trusting, not_after, read_authorities, read_pair, system_authorities},
};

/// The client's side of TLS 1.2 and 1.3. Clones share what was read last.
#[derive(Clone)]
pub struct RedisTls(Arc<Shared>);

struct Shared {
    options: TlsOptions,
    current: RwLock<Current>,
}

/// What new connections use.
struct Current {
    config: Arc<ClientConfig>,
    certificate_end: Option<i64>,
}

impl RedisTls {
    /// Reads the files. Blocks for as long as their file systems do.
    ///
    /// # Errors
    /// Every file that cannot be used, and why.
    pub fn read(options: &TlsOptions) -> Result<Self, Vec<FileFault>> {
        let current = read(options)?;
        Ok(Self(Arc::new(Shared { options: options.clone(), current: RwLock::new(current) })))
    }

    /// Reads the files again. New connections use them.
    ///
    /// # Errors
    /// As [`read`](Self::read); what was read before then stays in use.
    pub fn reload(&self) -> Result<(), Vec<FileFault>> {
        let current = read(self.options())?;
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(())
    }

    /// The files and the name.
    #[must_use]
    pub fn options(&self) -> &TlsOptions {
        &self.0.options
    }

    /// Until when Linger's own certificate is valid, in seconds since the Unix epoch, if there is one.
    #[must_use]
    pub fn certificate_end(&self) -> Option<i64> {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).certificate_end
    }

    /// Without files, for tests.
    #[cfg(test)]
    pub(super) fn untrusting(options: TlsOptions) -> Self {
        let config = client_trusting(RootCertStore::empty()).with_no_client_auth();
        let current = RwLock::new(Current { config: Arc::new(config), certificate_end: None });
        Self(Arc::new(Shared { options, current }))
    }

    /// Makes a TLS connection of a stream.
    pub(super) fn connector(&self) -> TlsConnector {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).config.clone().into()
    }

    /// The name that the certificate of the server at `host` must have.
    pub(super) fn expected_name<'a>(&'a self, host: &'a str) -> &'a str {
        self.options().server_name.as_deref().unwrap_or(bare_host(host))
    }

    /// The same, parsed; `None` if no certificate can have it.
    pub(super) fn server_name(&self, host: &str) -> Option<ServerName<'static>> {
        ServerName::try_from(self.expected_name(host).to_owned()).ok()
    }
}

impl fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTls").field("options", self.options()).finish_non_exhaustive()
    }
}

fn read(options: &TlsOptions) -> Result<Current, Vec<FileFault>> {
    let authorities = authorities(options).map_err(|problem| FileFault { key: "redis.ca_file", problem });
    let pair = match &options.client {
        None => Ok(None),
        Some(files) => {
            read_pair(&ring::default_provider(), &files.certificate, &files.key).map(Some).map_err(|files| {
                let fault = |file: crate::tls::UnusableTlsFile| FileFault {
                    key: match file.which {
                        TlsFile::Certificate => "redis.client_certificate",
                        TlsFile::Key => "redis.client_key",
                    },
                    problem: file.problem,
                };
                files.into_iter().map(fault).collect::<Vec<_>>()
            })
        }
    };
    let (authorities, pair) = match (authorities, pair) {
        (Ok(authorities), Ok(pair)) => (authorities, pair),
        (authorities, pair) => {
            return Err(authorities.err().into_iter().chain(pair.err().into_iter().flatten()).collect());
        }
    };
    let own_certificate = pair.as_ref().and_then(|pair| pair.end_entity_cert().ok());
    let certificate_end = own_certificate.and_then(|der| not_after(der));
    let config = client_trusting(authorities);
    let config = match pair {
        None => config.with_no_client_auth(),
        Some(pair) => {
            let shown: Arc<dyn ResolvesClientCert> = Arc::new(SingleCertAndKey::from(pair));
            config.with_client_cert_resolver(shown)
        }
    };
    Ok(Current { config: Arc::new(config), certificate_end })
}

/// The authorities of `redis.ca_file`, or else the system's.
fn authorities(options: &TlsOptions) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match &options.ca_file {
        Some(file) => {
            roots.add_parsable_certificates(read_authorities(file)?);
        }
        None => {
            roots.add_parsable_certificates(system_authorities());
            if roots.is_empty() {
                return Err("the system has no certificates of authorities: install its package \
                            (ca-certificates), or name a file here"
                    .to_owned());
            }
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::TlsFiles;

    /// Writes a certificate and its key.
    fn write_pair(directory: &Path) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        std::fs::write(directory.join("cert.pem"), made.cert.pem()).expect("writes");
        std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).expect("writes");
    }

    #[test]
    fn every_unusable_file_is_named_by_its_key_and_changes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str| directory.path().join(name);
        let client = TlsFiles { certificate: file("cert.pem"), key: file("key.pem") };
        let options =
            TlsOptions { ca_file: Some(file("ca.pem")), client: Some(client), ..TlsOptions::default() };
        let missing = RedisTls::read(&options).expect_err("the files are missing");
        let keys: Vec<&str> = missing.iter().map(|fault| fault.key).collect();
        assert_eq!(keys, ["redis.ca_file", "redis.client_certificate", "redis.client_key"]);
        assert!(missing[0].problem.contains("ca.pem cannot be read"), "{missing:?}");

        write_pair(directory.path());
        std::fs::copy(file("cert.pem"), file("ca.pem")).expect("copies");
        let tls = RedisTls::read(&options).expect("all files are there");
        let before = tls.connector();
        assert!(tls.certificate_end().is_some());
        std::fs::write(file("ca.pem"), "").expect("writes");
        let faults = tls.reload().expect_err("an empty file");
        assert!(matches!(&faults[..], [one] if one.key == "redis.ca_file"), "{faults:?}");
        assert!(Arc::ptr_eq(before.config(), tls.connector().config()), "the old files stay in use");
        std::fs::copy(file("cert.pem"), file("ca.pem")).expect("copies");
        tls.clone().reload().expect("all files are there");
        assert!(!Arc::ptr_eq(before.config(), tls.connector().config()), "clones share the new files");
    }

    #[test]
    fn the_name_of_the_settings_counts_before_the_host() {
        let name = |tls: &RedisTls, host: &str| tls.server_name(host).map(|name| name.to_str().into_owned());
        let server_name = Some("redis.example".to_owned());
        let named = TlsOptions { server_name, ..TlsOptions::default() };
        let [plain, named] = [TlsOptions::default(), named].map(RedisTls::untrusting);
        assert_eq!(name(&plain, "[::1]").as_deref(), Some("::1"));
        assert_eq!(name(&plain, "cache-1").as_deref(), Some("cache-1"));
        assert_eq!(name(&plain, "-"), None);
        assert_eq!(name(&named, "10.0.0.5").as_deref(), Some("redis.example"));
    }
}
