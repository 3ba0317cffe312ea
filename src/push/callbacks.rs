//! The loop that calls: gives outlets their turns, reserves jobs and starts a call for each. `ring` decides who is next,
//! `deliver` makes one call.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    call::Caller,
    ring::{Admission, Destination, OutletFigures, ReservedJob, Ring, Turn},
};
use crate::{
    clock::Clock,
    config::CallbackSettings,
    job::{Actor, Callback, Delay, Now, Outlet, Topic, Ttr},
    messages::failure_log::FailureLog,
    metrics::QueueMetrics,
    queue::{
        CalledEndpoint, CalledTopic, Claim, Delivery, FailingHost, OutletListener, Queue, ReservedForCalls,
        Result,
    },
};

/// How long an outlet waits after the store has failed.
pub(super) const STORE_PAUSE_US: i64 = 1_000_000;
/// How long the loop sleeps at most, so that a suspended machine costs no more than this.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// Calls the endpoints of jobs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Callbacks(pub(super) Arc<CallbackState>);

/// What the loop and the calls share.
pub(super) struct CallbackState {
    pub queue: Arc<Queue>,
    pub caller: Caller,
    pub settings: CallbackSettings,
    pub clock: Arc<dyn Clock>,
    pub metrics: QueueMetrics,
    /// Cancelled when calls in progress are given up.
    pub cut: CancellationToken,
    ring: Mutex<Ring>,
    /// Whether the ring knows of outlets of paused topics, which any hint of their topic may resume.
    has_paused: AtomicBool,
    /// Notified when a turn may be possible.
    pub changed: Notify,
    tasks: TaskTracker,
    log: FailureLog,
}

impl std::fmt::Debug for CallbackState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callbacks")
    }
}

impl OutletListener for CallbackState {
    fn ready(&self, outlet: &Outlet) {
        if self.is_for_workers(outlet) {
            return;
        }
        self.ring().announce(outlet);
        self.changed.notify_one();
    }

    fn topic_changed(&self, topic: &Topic) {
        self.ring().topic_changed(topic);
        self.changed.notify_one();
    }

    fn endpoints(&self) -> Vec<CalledEndpoint> {
        let (now_us, ahead_ms) = (self.clock.now_micros(), self.clock.wall_ahead_ms());
        let shown = |us: i64| Now::from_micros(us).shifted(ahead_ms);
        // The ring is free again before anything is made of them.
        let called = self.ring().called_endpoints(now_us);
        let figures = called.into_iter().map(|(topic, figures)| {
            let OutletFigures { endpoint, in_flight, window, resting_until_us, minute } = figures;
            CalledEndpoint {
                topic,
                host: endpoint.origin.to_string(),
                in_flight,
                window,
                resting_until: resting_until_us.map(|until_us| shown(until_us).rounded_up),
                last_failure: endpoint
                    .last_failure
                    .map(|(at_us, reason)| (shown(at_us).rounded_down, reason)),
                minute: Some(minute),
            }
        });
        figures.collect()
    }

    fn publish_figures(&self) {
        let (active, resting) = self.ring().counts(self.clock.now_micros());
        self.metrics.callbacks.set_outlets(active, resting.values().sum());
        self.metrics.set_resting_outlets(resting.iter().map(|(topic, count)| (topic.as_str(), *count)));
    }

    fn called_topics(&self) -> HashMap<Topic, CalledTopic> {
        let (now_us, ahead_ms) = (self.clock.now_micros(), self.clock.wall_ahead_ms());
        let shown = |us: i64| Now::from_micros(us).shifted(ahead_ms);
        let failure = |OutletFigures { endpoint, resting_until_us, .. }: OutletFigures| {
            let (at_us, answer) = endpoint.last_failure?;
            let resting_until = resting_until_us.map(|until_us| shown(until_us).rounded_up);
            let (host, at) = (endpoint.origin.to_string(), shown(at_us).rounded_down);
            Some(FailingHost { host, answer, at, resting_until })
        };
        let mut topics = HashMap::<Topic, CalledTopic>::new();
        // The ring is free again before anything is made of them.
        let called = self.ring().called_outlets(now_us);
        for (outlet, figures) in called {
            let (failure, is_plain) = (figures.and_then(failure), outlet.is_plain());
            let topic = topics.entry(outlet.topic).or_default();
            if is_plain {
                topic.of_topic = failure;
            } else {
                topic.calls_jobs = true;
                let at = |failure: &Option<FailingHost>| failure.as_ref().map(|failure| failure.at);
                if at(&failure) > at(&topic.of_jobs) {
                    topic.of_jobs = failure;
                }
            }
        }
        topics
    }
}

impl Callbacks {
    /// Calls for the jobs of `queue`, which will notify it of ready outlets. Nothing is called before
    /// [`run`](Self::run).
    #[must_use]
    pub fn new(
        queue: Arc<Queue>,
        caller: Caller,
        settings: CallbackSettings,
        clock: Arc<dyn Clock>,
        metrics: QueueMetrics,
    ) -> Self {
        let ring = Ring::new(count(settings.max_calls), count(settings.max_calls_per_host));
        let shared = Arc::new(CallbackState {
            queue,
            caller,
            settings,
            clock,
            metrics,
            cut: CancellationToken::new(),
            ring: Mutex::new(ring),
            has_paused: AtomicBool::new(false),
            changed: Notify::new(),
            tasks: TaskTracker::new(),
            log: FailureLog::default(),
        });
        shared.queue.set_outlet_listener(shared.clone());
        Self(shared)
    }

    /// Calls until `stop`. Then begins no calls, gives back what was not sent, and waits up to `grace` for the answers of
    /// the others. Those that are unanswered then keep their reservations, since their endpoints may be at work.
    pub async fn run(&self, stop: CancellationToken, grace: Duration) {
        tokio::select! {
            () = self.0.clone().announce_ready_outlets() => {}
            () = stop.cancelled() => {}
        }
        while !stop.is_cancelled() {
            let pause = self.0.start_turns(&stop);
            tokio::select! {
                () = self.0.changed.notified() => {}
                () = self.0.clock.sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
        self.0.tasks.close();
        tokio::select! {
            () = self.0.tasks.wait() => {}
            () = self.0.clock.sleep(grace) => self.0.cut.cancel(),
        }
        self.0.tasks.wait().await;
    }
}

impl CallbackState {
    pub fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("no code panics while it holds the ring")
    }

    /// Whether a hint does not concern callbacks. Where workers pop, most hints do not, and must not cost more than this.
    fn is_for_workers(&self, outlet: &Outlet) -> bool {
        outlet.is_plain()
            && !self.has_paused.load(Ordering::SeqCst)
            && self.queue.topic_config(&outlet.topic).settings.callback.target.is_none()
    }

    /// Announces the outlets whose jobs became ready before this process listened.
    async fn announce_ready_outlets(self: Arc<Self>) {
        loop {
            match self.queue.ready_outlets().await {
                Ok(outlets) => {
                    self.log_store(None);
                    outlets.iter().for_each(|outlet| self.ready(outlet));
                    return;
                }
                Err(error) => self.log_store(Some(&error)),
            }
            self.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Starts every turn that is possible now. Returns after how long the next one may be.
    fn start_turns(self: &Arc<Self>, stop: &CancellationToken) -> Duration {
        loop {
            let now_us = self.clock.now_micros();
            let mut ring = self.ring();
            let turn = ring.next(now_us, |outlet| self.destination(outlet));
            self.has_paused.store(ring.has_paused(), Ordering::SeqCst);
            let Some(turn) = turn else {
                let next_us = ring.next_wake_us().unwrap_or(i64::MAX);
                return Duration::from_micros(next_us.saturating_sub(now_us).unsigned_abs()).min(MAX_SLEEP);
            };
            drop(ring);
            self.tasks.spawn(self.clone().take_turn(turn, stop.clone()));
        }
    }

    /// Where the jobs of an outlet go, by what is set for its topic now.
    fn destination(&self, outlet: &Outlet) -> Destination {
        let config = self.queue.topic_config(&outlet.topic);
        let callback = &config.settings.callback;
        let host = match (outlet.host, &callback.target) {
            (Some(host), _) => host,
            (None, Some(target)) => self.queue.host_number(target.url.origin()),
            (None, None) => return Destination::Workers,
        };
        if self.queue.is_delivery_paused(&outlet.topic, &config) {
            // Set before the second look, so that a resumption after it is not taken for a hint of workers.
            self.has_paused.store(true, Ordering::SeqCst);
            if self.queue.is_delivery_paused(&outlet.topic, &self.queue.topic_config(&outlet.topic)) {
                return Destination::Paused;
            }
        }
        let (concurrency, called_at) = (callback.concurrency.map(Into::into), config.called_at);
        Destination::Callback { host, concurrency, called_at }
    }

    /// Reserves jobs for a turn and starts their calls. The turn ends when the store has back what was set aside: it is
    /// not handed more than that at a time, however slow it is.
    async fn take_turn(self: Arc<Self>, turn: Turn, stop: CancellationToken) {
        let mut guard = self.guard(turn);
        // Runs to its end also during a shutdown: what is reserved has to be given back.
        match self.reserve(guard.turn()).await {
            Ok(ReservedForCalls::Jobs { asked, deliveries, allowed }) => {
                self.log_store(None);
                let outlet = guard.turn().outlet.clone();
                let jobs: Vec<_> =
                    deliveries.iter().map(|delivery| reserved_job(delivery, &outlet)).collect();
                let admissions = guard.start_calls(count(asked), &jobs);
                let (mut calls, mut set_aside) = (0, Vec::new());
                for (delivery, admission) in deliveries.into_iter().zip(admissions) {
                    match admission {
                        Admission::Call(permit) if !stop.is_cancelled() => {
                            calls += 1;
                            self.tasks.spawn(self.clone().deliver(delivery, permit, stop.clone()));
                        }
                        Admission::Call(_) | Admission::Later => {}
                        Admission::After(wait) => {
                            set_aside.push(delivery.postpone(Delay::new(wait).unwrap_or(Delay::LONGEST)));
                        }
                    }
                }
                if let Some(allowed) = allowed {
                    self.queue.give_back_calls(&outlet.topic, allowed, asked - calls).await;
                }
                join_all(set_aside).await;
            }
            Ok(ReservedForCalls::NotBefore(until_us)) => guard.postpone(until_us),
            Err(error) => {
                self.log_store(Some(&error));
                guard.postpone(self.clock.now_micros() + STORE_PAUSE_US);
            }
        }
    }

    /// Reserves as many jobs as a turn and the rate of its topic allow.
    async fn reserve(&self, turn: &Turn) -> Result<ReservedForCalls> {
        let config = self.queue.topic_config(&turn.outlet.topic);
        let callback = &config.settings.callback;
        // A job with a callback of its own has a TTR that suits it.
        let target = callback.target.as_ref().filter(|_| turn.outlet.is_plain());
        let ttr = target.map(call_ttr);
        let claim = Claim { ttr, by: target.and_then(|target| Actor::of_endpoint(target.url.origin())) };
        self.queue.reserve_for_calls(&turn.outlet, turn.jobs as usize, &claim, callback.rate).await
    }

    fn log_store(&self, error: Option<&crate::queue::Error>) {
        let now_us = self.clock.now_micros();
        match error {
            Some(error) if self.log.failed(now_us) => {
                tracing::warn!(%error, "cannot reserve jobs for callbacks")
            }
            Some(_) => {}
            None if self.log.succeeded(now_us).is_some() => {
                tracing::info!("jobs are reserved for callbacks again")
            }
            None => {}
        }
    }
}

/// What the ring has to know of a job that was reserved for `outlet`.
fn reserved_job(delivery: &Delivery, outlet: &Outlet) -> ReservedJob {
    let Some(job) = delivery.jobs().first().map(|reservation| &reservation.job) else {
        return ReservedJob::default();
    };
    // All jobs of a plain outlet go to the topic's callback.
    let own = job.spec.callback.as_ref().filter(|_| !outlet.is_plain());
    ReservedJob {
        host: own.map(|callback| callback.url.origin().clone()),
        bytes: job.body.as_bytes().len() as u64,
    }
}

/// How long the reservation for a call lasts.
pub(super) fn call_ttr(callback: &Callback) -> Ttr {
    Ttr::new(callback.timeout() + Callback::SETTLING).expect("a timeout leaves room for settling")
}

fn count(calls: usize) -> u32 {
    u32::try_from(calls).unwrap_or(u32::MAX)
}
