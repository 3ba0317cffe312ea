//! The activity of one process: the workers that poll it, the endpoints that it calls, and its bulk operations.

use std::sync::{Arc, OnceLock};

use crate::{
    metrics::resident_bytes,
    queue::{
        bulk::Operations,
        callbacks::{called_endpoint::CalledEndpoint, outlet_listener::OutletListener},
        pop::pollers::{Poller, Pollers},
        views::{cause::CalledTopic, process_notice::ProcessLoad},
    },
};

/// What passes through one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue) struct Activity {
    pub pollers: Vec<Poller>,
    pub endpoints: Vec<CalledEndpoint>,
    /// Whether these are all.
    pub is_complete: bool,
}

/// Where this process learns of it.
#[derive(Debug)]
pub(in crate::queue) struct OwnActivity {
    pub pollers: Arc<Pollers>,
    pub outlet_listener: Arc<OnceLock<Arc<dyn OutletListener>>>,
    pub operations: Arc<Operations>,
}

impl OwnActivity {
    pub fn read(&self) -> Activity {
        let (pollers, is_complete) = self.pollers.latest();
        let endpoints = self.outlet_listener.get().map(|listener| listener.endpoints());
        Activity { pollers, endpoints: endpoints.unwrap_or_default(), is_complete }
    }

    /// What this process has and does.
    pub fn load(&self) -> ProcessLoad {
        let called = self.outlet_listener.get().map(|listener| listener.called_topics()).unwrap_or_default();
        let fails = |called: &&CalledTopic| called.of_topic.is_some() || called.of_jobs.is_some();
        ProcessLoad {
            resident_bytes: resident_bytes(),
            operations: Some(self.operations.running()),
            failing_topics: Some(called.values().filter(fails).count() as u64),
        }
    }
}
