//! Long answers are compressed for clients that accept it.

use std::io::Read;

use flate2::read::GzDecoder;
use http_body_util::BodyExt;

use crate::harness::{api::Api, stores::Engine};

/// The answer to a client that accepts gzip: its `Content-Encoding`, and its bytes.
async fn accepting(api: &Api, method: &str, target: &str) -> (Option<String>, Vec<u8>) {
    let response = api.call(method, target).header("accept-encoding", "gzip, br").head().await;
    assert_eq!(response.status(), 200, "{target}");
    let encoding = response.headers().get("content-encoding");
    let encoding = encoding.map(|value| value.to_str().expect("is text").to_owned());
    (encoding, response.into_body().collect().await.expect("is in memory").to_bytes().to_vec())
}

#[tokio::test]
async fn a_long_answer_is_compressed_for_a_client_that_accepts_it() {
    let api = Api::new(Engine::Naive).await;
    for n in 0..50 {
        api.add(&format!(r#"{{"topic":"topic-{n}","id":"{n}"}}"#)).await;
    }
    for target in ["/topics", "/jobs?state=ready", "/openapi.yaml", "/ui/js/main.js"] {
        let (encoding, bytes) = accepting(&api, "GET", target).await;
        assert_eq!(encoding.as_deref(), Some("gzip"), "{target}");
        let mut text = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("is gzip");
        let plain = api.get(target).await.expect(200);
        assert_eq!(text, plain.body, "{target}");
        assert!(bytes.len() * 2 < text.len(), "{target}: {} bytes of {}", bytes.len(), text.len());
        assert!(plain.header("vary").to_lowercase().contains("accept-encoding"), "caches keep them apart");
    }
    let (encoding, _) = accepting(&api, "GET", "/topics/topic-1").await;
    assert_eq!(encoding, None, "it is short");
}

#[tokio::test]
async fn an_answer_that_is_known_or_short_says_what_it_depends_on() {
    let api = Api::new(Engine::Naive).await;
    api.add(r#"{"topic":"t"}"#).await;
    for target in ["/topics", "/topics/t", "/ui/js/main.js"] {
        let sent = api.get(target).await.expect(200);
        let known =
            api.call("GET", target).header("if-none-match", sent.header("etag")).send().await.expect(304);
        for answer in [sent, known] {
            let vary: Vec<_> = answer.headers.get_all("vary").iter().collect();
            assert_eq!(vary, ["accept-encoding"], "{target}");
        }
    }
}

/// A receipt must not be guessed from the length of an answer.
#[tokio::test]
async fn jobs_with_receipts_are_never_compressed() {
    let api = Api::new(Engine::Naive).await;
    let body = "x".repeat(4_000);
    for topic in ["t", "u"] {
        api.add(&format!(r#"{{"topic":"{topic}","body":"{body}"}}"#)).await;
    }
    for (method, target) in [("GET", "/topics/t/pop"), ("POST", "/topics/u/pop")] {
        let (encoding, bytes) = accepting(&api, method, target).await;
        assert!(encoding.is_none() && bytes.len() > 4_000, "{target}: {encoding:?}");
    }
}
