//! Bulk operations of several processes on one store: each process knows those of the others, and can stop them.

mod announcing;

use std::{sync::Arc, time::Duration};

use linger::{
    clock::{Clock, ManualClock},
    job::{Due, OperationId, State, Timestamp},
    metrics::Metrics,
    queue::{
        BulkAction, BulkRequest, Error, JobFilter, Limits, OperationState, OperationView, Queue, StoreEvents,
    },
    store::{AddJob, NoticeContent, NoticeKind, Store},
};

use crate::harness::{
    failing::{FailingStore, HungCalls},
    jobs::{delay, job, seconds},
    naive::Naive,
    stores::{Recorder, START},
    wait::{bounded, until},
};

/// Two processes on one store.
struct Processes {
    clock: Arc<ManualClock>,
    store: Arc<Naive>,
    one: Process,
    two: Process,
}

struct Process {
    store: Arc<FailingStore>,
    queue: Arc<Queue>,
}

impl Process {
    fn new(store: &Arc<Naive>, clock: &Arc<ManualClock>) -> Self {
        let store = FailingStore::new(store.clone());
        let (events, metrics) = (StoreEvents::default(), Metrics::new().queue);
        let queue = Queue::new(store.clone(), &events, clock.clone(), Limits::default(), metrics);
        Self { store, queue }
    }

    async fn start(&self, request: BulkRequest) -> OperationView {
        self.queue.start_operation(request).await.expect("starts")
    }

    async fn refusal(&self, request: BulkRequest) -> Option<Error> {
        self.queue.start_operation(request).await.err()
    }

    async fn find(&self, id: &OperationId) -> OperationView {
        self.queue.operation(id).await.expect("is known")
    }

    async fn state(&self, id: &OperationId) -> OperationState {
        self.find(id).await.progress.state
    }

    async fn list(&self) -> Vec<OperationView> {
        self.queue.list_operations().await.expect("lists")
    }

    /// Lets other tasks run until the operation, as this process knows it, is as wanted.
    async fn wait_for(&self, id: &OperationId, is_wanted: impl Fn(&OperationView) -> bool) -> OperationView {
        let wanted = async {
            loop {
                let view = self.find(id).await;
                if is_wanted(&view) {
                    return view;
                }
                tokio::task::yield_now().await;
            }
        };
        bounded("an operation", wanted).await
    }
}

impl Processes {
    fn new() -> Self {
        let clock = ManualClock::new(Timestamp::parse(START).expect("START is a timestamp"));
        let store = Naive::new(clock.clone(), Arc::new(Recorder::default()), None);
        let (one, two) = (Process::new(&store, &clock), Process::new(&store, &clock));
        Self { clock, store, one, two }
    }

    async fn with_jobs(count: usize) -> Self {
        let processes = Self::new();
        let due = Due::After(delay(seconds(60)));
        let jobs = (0..count).map(|n| AddJob { due, ..job(&format!("job-{n}")) }).collect();
        processes.store.add(jobs).await.expect("adds");
        processes
    }

    /// Starts an operation at the first process, which hangs in its first step.
    async fn start_hanging(&self, request: BulkRequest) -> (OperationView, Arc<HungCalls>) {
        let hung = self.one.store.hang_lists();
        let started = self.one.start(request).await;
        until(|| hung.hung_calls() == 1).await;
        (started, hung)
    }

    /// Starts an operation at the first process, whose lists hang, and lets the time pass for which the caller of a dry run
    /// waits.
    async fn start_behind(&self, hung: &HungCalls, request: BulkRequest) {
        let (queue, before) = (self.one.queue.clone(), hung.hung_calls());
        let started = tokio::spawn(async move { queue.start_operation(request).await });
        until(|| hung.hung_calls() > before).await;
        self.clock.advance(Duration::from_millis(100));
        bounded("an answer", started).await.expect("no panic").expect("starts");
    }

    /// Advances the clock by whole seconds. The tasks of both processes run in between.
    async fn pass(&self, seconds_to_pass: u64) {
        for _ in 0..seconds_to_pass {
            self.clock.advance(seconds(1));
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Shifts jobs by an hour, so that a second run could be told.
fn shift(id: &str) -> BulkRequest {
    BulkRequest {
        id: Some(operation_id(id)),
        action: BulkAction::Shift(3_600_000),
        filter: JobFilter::all(State::Delayed),
        expiry: linger::job::ExpiryChange::Keep,
        reason: None,
        spread: None,
        limit: Some(1_000),
        by: "ops".into(),
    }
}

fn dry_run(_: &str) -> BulkRequest {
    BulkRequest { id: None, limit: None, ..shift("dry-run") }
}

fn too_many(limit: usize, is_dry_run: bool, of_caller: bool) -> Option<Error> {
    Some(Error::TooManyOperations { limit, is_dry_run, of_caller })
}

fn operation_id(text: &str) -> OperationId {
    OperationId::parse(text).expect("valid")
}

#[tokio::test]
async fn an_operation_is_seen_with_its_progress_from_every_process() {
    let processes = Processes::with_jobs(150).await;
    let (started, hung) = processes.start_hanging(shift("a")).await;
    assert_eq!(processes.two.find(&started.id).await.progress, started.progress);
    let second_step = processes.one.store.hang_lists();
    hung.release();
    until(|| second_step.hung_calls() == 1).await;
    assert_eq!(processes.two.find(&started.id).await.progress.changed, 0, "it is reported once a second");
    processes.clock.advance(seconds(1));
    let seen = processes.two.wait_for(&started.id, |view| view.progress.changed == 100).await;
    assert_eq!(seen, processes.one.find(&started.id).await);
    second_step.release();
    let done = |view: &OperationView| view.progress.state == OperationState::Done;
    let ended = processes.two.wait_for(&started.id, done).await;
    assert_eq!((ended.progress.changed, ended.progress.ended_at), (150, Some(processes.clock.now())));
    assert_eq!(processes.two.list().await, processes.one.list().await);
    let later = processes.two.start(shift("b")).await;
    let listed: Vec<OperationId> = processes.one.list().await.into_iter().map(|view| view.id).collect();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.contains(&later.id));
}

/// Of this process and of another one, while it runs and afterwards.
#[tokio::test]
async fn an_id_that_another_operation_has_is_refused() {
    let processes = Processes::with_jobs(1).await;
    let (started, hung) = processes.start_hanging(shift("a")).await;
    let done = |view: &OperationView| view.progress.state == OperationState::Done;
    let mut filter = JobFilter::all(State::Delayed);
    filter.id_prefix = Some("job".into());
    for is_running in [true, false] {
        for process in [&processes.one, &processes.two] {
            for other in [
                BulkRequest { action: BulkAction::Shift(1_000), ..shift("a") },
                BulkRequest { action: BulkAction::Delete, ..shift("a") },
                BulkRequest { filter: filter.clone(), ..shift("a") },
                BulkRequest { expiry: linger::job::ExpiryChange::Clear, ..shift("a") },
                BulkRequest { reason: linger::job::Reason::new("why"), ..shift("a") },
                BulkRequest { spread: Some(seconds(1)), ..shift("a") },
                BulkRequest { limit: Some(1), ..shift("a") },
            ] {
                let refusal = process.refusal(other.clone()).await;
                assert_eq!(refusal, Some(Error::OperationExists), "{other:?}, while it runs: {is_running}");
            }
            let by_another_caller = BulkRequest { by: "another".into(), ..shift("a") };
            assert_eq!(process.start(by_another_caller).await.id, started.id);
        }
        hung.release();
        let ended = processes.one.wait_for(&started.id, done).await;
        assert_eq!(ended.progress.changed, 1, "only the first request did something");
        processes.pass(1).await;
    }
}

#[tokio::test]
async fn an_operation_is_stopped_from_another_process() {
    let processes = Processes::with_jobs(150).await;
    let (started, hung) = processes.start_hanging(shift("a")).await;
    let stop = {
        let (queue, id) = (processes.two.queue.clone(), started.id.clone());
        tokio::spawn(async move { queue.stop_operation(&id).await })
    };
    processes.pass(2).await;
    assert!(!stop.is_finished(), "the answer comes after the step that is under way");
    hung.release();
    let stopped = processes.one.wait_for(&started.id, |view| view.progress.ended_at.is_some()).await;
    assert_eq!((stopped.progress.state, stopped.progress.changed), (OperationState::Stopped, 100));
    processes.pass(1).await;
    let answer = bounded("the answer", stop).await.expect("ends").expect("answers");
    assert_eq!(answer, processes.one.find(&started.id).await);
    assert_eq!(processes.two.queue.stop_operation(&started.id).await.expect("answers"), answer);
    let unknown = processes.two.queue.stop_operation(&operation_id("unknown")).await;
    assert_eq!(unknown.err(), Some(Error::OperationNotFound));
}

#[tokio::test]
async fn the_wait_for_the_end_of_an_operation_elsewhere_is_bounded() {
    let processes = Processes::with_jobs(1).await;
    let (started, _hung) = processes.start_hanging(shift("a")).await;
    let stop = {
        let (queue, id) = (processes.two.queue.clone(), started.id.clone());
        tokio::spawn(async move { queue.stop_operation(&id).await })
    };
    processes.pass(9).await;
    assert!(!stop.is_finished());
    processes.pass(2).await;
    let answer = bounded("the answer", stop).await.expect("ends").expect("answers");
    assert_eq!(answer.progress.state, OperationState::Running);
}

#[tokio::test]
async fn a_stop_request_is_for_the_operation_that_was_seen() {
    let processes = Processes::with_jobs(150).await;
    let (notices, request) = (processes.store.notices(), NoticeContent::new("1234").expect("is short"));
    notices.put(NoticeKind::StopRequest, "a", request).await.expect("writes");
    let (started, hung) = processes.start_hanging(shift("a")).await;
    processes.pass(3).await;
    hung.release();
    processes.one.wait_for(&started.id, |view| view.progress.changed == 100).await;
    // The operation pauses for as long as its first step took.
    processes.pass(4).await;
    let ended = |view: &OperationView| view.progress.ended_at.is_some();
    let ended = processes.two.wait_for(&started.id, ended).await;
    assert_eq!(ended.progress.state, OperationState::Done, "the request was for an earlier operation");
    processes.pass(1).await;
    let requests = notices.list(NoticeKind::StopRequest).await.expect("reads");
    assert_eq!(requests, [], "the owner deletes it");
}

#[tokio::test]
async fn few_operations_of_a_caller_run_over_all_processes() {
    let processes = Processes::with_jobs(1).await;
    let (_first, hung) = processes.start_hanging(shift("a-0")).await;
    for n in 1..4 {
        processes.one.start(shift(&format!("a-{n}"))).await;
    }
    assert_eq!(processes.two.refusal(shift("b")).await, too_many(4, false, true));
    let known = processes.two.start(shift("a-2")).await;
    assert_eq!(known.progress.state, OperationState::Running);
    hung.release();
    for n in 0..4 {
        let done = |view: &OperationView| view.progress.state == OperationState::Done;
        processes.two.wait_for(&operation_id(&format!("a-{n}")), done).await;
    }
    processes.two.start(shift("b")).await;
}

#[tokio::test]
async fn a_caller_that_repeats_operations_does_not_lock_others_out() {
    let processes = Processes::with_jobs(1).await;
    // Every operation hangs in its first step, so that each repetition takes another place until one is refused.
    let hung = processes.one.store.hang_lists();
    for request in [shift as fn(&str) -> BulkRequest, dry_run] {
        let is_dry_run = request("a").is_dry_run();
        let of =
            |by: &str, n: usize| BulkRequest { by: by.into(), ..request(&format!("{by}-{is_dry_run}-{n}")) };
        for n in 0..4 {
            processes.start_behind(&hung, of("greedy", n)).await;
        }
        let refused = too_many(4, is_dry_run, true);
        assert_eq!(processes.one.refusal(of("greedy", 4)).await, refused);
        assert_eq!(processes.two.refusal(of("greedy", 4)).await, refused, "over all processes");
        for n in 0..4 {
            processes.start_behind(&hung, of("other", n)).await;
        }
        assert_eq!(processes.two.refusal(of("third", 0)).await, too_many(8, is_dry_run, false));
    }
    hung.release();
}

#[tokio::test]
async fn an_operation_whose_process_is_not_heard_of_is_abandoned() {
    let processes = Processes::with_jobs(150).await;
    let (started, hung) = processes.start_hanging(shift("a-0")).await;
    for n in 1..4 {
        processes.one.start(shift(&format!("a-{n}"))).await;
    }
    processes.pass(30).await;
    assert_eq!(processes.two.state(&started.id).await, OperationState::Running, "it is still reported");
    // As if the process was killed.
    processes.one.store.fail_notices(true);
    processes.pass(9).await;
    assert_eq!(processes.two.state(&started.id).await, OperationState::Running);
    processes.pass(1).await;
    assert_eq!(processes.two.state(&started.id).await, OperationState::Abandoned);
    let again = processes.two.start(shift("a-0")).await;
    assert_eq!(again.progress.state, OperationState::Abandoned, "its id is still taken");
    let stopped = processes.two.queue.stop_operation(&operation_id("a-1")).await.expect("answers at once");
    assert_eq!(stopped.progress.state, OperationState::Abandoned);
    processes.two.start(shift("b")).await;
    // The process was only suspended.
    processes.one.store.fail_notices(false);
    processes.pass(1).await;
    assert_eq!(processes.two.state(&started.id).await, OperationState::Running);
    hung.release();
    let ended = |view: &OperationView| view.progress.ended_at.is_some();
    let stopped = processes.two.wait_for(&operation_id("a-1"), ended).await;
    assert_eq!(stopped.progress.state, OperationState::Stopped, "it finds the request");
}

#[tokio::test]
async fn an_operation_goes_on_while_it_cannot_be_reported() {
    let processes = Processes::with_jobs(50).await;
    let (started, hung) = processes.start_hanging(shift("a")).await;
    processes.one.store.fail_notices(true);
    processes.pass(1).await;
    hung.release();
    let done = |view: &OperationView| view.progress.state == OperationState::Done;
    let ended = processes.one.wait_for(&started.id, done).await;
    assert_eq!(ended.progress.changed, 50);
    let stop = bounded("an answer without a report", processes.one.queue.stop_operation(&started.id)).await;
    assert_eq!(stop.expect("answers"), ended);
    assert_eq!(processes.two.state(&started.id).await, OperationState::Running);
    assert!(matches!(processes.one.queue.list_operations().await, Err(Error::Unavailable(_))));
    let refused = processes.one.queue.start_operation(shift("b")).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    processes.one.store.fail_notices(false);
    processes.clock.advance(seconds(1));
    assert_eq!(processes.two.wait_for(&started.id, done).await, ended);
    assert_eq!(processes.one.queue.operation(&operation_id("b")).await.err(), Some(Error::OperationNotFound));
}

#[tokio::test]
async fn a_closed_queue_leaves_no_running_operation_behind() {
    for notices_fail in [false, true] {
        let processes = Processes::with_jobs(150).await;
        let (started, hung) = processes.start_hanging(shift("a")).await;
        processes.one.store.fail_notices(notices_fail);
        let queue = processes.one.queue.clone();
        let closed = tokio::spawn(async move { queue.close().await });
        hung.release();
        bounded("the close", closed).await.expect("ends").expect("closes");
        let expected = if notices_fail { OperationState::Running } else { OperationState::Stopped };
        assert_eq!(processes.two.state(&started.id).await, expected);
    }
}

#[tokio::test]
async fn a_long_dry_run_is_seen_from_every_process() {
    let processes = Processes::with_jobs(3).await;
    let hung = processes.one.store.hang_lists();
    let request = BulkRequest { id: None, limit: None, ..shift("a") };
    let start = {
        let (queue, request) = (processes.one.queue.clone(), request.clone());
        tokio::spawn(async move { queue.start_operation(request).await })
    };
    until(|| hung.hung_calls() == 1).await;
    assert_eq!(processes.two.list().await, []);
    processes.pass(1).await;
    let started = bounded("the answer", start).await.expect("ends").expect("starts");
    assert_eq!(processes.two.state(&started.id).await, OperationState::Running);
    hung.release();
    let done = |view: &OperationView| view.progress.state == OperationState::Done;
    let seen = processes.two.wait_for(&started.id, done).await;
    assert_eq!((seen.progress.matched, seen.progress.examples.len()), (3, 3));
    assert_eq!(seen.progress, processes.one.find(&started.id).await.progress);
    processes.two.start(request).await;
    assert_eq!(processes.one.list().await.len(), 1, "a short one leaves no notice");
}
