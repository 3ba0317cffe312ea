//! The client's side of TLS: which authorities are trusted.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustls_pki_types::{CertificateDer, ServerName};
use tokio::{net::TcpStream, sync::OnceCell};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::RootCertStore};

use crate::{
    job::Host,
    tls::{client_trusting, read_authorities, system_authorities},
};

use super::failure::CallFailure;

/// TLS 1.2 and 1.3 by ring. The system's authorities are read when they are first needed: a server without callbacks to
/// `https` neither waits for them nor stores them.
pub(super) struct ClientTls {
    /// The authorities of `callbacks.ca_file`.
    own: Vec<CertificateDer<'static>>,
    connector: OnceCell<TlsConnector>,
    /// Whether the log says that no certificate is trusted.
    has_warned: AtomicBool,
}

/// A connector that trusts the authorities of the settings alone, because the system has none now.
struct WithoutSystem(TlsConnector);

impl ClientTls {
    /// Reads the file with further authorities, in PEM.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let own = ca_file.map_or(Ok(Vec::new()), read_authorities)?;
        Ok(Self { own, connector: OnceCell::new(), has_warned: AtomicBool::new(false) })
    }

    /// Makes a TLS connection of a stream. The certificate must be for `host` and from a trusted authority.
    pub async fn connect(&self, host: &Host, stream: TcpStream) -> Result<TlsStream<TcpStream>, CallFailure> {
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.to_string()).map_err(|_| {
                CallFailure::Tls("the host is not a name that a certificate can have".to_owned())
            })?,
            Host::Address(address) => ServerName::IpAddress((*address).into()),
        };
        let connector = match self.connector.get_or_try_init(|| self.read()).await {
            Ok(connector) => connector.clone(),
            Err(WithoutSystem(connector)) => connector,
        };
        connector.connect(name, stream).await.map_err(|error| failure(&error))
    }

    /// A connector that trusts the system's authorities. If the system has none, they are read again at the next call: their
    /// files may not have been there yet, or no file could be opened.
    async fn read(&self) -> Result<TlsConnector, WithoutSystem> {
        let system = tokio::task::spawn_blocking(system_authorities).await.unwrap_or_default();
        let has_system = !system.is_empty();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(system.into_iter().chain(self.own.iter().cloned()));
        if roots.is_empty() && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the system has no certificates of authorities: no certificate of an endpoint is trusted"
            );
        }
        let mut config = client_trusting(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let connector = Arc::new(config).into();
        if has_system { Ok(connector) } else { Err(WithoutSystem(connector)) }
    }
}

/// Checks the file with further authorities, as [`Caller::new`](super::Caller::new) does.
///
/// # Errors
/// The file and what is wrong with it.
pub fn check_authorities(ca_file: Option<&Path>) -> Result<(), String> {
    ClientTls::new(ca_file).map(drop)
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
