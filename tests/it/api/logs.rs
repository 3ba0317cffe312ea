//! What the log says about a request, and what it must not reveal.

use std::{
    io,
    sync::{Arc, Mutex},
};

use linger::{
    auth::{Authenticator, Scope, parse_tokens, token_entry},
    queue::Limits,
};
use tracing_subscriber::fmt::MakeWriter;

use crate::harness::{
    api::{Api, Setup, text},
    failing::Failure,
    jobs::seconds,
    stores::Engine,
};

/// The log of this thread, in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Records this thread's lines from `level` on in `log` until the returned guard is dropped.
pub(super) fn record(
    log: &Log,
    level: tracing::Level,
) -> (tracing::Dispatch, tracing::subscriber::DefaultGuard) {
    // With a single subscriber, tracing caches for all threads whether the thread that first reaches a line wants it; the
    // thread of another test, without a subscriber, would disable the line. With two subscribers it asks both.
    let second = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish());
    let recording =
        tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(log.clone()).finish();
    (second, tracing::subscriber::set_default(recording))
}

impl Log {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
    }
}

#[tokio::test]
async fn a_failure_is_logged_with_its_request_id_at_the_default_level() {
    let log = Log::default();
    let _recording = record(&log, tracing::Level::INFO);
    let api = Api::new(Engine::Naive).await;
    api.store.fail(Some(Failure::Panic));
    api.call("GET", "/jobs/a").header("x-request-id", "checkout-7f3a").send().await.expect(500);
    let log = log.text();
    let line = log.lines().find(|line| line.contains("checkout-7f3a")).expect("the request is logged");
    for part in ["failed", "a handler panicked: as the test demanded", r#"route="/jobs/{id}""#, "GET"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

/// The warnings about refusals with this code.
fn refusals<'a>(log: &'a str, code: &str) -> Vec<&'a str> {
    let code = format!("code=\"{code}\"");
    log.lines()
        .filter(|line| line.contains("WARN") && line.contains("refused") && line.contains(&code))
        .collect()
}

#[tokio::test]
async fn refusals_under_load_are_logged_once_per_second() {
    let log = Log::default();
    let _recording = record(&log, tracing::Level::INFO);
    let setup = Setup { limits: Limits { max_waiting: 0, ..Limits::default() }, ..Setup::default() };
    let api = Api::with(Engine::Naive, setup).await;
    for _ in 0..5 {
        api.get("/topics/t/pop?wait=1s").await.expect_problem(503, "too_many_waiting");
    }
    api.clock.advance(seconds(1));
    api.get("/topics/t/pop?wait=1s").await.expect_problem(503, "too_many_waiting");
    api.drain();
    api.get("/readyz").await.expect_problem(503, "draining");
    let log = log.text();
    let lines = refusals(&log, "too_many_waiting");
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("left_out=0") && lines[1].contains("left_out=4"), "{log}");
    assert!(!log.contains("caller="), "callers have no names without tokens: {log}");
    assert_eq!(refusals(&log, "draining").len(), 1, "{log}");
}

#[tokio::test]
async fn unknown_tokens_are_logged_at_the_default_level() {
    let log = Log::default();
    let _recording = record(&log, tracing::Level::INFO);
    let tokens = parse_tokens(&token_entry("a", "one", &[Scope::Read], &[])).expect("is valid");
    let auth = Some(Arc::new(Authenticator::with_tokens(tokens)));
    let api = Api::with(Engine::Naive, Setup { auth, ..Setup::default() }).await;
    for _ in 0..5 {
        let call = api.call("GET", "/topics").header("authorization", "Bearer s3cr3t");
        call.send().await.expect_problem(401, "unauthorized");
    }
    let log = log.text();
    assert_eq!(refusals(&log, "unauthorized").len(), 1, "{log}");
    assert!(!log.contains("s3cr3t"), "{log}");
}

#[tokio::test]
async fn the_log_shows_the_request_and_its_route_but_no_receipt_and_no_body() {
    let log = Log::default();
    let _recording = record(&log, tracing::Level::TRACE);
    let api = Api::new(Engine::Naive).await;
    api.add(r#"{"topic":"t","id":"job-7","body":"s3cr3t"}"#).await;
    let receipt = text(&api.pop("t").await["receipt"]).to_owned();
    let finish = format!("/jobs/job-7/finish?receipt={receipt}");
    api.call("POST", &finish).header("x-request-id", "checkout-7f3a").send().await.expect(204);
    api.post(&finish).await.expect(404);
    api.send("POST", "/jobs/job-7/touch", &format!(r#"{{"receipt":"{receipt}","body":"s3cr3t"}}"#))
        .await
        .expect(422);
    let log = log.text();
    let line = log.lines().find(|line| line.contains("checkout-7f3a")).expect("the request is logged");
    assert!(line.contains(r#"route="/jobs/{id}/finish""#) && line.contains("status=204"), "{line}");
    assert!(log.contains(r#"code="job_not_found""#));
    for secret in [receipt.as_str(), "s3cr3t"] {
        assert!(!log.contains(secret), "{secret} is logged:\n{log}");
    }
}
