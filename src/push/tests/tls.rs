//! TLS: whose certificates are trusted.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring},
};

use super::{
    fixture::{Called, Fixture, NO_CONTENT, let_others_run},
    receiver::{Peer, soon},
};
use crate::{
    config::CallbackSettings,
    push::{CallFailure, Caller, SystemResolver, connect::CONNECT_TIMEOUT},
};

/// An authority of our own.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signs");
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(directory.path().join("ca.pem"), issuer.pem()).expect("can be written");
        Self { issuer, directory }
    }

    fn settings(&self) -> CallbackSettings {
        CallbackSettings {
            ca_file: Some(self.directory.path().join("ca.pem")),
            ..CallbackSettings::default()
        }
    }

    /// The server's side with a certificate for `host`.
    fn acceptor(&self, host: &str) -> TlsAcceptor {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![host.to_owned()]).expect("valid");
        let certificate = params.signed_by(&key, &self.issuer).expect("signs");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("has versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a valid pair");
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Calls `host`, which answers two requests over TLS.
async fn call_twice(fixture: &Fixture, host: &str, acceptor: TlsAcceptor) -> (Called, Called) {
    let answering = async {
        let tcp = fixture.receiver.accept().await.stream;
        if let Ok(stream) = acceptor.accept(tcp).await {
            let mut peer = Peer::new(stream);
            peer.answer(NO_CONTENT).await;
            peer.answer(NO_CONTENT).await;
        }
    };
    let calling = async {
        let first = fixture.caller.call(fixture.request_to(host)).await;
        let second = match &first {
            Ok(_) => fixture.caller.call(fixture.request_to(host)).await,
            Err(failure) => Err(failure.clone()),
        };
        (first, second)
    };
    soon(async { tokio::join!(calling, answering).0 }).await
}

#[tokio::test]
async fn certificates_of_our_own_authority_are_trusted_for_their_host() {
    let authority = Authority::new();
    for host in ["hooks.example", "127.0.0.1"] {
        let fixture = Fixture::with(authority.settings()).await;
        let url = format!("https://{host}");
        let (first, second) = call_twice(&fixture, &url, authority.acceptor(host)).await;
        assert_eq!((first.expect("an answer").status, second.expect("over it again").status), {
            let no_content = hyper::StatusCode::NO_CONTENT;
            (no_content, no_content)
        });
    }
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new();
    for certified in ["other.example", "127.0.0.1", "sub.hooks.example"] {
        let fixture = Fixture::with(authority.settings()).await;
        let (called, _) = call_twice(&fixture, "https://hooks.example", authority.acceptor(certified)).await;
        let failure = called.expect_err("the certificate is for another host");
        assert!(matches!(failure, CallFailure::Tls(_)), "{failure}");
    }
}

#[tokio::test]
async fn an_unknown_authority_is_refused() {
    let fixture = Fixture::new().await;
    let (called, _) =
        call_twice(&fixture, "https://hooks.example", Authority::new().acceptor("hooks.example")).await;
    let failure = called.expect_err("the authority is unknown");
    assert!(matches!(&failure, CallFailure::Tls(detail) if detail.contains("UnknownIssuer")), "{failure}");
}

#[tokio::test]
async fn an_endpoint_without_tls_is_refused() {
    let fixture = Fixture::new().await;
    let call = fixture.caller.call(fixture.request_to("https://hooks.example"));
    let answering = async {
        let mut peer = fixture.receiver.accept().await;
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        peer
    };
    let (called, _) = soon(async { tokio::join!(call, answering) }).await;
    assert!(matches!(called.expect_err("is plain"), CallFailure::Tls(_)));
}

#[tokio::test]
async fn a_handshake_that_does_not_end_costs_the_connect_timeout() {
    let fixture = Fixture::new().await;
    // Reads the authorities of the system, which takes real time.
    let (_, _) =
        call_twice(&fixture, "https://hooks.example", Authority::new().acceptor("hooks.example")).await;
    let call = fixture.caller.call(fixture.request_to("https://hooks.example"));
    let waiting = async {
        let peer = fixture.receiver.accept().await;
        let_others_run().await;
        fixture.clock.advance(CONNECT_TIMEOUT);
        peer
    };
    let (called, peer) = soon(async { tokio::join!(call, waiting) }).await;
    assert_eq!(called.expect_err("no handshake"), CallFailure::ConnectTimeout);
    soon(peer.closed()).await;
}

#[tokio::test]
async fn a_file_without_authorities_is_refused() {
    let authority = Authority::new();
    let file = authority.directory.path().join("ca.pem");
    let key = KeyPair::generate().expect("a key").serialize_pem();
    for (text, expected) in [
        (String::new(), "must hold certificates"),
        (key, "must hold certificates"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
            "must hold certificates",
        ),
        (authority.issuer.pem().replace("MI", "M!"), "is not PEM"),
    ] {
        std::fs::write(&file, text).expect("can be written");
        let clock = Arc::new(crate::clock::SystemClock::new());
        let problem =
            Caller::new(authority.settings(), clock, Arc::new(SystemResolver)).expect_err("is unusable");
        assert!(problem.contains(expected), "{problem}");
    }
}
