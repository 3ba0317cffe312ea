//! The state that all requests of the dialect share.

use std::{ops::Deref, sync::Arc, time::Duration};

use crate::{config::OuqiangSettings, http::edge::Edge, queue::Queue};

/// The dialect over one queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OuqiangApp(Arc<OuqiangState>);

/// The parts of an [`OuqiangApp`].
#[derive(Debug)]
pub struct OuqiangState {
    pub queue: Arc<Queue>,
    pub edge: Edge,
    /// How long a pop waits.
    pub max_wait: Duration,
}

impl Deref for OuqiangApp {
    type Target = OuqiangState;

    fn deref(&self) -> &OuqiangState {
        &self.0
    }
}

impl OuqiangApp {
    pub fn new(queue: Arc<Queue>, edge: Edge, settings: &OuqiangSettings) -> Self {
        Self(Arc::new(OuqiangState { queue, edge, max_wait: settings.max_wait }))
    }
}
