//! Runs that are planned before their moment: what happens in between counts.

use std::time::Duration;

use linger::{
    http::read_template,
    job::schedule::{Missed, ScheduleFields},
    queue::UpcomingRuns,
    store::TopicUpdates,
};

use super::{Fleet, Process, every, schedule_name};
use crate::harness::{jobs::*, stores::Engine};

on_engines! {
    planned_runs_take_place_at_their_moment,
    several_processes_add_a_planned_run_once,
    a_plan_from_before_a_change_does_nothing,
    the_settings_at_the_moment_decide_about_planned_runs,
    a_plan_that_is_carried_out_late_is_made_again,
    planned_runs_are_not_planned_again_just_before_their_moment,
    the_store_is_asked_once_while_no_run_comes_soon,
}

const MINUTE: Duration = Duration::from_secs(60);

/// What a process plans for the next moment, which comes within a minute.
async fn plan(fleet: &Fleet, process: usize) -> Option<UpcomingRuns> {
    fleet.processes[process].queue.plan_upcoming_runs(read_template, MINUTE).await.expect("reads")
}

async fn carry_out(fleet: &Fleet, process: usize, planned: Option<UpcomingRuns>) {
    let planned = planned.expect("a run comes soon");
    fleet.processes[process].queue.run_upcoming(planned).await.expect("works");
}

async fn planned_runs_take_place_at_their_moment(engine: Engine) {
    let fleet = Fleet::new(engine, 1).await;
    fleet.put("s", every(2 * MINUTE)).await;
    fleet.put("later", every(10 * MINUTE)).await;
    assert!(plan(&fleet, 0).await.is_none(), "the next moment is more than a minute ahead");
    fleet.fixture.clock.advance(MINUTE);
    let (early, planned) = (plan(&fleet, 0).await, plan(&fleet, 0).await);
    fleet.fixture.clock.advance(MINUTE - millis(1));
    carry_out(&fleet, 0, early).await;
    assert_eq!(fleet.work().await, [""; 0]);
    fleet.fixture.clock.advance(millis(1));
    carry_out(&fleet, 0, planned).await;
    assert_eq!(fleet.work().await, ["cron:s:20261121T054200Z"]);
    let metrics = fleet.processes[0].metrics.encode();
    for counted in ["added", "due"] {
        let sample = format!("linger_jobs_{counted}_total{{topic=\"t\"}} 1\n");
        assert!(metrics.contains(&sample), "{sample} {metrics}");
    }
    fleet.run_due().await;
    assert_eq!(fleet.work().await, [""; 0]);
    assert_eq!(fleet.get("s").await.state.counts.fired, 1);
}

async fn several_processes_add_a_planned_run_once(engine: Engine) {
    let fleet = Fleet::new(engine, 3).await;
    fleet.put("s", every(MINUTE)).await;
    let planned = [plan(&fleet, 0).await, plan(&fleet, 1).await];
    fleet.fixture.clock.advance(MINUTE);
    for (process, planned) in planned.into_iter().enumerate() {
        carry_out(&fleet, process, planned).await;
        let expected: &[&str] = if process == 0 { &["cron:s:20261121T054100Z"] } else { &[] };
        assert_eq!(fleet.work().await, expected, "also when its job is finished");
    }
    fleet.run_due().await;
    assert_eq!(fleet.work().await, [""; 0]);
    assert_eq!(fleet.get("s").await.state.counts.fired, 1);
}

async fn a_plan_from_before_a_change_does_nothing(engine: Engine) {
    let fleet = Fleet::new(engine, 1).await;
    for name in ["changed", "paused", "deleted"] {
        fleet.put(name, every(MINUTE)).await;
    }
    let planned = plan(&fleet, 0).await;
    fleet.put("changed", every(5 * MINUTE)).await;
    fleet.queue().pause_schedule(ALL, &schedule_name("paused")).await.expect("is there");
    fleet.queue().delete_schedule(ALL, &schedule_name("deleted")).await.expect("is there");
    fleet.fixture.clock.advance(MINUTE);
    carry_out(&fleet, 0, planned).await;
    fleet.run_due().await;
    assert_eq!(fleet.work().await, [""; 0]);
    fleet.advance(4 * MINUTE).await;
    assert_eq!(fleet.work().await, ["cron:changed:20261121T054500Z"]);
}

async fn the_settings_at_the_moment_decide_about_planned_runs(engine: Engine) {
    let fleet = Fleet::new(engine, 1).await;
    fleet.put("s", every(MINUTE)).await;
    let planned = plan(&fleet, 0).await;
    let intake = PausedOperations { intake: true, delivery: false };
    fleet.fixture.store.pause(&topic("t"), intake, Pause::ENDLESS).await.expect("works");
    fleet.fixture.clock.advance(MINUTE);
    carry_out(&fleet, 0, planned).await;
    assert_eq!(fleet.work().await, [""; 0]);
    assert!(fleet.get("s").await.state.waiting.is_some());
}

async fn a_plan_that_is_carried_out_late_is_made_again(engine: Engine) {
    let fleet = Fleet::new(engine, 1).await;
    let missed = Some(Missed::None);
    fleet.put("s", ScheduleFields { missed, ..every(5 * MINUTE) }).await;
    fleet.fixture.clock.advance(4 * MINUTE);
    let planned = plan(&fleet, 0).await;
    fleet.fixture.clock.advance(3 * MINUTE);
    carry_out(&fleet, 0, planned).await;
    assert_eq!(fleet.work().await, [""; 0]);
    fleet.run_due().await;
    assert_eq!(fleet.work().await, [""; 0]);
    let counts = fleet.get("s").await.state.counts;
    assert_eq!((counts.fired, counts.missed), (0, 1));
}

async fn planned_runs_are_not_planned_again_just_before_their_moment(engine: Engine) {
    let fleet = Fleet::new(engine, 1).await;
    fleet.put("s", every(MINUTE)).await;
    let Process { store, queue, .. } = &fleet.processes[0];
    let (mut upcoming, reads) = (plan(&fleet, 0).await, store.count_calls("due_schedules"));
    fleet.fixture.clock.advance(MINUTE - millis(2));
    assert_eq!(queue.run_next(read_template, &mut upcoming).await, Ok(Some(millis(2))));
    assert_eq!(reads(), 0, "the clock of the store may be ahead, and the run due by it");
    fleet.fixture.clock.advance(millis(2));
    queue.run_next(read_template, &mut upcoming).await.expect("works");
    assert_eq!(reads(), 0);
    assert_eq!(fleet.work().await, ["cron:s:20261121T054100Z"]);
}

async fn the_store_is_asked_once_while_no_run_comes_soon(engine: Engine) {
    let fleet = Fleet::new(engine, 1).await;
    let Process { store, queue, .. } = &fleet.processes[0];
    let (mut upcoming, reads) = (None, store.count_calls("due_schedules"));
    let mut next = async || (queue.run_next(read_template, &mut upcoming).await, reads());
    assert_eq!(next().await, (Ok(Some(Duration::MAX)), 1), "there is no schedule");
    fleet.put("s", every(MINUTE)).await;
    assert_eq!(next().await, (Ok(Some(MINUTE)), 2));
    fleet.fixture.clock.advance(MINUTE - millis(2_000));
    assert_eq!(next().await, (Ok(Some(millis(2_000))), 4), "its run is planned");
}

#[tokio::test]
async fn a_plan_from_before_the_clock_was_set_is_made_again() {
    let fleet = Fleet::new(Engine::Embedded, 1).await;
    let missed = Some(Missed::None);
    fleet.put("s", ScheduleFields { missed, ..every(5 * MINUTE) }).await;
    fleet.fixture.clock.advance(4 * MINUTE);
    let planned = plan(&fleet, 0).await;
    fleet.fixture.clock.step_wall(3_600_000);
    fleet.fixture.clock.advance(MINUTE);
    carry_out(&fleet, 0, planned).await;
    assert_eq!(fleet.work().await, [""; 0], "the run was missed an hour ago");
    fleet.run_due().await;
    assert_eq!(fleet.get("s").await.state.counts.fired, 0);
}
