//! One job's call: from the reservation to the outcome.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    apply::apply_outcome,
    call::{Answer, Prepared, Request, UnreadBody},
    callbacks::{CallbackState, call_ttr},
    failure::CallFailure,
    outcome::{self, Outcome},
    permit::CallPermit,
    request,
    window::Signal,
};
use crate::{
    config::CallbackSettings,
    job::{Callback, Delay, Now, Origin, Outlet, Timestamp},
    metrics::CallResult,
    queue::{Delivery, Reservation, TopicConfig},
};

impl CallbackState {
    /// Calls for the job of `delivery`, and applies the outcome. A job that cannot be called now gives itself back, and the
    /// attempt is not counted.
    pub(super) async fn deliver(
        self: Arc<Self>,
        delivery: Delivery,
        permit: CallPermit,
        stop: CancellationToken,
    ) {
        let config = self.queue.topic_config(&permit.outlet().topic);
        let callback =
            delivery.jobs().first().and_then(|job| callback_of(job, permit.outlet(), &config)).cloned();
        // The URL may have been removed meanwhile; the job is then for the workers.
        let Some(callback) = callback else { return };
        let Some(timeout) = delivery.jobs().first().map(|job| self.timeout(job, permit.outlet(), &callback))
        else {
            return;
        };
        let origin = callback.url.origin().clone();
        let prepared = tokio::select! {
            biased;
            prepared = self.prepare(permit.outlet(), &origin) => prepared,
            () = async { self.clock.sleep(LOOKUP_PATIENCE).await } => return give_way(delivery, &permit).await,
            () = stop.cancelled() => return,
        };
        // A pause that was acknowledged while the job waited here stops its call too.
        let topic = &permit.outlet().topic;
        if self.queue.is_delivery_paused(topic, &self.queue.topic_config(topic)) {
            return;
        }
        let now_us = self.clock.now_micros();
        let time_left = delivery.time_left(now_us);
        if time_left < timeout {
            tracing::debug!(topic = %permit.outlet().topic, "gave back a job whose reservation would end during the call");
            return;
        }
        if delivery.jobs().first().is_some_and(|Reservation { job, .. }| {
            has_expired(job.expires_at, job.reserved_until(), time_left)
        }) {
            tracing::debug!(topic = %permit.outlet().topic, "gave back a job that expired while its call was prepared");
            return;
        }
        let ends_us = now_us.saturating_add(micros(time_left));
        let Some(reservation) = delivery.accept_jobs().and_then(|jobs| jobs.into_iter().next()) else {
            return;
        };
        let callback = Callback { timeout: Some(timeout), ..callback };
        let Some(called) = self.call(&reservation, &callback, &config, &permit, prepared, now_us).await
        else {
            return;
        };
        // A job is finished as soon as the head of the answer says so, whatever the body does.
        let read = async {
            if let Some(unread) = called.unread {
                unread.read(&mut Vec::new()).await;
            }
            permit.end(&origin, signal(&called.outcome));
        };
        let apply = apply_outcome(&self.queue, &*self.clock, &reservation, ends_us, &called.outcome);
        let ((), result) = tokio::join!(read, apply);
        self.metrics.called(reservation.job.topic.as_str(), result, called.took);
    }

    /// What a call for a job of `outlet` begins with. May wait until the name can be looked up.
    async fn prepare(&self, outlet: &Outlet, origin: &Origin) -> Prepared {
        // The job may have been stored before the setting was changed, or imported.
        if outlet.host.is_some() && !self.settings.in_jobs {
            return Prepared::refused(CallbackSettings::IN_JOBS);
        }
        self.caller.prepare(Some(&outlet.topic), origin).await
    }

    /// Calls, and returns what that means for the job; `None` if the server stops before the answer.
    async fn call(
        &self,
        reservation: &Reservation,
        callback: &Callback,
        config: &TopicConfig,
        permit: &CallPermit,
        prepared: Prepared,
        checked_us: i64,
    ) -> Option<Called> {
        let (job, origin) = (&reservation.job, callback.url.origin());
        permit.calling(origin);
        let began_us = self.clock.now_micros();
        let in_flight = self.metrics.callbacks.begin(self.clock.wall_now().since(job.due_at));
        // The moment at which the reservation was found to last: a process that is frozen in between sends a late request
        // with an old time, which the endpoint can refuse. By the machine's clock, which is that of the endpoint.
        let ago_us = began_us.saturating_sub(checked_us);
        let checked_at = Now::from_micros(self.clock.wall_micros().saturating_sub(ago_us)).rounded_down;
        let request = request::build(reservation, callback, &config.secrets, checked_at);
        let answered = tokio::select! {
            biased;
            answered = self.answer(request, prepared, began_us) => answered,
            // An endpoint that sends without a pause uses up the budget of this task.
            () = tokio::task::unconstrained(self.cut.cancelled()) => {
                self.metrics.called(job.topic.as_str(), CallResult::Cut, self.since(began_us));
                return None;
            }
        };
        drop(in_flight);
        let Answered { answer: answered, took, unread } = answered;
        let step = outcome::step_after(job, rand::random());
        let outcome = outcome::judge(&answered, step, self.clock.wall_now());
        tracing::debug!(id = %job.id, topic = %job.topic, %origin, attempt = job.attempts, outcome = outcome.word(), "called");
        if let Some(word) = reason_word(&outcome) {
            permit.failed(origin, word);
            self.metrics.callbacks.failed(word);
        } else {
            permit.succeeded(origin);
        }
        if let Some(tracer) = self.queue.tracer() {
            let ended_us = self.clock.wall_micros();
            let times = (ended_us.saturating_sub(micros(took)), ended_us);
            let failure = reason_word(&outcome);
            tracer.called(job, &reservation.receipt, origin, failure, times);
        }
        Some(Called { outcome, took, unread })
    }

    /// Calls. The answer has the beginning of its body unless it says that the job is done.
    async fn answer(&self, request: Request, prepared: Prepared, began_us: i64) -> Answered {
        let answer = self.caller.call_for_head(request, prepared).await;
        let took = self.since(began_us);
        match answer {
            Ok((answer, unread)) if answer.status.is_success() => {
                Answered { answer: Ok(answer), took, unread: Some(unread) }
            }
            Ok((mut answer, unread)) => {
                unread.read(&mut answer.body).await;
                Answered { answer: Ok(answer), took, unread: None }
            }
            Err(failure) => Answered { answer: Err(failure), took, unread: None },
        }
    }

    /// How long a call may take. A patch may have made the job's TTR shorter than its callback needs: the call then has to
    /// end within it, because a job that is never called would be reserved and given back without end.
    fn timeout(&self, reservation: &Reservation, outlet: &Outlet, callback: &Callback) -> Duration {
        let ttr = if outlet.is_plain() { call_ttr(callback) } else { reservation.job.spec.ttr }.as_duration();
        let within_ttr = ttr.saturating_sub(Callback::SETTLING).max(ttr / 2);
        callback.timeout().min(self.settings.max_timeout).min(within_ttr)
    }

    fn since(&self, began_us: i64) -> Duration {
        Duration::from_micros(self.clock.now_micros().saturating_sub(began_us).unsigned_abs())
    }
}

/// Whether a reserved job has expired by the store's clock, whose time follows from how long the reservation still lasts.
fn has_expired(expires_at: Option<Timestamp>, until: Option<Timestamp>, time_left: Duration) -> bool {
    let moments = expires_at.zip(until);
    moments.is_some_and(|(expires_at, until)| expires_at <= until && until.since(expires_at) >= time_left)
}

/// How long a job waits until the name of its host can be looked up. Its call has not begun then, and there is no attempt.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(2);
/// How long it is set aside after that, so that others of its outlet come first.
const LOOKUP_PAUSE: Duration = Duration::from_secs(5);

/// Other names that hang have all permits with which the name of this job could be looked up.
async fn give_way(delivery: Delivery, permit: &CallPermit) {
    tracing::debug!(topic = %permit.outlet().topic, "set a job aside: too many names of its topic are being looked up");
    permit.set_aside();
    // All jobs of a plain outlet have the same host.
    if !permit.outlet().is_plain() {
        delivery.postpone(Delay::new(LOOKUP_PAUSE).unwrap_or(Delay::LONGEST)).await;
    }
}

/// An answer, or why there is none.
struct Answered {
    answer: Result<Answer, CallFailure>,
    /// From the beginning of the call to the end of the answer's head.
    took: Duration,
    /// The body of an answer that says that the job is done.
    unread: Option<UnreadBody>,
}

/// A call that has ended.
struct Called {
    outcome: Outcome,
    /// From its beginning to the end of the answer's head.
    took: Duration,
    unread: Option<UnreadBody>,
}

/// The first word of the reason, if the job was not finished.
fn reason_word(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Fail { reason, .. } | Outcome::Bury { reason } => reason.as_str().split(':').next(),
        Outcome::Finish | Outcome::Hold { .. } => None,
    }
}

/// What a call says about its endpoint.
fn signal(outcome: &Outcome) -> Signal {
    match outcome {
        Outcome::Fail { answered: false, .. } => Signal::Silent,
        Outcome::Fail { overloaded: true, rest, .. } => Signal::Overload { rest: *rest },
        Outcome::Finish | Outcome::Hold { .. } | Outcome::Bury { .. } | Outcome::Fail { .. } => Signal::Alive,
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Whom to call for a job: its own callback, or the topic's for a job without one.
fn callback_of<'a>(
    reservation: &'a Reservation,
    outlet: &Outlet,
    config: &'a TopicConfig,
) -> Option<&'a Callback> {
    match outlet.host {
        Some(_) => reservation.job.spec.callback.as_deref(),
        None => config.settings.callback.target.as_ref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_expired_if_its_reservation_lasts_no_longer_than_from_its_expiry_to_its_end() {
        let at = |ms| Some(Timestamp::from_millis(ms));
        for (expires_at, time_left_ms, has_expired_by_then) in [
            (at(7_000), 3_001, false),
            (at(7_000), 3_000, true),
            (at(7_000), 1, true),
            (at(10_000), 1, false),
            (at(11_000), 1, false),
            (None, 1, false),
        ] {
            let time_left = Duration::from_millis(time_left_ms);
            assert_eq!(
                has_expired(expires_at, at(10_000), time_left),
                has_expired_by_then,
                "{expires_at:?} {time_left:?}"
            );
        }
    }
}
