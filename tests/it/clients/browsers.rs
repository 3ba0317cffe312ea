//! Attacks by foreign web pages on the real program: requests that a browser can be made to send, and host names that
//! resolve to this machine.
//!
//! Every request is written as it is sent. A job with a single attempt must be unchanged after all of them.

use crate::harness::{
    process::Server,
    socket::{Client, Response},
};

const FOREIGN: &str = "cross_site_refused";
const HOST: &str = "host_refused";
const MALFORMED: &str = "malformed_request";
/// The statuses of requests that pass the guard: a job, an added job, or no ready job.
const ACCEPTED: &str = "";

/// A request of these lines, with the port filled in, and a body.
fn request(lines: &[&str], body: &str, port: u16) -> String {
    let mut text = String::new();
    for line in lines {
        text += &format!("{}\r\n", line.replace("PORT", &port.to_string()));
    }
    if !body.is_empty() {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    format!("{text}\r\n{body}")
}

fn code(response: &Response) -> String {
    if response.status < 400 { ACCEPTED.to_owned() } else { response.code() }
}

/// A server with one job, which no refused request may change.
struct GuardedServer {
    server: Server,
    _directory: tempfile::TempDir,
}

impl GuardedServer {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::serve(&[], variables, directory.path());
        let guarded = Self { server, _directory: directory };
        let job = r#"{"topic":"t","id":"only","max_attempts":1}"#;
        assert_eq!(guarded.server.call("POST", "/jobs", job).status, 201);
        guarded
    }

    async fn call(&self, lines: &[&str], body: &str) -> Response {
        let text = request(lines, body, self.server.address.port());
        Client::connect(self.server.address).await.call(&text).await
    }

    fn assert_unchanged(&self) {
        let job = self.server.call("GET", "/jobs/only", "").json();
        assert_eq!((&job["state"], &job["attempts"]), (&"ready".into(), &0.into()));
        assert_eq!(self.server.call("GET", "/topics/evil", "").status, 404, "no job was added");
    }
}

#[tokio::test]
async fn requests_of_foreign_pages_are_refused() {
    let guarded = GuardedServer::new();
    let host = "Host: localhost:PORT";
    let evil = r#"{"topic":"evil"}"#;
    let text = "Content-Type: text/plain";
    let form = "Content-Type: application/x-www-form-urlencoded";
    let json = "Content-Type: application/json";
    let origin = "Origin: https://evil.example";
    let fetch = "Sec-Fetch-Site: cross-site";
    for (lines, body, expected) in [
        // fetch() with a simple method and body, which needs no preflight
        (&["POST /jobs HTTP/1.1", host, text, origin, fetch][..], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, form, origin, fetch], "topic=evil", FOREIGN),
        (
            &["POST /jobs HTTP/1.1", host, "Content-Type: multipart/form-data; boundary=x", origin],
            "--x--",
            FOREIGN,
        ),
        // a form with enctype text/plain; from a sandboxed frame, an old browser, a page on another port
        (&["POST /jobs HTTP/1.1", host, text, "Origin: null"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, text, "Referer: http://evil.example/form"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin: http://localhost:3000"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin: http://127.0.0.1:PORT"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin: http://localhost:PORT.evil.example"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin: http://localhost:PORT@evil.example"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin: http://user@localhost:PORT"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin: file://"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin: chrome-extension://abc"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin: http://localhost:PORT", origin], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin:"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Origin: http://localhost:PORT", fetch], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Sec-Fetch-Site: same-site"], evil, FOREIGN),
        (&["POST /jobs HTTP/1.1", host, json, "Sec-Fetch-Site: Cross-Site"], evil, FOREIGN),
        // an image, a link, a frame, a script; a beacon
        (&["GET /topics/t/pop HTTP/1.1", host, fetch], "", FOREIGN),
        (
            &[
                "GET /topics/t/pop HTTP/1.1",
                host,
                fetch,
                "Sec-Fetch-Mode: navigate",
                "Sec-Fetch-Dest: document",
            ],
            "",
            FOREIGN,
        ),
        (&["GET /topics/t/pop?wait=50s HTTP/1.1", host, "Referer: https://evil.example/"], "", FOREIGN),
        (&["GET /topics/t/pop HTTP/1.1", host, origin], "", FOREIGN),
        (&["POST /topics/t/pop HTTP/1.1", host, "Origin: null"], "", FOREIGN),
        (&["POST /batch/pop HTTP/1.1", host, text, origin], r#"{"topics":["t"]}"#, FOREIGN),
        (&["POST /jobs/only/finish HTTP/1.1", host, text, origin], "", FOREIGN),
        (&["POST /topics/t/pause HTTP/1.1", host, origin], "", FOREIGN),
        // preflights, also the kind for private networks: no response allows anything
        (&["OPTIONS /jobs HTTP/1.1", host, origin, "Access-Control-Request-Method: POST"], "", FOREIGN),
        (
            &["OPTIONS /jobs HTTP/1.1", host, origin, "Access-Control-Request-Private-Network: true"],
            "",
            FOREIGN,
        ),
        (&["DELETE /jobs/only HTTP/1.1", host, origin], "", FOREIGN),
        (&["PATCH /jobs/only HTTP/1.1", host, json, origin], r#"{"delay":"1h"}"#, FOREIGN),
        (&["DELETE /topics/t?confirm=t HTTP/1.1", host, origin], "", FOREIGN),
        // even without headers that reveal its origin, a request that needs no preflight is not JSON
        (&["POST /jobs HTTP/1.1", host, text], evil, "unsupported_media_type"),
        (&["POST /jobs HTTP/1.1", host, form], evil, "unsupported_media_type"),
        (&["POST /jobs HTTP/1.1", host], evil, "unsupported_media_type"),
        (&["POST /batch/pop HTTP/1.1", host, text], r#"{"topics":["t"]}"#, "unsupported_media_type"),
    ] {
        let response = guarded.call(lines, body).await;
        assert_eq!(code(&response), expected, "{lines:?}");
        assert!(
            response.headers.keys().all(|name| !name.as_str().starts_with("access-control-")),
            "{lines:?}"
        );
    }
    guarded.assert_unchanged();
}

#[tokio::test]
async fn host_names_that_others_can_bind_to_this_address_are_refused() {
    let guarded = GuardedServer::new();
    let mut tried = 0;
    for (target, hosts, expected) in [
        // accepted: names that only this machine resolves, and addresses
        ("/topics/u/pop", &["Host: localhost:PORT"][..], ACCEPTED),
        ("/topics/u/pop", &["Host: LOCALHOST:PORT"], ACCEPTED),
        ("/topics/u/pop", &["Host: localhost.:PORT"], ACCEPTED),
        ("/topics/u/pop", &["Host: localhost"], ACCEPTED),
        ("/topics/u/pop", &["Host: localhost:1"], ACCEPTED),
        ("/topics/u/pop", &["Host: queue.localhost"], ACCEPTED),
        ("/topics/u/pop", &["Host: 127.0.0.1:PORT"], ACCEPTED),
        ("/topics/u/pop", &["Host: [::1]:PORT"], ACCEPTED),
        ("/topics/u/pop", &["Host: [::1]"], ACCEPTED),
        ("http://localhost:PORT/topics/u/pop", &["Host: localhost:PORT"], ACCEPTED),
        // a name that was bound to this address (DNS rebinding), however it is written
        ("/topics/t/pop", &["Host: evil.example"], HOST),
        ("/topics/t/pop", &["Host: evil.example:PORT"], HOST),
        ("/topics/t/pop", &["Host: EVIL.example."], HOST),
        ("/topics/t/pop", &["Host: localhost.evil.example"], HOST),
        ("/topics/t/pop", &["Host: evillocalhost"], HOST),
        ("/topics/t/pop", &["Host: 127.0.0.1.nip.io:PORT"], HOST),
        ("/topics/u/pop", &["Host: 127.0.0.1.:PORT"], ACCEPTED),
        ("/topics/t/pop", &["Host: 2130706433"], HOST),
        ("/topics/t/pop", &["Host: 0x7f.1"], HOST),
        ("/topics/t/pop", &["Host: localhost@evil.example"], MALFORMED),
        ("http://localhost@evil.example/topics/t/pop", &["Host: localhost"], MALFORMED),
        ("http://evil.example@localhost/topics/t/pop", &["Host: localhost"], MALFORMED),
        ("/topics/t/pop", &["Host: evil.example@localhost"], MALFORMED),
        // Probes accept any host name.
        ("/livez", &["Host: evil.example"], ACCEPTED),
        ("/metrics", &["Host: evil.example"], HOST),
        // the target overrides the header (RFC 9112, 3.2.2)
        ("http://evil.example/topics/t/pop", &["Host: localhost:PORT"], HOST),
        ("http://evil.example/topics/t/pop", &["Host: evil.example"], HOST),
        ("http://localhost/topics/u/pop", &["Host: evil.example"], ACCEPTED),
        // none, two, or an invalid one
        ("/topics/t/pop", &[], MALFORMED),
        ("/topics/t/pop", &["Host:"], MALFORMED),
        ("/topics/t/pop", &["Host: localhost", "Host: localhost"], MALFORMED),
        ("/topics/t/pop", &["Host: localhost", "Host: evil.example"], MALFORMED),
        ("/topics/t/pop", &["Host: localhost, evil.example"], MALFORMED),
        ("/topics/t/pop", &["Host: localhost/evil"], MALFORMED),
        ("/topics/t/pop", &["Host: http://localhost"], MALFORMED),
    ] {
        let first = format!("GET {target} HTTP/1.1");
        let lines = [&[first.as_str()][..], hosts].concat();
        assert_eq!(code(&guarded.call(&lines, "").await), expected, "{lines:?}");
        tried += 1;
    }
    // HTTP/1.0 requires no host name, but a foreign one is still refused.
    for (hosts, expected) in [(&[][..], ACCEPTED), (&["Host: evil.example"][..], HOST)] {
        let lines = [&["GET /topics/u/pop HTTP/1.0"][..], hosts].concat();
        assert_eq!(code(&guarded.call(&lines, "").await), expected, "{lines:?}");
        tried += 1;
    }
    guarded.assert_unchanged();
    println!("proof: what=host_names, runs={tried}");
}

#[tokio::test]
async fn only_configured_host_names_are_accepted() {
    let guarded = GuardedServer::with(&[("LINGER__SERVER__ALLOWED_HOSTS", "queue.example")]);
    for (host, origin, expected) in [
        ("Host: queue.example", "", ACCEPTED),
        ("Host: Queue.Example.:8080", "", ACCEPTED),
        ("Host: queue.example:8080", "Origin: http://queue.example:8080", ACCEPTED),
        ("Host: queue.example:8080", "Origin: http://queue.example", FOREIGN),
        // a page of the queue's own host, behind a proxy that terminates TLS
        ("Host: queue.example", "Origin: https://queue.example", ACCEPTED),
        ("Host: other.queue.example", "", HOST),
        ("Host: queue.example.evil.example", "", HOST),
    ] {
        let lines: Vec<_> =
            ["GET /topics/u/pop HTTP/1.1", host, origin].into_iter().filter(|l| !l.is_empty()).collect();
        assert_eq!(code(&guarded.call(&lines, "").await), expected, "{lines:?}");
    }
    guarded.assert_unchanged();
}
