//! Whose certificates a client trusts.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use tokio_rustls::rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, client::WantsClientCert, crypto::ring,
};

/// The authorities that the system trusts. Blocks: they are some hundred files on some systems.
pub fn system_authorities() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// The client's side of TLS 1.2 and 1.3, which trusts these authorities.
pub fn client_trusting(authorities: RootCertStore) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of TLS 1.2 and 1.3")
        .with_root_certificates(authorities)
}
