//! Runs schedules: finds those that are due, decides what to do about each (`job::schedule::plan`), and has the store do it by
//! comparison. Every process does, and for each run one of them is first.

use std::{sync::atomic::Ordering, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{TemplateReader, content::Content};
use crate::{
    job::{
        Due, NewJob, ScheduleName, Timestamp,
        schedule::{
            ChangeKind, MissedRule, Overlap, Plan, PlannedRun, ScheduleState, WaitReason, plan,
            zone_database_version,
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

/// After how many schedules other tasks have their turn.
const YIELD_AFTER: usize = 50;
/// Most schedules of one call.
const BATCH: usize = 200;
/// Longest sleep: another process may have changed a schedule, or the clock may have been set.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// How long before their moment runs are planned, and awaited with the precise timer. Longer than [`MAX_SLEEP`], so that the runner
/// is not late for any.
pub(super) const AHEAD: Duration = Duration::from_secs(2);
/// Shortest sleep after a run was early for one of several servers, whose clocks differ.
const EARLY: Duration = Duration::from_millis(10);
/// How long a process with an older zone database, or of an older version, leaves a run to those with the newer one.
const LEFT_TO_NEWER: Duration = Duration::from_secs(5);
/// First and longest pause after the store failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How long a schedule that cannot be read is left alone. With [`LEFT_TO_NEWER`] it is less than a run may be late, so that a process
/// which can read it and was away does not take the run for a missed one.
const UNREADABLE_AGAIN: Duration = Duration::from_secs(30);

/// Why nothing is done about a schedule whose next moment has come.
pub(super) enum NoAttempt {
    /// It is not its turn for so long.
    Later(Duration),
    /// It cannot be read, and the rest of a sentence says why.
    Unreadable(String),
}

/// A schedule that cannot be read, put off: otherwise such schedules would stand before all others for ever. `None` as long as a
/// process of a newer version, which can read it, may be about to run it.
fn postponed(name: ScheduleName, content: ScheduleContent, now: Timestamp) -> Option<ScheduleChange> {
    content.next.filter(|next| next.after(LEFT_TO_NEWER) <= now)?;
    let later = ScheduleContent { next: Some(now.after(UNREADABLE_AGAIN)), ..content.clone() };
    Some(ScheduleChange { name, expected: Some(content), content: Some(later), run: None })
}

/// What is done about a schedule, and what is needed to tell what came of it.
pub(super) struct Attempt {
    /// As it was read.
    before: ScheduleContent,
    content: Content,
    pub change: ScheduleChange,
    pub kind: AttemptKind,
    /// The job of a run before the settings of its topic are applied.
    pub template: Option<NewJob>,
}

pub(super) enum AttemptKind {
    /// A run.
    Run,
    /// A change without a run.
    Change {
        /// The schedule had run by a clock that was ahead.
        was_ahead: bool,
        /// How many occurrences were missed.
        missed: u64,
    },
    /// A run that cannot be added, and why.
    Wait(Error),
}

impl Queue {
    /// Runs schedules until `stop`. After an error of the store it tries again, after a pause that doubles up to 2 s.
    pub async fn run_schedules(&self, read: TemplateReader, stop: CancellationToken) {
        let (mut pause, log) = (BACKOFF.0, FailureLog::default());
        let (mut precise_timer, mut upcoming) = (self.clock.clone().precise_timer(), None);
        while !stop.is_cancelled() {
            let ran = self.run_next(read, &mut upcoming).await;
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
                () = precise_timer.sleep(sleep.min(MAX_SLEEP)), if sleep <= AHEAD => {}
                () = self.clock.sleep_until_period_ends(MAX_SLEEP), if sleep > AHEAD => {}
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
    pub(super) async fn run_due(&self, read: TemplateReader) -> store::Result<Option<Duration>> {
        let page = self.store.due_schedules(Duration::ZERO, BATCH).await?;
        self.review_after_step(page.now, read).await?;
        let (now, next_in) = (page.now, page.next_in.unwrap_or(Duration::MAX));
        let (mut attempts, mut unreadable) = (Vec::with_capacity(page.schedules.len()), Vec::new());
        let mut next_in = next_in;
        for (number, due) in page.schedules.into_iter().enumerate() {
            let (name, content) = (due.name.clone(), due.content.clone());
            match self.attempt(due, now, read) {
                Ok(attempt) => attempts.push(attempt),
                Err(NoAttempt::Later(wait)) => next_in = next_in.min(wait.max(EARLY)),
                Err(NoAttempt::Unreadable(problem)) => {
                    self.report_unreadable(&name, &problem);
                    unreadable.extend(postponed(name, content, now));
                }
            }
            if number % YIELD_AFTER == YIELD_AFTER - 1 {
                tokio::task::yield_now().await;
            }
        }
        let has_unreadable = !unreadable.is_empty();
        let put_off =
            if has_unreadable { self.store.change_schedules(unreadable).await? } else { Vec::new() };
        if attempts.is_empty() {
            // Those behind them may be due.
            let is_stuck = put_off.iter().all(Result::is_err);
            return Ok(if has_unreadable { is_stuck.then_some(EARLY) } else { Some(next_in) });
        }
        self.carry_out(attempts, now, next_in).await
    }

    /// Has the store do what is to be done about some schedules. Returns how long until something is due again; `None` at once.
    pub(super) async fn carry_out(
        &self,
        attempts: Vec<Attempt>,
        now: Timestamp,
        next_in: Duration,
    ) -> store::Result<Option<Duration>> {
        let changes = attempts.iter().map(|attempt| attempt.change.clone()).collect();
        match self.store.change_schedules(changes).await {
            Ok(outcomes) => {
                let mut refused = Vec::new();
                // Without any progress another process is faster, or the clock of a server is behind.
                let is_stuck = outcomes.iter().all(Result::is_err);
                for (attempt, outcome) in attempts.into_iter().zip(outcomes) {
                    if let Some(reason) = self.count_run(&attempt, outcome) {
                        refused.push((attempt, reason));
                    }
                }
                self.wait_with(refused, now).await?;
                Ok(is_stuck.then_some(EARLY))
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

    /// Reviews all schedules when the process has started, and after the store's clock was set back: their next moments may be
    /// wrong, and far away.
    async fn review_after_step(&self, now: Timestamp, read: TemplateReader) -> store::Result<()> {
        let seen = self.schedules_reviewed_at.swap(now.as_millis(), Ordering::Relaxed);
        if Timestamp::from_millis(seen) <= now.after(MissedRule::LATE) {
            return Ok(());
        }
        let reviewed = self.review(read).await;
        if reviewed.is_err() {
            self.schedules_reviewed_at.store(i64::MAX, Ordering::Relaxed);
        }
        reviewed
    }

    /// Carries out what is to be done about schedules whose next moment has not come.
    async fn review(&self, read: TemplateReader) -> store::Result<()> {
        let mut after = None;
        loop {
            let page = self.store.schedules(after.as_ref(), BATCH).await?;
            let (now, is_last) = (page.now, page.is_last);
            after = page.schedules.last().map(|schedule| schedule.name.clone());
            let is_run = |attempt: &Attempt| matches!(attempt.kind, AttemptKind::Run | AttemptKind::Wait(_));
            let attempts =
                page.schedules.into_iter().filter_map(|stored| self.attempt(stored, now, read).ok());
            let attempts: Vec<Attempt> = attempts.filter(|attempt| !is_run(attempt)).collect();
            if !attempts.is_empty() {
                self.carry_out(attempts, now, Duration::MAX).await?;
            }
            if is_last || after.is_none() {
                return Ok(());
            }
        }
    }

    /// What is to be done about a schedule.
    pub(super) fn attempt(
        &self,
        due: StoredSchedule,
        now: Timestamp,
        read: TemplateReader,
    ) -> Result<Attempt, NoAttempt> {
        let StoredSchedule { name, content: before } = due;
        let content = Content::decode(&before).map_err(NoAttempt::Unreadable)?;
        let Content { spec, state } = &content;
        let changed = |state: ScheduleState, kind| {
            let new = Content { spec: spec.clone(), state }.encode(&name, now);
            let change = ScheduleChange {
                name: name.clone(),
                expected: Some(before.clone()),
                content: Some(new),
                run: None,
            };
            Attempt { before: before.clone(), content: content.clone(), change, kind, template: None }
        };
        let is_newer = spec.recurrence.has_zone() && state.zone_database.as_str() > zone_database_version();
        if is_newer && let Some(due_at) = state.due_at(&name, spec) {
            let turn = due_at.after(LEFT_TO_NEWER);
            if turn > now {
                return Err(NoAttempt::Later(turn.since(now)));
            }
        }
        Ok(match plan(&name, spec, state, now, zone_database_version()) {
            // By the slowest clock of several servers it has not come.
            Plan::Wait(Some(until)) if Some(until) == before.next => {
                return Err(NoAttempt::Later(until.since(now)));
            }
            Plan::Wait(None) if before.next.is_none() => return Err(NoAttempt::Later(Duration::MAX)),
            Plan::Wait(_) => changed(state.clone(), AttemptKind::Change { was_ahead: false, missed: 0 }),
            Plan::Store(change) => {
                let missed = change.state.counts.missed - state.counts.missed;
                let was_ahead = change.kind == ChangeKind::Ahead;
                changed(change.state, AttemptKind::Change { was_ahead, missed })
            }
            Plan::Fire(run) => match self.run_of(&name, &content, *run, now, read) {
                Ok((run, fired, template)) => {
                    let attempt = changed(fired, AttemptKind::Run);
                    let change = ScheduleChange { run: Some(run), ..attempt.change };
                    Attempt { change, template: Some(template), ..attempt }
                }
                Err(error) => {
                    let reason = reason_of(&error);
                    changed(state.waiting(now, reason), AttemptKind::Wait(error))
                }
            },
        })
    }

    /// Logs that a schedule does not run, once a minute for all of them.
    fn report_unreadable(&self, name: &ScheduleName, problem: &str) {
        if self.unreadable_schedules.failed(self.clock.now_micros()) {
            tracing::error!(schedule = %name, problem, "the schedule cannot be read and does not run");
        }
    }

    /// The run as the store takes it, the state after it, and the job without the settings of its topic.
    fn run_of(
        &self,
        name: &ScheduleName,
        content: &Content,
        run: PlannedRun,
        now: Timestamp,
        read: TemplateReader,
    ) -> super::Result<(ScheduleRun, ScheduleState, NewJob)> {
        let template = read(&content.spec.template, &self.limits).map_err(Error::TemplateRefused)?;
        let id = self.store.run_id(name, run.id.as_str());
        let template = NewJob { id: Some(id.clone()), due: Due::At(run.due_at), ..template };
        let job = self.resolve(template.clone(), None)?;
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
        Ok((ScheduleRun { job, previous }, fired, template))
    }

    /// Counts what came of an attempt. Returns why a run has to wait.
    fn count_run(&self, attempt: &Attempt, outcome: ScheduleOutcome) -> Option<WaitReason> {
        let (name, metrics) = (attempt.change.name.as_str(), &self.metrics.schedules);
        match (outcome, &attempt.kind) {
            (Ok(ScheduleChanged::Done { gave_way }), AttemptKind::Run) => {
                let topic = attempt.content.spec.topic.as_str();
                metrics.count(name, OccurrenceEnd::Fired, 1);
                self.metrics.count(crate::metrics::Event::Added, topic, 1);
                let due = attempt.template.as_ref().map(|template| template.due);
                if due.is_some_and(|due| due.is_at_once(self.store.now())) {
                    self.metrics.count(crate::metrics::Event::Due, topic, 1);
                }
                if gave_way {
                    self.metrics.count(crate::metrics::Event::Deleted, topic, 1);
                }
            }
            (Ok(_), AttemptKind::Change { was_ahead, missed }) => {
                metrics.count(name, OccurrenceEnd::Missed, *missed);
                if *was_ahead {
                    metrics.count_problem(name, ScheduleProblem::Ahead);
                    tracing::error!(
                        schedule = name,
                        "the schedule was run or changed while the clock was ahead; its next run is computed anew"
                    );
                }
            }
            (Ok(ScheduleChanged::Skipped), AttemptKind::Run) => {
                metrics.count(name, OccurrenceEnd::Overlap, 1);
            }
            (Ok(_), AttemptKind::Wait(error)) => {
                if attempt.content.state.waiting.is_none() {
                    tracing::error!(schedule = name, %error, "a run cannot be added; it waits");
                }
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
