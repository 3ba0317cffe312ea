//! What the fingerprint covers, limits of attempts, ranges and times.

use super::*;
use crate::job::CallbackUrl;
use bytes::Bytes;

fn job() -> NewJob {
    NewJob {
        id: None,
        topic: Topic::parse("t").expect("valid"),
        due: Due::default(),
        ttr: None,
        max_attempts: None,
        retry: None,
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
    let changes: [fn(&mut NewJob); 8] = [
        |j| j.topic = Topic::parse("u").expect("valid"),
        |j| j.due = Due::After(Delay::new(Duration::from_millis(1)).expect("valid")),
        |j| j.due = Due::At(Timestamp::from_millis(0)),
        |j| j.ttr = Some(Ttr::DEFAULT),
        |j| j.max_attempts = Some(16),
        |j| j.retry = Some(RetrySchedule::default()),
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

#[test]
fn ranges_are_those_of_the_contract() {
    assert!(Ttr::new(Duration::from_millis(999)).is_err());
    assert!(Ttr::new(Duration::from_secs(1)).is_ok());
    assert!(Ttr::new(Duration::from_secs(86_400)).is_ok());
    assert!(Ttr::new(Duration::from_millis(86_400_001)).is_err());
    assert!(Delay::new(Delay::MAX).is_ok());
    assert!(Delay::new(Delay::MAX + Duration::from_nanos(1)).is_err());
    assert!(Reason::new(&"x".repeat(1_024)).is_some());
    assert!(Reason::new(&"x".repeat(1_025)).is_none());
}

#[test]
fn a_time_in_the_past_means_now() {
    let now = Now::from_micros(1_000_500);
    assert_eq!(Due::At(Timestamp::from_millis(5)).resolve(now), now.rounded_down);
    assert_eq!(Due::At(Timestamp::from_millis(1_005)).resolve(now).as_millis(), 1_005);
    assert_eq!(Due::default().resolve(now), now.rounded_down);
}
