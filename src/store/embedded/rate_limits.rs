//! The rates of calls of the topics. Only in memory: after a restart a burst is allowed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use crate::{
    clock::Clock,
    job::{CallRate, Topic},
    store::{Allowed, rate_limit},
};

/// Most topics that are remembered although their next call is free.
const MAX_IDLE: usize = 1_000;

#[derive(Debug)]
pub(crate) struct RateLimits {
    clock: Arc<dyn Clock>,
    /// When the next call of a topic is free, in nanoseconds.
    next_ns: Mutex<HashMap<Topic, i128>>,
}

impl RateLimits {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, next_ns: Mutex::default() }
    }

    /// See [`crate::store::Store::allow`].
    pub fn allow(&self, topic: &Topic, rate: CallRate, want: usize) -> Allowed {
        let now_us = self.clock.now_micros();
        let mut topics = self.next_ns.lock().expect("no code panics while it holds the rates");
        if topics.len() >= MAX_IDLE {
            // Bursts are at most a tenth of a second: what was free a second ago is as good as never used.
            topics.retain(|_, next_ns| *next_ns > (i128::from(now_us) - 1_000_000) * 1_000);
        }
        let allowed = rate_limit::grant(topics.get(topic).copied().unwrap_or(i128::MIN), now_us, rate, want);
        topics.insert(topic.clone(), allowed.stored);
        allowed
    }

    /// See [`crate::store::Store::give_back_calls`].
    pub fn give_back(&self, topic: &Topic, allowed: Allowed, unused: usize) {
        let mut topics = self.next_ns.lock().expect("no code panics while it holds the rates");
        if let Some(next_ns) = topics.get_mut(topic) {
            *next_ns = rate_limit::without(*next_ns, allowed, unused);
        }
    }
}
