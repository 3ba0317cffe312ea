//! Settings that limit callbacks, from the file, the environment or the topic to the calls of a real server.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use linger::job::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring},
};

use super::{
    Home,
    behavior::{add, call, wait_for_callbacks, wait_until_gone},
    on_both_engines,
};
use crate::harness::{
    receiver::{Answer, Receiver},
    wait::TimeLimit,
};

/// Jobs of a topic with a limited number of calls at a time, and that limit.
const JOBS: usize = 20;
const CONCURRENCY: usize = 2;

on_both_engines! { a_topic_is_called_for_as_many_jobs_at_a_time_as_its_concurrency_allows }

async fn a_topic_is_called_for_as_many_jobs_at_a_time_as_its_concurrency_allows(home: Home) {
    let server = home.start();
    let receiver = Receiver::start(2, |call| match call.port {
        0 => Answer::WhenOpen(204),
        _ => Answer::Status(204),
    })
    .await;
    let callback = |port: usize| json!({ "url": receiver.url(port, "/") });
    let mut limited = callback(0);
    limited["concurrency"] = CONCURRENCY.into();
    call(&server, "PUT", "/topics/limited", &json!({ "callback": limited }), 200);
    // Half of the jobs have callbacks of their own: the limit is that of the topic, not of an endpoint.
    let job = |n: usize| match n % 2 {
        0 => json!({"topic": "limited", "id": n.to_string()}),
        _ => json!({"topic": "limited", "id": n.to_string(), "callback": callback(0)}),
    };
    let jobs: Vec<Value> = (0..JOBS).map(job).collect();
    call(&server, "POST", "/batch/jobs", &json!({ "jobs": jobs }), 200);
    let time_limit = TimeLimit::new();
    while receiver.calls().len() < CONCURRENCY {
        time_limit.check(|| server.call("GET", "/metrics", "").body);
        time_limit.pause().await;
    }
    // Other topics are called meanwhile.
    add(&server, json!({"topic": "other", "id": "other", "callback": callback(1)}));
    wait_until_gone(&server, "other").await;
    receiver.open_gate();
    wait_for_callbacks(&server, "limited", "ok", JOBS as f64).await;
    let calls: Vec<_> = receiver.calls().iter().filter(|call| call.port == 0).cloned().collect();
    assert_eq!(calls.len(), JOBS);
    for call in &calls {
        let at_the_time = calls.iter().filter(|other| {
            other.arrived <= call.arrived && other.answering.is_none_or(|answering| answering > call.arrived)
        });
        assert!(at_the_time.count() <= CONCURRENCY, "too many calls when {} arrived", call.job());
    }
}

/// The endpoint asks for two days.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_postpones_the_next_attempt_by_a_day_at_most() {
    const DAY: Duration = Duration::from_secs(86_400);
    let home = Home::embedded_in_memory();
    let server = home.start();
    let receiver = Receiver::start(1, |_| Answer::RetryIn(2 * DAY)).await;
    let callback = json!({ "url": receiver.url(0, "/") });
    add(&server, json!({"topic": "t", "id": "a", "retry": ["2h"], "callback": callback}));
    wait_for_callbacks(&server, "t", "failed", 1.0).await;
    let job = call(&server, "GET", "/jobs/a", &json!(null), 200);
    let millis =
        |time: &str| Timestamp::parse(job[time].as_str().expect("a time")).expect("a time").as_millis();
    let waits = Duration::from_millis((millis("due_at") - millis("created_at")).unsigned_abs());
    // The call may have taken a while.
    assert!(DAY <= waits && waits < DAY + Duration::from_secs(600), "{job}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_networks_are_refused_in_urls_and_behind_names() {
    let home = Home::embedded_in_memory();
    let server = home.start_with(&[("LINGER__CALLBACKS__DENY_NETWORKS", "127.0.0.0/8, ::1")]);
    let receiver = Receiver::start(1, |_| Answer::Status(204)).await;
    let url = receiver.url(0, "/");
    let job = |url: &str| json!({"topic": "t", "id": "a", "retry": ["1h"], "callback": {"url": url}});
    let refused = call(&server, "POST", "/jobs", &job(&url), 422);
    assert_eq!(refused["code"], "callback_not_allowed", "{refused}");
    add(&server, job(&url.replace("127.0.0.1", "localhost")));
    wait_for_callbacks(&server, "t", "unreachable", 1.0).await;
    let failed = call(&server, "GET", "/jobs/a", &Value::Null, 200);
    let reason = failed["reason"].as_str().expect("a reason");
    assert!(failed["state"] == "delayed" && reason.starts_with("address_refused"), "{failed}");
    assert_eq!(server.metric("linger_callback_failures_total{reason=\"address_refused\"}"), Some(1.0));
    assert_eq!(receiver.calls().len(), 0);
}

/// Starts an endpoint for `localhost` that answers 204 over TLS. Returns its address, and the certificate of its authority as
/// PEM.
async fn start_tls_endpoint() -> (SocketAddr, String) {
    let mut params = CertificateParams::new(Vec::new()).expect("valid");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signs");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("valid");
    let certificate = params.signed_by(&key, &authority).expect("signs");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("has versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a valid pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("has an address");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            // A client that does not trust the authority ends the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\nnull") {
                assert!(stream.read_buf(&mut request).await.expect("reads") > 0, "a whole request");
            }
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("is read");
        }
    });
    (address, authority.pem())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_that_the_system_gets_later_need_no_restart() {
    let home = Home::embedded_in_memory();
    let (endpoint, authority) = start_tls_endpoint().await;
    let file = home.directory.path().join("system.pem");
    let callback = json!({ "url": format!("https://localhost:{}/", endpoint.port()) });
    let server = home.start_with(&[("SSL_CERT_FILE", file.to_str().expect("is text"))]);
    add(&server, json!({"topic": "t", "id": "a", "retry": ["1h"], "callback": callback}));
    wait_for_callbacks(&server, "t", "unreachable", 1.0).await;
    std::fs::write(&file, authority).expect("can be written");
    add(&server, json!({"topic": "t", "id": "b", "callback": callback}));
    wait_for_callbacks(&server, "t", "ok", 1.0).await;
    wait_until_gone(&server, "b").await;
    let warning = "the system has no certificates of authorities";
    assert_eq!(server.log().matches(warning).count(), 1, "{}", server.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_with_a_certificate_of_a_private_authority_is_called_with_the_ca_file_only() {
    let home = Home::embedded_in_memory();
    let (endpoint, authority) = start_tls_endpoint().await;
    let file = home.directory.path().join("ca.pem");
    std::fs::write(&file, authority).expect("can be written");
    let callback = json!({ "url": format!("https://localhost:{}/", endpoint.port()) });
    let server = home.start();
    add(&server, json!({"topic": "t", "id": "a", "retry": ["1h"], "callback": callback}));
    wait_for_callbacks(&server, "t", "unreachable", 1.0).await;
    let failed = call(&server, "GET", "/jobs/a", &Value::Null, 200);
    assert!(failed["reason"].as_str().is_some_and(|reason| reason.starts_with("tls")), "{failed}");
    assert!(server.stop().success());
    let server = home.start_with(&[("LINGER__CALLBACKS__CA_FILE", file.to_str().expect("is text"))]);
    add(&server, json!({"topic": "t", "id": "b", "callback": callback}));
    wait_for_callbacks(&server, "t", "ok", 1.0).await;
    wait_until_gone(&server, "b").await;
}
