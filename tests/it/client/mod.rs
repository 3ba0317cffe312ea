//! The client library against the real program: each of its calls, which calls it repeats, and which certificates it trusts.
//! Responses that the program never sends are tested beside the library's code.

mod schedules;

use std::{fs, path::Path, time::Duration};

use linger_client::{
    Added, BatchItem, Client, Due, Error, IfExists, JobPatch, NewJob, Options, PopRequest, ReleaseRequest,
    ServerUrl, TimelineRequest, TopicSort, TopicsRequest, TouchRequest, Trust,
};
use serde_json::value::RawValue;

use crate::harness::{
    process::Server,
    proxy::{Fate, Proxy},
};

const MINUTE: Duration = Duration::from_secs(60);
const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn serve(directory: &Path) -> Server {
    Server::serve(&[], &[], directory)
}

fn client(url: &str) -> Client {
    Client::new(&url.parse().expect("is a URL"), Options::default()).expect("the options are valid")
}

/// The state of a job.
async fn state(client: &Client, id: &str) -> Option<String> {
    client.get(id).await.expect("is answered").map(|job| job.state)
}

/// Panics unless the server refuses with this status and code.
#[track_caller]
fn assert_refused<T: std::fmt::Debug>(response: Result<T, Error>, status: u16, code: &str) {
    let failure = response.expect_err("the call is refused");
    let refusal = failure.refusal().unwrap_or_else(|| panic!("{failure:?}"));
    assert_eq!((refusal.status, refusal.code.as_str()), (status, code));
}

#[tokio::test]
async fn every_call_for_a_job_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = serve(directory.path());
    let client = client(&server.url());
    client.connect().await.expect("the server listens");
    let body = RawValue::from_string(r#"{"order":  1e2}"#.to_owned()).expect("is JSON");
    let job = NewJob {
        ttr: Some(MINUTE),
        traceparent: Some(SPAN.to_owned()),
        tracestate: Some("a=1".to_owned()),
        ..NewJob::new("mail").id("a:+=@~").delay(MINUTE).body(body)
    };
    let Added::Created(added) = client.add(&job).await.expect("is added") else { panic!("is not new") };
    assert_eq!((added.state.as_str(), added.ttr), ("delayed", MINUTE));
    assert_eq!((added.traceparent.as_deref(), added.tracestate.as_deref()), (Some(SPAN), Some("a=1")));
    let repeated = client.add(&job).await.expect("is recognised");
    assert!(matches!(repeated, Added::Repeated(_)), "{repeated:?}");
    let newer = NewJob { revision: Some(2), if_exists: Some(IfExists::Replace), ..job.clone() };
    let Added::Replaced(replaced) = client.add(&newer).await.expect("is added") else {
        panic!("nothing replaced")
    };
    assert_eq!((replaced.revision, replaced.history[0].kind.as_str()), (Some(2), "replaced"));
    let repeated = client.add(&newer).await.expect("is recognised");
    assert!(matches!(repeated, Added::Repeated(_)), "{repeated:?}");
    assert_refused(client.add(&NewJob { revision: Some(1), ..newer }).await, 409, "stale_revision");
    let patch = JobPatch { due: Some(Due::Delay(Duration::ZERO)), ..JobPatch::default() };
    assert_eq!(client.patch("a:+=@~", &patch).await.expect("is changed").state, "ready");

    // A reservation may take longer than a short wait.
    let request =
        PopRequest { wait: MINUTE, ttr: Some(2 * MINUTE), max: 0, worker: Some("wörker 1&".to_owned()) };
    let reserved = client.pop("mail", &request).await.expect("is answered").expect("is ready");
    assert_eq!(
        (reserved.id.as_str(), reserved.attempt, reserved.body.get()),
        ("a:+=@~", 1, r#"{"order":  1e2}"#)
    );
    assert_eq!((reserved.traceparent.as_deref(), reserved.tracestate.as_deref()), (Some(SPAN), Some("a=1")));
    let at_once = PopRequest { wait: Duration::ZERO, ..request.clone() };
    assert!(client.pop("mail", &at_once).await.expect("is answered").is_none());
    let (id, receipt) = (reserved.id.as_str(), reserved.receipt.as_str());
    let longer = client.touch(id, receipt, Some(10 * MINUTE)).await.expect("is extended");
    assert!(longer.reserved_until.expect("is reserved") > reserved.reserved_until);
    assert_eq!(longer.reserved_by.as_deref(), Some("wörker 1&"));
    assert!(longer.reserved_at.is_some());
    let halfway = TouchRequest { ttr: None, note: Some("3 of 7".to_owned()) };
    let noted = client.touch(id, receipt, halfway).await.expect("is extended");
    assert_eq!((noted.note.as_deref(), noted.noted_at.is_some()), (Some("3 of 7"), true));
    let release = ReleaseRequest { due: Some(Due::Delay(Duration::ZERO)), reason: Some("later".to_owned()) };
    assert_eq!(client.release(id, receipt, &release).await.expect("is given back").state, "ready");
    assert_refused(client.touch(id, receipt, None).await, 409, "lease_lost");

    let reserved = client.pop("mail", &request).await.expect("is answered").expect("is ready");
    assert_eq!(reserved.reason.as_deref(), Some("later"));
    assert_eq!((reserved.note.as_deref(), reserved.noted_at), (Some("3 of 7"), noted.noted_at));
    let dead = client.bury(id, &reserved.receipt, Some("no such order")).await.expect("is buried");
    assert_eq!((dead.state.as_str(), dead.reason.as_deref()), ("dead", Some("no such order")));
    let past = Due::At("2026-11-21T05:40:00Z".parse().expect("is a moment"));
    let requeued = client.requeue(id, Some(past)).await.expect("is requeued");
    assert_eq!(requeued.state, "ready");
    let ends: Vec<_> =
        requeued.history.iter().map(|entry| (entry.kind.as_str(), entry.ended.as_deref())).collect();
    let attempts = [
        ("replaced", None),
        ("rescheduled", None),
        ("attempt", Some("released")),
        ("attempt", Some("buried")),
    ];
    assert_eq!(ends, [&attempts[..], &[("requeued", None)]].concat());
    let buried = &requeued.history[3];
    assert_eq!(
        (buried.n, buried.by.as_deref(), buried.reason.as_deref()),
        (Some(2), Some("wörker 1&"), Some("no such order"))
    );
    assert!(buried.took.is_some());
    let reserved = client.pop("mail", &request).await.expect("is answered").expect("is ready");
    client.finish(id, Some(&reserved.receipt)).await.expect("is finished");
    assert_eq!(state(&client, id).await, None);
    assert_refused(client.finish(id, None).await, 404, "job_not_found");

    let at = "2100-01-01T00:00:00Z".parse().expect("is a timestamp");
    let late = NewJob { due: Some(Due::At(at)), ..NewJob::new("mail") };
    let Added::Created(added) = client.add(&late).await.expect("is added") else { panic!("is not new") };
    assert_eq!(added.due_at, at);
    client.add(&NewJob { id: Some("held".into()), ..NewJob::new("mail") }).await.expect("is added");
    client.pop("mail", &request).await.expect("is answered").expect("is ready");
    assert_refused(client.delete_unless_reserved("held").await, 409, "job_reserved");
    assert!(!client.delete_unless_reserved("none").await.expect("is answered"));
    assert!(client.delete("held").await.expect("is answered"));
    assert!(client.delete(&added.id).await.expect("is answered"));
    assert!(!client.delete(&added.id).await.expect("is answered"));
    assert!(server.stop().success());
}

#[tokio::test]
async fn an_add_of_a_finished_job_is_recognised() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = serve(directory.path());
    let client = client(&server.url());
    assert_eq!(server.call("PUT", "/topics/mail", r#"{"dedup":"1h"}"#).status, 200);
    let job = NewJob::new("mail").id("a");
    client.add(&job).await.expect("is added");
    let reserved = client.pop("mail", &PopRequest::default()).await.expect("is answered").expect("is ready");
    client.finish("a", Some(&reserved.receipt)).await.expect("is finished");
    let Added::Finished(found) = client.add(&job).await.expect("is recognised") else {
        panic!("is added again")
    };
    assert_eq!(
        (found.id.as_str(), found.topic.as_str(), found.ended.how.as_str()),
        ("a", "mail", "finished")
    );
    let [first, second] =
        &client.add_batch(&[job, NewJob::new("mail").id("b")]).await.expect("is answered")[..]
    else {
        panic!("not two results")
    };
    assert_eq!((first.status, first.ended.as_ref()), (200, Some(&found.ended)));
    assert_eq!((second.status, second.ended.as_ref()), (201, None));
}

#[tokio::test]
async fn the_calls_for_batches_topics_and_the_server_work() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = serve(directory.path());
    let client = client(&server.url()).single_connection();
    let jobs = [NewJob::new("mail").id("a"), NewJob::new("bad topic"), NewJob::new("mail").id("b")];
    let added = client.add_batch(&jobs).await.expect("is answered");
    assert_eq!(added.iter().map(|item| item.status).collect::<Vec<_>>(), [201, 422, 201]);
    assert_eq!(added[1].refusal.as_ref().map(|refusal| refusal.code.as_str()), Some("invalid_job"));
    let request = PopRequest { max: 10, ..PopRequest::default() };
    let reserved = client.pop_batch(&["urgent", "mail"], &request).await.expect("is answered");
    assert_eq!(reserved.len(), 2);
    let reserved_ids: Vec<_> =
        reserved.iter().map(|job| (job.id.as_str(), Some(job.receipt.as_str()))).collect();
    let held: Vec<_> = reserved.iter().map(|job| (job.id.as_str(), job.receipt.as_str())).collect();
    let statuses = |items: Vec<BatchItem>| items.iter().map(|item| item.status).collect::<Vec<_>>();
    let touched = client.touch_batch(&held, Some(MINUTE)).await.expect("is answered");
    assert_eq!(statuses(touched), [200, 200]);
    let buried = client.bury_batch(&held[1..], Some("no such customer")).await.expect("is answered");
    assert_eq!(statuses(buried), [200]);
    let release = ReleaseRequest { due: Some(Due::Delay(MINUTE)), reason: Some("later".to_owned()) };
    let released = client.release_batch(&held[1..], &release).await.expect("is answered");
    assert_eq!(released[0].refusal.as_ref().map(|refusal| refusal.code.as_str()), Some("lease_lost"));
    let finished = client.finish_batch(&reserved_ids[..1]).await.expect("is answered");
    assert_eq!((finished[0].status, finished[0].id.as_deref()), (204, Some(reserved_ids[0].0)));
    let deleted = client.delete_batch(&[reserved_ids[1].0, "c"]).await.expect("is answered");
    assert_eq!(deleted.iter().map(|item| item.status).collect::<Vec<_>>(), [204, 404]);

    assert!(client.topic("mail").await.expect("is answered").is_none(), "the topic has no jobs any more");
    for topic in ["mail", "news"] {
        client.add(&NewJob::new(topic).delay(MINUTE)).await.expect("is added");
    }
    let mail = client.topic("mail").await.expect("is answered").expect("has a job");
    assert_eq!((mail.counts.delayed, mail.waiting, mail.paused.delivery), (1, 0, false));
    let one = TopicsRequest { limit: 1, ..TopicsRequest::default() };
    let first = client.topics(&one).await.expect("is answered");
    let cursor = first.next_cursor.as_deref();
    let second = client.topics(&TopicsRequest { cursor, ..one }).await.expect("is answered");
    assert_eq!([&first, &second].map(|page| page.topics[0].topic.as_str()), ["mail", "news"]);
    client.add(&NewJob::new("news").delay(MINUTE)).await.expect("is added");
    for sort in [TopicSort::Ready, TopicSort::Overdue, TopicSort::Delayed, TopicSort::Dead] {
        let sorted = client.topics(&TopicsRequest { sort, limit: 5, ..one }).await.expect("is answered");
        let names: Vec<_> = sorted.topics.iter().map(|topic| topic.topic.as_str()).collect();
        let delayed_first = if sort == TopicSort::Delayed { ["news", "mail"] } else { ["mail", "news"] };
        assert_eq!(names, delayed_first, "{sort:?}");
    }
    let found = client.topics(&TopicsRequest { prefix: Some("n"), ..one }).await.expect("is answered");
    assert_eq!((found.topics[0].topic.as_str(), found.next_cursor), ("news", None));
    let (span, step) = (Duration::from_secs(7_200), Some(Duration::from_secs(3_600)));
    let due = TimelineRequest { from: None, topic: Some("news"), span, step };
    let timeline = client.timeline(&due).await.expect("is answered");
    assert_eq!(
        (timeline.step, timeline.counts, timeline.outside),
        (Duration::from_secs(3_600), vec![2, 0], 0)
    );
    let stats = client.stats().await.expect("is answered");
    assert_eq!((stats.hour.added, stats.processes.len()), (5, 1));
    assert_eq!(client.purge("mail").await.expect("is answered"), 1);
    assert_eq!(client.version().await.expect("is answered").engine, "embedded");
    client.ready().await.expect("is ready");
    assert!(server.stop().success());
}

#[tokio::test]
async fn a_call_whose_connection_failed_is_repeated_if_that_is_safe() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = serve(directory.path());
    let proxy = Proxy::start(server.address);
    // A request after these would show as a third job.
    proxy.decide_in_order(&[
        Fate::ResponseLost,
        Fate::Refused,
        Fate::Served,
        Fate::Served,
        Fate::ResponseLost,
    ]);
    let direct = client(&format!("http://{}", server.address));
    let client = client(&proxy.url());
    let added = client.add(&NewJob::new("mail").id("a")).await.expect("the third attempt is answered");
    assert!(matches!(added, Added::Repeated(_)), "the first attempt took effect: {added:?}");
    client.finish("a", None).await.expect_err("the job is not reserved");
    let failure = client.add(&NewJob::new("mail")).await.expect_err("the response is lost");
    assert!(matches!(failure, Error::Cut { .. }) && failure.may_have_happened(), "{failure:?}");
    assert_eq!(proxy.lost(), 2);
    let mail = direct.topic("mail").await.expect("is answered").expect("has jobs");
    assert_eq!(mail.counts.ready, 2, "the add took effect and was not repeated");
    assert!(server.stop().success());
}

#[tokio::test]
async fn only_a_trusted_certificate_is_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let new_certificate = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("is made");
        fs::write(path(name), made.cert.pem()).expect("can be written");
        made.signing_key.serialize_pem()
    };
    new_certificate("other.pem");
    fs::write(path("key.pem"), new_certificate("cert.pem")).expect("can be written");
    let settings = "[tls]\ncertificate = 'cert.pem'\nkey = 'key.pem'\n";
    fs::write(path("linger.toml"), settings).expect("can be written");
    let server = serve(directory.path());
    let ready = async |host: &str, trust: Trust| {
        let url = ServerUrl::new(format!("{host}:{}", server.address.port()), true);
        let options = Options { trust, address: Some(server.address), ..Options::default() };
        Client::new(&url, options).expect("the options are valid").ready().await
    };
    let (right, wrong) = (Trust::RootsFile(path("cert.pem")), Trust::RootsFile(path("other.pem")));
    ready("localhost", right.clone()).await.expect("is trusted");
    ready("127.0.0.1", Trust::AnyCertificate).await.expect("any name is accepted");
    for (host, trust) in [("localhost", wrong), ("127.0.0.1", right), ("localhost", Trust::SystemRoots)] {
        let failure = ready(host, trust.clone()).await.expect_err("is not trusted");
        let is_lasting =
            matches!(failure, Error::Untrusted { .. } | Error::NotConnected { is_permanent: true, .. });
        assert!(is_lasting, "{host}, {trust:?}: {failure:?}");
    }
    assert!(server.stop().success());
}

/// `openssl req -x509` makes a certificate of an authority, which curl, Go and Python take from a server.
#[tokio::test]
async fn a_server_may_use_a_trusted_certificate_of_an_authority_itself() {
    for (not_after, is_valid) in [(4096, true), (2020, false)] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a valid name");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(not_after, 1, 1);
        let new_certificate = |name: &str| {
            let key = rcgen::KeyPair::generate().expect("a key");
            let certificate = params.self_signed(&key).expect("is made").pem();
            fs::write(path(name), certificate).expect("can be written");
            key.serialize_pem()
        };
        new_certificate("other.pem");
        fs::write(path("key.pem"), new_certificate("cert.pem")).expect("can be written");
        let settings = "[tls]\ncertificate = 'cert.pem'\nkey = 'key.pem'\n";
        fs::write(path("linger.toml"), settings).expect("can be written");
        let server = serve(directory.path());
        let ready = async |host: &str, file: &str| {
            let url = ServerUrl::new(format!("{host}:{}", server.address.port()), true);
            let trust = Trust::RootsFile(path(file));
            let options = Options { trust, address: Some(server.address), ..Options::default() };
            Client::new(&url, options).expect("the options are valid").ready().await
        };
        let right = ready("localhost", "cert.pem").await;
        assert_eq!(right.is_ok(), is_valid, "{right:?}");
        if let Err(failure) = right {
            assert!(failure.to_string().ends_with("it expired at 2020-01-01T00:00:00Z"), "{failure}");
        }
        let wrong_name = ready("127.0.0.1", "cert.pem").await.expect_err("is for another name");
        assert!(matches!(wrong_name, Error::NotConnected { is_permanent: true, .. }), "{wrong_name:?}");
        let names = "it is for localhost, and not for 127.0.0.1";
        assert_eq!(wrong_name.to_string().ends_with(names), is_valid, "{wrong_name}");
        // Another one with the same names and another key.
        let other = ready("localhost", "other.pem").await.expect_err("is not trusted");
        assert_eq!(matches!(other, Error::Untrusted { .. }), is_valid, "{other:?}");
        assert!(server.stop().success());
    }
}
