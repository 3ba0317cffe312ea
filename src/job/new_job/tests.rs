//! What the fingerprint covers, and limits of attempts.

use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::job::{CallbackUrl, Delay, Timestamp};

fn job() -> NewJob {
    NewJob {
        id: None,
        topic: Topic::parse("t").expect("valid"),
        due: Due::default(),
        ttr: None,
        max_attempts: None,
        retry: None,
        expire: None,
        on_expiry: None,
        revision: None,
        replaces: false,
        callback: None,
        trace: None,
        body: Body::default(),
    }
}

fn retry(steps: usize) -> Option<RetrySchedule> {
    Some(RetrySchedule::new(vec![Duration::from_secs(1); steps]).expect("valid"))
}

#[test]
fn the_fingerprint_covers_every_field_except_the_id_and_the_trace_context() {
    let changes: [fn(&mut NewJob); 12] = [
        |j| j.topic = Topic::parse("u").expect("valid"),
        |j| j.due = Due::After(Delay::new(Duration::from_millis(1)).expect("valid")),
        |j| j.due = Due::At(Timestamp::from_millis(0)),
        |j| j.ttr = Some(Ttr::DEFAULT),
        |j| j.max_attempts = Some(16),
        |j| j.retry = Some(RetrySchedule::default()),
        |j| j.expire = Some(Expire::After(Delay::default())),
        |j| j.expire = Some(Expire::At(Timestamp::from_millis(0))),
        |j| j.on_expiry = Some(OnExpiry::Dead),
        |j| j.revision = Some(0),
        |j| j.callback = CallbackUrl::parse("http://a/").ok().map(|url| Arc::new(Callback::to(url))),
        |j| j.body = Body::from_stored(Bytes::from_static(b"null ")),
    ];
    let mut seen = vec![job().fingerprint()];
    for change in changes {
        let mut changed = job();
        change(&mut changed);
        seen.push(changed.fingerprint());
    }
    for (i, print) in seen.iter().enumerate() {
        assert!(!seen[..i].contains(print), "change {i} left the fingerprint as it was");
    }
    let mut named = job();
    named.id = Some(JobId::generate());
    named.replaces = true;
    assert_eq!(named.fingerprint(), job().fingerprint());
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = NewJob { trace: TraceContext::parse(traceparent, Some("a=1")), ..job() };
    assert!(traced.trace.is_some());
    assert_eq!(traced.fingerprint(), job().fingerprint());
}

#[test]
fn the_limit_comes_from_the_job_then_its_list_then_the_topic() {
    let plain = TopicSettings::default();
    let topic = TopicSettings { max_attempts: Some(5), retry: retry(9), ..plain.clone() };
    let listed = TopicSettings { retry: retry(9), ..plain.clone() };
    assert_eq!(job().resolved_max_attempts(&plain), 16);
    assert_eq!(job().resolved_max_attempts(&topic), 5);
    assert_eq!(job().resolved_max_attempts(&listed), 10);
    let own_list = NewJob { retry: retry(3), ..job() };
    assert_eq!(own_list.resolved_max_attempts(&topic), 4);
    let own = NewJob { retry: retry(3), max_attempts: Some(0), ..job() };
    assert_eq!(own.resolved_max_attempts(&topic), 0);
    let empty = NewJob { retry: Some(RetrySchedule::default()), ..job() };
    assert_eq!(empty.resolved_max_attempts(&plain), 16);
    assert_eq!(empty.resolved_max_attempts(&listed), 16, "the topic's list does not apply to the job");
    assert_eq!(empty.resolved_max_attempts(&topic), 5);
}
