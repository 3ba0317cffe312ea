//! Plans runs shortly before their moment, so that at the moment only the step of the store is left: it compares the schedule
//! with the one that was planned from. What may change without the schedule, such as the settings of the topic, is read at the
//! moment.

use std::time::Duration;

use super::{
    TemplateReader,
    runner::{AHEAD, Attempt, AttemptKind},
};
use crate::{
    job::Timestamp,
    queue::service::Queue,
    store::{self, StoredSchedule},
};

/// Most runs that are planned ahead. With [`DUE_BYTES`](store::DUE_BYTES) it bounds their memory: a plan holds several copies of each.
/// Shards do not have equally many, and each returns at most its share.
const MOST: usize = 2_000;
/// Most runs in one step of the store. On the embedded engine, other calls wait for it, about 20 ms. With two steps in its place they
/// would have their turn in between, and the last of the runs would come a third later. The Redis engine divides it further.
const STEP: usize = 1_000;
/// After how many of them other tasks have their turn.
const YIELD_AFTER: usize = 10;
/// Two readings of the time until the same moment differ by less.
const ROUNDING: Duration = Duration::from_millis(5);
/// How late planned runs may be. After a longer time, in which the process may have been stopped, they are planned again,
/// because the rule about missed runs may leave them out.
const STALE: Duration = Duration::from_secs(1);

/// Runs that have one moment, planned before it.
pub struct UpcomingRuns {
    attempts: Vec<Attempt>,
    /// By the store's clock.
    moment: Timestamp,
    /// By the process's clock, in microseconds.
    moment_us: i64,
    /// When they were planned the machine's clock was so far ahead of the process's.
    wall_ahead_ms: i64,
}

impl Queue {
    /// Carries out planned runs whose moment has come, or else does what is due, and plans the next runs if they come soon. Returns
    /// how long until something is due again; `None` at once.
    ///
    /// # Errors
    /// The store's.
    pub async fn run_next(
        &self,
        read: TemplateReader,
        upcoming: &mut Option<UpcomingRuns>,
    ) -> store::Result<Option<Duration>> {
        if let Some(runs) = upcoming.take_if(|runs| self.until(runs) < ROUNDING) {
            let left = self.until(&runs);
            if left.is_zero() {
                return self.run_upcoming(runs).await;
            }
            // By the store's clock their moment may have come already, and `run_due` would plan them a second time.
            *upcoming = Some(runs);
            return Ok(Some(left));
        }
        let Some(mut next_in) = self.run_due(read).await? else { return Ok(None) };
        let is_first =
            upcoming.as_ref().is_none_or(|runs| next_in.saturating_add(ROUNDING) < self.until(runs));
        if is_first && next_in <= AHEAD {
            *upcoming = self.plan_upcoming_runs(read, next_in).await?.or(upcoming.take());
        }
        if let Some(runs) = upcoming {
            next_in = next_in.min(self.until(runs));
        }
        Ok(Some(next_in))
    }

    /// Plans the runs of the next moment, if it comes `within` so long.
    ///
    /// # Errors
    /// The store's.
    pub async fn plan_upcoming_runs(
        &self,
        read: TemplateReader,
        within: Duration,
    ) -> store::Result<Option<UpcomingRuns>> {
        let page = self.store.due_schedules(within, MOST).await?;
        // Later than the store's moment by the way of the answer: too early, the step would be refused.
        let read_us = self.clock.now_micros();
        let moments = page.schedules.iter().filter_map(|schedule| schedule.content.next);
        let Some(moment) = moments.filter(|moment| *moment > page.now).min() else { return Ok(None) };
        let is_wanted = |schedule: &StoredSchedule| schedule.content.next == Some(moment);
        let mut attempts = Vec::new();
        for (number, schedule) in page.schedules.into_iter().filter(is_wanted).enumerate() {
            let attempt = self.attempt(schedule, moment, read).ok();
            attempts.extend(attempt.filter(|attempt| matches!(attempt.kind, AttemptKind::Run)));
            if number % YIELD_AFTER == YIELD_AFTER - 1 {
                tokio::task::yield_now().await;
            }
        }
        let in_us = i64::try_from(moment.since(page.now).as_micros()).unwrap_or(i64::MAX);
        let (moment_us, wall_ahead_ms) = (read_us.saturating_add(in_us), self.clock.wall_ahead_ms());
        Ok((!attempts.is_empty()).then_some(UpcomingRuns { attempts, moment, moment_us, wall_ahead_ms }))
    }

    /// Carries out planned runs. Those of schedules that were changed meanwhile are left to `run_due`, and all of them if it is too
    /// late or the clock was set. Returns how long until something is due again; `None` at once.
    ///
    /// # Errors
    /// The store's.
    pub async fn run_upcoming(&self, runs: UpcomingRuns) -> store::Result<Option<Duration>> {
        let UpcomingRuns { mut attempts, moment, moment_us, wall_ahead_ms } = runs;
        let late_us = self.clock.now_micros().saturating_sub(moment_us);
        if u128::from(late_us.unsigned_abs()) > STALE.as_micros()
            || wall_ahead_ms != self.clock.wall_ahead_ms()
        {
            return Ok(None);
        }
        attempts.retain_mut(|attempt| self.renew(attempt));
        let mut next_in = None;
        while !attempts.is_empty() {
            let rest = attempts.split_off(attempts.len().min(STEP));
            next_in = self.carry_out(std::mem::replace(&mut attempts, rest), moment, Duration::ZERO).await?;
        }
        Ok(next_in)
    }

    /// Applies the present settings of the topic. Returns `false` for a job that is refused now.
    fn renew(&self, attempt: &mut Attempt) -> bool {
        let (Some(template), Some(run)) = (attempt.template.clone(), &mut attempt.change.run) else {
            return false;
        };
        self.resolve(template, None).map(|job| run.job = job).is_ok()
    }

    fn until(&self, runs: &UpcomingRuns) -> Duration {
        let left_us = runs.moment_us.saturating_sub(self.clock.now_micros());
        Duration::from_micros(u64::try_from(left_us).unwrap_or(0))
    }
}
