//! Files with certificates and keys. An error shows nothing of their content.

use std::path::Path;

use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::rustls::{self, RootCertStore, crypto::CryptoProvider, sign::CertifiedKey};

use crate::files::small_file;

/// Which of the two files of a certificate.
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

/// Reads a certificate chain, the owner's own certificate first, and its private key, both in PEM.
///
/// # Errors
/// At least one file that cannot be used.
pub fn read_pair(
    provider: &CryptoProvider,
    certificate: &Path,
    key: &Path,
) -> Result<CertifiedKey, Vec<UnusableTlsFile>> {
    let unusable = |which, problem: String| UnusableTlsFile { which, problem };
    let chain = read_chain(certificate).map_err(|problem| unusable(TlsFile::Certificate, problem));
    let private = read_key(key).map_err(|problem| unusable(TlsFile::Key, problem));
    let (chain, private) = match (chain, private) {
        (Ok(chain), Ok(private)) => (chain, private),
        (chain, private) => return Err(chain.err().into_iter().chain(private.err()).collect()),
    };
    CertifiedKey::from_der(chain, private, provider).map_err(|error| {
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
    })
}

/// Reads certificates of authorities, in PEM.
///
/// # Errors
/// The file and what is wrong with it.
pub fn read_authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read_file(file)?).collect();
    let authorities = read.map_err(|_| format!("{} is not PEM", file.display()))?;
    let (usable, _) = RootCertStore::empty().add_parsable_certificates(authorities.iter().cloned());
    if authorities.is_empty() || usable < authorities.len() {
        return Err(format!("{} must hold certificates of authorities, and nothing else", file.display()));
    }
    Ok(authorities)
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
