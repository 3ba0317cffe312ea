//! Runs schedules: finds those that are due, decides what to do about each (`job::schedule::plan`), and has the store do it by
//! comparison. Every process does, and for each run one of them is first.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{TemplateReader, content::Content};
use crate::{
    job::{
        Due, NewJob, ScheduleName, Timestamp,
        schedule::{
            ChangeKind, Overlap, Plan, PlannedRun, ScheduleState, WaitReason, plan, zone_database_version,
        },
    },
    messages::failure_log::FailureLog,
    metrics::{OccurrenceEnd, ScheduleProblem},
    queue::{error::Error, service::Queue},
    store::{
        self, PreviousRun, Refusal, ScheduleChange, ScheduleChanged, ScheduleContent, ScheduleOutcome,
        ScheduleRefusal, ScheduleRun, StoredSchedule,
    },
};

/// Most schedules of one call.
const BATCH: usize = 1_000;
/// Longest sleep: another process may have changed a schedule, or the clock may have been set.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// Shortest sleep after a run was early for one of several servers, whose clocks differ.
const EARLY: Duration = Duration::from_millis(10);
/// First and longest pause after the store failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// What is done about a schedule, and what is needed to tell what came of it.
struct Attempt {
    /// As it was read.
    before: ScheduleContent,
    content: Content,
    change: ScheduleChange,
    kind: AttemptKind,
}

#[derive(Clone, Copy)]
enum AttemptKind {
    /// A run.
    Run,
    /// A change without a run.
    Change {
        /// The schedule had run by a clock that was ahead.
        was_ahead: bool,
        /// How many occurrences were missed.
        missed: u64,
    },
    /// A run that cannot be added.
    Wait,
}

impl Queue {
    /// Runs schedules until `stop`. After an error of the store it tries again, after a pause that doubles up to 2 s.
    pub async fn run_schedules(&self, read: TemplateReader, stop: CancellationToken) {
        let (mut pause, log) = (BACKOFF.0, FailureLog::default());
        let mut precise_timer = self.clock.clone().precise_timer();
        while !stop.is_cancelled() {
            let ran = self.run_due(read).await;
            let sleep = match &ran {
                Ok(None) => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Ok(Some(sleep)) => {
                    pause = BACKOFF.0;
                    *sleep
                }
                Err(_) => {
                    pause = (pause * 2).min(BACKOFF.1);
                    pause
                }
            };
            self.log_runs(&log, ran.err());
            tokio::select! {
                biased;
                () = precise_timer.sleep(sleep) => {}
                () = self.schedule_changed.notified() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Runs everything that is due now: what [`run_schedules`](Self::run_schedules) does, for tests with a manual clock.
    ///
    /// # Errors
    /// The store's.
    pub async fn run_due_schedules(&self, read: TemplateReader) -> super::Result<()> {
        while self.run_due(read).await?.is_none() {}
        Ok(())
    }

    /// One call for schedules that are due, and one for what is to be done about them. Returns how long until something is due
    /// again; `None` at once.
    async fn run_due(&self, read: TemplateReader) -> store::Result<Option<Duration>> {
        let page = self.store.due_schedules(BATCH).await?;
        let (now, next_in) = (page.now, page.next_in.map_or(MAX_SLEEP, |next| next.min(MAX_SLEEP)));
        let (mut attempts, mut next_in) = (Vec::with_capacity(page.schedules.len()), next_in);
        for due in page.schedules {
            let name = due.name.clone();
            match self.attempt(due, now, read) {
                Ok(Some(attempt)) => attempts.push(attempt),
                Ok(None) => next_in = EARLY,
                Err(problem) => self.report_unreadable(&name, &problem),
            }
        }
        if attempts.is_empty() {
            return Ok(Some(next_in));
        }
        let changes = attempts.iter().map(|attempt| attempt.change.clone()).collect();
        match self.store.change_schedules(changes).await {
            Ok(outcomes) => {
                let mut refused = Vec::new();
                let mut is_early = false;
                for (attempt, outcome) in attempts.into_iter().zip(outcomes) {
                    is_early |= outcome == Err(ScheduleRefusal::Early);
                    if let Some(reason) = self.count_run(&attempt, outcome) {
                        refused.push((attempt, reason));
                    }
                }
                self.wait_with(refused, now).await?;
                Ok(is_early.then_some(EARLY))
            }
            // Some of the runs may have been added on other servers; then their schedules are not as they were.
            Err(store::Error::Full(_)) => {
                let runs = attempts.into_iter().filter(|attempt| matches!(attempt.kind, AttemptKind::Run));
                self.wait_with(runs.map(|run| (run, WaitReason::StoreFull)).collect(), now).await?;
                Ok(Some(next_in))
            }
            Err(error) => Err(error),
        }
    }

    /// What is to be done about a schedule whose next moment has come; `None` if it has not by the slowest of several clocks. The
    /// error is the rest of a sentence about a schedule that cannot be read.
    fn attempt(
        &self,
        due: StoredSchedule,
        now: Timestamp,
        read: TemplateReader,
    ) -> Result<Option<Attempt>, String> {
        let StoredSchedule { name, content: before } = due;
        let content = Content::decode(&before)?;
        let Content { spec, state } = &content;
        let changed = |state: ScheduleState, kind| {
            let new = Content { spec: spec.clone(), state }.encode(&name, now);
            let change = ScheduleChange {
                name: name.clone(),
                expected: Some(before.clone()),
                content: Some(new),
                run: None,
            };
            Attempt { before: before.clone(), content: content.clone(), change, kind }
        };
        Ok(Some(match plan(&name, spec, state, now, zone_database_version()) {
            Plan::Wait(until) if until == before.next => return Ok(None),
            Plan::Wait(_) => changed(state.clone(), AttemptKind::Change { was_ahead: false, missed: 0 }),
            Plan::Store(change) => {
                let missed = change.state.counts.missed - state.counts.missed;
                let was_ahead = change.kind == ChangeKind::Ahead;
                changed(change.state, AttemptKind::Change { was_ahead, missed })
            }
            Plan::Fire(run) => match self.run_of(&name, &content, *run, now, read) {
                Ok((run, fired)) => {
                    let Attempt { change, .. } = changed(fired, AttemptKind::Run);
                    let change = ScheduleChange { run: Some(run), ..change };
                    Attempt { before, content, change, kind: AttemptKind::Run }
                }
                Err(error) => {
                    let reason = reason_of(&error);
                    if state.waiting.is_none() {
                        tracing::error!(schedule = %name, %error, "a run cannot be added; it waits");
                    }
                    changed(state.waiting(now, reason), AttemptKind::Wait)
                }
            },
        }))
    }

    /// Logs that a schedule does not run, once a minute for all of them.
    fn report_unreadable(&self, name: &ScheduleName, problem: &str) {
        if self.unreadable_schedules.failed(self.clock.now_micros()) {
            tracing::error!(schedule = %name, problem, "the schedule cannot be read and does not run");
        }
    }

    /// The run as the store takes it, and the state after it.
    fn run_of(
        &self,
        name: &ScheduleName,
        content: &Content,
        run: PlannedRun,
        now: Timestamp,
        read: TemplateReader,
    ) -> super::Result<(ScheduleRun, ScheduleState)> {
        let template = read(&content.spec.template, &self.limits).map_err(Error::Damaged)?;
        let id = self.store.run_id(name, run.id.as_str());
        let job = self.resolve(NewJob { id: Some(id.clone()), due: Due::At(run.due_at), ..template })?;
        let previous = content.state.last_job.clone().and_then(|previous| match run.overlap {
            Overlap::Allow => None,
            Overlap::Replace => Some(PreviousRun::GivesWay(previous)),
            Overlap::Skip => {
                let skipped = Content { spec: content.spec.clone(), state: run.overlapped };
                Some(PreviousRun::Skips(previous, skipped.encode(name, now)))
            }
        });
        let mut fired = run.fired;
        fired.last_job = Some(id);
        Ok((ScheduleRun { job, previous }, fired))
    }

    /// Counts what came of an attempt. Returns why a run has to wait.
    fn count_run(&self, attempt: &Attempt, outcome: ScheduleOutcome) -> Option<WaitReason> {
        let (name, metrics) = (attempt.change.name.as_str(), &self.metrics.schedules);
        match (outcome, attempt.kind) {
            (Ok(ScheduleChanged::Done { gave_way }), AttemptKind::Run) => {
                let topic = attempt.content.spec.topic.as_str();
                metrics.count(name, OccurrenceEnd::Fired, 1);
                self.metrics.count(crate::metrics::Event::Added, topic, 1);
                if gave_way {
                    self.metrics.count(crate::metrics::Event::Deleted, topic, 1);
                }
            }
            (Ok(_), AttemptKind::Change { was_ahead, missed }) => {
                metrics.count(name, OccurrenceEnd::Missed, missed);
                if was_ahead {
                    metrics.count_problem(name, ScheduleProblem::Ahead);
                    tracing::error!(
                        schedule = name,
                        "the schedule ran by a clock that was ahead; its next run is computed anew"
                    );
                }
            }
            (Ok(ScheduleChanged::Skipped), AttemptKind::Run | AttemptKind::Wait) => {
                metrics.count(name, OccurrenceEnd::Overlap, 1);
            }
            (Ok(ScheduleChanged::Done { .. }), AttemptKind::Wait) => {
                metrics.count_problem(name, ScheduleProblem::Waiting);
            }
            (Err(ScheduleRefusal::Differs | ScheduleRefusal::Early), _) => {}
            (Err(ScheduleRefusal::Job(Refusal::IntakePaused)), _) => return Some(WaitReason::IntakePaused),
            (Err(ScheduleRefusal::Job(refusal)), _) => return Some(reason_of(&refusal.into())),
        }
        None
    }

    /// Stores that these runs wait.
    async fn wait_with(&self, runs: Vec<(Attempt, WaitReason)>, now: Timestamp) -> store::Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        let mut changes = Vec::with_capacity(runs.len());
        for (Attempt { before, content, change, .. }, reason) in runs {
            let (name, Content { spec, state }) = (change.name, content);
            if state.waiting.is_none() {
                tracing::warn!(schedule = %name, reason = reason.as_str(), "a run waits");
            }
            self.metrics.schedules.count_problem(name.as_str(), ScheduleProblem::Waiting);
            let content = Content { state: state.waiting(now, reason), spec }.encode(&name, now);
            let content = Some(content);
            changes.push(ScheduleChange { name, expected: Some(before), content, run: None });
        }
        self.store.change_schedules(changes).await.map(drop)
    }

    fn log_runs(&self, log: &FailureLog, error: Option<store::Error>) {
        let now_us = self.clock.now_micros();
        match error {
            None => {
                if log.succeeded(now_us).is_some() {
                    tracing::info!("schedules run again");
                }
            }
            // An unavailable store is logged by `health`.
            Some(store::Error::Replaced) => {}
            Some(_) if self.store_state().is_err() => {}
            Some(error) => {
                if log.failed(now_us) {
                    tracing::error!(%error, "cannot run schedules");
                }
            }
        }
    }
}

/// Why a run waits that an add would refuse with this error.
fn reason_of(error: &Error) -> WaitReason {
    match error {
        Error::IntakePaused => WaitReason::IntakePaused,
        error => WaitReason::Other(error.code().into()),
    }
}
