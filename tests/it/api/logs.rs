//! What the log says of a request, and what it must not.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tracing_subscriber::fmt::MakeWriter;

use crate::harness::{
    api::{Api, text},
    failing::Failure,
    stores::Engine,
};

/// The log of this thread, kept in memory.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

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

/// Has what this thread logs from `level` on kept in `log`, for as long as what is returned lives.
fn kept(log: &Log, level: tracing::Level) -> (tracing::Dispatch, tracing::subscriber::DefaultGuard) {
    // With a single subscriber, tracing asks the thread that first reaches a line whether it is wanted,
    // and another test's thread, which has none, would say no for all. With two it asks them both.
    let second = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish());
    let kept =
        tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(log.clone()).finish();
    (second, tracing::subscriber::set_default(kept))
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
    }
}

#[tokio::test]
async fn a_failure_is_found_by_its_request_id_without_debugging() {
    let log = Log::default();
    let _here = kept(&log, tracing::Level::INFO);
    let api = Api::new(Engine::Naive).await;
    api.store.fail(Some(Failure::Panic));
    api.call("GET", "/jobs/a").header("x-request-id", "checkout-7f3a").send().await.expect(500);
    let log = log.text();
    let line = log.lines().find(|line| line.contains("checkout-7f3a")).expect("the request is logged");
    for part in ["failed", "a handler panicked: as the test demanded", r#"route="/jobs/{id}""#, "GET"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test]
async fn names_the_request_and_its_route_but_no_receipt_and_no_body() {
    let log = Log::default();
    let _here = kept(&log, tracing::Level::TRACE);
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
