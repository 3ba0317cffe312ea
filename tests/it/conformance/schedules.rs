//! Schedules as a store keeps them: replaced by comparison, and in one step with the job of a run.

use linger::{
    job::{Due, Job, JobId, ScheduleName, State},
    store::{
        AddJob, PreviousRun, Refusal, Reservation, ScheduleChange, ScheduleChanged, ScheduleContent,
        ScheduleOutcome, ScheduleRefusal, ScheduleRun, Steps, Store,
    },
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    schedules_are_listed_by_name_and_survive_a_restart,
    due_schedules_are_found_by_their_moment,
    many_processes_add_a_run_once;
    a_schedule_is_replaced_only_as_expected,
    a_run_adds_its_job_in_the_step_that_changes_the_schedule,
    a_run_that_is_refused_changes_nothing,
    a_run_is_left_out_while_the_previous_job_lives,
    a_waiting_job_gives_way_to_the_next_run,
}

fn name(text: &str) -> ScheduleName {
    ScheduleName::parse(text).expect("valid")
}

fn content(fixture: &StoreFixture, next_in: u64, text: &str) -> ScheduleContent {
    let next = fixture.now().after(seconds(next_in));
    ScheduleContent { next: Some(next), text: text.as_bytes().to_vec().into() }
}

/// A change of the schedule `s` without a run.
fn change(expected: Option<&ScheduleContent>, content: Option<&ScheduleContent>) -> ScheduleChange {
    ScheduleChange { name: name("s"), expected: expected.cloned(), content: content.cloned(), run: None }
}

/// A run's job that is due now, with an id that the store keeps beside the schedule `s`.
fn run_job(fixture: &StoreFixture, stem: &str) -> AddJob {
    let id = fixture.store.run_id(&name("s"), stem);
    AddJob { id, due: Due::At(fixture.now()), ..job("run") }
}

fn run(job: &AddJob, previous: Option<PreviousRun>) -> Option<ScheduleRun> {
    Some(ScheduleRun { job: job.clone(), previous })
}

async fn apply(store: &dyn Store, change: ScheduleChange) -> ScheduleOutcome {
    one(store.change_schedules(vec![change]).await.expect("works"))
}

/// What is stored for the schedule `s`.
async fn stored(fixture: &StoreFixture) -> Option<ScheduleContent> {
    let page = fixture.store.schedule(&name("s")).await.expect("reads");
    assert_eq!(page.now, fixture.now());
    page.schedules.into_iter().next().map(|schedule| schedule.content)
}

async fn find(store: &dyn Store, id: &JobId) -> Option<Job> {
    store.get(ALL, id).await.expect("reads")
}

async fn end(store: &dyn Store, reserved: &Reservation) {
    let finished = store.finish(ALL, finish(&reserved.job.id, &reserved.receipt)).await.expect("works");
    one(finished).expect("is reserved");
}

const DONE: ScheduleOutcome = Ok(ScheduleChanged::Done { gave_way: false });

async fn a_schedule_is_replaced_only_as_expected(fixture: StoreFixture) {
    let (one, two) = (content(&fixture, 5, "one"), content(&fixture, 5, "two"));
    let never = ScheduleContent { next: None, ..one.clone() };
    let store = &*fixture.store;
    assert_eq!(stored(&fixture).await, None);
    assert_eq!(apply(store, change(Some(&one), Some(&two))).await, Err(ScheduleRefusal::Differs));
    assert_eq!(apply(store, change(None, Some(&one))).await, DONE);
    assert_eq!(apply(store, change(None, Some(&two))).await, Err(ScheduleRefusal::Differs));
    assert_eq!(apply(store, change(Some(&two), None)).await, Err(ScheduleRefusal::Differs));
    assert_eq!(apply(store, change(Some(&never), Some(&two))).await, Err(ScheduleRefusal::Differs));
    assert_eq!(stored(&fixture).await.as_ref(), Some(&one));
    assert_eq!(apply(store, change(Some(&one), Some(&never))).await, DONE);
    assert_eq!(stored(&fixture).await.as_ref(), Some(&never));
    fixture.clock.advance(seconds(60));
    assert_eq!(
        store.due_schedules(seconds(0), 9).await.expect("reads").schedules,
        [],
        "it has no next moment"
    );
    assert_eq!(apply(store, change(Some(&never), None)).await, DONE);
    assert_eq!(stored(&fixture).await, None);
}

async fn a_run_adds_its_job_in_the_step_that_changes_the_schedule(mut fixture: StoreFixture) {
    let (before, after) = (content(&fixture, 0, "before"), content(&fixture, 60, "after"));
    apply(&*fixture.store, change(None, Some(&before))).await.expect("is made");
    let job = run_job(&fixture, "cron:s:1");
    fixture.clock.advance(millis(1_500));
    let fires = ScheduleChange { run: run(&job, None), ..change(Some(&before), Some(&after)) };
    assert_eq!(apply(&*fixture.store, fires.clone()).await, DONE);
    assert_eq!(apply(&*fixture.store, fires.clone()).await, Err(ScheduleRefusal::Differs));
    assert_eq!(fixture.notifications.take_ready(), [plain("t")]);
    fixture.reopen().await;
    let store = &*fixture.store;
    assert_eq!(stored(&fixture).await.as_ref(), Some(&after));
    let added = find(store, &job.id).await.expect("is there");
    assert_eq!((added.state(), Due::At(added.due_at)), (State::Ready, job.due), "due at its moment");
    let reserved = reserve(store).await;
    assert_eq!((&reserved.job.id, reserved.late), (&job.id, millis(1_500)));
    end(store, &reserved).await;
    assert_eq!(apply(store, fires).await, Err(ScheduleRefusal::Differs), "also when the job is gone");
    assert_eq!(find(store, &job.id).await, None);
    // A job of the same id, counts as the run.
    let again = ScheduleChange { run: run(&job, None), ..change(Some(&after), Some(&before)) };
    add(store, AddJob { fingerprint: linger::job::Fingerprint([8; 16]), ..job.clone() }).await;
    assert_eq!(apply(store, again).await, DONE);
    assert_eq!(stored(&fixture).await.as_ref(), Some(&before));
}

async fn a_run_that_is_refused_changes_nothing(fixture: StoreFixture) {
    let (store, before) = (&*fixture.store, content(&fixture, 0, "before"));
    apply(store, change(None, Some(&before))).await.expect("is made");
    let job = run_job(&fixture, "cron:s:1");
    let after = content(&fixture, 60, "after");
    let fires = |job: AddJob| ScheduleChange { run: run(&job, None), ..change(Some(&before), Some(&after)) };
    let early = AddJob { due: Due::At(fixture.now().after(millis(1))), ..job.clone() };
    assert_eq!(apply(store, fires(early)).await, Err(ScheduleRefusal::Early));
    let paused = AddJob { is_paused: true, ..job.clone() };
    let refused = Err(ScheduleRefusal::Job(Refusal::IntakePaused));
    assert_eq!(apply(store, fires(paused)).await, refused);
    assert_eq!(stored(&fixture).await, Some(before.clone()));
    assert_eq!(find(store, &job.id).await, None);
    assert_eq!(apply(store, fires(job)).await, DONE);
}

async fn a_run_is_left_out_while_the_previous_job_lives(fixture: StoreFixture) {
    let store = &*fixture.store;
    let previous = run_job(&fixture, "cron:s:1");
    let before = content(&fixture, 0, "before");
    let (after, skipped) = (content(&fixture, 60, "after"), content(&fixture, 60, "skipped"));
    add(store, previous.clone()).await;
    apply(store, change(None, Some(&before))).await.expect("is made");
    let skips = PreviousRun::Skips(previous.id.clone(), skipped.clone());
    let job = run_job(&fixture, "cron:s:2");
    let fires = ScheduleChange { run: run(&job, Some(skips)), ..change(Some(&before), Some(&after)) };
    assert_eq!(apply(store, fires.clone()).await, Ok(ScheduleChanged::Skipped), "it is ready");
    assert_eq!(stored(&fixture).await.as_ref(), Some(&skipped));
    apply(store, change(Some(&skipped), Some(&before))).await.expect("is reset");
    let reserved = reserve(store).await;
    assert_eq!(apply(store, fires.clone()).await, Ok(ScheduleChanged::Skipped), "it is reserved");
    assert_eq!(find(store, &job.id).await, None);
    apply(store, change(Some(&skipped), Some(&before))).await.expect("is reset");
    let buried = store.bury(ALL, &reserved.job.id, &reserved.receipt, None).await.expect("works");
    buried.expect("is reserved");
    assert_eq!(apply(store, fires).await, DONE, "a dead letter is set aside");
    assert_eq!(stored(&fixture).await.as_ref(), Some(&after));
    assert_eq!(find(store, &job.id).await.map(|job| job.state()), Some(State::Ready));
}

async fn a_waiting_job_gives_way_to_the_next_run(fixture: StoreFixture) {
    let store = &*fixture.store;
    let contents: Vec<_> = (0..4).map(|n| content(&fixture, 0, &n.to_string())).collect();
    apply(store, change(None, Some(&contents[0]))).await.expect("is made");
    // The first has a callback of its own, so that its outlet is not that of the next one.
    let jobs: Vec<_> = (0..4).map(|n| run_job(&fixture, &format!("cron:s:{n}"))).collect();
    let called = AddJob { spec: called("c", "http://127.0.0.1:9999/").spec, ..jobs[0].clone() };
    add(store, called).await;
    let fires = |n: usize| {
        let gives_way = PreviousRun::GivesWay(jobs[n - 1].id.clone());
        let contents = change(Some(&contents[n - 1]), Some(&contents[n]));
        ScheduleChange { run: run(&jobs[n], Some(gives_way)), ..contents }
    };
    assert_eq!(apply(store, fires(1)).await, Ok(ScheduleChanged::Done { gave_way: true }));
    assert_eq!(find(store, &jobs[0].id).await, None);
    assert_eq!(apply(store, fires(2)).await, Ok(ScheduleChanged::Done { gave_way: true }));
    let reserved = reserve(store).await;
    assert_eq!(reserved.job.id, jobs[2].id);
    assert_eq!(apply(store, fires(3)).await, DONE, "one that is reserved is left alone");
    end(store, &reserved).await;
}

async fn schedules_are_listed_by_name_and_survive_a_restart(mut fixture: StoreFixture) {
    let names: Vec<_> = (0..40).map(|n| name(&format!("s:{n:02}"))).collect();
    let made = names.iter().map(|name| {
        let content = content(&fixture, 5, name.as_str());
        ScheduleChange { name: name.clone(), ..change(None, Some(&content)) }
    });
    let made: Vec<_> = made.collect();
    let outcomes = fixture.store.change_schedules(made.clone()).await.expect("works");
    assert!(outcomes.iter().all(|outcome| *outcome == DONE), "{outcomes:?}");
    fixture.reopen().await;
    let (mut listed, mut after) = (Vec::new(), None);
    for _ in 0..5 {
        let page = fixture.store.schedules(after.as_ref(), 9).await.expect("reads").schedules;
        assert!(page.len() <= 9);
        after = page.last().map(|schedule| schedule.name.clone());
        listed.extend(page);
    }
    let expected = made.into_iter().map(|made| (made.name, made.content.expect("is there")));
    assert!(listed.into_iter().map(|schedule| (schedule.name, schedule.content)).eq(expected));
    assert_eq!(fixture.store.schedules(after.as_ref(), 9).await.expect("reads").schedules, []);
}

async fn due_schedules_are_found_by_their_moment(fixture: StoreFixture) {
    let store = &*fixture.store;
    for n in 1..=20 {
        let content = content(&fixture, n, "x");
        let change = ScheduleChange { name: name(&format!("s{n}")), ..change(None, Some(&content)) };
        apply(store, change).await.expect("is made");
    }
    let due_within = async |within| {
        let page = store.due_schedules(within, 1_000).await.expect("reads");
        (page.schedules.len(), page.next_in)
    };
    let due = async || due_within(seconds(0)).await;
    assert_eq!(due().await, (0, Some(seconds(1))));
    assert_eq!(due_within(millis(999)).await, (0, Some(seconds(1))));
    assert_eq!(due_within(millis(1_000)).await, (1, Some(seconds(2))));
    assert_eq!(due_within(seconds(60)).await, (20, None));
    fixture.clock.advance(millis(3_999));
    assert_eq!(due().await, (3, Some(millis(1))));
    fixture.clock.advance(millis(1));
    assert_eq!(due().await, (4, Some(seconds(1))));
    fixture.clock.advance(seconds(60));
    assert_eq!(due().await, (20, None));
    assert!(!store.due_schedules(seconds(0), 1).await.expect("reads").schedules.is_empty());
}

/// Several engines, where there may be several, try the same run at the same time.
async fn many_processes_add_a_run_once(mut fixture: StoreFixture) {
    fixture.open_others(2).await;
    let (before, after) = (content(&fixture, 0, "before"), content(&fixture, 60, "after"));
    apply(&*fixture.store, change(None, Some(&before))).await.expect("is made");
    let job = run_job(&fixture, "cron:s:1");
    let fires = ScheduleChange { run: run(&job, None), ..change(Some(&before), Some(&after)) };
    let mut tries = tokio::task::JoinSet::new();
    let stores: Vec<_> = fixture.all().cloned().collect();
    for store in stores.iter().cycle().take(12) {
        let (store, fires) = (store.clone(), fires.clone());
        tries.spawn(async move { apply(&*store, fires).await });
    }
    let outcomes = tries.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == DONE).count(), 1, "{outcomes:?}");
    let reserved = reserve(&*fixture.store).await;
    end(&*fixture.store, &reserved).await;
    assert_eq!(reserve_any(&*fixture.store).await, None);
}
