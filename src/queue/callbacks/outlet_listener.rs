//! The listener through which the callback loop learns of ready outlets, and says which calls fail.

use std::collections::HashMap;

use super::called_endpoint::CalledEndpoint;
use crate::{
    job::{Outlet, Topic},
    queue::views::cause::CalledTopic,
};

/// Learns which outlets may have ready jobs for callbacks, and what changes where they go. The methods must return at once.
pub trait OutletListener: Send + Sync + std::fmt::Debug {
    /// `outlet` may have ready jobs, or the delivery of its topic was resumed. Not every notified outlet goes to a callback.
    fn ready(&self, outlet: &Outlet);

    /// The callback of `topic` has changed, or its delivery was resumed.
    fn topic_changed(&self, topic: &Topic);

    /// The endpoints that this process has called lately.
    fn endpoints(&self) -> Vec<CalledEndpoint>;

    /// Sets the metrics of outlets.
    fn publish_figures(&self);

    /// The topics whose endpoints this process has called lately.
    fn called_topics(&self) -> HashMap<Topic, CalledTopic>;
}
