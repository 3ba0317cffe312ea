//! The activity of one process: the workers that poll it, and the endpoints that it calls.

use std::sync::{Arc, OnceLock};

use crate::queue::{
    callbacks::{called_endpoint::CalledEndpoint, outlet_listener::OutletListener},
    pop::pollers::{Poller, Pollers},
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
}

impl OwnActivity {
    pub fn read(&self) -> Activity {
        let (pollers, is_complete) = self.pollers.latest();
        let endpoints = self.outlet_listener.get().map(|listener| listener.endpoints());
        Activity { pollers, endpoints: endpoints.unwrap_or_default(), is_complete }
    }
}
