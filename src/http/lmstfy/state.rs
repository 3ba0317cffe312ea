//! The state that all requests of the dialect share.

use std::{ops::Deref, sync::Arc, time::Duration};

use crate::{config::LmstfySettings, http::edge::Edge, queue::Queue};

/// The dialect over one queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LmstfyApp(Arc<LmstfyState>);

/// The parts of an [`LmstfyApp`].
#[derive(Debug)]
pub struct LmstfyState {
    pub queue: Arc<Queue>,
    pub edge: Edge,
    /// The longest wait of a consume.
    pub max_wait: Duration,
}

impl Deref for LmstfyApp {
    type Target = LmstfyState;

    fn deref(&self) -> &LmstfyState {
        &self.0
    }
}

impl LmstfyApp {
    pub fn new(queue: Arc<Queue>, edge: Edge, settings: &LmstfySettings) -> Self {
        Self(Arc::new(LmstfyState { queue, edge, max_wait: settings.max_wait }))
    }
}
