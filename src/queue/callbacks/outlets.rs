//! Reserving jobs for callbacks: the outlets that may have jobs, and jobs that return by themselves until they are
//! accepted. Knows no URL's endpoint.

use std::sync::Arc;

use crate::{
    job::{CallRate, HostNumber, Origin, Outlet, Topic},
    queue::{
        callbacks::outlet_listener::OutletListener,
        error::{Error, Result},
        pop::delivery::Delivery,
        service::Queue,
    },
    store::{Allowed, Claim, TopicConfig, Wait},
};

/// What was reserved for calls.
#[derive(Debug)]
pub enum ReservedForCalls {
    /// A delivery for each job; fewer than `asked` if there were no more.
    Jobs {
        /// How many were asked for.
        asked: usize,
        /// The jobs.
        deliveries: Vec<Delivery>,
        /// The `asked` calls of the topic's rate, if it has one: those that are not made may be given back.
        allowed: Option<Allowed>,
    },
    /// The rate of the topic allows no call before this moment, in microseconds.
    NotBefore(i64),
}

impl Queue {
    /// Sets the listener for ready outlets. Only the first call has an effect.
    pub fn set_outlet_listener(&self, listener: Arc<dyn OutletListener>) {
        let _ = self.outlet_listener.set(listener);
    }

    /// Tells the callback loop, and the polls that wait, what the store has announced: `outlet` may have ready jobs.
    pub(in crate::queue) fn outlet_ready(&self, outlet: &Outlet) {
        if let Some(listener) = self.outlet_listener.get() {
            listener.ready(outlet);
        }
        if outlet.is_plain() {
            self.waiters.topic_ready(&outlet.topic);
        }
    }

    /// Tells the callback loop that the callback of `topic` has changed, or that its delivery was resumed.
    pub(in crate::queue) fn topic_changed(&self, topic: &Topic) {
        if let Some(listener) = self.outlet_listener.get() {
            listener.topic_changed(topic);
        }
    }

    /// Reserves up to `max` ready jobs of an outlet, each as `claim` says, and no more than `rate` allows its
    /// topic, which all processes share. Each is a delivery of its own.
    ///
    /// It may return fewer although there are more; the listener hears of them soon.
    ///
    /// # Errors
    /// The store's.
    pub async fn reserve_for_calls(
        &self,
        outlet: &Outlet,
        max: usize,
        claim: &Claim,
        rate: Option<CallRate>,
    ) -> Result<ReservedForCalls> {
        if !self.store.may_have_ready(outlet) {
            return Ok(ReservedForCalls::Jobs { asked: max, deliveries: Vec::new(), allowed: None });
        }
        let Some(rate) = rate else {
            let deliveries = self.reserve_deliveries(outlet, max, claim).await?;
            return Ok(ReservedForCalls::Jobs { asked: max, deliveries, allowed: None });
        };
        // Read before the store is asked, so that the answer is never older than it seems.
        let asked_us = self.clock.now_micros();
        let allowed = self.store.allow(&outlet.topic, rate, max).await?;
        let asked = allowed.granted;
        if asked == 0 {
            let next_us = i64::try_from(allowed.next_in.as_micros()).unwrap_or(i64::MAX);
            return Ok(ReservedForCalls::NotBefore(asked_us.saturating_add(next_us)));
        }
        match self.reserve_deliveries(outlet, asked, claim).await {
            Ok(deliveries) => Ok(ReservedForCalls::Jobs { asked, deliveries, allowed: Some(allowed) }),
            Err(error) => {
                self.give_back_calls(&outlet.topic, allowed, asked).await;
                Err(error)
            }
        }
    }

    /// Gives back `unused` of the calls that were taken of a topic's rate. Only the first time has an effect.
    pub async fn give_back_calls(&self, topic: &Topic, allowed: Allowed, unused: usize) {
        if unused > 0 {
            // A failure only delays the next call.
            let _ = self.store.give_back_calls(topic, allowed, unused).await;
        }
    }

    async fn reserve_deliveries(&self, outlet: &Outlet, max: usize, claim: &Claim) -> Result<Vec<Delivery>> {
        // Read before the store is called, so that no reservation ends earlier than computed from it.
        let started_us = self.clock.now_micros();
        let reserved = self.store.reserve(outlet, &vec![claim.clone(); max], Wait::Yes).await?;
        let deliveries = reserved.into_iter().map(|reservation| {
            let lasts = claim.ttr.unwrap_or(reservation.job.spec.ttr).as_duration();
            let ends_us = started_us.saturating_add(i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX));
            Delivery::new(vec![reservation], ends_us, self.waiters.return_context())
        });
        Ok(deliveries.collect())
    }

    /// The outlets that have ready jobs now.
    ///
    /// # Errors
    /// The store's.
    pub async fn ready_outlets(&self) -> Result<Vec<Outlet>> {
        Ok(self.store.ready_outlets().await?)
    }

    /// The number of a callback's host.
    #[must_use]
    pub fn host_number(&self, origin: &Origin) -> HostNumber {
        self.store.host_number(origin)
    }

    /// What is set for a topic, from memory; other processes' changes within a second.
    #[must_use]
    pub fn topic_config(&self, topic: &Topic) -> Arc<TopicConfig> {
        self.store.topic_config(topic)
    }

    /// Whether the delivery of a topic, with this configuration, is paused now. The listener hears of the end of that pause.
    #[must_use]
    pub fn is_delivery_paused(&self, topic: &Topic, config: &TopicConfig) -> bool {
        self.pauses.stops_delivery(topic, config)
    }

    /// Refuses pops of topics whose jobs go to a callback: an empty answer would hide the mistake.
    pub(in crate::queue) fn check_pop(&self, topics: &[Topic]) -> Result<()> {
        let has_callback = |topic: &&Topic| self.store.topic_config(topic).settings.callback.target.is_some();
        match topics.iter().find(has_callback) {
            Some(topic) => Err(Error::TopicHasCallback { topic: topic.clone() }),
            None => Ok(()),
        }
    }
}
