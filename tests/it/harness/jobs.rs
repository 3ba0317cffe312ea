//! Short functions to make jobs and to call operations on them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use linger::{
    job::{
        Actor, Body, Callback, CallbackUrl, DedupWindow, Delay, Due, Fingerprint, JobId, Outlet,
        RetrySchedule, SecretId, SigningKey, SigningSecret, Topic, TopicFilter, TopicPattern, TraceContext,
        Ttr,
    },
    store::{AddJob, Added, DeletedJob, FinishJob, Finished, IfExists, Outcome, PurgeCursor, Reservation},
};
use linger::{
    job::{Job, JobState, Receipt, State, Timestamp},
    store::Store,
};
pub use linger::{
    job::{JobSpec, Pause, PausedOperations, TopicPause},
    store::{Claim, DeleteRule, Wait},
};

use super::wait::StepLimit;

/// The scope of a caller who may use every topic.
pub const ALL: &TopicFilter = &TopicFilter::ALL;

/// The outcome of the delete of a job of the topic `t` that was in this state.
pub fn deleted(state: State) -> Outcome<DeletedJob> {
    Ok(DeletedJob { topic: topic("t"), state })
}

/// The scope of a caller who may use the topics that these patterns match.
pub fn only(patterns: &[&str]) -> TopicFilter {
    let pattern = |text: &&str| TopicPattern::parse(text).expect("a pattern");
    TopicFilter::only(patterns.iter().map(pattern).collect())
}

pub fn id(text: &str) -> JobId {
    JobId::parse(text).expect("a valid id")
}

pub fn topic(text: &str) -> Topic {
    Topic::parse(text).expect("a valid topic")
}

/// The outlet of the jobs of a topic that have no callback of their own.
pub fn plain(text: &str) -> Outlet {
    Outlet::plain(topic(text))
}

pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn delay(duration: Duration) -> Delay {
    Delay::new(duration).expect("a valid delay")
}

pub fn after(wait: Duration) -> Due {
    Due::After(delay(wait))
}

pub fn ttr(n: u64) -> Ttr {
    Ttr::new(seconds(n)).expect("a valid TTR")
}

/// For how long an id is remembered.
pub fn window(n: u64) -> DedupWindow {
    DedupWindow::new(seconds(n)).expect("a valid window")
}

pub fn retry(steps: &[u64]) -> RetrySchedule {
    RetrySchedule::new(steps.iter().copied().map(seconds).collect()).expect("a valid schedule")
}

pub fn body(json: &'static str) -> Body {
    Body::parse(Bytes::from_static(json.as_bytes())).expect("a valid body")
}

/// A job of topic `t` that is ready at once: TTR 60 s, 16 attempts, no schedule.
pub fn job(name: &str) -> AddJob {
    AddJob {
        id: id(name),
        topic: topic("t"),
        due: Due::default(),
        spec: JobSpec::default(),
        fingerprint: Fingerprint([7; 16]),
        is_paused: false,
        if_exists: IfExists::Keep,
        body: body("{\"n\":1}"),
    }
}

/// What an add by `actor` says that replaces a job.
pub fn replace_by(actor: &str) -> IfExists {
    IfExists::Replace { by: Some(Actor::parse(actor).expect("a valid actor")) }
}

/// Moves the end of the reservation of a reserved job.
pub fn set_until(job: &mut Job, end: Timestamp) {
    match &mut job.state {
        JobState::Reserved(reserved) => reserved.until = end,
        JobState::Delayed | JobState::Ready | JobState::Dead(_) => panic!("{job:?} is not reserved"),
    }
}

/// A job of topic `t` with a callback of its own to `url`, ready at once.
pub fn called(name: &str, url: &str) -> AddJob {
    AddJob { spec: JobSpec { callback: Some(callback(url)), ..JobSpec::default() }, ..job(name) }
}

/// A callback to `url`.
pub fn callback(url: &str) -> Arc<Callback> {
    Arc::new(Callback::to(CallbackUrl::parse(url).expect("a valid URL")))
}

/// The trace context of this span, with a state of as many bytes as are kept.
pub fn trace(span: u8) -> TraceContext {
    let parent = format!("00-0af7651916cd43dd8448eb211c80319c-{span:016x}-01");
    let members: Vec<String> = (0..4).map(|n| format!("k{n}={}", "v".repeat(124 + n / 3))).collect();
    let trace = TraceContext::parse(&parent, Some(&members.join(","))).expect("a valid context");
    assert_eq!(trace.tracestate().map(str::len), Some(TraceContext::MAX_STATE));
    trace
}

/// The outlet of the jobs of a topic with callbacks to the host of `url`.
pub fn outlet_to(store: &dyn Store, name: &str, url: &str) -> Outlet {
    let url = CallbackUrl::parse(url).expect("a valid URL");
    Outlet { topic: topic(name), host: Some(store.host_number(url.origin())) }
}

/// The same, due after `wait`.
pub fn delayed(name: &str, wait: Duration) -> AddJob {
    AddJob { due: Due::After(delay(wait)), ..job(name) }
}

/// Adds one job that must be new.
pub async fn add(store: &dyn Store, job: AddJob) -> Job {
    match add_any(store, job).await {
        Ok(Added::Created(job)) => job,
        other => panic!("expected a new job, got {other:?}"),
    }
}

/// Adds one job and returns the result.
pub async fn add_any(store: &dyn Store, job: AddJob) -> Outcome<Added> {
    one(store.add(vec![job]).await.expect("adds"))
}

/// A secret of a topic, made at some time.
pub fn signing_secret(id: SecretId, key: SigningKey) -> SigningSecret {
    SigningSecret { id, created_at: Timestamp::from_millis(1_795_000_000_000), key }
}

/// Claims of unknown workers, for the TTRs of the jobs.
pub fn claims(count: usize) -> Vec<Claim> {
    vec![Claim::default(); count]
}

/// A claim for this TTR.
pub fn claim_for(ttr: Ttr) -> Claim {
    Claim { ttr: Some(ttr), by: None }
}

/// Reserves one job of topic `t` if one is ready.
pub async fn reserve_any(store: &dyn Store) -> Option<Reservation> {
    let mut jobs = store.reserve(&plain("t"), &claims(1), Wait::No).await.expect("reserves");
    assert!(jobs.len() <= 1, "more jobs than asked: {jobs:?}");
    jobs.pop()
}

/// Reserves one job of topic `t` that must be ready.
pub async fn reserve(store: &dyn Store) -> Reservation {
    reserve_any(store).await.expect("a ready job")
}

/// Promotes every due job.
pub async fn promote(store: &dyn Store) {
    let mut limit = StepLimit::new();
    while store.promote(100).await.expect("promotes").more {
        limit.step();
    }
}

/// Purges a topic in slices of up to `most` jobs. Returns the numbers of deleted jobs and of slices.
pub async fn purge(store: &dyn Store, topic: &Topic, most: usize) -> (usize, usize) {
    purge_from(None, store, topic, most).await.expect("purges")
}

/// Like [`purge`], from a cursor on.
pub async fn purge_from(
    mut cursor: Option<PurgeCursor>,
    store: &dyn Store,
    topic: &Topic,
    most: usize,
) -> linger::store::Result<(usize, usize)> {
    let (mut deleted, mut slices, mut limit) = (0, 0, StepLimit::new());
    loop {
        limit.step();
        let slice = store.purge(topic, cursor, most).await?;
        deleted += slice.deleted;
        slices += 1;
        cursor = slice.next;
        if cursor.is_none() {
            return Ok((deleted, slices));
        }
    }
}

/// A finish with a receipt.
pub fn finish(id: &JobId, receipt: &Receipt) -> Vec<FinishJob> {
    vec![FinishJob { id: id.clone(), receipt: Some(receipt.clone()) }]
}

/// What a finish of a job of topic `t` did while it was reserved.
pub fn finished() -> Outcome<Finished> {
    Ok(Finished { topic: topic("t"), is_late: false })
}

/// What one did after its reservation had timed out.
pub fn finished_late() -> Outcome<Finished> {
    Ok(Finished { topic: topic("t"), is_late: true })
}

/// The only item of a result with one item.
pub fn one<T: std::fmt::Debug>(mut items: Vec<T>) -> T {
    assert_eq!(items.len(), 1, "one answer for one item: {items:?}");
    items.remove(0)
}
