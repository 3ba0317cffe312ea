//! An authority for the tests, and the certificates that it signs, as files.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// An authority. Its files live as long as it does.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

/// The files of a certificate: those of its authority, of itself and of its key.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate for its own authority if both have the same name.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("authority {}", NEXT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signs");
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("ca.pem"), issuer.pem()).expect("writes");
        Self { issuer, directory }
    }

    /// A certificate for these names and addresses.
    pub fn issue(&self, names: &[&str]) -> CertificateFiles {
        self.issue_until(names, 4096)
    }

    /// One that expires at the begin of a year.
    pub fn issue_until(&self, names: &[&str], year: i32) -> CertificateFiles {
        let directory = tempfile::tempdir_in(self.directory.path()).expect("a directory").keep();
        self.issue_into(&directory, names, year)
    }

    /// Writes `ca.pem`, `cert.pem` and `key.pem` into a directory, in place of those that are there.
    pub fn issue_into(&self, directory: &Path, names: &[&str], year: i32) -> CertificateFiles {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("valid");
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signs");
        let file = |name: &str, text: String| {
            fs::write(directory.join(name), text).expect("writes");
            directory.join(name)
        };
        CertificateFiles {
            authority: file("ca.pem", self.issuer.pem()),
            certificate: file("cert.pem", certificate.pem()),
            key: file("key.pem", key.serialize_pem()),
        }
    }
}
