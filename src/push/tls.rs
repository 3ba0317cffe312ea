//! The client's side of TLS: which authorities are trusted.

use std::{io, path::Path, sync::Arc};

use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::{net::TcpStream, sync::OnceCell};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring},
};

use crate::{job::Host, small_file};

use super::failure::CallFailure;

/// TLS 1.2 and 1.3 by ring. The system's authorities are read when they are first needed: a server without callbacks to
/// `https` neither waits for them nor stores them.
pub(super) struct ClientTls {
    /// The authorities of `callbacks.ca_file`.
    own: Vec<CertificateDer<'static>>,
    connector: OnceCell<TlsConnector>,
}

impl ClientTls {
    /// Reads the file with further authorities, in PEM.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let own = ca_file.map_or(Ok(Vec::new()), read_authorities)?;
        Ok(Self { own, connector: OnceCell::new() })
    }

    /// Makes a TLS connection of a stream. The certificate must be for `host` and from a trusted authority.
    pub async fn connect(&self, host: &Host, stream: TcpStream) -> Result<TlsStream<TcpStream>, CallFailure> {
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.to_string()).map_err(|_| {
                CallFailure::Tls("the host is not a name that a certificate can have".to_owned())
            })?,
            Host::Address(address) => ServerName::IpAddress((*address).into()),
        };
        let connector = self.connector.get_or_init(|| self.connector()).await;
        connector.connect(name, stream).await.map_err(|error| failure(&error))
    }

    async fn connector(&self) -> TlsConnector {
        // Reads some hundred files on some systems.
        let read = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
        let system = read.map(|read| read.certs).unwrap_or_default();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(system.into_iter().chain(self.own.iter().cloned()));
        if roots.is_empty() {
            tracing::warn!(
                "the system has no certificates of authorities: no certificate of an endpoint is trusted"
            );
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has the cipher suites of TLS 1.2 and 1.3");
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config).into()
    }
}

/// Checks the file with further authorities, as [`Caller::new`](super::Caller::new) does.
///
/// # Errors
/// The file and what is wrong with it.
pub fn check_authorities(ca_file: Option<&Path>) -> Result<(), String> {
    ClientTls::new(ca_file).map(drop)
}

fn read_authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes =
        small_file::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let authorities = read.map_err(|_| format!("{} is not PEM", file.display()))?;
    let (usable, _) = RootCertStore::empty().add_parsable_certificates(authorities.iter().cloned());
    if authorities.is_empty() || usable < authorities.len() {
        return Err(format!("{} must hold certificates of authorities, and nothing else", file.display()));
    }
    Ok(authorities)
}

/// A failed handshake: the peer went away, or TLS itself failed.
fn failure(error: &io::Error) -> CallFailure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            CallFailure::Tls("the connection ended during the handshake".to_owned())
        }
        _ => CallFailure::Tls(error.to_string()),
    }
}
