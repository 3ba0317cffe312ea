//! Late calls: calls that reach Redis long after they were reported as failed change nothing. When a connection is cut,
//! the network may deliver its requests up to a hundred seconds later. By then the client has repeated the call
//! elsewhere.

use linger::{
    job::{Job, State},
    store::{
        ChangeJob, Error, FinishJob, JobChange, Patch, Refusal, SeenJob, Step, StepAction, Steps, Store,
        TopicUpdates, redis::Options,
    },
};

use super::{
    Process, Raw, options,
    proxy::{Fault, Proxy},
    tag,
};
use crate::harness::{jobs::*, redis::shared, wait::TimeLimit};

/// A process whose requests can be withheld, and another one that is not cut off, with the default settings.
struct Pair {
    cut_off: Process,
    proxy: Proxy,
    other: Process,
    options: Options,
}

impl Pair {
    async fn start() -> Self {
        Self::with(options()).await
    }

    async fn with(options: Options) -> Self {
        let proxy = Proxy::start(shared().port).await;
        let cut_off = Process::start(&Options { mode: proxy.mode(), ..options.clone() }).await;
        let other = Process::with_clock_of(&cut_off, &options).await;
        Self { cut_off, proxy, other, options }
    }

    /// Delivers the withheld calls to the server, which must refuse all of them.
    async fn deliver_late_calls(&self) {
        let replies = self.proxy.deliver_withheld(shared().port).await;
        assert!(!replies.is_empty(), "no call was withheld");
        assert!(replies.iter().all(|reply| reply.starts_with("-LATE")), "{replies:?}");
        let faults = self.other.store.verify().await.expect("verifies").faults;
        assert_eq!(faults, Vec::<String>::new());
    }
}

fn is_unavailable<T: std::fmt::Debug>(answer: linger::store::Result<T>) {
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
}

async fn a_late_delete_does_not_take_a_job_that_was_added_since() {
    let pair = Pair::start().await;
    add(pair.other.store(), job("victim")).await;
    pair.proxy.withhold("victim", usize::MAX);
    is_unavailable(pair.cut_off.store.delete(ALL, vec![id("victim")], DeleteRule::AnyState).await);
    let deleted =
        pair.other.store.delete(ALL, vec![id("victim")], DeleteRule::AnyState).await.expect("deletes");
    assert!(one(deleted).is_ok());
    add(pair.other.store(), job("victim")).await;
    pair.deliver_late_calls().await;
    assert!(
        pair.other.store.get(ALL, &id("victim")).await.expect("gets").is_some(),
        "an acknowledged job is lost"
    );
}

async fn a_late_add_does_not_bring_a_finished_job_back() {
    let pair = Pair::start().await;
    pair.proxy.withhold("victim", usize::MAX);
    is_unavailable(pair.cut_off.store.add(vec![job("victim")]).await);
    add(pair.other.store(), job("victim")).await;
    let held = reserve(pair.other.store()).await;
    let done = pair.other.store.finish(ALL, finish(&id("victim"), &held.receipt)).await.expect("finishes");
    assert!(one(done).is_ok());
    pair.deliver_late_calls().await;
    assert_eq!(pair.other.store.get(ALL, &id("victim")).await.expect("gets"), None, "a finished job is back");
}

async fn a_late_add_does_not_bring_a_deleted_job() {
    let pair = Pair::start().await;
    pair.proxy.withhold("victim", usize::MAX);
    is_unavailable(pair.cut_off.store.add(vec![job("victim")]).await);
    let deleted =
        pair.other.store.delete(ALL, vec![id("victim")], DeleteRule::AnyState).await.expect("deletes");
    assert_eq!(deleted, [Err(Refusal::Gone)], "a repeat of the delete finds no job");
    pair.deliver_late_calls().await;
    assert_eq!(pair.other.store.get(ALL, &id("victim")).await.expect("gets"), None, "a cancelled job runs");
}

async fn a_late_patch_does_not_replace_a_later_one() {
    let pair = Pair::start().await;
    add(pair.other.store(), delayed("victim", seconds(60))).await;
    let patch = |text| Patch { body: Some(body(text)), ..Patch::default() };
    pair.proxy.withhold("victim", usize::MAX);
    is_unavailable(pair.cut_off.store.patch(ALL, &id("victim"), patch("1"), None).await);
    let patched = pair.other.store.patch(ALL, &id("victim"), patch("2"), None).await.expect("patches");
    assert!(patched.is_ok());
    pair.deliver_late_calls().await;
    let stored = pair.other.store.get(ALL, &id("victim")).await.expect("gets").expect("is there");
    assert_eq!(stored.body, body("2"), "an acknowledged PATCH is undone");
}

/// The job is again as it was seen when the late call arrives.
async fn a_late_change_does_not_delete_a_job_that_was_added_again() {
    let pair = Pair::start().await;
    let victim = add(pair.other.store(), delayed("victim", seconds(60))).await;
    let delete = vec![ChangeJob { seen: SeenJob::new(&victim), change: JobChange::Delete }];
    pair.proxy.withhold("victim", usize::MAX);
    is_unavailable(pair.cut_off.store.change(delete.clone(), None).await);
    assert_eq!(pair.other.store.change(delete, None).await.expect("changes"), [true]);
    assert_eq!(add(pair.other.store(), delayed("victim", seconds(60))).await, victim);
    pair.deliver_late_calls().await;
    assert_eq!(pair.other.store.get(ALL, &id("victim")).await.expect("gets"), Some(victim));
}

/// The same fault in other operations than the four in which it was found.
async fn late_steps_of_other_kinds_do_nothing_either() {
    let pair = Pair::start().await;
    add(pair.other.store(), job("victim")).await;
    let held = reserve(pair.other.store()).await;
    pair.other.store.bury(ALL, &id("victim"), &held.receipt, None).await.expect("asks").expect("is held");
    let (victim, paused_topic) = (id("victim"), topic("victim"));
    let pause = PausedOperations { delivery: true, intake: false };
    pair.proxy.withhold("victim", usize::MAX);
    let (requeued, paused) = tokio::join!(
        pair.cut_off.store.requeue(ALL, &victim, after(seconds(0)), None),
        pair.cut_off.store.pause(&paused_topic, pause, Pause::ENDLESS),
    );
    is_unavailable(requeued);
    is_unavailable(paused);
    let requeued =
        pair.other.store.requeue(ALL, &id("victim"), after(seconds(9)), None).await.expect("requeues");
    assert!(requeued.is_ok());
    pair.other.store.resume(&topic("victim"), PausedOperations::ALL).await.expect("resumes");
    pair.deliver_late_calls().await;
    let stored = pair.other.store.get(ALL, &id("victim")).await.expect("gets").expect("is there");
    assert_eq!(stored.state(), State::Delayed, "an acknowledged requeue is undone");
    let raw = Raw::connect(&shared().url()).await;
    let pauses = raw.send(&["HKEYS", &format!("{{{}}}:settings", pair.options.prefix)]).await;
    let pauses: Vec<_> = pauses.into_array().into_iter().filter_map(|field| field.as_string()).collect();
    assert!(pauses.iter().all(|field| field == "#"), "an acknowledged resume is undone: {pauses:?}");
}

/// The first run added one of the two jobs, because the other one existed. That one is deleted before the second run.
async fn a_late_add_does_not_add_a_job_that_existed_before() {
    let pair = Pair::with(Options { shards: Some(1), ..options() }).await;
    add(pair.other.store(), job("there")).await;
    // The sweep looks for ready topics after a lost reply: that call is none of those to withhold.
    pair.proxy.arm_marked_then("victim", Fault::CutAfter, Fault::Withheld);
    is_unavailable(pair.cut_off.store.add(vec![job("victim"), job("there")]).await);
    pair.other.store.delete(ALL, vec![id("there")], DeleteRule::AnyState).await.expect("deletes");
    pair.deliver_late_calls().await;
    assert!(pair.other.store.get(ALL, &id("victim")).await.expect("gets").is_some());
    assert_eq!(pair.other.store.get(ALL, &id("there")).await.expect("gets"), None, "a deleted job is back");
}

/// The cases run concurrently, because each waits for as long as a call is retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_arrives_after_its_failure_was_reported_does_nothing() {
    // Boxed: all of them together are too large for a test's stack.
    tokio::join!(
        Box::pin(a_late_delete_does_not_take_a_job_that_was_added_since()),
        Box::pin(a_late_add_does_not_bring_a_finished_job_back()),
        Box::pin(a_late_add_does_not_bring_a_deleted_job()),
        Box::pin(a_late_change_does_not_delete_a_job_that_was_added_again()),
        Box::pin(a_late_patch_does_not_replace_a_later_one()),
        Box::pin(late_steps_of_other_kinds_do_nothing_either()),
        Box::pin(a_late_add_does_not_add_a_job_that_existed_before()),
    );
}

/// One shard refuses its part of a batch at once, and the part of another one is late.
async fn a_late_part_of_a_batch_does_nothing<T: std::fmt::Debug>(
    batch: impl AsyncFnOnce(&dyn Store, Vec<Job>) -> linger::store::Result<T>,
) {
    let pair = Pair::with(Options { shards: Some(2), ..options() }).await;
    let tags = [0, 1].map(|shard| format!("{{{}:{shard}}}", pair.options.prefix));
    let mut jobs = Vec::new();
    for (name, its_tag) in ["refused", "victim"].into_iter().zip(&tags) {
        let is_there = |name: &String| tag(&pair.options, &id(name)) == *its_tag;
        let name = (0..).map(|n| format!("{name}-{n}")).find(is_there).expect("each shard has some");
        jobs.push(add(pair.other.store(), delayed(&name, seconds(60))).await);
    }
    // Each script looks at one of these keys before it changes anything.
    let raw = Raw::connect(&shared().url()).await;
    for key in ["due", "leases"].map(|key| format!("{}:{key}", tags[0])) {
        raw.send(&["SET", &key, "broken"]).await;
    }
    pair.proxy.withhold("victim", usize::MAX);
    let failed = batch(pair.cut_off.store(), jobs).await;
    assert!(matches!(failed, Err(Error::Damaged(_))), "{failed:?}");
    let replies = pair.proxy.deliver_withheld(shared().port).await;
    assert!(!replies.is_empty(), "no call was withheld");
    assert!(replies.iter().all(|reply| reply.starts_with("-LATE")), "{replies:?}");
}

/// Its caller repeats the whole batch, maybe at another process, and then goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_fails_at_one_shard_changes_nothing_later_at_another() {
    let ids = |jobs: Vec<Job>| jobs.into_iter().map(|job| job.id).collect::<Vec<_>>();
    tokio::join!(
        Box::pin(a_late_part_of_a_batch_does_nothing(async |store, jobs| {
            store.add(ids(jobs).iter().map(|id| job(id.as_str())).collect()).await
        })),
        Box::pin(a_late_part_of_a_batch_does_nothing(async |store, jobs| {
            store.finish(ALL, ids(jobs).into_iter().map(|id| FinishJob { id, receipt: None }).collect()).await
        })),
        Box::pin(a_late_part_of_a_batch_does_nothing(async |store, jobs| {
            store.delete(ALL, ids(jobs), DeleteRule::AnyState).await
        })),
        Box::pin(a_late_part_of_a_batch_does_nothing(async |store, jobs| {
            let change = |job| ChangeJob { seen: SeenJob::new(job), change: JobChange::Delete };
            store.change(jobs.iter().map(change).collect(), None).await
        })),
        Box::pin(a_late_part_of_a_batch_does_nothing(async |store, jobs| {
            let patch = |id| Step::unscoped(id, StepAction::Patch(Patch::default()), None);
            store.apply(ids(jobs).into_iter().map(patch).collect()).await
        })),
    );
}

#[tokio::test]
async fn a_first_touch_that_arrives_after_a_later_one_does_not_shorten_the_reservation() {
    let pair = Pair::start().await;
    add(pair.other.store(), job("victim")).await;
    let held = reserve(pair.other.store()).await;
    pair.proxy.withhold("victim", 1);
    let touch = async |seconds| {
        let touched = pair.cut_off.store.touch(ALL, &id("victim"), &held.receipt, Some(ttr(seconds))).await;
        touched.expect("answers").expect("is held").reserved_until().expect("is reserved")
    };
    touch(10).await;
    let till = touch(500).await;
    pair.proxy.deliver_withheld(shared().port).await;
    let stored = pair.other.store.get(ALL, &id("victim")).await.expect("gets").expect("is there");
    assert_eq!(stored.reserved_until(), Some(till));
}

/// The clock of the server seems an hour behind, as if it were set forward right after a reading. So the deadline of
/// the next call has passed when the call arrives.
#[tokio::test]
async fn a_clock_that_was_set_forward_is_measured_again_and_the_call_resent() {
    let proxy = Proxy::start(shared().port).await;
    let process = Process::start(&Options { mode: proxy.mode(), ..options() }).await;
    // After these scripts the sweep has read the clock once, so that it notices the step.
    proxy.learn_background().await;
    let seen = proxy.background_seen();
    let time_limit = TimeLimit::new();
    while proxy.background_seen() < seen + 6 {
        time_limit.check(|| "the engine does not sweep".to_owned());
        time_limit.pause().await;
    }
    proxy.step_clock(-3_600);
    let time_limit = TimeLimit::new();
    while !process.metrics.encode().contains("linger_store_clock_steps_total 1\n") {
        time_limit.check(|| "the sweep has not read the clock".to_owned());
        time_limit.pause().await;
    }
    proxy.step_clock(0);
    add(process.store(), job("b")).await;
}
