//! The rules of schedules, on each engine. The clock begins on a Saturday, 2026-11-21T05:40:00Z.

use std::time::Duration;

use linger::{
    clock::Clock,
    config::CallbackSettings,
    job::{
        State, Timestamp,
        schedule::{Missed, Overlap, ScheduleFields},
    },
    queue::{Limits, ScheduleView},
    store::{Error, ScheduleChange, ScheduleContent, Steps, TopicUpdates},
};

use super::{Fleet, by_pattern, every, schedule_name, without_suffix};
use crate::harness::{
    failing::{Failure, Fault},
    jobs::*,
    stores::Engine,
};

on_engines! {
    one_of_three_processes_adds_each_run,
    schedules_that_cannot_be_read_hold_up_no_other_one,
    a_run_is_left_out_while_the_previous_one_lives,
    a_waiting_run_gives_way,
    an_outage_is_made_up_for_by_the_rule,
    a_run_waits_for_a_paused_intake,
    a_run_waits_for_room,
    a_run_waits_for_a_callback_that_is_forbidden,
    a_resumed_schedule_does_not_catch_up,
    a_process_that_wakes_late_changes_nothing,
}

fn moment(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("valid")
}

const MINUTE: Duration = seconds(60);

fn counts(view: &ScheduleView) -> (u64, u64, u64) {
    let counts = view.state.counts;
    (counts.fired, counts.overlapped, counts.missed)
}

/// As many as one call reads, and more: those of a newer version, for instance.
async fn schedules_that_cannot_be_read_hold_up_no_other_one(engine: Engine) {
    let fleet = Fleet::new(engine, 1).await;
    fleet.put("s", by_pattern("*/15 * * * *")).await;
    let content =
        ScheduleContent { next: Some(fleet.fixture.clock.now()), text: "of a newer version".into() };
    let unreadable = (0..450).map(|n| ScheduleChange {
        name: schedule_name(&format!("newer-{n}")),
        expected: None,
        content: Some(content.clone()),
        run: None,
    });
    let made = fleet.fixture.store.change_schedules(unreadable.collect()).await.expect("works");
    assert!(made.iter().all(Result::is_ok));
    let first = schedule_name("newer-0");
    let stored =
        async || fleet.fixture.store.schedule(&first).await.expect("reads").schedules.remove(0).content;
    fleet.advance(seconds(4)).await;
    assert_eq!(stored().await, content, "a process of that version may be about to run it");
    fleet.advance(seconds(2)).await;
    let next = stored().await.next.expect("is put off");
    let not_missed = fleet.fixture.clock.now().after(MINUTE - seconds(6));
    assert!(
        next > fleet.fixture.clock.now() && next < not_missed,
        "a process that comes back runs it: {next}"
    );
    fleet.advance(5 * MINUTE - seconds(6)).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T054500Z"]);
    assert_eq!(stored().await.text, content.text);
}

async fn one_of_three_processes_adds_each_run(engine: Engine) {
    let fleet = Fleet::new(engine, 3).await;
    let made = fleet.put("s", by_pattern("*/15 * * * *")).await;
    let next = ["05:45", "06:00", "06:15"].map(|time| moment(&format!("2026-11-21T{time}:00Z")));
    assert_eq!(made.state.upcoming(&made.spec, 3), next);
    fleet.advance(5 * MINUTE - millis(1)).await;
    assert_eq!(fleet.work().await, [""; 0], "nothing is added ahead");
    fleet.advance(millis(1)).await;
    let store = &*fleet.fixture.store;
    let reserved = reserve(store).await;
    assert_eq!(without_suffix(&reserved.job.id), "cron:s:20261121T054500Z");
    assert_eq!((reserved.job.due_at, reserved.late), (next[0], Duration::ZERO));
    let ended = store.finish(ALL, finish(&reserved.job.id, &reserved.receipt)).await.expect("works");
    one(ended).expect("is reserved");
    fleet.advance(15 * MINUTE).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T060000Z"]);
    let view = fleet.get("s").await;
    assert_eq!(counts(&view), (2, 0, 0));
    assert_eq!((view.state.last, view.state.revision), (Some(next[1]), 1));
}

async fn a_run_is_left_out_while_the_previous_one_lives(engine: Engine) {
    let fleet = Fleet::new(engine, 2).await;
    fleet.put("s", every(MINUTE)).await;
    for _ in 0..3 {
        fleet.advance(MINUTE).await;
    }
    assert_eq!(counts(&fleet.get("s").await), (1, 2, 0));
    assert_eq!(fleet.work().await, ["cron:s:20261121T054100Z"]);
    fleet.advance(MINUTE).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T054400Z"]);
    fleet.put("beside", ScheduleFields { overlap: Some(Overlap::Allow), ..every(MINUTE) }).await;
    for _ in 0..3 {
        fleet.advance(MINUTE).await;
    }
    assert_eq!(counts(&fleet.get("beside").await), (3, 0, 0));
}

async fn a_waiting_run_gives_way(engine: Engine) {
    let fleet = Fleet::new(engine, 2).await;
    fleet.put("s", ScheduleFields { overlap: Some(Overlap::Replace), ..every(MINUTE) }).await;
    for _ in 0..3 {
        fleet.advance(MINUTE).await;
    }
    let store = &*fleet.fixture.store;
    let reserved = reserve(store).await;
    assert_eq!(without_suffix(&reserved.job.id), "cron:s:20261121T054300Z", "the last of three");
    assert_eq!(reserve_any(store).await, None);
    fleet.advance(MINUTE / 2).await;
    store.touch(ALL, &reserved.job.id, &reserved.receipt, None).await.expect("works").expect("is held");
    fleet.advance(MINUTE / 2).await;
    let view = store.get(ALL, &reserved.job.id).await.expect("reads").expect("is left alone");
    assert_eq!(view.state(), State::Reserved);
    assert_eq!(fleet.work().await, ["cron:s:20261121T054400Z"]);
}

async fn an_outage_is_made_up_for_by_the_rule(engine: Engine) {
    let fleet = Fleet::new(engine, 2).await;
    let hourly = || by_pattern("0 * * * *");
    fleet.put("one", hourly()).await;
    fleet.put("none", ScheduleFields { missed: Some(Missed::None), ..hourly() }).await;
    let all = ScheduleFields { missed: Some(Missed::All), overlap: Some(Overlap::Allow), ..hourly() };
    fleet.put("all", all).await;
    fleet.advance(4 * 60 * MINUTE).await;
    let all = (6..=9).map(|hour| format!("cron:all:20261121T{hour:02}0000Z"));
    let expected: Vec<_> = all.chain(["cron:one:20261121T090000Z".to_owned()]).collect();
    assert_eq!(fleet.work().await, expected);
    for (name, expected) in [("one", (1, 0, 3)), ("none", (0, 0, 4)), ("all", (4, 0, 0))] {
        assert_eq!(counts(&fleet.get(name).await), expected, "{name}");
    }
    fleet.advance(20 * MINUTE).await;
    assert_eq!(fleet.work().await.len(), 3, "all go on");
}

async fn a_run_waits_for_a_paused_intake(engine: Engine) {
    let fleet = Fleet::new(engine, 2).await;
    fleet.put("s", by_pattern("0 * * * *")).await;
    let intake = PausedOperations { intake: true, delivery: false };
    fleet.fixture.store.pause(&topic("t"), intake, Pause::ENDLESS).await.expect("works");
    fleet.advance(20 * MINUTE).await;
    let waiting = fleet.get("s").await.state.waiting.expect("waits");
    assert_eq!((waiting.since, waiting.reason.as_str()), (moment("2026-11-21T06:00:00Z"), "intake_paused"));
    fleet.advance(30 * MINUTE).await;
    assert_eq!(fleet.get("s").await.state.waiting.map(|waiting| waiting.since), Some(waiting.since));
    fleet.fixture.store.resume(&topic("t"), intake).await.expect("works");
    fleet.advance(seconds(5)).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T060000Z"], "it is no miss");
    let view = fleet.get("s").await;
    assert_eq!((view.state.waiting.clone(), counts(&view)), (None, (1, 0, 0)));
}

/// A store is full for the call that adds the run, and takes what makes it no larger.
async fn a_run_waits_for_room(engine: Engine) {
    let fleet = Fleet::new(engine, 1).await;
    fleet.put("s", by_pattern("0 * * * *")).await;
    let mut is_first = true;
    fleet.processes[0].store.choose_faults(Some(Box::new(move |called| {
        let is_full = called == "change_schedules" && std::mem::take(&mut is_first);
        let full = || Failure::Error(Error::Full("no room".to_owned()));
        Fault { failure: is_full.then(full), ..Fault::default() }
    })));
    fleet.advance(20 * MINUTE).await;
    assert_eq!(fleet.work().await, [""; 0]);
    let waiting = fleet.get("s").await.state.waiting.expect("waits");
    assert_eq!(waiting.reason.as_str(), "store_full");
    fleet.advance(seconds(4)).await;
    assert_eq!(fleet.work().await, [""; 0], "it is tried again after five seconds");
    fleet.advance(seconds(1)).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T060000Z"]);
    assert_eq!(fleet.get("s").await.state.waiting, None);
}

/// The settings of the server changed since the schedule was made.
async fn a_run_waits_for_a_callback_that_is_forbidden(engine: Engine) {
    let forbidden = CallbackSettings { in_jobs: false, ..CallbackSettings::default() };
    let limits = Limits { callbacks: forbidden, ..Limits::default() };
    let fleet = Fleet::with(engine, 1, limits).await;
    let template = r#"{"topic":"t","callback":{"url":"http://127.0.0.1:9999/"}}"#.to_owned();
    let refused = fleet.try_put("s", ScheduleFields { template: template.clone(), ..every(MINUTE) }).await;
    assert_eq!(refused.expect_err("is forbidden").code(), "callback_not_allowed");
    fleet.put("s", every(MINUTE)).await;
    fleet.rewrite("s", |spec| spec.template.clone_from(&template)).await;
    fleet.advance(MINUTE).await;
    let waiting = fleet.get("s").await.state.waiting.expect("waits");
    assert_eq!(waiting.reason.as_str(), "callback_not_allowed");
}

async fn a_resumed_schedule_does_not_catch_up(engine: Engine) {
    let fleet = Fleet::new(engine, 2).await;
    let name = super::schedule_name("s");
    fleet.put("s", by_pattern("0 * * * *")).await;
    fleet.queue().pause_schedule(ALL, &name).await.expect("is paused");
    fleet.advance(180 * MINUTE).await;
    assert_eq!(fleet.work().await, [""; 0]);
    let resumed = fleet.processes[1].queue.resume_schedule(ALL, &name).await.expect("is resumed");
    assert_eq!(resumed.state.next, Some(moment("2026-11-21T09:00:00Z")));
    fleet.advance(20 * MINUTE).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T090000Z"]);
    assert_eq!(counts(&fleet.get("s").await), (1, 0, 0));
}

/// A process is frozen in the call that would run the schedule, another one runs it, and a worker finishes the job.
async fn a_process_that_wakes_late_changes_nothing(engine: Engine) {
    let fleet = Fleet::new(engine, 2).await;
    fleet.put("s", every(MINUTE)).await;
    let hung = crate::harness::failing::HungCalls::new();
    let frozen = hung.clone();
    fleet.processes[0].store.choose_faults(Some(Box::new(move |called| {
        let hung = (called == "change_schedules").then(|| frozen.clone());
        Fault { hung, ..Fault::default() }
    })));
    fleet.fixture.clock.advance(MINUTE);
    let queue = fleet.queue().clone();
    let sleeper = tokio::spawn(async move { queue.run_due_schedules(linger::http::read_template).await });
    crate::harness::wait::until(|| hung.hung_calls() == 1).await;
    fleet.processes[1].queue.run_due_schedules(linger::http::read_template).await.expect("works");
    assert_eq!(fleet.work().await, ["cron:s:20261121T054100Z"]);
    fleet.processes[0].store.choose_faults(None);
    hung.release();
    sleeper.await.expect("ends").expect("works");
    assert_eq!(fleet.work().await, [""; 0]);
    assert_eq!(counts(&fleet.get("s").await), (1, 0, 0));
}

/// Only the machine's clock is set, as by NTP. On Redis the clock of the tests cannot be.
#[tokio::test]
async fn a_schedule_that_ran_by_a_clock_that_was_ahead_goes_on_by_the_right_one() {
    let fleet = Fleet::new(Engine::Embedded, 2).await;
    fleet.put("s", by_pattern("0 * * * *")).await;
    fleet.advance(20 * MINUTE).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T060000Z"]);
    let year_ms = 365 * 86_400_000;
    fleet.fixture.clock.step_wall(year_ms);
    fleet.advance(MINUTE).await;
    assert_eq!(fleet.work().await, ["cron:s:20271121T060000Z"], "the latest that was missed");
    fleet.fixture.clock.step_wall(-year_ms);
    let view = fleet.get("s").await;
    assert!(view.state.is_ahead(view.now));
    fleet.advance(MINUTE).await;
    let view = fleet.get("s").await;
    assert_eq!(view.state.next, Some(moment("2026-11-21T07:00:00Z")));
    fleet.advance(58 * MINUTE).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T070000Z"]);
    // An hour back: what has run is not run again.
    fleet.fixture.clock.step_wall(-3_600_000);
    fleet.advance(62 * MINUTE).await;
    assert_eq!(fleet.work().await, [""; 0]);
    fleet.advance(58 * MINUTE).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T080000Z"]);
}
