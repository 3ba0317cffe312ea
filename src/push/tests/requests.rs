//! What is sent, byte for byte.

use std::time::Duration;

use super::{
    fixture::{Fixture, NO_CONTENT},
    receiver::soon,
};
use crate::{
    job::{
        Body, CallHeaders, CallMethod, Callback, CallbackUrl, History, Job, JobId, JobSpec, JobState,
        Receipt, SecretId, SigningKey, SigningSecret, Timestamp, Topic, TraceContext,
    },
    push::request::{build, webhook_id},
    queue::Reservation,
};

const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn reservation() -> Reservation {
    let job = Job {
        id: JobId::parse("orders:1001:close").expect("valid"),
        topic: Topic::parse("order-close").expect("valid"),
        state: JobState::Ready,
        created_at: Timestamp::from_millis(1_795_325_000_000),
        due_at: Timestamp::from_millis(1_795_327_800_000),
        expires_at: None,
        spec: JobSpec { trace: TraceContext::parse(SPAN, Some("a=1,b=2")), ..JobSpec::default() },
        attempts: 1,
        reason: None,
        note: None,
        history: History::default(),
        body: Body::from_stored("{\"order\":1001}".into()),
    };
    let receipt = Receipt::parse("9f86d081884c7d659a2feaa0c55ad015").expect("valid");
    Reservation { claim: 0, job, receipt, late: Duration::ZERO, waited: Duration::ZERO }
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_795_327_800_999)
}

fn callback(url: &str, method: CallMethod, headers: &[(&str, &str)]) -> Callback {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let url = CallbackUrl::parse(url).expect("valid");
    Callback { method, headers: CallHeaders::new(headers).expect("valid"), ..Callback::to(url) }
}

fn secret(key: &str) -> SigningSecret {
    SigningSecret { id: SecretId([0; 8]), created_at: now(), key: SigningKey::parse(key).expect("valid") }
}

/// What an endpoint receives of a call.
async fn received(callback: &Callback, secrets: &[SigningSecret]) -> String {
    let fixture = Fixture::new().await;
    let mut request = build(&reservation(), callback, secrets, now());
    request.origin.port = fixture.receiver.port();
    let answering = async { fixture.receiver.accept().await.answer(NO_CONTENT).await };
    let (called, received) = soon(async { tokio::join!(fixture.caller.call(request), answering) }).await;
    called.expect("an answer");
    received
}

#[tokio::test]
async fn a_call_is_sent_as_the_contract_shows_it() {
    let callback = callback(
        "http://localhost:8000/close?a=b&c=%7B\"",
        CallMethod::Post,
        &[("Authorization", "Bearer s3cret"), ("x-a", "1 2")],
    );
    let secrets = ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
    let received = received(&callback, &secrets.map(secret)).await;
    let id = webhook_id(&reservation().job.id, reservation().job.created_at);
    let lines: Vec<&str> = received.split("\r\n").collect();
    let signature =
        lines.iter().find_map(|line| line.strip_prefix("webhook-signature: ")).expect("is signed");
    let expected = format!(
        "POST /close?a=b&c=%7B%22 HTTP/1.1\r\n\
         host: localhost:8000\r\n\
         user-agent: Linger/{}\r\n\
         content-type: application/json\r\n\
         content-length: 14\r\n\
         webhook-id: {id}\r\n\
         webhook-timestamp: 1795327800\r\n\
         webhook-signature: {signature}\r\n\
         linger-topic: order-close\r\n\
         linger-job: orders:1001:close\r\n\
         linger-attempt: 1\r\n\
         linger-due: 2026-11-22T06:10:00.000Z\r\n\
         linger-receipt: 9f86d081884c7d659a2feaa0c55ad015\r\n\
         traceparent: {SPAN}\r\n\
         tracestate: a=1,b=2\r\n\
         authorization: Bearer s3cret\r\n\
         x-a: 1 2\r\n\
         \r\n\
         {{\"order\":1001}}",
        env!("CARGO_PKG_VERSION"),
    );
    assert_eq!(received, expected);
    let signatures: Vec<&str> = signature.split(' ').collect();
    assert!(signatures.len() == 2 && signatures.iter().all(|one| one.len() == 47), "{signature}");
}

#[tokio::test]
async fn methods_without_a_body_send_none() {
    for method in CallMethod::ALL {
        let received = received(&callback("http://localhost/", method, &[]), &[]).await;
        assert!(received.starts_with(&format!("{} / HTTP/1.1\r\nhost: localhost\r\n", method.as_str())));
        let (head, body) = received.split_once("\r\n\r\n").expect("has a head");
        assert_eq!(body, if method.has_body() { "{\"order\":1001}" } else { "" });
        for absent in ["transfer-encoding", "expect", "webhook-signature"] {
            assert!(!head.contains(absent), "{head}");
        }
        let is_announced = head.contains("content-length: 14") && head.contains("content-type");
        assert_eq!(is_announced, method.has_body(), "{head}");
    }
}

#[test]
fn a_header_of_the_callback_takes_the_place_of_ours() {
    let headers = [("content-type", "application/cloudevents+json"), ("user-agent", "shop")];
    let request =
        build(&reservation(), &callback("https://a.example", CallMethod::Put, &headers), &[], now());
    for (name, value) in headers {
        let sent: Vec<_> = request.headers.get_all(name).iter().collect();
        assert_eq!(sent, [value], "{name}");
    }
    assert_eq!(request.timeout, Callback::DEFAULT_TIMEOUT);
}

#[test]
fn a_traceparent_of_the_callback_takes_the_place_of_the_whole_context() {
    let own = "00-11111111111111111111111111111111-2222222222222222-00";
    let to = |headers: &[(&str, &str)]| callback("https://a.example", CallMethod::Post, headers);
    let headers = build(&reservation(), &to(&[("traceparent", own)]), &[], now()).headers;
    assert_eq!((headers["traceparent"].to_str().ok(), headers.get("tracestate")), (Some(own), None));
}

#[test]
fn the_id_of_a_message_depends_on_the_job_alone() {
    let id = |id: &str, ms| webhook_id(&JobId::parse(id).expect("valid"), Timestamp::from_millis(ms));
    assert_eq!(id("a", 1), id("a", 1));
    assert_ne!(id("a", 1), id("a", 2));
    assert_ne!(id("a", 1), id("b", 1));
    let shown = id("orders:1001:close", 1_795_325_000_000);
    let digits = shown.strip_prefix("msg_").expect("has a prefix");
    assert!(
        digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        "{shown}"
    );
}

#[test]
fn debug_output_shows_no_credentials() {
    let callback =
        callback("https://a.example/s3cret", CallMethod::Post, &[("authorization", "Bearer s3cret")]);
    let request = build(&reservation(), &callback, &[], now());
    assert_eq!(format!("{request:?}"), "POST https://a.example:443");
    assert!(!format!("{:?}", request.headers).contains("s3cret"));
}

/// Every target that a URL can have can be sent, and as it is.
#[test]
fn every_target_can_be_sent() {
    use proptest::prelude::*;
    proptest!(|(rest in "[/?%#]?[!-~]{0,40}")| {
        if let Ok(url) = CallbackUrl::parse(&format!("http://a.example{rest}")) {
            let sent = hyper::http::uri::PathAndQuery::try_from(url.target());
            let sent = sent.unwrap_or_else(|error| panic!("{}: {error}", url.as_str()));
            prop_assert_eq!(sent.as_str(), url.target());
        }
    });
}
