//! What cannot work with TLS ends the start with a sentence that names the remedy, and nothing is sent in plain text instead.

use crate::harness::{
    certificates::{Authority, CertificateFiles},
    process::{Server, linger, run_to_end, stderr, stdout},
    redis::RedisServer,
};

use super::{configure, deliver};

/// Starts a server with these settings on a Redis, which must end. Returns what it wrote.
#[track_caller]
fn why_refused(redis_url: &str, lines: &str, variables: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    configure(directory.path(), redis_url, lines);
    let mut command = linger(&["serve", "--listen", "127.0.0.1:0"], directory.path());
    command.envs(variables.iter().copied());
    let output = run_to_end(command);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{}", stderr(&output));
    stderr(&output)
}

fn trusting(authority: &CertificateFiles) -> String {
    format!("ca_file = '{}'", authority.authority.display())
}

/// Starts with the default settings, in which a start would wait for a Redis that may come.
#[track_caller]
fn assert_refused_at_once(redis: &RedisServer, lines: &str, why: &str) {
    let log = why_refused(&redis.url(), lines, &[]);
    let last = log.lines().last().expect("a line");
    assert!(last.starts_with("linger: cannot open the store: cannot use Redis at rediss://"), "{log}");
    assert!(last.contains(why) && !log.contains("waiting for Redis"), "{log}");
}

#[test]
fn a_certificate_that_cannot_be_trusted_ends_the_start() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let (files, other) = (authority.issue(&["localhost", "127.0.0.1"]), foreign.issue(&["localhost"]));
    let redis = RedisServer::start_with_tls(&files, &[]);
    assert_refused_at_once(&redis, &trusting(&other), "its certificate is from no authority in /");
    let system = other.authority.display().to_string();
    let log = why_refused(&redis.url(), "", &[("SSL_CERT_FILE", &system)]);
    assert!(log.contains("no authority that this system trusts"), "{log}");
    let expired = RedisServer::start_with_tls(&authority.issue_until(&["127.0.0.1"], 2025), &[]);
    assert_refused_at_once(&expired, &trusting(&files), "its certificate has expired");

    let misnamed = RedisServer::start_with_tls(&authority.issue(&["cache.example", "localhost"]), &[]);
    let names = "its certificate is for cache.example, localhost, not for 127.0.0.1: ";
    assert_refused_at_once(&misnamed, &trusting(&files), names);
    let directory = tempfile::tempdir().expect("a directory");
    let named = format!("{}\nserver_name = 'cache.example'", trusting(&files));
    configure(directory.path(), &misnamed.url(), &named);
    deliver(&Server::serve(&[], &[], directory.path()), "named");
}

#[test]
fn tls_on_one_side_only_is_explained() {
    let authority = Authority::new();
    let files = authority.issue(&["127.0.0.1"]);
    let (plain, secure) = (RedisServer::start(), RedisServer::start_with_tls(&files, &[]));
    let impatient = "start_timeout = '0s'\nconnect_timeout = '500ms'";
    let url = plain.url().replace("redis://", "rediss://");
    let log = why_refused(&url, &format!("{}\n{impatient}", trusting(&files)), &[]);
    assert!(log.contains("a Redis that speaks no TLS there needs redis://"), "{log}");
    let log = why_refused(&secure.url().replace("rediss://", "redis://"), impatient, &[]);
    assert!(log.contains("a server that speaks TLS needs rediss://"), "{log}");
}

#[test]
fn a_redis_that_requires_certificates_gets_the_one_of_the_settings() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let (files, other) = (authority.issue(&["127.0.0.1"]), foreign.issue(&["linger"]));
    let redis = RedisServer::start_with_tls(&files, &["--tls-auth-clients", "yes"]);
    let with = |client: &CertificateFiles| {
        let (certificate, key) = (client.certificate.display(), client.key.display());
        format!("{}\nclient_certificate = '{certificate}'\nclient_key = '{key}'", trusting(&files))
    };
    assert_refused_once_told(
        &redis,
        &trusting(&files),
        "it requires a certificate of its clients: set redis.",
    );
    let not_accepted = "it does not accept the certificate in redis.client_certificate (UnknownCA)";
    assert_refused_once_told(&redis, &with(&other), not_accepted);
    let directory = tempfile::tempdir().expect("a directory");
    let client = authority.issue_until(&["linger"], 2100);
    configure(directory.path(), &redis.url(), &with(&client));
    let server = Server::serve(&[], &[], directory.path());
    deliver(&server, "shown");
    let end = server.metric("linger_certificate_not_after_seconds{certificate=\"redis_client\"}");
    assert_eq!(end, Some(4_102_444_800.0));
}

/// The server may cut the connection before its reason has arrived; then the start tries again.
#[track_caller]
fn assert_refused_once_told(redis: &RedisServer, lines: &str, why: &str) {
    let log = why_refused(&redis.url(), lines, &[]);
    assert!(log.lines().last().expect("a line").contains(why), "{log}");
}

#[test]
fn a_file_that_cannot_be_used_is_named_by_its_key() {
    let lines = "ca_file = 'none.pem'\nclient_certificate = 'c.pem'\nclient_key = 'k.pem'";
    let log = why_refused("rediss://127.0.0.1:1", lines, &[]);
    for part in
        ["redis.ca_file: none.pem cannot be read", "redis.client_certificate: c.pem", "redis.client_key: "]
    {
        assert!(log.contains(part), "{part}: {log}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    configure(directory.path(), "rediss://127.0.0.1:1", lines);
    for words in [&["config", "check"][..], &["verify"], &["export", "copy"]] {
        let output = run_to_end(linger(words, directory.path()));
        let (code, text) = (output.status.code(), stderr(&output));
        assert!(code == Some(1) && text.contains("none.pem cannot be read"), "{words:?} {code:?}: {text}");
    }
}
