//! TLS in the program: handshakes do not block the accept loop and have a timeout, SIGHUP reloads the files, and an
//! unusable file is refused with a clear message.

use std::{
    fs,
    io::Read,
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
};

use rustix::process::Signal;
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring},
};

use crate::{
    harness::{
        blocking_http::{self, PAUSED},
        process::{Server, linger, refused, stderr, stdout},
        wait::TimeLimit,
    },
    ouqiang,
};

/// Writes a new certificate for localhost and its key to the configured files. Returns the certificate as PEM.
fn write_certificate(directory: &Path) -> String {
    write_certificate_until(directory, 4096)
}

/// Writes one that expires at the begin of a year.
fn write_certificate_until(directory: &Path, year: i32) -> String {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a valid name");
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("is made").pem();
    fs::write(directory.join("cert.pem"), &certificate).expect("can be written");
    fs::write(directory.join("key.pem"), key.serialize_pem()).expect("can be written");
    certificate
}

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = "[tls]\ncertificate = 'cert.pem'\nkey = 'key.pem'\n";
    fs::write(directory.path().join("linger.toml"), settings).expect("can be written");
    directory
}

/// The response over a TLS connection.
struct Response {
    protocol: Option<Vec<u8>>,
    text: String,
}

/// Sends a request over TLS, trusting only `certificate`. One that was not begun, because the process was paused, is sent again.
async fn call(address: SocketAddr, certificate: &str, request: &str) -> std::io::Result<Response> {
    let time_limit = TimeLimit::new();
    loop {
        let response = call_once(address, certificate, request).await?;
        if !response.text.contains(PAUSED) {
            return Ok(response);
        }
        time_limit.check(|| "the request is not begun".to_owned());
        time_limit.pause().await;
    }
}

async fn call_once(address: SocketAddr, certificate: &str, request: &str) -> std::io::Result<Response> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")).expect("a certificate");
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("has versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = tokio::net::TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    Ok(Response { protocol, text })
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

fn post(path: &str, json: &str) -> String {
    let len = json.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {len}\r\n\r\n{json}"
    )
}

async fn is_served_with(server: &Server, certificate: &str) -> bool {
    call(server.address, certificate, &get("/livez"))
        .await
        .is_ok_and(|response| response.text.contains(" 200 "))
}

#[tokio::test]
async fn jobs_are_served_over_tls_only() {
    let directory = directory();
    let certificate = write_certificate(directory.path());
    let server = Server::serve(&[], &[], directory.path());
    assert!(server.line.contains(&format!("https://{}", server.address)), "{}", server.line);
    let poll = get("/topics/t/pop?wait=50s");
    let add = post("/jobs", r#"{"topic":"t","delay":"100ms","body":"hello"}"#);
    let (poll, add) =
        tokio::join!(call(server.address, &certificate, &poll), call(server.address, &certificate, &add));
    let (poll, add) = (poll.expect("answers"), add.expect("answers"));
    assert!(add.text.starts_with("HTTP/1.1 201 "), "{}", add.text);
    assert!(poll.text.starts_with("HTTP/1.1 200 ") && poll.text.contains("hello"), "{}", poll.text);
    assert_eq!(poll.protocol.as_deref(), Some(&b"http/1.1"[..]), "the server supports HTTP/1.1 only");
    let plain = server.try_call("GET", "/livez", "");
    assert!(plain.is_err(), "plain HTTP was answered: {plain:?}");
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("is made");
    assert!(!is_served_with(&server, &other.cert.pem()).await);
    assert!(is_served_with(&server, &certificate).await, "the server still works");
    assert!(server.stop().success());
}

/// The listener of a dialect has the same certificate.
#[tokio::test]
async fn old_clients_are_served_over_tls_only() {
    let directory = directory();
    let certificate = write_certificate(directory.path());
    let variables = [("LINGER__COMPAT__OUQIANG__LISTEN", "127.0.0.1:0")];
    let server = Server::serve(&[], &variables, directory.path());
    let address = ouqiang::address_of(&server);
    let answer = call(address, &certificate, &post("/get", r#"{"id":"a"}"#)).await.expect("answers");
    assert!(answer.text.ends_with(r#"{"code":0,"message":"操作成功","data":null}"#), "{}", answer.text);
    let plain = blocking_http::call(address, "POST", "/get", "{}");
    assert!(plain.is_err(), "plain HTTP was answered: {plain:?}");
}

#[tokio::test]
async fn a_client_without_a_handshake_is_cut_off_and_delays_no_other() {
    let directory = directory();
    let certificate = write_certificate(directory.path());
    // Short enough to wait for, and long enough for a handshake on a busy machine.
    let short_timeout = [("LINGER__SERVER__HEADER_TIMEOUT", "3s")];
    let server = Server::serve(&[], &short_timeout, directory.path());
    let mut silent: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(server.address).expect("connects")).collect();
    for half in &mut silent[10..] {
        // The beginning of a ClientHello that is never completed.
        std::io::Write::write_all(half, &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).expect("sends");
    }
    assert!(is_served_with(&server, &certificate).await);
    let closed = tokio::task::spawn_blocking(move || {
        let mut rest = Vec::new();
        silent.iter_mut().all(|stream| stream.read_to_end(&mut rest).is_ok() && rest.len() < 64)
    });
    assert!(closed.await.expect("does not panic"), "the server did not close every connection");
    assert!(server.stop().success());
}

#[tokio::test]
async fn sighup_reloads_the_certificate_and_an_unusable_one_changes_nothing() {
    let directory = directory();
    let first = write_certificate(directory.path());
    let server = Server::serve(&[], &[], directory.path());
    assert!(is_served_with(&server, &first).await);
    fs::write(directory.path().join("key.pem"), "").expect("can be written");
    server.signal(Signal::HUP);
    server.wait_for_log("cannot reload the certificate");
    assert!(server.log().contains("key.pem holds no private key"), "{}", server.log());
    assert!(is_served_with(&server, &first).await);
    let expires_at = async |certificate| {
        let metrics = call(server.address, certificate, &get("/metrics")).await.expect("answers").text;
        let name = "linger_certificate_not_after_seconds{certificate=\"server\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.expect("is shown").parse::<i64>().expect("a number")
    };
    let before = expires_at(&first).await;
    let second = write_certificate_until(directory.path(), 2027);
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded the certificate");
    assert!(is_served_with(&server, &second).await && !is_served_with(&server, &first).await);
    assert_eq!(expires_at(&second).await, 1_798_761_600);
    assert!(before > 1_798_761_600, "{before}");
    assert!(!server.log().contains("has expired"), "{}", server.log());
    write_certificate_until(directory.path(), 2025);
    server.signal(Signal::HUP);
    server.wait_for_log("the certificate has expired, so clients refuse to connect");
    assert!(server.stop().success());
}

#[test]
fn a_start_with_an_unusable_certificate_is_refused_and_names_the_file() {
    let directory = directory();
    let file = |name: &str| directory.path().join(name);
    let start = ["serve", "--listen", "127.0.0.1:0"];
    for words in [&start[..], &["config", "check"]] {
        let message = stderr(&refused(words, directory.path()));
        assert!(message.contains("cert.pem cannot be read"), "{message}");
    }
    write_certificate(directory.path());
    let key = fs::read_to_string(file("key.pem")).expect("the file exists");
    write_certificate(directory.path());
    fs::write(file("key.pem"), &key).expect("can be written");
    let message = stderr(&refused(&start, directory.path()));
    assert!(message.contains("key.pem is not the key of cert.pem"), "{message}");
    let secret = key.lines().nth(1).expect("has lines");
    fs::write(file("key.pem"), secret).expect("can be written");
    let output = refused(&start, directory.path());
    let message = stderr(&output) + &stdout(&output);
    assert!(message.contains("key.pem holds no private key") && !message.contains(secret), "{message}");
    fs::write(file("linger.toml"), "[tls]\nkey = 'key.pem'").expect("can be written");
    let message = stderr(&refused(&start, directory.path()));
    assert!(message.contains("tls.certificate") && message.contains("must be set too"), "{message}");
}

#[test]
fn health_works_over_tls() {
    let directory = directory();
    write_certificate(directory.path());
    let server = Server::serve(&[], &[], directory.path());
    let (listen, url) = (server.address.to_string(), format!("https://{}", server.address));
    for words in [&["--listen", &listen][..], &["--url", &url]] {
        let health = linger(&["health"], directory.path()).args(words).output().expect("linger runs");
        assert_eq!(stdout(&health), "ready\n", "{words:?}: {}", stderr(&health));
    }
    let plain = format!("http://{}", server.address);
    let health = linger(&["health", "--url", &plain], directory.path()).output().expect("linger runs");
    assert_eq!(health.status.code(), Some(1));
    let hint = format!("it speaks TLS; use --url https://{}", server.address);
    assert!(stderr(&health).contains(&hint), "{}", stderr(&health));
    assert!(server.stop().success());
}

/// The sentence says how to trust a server, and doing so helps.
#[test]
fn a_certificate_that_is_not_trusted_can_be_trusted_as_the_error_says() {
    let directory = directory();
    write_certificate(directory.path());
    let server = Server::serve(&[], &[], directory.path());
    let url = format!("https://localhost:{}", server.address.port());
    let topics = |certificates: Option<&str>| {
        let mut command = linger(&["topics", "--text", "--url", &url], directory.path());
        command.envs(certificates.map(|file| ("SSL_CERT_FILE", file)));
        command.output().expect("linger runs")
    };
    let refused = topics(None);
    let expected = "linger: topics: the certificate of the server is not trusted: no root certificate that is trusted here \
        issued it (https://localhost:";
    let message = stderr(&refused);
    assert!(message.starts_with(expected) && message.contains("profile set NAME --ca FILE"), "{message}");
    assert_eq!(refused.status.code(), Some(1));
    let trusted = topics(Some("cert.pem"));
    assert!(trusted.status.success(), "{}", stderr(&trusted));
    assert!(server.stop().success());
}

#[test]
fn health_over_tls_reports_a_server_without_tls() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::serve(&[], &[], directory.path());
    let url = format!("https://{}", server.address);
    let health = linger(&["health", "--url", &url], directory.path()).output().expect("linger runs");
    assert_eq!(health.status.code(), Some(1));
    let hint = format!("it does not speak TLS; use --url http://{}", server.address);
    assert!(stderr(&health).contains(&hint), "{}", stderr(&health));
    assert!(server.stop().success());
}

/// Two providers would double the code that has to be trusted, and rustls would choose between them at run time.
#[test]
fn the_dependencies_contain_one_provider_of_tls() {
    let lock = include_str!("../../../Cargo.lock");
    let packages: Vec<_> = lock.lines().filter_map(|line| line.strip_prefix("name = \"")).collect();
    let is_there = |name: &str| packages.contains(&format!("{name}\"").as_str());
    assert!(is_there("ring") && is_there("rustls"));
    for other in [
        "aws-lc-rs",
        "aws-lc-sys",
        "aws-lc-fips-sys",
        "openssl",
        "openssl-sys",
        "native-tls",
        "boring",
        "boring-sys",
        "rustls-openssl",
        "graviola",
        "mbedtls",
        "s2n-tls",
    ] {
        assert!(!is_there(other), "{other} is a second one");
    }
    // These include providers elsewhere; here they only read root certificates on systems other than Linux.
    for package in lock
        .split("[[package]]")
        .skip(1)
        .filter(|package| !package.contains("name = \"rustls-native-certs\""))
    {
        for other in ["schannel", "security-framework"] {
            assert!(!package.contains(&format!(" \"{other}\",")), "{other} is a second one for {package}");
        }
    }
}
