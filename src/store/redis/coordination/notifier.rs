//! Notifies the listener of ready and due jobs, and remembers which shards have ready jobs. Makes no calls.

use std::{sync::Arc, time::Duration};

use super::ready_shards::ReadyShards;
use crate::{
    job::{Outlet, Topic},
    store::{Listener, redis::keys::Shard},
};

/// Notifies the listener of one engine.
pub struct Notifier {
    listener: Arc<dyn Listener>,
    pub ready_shards: ReadyShards,
}

impl Notifier {
    pub fn new(listener: Arc<dyn Listener>) -> Arc<Self> {
        Arc::new(Self { listener, ready_shards: ReadyShards::default() })
    }

    /// A shard may have ready jobs of an outlet that it did not have before.
    pub fn ready_on(&self, outlet: &Outlet, shard: Shard) {
        self.ready_shards.add(outlet, shard);
        self.listener.ready(outlet);
    }

    /// Some shard may have ready jobs of an outlet.
    pub fn ready(&self, outlet: &Outlet) {
        self.listener.ready(outlet);
    }

    /// The callback of a topic has changed, or its delivery was resumed. Which of its outlets have ready jobs is known from
    /// announcements.
    pub fn restarted(&self, topic: &Topic) {
        self.listener.topic_changed(topic);
        self.ready_shards.outlets_of(topic).iter().for_each(|outlet| self.listener.ready(outlet));
        self.listener.ready(&Outlet::plain(topic.clone()));
    }

    /// A job may be due after this time.
    pub fn due_in(&self, after: Duration) {
        self.listener.due_in(after);
    }

    /// A job of an outlet waits again, whose due time the caller does not know.
    pub fn waits_again(&self, outlet: &Outlet, shard: Shard) {
        self.ready_on(outlet, shard);
        self.due_in(Duration::ZERO);
    }

    /// A client reads the figures of all processes.
    pub fn watched(&self) {
        self.listener.watched();
    }
}
